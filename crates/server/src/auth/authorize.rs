//! What a caller may do: the scope a route needs is part of its signature.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use rlinks_core::Scope;

use super::error::AuthError;
use rlinks_ops::Caller;

/// Fails unless a caller may do this.
pub fn require_scope(caller: &Caller, scope: Scope) -> Result<(), AuthError> {
    if caller.scopes.contains(scope) { Ok(()) } else { Err(AuthError::MissingScope(scope)) }
}

/// A scope as a type, so that a route's signature names what it needs.
pub trait RequiredScope: Send + Sync {
    const SCOPE: Option<Scope>;
}

macro_rules! required_scopes {
    ($($(#[$doc:meta])* $name:ident => $scope:expr;)*) => {
        $($(#[$doc])* pub struct $name;
        impl RequiredScope for $name {
            const SCOPE: Option<Scope> = $scope;
        })*
    };
}

required_scopes! {
    // `links:read`
    LinksRead => Some(Scope::LinksRead);
    // `links:write`
    LinksWrite => Some(Scope::LinksWrite);
    // `links:delete`
    LinksDelete => Some(Scope::LinksDelete);
    // `analytics:read`
    AnalyticsRead => Some(Scope::AnalyticsRead);
    // `workspace:admin`
    WorkspaceAdmin => Some(Scope::WorkspaceAdmin);
    /// Any credential will do.
    AnyScope => None;
}

/// A caller who may do what the type says.
pub struct Authorized<N>(pub Arc<Caller>, PhantomData<N>);

impl<N> std::ops::Deref for Authorized<N> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl<N: RequiredScope, S: Sync> FromRequestParts<S> for Authorized<N> {
    type Rejection = AuthError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AuthError> {
        let caller = parts.extensions.get::<Arc<Caller>>().cloned();
        let caller = caller.ok_or(AuthError::Unauthenticated)?;
        if let Some(scope) = N::SCOPE {
            require_scope(&caller, scope)?;
        }
        Ok(Self(caller, PhantomData))
    }
}
