//! The pages through which people sign in: by password, through the OpenID provider, by invitation, and the first admin.

pub(crate) mod invitation;
pub(crate) mod login;
pub(crate) mod oidc;
pub(crate) mod setup;

use crate::auth::cookies::Lifetime;

/// How long a browser keeps the token of an address that was opened in it. The address can be opened again.
const LINK_LIFETIME: Lifetime = Lifetime::Seconds(15 * 60);
