//! Queries to term dictionaries, and the form of their results.
//!
//! A term dictionary stores *tokens*: the text between any two adjacent breakers, major or minor, lower-cased (see
//! [`crate::segment`]). Whole major segments are not stored: `TERM(a.b.c)` becomes the AND of its tokens and is
//! verified on the text. A term dictionary therefore returns a superset of the matches, at page granularity; the scan
//! verifies them.

use std::collections::BTreeSet;

use crate::TextMark;
use crate::segment::{for_each_token, lower_token};

/// Condition on the tokens of an event. Conservative: a page that passes may contain no match, but a page that does not
/// pass contains none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TermQuery {
    /// Every page.
    All,
    /// No page.
    None,
    /// Pages that contain this lower-cased token.
    Token(Box<str>),
    /// Pages that contain a token starting with this lower-cased text.
    Prefix(Box<str>),
    /// Pages in which these tokens may match within a value of a field; a reader that knows the field's columns
    /// ([`FieldColumns`]) need not search elsewhere.
    Value {
        /// Field name (case-sensitive).
        field: Box<str>,
        /// The value as written in the query.
        value: Box<str>,
        /// Query for the tokens of the value.
        tokens: Box<TermQuery>,
    },
    /// Pages of slabs in which a text may have this mark; a value in such a text need not consist of its tokens.
    Marked(TextMark),
    /// Pages that may have an event with an index-time field.
    IndexTimeFields,
    /// Pages in which every part may match.
    And(Vec<TermQuery>),
    /// Pages in which some part may match.
    Or(Vec<TermQuery>),
    /// Pages with an event whose metadata matches, e.g. `host` with a lower-cased value that may contain `*`
    /// wildcards.
    Meta {
        /// `index`, `host`, `source` or `sourcetype`.
        field: MetaField,
        /// Lower-cased pattern; `*` matches any run of characters.
        pattern: Box<str>,
    },
    /// Pages with the indexed field `name` (case-sensitive) and this exact lower-cased value.
    Field {
        /// Field name.
        name: Box<str>,
        /// Lower-cased value.
        value: Box<str>,
    },
    /// Pages with the indexed field `name` and this number, or with another spelling of it ([`crate::value::spelling`])
    /// if the event's text also contains `number`.
    FieldNumber {
        /// Field name.
        name: Box<str>,
        /// Lower-cased number.
        number: Box<str>,
    },
}

impl TermQuery {
    /// Query for a keyword or phrase: the AND of its tokens. `*` is a wildcard: the token before it becomes a prefix;
    /// the token after it is checked only on the text. Quotes have no effect here.
    pub fn for_keyword(text: &str) -> TermQuery {
        let mut parts = Vec::new();
        let mut lower = Vec::new();
        let bytes = text.as_bytes();
        for_each_token(bytes, |token| {
            let start = token.as_ptr() as usize - bytes.as_ptr() as usize;
            let end = start + token.len();
            let after_star = start > 0 && bytes[start - 1] == b'*';
            let before_star = bytes.get(end) == Some(&b'*');
            // `a%2*` also matches `a%20`, where `2` is part of a breaker and not a token.
            let in_doubt = before_star && start > 0 && bytes[start - 1] == b'%';
            if after_star || in_doubt {
                return;
            }
            lower_token(token, &mut lower);
            let token = String::from_utf8_lossy(&lower).into();
            parts.push(if before_star { TermQuery::Prefix(token) } else { TermQuery::Token(token) });
        });
        TermQuery::and(parts)
    }

    /// Query for `TERM(text)`. A term's boundaries are stricter than a keyword's, but its tokens are the same.
    pub fn for_term(text: &str) -> TermQuery {
        TermQuery::for_keyword(text)
    }

    /// Query for a field with this value, which consists of these tokens.
    pub fn for_field_value(field: &str, value: &str, tokens: TermQuery) -> TermQuery {
        match tokens {
            TermQuery::All | TermQuery::None => tokens,
            _ => TermQuery::Value { field: field.into(), value: value.into(), tokens: Box::new(tokens) },
        }
    }

    /// Conjunction, simplified: nested ANDs are flattened, duplicates and `All` removed; a `None` makes the result
    /// `None`.
    pub fn and(parts: impl IntoIterator<Item = TermQuery>) -> TermQuery {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                TermQuery::All => {}
                TermQuery::None => return TermQuery::None,
                TermQuery::And(inner) => kept.extend(inner),
                part => kept.push(part),
            }
        }
        let mut kept = remove_duplicates(kept);
        match kept.len() {
            0 => TermQuery::All,
            1 => kept.swap_remove(0),
            _ => TermQuery::And(kept),
        }
    }

    /// Disjunction, simplified: nested ORs are flattened, duplicates and `None` removed; an `All` makes the result
    /// `All`.
    pub fn or(parts: impl IntoIterator<Item = TermQuery>) -> TermQuery {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                TermQuery::None => {}
                TermQuery::All => return TermQuery::All,
                TermQuery::Or(inner) => kept.extend(inner),
                part => kept.push(part),
            }
        }
        let mut kept = remove_duplicates(kept);
        match kept.len() {
            0 => TermQuery::None,
            1 => kept.swap_remove(0),
            _ => TermQuery::Or(kept),
        }
    }
}

/// Drops repeated parts and keeps the order. A set finds the repetitions: comparing all parts with each other would be
/// slow for lists of thousands of values.
fn remove_duplicates(mut parts: Vec<TermQuery>) -> Vec<TermQuery> {
    let mut seen = BTreeSet::new();
    let is_first: Vec<bool> = parts.iter().map(|part| seen.insert(part)).collect();
    let mut is_first = is_first.into_iter();
    parts.retain(|_| is_first.next().unwrap_or(true));
    parts
}

/// Locations of field values in a template slab ([`crate::template::TemplateSet`]), as determined by field extraction.
pub trait FieldColumns {
    /// Columns with values of `field`; `None` if the values may be anywhere.
    fn columns_of(&self, field: &str) -> Option<ValueColumns>;
}

/// Columns of a slab that contain the values of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueColumns {
    /// Columns that together contain every value, or every part of a value that is not in a literal.
    pub columns: Vec<u32>,
    /// Whether a value, or part of a value, may be in the literals of a template.
    pub literals: bool,
}

/// The answer if nothing is known about columns: the values of a field may be anywhere.
#[derive(Clone, Copy, Debug)]
pub struct AnyColumn;

impl FieldColumns for AnyColumn {
    fn columns_of(&self, _field: &str) -> Option<ValueColumns> {
        None
    }
}

/// Metadata fields in a [`TermQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetaField {
    /// `index`.
    Index,
    /// `host`.
    Host,
    /// `source`.
    Source,
    /// `sourcetype`.
    Sourcetype,
}

/// A set of pages of one slab: bit `i` is page `i`. A slab has at most 64 pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageSet(pub u64);

impl PageSet {
    /// The set of the first `pages` pages.
    pub fn first(pages: usize) -> PageSet {
        debug_assert!(pages <= 64);
        PageSet(if pages >= 64 { u64::MAX } else { (1u64 << pages) - 1 })
    }

    /// The set with page `page` only; empty if no slab can have such a page.
    pub fn single(page: usize) -> PageSet {
        PageSet(if page < 64 { 1 << page } else { 0 })
    }

    /// Whether page `page` is in the set.
    pub fn contains(self, page: usize) -> bool {
        page < 64 && self.0 >> page & 1 == 1
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests;
