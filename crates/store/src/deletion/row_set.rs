//! A set of rows of one bucket: one bitmap for each run of 4,096 rows.
//!
//! Empty runs take no memory, so a set takes about one bit for each row of its non-empty runs. An encoded run consists
//! of its number and the shortest of three forms: all rows, a list, or a bitmap.

use std::collections::BTreeMap;
use std::ops::Range;

use quarry_stdx::number::{low_u8, low_u16};

/// Number of rows of a run.
const RUN_ROWS: u64 = 4_096;
/// Number of words in a run's bitmap.
const RUN_WORDS: usize = 64;
/// Approximate memory of a run in bytes: its bitmap and its map entry.
const RUN_BYTES: usize = RUN_WORDS * 8 + 64;
/// Version of the encoding, its first byte.
const VERSION: u8 = 1;
/// Codes of the three forms of an encoded run.
const FORM_ALL: u8 = 0;
const FORM_BITMAP: u8 = 1;
const FORM_LIST: u8 = 2;
/// Maximum number of rows for which a list is shorter than a bitmap.
const LIST_ROWS_MAX: u64 = 255;

type Bits = [u64; RUN_WORDS];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowSet {
    runs: BTreeMap<u64, Box<Bits>>,
    len: u64,
}

impl RowSet {
    /// Number of rows.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Approximate memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.len() * RUN_BYTES
    }

    /// The largest row.
    pub(crate) fn last(&self) -> Option<u64> {
        let (run, bits) = self.runs.last_key_value()?;
        let word = bits.iter().rposition(|word| *word != 0)?;
        Some(run * RUN_ROWS + word as u64 * 64 + u64::from(63 - bits[word].leading_zeros()))
    }

    /// Adds a row.
    pub(crate) fn insert(&mut self, row: u64) {
        let (word, bit) = word_and_mask(row);
        let bits = self.runs.entry(row / RUN_ROWS).or_insert_with(|| Box::new([0; RUN_WORDS]));
        self.len += u64::from(bits[word] & bit == 0);
        bits[word] |= bit;
    }

    /// Adds the rows of another set.
    pub(crate) fn add(&mut self, other: &RowSet) {
        for (run, bits) in &other.runs {
            match self.runs.get_mut(run) {
                Some(known) => {
                    for (known, more) in known.iter_mut().zip(bits.iter()) {
                        self.len += u64::from((more & !*known).count_ones());
                        *known |= more;
                    }
                }
                None => {
                    self.len += count(bits);
                    self.runs.insert(*run, bits.clone());
                }
            }
        }
    }

    /// Whether a row is in the set.
    pub(crate) fn contains(&self, row: u64) -> bool {
        let (word, bit) = word_and_mask(row);
        self.runs.get(&(row / RUN_ROWS)).is_some_and(|bits| bits[word] & bit != 0)
    }

    /// Number of rows within a range.
    pub(crate) fn count_within(&self, rows: Range<u64>) -> u64 {
        if rows.is_empty() {
            return 0;
        }
        let runs = self.runs.range(rows.start / RUN_ROWS..=(rows.end - 1) / RUN_ROWS);
        let of_run = |run: u64, bits: &Bits| {
            let first = run * RUN_ROWS;
            let (from, until) = (rows.start.max(first) - first, rows.end.min(first + RUN_ROWS) - first);
            if until - from == RUN_ROWS { count(bits) } else { count_part(bits, from, until) }
        };
        runs.map(|(run, bits)| of_run(*run, bits)).sum()
    }

    /// The rows in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|(run, bits)| {
            bits.iter().enumerate().flat_map(move |(word, bits)| {
                let first = run * RUN_ROWS + word as u64 * 64;
                (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| first + bit)
            })
        })
    }

    /// Encodes the set.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for (run, bits) in &self.runs {
            bytes.extend(run.to_le_bytes());
            match count(bits) {
                rows if rows == RUN_ROWS => bytes.push(FORM_ALL),
                rows if rows <= LIST_ROWS_MAX => {
                    bytes.extend([FORM_LIST, low_u8(rows)]);
                    let first = run * RUN_ROWS;
                    let listed = (first..first + RUN_ROWS).filter(|row| self.contains(*row));
                    listed.for_each(|row| bytes.extend(low_u16(row - first).to_le_bytes()));
                }
                _ => {
                    bytes.push(FORM_BITMAP);
                    bits.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
                }
            }
        }
        assert_eq!(RowSet::decode(&bytes).as_ref(), Some(self), "what is written is what is read");
        bytes
    }

    /// Decodes the output of [`RowSet::encode`]; `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<RowSet> {
        let (version, mut bytes) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let mut set = RowSet::default();
        while !bytes.is_empty() {
            let run = u64::from_le_bytes(take(&mut bytes)?);
            if run > u64::MAX / RUN_ROWS - 1 || set.runs.last_key_value().is_some_and(|(last, _)| *last >= run) {
                return None;
            }
            let bits = decode_run(&mut bytes)?;
            set.len += count(&bits);
            set.runs.insert(run, Box::new(bits));
        }
        Some(set)
    }
}

fn decode_run(bytes: &mut &[u8]) -> Option<Bits> {
    let [kind] = take(bytes)?;
    let mut bits = [0; RUN_WORDS];
    match kind {
        FORM_ALL => bits = [u64::MAX; RUN_WORDS],
        FORM_BITMAP => {
            for word in &mut bits {
                *word = u64::from_le_bytes(take(bytes)?);
            }
        }
        FORM_LIST => {
            let [rows] = take(bytes)?;
            for _ in 0..rows {
                let row = u64::from(u16::from_le_bytes(take(bytes)?));
                if row >= RUN_ROWS {
                    return None;
                }
                let (word, bit) = word_and_mask(row);
                bits[word] |= bit;
            }
        }
        _ => return None,
    }
    Some(bits)
}

fn take<const BYTES: usize>(bytes: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// Index of a row's word in the bitmap of its run, and mask of its bit.
fn word_and_mask(row: u64) -> (usize, u64) {
    let row = row % RUN_ROWS;
    ((row / 64) as usize, 1 << (row % 64))
}

fn count(bits: &Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Number of set bits in `from..until`.
fn count_part(bits: &Bits, from: u64, until: u64) -> u64 {
    let of_word = |(word, bits): (u64, &u64)| {
        let (first, end) = (word * 64, word * 64 + 64);
        if end <= from || until <= first {
            return 0;
        }
        let (skipped, kept) = (from.saturating_sub(first), until.min(end) - first);
        let below = if kept == 64 { u64::MAX } else { (1 << kept) - 1 };
        u64::from((bits & below & (u64::MAX << skipped)).count_ones())
    };
    (0..).zip(bits).map(of_word).sum()
}

/// Rank queries: the number of rows of a set that precede a given row.
pub(crate) struct Ranks<'a> {
    set: &'a RowSet,
    /// Numbers of the runs, each with the number of rows before the run.
    before: Vec<(u64, u64)>,
}

impl<'a> Ranks<'a> {
    /// Rank queries on `set`.
    pub(crate) fn new(set: &'a RowSet) -> Ranks<'a> {
        let mut rows = 0;
        let before = set.runs.iter().map(|(run, bits)| {
            let before = rows;
            rows += count(bits);
            (*run, before)
        });
        Ranks { before: before.collect(), set }
    }

    /// Number of rows of the set before `row`.
    pub(crate) fn before(&self, row: u64) -> u64 {
        let run = row / RUN_ROWS;
        let at = self.before.partition_point(|(known, _)| *known < run);
        match self.before.get(at) {
            Some((known, before)) if *known == run => before + self.set.count_within(run * RUN_ROWS..row),
            Some((_, before)) => *before,
            None => self.set.len,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    fn set_of(rows: impl IntoIterator<Item = u64>) -> RowSet {
        let mut set = RowSet::default();
        rows.into_iter().for_each(|row| set.insert(row));
        set
    }

    proptest! {
        #[test]
        fn row_set_behaves_like_a_btree_set(
            one in btree_set(0u64..30_000, 0..400),
            other in btree_set(prop_oneof![0u64..300, 20_000u64..60_000], 0..600),
            whole_run in any::<bool>(),
            probes in vec((0u64..70_000, 0u64..70_000), 20),
        ) {
            let mut other = other;
            other.extend(8_192..8_192 + 4_096 * u64::from(whole_run));
            let (mut set, second) = (set_of(one.iter().copied()), set_of(other.iter().copied()));
            set.add(&second);
            let all: BTreeSet<u64> = one.union(&other).copied().collect();
            assert_eq!((set.len(), set.last()), (all.len() as u64, all.last().copied()));
            assert!(set.iter().eq(all.iter().copied()));
            assert_eq!(RowSet::decode(&set.encode()).as_ref(), Some(&set));
            let ranks = Ranks::new(&set);
            for (from, until) in probes {
                let range = from.min(until)..from.max(until);
                assert_eq!(set.count_within(range.clone()), all.range(range).count() as u64);
                assert_eq!(ranks.before(from), all.range(..from).count() as u64);
                assert_eq!(set.contains(from), all.contains(&from));
            }
        }
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        let whole = set_of([1, 5_000, 5_001]).encode();
        let cut = (0..whole.len()).filter_map(|end| RowSet::decode(&whole[..end]));
        assert!(cut.clone().all(|set| set.len() < 3) && cut.count() == 2, "only where a run ends");
        for bad in
            [vec![], vec![9], [whole.as_slice(), &[0; 8], &[7]].concat(), [whole.as_slice(), &[0; 8], &[0]].concat()]
        {
            assert_eq!(RowSet::decode(&bad), None, "{bad:?}");
        }
        assert_eq!(RowSet::decode(&RowSet::default().encode()), Some(RowSet::default()));
    }

    #[test]
    fn consecutive_rows_are_encoded_compactly() {
        assert!(set_of(0..4_096 * 100).encode().len() < 1_000);
        assert!(set_of((0..100).map(|row| row * 10_000)).encode().len() < 1_300);
    }
}
