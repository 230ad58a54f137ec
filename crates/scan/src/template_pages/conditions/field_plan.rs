//! The plan of a field test for one slab: plain data that is cached with the slab. [`super::planning`] creates a plan,
//! [`super::field_test`] runs it. A *key* is the combination of an extraction class and a template.

use std::sync::Arc;

use crate::template_pages::coded_fields::CodedField;
use crate::template_pages::value_location::NestedValue;

/// Evaluation of a field test in one slab.
pub(in crate::template_pages) struct FieldPlan {
    /// Answer by key, as far as it depends on no variable.
    pub(super) base: Vec<u8>,
    /// Columns that contain values of the field, with their tests. One class of events may have the values with escapes,
    /// and another class the same column as written.
    pub(super) columns: Vec<(NestedValue, ColumnPlan)>,
    /// The test on the dictionary of the field, if the values of some keys consist of parts: it then decides the events
    /// of all keys for which the dictionary has a location. There are then no `columns` and no `composite` keys.
    pub(super) coded: Option<CodedTest>,
    /// By key: whether the field's values must be computed from columns before they are tested, because they consist of
    /// parts, have escapes, are derived, or are several per event. Empty if no key has such values.
    pub(super) composite: Vec<bool>,
    /// Whether the location of the field depends on more than the key ([`crate::template_pages::key_splits`]).
    pub(super) divided: bool,
    /// Whether the field is computed for some events.
    pub(super) computed: bool,
    /// Whether values of other columns may contain a pair `NAME=value` with the field's name; rows with such values are
    /// read as text.
    pub(super) ambiguous: bool,
    /// Whether the test depends on a single column.
    pub(super) alone: bool,
}

/// A field test on the slab-wide dictionary of the field.
pub(super) struct CodedTest {
    pub(super) field: Arc<CodedField>,
    /// The answer by code.
    pub(super) answers: Vec<u8>,
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
