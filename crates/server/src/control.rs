//! The control plane's own paths, and which router answers a request that is not a redirect.

pub(crate) mod metrics;
pub(crate) mod router;
