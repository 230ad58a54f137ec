//! The plan of a field test for one slab: plain data, cached with the slab, that [`super::planning`] creates and
//! [`super::field_test`] runs. A *key* is an extraction class and a template.

/// Evaluation of a field test in one slab.
pub(in crate::template_pages) struct FieldPlan {
    /// Answer by key, for templates whose answer depends on no variable.
    pub(super) base: Vec<u8>,
    pub(super) columns: Vec<(u32, ColumnPlan)>,
    /// By key: whether the field's values are made from columns: composed of parts, unescaped, derived, or several per
    /// event. Empty if this occurs nowhere.
    pub(super) composite: Vec<bool>,
    /// Whether the location of the field depends on more than the key ([`crate::template_pages::key_splits`]).
    pub(super) divided: bool,
    /// Whether the field is computed for some events.
    pub(super) computed: bool,
    /// Whether values of other columns may contain the field's name as a key; the text of such rows must be read.
    pub(super) ambiguous: bool,
    /// Whether the test depends on a single column only.
    pub(super) alone: bool,
}

/// Evaluation of a field test on a column.
pub(super) enum ColumnPlan {
    Same(u8),
    Codes(Vec<u8>),
    /// Numbers compared with one number: the answer if equal, and the answer otherwise.
    Equal(i64, u8, u8),
    Integers,
    Decimals(f64),
    Texts,
}
