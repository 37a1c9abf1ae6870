//! Recording: what a serving thread does between deciding and answering. It touches memory, and the journal once.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rlinks_core::workspace::policy::UserAgentRetention;
use rlinks_core::{Id, Timestamp};

use crate::click::Device;
use crate::click::IpPrefix;
use crate::enrich::user_agent::{self, Memo};
use crate::journal::Lane;
use crate::journal::entry::{AgentBytes, Record};
use crate::time::day_of;
use crate::visitor_secrets::{Secret, Secrets, hash_agent, visitor};
use rlinks_core::click::attribution;

/// More of a user agent is not looked at.
const LONGEST_AGENT_BYTES: usize = 512;

/// The facts of one redirect, as the request brings them.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// When.
    pub now: Timestamp,
    /// Which link.
    pub link: Id,
    /// Whose.
    pub workspace: Id,
    /// Who asked. It goes no further than this struct.
    pub address: IpAddr,
    /// `User-Agent`.
    pub user_agent: &'a [u8],
    /// `Referer`.
    pub referrer: &'a [u8],
    /// What follows the `?`.
    pub query: &'a [u8],
    /// What a trusted proxy says about the country.
    pub country: Option<[u8; 2]>,
    /// A browser that only looks ahead.
    pub prefetch: bool,
    /// What the policy keeps of the user agent.
    pub keep: UserAgentRetention,
}

/// Records the clicks of one serving thread.
pub struct Recorder {
    lane: Arc<Lane>,
    secrets: Arc<Secrets>,
    local: Mutex<Local>,
}

/// What the thread remembers, so that it asks nobody.
struct Local {
    epoch: u64,
    day: i64,
    salt: Secret,
    agent_key: Secret,
    memo: Memo,
    /// One visitor often asks several times in a row.
    last: Last,
}

/// The last user agent.
#[derive(Default)]
struct Last {
    text: Vec<u8>,
    hash: u64,
    /// What was read from it; empty until somebody wants to know.
    read: Vec<u8>,
}

impl Recorder {
    /// A recorder that writes to a lane of its own.
    pub fn new(lane: Arc<Lane>, secrets: Arc<Secrets>) -> Self {
        let local = Local {
            epoch: 0,
            day: i64::MIN,
            salt: [0; 16],
            agent_key: [0; 16],
            memo: Memo::default(),
            last: Last::default(),
        };
        Self { lane, secrets, local: Mutex::new(local) }
    }

    /// Notes a click for the journal. It is there, for whoever looks after `kill -9`, once [`write`](Self::write) is back, and before that
    /// nobody may be answered. Whatever goes wrong is counted and stops nothing.
    pub fn note(&self, facts: &Facts<'_>) {
        let raw = &facts.user_agent[..facts.user_agent.len().min(LONGEST_AGENT_BYTES)];
        let mut local = self.local.lock();
        local.look_up(&self.secrets, day_of(facts.now));
        let ua_hash = local.hash(raw);
        let visitor = visitor(&local.salt, facts.address, ua_hash);
        let cut: Cow<'_, [u8]>;
        let (kept, bot) = match facts.keep {
            UserAgentRetention::Truncated(characters) => {
                cut = cut_to(raw, characters);
                (AgentBytes::Text(&cut), facts.prefetch)
            }
            UserAgentRetention::Hashed => {
                let read = local.read(raw);
                (AgentBytes::Read(read), facts.prefetch || user_agent::device_of(read) == Device::Bot)
            }
        };
        let (referrer, utm) =
            (attribution::strip_referrer(facts.referrer), attribution::parse_utm(facts.query));
        self.lane.note(&Record {
            ts: facts.now,
            link: facts.link,
            workspace: facts.workspace,
            visitor,
            prefix: Some(IpPrefix::from_address(facts.address).as_i64()),
            country: facts.country,
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
    pub fn has_noted(&self) -> bool {
        self.lane.has_noted()
    }

    /// Writes the clicks that are noted.
    pub fn write(&self) {
        self.lane.write();
    }
}

impl Local {
    /// Asks for the secrets when the day, or somebody's mind, has changed.
    fn look_up(&mut self, secrets: &Secrets, day: i64) {
        let epoch = secrets.epoch();
        if (self.day, self.epoch) != (day, epoch) {
            (self.day, self.epoch) = (day, epoch);
            (self.salt, self.agent_key) = (secrets.salt(day), secrets.agent_key());
            self.last = Last { hash: hash_agent(&self.agent_key, &[]), ..Last::default() };
        }
    }

    fn hash(&mut self, user_agent: &[u8]) -> u64 {
        if self.last.text != user_agent {
            self.last.hash = hash_agent(&self.agent_key, user_agent);
            self.last.read.clear();
            self.last.text.clear();
            self.last.text.extend_from_slice(user_agent);
        }
        self.last.hash
    }

    /// What the user agent says that was hashed just now.
    fn read(&mut self, user_agent: &[u8]) -> &[u8] {
        if self.last.read.is_empty() {
            self.last.read.extend_from_slice(self.memo.get_or_read(self.last.hash, user_agent));
        }
        &self.last.read
    }
}

fn cut_to(user_agent: &[u8], characters: u32) -> Cow<'_, [u8]> {
    // A character is at least a byte, so there is nothing to cut, and nothing to read here.
    if user_agent.len() <= characters as usize {
        return Cow::Borrowed(user_agent);
    }
    let text = String::from_utf8_lossy(user_agent);
    let end = text.char_indices().nth(characters as usize).map_or(text.len(), |(at, _)| at);
    Cow::Owned(text.as_bytes()[..end].to_vec())
}
