//! Scalars of a JSON text, with their paths.
//!
//! One pass over the bytes, with the current path in a buffer; no tree is built. A path joins keys with dots and marks
//! arrays with `{}`: `a.b{}.c`. Invalid JSON ends the scan, but fields found before are kept: a truncated event still
//! has its first fields. The parser is more lenient than the standard in one respect: strings may contain raw control
//! characters.

use std::borrow::Cow;

use memchr::memchr2;

/// Maximum nesting depth; deeper text is treated as invalid JSON.
pub const NESTING_MAX: usize = 128;

/// Text of a scalar: strings unescaped, all others as written.
pub type JsonText<'t> = Cow<'t, str>;

/// Passes path and text of every string, number and word (such as `null`) to `found`; scalars without a path are
/// skipped. Returns whether the whole text is one JSON value.
pub fn json_fields<'t>(text: &'t str, found: &mut dyn FnMut(&str, JsonText<'t>)) -> bool {
    walk(&mut Reader::new(text), found).is_some()
}

/// The byte at or after the position at which [`json_fields`] finds that the text is not JSON; `None` if the text is
/// JSON, or ends before that position.
pub fn json_stop(text: &str) -> Option<u8> {
    let mut reader = Reader::new(text);
    match walk(&mut reader, &mut |_, _| {}) {
        Some(()) => None,
        None => reader.peek_nonblank(),
    }
}

/// Unescapes a string given without its quotes; `None` if it is invalid.
pub fn json_string(written: &str) -> Option<JsonText<'_>> {
    if memchr2(b'"', b'\\', written.as_bytes()).is_none() {
        return Some(Cow::Borrowed(written));
    }
    let mut reader = Reader::new(written);
    let mut text = String::with_capacity(written.len());
    while let Some(end) = reader.plain_end(reader.at) {
        text.push_str(&written[reader.at..end]);
        reader.at = end;
        // A quote inside a string is escaped.
        if reader.next_byte()? == b'"' {
            return None;
        }
        text.push(reader.take_escape()?);
    }
    text.push_str(&written[reader.at..]);
    Some(Cow::Owned(text))
}

/// An open object or array.
struct Frame {
    /// Length of the enclosing path.
    path_length: usize,
    array: bool,
}

fn walk<'t>(reader: &mut Reader<'t>, found: &mut dyn FnMut(&str, JsonText<'t>)) -> Option<()> {
    let mut path = String::new();
    let mut open: Vec<Frame> = Vec::new();
    loop {
        let opened = matches!(reader.peek_nonblank()?, b'{' | b'[');
        if opened {
            let array = reader.next_byte() == Some(b'[');
            if open.len() == NESTING_MAX {
                return None;
            }
            open.push(Frame { path_length: path.len(), array });
            if array {
                path.push_str("{}");
            }
            if !reader.closes(array) {
                if !array {
                    read_key(reader, &mut path, open.last()?)?;
                }
                continue;
            }
        } else {
            let value = reader.scalar()?;
            if !path.is_empty() {
                found(&path, value);
            }
        }
        // A value has ended, or an empty container is about to end.
        loop {
            let Some(frame) = open.last() else {
                return reader.peek_nonblank().is_none().then_some(());
            };
            if reader.closes(frame.array) {
                reader.next_byte();
                path.truncate(frame.path_length);
                open.pop();
                continue;
            }
            if reader.next_byte() != Some(b',') {
                return None;
            }
            if !frame.array {
                read_key(reader, &mut path, frame)?;
            }
            break;
        }
    }
}

/// Reads `"key":` and appends the key to the object's path.
fn read_key(reader: &mut Reader<'_>, path: &mut String, object: &Frame) -> Option<()> {
    let key = reader.key()?;
    path.truncate(object.path_length);
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&key);
    Some(())
}

/// A position in a JSON text.
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Reader<'t> {
        Reader { text, at: 0 }
    }

    /// The next non-blank byte, without consuming it.
    pub(super) fn peek_nonblank(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes the next byte.
    pub(super) fn next_byte(&mut self) -> Option<u8> {
        let byte = self.text.as_bytes().get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    /// Whether the next character closes an array or object.
    pub(super) fn closes(&mut self, array: bool) -> bool {
        self.peek_nonblank() == Some(if array { b']' } else { b'}' })
    }

    /// Consumes `"key":`.
    pub(super) fn key(&mut self) -> Option<JsonText<'t>> {
        if self.peek_nonblank()? != b'"' {
            return None;
        }
        let key = self.string()?;
        (self.peek_nonblank()? == b':').then(|| self.at += 1)?;
        Some(key)
    }

    /// Consumes a string, number or word.
    pub(super) fn scalar(&mut self) -> Option<JsonText<'t>> {
        let rest = &self.text[self.at..];
        let length = match rest.as_bytes().first()? {
            b'"' => return self.string(),
            b'n' if rest.starts_with("null") => 4,
            b't' if rest.starts_with("true") => 4,
            b'f' if rest.starts_with("false") => 5,
            _ => number_length(rest.as_bytes())?,
        };
        self.at += length;
        Some(Cow::Borrowed(&rest[..length]))
    }

    /// Consumes a string; the next byte must be its opening quote.
    fn string(&mut self) -> Option<JsonText<'t>> {
        let from = self.at + 1;
        let end = self.plain_end(from)?;
        if self.text.as_bytes()[end] == b'"' {
            self.at = end + 1;
            return Some(Cow::Borrowed(&self.text[from..end]));
        }
        let mut plain = self.text[from..end].to_owned();
        self.at = end;
        loop {
            // The next byte is a backslash or the closing quote.
            if self.next_byte()? == b'"' {
                return Some(Cow::Owned(plain));
            }
            plain.push(self.take_escape()?);
            let end = self.plain_end(self.at)?;
            plain.push_str(&self.text[self.at..end]);
            self.at = end;
        }
    }

    /// Position of the next quote or backslash.
    fn plain_end(&self, from: usize) -> Option<usize> {
        memchr2(b'"', b'\\', self.text.as_bytes().get(from..)?).map(|length| from + length)
    }

    /// Consumes an escape sequence after its backslash, and returns the character.
    fn take_escape(&mut self) -> Option<char> {
        Some(match self.next_byte()? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            sign @ (b'"' | b'\\' | b'/') => char::from(sign),
            b'u' => {
                let unit = self.hex_unit()?;
                self.code_point(unit)?
            }
            _ => return None,
        })
    }

    fn hex_unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }

    /// Decodes a UTF-16 unit, with the second half of a surrogate pair if it follows; lone halves become the
    /// replacement character.
    fn code_point(&mut self, unit: u16) -> Option<char> {
        let before_pair = self.at;
        if (0xd800..0xdc00).contains(&unit) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            let low = self.hex_unit()?;
            if let Some(Ok(pair)) = char::decode_utf16([unit, low]).next() {
                return Some(pair);
            }
            self.at = before_pair;
        }
        Some(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Consumes any value and returns its text. Commas, colons and kinds of brackets inside it are not checked.
    pub(super) fn value_text(&mut self) -> Option<&'t str> {
        self.peek_nonblank()?;
        let from = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek_nonblank()? {
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                b'"' => self.skip_string()?,
                _ => {
                    self.scalar()?;
                }
            }
            if depth == 0 {
                return Some(&self.text[from..self.at]);
            }
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        let mut from = self.at + 1;
        loop {
            let end = self.plain_end(from)?;
            if self.text.as_bytes()[end] == b'"' {
                self.at = end + 1;
                return Some(());
            }
            from = end + 2;
        }
    }
}

/// Length of the number at the start of a text.
fn number_length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        at += 1 + fraction;
        if fraction == 0 {
            return None;
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        at += exponent;
        if exponent == 0 {
            return None;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests;
