//! What the keys of a namespace hold: route objects and tombstones, and how they become links and links become them.
//!
//! Core reads an object, upgrades it and checks what routing depends on. Here the rest of it becomes a link as the other places
//! give it, and a changed link becomes an object again that has lost nothing it had before.

use std::collections::BTreeMap;

use rlinks_core::link::route_object::{
    CURRENT_VERSION, ClickTotals, ParsedRoute, RouteObject, RouteObjectError,
};
use rlinks_core::{Actor, Code, Id, Link, LinkSource, LinkState, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How keys of links begin.
pub(crate) const ROUTE_PREFIX: &str = "route:";
/// How keys of deleted links begin.
pub(crate) const TOMBSTONE_PREFIX: &str = "tombstone:";

/// The fields of an object we write ourselves. All others are kept as they are.
const OWN_FIELDS: [&str; 12] = [
    "v",
    "code",
    "target",
    "status",
    "created_at",
    "updated_at",
    "created_by",
    "meta",
    "rules",
    "stats",
    "redirect_status",
    "title",
];

pub(crate) fn route_key(code: &Code) -> String {
    format!("{ROUTE_PREFIX}{code}")
}

pub(crate) fn tombstone_key(code: &Code) -> String {
    format!("{TOMBSTONE_PREFIX}{code}")
}

/// A link as it lies in its namespace.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    pub(crate) link: Link,
    pub(crate) stats: ClickTotals,
    /// The version it was written in.
    pub(crate) v: u64,
    /// The whole object, upgraded.
    object: Map<String, Value>,
    /// What it was when it was read.
    pub(crate) snapshot: ObjectSnapshot,
}

/// A value as it was seen, to know later whether somebody has changed it. Counting is no change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObjectSnapshot {
    Missing,
    Object(Map<String, Value>),
    /// Nothing we could have written.
    Bytes(Vec<u8>),
}

impl ObjectSnapshot {
    pub(crate) fn from_value(value: Option<&[u8]>) -> Self {
        match value.map(|value| (value, serde_json::from_slice(value))) {
            None => Self::Missing,
            Some((_, Ok(Value::Object(mut object)))) => {
                object.remove("stats");
                Self::Object(object)
            }
            Some((value, _)) => Self::Bytes(value.to_vec()),
        }
    }
}

impl StoredObject {
    /// Reads the object of a code.
    pub(crate) fn parse(code: &Code, value: &[u8]) -> Result<Self, RouteObjectError> {
        let read = ParsedRoute::parse(value)?;
        // One link's object under another's key would be served as the other.
        if read.code != *code {
            return Err(RouteObjectError::InvalidField("code"));
        }
        let link = link_from_route(&read);
        let stats = read.rest.get("stats").and_then(|stats| ClickTotals::deserialize(stats).ok());
        Ok(Self {
            link,
            stats: stats.unwrap_or_default(),
            v: read.v,
            object: read.rest,
            snapshot: ObjectSnapshot::from_value(Some(value)),
        })
    }

    /// Whether it was written by an older version.
    pub(crate) const fn is_outdated(&self) -> bool {
        self.v < CURRENT_VERSION
    }

    /// Whether it has fields no link has.
    pub(crate) fn has_unknown_fields(&self) -> bool {
        self.object.keys().any(|name| !OWN_FIELDS.contains(&name.as_str()))
    }

    /// Its value after it became this link: what we do not know stays.
    pub(crate) fn updated_value(&self, link: &Link, stats: ClickTotals) -> String {
        object_value(link, stats, &self.object)
    }
}

/// The value of a new link.
pub(crate) fn new_value(link: &Link, stats: ClickTotals) -> String {
    object_value(link, stats, &Map::new())
}

/// An object with the fields we do not know behind our own.
#[derive(Serialize)]
struct FullObject<'a> {
    #[serde(flatten)]
    own: RouteObject,
    #[serde(flatten)]
    rest: BTreeMap<&'a str, &'a Value>,
}

fn object_value(link: &Link, stats: ClickTotals, object: &Map<String, Value>) -> String {
    let rest = object.iter().filter(|(name, _)| !OWN_FIELDS.contains(&name.as_str()));
    let rest = rest.map(|(name, value)| (name.as_str(), value)).collect();
    serde_json::to_string(&FullObject { own: RouteObject::from_link(link, stats), rest })
        .expect("an object is JSON")
}

/// The same object with other numbers and nothing else touched: not even its version. None where it has these numbers, or is no
/// object.
pub(crate) fn value_with_stats(value: &str, stats: ClickTotals) -> Option<String> {
    /// An object in the order a person would write it.
    struct Ordered<'a>(&'a Map<String, Value>);
    impl Serialize for Ordered<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let ours = OWN_FIELDS.iter().filter_map(|name| self.0.get_key_value(*name));
            let rest = self.0.iter().filter(|(name, _)| !OWN_FIELDS.contains(&name.as_str()));
            serializer.collect_map(ours.chain(rest))
        }
    }
    let Ok(Value::Object(mut object)) = serde_json::from_str(value) else { return None };
    let stats = serde_json::to_value(stats).expect("two numbers are JSON");
    if object.get("stats") == Some(&stats) {
        return None;
    }
    object.insert("stats".to_owned(), stats);
    Some(serde_json::to_string(&Ordered(&object)).expect("an object is JSON"))
}

/// Whether a published object is what its link says, numbers aside.
pub(crate) fn is_published(link: &Link, value: Option<&String>) -> bool {
    value.is_some_and(|there| {
        ObjectSnapshot::from_value(Some(there.as_bytes()))
            == ObjectSnapshot::from_value(Some(
                crate::backend::cloudflare::objects::new_value(link, ClickTotals::default()).as_bytes(),
            ))
    })
}

fn link_from_route(read: &ParsedRoute) -> Link {
    let text = |name: &str| read.rest.get(name).and_then(Value::as_str);
    let time = |name| text(name).and_then(|text| Timestamp::parse(text).ok());
    let updated_at = time("updated_at").or_else(|| time("created_at")).unwrap_or(Timestamp::from_ms(0));
    let mut meta = match read.rest.get("meta") {
        Some(Value::Object(meta)) => meta.clone(),
        _ => Map::new(),
    };
    let notes = meta.remove("notes").and_then(|notes| notes.as_str().map(str::to_owned));
    let mut tags: Vec<String> = match meta.remove("tags") {
        Some(Value::Array(tags)) => tags.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    tags.sort();
    tags.dedup();
    Link {
        // Here links are known by their codes, and by when they were changed.
        id: Id::from_i64(0),
        workspace: Id::from_i64(0),
        version: 0,
        generated: false,
        source: LinkSource::Cli,
        code: read.code.clone(),
        target: read.target.clone(),
        redirect_status: read.redirect_status,
        state: read.state,
        https_only: read.https_only,
        no_loop: read.no_loop,
        expires_at: read.expires_at,
        title: text("title").map(str::to_owned),
        notes: notes.filter(|notes| !notes.is_empty()),
        tags,
        metadata: meta,
        created_by: Actor::from_stored(text("created_by").unwrap_or("unknown").to_owned()),
        created_at: time("created_at").unwrap_or(updated_at),
        updated_at,
    }
}

/// What a deletion leaves: the code stays taken, and the link can be brought back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub(crate) code: Code,
    pub(crate) deleted_at: Timestamp,
    pub(crate) deleted_by: String,
    /// The object as it was. None where a store published the deletion: then the store has it.
    pub(crate) route: Option<Map<String, Value>>,
}

impl Tombstone {
    /// Of a link that comes as a deleted one. What it was before nobody says; brought back, it answers.
    pub(crate) fn from_deleted_link(link: &Link, stats: ClickTotals, by: &Actor) -> Self {
        let alive = Link { state: LinkState::Active, ..link.clone() };
        let route = serde_json::from_str(&new_value(&alive, stats)).expect("we have just written an object");
        let (code, deleted_at) = (link.code.clone(), link.updated_at);
        Self { code, deleted_at, deleted_by: by.to_string(), route: Some(route) }
    }

    /// Of a link that is being deleted.
    pub(crate) fn from_object(kept: &StoredObject, by: &Actor, now: Timestamp) -> Self {
        let value = kept.updated_value(&kept.link, kept.stats);
        let route = serde_json::from_str(&value).expect("we have just written an object");
        Self { code: kept.link.code.clone(), deleted_at: now, deleted_by: by.to_string(), route: Some(route) }
    }

    pub(crate) fn value(&self) -> String {
        serde_json::to_string(self).expect("a tombstone is JSON")
    }

    /// The link it was, as it was.
    pub(crate) fn object(&self) -> Option<StoredObject> {
        let value = serde_json::to_vec(self.route.as_ref()?).ok()?;
        StoredObject::parse(&self.code, &value).ok()
    }

    /// The link as lists show it.
    pub(crate) fn link(&self) -> Option<(Link, ClickTotals)> {
        let StoredObject { link, stats, .. } = self.object()?;
        Some((Link { state: LinkState::Deleted, updated_at: self.deleted_at, ..link }, stats))
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    const SEED: &str = r#"{"v":1,"code":"parity","target":"https://paritybench.rmax.tech","status":"active","created_at":"2026-01-12T12:41:00Z","updated_at":"2026-01-12T12:41:00Z","created_by":"max@rmax.ai","meta":{"notes":"canonical","tags":["research","benchmark"],"owner":"x"},"rules":{"https_only":true,"no_loop":true,"expires_at":null},"stats":{"hits":12442,"last_hit":"2026-01-12T13:21:00Z"},"future":[1]}"#;
    const V0: &str = r#"{"v":0,"code":"old","url":"https://example.com/old","enabled":false,"expires":1893456000,"note":"from before"}"#;

    fn code(text: &str) -> Code {
        Code::from_path(text).unwrap()
    }

    #[test]
    fn object_is_written_back_with_every_field_it_had() {
        let kept = StoredObject::parse(&code("parity"), SEED.as_bytes()).unwrap();
        assert_eq!(kept.stats.hits, 12442);
        assert_eq!(kept.link.tags, ["benchmark", "research"]);
        assert_snapshot!(kept.updated_value(&kept.link, kept.stats), @r#"{"v":1,"code":"parity","target":"https://paritybench.rmax.tech","status":"active","created_at":"2026-01-12T12:41:00Z","updated_at":"2026-01-12T12:41:00Z","created_by":"max@rmax.ai","meta":{"notes":"canonical","owner":"x","tags":["benchmark","research"]},"rules":{"https_only":true,"no_loop":true,"expires_at":null},"stats":{"hits":12442,"last_hit":"2026-01-12T13:21:00Z"},"future":[1]}"#);
    }

    #[test]
    fn version_0_object_is_written_as_version_1() {
        let kept = StoredObject::parse(&code("old"), V0.as_bytes()).unwrap();
        assert!(kept.is_outdated());
        assert_snapshot!(kept.updated_value(&kept.link, kept.stats), @r#"{"v":1,"code":"old","target":"https://example.com/old","status":"disabled","created_at":"1970-01-01T00:00:00Z","updated_at":"1970-01-01T00:00:00Z","created_by":"unknown","meta":{"notes":null,"tags":[]},"rules":{"https_only":true,"no_loop":true,"expires_at":"2030-01-01T00:00:00Z"},"stats":{"hits":0,"last_hit":null},"note":"from before"}"#);
    }

    #[test]
    fn object_under_the_wrong_key_is_rejected() {
        assert!(matches!(
            StoredObject::parse(&code("other"), SEED.as_bytes()),
            Err(RouteObjectError::InvalidField("code"))
        ));
    }

    #[test]
    fn updating_click_totals_changes_nothing_else() {
        let stats = ClickTotals { hits: 3, last_hit: Some(Timestamp::from_ms(0)) };
        let value = value_with_stats(V0, stats).unwrap();
        assert_snapshot!(value, @r#"{"v":0,"code":"old","stats":{"hits":3,"last_hit":"1970-01-01T00:00:00Z"},"enabled":false,"expires":1893456000,"note":"from before","url":"https://example.com/old"}"#);
        assert_eq!(value_with_stats(&value, stats), None);
        assert_eq!(value_with_stats("[]", stats), None);
        assert_eq!(
            ObjectSnapshot::from_value(Some(value.as_bytes())),
            ObjectSnapshot::from_value(Some(V0.as_bytes()))
        );
        assert_ne!(
            ObjectSnapshot::from_value(Some(SEED.as_bytes())),
            ObjectSnapshot::from_value(Some(V0.as_bytes()))
        );
        assert_ne!(ObjectSnapshot::from_value(None), ObjectSnapshot::from_value(Some(b"")));
    }

    #[test]
    fn tombstone_restores_the_link_unchanged() {
        let kept = StoredObject::parse(&code("parity"), SEED.as_bytes()).unwrap();
        let tombstone = Tombstone::from_object(&kept, &Actor::operator("max"), Timestamp::from_ms(5));
        let read: Tombstone = serde_json::from_str(&tombstone.value()).unwrap();
        let back = read.object().unwrap();
        assert_eq!((&back.link, back.stats), (&kept.link, kept.stats));
        assert!(back.updated_value(&back.link, back.stats).ends_with(r#","future":[1]}"#));
        assert_eq!(read.link().unwrap().0.state, LinkState::Deleted);
        let published = Tombstone { route: None, ..read };
        assert!(published.object().is_none() && published.link().is_none());
    }
}
