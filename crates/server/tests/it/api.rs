//! The REST API through its front door, laid out like its routes. [`crate::support::members`] starts a server with people in
//! it, [`crate::support::api_client`] speaks HTTP.
//!
//! Whatever is asked below `/api`, that client checks what every answer has to say: a request id, `no-store`, `nosniff`, and the envelope
//! where it is an error.

mod authorization_matrix;
mod bulk;
mod change_limits;
mod conventions;
mod created_with_keys;
mod domain_checks;
mod domains;
mod every_operation;
mod idempotency;
mod keys;
mod limits;
mod links;
mod lists;
mod loops;
mod outage;
mod presets;
mod safety;
mod sessions;
mod stats;
mod target_change_limit;
mod transfer;
mod users;
mod workspace;
