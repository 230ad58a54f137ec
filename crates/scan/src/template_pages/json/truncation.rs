//! Texts that break off or are not JSON from some point on, such as truncated events: the reader stops at the same
//! point in all texts of a template, so that the fields before this point have locations.

use memchr::memchr2;
use quarry_event::template::{ByteSet, TemplatePart, json_escape_len};
use quarry_pipeline::extract::{json_fields, json_stop};

use super::{JsonColumns, Sample};

/// Bytes that may end a value or begin another one.
const PUNCTUATION: ByteSet = ByteSet::of(b"{}[]:,\"");
/// Bytes that begin a string, number or word; the bytes after them decide whether the reader accepts it.
const TOKEN_STARTS: ByteSet = ByteSet::of(b"\"-0123456789tfn");
const BLANKS: ByteSet = ByteSet::of(b" \t\n\r");
/// A character that the reader accepts nowhere outside of strings (U+E002, private use).
const STOP: char = '\u{e002}';

impl JsonColumns<'_> {
    pub(super) fn may_contain_quotes(&self, column: u32) -> bool {
        self.template_set.columns.get(column as usize).is_none_or(|column| column.traits.bytes.contains(b'"'))
    }

    /// The sample up to a variable outside of strings that may be anything; `None` if the reader may read the variable.
    pub(super) fn sample_up_to(&self, mut sample: Sample, column: u32) -> Option<Sample> {
        let stops_before = json_stop(&sample.text).is_some_and(|byte| !TOKEN_STARTS.contains(byte));
        let may_continue_token =
            sample.text.ends_with(|last: char| last.is_ascii_alphanumeric() || matches!(last, '+' | '-' | '.'));
        if !stops_before && (may_continue_token || self.may_be_read(column)) {
            return None;
        }
        sample.text.push(STOP);
        sample.is_cut = true;
        Some(sample)
    }

    /// Whether the reader may accept the first byte of a column's values.
    fn may_be_read(&self, column: u32) -> bool {
        let Some(described) = self.template_set.columns.get(column as usize) else { return true };
        let accepted = TOKEN_STARTS.union(PUNCTUATION).union(BLANKS);
        described.traits.min_len == 0 || described.traits.firsts.intersects(accepted)
    }

    /// Whether each value of a column contains an escape that no JSON string has, where the reader stops.
    pub(super) fn has_invalid_escapes(&self, column: u32) -> bool {
        self.all_values(column, has_invalid_escape)
    }

    /// Whether the values of a column, which end texts that begin with `before`, follow the colon of a member but do
    /// not begin with a complete JSON value. An example is `fals` in a truncated text.
    pub(super) fn is_broken_value(&self, before: &[TemplatePart], column: u32) -> bool {
        let is_after_colon = matches!(before.last(),
            Some(TemplatePart::Literal(literal)) if literal.trim_ascii_end().ends_with(b":"));
        let is_broken = |value: &[u8]| {
            std::str::from_utf8(value).is_ok_and(|value| {
                let mut has_value = false;
                json_fields(&format!("{{\"key\":{value}"), &mut |_, _| has_value = true);
                !has_value
            })
        };
        let Some(described) = self.template_set.columns.get(column as usize) else { return false };
        is_after_colon && !described.traits.bytes.intersects(PUNCTUATION) && self.all_values(column, is_broken)
    }
}

impl Sample {
    /// Whether the reader stops at the same point in all texts that the sample represents, if it does not read the
    /// sample to its end. A variable may hold strings or members that the reader accepts where it refuses the
    /// placeholder, so the sample must have no such variable.
    pub(super) fn breaks_alike(&self) -> bool {
        !self.has_members && self.quoted.is_empty() && self.text.trim_start().starts_with(['{', '['])
    }
}

/// Whether a part of a JSON string contains an invalid escape. A truncated escape at its end may be valid.
fn has_invalid_escape(part: &[u8]) -> bool {
    let mut rest = part;
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        rest = &rest[at..];
        match (json_escape_len(rest), rest) {
            (Some(length), _) => rest = &rest[length..],
            (None, [b'"', ..] | [_]) => return false,
            (None, [_, b'u', digits @ ..]) if digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit) => {
                return false;
            }
            (None, _) => return true,
        }
    }
    false
}
