//! How a text is divided into tokens, the unit of search, and how a search word is found in a text.
//!
//! Splunk's default segmenter has *major* breakers (blanks, brackets, quotes, some percent-encoded bytes) and *minor*
//! ones (`.`, `/`, `=`, ...). The term dictionary stores *tokens*: what lies between any two breakers, lower-cased and
//! cut to [`MAX_TOKEN_BYTES`]. [`WordPattern`] checks a word or phrase on the text itself, bounded by breakers on both
//! sides. The two agree: a text that a pattern matches always holds the tokens that [`crate::TermQuery`] asks for.
//!
//! Not here: other segmenters (full, inner, outer), posting lists.

mod pattern;

pub use pattern::{WordBound, WordPattern, contains_term, contains_word, matches_term_pattern, matches_word_pattern};

/// Tokens are indexed and looked up by at most this many bytes of their lower-cased form, cut at a character border.
pub const MAX_TOKEN_BYTES: usize = 255;

const MAJOR: u8 = 1;
const MINOR: u8 = 2;

/// Breaker class of every byte. Bytes beyond ASCII never break.
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

/// Percent-encoded majors without their `%`, longest first.
const PERCENT_MAJORS: [&[u8]; 16] = [
    b"2526", b"2520", b"20", b"21", b"26", b"3B", b"7C", b"2B", b"3D", b"5D", b"5B", b"3A", b"0A", b"2C", b"28", b"29",
];
/// Bytes of the longest percent-encoded major.
pub(crate) const PERCENT_MAJOR_BYTES_MAX: usize = 5;

/// Whether the byte is a major breaker on its own.
#[inline]
pub fn is_major(byte: u8) -> bool {
    CLASS[byte as usize] == MAJOR
}

/// Whether the byte is a major or minor breaker.
#[inline]
pub fn is_breaker(byte: u8) -> bool {
    CLASS[byte as usize] != 0
}

/// Length of the percent-encoded major that starts at `at`, where a `%` stands; 0 if none does.
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

/// Replaces `out` by the form of a token that the term dictionary stores: lower-cased, at most [`MAX_TOKEN_BYTES`]
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
