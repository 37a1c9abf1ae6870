//! Workspaces and their domains.

pub(crate) mod domains;
pub(crate) mod workspaces;
