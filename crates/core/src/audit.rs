//! The audit chain: who changed what, each entry sealed by the hash of the one before.
//!
//! A chain belongs to one workspace and has no gaps. The hash covers the bytes as stored, each with its length in front, so
//! no two different entries have the same input, and an export can be verified without the database.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::Timestamp;
use crate::hex;

/// The `prev_hash` of a chain's first entry.
pub const GENESIS_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its place in the workspace's chain, from 1.
    pub seq: i64,
    pub ts: Timestamp,
    pub workspace: String,
    pub actor: String,
    /// What was done: `link.create`, `domain.add`, ...
    pub action: String,
    /// To what: `link:parity`, `domain:rmax.to`, ...
    pub subject: String,
    /// How it was, as stored.
    #[serde(default)]
    pub before: Option<Box<RawValue>>,
    /// How it became, as stored.
    #[serde(default)]
    pub after: Option<Box<RawValue>>,
    /// The hash of the entry before.
    pub prev_hash: String,
    /// The hash of this one.
    pub hash: String,
}

impl AuditEntry {
    /// The hash this entry should have.
    pub fn compute_hash(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(b"rlinks.audit.1");
        add(&self.seq.to_le_bytes());
        add(&self.ts.ms().to_le_bytes());
        add(self.workspace.as_bytes());
        add(self.actor.as_bytes());
        add(self.action.as_bytes());
        add(self.subject.as_bytes());
        for side in [&self.before, &self.after] {
            match side {
                None => add(b"-"),
                Some(json) => {
                    add(b"+");
                    add(json.get().as_bytes());
                }
            }
        }
        add(self.prev_hash.as_bytes());
        hex::encode(&hash.finalize())
    }
}

/// The end of a chain at some moment: what a checkpoint signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub workspace: String,
    /// The last entry's place.
    pub seq: i64,
    pub hash: String,
}

impl Head {
    /// The bytes a signature covers.
    pub fn signed_bytes(&self, ts: Timestamp) -> Vec<u8> {
        format!("rlinks.head.1\n{}\n{}\n{}\n{}", self.workspace, self.seq, self.hash, ts.ms()).into_bytes()
    }
}

/// What is wrong with a chain, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("workspace {workspace}, entry {seq}: {what}")]
pub struct ChainError {
    pub workspace: String,
    /// The first bad entry.
    pub seq: i64,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Walks one workspace's chain in order and stops at the first bad entry.
#[derive(Clone, Debug)]
pub struct Verifier {
    head: Head,
    checkpoints: Vec<Head>,
}

impl Verifier {
    /// A walk from the beginning. `checkpoints` are heads seen earlier (checkpoints): the chain must pass through each.
    pub fn new(workspace: &str, mut marks: Vec<Head>) -> Self {
        marks.retain(|mark| mark.workspace == workspace && mark.seq > 0);
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.seq));
        Self {
            head: Head { workspace: workspace.to_owned(), seq: 0, hash: GENESIS_HASH.to_owned() },
            checkpoints: marks,
        }
    }

    pub fn push(&mut self, entry: &AuditEntry) -> Result<(), ChainError> {
        if entry.workspace != self.head.workspace {
            return self.fail(entry.seq, "belongs to another workspace");
        }
        if entry.seq != self.head.seq + 1 {
            return self.fail(self.head.seq + 1, "is missing or out of order");
        }
        if entry.prev_hash != self.head.hash {
            return self.fail(entry.seq, "does not follow the entry before it");
        }
        if entry.compute_hash() != entry.hash {
            return self.fail(entry.seq, "was edited: its hash does not match its contents");
        }
        while self.checkpoints.last().is_some_and(|mark| mark.seq == entry.seq) {
            let mark = self.checkpoints.pop().expect("there is a last mark");
            if mark.hash != entry.hash {
                return self.fail(
                    entry.seq,
                    "is not the entry an earlier checkpoint recorded: the log was rewritten",
                );
            }
        }
        self.head.seq = entry.seq;
        self.head.hash.clone_from(&entry.hash);
        Ok(())
    }

    /// The end: the chain must reach every mark, and the head the store claims.
    pub fn finish(self, claimed: Option<&Head>) -> Result<Head, ChainError> {
        if let Some(mark) = self.checkpoints.last() {
            return self.fail(
                mark.seq.min(self.head.seq + 1),
                "is missing: an earlier checkpoint recorded it, so the end was cut off",
            );
        }
        if let Some(claimed) = claimed {
            if claimed.seq > self.head.seq {
                return self.fail(self.head.seq + 1, "is missing: the end of the log was cut off");
            }
            if *claimed != self.head {
                return self.fail(self.head.seq, "is not the head the store recorded");
            }
        }
        Ok(self.head)
    }

    fn fail<T>(&self, seq: i64, what: &'static str) -> Result<T, ChainError> {
        Err(ChainError { workspace: self.head.workspace.clone(), seq, what })
    }
}

#[cfg(test)]
mod tests {
    use super::{AuditEntry, GENESIS_HASH, Head, Verifier};
    use crate::Timestamp;

    fn chain(length: i64) -> Vec<AuditEntry> {
        let mut prev = GENESIS_HASH.to_owned();
        (1..=length)
            .map(|seq| {
                let mut entry = AuditEntry {
                    seq,
                    ts: Timestamp::from_ms(1_800_000_000_000 + seq),
                    workspace: "main".to_owned(),
                    actor: "max".to_owned(),
                    action: "link.create".to_owned(),
                    subject: format!("link:{seq}"),
                    before: None,
                    after: Some(serde_json::value::to_raw_value(&seq).unwrap()),
                    prev_hash: prev.clone(),
                    hash: String::new(),
                };
                entry.hash = entry.compute_hash();
                prev.clone_from(&entry.hash);
                entry
            })
            .collect()
    }

    fn head(entry: &AuditEntry) -> Head {
        Head { workspace: "main".to_owned(), seq: entry.seq, hash: entry.hash.clone() }
    }

    fn verify(entries: &[AuditEntry], marks: Vec<Head>, claimed: Option<&Head>) -> Result<i64, i64> {
        let mut walk = Verifier::new("main", marks);
        for entry in entries {
            walk.push(entry).map_err(|fault| fault.seq)?;
        }
        walk.finish(claimed).map(|head| head.seq).map_err(|fault| fault.seq)
    }

    /// Faults, row 49.
    #[test]
    fn every_kind_of_tampering_is_detected() {
        let good = chain(9);
        let end = head(&good[8]);
        assert_eq!(verify(&good, vec![head(&good[3]), end.clone()], Some(&end)), Ok(9));

        let mut edited = good.clone();
        edited[4].actor = "mallory".to_owned();
        assert_eq!(verify(&edited, vec![], Some(&end)), Err(5));

        let mut removed = good.clone();
        removed.remove(4);
        assert_eq!(verify(&removed, vec![], Some(&end)), Err(5));

        let mut swapped = good.clone();
        swapped.swap(3, 6);
        assert_eq!(verify(&swapped, vec![], Some(&end)), Err(4));

        assert_eq!(verify(&good[..7], vec![], Some(&end)), Err(8));
        assert_eq!(verify(&good[..7], vec![end.clone()], Some(&head(&good[6]))), Err(8));

        // Whoever re-hashes everything still cannot pass through a head that was published before.
        let mut rehashed = good.clone();
        rehashed[4].actor = "mallory".to_owned();
        for at in 4..9 {
            rehashed[at].prev_hash = rehashed[at - 1].hash.clone();
            rehashed[at].hash = rehashed[at].compute_hash();
        }
        let forged = head(&rehashed[8]);
        assert_eq!(verify(&rehashed, vec![], Some(&forged)), Ok(9));
        assert_eq!(verify(&rehashed, vec![head(&good[6])], Some(&forged)), Err(7));
    }

    #[test]
    fn entry_survives_json_byte_for_byte() {
        let mut entry = chain(1).remove(0);
        entry.after = Some(
            serde_json::value::RawValue::from_string("{\"b\": 1,  \"a\":\"\\u00e4\"}".to_owned()).unwrap(),
        );
        entry.hash = entry.compute_hash();
        let back: AuditEntry = serde_json::from_str(&serde_json::to_string(&entry).unwrap()).unwrap();
        assert_eq!(back.compute_hash(), entry.hash);
    }

    #[test]
    fn hash_of_a_known_entry_never_changes() {
        assert_eq!(chain(1)[0].hash, "b9c2f667037264aa5ec778edff9fbab922f2084ce648676416087ebb02162d0f");
    }
}
