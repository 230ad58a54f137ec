//! The bytes that identify a file: the first bytes, and the last bytes before a position.
//!
//! Not here: the conclusions drawn from these bytes ([`super::identity`], [`super::rotation`]).

use xxhash_rust::xxh3::xxh3_64;

/// Number of leading bytes that identify a file, the default of Splunk's `initCrcLength`.
pub const HEAD_BYTES: usize = 256;

/// Number of bytes before a position that must be unchanged.
pub(crate) const TAIL_BYTES: usize = 256;

/// Hash of the last bytes of `before`, which ends at a position.
pub(crate) fn tail_hash(before: &[u8]) -> u64 {
    xxh3_64(&before[before.len().saturating_sub(TAIL_BYTES)..])
}
