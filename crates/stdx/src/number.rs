//! Conversions between number types, each with its rounding in its name or its description.
//!
//! `as` silently truncates and rounds. Use `try_from` and an error for values from outside, and these functions where
//! an invariant of this program bounds the value, or where a double is meant to round. `cargo xtask tidy` refuses casts
//! elsewhere that can lose something.

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

/// An integer type that converts to and from doubles.
pub trait Integer: Copy {
    /// See [`f64_of`].
    fn to_nearest_f64(self) -> f64;
    /// See [`integer_part`].
    fn from_integer_part(value: f64) -> Self;
}

macro_rules! integer {
    ($($kind:ty)*) => { $(
        impl Integer for $kind {
            #[inline]
            fn to_nearest_f64(self) -> f64 {
                self as f64
            }

            #[inline]
            fn from_integer_part(value: f64) -> $kind {
                value as $kind
            }
        }
    )* };
}

integer!(u32 i32 u64 i64 usize i128 u128);

/// The double nearest to an integer; of two that are equally near, the one with the even mantissa. Integers up to 2^53
/// are exact.
#[must_use]
#[inline]
pub fn f64_of<N: Integer>(value: N) -> f64 {
    value.to_nearest_f64()
}

/// A double without its fraction, which rounds towards zero. Beyond the bounds of the integer type, the result is the
/// nearer bound; the result for NaN is 0.
#[must_use]
#[inline]
pub fn integer_part<N: Integer>(value: f64) -> N {
    N::from_integer_part(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_preserve_the_value() {
        assert_eq!((usize_of(u64::MAX), u32_of(u32::MAX as usize)), (usize::MAX, u32::MAX));
        assert!(std::panic::catch_unwind(|| u32_of(1 << 32)).is_err());
    }

    #[test]
    fn a_double_rounds_to_the_nearest_and_an_integer_towards_zero() {
        assert_eq!(
            (f64_of((1u64 << 53) + 1), f64_of((1u64 << 53) + 3)),
            (9_007_199_254_740_992.0, 9_007_199_254_740_996.0)
        );
        assert_eq!((integer_part::<i64>(-1.9), integer_part::<u64>(-1.9), integer_part::<usize>(1.9)), (-1, 0, 1));
        assert_eq!((integer_part::<i64>(1e300), integer_part::<i128>(f64::NAN)), (i64::MAX, 0));
    }
}
