//! Who was stopped by a limit on changes lately, for the notice in the dashboard. The audit entries of stops are all there is to it; a member
//! remembers up to which they have seen them.

use rlinks_core::{Actor, Email, Id, Timestamp};

use crate::database::pool::{read, run_in};
use crate::database::row::from_row;
use crate::{LimitedChange, Store, StoreError, StoreWriter};

/// The principal of a stop by a workspace's limit; every other one has a colon in it.
pub(crate) const WORKSPACE_SUBJECT: &str = "workspace";

/// A principal that was stopped.
#[derive(Clone, Debug)]
pub struct LimitStop {
    /// Of its audit entry.
    pub seq: i64,
    pub at: Timestamp,
    /// The member or key whose change was one too many.
    pub actor: Actor,
    /// Whom that counted for, or `workspace`.
    pub principal: String,
    pub change: LimitedChange,
    pub per_minute: u32,
    /// The name of the key.
    pub key_name: Option<String>,
    /// The member it was, or whose key.
    pub user: Option<Id>,
    pub email: Option<Email>,
}

impl LimitStop {
    /// Whether it was the limit of the whole workspace.
    pub fn is_of_workspace(&self) -> bool {
        self.principal == WORKSPACE_SUBJECT
    }
}

#[derive(serde::Deserialize)]
struct StopDetails {
    principal: String,
    target_changes_per_minute: Option<u32>,
    removals_per_minute: Option<u32>,
}

struct StopRow {
    seq: i64,
    ts: i64,
    actor: String,
    after: Option<String>,
    key_name: Option<String>,
    user_id: Option<i64>,
    email: Option<String>,
}

from_row!(StopRow { seq, ts, actor, after, key_name, user_id, email });

impl StopRow {
    /// An unreadable entry is the business of `rmax audit verify`, and no reason to show no page.
    fn stop(self) -> Option<LimitStop> {
        let details: StopDetails = serde_json::from_str(&self.after?).ok()?;
        let (change, per_minute) = match (details.target_changes_per_minute, details.removals_per_minute) {
            (Some(limit), _) => (LimitedChange::Target, limit),
            (None, limit) => (LimitedChange::Removal, limit?),
        };
        Some(LimitStop {
            seq: self.seq,
            at: Timestamp::from_ms(self.ts),
            actor: Actor::from_stored(self.actor),
            principal: details.principal,
            change,
            per_minute,
            key_name: self.key_name,
            user: self.user_id.map(Id::from_i64),
            email: self.email.map(Email::from_stored),
        })
    }
}

impl Store {
    /// Stops since a moment that a member has not dismissed, newest first.
    pub async fn limit_stops(
        &self,
        workspace: Id,
        member: Id,
        since: Timestamp,
        limit: i64,
    ) -> Result<Vec<LimitStop>, StoreError> {
        let rows: Vec<StopRow> = read!(
            &self.pool,
            fetch_all,
            "select a.seq, a.ts, a.actor, a.after, k.name as key_name, u.id as user_id, u.email
             from audit a
             left join api_keys k on k.id = case when a.actor like 'key:%' then cast(substr(a.actor, 5) as bigint) end
             left join users u on u.id =
                 coalesce(k.user_id, case when a.actor like 'user:%' then cast(substr(a.actor, 6) as bigint) end)
             where a.workspace_id = $1 and a.action = 'auth.brake' and a.ts > $3
               and a.seq > (select coalesce(max(dismissed_stop), 0) from users where id = $2)
             order by a.seq desc limit $4",
            workspace.as_i64(),
            member.as_i64(),
            since.ms(),
            limit
        )?;
        Ok(rows.into_iter().filter_map(StopRow::stop).collect())
    }
}

impl StoreWriter {
    /// A member does not want to be shown a stop, and those before it, any more. One that is not there dismisses nothing, or a stolen
    /// session could hide what is yet to come.
    pub async fn dismiss_limit_stops(&self, workspace: Id, member: Id, seq: i64) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        run_in!(
            &mut tx,
            "update users set dismissed_stop = $3
             where id = $2 and workspace_id = $1 and coalesce(dismissed_stop, 0) < $3
               and exists (select 1 from audit where workspace_id = $1 and seq = $3 and action = 'auth.brake')",
            workspace.as_i64(),
            member.as_i64(),
            seq
        )?;
        tx.commit().await
    }
}
