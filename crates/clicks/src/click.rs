//! A click: what is remembered of one redirect. Not how it was recorded, and not how it is counted.

pub use rlinks_core::click::ip_prefix::IpPrefix;
use rlinks_core::{Id, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One redirect as it is kept. What the workspace's policy did not want, or nobody could find out, is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Click {
    /// Its number in the order of storing. Ours alone: it is not exported.
    pub n: i64,
    /// Its name for ever, from [`event_id`].
    pub id: Uuid,
    /// When the answer left.
    pub ts: Timestamp,
    /// The link that was followed.
    pub link: Id,
    /// Whose link it is.
    pub workspace: Id,
    /// The code as it was stored then.
    pub code: String,
    /// Where the visitor came from.
    pub referrer: Option<String>,
    /// The browser's own words.
    pub user_agent: Option<String>,
    /// The same as a number, shown as 16 hexadecimal digits.
    pub ua_hash: Option<u64>,
    /// The visitor's network, never the address.
    pub ip_prefix: Option<IpPrefix>,
    /// Two letters of ISO 3166.
    pub country: Option<String>,
    pub city: Option<String>,
    pub latitude: Option<f64>,
    pub longitude: Option<f64>,
    /// What kind of device it was.
    pub device: Device,
    pub browser: Option<String>,
    pub browser_version: Option<String>,
    /// The operating system's name.
    pub system: Option<String>,
    /// The operating system's version.
    pub system_version: Option<String>,
    /// `utm_source` of the request.
    pub utm_source: Option<String>,
    /// `utm_medium` of the request.
    pub utm_medium: Option<String>,
    /// `utm_campaign` of the request.
    pub utm_campaign: Option<String>,
    /// Who it was, as far as a day's hash can say; shown as 16 hexadecimal digits.
    pub visitor: Option<u64>,
    /// A program, not a person.
    pub bot: bool,
}

/// The kind of device a click came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// A computer on a desk or a lap.
    Desktop,
    Mobile,
    Tablet,
    /// A program: a crawler, a link preview, a monitor or a tool of the command line.
    Bot,
    /// Nothing was said, or nothing we understand.
    Unknown,
}

impl Device {
    /// Every kind of device.
    pub const ALL: [Self; 5] = [Self::Desktop, Self::Mobile, Self::Tablet, Self::Bot, Self::Unknown];

    /// The word for it in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Mobile => "mobile",
            Self::Tablet => "tablet",
            Self::Bot => "bot",
            Self::Unknown => "unknown",
        }
    }

    /// The device that [`as_str`](Self::as_str) gives this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.as_str() == word)
    }
}

/// The `UUIDv7` of a click: the moment, the low 12 bits of `thread`, then 30 bits of `boot` and the low 32 of `seq`.
///
/// The bits are chosen and not random on purpose. `boot` tells processes apart, `thread` and `seq` the clicks of one, so
/// nothing is drawn on the way of a redirect; and neighbours share most of their digits, which Parquet stores once.
pub const fn event_id(ts: Timestamp, boot: u64, thread: u16, seq: u64) -> Uuid {
    const VERSION_7: u64 = 7 << 12;
    const VARIANT: u64 = 0b10 << 62;
    let high = ts.ms().cast_unsigned() << 16 | VERSION_7 | thread as u64 & 0xFFF;
    let low = VARIANT | (boot & 0x3FFF_FFFF) << 32 | seq & 0xFFFF_FFFF;
    Uuid::from_u64_pair(high, low)
}

#[cfg(test)]
mod tests {
    use rlinks_core::Timestamp;

    use super::{Device, event_id};

    #[test]
    fn event_ids_are_sortable_version_7_uuids() {
        let at = Timestamp::parse("2026-01-29T12:34:56.789Z").unwrap();
        let id = event_id(at, u64::MAX - 1, 0x1ABC, 0x7_0000_0002);
        assert_eq!(id.to_string(), "019c09bf-e495-7abc-bfff-fffe00000002");
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert!(event_id(at, 5, 0, 1) < event_id(at, 5, 0, 2));
        assert!(event_id(at, 5, 9, 9) < event_id(at.plus_ms(1), 5, 0, 0));
    }

    #[test]
    fn device_names_round_trip() {
        for device in Device::ALL {
            assert_eq!(Device::parse(device.as_str()), Some(device));
            assert_eq!(serde_json::to_value(device).unwrap(), device.as_str());
        }
        assert_eq!(Device::parse("Desktop"), None);
        assert_eq!(Device::parse(""), None);
    }
}
