//! Tokenisers: find the variables of a text.
//!
//! There are two tokenisers. [`split_event`] reads whole events: quoted texts, values of `key=value`, JSON values, text
//! between XML tags, fields between commas, cells between tabs or pipes ([`super::separators`]), parts of access log
//! lines ([`super::access`]), URLs, and any chunk that contains a digit are variables. [`split_words`] reads the value
//! of one variable: its IPv4 addresses and its other words with a digit are variables. Words end at breakers of the
//! segmenter, so that no term straddles the edge of such a variable. Everything between variables is literal.
//! [`variable_end`] finds the end of one variable of a known kind by the same rules, so that a text of a known template
//! is never tokenised.

use memchr::memchr;
use quarry_event::template::{ip4_at_start, is_json_scalar, is_string_content, json_escape_len};

use super::access::{AccessPart, is_request, split_names, split_request, split_status_and_size};
use super::classes::{
    BLANK, BREAKER, BYTE_CLASSES, DELIMITER, HEX, JSON_END, KEY, VALUE_END, class_at, has_digit, quote_or_escape,
    run_end, word_run_end,
};
use super::separators::{is_number_key, separator_of};

/// Maximum bytes of the scheme of a URL, such as `postgresql`.
const SCHEME_BYTES_MAX: usize = 12;
/// Maximum number of digits in a key that is literal; there may be any number of different keys with more digits.
const KEY_DIGITS_MAX: usize = 3;

/// Kind of a variable, which determines where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariableKind {
    /// Chunk with a digit, URL, or a lone dash, up to a delimiter.
    Chunk,
    /// Any chunk between two equal separators.
    Field,
    /// Cell of a separated text, up to this separator; it may be empty.
    Cell(u8),
    /// Inside double quotes, in a tag.
    Quoted,
    /// Inside the quotes of a JSON string with valid escapes.
    Content,
    /// Inside the quotes of a JSON string with an invalid escape.
    OddContent,
    /// The rest of a text that ends within a JSON string, without a truncated escape.
    Unclosed,
    /// Inside the quotes of a JSON string with valid escapes, which may be empty.
    String,
    /// Inside double quotes, without escaped quotes.
    Text,
    /// Inside double quotes, without escaped quotes; not a request line of an access log.
    Phrase,
    /// Inside double quotes, with escaped quotes.
    Escaped,
    /// Part of an access log line.
    Access(AccessPart),
    /// Inside of single quotes.
    Single,
    /// Value of `key=value`.
    Value,
    /// JSON number or word.
    Json,
    /// Neither a string nor a number or word, where JSON expects a value: `NaN`, or the number at the end of a truncated
    /// text.
    OddScalar,
    /// Text between two tags.
    Markup,
    /// Word with a digit between two breakers.
    Word,
    /// IPv4 address that does not follow a word and a point, and is not followed by a point and a digit.
    Address,
}

impl VariableKind {
    /// Role of variables of this kind; `None` if the word before a variable determines its role.
    pub(super) fn role(self) -> Option<&'static [u8]> {
        match self {
            VariableKind::Access(piece) => Some(piece.role()),
            _ => None,
        }
    }

    /// Whether values of this kind get a column of their own within their role. Such values contain bytes that field
    /// extraction treats differently; in a column with a single such value, a search could not rely on the other
    /// values.
    pub(super) fn is_irregular(self) -> bool {
        match self {
            VariableKind::Escaped | VariableKind::OddContent | VariableKind::Unclosed | VariableKind::OddScalar => true,
            VariableKind::Access(piece) => piece.is_irregular(),
            _ => false,
        }
    }

    /// Variables of different families never share a column.
    pub(super) fn family(self) -> u8 {
        match self {
            kind if kind.is_irregular() => 2,
            VariableKind::Access(_) => 1,
            _ => 0,
        }
    }
}

/// A variable of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: VariableKind,
}

impl Variable {
    pub(super) fn new(start: usize, end: usize, kind: VariableKind) -> Variable {
        Variable { start, end, kind }
    }
}

/// End of a variable of this kind that starts at `at`; `None` if there is no such variable. With `strict`, the
/// tokeniser's rules apply; otherwise a chunk or word needs no digit.
#[inline]
pub(super) fn variable_end(kind: VariableKind, text: &[u8], at: usize, strict: bool) -> Option<usize> {
    let end = match kind {
        VariableKind::Chunk => {
            let end = trim_punctuation(text, at, run_end(text, at, DELIMITER));
            if strict && !is_variable(text, at, end) {
                return None;
            }
            end
        }
        VariableKind::Field => trim_punctuation(text, at, run_end(text, at, DELIMITER)),
        VariableKind::Quoted => find_closing_quote(text, at)?,
        VariableKind::Content => string_end(text, at)?,
        VariableKind::OddContent => find_closing_quote(text, at).filter(|_| string_end(text, at).is_none())?,
        VariableKind::Unclosed if find_closing_quote(text, at).is_none() => unclosed_end(text, at),
        VariableKind::Unclosed => return None,
        VariableKind::String => return string_end(text, at),
        VariableKind::Cell(separator) => return Some(at + memchr(separator, text.get(at..)?)?),
        VariableKind::Text => find_unescaped_close(text, at)?,
        VariableKind::Phrase => find_unescaped_close(text, at).filter(|end| !is_request(text, at, *end))?,
        VariableKind::Escaped => scan_quoted_text(text, at).filter(|(_, has_quotes)| *has_quotes)?.0,
        VariableKind::Access(piece) => piece.variable_end(text, at)?,
        VariableKind::Single => at + memchr(b'\'', text.get(at..)?)?,
        VariableKind::Value => run_end(text, at, VALUE_END),
        // A string with its quotes would make the values of the whole column depend on their first byte.
        VariableKind::Json | VariableKind::OddScalar if text.get(at) == Some(&b'"') => return None,
        VariableKind::Json => scalar_end(text, at)?,
        VariableKind::OddScalar if scalar_end(text, at).is_none() => run_end(text, at, JSON_END),
        VariableKind::OddScalar => return None,
        VariableKind::Markup => at + memchr(b'<', text.get(at..)?)?,
        VariableKind::Word => {
            let end = word_end(text, at);
            if strict && (!has_digit(text, at, end) || address_end(text, at, end).is_some()) {
                return None;
            }
            end
        }
        VariableKind::Address => address_end(text, at, word_end(text, at))?,
    };
    (end > at).then_some(end)
}

/// Whether a chunk is a variable: it contains a digit, is a dash that stands for a missing value, or is a URL.
#[inline]
fn is_variable(text: &[u8], start: usize, end: usize) -> bool {
    has_digit(text, start, end) || text[start..end] == *b"-" || is_url(&text[start..end])
}

/// Whether a chunk begins with the scheme of a URL. There may be any number of different URLs without digits.
#[inline]
fn is_url(chunk: &[u8]) -> bool {
    let scheme = memchr(b':', &chunk[..chunk.len().min(SCHEME_BYTES_MAX + 1)]);
    scheme.is_some_and(|at| at > 0 && chunk.len() > at + 3 && chunk[at..].starts_with(b"://"))
}

/// Full stops and colons at the end of a chunk belong to the literal.
#[inline]
pub(super) fn trim_punctuation(text: &[u8], start: usize, mut end: usize) -> usize {
    while end > start + 1 && matches!(text[end - 1], b'.' | b':') {
        end -= 1;
    }
    end
}

/// The next quote that is not escaped.
#[inline]
pub(super) fn find_closing_quote(text: &[u8], at: usize) -> Option<usize> {
    scan_quoted_text(text, at).map(|(end, _)| end)
}

/// The end of the content of a JSON string; `None` if an escape is invalid, or if no quote closes the string.
#[inline]
pub(super) fn string_end(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = quote_or_escape(text, at)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += json_escape_len(&text[at..])?;
    }
}

/// The end of the content of a JSON string that no quote closes: the end of the text, or the start of an escape that is
/// cut off.
fn unclosed_end(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr(b'\\', &text[at..]) {
        at += found;
        match &text[at..] {
            [_] => return at,
            [_, b'u', digits @ ..] if digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit) => return at,
            _ => at += 2,
        }
    }
    text.len()
}

/// The end of a number or word of JSON.
#[inline]
pub(super) fn scalar_end(text: &[u8], at: usize) -> Option<usize> {
    let end = run_end(text, at, JSON_END);
    is_json_scalar(&text[at..end]).then_some(end)
}

/// The next quote that is not escaped, if no escaped quote comes before it.
#[inline]
pub(super) fn find_unescaped_close(text: &[u8], at: usize) -> Option<usize> {
    scan_quoted_text(text, at).filter(|(_, has_quotes)| !has_quotes).map(|(end, _)| end)
}

/// The next quote that is not escaped, and whether there are escaped quotes before it.
#[inline]
pub(super) fn scan_quoted_text(text: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut has_quotes = false;
    loop {
        at = quote_or_escape(text, at)?;
        if text[at] == b'"' {
            return Some((at, has_quotes));
        }
        has_quotes |= text.get(at + 1) == Some(&b'"');
        at += 2;
    }
}

/// End of a word. `%2F` and the like do not end it: the segmenter may treat them as breakers, so the word includes them
/// entirely.
#[inline]
fn word_end(text: &[u8], at: usize) -> usize {
    let mut end = word_run_end(text, at);
    while text.get(end) == Some(&b'%') && is_percent_code(text, end) {
        end = word_run_end(text, end + 1);
    }
    end
}

#[inline]
fn is_percent_code(text: &[u8], at: usize) -> bool {
    matches!(text.get(at + 1..at + 3), Some([high, low]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// The end of the IPv4 address at `at`, whose first word ends at `first_end`. One number per address is smaller and
/// faster than a number per octet.
#[inline]
fn address_end(text: &[u8], at: usize, first_end: usize) -> Option<usize> {
    if first_end - at > 3 || text.get(first_end) != Some(&b'.') || !text[at].is_ascii_digit() {
        return None;
    }
    let continues = |at: usize| text.get(at).is_some_and(|byte| BYTE_CLASSES[usize::from(*byte)] & BREAKER == 0);
    // `1.2.3.4.5` is not an address.
    if at > 1 && text[at - 1] == b'.' && continues(at - 2) {
        return None;
    }
    let end = at + ip4_at_start(&text[at..])?.1;
    let is_part = continues(end)
        || text.get(end) == Some(&b'%')
        || (text.get(end) == Some(&b'.') && text.get(end + 1).is_some_and(u8::is_ascii_digit));
    (!is_part).then_some(end)
}

/// Finds the variables within the value of a variable.
pub(super) fn split_words(text: &[u8], variables: &mut Vec<Variable>) {
    let mut at = 0;
    while at < text.len() {
        let end = word_end(text, at);
        if end == at {
            at += 1;
            continue;
        }
        if let Some(address_end) = address_end(text, at, end) {
            variables.push(Variable::new(at, address_end, VariableKind::Address));
            at = address_end;
            continue;
        }
        if has_digit(text, at, end) {
            variables.push(Variable::new(at, end, VariableKind::Word));
        }
        at = end;
    }
}

/// Finds the variables of a value that consists of breakers and runs of lower-case hexadecimal digits: the runs. `None`
/// if there are other bytes, no breakers, no runs, or a run too long for a number.
pub(super) fn split_layout(text: &[u8], variables: &mut Vec<Variable>) -> Option<()> {
    const DIGITS_MAX: usize = 16;
    let mut start = 0;
    for at in 0..=text.len() {
        let class = class_at(text, at);
        if at < text.len() && class & HEX != 0 {
            continue;
        }
        if at < text.len() && class & BREAKER == 0 {
            return None;
        }
        if at - start > DIGITS_MAX {
            return None;
        }
        if at > start {
            variables.push(Variable::new(start, at, VariableKind::Word));
        }
        start = at + 1;
    }
    (variables.len() > 1 || variables.first().is_some_and(|variable| variable.end - variable.start < text.len()))
        .then_some(())
}

/// Finds the variables of an event.
pub(super) fn split_event(text: &[u8], variables: &mut Vec<Variable>) {
    let is_markup = matches!(text, [b'<', b'a'..=b'z' | b'A'..=b'Z' | b'?' | b'!', ..]);
    let is_json = matches!(text.trim_ascii_start(), [b'{' | b'[', ..]);
    let at = split_names(text, variables).unwrap_or(0);
    let separator = separator_of(text).filter(|_| !is_markup && !is_json);
    let mut scan = EventScanner {
        text,
        variables,
        is_markup,
        is_json,
        separator,
        has_outcome: false,
        quotes: true,
        singles: true,
    };
    match separator {
        Some(separator) => scan.scan_cells(at, separator),
        None => scan.scan_range(at, text.len()),
    };
}

/// Finds the variables of an event, from left to right.
pub(super) struct EventScanner<'t, 's> {
    pub(super) text: &'t [u8],
    pub(super) variables: &'s mut Vec<Variable>,
    /// Whether the event begins with a tag.
    is_markup: bool,
    /// Whether the event begins as JSON, or a JSON key was seen.
    is_json: bool,
    /// The separator of the cells, if the event consists of cells.
    separator: Option<u8>,
    /// Whether the status of an access log line was seen.
    has_outcome: bool,
    /// Whether a closing quote may still follow, so that a long text is not searched for closing quotes again and
    /// again.
    quotes: bool,
    singles: bool,
}

impl EventScanner<'_, '_> {
    /// Finds the variables that begin in this range. Returns the position at which the scan ended, which may be after
    /// the range.
    pub(super) fn scan_range(&mut self, mut at: usize, end: usize) -> usize {
        while at < end {
            at = match self.text[at] {
                b'"' => self.scan_quote(at),
                b'=' => self.scan_value(at),
                b'>' if self.is_markup => self.scan_tag_end(at),
                byte if BYTE_CLASSES[usize::from(byte)] & DELIMITER != 0 => at + 1,
                _ => self.scan_chunk(at),
            };
        }
        at
    }

    fn push(&mut self, start: usize, end: usize, kind: VariableKind) -> usize {
        if end > start {
            self.variables.push(Variable::new(start, end, kind));
        }
        end
    }

    /// Handles a quote at `at`: a JSON key is literal, other texts are variables.
    fn scan_quote(&mut self, at: usize) -> usize {
        let close = if self.quotes { scan_quoted_text(self.text, at + 1) } else { None };
        let Some((close, has_quotes)) = close else {
            self.quotes = false;
            // A truncated event usually ends within a string.
            return match self.text.trim_ascii_start() {
                [b'{' | b'[', ..] => {
                    self.push(at + 1, unclosed_end(self.text, at + 1), VariableKind::Unclosed);
                    self.text.len()
                }
                _ => at + 1,
            };
        };
        let behind = self.skip_blanks(close + 1);
        if self.text.get(behind) != Some(&b':') {
            return self.scan_phrase(at + 1, close, has_quotes);
        }
        self.is_json = true;
        let value = self.skip_blanks(behind + 1);
        match self.text.get(value) {
            None | Some(b'"' | b'{' | b'[') => value,
            Some(_) => {
                let end = run_end(self.text, value, JSON_END);
                let is_scalar = is_json_scalar(&self.text[value..end]);
                self.push(value, end, if is_scalar { VariableKind::Json } else { VariableKind::OddScalar })
            }
        }
    }

    /// Handles a quoted text that is not a key; the quotes are not part of it.
    fn scan_phrase(&mut self, start: usize, close: usize, has_quotes: bool) -> usize {
        if self.is_json || self.is_markup {
            let kind = match is_string_content(&self.text[start..close]) {
                _ if self.is_markup => VariableKind::Quoted,
                true => VariableKind::Content,
                false => VariableKind::OddContent,
            };
            self.push(start, close, kind);
            return close + 1;
        }
        if self.has_outcome {
            let is_odd = has_quotes || !self.text[start..close].is_ascii();
            self.push(start, close, VariableKind::Access(if is_odd { AccessPart::OddNote } else { AccessPart::Note }));
            return close + 1;
        }
        if !split_request(self.text, start, close, self.variables) {
            self.push(start, close, if has_quotes { VariableKind::Escaped } else { VariableKind::Phrase });
        }
        match split_status_and_size(self.text, close, self.variables) {
            Some(behind) => {
                self.has_outcome = true;
                behind
            }
            None => close + 1,
        }
    }

    /// Handles the quoted value of a key; the quotes are not part of it.
    fn scan_quoted_value(&mut self, start: usize, close: usize, has_quotes: bool) -> usize {
        let kind = match (self.is_json || self.is_markup, has_quotes) {
            (true, _) => VariableKind::Quoted,
            (false, true) => VariableKind::Escaped,
            (false, false) => VariableKind::Text,
        };
        self.push(start, close, kind);
        close + 1
    }

    fn skip_blanks(&self, mut at: usize) -> usize {
        while class_at(self.text, at) & BLANK != 0 {
            at += 1;
        }
        at
    }

    /// Handles an equals sign at `at`.
    fn scan_value(&mut self, at: usize) -> usize {
        let from = at + 1;
        let has_key = at > 0 && BYTE_CLASSES[usize::from(self.text[at - 1])] & DELIMITER == 0;
        match self.text.get(from) {
            // `<Data Name='TargetUserName'>` names the text that follows, as a key does.
            Some(quote @ (b'"' | b'\'')) if self.is_markup && self.text[..at].ends_with(b" Name") => {
                memchr(*quote, &self.text[from + 1..]).map_or(from + 1, |len| from + len + 2)
            }
            Some(b'=') => from + 1,
            _ if !has_key => from,
            Some(b'"') if self.quotes => match scan_quoted_text(self.text, from + 1) {
                Some((close, has_quotes)) => self.scan_quoted_value(from + 1, close, has_quotes),
                None => self.scan_quote(from),
            },
            Some(b'\'') if self.is_markup && self.singles => match memchr(b'\'', &self.text[from + 1..]) {
                Some(len) => {
                    self.push(from + 1, from + 1 + len, VariableKind::Single);
                    from + len + 2
                }
                None => {
                    self.singles = false;
                    from + 1
                }
            },
            _ => {
                let end = run_end(self.text, from, VALUE_END);
                self.push(from, end, VariableKind::Value)
            }
        }
    }

    /// Handles the closing bracket of a tag at `at`.
    fn scan_tag_end(&mut self, at: usize) -> usize {
        let from = at + 1;
        let Some(len) = memchr(b'<', &self.text[from..]) else { return from };
        let end = from + len;
        let is_text = self.text.get(end + 1) == Some(&b'/') && self.skip_blanks(from) < end;
        if is_text { self.push(from, end, VariableKind::Markup) } else { end.max(from) }
    }

    fn scan_chunk(&mut self, at: usize) -> usize {
        let end = run_end(self.text, at, DELIMITER);
        let trimmed = trim_punctuation(self.text, at, end);
        if self.is_key(at, end) {
            return end;
        }
        if is_variable(self.text, at, trimmed) {
            self.push(at, trimmed, VariableKind::Chunk);
        } else if self.is_between_separators(at, end) {
            self.push(at, trimmed, VariableKind::Field);
        }
        end
    }

    /// Whether a chunk is the key of a pair, such as `session-id-32="…"`. A key is literal even if it contains digits:
    /// stored as a variable, it would hide the field. Parameters of URLs do not count, because there may be any number
    /// of different parameters.
    fn is_key(&self, start: usize, end: usize) -> bool {
        let is_of_key = |byte: &u8| BYTE_CLASSES[usize::from(*byte)] & KEY != 0;
        let before = start.checked_sub(1).map(|at| self.text[at]);
        let is_bounded =
            before.is_none_or(|byte| BYTE_CLASSES[usize::from(byte)] & BLANK != 0 || Some(byte) == self.separator);
        let digits = self.text[start..end].iter().filter(|byte| byte.is_ascii_digit()).count();
        // An equals sign with nothing after it may be the padding of base64.
        let has_value =
            class_at(self.text, end + 1) & BLANK == 0 && !matches!(self.text.get(end + 1), None | Some(b'='));
        self.text.get(end) == Some(&b'=')
            && has_value
            && is_bounded
            && match self.text[start].is_ascii_alphabetic() {
                true => digits <= KEY_DIGITS_MAX && self.text[start..end].iter().all(is_of_key),
                false => self.separator.is_some() && is_number_key(&self.text[start..end]),
            }
    }

    /// Whether a chunk is between two equal separators.
    fn is_between_separators(&self, start: usize, end: usize) -> bool {
        let before = start.checked_sub(1).map(|at| self.text[at]);
        matches!(before, Some(b',' | b'|' | b'\t')) && self.text.get(end).is_none_or(|after| Some(*after) == before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_variables() {
        let texts_of = |text: &'static str| {
            let mut variables = Vec::new();
            split_event(text.as_bytes(), &mut variables);
            variables.iter().map(|variable| &text[variable.start..variable.end]).collect::<Vec<_>>()
        };
        assert_eq!(texts_of("GET http://host.example/path done"), ["http://host.example/path"]);
        assert_eq!(texts_of("opened postgresql://db/main."), ["postgresql://db/main"]);
        for text in ["see :// and http:// now", "note: all is well", "longer-than-any-scheme://host"] {
            assert!(texts_of(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn an_address_is_not_part_of_a_longer_word_or_number() {
        let address = |text: &[u8]| address_end(text, 0, word_end(text, 0));
        for text in ["1.2.3.4", "1.2.3.4:80", "1.2.3.4.", "1.2.3.4. x", "1.2.3.4..."] {
            assert_eq!(address(text.as_bytes()), Some(7), "{text:?}");
        }
        for text in ["1.2.3.4.5", "1.2.3.4567", "1.2.3.4x", "1.2.3.4%2F", "1.2.3", "1234.2.3.4"] {
            assert_eq!(address(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(address_end(b"1.2.3.4.5", 2, 3), None);
    }
}
