//! Byte classes of the tokenisers as one table, and searches for the end of a run.
//!
//! Every rule of the tokenisers tests single bytes, so one lookup in a table of 256 entries answers all of them.

use memchr::memchr2;
use quarry_stdx::number::u8_of;

/// Ends a chunk of an event.
pub(super) const DELIMITER: u8 = 1;
/// Ends the value of `key=value`: the bytes at which field extraction ends values, and the separator of FIX messages.
pub(super) const VALUE_END: u8 = 2;
/// Ends a JSON number or word.
pub(super) const JSON_END: u8 = 4;
/// Breaker of the segmenter: ends a word.
pub(super) const BREAKER: u8 = 8;
/// Letter, digit or underscore: part of a word that can name a variable.
pub(super) const WORD: u8 = 16;
/// Digit of a lower-case hexadecimal number.
pub(super) const HEX: u8 = 32;
/// Blank, tab or line break.
pub(super) const BLANK: u8 = 64;
/// Part of the key of a pair: ASCII letter, digit, underscore, point or dash.
pub(super) const KEY: u8 = 128;

/// Number of words of eight bytes that are searched for a quote before a search function is called.
const WORDS_TESTED_INLINE: usize = 4;

/// Ends each pair of a FIX message.
pub(super) const FIX_SEPARATOR: u8 = 1;

pub(super) static BYTE_CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0u8; 256];
    let mut at = 0;
    while at < 256 {
        let byte = u8_of(at);
        let mut class = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => DELIMITER | VALUE_END | JSON_END | BLANK,
            b',' => DELIMITER | VALUE_END | JSON_END,
            FIX_SEPARATOR => DELIMITER | VALUE_END,
            b';' | b'|' | b'&' | b'"' => DELIMITER | VALUE_END,
            b'}' | b']' => DELIMITER | JSON_END,
            b'\'' | b'=' | b'(' | b')' | b'[' | b'{' | b'<' | b'>' | b'?' | b'!' | b'*' => DELIMITER,
            b'0'..=b'9' => WORD | HEX,
            b'a'..=b'f' => WORD | HEX,
            b'g'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => WORD,
            _ => 0,
        };
        if is_word_end(byte) {
            class |= BREAKER;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-') {
            class |= KEY;
        }
        classes[at] = class;
        at += 1;
    }
    classes
}

/// The breakers of the segmenter; a test compares both definitions.
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
    text.get(at).map_or(0, |byte| BYTE_CLASSES[usize::from(*byte)])
}

/// End of the run of bytes from `from` that are not in `class`. The class must not contain letters, digits, dashes,
/// points, slashes or colons; they are skipped eight at a time.
#[inline(always)]
pub(super) fn run_end(text: &[u8], from: usize, class: u8) -> usize {
    run_end_after_plain(text, from, class, |chunk| other_bytes(chunk, b'-', b':'))
}

/// End of the run of bytes from `from` that are not breakers.
#[inline(always)]
pub(super) fn word_run_end(text: &[u8], from: usize) -> usize {
    run_end_after_plain(text, from, BREAKER, |chunk| other_bytes(chunk, b'0', b'9'))
}

/// End of the run of bytes from `from` that are not in `class`. `others` marks those of eight bytes that may be in the
/// class.
#[inline(always)]
fn run_end_after_plain(text: &[u8], from: usize, class: u8, others: impl Fn(&[u8; 8]) -> u64) -> usize {
    let mut at = from;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        let others = others(chunk);
        if others == 0 {
            // The step is a constant, so that the processor loads the next chunk before it has tested this one.
            at += 8;
            continue;
        }
        at += (others.trailing_zeros() / 8) as usize;
        if BYTE_CLASSES[usize::from(text[at])] & class != 0 {
            return at;
        }
        at += 1;
    }
    run_end_bytewise(text, at, class)
}

/// End of the run of visible ASCII characters from `from`, excluding quotes and `other`. Bytes are tested eight at a
/// time. Each test flags its first matching byte and may flag bytes after it by mistake, so only the first flag of all
/// tests is used.
#[inline(always)]
pub(super) fn graphic_run_end(text: &[u8], from: usize, other: u8) -> usize {
    let mut at = from;
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let bytes = u64::from_le_bytes(*chunk);
        let below = |bytes: u64, bound: u8| bytes.wrapping_sub(u64::from(bound) * ONE_PER_BYTE) & !bytes;
        let equal = |byte: u8| below(bytes ^ (u64::from(byte) * ONE_PER_BYTE), 1);
        let stops = (bytes | below(bytes, b'!') | equal(b'"') | equal(other) | equal(0x7f)) & TOP_BITS;
        if stops != 0 {
            return at + (stops.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_stop = |byte: &u8| !byte.is_ascii_graphic() || *byte == b'"' || *byte == other;
    text.get(at..).map_or(at, |rest| at + rest.iter().position(is_stop).unwrap_or(rest.len()))
}

/// Position of the first quote or backslash from `at`. Quoted values are mostly short, so their bytes are tested here,
/// eight at a time as in [`graphic_run_end`], before a search function is called.
#[inline(always)]
pub(super) fn quote_or_escape(text: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..WORDS_TESTED_INLINE {
        let Some(chunk) = text.get(at..)?.first_chunk::<8>() else { break };
        let bytes = u64::from_le_bytes(*chunk);
        let zeroes = |bytes: u64| bytes.wrapping_sub(ONE_PER_BYTE) & !bytes;
        let equal = |byte: u8| zeroes(bytes ^ (u64::from(byte) * ONE_PER_BYTE));
        let found = (equal(b'"') | equal(b'\\')) & TOP_BITS;
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    memchr2(b'"', b'\\', text.get(at..)?).map(|len| at + len)
}

#[inline]
fn run_end_bytewise(text: &[u8], from: usize, class: u8) -> usize {
    let end = text[from..].iter().position(|byte| BYTE_CLASSES[usize::from(*byte)] & class != 0);
    end.map_or(text.len(), |len| from + len)
}

const ONE_PER_BYTE: u64 = 0x0101_0101_0101_0101;
const TOP_BITS: u64 = 0x80 * ONE_PER_BYTE;

/// For eight bytes in one register, sets the top bit of each byte whose lower seven bits are within the range: the sum
/// of seven bits and 128 minus a bound has its top bit set if the seven bits are at least the bound. The caller must
/// ignore the other bits, and exclude bytes from 128 on.
#[inline(always)]
fn mark_range(bytes: u64, low: u8, high: u8) -> u64 {
    let (bytes, low, high) = (bytes & !TOP_BITS, u64::from(0x80 - low), u64::from(0x7f - high));
    (bytes + low * ONE_PER_BYTE) & !(bytes + high * ONE_PER_BYTE)
}

/// Sets the top bit of each byte that is neither a letter nor from `low` to `high`, and no other bit.
#[inline(always)]
fn other_bytes(chunk: &[u8; 8], low: u8, high: u8) -> u64 {
    let bytes = u64::from_le_bytes(*chunk);
    let plain =
        (mark_range(bytes | (0x20 * ONE_PER_BYTE), b'a', b'z') | mark_range(bytes, low, high)) & !bytes & TOP_BITS;
    plain ^ TOP_BITS
}

/// Whether there is a digit in this range of a text. The first and last byte are tested first, because most numbers
/// begin or end with a digit. Bytes after the range are loaded as well, so that a short range needs no loop.
#[inline(always)]
pub(super) fn has_digit(text: &[u8], start: usize, end: usize) -> bool {
    let range = &text[start..end];
    if let [b'0'..=b'9', ..] | [.., b'0'..=b'9'] = range {
        return true;
    }
    let (mut at, mut left) = (start, range.len());
    while left > 0 {
        let Some(chunk) = text[at..].first_chunk::<8>() else { return text[at..end].iter().any(u8::is_ascii_digit) };
        let bytes = u64::from_le_bytes(*chunk);
        let digits = mark_range(bytes, b'0', b'9') & !bytes & TOP_BITS;
        if left <= 8 {
            return digits << (8 * (8 - left)) != 0;
        }
        if digits != 0 {
            return true;
        }
        (at, left) = (at + 8, left - 8);
    }
    false
}

/// Marks of the bytes of a text that is read as a whole. The marks are computed for all bytes in one pass, in wide
/// registers. The end of a chunk, and whether it has digits, is then found by testing eight marks at a time.
#[derive(Debug, Default)]
pub(super) struct ByteMarks(Vec<u8>);

/// A byte that may be a delimiter.
const MAY_STOP: u8 = 0x80;
const IS_DIGIT: u8 = 1;
/// Number of marks after the end of the text, so that eight marks can be loaded from every position in it.
const PADDING_MARKS: usize = 8;

impl ByteMarks {
    /// Marks this text.
    pub(super) fn compute(&mut self, text: &[u8]) {
        // There are no branches or tables, so that the compiler vectorises the loop.
        let mark = |byte: &u8| {
            let is_letter = (*byte | 0x20).wrapping_sub(b'a') < 26;
            let is_inner = byte.wrapping_sub(b'-') <= b':' - b'-' || *byte == b'_' || *byte >= 0x80;
            let is_digit = byte.wrapping_sub(b'0') < 10;
            (u8::from(!(is_letter | is_inner)) * MAY_STOP) | (u8::from(is_digit) * IS_DIGIT)
        };
        self.0.clear();
        self.0.extend(text.iter().map(mark));
        self.0.extend([MAY_STOP; PADDING_MARKS]);
    }

    /// Eight marks from a position in the text, the first in the lowest byte.
    #[inline(always)]
    fn load_marks(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(TOP_BITS, |chunk| u64::from_le_bytes(*chunk))
    }

    /// End of the chunk at `at`, like [`run_end`] with [`DELIMITER`]. `text` must be the marked text.
    #[inline(always)]
    pub(super) fn chunk_end(&self, text: &[u8], mut at: usize) -> usize {
        loop {
            let stops = self.load_marks(at) & TOP_BITS;
            if stops == 0 {
                at += 8;
                continue;
            }
            at += (stops.trailing_zeros() / 8) as usize;
            match text.get(at) {
                Some(byte) if BYTE_CLASSES[usize::from(*byte)] & DELIMITER == 0 => at += 1,
                _ => return at.min(text.len()),
            }
        }
    }

    /// Whether there is a digit in this range of the text.
    #[inline(always)]
    pub(super) fn has_digit(&self, mut start: usize, end: usize) -> bool {
        while start + 8 < end {
            if self.load_marks(start) & ONE_PER_BYTE != 0 {
                return true;
            }
            start += 8;
        }
        start < end && (self.load_marks(start) & ONE_PER_BYTE) << (8 * (8 - (end - start))) != 0
    }
}

/// Whether two texts are equal. Compared inline, because calling a comparison function costs more for the short texts
/// here.
#[inline]
pub(crate) fn texts_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if let (Some(tail), Some(other_tail)) = (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        let mut wrong = u64::from_le_bytes(*tail) ^ u64::from_le_bytes(*other_tail);
        for (word, other_word) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
            wrong |= u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other_word);
        }
        return wrong == 0;
    }
    if let (Some(tail), Some(other_tail)) = (one.last_chunk::<4>(), other.last_chunk::<4>()) {
        return tail == other_tail && one.first_chunk::<4>() == other.first_chunk::<4>();
    }
    match (one, other) {
        ([first, .., last], [other_first, .., other_last]) => {
            first == other_first && last == other_last && one[one.len() / 2] == other[one.len() / 2]
        }
        _ => one.first() == other.first(),
    }
}

/// Whether the byte is a breaker in the table of classes, which a test compares with the segmenter's breakers.
#[cfg(test)]
pub(super) fn is_segmenter_breaker(byte: u8) -> bool {
    BYTE_CLASSES[usize::from(byte)] & BREAKER != 0
}

#[cfg(test)]
mod tests;
