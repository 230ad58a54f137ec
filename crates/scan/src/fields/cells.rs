//! Cells of a text separated by delimiters outside quotes, as `DELIMS` of transforms.conf defines them.
//!
//! Inside quotes a delimiter is an ordinary character; a backslash takes the next character literally. A doubled quote
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
        Delimiters { ascii, others: others.into() }
    }

    pub(crate) fn contains(&self, letter: char) -> bool {
        match u8::try_from(letter) {
            Ok(byte) if byte.is_ascii() => self.ascii.contains(byte),
            _ => self.others.contains(letter),
        }
    }

    /// Bytes that can change the state: every text that ends a cell, opens or closes quotes, or escapes a character
    /// contains one of them.
    pub(crate) fn special_bytes(&self) -> ByteSet {
        let mut signs = self.ascii.union(ByteSet::of(b"\"\\"));
        if !self.others.is_empty() {
            (0x80..=u8::MAX).for_each(|byte| signs.insert(byte));
        }
        signs
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

/// The cells of `text` in order, at least one.
pub(crate) fn split_cells<'t>(text: &'t str, delimiters: &Delimiters) -> impl Iterator<Item = &'t str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut state = CellState::default();
        let end = text.char_indices().find(|(_, letter)| state.step(*letter, delimiters));
        rest = end.map(|(at, letter)| &text[at + letter.len_utf8()..]);
        Some(end.map_or(text, |(at, _)| &text[..at]))
    })
}

/// A doubled quote.
pub(crate) const DOUBLED_QUOTE: &str = "\"\"";

/// The value of a cell: surrounding blanks and quotes are removed; in a quoted cell each doubled quote becomes one.
pub(crate) fn cell_value(cell: &str) -> Cow<'_, str> {
    match strip_quotes(cell) {
        (text, true) if text.contains(DOUBLED_QUOTE) => Cow::Owned(text.replace(DOUBLED_QUOTE, "\"")),
        (text, _) => Cow::Borrowed(text),
    }
}

/// Appends the inside of a quoted cell; each doubled quote becomes one.
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
    cell.trim_matches([' ', '\t', '\r', '\n'])
}

/// A cell without surrounding blanks and quotes, and whether there were quotes.
pub(crate) fn strip_quotes(cell: &str) -> (&str, bool) {
    let text = trim_blanks(cell);
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    (inside.unwrap_or(text), inside.is_some())
}
