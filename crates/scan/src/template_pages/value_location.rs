//! Where the value of a field lies in the texts of one template: told once per template, read off columns per event.
//!
//! Not here: how it is found ([`super::fields`], [`super::json`], [`super::extracts`]) and read ([`super::columns`]).

use quarry_event::shape::Part;

/// Where the value of a field lies in the texts of one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueLocation {
    /// Nowhere.
    Absent,
    /// In the literals.
    Constant(Box<str>),
    /// It is the value of this column.
    Slot(u32),
    /// Literals and slots in this order.
    Composite(Box<[Part]>),
    /// The same, written with the escapes of JSON.
    Escaped(Box<[Part]>),
    /// Only the text tells.
    Text,
}
