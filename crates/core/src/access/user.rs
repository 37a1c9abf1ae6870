//! People: members of a workspace, by e-mail address, with a role.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::access::scope::{Scope, Scopes};
use crate::field_error::{FieldCode, FieldError};
use crate::{Host, Id, Timestamp};

/// An e-mail address, folded: `ADMIN@` and `admin@` are one person.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Email(String);

impl Email {
    const MAX_BYTES: usize = 254;

    /// Something, one `@`, and a host, without spaces; at most 254 bytes. Whether anybody reads mail there is not ours to know.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let refuse = |code, message: &str| Err(FieldError::new("email", code, message));
        let text = text.trim();
        if text.is_empty() {
            return refuse(FieldCode::Required, "is empty");
        }
        if text.len() > Self::MAX_BYTES {
            return refuse(FieldCode::TooLong, "has more than 254 bytes");
        }
        if text.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
            return refuse(FieldCode::ControlCharacter, "has spaces or control characters");
        }
        let odd =
            |letter: char| matches!(letter, '<' | '>' | '"' | '(' | ')' | ',' | ';' | ':' | '\\' | '[' | ']');
        match text.split_once('@') {
            Some((name, host))
                if !name.is_empty()
                    && !host.is_empty()
                    && !host.contains('@')
                    && !host.starts_with('.')
                    && !host.ends_with('.')
                    && !text.contains(odd) =>
            {
                Ok(Self(text.to_lowercase()))
            }
            _ => refuse(FieldCode::BadCharacters, "is no e-mail address; give one like `ann@example.com`"),
        }
    }

    /// Fails where this may not be the address of a new account: its host must be one that DNS can have, with a dot and at least two
    /// letters at its end. Accounts that are there, and what a provider says, are not held to that.
    pub fn check_for_new_account(&self) -> Result<(), FieldError> {
        let host = self.0.rsplit_once('@').map_or("", |(_, host)| host);
        // Names in other scripts are held to what stands for them in DNS.
        let ascii = Host::parse(host).map(|host| host.to_string()).unwrap_or_default();
        let end = ascii.rsplit_once('.').map_or("", |(_, end)| end);
        let is_word = end.len() >= 2 && end.bytes().all(|byte| byte.is_ascii_alphabetic());
        if is_word || end.starts_with("xn--") {
            return Ok(());
        }
        let message = "must end in a domain such as `example.com`";
        Err(FieldError::new("email", FieldCode::BadCharacters, message))
    }

    /// An address as the store keeps it: a placeholder where the account was deleted.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// What a member may do. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads links and statistics.
    Viewer,
    /// Also makes, changes, deletes and restores links, and keeps own keys.
    Member,
    Admin,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Member, Self::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }

    pub const fn scopes(self) -> Scopes {
        match self {
            Self::Viewer => Scopes::new(&[Scope::LinksRead, Scope::AnalyticsRead]),
            Self::Member => {
                Scopes::new(&[Scope::LinksRead, Scope::LinksWrite, Scope::LinksDelete, Scope::AnalyticsRead])
            }
            Self::Admin => Scopes::ALL,
        }
    }
}

impl FromStr for Role {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| {
            FieldError::new("role", FieldCode::BadCharacters, "is none of viewer, member, admin")
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Whether an account can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserStatus {
    Active,
    /// Locked out; their links go on.
    Suspended,
    /// Gone: e-mail address and name are placeholders.
    Deleted,
}

impl UserStatus {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Deleted => "deleted",
        }
    }
}

impl FromStr for UserStatus {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        [Self::Active, Self::Suspended, Self::Deleted]
            .into_iter()
            .find(|status| status.name() == text)
            .ok_or_else(|| {
                FieldError::new("status", FieldCode::BadCharacters, "is neither active nor suspended")
            })
    }
}

impl fmt::Display for UserStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A member of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: Id,
    /// Where they are a member.
    pub workspace: Id,
    pub email: Email,
    /// Their name; may be empty.
    pub full_name: String,
    /// What they may do.
    pub role: Role,
    /// Whether they may do anything.
    pub status: UserStatus,
    /// When they were invited.
    pub created_at: Timestamp,
    /// When the account last changed.
    pub updated_at: Timestamp,
    /// When they last signed in.
    pub last_login_at: Option<Timestamp>,
    /// When an OpenID provider last told us their address and name.
    pub last_sync_at: Option<Timestamp>,
}

impl User {
    pub const MAX_NAME_CHARS: usize = 255;

    /// A name: up to 255 characters on one line; may be empty.
    pub fn parse_name(text: &str) -> Result<String, FieldError> {
        if text.trim().is_empty() {
            return Ok(String::new());
        }
        crate::text::one_line("full_name", text, Self::MAX_NAME_CHARS)
    }

    /// What the audit log says of them: never who they are.
    pub fn audited(&self) -> AuditedUser {
        AuditedUser { id: self.id, role: self.role, status: self.status }
    }
}

/// A user as the audit log has them: without address and name, so that a person can be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedUser {
    pub id: Id,
    /// What they may do.
    pub role: Role,
    /// Whether they may do anything.
    pub status: UserStatus,
}

#[cfg(test)]
mod tests {
    use super::{Email, Role};
    use crate::access::scope::{Scope, Scopes};

    #[test]
    fn email_is_lower_cased_and_validated() {
        assert_eq!(Email::parse(" Ann@Example.COM ").unwrap().as_str(), "ann@example.com");
        assert_eq!(Email::parse("Ärger@büro.example").unwrap().as_str(), "ärger@büro.example");
        for bad in [
            "",
            "ann",
            "@b",
            "a@",
            "a@b@c",
            "a b@c",
            "a@.b",
            "a@b.",
            "<a@b>",
            "a@b\n",
            &format!("{}@b", "a".repeat(260)),
        ] {
            // Space around is taken off, space inside is not.
            assert!(Email::parse(bad).is_err() || bad.ends_with('\n'), "{bad:?}");
        }
    }

    #[test]
    fn each_role_includes_the_scopes_of_lower_roles() {
        assert!(Role::Viewer.scopes().is_subset(Role::Member.scopes()));
        assert!(Role::Member.scopes().is_subset(Role::Admin.scopes()));
        assert_eq!(Role::Admin.scopes(), Scopes::ALL);
        assert!(!Role::Member.scopes().contains(Scope::WorkspaceAdmin));
        assert!(Role::Viewer < Role::Admin);
    }
}
