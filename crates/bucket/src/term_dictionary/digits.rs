//! Hashes of the digits of a number, equal to `hash_term` of its text.
//!
//! A number column has up to a quarter of a million values per slab, each of which is a token. A few multiplications in
//! one register produce eight digits, directly in the words that the hash is computed from, so that no digit is written
//! to memory.

use quarry_stdx::number::{low_u8, low_u64};

use crate::term_dictionary::Namespace;
use crate::term_dictionary::hash::{PAIR_BYTES, hash_pair, hash_term};

const ONE_PER_BYTE: u64 = 0x0101_0101_0101_0101;
/// Smallest numbers with more than eight and more than sixteen decimal digits.
const EIGHT_DIGITS: u64 = 100_000_000;
const SIXTEEN_DIGITS: u64 = EIGHT_DIGITS * EIGHT_DIGITS;
/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Hash of a number's decimal digits, padded with zeros to `least` digits and followed by the byte `suffix` unless that
/// is 0.
#[inline]
pub(crate) fn hash_decimal(number: u64, least: usize, suffix: u8) -> u64 {
    if number >= SIXTEEN_DIGITS || least >= PAIR_BYTES {
        return hash_formatted(number, least, suffix);
    }
    let digits = if number < EIGHT_DIGITS {
        u128::from(eight_digits(number))
    } else {
        u128::from(eight_digits(number / EIGHT_DIGITS)) << 64 | u128::from(eight_digits(number % EIGHT_DIGITS))
    };
    let len = (PAIR_BYTES - digits.leading_zeros() as usize / 8).max(least).max(1);
    if suffix != 0 && len == PAIR_BYTES {
        return hash_formatted(number, least, suffix);
    }
    hash_digits(digits + u128::from(ONE_PER_BYTE * 0x30) * (1 << 64 | 1), len, suffix)
}

/// Hash of the lowest `digits` (1 to 16) hexadecimal digits of a number, in lower case.
#[inline]
pub(crate) fn hash_hex(number: u64, digits: usize) -> u64 {
    let (high, low) = (eight_hex(number >> 32), eight_hex(number & 0xffff_ffff));
    hash_digits(u128::from(high) << 64 | u128::from(low), digits.clamp(1, PAIR_BYTES), 0)
}

/// Hash of the last `len` of sixteen bytes, followed by `suffix` unless that is 0.
#[inline(always)]
fn hash_digits(sixteen: u128, len: usize, suffix: u8) -> u64 {
    let left = sixteen << (8 * (PAIR_BYTES - len));
    if suffix == 0 {
        return hash_pair(Namespace::Tokens, [low_u64(left >> 64), low_u64(left)], len);
    }
    let left = left | u128::from(suffix) << (8 * (PAIR_BYTES - 1 - len));
    hash_pair(Namespace::Tokens, [low_u64(left >> 64), low_u64(left)], len + 1)
}

/// Like [`hash_decimal`], for terms of any length: hashes the written text.
fn hash_formatted(number: u64, least: usize, suffix: u8) -> u64 {
    let mut text = [b'0'; DIGITS_MAX + 1];
    let mut start = DIGITS_MAX;
    let mut left = number;
    while left > 0 {
        start -= 1;
        text[start] = b'0' + low_u8(left % 10);
        left /= 10;
    }
    let start = start.min(DIGITS_MAX - least.clamp(1, DIGITS_MAX));
    text[DIGITS_MAX] = suffix;
    hash_term(Namespace::Tokens, &text[start..DIGITS_MAX + usize::from(suffix != 0)])
}

/// The values of eight decimal digits of a number below 10^8, the highest in the highest byte.
#[inline(always)]
fn eight_digits(number: u64) -> u64 {
    // Two halves of four digits, then four pairs, then eight digits; division is done by multiplication and shift.
    let halves = ((number / 10_000) << 32) | (number % 10_000);
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds << 16 | (halves - hundreds * 100);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens << 8 | (pairs - tens * 10)
}

/// Eight hexadecimal digits of a number below 2^32 as text, the highest in the highest byte.
#[inline(always)]
fn eight_hex(number: u64) -> u64 {
    let spread = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (nibbles + ONE_PER_BYTE * 6) >> 4 & ONE_PER_BYTE;
    nibbles + ONE_PER_BYTE * 0x30 + letters * 0x27
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_numbers_equal_hashes_of_their_texts() {
        let mut number = 1u64;
        for step in 0..4_000u64 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step | 1);
            let number = number >> (step % 64);
            for (least, suffix) in [(1, 0), (3, 0), (9, b'z'), (15, b'z'), (16, 0), (18, 0)] {
                let mut text = format!("{number:0least$}").into_bytes();
                if suffix != 0 {
                    text.push(suffix);
                }
                assert_eq!(
                    hash_decimal(number, least, suffix),
                    hash_term(Namespace::Tokens, &text),
                    "{number} {least}"
                );
            }
            for digits in 1..=16 {
                let kept = if digits == 16 { number } else { number & ((1 << (4 * digits)) - 1) };
                let text = format!("{kept:0digits$x}");
                assert_eq!(hash_hex(number, digits), hash_term(Namespace::Tokens, text.as_bytes()), "{text}");
            }
        }
    }

    #[test]
    fn hashes_of_round_numbers_equal_hashes_of_their_texts() {
        for power in 0..19 {
            for number in [10u64.pow(power) - 1, 10u64.pow(power), 10u64.pow(power) + 1] {
                assert_eq!(hash_decimal(number, 1, 0), hash_term(Namespace::Tokens, number.to_string().as_bytes()));
            }
        }
    }
}
