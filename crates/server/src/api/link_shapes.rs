//! What links look like to programs, and what programs may send.

use http::HeaderValue;
use rlinks_clicks::rollup::Total;
use rlinks_core::{
    Actor, Code, Id, Link, LinkSource, LinkState, RedirectStatus, Target, Timestamp, Workspace,
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

use super::error::ApiError;
use crate::api::Api;
use rlinks_routes::host_directory::HostDirectory;

/// A link.
#[derive(Serialize, ToSchema)]
#[schema(as = Link)]
pub struct LinkView {
    #[schema(value_type = String, example = "383294587920384000")]
    id: Id,
    /// The slug of its workspace.
    workspace: String,
    /// The host short URLs of its workspace are written with.
    #[schema(required)]
    domain: Option<String>,
    #[schema(value_type = String, example = "parity")]
    code: Code,
    #[schema(required, example = "https://rmax.to/parity")]
    short_url: Option<String>,
    #[schema(value_type = String, example = "https://example.com/")]
    target: Target,
    #[schema(value_type = StateName)]
    state: LinkState,
    /// Past its expiry now.
    expired: bool,
    #[schema(value_type = StatusCodeName)]
    redirect_status: RedirectStatus,
    https_only: bool,
    no_loop: bool,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    expires_at: Option<Timestamp>,
    #[schema(required)]
    title: Option<String>,
    #[schema(required)]
    notes: Option<String>,
    tags: Vec<String>,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
    #[schema(value_type = LinkSourceName)]
    source: LinkSource,
    /// `user:<id>`, `key:<id>`, or the operator's own text.
    #[schema(value_type = String)]
    created_by: Actor,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    version: i64,
    /// People's clicks, of all time.
    clicks: u64,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    last_clicked_at: Option<Timestamp>,
    /// Every recorded click, bots included.
    hits: u64,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    last_hit_at: Option<Timestamp>,
}

/// What its owner made of a link.
#[derive(ToSchema)]
#[schema(as = LinkState, rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
pub enum StateName {
    Active,
    Disabled,
    Deleted,
}

/// How a link redirects.
pub struct StatusCodeName;

impl utoipa::PartialSchema for StatusCodeName {
    fn schema() -> RefOr<Schema> {
        let statuses = [301, 302, 307, 308];
        let number = ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some(statuses));
        number.description(Some("How it redirects")).into()
    }
}

impl ToSchema for StatusCodeName {
    fn name() -> std::borrow::Cow<'static, str> {
        "RedirectStatus".into()
    }
}

/// What may be made of it.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
pub enum StateChange {
    Active,
    Disabled,
}

/// By what links are sorted.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes")]
pub enum SortName {
    CreatedAt,
    UpdatedAt,
    Clicks,
    Code,
}

/// Which end of a list comes first.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
pub enum OrderName {
    Asc,
    Desc,
}

/// How a link came to be.
#[derive(ToSchema)]
#[schema(as = LinkSource, rename_all = "lowercase")]
#[expect(dead_code, reason = "describes")]
pub enum LinkSourceName {
    Api,
    Web,
    Cli,
    Import,
}

/// A link that was made, or found.
#[derive(Serialize, ToSchema)]
pub struct CreatedLink {
    #[serde(flatten)]
    pub link: LinkView,
    /// A link to the same target was there and is handed back.
    pub reused: bool,
    /// It was disabled, expired or deleted, and is active again.
    pub revived: bool,
    /// What was sent and the link that was there does not have.
    pub not_applied: Vec<&'static str>,
}

/// What a new link is to be.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `Input::from_json` reads")]
pub struct NewLink {
    /// Where it leads.
    #[schema(min_length = 1, max_length = 65536, example = "https://example.com/")]
    target: String,
    /// Its path; else one is generated.
    #[schema(max_length = 64)]
    code: Option<String>,
    #[schema(value_type = Option<StatusCodeName>)]
    redirect_status: Option<u16>,
    /// Served up to and including this moment: RFC 3339, or Unix seconds.
    #[schema(value_type = Option<TimeInput>)]
    expires_at: Option<String>,
    #[schema(max_length = 500)]
    title: Option<String>,
    #[schema(max_length = 10000)]
    notes: Option<String>,
    /// At most 50, of at most 64 characters, without commas.
    #[schema(max_items = 50)]
    tags: Option<Vec<String>>,
    /// Leads to https only.
    https_only: Option<bool>,
    /// Never leads back to a domain served here.
    no_loop: Option<bool>,
    /// Free fields, at most 16 KB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// Make it anew where the code is a deleted link's.
    recreate: Option<bool>,
}

/// What to change about a link. What is not named stays.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what `Input::from_json` reads")]
pub struct LinkChange {
    /// Where it leads.
    #[schema(min_length = 1, max_length = 65536, nullable = false)]
    target: Option<String>,
    #[schema(value_type = Option<StatusCodeName>, nullable = false)]
    redirect_status: Option<u16>,
    /// null removes it.
    #[schema(value_type = Option<TimeInput>)]
    expires_at: Option<String>,
    #[schema(max_length = 500)]
    title: Option<String>,
    #[schema(max_length = 10000)]
    notes: Option<String>,
    #[schema(max_items = 50, nullable = false)]
    tags: Option<Vec<String>>,
    #[schema(nullable = false)]
    https_only: Option<bool>,
    #[schema(nullable = false)]
    no_loop: Option<bool>,
    #[schema(value_type = Option<Object>, nullable = false)]
    metadata: Option<Value>,
    #[schema(value_type = Option<StateChange>, nullable = false)]
    state: Option<String>,
}

/// RFC 3339, or Unix seconds.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes")]
pub enum TimeInput {
    /// RFC 3339; without a zone it is UTC.
    Text(String),
    /// Unix seconds.
    Seconds(i64),
}

impl LinkView {
    pub fn new(
        api: &Api,
        workspace: &Workspace,
        directory: &HostDirectory,
        link: &Link,
        total: Option<&Total>,
    ) -> Self {
        Self {
            id: link.id,
            workspace: workspace.slug.to_string(),
            domain: api.ops.short_urls.host(directory.domains(), workspace),
            code: link.code.clone(),
            short_url: api.ops.short_urls.short_url(directory, workspace, &link.code),
            target: link.target.clone(),
            state: link.state,
            expired: link.is_expired(api.ops.clock.now()),
            redirect_status: link.redirect_status,
            https_only: link.https_only,
            no_loop: link.no_loop,
            expires_at: link.expires_at,
            title: link.title.clone(),
            notes: link.notes.clone(),
            tags: link.tags.clone(),
            metadata: link.metadata.clone(),
            source: link.source,
            created_by: link.created_by.clone(),
            created_at: link.created_at,
            updated_at: link.updated_at,
            version: link.version,
            clicks: total.map_or(0, |total| total.clicks.cast_unsigned()),
            last_clicked_at: total.and_then(|total| total.last_click),
            hits: total.map_or(0, |total| (total.clicks + total.bots).cast_unsigned()),
            last_hit_at: total.and_then(|total| total.last_hit),
        }
    }

    /// As it was when it was made, or made again: not expired, whenever that is told.
    pub fn at_creation(self) -> Self {
        Self { expired: false, ..self }
    }
}

/// A link with its clicks. Clicks that cannot be read are an error: zero would be a lie.
pub(super) async fn view(api: &Api, workspace: &Workspace, link: &Link) -> Result<LinkView, ApiError> {
    let directory = api.directory();
    let subject = rlinks_clicks::rollup::RollupSubject::link(workspace.id, link.id);
    let totals = api.clicks().await?.totals(&[subject]).await?;
    Ok(LinkView::new(api, workspace, &directory, link, totals.get(&subject)))
}

pub(super) fn etag(link: &Link) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{}\"", link.version)).expect("a number is a header value")
}
