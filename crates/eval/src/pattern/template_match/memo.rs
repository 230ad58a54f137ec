//! Memo of answers by dictionary code: each combination of values is evaluated once.

use hashbrown::HashMap;
use quarry_stdx::number::u32_of;

/// Maximum number of cached combinations per template and slab; beyond that, each row is evaluated separately.
pub const COMBINATIONS_MAX: usize = 65_536;

/// An answer for each requested combination of dictionary codes, up to [`COMBINATIONS_MAX`].
#[derive(Clone, Debug)]
pub struct CombinationMemo<T> {
    answers: Vec<T>,
    /// Index of the answer plus one, by the code of a single variable.
    single: Vec<u32>,
    pairs: HashMap<u64, u32, foldhash::fast::FixedState>,
    others: HashMap<Box<[u32]>, u32, foldhash::fast::FixedState>,
}

impl<T> Default for CombinationMemo<T> {
    fn default() -> CombinationMemo<T> {
        CombinationMemo {
            answers: Vec::new(),
            single: Vec::new(),
            pairs: HashMap::default(),
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
            [first, second] => self.pairs.get(&pack_pair(*first, *second)).copied(),
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
                self.pairs.insert(pack_pair(*first, *second), number);
            }
            codes => {
                self.others.insert(codes.into(), number);
            }
        }
        Some(number)
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
    fn full_memos_are_reported_as_full() {
        let mut memo = CombinationMemo::default();
        for code in 0..COMBINATIONS_MAX as u32 {
            assert_eq!(memo.index_or_insert(&[code, 1], || code), Some(code));
        }
        assert_eq!(memo.index_or_insert(&[0, 2], || 0), None);
        assert_eq!(memo.index_or_insert(&[5, 1], || 0), Some(5));
    }
}
