//! Pieces that no lexicon lists, in the columns of shaped slabs: which pages hold one, and that the filter knows all.
//!
//! The store asks the term filter first, so that columns are read only in slabs that most likely hold the piece.
//!
//! Not here: what is rare (`crate::lexicon::rare`) and how a value is tested (`crate::lexicon::scan`).

use quarry_event::PageSet;
use quarry_event::shape::{ColumnKind, ColumnValues};

use std::sync::Arc;

use crate::columns::{ShapedPage, SharedDictionary};
use crate::error::BucketError;
use crate::lexicon::rare::{RareNumbers, add_texts, texts_are_rare};
use crate::lexicon::scan::{RareTest, Wanted};
use crate::reader::BucketReader;

/// Where other conditions left so few pages, looking for one more piece in their columns costs more than these pages.
const FEW_PAGES: u32 = 2;

impl BucketReader {
    /// Pages of `among` of whose rare columns some may hold what is wanted. None of a slab of plain text.
    pub(crate) fn rare_pages(&self, slab: usize, wanted: Wanted<'_>, among: PageSet) -> Result<u64, BucketError> {
        let Some(columns) = self.columns(slab)? else {
            return Ok(0);
        };
        let mut tests = Vec::new();
        let all = PageSet::first(self.slabs()[slab].pages.len());
        let is_few = among != all && among.0.count_ones() <= FEW_PAGES;
        for (number, column) in (0u32..).zip(&columns.layout.shapes.columns) {
            match RareTest::of(column, wanted) {
                RareTest::Never => {}
                RareTest::Always => return Ok(among.0),
                _ if is_few => return Ok(among.0),
                test => {
                    let test = Looked::of(test, columns.shared(&self.source, number)?);
                    if !matches!(&test, Looked::Codes(codes) if codes.is_empty()) {
                        tests.push((number, test));
                    }
                }
            }
        }
        let mut source = self.source.clone();
        let numbers: Vec<u32> = tests.iter().map(|(number, _)| *number).collect();
        columns.fetch_ahead(&mut source, &numbers, among)?;
        let mut found = 0;
        for page in (0..self.slabs()[slab].pages.len()).filter(|page| among.contains(*page) && !tests.is_empty()) {
            let Some(mut shaped) = self.shaped_page_of(&source, slab, page, None)? else {
                continue;
            };
            for (number, test) in &tests {
                if test.is_met(*number, &mut shaped)? {
                    found |= 1 << page;
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Gives the hash of every rare piece of a slab to `visit`, repetitions included, as its columns hold them now.
    pub(crate) fn for_each_rare(&self, slab: usize, visit: &mut dyn FnMut(u64)) -> Result<(), BucketError> {
        let Some(columns) = self.columns(slab)? else {
            return Ok(());
        };
        let mut hashes = Vec::new();
        for (number, column) in (0u32..).zip(&columns.layout.shapes.columns) {
            let mut noted = match column.kind {
                ColumnKind::Numbers { format, min, max } => Some(RareNumbers::new(format, min, max, column.values)),
                ColumnKind::Texts if texts_are_rare(&column.traits) => None,
                _ => continue,
            };
            for page in 0..self.slabs()[slab].pages.len() {
                let Some(mut shaped) = self.shaped_page(slab, page)? else {
                    continue;
                };
                match (&mut noted, shaped.values(number)?) {
                    (Some(noted), ColumnValues::Numbers(numbers)) => noted.add(&numbers, &mut hashes),
                    (None, ColumnValues::Texts { bytes, ends }) => {
                        let starts = std::iter::once(0).chain(ends.iter().copied());
                        let text = |(start, end): (u32, &u32)| &bytes[start as usize..*end as usize];
                        add_texts(starts.zip(&ends).map(text), &mut hashes);
                    }
                    _ => {}
                }
                hashes.drain(..).for_each(&mut *visit);
            }
            if let Some(noted) = noted {
                noted.finish(&mut hashes);
                hashes.drain(..).for_each(&mut *visit);
            }
        }
        Ok(())
    }
}

/// What is looked for in the values of a column.
enum Looked<'a> {
    Values(RareTest<'a>),
    /// Codes of a shared dictionary, ascending: only the entries were tested.
    Codes(Vec<u32>),
}

impl<'a> Looked<'a> {
    fn of(test: RareTest<'a>, shared: Option<(Arc<SharedDictionary>, u32)>) -> Looked<'a> {
        match shared {
            None => Looked::Values(test),
            Some((dictionary, component)) => {
                if let Some(numbers) = test.numbers() {
                    return Looked::Codes(dictionary.codes_of(component, numbers));
                }
                let passes = |numbers: &[i64]| test.holds(&ColumnValues::Numbers(numbers.to_vec()));
                Looked::Codes(dictionary.codes_where(component, &passes))
            }
        }
    }

    /// Whether a value of this column may be what is looked for.
    fn is_met(&self, column: u32, page: &mut ShapedPage) -> Result<bool, BucketError> {
        match self {
            Looked::Values(test) => {
                let told = match test.numbers() {
                    Some(numbers) => page.holds_number(column, numbers)?,
                    None => None,
                };
                Ok(match told {
                    Some(told) => told,
                    None => page.count(column) > 0 && test.holds(&page.values(column)?),
                })
            }
            Looked::Codes(wanted) => {
                let codes = page.shared_codes(column)?;
                Ok(match wanted[..] {
                    [one] => codes.contains(&one),
                    _ => codes.iter().any(|code| wanted.binary_search(code).is_ok()),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
