//! Conversions between number types, each with its rounding or truncation in its name or its description.
//!
//! `as` silently truncates and rounds. Use `try_from` and an error for values from outside, and these functions where
//! an invariant of this program bounds the value, or where the loss is meant. `cargo xtask tidy` refuses casts elsewhere
//! that can lose something.

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

/// Converts a count or an offset that a limit keeps below 256.
///
/// Panics if the number is larger, like [`u32_of`].
#[must_use]
#[inline]
#[track_caller]
#[expect(clippy::cast_possible_truncation, reason = "asserted")]
pub const fn u8_of(count: usize) -> u8 {
    assert!(count <= u8::MAX as usize, "a count is beyond 8 bits: its limit is missing");
    count as u8
}

/// An integer type, with the conversions that lose a part of the value.
pub trait Integer: Copy {
    /// See [`f64_of`].
    fn to_nearest_f64(self) -> f64;
    /// See [`integer_part`].
    fn from_integer_part(value: f64) -> Self;
    /// See [`low_u8`].
    fn low_u8(self) -> u8;
    /// See [`low_u16`].
    fn low_u16(self) -> u16;
    /// See [`low_u32`].
    fn low_u32(self) -> u32;
}

macro_rules! integer {
    ($($kind:ty)*) => { $(
        #[allow(clippy::unnecessary_cast, reason = "some of the types are already as narrow")]
        impl Integer for $kind {
            #[inline]
            fn to_nearest_f64(self) -> f64 {
                self as f64
            }

            #[inline]
            fn from_integer_part(value: f64) -> $kind {
                value as $kind
            }

            #[inline]
            fn low_u8(self) -> u8 {
                self as u8
            }

            #[inline]
            fn low_u16(self) -> u16 {
                self as u16
            }

            #[inline]
            fn low_u32(self) -> u32 {
                self as u32
            }
        }
    )* };
}

integer!(u8 u32 i32 u64 i64 usize i128 u128);

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

/// The lowest 8 bits of an integer; all higher bits are lost.
#[must_use]
#[inline]
pub fn low_u8<N: Integer>(value: N) -> u8 {
    value.low_u8()
}

/// The lowest 16 bits of an integer; all higher bits are lost.
#[must_use]
#[inline]
pub fn low_u16<N: Integer>(value: N) -> u16 {
    value.low_u16()
}

/// The lowest 32 bits of an integer; all higher bits are lost.
#[must_use]
#[inline]
pub fn low_u32<N: Integer>(value: N) -> u32 {
    value.low_u32()
}

/// The lowest 64 bits of an integer; all higher bits are lost.
#[must_use]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "meant")]
pub const fn low_u64(value: u128) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_preserve_the_value() {
        assert_eq!((usize_of(u64::MAX), u32_of(u32::MAX as usize)), (usize::MAX, u32::MAX));
        assert!(std::panic::catch_unwind(|| u32_of(1 << 32)).is_err());
        assert_eq!(u8_of(255), 255);
        assert!(std::panic::catch_unwind(|| u8_of(256)).is_err());
    }

    #[test]
    fn low_bits_are_those_of_the_two_s_complement() {
        assert_eq!((low_u8(0x1_2345_6789_u64), low_u16(0x1_2345_6789_u64)), (0x89, 0x6789));
        assert_eq!((low_u32(0x1_2345_6789_u64), low_u32(-1i64)), (0x2345_6789, u32::MAX));
        assert_eq!(low_u64(7 << 64 | 9), 9);
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
