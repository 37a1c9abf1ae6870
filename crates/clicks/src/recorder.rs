//! Recording: what a serving thread does between deciding and answering. It touches memory, and the journal once.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_core::workspace::policy::UserAgentRetention;
use rlinks_core::{Id, Timestamp};

use crate::click::Device;
use crate::click::IpPrefix;
use crate::enrich::user_agent::{self, UserAgentCache};
use crate::journal::SegmentWriter;
use crate::journal::entry::{JournalEntry, UserAgentBytes};
use crate::time::day_of;
use crate::visitor_secrets::{HashKey, VisitorSecrets, hash_user_agent, visitor_key};
use rlinks_core::click::attribution;

/// More of a user agent is not looked at.
const MAX_USER_AGENT_BYTES: usize = 512;

/// The facts of one redirect, as the request brings them.
#[derive(Clone, Copy, Debug)]
pub struct ClickContext<'a> {
    pub now: Timestamp,
    pub link: Id,
    pub workspace: Id,
    /// Who asked. It goes no further than this struct.
    pub address: IpAddr,
    // `User-Agent`.
    pub user_agent: &'a [u8],
    // `Referer`.
    pub referrer: &'a [u8],
    /// What follows the `?`.
    pub query: &'a [u8],
    /// What a trusted proxy says about the country.
    pub country: Option<[u8; 2]>,
    /// A browser that only looks ahead.
    pub prefetch: bool,
    /// What the policy keeps of the user agent.
    pub user_agent_retention: UserAgentRetention,
}

/// Records the clicks of one serving thread.
pub struct Recorder {
    writer: Arc<SegmentWriter>,
    secrets: Arc<VisitorSecrets>,
    cache: Mutex<ThreadCache>,
}

/// What the thread remembers, so that it asks nobody.
struct ThreadCache {
    epoch: u64,
    day: i64,
    salt: HashKey,
    agent_key: HashKey,
    user_agents: UserAgentCache,
    /// One visitor often asks several times in a row.
    last: LastUserAgent,
}

/// The last user agent.
#[derive(Default)]
struct LastUserAgent {
    text: Vec<u8>,
    hash: u64,
    /// What was read from it; empty until somebody wants to know.
    parsed: Vec<u8>,
}

impl Recorder {
    /// A recorder that writes to a lane of its own.
    pub fn new(writer: Arc<SegmentWriter>, secrets: Arc<VisitorSecrets>) -> Self {
        let cache = ThreadCache {
            epoch: 0,
            day: i64::MIN,
            salt: [0; 16],
            agent_key: [0; 16],
            user_agents: UserAgentCache::default(),
            last: LastUserAgent::default(),
        };
        Self { writer, secrets, cache: Mutex::new(cache) }
    }

    /// Notes a click for the journal. It is there, for whoever looks after `kill -9`, once [`flush`](Self::flush) is back, and before that
    /// nobody may be answered. Whatever goes wrong is counted and stops nothing.
    pub fn stage(&self, context: &ClickContext<'_>) {
        let raw = &context.user_agent[..context.user_agent.len().min(MAX_USER_AGENT_BYTES)];
        let mut cache = self.cache.lock();
        cache.refresh(&self.secrets, day_of(context.now));
        let ua_hash = cache.hash(raw);
        let visitor = visitor_key(&cache.salt, context.address, ua_hash);
        let cut: Cow<'_, [u8]>;
        let (kept, bot) = match context.user_agent_retention {
            UserAgentRetention::Truncated(characters) => {
                cut = truncate_to(raw, characters);
                (UserAgentBytes::Raw(&cut), context.prefetch)
            }
            UserAgentRetention::Hashed => {
                let read = cache.parsed(raw);
                (UserAgentBytes::Parsed(read), context.prefetch || user_agent::device_of(read) == Device::Bot)
            }
        };
        let (referrer, utm) =
            (attribution::strip_referrer(context.referrer), attribution::parse_utm(context.query));
        self.writer.stage(&JournalEntry {
            ts: context.now,
            link: context.link,
            workspace: context.workspace,
            visitor,
            prefix: Some(IpPrefix::from_address(context.address).as_i64()),
            country: context.country,
            bot,
            ua_hash,
            agent: kept,
            referrer: &referrer,
            utm_source: utm.source.as_deref().unwrap_or_default(),
            utm_medium: utm.medium.as_deref().unwrap_or_default(),
            utm_campaign: utm.campaign.as_deref().unwrap_or_default(),
        });
    }

    /// Whether clicks are noted and not yet written.
    pub fn has_staged(&self) -> bool {
        self.writer.has_staged()
    }

    /// Writes the clicks that are noted.
    pub fn flush(&self) {
        self.writer.flush();
    }
}

impl ThreadCache {
    /// Asks for the secrets when the day, or somebody's mind, has changed.
    fn refresh(&mut self, secrets: &VisitorSecrets, day: i64) {
        let epoch = secrets.epoch();
        if (self.day, self.epoch) != (day, epoch) {
            (self.day, self.epoch) = (day, epoch);
            (self.salt, self.agent_key) = (secrets.salt(day), secrets.agent_key());
            self.last =
                LastUserAgent { hash: hash_user_agent(&self.agent_key, &[]), ..LastUserAgent::default() };
        }
    }

    fn hash(&mut self, user_agent: &[u8]) -> u64 {
        if self.last.text != user_agent {
            self.last.hash = hash_user_agent(&self.agent_key, user_agent);
            self.last.parsed.clear();
            self.last.text.clear();
            self.last.text.extend_from_slice(user_agent);
        }
        self.last.hash
    }

    /// What the user agent says that was hashed just now.
    fn parsed(&mut self, user_agent: &[u8]) -> &[u8] {
        if self.last.parsed.is_empty() {
            self.last.parsed.extend_from_slice(self.user_agents.get_or_parse(self.last.hash, user_agent));
        }
        &self.last.parsed
    }
}

fn truncate_to(user_agent: &[u8], characters: u32) -> Cow<'_, [u8]> {
    // A character is at least a byte, so there is nothing to cut, and nothing to read here.
    if user_agent.len() <= characters as usize {
        return Cow::Borrowed(user_agent);
    }
    let text = String::from_utf8_lossy(user_agent);
    let end = text.char_indices().nth(characters as usize).map_or(text.len(), |(at, _)| at);
    Cow::Owned(text.as_bytes()[..end].to_vec())
}
