//! Where the value of a field lies in the texts of one template: told once per template, read off columns per event.
//!
//! Not here: how it is found ([`super::fields`], [`super::json`], [`super::extracts`]) and read ([`super::columns`]).

use quarry_event::shape::TemplatePart;

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
    /// Only the text tells.
    Text,
}
