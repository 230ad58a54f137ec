//! Paths of JSON texts (`spath`, `json_extract`) as parts of a template; the text is the event or the value of a field.
//!
//! The location of a field in a template is a sequence of literals and variables, and thus a template of its own, in
//! which a path is located like in the template of an event ([`super::json`]). If the location of a path depends on the
//! values, the path is evaluated on the values of the field, or on the event if the text is the event.
//!
//! Not here: evaluation on texts ([`crate::spath`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::EngineError;
use quarry_eval::rows;
use quarry_event::template::{Template, TemplatePart, TemplateSet};
use quarry_stdx::number::u32_of;

use super::columns::field_column;
use super::divided_keys::keys_of;
use super::field_locations::FieldLocations;
use super::json::JsonColumns;
use super::page::{PageReader, Rows};
use super::slab::located_path;
use super::value_location::ValueLocation;
use crate::event_scan::EventScan;
use crate::spath::{PathKind, PushedPath, PushedPaths, TEXT_FIELD, with_values};

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
    json: &JsonColumns<'_>,
) -> FieldLocations {
    let in_template = |template: &Template| match &path.kind {
        PathKind::Values(path) => json.path_location(template, path),
        PathKind::Scalars(name) => json.scalar_locations(template, name),
        PathKind::Document { path, keys } => json.document_location(template, path, keys),
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

/// The values of a field at this location as a template, without parts if there are none; `None` if they are no
/// sequence of literals and variables.
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

/// The location if it has at most one value in each row; the text of a field is short enough to be read otherwise.
fn single_location(place: ValueLocation) -> ValueLocation {
    match place {
        ValueLocation::Nested(nested) if nested.may_repeat => ValueLocation::Text,
        place => place,
    }
}

impl EventScan {
    /// Adds the values at the pushed-down paths.
    pub(super) fn add_paths(
        &self,
        mut rows: RecordBatch,
        sure: &Rows,
        reader: &mut PageReader<'_>,
    ) -> Result<RecordBatch, EngineError> {
        let slab = reader.slab;
        for (of_text, located) in self.rexes.paths().iter().zip(slab.paths()) {
            let Some(located) = located else {
                rows = of_text.apply(rows)?;
                continue;
            };
            let by_value = match of_text.source == TEXT_FIELD {
                true => None,
                false => values_of_rows(of_text, located, sure, reader)?,
            };
            for (at, (path, field)) in of_text.paths.iter().zip(located).enumerate() {
                let stored = field_column(field, sure, reader)?;
                let found = match (stored, by_value.as_ref().map(|columns| &columns[at])) {
                    (Some(stored), Some(made)) => rows::coalesce(&stored, made),
                    (Some(found), None) => found,
                    (None, Some(made)) => Arc::clone(made),
                    (None, None) => continue,
                };
                rows = with_values(&rows, &path.output, found)?;
            }
        }
        Ok(rows)
    }
}

/// The paths of a field's texts, evaluated on the values of the rows in which the location of a path depends on the
/// values; `None` if there are no such rows.
fn values_of_rows(
    of_text: &PushedPaths,
    located: &[Arc<FieldLocations>],
    sure: &Rows,
    reader: &mut PageReader<'_>,
) -> Result<Option<Vec<ArrayRef>>, EngineError> {
    let is_open = |field: &Arc<FieldLocations>| field.locations.contains(&ValueLocation::Text);
    let Some(source) = reader.slab.field(&of_text.source).filter(|_| located.iter().any(is_open)) else {
        return Ok(None);
    };
    let keys = keys_of(source, reader)?;
    let is_by_value = |key: usize| {
        located.iter().any(|field| field.locations.get(key).is_none_or(|place| *place == ValueLocation::Text))
    };
    let by_key: Vec<bool> = (0..source.locations.len()).map(is_by_value).collect();
    let is_asked = |row: u32| by_key.get(keys[row as usize] as usize).copied().unwrap_or(true);
    let asked: Vec<u32> = sure.iter().filter(|row| is_asked(*row)).collect();
    let count = asked.len();
    if count == 0 {
        return Ok(None);
    }
    let Some(texts) = field_column(source, &Rows::Some(asked), reader)? else { return Ok(None) };
    let columns = of_text.columns(&texts)?;
    assert!(columns.iter().all(|column| column.len() == count), "each text has its values");
    let mut next = 0..u32_of(count);
    let places: UInt32Array = sure.iter().map(|row| if is_asked(row) { next.next() } else { None }).collect();
    columns.iter().map(|column| Ok(take(column, &places, None)?)).collect::<Result<_, EngineError>>().map(Some)
}
