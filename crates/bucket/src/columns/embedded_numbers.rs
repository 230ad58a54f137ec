//! Short texts with a number at a fixed position, split into number and rest: `w17eadnotify` becomes the prefix `w`,
//! five hexadecimal digits and one of a few words.
//!
//! The number is bit-packed; the rest of the text is stored as a code among the distinct rests of the page, and the
//! common prefix is stored once. The position of the number and its digits are chosen per page. If no split makes a
//! page smaller, its texts are compressed with zstd.

use std::collections::BTreeMap;

use bytes::Bytes;
use quarry_event::template::{Dictionary, NumberFormat};
use quarry_stdx::number::{u8_of, u32_of};

use crate::columns::codec::{Effort, decode_codes, encode_codes};
use crate::columns::dictionary::{decode_dictionary, encode_dictionary};
use crate::columns::random_access::CodesReader;
use crate::error::BucketError;
use crate::integers::{IntegersReader, decode_integers, encode_integers, range_of};
use crate::limits::MAX_PAGE_EVENTS;
use crate::wire::{Cursor, Malformed, put_bytes, put_varint};

/// Minimum number of texts for a split to gain anything.
const MIN_TEXTS: usize = 64;
/// Longer texts are not split.
const MAX_TEXT_BYTES: usize = 64;
/// Minimum number of texts per distinct rest.
const TEXTS_PER_REST_MIN: usize = 8;
/// Number of hexadecimal digits that always fit in an i64.
const HEX_DIGITS_MAX: usize = 15;
const DECIMAL_DIGITS_MAX: usize = 18;

/// The number comes before the rest of the text.
const NUMBER_FIRST: u8 = 0;
/// The rest comes before the number.
const NUMBER_LAST: u8 = 1;

const DECIMAL: u8 = 10;
const HEX: u8 = 16;

/// Position and format of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberSplit {
    side: u8,
    base: u8,
    digits: u8,
}

impl NumberSplit {
    fn format(self) -> Option<NumberFormat> {
        let format = match self.base {
            HEX => NumberFormat::Hex { digits: self.digits },
            DECIMAL => NumberFormat::Padded { digits: self.digits },
            _ => return None,
        };
        let digits_max = if self.base == HEX { HEX_DIGITS_MAX } else { DECIMAL_DIGITS_MAX };
        (format.is_valid() && usize::from(self.digits) <= digits_max && self.side <= NUMBER_LAST).then_some(format)
    }

    /// Exclusive upper bound of the numbers.
    fn limit(self) -> i64 {
        let base: i64 = if self.base == HEX { 16 } else { 10 };
        base.saturating_pow(u32::from(self.digits))
    }

    /// Appends the text composed of number and rest.
    fn append_joined(self, format: NumberFormat, number: i64, rest: &[u8], out: &mut Vec<u8>) {
        if self.side == NUMBER_LAST {
            out.extend_from_slice(rest);
        }
        format.write(number, out);
        if self.side == NUMBER_FIRST {
            out.extend_from_slice(rest);
        }
    }

    /// Splits a text into number and rest.
    fn split(self, text: &[u8]) -> Option<(i64, &[u8])> {
        let digits = usize::from(self.digits);
        let (number, rest) = match self.side {
            NUMBER_FIRST => text.split_at_checked(digits)?,
            _ => {
                let (rest, number) = text.split_at_checked(text.len().checked_sub(digits)?)?;
                (number, rest)
            }
        };
        Some((self.format()?.parse(number)?, rest))
    }
}

/// Texts split into numbers and rests.
struct Halves<'t> {
    split: NumberSplit,
    numbers: Vec<i64>,
    rests: BTreeMap<&'t [u8], u32>,
    codes: Vec<u32>,
}

/// Encodes texts without their chunk's first byte; `None` if no split suits them.
pub(super) fn encode_split_texts(
    bytes: &[u8],
    ends: &[u32],
    base: u32,
    effort: &mut Effort<'_>,
) -> Result<Option<Vec<u8>>, BucketError> {
    if ends.len() < MIN_TEXTS || !bytes.is_ascii() {
        return Ok(None);
    }
    let mut start = 0;
    let texts: Vec<&[u8]> =
        ends.iter().map(|end| &bytes[std::mem::replace(&mut start, (end - base) as usize)..start]).collect();
    if texts.iter().any(|text| text.len() > MAX_TEXT_BYTES) {
        return Ok(None);
    }
    let first = texts[0];
    let shared = |text: &&[u8]| first.iter().zip(*text).take_while(|(a, b)| a == b).count();
    let prefix = texts.iter().map(shared).min().unwrap_or(0);
    let texts: Vec<&[u8]> = texts.iter().map(|text| &text[prefix..]).collect();
    let best =
        candidate_splits(&texts).into_iter().filter_map(|cut| split_all(&texts, cut)).min_by_key(Halves::cost_bits);
    let Some(Halves { split: cut, numbers, mut rests, mut codes }) = best else { return Ok(None) };
    let mut out = Vec::new();
    put_bytes(&mut out, &first[..prefix]);
    out.extend([cut.side, cut.base, cut.digits]);
    let mut part = Vec::new();
    encode_integers(&numbers, &mut part);
    put_bytes(&mut out, &part);
    part.clear();
    let (mut all, mut rest_ends, mut renamed) = (Vec::new(), Vec::new(), vec![0; rests.len()]);
    for (rest, code) in &mut rests {
        renamed[*code as usize] = u32_of(rest_ends.len());
        all.extend_from_slice(rest);
        rest_ends.push(u32_of(all.len()));
    }
    put_varint(&mut out, rest_ends.len() as u64);
    encode_dictionary(&all, &rest_ends, &mut part);
    put_bytes(&mut out, &part);
    codes.iter_mut().for_each(|code| *code = renamed[*code as usize]);
    encode_codes(&codes, effort, &mut out)?;
    Ok(Some(out))
}

/// Positions and formats at which every text has a number.
fn candidate_splits(texts: &[&[u8]]) -> Vec<NumberSplit> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let mut cuts = Vec::new();
    for (base, most) in [(DECIMAL, DECIMAL_DIGITS_MAX), (HEX, HEX_DIGITS_MAX)] {
        let fits = |byte: &u8| if base == HEX { is_hex(byte) } else { byte.is_ascii_digit() };
        let first = texts.iter().map(|text| text.iter().take_while(|byte| fits(byte)).count()).min();
        let last = texts.iter().map(|text| text.iter().rev().take_while(|byte| fits(byte)).count()).min();
        for (side, digits) in [(NUMBER_FIRST, first), (NUMBER_LAST, last)] {
            let cut = NumberSplit { side, base, digits: u8_of(digits.unwrap_or(0).min(most)) };
            if cut.digits > 0 {
                cuts.push(cut);
            }
        }
    }
    cuts
}

/// The split texts; `None` if a text cannot be split or there are too many distinct rests.
fn split_all<'t>(texts: &[&'t [u8]], cut: NumberSplit) -> Option<Halves<'t>> {
    let mut halves =
        Halves { split: cut, numbers: Vec::with_capacity(texts.len()), rests: BTreeMap::new(), codes: Vec::new() };
    for text in texts {
        let (number, rest) = cut.split(text)?;
        let new = u32_of(halves.rests.len());
        halves.codes.push(*halves.rests.entry(rest).or_insert(new));
        if halves.rests.len() * TEXTS_PER_REST_MIN > texts.len() {
            return None;
        }
        halves.numbers.push(number);
    }
    Some(halves)
}

impl Halves<'_> {
    /// Approximate size of the encoded texts in bits.
    fn cost_bits(&self) -> usize {
        let (min, max) = range_of(&self.numbers);
        let number = (max.abs_diff(min) + 1).next_power_of_two().trailing_zeros() as usize;
        let code = self.rests.len().next_power_of_two().trailing_zeros() as usize;
        let rests: usize = self.rests.keys().map(|rest| 8 * (rest.len() + 1)).sum();
        self.numbers.len() * (number + code) + rests
    }
}

/// Split texts as stored: numbers and codes are packed.
struct SplitTexts<'a> {
    prefix: &'a [u8],
    split: NumberSplit,
    format: NumberFormat,
    numbers: &'a [u8],
    rests: Dictionary,
    codes: &'a [u8],
}

impl<'a> SplitTexts<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<SplitTexts<'a>, Malformed> {
        let prefix = cursor.bytes("common prefix of the texts", MAX_TEXT_BYTES)?;
        let (side, base) = (cursor.u8("side of the number")?, cursor.u8("base of the number")?);
        let cut = NumberSplit { side, base, digits: cursor.u8("digits of the number")? };
        let Some(format) = cut.format() else {
            return Err(Malformed(format!("{cut:?} is not a valid split of texts")));
        };
        let remaining = cursor.remaining();
        let numbers = cursor.bytes("numbers of split texts", remaining)?;
        let rests = cursor.count("number of rests", MAX_PAGE_EVENTS)?;
        let remaining = cursor.remaining();
        let rests = decode_dictionary(cursor.bytes("rests of split texts", remaining)?, rests)?;
        let codes = cursor.take(cursor.remaining(), "codes of rests")?;
        Ok(SplitTexts { prefix, split: cut, format, numbers, rests, codes })
    }
}

impl NumberSplit {
    fn check(self, low: i64, high: i64) -> Result<(), Malformed> {
        if low < 0 || high >= self.limit() {
            return Err(Malformed(format!("a number from {low} to {high} has more than {} digits", self.digits)));
        }
        Ok(())
    }
}

/// Random access to split texts.
#[derive(Debug)]
pub(super) struct SplitTextsReader {
    prefix: Bytes,
    split: NumberSplit,
    format: NumberFormat,
    numbers: IntegersReader,
    rests: Dictionary,
    codes: CodesReader,
}

impl SplitTextsReader {
    /// Reads `count` texts of a chunk without its first byte.
    pub(super) fn read(chunk: &Bytes, count: usize) -> Result<SplitTextsReader, Malformed> {
        let stored = SplitTexts::read(&mut Cursor::new(chunk))?;
        let numbers = chunk.slice_ref(stored.numbers);
        let mut cursor = Cursor::new(&numbers);
        let of_numbers = IntegersReader::read(&numbers, &mut cursor, count)?;
        cursor.finish("integers")?;
        Ok(SplitTextsReader {
            prefix: chunk.slice_ref(stored.prefix),
            split: stored.split,
            format: stored.format,
            numbers: of_numbers,
            codes: CodesReader::read(&chunk.slice_ref(stored.codes), count, u32_of(stored.rests.len()))?,
            rests: stored.rests,
        })
    }

    /// Text number `at`.
    pub(super) fn get(&mut self, at: usize) -> Result<Bytes, Malformed> {
        let rest = self.rests.get(self.codes.get(at)?);
        let number = self.numbers.get(at);
        self.split.check(number, number)?;
        let mut text = self.prefix.to_vec();
        self.split.append_joined(self.format, number, rest, &mut text);
        Ok(text.into())
    }
}

/// Decodes `count` texts of at most `limit` bytes in total.
pub(super) fn decode_split_texts(
    cursor: &mut Cursor<'_>,
    count: usize,
    limit: u64,
) -> Result<(Vec<u8>, Vec<u32>), Malformed> {
    let SplitTexts { prefix, split: cut, format, numbers, rests, codes } = SplitTexts::read(cursor)?;
    let numbers = decode_integers(numbers, count)?;
    let (low, high) = range_of(&numbers);
    cut.check(low, high)?;
    let codes = decode_codes(codes, count, u32_of(rests.len()))?;
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(count));
    for (number, code) in numbers.into_iter().zip(codes) {
        bytes.extend_from_slice(prefix);
        cut.append_joined(format, number, rests.get(code), &mut bytes);
        if bytes.len() as u64 > limit {
            return Err(Malformed(format!("the texts exceed the {limit} bytes of the page")));
        }
        ends.push(u32_of(bytes.len()));
    }
    Ok((bytes, ends))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(texts: &[String]) -> Option<Vec<u8>> {
        let mut ends = Vec::new();
        let mut bytes = Vec::new();
        for text in texts {
            bytes.extend_from_slice(text.as_bytes());
            ends.push(bytes.len() as u32 + 5);
        }
        encode_split_texts(&bytes, &ends, 5, &mut Effort::Plain).unwrap()
    }

    fn check(texts: &[String]) -> Option<usize> {
        let encoded = encode(texts)?;
        let bytes: usize = texts.iter().map(String::len).sum();
        let (back, ends) = decode_split_texts(&mut Cursor::new(&encoded), texts.len(), bytes as u64).unwrap();
        assert_eq!(back, texts.concat().into_bytes());
        assert!(
            ends.iter()
                .scan(0, |start, end| Some(*end as usize - std::mem::replace(start, *end as usize)))
                .eq(texts.iter().map(String::len))
        );
        assert!(decode_split_texts(&mut Cursor::new(&encoded), texts.len(), bytes as u64 - 1).is_err());
        let mut single = SplitTextsReader::read(&encoded.clone().into(), texts.len()).unwrap();
        assert!((0..texts.len()).rev().all(|at| single.get(at).unwrap() == texts[at].as_bytes()));
        Some(encoded.len())
    }

    fn texts(count: u64, text: impl Fn(u64, &str) -> String) -> Vec<String> {
        let words = ["notify", "cart", "prefetch", "audit", "effect", "submit", "refund"];
        (0..count).map(|at| text(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24, words[(at * 5 % 7) as usize])).collect()
    }

    #[test]
    fn split_tokens_take_only_the_bits_of_their_parts() {
        let tokens = texts(1_000, |number, word| format!("w{:05x}{word}", number & 0xf_ffff));
        assert!(check(&tokens).unwrap() < 1_000 * (20 + 3) / 8 + 120);
        let tokens = texts(1_000, |number, word| format!("{word}{:06}", number % 1_000_000));
        assert!(check(&tokens).unwrap() < 1_000 * (20 + 3) / 8 + 120);
        let tokens = texts(1_000, |number, _| format!("id{:012x}", number & 0xffff_ffff_ffff));
        assert!(check(&tokens).unwrap() < 1_000 * 41 / 8 + 120);
    }

    #[test]
    fn texts_without_embedded_numbers_are_not_split() {
        assert_eq!(check(&texts(60, |number, word| format!("{word}{number:016}"))), None);
        assert_eq!(check(&texts(500, |number, word| format!("{word}{number:x}ü"))), None);
        assert_eq!(
            check(&texts(500, |number, word| format!("z{}z{word}", char::from(b'g' + (number % 16) as u8)))),
            None
        );
    }

    proptest! {
        #[test]
        fn arbitrary_texts_round_trip(texts in prop::collection::vec("k?[0-9a-f]{1,4}(ab|z|)", 64..200)) {
            check(&texts);
        }

        #[test]
        fn garbage_returns_errors(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0usize..100) {
            drop(decode_split_texts(&mut Cursor::new(&bytes), count, 500));
        }

        #[test]
        fn damaged_chunks_are_rejected_or_decoded(at in any::<prop::sample::Index>(), value in any::<u8>()) {
            let tokens = texts(80, |number, word| format!("w{:05x}{word}", number & 0xf_ffff));
            let mut encoded = encode(&tokens).unwrap();
            *at.get_mut(&mut encoded) = value;
            drop(decode_split_texts(&mut Cursor::new(&encoded), 80, 2_000));
            if let Ok(mut single) = SplitTextsReader::read(&encoded.into(), 80) {
                (0..81).for_each(|at| drop(single.get(at)));
            }
        }
    }
}
