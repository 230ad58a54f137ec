//! What each byte means to the shaper, as one table, and the bytes a run ends at.
//!
//! Every rule of the tokenisers asks about single bytes, so one look into a table of 256 answers all of them.

use quarry_event::segment::is_breaker;

/// Ends a token of an event.
pub(super) const DELIMITER: u8 = 1;
/// Ends the value of `key=value`; the same bytes that end it when fields are extracted.
pub(super) const VALUE_END: u8 = 2;
/// `0` to `9`.
pub(super) const DIGIT: u8 = 4;
/// Ends a JSON number or word.
pub(super) const JSON_END: u8 = 8;
/// Breaker of the segmenter: ends a word.
pub(super) const BREAKER: u8 = 16;
/// Letter, digit or underscore: part of a word that can name a slot.
pub(super) const WORD: u8 = 32;
/// Digit of a lower-case hexadecimal number.
pub(super) const HEX: u8 = 64;
/// Blank, tab or line break.
pub(super) const BLANK: u8 = 128;

pub(super) static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0u8; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let mut class = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => DELIMITER | VALUE_END | JSON_END | BLANK,
            b',' => DELIMITER | VALUE_END | JSON_END,
            b';' | b'|' | b'&' | b'"' => DELIMITER | VALUE_END,
            b'}' | b']' => DELIMITER | JSON_END,
            b'\'' | b'=' | b'(' | b')' | b'[' | b'{' | b'<' | b'>' | b'?' | b'!' | b'*' => DELIMITER,
            b'0'..=b'9' => DIGIT | WORD | HEX,
            b'a'..=b'f' => WORD | HEX,
            b'g'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => WORD,
            _ => 0,
        };
        if is_word_end(byte) {
            class |= BREAKER;
        }
        classes[at] = class;
        at += 1;
    }
    classes
}

/// The breakers of the segmenter; a test compares the two.
const fn is_word_end(byte: u8) -> bool {
    matches!(
        byte,
        b'[' | b']'
            | b'<'
            | b'>'
            | b'('
            | b')'
            | b'{'
            | b'}'
            | b'|'
            | b'!'
            | b';'
            | b','
            | b'\''
            | b'"'
            | b'*'
            | b'\n'
            | b'\r'
            | b' '
            | b'\t'
            | b'&'
            | b'?'
            | b'+'
    ) || matches!(byte, b'/' | b':' | b'=' | b'@' | b'.' | b'-' | b'$' | b'#' | b'%' | b'\\' | b'_')
}

/// Class of the byte at `at`; 0 beyond the end.
#[inline]
pub(super) fn class_at(text: &[u8], at: usize) -> u8 {
    text.get(at).map_or(0, |byte| CLASS[usize::from(*byte)])
}

/// End of the run of bytes from `from` on that are not of `class`, and all classes of the run.
#[inline]
pub(super) fn run(text: &[u8], from: usize, class: u8) -> (usize, u8) {
    let mut seen = 0;
    for (at, byte) in text[from..].iter().enumerate() {
        let found = CLASS[usize::from(*byte)];
        if found & class != 0 {
            return (from + at, seen);
        }
        seen |= found;
    }
    (text.len(), seen)
}

/// Whether the byte breaks words by the table of the segmenter.
pub(super) fn breaks(byte: u8) -> bool {
    debug_assert_eq!(is_breaker(byte), is_word_end(byte));
    CLASS[usize::from(byte)] & BREAKER != 0
}
