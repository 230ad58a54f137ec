//! Cost of a pattern, by which the cheapest is evaluated first.
//!
//! Not here: evaluating it ([`super::rex`]).

/// Cost of a pattern so far.
#[derive(Default)]
pub(super) struct PatternCost {
    /// Rows that it was asked for.
    pub rows: u64,
    /// Number of times that free text was read for them.
    pub texts: u64,
}

impl PatternCost {
    /// Number of free texts read for a thousand rows.
    pub(super) fn of_rows(&self) -> u64 {
        self.texts * 1000 / self.rows.max(1)
    }
}
