//! Hashing passwords: Argon2id, on threads that may block, never more at once than there are cores. Each takes 19 MiB, so that many at once
//! would be a way to take all memory.

mod strength;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version};
use rlinks_core::{FieldError, Password};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::strength::PasswordOwner;

/// What OWASP asks for: 19 MiB, two passes, one lane.
const ARGON2_MEMORY_KIB: u32 = 19 * 1024;
const ARGON2_PASSES: u32 = 2;
const ARGON2_LANES: u32 = 1;
/// How long somebody waits for their turn.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_WAITING_HASHES: usize = 64;

/// Random bytes, others for each hash.
pub type Salt = [u8; 16];

pub struct Passwords {
    permits: Arc<Semaphore>,
    waiting: Semaphore,
}

/// One turn; the next waits until it is over.
pub struct HashPermit(OwnedSemaphorePermit);

/// Too many want to hash at once. It passes.
#[derive(Debug, thiserror::Error)]
#[error("too many people are signing in at this moment; try again in a few seconds")]
pub struct HashingBusyError;

/// Why a password can't be set.
#[derive(Debug)]
pub enum NewPasswordError {
    Weak(FieldError),
    Busy(HashingBusyError),
}

impl Default for Passwords {
    /// As many turns as there are cores.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { permits: Arc::new(Semaphore::new(cores)), waiting: Semaphore::new(MAX_WAITING_HASHES) }
    }
}

impl Passwords {
    /// Waits for a turn, for a while and among a few.
    pub async fn acquire(&self) -> Result<HashPermit, HashingBusyError> {
        let _place = self.waiting.try_acquire().map_err(|_| HashingBusyError)?;
        let permit = tokio::time::timeout(PERMIT_TIMEOUT, Arc::clone(&self.permits).acquire_owned()).await;
        permit.map_err(|_| HashingBusyError)?.map(HashPermit).map_err(|_| HashingBusyError)
    }
}

impl HashPermit {
    /// The hash of a password that is to be set, if it is strong enough.
    pub async fn hash_new(
        self,
        password: Password,
        owner: PasswordOwner,
        salt: Salt,
    ) -> Result<String, NewPasswordError> {
        let hashed = self.run(move || hash_new(&password, &owner, &salt)).await;
        hashed.map_err(NewPasswordError::Busy)?.map_err(NewPasswordError::Weak)
    }

    /// Whether this is the password of that hash. Where either is missing it takes as long, and the answer is no.
    pub async fn verify(
        self,
        password: Option<Password>,
        kept: Option<String>,
    ) -> Result<bool, HashingBusyError> {
        self.run(move || {
            let (given, known) = (password.is_some(), kept.is_some());
            // Made by whoever comes first, known or not.
            let dummy = &*DUMMY_HASH;
            let kept = kept.as_ref().unwrap_or(dummy);
            let bytes = password.as_ref().map_or(&b"nobody's"[..], Password::as_bytes);
            let matches =
                PasswordHash::new(kept).is_ok_and(|kept| argon2().verify_password(bytes, &kept).is_ok());
            matches && given && known
        })
        .await
    }

    /// The turn lasts as long as the work does, also when nobody waits for its result any more.
    async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HashingBusyError> {
        let Self(permit) = self;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        working.await.map_err(|_| HashingBusyError)
    }
}

/// A hash that is nobody's, for those who are not known.
static DUMMY_HASH: LazyLock<String> = LazyLock::new(|| hash_bytes(b"nobody's", &[0; 16]));

/// The hash of a password that is to be set (`$argon2id$v=19$...`), if it is strong enough. It takes a while; not for a thread that others
/// wait for.
pub fn hash_new(password: &Password, owner: &PasswordOwner, salt: &Salt) -> Result<String, FieldError> {
    strength::check(password, owner)?;
    Ok(hash_bytes(password.as_bytes(), salt))
}

fn hash_bytes(password: &[u8], salt: &Salt) -> String {
    let hashed = argon2().hash_password_with_salt(password, salt);
    hashed.expect("salt and parameters are of the right size").to_string()
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(ARGON2_MEMORY_KIB, ARGON2_PASSES, ARGON2_LANES, None)
        .expect("these are within the bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use rlinks_core::{Email, Password};

    use super::{PasswordOwner, Passwords, hash_new};

    #[tokio::test]
    async fn only_the_right_password_matches_its_hash() {
        let passwords = Passwords::default();
        let password = Password::parse("correct horse battery").unwrap();
        let owner = PasswordOwner::new("", &Email::parse("ann@example.com").unwrap());
        let kept = hash_new(&password, &owner, &[1; 16]).unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert_ne!(kept, hash_new(&password, &owner, &[2; 16]).unwrap(), "each has a salt of its own");
        let wrong = Password::parse("correct horse batterY").unwrap();
        for (given, known, expected) in [
            (Some(password.clone()), Some(kept.clone()), true),
            (Some(wrong), Some(kept.clone()), false),
            (Some(password.clone()), None, false),
            (None, Some(kept), false),
            (None, None, false),
            (Some(password), Some("not a hash".to_owned()), false),
        ] {
            let matches = passwords.acquire().await.unwrap().verify(given, known).await.unwrap();
            assert_eq!(matches, expected);
        }
    }

    /// Hostile inputs, S30.
    #[test]
    fn unknown_user_costs_as_much_as_a_wrong_password() {
        let owner = PasswordOwner::new("", &Email::parse("ann@example.com").unwrap());
        let kept = hash_new(&Password::parse("correct horse battery").unwrap(), &owner, &[1; 16]).unwrap();
        let cost = |hash: &str| hash.rsplit_once("$m=").unwrap().1.split('$').next().unwrap().to_owned();
        assert_eq!(cost(&super::DUMMY_HASH), cost(&kept), "what is hashed where nobody is known");
    }

    #[tokio::test]
    async fn number_of_waiting_hash_requests_is_limited() {
        let passwords = Passwords::default();
        let mut turns = Vec::new();
        while let Ok(Ok(turn)) = tokio::time::timeout(std::time::Duration::ZERO, passwords.acquire()).await {
            turns.push(turn);
        }
        assert_eq!(turns.len(), std::thread::available_parallelism().unwrap().get());
        let passwords = std::sync::Arc::new(passwords);
        let waiting: Vec<_> = (0..super::MAX_WAITING_HASHES)
            .map(|_| {
                let passwords = std::sync::Arc::clone(&passwords);
                tokio::spawn(async move { passwords.acquire().await.is_ok() })
            })
            .collect();
        while passwords.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(passwords.acquire().await.is_err(), "one more is sent away at once");
        drop(turns);
        for one in waiting {
            assert!(one.await.unwrap(), "those who waited get their turn");
        }
    }
}
