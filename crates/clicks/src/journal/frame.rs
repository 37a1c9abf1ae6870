//! Frames: how records lie in a segment, and how to tell a whole one from anything else.

/// How a segment begins; the sequence before its first record and a checksum follow.
const MAGIC: &[u8; 8] = b"rlinksj1";
/// The part of a segment before its first frame.
pub(super) const SEGMENT_HEAD_BYTES: usize = 20;
/// The part of a frame before its payload.
pub(super) const FRAME_HEAD_BYTES: usize = 14;
/// No frame is longer.
pub(super) const MAX_FRAME_BYTES: usize = FRAME_HEAD_BYTES + u16::MAX as usize;
/// After damage, a frame this far ahead is no longer believed to follow.
const MAX_SEQUENCE_GAP: u64 = 1 << 24;

/// Fills in the head of a frame whose payload is already behind it. Refuses what does not fit.
pub(super) fn write_frame_head(frame: &mut [u8], sequence: u64) -> bool {
    let Ok(length) = u16::try_from(frame.len() - FRAME_HEAD_BYTES) else { return false };
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
pub(super) fn segment_head(after: u64) -> [u8; SEGMENT_HEAD_BYTES] {
    let mut head = [0; SEGMENT_HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&after.to_le_bytes());
    let checksum = crc32c::crc32c(&head[..16]);
    head[16..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// The sequence a segment goes on after.
pub(super) fn read_segment_head(head: [u8; SEGMENT_HEAD_BYTES]) -> Option<u64> {
    if crc32c::crc32c(&head[..16]).to_le_bytes() != head[16..] {
        return None;
    }
    let after = head[..16].strip_prefix(MAGIC)?;
    Some(u64::from_le_bytes(after.try_into().ok()?))
}

/// What lies at a place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FrameScan<'a> {
    /// A whole frame: its sequence, payload and length.
    Frame(u64, &'a [u8], usize),
    /// The beginning of one, as far as can be seen.
    Incomplete,
    Damaged,
}

/// Looks at the beginning of `bytes`. Sequences only ever grow; `after` is the last one, where it is known.
pub(super) fn scan(bytes: &[u8], after: Option<u64>) -> FrameScan<'_> {
    let Some(head) = bytes.first_chunk::<FRAME_HEAD_BYTES>() else { return FrameScan::Incomplete };
    let length = FRAME_HEAD_BYTES + usize::from(u16::from_le_bytes([head[0], head[1]]));
    let Some(frame) = bytes.get(..length) else { return FrameScan::Incomplete };
    let sequence = u64::from_le_bytes(frame[6..14].try_into().unwrap_or_default());
    // Asked first: among bytes that are no frame it saves nearly every checksum.
    let follows = after.is_none_or(|after| sequence > after && sequence - after <= MAX_SEQUENCE_GAP);
    if !follows || checksum(frame).to_le_bytes() != frame[2..6] {
        return FrameScan::Damaged;
    }
    FrameScan::Frame(sequence, &frame[FRAME_HEAD_BYTES..], length)
}

/// How far ahead the next whole frame begins.
pub(super) fn find_next_frame(bytes: &[u8], after: Option<u64>) -> Option<usize> {
    (1..bytes.len().saturating_sub(FRAME_HEAD_BYTES - 1))
        .find(|&at| matches!(scan(&bytes[at..], after), FrameScan::Frame(..)))
}
