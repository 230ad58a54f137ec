//! A template in the forms that pattern planners need, computed on first use.
//!
//! Not here: planning ([`super::extracts`], [`super::reports`], [`super::rex`]).

use std::cell::OnceCell;

use quarry_eval::pattern::template_match::FlatTemplate;
use quarry_event::template::{Template, TemplateSet};

use super::prefixed_values::with_prefixes_as_literals;

/// A template that several planners examine in turn.
pub(super) struct PlannedTemplate<'a> {
    pub template_set: &'a TemplateSet,
    /// Number of the template in its column.
    pub number: usize,
    pub template: &'a Template,
    flat: OnceCell<Option<FlatTemplate>>,
    split: OnceCell<Option<FlatTemplate>>,
}

impl<'a> PlannedTemplate<'a> {
    pub(super) fn new(template_set: &'a TemplateSet, number: usize, template: &'a Template) -> PlannedTemplate<'a> {
        PlannedTemplate { template_set, number, template, flat: OnceCell::new(), split: OnceCell::new() }
    }

    /// `None` if a variable has no column.
    pub(super) fn flat(&self) -> Option<&FlatTemplate> {
        self.flat.get_or_init(|| FlatTemplate::of(self.template_set, self.template)).as_ref()
    }

    /// Like [`PlannedTemplate::flat`], with common prefixes of values as literals.
    pub(super) fn with_prefixes_as_literals(&self) -> Option<&FlatTemplate> {
        let split = || Some(with_prefixes_as_literals(self.flat()?.clone(), self.template_set));
        self.split.get_or_init(split).as_ref()
    }
}
