//! How members sign in: the only place that writes their password hash and their identity at an OpenID provider. Each write gives a
//! [`Credential`], which an audit entry must take along, so that a credential put into the table past the log is found.

use std::fmt::Write as _;

use rlinks_core::access::user::AuditedUser;
use rlinks_core::{Actor, Id, User, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::access::user_rows::{UserCredentialsRow, user_subject};
use crate::audit::chain::NewEntry;
use crate::clock::random_bytes;
use crate::database::json::json;
use crate::database::pool::{Tx, read_in, run_in};

/// What the log says of a member who can't sign in at all.
const NO_CREDENTIAL: &str = "none";

/// A member's credential as the log has it: a digest that says nothing to those who don't have the salt beside it.
#[must_use = "a change of a credential belongs into the audit log"]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Credential(String);

/// A member as the log has them where their credential changed.
#[derive(Serialize)]
struct AuditedCredential {
    #[serde(flatten)]
    user: AuditedUser,
    credential: Credential,
}

/// How a member signs in, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredCredential {
    pub(crate) password_hash: Option<String>,
    pub(crate) oidc_issuer: Option<String>,
    pub(crate) oidc_subject: Option<String>,
    /// Drawn anew with every change, and in no log: without it issuers and subjects can't be guessed.
    pub(crate) salt: Option<String>,
}

impl StoredCredential {
    pub(crate) fn from_row(row: &UserCredentialsRow) -> Self {
        Self {
            password_hash: row.password_hash.clone(),
            oidc_issuer: row.oidc_issuer.clone(),
            oidc_subject: row.oidc_subject.clone(),
            salt: row.credential_salt.clone(),
        }
    }

    pub(crate) fn digest(&self) -> Credential {
        if self.is_empty() {
            return Credential(NO_CREDENTIAL.to_owned());
        }
        let parts = [&self.salt, &self.password_hash, &self.oidc_issuer, &self.oidc_subject];
        let mut text = "rlinks.credential.1".to_owned();
        for part in parts {
            match part {
                None => text.push_str("\n-"),
                Some(part) => write!(text, "\n{}:{part}", part.len()).expect("a string takes all"),
            }
        }
        Credential(hex::encode(&Sha256::digest(text.as_bytes())))
    }

    fn is_empty(&self) -> bool {
        self.password_hash.is_none() && self.oidc_issuer.is_none() && self.oidc_subject.is_none()
    }

    /// Whether this would allow a sign-in though the log says otherwise. A credential that is missing opens nothing, and one
    /// that was never recorded can't be compared.
    pub(crate) fn contradicts(&self, logged: Option<&Credential>) -> bool {
        !self.is_empty() && logged.is_some_and(|logged| *logged != self.digest())
    }
}

/// Gives a member a password, or takes it away.
pub(crate) async fn write_password(
    tx: &mut Tx,
    user: Id,
    hash: Option<&str>,
) -> Result<Credential, StoreError> {
    run_in!(tx, "update users set password_hash = $2 where id = $1", user.as_i64(), hash)?;
    seal(tx, user).await
}

/// Links a member to an identity at an OpenID provider.
pub(crate) async fn write_identity(
    tx: &mut Tx,
    user: Id,
    (issuer, subject): (&str, &str),
) -> Result<Credential, StoreError> {
    run_in!(
        tx,
        "update users set oidc_issuer = $2, oidc_subject = $3 where id = $1",
        user.as_i64(),
        issuer,
        subject
    )?;
    seal(tx, user).await
}

/// What a member has who was only just made.
pub(crate) fn none() -> Credential {
    StoredCredential::default().digest()
}

/// Takes away every way in.
pub(crate) async fn clear(tx: &mut Tx, user: Id) -> Result<Credential, StoreError> {
    restore(tx, user, &StoredCredential::default()).await?;
    Ok(none())
}

/// Writes what a backup has, as it is.
pub(crate) async fn restore(tx: &mut Tx, user: Id, stored: &StoredCredential) -> Result<(), StoreError> {
    run_in!(
        tx,
        "update users set password_hash = $2, oidc_issuer = $3, oidc_subject = $4, credential_salt = $5 where id = $1",
        user.as_i64(),
        stored.password_hash.as_deref(),
        stored.oidc_issuer.as_deref(),
        stored.oidc_subject.as_deref(),
        stored.salt.as_deref()
    )?;
    Ok(())
}

/// Draws a new salt and gives the digest of what is there now.
async fn seal(tx: &mut Tx, user: Id) -> Result<Credential, StoreError> {
    let salt = hex::encode(&random_bytes::<16>());
    run_in!(tx, "update users set credential_salt = $2 where id = $1", user.as_i64(), &salt)?;
    let (password_hash, oidc_issuer, oidc_subject): (Option<String>, Option<String>, Option<String>) = read_in!(
        tx,
        fetch_one,
        "select password_hash, oidc_issuer, oidc_subject from users where id = $1",
        user.as_i64()
    )?;
    Ok(StoredCredential { password_hash, oidc_issuer, oidc_subject, salt: Some(salt) }.digest())
}

/// What the log says of a member whose credential changed.
pub(crate) fn audited(user: &User, credential: Credential) -> String {
    json(&AuditedCredential { user: user.audited(), credential })
}

/// The entry of a change of a credential that changes nothing else the log knows.
pub(crate) fn credential_entry<'a>(
    user: &User,
    credential: Credential,
    actor: &'a Actor,
    action: &'a str,
) -> NewEntry<'a> {
    let after = Some(audited(user, credential));
    NewEntry { actor, action, subject: user_subject(user.id), before: None, after }
}

/// The credential an entry records, if it records one. `None` where it says nothing of it; an inner `None` where the credential was
/// changed by a version that recorded none.
#[expect(clippy::option_option, reason = "silence and a change that wasn't recorded differ")]
pub(crate) fn recorded(action: &str, after: Option<&str>) -> Option<Option<Credential>> {
    #[derive(Deserialize)]
    struct Recorded {
        #[serde(default)]
        credential: Option<Credential>,
    }
    let recorded = after.and_then(|after| serde_json::from_str::<Recorded>(after).ok());
    if let Some(credential) = recorded.and_then(|recorded| recorded.credential) {
        return Some(Some(credential));
    }
    let changes = ["user.create", "user.delete", "user.password", "auth.invitation_accepted", "auth.setup"];
    changes.contains(&action).then_some(None)
}
