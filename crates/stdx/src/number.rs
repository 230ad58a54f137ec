//! Lossless integer conversions for values bounded by an invariant.
//!
//! `as` silently truncates. Use `try_from` and an error for values from outside, and these functions where an invariant
//! of this program bounds the value.

// File lengths (`u64`) and memory lengths (`usize`) are interchangeable on every supported machine.
const _: () = assert!(usize::BITS == u64::BITS, "quarry requires a 64-bit machine");

/// Converts a 64-bit length or offset.
#[must_use]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both have 64 bits: asserted above")]
pub const fn usize_of(value: u64) -> usize {
    value as usize
}

/// Converts a count that a limit keeps below 2^32.
///
/// Panics if the count is larger: a limit is missing, and a truncated count would be misread later.
#[must_use]
#[inline]
#[track_caller]
#[expect(clippy::cast_possible_truncation, reason = "asserted")]
pub const fn u32_of(count: usize) -> u32 {
    assert!(count <= u32::MAX as usize, "a count is beyond 32 bits: its limit is missing");
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_preserve_the_value() {
        assert_eq!((usize_of(u64::MAX), u32_of(u32::MAX as usize)), (usize::MAX, u32::MAX));
        assert!(std::panic::catch_unwind(|| u32_of(1 << 32)).is_err());
    }
}
