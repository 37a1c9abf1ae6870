//! The pages through which people sign in: by password, through the OpenID provider, by invitation, and the first admin.

pub(crate) mod invitation;
pub(crate) mod login;
pub(crate) mod oidc;
pub(crate) mod setup;
