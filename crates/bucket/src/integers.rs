//! Columns of 64-bit integers: constant, frame of reference, or deltas, bit-packed.
//!
//! Times in milliseconds and lengths of lines need 10 to 25 bits each this way. The number of values is not stored:
//! it is the number of events of the page. All arithmetic wraps, so that any i64 comes back.

use crate::wire::{Cursor, Malformed, put_signed, put_varint};

const CONSTANT: u8 = 0;
const FRAME: u8 = 1;
const DELTA: u8 = 2;

/// Times are often whole milliseconds or seconds; a common divisor is taken out first.
const UNITS: [u64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];

/// Appends the encoding of `values` to `out`.
pub(crate) fn encode_integers(values: &[i64], out: &mut Vec<u8>) {
    let min = values.iter().copied().min().unwrap_or(0);
    let max = values.iter().copied().max().unwrap_or(0);
    if min == max {
        out.push(CONSTANT);
        put_signed(out, min);
        return;
    }
    let unit = common_unit(values, min);
    let offsets: Vec<u64> = values.iter().map(|value| value.wrapping_sub(min) as u64 / unit).collect();
    let frame_width = width_of(max.wrapping_sub(min) as u64 / unit);
    match delta_range(&offsets) {
        Some((low, high)) if width_of(high.wrapping_sub(low) as u64) < frame_width => {
            out.push(DELTA);
            put_signed(out, min);
            put_varint(out, unit);
            put_varint(out, offsets[0]);
            put_signed(out, low);
            let mut last = offsets[0];
            let deltas = offsets[1..].iter().map(|offset| {
                let delta = offset.wrapping_sub(last).wrapping_sub(low as u64);
                last = *offset;
                delta
            });
            pack(deltas, width_of(high.wrapping_sub(low) as u64), out);
        }
        _ => {
            out.push(FRAME);
            put_signed(out, min);
            put_varint(out, unit);
            pack(offsets.iter().copied(), frame_width, out);
        }
    }
}

/// Decodes `count` values and requires that nothing follows them.
pub(crate) fn decode_integers(bytes: &[u8], count: usize) -> Result<Vec<i64>, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let mode = cursor.u8("integer mode")?;
    let min = cursor.signed("integer minimum")?;
    if mode == CONSTANT {
        cursor.finish("integers")?;
        return Ok(vec![min; count]);
    }
    let unit = cursor.varint("integer unit")?;
    let values = match mode {
        FRAME => unpack(&mut cursor, count)?,
        DELTA if count > 0 => {
            let first = cursor.varint("first integer")?;
            let low = cursor.signed("smallest delta")? as u64;
            let mut last = first;
            let mut values = Vec::with_capacity(count);
            values.push(first);
            values.extend(unpack(&mut cursor, count - 1)?.into_iter().map(|delta| {
                last = last.wrapping_add(delta).wrapping_add(low);
                last
            }));
            values
        }
        other => return Err(Malformed(format!("integer mode {other} is unknown"))),
    };
    cursor.finish("integers")?;
    Ok(values.into_iter().map(|offset| min.wrapping_add(offset.wrapping_mul(unit) as i64)).collect())
}

fn common_unit(values: &[i64], min: i64) -> u64 {
    let divides = |unit: u64| values.iter().all(|value| (value.wrapping_sub(min) as u64).is_multiple_of(unit));
    UNITS.into_iter().find(|unit| divides(*unit)).unwrap_or(1)
}

/// Smallest and largest step, or `None` where a step does not fit an i64.
fn delta_range(offsets: &[u64]) -> Option<(i64, i64)> {
    let mut range: Option<(i64, i64)> = None;
    for pair in offsets.windows(2) {
        let step = i64::try_from(i128::from(pair[1]) - i128::from(pair[0])).ok()?;
        let (low, high) = range.unwrap_or((step, step));
        range = Some((low.min(step), high.max(step)));
    }
    range
}

fn width_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    out.push(width as u8);
    let mut pending = 0u128;
    let mut bits = 0u32;
    for value in values {
        pending |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(pending as u8);
    }
}

fn unpack(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<u64>, Malformed> {
    let width = u32::from(cursor.u8("integer width")?);
    if width > u64::BITS {
        return Err(Malformed(format!("integer width is {width}, the limit is 64")));
    }
    let packed = cursor.take((count * width as usize).div_ceil(8), "packed integers")?;
    let mask = if width == 64 { u64::MAX } else { (1u64 << width) - 1 };
    let mut values = Vec::with_capacity(count);
    for at in 0..count {
        let bit = at * width as usize;
        let start = bit / 8;
        let mut window = [0u8; 16];
        let end = packed.len().min(start + 16);
        match packed.get(start..start + 16) {
            Some(whole) => window.copy_from_slice(whole),
            None => window[..end.saturating_sub(start)].copy_from_slice(packed.get(start..end).unwrap_or_default()),
        }
        values.push((u128::from_le_bytes(window) >> (bit % 8)) as u64 & mask);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(values: &[i64]) -> usize {
        let mut out = Vec::new();
        encode_integers(values, &mut out);
        assert_eq!(decode_integers(&out, values.len()).unwrap(), values);
        out.len()
    }

    proptest! {
        #[test]
        fn any_values_come_back(values in prop::collection::vec(any::<i64>(), 0..200)) {
            round_trip(&values);
        }

        #[test]
        fn near_values_come_back(start in any::<i64>(), steps in prop::collection::vec(-5i64..50, 0..200)) {
            let mut time = start;
            let values: Vec<i64> = steps.iter().map(|step| { time = time.wrapping_add(step * 1_000_000); time }).collect();
            round_trip(&values);
        }

        #[test]
        fn garbage_gives_errors(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0usize..100) {
            drop(decode_integers(&bytes, count));
        }
    }

    #[test]
    fn extremes_and_small_columns() {
        round_trip(&[i64::MIN, i64::MAX, 0, -1]);
        round_trip(&[]);
        round_trip(&[7]);
        assert!(round_trip(&[5; 4_096]) < 4);
        let ascending: Vec<i64> = (0..4_096).map(|at| 1_700_000_000_000_000_000 + at * 1_000_000).collect();
        assert!(round_trip(&ascending) < 32);
    }
}
