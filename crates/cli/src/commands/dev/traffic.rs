//! People, bots and links that never were: who clicks what, when, from where and with what. Pure: a seed gives the same always.

use rlinks_clicks::Device;
use rlinks_clicks::IpPrefix;
use rlinks_clicks::enrich::user_agent;
use rlinks_clicks::journal::entry::{JournalEntry, UserAgentBytes};
use rlinks_clicks::time::{HOUR_MS, day_of};
use rlinks_clicks::visitor_secrets::hash_user_agent;
use rlinks_core::workspace::policy::UserAgentRetention;
use rlinks_core::{Id, Timestamp, Workspace};

/// Of a hundred clicks so many are bots'.
const BOT_PERCENT: u64 = 6;
/// Of a hundred people so many were here before.
const RETURNING_PERCENT: u64 = 30;
/// Of a hundred who come back so many come back to the same link.
const SAME_LINK_PERCENT: u64 = 50;
/// People who may come back.
const MAX_REMEMBERED_VISITORS: usize = 4096;
/// Of a hundred addresses so many are of the newer kind.
const IPV6_PERCENT: u64 = 25;

// ---- randomness ----

/// `SplitMix64`: small, fast and good enough for people who never were.
struct Rng(u64);

impl Rng {
    /// Dice of their own for each purpose and number, so that nothing depends on the order of asking.
    fn for_purpose(seed: u64, purpose: u64, number: u64) -> Self {
        Self(mix(mix(seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15)) ^ number))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Less than `end`, each equally likely.
    fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or_default()
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[usize::try_from(self.below(list.len() as u64)).unwrap_or_default()]
    }

    /// One of several, each as likely as its weight says.
    fn weighted<'a, T>(&mut self, list: &'a [(u64, T)]) -> &'a T {
        let mut at = self.below(list.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in list {
            if at < *weight {
                return value;
            }
            at -= weight;
        }
        &list[list.len() - 1].1
    }
}

const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// What dice are for.
const PURPOSE_LINKS: u64 = 1;
const PURPOSE_ORDER: u64 = 2;
const PURPOSE_TIMES: u64 = 3;
const PURPOSE_PEOPLE: u64 = 4;
const PURPOSE_KEYS: u64 = 5;

// ---- links ----

/// A link to be made.
pub(super) struct SampleLink {
    pub(super) code: String,
    pub(super) target: String,
    pub(super) title: String,
    pub(super) tag: &'static str,
}

/// At most six letters each: the shortest codes any policy allows are 20 characters long.
const TOPICS: [&str; 16] = [
    "spring", "summer", "autumn", "winter", "travel", "garden", "coffee", "music", "design", "rust", "data",
    "cloud", "photo", "health", "school", "sport",
];
const KINDS: [&str; 12] = [
    "guide", "offer", "talk", "paper", "event", "survey", "notes", "video", "shop", "signup", "docs", "demo",
];
const HOSTS: [&str; 6] = [
    "www.example.com",
    "docs.example.com",
    "blog.example.org",
    "shop.example.net",
    "events.example.org",
    "media.example.net",
];
const TAGS: [&str; 6] = ["marketing", "social", "print", "email", "internal", "partners"];

/// The link of a number.
pub(super) fn sample_link(seed: u64, number: u32) -> SampleLink {
    let mut rng = Rng::for_purpose(seed, PURPOSE_LINKS, number.into());
    let (topic, kind) = (*rng.one_of(&TOPICS), *rng.one_of(&KINDS));
    let mut title = topic.to_owned();
    title[..1].make_ascii_uppercase();
    SampleLink {
        code: format!("{topic}-{kind}-{}", base36(number)),
        target: format!("https://{}/{topic}/{kind}/{}", rng.one_of(&HOSTS), number + 1),
        title: format!("{title} {kind}"),
        tag: rng.one_of::<&str>(&TAGS),
    }
}

fn base36(mut number: u32) -> String {
    const DIGITS: [u8; 36] = *b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[number as usize % DIGITS.len()]));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// Decides which links are liked most.
pub(super) fn shuffle<T>(seed: u64, list: &mut [T]) {
    let mut rng = Rng::for_purpose(seed, PURPOSE_ORDER, 0);
    for at in (1..list.len()).rev() {
        list.swap(at, usize::try_from(rng.below(at as u64 + 1)).unwrap_or_default());
    }
}

// ---- time ----

/// How busy each hour of a UTC day is, and each day of a week from Monday.
const BY_HOUR: [u64; 24] =
    [30, 22, 17, 14, 13, 16, 25, 42, 62, 76, 84, 86, 82, 86, 92, 95, 92, 86, 80, 78, 74, 66, 54, 41];
const BY_WEEKDAY: [u64; 7] = [100, 106, 104, 101, 92, 64, 70];

/// So many moments of some days up to the last full hour, in order: another run in the same hour gives the same.
pub(super) fn click_times(
    seed: u64,
    clicks: u64,
    days: u32,
    now: Timestamp,
) -> impl Iterator<Item = Timestamp> {
    let last = now.ms().div_euclid(HOUR_MS);
    // Just after midnight the last full hour is yesterday's.
    let first = (last - 1).div_euclid(24) * 24 - (i64::from(days) - 1) * 24;
    let hours = first..last;
    let total: u64 = hours.clone().map(weight).sum();
    let mut rng = Rng::for_purpose(seed, PURPOSE_TIMES, 0);
    let (mut passed, mut done) = (0, 0);
    hours.flat_map(move |hour| {
        passed += weight(hour);
        let upto = u64::try_from(u128::from(clicks) * u128::from(passed) / u128::from(total.max(1)));
        let upto = upto.unwrap_or(clicks);
        let count = upto - done;
        done = upto;
        let mut rng = Rng(rng.next());
        // One somewhere in each of as many equal pieces of the hour.
        (0..count).map(move |at| {
            let fraction = (u128::from(at) << 32 | u128::from(rng.next() >> 32)) * 3_600_000;
            let offset = i64::try_from((fraction / u128::from(count)) >> 32).unwrap_or_default();
            Timestamp::from_ms(hour * HOUR_MS + offset)
        })
    })
}

fn weight(hour: i64) -> u64 {
    let of_day = usize::try_from(hour.rem_euclid(24)).unwrap_or_default();
    // 1970 began on a Thursday.
    let weekday = usize::try_from((hour.div_euclid(24) + 3).rem_euclid(7)).unwrap_or_default();
    BY_HOUR[of_day] * BY_WEEKDAY[weekday]
}

// ---- people ----

pub(super) struct Traffic<'a> {
    seed: u64,
    workspace: Id,
    links: &'a [Id],
    /// How likely the links up to each are, together.
    popularity: Vec<u64>,
    agents: Vec<(u64, usize)>,
    bots: Vec<(u64, usize)>,
    agent_samples: Vec<SampleAgent>,
    remembered: Vec<SampleVisitor>,
    visitor_count: u64,
    rng: Rng,
}

/// A user agent as the workspace's policy keeps it.
struct SampleAgent {
    hash: u64,
    text: String,
    read: Box<[u8]>,
    hashed: bool,
}

#[derive(Clone, Copy)]
struct SampleVisitor {
    number: u64,
    agent: usize,
    country: [u8; 2],
    prefix: i64,
    link: usize,
}

impl<'a> Traffic<'a> {
    /// People who click these links, the first ones most.
    pub(super) fn new(seed: u64, workspace: &Workspace, links: &'a [Id]) -> Self {
        let mut sum = 0;
        let liked = (1..=links.len() as u64).map(|rank| {
            sum += 1_000_000_000_000 / rank;
            sum
        });
        let mut key = [0; 16];
        key[..8].copy_from_slice(&mix(seed).to_le_bytes());
        let (mut known, mut agents, mut bots) = (Vec::new(), Vec::new(), Vec::new());
        for (list, into) in [(browser_agents(), &mut agents), (bot_agents(), &mut bots)] {
            for (weight, text) in list {
                into.push((weight, known.len()));
                known.push(SampleAgent::new(&text, &key, workspace.policy.user_agent));
            }
        }
        Self {
            seed,
            workspace: workspace.id,
            links,
            popularity: liked.collect(),
            agents,
            bots,
            agent_samples: known,
            remembered: Vec::new(),
            visitor_count: 0,
            rng: Rng::for_purpose(seed, PURPOSE_PEOPLE, 0),
        }
    }

    /// What somebody leaves at a moment.
    pub(super) fn click(&mut self, ts: Timestamp) -> JournalEntry<'_> {
        let is_bot = self.rng.percent(BOT_PERCENT);
        let person = if is_bot { self.new_visitor(true) } else { self.next_visitor() };
        let source = if is_bot { &DIRECT } else { self.rng.weighted(&SOURCES) };
        let campaign = if source.campaign { *self.rng.one_of(&CAMPAIGNS) } else { "" };
        let agent = &self.agent_samples[person.agent];
        let day = day_of(ts).cast_unsigned();
        JournalEntry {
            ts,
            link: self.links[person.link],
            workspace: self.workspace,
            // Nobody can be recognised the day after.
            visitor: mix(mix(self.seed ^ PURPOSE_KEYS ^ day << 20) ^ person.number),
            prefix: Some(person.prefix),
            country: Some(person.country),
            bot: agent.hashed && user_agent::device_of(&agent.read) == Device::Bot,
            ua_hash: agent.hash,
            agent: if agent.hashed {
                UserAgentBytes::Parsed(&agent.read)
            } else {
                UserAgentBytes::Raw(agent.text.as_bytes())
            },
            referrer: source.referrer.as_bytes(),
            utm_source: source.utm_source,
            utm_medium: source.utm_medium,
            utm_campaign: campaign,
        }
    }

    /// One who comes back, or one who is new.
    fn next_visitor(&mut self) -> SampleVisitor {
        if !self.remembered.is_empty() && self.rng.percent(RETURNING_PERCENT) {
            let person = *self.rng.one_of(&self.remembered);
            let same = self.rng.percent(SAME_LINK_PERCENT);
            return SampleVisitor { link: if same { person.link } else { self.link() }, ..person };
        }
        let person = self.new_visitor(false);
        if self.remembered.len() < MAX_REMEMBERED_VISITORS {
            self.remembered.push(person);
        } else {
            let at = usize::try_from(self.rng.below(MAX_REMEMBERED_VISITORS as u64)).unwrap_or_default();
            self.remembered[at] = person;
        }
        person
    }

    fn new_visitor(&mut self, bot: bool) -> SampleVisitor {
        self.visitor_count += 1;
        let agent = *self.rng.weighted(if bot { &self.bots } else { &self.agents });
        let country = **self.rng.weighted(&COUNTRIES);
        let bits = self.rng.next().to_le_bytes();
        let prefix = if self.rng.percent(IPV6_PERCENT) {
            IpPrefix::V6([0x2A, bits[0] & 0x0F, bits[1], bits[2], bits[3], bits[4]])
        } else {
            IpPrefix::V4([*self.rng.one_of(&NETWORKS), bits[0], bits[1]])
        };
        SampleVisitor {
            number: self.visitor_count,
            agent,
            country,
            prefix: prefix.as_i64(),
            link: self.link(),
        }
    }

    fn link(&mut self) -> usize {
        let at = self.rng.below(self.popularity.last().copied().unwrap_or(1));
        self.popularity.partition_point(|sum| *sum <= at).min(self.links.len() - 1)
    }
}

impl SampleAgent {
    fn new(text: &str, key: &[u8; 16], keep: UserAgentRetention) -> Self {
        let read = user_agent::encode(&user_agent::parse(text));
        let (text_kept, hashed) = match keep {
            UserAgentRetention::Hashed => (String::new(), true),
            UserAgentRetention::Truncated(characters) => {
                (text.chars().take(characters as usize).collect(), false)
            }
        };
        Self { hash: hash_user_agent(key, text.as_bytes()), text: text_kept, read, hashed }
    }
}

// ---- where they come from ----

struct TrafficSource {
    referrer: &'static str,
    utm_source: &'static str,
    utm_medium: &'static str,
    campaign: bool,
}

const DIRECT: TrafficSource = site("");

const fn site(referrer: &'static str) -> TrafficSource {
    TrafficSource { referrer, utm_source: "", utm_medium: "", campaign: false }
}

const fn tagged(referrer: &'static str, utm_source: &'static str, utm_medium: &'static str) -> TrafficSource {
    TrafficSource { referrer, utm_source, utm_medium, campaign: true }
}

const CAMPAIGNS: [&str; 6] =
    ["spring-sale", "launch", "newsletter-week", "black-friday", "webinar", "retargeting"];

/// Of a hundred: 40 from nowhere, 26 from searching, 20 from others, 8 from letters, 6 from elsewhere.
const SOURCES: [(u64, TrafficSource); 27] = [
    (36, DIRECT),
    (4, tagged("", "print", "qr")),
    (16, site("https://www.google.com/")),
    (3, site("https://www.bing.com/")),
    (3, site("https://duckduckgo.com/")),
    (1, site("https://www.ecosia.org/")),
    (1, site("https://search.yahoo.com/")),
    (2, tagged("https://www.google.com/", "google", "cpc")),
    (4, site("https://t.co/")),
    (3, site("https://www.facebook.com/")),
    (2, tagged("https://l.facebook.com/", "facebook", "social")),
    (2, site("https://www.linkedin.com/feed/")),
    (1, tagged("https://www.linkedin.com/", "linkedin", "social")),
    (2, site("https://l.instagram.com/")),
    (2, site("https://www.reddit.com/r/selfhosted/")),
    (1, site("https://old.reddit.com/")),
    (1, site("https://news.ycombinator.com/item")),
    (1, site("https://www.youtube.com/")),
    (1, site("https://mastodon.social/")),
    (4, tagged("", "newsletter", "email")),
    (2, tagged("https://mail.google.com/", "newsletter", "email")),
    (1, tagged("https://outlook.live.com/", "newsletter", "email")),
    (1, site("https://mail.yahoo.com/")),
    (2, site("https://github.com/")),
    (2, site("https://en.wikipedia.org/wiki/URL_shortening")),
    (1, site("https://stackoverflow.com/questions/742013")),
    (1, site("https://blog.example.org/links/")),
];

const COUNTRIES: [(u64, &[u8; 2]); 26] = [
    (26, b"US"),
    (10, b"DE"),
    (9, b"GB"),
    (9, b"IN"),
    (6, b"FR"),
    (5, b"BR"),
    (4, b"CA"),
    (4, b"JP"),
    (3, b"NL"),
    (3, b"ES"),
    (3, b"IT"),
    (3, b"PL"),
    (3, b"AU"),
    (2, b"MX"),
    (2, b"SE"),
    (2, b"CH"),
    (2, b"AT"),
    (1, b"TR"),
    (1, b"ID"),
    (1, b"KR"),
    (1, b"AR"),
    (1, b"ZA"),
    (1, b"NG"),
    (1, b"PT"),
    (1, b"BE"),
    (1, b"DK"),
];

const NETWORKS: [u8; 14] = [23, 31, 46, 62, 77, 81, 84, 91, 109, 145, 176, 188, 193, 212];

// ---- what they use ----

/// A family of user agents: how likely it is, its text, and its versions. `{}` is a version, `{_}` the same with underscores.
type Family = (u64, &'static str, &'static [&'static str]);

const FAMILIES: [Family; 19] = [
    (
        18,
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
        &["131", "134", "137", "138", "139", "140", "141", "142"],
    ),
    (
        7,
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
        &["137", "139", "140", "141", "142"],
    ),
    (
        2,
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
        &["138", "141", "142"],
    ),
    (
        22,
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Mobile Safari/537.36",
        &["136", "138", "139", "140", "141", "142"],
    ),
    (
        4,
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/{}.0 Chrome/136.0.0.0 Mobile Safari/537.36",
        &["26", "27", "28"],
    ),
    (
        1,
        "Mozilla/5.0 (Linux; Android 13; SM-X906C) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
        &["139", "141"],
    ),
    (
        22,
        "Mozilla/5.0 (iPhone; CPU iPhone OS {_} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{} Mobile/15E148 Safari/604.1",
        &["16.6", "17.5", "17.6", "18.1", "18.3", "18.5", "18.6"],
    ),
    (
        3,
        "Mozilla/5.0 (iPad; CPU OS {_} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{} Mobile/15E148 Safari/604.1",
        &["16.6", "17.6", "18.5"],
    ),
    (
        6,
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{} Safari/605.1.15",
        &["16.6", "17.5", "18.3", "18.6", "26.0"],
    ),
    (
        6,
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36 Edg/{}.0.0.0",
        &["138", "140", "141", "142"],
    ),
    (
        4,
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:{}.0) Gecko/20100101 Firefox/{}.0",
        &["128", "140", "143", "144", "145"],
    ),
    (
        1,
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:{}.0) Gecko/20100101 Firefox/{}.0",
        &["143", "145"],
    ),
    (2, "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0", &["128", "140", "145"]),
    (1, "Mozilla/5.0 (Android 14; Mobile; rv:{}.0) Gecko/{}.0 Firefox/{}.0", &["143", "145"]),
    (
        1,
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 OPR/{}.0.0.0",
        &["120", "122"],
    ),
    (
        3,
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/{}.0.7444.46 Mobile/15E148 Safari/604.1",
        &["140", "142"],
    ),
    (
        1,
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram {}.0.0.29.93 (iPhone15,3; iOS 18_5; en_US; en; scale=3.00; 1290x2796; 741857999)",
        &["387", "390"],
    ),
    (
        1,
        "Mozilla/5.0 (Linux; Android 14; SM-S918B Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/138.0.7204.63 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/{}.0.0.46.78;]",
        &["521", "524"],
    ),
    (
        1,
        "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
        &["139", "141"],
    ),
];

const BOT_AGENTS: [(u64, &str); 18] = [
    (20, "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    (
        10,
        "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.7390.122 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    ),
    (
        10,
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
    ),
    (3, "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)"),
    (5, "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)"),
    (
        5,
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
    ),
    (8, "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)"),
    (6, "Twitterbot/1.0"),
    (6, "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"),
    (4, "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)"),
    (4, "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)"),
    (4, "TelegramBot (like TwitterBot)"),
    (4, "WhatsApp/2.23.20.0"),
    (5, "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)"),
    (4, "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)"),
    (
        5,
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
    ),
    (3, "curl/8.5.0"),
    (2, "python-requests/2.32.3"),
];

fn browser_agents() -> Vec<(u64, String)> {
    let mut agents = Vec::new();
    for (weight, text, versions) in FAMILIES {
        // The newest version has as much as all the others together.
        let last = versions.len() - 1;
        for (at, version) in versions.iter().enumerate() {
            let share = if at == last { last.max(1) as u64 } else { 1 };
            let text = text.replace("{_}", &version.replace('.', "_")).replace("{}", version);
            agents.push((weight * 60 * share / (2 * last.max(1) as u64), text));
        }
    }
    agents
}

fn bot_agents() -> Vec<(u64, String)> {
    BOT_AGENTS.iter().map(|(weight, text)| (*weight, (*text).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rlinks_core::{Policy, Preset, Slug};

    use super::*;

    const NOW: &str = "2026-11-16T12:34:56Z";

    fn workspace(preset: Preset) -> Workspace {
        Workspace {
            id: Id::from_i64(7),
            slug: Slug::main(),
            name: "Main".to_owned(),
            policy: Policy::preset(preset),
            created_at: Timestamp::from_ms(0),
            updated_at: Timestamp::from_ms(0),
            deleted_at: None,
        }
    }

    #[test]
    fn click_times_are_sorted_in_range_and_complete() {
        let now = Timestamp::parse(NOW).unwrap();
        for (clicks, days) in [(0, 1), (1, 1), (7, 30), (10_000, 30), (1000, 400)] {
            let moments: Vec<_> = click_times(1, clicks, days, now).collect();
            assert_eq!(moments.len() as u64, clicks);
            assert!(moments.is_sorted());
            let first = (day_of(now) - i64::from(days) + 1) * 24 * HOUR_MS;
            assert!(moments.iter().all(|at| at.ms() >= first && *at < now));
        }
        let midnight = Timestamp::parse("2026-11-16T00:10:00Z").unwrap();
        assert_eq!(click_times(1, 10, 1, midnight).count(), 10);
    }

    #[test]
    fn generated_codes_are_unique_and_valid_in_every_preset() {
        let mut codes = BTreeSet::new();
        for number in (0..2000).chain([9_999_999]) {
            let idea = sample_link(1, number);
            for preset in Preset::ALL {
                rlinks_core::Code::parse(&idea.code, &Policy::preset(preset).code).unwrap();
            }
            assert!(codes.insert(idea.code));
        }
    }

    #[test]
    fn generated_traffic_is_reproducible_and_realistic() {
        let links: Vec<Id> = (0..100).map(Id::from_i64).collect();
        let workspace = workspace(Preset::Team);
        let clicks = |seed| {
            let mut traffic = Traffic::new(seed, &workspace, &links);
            let moments = click_times(seed, 20_000, 30, Timestamp::parse(NOW).unwrap());
            let mut bytes = Vec::new();
            let mut people = BTreeSet::new();
            let (mut agents, mut direct, mut first, mut bots) = (BTreeMap::new(), 0, 0, 0);
            for ts in moments {
                let record = traffic.click(ts);
                record.encode(&mut bytes);
                people.insert(record.visitor);
                let UserAgentBytes::Raw(agent) = record.agent else { panic!("the policy keeps the text") };
                let agent = std::str::from_utf8(agent).unwrap();
                let is_bot = || user_agent::parse(agent).device == Device::Bot;
                bots += usize::from(*agents.entry(agent.to_owned()).or_insert_with(is_bot));
                direct += usize::from(record.referrer.is_empty() && record.utm_source.is_empty());
                first += usize::from(record.link == links[0]);
            }
            (bytes, [people.len(), agents.len(), direct, first, bots])
        };
        let (bytes, [people, agents, direct, first, bots]) = clicks(1);
        assert!(bytes == clicks(1).0 && bytes != clicks(2).0);
        assert!((12_000..20_000).contains(&people), "{people}");
        assert!(agents > 70, "{agents}");
        assert!((6_500..9_500).contains(&direct), "{direct}");
        assert!((2_500..6_000).contains(&first), "{first}");
        assert!((1_000..1_500).contains(&bots), "{bots}");
    }

    #[test]
    fn sample_user_agents_are_classified_as_people_or_bots() {
        for (_, text) in browser_agents() {
            let read = user_agent::parse(&text);
            assert!(!matches!(read.device, Device::Bot | Device::Unknown), "{text}: {:?}", read.device);
        }
        for (_, text) in bot_agents() {
            assert_eq!(user_agent::parse(&text).device, Device::Bot, "{text}");
        }
    }
}
