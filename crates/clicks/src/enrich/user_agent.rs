//! What a User-Agent says: the kind of device, the browser and the system.
//!
//! Anybody can write anything there, so the text is cut before it is read, every pattern runs in linear time, and
//! what comes out is short. The tables are those of ua-parser and isbot; they are loaded at the first click.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use isbot::Bots;
use rlinks_core::two_generation_cache::TwoGenerationCache;
use serde::Deserialize;
use ua_parser::{os, user_agent};

use crate::click::Device;

/// No honest User-Agent is longer, and what follows would say nothing new.
const MAX_USER_AGENT_BYTES: usize = 512;
const MAX_NAME_BYTES: usize = 64;
const MAX_VERSION_BYTES: usize = 8;

/// The most a [`UserAgentCache`] remembers, in both of its generations together.
const MAX_CACHED_USER_AGENTS: usize = 4096;

/// What one User-Agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedUserAgent {
    /// The kind of device.
    pub device: Device,
    /// The browser, or for a bot its own name: "Chrome", "Safari", "Googlebot".
    pub browser: Option<Box<str>>,
    /// The major version of the browser.
    pub browser_version: Option<Box<str>>,
    /// The system: "Windows", "macOS", "iOS", "Android", "Linux", "Chrome OS".
    pub system: Option<Box<str>>,
    /// The major version of the system.
    pub system_version: Option<Box<str>>,
}

/// Reads a User-Agent; the first call loads the tables.
pub fn parse(user_agent: &str) -> ParsedUserAgent {
    let text = truncate(user_agent, MAX_USER_AGENT_BYTES).trim();
    let mut agent = ParsedUserAgent {
        device: Device::Unknown,
        browser: None,
        browser_version: None,
        system: None,
        system_version: None,
    };
    if text.is_empty() {
        return agent;
    }
    let tables = tables();
    if let Some(found) = tables.browsers.extract(text) {
        agent.browser = name(browser_name(&found.family));
        agent.browser_version = agent.browser.as_ref().and(version(found.major));
    }
    if let Some(found) = tables.systems.extract(text) {
        agent.system = name(system_name(&found.os));
        // A distribution is folded into Linux, and its version would read like one of the kernel.
        if agent.system.as_deref().is_some_and(|system| system != "Linux") {
            agent.system_version = version(found.major.as_deref());
        }
    }
    let is_bot = tables.bots.is_bot(&without_brands(text));
    agent.device = if is_bot { Device::Bot } else { device(agent.system.as_deref(), text) };
    agent
}

/// An agent in few bytes, as the journal holds it.
pub fn encode(agent: &ParsedUserAgent) -> Box<[u8]> {
    let mut bytes = vec![agent.device as u8];
    for text in [&agent.browser, &agent.browser_version, &agent.system, &agent.system_version] {
        let text = text.as_deref().unwrap_or_default();
        bytes.push(u8::try_from(text.len()).unwrap_or_default());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.into()
}

/// The device of an encoded agent.
pub fn device_of(bytes: &[u8]) -> Device {
    Device::ALL.into_iter().find(|device| bytes.first() == Some(&(*device as u8))).unwrap_or(Device::Unknown)
}

/// An agent from its bytes; what cannot be read is not known.
pub fn decode(bytes: &[u8]) -> ParsedUserAgent {
    let mut rest = bytes.get(1..).unwrap_or_default();
    let mut next = || {
        let (length, after) = rest.split_first()?;
        let (text, after) = after.split_at_checked(usize::from(*length))?;
        rest = after;
        std::str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(Box::from)
    };
    let (browser, browser_version, system, system_version) = (next(), next(), next(), next());
    ParsedUserAgent { device: device_of(bytes), browser, browser_version, system, system_version }
}

/// Remembers what was read lately, encoded, because most clicks come with few different User-Agents.
#[derive(Debug)]
pub struct UserAgentCache {
    agents: TwoGenerationCache<u64, Box<[u8]>, BuildHasherDefault<IdentityHasher>>,
}

impl Default for UserAgentCache {
    fn default() -> Self {
        Self { agents: TwoGenerationCache::new(MAX_CACHED_USER_AGENTS) }
    }
}

/// The keys are keyed hashes already: hashing them again would protect from nobody.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().copied().map_or(0, u64::from_ne_bytes);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl UserAgentCache {
    /// The agent for a User-Agent, remembered under its hash.
    ///
    /// The hash must be keyed with a secret: whoever can choose collisions can choose what others seem to use.
    pub fn get_or_parse(&mut self, hash: u64, user_agent: &[u8]) -> &[u8] {
        self.agents.get_or_insert_with(hash, || encode(&parse(&String::from_utf8_lossy(user_agent))))
    }
}

struct Tables {
    browsers: user_agent::Extractor<'static>,
    systems: os::Extractor<'static>,
    bots: Bots,
}

/// The tables as `build.rs` wrote them.
#[derive(Deserialize)]
struct SerializedTables {
    #[serde(borrow)]
    user_agent_parsers: Vec<user_agent::Parser<'static>>,
    #[serde(borrow)]
    os_parsers: Vec<os::Parser<'static>>,
}

/// Programs that isbot misses, as regular expressions for lower-case text.
const EXTRA_BOTS: [&str; 16] = [
    // Link previews.
    "^(whatsapp|viber|signal|bluesky|iframely)",
    "^(akkoma|gotosocial|lemmy|misskey|peertube|pleroma)",
    "(link|url) ?preview|-scrap/|meta-external",
    // An office program asks for a link itself before the browser does.
    "^microsoft office|ms-office|microsoft-webdav",
    // Assistants that fetch a page for somebody.
    "(chatgpt|claude|mistralai|perplexity)-user",
    // Libraries and tools.
    "^(node|undici|deno/|bun/|got )",
    "^(java-http-client|apache-httpclient|dalvik/|dart/|kotlin|ktor)",
    "^(reqwest|hyper/|ureq|libcurl|fasthttp|cpp-httplib|hackney|mint/|finch)",
    "^(ruby|faraday|rest-client|http\\.rb|python|perl|lwp)",
    "^(httpie|xh/|insomnia|aria2|restsharp|powershell)|windowspowershell/",
    "cfnetwork/",
    // Monitors and measurements.
    "^(blackbox|prometheus|kube-probe|googlehc|consul|vegeta|k6/|hey/|oha/)",
    "newrelicpinger|datadog|gtmetrix|health-?check",
    // Browsers without anybody in front of them.
    "playwright|puppeteer|selenium|cypress/",
    // Scanners.
    "^(masscan|nuclei|nikto|sqlmap)",
    "censys",
];

/// Patterns of isbot that also match browsers; the crawlers they mean are matched by others.
const EXCLUDED_BOT_PATTERNS: [&str; 3] = ["sogou", "seznam", "^netsurf"];

/// Makers of telephones whose names read like a bot's where the model is written.
const BOT_LIKE_BRANDS: [&str; 1] = ["cubot"];

/// Screens in living rooms call themselves Android or Linux, and are neither tablets nor desktops.
const TELEVISION_MARKERS: [&str; 7] =
    ["SMART-TV", "SmartTV", "Smart TV", "Android TV", "AndroidTV", "GoogleTV", "HbbTV"];

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let written: SerializedTables =
            serde_json::from_str(include_str!(concat!(env!("OUT_DIR"), "/agents.json")))
                .expect("build.rs wrote the tables in this shape");
        let browsers = user_agent::Builder::new().push_all(written.user_agent_parsers);
        let systems = os::Builder::new().push_all(written.os_parsers);
        let mut bots = Bots::default();
        bots.remove(&EXCLUDED_BOT_PATTERNS);
        bots.append(&EXTRA_BOTS);
        Tables {
            browsers: browsers.and_then(|all| Ok(all.build()?)).expect("the tests compile the same patterns"),
            systems: systems
                .ok()
                .and_then(|all| all.build().ok())
                .expect("the tests compile the same patterns"),
            bots,
        }
    })
}

/// The text in lower case without those brands. A name with a version behind it, `Cubot/1.0`, is no telephone's.
fn without_brands(text: &str) -> String {
    let mut text = text.to_ascii_lowercase();
    for brand in BOT_LIKE_BRANDS {
        let mut from = 0;
        while let Some(at) = text[from..].find(brand).map(|at| from + at) {
            let end = at + brand.len();
            let is_word = !text[..at].ends_with(|before: char| before.is_alphanumeric());
            let is_name = text[end..].starts_with(|after: char| after.is_alphanumeric() || after == '/');
            if is_word && !is_name && text[..at].contains("android") {
                text.replace_range(at..end, "");
                from = at;
            } else {
                from = end;
            }
        }
    }
    text
}

/// The kind of device by its system and by the few words that tell devices with one system apart.
fn device(system: Option<&str>, text: &str) -> Device {
    if TELEVISION_MARKERS.iter().any(|word| text.contains(word)) {
        return Device::Unknown;
    }
    match system {
        Some("iOS") if text.contains("iPad") => Device::Tablet,
        Some("Android") if !text.contains("Mobile") => Device::Tablet,
        Some("iOS" | "Android" | "Windows Phone" | "Windows Mobile" | "KaiOS") => Device::Mobile,
        Some("Windows" | "macOS" | "Linux" | "Chrome OS" | "FreeBSD" | "OpenBSD" | "NetBSD") => {
            Device::Desktop
        }
        _ => Device::Unknown,
    }
}

/// The name people know a browser by; the device says whether it is the one for telephones.
fn browser_name(family: &str) -> &str {
    match family {
        "Chrome Mobile" | "Chrome Mobile iOS" => "Chrome",
        "Mobile Safari" => "Safari",
        "Mobile Safari UI/WKWebView" => "Safari WebView",
        "Firefox Mobile" | "Firefox iOS" | "Firefox Beta" | "Firefox Alpha" => "Firefox",
        "Edge Mobile" => "Edge",
        "Opera Mobile" | "Opera Tablet" => "Opera",
        "IE" | "IE Mobile" | "IE Large Screen" => "Internet Explorer",
        other => other,
    }
}

/// The name people know a system by; distributions of Linux are too few clicks each to stand alone.
fn system_name(family: &str) -> &str {
    match family {
        "Mac OS X" | "Mac OS" => "macOS",
        "ATV OS X" => "tvOS",
        "Arch Linux" | "BackTrack" | "CentOS" | "Debian" | "Fedora" | "Gentoo" | "Kubuntu" | "Linux Mint"
        | "Lubuntu" | "Mageia" | "Mandriva" | "PCLinuxOS" | "Puppy" | "Red Hat" | "SUSE" | "Slackware"
        | "Ubuntu" | "openSUSE" => "Linux",
        other => other,
    }
}

/// A name fit to be kept: the tables copy parts of the text into some, and that may be anything.
fn name(found: &str) -> Option<Box<str>> {
    let short = truncate(found, MAX_NAME_BYTES).trim();
    let plain = short.chars().all(|c| c.is_alphanumeric() || " -_.+!'^".contains(c));
    (plain && !short.is_empty() && short != "Other").then(|| short.into())
}

/// A version fit to be kept; a long one is made up.
fn version(major: Option<&str>) -> Option<Box<str>> {
    let major = major?;
    let plain = major.chars().all(|c| c.is_ascii_alphanumeric());
    (plain && !major.is_empty() && major.len() <= MAX_VERSION_BYTES).then(|| major.into())
}

/// The beginning of a text, at most so many bytes of whole characters.
fn truncate(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a User-Agent and writes the answer as one line.
    fn line(user_agent: &str) -> String {
        let agent = parse(user_agent);
        let shown = |field: &Option<Box<str>>| field.as_deref().unwrap_or("-").to_owned();
        let (browser, system) = (shown(&agent.browser), shown(&agent.system));
        let (browser_version, system_version) = (shown(&agent.browser_version), shown(&agent.system_version));
        format!("{}, {browser} {browser_version}, {system} {system_version}", agent.device.as_str())
    }

    /// What is expected of real User-Agents.
    const READINGS: [(&str, &str); 37] = [
        (
            "desktop, Chrome 120, Windows 10",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
        ),
        (
            "desktop, Edge 120, Windows 10",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Edg/120.0.2210.91",
        ),
        (
            "desktop, Firefox 121, Windows 10",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:121.0) Gecko/20100101 Firefox/121.0",
        ),
        (
            "desktop, Internet Explorer 11, Windows 7",
            "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko",
        ),
        (
            "desktop, Opera 105, Windows 10",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36 OPR/105.0.0.0",
        ),
        (
            "desktop, Safari 17, macOS 10",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.2 Safari/605.1.15",
        ),
        (
            "desktop, Chrome 120, Linux -",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
        ),
        (
            "desktop, Firefox 121, Linux -",
            "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0",
        ),
        (
            "desktop, Firefox 115, Linux -",
            "Mozilla/5.0 (X11; Fedora/38.0 Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0",
        ),
        (
            "desktop, Firefox 121, FreeBSD -",
            "Mozilla/5.0 (X11; FreeBSD amd64; rv:121.0) Gecko/20100101 Firefox/121.0",
        ),
        (
            "desktop, Chrome 120, Chrome OS 14541",
            "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
        ),
        (
            "mobile, Safari 17, iOS 17",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.2 Mobile/15E148 Safari/604.1",
        ),
        (
            "tablet, Safari 16, iOS 16",
            "Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1",
        ),
        (
            "mobile, Safari 12, iOS 12",
            "Mozilla/5.0 (iPod touch; CPU iPhone OS 12_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1 Mobile/15E148 Safari/604.1",
        ),
        (
            "mobile, Chrome 120, iOS 17",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/120.0.6099.119 Mobile/15E148 Safari/604.1",
        ),
        (
            "mobile, Firefox 121, iOS 17",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/121.0 Mobile/15E148 Safari/605.1.15",
        ),
        (
            "mobile, Edge 120, iOS 17",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) EdgiOS/120.0.2210.116 Version/17.0 Mobile/15E148 Safari/604.1",
        ),
        (
            "mobile, Instagram 312, iOS 17",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 312.0.1.19.124 (iPhone14,5; iOS 17_1; en_US; en; scale=3.00; 1170x2532; 548339486)",
        ),
        (
            "mobile, Safari WebView -, iOS 17",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
        ),
        (
            "mobile, Chrome 120, Android 10",
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36",
        ),
        (
            "tablet, Chrome 120, Android 13",
            "Mozilla/5.0 (Linux; Android 13; SM-X700) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
        ),
        (
            "mobile, Samsung Internet 23, Android 13",
            "Mozilla/5.0 (Linux; Android 13; SAMSUNG SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/23.0 Chrome/115.0.0.0 Mobile Safari/537.36",
        ),
        (
            "mobile, Firefox 121, Android 13",
            "Mozilla/5.0 (Android 13; Mobile; rv:121.0) Gecko/121.0 Firefox/121.0",
        ),
        (
            "tablet, Firefox 121, Android 13",
            "Mozilla/5.0 (Android 13; Tablet; rv:121.0) Gecko/121.0 Firefox/121.0",
        ),
        (
            "mobile, Edge 120, Android 10",
            "Mozilla/5.0 (Linux; Android 10; HD1913) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.6099.144 Mobile Safari/537.36 EdgA/120.0.2210.115",
        ),
        (
            "mobile, Chrome Mobile WebView 120, Android 13",
            "Mozilla/5.0 (Linux; Android 13; Pixel 7 Build/TQ3A.230901.001; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/120.0.6099.144 Mobile Safari/537.36",
        ),
        (
            "mobile, Opera 76, Android 10",
            "Mozilla/5.0 (Linux; Android 10; VOG-L29) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.6099.144 Mobile Safari/537.36 OPR/76.2.4027.73374",
        ),
        (
            "mobile, Edge 15, Windows Phone 10",
            "Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0.2743.116 Mobile Safari/537.36 Edge/15.15063",
        ),
        (
            "mobile, Firefox 48, KaiOS 2",
            "Mozilla/5.0 (Mobile; Nokia_2720_Flip; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5.2",
        ),
        (
            "unknown, Samsung Internet 2, Tizen 6",
            "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/2.2 Chrome/63.0.3239.84 TV Safari/537.36",
        ),
        (
            "bot, Googlebot 2, Android 6",
            "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        ),
        (
            "bot, HeadlessChrome 120, Linux -",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/120.0.6099.109 Safari/537.36",
        ),
        ("bot, curl 8, - -", "curl/8.4.0"),
        ("bot, - -, - -", "Mozilla/5.0 (compatible; Google-Safety; +http://www.google.com/bot.html)"),
        ("unknown, - -, - -", "Mozilla/5.0"),
        ("unknown, - -, - -", ""),
        ("unknown, - -, - -", " \t "),
    ];

    #[test]
    fn browsers_and_systems_get_their_common_names() {
        for (expected, user_agent) in READINGS {
            assert_eq!(line(user_agent), expected, "{user_agent}");
        }
    }

    #[test]
    fn automated_clients_are_bots() {
        let table = [
            "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
            "Slack-ImgProxy (+https://api.slack.com/robots)",
            "WhatsApp/2.23.20.0",
            "WhatsApp/2.19.81 i",
            "TelegramBot (like TwitterBot)",
            "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
            "facebookexternalhit/1.1",
            "meta-externalagent/1.1",
            "Twitterbot/1.0",
            "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
            "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5",
            "http.rb/5.1.1 (Mastodon/4.2.0; +https://mastodon.social/)",
            "Misskey/13.0",
            "Bluesky Cardyb/1.1; mailto:support@bsky.app",
            "kakaotalk-scrap/1.0",
            "redditbot/1.0",
            "Pinterestbot/1.0",
            "Mozilla/4.0 (compatible; ms-office; MSOffice 16)",
            "ChatGPT-User/1.0",
            "curl/8.4.0",
            "libcurl/7.81.0",
            "Wget/1.21.4",
            "python-requests/2.31.0",
            "python-httpx/0.26.0",
            "Python/3.11 aiohttp/3.9.1",
            "Go-http-client/2.0",
            "node-fetch",
            "node",
            "axios/1.6.2",
            "okhttp/4.12.0",
            "Java/17.0.9",
            "Java-http-client/17.0.9",
            "Dalvik/2.1.0 (Linux; U; Android 13; Pixel 7 Build/TQ3A.230901.001)",
            "reqwest/0.11.23",
            "Ruby",
            "rest-client/2.1.0 (linux x86_64) ruby/3.2.2p53",
            "HTTPie/3.2.2",
            "PostmanRuntime/7.36.0",
            "Dart/3.2 (dart:io)",
            "GuzzleHttp/7",
            "Example/1 CFNetwork/1408.0.4 Darwin/22.5.0",
            "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.3803",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/120.0 Safari/537.36",
            "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
            "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
            "Uptime-Kuma/1.23.11",
            "ELB-HealthChecker/2.0",
            "kube-probe/1.28",
            "Blackbox Exporter/0.24.0",
            "CensysInspect/1.1",
            "Sogou web spider/4.0(+http://www.sogou.com/docs/help/webmasters.htm#07)",
            "Mozilla/5.0 (compatible; SeznamBot/4.0; +http://napoveda.seznam.cz/seznambot-intro/)",
            "Googlebot/2.1 (+http://www.google.com/bot.html)",
            "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/120.0 Safari/537.36",
            "AdsBot-Google (+http://www.google.com/adsbot.html)",
            "Mozilla/5.0 (Linux; Android 7.0;) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; PetalBot;+https://webmaster.petalsearch.com/site/petalbot)",
            "SomethingBot/1.0",
            "Mozilla/5.0 (compatible; SomethingBot/1.0)",
            "Mozilla/5.0 (Linux; Android 10; SomethingBot) AppleWebKit/537.36 Chrome/120.0 Mobile Safari/537.36",
            "Cubot/1.0",
            "CubotCrawler",
            "Mozilla/5.0 (Linux; Android 10; CUBOT) AppleWebKit/537.36 Chrome/120.0 Mobile Safari/537.36 (compatible; Googlebot/2.1)",
        ];
        for user_agent in table {
            assert_eq!(parse(user_agent).device, Device::Bot, "{user_agent}");
        }
    }

    #[test]
    fn browsers_of_people_are_not_bots() {
        let table = [
            "Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 10; CUBOT) AppleWebKit/537.36 Chrome/120.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 8.1.0; CUBOT; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/120.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; U; Android 7.0; de-de; Cubot Build/NRD90M) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 9; CUBOT_X18_Plus) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Mobile Safari/537.36",
            "Mozilla/5.0 (Linux; Android 13; V2055A) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/98.0 Mobile Safari/537.36 SogouMobileBrowser/6.0",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36 Seznam.cz/5.0",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.1 Mobile/15E148 DuckDuckGo/7 Safari/605.1.15",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Snapchat/12.60.0.36 (like Safari/8616.2.9.10.11, panda)",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) coc_coc_browser/117.0 Chrome/111.0 Safari/537.36",
            "Mozilla/5.0 (Linux; Android 12; SM-A515F; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/120.0 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/441.0.0.33.107;]",
            "Opera/9.80 (Android; Opera Mini/36.2.2254/119.132; U; id) Presto/2.12.423 Version/12.16",
            "NetSurf/3.10 (Linux)",
        ];
        for user_agent in table {
            assert_ne!(parse(user_agent).device, Device::Bot, "{user_agent}");
        }
    }

    #[test]
    fn hostile_user_agents_give_short_plain_names() {
        let table = [
            "(".repeat(8192),
            "a".repeat(100_000),
            "Mozilla/5.0 (".repeat(5000),
            "Mozilla/5.0 (Linux; Android ".repeat(5000),
            format!("Chrome/{}.0", "9".repeat(5000)),
            format!("{}bot/1.0", "x".repeat(490)),
            "Version/".repeat(5000),
            "é".repeat(5000),
            format!("a{}", "\u{1F600}".repeat(5000)),
            String::from_utf8_lossy(&[0xFF; 4096]).into_owned(),
            String::from_utf8_lossy(b"Mozilla/5.0 (\xC3\x28 \x00\x01\x1B[31m) Firefox/\xE2\x82").into_owned(),
            "<script>alert(1)</script>bot/1.0".to_owned(),
            "\0\0\0Chrome/120\r\nX: y".to_owned(),
            "\u{202E}toB/1 Firefox/1".to_owned(),
        ];
        for user_agent in table {
            let agent = parse(&user_agent);
            let fields = [agent.browser, agent.browser_version, agent.system, agent.system_version];
            for field in fields.into_iter().flatten() {
                assert!(!field.is_empty() && field.len() <= MAX_NAME_BYTES, "{field}");
                assert!(!field.contains(['<', '>', '\0', '\n', '\r', '\u{1B}', '\u{202E}']), "{field}");
            }
        }
    }

    #[test]
    fn only_the_first_bytes_are_parsed() {
        let padded = format!("{} Firefox/121.0", "x".repeat(MAX_USER_AGENT_BYTES));
        assert_eq!(parse(&padded).browser, None);
        let boundary = format!("{}é", "x".repeat(MAX_USER_AGENT_BYTES - 1));
        assert_eq!(parse(&boundary), parse(&"x".repeat(MAX_USER_AGENT_BYTES - 1)));
    }

    #[test]
    fn cache_returns_parsed_agents_and_stays_bounded() {
        let mut memo = UserAgentCache::default();
        assert_eq!(decode(memo.get_or_parse(7, b"curl/8.4.0")), parse("curl/8.4.0"));
        assert_eq!(decode(memo.get_or_parse(7, b"not read again")), parse("curl/8.4.0"));
        for hash in 100..100 + 3 * MAX_CACHED_USER_AGENTS as u64 {
            memo.get_or_parse(hash, b"");
            memo.get_or_parse(7, b"what is asked for stays");
        }
        assert_eq!(decode(memo.get_or_parse(7, b"what is asked for stays")), parse("curl/8.4.0"));
        assert_eq!(
            decode(memo.get_or_parse(100, b"curl/8.4.0")),
            parse("curl/8.4.0"),
            "what is not asked for is forgotten"
        );
    }
}
