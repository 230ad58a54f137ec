//! What a search asks of a lexicon, and the answer's shape.
//!
//! A lexicon stores *pieces*: what lies between any two breakers, major or minor, lower-cased (see
//! [`crate::segment`]). Whole major segments are not stored: `TERM(a.b.c)` is the AND of its pieces, verified on the
//! text afterwards. So a lexicon answer is always a superset of the truth, at page grain; the engine re-verifies.

/// Condition on the pieces of an event. Conservative: a page the query keeps may hold no match, a page it drops
/// holds none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermQuery {
    /// Every page.
    All,
    /// No page.
    None,
    /// Pages holding this lower-cased piece.
    Piece(Box<str>),
    /// Pages holding a piece that starts with this lower-cased text.
    Prefix(Box<str>),
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

    /// Whether page `page` is in the set.
    pub fn contains(self, page: usize) -> bool {
        page < 64 && self.0 >> page & 1 == 1
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}
