//! Interner for the distinct texts that a pattern's group finds in a slab, numbered in order of appearance.
//!
//! While there are few texts, all pages share one array. Once there are many, each page gets an array with the texts of
//! its own rows: nearly every page adds texts, and building an array of all texts for each page would take quadratic
//! time. If hardly any text has repeated until then, as with ids, texts are no longer compared: each becomes an entry
//! of the current page's array, unless its number is kept beyond the page.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use quarry_stdx::number::u32_of;

/// Code of a group that did not take part in the match.
pub(super) const ABSENT: u32 = u32::MAX;
/// Maximum number of distinct texts per group and slab; if a row has a further text, the row's event text is read.
const INTERNED_TEXTS_MAX: usize = 1 << 20;
/// Maximum bytes of the distinct texts of a group.
const INTERNED_BYTES_MAX: usize = 256 << 20;
/// Number of texts up to which all pages share one array.
const SHARED_ARRAY_TEXTS_MAX: usize = 4_096;

/// The first numbers of texts that belong to the current page.
const PAGE_TEXTS: u32 = 1 << 31;
/// Texts hardly repeat if there are fewer than this many lookups per distinct text.
const LOOKUPS_PER_TEXT: usize = 2;
const _: () = assert!(INTERNED_TEXTS_MAX < PAGE_TEXTS as usize, "no text has the number that means no text");
const _: () = assert!(INTERNED_BYTES_MAX <= u32::MAX as usize, "the end of a text fits in 32 bits");

/// Distinct texts and their numbers.
#[derive(Default)]
pub(super) struct Interner {
    numbers: HashTable<u32>,
    hasher: FixedState,
    /// The texts, concatenated, and the end offset of each.
    all: String,
    ends: Vec<u32>,
    array: Option<ArrayRef>,
    /// For each text, its index in the current page's array; [`ABSENT`] between pages.
    places: Vec<u32>,
    /// Number of texts looked up.
    lookups: usize,
    /// Texts of the current page that were not looked up; `None` if all texts are.
    of_page: Option<PageTexts>,
}

/// Texts of a page, concatenated, and the end offset of each.
#[derive(Default)]
struct PageTexts {
    all: String,
    ends: Vec<u32>,
}

impl Interner {
    /// Number of a text, which is added if new; `None` if there are too many.
    fn code(&mut self, text: &str) -> Option<u32> {
        self.lookups += 1;
        let hash = self.hasher.hash_one(text);
        let Interner { numbers, hasher, all, ends, .. } = self;
        if let Some(number) = numbers.find(hash, |number| text_of(all, ends, *number) == text) {
            return Some(*number);
        }
        if ends.len() >= INTERNED_TEXTS_MAX || all.len() + text.len() > INTERNED_BYTES_MAX {
            return None;
        }
        let number = u32_of(ends.len());
        all.push_str(text);
        ends.push(u32_of(all.len()));
        numbers.insert_unique(hash, number, |number| hasher.hash_one(text_of(all, ends, *number)));
        self.array = None;
        if self.ends.len() == SHARED_ARRAY_TEXTS_MAX + 1 && self.lookups < LOOKUPS_PER_TEXT * self.ends.len() {
            self.of_page = Some(PageTexts::default());
        }
        Some(number)
    }

    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_page =
            self.of_page.as_ref().map_or(0, |page| page.all.capacity() + page.ends.capacity() * size_of::<u32>());
        // The shared array holds a view of each text besides the text.
        let of_array = self.array.as_ref().map_or(0, |array| array.get_array_memory_size());
        let numbers = self.numbers.capacity() + self.ends.capacity() + self.places.capacity();
        self.all.capacity() + numbers * size_of::<u32>() + of_array + of_page
    }

    /// Number of distinct texts.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Number of a group's text; with `skips_empty` an empty text counts as absent.
    pub(super) fn code_of(&mut self, text: &str, skips_empty: bool) -> Option<u32> {
        if skips_empty && text.is_empty() { Some(ABSENT) } else { self.code(text) }
    }

    /// Like [`Interner::code_of`], for a number that is used only for the current page: equal texts may have different
    /// numbers.
    pub(super) fn page_code_of(&mut self, text: &str, skips_empty: bool) -> Option<u32> {
        match &mut self.of_page {
            Some(PageTexts { all, ends })
                if !(skips_empty && text.is_empty())
                    && ends.len() < INTERNED_TEXTS_MAX
                    && all.len() + text.len() <= INTERNED_BYTES_MAX =>
            {
                let number = PAGE_TEXTS + u32_of(ends.len());
                all.push_str(text);
                ends.push(u32_of(all.len()));
                Some(number)
            }
            _ => self.code_of(text, skips_empty),
        }
    }

    /// Returns an array that contains the texts in `codes`, and replaces the numbers in `codes` with indices into the
    /// array. Ends the page: numbers from [`Interner::page_code_of`] are invalid afterwards.
    pub(super) fn array_of(&mut self, codes: &mut [u32]) -> ArrayRef {
        if let Some(array) = &self.array {
            return Arc::clone(array);
        }
        let count = u32_of(self.ends.len());
        if self.ends.len() <= SHARED_ARRAY_TEXTS_MAX {
            let texts = (0..count).map(|number| text_of(&self.all, &self.ends, number));
            let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
            self.array = Some(Arc::clone(&array));
            return array;
        }
        self.places.resize(self.ends.len(), ABSENT);
        let mut used: Vec<u32> = Vec::new();
        for code in codes.iter_mut().filter(|code| **code < PAGE_TEXTS) {
            let place = &mut self.places[*code as usize];
            if *place == ABSENT {
                *place = u32_of(used.len());
                used.push(*code);
            }
            *code = *place;
        }
        used.iter().for_each(|number| self.places[*number as usize] = ABSENT);
        let looked_up = used.iter().map(|number| text_of(&self.all, &self.ends, *number));
        let Some(PageTexts { all, ends }) = &mut self.of_page else {
            return Arc::new(StringViewArray::from_iter_values(looked_up));
        };
        let first = u32_of(used.len());
        for code in codes.iter_mut().filter(|code| (PAGE_TEXTS..ABSENT).contains(code)) {
            *code = *code - PAGE_TEXTS + first;
        }
        let others = (0..u32_of(ends.len())).map(|number| text_of(all, ends, number));
        let array = Arc::new(StringViewArray::from_iter_values(looked_up.chain(others)));
        all.clear();
        ends.clear();
        array
    }
}

fn text_of<'t>(all: &'t str, ends: &[u32], number: u32) -> &'t str {
    let range: Range<usize> = match number {
        0 => 0..ends[0] as usize,
        number => ends[number as usize - 1] as usize..ends[number as usize] as usize,
    };
    &all[range]
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    #[test]
    fn codes_refer_to_their_texts_in_shared_and_unshared_arrays() {
        let mut interner = Interner::default();
        for page in 0..40u32 {
            let texts: Vec<String> = (0..500).map(|row| format!("t{}", (page * 300 + row * 7) % 9_000)).collect();
            let mut codes: Vec<u32> = texts.iter().map(|text| interner.code_of(text, true).unwrap()).collect();
            codes[3] = interner.code_of("", true).unwrap();
            let array = interner.array_of(&mut codes);
            let array = array.as_string_view();
            assert_eq!(codes[3], ABSENT);
            for (text, code) in texts.iter().zip(&codes).filter(|(_, code)| **code != ABSENT) {
                assert_eq!(array.value(*code as usize), text);
            }
            assert!(array.len() <= SHARED_ARRAY_TEXTS_MAX);
        }
        assert!(interner.ends.len() > SHARED_ARRAY_TEXTS_MAX);
    }

    #[test]
    fn texts_that_hardly_repeat_belong_to_their_page() {
        let mut interner = Interner::default();
        for page in 0..6u32 {
            let texts: Vec<String> = (0..2_000).map(|row| format!("t{}", page * 2_000 + row / 7 * 7)).collect();
            let unique = |row: usize| format!("{} {row} {page}", texts[row]);
            let mut codes: Vec<u32> = Vec::new();
            for (row, text) in texts.iter().enumerate() {
                codes.push(match row % 4 {
                    0 => interner.code_of(text, false).unwrap(),
                    1 => interner.page_code_of("", true).unwrap(),
                    _ => interner.page_code_of(&unique(row), false).unwrap(),
                });
            }
            let array = interner.array_of(&mut codes);
            for (row, code) in codes.iter().enumerate() {
                match row % 4 {
                    0 => assert_eq!(array.as_string_view().value(*code as usize), texts[row]),
                    1 => assert_eq!(*code, ABSENT),
                    _ => assert_eq!(array.as_string_view().value(*code as usize), unique(row)),
                }
            }
        }
        assert!(interner.of_page.is_some() && interner.ends.len() < 8_000, "not all texts were looked up");
    }
}
