//! How often sign-ins may fail, counted for all nodes together and before a password is looked at, so that many at once are no more than
//! many after each other.
//!
//! - Too many failures of one account from one network lock that pair, and too many from one network lock the network.
//! - Failures from other networks never lock an account: anyone could keep its owner out. They delay it, longer with each.
//! - A browser in which the owner has signed in before counts for itself alone.
//!
//! Everything is kept by keyed hashes, in rows of `attempts`. The row of an account has the number of its tries and when the last one was;
//! the others have a number of failures since a time, and until when they are locked.

use std::collections::HashMap;

use rlinks_core::access::user::AuditedUser;
use rlinks_core::{Actor, Id, Timestamp};
use serde::Serialize;

use crate::access::user_rows::{member, user_subject};
use crate::audit::chain::{NewEntry, lock_heads, record_locked};
use crate::database::json::json;
use crate::database::pool::{Tx, read, read_in, run_in};
use crate::workspace::workspaces::MAIN_WORKSPACE_ID;
use crate::{StoreError, StoreWriter};

/// The delay after the first failure elsewhere; each further one doubles it.
const FIRST_DELAY_MS: i64 = 1000;

/// How often sign-ins may fail before one has to wait.
#[derive(Clone, Copy, Debug)]
pub struct LockoutPolicy {
    /// Failures of one account from one network, or in one known browser.
    pub max_account_failures: i64,
    /// Failures of one network.
    pub max_network_failures: i64,
    /// Within this time; and for how long one waits then. Failures elsewhere are forgotten after as long without a try.
    pub window_ms: i64,
    /// The longest that failures elsewhere delay anyone.
    pub max_delay_ms: i64,
    /// So many networks that have waited for `max_delay_ms` get a try within as long, however many try at the same time.
    pub max_waited_tries: i64,
}

/// An attempt to sign in, by keyed hashes of what was tried and from where.
#[derive(Clone, Debug)]
pub struct SignInAttempt {
    pub source: AttemptSource,
    /// In which workspace, if it exists.
    pub workspace: Option<Id>,
    /// Whose account it is, if it exists.
    pub user: Option<Id>,
}

/// Where an attempt comes from.
#[derive(Clone, Debug)]
pub enum AttemptSource {
    /// A browser or session that is known to be of the account's owner: its hash together with the account.
    Known(String),
    Unknown(UnknownSource),
}

#[derive(Clone, Debug)]
pub struct UnknownSource {
    /// The account together with the network.
    pub pair: String,
    /// The account, whether it exists or not.
    pub account: String,
    pub network: String,
}

impl UnknownSource {
    /// Since when this network has been waiting for a try.
    fn waiting(&self) -> String {
        format!("{}/waiting", self.pair)
    }

    /// How many tries networks got because they had waited.
    fn waited(&self) -> String {
        format!("{}/waited", self.account)
    }
}

/// Why an attempt must not be made, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedAttempt {
    /// After too many failures from here.
    Locked(Timestamp),
    /// After failures of this account elsewhere.
    Delayed(Timestamp),
}

impl StoreWriter {
    /// Counts an attempt before anything is tried, or says why it must not be made. A successful sign-in clears them.
    pub async fn begin_attempt(
        &self,
        attempt: &SignInAttempt,
        policy: &LockoutPolicy,
        now: Timestamp,
    ) -> Result<Option<RefusedAttempt>, StoreError> {
        match &attempt.source {
            AttemptSource::Known(browser) => self.begin_known(attempt, browser, policy, now).await,
            AttemptSource::Unknown(source) => self.begin_unknown(attempt, source, policy, now).await,
        }
    }

    async fn begin_known(
        &self,
        attempt: &SignInAttempt,
        browser: &str,
        policy: &LockoutPolicy,
        now: Timestamp,
    ) -> Result<Option<RefusedAttempt>, StoreError> {
        let locked: Option<(i64,)> = read!(
            &self.pool,
            fetch_optional,
            "select locked_until from attempts where subject = $1 and locked_until >= $2",
            browser,
            now.ms()
        )?;
        if let Some((until,)) = locked {
            return Ok(Some(RefusedAttempt::Locked(Timestamp::from_ms(until))));
        }
        let mut tx = self.pool.begin().await?;
        let count =
            count_failure(&mut tx, browser, policy.max_account_failures, policy.window_ms, now).await?;
        if let Some(user) = attempt.user
            && count.is_new
        {
            let lockout = Lockout { user: Some(user), locked: "browser", until: count.until };
            lockout.record(&mut tx, attempt.workspace, now).await?;
        }
        tx.commit().await?;
        Ok(count.until.map(RefusedAttempt::Locked))
    }

    async fn begin_unknown(
        &self,
        attempt: &SignInAttempt,
        source: &UnknownSource,
        policy: &LockoutPolicy,
        now: Timestamp,
    ) -> Result<Option<RefusedAttempt>, StoreError> {
        // A client that is already known to have to wait is refused without a write.
        let rows: Vec<AttemptRow> = read!(
            &self.pool,
            fetch_all,
            COUNTS_SQL,
            &source.pair,
            &source.account,
            &source.network,
            &source.waiting()
        )?;
        match Counts::new(rows, source).verdict(policy, now) {
            Verdict::Refuse(refused) => return Ok(Some(refused)),
            Verdict::BeginWaiting(_) | Verdict::Try | Verdict::TryAfterWaiting => {}
        }
        let mut tx = self.pool.begin().await?;
        // All attempts on one account come one after another from here on.
        run_in!(
            &mut tx,
            "insert into attempts (subject, failures, since, locked_until) values ($1, 0, $2, 0)
             on conflict (subject) do update set failures = attempts.failures",
            &source.account,
            now.ms()
        )?;
        let rows: Vec<AttemptRow> = read_in!(
            &mut tx,
            fetch_all,
            COUNTS_SQL,
            &source.pair,
            &source.account,
            &source.network,
            &source.waiting()
        )?;
        let refused = match Counts::new(rows, source).verdict(policy, now) {
            Verdict::Refuse(refused) => return Ok(Some(refused)),
            Verdict::BeginWaiting(until) => {
                begin_waiting(&mut tx, source, now).await?;
                Some(RefusedAttempt::Delayed(until))
            }
            Verdict::Try => count_attempt(&mut tx, attempt, source, policy, now).await?,
            Verdict::TryAfterWaiting => {
                let (limit, window_ms) = (policy.max_waited_tries, policy.max_delay_ms);
                let waited = count_failure(&mut tx, &source.waited(), limit, window_ms, now).await?;
                match waited.until {
                    Some(until) => Some(RefusedAttempt::Delayed(until)),
                    None => count_attempt(&mut tx, attempt, source, policy, now).await?,
                }
            }
        };
        tx.commit().await?;
        Ok(refused)
    }

    /// Takes an attempt back: it was the owner of the account after all.
    pub async fn clear_failures(&self, attempt: &SignInAttempt, now: Timestamp) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        clear_failures(&mut tx, attempt, now).await?;
        tx.commit().await
    }

    /// Forgets attempts that count no longer.
    pub async fn purge_attempts(&self, policy: &LockoutPolicy, now: Timestamp) -> Result<u64, StoreError> {
        let mut tx = self.pool.begin().await?;
        let purged = run_in!(
            &mut tx,
            "delete from attempts where since < $1 and locked_until < $2",
            now.plus_ms(-policy.window_ms).ms(),
            now.ms()
        )?;
        tx.commit().await?;
        Ok(purged)
    }
}

const COUNTS_SQL: &str =
    "select subject, failures, since, locked_until from attempts where subject in ($1, $2, $3, $4)";

/// `subject`, `failures`, `since`, `locked_until`.
type AttemptRow = (String, i64, i64, i64);

/// What was counted so far, for an attempt from an unknown browser.
struct Counts {
    pair: Count,
    account: Count,
    network: Count,
    waiting: Option<Count>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    failures: i64,
    since: i64,
    locked_until: i64,
}

/// What becomes of an attempt.
enum Verdict {
    Refuse(RefusedAttempt),
    /// Refuse it until then, and note since when this network has been waiting.
    BeginWaiting(Timestamp),
    Try,
    /// This network has waited for as long as anyone has to, while others took the account's turns.
    TryAfterWaiting,
}

impl Counts {
    fn new(rows: Vec<AttemptRow>, source: &UnknownSource) -> Self {
        let rows: HashMap<String, Count> = rows
            .into_iter()
            .map(|(subject, failures, since, locked_until)| {
                (subject, Count { failures, since, locked_until })
            })
            .collect();
        let count = |subject: &str| rows.get(subject).copied().unwrap_or_default();
        Self {
            pair: count(&source.pair),
            account: count(&source.account),
            network: count(&source.network),
            waiting: rows.get(&source.waiting()).copied(),
        }
    }

    fn verdict(&self, policy: &LockoutPolicy, now: Timestamp) -> Verdict {
        let locked_until = self.pair.locked_until.max(self.network.locked_until);
        if locked_until >= now.ms() {
            return Verdict::Refuse(RefusedAttempt::Locked(Timestamp::from_ms(locked_until)));
        }
        let forgotten = now.plus_ms(-policy.window_ms).ms();
        let elsewhere =
            if self.account.since <= forgotten { 0 } else { self.account.failures - self.pair.failures };
        if elsewhere <= 0 {
            return Verdict::Try;
        }
        let delay = FIRST_DELAY_MS.saturating_mul(1 << (elsewhere - 1).min(30)).min(policy.max_delay_ms);
        let next_turn = Timestamp::from_ms(self.account.since).plus_ms(delay);
        if next_turn <= now {
            return Verdict::Try;
        }
        // Turns go to the first to ask, which is always an attacker who keeps asking. So a network without failures gets one
        // without a turn once it has waited long enough.
        if self.pair.failures > 0 && self.pair.since > forgotten {
            return Verdict::Refuse(RefusedAttempt::Delayed(next_turn));
        }
        match self.waiting.filter(|waiting| waiting.since > forgotten) {
            None => Verdict::BeginWaiting(next_turn),
            Some(waiting) => {
                let own_turn = Timestamp::from_ms(waiting.since).plus_ms(policy.max_delay_ms);
                if own_turn <= now {
                    Verdict::TryAfterWaiting
                } else {
                    Verdict::Refuse(RefusedAttempt::Delayed(next_turn.min(own_turn)))
                }
            }
        }
    }
}

async fn begin_waiting(tx: &mut Tx, source: &UnknownSource, now: Timestamp) -> Result<(), StoreError> {
    run_in!(
        tx,
        "insert into attempts (subject, failures, since, locked_until) values ($1, 0, $2, 0)
         on conflict (subject) do update set since = $2",
        &source.waiting(),
        now.ms()
    )?;
    Ok(())
}

/// Counts an attempt for its pair, its network and its account. The one that is too many for the pair or the network is not made.
async fn count_attempt(
    tx: &mut Tx,
    attempt: &SignInAttempt,
    source: &UnknownSource,
    policy: &LockoutPolicy,
    now: Timestamp,
) -> Result<Option<RefusedAttempt>, StoreError> {
    let pair = count_failure(tx, &source.pair, policy.max_account_failures, policy.window_ms, now).await?;
    let network =
        count_failure(tx, &source.network, policy.max_network_failures, policy.window_ms, now).await?;
    if let Some(until) = pair.until.max(network.until) {
        // Only what happened to somebody, or to many, is an entry: guessing names must not fill the log.
        let lockout = match attempt.user {
            Some(user) if pair.is_new => {
                Some(Lockout { user: Some(user), locked: "account", until: Some(until) })
            }
            _ if network.is_new => Some(Lockout { user: None, locked: "network", until: Some(until) }),
            _ => None,
        };
        if let Some(lockout) = lockout {
            lockout.record(tx, attempt.workspace, now).await?;
        }
        return Ok(Some(RefusedAttempt::Locked(until)));
    }
    run_in!(
        tx,
        "update attempts set failures = case when since <= $3 then 1 else failures + 1 end, since = $2 where subject = $1",
        &source.account,
        now.ms(),
        now.plus_ms(-policy.window_ms).ms()
    )?;
    run_in!(tx, "delete from attempts where subject = $1", &source.waiting())?;
    Ok(None)
}

/// Whether one has to wait, and whether that begins with this attempt.
struct FailureCount {
    until: Option<Timestamp>,
    is_new: bool,
}

async fn count_failure(
    tx: &mut Tx,
    subject: &str,
    max_failures: i64,
    window_ms: i64,
    now: Timestamp,
) -> Result<FailureCount, StoreError> {
    // Failures are counted on while one waits, so that the attempt that locked is the one that made it `max_failures + 1`.
    const SQL: &str = "insert into attempts (subject, failures, since, locked_until) values ($1, 1, $2, 0)
         on conflict (subject) do update set
             failures = case when attempts.locked_until < $2 and (attempts.since <= $3 or attempts.locked_until > 0) then 1
                             else attempts.failures + 1 end,
             since = case when attempts.locked_until < $2 and (attempts.since <= $3 or attempts.locked_until > 0) then $2
                          else attempts.since end,
             locked_until = case when attempts.locked_until >= $2 then attempts.locked_until
                                 when attempts.since <= $3 or attempts.locked_until > 0 then 0
                                 when attempts.failures >= $4 then $5
                                 else 0 end
         returning failures, locked_until";
    let (failures, until): (i64, i64) = read_in!(
        tx,
        fetch_one,
        SQL,
        subject,
        now.ms(),
        now.plus_ms(-window_ms).ms(),
        max_failures,
        now.plus_ms(window_ms).ms()
    )?;
    let until = (until >= now.ms()).then(|| Timestamp::from_ms(until));
    Ok(FailureCount { is_new: until.is_some() && failures == max_failures + 1, until })
}

/// Takes back what [`StoreWriter::begin_attempt`] counted: everything from here, for it was the account's owner after all, and one of the
/// network's. What failed elsewhere stays.
pub(super) async fn clear_failures(
    tx: &mut Tx,
    attempt: &SignInAttempt,
    now: Timestamp,
) -> Result<(), StoreError> {
    let source = match &attempt.source {
        AttemptSource::Known(browser) => {
            run_in!(tx, "delete from attempts where subject = $1", browser)?;
            return Ok(());
        }
        AttemptSource::Unknown(source) => source,
    };
    // In the order in which they are counted: account, pair, network.
    run_in!(
        tx,
        "update attempts
         set failures = failures - coalesce((select pair.failures from attempts pair where pair.subject = $2), 0)
         where subject = $1",
        &source.account,
        &source.pair
    )?;
    run_in!(tx, "delete from attempts where subject = $1 and failures <= 0", &source.account)?;
    run_in!(tx, "delete from attempts where subject in ($1, $2)", &source.pair, &source.waiting())?;
    run_in!(
        tx,
        "update attempts set failures = failures - 1 where subject = $1 and failures > 0 and locked_until < $2",
        &source.network,
        now.ms()
    )?;
    Ok(())
}

/// A lockout: of an account from one network or browser, or of a network.
struct Lockout {
    user: Option<Id>,
    locked: &'static str,
    until: Option<Timestamp>,
}

/// What the log says of it: what it says of a member anyway, and until when.
#[derive(Serialize)]
struct AuditedLockout {
    #[serde(flatten)]
    user: Option<AuditedUser>,
    locked: &'static str,
    until: Option<Timestamp>,
}

impl Lockout {
    async fn record(self, tx: &mut Tx, workspace: Option<Id>, now: Timestamp) -> Result<(), StoreError> {
        let workspace = workspace.unwrap_or(Id::from_i64(MAIN_WORKSPACE_ID));
        let heads = lock_heads(tx, [workspace.as_i64()]).await?;
        let (subject, user) = match self.user {
            Some(id) => (user_subject(id), Some(member(tx, workspace, id).await?.audited())),
            None => ("sign_in".to_owned(), None),
        };
        let after = Some(json(&AuditedLockout { user, locked: self.locked, until: self.until }));
        let actor = Actor::system();
        let entry = NewEntry { actor: &actor, action: "auth.locked", subject, before: None, after };
        record_locked(tx, heads, workspace, [entry], now).await
    }
}
