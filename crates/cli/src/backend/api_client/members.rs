//! Keys, members, domains and the audit log of a server: what its admins see.

use http::Method;
use rlinks_core::audit::AuditEntry;
use rlinks_core::{Email, Host, Id, Role, UserStatus};
use rlinks_ops::api_keys::{KeyRequest, OnCreated};
use rlinks_ops::{OpsError, Resource};
use rlinks_wire::Page;
use rlinks_wire::domain::Domain;
use rlinks_wire::key::{CreatedKey, CreatedWithKey, Key};
use rlinks_wire::member::{Invitation, Member};
use rlinks_wire::session::Session;
use serde_json::{Value, json};

use super::ApiClient;
use crate::error::CliError;

impl ApiClient {
    // ---- keys ----

    pub(crate) async fn keys(&self) -> Result<Vec<Key>, CliError> {
        self.whole_list(&["keys"]).await
    }

    /// A key by its id.
    pub(crate) async fn key(&self, id: &str) -> Result<Key, CliError> {
        let found = self.keys().await?.into_iter().find(|key| key.id.to_string() == id);
        found.ok_or_else(|| CliError::not_found(Resource::Key(id.to_owned())))
    }

    pub(crate) async fn create_key(&self, asked: &KeyRequest) -> Result<CreatedKey, CliError> {
        let fields = [
            ("name", Some(json!(asked.name))),
            ("scopes", asked.scopes.map(|scopes| json!(scopes))),
            ("user", asked.user.as_ref().map(|user| json!(user))),
            ("expires_at", asked.expires_at.map(|at| json!(at))),
        ];
        let body: serde_json::Map<String, Value> =
            fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let made = self.request(Method::POST, &["keys"]).body(&body).read().await;
        let unknown = asked.user.clone().map(|user| OpsError::NotFound(Resource::User(user)));
        made.map_err(|failure| failure.into_local_error(unknown))
    }

    /// What was made with a key and would end with it.
    pub(crate) async fn created_with_key(&self, id: Id) -> Result<Vec<CreatedWithKey>, CliError> {
        self.whole_list(&["keys", &id.to_string(), "created"]).await
    }

    pub(crate) async fn revoke_key(&self, id: Id, created: OnCreated) -> Result<(), CliError> {
        let id = id.to_string();
        let request = self.request(Method::DELETE, &["keys", &id]);
        let request = match created {
            OnCreated::Keep => request.query("keep_created", "true"),
            OnCreated::Revoke => request,
        };
        request.expect_no_content().await
    }

    pub(crate) async fn rotate_key(&self, id: Id) -> Result<CreatedKey, CliError> {
        self.request(Method::POST, &["keys", &id.to_string(), "rotate"]).read().await
    }

    // ---- members ----

    pub(crate) async fn users(&self) -> Result<Vec<Member>, CliError> {
        self.whole_list(&["users"]).await
    }

    /// A member by id or address.
    pub(crate) async fn user(&self, who: &str) -> Result<Member, CliError> {
        let address = Email::parse(who).ok();
        let is_them = |user: &Member| user.id.to_string() == who || Some(&user.email) == address.as_ref();
        let found = self.users().await?.into_iter().find(is_them);
        found.ok_or_else(|| CliError::not_found(Resource::User(who.to_owned())))
    }

    pub(crate) async fn invite(&self, email: &Email, name: &str, role: Role) -> Result<Invitation, CliError> {
        let body = json!({ "email": email, "full_name": name, "role": role });
        self.request(Method::POST, &["users"]).body(&body).read().await
    }

    pub(crate) async fn change_user(
        &self,
        id: Id,
        role: Option<Role>,
        status: Option<UserStatus>,
    ) -> Result<Member, CliError> {
        // Null is as good as not named.
        let body = json!({ "role": role, "status": status });
        self.request(Method::PATCH, &["users", &id.to_string()]).body(&body).read().await
    }

    pub(crate) async fn delete_user(&self, id: Id) -> Result<(), CliError> {
        self.request(Method::DELETE, &["users", &id.to_string()]).expect_no_content().await
    }

    /// Where a member is signed in.
    pub(crate) async fn sessions(&self, user: Id) -> Result<Vec<Session>, CliError> {
        self.whole_list(&["users", &user.to_string(), "sessions"]).await
    }

    pub(crate) async fn end_sessions(&self, user: Id) -> Result<(), CliError> {
        self.request(Method::DELETE, &["users", &user.to_string(), "sessions"]).expect_no_content().await
    }

    pub(crate) async fn end_session(&self, user: Id, session: &str) -> Result<(), CliError> {
        let ended = self.request(Method::DELETE, &["users", &user.to_string(), "sessions", session]);
        let unknown = OpsError::NotFound(Resource::Session(session.to_owned()));
        ended.expect_no_content().await.map_err(|failure| failure.into_local_error(Some(unknown)))
    }

    // ---- domains ----

    pub(crate) async fn domains(&self) -> Result<Vec<Domain>, CliError> {
        // This list comes whole, and takes no limit.
        Ok(self.get(&["domains"]).read::<Page<Domain>>().await?.data)
    }

    pub(crate) async fn add_domain(&self, host: &Host) -> Result<Domain, CliError> {
        self.request(Method::POST, &["domains"]).body(&json!({ "host": host })).read().await
    }

    pub(crate) async fn remove_domain(&self, host: &Host) -> Result<(), CliError> {
        self.request(Method::DELETE, &["domains", host.as_str()]).expect_no_content().await
    }

    pub(crate) async fn verify_domain(&self, host: &Host) -> Result<Domain, CliError> {
        self.request(Method::POST, &["domains", host.as_str(), "verify"]).read().await
    }

    pub(crate) async fn set_primary_domain(&self, host: &Host) -> Result<Domain, CliError> {
        let body = json!({ "primary": true });
        self.request(Method::PATCH, &["domains", host.as_str()]).body(&body).read().await
    }

    // ---- the audit log ----

    /// What was done before an entry, newest first.
    pub(crate) async fn audit_before(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, CliError> {
        let before = before.map(|seq| seq.to_string());
        let query: Vec<(&str, &str)> = before.iter().map(|seq| ("before", seq.as_str())).collect();
        self.list(&["audit"], &query, limit).await
    }

    /// What was done after an entry, oldest first.
    pub(crate) async fn audit_after(&self, after: i64, limit: usize) -> Result<Vec<AuditEntry>, CliError> {
        self.list(&["audit"], &[("after", &after.to_string())], limit).await
    }
}
