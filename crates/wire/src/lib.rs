//! Shapes of the REST API that both sides use: the server writes and describes them, the command line reads them.
//!
//! | to find | look in |
//! |---|---|
//! | a key, and a new one with its secret | [`key`] |
//! | a member, and an invitation | [`member`] |
//! | a session | [`session`] |
//! | a domain and the record that verifies it | [`domain`] |
//! | an error | [`error`] |
//!
//! Nothing here decides anything. Links, statistics and request bodies still have shapes of their own on each side.

pub mod domain;
pub mod error;
pub mod key;
pub mod member;
pub mod session;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of a list.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub data: Vec<T>,
    /// For the page after this one.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    pub fn map<U>(self, shown: impl FnMut(T) -> U) -> Page<U> {
        Page { data: self.data.into_iter().map(shown).collect(), next_cursor: self.next_cursor }
    }
}
