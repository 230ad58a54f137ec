//! Finder for the positions in a text at which a run of bytes begins.
//!
//! In short texts, the rarest byte of the run is searched for. In long texts, even that byte occurs often, so the whole
//! run is searched for. If letters match in either case, two or three neighbouring bytes are searched for instead, in
//! both cases simultaneously (the *Teddy* algorithm of `aho_corasick::packed`); nearly every hit is then a match.

use std::sync::OnceLock;

use aho_corasick::Span;
use aho_corasick::packed::{Config, Searcher};
use memchr::memmem;

/// Bytes ordered by their usual frequency in texts, most common first.
const BYTES_BY_FREQUENCY: &[u8] = b" 0e1a2ti3os4n5r6/7.8:9-d=lcpmu\"fghbvwky_x,[]()jqz{}";
/// Number of neighbouring bytes that are searched for together. Each may have two cases; up to eight variants are
/// found at full speed.
const RARE_WINDOW_BYTES: usize = 3;
/// Minimum length of a text for which preparing a search for several bytes pays off.
const LONG_TEXT_BYTES_MIN: usize = 16 << 10;

/// Finds one run of bytes.
#[derive(Clone, Debug)]
pub(super) struct Finder {
    needle: Box<[u8]>,
    fold: bool,
    /// The rarest byte, in both cases, and its offset in the run.
    byte: [u8; 2],
    offset: usize,
    /// The search in long texts, prepared at the first of them; `None` if the run is a single byte, or if no searcher
    /// can be built.
    window: OnceLock<Option<LongTextSearch>>,
}

#[derive(Clone, Debug)]
enum LongTextSearch {
    Whole(memmem::Finder<'static>),
    /// The rarest neighbouring bytes, and their offset in the run.
    RareBytes(usize, Searcher),
}

impl LongTextSearch {
    /// The next place at or after `from` that may belong to the run, and its offset in the run.
    fn find(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            LongTextSearch::Whole(finder) => finder.find(text.get(from..)?).map(|found| (from + found, 0)),
            LongTextSearch::RareBytes(offset, searcher) => {
                searcher.find_in(text, Span::from(from..text.len())).map(|found| (found.start(), *offset))
            }
        }
    }
}

impl Finder {
    /// Finds `needle`; if `fold`, regardless of the case of ASCII letters.
    pub(super) fn new(needle: &[u8], fold: bool) -> Finder {
        let offset = (0..needle.len()).max_by_key(|at| rarity(needle[*at])).unwrap_or(0);
        let byte = needle.get(offset).copied().unwrap_or(0);
        let byte = if fold { [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()] } else { [byte; 2] };
        Finder { needle: needle.into(), fold, byte, offset, window: OnceLock::new() }
    }

    /// Positions at which the run begins in a text, ascending.
    pub(super) fn positions<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let is_long = text.len() >= LONG_TEXT_BYTES_MIN;
        let window = if is_long { self.window.get_or_init(|| self.long_text_search()).as_ref() } else { None };
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                let (found, offset) = match window {
                    Some(search) => search.find(text, from)?,
                    None => (from + memchr::memchr2(self.byte[0], self.byte[1], &text[from..])?, self.offset),
                };
                from = found + 1;
                if let Some(start) = found.checked_sub(offset).filter(|start| self.is_at(text, *start)) {
                    return Some(start);
                }
            }
        })
    }

    fn is_at(&self, text: &[u8], start: usize) -> bool {
        text.get(start..start + self.needle.len()).is_some_and(|found| match self.fold {
            true => found.eq_ignore_ascii_case(&self.needle),
            false => *found == *self.needle,
        })
    }

    fn long_text_search(&self) -> Option<LongTextSearch> {
        let bytes = self.needle.len().min(RARE_WINDOW_BYTES);
        if bytes < 2 {
            return None;
        }
        if !self.fold {
            return Some(LongTextSearch::Whole(memmem::Finder::new(&*self.needle).into_owned()));
        }
        let windows = self.needle.windows(bytes).enumerate();
        let (offset, window) =
            windows.max_by_key(|(_, window)| window.iter().map(|byte| rarity(*byte)).sum::<usize>())?;
        let mut variants: Vec<Vec<u8>> = vec![Vec::new()];
        for byte in window {
            let mut cases = vec![*byte];
            if byte.is_ascii_alphabetic() {
                cases.push(byte ^ b' ');
            }
            variants = variants
                .iter()
                .flat_map(|variant| cases.iter().map(|byte| [variant.as_slice(), &[*byte]].concat()))
                .collect();
        }
        assert!(variants.len() <= 1 << RARE_WINDOW_BYTES, "a byte has at most two cases");
        let searcher = Config::new().builder().extend(variants).build()?;
        Some(LongTextSearch::RareBytes(offset, searcher))
    }
}

/// Rarity of a byte in texts; a larger number means a rarer byte.
fn rarity(byte: u8) -> usize {
    BYTES_BY_FREQUENCY.iter().position(|known| *known == byte.to_ascii_lowercase()).unwrap_or(BYTES_BY_FREQUENCY.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn begins(needle: &[u8], fold: bool, text: &[u8]) -> Vec<usize> {
        let is_it = |found: &[u8]| if fold { found.eq_ignore_ascii_case(needle) } else { found == needle };
        text.windows(needle.len()).enumerate().filter(|(_, found)| is_it(found)).map(|(at, _)| at).collect()
    }

    proptest! {
        #[test]
        fn every_occurrence_is_found_in_short_and_long_texts(
            needle in "[abAB1 -]{1,7}",
            piece in "[abABcx1 \n=-]{1,60}",
            fold in any::<bool>(),
            cut in 0usize..50,
        ) {
            let finder = Finder::new(needle.as_bytes(), fold);
            let long = format!("{piece}{needle}").repeat(LONG_TEXT_BYTES_MIN / piece.len() + 1);
            let long = &long.as_bytes()[cut.min(piece.len())..];
            prop_assert!(long.len() >= LONG_TEXT_BYTES_MIN);
            let short = &long[..200];
            for text in [long, short, &[][..], needle.as_bytes()] {
                prop_assert_eq!(finder.positions(text).collect::<Vec<_>>(), begins(needle.as_bytes(), fold, text));
            }
        }
    }
}
