//! Who may look at a page of the workspace, and who may act on it: a handler names the scope it needs in its signature, as the API's do.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use rlinks_core::envelope::ErrorCode;

use super::super::visit::{Form, Sent, SignedIn, Visit};
use super::super::{Problem, Web};
use crate::api::caller::{Caller, Needs};
use crate::auth::session::Signed;

/// Somebody who is signed in and may do what the type says.
pub struct Looks<N> {
    pub visit: Visit,
    pub signed: Signed,
    pub caller: Caller,
    needs: PhantomData<N>,
}

/// A form from somebody who may do what the type says, and meant it.
pub struct Acts<N> {
    pub visit: Visit,
    pub signed: Signed,
    pub caller: Caller,
    pub form: Form,
    needs: PhantomData<N>,
}

/// What somebody is to the operations, if their role goes so far.
pub(super) fn admit<N: Needs>(signed: &Signed) -> Result<Caller, Problem> {
    let caller = Caller::of_session(signed.clone());
    if N::SCOPE.is_some_and(|scope| !caller.scopes.has(scope)) {
        let message = format!("Your role, {}, does not go so far; ask an admin", signed.user.role);
        return Err(Problem::saying(ErrorCode::Forbidden, message));
    }
    Ok(caller)
}

impl<N: Needs> FromRequestParts<Arc<Web>> for Looks<N> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Arc<Web>) -> Result<Self, Response> {
        let SignedIn { visit, signed } = SignedIn::from_request_parts(parts, web).await?;
        let caller = admit::<N>(&signed).map_err(Problem::into_response)?;
        Ok(Self { visit, signed, caller, needs: PhantomData })
    }
}

impl<N: Needs> FromRequest<Arc<Web>> for Acts<N> {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Arc<Web>) -> Result<Self, Response> {
        let Sent { visit, signed, form } = Sent::from_request(request, web).await?;
        let caller = admit::<N>(&signed).map_err(Problem::into_response)?;
        Ok(Self { visit, signed, caller, form, needs: PhantomData })
    }
}
