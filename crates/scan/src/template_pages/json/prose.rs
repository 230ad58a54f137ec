//! Templates whose texts begin neither an object nor an array, and therefore have no JSON fields.

use quarry_event::template::{ByteSet, Template, TemplatePart};

use super::JsonColumns;

/// Bytes that begin an object or array, possibly after blanks.
const DOCUMENT_STARTS: ByteSet = ByteSet::of(b"{[ \t\n\r");

impl JsonColumns<'_> {
    /// Whether the texts of a template begin with a variable none of whose values begins an object or array.
    pub(super) fn begins_as_prose(&self, template: &Template) -> bool {
        let Some(TemplatePart::Variable(column)) = template.parts.first() else { return false };
        let Some(described) = self.template_set.columns.get(*column as usize) else { return false };
        described.traits.min_len > 0 && !described.traits.firsts.intersects(DOCUMENT_STARTS)
    }
}

/// Whether the texts of a template begin with a literal that starts neither a JSON object or array nor XML.
pub(super) fn is_prose(template: &Template) -> bool {
    let Some(TemplatePart::Literal(first)) = template.parts.first() else { return false };
    let Ok(first) = std::str::from_utf8(first) else { return false };
    let is_sign = |byte: u8| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let begins =
        |text: &str, signs: &[u8]| text.bytes().find(|byte| is_sign(*byte)).is_none_or(|byte| signs.contains(&byte));
    !begins(first, b"{[") && !begins(first.trim_start(), b"<")
}
