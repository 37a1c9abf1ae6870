//! A click: what is remembered of one redirect. Not how it was recorded, and not how it is counted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rlinks_core::{Id, Timestamp};
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::Device;

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
    pub ip_prefix: Option<Prefix>,
    /// Two letters of ISO 3166.
    pub country: Option<String>,
    /// In English.
    pub city: Option<String>,
    /// Degrees north.
    pub latitude: Option<f64>,
    /// Degrees east.
    pub longitude: Option<f64>,
    /// What kind of device it was.
    pub device: Device,
    /// The browser's name.
    pub browser: Option<String>,
    /// The browser's version.
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

/// A visitor's network: coarse enough to be nobody's, fine enough to tell offices and abuse apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// The first 24 bits of an `IPv4` address.
    V4([u8; 3]),
    /// The first 48 bits of an `IPv6` address.
    V6([u8; 6]),
}

/// Set in the packed form of an `IPv6` prefix, above its 48 bits, so that `::/48` is not `0.0.0.0/24`.
const V6_MARK: i64 = 1 << 48;

#[expect(clippy::many_single_char_names, reason = "the bytes of an address have no names")]
impl Prefix {
    /// The network of an address. An `IPv4` address that came through an `IPv6` socket is still `IPv4`.
    pub const fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                Self::V4([a, b, c])
            }
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, ..] = address.octets();
                Self::V6([a, b, c, d, e, f])
            }
        }
    }

    /// The network's first address.
    pub const fn address(self) -> IpAddr {
        match self {
            Self::V4([a, b, c]) => IpAddr::V4(Ipv4Addr::new(a, b, c, 0)),
            Self::V6([a, b, c, d, e, f]) => {
                let words =
                    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), u16::from_be_bytes([e, f])];
                IpAddr::V6(Ipv6Addr::new(words[0], words[1], words[2], 0, 0, 0, 0, 0))
            }
        }
    }

    /// As the store keeps it.
    pub const fn as_i64(self) -> i64 {
        match self {
            Self::V4([a, b, c]) => i64::from_be_bytes([0, 0, 0, 0, 0, a, b, c]),
            Self::V6([a, b, c, d, e, f]) => V6_MARK | i64::from_be_bytes([0, 0, a, b, c, d, e, f]),
        }
    }

    /// As the store kept it, or nothing for a number no prefix has.
    pub const fn from_i64(packed: i64) -> Option<Self> {
        match packed.to_be_bytes() {
            [0, 0, 0, 0, 0, a, b, c] => Some(Self::V4([a, b, c])),
            [0, 1, a, b, c, d, e, f] => Some(Self::V6([a, b, c, d, e, f])),
            _ => None,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = match self {
            Self::V4(_) => 24,
            Self::V6(_) => 48,
        };
        write!(out, "{}/{bits}", self.address())
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use rlinks_core::Timestamp;

    use super::{Prefix, event_id};

    #[track_caller]
    fn check(address: &str, shown: &str, packed: i64) {
        let prefix = Prefix::of(address.parse().unwrap());
        assert_eq!(prefix.to_string(), shown);
        assert_eq!(prefix.as_i64(), packed, "{packed:#x} {:#x}", prefix.as_i64());
        assert_eq!(Prefix::from_i64(packed), Some(prefix));
        assert_eq!(Prefix::of(prefix.address()), prefix);
    }

    #[test]
    fn a_prefix_keeps_the_network_and_forgets_the_address() {
        check("203.0.113.77", "203.0.113.0/24", 0xCB_0071);
        check("::ffff:203.0.113.77", "203.0.113.0/24", 0xCB_0071);
        check("0.0.0.0", "0.0.0.0/24", 0);
        check("255.255.255.255", "255.255.255.0/24", 0xFF_FFFF);
        check("2001:db8:1:2:3::4", "2001:db8:1::/48", 0x1_2001_0db8_0001);
        check("::1", "::/48", 0x1_0000_0000_0000);
        check("ffff:ffff:ffff:ffff::", "ffff:ffff:ffff::/48", 0x1_FFFF_FFFF_FFFF);
    }

    #[test]
    fn a_number_no_prefix_has_is_nothing() {
        for packed in [-1, 1 << 24, 0xFFFF_FFFF_FFFF, 0x2_0000_0000_0000, i64::MAX, i64::MIN] {
            assert_eq!(Prefix::from_i64(packed), None, "{packed:#x}");
        }
    }

    #[test]
    fn ids_are_uuids_of_version_7_whose_parts_can_be_read() {
        let at = Timestamp::parse("2026-01-29T12:34:56.789Z").unwrap();
        let id = event_id(at, u64::MAX - 1, 0x1ABC, 0x7_0000_0002);
        assert_eq!(id.to_string(), "019c09bf-e495-7abc-bfff-fffe00000002");
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert!(event_id(at, 5, 0, 1) < event_id(at, 5, 0, 2));
        assert!(event_id(at, 5, 9, 9) < event_id(at.plus_ms(1), 5, 0, 0));
    }
}
