//! The term dictionary: terms of a slab, each with its posting list, the set of pages that contain the term. The
//! dictionary has every term, except the rare tokens of slabs stored as columns (below) and the values of fields that
//! the texts contain.
//!
//! Terms are the lower-cased tokens of the texts and, in a second namespace, the terms of the index-time fields
//! ([`field_terms`]). [`table`] collects terms from the text, [`mod@write`] sorts and front-codes them into dictionary
//! pages of a few thousand terms, [`read`] finds a term by decoding one dictionary page. `quarry_event::segment`
//! defines tokens.
//!
//! For slabs stored as columns, [`template_terms`] fills the dictionary from literals, dictionary columns and long
//! texts. The dictionary omits numbers and short texts, which seldom repeat: [`rare_tokens`] adds only the hashes of
//! their tokens to the term filter, and [`scan`] searches the columns for such tokens.

pub(crate) mod digits;
pub(crate) mod field_terms;
pub(crate) mod hash;
pub(crate) mod postings;
pub(crate) mod rare_tokens;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod table;
pub(crate) mod template_terms;
pub(crate) mod write;

use crate::block::BlockKind;
use crate::limits::MAX_TERM_BYTES;
pub(crate) use field_terms::field_term;

/// The two namespaces of a slab's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// Tokens of the text.
    Tokens,
    /// Index-time fields.
    Fields,
}

impl Namespace {
    /// Distinguishes equal bytes of different namespaces in the term filter. Part of the format.
    pub(crate) fn code(self) -> u64 {
        match self {
            Namespace::Tokens => 0,
            Namespace::Fields => 1,
        }
    }

    pub(crate) fn page_kind(self) -> BlockKind {
        match self {
            Namespace::Tokens => BlockKind::TermDictionary,
            Namespace::Fields => BlockKind::FieldTermDictionary,
        }
    }

    pub(crate) fn directory_kind(self) -> BlockKind {
        match self {
            Namespace::Tokens => BlockKind::TermDictionaryDirectory,
            Namespace::Fields => BlockKind::FieldTermDictionaryDirectory,
        }
    }
}

/// The indexed part of `term`. Terms of queries are truncated in the same way, so that a query for a long term finds
/// its pages.
pub(crate) fn truncate_term(term: &[u8]) -> &[u8] {
    if term.len() <= MAX_TERM_BYTES {
        return term;
    }
    let is_border = |at: &usize| term[*at] & 0xc0 != 0x80;
    let end = (MAX_TERM_BYTES - 3..=MAX_TERM_BYTES).rev().find(is_border).unwrap_or(MAX_TERM_BYTES);
    &term[..end]
}

#[cfg(test)]
mod tests;
