//! The bytes that identify a file: its first ones, and the last ones before a position.
//!
//! Not here: conclusions from them ([`super::identity`], [`super::rotation`]).

use xxhash_rust::xxh3::xxh3_64;

/// Number of first bytes that identify a file, as Splunk's `initCrcLength`.
pub const HEAD_BYTES: usize = 256;

/// Number of bytes before a position that must be unchanged.
pub(crate) const TAIL_BYTES: usize = 256;

/// Hash of the last bytes of `before`, which ends at a position.
pub(crate) fn tail_hash(before: &[u8]) -> u64 {
    xxh3_64(&before[before.len().saturating_sub(TAIL_BYTES)..])
}
