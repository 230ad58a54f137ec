//! Number of lines of the texts of a template, for the default field `linecount`.
//!
//! Not here: the number of lines of plain texts (`crate::derive`).

use quarry_event::template::{ColumnKind, Template, TemplatePart, TemplateSet};

use super::field_locations::KeyLocation;
use super::key_splits::KeySplit;
use super::value_location::ValueLocation;
use crate::derive::LINE_COUNT_FIELD;
use crate::fields::ExtractionClass;

const LINE_BREAK: u8 = b'\n';

/// The number of line breaks in the values of each column of a slab; `None` if it differs between values.
pub(super) struct LineCounts {
    breaks: Vec<Option<usize>>,
}

impl LineCounts {
    pub(super) fn of(template_set: &TemplateSet) -> LineCounts {
        let mut counts = LineCounts { breaks: vec![None; template_set.columns.len()] };
        // Reverse order: a variable's column has a higher number than the column whose templates contain it.
        for (number, column) in template_set.columns.iter().enumerate().rev() {
            counts.breaks[number] = match &column.kind {
                _ if !column.traits.bytes.contains(LINE_BREAK) => Some(0),
                ColumnKind::Templates(templates) => {
                    let first = templates.first().and_then(|template| counts.line_breaks(template));
                    first.filter(|_| templates.iter().all(|template| counts.line_breaks(template) == first))
                }
                _ => None,
            };
        }
        counts
    }

    /// The number of line breaks in the texts of a template; `None` if it differs between texts.
    fn line_breaks(&self, template: &Template) -> Option<usize> {
        template.parts.iter().try_fold(0, |count, part| {
            Some(
                count
                    + match part {
                        TemplatePart::Literal(bytes) => memchr::memchr_iter(LINE_BREAK, bytes).count(),
                        TemplatePart::Variable(column) => (*self.breaks.get(*column as usize)?)?,
                    },
            )
        })
    }

    /// The number of lines of the texts of a template; `None` if it differs between texts. A line break at the end of
    /// a text does not start another line.
    pub(super) fn of_texts(&self, template: &Template, template_set: &TemplateSet) -> Option<usize> {
        match self.line_breaks(template)? {
            0 => Some(1),
            breaks => Some(breaks + 1 - usize::from(ends_with_break(template, template_set)?)),
        }
    }
}

/// Whether the texts of a template end with a line break; `None` if some texts do and others do not, or if unknown.
fn ends_with_break(template: &Template, template_set: &TemplateSet) -> Option<bool> {
    let mut may_end_otherwise = false;
    for part in template.parts.iter().rev() {
        match part {
            TemplatePart::Literal(bytes) => match bytes.last() {
                None => {}
                Some(&LINE_BREAK) if may_end_otherwise => return None,
                Some(last) => return Some(*last == LINE_BREAK),
            },
            TemplatePart::Variable(column) => {
                let traits = &template_set.columns.get(*column as usize)?.traits;
                match traits.bytes.contains(LINE_BREAK) {
                    true => return None,
                    false if traits.min_len > 0 => return Some(false),
                    false => may_end_otherwise = true,
                }
            }
        }
    }
    Some(false)
}

/// Adds the default value of `linecount`, which events without a field of this name have: a constant if the template
/// determines the number of lines.
pub(super) fn locate_line_count(
    template_set: &TemplateSet,
    templates: &[Template],
    classes: &[ExtractionClass],
    split: Option<&KeySplit>,
    located: &mut [KeyLocation],
) {
    let mut rules = classes.iter().flat_map(|class| &class.field_patterns);
    let is_in_rules = rules.any(|rule| rule.field == LINE_COUNT_FIELD || rule.group(LINE_COUNT_FIELD).is_some());
    let counts = LineCounts::of(template_set);
    for (key, known) in located.iter_mut().enumerate() {
        let template = &templates[split.map_or(key, |split| split.undivided(key)) % templates.len()];
        let count = if is_in_rules { None } else { counts.of_texts(template, template_set) };
        known.place = match (&known.place, count) {
            (ValueLocation::Absent, Some(count)) => ValueLocation::Constant(count.to_string().into()),
            // At other locations, some rows may have no value, and thus the default.
            _ => ValueLocation::Text,
        };
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::template::{ByteSet, Column, ValueTraits};

    use super::*;

    fn template(parts: &[&str]) -> Template {
        let part = |part: &&str| match part.strip_prefix('#') {
            Some(column) => TemplatePart::Variable(column.parse().unwrap()),
            None => TemplatePart::Literal(part.as_bytes().into()),
        };
        Template { parts: parts.iter().map(part).collect() }
    }

    fn column(kind: ColumnKind, bytes: &str, min_len: u32) -> Column {
        let mut set = ByteSet::EMPTY;
        bytes.bytes().for_each(|byte| set.insert(byte));
        let traits = ValueTraits { bytes: set, min_len, max_len: 9, ..ValueTraits::default() };
        Column { parent: None, kind, traits, values: 1 }
    }

    #[test]
    fn templates_determine_the_number_of_lines_where_all_texts_have_it() {
        let nested =
            |templates: &[&[&str]]| ColumnKind::Templates(templates.iter().map(|parts| template(parts)).collect());
        let columns = vec![
            column(nested(&[]), "a\n", 0),
            column(ColumnKind::Texts, "ab", 1),
            column(ColumnKind::Texts, "ab", 0),
            column(ColumnKind::Texts, "ab\n", 1),
            column(nested(&[&["a\n", "#6"], &["b\nc"]]), "abc\n", 2),
            column(nested(&[&["a\n", "#6"], &["bc"]]), "abc\n", 2),
            column(ColumnKind::Texts, "ab", 1),
        ];
        let set = TemplateSet { columns, ..TemplateSet::default() };
        let counts = LineCounts::of(&set);
        for (parts, expected) in [
            (&["x"][..], Some(1)),
            (&[][..], Some(1)),
            (&["x\n"][..], Some(1)),
            (&["x\n\n"][..], Some(2)),
            (&["x\ny", "#1"][..], Some(2)),
            (&["#1", "\n", "#1", "\n"][..], Some(2)),
            // The last value may be empty, so that the text may end with the line break.
            (&["x\n", "#2"][..], None),
            (&["x", "#2"][..], Some(1)),
            (&["x\ny", "#2"][..], Some(2)),
            (&["x", "#3"][..], None),
            (&["#4", "y"][..], Some(2)),
            (&["#4"][..], None),
            (&["#5", "y"][..], None),
        ] {
            assert_eq!(counts.of_texts(&template(parts), &set), expected, "{parts:?}");
        }
    }
}
