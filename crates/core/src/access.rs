//! Who acts, what they may do, and how they prove it.

pub mod actor;
pub mod api_key;
pub mod password;
pub mod scope;
pub mod user;
