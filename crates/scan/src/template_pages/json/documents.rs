//! Documents reduced to the value at one path, for functions such as `json_extract`, which read a text only if the
//! whole text is valid JSON, and which use the last of several equal keys.
//!
//! In the texts of a template, such a document is the value as written, with its quotes, between constant literals. The
//! document is used only if the functions' own parser, which is stricter than the parser of `spath`, accepts all texts
//! of the template: control characters in strings, lone surrogates and numbers beyond the range of a double make a text
//! invalid.

use std::borrow::Cow;

use quarry_eval::functions::json_tree::Json;
use quarry_event::template::{ByteSet, ColumnKind, Template, TemplatePart};
use quarry_pipeline::extract::JsonPath;

use super::prose::is_prose;
use super::{
    CHECKED_VALUES_MAX, DIGITS, JsonColumns, KEY_PLACEHOLDER, LexerState, is_complete_value, lex, may_match_path,
};
use crate::template_pages::value_location::ValueLocation;

/// Maximum length of the part of a number that one variable holds; far below the number of digits of the largest
/// double.
const NUMBER_BYTES_MAX: u32 = 40;
const EXPONENT: ByteSet = ByteSet::of(b"eE");

impl JsonColumns<'_> {
    /// The location, in the texts of a template, of a document that has the same value at the path `keys`.
    pub(in crate::template_pages) fn document_location(
        &self,
        template: &Template,
        path: &JsonPath,
        keys: &[String],
    ) -> ValueLocation {
        match is_prose(template) {
            true => ValueLocation::Absent,
            false => self.reduced_document(template, path, keys).unwrap_or(ValueLocation::Text),
        }
    }

    fn reduced_document(&self, template: &Template, path: &JsonPath, keys: &[String]) -> Option<ValueLocation> {
        let sample = self.sample(template)?;
        if sample.has_members || Json::parse(&sample.text).is_none() || !self.is_strict(&template.parts) {
            return None;
        }
        let mut members = vec![0usize; keys.len()];
        let mut is_open = false;
        let values = path.walk(&sample.text, 0, &mut |key, wanted, at| {
            is_open |= key.contains(KEY_PLACEHOLDER) && may_match_path(key, wanted);
            members[at] += usize::from(key == wanted);
            key == wanted
        });
        if is_open || members.iter().any(|count| *count > 1) {
            return None;
        }
        let Some(value) = values.first() else { return Some(ValueLocation::Absent) };
        let Cow::Borrowed(value) = value else { return None };
        let mut range = sample.value_range(value);
        if range.start.checked_sub(1).is_some_and(|before| sample.text.as_bytes()[before] == b'"') {
            range = range.start - 1..range.end + 1;
        }
        let quoted: Vec<String> = keys.iter().map(|key| Json::Text(key.clone()).to_string()).collect();
        let mut document = vec![TemplatePart::Literal(format!("{{{}:", quoted.join(":{")).into_bytes().into())];
        for part in sample.parts_in(&range).into_iter().chain([literal("}".repeat(keys.len()).as_bytes())]) {
            match (document.last_mut(), part) {
                (Some(TemplatePart::Literal(last)), TemplatePart::Literal(next)) => {
                    *last = [&**last, &*next].concat().into();
                }
                (_, part) => document.push(part),
            }
        }
        Some(ValueLocation::of_parts(&document))
    }

    /// Whether the functions' parser accepts all texts composed of these parts, given that it accepts one of these
    /// texts.
    fn is_strict(&self, parts: &[TemplatePart]) -> bool {
        let mut lexed = LexerState::Outside;
        for (at, part) in parts.iter().enumerate() {
            match part {
                TemplatePart::Literal(literal) => {
                    let after = lex(lexed, literal).filter(|after| *after != LexerState::Escape);
                    let Some(after) = after.filter(|_| !has_surrogate(literal)) else { return false };
                    lexed = after;
                }
                TemplatePart::Variable(column) if self.is_empty(*column) => {}
                TemplatePart::Variable(column) => {
                    let is_strict = match lexed {
                        LexerState::Outside => self.is_strict_scalar(parts, at, *column),
                        LexerState::String => self.is_strict_string(*column),
                        LexerState::Escape => false,
                    };
                    if !is_strict {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Whether a column's values are parts of a valid string.
    fn is_strict_string(&self, column: u32) -> bool {
        let Some(described) = self.template_set.columns.get(column as usize) else { return false };
        let bytes = described.traits.bytes;
        if bytes.iter().any(|byte| byte < b' ') || self.string_effect(column).is_none_or(|effect| effect.opens_escape) {
            return false;
        }
        if !bytes.contains(b'\\') || !bytes.contains(b'u') {
            return true;
        }
        match &described.kind {
            ColumnKind::Templates(templates) => {
                templates.iter().flat_map(|template| &template.parts).all(|part| match part {
                    TemplatePart::Literal(literal) => !has_surrogate(literal),
                    TemplatePart::Variable(column) => self.is_strict_string(*column),
                })
            }
            _ => self.all_values(column, |value| !has_surrogate(value)),
        }
    }

    /// Whether a column's values, at part number `at`, are valid scalars or digits of a valid number.
    fn is_strict_scalar(&self, parts: &[TemplatePart], at: usize, column: u32) -> bool {
        let Some(described) = self.template_set.columns.get(column as usize) else { return false };
        let traits = &described.traits;
        let is_word_or_number = !(traits.bytes.intersects(EXPONENT) && traits.bytes.intersects(DIGITS));
        if is_word_or_number && traits.max_len <= NUMBER_BYTES_MAX && !traits.bytes.contains(b'"') {
            let exponent = |byte: Option<&u8>| byte.is_some_and(|byte| EXPONENT.contains(*byte));
            let follows_exponent = match at.checked_sub(1).map(|before| &parts[before]) {
                Some(TemplatePart::Literal(before)) => {
                    exponent(before.iter().rfind(|byte| !matches!(byte, b'+' | b'-')))
                }
                _ => false,
            };
            let has_exponent = match parts.get(at + 1) {
                Some(TemplatePart::Literal(next)) => exponent(next.first()),
                _ => false,
            };
            return !follows_exponent && !has_exponent;
        }
        let is_document = |value: &[u8]| std::str::from_utf8(value).ok().and_then(Json::parse).is_some();
        is_complete_value(parts, at, |_| false) && self.all_values(column, is_document)
    }

    /// Whether `holds` is true for each value of a column; false if the values are not listed.
    pub(super) fn all_values(&self, column: u32, holds: impl Fn(&[u8]) -> bool) -> bool {
        match self.template_set.columns.get(column as usize).map(|column| &column.kind) {
            Some(ColumnKind::Dictionary { len }) if *len <= CHECKED_VALUES_MAX => {
                (self.dictionary)(column).is_some_and(|values| values.iter().all(holds))
            }
            _ => false,
        }
    }
}

fn literal(text: &[u8]) -> TemplatePart {
    TemplatePart::Literal(text.into())
}

/// Whether a text may contain an escaped surrogate, which is invalid unless the other half of the pair follows.
fn has_surrogate(text: &[u8]) -> bool {
    text.windows(3).any(|escape| matches!(escape, [b'\\', b'u' | b'U', b'd' | b'D']))
}
