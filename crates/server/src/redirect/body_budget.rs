//! How much of request bodies the server holds at once, in memory and in temporary files: in all, of a workspace, and of a principal.
//!
//! Small bodies are free; how many there can be is bounded by the requests that may be with the API and the dashboard. A large one is
//! only accepted from authenticated callers, and is counted from its first byte until its request is answered.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_core::Id;
use rlinks_core::error_code::ErrorCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a body may have without being counted.
pub const FREE_BYTES: u64 = 64 * 1024;
/// The bodies of everybody.
pub const TOTAL_BYTES: u64 = 96 * 1024 * 1024;
/// Those of a workspace: the others have the other half.
pub const WORKSPACE_BYTES: u64 = TOTAL_BYTES / 2;
/// Those of a principal: a little more than the largest body there is, a file as the dashboard's form sends it for the second time.
pub const PRINCIPAL_BYTES: u64 = TOTAL_BYTES / 4;
/// Large JSON bodies parsed at a time: as values they take many times their length.
const PARSED_AT_A_TIME: usize = 2;
/// When a client whose body was refused may try again.
const RETRY_SECONDS: u32 = 10;

pub struct BodyBudget {
    held: Mutex<Held>,
    parsing: Arc<Semaphore>,
}

#[derive(Default)]
struct Held {
    total: u64,
    /// Of principals and of workspaces; nothing of those who hold nothing.
    by_holder: HashMap<Id, u64>,
}

/// Who sends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyHolder {
    pub principal: Id,
    pub workspace: Id,
}

/// Why a body is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyRefused {
    #[error("A body of more than 64 KiB is only read once it is known who sends it")]
    Anonymous,
    #[error("Other uploads of yours are still under way. Try again when they are done")]
    PrincipalShare,
    #[error("Other uploads of this workspace are still under way. Try again in a moment")]
    WorkspaceShare,
    #[error("The server is busy with other uploads. Try again in a moment")]
    Total,
}

impl BodyRefused {
    /// What reading a body failed with, if it was this.
    pub fn find(mut error: &(dyn Error + 'static)) -> Option<Self> {
        loop {
            if let Some(refused) = error.downcast_ref::<Self>() {
                return Some(*refused);
            }
            error = error.source()?;
        }
    }

    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Anonymous => ErrorCode::PayloadTooLarge,
            Self::PrincipalShare | Self::WorkspaceShare => ErrorCode::RateLimited,
            Self::Total => ErrorCode::KvUnavailable,
        }
    }

    /// Seconds after which it may be tried again.
    pub const fn retry_after(self) -> Option<u32> {
        match self {
            Self::Anonymous => None,
            Self::PrincipalShare | Self::WorkspaceShare | Self::Total => Some(RETRY_SECONDS),
        }
    }
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self { held: Mutex::default(), parsing: Arc::new(Semaphore::new(PARSED_AT_A_TIME)) }
    }
}

impl BodyBudget {
    /// Bytes of large bodies that are held now.
    pub fn held_bytes(&self) -> u64 {
        self.held.lock().total
    }
}

impl Held {
    fn held_by(&self, id: Id) -> u64 {
        self.by_holder.get(&id).copied().unwrap_or_default()
    }

    fn take(&mut self, bytes: u64, holder: BodyHolder) -> Result<(), BodyRefused> {
        if self.held_by(holder.principal) + bytes > PRINCIPAL_BYTES {
            return Err(BodyRefused::PrincipalShare);
        }
        if self.held_by(holder.workspace) + bytes > WORKSPACE_BYTES {
            return Err(BodyRefused::WorkspaceShare);
        }
        if self.total + bytes > TOTAL_BYTES {
            return Err(BodyRefused::Total);
        }
        self.total += bytes;
        for id in holder.ids() {
            *self.by_holder.entry(id).or_default() += bytes;
        }
        Ok(())
    }

    fn give_back(&mut self, bytes: u64, holder: BodyHolder) {
        self.total -= bytes;
        for id in holder.ids() {
            let left = self.held_by(id).saturating_sub(bytes);
            if left == 0 {
                self.by_holder.remove(&id);
            } else {
                self.by_holder.insert(id, left);
            }
        }
    }
}

impl BodyHolder {
    /// No principal has the id of a workspace.
    const fn ids(self) -> [Id; 2] {
        [self.principal, self.workspace]
    }
}

/// What the body of one request holds, until the last clone is dropped.
#[derive(Clone)]
pub struct BodyAccount(Arc<Account>);

struct Account {
    budget: Arc<BodyBudget>,
    entry: Mutex<Entry>,
}

#[derive(Default)]
struct Entry {
    holder: Option<BodyHolder>,
    bytes: u64,
    parsing: Option<OwnedSemaphorePermit>,
}

impl BodyAccount {
    /// Of a request whose sender is not known yet.
    pub fn new(budget: &Arc<BodyBudget>) -> Self {
        Self(Arc::new(Account { budget: Arc::clone(budget), entry: Mutex::default() }))
    }

    /// It is known who sends the body. The first word counts.
    pub fn set_holder(&self, holder: BodyHolder) {
        self.0.entry.lock().holder.get_or_insert(holder);
    }

    /// Makes room for a body of so many bytes.
    pub fn hold(&self, bytes: u64) -> Result<(), BodyRefused> {
        let mut entry = self.0.entry.lock();
        if bytes <= entry.bytes.max(FREE_BYTES) {
            return Ok(());
        }
        let holder = entry.holder.ok_or(BodyRefused::Anonymous)?;
        self.0.budget.held.lock().take(bytes - entry.bytes, holder)?;
        entry.bytes = bytes;
        Ok(())
    }

    /// Waits until a body like this may be parsed. Counts until the request is answered.
    pub async fn wait_to_parse(&self) {
        if self.0.entry.lock().bytes == 0 {
            return;
        }
        let permit = Arc::clone(&self.0.budget.parsing).acquire_owned().await.ok();
        self.0.entry.lock().parsing = permit;
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let entry = self.entry.get_mut();
        if let (Some(holder), 1..) = (entry.holder, entry.bytes) {
            self.budget.held.lock().give_back(entry.bytes, holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rlinks_core::Id;

    use super::{
        BodyAccount, BodyBudget, BodyHolder, BodyRefused, FREE_BYTES, PRINCIPAL_BYTES, TOTAL_BYTES,
        WORKSPACE_BYTES,
    };

    fn id(number: i64) -> Id {
        Id::from_i64(number)
    }

    #[test]
    fn body_is_held_within_the_shares_of_its_sender_until_its_request_ends() {
        let budget = Arc::new(BodyBudget::default());
        let sender = |principal, workspace| {
            let account = BodyAccount::new(&budget);
            account.set_holder(BodyHolder { principal: id(principal), workspace: id(workspace) });
            account
        };
        assert_eq!(BodyAccount::new(&budget).hold(FREE_BYTES), Ok(()), "a small body is free");
        assert_eq!(BodyAccount::new(&budget).hold(FREE_BYTES + 1), Err(BodyRefused::Anonymous));
        let first = sender(1, 100);
        assert_eq!(first.hold(FREE_BYTES), Ok(()));
        assert_eq!(budget.held_bytes(), 0);
        assert_eq!((first.hold(PRINCIPAL_BYTES - 1), first.hold(5)), (Ok(()), Ok(())));
        assert_eq!(budget.held_bytes(), PRINCIPAL_BYTES - 1);
        assert_eq!(sender(1, 100).hold(FREE_BYTES + 1), Err(BodyRefused::PrincipalShare));
        let second = sender(2, 100);
        assert_eq!(second.hold(WORKSPACE_BYTES - PRINCIPAL_BYTES), Ok(()));
        assert_eq!(sender(3, 100).hold(FREE_BYTES + 1), Err(BodyRefused::WorkspaceShare));
        let others = [sender(4, 200), sender(5, 200)];
        assert!(others.iter().all(|other| other.hold(PRINCIPAL_BYTES) == Ok(())));
        assert_eq!(budget.held_bytes(), TOTAL_BYTES - 1);
        assert_eq!(sender(6, 300).hold(FREE_BYTES + 1), Err(BodyRefused::Total));
        drop((first, second, others));
        assert_eq!(budget.held_bytes(), 0);
        assert!(budget.held.lock().by_holder.is_empty());
    }
}
