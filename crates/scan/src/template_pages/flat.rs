//! A template with what the planners of patterns need to know of its variables, made when the first of them asks.
//!
//! Not here: planning ([`super::extracts`], [`super::reports`], [`super::rex`]).

use std::cell::OnceCell;

use quarry_eval::pattern::template_match::FlatTemplate;
use quarry_event::shape::{Shapes, Template};

/// A template that several planners look at one after the other.
pub(super) struct AskedTemplate<'a> {
    pub shapes: &'a Shapes,
    pub template: &'a Template,
    flat: OnceCell<Option<FlatTemplate>>,
}

impl<'a> AskedTemplate<'a> {
    pub(super) fn new(shapes: &'a Shapes, template: &'a Template) -> AskedTemplate<'a> {
        AskedTemplate { shapes, template, flat: OnceCell::new() }
    }

    /// `None` if a variable is no column.
    pub(super) fn flat(&self) -> Option<&FlatTemplate> {
        self.flat.get_or_init(|| FlatTemplate::of(self.shapes, self.template)).as_ref()
    }
}
