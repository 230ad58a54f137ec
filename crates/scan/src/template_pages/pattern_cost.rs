//! Cost of a pattern; the cheapest pattern is evaluated first.
//!
//! Not here: evaluating patterns ([`super::rex`]).

/// Cost of evaluating a pattern so far.
#[derive(Default)]
pub(super) struct PatternCost {
    /// Number of rows for which the pattern was evaluated.
    pub rows: u64,
    /// Number of times that free text was read for these rows.
    pub texts: u64,
}

impl PatternCost {
    /// Number of free texts read per thousand rows.
    pub(super) fn texts_per_thousand_rows(&self) -> u64 {
        self.texts * 1000 / self.rows.max(1)
    }
}
