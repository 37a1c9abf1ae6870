//! What a request gets: [`resolve()`] says what its head asks for, [`decide`](decide::decide) what a link answers, and [`response`] puts the
//! answer together.

pub mod cycles;
pub mod decide;
pub mod explain;
pub mod negotiate;
pub mod path;
pub mod public_pages;
pub mod resolve;
pub mod response;

pub use resolve::{LinkRequest, RequestHead, RequestMethod, Resolution, resolve};
