//! Milestones: hashes of a file's content at doubling lengths, stored with its position.
//!
//! When a log is copied and truncated, the copy often ends before the stored read position of the log, because the log
//! grew during the copy. The copy then cannot be recognised by the bytes before that position, because the copy lacks
//! them, nor by comparison with the log, which has been truncated. Therefore, 32-bit hashes of the 256 bytes before
//! each of the lengths 512, 1024, 2048 … are stored: four bytes per doubling. A file that reaches at least four
//! milestones and matches all that it reaches is a copy.
//!
//! Not here: what is done with a copy ([`super::identity`]).

use std::io;

use quarry_stdx::number::{low_u32, usize_of};
use xxhash_rust::xxh3::xxh3_64;

use super::fingerprint::TAIL_BYTES;
use super::open::Handle;

/// Length at the first milestone. The first 256 bytes of a file need none: they are part of its identity.
const FIRST_MILESTONE_BYTES: u64 = 512;
/// Minimum number of milestones that a copy must reach: files below 4 KiB may begin alike by chance, for example with a
/// common header.
pub(super) const REACHED_MIN: usize = 4;
/// Maximum number of milestones: enough for a file of 2^60 bytes.
pub const MILESTONES_MAX: usize = 52;

/// Length at a milestone.
pub(super) fn length_at(milestone: usize) -> u64 {
    FIRST_MILESTONE_BYTES << milestone.min(MILESTONES_MAX)
}

/// Number of milestones that `length` bytes reach.
pub(super) fn reached_count(length: u64) -> usize {
    (0..MILESTONES_MAX).take_while(|milestone| length_at(*milestone) <= length).count()
}

/// Hash at a milestone; `before` ends there.
pub(super) fn hash(before: &[u8]) -> u32 {
    low_u32(xxh3_64(&before[before.len().saturating_sub(TAIL_BYTES)..]))
}

/// Milestones of the first `length` bytes of a plain file.
pub(crate) fn compute_for_plain(handle: &Handle, length: u64) -> io::Result<Vec<u32>> {
    let mut window = [0; TAIL_BYTES];
    let of = |milestone| {
        handle.read_exact_at(&mut window, length_at(milestone) - TAIL_BYTES as u64)?;
        Ok(hash(&window))
    };
    (0..reached_count(length)).map(of).collect()
}

/// Adds milestones passed by `bytes`, which follow the first `length` bytes. `before` contains the last 256 of these
/// first bytes, or all if there are fewer.
pub(crate) fn add_passed(milestones: &mut Vec<u32>, before: &[u8], length: u64, bytes: &[u8]) {
    let end = length + bytes.len() as u64;
    while milestones.len() < MILESTONES_MAX && length_at(milestones.len()) <= end {
        // If an earlier milestone is missing, later ones cannot be added.
        let Some(new) = length_at(milestones.len()).checked_sub(length) else { return };
        let new = &bytes[..usize_of(new)];
        let old = &before[before.len().saturating_sub(TAIL_BYTES.saturating_sub(new.len()))..];
        milestones.push(hash(&[old, new].concat()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milestones_are_independent_of_chunking() {
        let bytes: Vec<u8> = (0..9_000u32).map(|at| (at * at % 251) as u8).collect();
        let expected: Vec<u32> = [512, 1_024, 2_048, 4_096, 8_192].map(|end| hash(&bytes[..end])).to_vec();
        assert_eq!((reached_count(511), reached_count(512), reached_count(9_000)), (0, 1, 5));
        for size in [1, 100, 255, 256, 257, 600, 9_000] {
            let (mut found, mut length) = (Vec::new(), 0);
            for part in bytes.chunks(size) {
                add_passed(&mut found, &bytes[..length], length as u64, part);
                length += part.len();
            }
            assert_eq!(found, expected, "{size}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, &bytes).unwrap();
        let handle = Handle::open(&path).unwrap().unwrap();
        assert_eq!(compute_for_plain(&handle, 9_000).unwrap(), expected);
        assert_eq!(compute_for_plain(&handle, 4_095).unwrap(), expected[..3]);
    }
}
