//! Bit packing: numbers of one width, consecutive, lowest bit first.
//!
//! Unpacking is the first step of every scan. Values are unpacked in groups of eight, which always start at a byte
//! boundary. Each group is taken from one window, with shifts known at compile time. Widths above 32 bits are rare and
//! use a plain loop.

use bytes::Bytes;
use quarry_stdx::number::{low_u8, low_u32, low_u64};

use crate::wire::{Cursor, Malformed};

/// Number of values that fill whole bytes at any width.
const GROUP_VALUES: usize = 8;
/// Maximum width in bits of values that a specialised loop unpacks.
const FAST_WIDTH_MAX: usize = 32;
/// Bytes of a group of values of [`FAST_WIDTH_MAX`] bits, and the bytes that the last eight-byte load reads beyond the
/// group.
const WINDOW_BYTES: usize = GROUP_VALUES * FAST_WIDTH_MAX / 8 + 8;

/// Number of bits without leading zeros.
pub(crate) fn width_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Appends the width, then the values, each of at most `width` bits.
pub(crate) fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    assert!(width <= u64::BITS, "a number has at most 64 bits");
    out.push(low_u8(width));
    if width == 0 {
        return;
    }
    let (mut pending, mut bits) = (0u64, 0u32);
    for value in values {
        pending |= value << bits;
        bits += width;
        if bits >= u64::BITS {
            out.extend_from_slice(&pending.to_le_bytes());
            bits -= u64::BITS;
            // The bits that did not fit into the word; none if the value ended with it.
            pending = if bits == 0 { 0 } else { value >> (width - bits) };
        }
    }
    out.extend_from_slice(&pending.to_le_bytes()[..bits.div_ceil(8) as usize]);
}

/// Reads the width and the bytes of `count` packed values.
fn read_packed<'a>(cursor: &mut Cursor<'a>, count: usize, limit: u32) -> Result<(usize, &'a [u8]), Malformed> {
    let width = u32::from(cursor.u8("integer width")?);
    if width > limit {
        return Err(Malformed(format!("integer width is {width}; the limit is {limit}")));
    }
    Ok((width as usize, cursor.take((count * width as usize).div_ceil(8), "packed integers")?))
}

/// Appends `count` packed values of up to 64 bits to `values`.
pub(crate) fn unpack(cursor: &mut Cursor<'_>, count: usize, values: &mut Vec<u64>) -> Result<(), Malformed> {
    let (width, packed) = read_packed(cursor, count, u64::BITS)?;
    let start = values.len();
    values.resize(start + count, 0);
    unpack_width(packed, width, &mut values[start..]);
    Ok(())
}

/// Reads `count` packed values of up to 32 bits.
pub(crate) fn unpack_codes(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<u32>, Malformed> {
    let (width, packed) = read_packed(cursor, count, u32::BITS)?;
    let mut values = vec![0; count];
    unpack_width(packed, width, &mut values);
    Ok(values)
}

/// Random access to packed values.
#[derive(Clone, Debug)]
pub(crate) struct PackedReader {
    width: usize,
    packed: Bytes,
}

impl PackedReader {
    /// Reads `count` packed values of up to `limit` bits at the position of `cursor`, which reads `chunk`.
    pub(crate) fn read(
        chunk: &Bytes,
        cursor: &mut Cursor<'_>,
        count: usize,
        limit: u32,
    ) -> Result<PackedReader, Malformed> {
        let start = chunk.len() - cursor.remaining();
        let (width, packed) = read_packed(cursor, count, limit)?;
        // The width is in the byte before the values.
        Ok(PackedReader { width, packed: chunk.slice(start + 1..start + 1 + packed.len()) })
    }

    /// Bits of each value.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Value number `at`, which must exist.
    pub(crate) fn get(&self, at: usize) -> u64 {
        value_at(&self.packed, self.width, at)
    }
}

/// Value number `at` of packed values.
#[inline(always)]
fn value_at(packed: &[u8], width: usize, at: usize) -> u64 {
    if width == 0 {
        return 0;
    }
    let bit = at * width;
    let left = packed.get(bit / 8..).unwrap_or_default();
    let mut window = [0u8; 16];
    match left.first_chunk::<16>() {
        Some(whole) => window = *whole,
        None => window[..left.len()].copy_from_slice(left),
    }
    low_u64(u128::from_le_bytes(window) >> (bit % 8)) & (u64::MAX >> (64 - width))
}

/// Result type of unpacking.
trait UnpackTarget: Copy {
    fn of(bits: u64) -> Self;
}

impl UnpackTarget for u64 {
    #[inline(always)]
    fn of(bits: u64) -> u64 {
        bits
    }
}

impl UnpackTarget for u32 {
    #[inline(always)]
    fn of(bits: u64) -> u32 {
        low_u32(bits)
    }
}

/// Calls `unpack_groups` with the width as a constant.
macro_rules! with_width {
    ($width:expr, $packed:expr, $values:expr, $($each:literal)*) => {
        match $width {
            $($each => unpack_groups::<_, $each>($packed, $values),)*
            _ => 0,
        }
    };
}

fn unpack_width<T: UnpackTarget>(packed: &[u8], width: usize, values: &mut [T]) {
    if width == 0 {
        values.fill(T::of(0));
        return;
    }
    let done = with_width!(width, packed, &mut *values, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
        25 26 27 28 29 30 31 32);
    for (at, value) in values.iter_mut().enumerate().skip(done) {
        *value = T::of(value_at(packed, width, at));
    }
}

/// Unpacks the groups whose window lies within `packed`; returns the number of values.
fn unpack_groups<T: UnpackTarget, const WIDTH: usize>(packed: &[u8], values: &mut [T]) -> usize {
    let mask = u64::MAX >> (64 - WIDTH);
    let mut left = packed;
    let mut done = 0;
    for group in values.chunks_exact_mut(GROUP_VALUES) {
        let Some(window) = left.first_chunk::<WINDOW_BYTES>() else { break };
        for (at, value) in group.iter_mut().enumerate() {
            let bit = at * WIDTH;
            let mut word = [0u8; 8];
            word.copy_from_slice(&window[bit / 8..bit / 8 + 8]);
            *value = T::of(u64::from_le_bytes(word) >> (bit % 8) & mask);
        }
        left = &left[WIDTH..];
        done += GROUP_VALUES;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_width_and_count_round_trip() {
        for width in 0..=64u32 {
            for count in [0usize, 1, 7, 8, 9, 63, 64, 65, 500] {
                let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
                let value = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(9) & mask;
                let values: Vec<u64> = (0..count).map(value).collect();
                let mut out = Vec::new();
                pack(values.iter().copied(), width, &mut out);
                assert_eq!(out.len(), 1 + (count * width as usize).div_ceil(8));
                let (mut cursor, mut back) = (Cursor::new(&out), vec![1]);
                unpack(&mut cursor, count, &mut back).unwrap();
                assert_eq!(back[1..], values, "width {width}");
                assert_eq!(cursor.remaining(), 0);
                let chunk = Bytes::from(out.clone());
                let single = PackedReader::read(&chunk, &mut Cursor::new(&chunk), count, 64).unwrap();
                assert!((0..count).map(|at| single.get(at)).eq(values.iter().copied()), "width {width}");
                let codes = unpack_codes(&mut Cursor::new(&out), count);
                assert_eq!(codes.is_ok(), width <= 32);
                assert!(codes.is_err() || codes.unwrap().iter().map(|code| u64::from(*code)).eq(values));
            }
        }
    }
}
