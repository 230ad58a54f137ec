//! Byte classes of the tokenisers as one table, and searches for the end of a run.
//!
//! Every rule of the tokenisers tests single bytes, so one lookup in a table of 256 entries answers all of them.

/// Ends a chunk of an event.
pub(super) const DELIMITER: u8 = 1;
/// Ends the value of `key=value`; field extraction ends values at the same bytes.
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

pub(super) static BYTE_CLASSES: [u8; 256] = classes();

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
/// points, slashes or colons; these are skipped eight at a time.
#[inline(always)]
pub(super) fn run_end(text: &[u8], from: usize, class: u8) -> usize {
    let mut at = from;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        let plain = plain_prefix_len(chunk, b'-', b':');
        at += plain;
        if plain < 8 {
            if BYTE_CLASSES[usize::from(text[at])] & class != 0 {
                return at;
            }
            at += 1;
        }
    }
    run_end_bytewise(text, at, class)
}

/// End of the run of bytes from `from` that are not breakers.
#[inline(always)]
pub(super) fn word_run_end(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        let plain = plain_prefix_len(chunk, b'0', b'9');
        at += plain;
        if plain < 8 {
            if BYTE_CLASSES[usize::from(text[at])] & BREAKER != 0 {
                return at;
            }
            at += 1;
        }
    }
    run_end_bytewise(text, at, BREAKER)
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

#[inline]
fn run_end_bytewise(text: &[u8], from: usize, class: u8) -> usize {
    let end = text[from..].iter().position(|byte| BYTE_CLASSES[usize::from(*byte)] & class != 0);
    end.map_or(text.len(), |len| from + len)
}

const ONE_PER_BYTE: u64 = 0x0101_0101_0101_0101;
const TOP_BITS: u64 = 0x80 * ONE_PER_BYTE;

/// Sets the top bit of each byte whose lower seven bits are within the range, for eight bytes in one register: a sum of
/// seven bits and 128 minus a bound has its top bit set from the bound on. The caller must ignore the other bits, and
/// exclude bytes from 128 on.
#[inline(always)]
fn mark_range(bytes: u64, low: u8, high: u8) -> u64 {
    let (bytes, low, high) = (bytes & !TOP_BITS, u64::from(0x80 - low), u64::from(0x7f - high));
    (bytes + low * ONE_PER_BYTE) & !(bytes + high * ONE_PER_BYTE)
}

/// Number of leading bytes that are letters or from `low` to `high`.
#[inline(always)]
fn plain_prefix_len(chunk: &[u8; 8], low: u8, high: u8) -> usize {
    let bytes = u64::from_le_bytes(*chunk);
    let plain =
        (mark_range(bytes | (0x20 * ONE_PER_BYTE), b'a', b'z') | mark_range(bytes, low, high)) & !bytes & TOP_BITS;
    ((plain ^ TOP_BITS).trailing_zeros() / 8) as usize
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

/// Marks of the bytes of a text that is read as a whole: one bit per byte for delimiters, and one for digits. They are
/// computed for all bytes in one pass, in wide registers. The end of a chunk, and whether it has digits, is then found
/// by testing 64 bytes at a time: a loop over fewer would mispredict the end of nearly every word.
#[derive(Debug, Default)]
pub(super) struct ByteMarks {
    /// Both have a bit for each byte, in words of 64. Bytes after the end of the text count as delimiters.
    delimiters: Vec<u64>,
    digits: Vec<u64>,
    /// Length of the text.
    len: usize,
}

const BYTES_PER_WORD: usize = 64;

impl ByteMarks {
    /// Marks this text.
    pub(super) fn compute(&mut self, text: &[u8]) {
        self.delimiters.clear();
        self.digits.clear();
        self.len = text.len();
        let (blocks, rest) = text.as_chunks::<BYTES_PER_WORD>();
        blocks.iter().for_each(|block| self.push(block));
        let mut last = [b' '; BYTES_PER_WORD];
        last[..rest.len()].copy_from_slice(rest);
        self.push(&last);
    }

    #[inline(always)]
    fn push(&mut self, block: &[u8; BYTES_PER_WORD]) {
        self.delimiters.push(flag_bits(block, is_delimiter));
        self.digits.push(flag_bits(block, |byte| byte.wrapping_sub(b'0') < 10));
    }

    /// The bits of the 64 bytes from a position on.
    #[inline(always)]
    fn load(words: &[u64], at: usize, behind: u64) -> u64 {
        let (word, shift) = (at / BYTES_PER_WORD, at % BYTES_PER_WORD);
        let low = words.get(word).copied().unwrap_or(behind);
        let high = words.get(word + 1).copied().unwrap_or(behind);
        // Two shifts, because a shift by all 64 bits is undefined.
        low >> shift | high << 1 << (BYTES_PER_WORD - 1 - shift)
    }

    /// End of the chunk at `at`, like [`run_end`] with [`DELIMITER`] in the marked text.
    #[inline(always)]
    pub(super) fn chunk_end(&self, mut at: usize) -> usize {
        loop {
            let delimiters = ByteMarks::load(&self.delimiters, at, u64::MAX);
            if delimiters != 0 {
                return (at + delimiters.trailing_zeros() as usize).min(self.len);
            }
            at += BYTES_PER_WORD;
        }
    }

    /// Whether there is a digit in this range of the text.
    #[inline(always)]
    pub(super) fn has_digit(&self, mut start: usize, end: usize) -> bool {
        while start + BYTES_PER_WORD < end {
            if ByteMarks::load(&self.digits, start, 0) != 0 {
                return true;
            }
            start += BYTES_PER_WORD;
        }
        start < end && ByteMarks::load(&self.digits, start, 0) << (BYTES_PER_WORD - (end - start)) != 0
    }
}

/// The bytes of class [`DELIMITER`], as comparisons that the compiler can apply to many bytes at once.
#[inline(always)]
fn is_delimiter(byte: u8) -> bool {
    let within = |first: u8, count: u8| byte.wrapping_sub(first) < count;
    within(b'\t', 2)
        | (byte == b'\r')
        | within(b' ', 3)
        | within(b'&', 5)
        | (byte == b',')
        | within(b';', 5)
        | (byte == b'[')
        | (byte == b']')
        | within(b'{', 3)
}

/// A bit for each byte for which `is_set` is true.
#[inline(always)]
fn flag_bits(block: &[u8; BYTES_PER_WORD], is_set: impl Fn(u8) -> bool) -> u64 {
    /// Multiplication by this constant gathers the flags of eight bytes in the highest byte.
    const GATHER_MULTIPLIER: u64 = 0x0102_0408_1020_4080;
    let flags = block.map(|byte| u8::from(is_set(byte)));
    let eights = flags.as_chunks::<8>().0.iter().enumerate();
    eights.fold(0, |bits, (number, eight)| {
        bits | (u64::from_le_bytes(*eight).wrapping_mul(GATHER_MULTIPLIER) >> 56) << (8 * number)
    })
}

/// Whether two texts are equal. Compared inline, because calling a comparison function costs more for the short texts
/// here.
#[inline]
pub(super) fn texts_equal(one: &[u8], other: &[u8]) -> bool {
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

/// Whether the byte is a breaker in the segmenter's table.
#[cfg(test)]
pub(super) fn is_segmenter_breaker(byte: u8) -> bool {
    BYTE_CLASSES[usize::from(byte)] & BREAKER != 0
}

#[cfg(test)]
mod tests;
