//! A click as the journal holds it: what the policy keeps, and nothing more.
//!
//! The serving thread encodes it right into the frame it writes; ingest decodes it. The address itself is not among its
//! fields: only the network's prefix and a keyed hash are.

use rlinks_core::{Id, Timestamp};

/// The version of the encoding.
const ENCODING_VERSION: u8 = 1;
const IS_BOT: u8 = 1;
const HAS_PREFIX: u8 = 2;
const HAS_COUNTRY: u8 = 4;
/// The user agent was read before the journal and only its hash and what was read are kept.
const HAS_PARSED_USER_AGENT: u8 = 8;

/// A record's fields, borrowed: to be written, or as they lie in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry<'a> {
    pub ts: Timestamp,
    pub link: Id,
    pub workspace: Id,
    /// The visitor's key of this UTC day.
    pub visitor: u64,
    /// The network of the address, packed.
    pub prefix: Option<i64>,
    /// What a trusted proxy says about the country.
    pub country: Option<[u8; 2]>,
    /// No person: a robot, a preview, a prefetch.
    pub bot: bool,
    /// The keyed hash of the user agent.
    pub ua_hash: u64,
    pub agent: UserAgentBytes<'a>,
    /// Where it came from, without query; not looked at any further yet.
    pub referrer: &'a [u8],
    // The request's `utm_source`.
    pub utm_source: &'a str,
    // The request's `utm_medium`.
    pub utm_medium: &'a str,
    // The request's `utm_campaign`.
    pub utm_campaign: &'a str,
}

/// What is kept of a user agent: its text, or what was read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAgentBytes<'a> {
    /// The text as it came, cut as the policy says; to be read later, whatever bytes it has.
    Raw(&'a [u8]),
    /// Device, browser and system as [`user_agent::encode`](crate::enrich::user_agent::encode) wrote them.
    Parsed(&'a [u8]),
}

/// Why bytes are no record: written by a newer version, or not by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a journal record cannot be read")]
pub struct MalformedEntryError;

impl<'a> JournalEntry<'a> {
    /// Appends the encoding. Texts are at most 64 KiB; the recorder cuts them far shorter.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (read, agent) = match self.agent {
            UserAgentBytes::Raw(text) => (0, text),
            UserAgentBytes::Parsed(bytes) => (HAS_PARSED_USER_AGENT, bytes),
        };
        let flags = (u8::from(self.bot) * IS_BOT)
            | (u8::from(self.prefix.is_some()) * HAS_PREFIX)
            | (u8::from(self.country.is_some()) * HAS_COUNTRY)
            | read;
        let length_of = |text: &[u8]| u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes();
        let mut fixed = [0; 54];
        fixed[0] = ENCODING_VERSION;
        fixed[1] = flags;
        fixed[2..4].copy_from_slice(&self.country.unwrap_or_default());
        fixed[4..12].copy_from_slice(&self.ts.ms().to_le_bytes());
        fixed[12..20].copy_from_slice(&self.link.as_i64().to_le_bytes());
        fixed[20..28].copy_from_slice(&self.workspace.as_i64().to_le_bytes());
        fixed[28..36].copy_from_slice(&self.visitor.to_le_bytes());
        fixed[36..44].copy_from_slice(&self.ua_hash.to_le_bytes());
        fixed[44..52].copy_from_slice(&self.prefix.unwrap_or_default().to_le_bytes());
        fixed[52..].copy_from_slice(&length_of(agent));
        out.extend_from_slice(&fixed);
        out.extend_from_slice(agent);
        out.extend_from_slice(&length_of(self.referrer));
        out.extend_from_slice(self.referrer);
        let campaign = [self.utm_source, self.utm_medium, self.utm_campaign].map(str::as_bytes);
        // Most clicks belong to none, and every copy of nothing costs as much as one of something.
        if campaign == [b""; 3] {
            out.extend_from_slice(&[0; 6]);
            return;
        }
        for text in campaign {
            out.extend_from_slice(&length_of(text));
            out.extend_from_slice(text);
        }
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Self, MalformedEntryError> {
        let (fixed, mut rest) = bytes.split_first_chunk::<52>().ok_or(MalformedEntryError)?;
        if fixed[0] != ENCODING_VERSION {
            return Err(MalformedEntryError);
        }
        let number = |at: usize| i64::from_le_bytes(fixed[at..at + 8].try_into().unwrap_or_default());
        let mut next = || {
            let (length, after) = rest.split_first_chunk::<2>().ok_or(MalformedEntryError)?;
            let (text, after) = after
                .split_at_checked(usize::from(u16::from_le_bytes(*length)))
                .ok_or(MalformedEntryError)?;
            rest = after;
            Ok(text)
        };
        let (agent, referrer) = (next()?, next()?);
        let mut text = || std::str::from_utf8(next()?).map_err(|_| MalformedEntryError);
        let flags = fixed[1];
        Ok(Self {
            ts: Timestamp::from_ms(number(4)),
            link: Id::from_i64(number(12)),
            workspace: Id::from_i64(number(20)),
            visitor: number(28).cast_unsigned(),
            prefix: (flags & HAS_PREFIX != 0).then(|| number(44)),
            country: (flags & HAS_COUNTRY != 0).then_some([fixed[2], fixed[3]]),
            bot: flags & IS_BOT != 0,
            ua_hash: number(36).cast_unsigned(),
            agent: if flags & HAS_PARSED_USER_AGENT == 0 {
                UserAgentBytes::Raw(agent)
            } else {
                UserAgentBytes::Parsed(agent)
            },
            referrer,
            utm_source: text()?,
            utm_medium: text()?,
            utm_campaign: text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rlinks_core::{Id, Timestamp};

    use super::{JournalEntry, UserAgentBytes};

    proptest! {
        #[test]
        fn encoded_entry_decodes_unchanged(
            ts in 0_i64..4_000_000_000_000, link: i64, workspace: i64, visitor: u64, ua_hash: u64,
            prefix: Option<i64>, country: Option<[u8; 2]>, bot: bool,
            text in ".{0,40}", agent in proptest::collection::vec(any::<u8>(), 0..40), read: bool,
        ) {
            let kept = if read { UserAgentBytes::Parsed(&agent) } else { UserAgentBytes::Raw(&agent) };
            let record = JournalEntry {
                ts: Timestamp::from_ms(ts), link: Id::from_i64(link), workspace: Id::from_i64(workspace),
                visitor, prefix, country, bot, ua_hash, agent: kept,
                referrer: text.as_bytes(), utm_source: "", utm_medium: "m", utm_campaign: &text,
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(JournalEntry::decode(&bytes), Ok(record));
            for cut in 0..bytes.len() {
                prop_assert!(JournalEntry::decode(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn decoding_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = JournalEntry::decode(&bytes);
        }
    }
}
