//! The control plane: everything that is not a redirect, on a runtime that may block.
//!
//! | to find | look in |
//! |---|---|
//! | which router a request goes to | `router` |
//! | health and readiness, and the few files browsers ask for | `health` |
//! | what Prometheus reads | `metrics` |

pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod router;
