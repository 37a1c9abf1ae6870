//! Changing links: one queue, groups that share a commit, limits and replies that commit with them.

pub(crate) mod apply;
pub(crate) mod bulk;
pub(crate) mod group;
pub(crate) mod idempotency;
pub(crate) mod insert;
pub mod queue;
pub(crate) mod target_change_limit;
