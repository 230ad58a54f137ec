//! Paths of JSON and XML texts (`spath`, `json_extract`) as parts of a template; the text is the event or the value of
//! a field.
//!
//! The location of a field in a template is a sequence of literals and variables, and thus a template of its own, in
//! which a path is located as in the template of an event ([`super::json`], [`super::xml`]). If the location of a path
//! depends on the values, the path is evaluated on the values of the field, or on the event if the text is the event.
//!
//! Not here: the values ([`super::path_columns`]), and evaluation on texts ([`crate::spath`]).

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::functions::xml::is_xml;
use quarry_event::template::{Template, TemplatePart, TemplateSet};

use super::field_locations::FieldLocations;
use super::json::JsonColumns;
use super::slab::located_path;
use super::value_location::ValueLocation;
use super::xml::XmlColumns;
use crate::spath::{PathKind, PushedPath};

/// Locations of the paths of one text, in the order of the paths; `None` if the text is a field that is not read from
/// columns alone.
pub(super) type LocatedPaths = Option<Vec<Arc<FieldLocations>>>;

/// The texts in which paths are located, by key.
pub(super) enum PathRoots<'a> {
    /// The events of this many extraction classes.
    Events { classes: usize },
    /// The values of a field.
    Field(&'a FieldLocations),
}

/// The location of a path in the texts of a slab.
pub(super) fn locate_path(
    template_set: &TemplateSet,
    templates: &[Template],
    roots: &PathRoots<'_>,
    path: &PushedPath,
    (json, xml): (&JsonColumns<'_>, &XmlColumns<'_>),
) -> FieldLocations {
    let in_template = |template: &Template| match (&path.kind, is_xml_template(template)) {
        (PathKind::Values(path), Some(true)) => {
            path.xml.as_ref().map_or(ValueLocation::Absent, |path| xml.path_location(template, path))
        }
        (PathKind::Values(path), is_xml) => match (&path.json, is_xml) {
            (Some(path), _) => json.path_location(template, path),
            (None, Some(_)) => ValueLocation::Absent,
            (None, None) => ValueLocation::Text,
        },
        (PathKind::Scalars(name), Some(true)) => xml.scalar_location(template, name),
        (PathKind::Scalars(name), _) => json.scalar_locations(template, name),
        (PathKind::Document { path, keys }, _) => json.document_location(template, path, keys),
    };
    let places: Vec<ValueLocation> = match roots {
        PathRoots::Events { classes } => {
            let of_class: Vec<ValueLocation> = templates.iter().map(in_template).collect();
            std::iter::repeat_n(of_class, *classes).flatten().collect()
        }
        PathRoots::Field(field) => {
            let mut known: HashMap<Template, ValueLocation, FixedState> = HashMap::default();
            let of_field = field.locations.iter().map(|place| match value_template(place, template_set) {
                Some(template) if template.parts.is_empty() => ValueLocation::Absent,
                Some(template) => match known.get(&template) {
                    Some(place) => place.clone(),
                    None => {
                        let place = single_location(in_template(&template));
                        known.insert(template, place.clone());
                        place
                    }
                },
                None => ValueLocation::Text,
            });
            of_field.collect()
        }
    };
    let split = match roots {
        PathRoots::Events { .. } => None,
        PathRoots::Field(field) => field.split.clone(),
    };
    located_path(template_set, templates, places, split, &path.output)
}

/// Whether the texts of a template are read as XML; `None` if that depends on values.
fn is_xml_template(template: &Template) -> Option<bool> {
    let Some(TemplatePart::Literal(first)) = template.parts.first() else { return None };
    let first = std::str::from_utf8(first).ok()?;
    (!first.trim_start().is_empty()).then(|| is_xml(first))
}

/// The values of a field at this location as a template, without parts if the field has no values; `None` if they are
/// not a sequence of literals and variables.
fn value_template(place: &ValueLocation, template_set: &TemplateSet) -> Option<Template> {
    let parts = match place {
        ValueLocation::Absent => Vec::new(),
        ValueLocation::Constant(text) => vec![TemplatePart::Literal(text.as_bytes().into())],
        // Events without the index-time field have no value.
        ValueLocation::Variable(column) if template_set.is_partial_field_column(*column) => return None,
        ValueLocation::Variable(column) => vec![TemplatePart::Variable(*column)],
        ValueLocation::Composite(parts) => parts.to_vec(),
        _ => return None,
    };
    Some(Template { parts })
}

/// The location if it has at most one value in each row; otherwise the text of the field is read, because it is short.
fn single_location(place: ValueLocation) -> ValueLocation {
    match place {
        ValueLocation::Nested(nested) if nested.may_repeat => ValueLocation::Text,
        place => place,
    }
}
