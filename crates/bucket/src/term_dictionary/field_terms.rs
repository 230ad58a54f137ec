//! The terms of index-time fields: `name NUL value` for each value, or only `name` if the texts contain the values.
//!
//! If the values of a field are parts of the texts between breakers (`crate::templates`), the tokens of a value are
//! among the tokens of the text. Pages are then found by these tokens, so a term for each value would only repeat terms
//! that the slab already has.

use quarry_event::TermQuery;
use quarry_event::segment::fold_case;
use quarry_event::value::spelling::spelled_beginnings;

use crate::error::BucketError;
use crate::limits::MAX_TERM_BYTES;
use crate::source::ObjectSource;
use crate::templates::{FieldSplit, SlabValues};
use crate::term_dictionary::read::TermDictionary;
use crate::term_dictionary::table::TermTable;
use crate::term_dictionary::template_terms::{code_pages, text_slices, value_ranges_by_page};
use crate::term_dictionary::truncate_term;

/// Byte between name and value in the terms of index-time fields.
const FIELD_SEPARATOR: u8 = 0;
/// Maximum length of a token that is looked up for a value. The text may contain a longer form of the token, because
/// the lower case of a letter of three bytes may be a single byte.
const VALUE_TOKEN_BYTES_MAX: usize = quarry_event::segment::MAX_TOKEN_BYTES / 3;

/// The term of a field with this value.
pub(crate) fn field_term(name: &str, value: &str) -> Vec<u8> {
    let value = fold_case(value);
    let mut term = Vec::with_capacity(name.len() + 1 + value.len());
    term.extend_from_slice(name.as_bytes());
    term.push(FIELD_SEPARATOR);
    term.extend_from_slice(value.as_bytes());
    let cut = truncate_term(&term).len();
    term.truncate(cut);
    term
}

/// The term of a field whose values are found by the tokens of the texts; `None` if it could be the term of a value.
pub(crate) fn name_term(name: &str) -> Option<&[u8]> {
    let is_distinct = name.len() < MAX_TERM_BYTES && !name.as_bytes().contains(&FIELD_SEPARATOR);
    is_distinct.then_some(name.as_bytes())
}

/// The value of an index-time field that is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldLookup<'q> {
    pub(crate) name: &'q str,
    /// In lower case.
    pub(crate) value: &'q str,
    /// Whether the value is a number whose other spellings are also found.
    pub(crate) is_number: bool,
}

impl FieldLookup<'_> {
    /// Pages with a term of the value.
    pub(crate) fn find(&self, terms: &TermDictionary, source: &ObjectSource) -> Result<u64, BucketError> {
        if !self.is_number {
            return terms.find(source, &field_term(self.name, self.value));
        }
        let mut found = 0;
        for (beginning, may_continue) in spelled_beginnings(self.value) {
            let term = field_term(self.name, &beginning);
            found |= if may_continue { terms.find_prefix(source, &term)? } else { terms.find(source, &term)? };
        }
        Ok(found)
    }

    /// Query for the texts that contain the value. Other spellings of a number need no query: their events match only
    /// if their text also contains the number itself.
    pub(crate) fn tokens(&self) -> TermQuery {
        value_tokens(self.value)
    }

    /// The term of the value as written.
    pub(crate) fn term(&self) -> Vec<u8> {
        field_term(self.name, self.value)
    }
}

/// The lookup of a query for an index-time field; `None` for any other query.
pub(crate) fn field_lookup(query: &TermQuery) -> Option<FieldLookup<'_>> {
    match query {
        TermQuery::Field { name, value } => Some(FieldLookup { name, value, is_number: false }),
        TermQuery::FieldNumber { name, number } => Some(FieldLookup { name, value: number, is_number: true }),
        _ => None,
    }
}

/// Query for the texts that contain this value, in any case, between breakers.
pub(crate) fn value_tokens(value: &str) -> TermQuery {
    // Letters of other alphabets have several forms in lower case.
    if !value.is_ascii() {
        return TermQuery::All;
    }
    let is_short = |query: &TermQuery| match query {
        TermQuery::Token(token) | TermQuery::Prefix(token) => token.len() <= VALUE_TOKEN_BYTES_MAX,
        _ => false,
    };
    match TermQuery::for_keyword(value) {
        TermQuery::And(parts) => TermQuery::and(parts.into_iter().filter(is_short)),
        query if is_short(&query) => query,
        _ => TermQuery::All,
    }
}

/// Adds the terms of the index-time fields that have columns. Returns whether the terms of some values are omitted,
/// because the texts contain these values.
pub(crate) fn add_field_terms(fields: &FieldSplit, terms: &mut TermTable) -> bool {
    let mut omits_values = false;
    for (name, column, is_in_texts) in fields.columns() {
        if is_in_texts && let Some(term) = name_term(name) {
            for (page, places) in value_ranges_by_page(column) {
                if !places.is_empty() {
                    terms.start_page(page);
                    terms.add_term(term);
                }
            }
            omits_values = true;
            continue;
        }
        let add = |value: &[u8], terms: &mut TermTable| {
            terms.add_term(&field_term(name, &String::from_utf8_lossy(value)));
        };
        match &*column.values {
            SlabValues::Dictionary { bytes, ends, codes } => {
                let pages = code_pages(column, codes, ends.len());
                for (text, pages) in text_slices(bytes, ends, 0..ends.len()).zip(pages) {
                    terms.start_pages(pages);
                    add(text, terms);
                }
            }
            SlabValues::Texts { bytes, ends } => {
                for (page, places) in value_ranges_by_page(column) {
                    terms.start_page(page);
                    text_slices(bytes, ends, places).for_each(|text| add(text, terms));
                }
            }
            SlabValues::Numbers { format, numbers } => {
                let mut text = Vec::new();
                for (page, places) in value_ranges_by_page(column) {
                    terms.start_page(page);
                    for number in &numbers[places] {
                        text.clear();
                        format.write(*number, &mut text);
                        add(&text, terms);
                    }
                }
            }
            // The column of a field has no templates.
            SlabValues::Templates { .. } => {}
        }
    }
    omits_values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_with_one_form_are_looked_up() {
        let token = |text: &str| TermQuery::Token(text.into());
        let long = "x".repeat(VALUE_TOKEN_BYTES_MAX + 1);
        let pair = format!("id={long}");
        for (value, expected) in [
            ("GET", token("get")),
            ("/shop/item-7", TermQuery::And(vec![token("shop"), token("item"), token("7")])),
            ("größe", TermQuery::All),
            ("-", TermQuery::All),
            ("", TermQuery::All),
            (long.as_str(), TermQuery::All),
            (pair.as_str(), token("id")),
        ] {
            assert_eq!(value_tokens(value), expected, "{value}");
        }
    }

    #[test]
    fn names_are_never_the_terms_of_values() {
        assert_eq!(name_term("code"), Some(&b"code"[..]));
        for name in ["co\0de".to_owned(), "n".repeat(MAX_TERM_BYTES)] {
            assert_eq!(name_term(&name), None);
        }
    }
}
