//! Pages with rare tokens: searches the columns of template slabs for tokens that are not in the term dictionary, and
//! lists such tokens for checking the term filter.
//!
//! The store consults the term filter first, so that columns are read only in slabs that most likely contain the token.
//! In a compacted slab, the locator returns the pages of most tokens (`crate::locator`), so that no column is read at
//! all.
//!
//! Not here: which tokens are rare (`crate::term_dictionary::rare_tokens`); testing values
//! (`crate::term_dictionary::scan`).

use quarry_event::template::{Column, ColumnKind, ColumnValues, NumberFormat, TemplateSet};
use quarry_event::{PageSet, ValueColumns};

use std::sync::Arc;

use crate::columns::{SharedDictionary, SlabColumns, TemplatePage};
use crate::error::BucketError;
use crate::reader::{BucketReader, TokenScope};
use crate::term_dictionary::Namespace;
use crate::term_dictionary::hash::hash_term;
use crate::term_dictionary::rare_tokens::{RareNumbers, add_text_hashes, are_numbers_located, is_rare_column};
use crate::term_dictionary::scan::{NumberTest, RareTest, TokenPattern};

/// If other conditions leave at most this many pages, searching columns for another token costs more than reading the
/// pages.
const REMAINING_PAGES_MAX: u32 = 4;

/// Receives hashes of rare tokens, and the page that contains them if it is known.
type VisitTokens<'v> = dyn FnMut(&[u64], Option<usize>) -> Result<(), BucketError> + 'v;

impl BucketReader {
    /// Whether other conditions leave so few pages of a slab that searching its columns for another token does not pay
    /// off.
    pub(crate) fn are_few_pages_left(&self, slab: usize, among: PageSet) -> bool {
        among != PageSet::first(self.slabs()[slab].pages.len()) && among.0.count_ones() <= REMAINING_PAGES_MAX
    }

    /// The columns of a field whose value is searched for, and the columns of the slab; `None` if the search is for a
    /// word anywhere in the texts, or if the slab has no columns. The columns of a slab are opened only for a field,
    /// because decoding their layout takes longer than a lookup in the term dictionary.
    fn field_scope<'a>(
        &'a self,
        asked: TokenScope<'a>,
    ) -> Result<Option<(&'a ValueColumns, &'a Arc<SlabColumns>)>, BucketError> {
        let Some(within) = asked.within else { return Ok(None) };
        Ok(self.columns(asked.slab)?.map(|columns| (within, columns)))
    }

    /// Whether a lookup in the term dictionary is useful. False if all columns with the field's values are rare,
    /// because the dictionary omits their tokens. Numbers of several tokens are an exception: such tokens occur in most
    /// pages, and looking them up is faster than reading columns.
    pub(crate) fn needs_dictionary_lookup(&self, asked: TokenScope<'_>) -> Result<bool, BucketError> {
        let Some((within, columns)) = self.field_scope(asked)? else { return Ok(true) };
        let columns = &columns.layout.template_set.columns;
        let is_rare = |number: &u32| columns.get(*number as usize).is_some_and(is_single_rare_token);
        Ok(within.literals || !within.columns.iter().all(is_rare))
    }

    /// Whether all values of the field are in the columns of index-time fields, where no token is searched for.
    pub(crate) fn are_field_columns(&self, asked: TokenScope<'_>) -> Result<bool, BucketError> {
        let Some((within, columns)) = self.field_scope(asked)? else { return Ok(false) };
        let texts = columns.layout.template_set.text_columns().len();
        let mut numbers = within.columns.iter().map(|column| *column as usize);
        Ok(!within.literals && !within.columns.is_empty() && numbers.all(|column| column >= texts))
    }

    /// Tests of the address columns for an IP address. The tests exclude more pages than a search for the four tokens
    /// of the address, because such tokens occur in nearly every page. `None` if some values of the field are not in
    /// address columns.
    pub(crate) fn address_tests(
        &self,
        asked: TokenScope<'_>,
        value: &str,
    ) -> Result<Option<Vec<(u32, RareTest<'static>)>>, BucketError> {
        let Some((within, columns)) = self.field_scope(asked)? else { return Ok(None) };
        let Some(address) = NumberFormat::Ip4.parse(value.as_bytes()).filter(|_| !within.literals) else {
            return Ok(None);
        };
        let mut tests = Vec::new();
        for number in &within.columns {
            match columns.layout.template_set.columns.get(*number as usize).map(|column| &column.kind) {
                Some(ColumnKind::Numbers { format: NumberFormat::Ip4, min, max }) => {
                    if (*min..=*max).contains(&address) {
                        tests.push((*number, RareTest::Numbers(NumberTest::Either(address, address))));
                    }
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(tests))
    }

    /// Pages of `among` with a value that passes the test of its column.
    pub(crate) fn pages_passing_tests(
        &self,
        slab: usize,
        tests: Vec<(u32, RareTest<'_>)>,
        among: PageSet,
    ) -> Result<u64, BucketError> {
        match self.columns(slab)? {
            Some(columns) if !tests.is_empty() => self.scan_pages(slab, columns, tests, among),
            _ => Ok(0),
        }
    }

    /// Pages of `among` whose rare columns may contain the wanted token or prefix. Empty for a slab of plain text.
    pub(crate) fn rare_pages(
        &self,
        asked: TokenScope<'_>,
        wanted: TokenPattern<'_>,
        among: PageSet,
    ) -> Result<u64, BucketError> {
        let slab = asked.slab;
        let Some(columns) = self.columns(slab)? else {
            return Ok(0);
        };
        let locator = self.locator(slab)?;
        let mut is_located = false;
        let mut tests = Vec::new();
        let of_asked = (0u32..)
            .zip(columns.layout.template_set.text_columns())
            .filter(|(number, _)| asked.includes_column(*number));
        for (number, column) in of_asked {
            match RareTest::of(column, wanted) {
                RareTest::Never => {}
                RareTest::Always => return Ok(among.0),
                _ if locator.is_some() && is_located_in(column, wanted) => is_located = true,
                test => tests.push((number, test)),
            }
        }
        let mut found = 0;
        // The caller has looked up a token, but not a prefix, in the term filter.
        if let (Some(locator), true) = (locator, is_located && (asked.may_hold)(wanted.bytes())) {
            match locator.find(&self.source, hash_term(Namespace::Tokens, wanted.bytes()))? {
                Some(pages) => found = pages & among.0,
                None => tests.extend(locator_tests(&columns.layout.template_set, wanted, asked)),
            }
        }
        let left = PageSet(among.0 & !found);
        Ok(found | if tests.is_empty() { 0 } else { self.scan_pages(slab, columns, tests, left)? })
    }

    /// The pages of `among` with a value that passes the test of its column.
    fn scan_pages(
        &self,
        slab: usize,
        columns: &Arc<SlabColumns>,
        tests: Vec<(u32, RareTest<'_>)>,
        among: PageSet,
    ) -> Result<u64, BucketError> {
        let mut looked = Vec::with_capacity(tests.len());
        for (number, test) in tests {
            let test = ColumnTest::of(test, columns.shared_dictionary(&self.source, number)?);
            if !matches!(&test, ColumnTest::Codes(codes) if codes.is_empty()) {
                looked.push((number, test));
            }
        }
        let tests = looked;
        let mut source = self.source.clone();
        let numbers: Vec<u32> = tests.iter().map(|(number, _)| *number).collect();
        columns.fetch_ahead(&mut source, &numbers, among)?;
        let mut found = 0;
        for page in (0..self.slabs()[slab].pages.len()).filter(|page| among.contains(*page) && !tests.is_empty()) {
            let Some(mut values) = self.open_template_page(&source, slab, page, None)? else {
                continue;
            };
            for (number, test) in &tests {
                if test.passes(*number, &mut values)? {
                    found |= 1 << page;
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Reads the columns of a slab and passes the hashes of all rare tokens to `visit`, with repetitions. With
    /// `per_page`, the page of tokens that a locator covers is passed, too. Without `texts`, only tokens of number
    /// columns are passed.
    pub(crate) fn for_each_rare_token(
        &self,
        slab: usize,
        (per_page, texts): (bool, bool),
        visit: &mut VisitTokens<'_>,
    ) -> Result<(), BucketError> {
        let Some(columns) = self.columns(slab)? else {
            return Ok(());
        };
        // Each page is opened only once, because a slab may have thousands of columns.
        let pages = 0..self.slabs()[slab].pages.len();
        let opened: Result<Vec<_>, _> = pages.map(|page| self.template_page(slab, page)).collect();
        let mut opened = opened?;
        let mut hashes = Vec::new();
        for (number, column) in (0u32..).zip(columns.layout.template_set.text_columns()) {
            let noting = |values: u64| match column.kind {
                ColumnKind::Numbers { format, min, max } => Some(RareNumbers::new(format, min, max, values)),
                _ => None,
            };
            if !is_rare_column(column) || (!texts && matches!(column.kind, ColumnKind::Texts)) {
                continue;
            }
            let per_page = per_page && is_located_column(column);
            let mut noted = noting(column.values);
            for (page, values) in opened.iter_mut().enumerate() {
                let Some(values) = values else { continue };
                match (&mut noted, values.values(number)?) {
                    (Some(noted), ColumnValues::Numbers(numbers)) => {
                        let mut of_page = if per_page { noting(numbers.len() as u64) } else { None };
                        of_page.as_mut().unwrap_or(noted).add(&numbers, &mut hashes);
                        if let Some(of_page) = of_page {
                            of_page.finish(&mut hashes);
                        }
                    }
                    (None, values) => add_text_tokens(&values, &mut hashes),
                    _ => {}
                }
                visit(&hashes, per_page.then_some(page))?;
                hashes.clear();
            }
            if let Some(noted) = noted {
                noted.finish(&mut hashes);
                visit(&hashes, None)?;
                hashes.clear();
            }
        }
        Ok(())
    }
}

/// Appends the hash of every rare token of a column if its values are texts.
pub(crate) fn add_rare_text_tokens(column: &Column, values: &ColumnValues, hashes: &mut Vec<u64>) {
    if is_rare_column(column) {
        add_text_tokens(values, hashes);
    }
}

fn add_text_tokens(values: &ColumnValues, hashes: &mut Vec<u64>) {
    if let ColumnValues::Texts { bytes, ends } = values {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let text = |(start, end): (u32, &u32)| &bytes[start as usize..*end as usize];
        add_text_hashes(starts.zip(ends).map(text), hashes);
    }
}

/// Whether the term dictionary omits the values of a column. Number columns count only if each value is a single token.
fn is_single_rare_token(column: &Column) -> bool {
    match column.kind {
        ColumnKind::Numbers { format, .. } => {
            matches!(format, NumberFormat::Integer | NumberFormat::Padded { .. } | NumberFormat::Hex { .. })
        }
        _ => is_rare_column(column),
    }
}

/// Whether a locator covers the tokens of a rare column.
fn is_located_column(column: &Column) -> bool {
    match column.kind {
        ColumnKind::Numbers { format, min, max } => are_numbers_located(format, min, max, column.values),
        _ => true,
    }
}

/// Whether a locator finds the pages in which values of this column match.
fn is_located_in(column: &Column, wanted: TokenPattern<'_>) -> bool {
    matches!(wanted.in_column(column), TokenPattern::Token(_)) && is_located_column(column)
}

/// The tests for columns that a locator covers.
fn locator_tests<'a>(
    template_set: &TemplateSet,
    wanted: TokenPattern<'a>,
    asked: TokenScope<'_>,
) -> Vec<(u32, RareTest<'a>)> {
    let located = (0u32..).zip(template_set.text_columns());
    let located = located.filter(|(number, column)| asked.includes_column(*number) && is_located_in(column, wanted));
    let tests = located.map(|(number, column)| (number, RareTest::of(column, wanted)));
    tests.filter(|(_, test)| !matches!(test, RareTest::Never)).collect()
}

/// Test for the values of a column.
enum ColumnTest<'a> {
    Values(RareTest<'a>),
    /// Ascending codes of the shared dictionary's entries that pass, so that only the entries were tested and not every
    /// value.
    Codes(Vec<u32>),
}

impl<'a> ColumnTest<'a> {
    fn of(test: RareTest<'a>, shared: Option<(Arc<SharedDictionary>, u32)>) -> ColumnTest<'a> {
        match shared {
            None => ColumnTest::Values(test),
            Some((dictionary, component)) => {
                if let Some(numbers) = test.numbers() {
                    return ColumnTest::Codes(dictionary.codes_of(component, numbers));
                }
                let passes = |numbers: &[i64]| test.any_passes(&ColumnValues::Numbers(numbers.to_vec()));
                ColumnTest::Codes(dictionary.codes_where(component, &passes))
            }
        }
    }

    /// Whether a value of this column may match.
    fn passes(&self, column: u32, page: &mut TemplatePage) -> Result<bool, BucketError> {
        match self {
            ColumnTest::Values(test) => {
                let told = match test.numbers() {
                    Some(numbers) => page.contains_number(column, numbers)?,
                    None => None,
                };
                Ok(match told {
                    Some(told) => told,
                    None => page.value_count(column) > 0 && test.any_passes(&page.values(column)?),
                })
            }
            ColumnTest::Codes(wanted) => {
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
pub(crate) mod tests;
