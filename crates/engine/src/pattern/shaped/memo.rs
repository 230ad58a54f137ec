//! Answers by dictionary code: each distinct text, or each combination of texts, is asked once.

use hashbrown::HashMap;

/// Combinations of values remembered for one template of one slab; beyond them each row is asked on its own.
pub(crate) const COMBINATIONS_MAX: usize = 65_536;

/// An answer for each text of a dictionary, found when it is first needed.
#[derive(Clone, Debug)]
pub(crate) struct DictionaryMemo<T> {
    answers: Vec<Option<T>>,
}

impl<T> DictionaryMemo<T> {
    /// No answer yet for any of `len` texts.
    pub(crate) fn new(len: usize) -> DictionaryMemo<T> {
        DictionaryMemo { answers: std::iter::repeat_with(|| None).take(len).collect() }
    }

    /// The answer for text number `code`; `None` if there is no such text.
    #[inline]
    pub(crate) fn get(&mut self, code: u32, find: impl FnOnce() -> T) -> Option<&T> {
        let answer = self.answers.get_mut(code as usize)?;
        Some(answer.get_or_insert_with(find))
    }
}

/// An answer for each combination of dictionary codes that was asked for, up to [`COMBINATIONS_MAX`].
#[derive(Clone, Debug)]
pub(crate) struct CombinationMemo<T> {
    answers: Vec<T>,
    /// Number of the answer, plus one, by the code of a single slot.
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
    /// Number of the answer for these codes in [`CombinationMemo::answers`]; `None` if the memo is full. All calls
    /// must give as many codes.
    #[inline]
    pub(crate) fn number(&mut self, codes: &[u32], find: impl FnOnce() -> T) -> Option<u32> {
        if let [code] = codes
            && let Some(known @ 1..) = self.single.get(*code as usize)
        {
            return Some(known - 1);
        }
        self.number_slow(codes, find)
    }

    fn number_slow(&mut self, codes: &[u32], find: impl FnOnce() -> T) -> Option<u32> {
        let known = match codes {
            [_] => None,
            [first, second] => self.pairs.get(&pair(*first, *second)).copied(),
            codes => self.others.get(codes).copied(),
        };
        if known.is_some() {
            return known;
        }
        let single_beyond = matches!(codes, [code] if *code as usize >= COMBINATIONS_MAX);
        if self.answers.len() >= COMBINATIONS_MAX || single_beyond {
            return None;
        }
        let number = self.answers.len() as u32;
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
                self.pairs.insert(pair(*first, *second), number);
            }
            codes => {
                self.others.insert(codes.into(), number);
            }
        }
        Some(number)
    }

    /// Every answer found so far.
    pub(crate) fn answers(&self) -> &[T] {
        &self.answers
    }
}

fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_asked_once() {
        let mut memo = DictionaryMemo::new(2);
        assert_eq!(memo.get(1, || "found"), Some(&"found"));
        assert_eq!(memo.get(1, || panic!("asked twice")), Some(&"found"));
        assert_eq!(memo.get(2, || "beyond"), None);
    }

    #[test]
    fn each_combination_is_asked_once() {
        for codes in [&[][..], &[7], &[7, 8], &[7, 8, 9]] {
            let mut memo = CombinationMemo::default();
            assert_eq!(memo.number(codes, || codes.len()), Some(0));
            assert_eq!(memo.number(codes, || panic!("asked twice")), Some(0));
            assert_eq!(memo.answers(), [codes.len()]);
        }
    }

    #[test]
    fn a_full_memo_says_so() {
        let mut memo = CombinationMemo::default();
        for code in 0..COMBINATIONS_MAX as u32 {
            assert_eq!(memo.number(&[code, 1], || code), Some(code));
        }
        assert_eq!(memo.number(&[0, 2], || 0), None);
        assert_eq!(memo.number(&[5, 1], || 0), Some(5));
    }
}
