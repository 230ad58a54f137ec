//! Candidate rows of a page for a rare token or a prefix of rare tokens. Usually few rows are candidates, as in a
//! search for one id.
//!
//! A token that occurs in a page is listed for the page in the term dictionary or occurs in one of the page's rare
//! columns. If it is not listed, only rows whose values in these columns contain the token can match. Finding these
//! rows means reading a page of the term dictionary and a column or two, so it pays off only when few pages are left.

use quarry_event::template::ColumnValues;
use quarry_event::{FieldColumns, TermQuery};
use quarry_stdx::number::u32_of;

use crate::columns::TemplatePage;
use crate::error::BucketError;
use crate::reader::{BucketReader, TokenScope, order_by_rarity};
use crate::term_dictionary::field_terms::field_lookup;
use crate::term_dictionary::scan::{NumberTest, RareTest, TokenPattern};
use crate::term_dictionary::truncate_term;

/// Maximum number of conditions of a conjunction that are looked up before the rows count as unknown.
const LOOKED_UP_TOKENS_MAX: usize = 2;

/// Maximum number of alternatives that are looked up. Each lookup reads a column, so that testing the condition itself
/// is faster for more alternatives.
const ALTERNATIVES_MAX: usize = 8;

impl BucketReader {
    /// Rows of a page that may hold a match, ascending: a superset of the matches. `None` if the rows are unknown, or
    /// if there are more than `most`. Panics if there is no such page, as slice indexing does.
    pub fn candidate_rows(
        &self,
        slab: usize,
        page: usize,
        query: &TermQuery,
        fields: &dyn FieldColumns,
        most: usize,
    ) -> Result<Option<Vec<u32>>, BucketError> {
        if self.columns(slab)?.is_none() {
            return Ok(None);
        }
        assert!(page < self.slabs()[slab].pages.len(), "a page set of the slab has a bit for the page");
        self.rows_of(TokenScope { slab, fields, within: None, may_hold: &|_| true }, page, query, most)
    }

    fn rows_of(
        &self,
        asked: TokenScope<'_>,
        page: usize,
        query: &TermQuery,
        most: usize,
    ) -> Result<Option<Vec<u32>>, BucketError> {
        match query {
            TermQuery::None => Ok(Some(Vec::new())),
            TermQuery::Token(token) => {
                self.rows_with(asked, page, TokenPattern::Token(truncate_term(token.as_bytes())), most)
            }
            TermQuery::Prefix(prefix) => {
                self.rows_with(asked, page, TokenPattern::Prefix(truncate_term(prefix.as_bytes())), most)
            }
            TermQuery::Value { field, value, tokens } => {
                let within = asked.fields.columns_of(field);
                let asked = TokenScope { within: within.as_ref(), ..asked };
                match self.address_tests(asked, value)? {
                    Some(tests) => self.rows_passing(asked.slab, page, tests, most),
                    None if self.are_field_columns(asked)? => Ok(Some(Vec::new())),
                    None => self.rows_of(asked, page, tokens, most),
                }
            }
            TermQuery::Field { .. } | TermQuery::FieldNumber { .. } => {
                let Some(wanted) = field_lookup(query) else { return Ok(None) };
                let (listed, in_texts) = self.field_term_pages(asked.slab, wanted)?;
                match (listed >> page & 1, in_texts >> page & 1) {
                    (1, _) => Ok(None),
                    (_, 1) => self.rows_of(TokenScope { within: None, ..asked }, page, &wanted.tokens(), most),
                    _ => Ok(Some(Vec::new())),
                }
            }
            TermQuery::And(parts) => {
                let tokens = order_by_rarity(parts).into_iter();
                let tokens = tokens.filter(|part| is_token_query(part) || matches!(part, TermQuery::Or(_)));
                for part in tokens.take(LOOKED_UP_TOKENS_MAX) {
                    if let Some(rows) = self.rows_of(asked, page, part, most)? {
                        return Ok(Some(rows));
                    }
                }
                Ok(None)
            }
            TermQuery::Or(parts) if parts.len() > ALTERNATIVES_MAX => Ok(None),
            TermQuery::Or(parts) => {
                let mut all = Vec::new();
                // Conditions that search columns come last; any other condition may end the search early.
                let (late, early): (Vec<_>, Vec<_>) = parts.iter().partition(|part| is_token_query(part));
                for part in early.into_iter().chain(late) {
                    let Some(rows) = self.rows_of(asked, page, part, most)? else { return Ok(None) };
                    all.extend(rows);
                }
                all.sort_unstable();
                all.dedup();
                Ok((all.len() <= most).then_some(all))
            }
            TermQuery::Meta { field, pattern } => {
                let pages = self.metadata_pages(asked.slab, *field, pattern);
                Ok(rows_unless_listed(pages, page))
            }
            TermQuery::Marked(mark) if !self.may_have_mark(asked.slab, *mark)? => Ok(Some(Vec::new())),
            TermQuery::IndexTimeFields if !self.page_has_fields(asked.slab, page) => Ok(Some(Vec::new())),
            TermQuery::Marked(_) | TermQuery::IndexTimeFields | TermQuery::All => Ok(None),
        }
    }

    fn rows_with(
        &self,
        asked: TokenScope<'_>,
        page: usize,
        wanted: TokenPattern<'_>,
        most: usize,
    ) -> Result<Option<Vec<u32>>, BucketError> {
        let slab = asked.slab;
        let Some(columns) = self.columns(slab)? else { return Ok(None) };
        if self.needs_dictionary_lookup(asked)?
            && let Some(term_dictionary) = self.term_dictionary(slab, &self.parts()[slab].tokens)?
        {
            let listed = match wanted {
                TokenPattern::Token(token) => term_dictionary.find(&self.source, token)?,
                TokenPattern::Prefix(prefix) => term_dictionary.find_prefix(&self.source, prefix)?,
            };
            if listed >> page & 1 == 1 {
                return Ok(None);
            }
        }
        let of_asked = (0u32..)
            .zip(columns.layout.template_set.text_columns())
            .filter(|(number, _)| asked.includes_column(*number));
        let tests = of_asked.map(|(number, column)| (number, RareTest::of(column, wanted)));
        self.rows_passing(slab, page, tests.filter(|(_, test)| !matches!(test, RareTest::Never)).collect(), most)
    }

    /// Rows of the values that pass the test of their column; `None` if there are more than `most` such rows, or if
    /// they cannot be determined.
    fn rows_passing(
        &self,
        slab: usize,
        page: usize,
        tests: Vec<(u32, RareTest<'_>)>,
        most: usize,
    ) -> Result<Option<Vec<u32>>, BucketError> {
        if tests.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let Some(mut values) = self.template_page(slab, page)? else { return Ok(None) };
        values.fetch_columns(tests.iter().map(|(number, _)| *number))?;
        let mut rows = Vec::new();
        for (number, test) in &tests {
            if matches!(test, RareTest::Always) {
                return Ok(None);
            }
            let places = self.passing_positions(*number, test, &mut values)?;
            if places.len() > most {
                return Ok(None);
            }
            if !places.is_empty() {
                rows.extend(values.rows_of_positions(*number, places)?);
            }
        }
        rows.sort_unstable();
        rows.dedup();
        Ok((rows.len() <= most).then_some(rows))
    }

    /// Positions of the values of a column that pass its test.
    fn passing_positions(
        &self,
        column: u32,
        test: &RareTest<'_>,
        page: &mut TemplatePage,
    ) -> Result<Vec<usize>, BucketError> {
        if page.value_count(column) == 0 {
            return Ok(Vec::new());
        }
        if let (Some(numbers), Some((dictionary, 0))) = (test.numbers(), page.shared_dictionary(column)?) {
            // Entries ascend by their first component, so the codes are found directly.
            let wanted = dictionary.codes_of(0, numbers);
            let codes = page.shared_codes(column)?;
            let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(Vec::new()) };
            let is_wanted = |code: u32| (*first..=*last).contains(&code) && wanted.binary_search(&code).is_ok();
            return Ok(positions_where(&codes, |code| is_wanted(*code)));
        }
        if let Some(numbers) = test.numbers()
            && page.contains_number(column, numbers)? == Some(false)
        {
            return Ok(Vec::new());
        }
        Ok(test.passing_positions(&page.values(column)?))
    }
}

/// Candidate rows of a page for a condition of which only the pages with a match (`pages`) are known: no rows if the
/// page is not among them, otherwise `None`, because any of its rows may match.
fn rows_unless_listed(pages: u64, page: usize) -> Option<Vec<u32>> {
    (pages >> page & 1 == 0).then(Vec::new)
}

/// Whether a query is a condition on tokens, for which columns can be searched.
fn is_token_query(query: &TermQuery) -> bool {
    matches!(query, TermQuery::Token(_) | TermQuery::Prefix(_) | TermQuery::Value { .. })
}

/// Positions of the values that pass.
pub(crate) fn positions_where<T>(values: &[T], passes: impl Fn(&T) -> bool) -> Vec<usize> {
    values.iter().enumerate().filter(|(_, value)| passes(value)).map(|(at, _)| at).collect()
}

impl RareTest<'_> {
    /// Positions of the values that pass.
    fn passing_positions(&self, values: &ColumnValues) -> Vec<usize> {
        match (values, self) {
            (ColumnValues::Numbers(numbers), RareTest::Numbers(NumberTest::Either(one, other))) => {
                positions_where(numbers, |number| (number == one) | (number == other))
            }
            (ColumnValues::Numbers(numbers), RareTest::Numbers(test)) => {
                positions_where(numbers, |number| test.any_passes(std::slice::from_ref(number)))
            }
            (ColumnValues::Numbers(numbers), _) => (0..numbers.len()).collect(),
            (ColumnValues::Texts { bytes, ends }, _) => {
                if !self.any_passes(values) {
                    return Vec::new();
                }
                let start = |at: usize| if at == 0 { 0 } else { ends[at - 1] as usize };
                let text = |at: usize| bytes.slice(start(at)..ends[at] as usize);
                let holds = |at: &usize| {
                    let bytes = text(*at);
                    self.any_passes(&ColumnValues::Texts { ends: vec![u32_of(bytes.len())], bytes })
                };
                (0..ends.len()).filter(holds).collect()
            }
            (ColumnValues::Codes(codes), _) => (0..codes.len()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
