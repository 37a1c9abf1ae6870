//! Fixtures: a sandbox to run `rmax` in, servers, databases, and stand-ins for the services around them.

pub(crate) mod cloudflare;
#[path = "../../../server/tests/it/support/domain_services.rs"]
#[expect(dead_code, reason = "the server's own tests use the rest of it")]
pub(crate) mod domain_services;
pub(crate) mod import_files;
pub(crate) mod key_values;
pub(crate) mod postgres;
#[path = "../../../server/tests/it/support/raw_client.rs"]
pub(crate) mod raw_client;
pub(crate) mod sandbox;
pub(crate) mod server_process;
