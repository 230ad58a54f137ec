//! Conversions between widths of integers that cannot lose anything, and say why.
//!
//! `as` cuts off what does not fit without a word. Where a value comes from outside, use `try_from` and an error; where an
//! invariant of this program bounds it, use these.

// Lengths of files and of memory are the same numbers on every machine the program runs on.
const _: () = assert!(usize::BITS == u64::BITS, "quarry is built for machines of 64 bits");

/// A length or place of 64 bits as one in memory.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "both have 64 bits: asserted above")]
pub const fn usize_of(value: u64) -> usize {
    value as usize
}

/// A number of rows, bytes or entries that a limit of whoever counts them keeps below 2^32.
///
/// # Panics
/// Where it is not below: a limit is missing, and what is written would be read as something else.
#[must_use]
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
    fn what_fits_is_the_same_number() {
        assert_eq!((usize_of(u64::MAX), u32_of(u32::MAX as usize)), (usize::MAX, u32::MAX));
        assert!(std::panic::catch_unwind(|| u32_of(1 << 32)).is_err());
    }
}
