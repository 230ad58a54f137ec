//! Segmentation: division of text into tokens, the unit of search, and matching of search words.
//!
//! Splunk's default segmenter has *major* breakers (blanks, brackets, quotes, some percent-encoded bytes) and *minor*
//! breakers (`.`, `/`, `=`, ...). The term dictionary stores *tokens*: the text between any two adjacent breakers,
//! lower-cased and cut to [`MAX_TOKEN_BYTES`]. [`WordPattern`] searches the text itself for a word or phrase with
//! breakers on both sides. Patterns and tokens are consistent: a text that a pattern matches always contains the
//! tokens that [`crate::TermQuery`] requires.
//!
//! Not here: other segmenters (full, inner, outer), posting lists.

mod pattern;
mod spellings;

pub use pattern::{WordBound, WordPattern, contains_term, contains_word, matches_term_pattern, matches_word_pattern};
pub use spellings::{cases_of, spellings};

/// Maximum bytes of a token's lower-cased form in the index and in queries, truncated at a character boundary.
pub const MAX_TOKEN_BYTES: usize = 255;

/// The whitespace (`\s` of regular expressions) that is not a breaker: vertical tab and form feed.
pub const UNBROKEN_BLANKS: [u8; 2] = [b'\x0b', b'\x0c'];

const MAJOR_BREAKER: u8 = 1;
const MINOR_BREAKER: u8 = 2;

/// Breaker class of every byte. Non-ASCII bytes never break.
static BREAKER_CLASSES: [u8; 256] = {
    let mut class = [0u8; 256];
    let majors = b"[]<>(){}|!;,'\"*\n\r \t&?+";
    let minors = b"/:=@.-$#%\\_";
    let mut at = 0;
    while at < majors.len() {
        class[majors[at] as usize] = MAJOR_BREAKER;
        at += 1;
    }
    at = 0;
    while at < minors.len() {
        class[minors[at] as usize] = MINOR_BREAKER;
        at += 1;
    }
    class
};

/// Percent-encoded major breakers without their `%`, longest first.
const PERCENT_MAJOR_BREAKERS: [&[u8]; 16] = [
    b"2526", b"2520", b"20", b"21", b"26", b"3B", b"7C", b"2B", b"3D", b"5D", b"5B", b"3A", b"0A", b"2C", b"28", b"29",
];
/// Length of the longest percent-encoded major breaker.
pub const PERCENT_MAJOR_BYTES_MAX: usize = 5;

/// Whether the byte alone is a major breaker.
#[inline]
pub fn is_major(byte: u8) -> bool {
    BREAKER_CLASSES[byte as usize] == MAJOR_BREAKER
}

/// Whether the byte is a major or minor breaker.
#[inline]
pub fn is_breaker(byte: u8) -> bool {
    BREAKER_CLASSES[byte as usize] != 0
}

/// Length of the percent-encoded major breaker that starts with the `%` at `at`; 0 if no breaker starts there.
#[inline]
pub(crate) fn percent_major_len(text: &[u8], at: usize) -> usize {
    let rest = &text[at + 1..];
    let found = PERCENT_MAJOR_BREAKERS
        .iter()
        .find(|code| rest.len() >= code.len() && rest[..code.len()].eq_ignore_ascii_case(code));
    found.map_or(0, |code| code.len() + 1)
}

/// Whether position `at` of a text may be inside a percent-encoded major breaker, for some bytes before and after the
/// text; with `is_free_before`, no such breaker begins before the text. All bytes of the breaker after the `%` are
/// hexadecimal digits.
pub fn may_be_inside_percent_major(text: &[u8], at: usize, is_free_before: bool) -> bool {
    if text.get(at).is_some_and(|after| !after.is_ascii_hexdigit()) {
        return false;
    }
    let from = at.saturating_sub(PERCENT_MAJOR_BYTES_MAX);
    match text[from..at].iter().rposition(|byte| !byte.is_ascii_hexdigit()) {
        Some(place) if text[from + place] == b'%' => {
            let rest = &text[from + place + 1..];
            PERCENT_MAJOR_BREAKERS.iter().any(|code| {
                let known = code.len().min(rest.len());
                rest[..known].eq_ignore_ascii_case(&code[..known])
            })
        }
        Some(_) => false,
        // The breaker may begin before the text.
        None => !is_free_before && at < PERCENT_MAJOR_BYTES_MAX,
    }
}

/// Calls `token` with every token of the text as written, in order.
///
/// The breakers of a block of bytes are found at once: a loop over single bytes would mispredict the end of nearly
/// every token.
#[inline]
pub fn for_each_token(text: &[u8], token: impl FnMut(&[u8])) {
    match text.len() {
        0..8 => for_each_token_bytewise(text, token),
        8..16 => for_each_token_blockwise::<8>(text, token),
        16..32 => for_each_token_blockwise::<16>(text, token),
        _ => for_each_token_blockwise::<32>(text, token),
    }
}

#[inline]
fn for_each_token_bytewise(text: &[u8], mut token: impl FnMut(&[u8])) {
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        if BREAKER_CLASSES[text[at] as usize] == 0 {
            at += 1;
            continue;
        }
        if at > start {
            token(&text[start..at]);
        }
        at = end_of_breaker(text, at);
        start = at;
    }
    if start < text.len() {
        token(&text[start..]);
    }
}

/// Like [`for_each_token`], in blocks of `BYTES` bytes, a multiple of eight; the text must have at least one block.
#[inline]
fn for_each_token_blockwise<const BYTES: usize>(text: &[u8], mut token: impl FnMut(&[u8])) {
    let (mut start, mut at) = (0, 0);
    let last = text.len().saturating_sub(BYTES);
    while at < text.len() {
        // The last block overlaps the previous block; breakers in the overlap are skipped.
        let from = at.min(last);
        let Some(block) = text[from..].first_chunk::<BYTES>() else { return for_each_token_bytewise(text, token) };
        let mut breakers = breaker_mask(block) & (u64::MAX << (at - from));
        while breakers != 0 {
            let breaker = from + breakers.trailing_zeros() as usize;
            breakers &= breakers - 1;
            if breaker > start {
                token(&text[start..breaker]);
            }
            start = end_of_breaker(text, breaker);
        }
        at = from + BYTES;
    }
    if start < text.len() {
        token(&text[start..]);
    }
}

/// Start of the text after the breaker at `at`. A percent-encoded breaker contains no other breaker.
#[inline(always)]
fn end_of_breaker(text: &[u8], at: usize) -> usize {
    let code = if text[at] == b'%' { percent_major_len(text, at).saturating_sub(1) } else { 0 };
    at + 1 + code
}

/// The breakers among up to 64 bytes, a multiple of eight: bit `i` is set if byte `i` is a breaker.
#[inline(always)]
fn breaker_mask<const BYTES: usize>(block: &[u8; BYTES]) -> u64 {
    /// Multiplication by this constant gathers the flags of eight bytes in the highest byte.
    const GATHER_MULTIPLIER: u64 = 0x0102_0408_1020_4080;
    // Bytes are compared instead of looked up in a table, so that the compiler can process many at once.
    let is_breaker = |byte: u8| {
        let within = |first: u8, count: u8| byte.wrapping_sub(first) < count;
        let is_blank = (byte == b'\t') | (byte == b'\n') | (byte == b'\r');
        is_blank | within(b' ', 16) | within(b':', 7) | within(b'[', 3) | (byte == b'_') | within(b'{', 3)
    };
    let mut flags = [0u8; BYTES];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(is_breaker(*byte));
    }
    let eights = flags.as_chunks::<8>().0.iter().enumerate();
    eights.fold(0, |bits, (number, eight)| {
        bits | (u64::from_le_bytes(*eight).wrapping_mul(GATHER_MULTIPLIER) >> 56) << (8 * number)
    })
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

/// Lower-cases each character by itself, so that the folded parts of a text are parts of the folded text.
/// `str::to_lowercase` writes a sigma at the end of a word as ς; ς becomes σ here, so that a query lower-cased that way
/// still matches.
pub fn fold_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_lowercase).map(|lower| if lower == 'ς' { 'σ' } else { lower }).collect()
}

/// Lower-cases character by character, so that the result for a character does not depend on its neighbours, and stops
/// at the limit.
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
