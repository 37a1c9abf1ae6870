//! The one place that reads the process's environment. Everything else is handed what it needs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables as they were at the start.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub(crate) fn read() -> Self {
        Self { variables: std::env::vars_os().collect() }
    }

    /// A variable. An empty one counts as not set.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that is readable text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    /// The names of the variables that begin so.
    pub(crate) fn names(&self, prefix: &str) -> impl Iterator<Item = &str> {
        self.variables.keys().filter_map(|name| name.to_str()).filter(move |name| name.starts_with(prefix))
    }
}
