//! Chunks: encoded values of one column in one page.
//!
//! A chunk starts with its mode. Codes and numbers are bit-packed; depending on the effort, other encodings are also
//! tried, and used if they are sufficiently smaller: byte planes (all lowest bytes, then all second bytes) compressed
//! with zstd, frequency coding, and a table of few distinct numbers. Texts are compressed if that makes them smaller.
//! The number of values is stored in the column layout block.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use memchr::memchr;
use quarry_stdx::number::{low_u8, low_u32, u8_of, u32_of};

use crate::block::{BlockWriter, decode_zstd};
use crate::columns::embedded_numbers::{decode_split_texts, encode_split_texts};
use crate::columns::frequency_coding::{decode_skewed, encode_skewed};
use crate::columns::text_dictionary::{TextCompressor, TextDictionary};
use crate::columns::time_parts::TimePart;
use crate::error::BucketError;
use crate::integers::{
    MODE_DELTA, common_unit, encode_integers, ends_of_lengths, pack, range_of, read_integers, unit_offsets,
    unpack_codes, width_of,
};
use crate::wire::{Cursor, Malformed, put_bytes, put_signed, put_varint};

pub(super) const CODES_CONSTANT: u8 = 0;
pub(super) const CODES_PACKED: u8 = 1;
pub(super) const CODES_PLANES: u8 = 2;
pub(super) const CODES_SKEWED: u8 = 3;

/// Modes up to `MODE_DELTA` are the modes of `crate::integers`; the modes of number chunks follow.
pub(super) const NUMBERS_TIME_OFFSET: u8 = MODE_DELTA + 1;
pub(super) const NUMBERS_PLANES: u8 = MODE_DELTA + 2;
pub(super) const NUMBERS_STEP_PLANES: u8 = MODE_DELTA + 3;
pub(super) const NUMBERS_SKEWED: u8 = MODE_DELTA + 4;
pub(super) const NUMBERS_DISTINCT: u8 = MODE_DELTA + 5;
pub(super) const NUMBERS_NEAR_TIME: u8 = MODE_DELTA + 6;

pub(super) const TEXTS_STORED: u8 = 0;
pub(super) const TEXTS_ZSTD: u8 = 1;
/// One zstd frame that was compressed with the column's text dictionary.
pub(super) const TEXTS_ZSTD_DICTIONARY: u8 = 2;
/// First byte of a chunk of split texts. The first byte of a text chunk that begins with packed lengths is their mode.
pub(super) const TEXTS_SPLIT: u8 = MODE_DELTA + 1;
/// First byte of a chunk of texts that a byte terminates, instead of lengths.
pub(super) const TEXTS_TERMINATED: u8 = MODE_DELTA + 2;
/// First byte of a chunk of texts whose lengths are encoded as numbers.
const TEXTS_CODED_LENGTHS: u8 = MODE_DELTA + 3;

/// Texts smaller than this cannot gain from a zstd frame.
const MIN_ZSTD_BYTES: usize = 64;
/// Planes are slower to read than packed bits: they must save at least 1/16 of the bytes.
const PLANES_SAVING_DIVISOR: usize = 16;
/// Frequency-coded values are slower to read, too: they must save at least 1/24 of the bytes.
const SKEWED_SAVING_DIVISOR: usize = 24;
/// Planes must save at least 1/5 of the bytes when sealing: newly sealed data is searched most and is soon compacted.
const SEALED_PLANES_SAVING_DIVISOR: usize = 5;
/// Number of values in the sample that decides whether planes are tried on a whole chunk when sealing.
const PLANES_SAMPLE_VALUES: usize = 512;
/// Bytes that may terminate texts.
const TERMINATORS: [u8; 3] = [0, 1, b'\n'];
/// Mean bytes of texts that get a terminator: finding the ends of shorter texts would take a notable part of the time of
/// decompressing them, and the lengths of longer texts take little space.
const TERMINATED_BYTES: RangeInclusive<usize> = 24..=256;
/// Texts get a terminator if their lengths would take more than this many bits each. In most texts the terminator is
/// part of a repetition.
const TERMINATOR_BITS: usize = 5;
/// Maximum number of distinct numbers that are stored as a table.
const DISTINCT_NUMBERS_MAX: usize = 200;

/// Effort of a chunk writer.
pub(super) enum Effort<'a> {
    /// No compression: the chunk goes to a pool that is compressed as a whole.
    Plain,
    /// Packed numbers, planes if a sample of planes is much smaller, and texts with zstd.
    Seal(&'a mut BlockWriter),
    /// Tries every encoding.
    All(&'a mut BlockWriter),
}

/// Appends a chunk of codes.
pub(super) fn encode_codes(codes: &[u32], effort: &mut Effort<'_>, out: &mut Vec<u8>) -> Result<(), BucketError> {
    let max = codes.iter().copied().max().unwrap_or(0);
    if codes.iter().all(|code| *code == max) {
        out.push(CODES_CONSTANT);
        put_varint(out, u64::from(max));
        return Ok(());
    }
    let start = out.len();
    out.push(CODES_PACKED);
    pack(codes.iter().map(|code| u64::from(*code)), width_of(u64::from(max)), out);
    let offsets = codes.iter().map(|code| u64::from(*code));
    let width = width_of(u64::from(max));
    let chunk = &mut Chunk::new(start, out);
    match effort {
        Effort::Plain => Ok(()),
        Effort::Seal(blocks) => chunk.try_sealed_planes(CODES_PLANES, &[], offsets, width, blocks),
        Effort::All(blocks) => {
            chunk.try_skewed(CODES_SKEWED, &[], &offsets.clone().collect::<Vec<u64>>(), width);
            chunk.try_planes(CODES_PLANES, &[], (offsets, PLANES_SAVING_DIVISOR), width, blocks)
        }
    }
}

/// Appends a chunk of numbers. `times` holds the `_time` of each event, if every event has a number. Times in the texts
/// are stored as their differences from `_time` if that is smaller.
pub(super) fn encode_numbers(
    numbers: &[i64],
    times: Option<&[i64]>,
    effort: &mut Effort<'_>,
    out: &mut Vec<u8>,
) -> Result<(), BucketError> {
    let times = times.filter(|_| numbers.iter().any(|number| *number != numbers[0]));
    if let Some(difference) = times.and_then(|times| constant_difference(numbers, times)) {
        out.push(NUMBERS_TIME_OFFSET);
        put_signed(out, difference);
        return Ok(());
    }
    let start = out.len();
    encode_integers(numbers, out);
    if let Some(times) = times
        && let Some(part) = TimePart::of(numbers, times)
    {
        let mut near = vec![NUMBERS_NEAR_TIME];
        part.put(&mut near);
        encode_integers(&part.differences(numbers, times), &mut near);
        Chunk::new(start, out).replace_if_smaller(PLANES_SAVING_DIVISOR, &[&near]);
    }
    if matches!(effort, Effort::Plain) {
        return Ok(());
    }
    let (min, max) = range_of(numbers);
    let unit = common_unit(numbers, min);
    let offsets = unit_offsets(numbers, min, unit);
    let mut head = Vec::new();
    put_signed(&mut head, min);
    put_varint(&mut head, unit);
    let width = width_of(max.wrapping_sub(min).cast_unsigned() / unit);
    let chunk = &mut Chunk::new(start, out);
    let blocks = match effort {
        Effort::Plain => return Ok(()),
        Effort::Seal(blocks) => {
            return chunk.try_sealed_planes(NUMBERS_PLANES, &head, offsets.iter().copied(), width, blocks);
        }
        Effort::All(blocks) => blocks,
    };
    chunk.try_distinct_table(numbers);
    chunk.try_skewed(NUMBERS_SKEWED, &head, &offsets, width);
    chunk.try_planes(NUMBERS_PLANES, &head, (offsets.iter().copied(), PLANES_SAVING_DIVISOR), width, blocks)?;
    let steps = || {
        let mut last = 0u64;
        offsets.iter().map(move |offset| zigzag(offset.wrapping_sub(std::mem::replace(&mut last, *offset))))
    };
    let width = width_of(steps().fold(0, |all, step| all | step));
    chunk.try_planes(NUMBERS_STEP_PLANES, &head, (steps(), PLANES_SAVING_DIVISOR), width, blocks)
}

fn zigzag(step: u64) -> u64 {
    (step << 1) ^ (step.cast_signed() >> 63).cast_unsigned()
}

pub(super) fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

fn constant_difference(numbers: &[i64], times: &[i64]) -> Option<i64> {
    let difference = numbers.first()?.wrapping_sub(*times.first()?);
    let same = |(number, time): (&i64, &i64)| number.wrapping_sub(*time) == difference;
    (numbers.len() == times.len() && numbers.iter().zip(times).all(same)).then_some(difference)
}

/// A chunk that is packed at first and replaced if another encoding is clearly smaller.
struct Chunk<'a> {
    start: usize,
    /// Size of the bit-packed encoding in bytes.
    packed: usize,
    out: &'a mut Vec<u8>,
}

impl Chunk<'_> {
    fn new(start: usize, out: &mut Vec<u8>) -> Chunk<'_> {
        Chunk { start, packed: out.len() - start, out }
    }

    /// Adopts another encoding if it is smaller than the current encoding and more than 1/`save` smaller than
    /// bit-packing.
    fn replace_if_smaller(&mut self, save: usize, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len < self.out.len() - self.start && len < self.packed - self.packed / save {
            self.out.truncate(self.start);
            parts.iter().for_each(|part| self.out.extend_from_slice(part));
        }
    }

    /// Tries frequency coding.
    fn try_skewed(&mut self, mode: u8, head: &[u8], values: &[u64], width: u32) {
        let mut skewed = Vec::new();
        if encode_skewed(values, width, SKEWED_SAVING_DIVISOR, &mut skewed) {
            self.replace_if_smaller(SKEWED_SAVING_DIVISOR, &[&[mode], head, &skewed]);
        }
    }

    /// Tries a table of few distinct numbers, whatever their range.
    fn try_distinct_table(&mut self, numbers: &[i64]) {
        let mut distinct = BTreeSet::new();
        for number in numbers {
            distinct.insert(*number);
            if distinct.len() > DISTINCT_NUMBERS_MAX {
                return;
            }
        }
        const { assert!(DISTINCT_NUMBERS_MAX <= u8::MAX as usize, "the number of distinct numbers fits in a byte") };
        let distinct: Vec<i64> = distinct.into_iter().collect();
        let codes: Vec<u64> = numbers.iter().map(|number| distinct.partition_point(|it| it < number) as u64).collect();
        let (mut few, mut skewed) = (vec![NUMBERS_DISTINCT, u8_of(distinct.len())], Vec::new());
        let width = width_of(distinct.len() as u64 - 1);
        if encode_skewed(&codes, width, SKEWED_SAVING_DIVISOR, &mut skewed) {
            encode_integers(&distinct, &mut few);
            self.replace_if_smaller(SKEWED_SAVING_DIVISOR, &[&few, &skewed]);
        }
    }

    /// Tries compressed byte planes if the planes of a sample, the first values, are much smaller than packed bits.
    fn try_sealed_planes(
        &mut self,
        mode: u8,
        head: &[u8],
        values: impl ExactSizeIterator<Item = u64> + Clone,
        width: u32,
        blocks: &mut BlockWriter,
    ) -> Result<(), BucketError> {
        let sample = values.len().min(PLANES_SAMPLE_VALUES);
        let packed = self.packed * sample / values.len().max(1);
        let planes = byte_planes(values.clone().take(sample), width);
        let found = blocks.compress_text(&planes)?.map_or(usize::MAX, <[u8]>::len);
        if found >= packed - packed / SEALED_PLANES_SAVING_DIVISOR {
            return Ok(());
        }
        self.try_planes(mode, head, (values, SEALED_PLANES_SAVING_DIVISOR), width, blocks)
    }

    /// Tries compressed byte planes and adopts them if they save more than 1/`save` of the packed bytes.
    fn try_planes(
        &mut self,
        mode: u8,
        head: &[u8],
        (values, save): (impl Iterator<Item = u64>, usize),
        width: u32,
        blocks: &mut BlockWriter,
    ) -> Result<(), BucketError> {
        if let Some(compressed) = blocks.compress_text(&byte_planes(values, width))? {
            self.replace_if_smaller(save, &[&[mode], head, &[low_u8(width.div_ceil(8))], compressed]);
        }
        Ok(())
    }
}

/// All lowest bytes of values of `width` bits, then all second bytes, and so on.
fn byte_planes(values: impl Iterator<Item = u64>, width: u32) -> Vec<u8> {
    assert!(width <= u64::BITS, "a value has eight planes at most");
    let width = width.div_ceil(8) as usize;
    let values: Vec<u64> = values.collect();
    let mut planes = Vec::with_capacity(width * values.len());
    for plane in 0..width {
        planes.extend(values.iter().map(|value| low_u8(value >> (8 * plane))));
    }
    planes
}

/// Appends a chunk of texts concatenated in `bytes`; `ends` are positions in a text that begins at `base`, so the first
/// text has `ends[0] - base` bytes. If the column has a dictionary, the texts are compressed with it.
pub(super) fn encode_texts(
    bytes: &[u8],
    (ends, base): (&[u32], u32),
    effort: &mut Effort<'_>,
    dictionary: Option<&mut TextCompressor>,
    out: &mut Vec<u8>,
) -> Result<(), BucketError> {
    assert_eq!(ends.last().map_or(0, |end| (end - base) as usize), bytes.len(), "all bytes belong to a text");
    let start = out.len();
    let mut last = base;
    let lengths: Vec<i64> = ends.iter().map(|end| i64::from(end - std::mem::replace(&mut last, *end))).collect();
    encode_lengths(&lengths, effort, out)?;
    let is_terminated = matches!(effort, Effort::All(_))
        && TERMINATED_BYTES.contains(&(bytes.len() / ends.len().max(1)))
        && (out.len() - start) * 8 > ends.len() * TERMINATOR_BITS;
    let terminator = TERMINATORS.into_iter().find(|byte| is_terminated && memchr(*byte, bytes).is_none());
    let terminated = terminator.map(|terminator| terminated_texts(bytes, &lengths, terminator));
    let (texts, is_long) = (terminated.as_deref().unwrap_or(bytes), bytes.len() >= MIN_ZSTD_BYTES);
    let (mode, compressed) = match (&mut *effort, dictionary) {
        (Effort::All(_), Some(dictionary)) => (TEXTS_ZSTD_DICTIONARY, dictionary.compress(texts)?),
        (Effort::All(blocks), None) if is_long => (TEXTS_ZSTD, blocks.compress_smallest(texts)?),
        (Effort::Seal(blocks), _) if is_long => (TEXTS_ZSTD, blocks.compress_text(texts)?),
        _ => (TEXTS_STORED, None),
    };
    match (compressed, terminator) {
        (Some(compressed), Some(terminator)) => {
            out.truncate(start);
            out.extend([TEXTS_TERMINATED, terminator]);
            put_varint(out, bytes.len() as u64);
            out.push(mode);
            out.extend_from_slice(compressed);
        }
        (Some(compressed), None) => {
            out.push(mode);
            out.extend_from_slice(compressed);
        }
        (None, _) => {
            out.push(TEXTS_STORED);
            out.extend_from_slice(bytes);
        }
    }
    if matches!(effort, Effort::All(_))
        && let Some(cut) = encode_split_texts(bytes, ends, base, effort)?
        && cut.len() + 1 < out.len() - start
    {
        out.truncate(start);
        out.push(TEXTS_SPLIT);
        out.extend_from_slice(&cut);
    }
    Ok(())
}

/// Appends the lengths of texts.
fn encode_lengths(lengths: &[i64], effort: &mut Effort<'_>, out: &mut Vec<u8>) -> Result<(), BucketError> {
    let start = out.len();
    encode_integers(lengths, out);
    if matches!(effort, Effort::All(_)) {
        let mut coded = Vec::new();
        encode_numbers(lengths, None, effort, &mut coded)?;
        let packed = out.len() - start;
        if coded.len() + 4 < packed - packed / PLANES_SAVING_DIVISOR {
            out.truncate(start);
            out.push(TEXTS_CODED_LENGTHS);
            put_bytes(out, &coded);
        }
    }
    Ok(())
}

/// Texts with these lengths, each followed by a terminator.
fn terminated_texts(bytes: &[u8], lengths: &[i64], terminator: u8) -> Vec<u8> {
    let mut terminated = Vec::with_capacity(bytes.len() + lengths.len());
    let mut rest = bytes;
    for length in lengths {
        let (text, after) = rest.split_at(*length as usize);
        terminated.extend_from_slice(text);
        terminated.push(terminator);
        rest = after;
    }
    terminated
}

/// Decodes a chunk of `count` codes, each below `limit`.
pub(super) fn decode_codes(chunk: &[u8], count: usize, limit: u32) -> Result<Vec<u32>, Malformed> {
    let mut cursor = Cursor::new(chunk);
    let codes = match cursor.u8("mode of codes")? {
        CODES_CONSTANT => vec![cursor.count32("the code", u32::MAX as usize)?; count],
        CODES_PACKED => unpack_codes(&mut cursor, count)?,
        CODES_PLANES => {
            let mut codes = vec![0u32; count];
            for_each_plane(&mut cursor, count, 4, |plane, bytes| {
                codes.iter_mut().zip(bytes).for_each(|(code, byte)| *code |= u32::from(*byte) << (8 * plane));
            })?;
            codes
        }
        CODES_SKEWED => decode_skewed(&mut cursor, count, u32::BITS)?.into_iter().map(low_u32).collect(),
        other => return Err(Malformed(format!("mode {other} of codes is unknown"))),
    };
    cursor.finish("the codes")?;
    let max = codes.iter().fold(0, |max, code| max.max(*code));
    if count > 0 && max >= limit {
        return Err(Malformed(format!("code {max} is not below {limit}")));
    }
    Ok(codes)
}

/// Whether decoding this chunk of numbers requires the times of the events.
pub(super) fn needs_times(chunk: &[u8]) -> bool {
    matches!(chunk.first(), Some(&(NUMBERS_TIME_OFFSET | NUMBERS_NEAR_TIME)))
}

/// Decodes a chunk of `count` numbers. `times` holds the `_time` of every event of the page; it is only used if
/// [`needs_times`].
pub(super) fn decode_numbers(chunk: &[u8], count: usize, times: &[i64]) -> Result<Vec<i64>, Malformed> {
    let mut cursor = Cursor::new(chunk);
    let mode = cursor.clone().u8("mode of numbers")?;
    if mode <= MODE_DELTA {
        let numbers = read_integers(&mut cursor, count)?;
        cursor.finish("the numbers")?;
        return Ok(numbers);
    }
    cursor.u8("mode of numbers")?;
    let numbers = match mode {
        NUMBERS_TIME_OFFSET if times.len() == count => {
            let difference = cursor.signed("difference to the time")?;
            times.iter().map(|time| time.wrapping_add(difference)).collect()
        }
        NUMBERS_NEAR_TIME if times.len() == count => {
            let part = TimePart::read(&mut cursor)?;
            let mut numbers = read_integers(&mut cursor, count)?;
            part.add_to(&mut numbers, times);
            numbers
        }
        NUMBERS_TIME_OFFSET | NUMBERS_NEAR_TIME => {
            return Err(Malformed(format!("{count} numbers are stored for {} times", times.len())));
        }
        NUMBERS_DISTINCT => {
            let few = usize::from(cursor.u8("distinct numbers")?);
            let few = read_integers(&mut cursor, few)?;
            let code_of = |code: u64| few.get(code as usize).copied();
            let numbers: Option<Vec<i64>> =
                decode_skewed(&mut cursor, count, u8::BITS)?.into_iter().map(code_of).collect();
            numbers.ok_or_else(|| Malformed(format!("a code is not below {}", few.len())))?
        }
        NUMBERS_SKEWED => {
            let min = cursor.signed("smallest number")?;
            let unit = cursor.varint("unit of numbers")?;
            let offsets = decode_skewed(&mut cursor, count, u64::BITS)?;
            offsets.into_iter().map(|offset| min.wrapping_add(offset.wrapping_mul(unit).cast_signed())).collect()
        }
        NUMBERS_PLANES | NUMBERS_STEP_PLANES => {
            let min = cursor.signed("smallest number")?;
            let unit = cursor.varint("unit of numbers")?;
            let mut values = vec![0u64; count];
            for_each_plane(&mut cursor, count, 8, |plane, bytes| {
                values.iter_mut().zip(bytes).for_each(|(value, byte)| *value |= u64::from(*byte) << (8 * plane));
            })?;
            if mode == NUMBERS_STEP_PLANES {
                let mut last = 0u64;
                for value in &mut values {
                    last = last.wrapping_add(unzigzag(*value));
                    *value = last;
                }
            }
            values.into_iter().map(|value| min.wrapping_add(value.wrapping_mul(unit).cast_signed())).collect()
        }
        other => return Err(Malformed(format!("mode {other} of numbers is unknown"))),
    };
    cursor.finish("the numbers")?;
    Ok(numbers)
}

/// Decompresses at most `limit` byte planes, lowest first.
pub(super) fn read_planes(cursor: &mut Cursor<'_>, count: usize, limit: usize) -> Result<Vec<u8>, Malformed> {
    let width = cursor.u8("number of planes")? as usize;
    if width > limit {
        return Err(Malformed(format!("there are {width} planes; the limit is {limit}")));
    }
    let mut planes = vec![0; width * count];
    decode_zstd(cursor.take(cursor.remaining(), "planes")?, &mut planes)?;
    Ok(planes)
}

/// Decodes byte planes, lowest first, and passes them on.
fn for_each_plane(
    cursor: &mut Cursor<'_>,
    count: usize,
    limit: usize,
    mut take: impl FnMut(usize, &[u8]),
) -> Result<(), Malformed> {
    let planes = read_planes(cursor, count, limit)?;
    if count > 0 {
        planes.chunks_exact(count).enumerate().for_each(|(plane, bytes)| take(plane, bytes));
    }
    Ok(())
}

/// Decodes a chunk of `count` texts of at most `limit` bytes in total: the bytes and the end of each text.
pub(super) fn decode_texts(
    chunk: &[u8],
    count: usize,
    limit: u64,
    dictionary: Option<&TextDictionary>,
) -> Result<(Vec<u8>, Vec<u32>), Malformed> {
    let (bytes, ends) = match chunk.split_first() {
        Some((&TEXTS_SPLIT, cut)) => decode_split_texts(&mut Cursor::new(cut), count, limit)?,
        Some((&TEXTS_TERMINATED, rest)) => decode_terminated(&mut Cursor::new(rest), count, limit, dictionary)?,
        _ => decode_unsplit(chunk, count, limit, dictionary)?,
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| Malformed::new("its texts are not UTF-8"))?;
    if !text.is_ascii() && !ends.iter().all(|end| text.is_char_boundary(*end as usize)) {
        return Err(Malformed::new("a text ends inside a character"));
    }
    Ok((bytes, ends))
}

/// The end of each text of a chunk that [`decode_texts`] decodes, without decompressing the texts; `None` if the texts
/// are split or terminated.
pub(super) fn decode_ends(chunk: &[u8], count: usize, limit: u64) -> Result<Option<Vec<u32>>, Malformed> {
    match chunk.first() {
        Some(&(TEXTS_SPLIT | TEXTS_TERMINATED)) => Ok(None),
        _ => read_ends(&mut Cursor::new(chunk), count, limit).map(Some),
    }
}

/// Decodes `count` terminated texts of at most `limit` bytes in total.
pub(super) fn decode_terminated(
    cursor: &mut Cursor<'_>,
    count: usize,
    limit: u64,
    dictionary: Option<&TextDictionary>,
) -> Result<(Vec<u8>, Vec<u32>), Malformed> {
    let terminator = cursor.u8("terminator of texts")?;
    let len = cursor.count("bytes of texts", usize::try_from(limit).unwrap_or(usize::MAX))?;
    let Some(mut bytes) = decompress_texts(cursor, len + count, dictionary)? else {
        return Err(Malformed::new("terminated texts are not compressed"));
    };
    // The terminators are removed in place.
    let (mut ends, mut start, mut end) = (Vec::with_capacity(count), 0, 0);
    while let Some(text) = memchr(terminator, &bytes[start..]) {
        bytes.copy_within(start..start + text, end);
        (start, end) = (start + text + 1, end + text);
        ends.push(u32_of(end));
    }
    bytes.truncate(end);
    match ends.len() == count && end == len {
        true => Ok((bytes, ends)),
        false => Err(Malformed(format!("{} texts have {end} bytes, not {len}", ends.len()))),
    }
}

/// Decodes concatenated texts.
fn decode_unsplit(
    chunk: &[u8],
    count: usize,
    limit: u64,
    dictionary: Option<&TextDictionary>,
) -> Result<(Vec<u8>, Vec<u32>), Malformed> {
    let mut cursor = Cursor::new(chunk);
    let ends = read_ends(&mut cursor, count, limit)?;
    let len = ends.last().map_or(0, |end| *end as usize);
    let bytes = match decompress_texts(&mut cursor, len, dictionary)? {
        Some(bytes) => bytes,
        None => cursor.take(cursor.remaining(), "texts")?.to_vec(),
    };
    Ok((bytes, ends))
}

/// Reads the lengths of `count` texts of at most `limit` bytes in total, and returns the end of each.
pub(super) fn read_ends(cursor: &mut Cursor<'_>, count: usize, limit: u64) -> Result<Vec<u32>, Malformed> {
    let lengths = match cursor.clone().u8("mode of lengths")? {
        TEXTS_CODED_LENGTHS => {
            cursor.u8("mode of lengths")?;
            let remaining = cursor.remaining();
            decode_numbers(cursor.bytes("lengths", remaining)?, count, &[])?
        }
        _ => read_integers(cursor, count)?,
    };
    ends_of_lengths(&lengths, limit)
}

/// Decompresses `end` bytes of texts; `None` if the bytes that follow are the texts themselves.
pub(super) fn decompress_texts(
    cursor: &mut Cursor<'_>,
    end: usize,
    dictionary: Option<&TextDictionary>,
) -> Result<Option<Vec<u8>>, Malformed> {
    match cursor.u8("mode of texts")? {
        TEXTS_STORED if cursor.remaining() == end => Ok(None),
        TEXTS_ZSTD => {
            let mut bytes = vec![0; end];
            decode_zstd(cursor.take(cursor.remaining(), "texts")?, &mut bytes)?;
            Ok(Some(bytes))
        }
        TEXTS_ZSTD_DICTIONARY => {
            let dictionary = dictionary.ok_or_else(|| Malformed::new("its texts need a dictionary"))?;
            let mut bytes = vec![0; end];
            dictionary.decompress(cursor.take(cursor.remaining(), "texts")?, &mut bytes)?;
            Ok(Some(bytes))
        }
        TEXTS_STORED => Err(Malformed(format!("{} bytes are stored, {end} expected", cursor.remaining()))),
        other => Err(Malformed(format!("mode {other} of texts is unknown"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::columns::random_access::tests as peek;

    fn encode_at_all_efforts(
        encode: impl Fn(&mut Effort<'_>, &mut Vec<u8>) -> Result<(), BucketError>,
    ) -> [Vec<u8>; 3] {
        let mut blocks = BlockWriter::new(Vec::new(), 3).unwrap();
        let mut chunks = [const { Vec::new() }; 3];
        encode(&mut Effort::Plain, &mut chunks[0]).unwrap();
        encode(&mut Effort::Seal(&mut blocks), &mut chunks[1]).unwrap();
        encode(&mut Effort::All(&mut blocks), &mut chunks[2]).unwrap();
        chunks
    }

    fn check_numbers(numbers: &[i64], times: &[i64]) {
        for chunk in encode_at_all_efforts(|effort, out| encode_numbers(numbers, Some(times), effort, out)) {
            let times = if needs_times(&chunk) { times } else { &[] };
            assert_eq!(decode_numbers(&chunk, numbers.len(), times).unwrap(), numbers);
            peek::check_numbers(&chunk, numbers, times);
        }
    }

    proptest! {
        #[test]
        fn column_chunks_round_trip(
            codes in prop::collection::vec(0u32..70_000, 1..300),
            wild in prop::collection::vec(any::<i64>(), 1..100),
            near in prop::collection::vec(0i64..300, 1..300),
            texts in prop::collection::vec("[a-cä]{0,9}", 1..100),
        ) {
            for chunk in encode_at_all_efforts(|effort, out| encode_codes(&codes, effort, out)) {
                prop_assert_eq!(&decode_codes(&chunk, codes.len(), 70_000).unwrap(), &codes);
                prop_assert!(decode_codes(&chunk, codes.len(), codes.iter().copied().max().unwrap()).is_err());
                peek::check_codes(&chunk, &codes, 70_000);
            }
            check_numbers(&wild, &near);
            check_numbers(&near, &near);
            let later: Vec<i64> = near.iter().map(|number| number.wrapping_sub(i64::MAX)).collect();
            check_numbers(&later, &near);
            let bytes = texts.concat();
            let mut end = 7;
            let ends: Vec<u32> = texts.iter().map(|text| { end += text.len() as u32; end }).collect();
            for chunk in encode_at_all_efforts(|effort, out| encode_texts(bytes.as_bytes(), (&ends, 7), effort, None, out)) {
                let (back, back_ends) = decode_texts(&chunk, ends.len(), bytes.len() as u64, None).unwrap();
                prop_assert_eq!(&back[..], bytes.as_bytes());
                prop_assert!(back_ends.iter().map(|end| end + 7).eq(ends.iter().copied()));
                let only_ends = decode_ends(&chunk, ends.len(), bytes.len() as u64).unwrap();
                prop_assert!(only_ends.is_none_or(|only| only == back_ends));
                peek::check_texts(&chunk, &texts, bytes.len() as u64);
                prop_assert!(bytes.is_empty() || decode_texts(&chunk, ends.len(), bytes.len() as u64 - 1, None).is_err());
            }
        }

        #[test]
        fn garbage_returns_errors(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0usize..100) {
            drop(decode_codes(&bytes, count, 9));
            drop(decode_numbers(&bytes, count, &vec![5; count]));
            drop(decode_texts(&bytes, count, 50, None));
            peek::read_garbage(&bytes, count);
        }
    }

    #[test]
    fn long_texts_are_terminated_and_lengths_are_coded() {
        let mut blocks = BlockWriter::new(Vec::new(), 9).unwrap();
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 40
        };
        let text = |next: &mut dyn FnMut() -> u64| -> String {
            (0..4 + next() % 60).map(|_| ["alpha ", "beta ", "gamma\n", "delta ü "][next() as usize % 4]).collect()
        };
        let long: Vec<String> = (0..900).map(|_| text(&mut next)).collect();
        // Every byte that may terminate texts occurs.
        let mixed: Vec<String> = long.iter().map(|text| format!("{text}\0\u{1}")).collect();
        // Most texts have the same length.
        let short: Vec<String> = (0..900).map(|at| "ab".repeat(if at % 23 > 0 { 3 } else { at % 19 })).collect();
        for (texts, first) in [(&long, TEXTS_TERMINATED), (&mixed, MODE_DELTA - 1), (&short, TEXTS_CODED_LENGTHS)] {
            let (bytes, mut end, mut chunk) = (texts.concat(), 7, Vec::new());
            let ends: Vec<u32> = texts
                .iter()
                .map(|text| {
                    end += text.len() as u32;
                    end
                })
                .collect();
            encode_texts(bytes.as_bytes(), (&ends, 7), &mut Effort::All(&mut blocks), None, &mut chunk).unwrap();
            assert_eq!(chunk[0], first, "{} bytes for {}", chunk.len(), bytes.len());
            let (back, back_ends) = decode_texts(&chunk, ends.len(), bytes.len() as u64, None).unwrap();
            assert_eq!(back, bytes.as_bytes());
            assert!(back_ends.iter().map(|end| end + 7).eq(ends.iter().copied()));
            peek::check_texts(&chunk, texts, bytes.len() as u64);
            let only_ends = decode_ends(&chunk, ends.len(), bytes.len() as u64).unwrap();
            assert_eq!(only_ends.is_none(), first == TEXTS_TERMINATED);
            assert!(only_ends.is_none_or(|only| only == back_ends));
            for (count, limit) in [(899, 0), (901, 0), (900, 1)] {
                assert!(decode_texts(&chunk, count, bytes.len() as u64 - limit, None).is_err());
            }
            let cut = &chunk[..chunk.len() - 1];
            assert!(decode_texts(cut, ends.len(), bytes.len() as u64, None).is_err());
        }
    }

    #[test]
    fn repetitive_numbers_are_stored_as_planes() {
        let mut blocks = BlockWriter::new(Vec::new(), 3).unwrap();
        let codes: Vec<u32> = (0..4_096).map(|at| at / 8 % 40).collect();
        let numbers: Vec<i64> =
            (0..4_096u32).map(|at| i64::from(at.wrapping_mul(2_654_435_769) >> 28) * 1_000_003).collect();
        let steps: Vec<i64> = (0..4_096)
            .scan(0, |sum, at| {
                *sum += 7 << (at % 8 * 5);
                Some(*sum)
            })
            .collect();
        let mut modes = Vec::new();
        let mut chunk = Vec::new();
        encode_codes(&codes, &mut Effort::All(&mut blocks), &mut chunk).unwrap();
        peek::check_codes(&chunk, &codes, 40);
        assert_eq!((chunk[0], decode_codes(&chunk, 4_096, 40).unwrap()), (CODES_PLANES, codes));
        for numbers in [numbers, steps] {
            chunk.clear();
            encode_numbers(&numbers, None, &mut Effort::All(&mut blocks), &mut chunk).unwrap();
            assert_eq!(decode_numbers(&chunk, 4_096, &[]).unwrap(), numbers);
            peek::check_numbers(&chunk, &numbers, &[]);
            modes.push(chunk[0]);
        }
        assert_eq!(modes, [NUMBERS_PLANES, NUMBERS_STEP_PLANES]);
        let random = |at: i64| {
            let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
        };
        let status = |at| if random(at) % 5 > 0 { 200i64 } else { [404, -7, 999_999][random(at) as usize / 8 % 3] };
        let size = |at| random(at) as i64 % if at % 8 == 0 { 1_000_000 } else { 1_000 };
        let time = |at: i64| 1_795_824_000_000_000_000 + at * 977_000_003 + random(at) as i64 * 50;
        let times: Vec<i64> = (0..4_096).map(time).collect();
        let in_millis = |at: i64| times[at as usize].div_euclid(1_000_000) + 7_200_000 + random(at + 9) as i64 % 3;
        let numbers: Vec<i64> = (0..4_096).map(in_millis).collect();
        chunk.clear();
        encode_numbers(&numbers, Some(&times), &mut Effort::All(&mut blocks), &mut chunk).unwrap();
        peek::check_numbers(&chunk, &numbers, &times);
        assert_eq!((chunk[0], decode_numbers(&chunk, 4_096, &times).unwrap()), (NUMBERS_NEAR_TIME, numbers));
        assert!(chunk.len() < 4_096 * 2 / 8 + 16, "two bits a number, not {} bytes", chunk.len());
        assert!(decode_numbers(&chunk, 4_096, &[]).is_err(), "the times are missing");
        for (number, mode) in [(&status as &dyn Fn(i64) -> i64, NUMBERS_DISTINCT), (&size, NUMBERS_SKEWED)] {
            let numbers: Vec<i64> = (0..4_096).map(number).collect();
            chunk.clear();
            encode_numbers(&numbers, None, &mut Effort::All(&mut blocks), &mut chunk).unwrap();
            peek::check_numbers(&chunk, &numbers, &[]);
            assert_eq!((chunk[0], decode_numbers(&chunk, 4_096, &[]).unwrap()), (mode, numbers));
        }
    }
}
