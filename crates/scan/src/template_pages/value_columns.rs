//! The columns in which tokens of a field's values are searched for.
//!
//! Not here: the search ([`quarry_event::FieldColumns`]).

use std::collections::BTreeSet;
use std::ops::Bound;

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
    // The literals at the ends of values, last byte first.
    let mut ends: BTreeSet<Vec<u8>> = BTreeSet::new();
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
            ValueLocation::Constant(text) => {
                ends.insert(text.bytes().rev().collect());
                mark_columns(template_set, &template.parts, &mut with_literals);
            }
            ValueLocation::Variable(column) => reach(&[TemplatePart::Variable(*column)]),
            ValueLocation::Composite(parts) => {
                reach(parts);
                if let Some(TemplatePart::Literal(last)) = parts.last() {
                    ends.insert(last.iter().rev().copied().collect());
                }
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
    let is_one = |column: &u32| {
        known[*column as usize] || (with_literals[*column as usize] && may_be_source(template_set, *column, &ends))
    };
    ValueColumns { columns: (0..u32_of(known.len())).filter(is_one).collect(), literals }
}

/// Whether literals of values with these ends, last byte first, may come from a column without terms. A pattern takes
/// literals from columns if it is planned or evaluated for each code, or if it is planned with the common prefix of a
/// column as a literal. The term dictionary, which is consulted for literals, has the texts of dictionaries,
/// but neither numbers nor short texts.
fn may_be_source(template_set: &TemplateSet, number: u32, ends: &BTreeSet<Vec<u8>>) -> bool {
    let column = &template_set.columns[number as usize];
    match column.kind {
        ColumnKind::Numbers { .. } => (1..=COMBINATIONS_MAX).contains(&max_codes(template_set, number)),
        ColumnKind::Texts => {
            let prefix = column.traits.prefix.as_bytes();
            (1..=prefix.len()).any(|len| {
                let back: Vec<u8> = prefix[..len].iter().rev().copied().collect();
                // A value that ends at this byte of the prefix begins with or before the prefix, or within it.
                let mut later = ends.range::<[u8], _>((Bound::Included(back.as_slice()), Bound::Unbounded));
                later.next().is_some_and(|end| end.starts_with(&back))
                    || (1..len).any(|len| ends.contains(&back[..len]))
            })
        }
        ColumnKind::Dictionary { .. } | ColumnKind::Templates(_) => false,
    }
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

#[cfg(test)]
mod tests {
    use quarry_event::template::{Column, NumberFormat, ValueTraits};

    use super::*;

    fn column(kind: ColumnKind, prefix: &str) -> Column {
        let traits = ValueTraits { prefix: prefix.into(), max_len: 20, ..ValueTraits::default() };
        Column { parent: Some(0), values: 1, kind, traits }
    }

    #[test]
    fn literals_of_values_may_come_from_columns_without_terms() {
        let numbers = |max| ColumnKind::Numbers { format: NumberFormat::Integer, min: 0, max };
        let template = Template { parts: (1..6).map(TemplatePart::Variable).collect() };
        let columns = vec![
            column(ColumnKind::Templates([template.clone()].into()), ""),
            column(numbers(9), ""),
            column(numbers(100_000), ""),
            column(ColumnKind::Texts, "0x"),
            column(ColumnKind::Texts, ""),
            column(ColumnKind::Dictionary { len: 3 }, "0x"),
        ];
        let template_set = TemplateSet { columns, ..TemplateSet::default() };
        let literal = |text: &str| TemplatePart::Literal(text.as_bytes().into());
        let columns_of = |location| {
            let field = FieldLocations { locations: vec![location], ..FieldLocations::of_index_time(None, 1, "f") };
            value_columns(&template_set, std::slice::from_ref(&template), &field)
        };
        let with = |columns: &[u32], literals| ValueColumns { columns: columns.to_vec(), literals };
        assert_eq!(columns_of(ValueLocation::Absent), with(&[], false));
        assert_eq!(columns_of(ValueLocation::Variable(4)), with(&[4], false));
        assert_eq!(columns_of(ValueLocation::Constant("17".into())), with(&[1], true));
        assert_eq!(columns_of(ValueLocation::Constant("id=0".into())), with(&[1, 3], true));
        assert_eq!(columns_of(ValueLocation::Constant("x".into())), with(&[1, 3], true));
        let parts = [literal("0x"), TemplatePart::Variable(2), literal(" k")];
        assert_eq!(columns_of(ValueLocation::Composite(parts.into())), with(&[1, 2], true));
    }
}
