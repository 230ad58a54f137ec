//! Delimited text with a header that names the columns.
//!
//! Neither a header nor the preamble before it is an event; every other line is an event, with a field for each column
//! that has a name and a value. A quoted value may contain the delimiter, line breaks, and doubled quotes. Without a
//! header, the settings name the columns. Not here: finding the end of a line whose values contain line breaks
//! ([`crate::lines`]).

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use memchr::memchr;
use quarry_conf::{HeaderSettings, PropsSettings};

use crate::error::PipelineError;
use crate::pattern::Pattern;

/// Maximum number of columns with fields.
pub const COLUMNS_MAX: usize = 1_000;
/// Number of bytes in which a delimiter is searched without a function call; most values are shorter.
const INLINE_SEARCH_BYTES: usize = 16;
/// The lowest bit of each byte.
const LOWEST_BITS: u128 = u128::MAX / 255;

/// Rules for reading columns.
#[derive(Debug)]
pub(crate) struct HeaderRules {
    settings: HeaderSettings,
    preamble: Option<Pattern>,
    header: Option<Pattern>,
    missing: Option<Pattern>,
    fields_max: usize,
    /// Number of lines up to the first header, including it.
    lines: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineRole {
    Header(Header),
    Preamble,
    Event,
}

/// The columns of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    names: Vec<Arc<str>>,
    /// For each column, its position in `TIMESTAMP_FIELDS`; `None` if it is not there. Columns after the last one with
    /// a position have no entry.
    time_places: Vec<Option<usize>>,
}

/// The names in a header line: the text of the pattern's first group, or, if the pattern has no group, the text after
/// the match.
fn header_place(pattern: &Pattern, line: &[u8]) -> Option<Range<usize>> {
    // Most lines are events, and a search for groups allocates memory.
    if !pattern.is_match(line) {
        return None;
    }
    let mut groups = pattern.groups();
    let found = pattern.find_groups(line, 0, &mut groups)?;
    Some(groups.get(1).unwrap_or(found.end..line.len()))
}

impl HeaderRules {
    /// The rules of a sourcetype with delimited columns; `None` for any other sourcetype.
    pub(crate) fn new(settings: &PropsSettings) -> Result<Option<HeaderRules>, PipelineError> {
        let Some(own) = settings.header.clone() else { return Ok(None) };
        let pattern = |setting, text: &Option<String>| PipelineError::pattern(settings, setting, text.as_deref());
        let missing = own.missing.as_ref().map(|text| format!("^(?:{text})$"));
        Ok(Some(HeaderRules {
            preamble: pattern("PREAMBLE_REGEX", &own.preamble)?,
            header: pattern("FIELD_HEADER_REGEX", &own.header_pattern)?,
            missing: pattern("MISSING_VALUE_REGEX", &missing)?,
            fields_max: settings.indexed_fields_max.min(COLUMNS_MAX),
            settings: own,
            lines: 0,
        }))
    }

    /// The header given in the settings.
    pub(crate) fn configured_header(&self) -> Option<Header> {
        let titles = &self.settings.names;
        let names = titles.iter().map(|name| Arc::from(name.as_str())).collect::<Vec<_>>();
        (!names.is_empty()).then(|| self.header_of(names, titles))
    }

    /// The role of a line, given whether the header was found.
    pub(crate) fn line_role(&mut self, line: &[u8], has_header: bool) -> LineRole {
        let matches = |pattern: &Option<Pattern>| pattern.as_ref().is_some_and(|pattern| pattern.is_match(line));
        if has_header && !self.settings.repeats {
            return LineRole::Event;
        }
        self.lines += usize::from(!has_header);
        if let Some(pattern) = &self.header {
            return match header_place(pattern, line) {
                Some(place) => LineRole::Header(self.read_header(&line[place])),
                None if has_header && !matches(&self.preamble) => LineRole::Event,
                None => LineRole::Preamble,
            };
        }
        let is_before = self.settings.line_number > self.lines;
        if is_before || (self.settings.line_number == 0 && matches(&self.preamble)) {
            return LineRole::Preamble;
        }
        LineRole::Header(self.read_header(line))
    }

    fn read_header(&self, line: &[u8]) -> Header {
        let HeaderSettings { header_delimiter, header_quote, merges_delimiters, kept_letters, .. } = &self.settings;
        let (mut names, mut titles) = (Vec::new(), Vec::new());
        let line = String::from_utf8_lossy(line);
        split(line.trim_end(), *header_delimiter, *header_quote, *merges_delimiters, |_, name| {
            names.push(Arc::from(field_name(name, kept_letters).as_str()));
            titles.push(name.trim().to_owned());
            ControlFlow::Continue(())
        });
        self.header_of(names, &titles)
    }

    /// The header of columns with these names; `TIMESTAMP_FIELDS` may also have the titles as written.
    fn header_of(&self, names: Vec<Arc<str>>, titles: &[String]) -> Header {
        let fields = &self.settings.timestamp_fields;
        let place_of =
            |(name, title): (&Arc<str>, &String)| fields.iter().position(|field| **field == **name || field == title);
        let mut time_places: Vec<Option<usize>> = names.iter().zip(titles).map(place_of).collect();
        let used = time_places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        time_places.truncate(used);
        Header { names, time_places }
    }

    /// Passes name and value of each field of a line to `take`.
    pub(crate) fn read_fields(&self, header: &Header, line: &str, mut take: impl FnMut(&Arc<str>, &str)) {
        let mut room = self.fields_max;
        let HeaderSettings { delimiter, quote, merges_delimiters, .. } = self.settings;
        split(line, delimiter, quote, merges_delimiters, |column, value| {
            if let Some(name) = header.names.get(column).filter(|name| !name.is_empty())
                && !value.is_empty()
                && !self.missing.as_ref().is_some_and(|it| it.is_match(value.as_bytes()))
            {
                if room == 0 {
                    return ControlFlow::Break(());
                }
                room -= 1;
                take(name, value);
            }
            ControlFlow::Continue(())
        });
    }

    /// Whether columns contain the timestamp.
    pub(crate) fn has_time_columns(&self) -> bool {
        !self.settings.timestamp_fields.is_empty()
    }

    /// The timestamp's text, taken from the columns that contain it.
    pub(crate) fn time_text(&self, header: &Header, line: &str) -> String {
        let fields = &self.settings.timestamp_fields;
        let mut found = vec![String::new(); fields.len()];
        let HeaderSettings { delimiter, quote, merges_delimiters, .. } = self.settings;
        split(line, delimiter, quote, merges_delimiters, |column, value| {
            match header.time_places.get(column) {
                Some(Some(at)) => found[*at] = value.to_owned(),
                Some(None) => {}
                None => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        });
        found.join(" ")
    }
}

/// A column title as a field name: characters other than letters, digits and those in `kept` become `_`, as Splunk
/// documents it for `HEADER_FIELD_ACCEPTABLE_SPECIAL_CHARACTERS`.
fn field_name(title: &str, kept: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || letter == '_' || kept.contains(letter);
    title.trim().chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

/// The text before the first delimiter, and the text after it.
fn split_once(text: &str, delimiter: char) -> Option<(&str, &str)> {
    match u8::try_from(delimiter).ok().filter(u8::is_ascii) {
        Some(byte) => position_of(byte, text.as_bytes()).map(|at| (&text[..at], &text[at + 1..])),
        None => text.split_once(delimiter),
    }
}

/// Position of the first byte with this value.
#[inline]
fn position_of(byte: u8, text: &[u8]) -> Option<usize> {
    let Some((head, rest)) = text.split_first_chunk::<INLINE_SEARCH_BYTES>() else { return memchr(byte, text) };
    let differences = u128::from_le_bytes(*head) ^ (LOWEST_BITS * u128::from(byte));
    // The lowest bit of this number is the highest bit of the first byte that is zero.
    let zeros = differences.wrapping_sub(LOWEST_BITS) & !differences & (LOWEST_BITS << 7);
    match zeros {
        0 => memchr(byte, rest).map(|at| INLINE_SEARCH_BYTES + at),
        _ => Some(zeros.trailing_zeros() as usize / 8),
    }
}

/// The text after `first`, if the text begins with it. `str::strip_prefix` calls a comparison function even for one
/// byte.
#[inline]
fn strip_char(text: &str, first: char) -> Option<&str> {
    match u8::try_from(first).ok().filter(u8::is_ascii) {
        Some(byte) if text.as_bytes().first() == Some(&byte) => Some(&text[1..]),
        Some(_) => None,
        None => text.strip_prefix(first),
    }
}

/// Calls `take` with index and value of each column, until it breaks.
fn split(
    line: &str,
    delimiter: char,
    quote: Option<char>,
    merges: bool,
    mut take: impl FnMut(usize, &str) -> ControlFlow<()>,
) {
    let behind = |text| if merges { str::trim_start_matches(text, delimiter) } else { text };
    let mut rest = Some(behind(line));
    for column in 0..COLUMNS_MAX {
        let Some(text) = rest else { return };
        if merges && text.is_empty() {
            return;
        }
        let Some((quote, inside)) = quote.and_then(|quote| Some((quote, strip_char(text, quote)?))) else {
            let (value, after) =
                split_once(text, delimiter).map_or((text, None), |(value, after)| (value, Some(after)));
            if take(column, value).is_break() {
                return;
            }
            rest = after.map(behind);
            continue;
        };
        let (value, after) = quoted(inside, quote);
        if take(column, &value).is_break() {
            return;
        }
        // Text between the closing quote and the delimiter is dropped.
        rest = split_once(after, delimiter).map(|(_, after)| behind(after));
    }
}

/// A value up to its closing quote, and the text after it.
fn quoted(text: &str, quote: char) -> (Cow<'_, str>, &str) {
    let mut value = String::new();
    let mut rest = text;
    while let Some((piece, after)) = rest.split_once(quote) {
        let Some(next) = after.strip_prefix(quote) else {
            let whole = value.is_empty();
            value.push_str(piece);
            return (if whole { Cow::Borrowed(piece) } else { Cow::Owned(value) }, after);
        };
        value.push_str(piece);
        value.push(quote);
        rest = next;
    }
    value.push_str(rest);
    (Cow::Owned(value), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(line: &str, delimiter: char) -> Vec<String> {
        let mut values = Vec::new();
        split(line, delimiter, Some('"'), false, |_, value| {
            values.push(value.to_owned());
            ControlFlow::Continue(())
        });
        values
    }

    #[test]
    fn the_first_delimiter_is_found_at_every_position() {
        // A byte that differs from the delimiter in its lowest bit only is not taken for it.
        for delimiter in [b',', 0, 0xFF] {
            for len in 0..=2 * INLINE_SEARCH_BYTES + 1 {
                let mut text = vec![delimiter ^ 1; len];
                assert_eq!(position_of(delimiter, &text), None);
                for at in (0..len).rev() {
                    text[at] = delimiter;
                    assert_eq!(position_of(delimiter, &text), Some(at), "{len} bytes");
                }
            }
        }
    }

    #[test]
    fn quotes_protect_the_delimiter() {
        assert_eq!(values(r#"a,"b, ""c""",,d"#, ','), ["a", r#"b, "c""#, "", "d"]);
        assert_eq!(values("a\tb c\t", '\t'), ["a", "b c", ""]);
        assert_eq!(values("\"open", ','), ["open"]);
        assert_eq!(values(r#""""",x"#, ','), ["\"", "x"]);
    }

    #[test]
    fn quotes_outside_ascii_protect_the_delimiter() {
        let mut values = Vec::new();
        split("\u{a7}a,b\u{a7},c,\u{a9}", ',', Some('\u{a7}'), false, |_, value| {
            values.push(value.to_owned());
            ControlFlow::Continue(())
        });
        assert_eq!(values, ["a,b", "c", "\u{a9}"]);
    }

    #[test]
    fn delimiter_runs_may_be_merged() {
        let mut values = Vec::new();
        split("  a   b  ", ' ', None, true, |_, value| {
            values.push(value.to_owned());
            ControlFlow::Continue(())
        });
        assert_eq!(values, ["a", "b"]);
    }

    #[test]
    fn titles_become_field_names() {
        assert_eq!(
            ["user id", "", "Grüße?", "a-b"].map(|title| field_name(title, "-")),
            ["user_id", "", "Grüße_", "a-b"]
        );
    }
}
