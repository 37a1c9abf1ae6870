//! Signing in through the front door. [`browser`] is what a person has: cookies, forms, and an origin; it checks what every page owes.

mod api;
pub(crate) mod browser;
mod csrf;
mod invitations;
mod lockout;
mod pages;
mod passwords;
mod sessions;
mod setup;

use rlinks_core::{Email, Password, Role, User, Workspace};
use rlinks_ops::Requester;
use rlinks_store::NewUser;

use crate::api::house::House;
use crate::support::operator;

/// A password anybody may have.
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// A member who signs in with [`PASSWORD`].
pub(crate) fn member(house: &House, workspace: &Workspace, role: Role, email: &str) -> User {
    let new = NewUser {
        workspace: workspace.id,
        email: Email::parse(email).unwrap(),
        full_name: "Ann Example".to_owned(),
        role,
    };
    let by = Requester::operator(operator());
    let password = Password::parse(PASSWORD).unwrap();
    house.runtime.block_on(house.ops.add_member(&by, workspace, new, password)).unwrap()
}

/// An admin of `main` who signs in with [`PASSWORD`].
pub(crate) fn ann(house: &House) -> User {
    member(house, &house.main, Role::Admin, "ann@example.com")
}
