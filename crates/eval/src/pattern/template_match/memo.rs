//! Memo of answers by dictionary code: each combination of values is evaluated once.

use hashbrown::HashMap;
use quarry_stdx::number::u32_of;

/// Maximum number of cached combinations per template and slab; beyond that, each row is evaluated separately.
pub const COMBINATIONS_MAX: usize = 65_536;
/// Maximum number of cells of a [`PairTable`]: two megabytes. Further pairs are hashed.
const PAIR_CELLS_MAX: usize = 1 << 19;
/// Size of an empty row, in cells.
const ROW_CELLS: usize = size_of::<Vec<u32>>() / size_of::<u32>();

/// An answer for each requested combination of dictionary codes, up to [`COMBINATIONS_MAX`].
#[derive(Clone, Debug)]
pub struct CombinationMemo<T> {
    answers: Vec<T>,
    /// Index of the answer plus one, by the code of a single variable.
    single: Vec<u32>,
    /// Index of the answer by the codes of two variables; pairs for which the table has no cell are in `far_pairs`.
    pairs: PairTable,
    far_pairs: HashMap<u64, u32, foldhash::fast::FixedState>,
    others: HashMap<Box<[u32]>, u32, foldhash::fast::FixedState>,
}

/// Numbers by two codes, of which the first usually has fewer values, such as the code of a status before the code of
/// a size.
#[derive(Clone, Debug, Default)]
struct PairTable {
    /// By the first code, then by the second: the number of the pair, plus one; 0 if the pair has no number.
    rows: Vec<Vec<u32>>,
    /// Number of cells in all rows, including the size of the rows themselves.
    cells: usize,
}

impl PairTable {
    #[inline]
    fn get(&self, first: u32, second: u32) -> Option<u32> {
        self.rows.get(first as usize)?.get(second as usize)?.checked_sub(1)
    }

    /// Stores a number; false if the table would become too large.
    fn insert(&mut self, first: u32, second: u32, number: u32) -> bool {
        let (first, second) = (first as usize, second as usize);
        let more_rows = (first + 1).saturating_sub(self.rows.len());
        let more_cells = (second + 1).saturating_sub(self.rows.get(first).map_or(0, Vec::len));
        let cells = self.cells.saturating_add(more_rows.saturating_mul(ROW_CELLS)).saturating_add(more_cells);
        if cells > PAIR_CELLS_MAX {
            return false;
        }
        self.cells = cells;
        if more_rows > 0 {
            self.rows.resize_with(first + 1, Vec::new);
        }
        let row = &mut self.rows[first];
        if more_cells > 0 {
            row.resize(second + 1, 0);
        }
        row[second] = number + 1;
        true
    }
}

impl<T> Default for CombinationMemo<T> {
    fn default() -> CombinationMemo<T> {
        CombinationMemo {
            answers: Vec::new(),
            single: Vec::new(),
            pairs: PairTable::default(),
            far_pairs: HashMap::default(),
            others: HashMap::default(),
        }
    }
}

impl<T> CombinationMemo<T> {
    /// Index in [`CombinationMemo::answers`] of the answer for these codes, if cached. All calls must pass the same
    /// number of codes.
    #[inline]
    pub fn get(&self, codes: &[u32]) -> Option<u32> {
        match codes {
            [code] => self.single.get(*code as usize)?.checked_sub(1),
            [first, second] => self.pairs.get(*first, *second).or_else(|| match self.far_pairs.is_empty() {
                true => None,
                false => self.far_pairs.get(&pack_pair(*first, *second)).copied(),
            }),
            codes => self.others.get(codes).copied(),
        }
    }

    /// Whether no further combinations are cached.
    pub fn is_full(&self) -> bool {
        self.answers.len() >= COMBINATIONS_MAX
    }

    /// Index of the answer for these codes; `None` if the memo is full.
    pub fn index_or_insert(&mut self, codes: &[u32], find: impl FnOnce() -> T) -> Option<u32> {
        let known = self.get(codes);
        if known.is_some() {
            return known;
        }
        let single_beyond = matches!(codes, [code] if *code as usize >= COMBINATIONS_MAX);
        if self.answers.len() >= COMBINATIONS_MAX || single_beyond {
            return None;
        }
        let number = u32_of(self.answers.len());
        self.answers.push(find());
        match codes {
            [code] => {
                let at = *code as usize;
                if self.single.len() <= at {
                    self.single.resize(at + 1, 0);
                }
                self.single[at] = number + 1;
            }
            [first, second] => {
                if !self.pairs.insert(*first, *second, number) {
                    self.far_pairs.insert(pack_pair(*first, *second), number);
                }
            }
            codes => {
                self.others.insert(codes.into(), number);
            }
        }
        Some(number)
    }

    /// Bytes of memory, approximately.
    pub fn memory_bytes(&self) -> usize {
        let others: usize =
            self.others.keys().map(|codes| size_of_val(&**codes) + size_of::<(Box<[u32]>, u32)>()).sum();
        size_of_val(self.answers.as_slice())
            + (self.single.len() + self.pairs.cells) * size_of::<u32>()
            + self.far_pairs.capacity() * size_of::<(u64, u32)>()
            + others
    }

    /// All answers found so far.
    pub fn answers(&self) -> &[T] {
        &self.answers
    }
}

fn pack_pair(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_is_evaluated_once() {
        for codes in [&[][..], &[7], &[7, 8], &[7, 8, 9]] {
            let mut memo = CombinationMemo::default();
            assert_eq!(memo.index_or_insert(codes, || codes.len()), Some(0));
            assert_eq!(memo.index_or_insert(codes, || panic!("asked twice")), Some(0));
            assert_eq!(memo.answers(), [codes.len()]);
        }
    }

    #[test]
    fn pairs_are_found_in_the_table_and_beyond_it() {
        let mut memo = CombinationMemo::default();
        let pairs =
            [(0, 0), (3, 70_000), (70_000, 3), (1, u32::MAX), (u32::MAX, 1), (3, 0), (2, 400_000), (5, 400_000)];
        for (at, (first, second)) in (0..).zip(pairs) {
            assert_eq!(memo.get(&[first, second]), None);
            assert_eq!(memo.index_or_insert(&[first, second], || at), Some(at));
        }
        for (at, (first, second)) in (0..).zip(pairs) {
            assert_eq!(memo.get(&[first, second]), Some(at));
        }
        assert_eq!(memo.get(&[3, 1]), None);
        assert!(memo.pairs.cells <= PAIR_CELLS_MAX && !memo.far_pairs.is_empty());
    }

    #[test]
    fn full_memos_are_reported_as_full() {
        let mut memo = CombinationMemo::default();
        for code in 0..COMBINATIONS_MAX as u32 {
            assert_eq!(memo.index_or_insert(&[code, 1], || code), Some(code));
        }
        assert_eq!(memo.index_or_insert(&[0, 2], || 0), None);
        assert_eq!(memo.index_or_insert(&[5, 1], || 0), Some(5));
    }
}
