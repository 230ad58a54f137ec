//! Hashes of a file's content at lengths that double, which are kept with its position.
//!
//! When a log is copied and emptied, the copy is often shorter than what was read of the log, because the log went on
//! while it was copied. Once the log is emptied, nothing is left to compare the copy with, and the bytes before the
//! position prove nothing: the copy does not reach it. So 32 bits of the 256 bytes before each of the lengths 512, 1024,
//! 2048 … are kept: four bytes each time a file doubles. A copy that holds all of those it reaches is one.
//!
//! Not here: what follows from being a copy ([`super::identity`]).

use std::io;

use quarry_stdx::number::usize_of;
use xxhash_rust::xxh3::xxh3_64;

use super::fingerprint::TAIL_BYTES;
use super::open::Handle;

/// Length at the first milestone; what comes before is nearly all in the file's identity.
const FIRST_BYTES: u64 = 512;
/// Milestones that a copy must reach: files of less than 4 KiB may begin alike by chance, with a heading for example.
pub(super) const REACHED_MIN: usize = 4;
/// Milestones at most: a file of 2^60 bytes has no more.
pub const MILESTONES_MAX: usize = 52;

/// Length at a milestone.
pub(super) fn length_at(milestone: usize) -> u64 {
    FIRST_BYTES << milestone.min(MILESTONES_MAX)
}

/// Milestones that `length` bytes reach.
pub(super) fn reached_by(length: u64) -> usize {
    (0..MILESTONES_MAX).take_while(|milestone| length_at(*milestone) <= length).count()
}

/// Hash of the bytes before a milestone, of which `before` are the last.
pub(super) fn hash(before: &[u8]) -> u32 {
    xxh3_64(&before[before.len().saturating_sub(TAIL_BYTES)..]) as u32
}

/// Those of the first `length` bytes of a plain file.
pub(crate) fn of_plain(handle: &Handle, length: u64) -> io::Result<Vec<u32>> {
    let mut window = [0; TAIL_BYTES];
    let of = |milestone| {
        handle.read_exact_at(&mut window, length_at(milestone) - TAIL_BYTES as u64)?;
        Ok(hash(&window))
    };
    (0..reached_by(length)).map(of).collect()
}

/// Takes note of `bytes`, which follow the first `length` bytes; `before` are the last of these, 256 if there are.
pub(crate) fn pass(milestones: &mut Vec<u32>, before: &[u8], length: u64, bytes: &[u8]) {
    let end = length + bytes.len() as u64;
    while milestones.len() < MILESTONES_MAX && length_at(milestones.len()) <= end {
        // One that lies before these bytes was not noted, so that nothing behind it counts.
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
    fn milestones_do_not_depend_on_how_bytes_come() {
        let bytes: Vec<u8> = (0..9_000u32).map(|at| (at * at % 251) as u8).collect();
        let expected: Vec<u32> = [512, 1_024, 2_048, 4_096, 8_192].map(|end| hash(&bytes[..end])).to_vec();
        assert_eq!((reached_by(511), reached_by(512), reached_by(9_000)), (0, 1, 5));
        for size in [1, 100, 255, 256, 257, 600, 9_000] {
            let (mut found, mut length) = (Vec::new(), 0);
            for part in bytes.chunks(size) {
                pass(&mut found, &bytes[..length], length as u64, part);
                length += part.len();
            }
            assert_eq!(found, expected, "{size}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, &bytes).unwrap();
        let handle = Handle::open(&path).unwrap().unwrap();
        assert_eq!(of_plain(&handle, 9_000).unwrap(), expected);
        assert_eq!(of_plain(&handle, 4_095).unwrap(), expected[..3]);
    }
}
