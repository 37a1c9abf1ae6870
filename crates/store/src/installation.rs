//! Keys of the whole installation: those that servers share, and those that sign.

pub(crate) mod audit_keys;
pub(crate) mod shared_keys;
