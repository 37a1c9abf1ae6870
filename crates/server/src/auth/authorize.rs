//! What a caller may do: the scope a route needs is part of its signature.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use rlinks_core::Scope;

use super::caller::Caller;
use super::error::AuthError;

/// A scope as a type, so that a route's signature names what it needs.
pub trait Needs: Send + Sync {
    /// Which.
    const SCOPE: Option<Scope>;
}

macro_rules! needs {
    ($($(#[$doc:meta])* $name:ident => $scope:expr;)*) => {
        $($(#[$doc])* pub struct $name;
        impl Needs for $name {
            const SCOPE: Option<Scope> = $scope;
        })*
    };
}

needs! {
    /// `links:read`
    LinksRead => Some(Scope::LinksRead);
    /// `links:write`
    LinksWrite => Some(Scope::LinksWrite);
    /// `links:delete`
    LinksDelete => Some(Scope::LinksDelete);
    /// `analytics:read`
    AnalyticsRead => Some(Scope::AnalyticsRead);
    /// `workspace:admin`
    WorkspaceAdmin => Some(Scope::WorkspaceAdmin);
    /// Any credential will do.
    Anybody => None;
}

/// A caller who may do what the type says.
pub struct Allowed<N>(pub Arc<Caller>, PhantomData<N>);

impl<N> std::ops::Deref for Allowed<N> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl<N: Needs, S: Sync> FromRequestParts<S> for Allowed<N> {
    type Rejection = AuthError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, AuthError> {
        let caller = parts.extensions.get::<Arc<Caller>>().cloned();
        let caller = caller.ok_or_else(|| AuthError::Unauthenticated)?;
        if let Some(scope) = N::SCOPE {
            caller.need(scope)?;
        }
        Ok(Self(caller, PhantomData))
    }
}
