//! Fixtures: servers, the people and programs that use them, and stand-ins for the services around them.

pub(crate) mod api_client;
pub(crate) mod browser;
#[path = "../../../store/tests/it/support/database.rs"]
pub(crate) mod database;
pub(crate) mod domain_services;
pub(crate) mod files;
pub(crate) mod members;
pub(crate) mod oidc_issuer;
pub(crate) mod oidc_provider;
pub(crate) mod raw_client;
pub(crate) mod safe_browsing;
pub(crate) mod server;
