//! Clicks to export: one that knows nothing, one that knows everything, and many.

use rlinks_clicks::click::event_id;
use rlinks_clicks::{Click, Device, IpPrefix};
use rlinks_core::{Id, Timestamp};

pub fn minimal_click() -> Click {
    let ts = Timestamp::parse("2026-01-29T23:59:59Z").unwrap();
    Click {
        n: 1,
        id: event_id(ts, 7, 1, 1),
        ts,
        link: Id::from_i64(9_007_199_254_740_993),
        workspace: Id::from_i64(1),
        code: "parity".to_owned(),
        referrer: None,
        user_agent: None,
        ua_hash: None,
        ip_prefix: None,
        country: None,
        city: None,
        latitude: None,
        longitude: None,
        device: Device::Unknown,
        browser: None,
        browser_version: None,
        system: None,
        system_version: None,
        utm_source: None,
        utm_medium: None,
        utm_campaign: None,
        visitor: None,
        bot: false,
    }
}

pub fn complete_click() -> Click {
    let ts = Timestamp::parse("2026-01-30T00:00:00.042Z").unwrap();
    let some = |text: &str| Some(text.to_owned());
    Click {
        n: 2,
        id: event_id(ts, 7, 2, 1),
        ts,
        link: Id::from_i64(i64::MAX),
        workspace: Id::from_i64(2),
        code: "grüße".to_owned(),
        referrer: some("https://example.com/\"quoted\"\n"),
        user_agent: some("Mozilla/5.0 (\u{1F98A})"),
        ua_hash: Some(0xAB),
        ip_prefix: Some(IpPrefix::from_address("2001:db8:1:2::3".parse().unwrap())),
        country: some("DE"),
        city: some("München"),
        latitude: Some(48.137_4),
        longitude: Some(-11.5),
        device: Device::Bot,
        browser: some("Firefox"),
        browser_version: some("147"),
        system: some("Linux"),
        system_version: some(""),
        utm_source: some("news"),
        utm_medium: some("mail"),
        utm_campaign: some("winter"),
        visitor: Some(u64::MAX),
        bot: true,
    }
}

/// `count` different clicks, a millisecond apart, every third one without what can be missing.
pub fn many(count: u32) -> Vec<Click> {
    let click = |k: u32| {
        let base = if k.is_multiple_of(3) { minimal_click() } else { complete_click() };
        let ts = Timestamp::parse("2026-02-01").unwrap().plus_ms(i64::from(k));
        let visitor = base.visitor.map(|_| u64::from(k).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Click { id: event_id(ts, 7, 0, u64::from(k)), ts, code: format!("code{}", k % 100), visitor, ..base }
    };
    (0..count).map(click).collect()
}
