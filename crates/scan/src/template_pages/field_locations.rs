//! Locations of the values of one field in the texts of a slab: a location for each key (an extraction class and a
//! template, [`super::slab`]), the columns that contain the values, and the rows whose text must be read.
//!
//! Not here: finding a location (`fields`), and reading the values there (`columns`).

use quarry_event::ValueColumns;

use super::derived_fields::DerivedField;
use super::key_end::KeyEnd;
use super::value_location::ValueLocation;

/// Locations of a field in the texts of a slab.
pub(super) struct FieldLocations {
    /// Location of the field for each key.
    pub locations: Vec<ValueLocation>,
    /// The one column that contains all values of the field, if there is one.
    pub column: Option<u32>,
    /// Whether the text must be read for some template, at least in some rows, or some template has several values.
    pub by_text: bool,
    /// Columns of which several may have a value in one row; the text of such rows must be read.
    pub repeatable_columns: Vec<u32>,
    /// By key: columns whose values may contain the field's name as the key of a `key=value` pair. The text of rows
    /// with such a value must be read; in all other rows the location is right. Empty if there are no such columns.
    pub ambiguous_columns: Vec<Box<[u32]>>,
    /// The bytes that a value must contain to have a pair with the field's name.
    pub key_end: KeyEnd,
    /// By key: whether a pattern may produce the field at a position that depends on values; the location then applies
    /// if the pattern finds nothing. Empty if no pattern may do so.
    pub patterned: Vec<bool>,
    /// All columns that contain values of the field, if known.
    pub columns: Option<ValueColumns>,
    /// Derivation of the field, for [`ValueLocation::Derived`].
    pub derived: Option<DerivedField>,
}

impl FieldLocations {
    /// The locations of an index-time field that has a column: in the column, or nowhere if `column` is `None`.
    pub(super) fn of_index_time(column: Option<u32>, keys: usize, name: &str) -> FieldLocations {
        let location = column.map_or(ValueLocation::Absent, ValueLocation::Variable);
        FieldLocations {
            locations: vec![location; keys],
            column,
            by_text: false,
            repeatable_columns: Vec::new(),
            ambiguous_columns: Vec::new(),
            key_end: KeyEnd::of(name),
            patterned: Vec::new(),
            columns: Some(ValueColumns { columns: column.into_iter().collect(), literals: false }),
            derived: None,
        }
    }

    /// The locations of a field that has the index-time values in `column`, which precede all others; `is_total` if all
    /// events have one. `None` if other events may have the field at a location in the text.
    pub(super) fn with_index_time(&self, column: u32, is_total: bool, name: &str) -> Option<FieldLocations> {
        let own = FieldLocations::of_index_time(Some(column), self.locations.len(), name);
        let is_absent = self.patterned.is_empty() && self.locations.iter().all(|place| *place == ValueLocation::Absent);
        match is_total || (is_absent && self.ambiguous_columns.is_empty()) {
            true => Some(own),
            // The text of some rows must be read, as without the column.
            false if is_absent => Some(FieldLocations {
                by_text: self.by_text,
                ambiguous_columns: self.ambiguous_columns.clone(),
                columns: None,
                ..own
            }),
            false => None,
        }
    }

    /// Approximate bytes held.
    pub(super) fn bytes(&self) -> usize {
        let doubts: usize =
            self.ambiguous_columns.iter().map(|columns| size_of::<Box<[u32]>>() + columns.len() * 4).sum();
        size_of::<FieldLocations>() + self.locations.len() * size_of::<ValueLocation>() + doubts
    }

    /// Whether locations are known for exactly this number of keys.
    pub(super) fn has_keys(&self, keys: usize) -> bool {
        let may_have = |known: usize| known == 0 || known == keys;
        self.locations.len() == keys && may_have(self.ambiguous_columns.len()) && may_have(self.patterned.len())
    }

    /// Whether no event has the field.
    pub(super) fn is_always_absent(&self) -> bool {
        self.patterned.is_empty()
            && self.ambiguous_columns.is_empty()
            && self.locations.iter().all(|place| *place == ValueLocation::Absent)
    }

    /// Whether a pattern may produce the field in events of this key at a position that depends on values.
    #[inline]
    pub(super) fn is_patterned(&self, key: u32) -> bool {
        self.patterned.get(key as usize) == Some(&true)
    }

    /// Whether values may contain the field's name as a key in events of this key.
    #[inline]
    pub(super) fn is_ambiguous(&self, key: u32) -> bool {
        self.ambiguous_columns.get(key as usize).is_some_and(|columns| !columns.is_empty())
    }

    /// Whether events of this key have the field only through a pattern or in their text.
    #[inline]
    pub(super) fn is_text_or_pattern(&self, key: u32) -> bool {
        self.is_patterned(key) && self.locations.get(key as usize) == Some(&ValueLocation::Text)
    }
}
