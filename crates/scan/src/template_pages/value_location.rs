//! Where the value of a field lies in the texts of one template: told once per template, read off columns per event.
//!
//! Not here: how it is found ([`super::fields`], [`super::json`], [`super::extracts`]) and read ([`super::columns`]).

use quarry_event::template::TemplatePart;

/// Where the value of a field lies in the texts of one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueLocation {
    /// Nowhere.
    Absent,
    /// In the literals.
    Constant(Box<str>),
    /// It is the value of this column.
    Variable(u32),
    /// Literals and variables in this order.
    Composite(Box<[TemplatePart]>),
    /// The same, written with the escapes of JSON.
    Escaped(Box<[TemplatePart]>),
    /// Below variables that may be empty.
    Nested(Nested),
    /// A pattern makes it of the value of another field, whose place is told ([`super::derived`]).
    Derived,
    /// Only the text tells.
    Text,
}

/// The value of whichever of some columns has one, each below a variable that may be empty; absent where none has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nested {
    pub values: Box<[NestedValue]>,
    /// Whether several of them may have a value in a row, where only the text tells.
    pub may_repeat: bool,
}

/// A column of [`Nested`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NestedValue {
    pub column: u32,
    /// Whether its values are written with the escapes of JSON.
    pub is_escaped: bool,
}

impl Nested {
    pub(super) fn has_escapes(&self) -> bool {
        self.values.iter().any(|value| value.is_escaped)
    }
}

impl ValueLocation {
    /// The value made of these parts, of which no two literals are neighbours.
    pub(super) fn of_parts(parts: &[TemplatePart]) -> ValueLocation {
        let variables = || parts.iter().filter(|part| matches!(part, TemplatePart::Variable(_)));
        match parts {
            [] => ValueLocation::Constant("".into()),
            [TemplatePart::Variable(column)] => ValueLocation::Variable(*column),
            [TemplatePart::Literal(text)] => match std::str::from_utf8(text) {
                Ok(text) => ValueLocation::Constant(text.into()),
                Err(_) => ValueLocation::Text,
            },
            // A column is read once per value.
            _ if variables().enumerate().any(|(at, one)| variables().take(at).any(|known| known == one)) => {
                ValueLocation::Text
            }
            parts => ValueLocation::Composite(parts.into()),
        }
    }

    /// Whether the values of this column, as they are written, are the field's.
    pub(super) fn is_value_of(&self, column: u32) -> bool {
        match self {
            ValueLocation::Variable(known) => *known == column,
            ValueLocation::Nested(nested) => {
                nested.values.iter().any(|value| value.column == column && !value.is_escaped)
            }
            _ => false,
        }
    }

    /// The one column whose values are the field's, if that is all there is.
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

    /// Where it is if it may be at either place; two places at once are told apart by row.
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
