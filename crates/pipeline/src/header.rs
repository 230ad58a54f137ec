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
/// Number of words of eight bytes in which a delimiter is searched without a function call; most values are shorter.
const WORDS_TESTED_INLINE: usize = 4;
const ONE_PER_BYTE: u64 = u64::MAX / 255;
const TOP_BITS: u64 = 0x80 * ONE_PER_BYTE;

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

/// The delimiters of a text, found in ascending order. An ASCII delimiter is searched in eight bytes at a time, and all
/// its positions among these bytes are kept for the next searches.
struct Delimiters<'t> {
    text: &'t str,
    delimiter: char,
    /// The delimiter in each byte; `None` if it is not an ASCII character.
    pattern: Option<u64>,
    /// Start of the eight bytes that were tested last.
    tested: usize,
    /// The top bit of each delimiter among them.
    marks: u64,
}

impl<'t> Delimiters<'t> {
    fn new(text: &'t str, delimiter: char) -> Delimiters<'t> {
        let byte = u8::try_from(delimiter).ok().filter(u8::is_ascii);
        let pattern = byte.map(|byte| u64::from(byte) * ONE_PER_BYTE);
        Delimiters { text, delimiter, pattern, tested: usize::MAX, marks: 0 }
    }

    /// Position of the first delimiter from `from` on.
    #[inline]
    fn next(&mut self, from: usize) -> Option<usize> {
        let Some(pattern) = self.pattern else {
            return self.text[from..].find(self.delimiter).map(|len| from + len);
        };
        let mut at = from;
        if let Some(passed @ 0..8) = from.checked_sub(self.tested) {
            let left = self.marks >> (8 * passed);
            if left != 0 {
                return Some(from + left.trailing_zeros() as usize / 8);
            }
            at = self.tested + 8;
        }
        let bytes = self.text.as_bytes();
        for _ in 0..WORDS_TESTED_INLINE {
            let Some(word) = bytes.get(at..)?.first_chunk::<8>() else { break };
            self.tested = at;
            self.marks = zero_bytes(u64::from_le_bytes(*word) ^ pattern);
            if self.marks != 0 {
                return Some(at + self.marks.trailing_zeros() as usize / 8);
            }
            at += 8;
        }
        memchr(pattern as u8, bytes.get(at..)?).map(|len| at + len)
    }
}

/// Sets the top bit of each byte that is zero, and no other bit.
#[inline]
fn zero_bytes(bytes: u64) -> u64 {
    // The sum does not carry into the next byte. Its top bit is set if one of the lower seven bits is set.
    !(((bytes & !TOP_BITS) + !TOP_BITS) | bytes) & TOP_BITS
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
    let mut delimiters = Delimiters::new(line, delimiter);
    let value_start = |at: usize| match merges {
        true => line.len() - line[at..].trim_start_matches(delimiter).len(),
        false => at,
    };
    let mut at = value_start(0);
    for column in 0..COLUMNS_MAX {
        if merges && at == line.len() {
            return;
        }
        let rest = &line[at..];
        let (outcome, end) = match quote.and_then(|quote| Some(quoted(strip_char(rest, quote)?, quote))) {
            // Text between the closing quote and the delimiter is dropped.
            Some((value, after)) => (take(column, &value), delimiters.next(line.len() - after.len())),
            None => {
                let end = delimiters.next(at);
                (take(column, &line[at..end.unwrap_or(line.len())]), end)
            }
        };
        match end {
            Some(end) if outcome.is_continue() => at = value_start(end + delimiter.len_utf8()),
            _ => return,
        }
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
    fn delimiters_are_found_in_order_from_every_position() {
        // A byte that differs from the delimiter in one bit is not taken for it.
        for (delimiter, other) in
            [(',', '-'), ('\0', '\u{1}'), ('\t', '\u{8}'), (',', '\u{20ac}'), ('\u{a7}', '\u{a6}')]
        {
            for step in [1, 2, 3, 7, 8, 9, 31, 40, 41] {
                let letter = |at: usize| if at % step == step - 1 { delimiter } else { other };
                let text: String = (0..90).map(letter).collect();
                let expected: Vec<usize> = text.match_indices(delimiter).map(|(at, _)| at).collect();
                let mut delimiters = Delimiters::new(&text, delimiter);
                let mut found = Vec::new();
                while let Some(at) = delimiters.next(found.last().map_or(0, |at| at + delimiter.len_utf8())) {
                    found.push(at);
                }
                assert_eq!(found, expected, "{delimiter:?}, step {step}");
                // A search may skip delimiters.
                let mut delimiters = Delimiters::new(&text, delimiter);
                for (from, _) in text.char_indices().step_by(3) {
                    assert_eq!(delimiters.next(from), expected.iter().copied().find(|at| *at >= from));
                }
                assert_eq!(delimiters.next(text.len()), None);
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
