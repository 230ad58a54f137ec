//! A binary fuse filter: one byte per cell, nine bits per key, one false positive in 256 absent keys.
//!
//! A key maps to three cells whose XOR is its fingerprint. The first cell follows from the key's upper bits; the other
//! two are in the next two segments. Keys in ascending order therefore fill and empty the cells from front to back, and
//! building stays within the cache. The keys are hashes, so the first attempt uses them directly; each later attempt
//! mixes them with a seed of its own. An attempt rarely fails, except when the number of keys is close to the maximum
//! for which the number of segments is meant: 11,500 keys in 14 segments fail nearly always. Every further attempt
//! therefore has more cells.
//!
//! Not here: the layout of a sidecar, the object with a bucket's filters (`super::layout`).

use quarry_stdx::number::{f64_of, integer_part, low_u8, low_u32};

/// Number of cells of a key.
const CELLS_PER_KEY: u32 = 3;
/// Maximum number of cells of a segment; longer segments save no memory.
const SEGMENT_LENGTH_MAX: u32 = 1 << 18;
/// Maximum number of attempts. Each attempt has a seed of its own and more cells, so that a few attempts suffice for
/// any number of keys.
const ATTEMPTS_MAX: u32 = 64;
/// Each further attempt adds one segment per this many segments of the first attempt, rounded up.
const SEGMENTS_PER_EXTRA_ATTEMPT: u32 = 16;
/// A filter uses the lengths of another filter if their front length exceeds the front length that it needs by at most
/// this fraction (1/n).
const SHARED_EXCESS_DIVISOR: u32 = 8;
/// A filter whose lengths other filters may share gets one spare segment per this many segments; none if it has fewer.
const SPARE_DIVISOR: u32 = 32;
/// Step between seeds.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Number of upper bits by which the first sorting pass distributes the hashes.
const SORT_BITS: u32 = 11;

/// The cells of a filter, and the parameters for finding the cells of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fuse {
    /// Seed that keys are mixed with; 0 if keys are used directly.
    pub(super) seed: u64,
    /// Number of cells of a segment, a power of two.
    pub(super) segment_length: u32,
    /// Number of cells of all segments except the last two.
    pub(super) front_length: u32,
    pub(super) cells: Box<[u8]>,
}

/// The 64-bit finaliser of MurmurHash3.
#[inline(always)]
fn mix_key(key: u64) -> u64 {
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

#[inline(always)]
fn fingerprint(mixed: u64) -> u8 {
    low_u8(mixed ^ mixed >> 32)
}

/// The three cells of a mixed key.
#[inline(always)]
fn cells_of(mixed: u64, segment_length: u32, front_length: u32) -> [usize; 3] {
    let mask = segment_length - 1;
    let first = low_u32((u128::from(mixed) * u128::from(front_length)) >> 64);
    let second = (first + segment_length) ^ (low_u32(mixed >> 18) & mask);
    let third = (first + 2 * segment_length) ^ (low_u32(mixed) & mask);
    [first as usize, second as usize, third as usize]
}

/// The fingerprint of a key and its three cells. If the key is in the filter, the XOR of the cells equals the
/// fingerprint.
#[inline(always)]
pub(super) fn probe(key: u64, seed: u64, segment_length: u32, front_length: u32) -> (u8, [usize; 3]) {
    let mixed = if seed == 0 { key } else { mix_key(key.wrapping_add(seed)) };
    (fingerprint(mixed), cells_of(mixed, segment_length, front_length))
}

/// Sorts hashes and removes duplicates. Hashes are uniformly distributed, so one pass over the upper bits leaves runs
/// short enough for the first-level cache.
pub(crate) fn sort_and_dedup(keys: &mut Vec<u64>) {
    let mut starts = vec![0u32; (1 << SORT_BITS) + 1];
    let run_of = |key: u64| (key >> (u64::BITS - SORT_BITS)) as usize;
    if keys.len() >> SORT_BITS == 0 || u32::try_from(keys.len()).is_err() {
        keys.sort_unstable();
        keys.dedup();
        return;
    }
    for key in keys.iter() {
        starts[run_of(*key) + 1] += 1;
    }
    for run in 0..1 << SORT_BITS {
        starts[run + 1] += starts[run];
    }
    let mut ends = starts.clone();
    let mut scattered = vec![0u64; keys.len()];
    for key in keys.iter() {
        let end = &mut ends[run_of(*key)];
        scattered[*end as usize] = *key;
        *end += 1;
    }
    for bounds in starts.windows(2) {
        scattered[bounds[0] as usize..bounds[1] as usize].sort_unstable();
    }
    debug_assert!(scattered.is_sorted(), "runs ascend, and keys within them");
    scattered.dedup();
    *keys = scattered;
}

/// Segment length and front length of a filter.
pub(super) type Lengths = (u32, u32);

impl Fuse {
    /// Builds the filter of `keys`, which must ascend and be distinct. The first lengths in `known` that suit the
    /// filter, if any, are used, so that several filters of about the same size have the same lengths. `None` if no
    /// seed works, which does not happen in practice.
    pub(super) fn build(keys: &[u64], known: &[Lengths]) -> Option<Fuse> {
        if keys.is_empty() {
            return Some(Fuse { seed: 0, segment_length: 1, front_length: 0, cells: Box::default() });
        }
        let first = shareable_lengths(keys.len(), known);
        (0..ATTEMPTS_MAX).find_map(|attempt| {
            let (segment_length, front_length) =
                if attempt == 0 { first } else { attempt_lengths(attempt, keys.len())? };
            let seed = u64::from(attempt).wrapping_mul(SEED_STEP);
            let cells = if seed == 0 {
                assign_cells(keys, segment_length, front_length)
            } else {
                let mut mixed: Vec<u64> = keys.iter().map(|key| mix_key(key.wrapping_add(seed))).collect();
                mixed.sort_unstable();
                assign_cells(&mixed, segment_length, front_length)
            };
            cells.map(|cells| Fuse { seed, segment_length, front_length, cells })
        })
    }

    /// Whether `key` may be among the keys.
    #[cfg(test)]
    fn may_contain(&self, key: u64) -> bool {
        if self.cells.is_empty() {
            return false;
        }
        let (fingerprint, [a, b, c]) = probe(key, self.seed, self.segment_length, self.front_length);
        fingerprint == self.cells[a] ^ self.cells[b] ^ self.cells[c]
    }

    #[cfg(test)]
    fn is_valid(&self) -> bool {
        are_probes_in_bounds(self.segment_length, self.front_length, self.cells.len() as u64)
    }
}

/// Whether every probe of a filter with these lengths stays inside `cells` cells.
pub(super) fn are_probes_in_bounds(segment_length: u32, front_length: u32, cells: u64) -> bool {
    if cells == 0 {
        return front_length == 0 && segment_length == 1;
    }
    let (front, segment) = (u64::from(front_length), u64::from(segment_length));
    segment.is_power_of_two()
        && front > 0
        && front.is_multiple_of(segment)
        && front + u64::from(CELLS_PER_KEY - 1) * segment <= cells.min(u64::from(u32::MAX))
}

/// Segment length and front length that this many keys need. If building fails with them, further attempts use more
/// cells ([`attempt_lengths`]).
fn initial_lengths(keys: usize) -> (u32, u32) {
    let count = f64_of(keys.max(2));
    let power = integer_part::<u32>(count.ln() / 3.33f64.ln() + 2.25);
    let segment_length = (1u32 << power.min(30)).min(SEGMENT_LENGTH_MAX);
    let factor = (0.875 + 0.25 * 1_000_000f64.ln() / count.ln()).max(1.125);
    let capacity: u32 = integer_part(count * factor);
    let segments = capacity.div_ceil(segment_length).saturating_sub(CELLS_PER_KEY - 1).max(1);
    (segment_length, segments * segment_length)
}

/// Lengths for the first attempt: the first of `known` with enough cells for this many keys, but hardly more. If there
/// is none, the lengths that the keys need, with a few spare cells, so that a filter of slightly more keys can have the
/// same lengths.
fn shareable_lengths(keys: usize, known: &[Lengths]) -> Lengths {
    let (segment_length, needed) = initial_lengths(keys);
    let suits = |(segment, front): &&Lengths| {
        *segment == segment_length && (needed..=needed.saturating_add(needed / SHARED_EXCESS_DIVISOR)).contains(front)
    };
    let spare = needed / segment_length / SPARE_DIVISOR * segment_length;
    known.iter().find(suits).copied().unwrap_or((segment_length, needed.saturating_add(spare)))
}

/// Segment length and front length of an attempt; attempts are counted from 0. `None` if there would be more cells than
/// a filter can have.
fn attempt_lengths(attempt: u32, keys: usize) -> Option<(u32, u32)> {
    let (segment_length, front_length) = initial_lengths(keys);
    let further = (front_length / segment_length).div_ceil(SEGMENTS_PER_EXTRA_ATTEMPT);
    let added = further.checked_mul(attempt)?.checked_mul(segment_length)?;
    let front_length = front_length.checked_add(added)?;
    front_length.checked_add((CELLS_PER_KEY - 1) * segment_length)?;
    Some((segment_length, front_length))
}

/// State of the cells while keys are peeled off.
struct Peeling {
    /// For each cell, two numbers in one byte. The upper six bits are the number of its keys; the lower two bits are
    /// the XOR, over these keys, of the cell's position (0 to 2) among the three cells of the key.
    counts: Vec<u8>,
    /// XOR of the keys of each cell.
    keys: Vec<u64>,
}

/// Value of [`Peeling::counts`] to which no key can be added without overflow. A cell has fewer than three keys on
/// average.
const COUNT_MAX: u8 = 252;

impl Peeling {
    fn of(ordered: &[u64], cells: usize, segment_length: u32, front_length: u32) -> Option<Peeling> {
        let mut peeling = Peeling { counts: vec![0; cells], keys: vec![0; cells] };
        let mut most = 0;
        for key in ordered {
            for (which, cell) in cells_of(*key, segment_length, front_length).into_iter().enumerate() {
                let count = &mut peeling.counts[cell];
                most = most.max(*count);
                *count = count.wrapping_add(4) ^ low_u8(which);
                peeling.keys[cell] ^= *key;
            }
        }
        (most < COUNT_MAX).then_some(peeling)
    }

    /// Removes a key from one of its cells; true if that cell has one key left.
    #[inline(always)]
    fn remove_key(&mut self, key: u64, cell: usize, which: usize) -> bool {
        let count = &mut self.counts[cell];
        *count = count.wrapping_sub(4) ^ low_u8(which);
        self.keys[cell] ^= key;
        *count >> 2 == 1
    }

    /// Peels off all keys. Returns the keys in the order of peeling and, for each, the index of its cell that held no
    /// other key. `None` if some keys cannot be peeled off.
    fn peel_all(&mut self, keys: usize, segment_length: u32, front_length: u32) -> Option<(Vec<u64>, Vec<u8>)> {
        let (mut order, mut owned) = (Vec::with_capacity(keys), Vec::with_capacity(keys));
        // Stack of cells that had a single key when they were pushed. Each cell is written to the next free entry, but
        // the entry is kept only if the cell has a single key.
        let mut alone = vec![0u32; self.counts.len() + CELLS_PER_KEY as usize];
        let mut waiting = 0;
        for (cell, count) in (0..).zip(&self.counts) {
            alone[waiting] = cell;
            waiting += usize::from(count >> 2 == 1);
        }
        while waiting > 0 {
            waiting -= 1;
            let cell = alone[waiting] as usize;
            if self.counts[cell] >> 2 != 1 {
                continue;
            }
            let (key, own) = (self.keys[cell], self.counts[cell] & 3);
            order.push(key);
            owned.push(own);
            for (which, other) in cells_of(key, segment_length, front_length).into_iter().enumerate() {
                alone[waiting] = low_u32(other);
                waiting += usize::from(self.remove_key(key, other, which));
            }
        }
        (order.len() == keys).then_some((order, owned))
    }
}

/// The cells for these mixed keys; `None` if peeling fails.
fn assign_cells(ordered: &[u64], segment_length: u32, front_length: u32) -> Option<Box<[u8]>> {
    let cells = (front_length + (CELLS_PER_KEY - 1) * segment_length) as usize;
    let mut peeling = Peeling::of(ordered, cells, segment_length, front_length)?;
    let (order, owned) = peeling.peel_all(ordered.len(), segment_length, front_length)?;
    let mut filled = vec![0u8; cells];
    for (key, own) in order.into_iter().zip(owned).rev() {
        let [a, b, c] = cells_of(key, segment_length, front_length);
        let others = filled[a] ^ filled[b] ^ filled[c];
        // This cell is still zero: no key peeled off later maps to it.
        let own = [a, b, c, a][usize::from(own)];
        filled[own] = fingerprint(key) ^ others;
    }
    Some(filled.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term_dictionary::Namespace;
    use crate::term_dictionary::hash::hash_term;

    const INVERSE_OF_SEED_STEP: u64 = 0xf1de_83e1_9937_733d;

    fn keys(count: u64) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..count).map(|at| hash_term(Namespace::Tokens, &at.to_le_bytes())).collect();
        sort_and_dedup(&mut keys);
        keys
    }

    #[test]
    fn radix_sort_agrees_with_the_standard_sort() {
        for count in [0, 1, 5_000, 40_000] {
            let mut repeated = keys(count);
            repeated.reverse();
            repeated.extend(keys(count / 2));
            let mut expected = repeated.clone();
            expected.sort_unstable();
            expected.dedup();
            sort_and_dedup(&mut repeated);
            assert_eq!(repeated, expected);
        }
    }

    #[test]
    fn filters_contain_every_key_and_few_others() {
        for count in [1, 2, 3, 10, 100, 1_000, 50_000] {
            let keys = keys(count);
            let fuse = Fuse::build(&keys, &[]).unwrap();
            assert!(fuse.is_valid());
            assert!(keys.iter().all(|key| fuse.may_contain(*key)), "{count}");
            let wrong = (0..20_000u64).filter(|at| fuse.may_contain(mix_key(*at + 1))).count();
            assert!(wrong < 160, "{wrong} of 20000 for {count} keys");
            assert!(fuse.cells.len() as u64 <= count * 5 / 4 + 3_000, "{} cells for {count}", fuse.cells.len());
        }
    }

    /// Numbers of keys for which a filter has the fewest cells per key: with one more key, a segment is added or all
    /// segments become longer.
    fn densest_numbers() -> impl Iterator<Item = usize> {
        (1..40_000usize).filter(|keys| initial_lengths(*keys) != initial_lengths(keys + 1))
    }

    #[test]
    fn dense_filters_are_built_in_few_attempts() {
        let mut numbers = 0;
        for count in densest_numbers() {
            let keys = keys(count as u64);
            let fuse = Fuse::build(&keys, &[]).unwrap();
            let attempts = fuse.seed.wrapping_mul(INVERSE_OF_SEED_STEP) + 1;
            assert!(attempts <= 5, "{attempts} attempts for {count} keys");
            assert!(fuse.is_valid() && keys.iter().all(|key| fuse.may_contain(*key)), "{count}");
            numbers += 1;
        }
        assert!(numbers > 50, "{numbers} numbers");
    }

    #[test]
    fn filters_of_similar_sizes_share_lengths() {
        let lengths = |fuse: &Fuse| (fuse.segment_length, fuse.front_length);
        for count in [1, 1_000, 60_000] {
            let mut known = Vec::new();
            for more in 0..8 {
                let keys = keys(count + count * more / 200);
                let fuse = Fuse::build(&keys, &known).unwrap();
                assert!(fuse.is_valid() && keys.iter().all(|key| fuse.may_contain(*key)));
                if fuse.seed == 0 && !known.contains(&lengths(&fuse)) {
                    known.push(lengths(&fuse));
                }
            }
            assert!(known.len() <= 3, "{count}: {known:?}");
        }
        let (small, large) = (Fuse::build(&keys(1_000), &[]).unwrap(), Fuse::build(&keys(50_000), &[]).unwrap());
        assert_eq!(Fuse::build(&keys(1_000), &[lengths(&large)]).unwrap(), small, "far too many cells");
    }

    #[test]
    fn filters_of_later_attempts_contain_every_key() {
        let keys = keys(500);
        let mut filled = 0;
        for attempt in 1..ATTEMPTS_MAX {
            let seed = u64::from(attempt).wrapping_mul(SEED_STEP);
            let (segment_length, front_length) = attempt_lengths(attempt, keys.len()).unwrap();
            let mut mixed: Vec<u64> = keys.iter().map(|key| mix_key(key.wrapping_add(seed))).collect();
            mixed.sort_unstable();
            let Some(cells) = assign_cells(&mixed, segment_length, front_length) else { continue };
            let fuse = Fuse { seed, segment_length, front_length, cells };
            assert!(fuse.is_valid() && keys.iter().all(|key| fuse.may_contain(*key)), "attempt {attempt}");
            filled += 1;
        }
        assert!(filled > ATTEMPTS_MAX - 8, "{filled} attempts succeeded");
        assert!(!Fuse::build(&[], &[]).unwrap().may_contain(0));
        assert_eq!(attempt_lengths(u32::MAX, 1_000), None);
        assert_eq!(initial_lengths(4_000_000_000), (1 << 18, 16_382 << 18), "the most cells, not a remainder");
    }
}
