//! File positions: the last accepted position of each file, found by the file's first bytes.
//!
//! The complete list is written beside the queue before a segment of the queue is deleted, so that positions stored
//! only in that segment are kept. Beyond a limit, the files whose positions have been unchanged for longest are
//! forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quarry_inputs::FilePosition;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::record::{Reader, write_position};

/// Maximum number of files with positions.
const FILES_MAX: usize = 1 << 18;
/// Maximum bytes at the start of a file that identify it.
const HEAD_BYTES_MAX: usize = 256;
/// Magic of the list.
const MAGIC: &[u8; 8] = b"QFPOS\0\0\x02";
/// Magic of older lists, without milestones.
const OLD_MAGIC: &[u8; 8] = b"QFPOS\0\0\x01";

/// Positions by file identity.
#[derive(Debug, Default)]
pub(super) struct Positions {
    entries: BTreeMap<Key, PositionEntry>,
    /// Files by the sequence number of their last change, oldest first.
    ages: BTreeSet<(u64, Key)>,
    /// Lengths of the identifying heads stored; no other lengths are looked up.
    lengths: BTreeSet<usize>,
    clock: u64,
}

/// Hash of scope and head, length of the head, and the variant that distinguishes files with equal heads.
type Key = (u128, usize, u32);

#[derive(Debug)]
struct PositionEntry {
    position: FilePosition,
    age: u64,
}

fn key(scope: &str, head: &[u8], variant: u32) -> Key {
    let mut hasher = Xxh3::new();
    hasher.update(scope.as_bytes());
    hasher.update(&[0xff]);
    hasher.update(head);
    (hasher.digest128(), head.len(), variant)
}

impl Positions {
    /// Adds or updates a position.
    pub(super) fn set(&mut self, position: FilePosition) {
        let identity = &position.identity;
        let key = key(&identity.scope, &identity.head, identity.variant);
        self.lengths.insert(key.1);
        self.clock += 1;
        if let Some(before) = self.entries.insert(key, PositionEntry { position, age: self.clock }) {
            self.ages.remove(&(before.age, key));
        }
        self.ages.insert((self.clock, key));
        while self.entries.len() > FILES_MAX
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    /// Positions of files that may begin with `head`.
    pub(super) fn find(&self, scope: &str, head: &[u8]) -> Vec<FilePosition> {
        let most = head.len().min(HEAD_BYTES_MAX);
        let mut found = Vec::new();
        for length in self.lengths.range(..=most).rev() {
            let (hash, bytes, _) = key(scope, &head[..*length], 0);
            for known in self.entries.range((hash, bytes, 0)..=(hash, bytes, u32::MAX)).map(|(_, known)| known) {
                found.push(known.position.clone());
            }
        }
        found
    }

    /// Serialises the list, oldest first.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[0; 8]);
        for (_, key) in &self.ages {
            if let Some(known) = self.entries.get(key) {
                write_position(&known.position, &mut bytes);
            }
        }
        let hash = xxh3_64(&bytes[16..]);
        bytes[8..16].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Parses a list; `None` if it is damaged.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Positions> {
        let has_milestones = bytes.starts_with(MAGIC);
        let rest = bytes.strip_prefix(if has_milestones { MAGIC } else { OLD_MAGIC })?;
        let (hash, rest) = rest.split_first_chunk::<8>()?;
        if xxh3_64(rest) != u64::from_le_bytes(*hash) {
            return None;
        }
        let (mut positions, mut reader) = (Positions::default(), Reader(rest));
        while !reader.0.is_empty() {
            positions.set(reader.position(has_milestones)?);
        }
        Some(positions)
    }

    /// Reads the list from a file; empty if there is none, `None` if it is damaged.
    pub(super) fn read(path: &Path) -> std::io::Result<Option<Positions>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Positions::from_bytes(&bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Some(Positions::default())),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_inputs::FileIdentity;

    use super::*;

    fn position(scope: &str, head: &[u8], variant: u32, offset: u64) -> FilePosition {
        let identity = Arc::new(FileIdentity { scope: scope.to_owned(), head: head.to_vec(), variant });
        FilePosition { identity, offset, tail_hash: 1, path: "/f".to_owned(), milestones: vec![9; 3] }
    }

    #[test]
    fn files_are_found_by_the_beginning_of_their_first_bytes() {
        let mut positions = Positions::default();
        for (scope, head, variant, offset) in [
            ("main", &b"abc"[..], 0, 10),
            ("main", b"abcdef", 1, 20),
            ("main", b"abd", 0, 30),
            ("other", b"abc", 0, 40),
        ] {
            positions.set(position(scope, head, variant, offset));
        }
        positions.set(position("main", b"abc", 0, 11));
        let found = |positions: &Positions, scope: &str, head: &[u8]| -> Vec<(usize, u32, u64)> {
            let found = positions.find(scope, head).into_iter();
            found.map(|known| (known.identity.head.len(), known.identity.variant, known.offset)).collect()
        };
        assert_eq!(found(&positions, "main", b"abcdefgh"), [(6, 1, 20), (3, 0, 11)]);
        assert_eq!(found(&positions, "main", b"ab"), []);
        let bytes = positions.to_bytes();
        let back = Positions::from_bytes(&bytes).unwrap();
        assert_eq!(found(&back, "other", b"abcd"), [(3, 0, 40)]);
        assert_eq!(found(&back, "main", b"abcdefgh"), [(6, 1, 20), (3, 0, 11)]);
        assert!(Positions::from_bytes(&bytes[..bytes.len() - 1]).is_none());
    }

    #[test]
    fn least_recently_read_files_are_evicted() {
        let mut positions = Positions::default();
        for number in 0..FILES_MAX as u64 + 5 {
            positions.set(position("main", &number.to_le_bytes(), 0, number));
        }
        assert_eq!((positions.entries.len(), positions.ages.len()), (FILES_MAX, FILES_MAX));
        assert!(positions.find("main", &4_u64.to_le_bytes()).is_empty());
        assert_eq!(positions.find("main", &5_u64.to_le_bytes()).len(), 1);
    }
}
