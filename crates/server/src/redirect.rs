//! The data plane: sockets, serving threads and redirects. It touches memory and the click journal only.
//!
//! | to find | look in |
//! |---|---|
//! | accepting connections, and the threads that serve them | `acceptor` |
//! | the tight loop for ordinary requests | `fast_path` |
//! | every other request, by hyper | `connection`, `body` |
//! | what the threads share | `context` |
//! | whose address a proxy passes on | `client_address` |
//! | limits on guessing and on slow readers | `miss_limiter`, `write_timeout` |
//! | certificates | [`tls`] |

pub(crate) mod acceptor;
pub(crate) mod body;
pub(crate) mod client_address;
pub(crate) mod connection;
pub(crate) mod context;
pub(crate) mod fast_path;
pub(crate) mod miss_limiter;
pub mod tls;
pub(crate) mod write_timeout;
