//! Looking at links at Cloudflare.

use std::cmp::Reverse;

use rlinks_core::link::route_object::{ClickTotals, RouteObjectError};
use rlinks_core::link::search;
use rlinks_core::{Code, Link, LinkState, Slug, Timestamp};
use rlinks_ops::{OpsError, Resource};

use super::Cloudflare;
use crate::backend::cloudflare::objects::{
    ROUTE_PREFIX, StoredObject, TOMBSTONE_PREFIX, Tombstone, route_key, tombstone_key,
};
use crate::backend::links::{LinkDetails, LinkQuery};
use crate::error::CliError;

/// Links held here at once: all must be read to know which are the newest.
const MAX_LISTED_LINKS: usize = 100_000;

impl Cloudflare {
    /// Links newest first; one more than wanted, to know whether there are more.
    pub(crate) async fn links(&self, wanted: &LinkQuery<'_>) -> Result<Vec<(Link, ClickTotals)>, CliError> {
        let prefix = wanted.prefix.unwrap_or_default().to_ascii_lowercase();
        let mut found = self.live_links(&prefix).await?;
        if wanted.deleted {
            found.extend(self.deleted_links(&prefix).await?);
        }
        let words = wanted.search.map(search::parse_query).unwrap_or_default();
        found.retain(|(link, _)| matches(link, wanted, &words));
        found.sort_by_key(|(link, _)| (Reverse(link.created_at), link.code.as_str().to_owned()));
        found.truncate(wanted.limit.saturating_add(1));
        Ok(found)
    }

    async fn live_links(&self, prefix: &str) -> Result<Vec<(Link, ClickTotals)>, CliError> {
        let keys = self.list_keys(ROUTE_PREFIX, prefix).await?;
        let values = self.api.get_all(&self.routes, &keys).await?;
        let mut found = Vec::with_capacity(values.len());
        for key in &keys {
            // A key that went meanwhile is gone.
            let Some(value) = values.get(key) else { continue };
            match parse_object(key, value) {
                Ok(kept) => found.push((kept.link, kept.stats)),
                Err(why) => self.output.warning(&format!("{key} is left out: {why}")),
            }
        }
        Ok(found)
    }

    async fn deleted_links(&self, prefix: &str) -> Result<Vec<(Link, ClickTotals)>, CliError> {
        let keys = self.list_keys(TOMBSTONE_PREFIX, prefix).await?;
        let values = self.api.get_all(&self.routes, &keys).await?;
        let tombstone = |key| serde_json::from_str::<Tombstone>(values.get(key)?).ok()?.link();
        Ok(keys.iter().filter_map(tombstone).collect())
    }

    async fn list_keys(&self, kind: &str, prefix: &str) -> Result<Vec<String>, CliError> {
        let keys = self.api.keys(&self.routes, &format!("{kind}{prefix}")).await?;
        if keys.len() > MAX_LISTED_LINKS {
            return Err(CliError::failed(format!("there are more than {MAX_LISTED_LINKS} of them"))
                .hint("list a part of them with --prefix"));
        }
        Ok(keys)
    }

    /// A link that is not deleted, now or as it was.
    pub(crate) async fn link(&self, code: &str, at: Option<Timestamp>) -> Result<LinkDetails, CliError> {
        match at {
            None => {
                let kept = self.stored_object(code).await?;
                Ok(self.link_details(kept.link, kept.stats))
            }
            Some(at) => self.link_at(code, at).await,
        }
    }

    /// From the log of changes, which is all that knows of the past.
    async fn link_at(&self, code: &str, at: Timestamp) -> Result<LinkDetails, CliError> {
        let entries = self.history(code).await?;
        let last = entries.iter().rfind(|entry| entry.ts <= at);
        let then = last.and_then(|entry| serde_json::from_str::<Link>(entry.after.as_ref()?.get()).ok());
        let then = then.filter(|link| link.state != LinkState::Deleted);
        let missing = || CliError::not_found(Resource::LinkAt(code.to_owned(), at));
        Ok(self.link_details(then.ok_or_else(missing)?, ClickTotals::default()))
    }

    /// What a link has counted: what its object says, and that is as new as the last `publish-stats`. Of a deleted one too.
    pub(crate) async fn stats(&self, code: &str) -> Result<(Code, ClickTotals), CliError> {
        if let Some(kept) = self.find(code).await? {
            return Ok((kept.link.code, kept.stats));
        }
        for code in code_spellings(code) {
            if let Some(kept) = self.tombstone(&code).await?.and_then(|tombstone| tombstone.object()) {
                return Ok((code, kept.stats));
            }
        }
        Err(CliError::not_found(Resource::Link(code.to_owned())))
    }

    // ---- one key ----

    /// A link that is not deleted, with all that lies there.
    pub(crate) async fn stored_object(&self, code: &str) -> Result<StoredObject, CliError> {
        if let Some(kept) = self.find(code).await? {
            return Ok(kept);
        }
        for code in code_spellings(code) {
            if self.tombstone(&code).await?.is_some() {
                return Err(OpsError::Deleted(Resource::Link(code.to_string())).into());
            }
        }
        Err(CliError::not_found(Resource::Link(code.to_owned())))
    }

    /// A link as the Worker finds it.
    pub(crate) async fn find(&self, code: &str) -> Result<Option<StoredObject>, CliError> {
        for code in code_spellings(code) {
            if let Some(kept) = self.object_at(&code).await? {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// The link under exactly this code.
    pub(crate) async fn object_at(&self, code: &Code) -> Result<Option<StoredObject>, CliError> {
        let value = self.api.get(&self.routes, &route_key(code)).await?;
        value
            .map(|value| StoredObject::parse(code, &value).map_err(|why| unreadable_error(code, why)))
            .transpose()
    }

    /// What is left of a link that was deleted.
    pub(crate) async fn tombstone(&self, code: &Code) -> Result<Option<Tombstone>, CliError> {
        let Some(value) = self.api.get(&self.routes, &tombstone_key(code)).await? else { return Ok(None) };
        let read = serde_json::from_slice(&value);
        read.map(Some)
            .map_err(|_| CliError::failed(format!("{} holds no tombstone of ours", tombstone_key(code))))
    }

    pub(crate) fn link_details(&self, link: Link, stats: ClickTotals) -> LinkDetails {
        let short_url = self.short_url(&link.code);
        LinkDetails { link, stats: Some(stats), short_url, workspace: Slug::MAIN.to_owned() }
    }
}

/// The link a key holds.
pub(crate) fn parse_object(key: &str, value: &str) -> Result<StoredObject, RouteObjectError> {
    let code = key
        .strip_prefix(ROUTE_PREFIX)
        .and_then(Code::from_path)
        .ok_or(RouteObjectError::InvalidField("key"))?;
    StoredObject::parse(&code, value.as_bytes())
}

/// How a code may be written in its key: as typed, and as the Worker looks it up.
pub(crate) fn code_spellings(code: &str) -> Vec<Code> {
    let Some(typed) = Code::from_path(code) else { return Vec::new() };
    let folded = Code::from_path(&typed.folded()).filter(|folded| *folded != typed);
    std::iter::once(typed).chain(folded).collect()
}

/// An object that is there and cannot be read is no missing link.
fn unreadable_error(code: &Code, why: RouteObjectError) -> CliError {
    let failure = CliError::failed(format!("{} cannot be read: {why}", route_key(code)));
    match why {
        RouteObjectError::UnsupportedVersion => {
            failure.hint("a newer rmax may have written it: use that one")
        }
        _ => failure.hint(format!(
            "nobody is redirected by it; `wrangler kv key get {}` shows it as it is",
            route_key(code)
        )),
    }
}

fn matches(link: &Link, wanted: &LinkQuery<'_>, words: &[String]) -> bool {
    let state = match link.state {
        LinkState::Active => true,
        LinkState::Disabled => wanted.disabled,
        LinkState::Deleted => wanted.deleted,
    };
    let has_words = || {
        let known = search::index_text(link);
        words.iter().all(|word| known.split(' ').any(|known| known.starts_with(word.as_str())))
    };
    state && wanted.tag.is_none_or(|tag| link.tags.iter().any(|known| known == tag)) && has_words()
}
