//! The data plane: sockets, serving threads and redirects. It touches memory and the click journal only.
//!
//! | to find | look in |
//! |---|---|
//! | accepting connections and dispatching them to threads | `acceptor`; how many there may be in `connection_limits`; phases in `phase` |
//! | the state of a serving thread, and of all of them | `thread`, `context`, `settings` |
//! | the tight loop for ordinary requests | `fast_path`; what it reads is a `fast_request` |
//! | every other request, by hyper | `connection`; what hyper reads is a `checked_stream`, whose requests a `request_scanner` follows |
//! | how redirects and errors are written | `response_writer`, `error_response`, `body` |
//! | which headers a click needs, and whose address a proxy passes on | `click_headers`, `client_address` |
//! | limits on guessing, on slow readers and on slow senders | `miss_limiter`, `write_timeout`, `request_body` |
//! | how much of bodies is held at once | `body_budget` |
//! | what is counted, and which refusals are logged | `counters`, `refusal_log` |
//! | certificates | `tls` |

pub(crate) mod acceptor;
pub(crate) mod body;
pub(crate) mod body_budget;
pub(crate) mod checked_stream;
pub(crate) mod click_headers;
pub(crate) mod client_address;
pub(crate) mod connection;
pub(crate) mod connection_limits;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod error_response;
pub(crate) mod fast_path;
pub(crate) mod fast_request;
pub(crate) mod miss_limiter;
pub(crate) mod phase;
pub(crate) mod refusal_log;
pub(crate) mod request_body;
pub(crate) mod request_scanner;
pub(crate) mod response_writer;
pub(crate) mod settings;
pub(crate) mod thread;
pub(crate) mod tls;
pub(crate) mod write_timeout;
