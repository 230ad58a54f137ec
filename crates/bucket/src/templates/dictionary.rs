//! Interner, which numbers distinct texts by means of a hash table, and lists of concatenated texts.

use std::cmp::Ordering;
use std::ops::Range;

use quarry_stdx::number::{low_u32, low_u64, u32_of};

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
    pub(super) fn range(&self, at: usize) -> Range<usize> {
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

/// Number of bytes up to which a text is compared within its slot.
const SLOT_TEXT_BYTES: usize = 16;

/// Slot of the hash table: what it knows of a text, and the number of the text. If two texts of up to
/// [`SLOT_TEXT_BYTES`] bytes have equal words and lengths, they are equal, so that such a text is neither loaded from
/// the list of texts nor hashed by a loop.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// All bytes of a short text, padded with zeros; hash and last bytes of a longer one.
    words: [u64; 2],
    len: u32,
    /// Number of the text, or [`EMPTY_SLOT`].
    code: u32,
}

impl Slot {
    const EMPTY: Slot = Slot { words: [0; 2], len: 0, code: EMPTY_SLOT };

    /// Slot of a range of `base`, without its number. Bytes after the range are loaded as well, so that nothing branches
    /// on the length of a short text.
    #[inline(always)]
    fn of(base: &[u8], range: &Range<usize>) -> Slot {
        let text = &base[range.clone()];
        let len = u32_of(text.len());
        if text.len() > SLOT_TEXT_BYTES {
            let tail = text.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail));
            return Slot { words: [u64::from(short_hash(text)), tail], len, code: EMPTY_SLOT };
        }
        let window = match base[range.start..].first_chunk::<SLOT_TEXT_BYTES>() {
            Some(window) => *window,
            None => {
                let mut padded = [0; SLOT_TEXT_BYTES];
                padded[..text.len()].copy_from_slice(text);
                padded
            }
        };
        let inside = u128::MAX.checked_shr(u128::BITS - 8 * len).unwrap_or(0);
        let bytes = u128::from_le_bytes(window) & inside;
        Slot { words: [low_u64(bytes), low_u64(bytes >> 64)], len, code: EMPTY_SLOT }
    }

    /// Position at which the search for the text begins.
    #[inline(always)]
    fn first_place(&self, mask: usize) -> usize {
        let hash = fold_multiply(fold_multiply(u64::from(self.len) ^ self.words[0]) ^ self.words[1]);
        (hash ^ (hash >> 32)) as usize & mask
    }
}

/// Distinct texts in order of arrival.
#[derive(Debug)]
pub(super) struct Interner {
    pub(super) texts: TextList,
    slots: Vec<Slot>,
}

impl Interner {
    pub(super) fn new() -> Interner {
        Interner { texts: TextList::default(), slots: vec![Slot::EMPTY; SLOTS_MIN] }
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Number of the text in a range of `base`, assigned when the text is first added.
    #[inline]
    pub(super) fn intern(&mut self, base: &[u8], range: Range<usize>) -> u32 {
        let wanted = Slot::of(base, &range);
        let mask = self.slots.len() - 1;
        let mut at = wanted.first_place(mask);
        loop {
            let found = self.slots[at];
            if found.code == EMPTY_SLOT {
                return self.insert(at, wanted, &base[range]);
            }
            let is_alike = found.words == wanted.words && found.len == wanted.len;
            let is_short = range.len() <= SLOT_TEXT_BYTES;
            if is_alike && (is_short || texts_equal(self.texts.get(found.code as usize), &base[range.clone()])) {
                return found.code;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, at: usize, new: Slot, text: &[u8]) -> u32 {
        let code = u32_of(self.texts.len());
        self.texts.push(text);
        self.slots[at] = Slot { code, ..new };
        if self.texts.len() * 2 > self.slots.len() {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![Slot::EMPTY; old.len() * 2];
            let mask = self.slots.len() - 1;
            for slot in old.into_iter().filter(|slot| slot.code != EMPTY_SLOT) {
                let mut at = slot.first_place(mask);
                while self.slots[at].code != EMPTY_SLOT {
                    at = (at + 1) & mask;
                }
                self.slots[at] = slot;
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
    low_u64(wide) ^ low_u64(wide >> 64)
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
    low_u32(hash ^ (hash >> 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number_wherever_they_are() {
        // Texts of all lengths up to 40, each followed by texts that differ from it in one byte.
        let mut texts: Vec<Vec<u8>> = vec![b"a\0".to_vec(), b"\0".to_vec(), b"\0\0".to_vec()];
        for len in 0..=40_usize {
            let text = vec![b'a'; len];
            texts.push(text.clone());
            for at in 0..len {
                let mut other = text.clone();
                other[at] = b'b';
                texts.push(other);
            }
        }
        let mut interner = Interner::new();
        for round in 0..2 {
            for (code, text) in (0..).zip(&texts) {
                // At the end of the base, where nothing follows, and before other bytes.
                let start = 3;
                let mut base = vec![b'x'; start];
                base.extend_from_slice(text);
                base.extend(std::iter::repeat_n(b'y', round * 20));
                assert_eq!(interner.intern(&base, start..start + text.len()), code, "{text:?}");
            }
            assert_eq!(interner.len(), texts.len());
        }
        assert!(interner.texts.iter().eq(texts.iter().map(Vec::as_slice)));
    }
}
