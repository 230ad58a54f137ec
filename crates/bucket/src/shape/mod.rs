//! Shaped slabs: the texts of a slab taken apart into the columns of `quarry_event::shape`.
//!
//! [`ShapedSlab`] is what lies between the two halves: the shaper (`shaper`, `tokens`, `trial`, `builder`) makes one
//! of the texts, the writer (`crate::columns`) stores it. Whatever the shaper cannot put into a template becomes a
//! plain text, one event at a time, so that every text has a place.

use quarry_event::shape::{NumberFormat, Template, ValueTraits};

/// The texts of one slab as columns, in memory.
#[derive(Debug, Default)]
pub(crate) struct ShapedSlab {
    /// Column 0 is the whole text (always templates); every other column comes after its parent.
    pub(crate) columns: Vec<ShapedColumn>,
}

/// One column with all its values.
#[derive(Debug)]
pub(crate) struct ShapedColumn {
    /// The template column whose templates name this one; `None` for column 0.
    pub(crate) parent: Option<u32>,
    pub(crate) values: SlabValues,
    pub(crate) traits: ValueTraits,
    /// Values before each page of the slab and, last, all: one entry more than there are pages.
    pub(crate) page_starts: Vec<u32>,
}

/// All values of a column, in order of events.
#[derive(Debug)]
pub(crate) enum SlabValues {
    /// Number of the template of each value. No template goes unused.
    Templates { templates: Vec<Template>, codes: Vec<u32> },
    /// Number of each value's text among `ends` texts that ascend by bytes and are all used.
    Dictionary { bytes: Vec<u8>, ends: Vec<u32>, codes: Vec<u32> },
    /// Numbers, all of which `format` writes as the value was.
    Numbers { format: NumberFormat, numbers: Vec<i64> },
    /// Texts back to back.
    Texts { bytes: Vec<u8>, ends: Vec<u32> },
}
