//! The two profiles: where the truth is KV, and where it is D1.

pub(crate) mod d1;
pub(crate) mod kv;
