//! Segmentation: division of text into tokens, the unit of search, and matching of search words.
//!
//! Splunk's default segmenter has *major* breakers (blanks, brackets, quotes, some percent-encoded bytes) and *minor*
//! ones (`.`, `/`, `=`, ...). The term dictionary stores *tokens*: the text between any two adjacent breakers,
//! lower-cased and cut to [`MAX_TOKEN_BYTES`]. [`WordPattern`] matches a word or phrase, bounded by breakers on both
//! sides, on the text itself. The two are consistent: a text that a pattern matches always contains the tokens that
//! [`crate::TermQuery`] asks for.
//!
//! Not here: other segmenters (full, inner, outer), posting lists.

mod pattern;

pub use pattern::{WordBound, WordPattern, contains_term, contains_word, matches_term_pattern, matches_word_pattern};

/// Maximum bytes of a token's lower-cased form in the index and in queries, cut at a character boundary.
pub const MAX_TOKEN_BYTES: usize = 255;

const MAJOR: u8 = 1;
const MINOR: u8 = 2;

/// Breaker class of every byte. Non-ASCII bytes never break.
static CLASS: [u8; 256] = {
    let mut class = [0u8; 256];
    let majors = b"[]<>(){}|!;,'\"*\n\r \t&?+";
    let minors = b"/:=@.-$#%\\_";
    let mut at = 0;
    while at < majors.len() {
        class[majors[at] as usize] = MAJOR;
        at += 1;
    }
    at = 0;
    while at < minors.len() {
        class[minors[at] as usize] = MINOR;
        at += 1;
    }
    class
};

/// Percent-encoded major breakers without their `%`, longest first.
const PERCENT_MAJORS: [&[u8]; 16] = [
    b"2526", b"2520", b"20", b"21", b"26", b"3B", b"7C", b"2B", b"3D", b"5D", b"5B", b"3A", b"0A", b"2C", b"28", b"29",
];
/// Length of the longest percent-encoded major breaker.
pub(crate) const PERCENT_MAJOR_BYTES_MAX: usize = 5;

/// Whether the byte alone is a major breaker.
#[inline]
pub fn is_major(byte: u8) -> bool {
    CLASS[byte as usize] == MAJOR
}

/// Whether the byte is a major or minor breaker.
#[inline]
pub fn is_breaker(byte: u8) -> bool {
    CLASS[byte as usize] != 0
}

/// Length of the percent-encoded major breaker that starts with the `%` at `at`; 0 if none does.
#[inline]
pub(crate) fn percent_major_len(text: &[u8], at: usize) -> usize {
    let rest = &text[at + 1..];
    let found =
        PERCENT_MAJORS.iter().find(|code| rest.len() >= code.len() && rest[..code.len()].eq_ignore_ascii_case(code));
    found.map_or(0, |code| code.len() + 1)
}

/// Calls `token` with every token of the text as written, in order.
#[inline]
pub fn for_each_token(text: &[u8], mut token: impl FnMut(&[u8])) {
    let mut start = 0;
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if CLASS[byte as usize] == 0 {
            at += 1;
            continue;
        }
        if at > start {
            token(&text[start..at]);
        }
        at += 1;
        if byte == b'%' {
            at += percent_major_len(text, at - 1).saturating_sub(1);
        }
        start = at;
    }
    if start < text.len() {
        token(&text[start..]);
    }
}

/// Writes to `out` the form in which the term dictionary stores a token: lower-cased, at most [`MAX_TOKEN_BYTES`]
/// bytes.
#[inline]
pub fn lower_token(token: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let head = &token[..token.len().min(MAX_TOKEN_BYTES)];
    if head.is_ascii() {
        out.extend(head.iter().map(u8::to_ascii_lowercase));
        return;
    }
    lower_unicode(token, out);
}

/// Lower-cases character by character, so that the result does not depend on neighbours, and stops at the limit.
#[cold]
fn lower_unicode(token: &[u8], out: &mut Vec<u8>) {
    for chunk in token.utf8_chunks() {
        for lower in chunk.valid().chars().flat_map(char::to_lowercase) {
            if out.len() + lower.len_utf8() > MAX_TOKEN_BYTES {
                return;
            }
            out.extend_from_slice(lower.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if out.len() + chunk.invalid().len() > MAX_TOKEN_BYTES {
            return;
        }
        out.extend_from_slice(chunk.invalid());
    }
}

#[cfg(test)]
mod tests;
