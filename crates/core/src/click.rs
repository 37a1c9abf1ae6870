//! What a click may keep of the request that caused it.

pub mod attribution;
pub mod ip_prefix;
