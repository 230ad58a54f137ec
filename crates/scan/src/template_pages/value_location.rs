//! Location of a field's value in the texts of a template, determined once per template and read from columns per
//! event.
//!
//! Not here: how it is determined ([`super::fields`], [`super::json`], [`super::extracts`]) and read
//! ([`super::columns`]).

use quarry_event::template::TemplatePart;

use super::inner_pairs::InnerPair;

/// Location of a field's value in the texts of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueLocation {
    /// Nowhere.
    Absent,
    /// In the literals.
    Constant(Box<str>),
    /// The value of this column.
    Variable(u32),
    /// A sequence of literals and variables.
    Composite(Box<[TemplatePart]>),
    /// Parts with JSON escapes.
    Escaped(Box<[TemplatePart]>),
    /// Parts with doubled quotes, each pair of which stands for one.
    Doubled(Box<[TemplatePart]>),
    /// Below variables that may be empty.
    Nested(Nested),
    /// A pair inside the values of variables.
    Pair(InnerPair),
    /// A pattern extracts it from the value of another field, whose location is known ([`super::derived_fields`]).
    Derived,
    /// The location depends on the text of each event.
    Text,
}

/// The value of whichever of several columns has one, each below a variable that may be empty; absent if none has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nested {
    pub values: Box<[NestedValue]>,
    /// Whether several of them may have a value in a row; such rows need their text.
    pub may_repeat: bool,
}

/// A column of [`Nested`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NestedValue {
    pub column: u32,
    /// Whether its values have JSON escapes.
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
            // Each column is read once per value.
            _ if variables().enumerate().any(|(at, one)| variables().take(at).any(|known| known == one)) => {
                ValueLocation::Text
            }
            parts => ValueLocation::Composite(parts.into()),
        }
    }

    /// Whether the values of this column, as written, are the field's.
    pub(super) fn is_value_of(&self, column: u32) -> bool {
        match self {
            ValueLocation::Variable(known) => *known == column,
            ValueLocation::Nested(nested) => {
                nested.values.iter().any(|value| value.column == column && !value.is_escaped)
            }
            _ => false,
        }
    }

    /// The one column whose values are the field's, if there is nothing else.
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

    /// The location of a value that may be at either location; two at once are resolved by row.
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
