//! The plan of a field test for one slab, which the slab keeps. Plain data: [`super::planning`] makes it,
//! [`super::field_test`] runs it.

/// Evaluation of a field test in one slab.
pub(in crate::template_pages) struct FieldPlan {
    /// Answer by key, for templates in which no variable decides.
    pub(super) base: Vec<u8>,
    pub(super) columns: Vec<(u32, ColumnPlan)>,
    /// By key: whether the field is composed of several parts; empty if that is never so.
    pub(super) composite: Vec<bool>,
    /// Whether the field is computed for some events.
    pub(super) computed: bool,
    /// Whether a single column decides the test.
    pub(super) alone: bool,
}

/// Evaluation of a field test on a column.
pub(super) enum ColumnPlan {
    Same(u8),
    Codes(Vec<u8>),
    /// Compared with one number: the answer if equal, and the answer otherwise.
    Equal(i64, u8, u8),
    Integers,
    Decimals(f64),
    Texts,
}
