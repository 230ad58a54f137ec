//! Optional pairs: `key=value` pairs that only some texts of a template have.
//!
//! Such a pair, including the blank before it, is the value of a variable that is empty in texts without the pair. The
//! pair begins with a blank, and the text after it begins with a byte that ends a value, so automatic extraction of the
//! whole text equals extraction of its pieces. Each form of the pair is therefore extracted as a text of its own, and
//! in the surrounding text, a placeholder pair replaces the variable.
//!
//! Not here: pairs that every text of the template has ([`super::fields`]).

use quarry_event::template::{ColumnKind, Template, TemplatePart, TemplateSet};

use super::value_location::{Nested, NestedValue, ValueLocation};

/// Prefix of keys that represent a column of pairs; the column number follows (U+E001, private use).
const PLACEHOLDER: char = '\u{e001}';

/// The pair that represents a column of optional pairs in the text of a template.
pub(super) fn pair_placeholder(column: u32) -> String {
    format!(" {PLACEHOLDER}{column}=7")
}

/// The column that a key represents.
pub(super) fn placeholder_column(key: &str) -> Option<u32> {
    key.strip_prefix(PLACEHOLDER)?.parse().ok()
}

/// The forms of a column's pairs, if the column contains nothing but optional pairs.
pub(super) fn pair_forms(template_set: &TemplateSet, column: u32) -> Option<impl Iterator<Item = &Template>> {
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

/// The location of a field, given its locations in the forms of a pair.
pub(super) fn location_in_forms<'f>(
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
    // Every form that has one of these columns must have the field's value in that column.
    let is_field = |value: &NestedValue| {
        (forms.clone().filter(|(template, _)| template.has_variable(value.column)))
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
