//! What can be done to links: one file for each operation.
//!
//! | to find | look in |
//! |---|---|
//! | one new link, or many at once | `create`, `create_many` |
//! | set, patch, disable, delete, restore | `change` |
//! | pages of a list, in any order | [`list`] |
//! | a workspace as it was at an earlier time | [`rollback`] |
//! | why a request gets the answer it gets | `explain`; for the server's own paths, `server_paths` |
//! | chains among our own links | `cycles` |

pub(crate) mod change;
pub(crate) mod create;
pub(crate) mod create_many;
pub(crate) mod cycles;
pub(crate) mod explain;
pub mod list;
pub mod rollback;
mod server_paths;
