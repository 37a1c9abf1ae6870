//! What a request gets: its path read, the link decided on, the response put together.

pub mod decide;
pub mod explain;
pub mod negotiate;
pub mod path;
pub mod public_pages;
pub mod response;
