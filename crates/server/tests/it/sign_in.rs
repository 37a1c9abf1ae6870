//! Signing in through the front door.
//!
//! [`crate::support::browser`] is what a person has: cookies, forms, and an origin; it checks what every page owes.

mod api;
mod csrf;
mod invitations;
mod lockout;
mod pages;
mod passwords;
mod reset;
mod sessions;
mod setup;
