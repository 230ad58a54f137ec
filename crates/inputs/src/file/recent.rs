//! The last bytes read of a file, for hashing the bytes before a position.
//!
//! A position is either the pipeline's safe offset, which stays before an incomplete event, or the end of the bytes
//! read. The bytes kept therefore begin [`TAIL_BYTES`] before the safe offset; they are few unless events are long.
//!
//! Not here: the conclusions drawn from a hash ([`super::identity`]).

use quarry_stdx::number::usize_of;
use xxhash_rust::xxh3::Xxh3;

use super::fingerprint::{TAIL_BYTES, tail_hash};

/// Spare capacity for further bytes.
const SPARE_BYTES: usize = 4 << 10;

/// The last bytes read.
pub(crate) struct RecentBytes {
    bytes: Vec<u8>,
    /// Offset after the last of these bytes.
    end: u64,
    /// Hash of all bytes before those kept; only needed for positions in compressed content.
    prefix: Option<Xxh3>,
}

impl RecentBytes {
    /// `before` contains all bytes before offset `end`, or at least the last [`TAIL_BYTES`]. `prefix` is the hash of
    /// the bytes before `before`.
    pub(crate) fn new(before: Vec<u8>, end: u64, prefix: Option<Xxh3>) -> RecentBytes {
        assert!(before.len() as u64 == end || before.len() >= TAIL_BYTES, "a hash needs TAIL_BYTES bytes");
        RecentBytes { bytes: before, end, prefix }
    }

    /// Adds bytes and drops those that no position at or after `safe` needs.
    pub(crate) fn push(&mut self, bytes: &[u8], safe: u64) {
        let begin = self.end - self.bytes.len() as u64;
        let needed = safe.saturating_sub(TAIL_BYTES as u64).max(begin);
        let old = usize_of(needed.min(self.end) - begin);
        let new = usize_of(needed.saturating_sub(self.end));
        if let Some(prefix) = &mut self.prefix {
            prefix.update(&self.bytes[..old]);
            prefix.update(&bytes[..new]);
        }
        self.bytes.drain(..old);
        self.bytes.extend_from_slice(&bytes[new..]);
        self.end += bytes.len() as u64;
        self.bytes.shrink_to(2 * self.bytes.len().max(SPARE_BYTES));
    }

    /// The bytes kept before `offset`, which is the end or a safe offset that no later call of
    /// [`RecentBytes::push`] has passed.
    pub(crate) fn bytes_before(&self, offset: u64) -> &[u8] {
        let behind = usize_of(self.end - offset);
        &self.bytes[..self.bytes.len().saturating_sub(behind)]
    }

    /// Hash of the last bytes before `offset`.
    pub(crate) fn tail_hash(&self, offset: u64) -> u64 {
        tail_hash(self.bytes_before(offset))
    }

    /// Hash of all bytes before `offset`; `None` if the prefix is not hashed.
    pub(crate) fn content_hash(&self, offset: u64) -> Option<u64> {
        let mut content = self.prefix.clone()?;
        content.update(self.bytes_before(offset));
        Some(content.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn recent_bytes_hash_like_the_whole_content() {
        let bytes: Vec<u8> = (0..5_000u32).map(|at| (at * 31 % 251) as u8).collect();
        for (size, lag) in [(1, 0), (7, 300), (256, 1), (999, 2_000), (5_000, 5_000)] {
            let mut recent = RecentBytes::new(Vec::new(), 0, Some(Xxh3::new()));
            for part in bytes.chunks(size) {
                let safe = (recent.end + part.len() as u64).saturating_sub(lag);
                recent.push(part, safe);
                assert!(recent.bytes.len() <= lag as usize + TAIL_BYTES, "no more is kept");
                for offset in [safe, recent.end] {
                    let all = &bytes[..offset as usize];
                    assert_eq!(recent.tail_hash(offset), tail_hash(all), "{size} {offset}");
                    assert_eq!(recent.content_hash(offset), Some(xxh3_64(all)), "{size} {offset}");
                }
            }
        }
    }
}
