//! The server: redirects, and the operations everything else is a face of.

pub mod clock;
pub mod config;
pub mod directory;
pub mod ops;
pub mod run;

pub use clock::Clock;
pub use config::{Config, Reload, Reloadable, TlsFiles};
pub use ops::Ops;
pub use run::{ServeError, run};
