//! A retrieval table (ribbon): returns the number stored with a key, and an arbitrary number for any other key.
//!
//! Keys are not stored. Each row of the table is a number of a few bits, and each key is a linear equation over GF(2):
//! the XOR of certain rows is the key's number. The key determines these rows: a start, and coefficients that select
//! some of the [`EQUATION_ROWS`] rows from there. The equations therefore form a band matrix, which is solved by
//! Gaussian elimination in one pass, and the table needs hardly more rows than keys (Dillinger, Walzer: "Ribbon filter:
//! practically smaller than Bloom and Xor", 2021). The bits of all rows are stored as bit planes, so that a lookup
//! reads one window of each plane.
//!
//! Not here: which keys and numbers are stored, and the layout of tables in blocks (`super`).

use quarry_stdx::number::{low_u8, u32_of};

use crate::wire::{Cursor, Malformed, put_varint};

/// Number of rows that an equation spans.
const EQUATION_ROWS: u32 = u128::BITS;
/// Number of keys per spare row. A table has one row per key, the spare rows, and [`EQUATION_ROWS`] rows for the
/// equations that start last.
const KEYS_PER_SPARE_ROW: usize = 80;
/// Number of seeds tried before the number of rows is increased.
const SEEDS_PER_SIZE: u8 = 4;
/// Maximum number of seeds tried over all sizes. The first size works for nearly every set of keys.
const SEEDS_MAX: u8 = 64;
/// Maximum number of rows of a table, checked before memory is allocated.
pub(super) const MAX_ROWS: usize = 1 << 20;
/// Maximum number of bits of a stored number.
pub(super) const MAX_VALUE_BITS: u32 = 7;
/// Difference between the hash inputs of consecutive seeds.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Added to a hash before it is hashed again: lower half of the coefficients -> upper half -> start.
const HALF_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// The 64-bit finaliser of MurmurHash3.
#[inline(always)]
pub(super) fn mix_key(key: u64) -> u64 {
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// Start of a key's equation, and its coefficients, of which the first is 1.
#[inline(always)]
fn key_equation(key: u64, seed: u8, rows: usize) -> (usize, u128) {
    let low = mix_key(key.wrapping_add(u64::from(seed).wrapping_mul(SEED_STEP)));
    let high = mix_key(low.wrapping_add(HALF_STEP));
    let third = mix_key(high.wrapping_add(HALF_STEP));
    let starts = (rows - EQUATION_ROWS as usize + 1) as u64;
    let start = (u128::from(third) * u128::from(starts)) >> 64;
    (start as usize, u128::from(high) << 64 | u128::from(low) | 1)
}

/// Appends a table of keys and their numbers, each of at most `bits` bits. A key may be repeated with the same number.
/// Returns false and appends nothing if no table can be built, for example from a key with two numbers.
pub(super) fn write_table(pairs: &[(u64, u8)], bits: u32, out: &mut Vec<u8>) -> bool {
    for seed in 0..SEEDS_MAX {
        let more = 1 + usize::from(seed / SEEDS_PER_SIZE);
        let rows = pairs.len() + more * pairs.len().div_ceil(KEYS_PER_SPARE_ROW) + EQUATION_ROWS as usize;
        if rows > MAX_ROWS {
            return false;
        }
        if let Some(equations) = eliminate(pairs, seed, rows) {
            put_varint(out, rows as u64);
            out.push(seed);
            put_solution(&equations, bits, out);
            return true;
        }
    }
    false
}

/// Gaussian elimination: transforms the equations so that each starts at a different row, and returns the equations by
/// starting row, with zeroes for a row at which no equation starts. `None` if two equations contradict each other.
fn eliminate(pairs: &[(u64, u8)], seed: u8, rows: usize) -> Option<Vec<(u128, u8)>> {
    let mut equations = vec![(0u128, 0u8); rows];
    for (key, value) in pairs {
        let (mut at, mut coefficients) = key_equation(*key, seed, rows);
        let mut value = *value;
        loop {
            let (known, number) = equations[at];
            if known == 0 {
                equations[at] = (coefficients, value);
                break;
            }
            coefficients ^= known;
            value ^= number;
            if coefficients == 0 {
                // The equation is linearly dependent on the other equations: redundant if its value is zero,
                // contradictory otherwise.
                if value != 0 {
                    return None;
                }
                break;
            }
            let step = coefficients.trailing_zeros();
            coefficients >>= step;
            at += step as usize;
        }
    }
    Some(equations)
}

/// Solves the equations from the last row to the first and appends the bit planes.
fn put_solution(equations: &[(u128, u8)], bits: u32, out: &mut Vec<u8>) {
    let plane_bytes = equations.len().div_ceil(8);
    let start = out.len();
    out.resize(start + plane_bytes * bits as usize, 0);
    // Bits of the rows after the current one, by plane; the next row is the lowest bit.
    let mut behind = [0u128; MAX_VALUE_BITS as usize];
    for (row, (coefficients, value)) in equations.iter().enumerate().rev() {
        for (plane, behind) in behind.iter_mut().enumerate().take(bits as usize) {
            let shifted = *behind << 1;
            // Any value is correct for a row at which no equation starts; it is set to zero.
            let odd = low_u8((coefficients & shifted).count_ones()) & 1;
            let bit = if *coefficients == 0 { 0 } else { odd ^ (value >> plane & 1) };
            *behind = shifted | u128::from(bit);
            out[start + plane * plane_bytes + row / 8] |= bit << (row % 8);
        }
    }
}

/// A table opened for lookups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    rows: usize,
    seed: u8,
    bits: u32,
    planes: &'a [u8],
}

impl<'a> Table<'a> {
    /// Opens the table that fills `bytes`.
    pub(super) fn read(bytes: &'a [u8], bits: u32) -> Result<Table<'a>, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let rows = cursor.count("rows of a table", MAX_ROWS)?;
        let seed = cursor.u8("seed of a table")?;
        let planes = cursor.take(rows.div_ceil(8) * bits as usize, "rows of a table")?;
        cursor.finish("the table")?;
        if rows < EQUATION_ROWS as usize {
            return Err(Malformed(format!("{rows} rows are too few for a table")));
        }
        Ok(Table { rows, seed, bits, planes })
    }

    /// The number stored with `key`; an arbitrary number if the key is not in the table.
    pub(super) fn get(&self, key: u64) -> u8 {
        let (start, coefficients) = key_equation(key, self.seed, self.rows);
        let plane_bytes = self.rows.div_ceil(8);
        let mut value = 0;
        for (plane, bytes) in self.planes.chunks_exact(plane_bytes).enumerate().take(self.bits as usize) {
            // A window that does not start at a byte boundary extends into one more byte, which is missing after the
            // last row.
            let from = &bytes[start / 8..];
            let Some((low, rest)) = from.split_first_chunk::<16>() else { continue };
            let shift = u32_of(start % 8);
            let mut picked = u128::from_le_bytes(*low) >> shift;
            if shift > 0 {
                picked |= u128::from(rest.first().copied().unwrap_or(0)) << (EQUATION_ROWS - shift);
            }
            value |= (low_u8((picked & coefficients).count_ones()) & 1) << plane;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_return_every_number_with_few_spare_rows() {
        for count in [0usize, 1, 2, 60, 500, 4_096, 5_000] {
            for bits in [1u32, 3, 7] {
                let pairs: Vec<(u64, u8)> = (0..count as u64)
                    .map(|at| (mix_key(at.wrapping_mul(77) + u64::from(bits)), (mix_key(at) & ((1 << bits) - 1)) as u8))
                    .collect();
                let mut written = Vec::new();
                assert!(write_table(&pairs, bits, &mut written));
                let table = Table::read(&written, bits).unwrap();
                assert!(pairs.iter().all(|(key, value)| table.get(*key) == *value), "{count} keys of {bits} bits");
                assert!(table.rows <= count + count / 12 + 256, "{} rows for {count} keys", table.rows);
                // Keys that are not in the table have an arbitrary value.
                assert!((0..1_000).all(|at| table.get(mix_key(at + 1_000_000)) < 1 << bits));
            }
        }
    }

    #[test]
    fn repeated_keys_need_equal_numbers() {
        let mut written = Vec::new();
        assert!(write_table(&[(5, 3), (9, 1), (5, 3)], 2, &mut written));
        assert_eq!(Table::read(&written, 2).unwrap().get(5), 3);
        assert!(!write_table(&[(5, 3), (5, 1)], 2, &mut Vec::new()));
    }

    #[test]
    fn invalid_tables_are_rejected() {
        let mut written = Vec::new();
        assert!(write_table(&[(1, 1)], 3, &mut written));
        assert!(Table::read(&written[..written.len() - 1], 3).is_err());
        assert!(Table::read(&written, 2).is_err());
        assert!(Table::read(&[4, 0, 0, 0, 0], 3).is_err());
        assert!(Table::read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0], 3).is_err());
    }
}
