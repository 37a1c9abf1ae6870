//! What is kept of a visitor's address: its network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};

/// A visitor's network: coarse enough to be nobody's, fine enough to tell offices and abuse apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpPrefix {
    /// The first 24 bits of an `IPv4` address.
    V4([u8; 3]),
    /// The first 48 bits of an `IPv6` address.
    V6([u8; 6]),
}

/// Set in the packed form of an `IPv6` prefix, above its 48 bits, so that `::/48` is not `0.0.0.0/24`.
const V6_MARK: i64 = 1 << 48;

#[expect(clippy::many_single_char_names, reason = "the bytes of an address have no names")]
impl IpPrefix {
    /// The network of an address. An `IPv4` address that came through an `IPv6` socket is still `IPv4`.
    pub const fn from_address(address: IpAddr) -> Self {
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

impl fmt::Display for IpPrefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = match self {
            Self::V4(_) => 24,
            Self::V6(_) => 48,
        };
        write!(out, "{}/{bits}", self.address())
    }
}

impl Serialize for IpPrefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::IpPrefix;

    #[track_caller]
    fn check(address: &str, shown: &str, packed: i64) {
        let prefix = IpPrefix::from_address(address.parse().unwrap());
        assert_eq!(prefix.to_string(), shown);
        assert_eq!(prefix.as_i64(), packed, "{packed:#x} {:#x}", prefix.as_i64());
        assert_eq!(IpPrefix::from_i64(packed), Some(prefix));
        assert_eq!(IpPrefix::from_address(prefix.address()), prefix);
    }

    #[test]
    fn prefix_keeps_the_network_and_drops_the_host_bits() {
        check("203.0.113.77", "203.0.113.0/24", 0xCB_0071);
        check("::ffff:203.0.113.77", "203.0.113.0/24", 0xCB_0071);
        check("0.0.0.0", "0.0.0.0/24", 0);
        check("255.255.255.255", "255.255.255.0/24", 0xFF_FFFF);
        check("2001:db8:1:2:3::4", "2001:db8:1::/48", 0x1_2001_0db8_0001);
        check("::1", "::/48", 0x1_0000_0000_0000);
        check("ffff:ffff:ffff:ffff::", "ffff:ffff:ffff::/48", 0x1_FFFF_FFFF_FFFF);
    }

    #[test]
    fn invalid_packed_prefix_is_rejected() {
        for packed in [-1, 1 << 24, 0xFFFF_FFFF_FFFF, 0x2_0000_0000_0000, i64::MAX, i64::MIN] {
            assert_eq!(IpPrefix::from_i64(packed), None, "{packed:#x}");
        }
    }
}
