//! Where a click came from, as its request says: the Referer, the campaign in the query, and whether anybody clicked.
//!
//! [`strip_referrer`], [`parse_utm`] and [`is_prefetch`] run on the redirect path for every request: they copy only what must be
//! changed. Nothing here fails; what is malformed is left out.

use std::borrow::Cow;
use std::str;

use memchr::{memchr2, memchr3};
use percent_encoding::percent_decode;
use url::Url;

const MAX_REFERRER_BYTES: usize = 512;
const MAX_HOST_BYTES: usize = 253;
const MAX_UTM_BYTES: usize = 128;
/// An escape is three bytes for one, so what lies behind this does not reach the value.
const MAX_ESCAPED_UTM_BYTES: usize = 4 * MAX_UTM_BYTES;

/// The last is how Android says which app opened a link.
const REFERRER_SCHEMES: [&str; 3] = ["https://", "http://", "android-app://"];

/// What may be written down of a Referer: not its query, its fragment or the name of a user, which may hold a secret or a person's
/// words. Whether the rest is an address at all is looked at later, by [`parse_referrer`], off the redirect path.
pub fn strip_referrer(header: &[u8]) -> Cow<'_, [u8]> {
    let window = &header[..header.len().min(MAX_REFERRER_BYTES + 1)];
    let page = &window[..memchr2(b'?', b'#', window).unwrap_or(window.len())];
    let rest = page.strip_prefix(b"https://").or_else(|| page.strip_prefix(b"http://"));
    if let Some(rest) = rest.filter(|_| page.len() <= MAX_REFERRER_BYTES) {
        // Nearly every host ends with its path, or with the text, and nobody's name stands before it. Where there is no host, what looks
        // like a path may hold one.
        if memchr3(b'/', b'@', b'\\', rest).is_none_or(|end| end > 0 && rest[end] == b'/') {
            return Cow::Borrowed(page);
        }
    }
    match parse_referrer(header) {
        Some(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
        Some(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(&[]),
    }
}

/// What is kept of a Referer: the page, without its query, its fragment and the name of a user.
///
/// Those three may hold a secret or a person's words, and no statistic needs them.
pub fn parse_referrer(header: &[u8]) -> Option<Cow<'_, str>> {
    let header = header.trim_ascii();
    let window = &header[..header.len().min(MAX_REFERRER_BYTES + 1)];
    let end = window.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(window.len());
    let is_cut = end > MAX_REFERRER_BYTES;
    let text = if is_cut {
        whole_characters(&window[..MAX_REFERRER_BYTES])?
    } else {
        str::from_utf8(&window[..end]).ok()?
    };
    if text.contains(char::is_control) {
        return None;
    }

    let scheme = REFERRER_SCHEMES.into_iter().find(|scheme| begins_with(text, scheme))?;
    let rest = &text[scheme.len()..];
    let authority = match rest.find(['/', '\\']) {
        Some(end) => &rest[..end],
        // What is left of a host is another host.
        None if is_cut => return None,
        None => rest,
    };
    let host_start = authority.rfind('@').map_or(0, |at| at + 1);
    if host_start == authority.len() {
        return None;
    }
    if host_start == 0 {
        return Some(Cow::Borrowed(text));
    }
    Some(Cow::Owned([&text[..scheme.len()], &rest[host_start..]].concat()))
}

/// The host of a referrer as it is counted: lower case, without port, `www.` and final dot.
pub fn referrer_host(referrer: &str) -> Option<String> {
    if referrer.len() > MAX_REFERRER_BYTES {
        return None;
    }
    let url = Url::parse(referrer).ok()?;
    let host = url.host_str()?.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    // "www.com" is a host like any other.
    let host = host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(host);
    (!host.is_empty() && host.len() <= MAX_HOST_BYTES).then(|| host.to_owned())
}

/// The three parameters by which a link names its campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Utm<'a> {
    /// `utm_source`: who sent the visitor, such as a newsletter.
    pub source: Option<Cow<'a, str>>,
    /// `utm_medium`: by which way, such as "email".
    pub medium: Option<Cow<'a, str>>,
    /// `utm_campaign`: on which occasion.
    pub campaign: Option<Cow<'a, str>>,
}

/// Reads the campaign from the query of a request; of a repeated parameter the first that says something counts.
pub fn parse_utm(query: &[u8]) -> Utm<'_> {
    let mut utm = Utm::default();
    // Almost no query has any, and this is most of the cost for the others.
    if !query.windows(4).any(|window| window == b"utm_") {
        return utm;
    }
    for pair in query.split(|&byte| byte == b'&') {
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else { continue };
        let field = match &pair[..equals] {
            b"utm_source" => &mut utm.source,
            b"utm_medium" => &mut utm.medium,
            b"utm_campaign" => &mut utm.campaign,
            _ => continue,
        };
        if field.is_none() {
            *field = parse_utm_value(&pair[equals + 1..]);
        }
    }
    utm
}

/// Whether a Purpose, Sec-Purpose, X-Purpose or X-Moz header says that a browser asks before anybody clicked.
pub fn is_prefetch(purpose: &[u8]) -> bool {
    // "prefetch;prerender" and "prefetch, prerender" are prefetches of some kind.
    let end = purpose.iter().position(|byte| matches!(byte, b';' | b',')).unwrap_or(purpose.len());
    let word = purpose[..end].trim_ascii();
    [&b"prefetch"[..], b"prerender", b"preview"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Two letters, as capitals. Cloudflare writes XX for unknown and T1 for Tor, and neither is a country.
pub fn parse_country(value: &[u8]) -> Option<[u8; 2]> {
    let letters: [u8; 2] = value.trim_ascii().to_ascii_uppercase().try_into().ok()?;
    (letters.iter().all(u8::is_ascii_uppercase) && letters != *b"XX").then_some(letters)
}

/// A value without escapes, control characters and blanks around it.
fn parse_utm_value(escaped: &[u8]) -> Option<Cow<'_, str>> {
    let escaped = &escaped[..escaped.len().min(MAX_ESCAPED_UTM_BYTES)];
    let spaced: Cow<'_, [u8]> = if escaped.contains(&b'+') {
        Cow::Owned(escaped.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect())
    } else {
        Cow::Borrowed(escaped)
    };
    let text = match spaced {
        Cow::Borrowed(bytes) => percent_decode(bytes).decode_utf8_lossy(),
        Cow::Owned(bytes) => Cow::Owned(percent_decode(&bytes).decode_utf8_lossy().into_owned()),
    };
    let text = if text.contains(char::is_control) {
        Cow::Owned(text.chars().filter(|c| !c.is_control()).collect())
    } else {
        text
    };
    let short = match text {
        Cow::Borrowed(text) => Cow::Borrowed(trimmed(text)),
        Cow::Owned(text) => Cow::Owned(trimmed(&text).to_owned()),
    };
    (!short.is_empty()).then_some(short)
}

fn trimmed(text: &str) -> &str {
    let text = text.trim();
    text[..text.floor_char_boundary(MAX_UTM_BYTES)].trim_end()
}

/// The text in bytes that may end in the middle of a character.
fn whole_characters(bytes: &[u8]) -> Option<&str> {
    match str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

fn begins_with(text: &str, scheme: &str) -> bool {
    text.as_bytes().get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn referrer_truncated_on_the_way_parses_like_the_full_one() {
        for header in [
            "https://news.example/a/b",
            "https://news.example/a?secret=1#x",
            "https://user:pw@news.example/a?q",
            "http://news.example",
            "httpx://news.example/@",
            "javascript:secret",
            "  https://news.example/ ",
            "https://news.example/\u{7f}",
            "https://\\evil@news.example/",
            "https://news.example\\@other.example/",
            "https://news.example/@someone?secret",
            "http:///@news.example",
            "https:///user:pw@news.example/",
            "https://pw@news.example",
            "",
        ] {
            let cut = strip_referrer(header.as_bytes());
            assert_eq!(parse_referrer(&cut), parse_referrer(header.as_bytes()), "{header:?}");
            assert!(
                !cut.windows(6).any(|window| window == b"secret")
                    && !cut.windows(2).any(|window| window == b"pw"),
                "{header:?}"
            );
        }
        let long = format!("https://news.example/{}", "a".repeat(600));
        assert_eq!(parse_referrer(&strip_referrer(long.as_bytes())), parse_referrer(long.as_bytes()));
    }

    #[test]
    fn referrer_keeps_the_page_and_drops_query_fragment_and_userinfo() {
        let table: [(&[u8], Option<&str>); 36] = [
            (b"https://example.com/page", Some("https://example.com/page")),
            (b"http://example.com", Some("http://example.com")),
            (b"  https://example.com/ \t", Some("https://example.com/")),
            (b"HTTPS://Example.COM/Page", Some("HTTPS://Example.COM/Page")),
            (b"https://example.com/page?q=secret", Some("https://example.com/page")),
            (b"https://example.com/page#secret", Some("https://example.com/page")),
            (b"https://example.com/page#a?b", Some("https://example.com/page")),
            (b"https://example.com?q=secret", Some("https://example.com")),
            (b"https://example.com?q=me@there/", Some("https://example.com")),
            (b"https://example.com:8443/a/b", Some("https://example.com:8443/a/b")),
            (b"https://[2001:db8::1]:8443/a", Some("https://[2001:db8::1]:8443/a")),
            (b"https://user@example.com/a", Some("https://example.com/a")),
            (b"https://user:word@example.com/a?b", Some("https://example.com/a")),
            (b"https://a@b@example.com/", Some("https://example.com/")),
            (b"https://@example.com/", Some("https://example.com/")),
            (b"https://example.com/@someone", Some("https://example.com/@someone")),
            (b"https://example.com\\@other.example/", Some("https://example.com\\@other.example/")),
            ("https://example.com/é".as_bytes(), Some("https://example.com/é")),
            (b"android-app://com.google.android.gm/", Some("android-app://com.google.android.gm/")),
            (b"android-app://com.slack", Some("android-app://com.slack")),
            (b"", None),
            (b"   ", None),
            (b"https://", None),
            (b"https:///path", None),
            (b"https://?q", None),
            (b"https://user@/path", None),
            (b"https:/example.com", None),
            (b"example.com", None),
            (b"about:blank", None),
            (b"file:///etc/passwd", None),
            (b"javascript:alert(1)", None),
            (b"data:text/html,hi", None),
            (b"https://example.com/\xFF", None),
            (b"https://example.com/\0", None),
            (b"https://example.com/\x1B[31m", None),
            (b"https://exam\r\nple.com/", None),
        ];
        for (header, expected) in table {
            assert_eq!(parse_referrer(header).as_deref(), expected, "{}", String::from_utf8_lossy(header));
        }
        assert_eq!(parse_referrer("https://example.com/\u{85}".as_bytes()), None);
        assert!(matches!(parse_referrer(b"https://example.com/page?q"), Some(Cow::Borrowed(_))));
    }

    #[test]
    fn long_referrer_is_cut_but_never_within_its_host() {
        let long = format!("https://example.com/{}", "a".repeat(100_000));
        assert_eq!(parse_referrer(long.as_bytes()).as_deref(), Some(&long[..512]));
        let accented = format!("https://example.com/a{}", "é".repeat(5000));
        assert_eq!(parse_referrer(accented.as_bytes()).unwrap().len(), 511);
        let exact = format!("https://{}", "a".repeat(504));
        assert_eq!(parse_referrer(exact.as_bytes()).as_deref(), Some(&*exact));
        assert_eq!(parse_referrer(format!("{exact}?q").as_bytes()).as_deref(), Some(&*exact));
        assert_eq!(parse_referrer(format!("{exact}a").as_bytes()), None);
        assert_eq!(parse_referrer(format!("https://{}@example.com/", "a".repeat(600)).as_bytes()), None);
        assert_eq!(parse_referrer(&b"@".repeat(100_000)), None);
        assert_eq!(parse_referrer(&b"\xC3".repeat(100_000)), None);
        // A character that is broken anywhere else is no accident of the limit.
        assert_eq!(parse_referrer(&[b"https://example.com/\xC3", &[b'a'; 600][..]].concat()), None);
        assert_eq!(parse_referrer(b"https://example.com/\xC3?q"), None);
    }

    #[test]
    fn referrer_is_counted_under_its_host() {
        let table = [
            ("https://example.com/page", Some("example.com")),
            ("https://www.example.com", Some("example.com")),
            ("https://WWW.Example.COM:443/", Some("example.com")),
            ("http://example.com:8080/", Some("example.com")),
            ("http://example.com./", Some("example.com")),
            ("http://www.com/", Some("www.com")),
            ("http://www./", Some("www")),
            ("http://www.www.example.com/", Some("www.example.com")),
            ("http://localhost/", Some("localhost")),
            ("http://192.0.2.7:80/", Some("192.0.2.7")),
            ("http://[2001:DB8::1]:80/", Some("[2001:db8::1]")),
            ("https://bücher.example/", Some("xn--bcher-kva.example")),
            ("https://xn--bcher-kva.example/", Some("xn--bcher-kva.example")),
            ("https://example.com\\@other.example/", Some("example.com")),
            ("android-app://com.google.android.gm/", Some("com.google.android.gm")),
            ("android-app://com.Slack", Some("com.slack")),
            ("", None),
            ("https://", None),
            ("https://./", None),
            ("https://exa mple.com/", None),
            ("https://exam<ple.com/", None),
            ("no url", None),
            ("about:blank", None),
        ];
        for (referrer, expected) in table {
            assert_eq!(referrer_host(referrer).as_deref(), expected, "{referrer}");
        }
        assert_eq!(referrer_host(&format!("android-app://{}/", "a".repeat(254))), None);
        assert_eq!(referrer_host(&"a".repeat(100_000)), None);
        assert_eq!(referrer_host(&format!("https://{}/", "a.".repeat(50_000))), None);
    }

    fn text(field: Option<&Cow<'_, str>>) -> String {
        field.map_or("-", |value| value).to_owned()
    }

    #[test]
    fn utm_values_are_read_from_the_query() {
        let table: [(&[u8], &str); 22] = [
            (b"", "- - -"),
            (b"q=1&page=2", "- - -"),
            (b"utm_", "- - -"),
            (b"utm_source", "- - -"),
            (b"utm_source=", "- - -"),
            (b"utm_source=news&utm_medium=email&utm_campaign=spring", "news email spring"),
            (b"a=b&utm_campaign=spring&c=d", "- - spring"),
            (b"utm_term=x&utm_content=y&utm_id=1", "- - -"),
            (b"xutm_source=a&utm_sourcex=b", "- - -"),
            (b"utm_source=first&utm_source=second", "first - -"),
            (b"utm_source=&utm_source=second", "second - -"),
            (b"utm_source=a+b%20c", "a b c - -"),
            (b"utm_source=a%2Bb", "a+b - -"),
            (b"utm_source=caf%C3%A9", "café - -"),
            (b"utm_source=%20%20a%20%20", "a - -"),
            (b"utm_source=+++", "- - -"),
            (b"utm_source=a%00b%0D%0Ac%1B", "abc - -"),
            (b"utm_source=%00%01", "- - -"),
            (b"utm_source=a=b=c", "a=b=c - -"),
            (b"utm_source=%zz%4", "%zz%4 - -"),
            (b"utm_source=a%FFb", "a\u{FFFD}b - -"),
            (b"utm_source=<b>", "<b> - -"),
        ];
        for (query, expected) in table {
            let Utm { source, medium, campaign } = parse_utm(query);
            let line = [source.as_ref(), medium.as_ref(), campaign.as_ref()].map(text).join(" ");
            assert_eq!(line, expected, "{}", String::from_utf8_lossy(query));
        }
        assert!(matches!(parse_utm(b"utm_source=news").source, Some(Cow::Borrowed("news"))));
    }

    #[test]
    fn utm_values_are_bounded_for_any_query() {
        let source = |query: &[u8]| parse_utm(query).source.map(Cow::into_owned);
        let long = format!("utm_source={}", "a".repeat(100_000));
        assert_eq!(source(long.as_bytes()).unwrap(), "a".repeat(128));
        let escaped = format!("utm_source=a{}", "%C3%A9".repeat(10_000));
        assert_eq!(source(escaped.as_bytes()).unwrap(), format!("a{}", "é".repeat(63)));
        let blanks = format!("utm_source={}b", "a".repeat(120) + &"+".repeat(100));
        assert_eq!(source(blanks.as_bytes()).unwrap(), "a".repeat(120));
        assert_eq!(source(&[b"utm_source=".as_slice(), &[0xFF; 10_000]].concat()).unwrap().len(), 126);
        assert_eq!(parse_utm(&b"&".repeat(100_000)), Utm::default());
        assert_eq!(source(&b"utm_source&".repeat(10_000)), None);
        assert_eq!(source(&b"%".repeat(100_000)), None);
    }

    #[test]
    fn prefetch_header_values_are_recognized() {
        let table: [(&[u8], bool); 13] = [
            (b"prefetch", true),
            (b"Prefetch", true),
            (b" prefetch ", true),
            (b"prefetch;prerender", true),
            (b"prefetch; anonymous-client-ip", true),
            (b"prefetch, prerender", true),
            (b"prerender", true),
            (b"preview", true),
            (b"", false),
            (b";prefetch", false),
            (b"prefetching", false),
            (b"navigate", false),
            (b"\xFF\xFE", false),
        ];
        for (purpose, expected) in table {
            assert_eq!(is_prefetch(purpose), expected, "{}", String::from_utf8_lossy(purpose));
        }
    }
}
