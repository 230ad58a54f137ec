//! Pairs that only some texts of a template have.
//!
//! Such a pair, with the blank before it, is the value of a variable that is empty where it is missing. As it begins
//! with a blank and what follows it begins with one, too, automatic extraction finds in the text what it finds in its
//! pieces: each form of the pair is asked as a text of its own, and the text around it with a pair of a name for
//! private use in its place.
//!
//! Not here: pairs that every text of the template has ([`super::fields`]).

use quarry_event::template::{ColumnKind, Template, TemplatePart, TemplateSet};

use super::value_location::{Nested, NestedValue, ValueLocation};

/// How keys begin that stand for a column of pairs; the column's number follows (U+E001, for private use).
const PLACEHOLDER: char = '\u{e001}';

/// The pair that stands for a column in the text of a template.
pub(super) fn placeholder(column: u32) -> String {
    format!(" {PLACEHOLDER}{column}=7")
}

/// The column that a key stands for.
pub(super) fn column_of(key: &str) -> Option<u32> {
    key.strip_prefix(PLACEHOLDER)?.parse().ok()
}

/// The forms of the pairs of a column, if it holds pairs or nothing.
pub(super) fn forms(template_set: &TemplateSet, column: u32) -> Option<impl Iterator<Item = &Template>> {
    let described = template_set.columns.get(column as usize)?;
    let ColumnKind::Templates(templates) = &described.kind else { return None };
    let is_pair = |template: &Template| match template.parts.first() {
        None => true,
        Some(TemplatePart::Literal(first)) => first.starts_with(b" ") && first.contains(&b'='),
        Some(TemplatePart::Variable(_)) => false,
    };
    (described.traits.bytes.contains(b'=') && templates.iter().all(is_pair))
        .then(|| templates.iter().filter(|template| !template.parts.is_empty()))
}

/// Where a field is by its places in the forms of a pair.
pub(super) fn place_of_forms<'f>(
    forms: impl Iterator<Item = (&'f Template, &'f ValueLocation)> + Clone,
) -> ValueLocation {
    let mut values: Vec<NestedValue> = Vec::new();
    for (_, place) in forms.clone() {
        match place {
            ValueLocation::Absent => {}
            ValueLocation::Variable(column) => {
                let value = NestedValue { column: *column, is_escaped: false };
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            _ => return ValueLocation::Text,
        }
    }
    // Wherever one of the columns has a value it has to be the field's.
    let is_field = |value: &NestedValue| {
        (forms.clone().filter(|(template, _)| template.names(value.column)))
            .all(|(_, place)| *place == ValueLocation::Variable(value.column))
    };
    match values.is_empty() {
        true => ValueLocation::Absent,
        false if values.iter().all(is_field) => {
            ValueLocation::Nested(Nested { values: values.into(), may_repeat: false })
        }
        false => ValueLocation::Text,
    }
}
