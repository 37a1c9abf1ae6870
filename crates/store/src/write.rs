//! Changing links: one queue, groups that share a commit, counts and replies that commit with them.

pub(crate) mod apply;
pub(crate) mod bulk;
pub(crate) mod group;
pub(crate) mod idempotency;
pub(crate) mod insert;
pub(crate) mod link_write;
pub(crate) mod queue;

pub use bulk::PreparedBatch;
pub use link_write::{
    Action, CodeChoice, IDEMPOTENCY_TTL_MS, IdempotencyKey, LinkOp, LinkWrite, OnConflict, Written,
};
