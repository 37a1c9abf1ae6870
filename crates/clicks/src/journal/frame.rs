//! Frames: how records lie in a segment, and how to tell a whole one from anything else.

/// How a segment begins; the sequence before its first record and a checksum follow.
const MAGIC: &[u8; 8] = b"rlinksj1";
/// The part of a segment before its first frame.
pub(super) const HEAD_BYTES: usize = 20;
/// The part of a frame before its payload.
pub(super) const FRAME_BYTES: usize = 14;
/// No frame is longer.
pub(super) const LONGEST_FRAME_BYTES: usize = FRAME_BYTES + u16::MAX as usize;
/// After damage, a frame this far ahead is no longer believed to follow.
const FARTHEST: u64 = 1 << 24;

/// Fills in the head of a frame whose payload is already behind it. Refuses what does not fit.
pub(super) fn seal(frame: &mut [u8], sequence: u64) -> bool {
    let Ok(length) = u16::try_from(frame.len() - FRAME_BYTES) else { return false };
    frame[6..14].copy_from_slice(&sequence.to_le_bytes());
    // For a moment the length stands right before the sequence, where the checksum will be: what it covers is one piece so, and most
    // of its cost is beginning.
    frame[4..6].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c(&frame[4..]);
    frame[..2].copy_from_slice(&length.to_le_bytes());
    frame[2..6].copy_from_slice(&checksum.to_le_bytes());
    true
}

fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..2]), &frame[6..])
}

/// The head of a segment that goes on after a sequence. A wrong sequence would make every frame behind it look old, so it has a
/// checksum as they have.
pub(super) fn head(after: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&after.to_le_bytes());
    let checksum = crc32c::crc32c(&head[..16]);
    head[16..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// The sequence a segment goes on after.
pub(super) fn read_head(head: [u8; HEAD_BYTES]) -> Option<u64> {
    if crc32c::crc32c(&head[..16]).to_le_bytes() != head[16..] {
        return None;
    }
    let after = head[..16].strip_prefix(MAGIC)?;
    Some(u64::from_le_bytes(after.try_into().ok()?))
}

/// What lies at a place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A whole frame: its sequence, payload and length.
    Frame(u64, &'a [u8], usize),
    /// The beginning of one, as far as can be seen.
    Short,
    /// No frame.
    Damage,
}

/// Looks at the beginning of `bytes`. Sequences only ever grow; `after` is the last one, where it is known.
pub(super) fn look(bytes: &[u8], after: Option<u64>) -> Found<'_> {
    let Some(head) = bytes.first_chunk::<FRAME_BYTES>() else { return Found::Short };
    let length = FRAME_BYTES + usize::from(u16::from_le_bytes([head[0], head[1]]));
    let Some(frame) = bytes.get(..length) else { return Found::Short };
    let sequence = u64::from_le_bytes(frame[6..14].try_into().unwrap_or_default());
    // Asked first: among bytes that are no frame it saves nearly every checksum.
    let follows = after.is_none_or(|after| sequence > after && sequence - after <= FARTHEST);
    if !follows || checksum(frame).to_le_bytes() != frame[2..6] {
        return Found::Damage;
    }
    Found::Frame(sequence, &frame[FRAME_BYTES..], length)
}

/// How far ahead the next whole frame begins.
pub(super) fn next_whole(bytes: &[u8], after: Option<u64>) -> Option<usize> {
    (1..bytes.len().saturating_sub(FRAME_BYTES - 1))
        .find(|&at| matches!(look(&bytes[at..], after), Found::Frame(..)))
}
