//! Converts bytes to event text.
//!
//! Event text is valid UTF-8. Valid bytes are unchanged, including control characters. Each invalid byte becomes
//! `\xHH`, so that nothing is lost and an event is always a valid text. Not here: other character sets.

use std::borrow::Cow;
use std::ops::Range;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Whether `raw` is valid text.
pub(crate) fn is_text(raw: &[u8]) -> bool {
    std::str::from_utf8(raw).is_ok()
}

/// Appends `raw` as text to `out`; returns the number of invalid bytes.
pub(crate) fn append_text(raw: &[u8], out: &mut Vec<u8>) -> u64 {
    let mut undecodable = 0;
    for chunk in raw.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        for byte in chunk.invalid() {
            out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            undecodable += 1;
        }
    }
    undecodable
}

/// Converts bytes to text, with invalid bytes escaped.
pub(crate) fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| escape_bytes(error.as_bytes()))
}

/// A part of a text, given by a range that may begin or end inside a character.
pub(crate) fn lossy_slice(text: &[u8], range: Range<usize>) -> Cow<'_, str> {
    let part = text.get(range).unwrap_or_default();
    std::str::from_utf8(part).map_or_else(|_| Cow::Owned(escape_bytes(part)), Cow::Borrowed)
}

fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    append_text(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Length of `text` after cutting it to at most `most` bytes at a character boundary.
pub(crate) fn cut_at_character(text: &[u8], most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    let is_inside = |at: usize| text[at] & 0xC0 == 0x80;
    // A character has at most four bytes; longer runs of continuation bytes are invalid anyway.
    (0..4).filter_map(|back| most.checked_sub(back)).find(|at| !is_inside(*at)).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_are_escaped() {
        let mut out = Vec::new();
        assert_eq!(append_text(b"a\xFF\xC3\x28\0z", &mut out), 2);
        assert_eq!(out, b"a\\xFF\\xC3(\0z");
        assert!(is_text("grün\0".as_bytes()));
    }

    #[test]
    fn truncation_never_splits_a_character() {
        assert_eq!(cut_at_character("grün".as_bytes(), 3), 2);
        assert_eq!(cut_at_character("grün".as_bytes(), 4), 4);
        assert_eq!(cut_at_character("grün".as_bytes(), 9), 5);
        assert_eq!(cut_at_character(&[0x80; 20], 10), 10);
    }
}
