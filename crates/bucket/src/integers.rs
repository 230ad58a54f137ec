//! Columns of 64-bit integers: constant, frame of reference, or deltas, bit-packed.
//!
//! Timestamps in milliseconds and line lengths take 10 to 25 bits each this way. The number of values is not stored;
//! the caller knows it. All arithmetic wraps, so that every i64 round-trips.

mod bits;

use bytes::Bytes;
use quarry_stdx::number::low_u32;

pub(crate) use bits::{PackedReader, pack, unpack, unpack_codes, width_of};

use crate::wire::{Cursor, Malformed, put_signed, put_varint};

pub(crate) const MODE_CONSTANT: u8 = 0;
pub(crate) const MODE_FRAME: u8 = 1;
pub(crate) const MODE_DELTA: u8 = 2;

/// Appends the encoding of `values` to `out`.
pub(crate) fn encode_integers(values: &[i64], out: &mut Vec<u8>) {
    let (min, max) = range_of(values);
    if min == max {
        out.push(MODE_CONSTANT);
        put_signed(out, min);
        return;
    }
    let unit = common_unit(values, min);
    let offsets = unit_offsets(values, min, unit);
    let frame_width = width_of(max.wrapping_sub(min).cast_unsigned() / unit);
    match delta_range(&offsets) {
        Some((low, high)) if width_of(high.wrapping_sub(low).cast_unsigned()) < frame_width => {
            out.push(MODE_DELTA);
            put_signed(out, min);
            put_varint(out, unit);
            put_varint(out, offsets[0]);
            put_signed(out, low);
            let step = |pair: &[u64]| pair[1].wrapping_sub(pair[0]).wrapping_sub(low.cast_unsigned());
            pack(offsets.windows(2).map(step), width_of(high.wrapping_sub(low).cast_unsigned()), out);
        }
        _ => {
            out.push(MODE_FRAME);
            put_signed(out, min);
            put_varint(out, unit);
            pack(offsets.iter().copied(), frame_width, out);
        }
    }
}

/// Decodes `count` values; an error if anything follows them.
pub(crate) fn decode_integers(bytes: &[u8], count: usize) -> Result<Vec<i64>, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let values = read_integers(&mut cursor, count)?;
    cursor.finish("integers")?;
    Ok(values)
}

/// Reads `count` values.
pub(crate) fn read_integers(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i64>, Malformed> {
    let mode = cursor.u8("integer mode")?;
    let min = cursor.signed("integer minimum")?;
    if mode == MODE_CONSTANT {
        return Ok(vec![min; count]);
    }
    let unit = cursor.varint("integer unit")?;
    let mut values = Vec::new();
    match mode {
        MODE_FRAME => unpack(cursor, count, &mut values)?,
        MODE_DELTA if count > 0 => {
            let first = cursor.varint("first integer")?;
            let low = cursor.signed("smallest delta")?.cast_unsigned();
            values.reserve_exact(count);
            values.push(first);
            unpack(cursor, count - 1, &mut values)?;
            let mut last = first;
            for value in &mut values[1..] {
                last = last.wrapping_add(*value).wrapping_add(low);
                *value = last;
            }
        }
        other => return Err(Malformed(format!("integer mode {other} is unknown"))),
    }
    Ok(match unit {
        1 => values.into_iter().map(|offset| min.wrapping_add(offset.cast_signed())).collect(),
        _ => values.into_iter().map(|offset| min.wrapping_add(offset.wrapping_mul(unit).cast_signed())).collect(),
    })
}

/// Random access to encoded integers.
#[derive(Clone, Debug)]
pub(crate) enum IntegersReader {
    /// One value in every row.
    Constant(i64),
    /// Frame of reference: each value is `min` plus a multiple of `unit`.
    Frame { min: i64, unit: u64, offsets: PackedReader },
    /// Deltas, decoded when opened because each value depends on the previous values.
    Decoded(Vec<i64>),
}

impl IntegersReader {
    /// Reads `count` integers at the position of `cursor`, which reads `chunk`.
    pub(crate) fn read(chunk: &Bytes, cursor: &mut Cursor<'_>, count: usize) -> Result<IntegersReader, Malformed> {
        let mut ahead = cursor.clone();
        let mode = ahead.u8("integer mode")?;
        if mode > MODE_FRAME {
            return Ok(IntegersReader::Decoded(read_integers(cursor, count)?));
        }
        *cursor = ahead;
        let min = cursor.signed("integer minimum")?;
        if mode == MODE_CONSTANT {
            return Ok(IntegersReader::Constant(min));
        }
        let unit = cursor.varint("integer unit")?;
        Ok(IntegersReader::Frame { min, unit, offsets: PackedReader::read(chunk, cursor, count, u64::BITS)? })
    }

    /// Integer number `at`, which must exist.
    pub(crate) fn get(&self, at: usize) -> i64 {
        match self {
            IntegersReader::Constant(value) => *value,
            IntegersReader::Frame { min, unit, offsets } => {
                min.wrapping_add(offsets.get(at).wrapping_mul(*unit).cast_signed())
            }
            IntegersReader::Decoded(values) => values.get(at).copied().unwrap_or(0),
        }
    }
}

/// Whether one of `wanted` is among `count` encoded values; `None` if the mode is not frame of reference.
pub(crate) fn frame_contains(bytes: &[u8], count: usize, wanted: [i64; 2]) -> Result<Option<bool>, Malformed> {
    let mut cursor = Cursor::new(bytes);
    if cursor.u8("integer mode")? != MODE_FRAME {
        return Ok(None);
    }
    let min = cursor.signed("integer minimum")?;
    let unit = cursor.varint("integer unit")?;
    // Offsets are compared instead of values. A damaged offset times the unit may wrap to a wanted value; an intact
    // offset cannot.
    let offset = |number: i64| {
        let distance = number.wrapping_sub(min).cast_unsigned();
        (unit != 0 && number >= min && distance.is_multiple_of(unit)).then(|| distance / unit)
    };
    let width = cursor.clone().u8("width of integers")?;
    let fits = |offset: &u64| u32::from(width) >= u64::BITS || *offset >> width == 0;
    let offsets = wanted.map(|number| offset(number).filter(fits));
    let Some(one) = offsets[0].or(offsets[1]) else {
        return Ok(Some(false));
    };
    let other = offsets[1].unwrap_or(one);
    // These loops have no early exit, so that the compiler can vectorise them.
    if u32::from(width) <= u32::BITS {
        let (one, other) = (low_u32(one), low_u32(other));
        let holds = unpack_codes(&mut cursor, count)?
            .iter()
            .fold(false, |found, value| found | (*value == one) | (*value == other));
        return Ok(Some(holds));
    }
    if u32::from(width) == u64::BITS {
        cursor.u8("width of integers")?;
        let packed = cursor.take(count.saturating_mul(8), "packed integers")?;
        let (one, other) = (one.to_le_bytes(), other.to_le_bytes());
        let (words, _) = packed.as_chunks::<8>();
        return Ok(Some(words.iter().fold(false, |found, word| found | (*word == one) | (*word == other))));
    }
    let mut values = Vec::new();
    unpack(&mut cursor, count, &mut values)?;
    Ok(Some(values.iter().fold(false, |found, value| found | (*value == one) | (*value == other))))
}

/// Smallest and largest value; zeroes if there are no values.
pub(crate) fn range_of(values: &[i64]) -> (i64, i64) {
    let Some(first) = values.first() else { return (0, 0) };
    values.iter().fold((*first, *first), |(min, max), value| (min.min(*value), max.max(*value)))
}

/// The largest power of 1,000, up to 10^9, that divides the distance of every value from `min`. This unit is factored
/// out, because times are often whole milliseconds or seconds.
pub(crate) fn common_unit(values: &[i64], min: i64) -> u64 {
    // A divisor known at compile time becomes a multiplication.
    fn divides_all<const UNIT: u64>(values: &[i64], min: i64) -> bool {
        values.iter().all(|value| value.wrapping_sub(min).cast_unsigned().is_multiple_of(UNIT))
    }
    if !divides_all::<1_000>(values, min) {
        1
    } else if !divides_all::<1_000_000>(values, min) {
        1_000
    } else if !divides_all::<1_000_000_000>(values, min) {
        1_000_000
    } else {
        1_000_000_000
    }
}

/// Distance of each value from `min`, in units returned by [`common_unit`].
pub(crate) fn unit_offsets(values: &[i64], min: i64, unit: u64) -> Vec<u64> {
    fn divided<const UNIT: u64>(values: &[i64], min: i64) -> Vec<u64> {
        values.iter().map(|value| value.wrapping_sub(min).cast_unsigned() / UNIT).collect()
    }
    match unit {
        1_000_000_000 => divided::<1_000_000_000>(values, min),
        1_000_000 => divided::<1_000_000>(values, min),
        1_000 => divided::<1_000>(values, min),
        _ => divided::<1>(values, min),
    }
}

/// Smallest and largest delta; `None` if a delta does not fit an i64.
fn delta_range(offsets: &[u64]) -> Option<(i64, i64)> {
    let (mut low, mut high, mut wild) = (i64::MAX, i64::MIN, false);
    for pair in offsets.windows(2) {
        let step = pair[1].wrapping_sub(pair[0]).cast_signed();
        wild |= (step < 0) != (pair[1] < pair[0]);
        low = low.min(step);
        high = high.max(step);
    }
    (!wild && low <= high).then_some((low, high))
}

/// The end of each of several concatenated texts of at most `limit` bytes in total.
pub(crate) fn ends_of_lengths(lengths: &[i64], limit: u64) -> Result<Vec<u32>, Malformed> {
    let mut end = 0u32;
    let mut ends = Vec::with_capacity(lengths.len());
    for length in lengths {
        let next = u32::try_from(*length).ok().and_then(|length| end.checked_add(length));
        end = next
            .filter(|end| u64::from(*end) <= limit)
            .ok_or_else(|| Malformed(format!("a length {length} does not fit the {limit} bytes of the page")))?;
        ends.push(end);
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(values: &[i64]) -> usize {
        let mut out = Vec::new();
        encode_integers(values, &mut out);
        assert_eq!(decode_integers(&out, values.len()).unwrap(), values);
        let (chunk, len) = (Bytes::from(out), values.len());
        let single = IntegersReader::read(&chunk, &mut Cursor::new(&chunk), len).unwrap();
        assert!((0..len).map(|at| single.get(at)).eq(values.iter().copied()));
        chunk.len()
    }

    #[test]
    fn texts_end_within_the_limit_and_within_32_bits() {
        assert_eq!(ends_of_lengths(&[3, 0, 4], 7), Ok(vec![3, 3, 7]));
        assert_eq!(ends_of_lengths(&[1 << 31, (1 << 31) - 1], u64::MAX), Ok(vec![1 << 31, u32::MAX]));
        for (lengths, limit) in [([4, 4], 7), ([4, -1], 7), ([1 << 31, 1 << 31], u64::MAX), ([1 << 32, 0], u64::MAX)] {
            assert!(ends_of_lengths(&lengths, limit).is_err(), "{lengths:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_values_round_trip(values in prop::collection::vec(any::<i64>(), 0..200)) {
            round_trip(&values);
        }

        #[test]
        fn nearby_values_round_trip(start in any::<i64>(), steps in prop::collection::vec(-5i64..50, 0..200)) {
            let mut time = start;
            let values: Vec<i64> = steps.iter().map(|step| { time = time.wrapping_add(step * 1_000_000); time }).collect();
            round_trip(&values);
        }

        #[test]
        fn garbage_returns_errors(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0usize..100) {
            drop(decode_integers(&bytes, count));
            let chunk = Bytes::from(bytes);
            if let Ok(single) = IntegersReader::read(&chunk, &mut Cursor::new(&chunk), count) {
                (0..count).for_each(|at| assert!(single.get(at) == single.get(at)));
            }
        }
    }

    #[test]
    fn numbers_are_found_in_packed_bits() {
        for values in
            [vec![5i64, 70_000, -3, 12, 9], vec![i64::MIN, i64::MAX, 7, 0], vec![3_000, 900_000, 5_000, 1_000]]
        {
            let mut out = Vec::new();
            encode_integers(&values, &mut out);
            for wanted in [5, 6, -3, 12, i64::MIN, i64::MAX, 0, 7, 3_000, 3_001, 900_000, 1_000_000_000, 70_000] {
                for other in [wanted, -4, 9] {
                    let found = frame_contains(&out, values.len(), [wanted, other]).unwrap();
                    let expected = values.contains(&wanted) || values.contains(&other);
                    assert_eq!(found, Some(expected), "{wanted} or {other} in {values:?}");
                }
            }
        }
        let mut ascending = Vec::new();
        encode_integers(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &mut ascending);
        assert_eq!(frame_contains(&ascending, 10, [3, 3]).unwrap(), None);
    }

    #[test]
    fn extreme_values_and_short_columns_round_trip() {
        round_trip(&[i64::MIN, i64::MAX, 0, -1]);
        round_trip(&[]);
        round_trip(&[7]);
        assert!(round_trip(&[5; 4_096]) < 4);
        let ascending: Vec<i64> = (0..4_096).map(|at| 1_700_000_000_000_000_000 + at * 1_000_000).collect();
        assert!(round_trip(&ascending) < 32);
    }
}
