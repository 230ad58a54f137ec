//! Cells of a text separated by delimiters outside quotes, as `DELIMS` of transforms.conf defines them.
//!
//! Inside quotes a delimiter is an ordinary character; a backslash makes the next character literal. A doubled quote
//! in a quoted cell stands for one quote, as in CSV; Splunk does not document this case. There are no errors: an
//! unclosed quote turns the rest of the text into one cell. The state between two characters is a value
//! ([`CellState`]), so that a property of one text can be proven for all texts of a template.

use std::borrow::Cow;

use quarry_event::template::ByteSet;

/// A set of delimiter characters.
#[derive(Debug)]
pub(crate) struct Delimiters {
    ascii: ByteSet,
    others: Box<str>,
    /// Bytes that can change the state.
    special: ByteSet,
    /// The special bytes, if there are exactly three.
    three: Option<[u8; 3]>,
}

impl Delimiters {
    /// Makes every character of `list` a delimiter.
    pub(crate) fn new(list: &str) -> Delimiters {
        let (mut ascii, mut others) = (ByteSet::EMPTY, String::new());
        for letter in list.chars() {
            match u8::try_from(letter) {
                Ok(byte) if byte.is_ascii() => ascii.insert(byte),
                _ => others.push(letter),
            }
        }
        let mut special = ascii.union(ByteSet::of(b"\"\\"));
        if !others.is_empty() {
            (0x80..=u8::MAX).for_each(|byte| special.insert(byte));
        }
        let three = special.iter().collect::<Vec<u8>>().try_into().ok();
        Delimiters { ascii, others: others.into(), special, three }
    }

    pub(crate) fn contains(&self, letter: char) -> bool {
        match u8::try_from(letter) {
            Ok(byte) if byte.is_ascii() => self.ascii.contains(byte),
            _ => self.others.contains(letter),
        }
    }

    /// Bytes that can change the state: every text that ends a cell, opens or closes quotes, or escapes a character
    /// contains such a byte.
    pub(crate) fn special_bytes(&self) -> ByteSet {
        self.special
    }

    /// Bytes of the delimiters, and all bytes beyond ASCII if a delimiter has such bytes.
    pub(crate) fn delimiter_bytes(&self) -> ByteSet {
        match self.others.is_empty() {
            true => self.ascii,
            false => (0x80..=u8::MAX).fold(self.ascii, |set, byte| set.union(ByteSet::of(&[byte]))),
        }
    }

    /// Position of the first byte that can change the state.
    fn find_special(&self, bytes: &[u8]) -> Option<usize> {
        match self.three {
            Some([one, two, three]) => memchr::memchr3(one, two, three, bytes),
            None => bytes.iter().position(|byte| self.special.contains(*byte)),
        }
    }

    /// The first character of a text that ends the cell.
    fn find_end(&self, text: &str) -> Option<(usize, char)> {
        let (mut state, mut at) = (CellState::default(), 0);
        loop {
            if !state.escaped {
                at += self.find_special(&text.as_bytes()[at..])?;
            }
            let letter = text[at..].chars().next()?;
            if state.step(letter, self) {
                return Some((at, letter));
            }
            at += letter.len_utf8();
        }
    }
}

/// State of the splitter between two characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CellState {
    /// In quotes.
    pub quoted: bool,
    /// After a backslash.
    pub escaped: bool,
}

impl CellState {
    /// Consumes one character; true if it ends the cell.
    #[inline]
    pub(crate) fn step(&mut self, letter: char, delimiters: &Delimiters) -> bool {
        match letter {
            _ if self.escaped => self.escaped = false,
            '\\' => self.escaped = true,
            '"' if !delimiters.contains('"') => self.quoted = !self.quoted,
            letter => return !self.quoted && delimiters.contains(letter),
        }
        false
    }
}

/// The cells of `text` in order, at least one cell.
pub(crate) fn split_cells<'t>(text: &'t str, delimiters: &Delimiters) -> impl Iterator<Item = &'t str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = delimiters.find_end(text);
        rest = end.map(|(at, letter)| &text[at + letter.len_utf8()..]);
        Some(end.map_or(text, |(at, _)| &text[..at]))
    })
}

pub(crate) const DOUBLED_QUOTE: &str = "\"\"";

/// The value of a cell: surrounding blanks and quotes are removed; in a quoted cell, each doubled quote becomes one
/// quote.
pub(crate) fn cell_value(cell: &str) -> Cow<'_, str> {
    match strip_quotes(cell) {
        (text, true) if text.contains(DOUBLED_QUOTE) => Cow::Owned(text.replace(DOUBLED_QUOTE, "\"")),
        (text, _) => Cow::Borrowed(text),
    }
}

/// Appends the inside of a quoted cell; each doubled quote becomes one quote.
pub(crate) fn append_undoubled(written: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for at in memchr::memmem::find_iter(written, DOUBLED_QUOTE) {
        out.extend_from_slice(&written[from..=at]);
        from = at + DOUBLED_QUOTE.len();
    }
    out.extend_from_slice(&written[from..]);
}

/// A cell without surrounding blanks. Only blanks that are breakers are removed, so that a value consists of whole
/// tokens.
pub(crate) fn trim_blanks(cell: &str) -> &str {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let bytes = cell.as_bytes();
    let start = bytes.iter().take_while(|byte| is_blank(byte)).count();
    let end = bytes.len() - bytes[start..].iter().rev().take_while(|byte| is_blank(byte)).count();
    &cell[start..end]
}

/// A cell without surrounding blanks and quotes, and whether there were quotes.
pub(crate) fn strip_quotes(cell: &str) -> (&str, bool) {
    let text = trim_blanks(cell);
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    (inside.unwrap_or(text), inside.is_some())
}
