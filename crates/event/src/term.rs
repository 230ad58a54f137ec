//! What a search asks of a term dictionary, and the answer's shape.
//!
//! A term dictionary stores *tokens*: what lies between any two breakers, major or minor, lower-cased (see
//! [`crate::segment`]). Whole major segments are not stored: `TERM(a.b.c)` is the AND of its tokens, verified on the
//! text afterwards. So the answer of a term dictionary is always a superset of the truth, at page grain; the
//! engine verifies it.

use crate::segment::{for_each_token, lower_token};

/// Condition on the tokens of an event. Conservative: a page the query keeps may hold no match, a page it drops
/// holds none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermQuery {
    /// Every page.
    All,
    /// No page.
    None,
    /// Pages holding this lower-cased token.
    Token(Box<str>),
    /// Pages holding a token that starts with this lower-cased text.
    Prefix(Box<str>),
    /// Pages where these tokens may match within a value of a field: a reader that knows where values of the field lie
    /// ([`FieldColumns`]) need not look elsewhere.
    Value {
        /// Field name (case-sensitive).
        field: Box<str>,
        /// The value as it is asked for.
        value: Box<str>,
        /// Its tokens.
        tokens: Box<TermQuery>,
    },
    /// Pages where every part may match.
    And(Vec<TermQuery>),
    /// Pages where some part may match.
    Or(Vec<TermQuery>),
    /// Pages holding an event whose metadata matches, e.g. `host`, lower-cased value with `*` wildcards.
    Meta {
        /// `index`, `host`, `source` or `sourcetype`.
        field: MetaField,
        /// Lower-cased pattern; `*` matches any run of characters.
        pattern: Box<str>,
    },
    /// Pages holding the indexed field `name` (case-sensitive) with this lower-cased exact value.
    Field {
        /// Field name.
        name: Box<str>,
        /// Lower-cased value.
        value: Box<str>,
    },
}

impl TermQuery {
    /// What a keyword or phrase asks for: the AND of its tokens. `*` is a wildcard: the token before it becomes a
    /// prefix, the token after it is left to the check on the text. Quotes make no difference here.
    pub fn for_keyword(text: &str) -> TermQuery {
        let mut parts = Vec::new();
        let mut lower = Vec::new();
        let bytes = text.as_bytes();
        for_each_token(bytes, |token| {
            let start = token.as_ptr() as usize - bytes.as_ptr() as usize;
            let end = start + token.len();
            let after_star = start > 0 && bytes[start - 1] == b'*';
            let before_star = bytes.get(end) == Some(&b'*');
            // `a%2*` also means `a%20`, where `2` is part of a breaker and no token.
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

    /// What `TERM(text)` asks for. Its bounds are wider than a keyword's, its tokens are the same.
    pub fn for_term(text: &str) -> TermQuery {
        TermQuery::for_keyword(text)
    }

    /// What a field with this value asks for, which consists of these tokens.
    pub fn in_value(field: &str, value: &str, tokens: TermQuery) -> TermQuery {
        match tokens {
            TermQuery::All | TermQuery::None => tokens,
            _ => TermQuery::Value { field: field.into(), value: value.into(), tokens: Box::new(tokens) },
        }
    }

    /// Every part, simplified: nested ANDs join, repetitions and `All` go, one `None` decides.
    pub fn and(parts: impl IntoIterator<Item = TermQuery>) -> TermQuery {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                TermQuery::All => {}
                TermQuery::None => return TermQuery::None,
                TermQuery::And(inner) => inner.into_iter().for_each(|part| push_new(&mut kept, part)),
                part => push_new(&mut kept, part),
            }
        }
        match kept.len() {
            0 => TermQuery::All,
            1 => kept.swap_remove(0),
            _ => TermQuery::And(kept),
        }
    }

    /// Some part, simplified: nested ORs join, repetitions and `None` go, one `All` decides.
    pub fn or(parts: impl IntoIterator<Item = TermQuery>) -> TermQuery {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                TermQuery::None => {}
                TermQuery::All => return TermQuery::All,
                TermQuery::Or(inner) => inner.into_iter().for_each(|part| push_new(&mut kept, part)),
                part => push_new(&mut kept, part),
            }
        }
        match kept.len() {
            0 => TermQuery::None,
            1 => kept.swap_remove(0),
            _ => TermQuery::Or(kept),
        }
    }
}

fn push_new(kept: &mut Vec<TermQuery>, part: TermQuery) {
    if !kept.contains(&part) {
        kept.push(part);
    }
}

/// Where values of fields lie in a template slab ([`crate::template::TemplateSet`]), as the one who cuts fields knows it.
pub trait FieldColumns {
    /// Where values of `field` lie; `None` where they may be anywhere.
    fn columns_of(&self, field: &str) -> Option<ValueColumns>;
}

/// Where values of a field lie in the texts of a slab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueColumns {
    /// Columns, by number, that together hold every value, or all of it that is in no template.
    pub columns: Vec<u32>,
    /// Whether a value, or a part of one, may stand in the literals of a template.
    pub literals: bool,
}

/// Values of any field may be anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Anywhere;

impl FieldColumns for Anywhere {
    fn columns_of(&self, _field: &str) -> Option<ValueColumns> {
        None
    }
}

/// Metadata fields a [`TermQuery`] can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A set of pages of one slab: bit `i` is page `i`. A slab never has more than 64 pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageSet(pub u64);

impl PageSet {
    /// The set of the first `pages` pages.
    pub fn first(pages: usize) -> PageSet {
        debug_assert!(pages <= 64);
        PageSet(if pages >= 64 { u64::MAX } else { (1u64 << pages) - 1 })
    }

    /// The set of page `page` alone; of none where a slab has no such page.
    pub fn one(page: usize) -> PageSet {
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
