//! Locations of the values of one field in the texts of a slab: for each template a location, the columns that hold
//! them, and the rows that need their text.
//!
//! Not here: how a location is found (`fields`), and how it is read (`columns`).

use quarry_event::ValueColumns;

use super::derived_fields::DerivedField;
use super::key_end::KeyEnd;
use super::value_location::ValueLocation;

/// Location of a field in the texts of a slab.
pub(super) struct FieldLocations {
    /// Location of the field for each template key.
    pub places: Vec<ValueLocation>,
    /// The one column that holds all values of the field, if there is one.
    pub column: Option<u32>,
    /// Whether some template needs the text, at least for some rows.
    pub by_text: bool,
    /// Columns that may occur together in one row; such rows need their text.
    pub repeating: Vec<u32>,
    /// By key: columns whose values may contain the field's name as a key. Rows with such a value need their text; in
    /// all others the location is right. Empty if there are none.
    pub doubts: Vec<Box<[u32]>>,
    /// The bytes that such a value contains.
    pub key_end: KeyEnd,
    /// By key: whether a pattern may produce the field at a position that depends on values; the location then applies
    /// if the pattern finds nothing. Empty if there are none.
    pub patterned: Vec<bool>,
    /// All columns that hold its values, if known.
    pub columns: Option<ValueColumns>,
    /// Derivation of the field, for [`ValueLocation::Derived`].
    pub derived: Option<DerivedField>,
}

impl FieldLocations {
    /// Approximate bytes held.
    pub(super) fn bytes(&self) -> usize {
        let doubts: usize = self.doubts.iter().map(|columns| size_of::<Box<[u32]>>() + columns.len() * 4).sum();
        size_of::<FieldLocations>() + self.places.len() * size_of::<ValueLocation>() + doubts
    }

    /// Whether it is known for exactly this number of keys.
    pub(super) fn has_keys(&self, keys: usize) -> bool {
        let may_have = |known: usize| known == 0 || known == keys;
        self.places.len() == keys && may_have(self.doubts.len()) && may_have(self.patterned.len())
    }

    /// Whether no event has it.
    pub(super) fn is_nowhere(&self) -> bool {
        self.patterned.is_empty()
            && self.doubts.is_empty()
            && self.places.iter().all(|place| *place == ValueLocation::Absent)
    }

    /// Whether a pattern may produce it in events of this key at a position that depends on values.
    #[inline]
    pub(super) fn is_patterned(&self, key: u32) -> bool {
        self.patterned.get(key as usize) == Some(&true)
    }

    /// Whether values may contain its name as a key in events of this key.
    #[inline]
    pub(super) fn is_doubted(&self, key: u32) -> bool {
        self.doubts.get(key as usize).is_some_and(|columns| !columns.is_empty())
    }

    /// Whether events of this key have it only through a pattern or in their text.
    #[inline]
    pub(super) fn is_text_or_pattern(&self, key: u32) -> bool {
        self.is_patterned(key) && self.places.get(key as usize) == Some(&ValueLocation::Text)
    }
}
