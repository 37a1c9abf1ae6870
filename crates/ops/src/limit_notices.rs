//! Who was stopped by a limit on changes: told to admins and to the member concerned until each of them has dismissed it.

use rlinks_core::time::DAY_MS;
use rlinks_core::{Actor, Scope, User};
use rlinks_store::{LimitStop, StoreError};

use crate::{Caller, Ops, OpsError};

/// For how long a notice is shown unless it is dismissed.
const NOTICE_LIFETIME_MS: i64 = 30 * DAY_MS;
/// Stops that are looked at.
const MAX_STOPS: i64 = 50;

impl Ops {
    /// Stops that the caller has not dismissed, newest first: all of the workspace for an admin, else their own.
    pub async fn limit_stops(&self, caller: &Caller) -> Result<Vec<LimitStop>, OpsError> {
        let Some(user) = &caller.user else { return Ok(Vec::new()) };
        let since = self.clock.now().plus_ms(-NOTICE_LIFETIME_MS);
        let mut stops = self.store.limit_stops(caller.workspace.id, user.id, since, MAX_STOPS).await?;
        if caller.require(Scope::WorkspaceAdmin).is_err() {
            stops.retain(|stop| concerns(stop, user));
        }
        Ok(stops)
    }

    /// Shows the caller neither this stop nor earlier ones any more.
    pub async fn dismiss_limit_stops(&self, caller: &Caller, seq: i64) -> Result<(), StoreError> {
        match &caller.user {
            Some(user) => self.writer.dismiss_limit_stops(caller.workspace.id, user.id, seq).await,
            None => Ok(()),
        }
    }
}

/// Whether it was this member, a key of theirs, or another identity that counts together with them.
fn concerns(stop: &LimitStop, user: &User) -> bool {
    stop.user == Some(user.id) || stop.principal == Actor::from_user(user.id).as_str()
}
