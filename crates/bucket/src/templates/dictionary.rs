//! Interner, which numbers distinct texts by means of a hash table, and lists of concatenated texts.

use std::cmp::Ordering;

use quarry_stdx::number::u32_of;

use super::classes::texts_equal;

/// Initial number of slots; the number is always a power of two.
const SLOTS_MIN: usize = 256;
const EMPTY_SLOT: u32 = u32::MAX;

/// Concatenated texts.
#[derive(Debug, Default)]
pub(super) struct TextList {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<u32>,
}

impl TextList {
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(u32_of(self.bytes.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Range of text `at` in `bytes`.
    #[inline]
    pub(super) fn range(&self, at: usize) -> std::ops::Range<usize> {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        start..self.ends[at] as usize
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.range(at)]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.get(at))
    }
}

/// Distinct texts in order of arrival. Texts are compared; hashes only locate candidates.
#[derive(Debug)]
pub(super) struct Interner {
    pub(super) texts: TextList,
    /// Hash and number of a text.
    slots: Vec<(u32, u32)>,
}

impl Interner {
    pub(super) fn new() -> Interner {
        Interner { texts: TextList::default(), slots: vec![(0, EMPTY_SLOT); SLOTS_MIN] }
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Number of a text, assigned when the text is first added.
    #[inline]
    pub(super) fn intern(&mut self, text: &[u8]) -> u32 {
        let hash = short_hash(text);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (found, code) = self.slots[at];
            if code == EMPTY_SLOT {
                return self.insert(at, hash, text);
            }
            if found == hash && texts_equal(self.texts.get(code as usize), text) {
                return code;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, at: usize, hash: u32, text: &[u8]) -> u32 {
        let code = u32_of(self.texts.len());
        self.texts.push(text);
        self.slots[at] = (hash, code);
        if self.texts.len() * 2 > self.slots.len() {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![(0, EMPTY_SLOT); old.len() * 2];
            let mask = self.slots.len() - 1;
            for (hash, code) in old.into_iter().filter(|(_, code)| *code != EMPTY_SLOT) {
                let mut at = hash as usize & mask;
                while self.slots[at].1 != EMPTY_SLOT {
                    at = (at + 1) & mask;
                }
                self.slots[at] = (hash, code);
            }
        }
        code
    }

    /// The texts in ascending order, and the new number of each old number.
    pub(super) fn into_sorted(self) -> (TextList, Vec<u32>) {
        let mut order: Vec<u32> = (0..u32_of(self.len())).collect();
        order.sort_unstable_by(|a, b| -> Ordering { self.texts.get(*a as usize).cmp(self.texts.get(*b as usize)) });
        let mut sorted = TextList::default();
        let mut renamed = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            sorted.push(self.texts.get(*old as usize));
            renamed[*old as usize] = u32_of(new);
        }
        (sorted, renamed)
    }
}

/// Multiplies by a constant and folds the upper half of the product onto its lower half.
#[inline]
pub(super) fn fold_multiply(value: u64) -> u64 {
    let wide = u128::from(value) * 0x9e37_79b9_7f4a_7c15;
    wide as u64 ^ (wide >> 64) as u64
}

/// A fast hash for short texts.
#[inline]
pub(super) fn short_hash(text: &[u8]) -> u32 {
    let mut hash = text.len() as u64;
    if let (Some(head), Some(tail)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        if text.len() > 16 {
            for chunk in text.as_chunks::<8>().0 {
                hash = fold_multiply(hash ^ u64::from_le_bytes(*chunk));
            }
        }
        hash = fold_multiply(fold_multiply(hash ^ u64::from_le_bytes(*head)) ^ u64::from_le_bytes(*tail));
    } else if let (Some(head), Some(tail)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let both = u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail));
        hash = fold_multiply(hash << 59 ^ both);
    } else if let [first, .., last] = text {
        let both = u64::from(*first) << 16 | u64::from(text[text.len() / 2]) << 8 | u64::from(*last);
        hash = fold_multiply(hash << 59 ^ both);
    } else if let [only] = text {
        hash = fold_multiply(u64::from(*only) + 1);
    }
    (hash ^ (hash >> 32)) as u32
}
