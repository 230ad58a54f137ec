//! Location of a field's value in the texts of a template, determined once per template; the value is then read from
//! columns for each event.
//!
//! Not here: determining the location ([`super::fields`], [`super::json`], [`super::extracts`]) and reading the value
//! ([`super::columns`]).

use std::borrow::Cow;

use quarry_eval::EngineError;
use quarry_eval::functions::xml::{attribute_value, content_value};
use quarry_event::template::{TemplatePart, TextSlice};
use quarry_pipeline::extract::json_string;

use super::inner_pairs::InnerPair;
use crate::fields::cells::cell_value;

/// Location of a field's value in the texts of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueLocation {
    /// The template has no value.
    Absent,
    /// A constant, taken from the literals.
    Constant(Box<str>),
    /// The values of this column.
    Variable(u32),
    /// A sequence of literals and variables.
    Composite(Box<[TemplatePart]>),
    /// Parts whose text contains JSON escapes.
    Escaped(Box<[TemplatePart]>),
    /// Parts as written, from which the value is computed.
    Written(WrittenParts),
    /// In a column of a variable's own templates, or in one of several such columns; the field is absent in rows
    /// without a value there.
    Nested(Nested),
    /// A `key=value` pair in pieces of the text.
    Pair(InnerPair),
    /// Several values, each a [`ValueLocation::Variable`], `Constant`, `Composite`, `Escaped`, or a `Written` value
    /// that every row has.
    List(Box<[ValueLocation]>),
    /// A pattern extracts the value from another field, whose location is known ([`super::derived_fields`]).
    Derived,
    /// The location depends on the text of each event.
    Text,
}

/// A value computed from a part of the event text, such as the text between two delimiters or tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenParts {
    /// The text as written, including any prefix, blanks, quotes or entities.
    pub parts: Box<[TemplatePart]>,
    pub decoding: Decoding,
}

/// Computation of a value from the text as written. `keeps_empty`: whether an empty value is a value; otherwise the
/// field is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Decoding {
    /// A cell of a delimited text: blanks and quotes around it are removed.
    Cell { keeps_empty: bool },
    /// The content of an XML element: entities are resolved, and blanks around it are removed.
    XmlContent { keeps_empty: bool },
    /// The value of an XML attribute: entities are resolved.
    XmlAttribute { keeps_empty: bool },
    /// A slice of the text, such as the text after the common prefix of a column's values.
    Slice(TextSlice),
}

impl Decoding {
    pub(super) fn keeps_empty(self) -> bool {
        match self {
            Decoding::Slice(_) => true,
            Decoding::Cell { keeps_empty }
            | Decoding::XmlContent { keeps_empty }
            | Decoding::XmlAttribute { keeps_empty } => keeps_empty,
        }
    }

    /// The value of a text as written, if the text has a value.
    pub(super) fn value(self, written: &str) -> Option<Cow<'_, str>> {
        let value = match self {
            Decoding::Cell { .. } => cell_value(written),
            Decoding::XmlContent { .. } => content_value(written),
            Decoding::XmlAttribute { .. } => attribute_value(written),
            Decoding::Slice(slice) => Cow::Borrowed(std::str::from_utf8(slice.of(written.as_bytes())?).ok()?),
        };
        Some(value).filter(|value| self.keeps_empty() || !value.is_empty())
    }
}

impl WrittenParts {
    /// The value of a text composed of the parts, if the text has a value.
    pub(super) fn value<'t>(&self, written: &'t str) -> Option<Cow<'t, str>> {
        self.decoding.value(written)
    }
}

/// A value in one of several columns, each of which belongs to the templates of a variable that may be empty; absent in
/// rows where none of the columns has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nested {
    pub values: Box<[NestedValue]>,
    /// Whether several of the columns may have a value in one row; the text of such rows must be read.
    pub may_repeat: bool,
}

/// A column of [`Nested`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NestedValue {
    pub column: u32,
    /// Whether the column's values contain JSON escapes.
    pub is_escaped: bool,
}

impl Nested {
    pub(super) fn has_escapes(&self) -> bool {
        self.values.iter().any(|value| value.is_escaped)
    }
}

impl ValueLocation {
    /// The value composed of these parts, in which no two literals are adjacent.
    pub(super) fn of_parts(parts: &[TemplatePart]) -> ValueLocation {
        let variables = || parts.iter().filter(|part| matches!(part, TemplatePart::Variable(_)));
        match parts {
            [] => ValueLocation::Constant("".into()),
            [TemplatePart::Variable(column)] => ValueLocation::Variable(*column),
            [TemplatePart::Literal(text)] => match std::str::from_utf8(text) {
                Ok(text) => ValueLocation::Constant(text.into()),
                Err(_) => ValueLocation::Text,
            },
            // A composite location reads each column once per value, so a column must not occur twice.
            _ if variables().enumerate().any(|(at, one)| variables().take(at).any(|known| known == one)) => {
                ValueLocation::Text
            }
            parts => ValueLocation::Composite(parts.into()),
        }
    }

    /// The location of this value and of a further value of the same field after it.
    pub(super) fn followed_by(self, next: ValueLocation) -> ValueLocation {
        let is_single = |place: &ValueLocation| match place {
            ValueLocation::Variable(_)
            | ValueLocation::Constant(_)
            | ValueLocation::Composite(_)
            | ValueLocation::Escaped(_) => true,
            ValueLocation::Written(written) => written.decoding.keeps_empty(),
            _ => false,
        };
        match self {
            ValueLocation::Absent => next,
            ValueLocation::List(values) if is_single(&next) => {
                ValueLocation::List(values.into_iter().chain([next]).collect())
            }
            first if is_single(&first) && is_single(&next) => ValueLocation::List([first, next].into()),
            _ => ValueLocation::Text,
        }
    }

    /// Whether the field has a value at this location only in some rows; in other rows, it may be at another location.
    pub(super) fn may_be_empty(&self) -> bool {
        match self {
            ValueLocation::Written(written) => !written.decoding.keeps_empty(),
            ValueLocation::Nested(_) => true,
            _ => false,
        }
    }

    /// The variable that contains all values here, with JSON escapes.
    pub(super) fn escaped_variable(&self) -> Option<NestedValue> {
        match self {
            ValueLocation::Escaped(parts) => match **parts {
                [TemplatePart::Variable(column)] => Some(NestedValue { column, is_escaped: true }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether each value of a column, as written or without its escapes, is a value of the field.
    pub(super) fn has_value_in(&self, value: NestedValue) -> bool {
        match self {
            ValueLocation::Variable(column) => NestedValue { column: *column, is_escaped: false } == value,
            ValueLocation::Nested(nested) => nested.values.contains(&value),
            place => place.escaped_variable() == Some(value),
        }
    }

    /// Whether the values of this column, as written, are values of the field.
    pub(super) fn is_value_of(&self, column: u32) -> bool {
        match self {
            ValueLocation::Variable(known) => *known == column,
            ValueLocation::Nested(nested) => {
                nested.values.iter().any(|value| value.column == column && !value.is_escaped)
            }
            _ => false,
        }
    }

    /// The column that contains all values of the field, if there is one.
    pub(super) fn column(&self) -> Option<u32> {
        match self {
            ValueLocation::Variable(column) => Some(*column),
            ValueLocation::Nested(nested) => match *nested.values {
                [NestedValue { column, is_escaped: false }] => Some(column),
                _ => None,
            },
            _ => None,
        }
    }

    /// The location of a value that may be at either of two locations. If both are nested, only rows with a value at
    /// both are read as text; otherwise (unless one location is absent) all rows are.
    pub(super) fn or(self, other: ValueLocation) -> ValueLocation {
        match (self, other) {
            (ValueLocation::Absent, place) | (place, ValueLocation::Absent) => place,
            (ValueLocation::Nested(one), ValueLocation::Nested(other)) => {
                let values = one.values.iter().chain(&other.values).copied().collect();
                ValueLocation::Nested(Nested { values, may_repeat: true })
            }
            _ => ValueLocation::Text,
        }
    }
}

/// Appends the text of a JSON scalar. `written` is a bare scalar, a string with its quotes, or only the content of a
/// string; escapes are resolved. A string with its quotes cannot be confused with the content of a string, because a
/// quote inside a string is escaped.
pub(super) fn append_unescaped(written: &[u8], out: &mut Vec<u8>) -> Result<(), EngineError> {
    let inside = match written {
        [b'"', inside @ .., b'"'] => inside,
        written => written,
    };
    let text = std::str::from_utf8(inside).ok().and_then(json_string);
    let cut_off = || EngineError::invalid("a string of JSON in a bucket is cut off; rebuild the bucket");
    out.extend_from_slice(text.ok_or_else(cut_off)?.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_their_escapes_are_told_from_values_as_written() {
        let (written, unescaped) = (false, true);
        let value = |is_escaped| NestedValue { column: 3, is_escaped };
        let nested =
            |is_escaped| ValueLocation::Nested(Nested { values: [value(is_escaped)].into(), may_repeat: false });
        for (place, has_written, has_unescaped) in [
            (ValueLocation::Variable(3), true, false),
            (ValueLocation::Escaped([TemplatePart::Variable(3)].into()), false, true),
            (nested(written), true, false),
            (nested(unescaped), false, true),
            (ValueLocation::Variable(4), false, false),
        ] {
            assert_eq!(place.has_value_in(value(written)), has_written, "{place:?}");
            assert_eq!(place.has_value_in(value(unescaped)), has_unescaped, "{place:?}");
        }
    }
}
