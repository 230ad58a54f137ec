//! Locations of the values of one field in the texts of a slab: a location for each key (an extraction class and a
//! template, [`super::slab`]), the columns that contain the values, and the rows whose text must be read.
//!
//! Not here: finding a location (`fields`), and reading the values there (`columns`).

use std::sync::Arc;

use quarry_event::ValueColumns;
use quarry_event::template::{
    ColumnKind, SEPARATOR_BYTE, StoredValues, TEXT_COLUMN, Template, TemplatePart, TemplateSet, TextSlice, ValueParts,
};

use super::ambiguous_columns::AmbiguousColumn;
use super::derived_fields::Derivation;
use super::key_end::KeyEnd;
use super::key_splits::{KeySplit, has_values};
use super::value_location::{Decoding, Nested, NestedValue, ValueLocation, WrittenParts};

/// Maximum number of columns of an inner value that are read one after another instead of by the value's template.
const NESTED_COLUMNS_MAX: usize = 4;

/// Location of a field for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyLocation {
    pub place: ValueLocation,
    /// See [`FieldLocations::patterned`].
    pub is_patterned: bool,
    /// See [`FieldLocations::ambiguous_columns`].
    pub ambiguous_columns: Box<[AmbiguousColumn]>,
}

impl KeyLocation {
    /// The location that applies to all parts into which a key is divided, if there is one; each part is given with its
    /// variables.
    pub(super) fn united(parts: &[(&KeyLocation, &[u32])], template_set: &TemplateSet) -> Option<KeyLocation> {
        let ((first, _), rest) = parts.split_first()?;
        if rest.iter().all(|(other, _)| other == first) {
            return Some((*first).clone());
        }
        // A column has a value in exactly those rows whose inner template contains it.
        let mut values: Vec<NestedValue> = Vec::new();
        for (part, _) in parts {
            let found: &[NestedValue] = match &part.place {
                _ if part.is_patterned || !part.ambiguous_columns.is_empty() => return None,
                ValueLocation::Absent => &[],
                ValueLocation::Variable(column) => &[NestedValue { column: *column, is_escaped: false }],
                ValueLocation::Nested(nested) if !nested.may_repeat => &nested.values,
                _ => return None,
            };
            values.extend(found.iter().filter(|value| !values.contains(value)).copied().collect::<Vec<_>>());
        }
        let is_own = |(part, variables): &(&KeyLocation, &[u32])| {
            let mut others = values.iter().filter(|value| !part.place.is_value_of(value.column));
            !others.any(|value| has_values(variables, value.column, template_set))
        };
        let is_nested = values.len() <= NESTED_COLUMNS_MAX && parts.iter().all(is_own);
        is_nested.then(|| KeyLocation {
            place: ValueLocation::Nested(Nested { values: values.into(), may_repeat: false }),
            is_patterned: false,
            ambiguous_columns: Box::default(),
        })
    }
}

/// Locations of a field in the texts of a slab.
pub(super) struct FieldLocations {
    /// Location of the field for each key, or for each key of `split`.
    pub locations: Vec<ValueLocation>,
    /// The division of the keys, if the location depends on the codes of inner columns. Everything known by key then
    /// refers to the divided keys ([`super::divided_keys::keys_of`]).
    pub split: Option<Arc<KeySplit>>,
    /// The one column that contains all values of the field, if there is one.
    pub column: Option<u32>,
    /// Whether the slab has a template whose text must be read in some rows, or in which the field has several values.
    pub by_text: bool,
    /// Columns of which several may have a value in one row; the text of such rows must be read.
    pub repeatable_columns: Vec<u32>,
    /// By key: columns with values that make the location uncertain in their rows, whose text must therefore be read.
    /// Empty if there are no such columns.
    pub ambiguous_columns: Vec<Box<[AmbiguousColumn]>>,
    /// The bytes that a value must contain to have a pair with the field's name.
    pub key_end: KeyEnd,
    /// By key: whether a pattern may produce the field at a position that depends on values; the location then applies
    /// if the pattern finds nothing. Empty if no pattern may do so.
    pub patterned: Vec<bool>,
    /// All columns that contain values of the field, if known.
    pub columns: Option<ValueColumns>,
    /// Derivation of the field, for [`ValueLocation::Derived`].
    pub derived: Option<Derivation>,
}

impl FieldLocations {
    /// The locations of an index-time field that has a column: in the column, or nowhere if `column` is `None`.
    pub(super) fn of_index_time(column: Option<u32>, keys: usize, name: &str) -> FieldLocations {
        let location = column.map_or(ValueLocation::Absent, ValueLocation::Variable);
        FieldLocations {
            locations: vec![location; keys],
            split: None,
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

    /// The locations of a search-time field whose values are stored. Words of a value are looked up in the texts,
    /// because the terms of a slab do not cover stored values.
    pub(super) fn of_stored(values: &StoredValues, keys: usize, name: &str) -> FieldLocations {
        let own = FieldLocations { columns: None, ..FieldLocations::of_index_time(values.own_column(), keys, name) };
        if let StoredValues::Lists(column) = values {
            let locations = vec![ValueLocation::Derived; keys];
            let derived = Some(Derivation::Lists { column: *column });
            return FieldLocations { locations, column: None, by_text: true, derived, ..own };
        }
        let StoredValues::Parts(stored) = values else { return own };
        let location = |value: &Option<ValueParts>| match value {
            None => ValueLocation::Absent,
            Some(value) if stored.is_list => location_of_values(&value.parts),
            Some(ValueParts { parts, slice: TextSlice::Whole }) => ValueLocation::of_parts(parts),
            Some(ValueParts { parts, slice }) => {
                ValueLocation::Written(WrittenParts { parts: parts.clone(), decoding: Decoding::Slice(*slice) })
            }
        };
        let locations: Vec<ValueLocation> = stored.parts.iter().map(location).collect();
        assert!(!locations.contains(&ValueLocation::Text), "no column occurs twice in a value, and literals are UTF-8");
        let own = FieldLocations { by_text: stored.is_list, column: None, ..own };
        if stored.codes == TEXT_COLUMN {
            // The templates of each class follow one another.
            let locations: Vec<ValueLocation> = locations.iter().cycle().take(keys).cloned().collect();
            return FieldLocations { locations, ..own };
        }
        let split = Arc::new(KeySplit::by_code(stored.codes, locations.len()));
        FieldLocations { locations, split: Some(split), ..own }
    }

    /// The locations of a field whose index-time values are in `column` and precede all its other values. With
    /// `is_total`, all events have such a value. `None` if other events may have the field at a location in the text.
    pub(super) fn with_index_time(
        &self,
        column: u32,
        is_total: bool,
        keys: usize,
        name: &str,
    ) -> Option<FieldLocations> {
        let own = FieldLocations::of_index_time(Some(column), keys, name);
        let is_absent = self.patterned.is_empty() && self.locations.iter().all(|place| *place == ValueLocation::Absent);
        match is_total || (is_absent && self.ambiguous_columns.is_empty()) {
            true => Some(own),
            // With divided keys, rows of one key of the slab may differ in whether their text must be read.
            false if self.split.is_some() => None,
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
            self.ambiguous_columns.iter().map(|columns| size_of_val(columns) + size_of_val(&**columns)).sum();
        let split = self.split.as_ref().map_or(0, |split| split.bytes());
        size_of::<FieldLocations>() + self.locations.len() * size_of::<ValueLocation>() + doubts + split
    }

    /// Whether locations are known for exactly this number of keys.
    pub(super) fn has_keys(&self, keys: usize) -> bool {
        let keys = self.split.as_ref().map_or(keys, |split| split.len());
        let may_have = |known: usize| known == 0 || known == keys;
        self.locations.len() == keys && may_have(self.ambiguous_columns.len()) && may_have(self.patterned.len())
    }

    /// The key of the slab to which one of the field's keys belongs.
    #[inline]
    pub(super) fn slab_key(&self, key: usize) -> usize {
        self.split.as_ref().map_or(key, |split| split.undivided(key))
    }

    /// The column from whose values all values of the field are computed in the same way, and the computation; `None` if
    /// there is no such column, or if the column has values in rows that lack the field.
    pub(super) fn written_column(&self, template_set: &TemplateSet) -> Option<(u32, Decoding)> {
        let Some(ColumnKind::Templates(templates)) = template_set.columns.first().map(|column| &column.kind) else {
            return None;
        };
        let column_of = |place: &ValueLocation| match place {
            ValueLocation::Written(WrittenParts { parts, decoding }) => match **parts {
                [TemplatePart::Variable(column)] => Some((column, *decoding)),
                _ => None,
            },
            _ => None,
        };
        let found = self.locations.iter().find_map(column_of)?;
        // Rows without a code have no key and no value, so the column must be a part of the column with the codes.
        let codes = self.split.as_ref().and_then(|split| split.code_column());
        let is_located = self.ambiguous_columns.is_empty()
            && self.repeatable_columns.is_empty()
            && codes.is_none_or(|codes| has_values(&[codes], found.0, template_set));
        let may_have = self.column_presence(template_set, templates, found.0);
        let agrees = |(key, place): (usize, &ValueLocation)| match place {
            ValueLocation::Absent => !may_have(key),
            place => column_of(place) == Some(found),
        };
        (is_located && self.locations.iter().enumerate().all(agrees)).then_some(found)
    }

    /// Tells for each of the field's keys whether a column may have values in its rows.
    pub(super) fn column_presence<'a>(
        &'a self,
        template_set: &'a TemplateSet,
        templates: &'a [Template],
        column: u32,
    ) -> impl Fn(usize) -> bool + 'a {
        let top = top_level_column(template_set, column);
        move |key| match &self.split {
            Some(split) => split.has_values_of(key, column, template_set),
            None => templates[key % templates.len()].has_variable(top),
        }
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

    /// Whether the location may be wrong in some events of this key.
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

/// The location of the values that these parts are, separated by [`SEPARATOR_BYTE`].
fn location_of_values(parts: &[TemplatePart]) -> ValueLocation {
    let mut values: Vec<Vec<TemplatePart>> = vec![Vec::new()];
    for part in parts {
        let TemplatePart::Literal(literal) = part else {
            values.last_mut().into_iter().for_each(|value| value.push(part.clone()));
            continue;
        };
        for (at, piece) in literal.split(|byte| *byte == SEPARATOR_BYTE).enumerate() {
            if at > 0 {
                values.push(Vec::new());
            }
            if let Some(value) = values.last_mut().filter(|_| !piece.is_empty()) {
                value.push(TemplatePart::Literal(piece.into()));
            }
        }
    }
    let of_values = values.iter().map(|value| ValueLocation::of_parts(value));
    of_values.reduce(ValueLocation::followed_by).unwrap_or(ValueLocation::Absent)
}

/// Whether `column` can be the one column of a field that is located at `place` in some rows; `has_values` returns
/// whether the column has values in these rows.
pub(super) fn is_consistent(place: &ValueLocation, column: u32, has_values: impl FnOnce() -> bool) -> bool {
    match place {
        ValueLocation::Absent => !has_values(),
        place => place.column() == Some(column),
    }
}

/// The top-level variable that is this column or contains it.
fn top_level_column(template_set: &TemplateSet, column: u32) -> u32 {
    let mut top = column;
    while let Some(parent) = template_set.columns.get(top as usize).and_then(|column| column.parent) {
        if parent == TEXT_COLUMN {
            break;
        }
        top = parent;
    }
    top
}
