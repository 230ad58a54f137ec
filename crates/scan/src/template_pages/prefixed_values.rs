//! Fields that begin after the common prefix of a column's values: `0x(?<id>[0-9a-f]+)` in values such as `0x1f4e`.
//!
//! Patterns are planned with the prefix as a literal of the template, so that positions before and after it differ. The
//! parts of a group are then expressed in whole values again: the field is the column without the prefix.
//!
//! Not here: planning ([`super::extracts`]), reading ([`super::prefixed_columns`]).

use quarry_eval::pattern::template_match::FlatTemplate;
use quarry_event::template::{ColumnKind, TemplatePart, TemplateSet, TextSlice};
use quarry_stdx::number::u32_of;

use super::value_location::{Decoding, ValueLocation, WrittenParts};

/// Minimum number of distinct values of a dictionary whose prefix becomes a literal. With fewer values, a pattern is
/// evaluated once for each.
const DICTIONARY_MIN: u32 = 4_096;

/// The template with prefixes as literals. The variable after a prefix has a number of its own: its column's number
/// plus the number of columns.
pub(super) fn with_prefixes_as_literals(flat: FlatTemplate, template_set: &TemplateSet) -> FlatTemplate {
    let columns = u32_of(template_set.columns.len());
    flat.with_prefixes_as_literals(|column| match template_set.columns.get(column as usize)?.kind {
        ColumnKind::Texts => columns.checked_add(column),
        ColumnKind::Dictionary { len } if len >= DICTIONARY_MIN => columns.checked_add(column),
        _ => None,
    })
}

/// The column of a variable of such a template.
pub(super) fn column_of(variable: u32, template_set: &TemplateSet) -> u32 {
    variable.checked_sub(u32_of(template_set.columns.len())).unwrap_or(variable)
}

/// The location of the value that consists of these parts of such a template; [`ValueLocation::Text`] if it may be
/// empty or has no location.
pub(super) fn location_of(parts: &[TemplatePart], template_set: &TemplateSet) -> ValueLocation {
    let Some((parts, bytes)) = with_whole_values(parts, template_set) else { return ValueLocation::Text };
    let min_len = |part: &TemplatePart| match part {
        TemplatePart::Literal(literal) => literal.len(),
        TemplatePart::Variable(column) => {
            template_set.columns.get(*column as usize).map_or(0, |column| column.traits.min_len as usize)
        }
    };
    // Whether an empty group yields a field depends on the text.
    if parts.iter().map(min_len).sum::<usize>() <= bytes {
        return ValueLocation::Text;
    }
    match ValueLocation::of_parts(&parts) {
        ValueLocation::Variable(_) | ValueLocation::Composite(_) if bytes > 0 => {
            let decoding = Decoding::Slice(TextSlice::From(u32_of(bytes)));
            ValueLocation::Written(WrittenParts { parts: parts.into(), decoding })
        }
        place => place,
    }
}

/// The parts with whole column values, and the number of bytes at their start that precede the value. `None` if a part
/// other than the first lacks the prefix of its column.
fn with_whole_values(parts: &[TemplatePart], template_set: &TemplateSet) -> Option<(Vec<TemplatePart>, usize)> {
    let columns = u32_of(template_set.columns.len());
    let (mut whole, mut cut): (Vec<TemplatePart>, usize) = (Vec::with_capacity(parts.len()), 0);
    for (at, part) in parts.iter().enumerate() {
        let TemplatePart::Variable(number) = part else {
            whole.push(part.clone());
            continue;
        };
        let Some(column) = number.checked_sub(columns) else {
            whole.push(part.clone());
            continue;
        };
        let prefix = template_set.columns.get(column as usize)?.traits.prefix.as_bytes();
        let before = match whole.pop() {
            Some(TemplatePart::Literal(before)) => before,
            None => Box::default(),
            Some(TemplatePart::Variable(_)) => return None,
        };
        match before.strip_suffix(prefix) {
            Some([]) => {}
            Some(rest) => whole.push(TemplatePart::Literal(rest.into())),
            None if at <= 1 && whole.is_empty() && prefix.ends_with(&before) => cut = prefix.len() - before.len(),
            None => return None,
        }
        whole.push(TemplatePart::Variable(column));
    }
    Some((whole, cut))
}

#[cfg(test)]
mod tests {
    use quarry_event::template::{Column, ColumnKind, ValueTraits};

    use super::*;

    fn template_set() -> TemplateSet {
        let column = |prefix: &str, min_len| Column {
            parent: None,
            values: 1,
            kind: ColumnKind::Texts,
            traits: ValueTraits { prefix: prefix.into(), min_len, max_len: 20, ..ValueTraits::default() },
        };
        TemplateSet { columns: vec![column("", 1), column("0x", 4), column("id-", 3)], ..TemplateSet::default() }
    }

    fn literal(text: &str) -> TemplatePart {
        TemplatePart::Literal(text.as_bytes().into())
    }

    fn variable(number: u32) -> TemplatePart {
        TemplatePart::Variable(number)
    }

    #[test]
    fn locations_express_prefixes_in_whole_values() {
        let without = |parts: &[TemplatePart], bytes| {
            let decoding = Decoding::Slice(TextSlice::From(bytes));
            ValueLocation::Written(WrittenParts { parts: parts.into(), decoding })
        };
        let composite = |parts: &[TemplatePart]| ValueLocation::Composite(parts.into());
        let cases: [(&[TemplatePart], ValueLocation); 9] = [
            (&[variable(4)], without(&[variable(1)], 2)),
            (&[literal("x"), variable(4)], without(&[variable(1)], 1)),
            (&[literal("0x"), variable(4)], ValueLocation::Variable(1)),
            (&[literal("conn 0x"), variable(4)], composite(&[literal("conn "), variable(1)])),
            (&[literal("0x")], ValueLocation::Constant("0x".into())),
            (
                &[variable(4), literal(" id-"), variable(5), literal("!")],
                without(&[variable(1), literal(" "), variable(2), literal("!")], 2),
            ),
            (&[variable(0), literal("0x"), variable(4)], composite(&[variable(0), variable(1)])),
            // The text after this prefix may be empty.
            (&[variable(5)], ValueLocation::Text),
            // A column may not occur twice.
            (&[variable(4), literal(" 0x"), variable(4)], ValueLocation::Text),
        ];
        for (parts, expected) in cases {
            assert_eq!(location_of(parts, &template_set()), expected, "{parts:?}");
        }
    }

    #[test]
    fn values_lack_the_prefix() {
        let written = WrittenParts { parts: [variable(1)].into(), decoding: Decoding::Slice(TextSlice::From(2)) };
        assert_eq!(written.value("0x1f").as_deref(), Some("1f"));
        assert_eq!(written.value("0"), None);
    }
}
