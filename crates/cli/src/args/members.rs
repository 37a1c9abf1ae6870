//! `rmax users` and `keys`.

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Users {
    /// Make somebody a member and print their one-time invitation, good for seven days
    Create {
        /// Their e-mail address
        #[arg(long)]
        email: String,
        /// Their name
        #[arg(long, default_value = "")]
        name: String,
        /// viewer, member or admin
        #[arg(long, default_value = "member")]
        role: String,
        /// Read a password from stdin, instead of printing an invitation
        #[arg(long)]
        password_stdin: bool,
    },
    /// Invite a member once more who has not signed in yet, and print the new one-time invitation; an earlier one no longer works
    Invite {
        /// Their e-mail address or id
        user: String,
    },
    /// End a member's sessions, password and keys at once, and print an invitation that takes their place
    ResetSignIn {
        /// Their e-mail address or id
        user: String,
        /// Let their keys go on
        #[arg(long)]
        keep_keys: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// List members
    List,
    /// Change what a member may do
    Role {
        /// Their e-mail address or id
        user: String,
        /// viewer, member or admin
        role: String,
    },
    /// Lock a member out; their links go on
    Suspend {
        /// Their e-mail address or id
        user: String,
    },
    /// Let a suspended member in again
    Activate {
        /// Their e-mail address or id
        user: String,
    },
    /// Give a member a password, asked for or from stdin; they are signed out everywhere
    Password {
        /// Their e-mail address or id
        user: String,
        /// Read it from stdin
        #[arg(long)]
        password_stdin: bool,
    },
    /// List where a member is signed in
    Sessions {
        /// Their e-mail address or id
        user: String,
    },
    /// Sign a member out everywhere, or end one of their sessions
    SignOut {
        /// Their e-mail address or id
        user: String,
        /// Only this session; `rmax users sessions` lists them
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Delete an account: address and name are forgotten, keys are gone
    Delete {
        /// Their e-mail address or id
        user: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// A key that the installation itself signs with.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum InstallationKeyName {
    Audit,
    Form,
    Cursor,
    Oidc,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key and print it, this once
    Create {
        /// What it is for
        #[arg(long)]
        name: String,
        /// What it may do: links:read, links:write, links:delete, analytics:read, workspace:admin [default: links:read, links:write]
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
        scopes: Vec<String>,
        /// The member it belongs to: it can do no more than they can
        #[arg(long, value_name = "EMAIL")]
        user: Option<String>,
        /// Good up to and including this time
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// List keys
    List,
    /// Take a key back, from the next request on, and the keys and open invitations made with it
    Revoke {
        /// Its id
        id: String,
        /// Only this key; what was made with it goes on
        #[arg(long)]
        keep_created: bool,
        /// Do not ask, where what was made with it ends too
        #[arg(long)]
        yes: bool,
    },
    /// Make a successor of a key; the old one lives 24 hours more
    Rotate {
        /// Its id
        id: String,
    },
    /// Put a new key in the place of one that the installation itself signs with
    ///
    /// `audit` signs audit heads and backups: the old and the new key sign that one follows the other, so what the old one signed can
    /// still be verified. `form`, `cursor` and `oidc` sign forms before sign-in, cursors of lists, and sign-ins at the OpenID provider:
    /// servers notice within seconds, and accept what the old key signed for an hour (`oidc`: ten minutes).
    RotateInstallation {
        /// Which
        key: InstallationKeyName,
        /// Accept nothing that the old key signed: somebody else may have it
        #[arg(long)]
        now: bool,
    },
}
