//! Conversion of settings to Rust types, shared by the modules that read settings.

use std::collections::BTreeMap;

use crate::table::{Row, Section, StanzaName};

/// Value of `index` in inputs.conf that stands for the default index. Clients also send it, because REST shows it for
/// an input without an index.
pub const DEFAULT_INDEX_WORD: &str = "default";

/// The settings of one stanza, or the settings in force for one source, with the table rows that define their types. A
/// missing, empty or invalid value is replaced by the row's default.
pub(crate) struct Values<'a> {
    rows: &'static [Row],
    set: BTreeMap<&'a str, &'a str>,
}

impl<'a> Values<'a> {
    pub(crate) fn new(rows: &'static [Row], set: BTreeMap<&'a str, &'a str>) -> Values<'a> {
        Values { rows, set }
    }

    /// The settings of a stanza, own and inherited.
    pub(crate) fn for_stanza(rows: &'static [Row], conf: &'a crate::MergedConf, stanza: &str) -> Values<'a> {
        let settings = conf.effective(stanza).into_iter();
        Values::new(rows, settings.map(|(key, setting)| (key, setting.value.as_str())).collect())
    }

    fn default(&self, key: &str) -> &'static str {
        let row = self.rows.iter().find(|row| row.name == key);
        debug_assert!(row.is_some(), "{key} has no row");
        row.map_or("", |row| row.default)
    }

    pub(crate) fn text(&self, key: &str) -> &'a str {
        self.set.get(key).copied().filter(|value| !value.is_empty()).unwrap_or_else(|| self.default(key))
    }

    pub(crate) fn owned(&self, key: &str) -> String {
        self.text(key).to_owned()
    }

    /// The setting `index`, without the word for the default index.
    pub(crate) fn index(&self) -> String {
        match self.text("index") {
            DEFAULT_INDEX_WORD => self.default("index").to_owned(),
            index => index.to_owned(),
        }
    }

    /// The value as text; `None` if it is empty.
    pub(crate) fn optional(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    pub(crate) fn bool(&self, key: &str) -> bool {
        self.read(key, parse_bool).unwrap_or(false)
    }

    pub(crate) fn integer(&self, key: &str) -> i64 {
        self.read(key, |value| value.parse().ok()).unwrap_or(0)
    }

    /// A number that its table row keeps non-negative.
    pub(crate) fn count(&self, key: &str) -> u64 {
        u64::try_from(self.integer(key)).unwrap_or(0)
    }

    /// A count as `usize`.
    pub(crate) fn size(&self, key: &str) -> usize {
        usize::try_from(self.count(key)).unwrap_or(usize::MAX)
    }

    /// Parses the value with `parse`; if that fails, parses the default.
    pub(crate) fn read<T>(&self, key: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        parse(self.text(key)).or_else(|| parse(self.default(key)))
    }

    /// Class and value of every setting `prefix` + class, by class in ASCII order; an empty value disables a class.
    pub(crate) fn classes(&self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let of_prefix = self.set.iter().filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, *value)));
        of_prefix.filter(|(class, value)| !class.is_empty() && !value.is_empty()).collect::<Vec<_>>().into_iter()
    }
}

/// Rows of the section of this name.
pub(crate) fn rows_of(sections: &'static [Section], stanza: &str) -> &'static [Row] {
    let section =
        sections.iter().find(|section| section.stanza == StanzaName::Any || section.stanza.matches_stanza(stanza));
    section.map_or(&[], |section| section.rows)
}

/// Parses `1 t true y yes` as true and their opposites as false, ignoring case.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// A delimiter by character, escape or name; the inner `None` stands for the word `none`.
pub(crate) fn parse_delimiter(text: &str) -> Option<Option<char>> {
    let named = match text.to_ascii_lowercase().as_str() {
        "space" => ' ',
        "tab" | "\\t" => '\t',
        "fs" => '\u{1c}',
        "gs" => '\u{1d}',
        "rs" => '\u{1e}',
        "us" => '\u{1f}',
        "none" => return Some(None),
        lower => match lower.strip_prefix("\\x") {
            Some(hex) => char::from(parse_hex_byte(hex)?),
            None => return single_char(text).map(Some),
        },
    };
    Some(Some(named))
}

/// A byte in hexadecimal. Unlike numbers in Rust, it has no sign.
pub(crate) fn parse_hex_byte(digits: &str) -> Option<u8> {
    u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn single_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Number of capture groups of a PCRE pattern; `None` if its parentheses are unbalanced, or a class or escape is
/// incomplete. Everything else is checked by the engine that compiles the pattern.
pub(crate) fn capture_groups(pattern: &str) -> Option<usize> {
    let bytes = pattern.as_bytes();
    let (mut depth, mut groups, mut at) = (0usize, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if bytes.get(at + 1) == Some(&b'Q') => {
                at += pattern[at..].find("\\E").unwrap_or(pattern.len() - at);
            }
            b'\\' if at + 1 == bytes.len() => return None,
            b'\\' => at += 1,
            b'[' => at = class_end(bytes, at)?,
            b'(' => {
                depth += 1;
                groups += usize::from(is_capturing(&bytes[at + 1..]));
            }
            b')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then_some(groups)
}

/// Whether a pattern's parentheses balance and one of its groups is named.
pub(crate) fn has_named_group(pattern: &str) -> bool {
    let named = ["(?<", "(?P<", "(?'"].iter().flat_map(|open| pattern.split(open).skip(1));
    let mut starts = named.filter_map(|behind| behind.chars().next());
    capture_groups(pattern).is_some() && starts.any(|first| first.is_alphabetic() || first == '_')
}

/// Whether the group whose content starts with `inside` captures.
fn is_capturing(inside: &[u8]) -> bool {
    match inside {
        [b'?', b'P', b'<', ..] | [b'?', b'\'', ..] => true,
        [b'?', b'<', next, ..] => !matches!(next, b'=' | b'!'),
        [b'?', ..] | [b'*', ..] => false,
        _ => true,
    }
}

/// Position of the bracket that closes the character class opened at `open`.
fn class_end(bytes: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    if bytes.get(at) == Some(&b'^') {
        at += 1;
    }
    // A bracket in first position is literal.
    if bytes.get(at) == Some(&b']') {
        at += 1;
    }
    loop {
        match *bytes.get(at)? {
            b']' => return Some(at),
            b'\\' => at += 2,
            b'[' if bytes.get(at + 1) == Some(&b':') => {
                let close = bytes[at..].windows(2).position(|pair| pair == b":]");
                at += close.map_or(1, |length| length + 2);
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;
