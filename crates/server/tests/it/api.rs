//! The REST API through its front door, laid out like its routes. [`house`] starts a server with people in it, [`caller`] speaks HTTP.
//!
//! Whatever is asked below `/api`, [`caller`] checks what every answer has to say: a request id, `no-store`, `nosniff`, and the envelope
//! where it is an error.

mod answers;
mod brake;
mod bulk;
pub(crate) mod caller;
pub(crate) mod custody;
mod domains;
pub(crate) mod house;
pub(crate) mod keys;
mod links;
mod lists;
mod matrix;
mod once;
mod outage;
mod presets;
mod safety;
pub(crate) mod stats;
pub(crate) mod transfer;
mod users;
mod walk;
mod workspace;
