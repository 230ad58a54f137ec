//! The columns in which tokens of a field's values are searched for.
//!
//! Not here: the search ([`quarry_event::FieldColumns`]).

use quarry_event::ValueColumns;
use quarry_event::template::{ColumnKind, Template, TemplatePart, TemplateSet};
use quarry_stdx::number::u32_of;

use super::column_codes::max_codes;
use super::extracts::COMBINATIONS_MAX;
use super::field_locations::FieldLocations;
use super::value_location::ValueLocation;

/// The columns that contain the values at these locations, including the columns nested in them.
pub(super) fn value_columns(
    template_set: &TemplateSet,
    templates: &[Template],
    field: &FieldLocations,
) -> ValueColumns {
    let mut known = vec![false; template_set.columns.len()];
    // Columns of templates where a literal is part of a value.
    let mut with_literals = known.clone();
    let mut literals = false;
    let mut reach = |parts: &[TemplatePart]| mark_columns(template_set, parts, &mut known);
    let places = field.locations.iter().enumerate().flat_map(|(at, place)| match place {
        ValueLocation::List(values) => values.iter().map(|value| (at, value)).collect(),
        place => vec![(at, place)],
    });
    for (at, place) in places {
        let is_escaped = matches!(place, ValueLocation::Nested(nested) if nested.has_escapes());
        let is_open = field.ambiguous_columns.get(at).is_some_and(|columns| !columns.is_empty());
        let template = &templates[field.slab_key(at) % templates.len()];
        literals |= is_open
            || is_escaped
            || !matches!(place, ValueLocation::Absent | ValueLocation::Variable(_) | ValueLocation::Nested(_));
        match place {
            _ if is_open => reach(&template.parts),
            ValueLocation::Absent => {}
            ValueLocation::Constant(_) => mark_columns(template_set, &template.parts, &mut with_literals),
            ValueLocation::Variable(column) => reach(&[TemplatePart::Variable(*column)]),
            ValueLocation::Composite(parts) => {
                reach(parts);
                mark_columns(template_set, &template.parts, &mut with_literals);
            }
            ValueLocation::Pair(pair) => reach(pair.parts()),
            ValueLocation::Nested(nested) if !is_escaped => {
                nested.values.iter().for_each(|value| reach(&[TemplatePart::Variable(value.column)]));
            }
            // The column stores the value in another form.
            ValueLocation::Escaped(_)
            | ValueLocation::Written(_)
            | ValueLocation::Nested(_)
            | ValueLocation::List(_)
            | ValueLocation::Derived
            | ValueLocation::Text => reach(&template.parts),
        }
    }
    // A pattern that is planned or evaluated for each code takes literals from columns. The term dictionary, which is
    // consulted for literals, has the texts of dictionaries, but no numbers.
    let may_be_source = |column: u32| {
        let is_number = matches!(template_set.columns[column as usize].kind, ColumnKind::Numbers { .. });
        is_number && (1..=COMBINATIONS_MAX).contains(&max_codes(template_set, column))
    };
    let is_one = |column: &u32| known[*column as usize] || (with_literals[*column as usize] && may_be_source(*column));
    ValueColumns { columns: (0..u32_of(known.len())).filter(is_one).collect(), literals }
}

/// Marks the columns of these parts, including the columns nested in them.
fn mark_columns(template_set: &TemplateSet, parts: &[TemplatePart], known: &mut [bool]) {
    let mut left: Vec<u32> = variables(parts).collect();
    while let Some(column) = left.pop() {
        let Some(known) = known.get_mut(column as usize).filter(|known| !**known) else { continue };
        *known = true;
        if let ColumnKind::Templates(nested) = &template_set.columns[column as usize].kind {
            left.extend(nested.iter().flat_map(Template::variables));
        }
    }
}

fn variables(parts: &[TemplatePart]) -> impl Iterator<Item = u32> + '_ {
    parts.iter().filter_map(|part| match part {
        TemplatePart::Variable(column) => Some(*column),
        TemplatePart::Literal(_) => None,
    })
}
