//! Random access to the values of a chunk. If the mode allows it, no other value is decoded.
//!
//! A packed integer is read directly from its bits. Compressed data is decompressed as a whole but not unpacked. Values
//! that depend on earlier values are decoded up to the requested value if they are frequency-coded, and as a whole if
//! they are deltas or text lengths. The requested value is checked as in [`super::codec`]; other values are not
//! checked.
//!
//! Not here: the choice of the chunk and of the position in it (`super::point_reads`).

use std::sync::Arc;

use bytes::Bytes;

use crate::columns::codec::{
    CODES_CONSTANT, CODES_PACKED, CODES_PLANES, CODES_SKEWED, NUMBERS_DISTINCT, NUMBERS_NEAR_TIME, NUMBERS_PLANES,
    NUMBERS_SKEWED, NUMBERS_STEP_PLANES, NUMBERS_TIME_OFFSET, TEXTS_SPLIT, TEXTS_TERMINATED, decode_terminated,
    decompress_texts, read_ends, read_planes, unzigzag,
};
use crate::columns::embedded_numbers::SplitTextsReader;
use crate::columns::frequency_coding::SkewedReader;
use crate::columns::text_dictionary::TextDictionary;
use crate::columns::time_parts::TimePart;
use crate::integers::{IntegersReader, MODE_DELTA, PackedReader, read_integers};
use crate::wire::{Cursor, Malformed};

/// Codes of a chunk.
#[derive(Debug)]
pub(super) struct CodesReader {
    values: Unsigned,
    count: usize,
    limit: u32,
}

/// Numbers of a chunk.
#[derive(Debug)]
pub(super) struct NumbersReader {
    values: Numbers,
    count: usize,
}

/// Texts of a chunk.
#[derive(Debug)]
pub(super) enum TextsReader {
    Unsplit { bytes: Bytes, ends: Vec<u32> },
    Cut(Box<SplitTextsReader>),
}

/// Codes, or numbers as differences from the smallest number.
#[derive(Debug)]
enum Unsigned {
    Constant(u64),
    Packed(PackedReader),
    /// The lowest bytes of all values, then their second bytes, and so on.
    Planes(Vec<u8>),
    Skewed(SkewedReader),
    Decoded(Vec<u64>),
}

#[derive(Debug)]
enum Numbers {
    Plain(IntegersReader),
    /// Differences from a part of the times.
    OfTime {
        times: Arc<[i64]>,
        part: TimePart,
        differences: IntegersReader,
    },
    Distinct(Vec<i64>, SkewedReader),
    Above {
        min: i64,
        unit: u64,
        values: Unsigned,
    },
}

impl Unsigned {
    /// Value number `at` of `count`.
    fn get(&mut self, at: usize, count: usize) -> u64 {
        match self {
            Unsigned::Constant(value) => *value,
            Unsigned::Packed(packed) => packed.get(at),
            Unsigned::Planes(planes) => {
                let bytes = planes.chunks_exact(count.max(1)).take(8).enumerate();
                bytes.fold(0, |value, (plane, bytes)| {
                    value | u64::from(bytes.get(at).copied().unwrap_or(0)) << (8 * plane)
                })
            }
            Unsigned::Skewed(skewed) => skewed.get(at),
            Unsigned::Decoded(values) => values.get(at).copied().unwrap_or(0),
        }
    }
}

fn out_of_bounds(at: usize, count: usize) -> Malformed {
    Malformed(format!("there is no value {at} of {count}"))
}

impl CodesReader {
    /// The `count` codes of a chunk, each below `limit`.
    pub(super) fn read(chunk: &Bytes, count: usize, limit: u32) -> Result<CodesReader, Malformed> {
        let mut cursor = Cursor::new(chunk);
        let values = match cursor.u8("mode of codes")? {
            CODES_CONSTANT => Unsigned::Constant(cursor.count("the code", u32::MAX as usize)? as u64),
            CODES_PACKED => Unsigned::Packed(PackedReader::read(chunk, &mut cursor, count, u32::BITS)?),
            CODES_PLANES => Unsigned::Planes(read_planes(&mut cursor, count, 4)?),
            CODES_SKEWED => Unsigned::Skewed(SkewedReader::read(chunk, &mut cursor, count, u32::BITS)?),
            other => return Err(Malformed(format!("mode {other} of codes is unknown"))),
        };
        cursor.finish("the codes")?;
        Ok(CodesReader { values, count, limit })
    }

    /// The only possible code, `count` times.
    pub(super) fn zeros(count: usize) -> CodesReader {
        CodesReader { values: Unsigned::Constant(0), count, limit: 1 }
    }

    /// Code number `at`.
    pub(super) fn get(&mut self, at: usize) -> Result<u32, Malformed> {
        if at >= self.count {
            return Err(out_of_bounds(at, self.count));
        }
        match u32::try_from(self.values.get(at, self.count)) {
            Ok(code) if code < self.limit => Ok(code),
            Ok(code) => Err(Malformed(format!("code {code} is not below {}", self.limit))),
            Err(_) => Err(Malformed::new("a code is wider than 32 bits")),
        }
    }
}

impl NumbersReader {
    /// Reads the `count` numbers of a chunk. `times` holds the `_time` of every event of the page; required if
    /// [`super::codec::needs_times`].
    pub(super) fn read(chunk: &Bytes, count: usize, times: Option<&Arc<[i64]>>) -> Result<NumbersReader, Malformed> {
        let mut cursor = Cursor::new(chunk);
        let mode = cursor.clone().u8("mode of numbers")?;
        let values = if mode <= MODE_DELTA {
            Numbers::Plain(IntegersReader::read(chunk, &mut cursor, count)?)
        } else {
            cursor.u8("mode of numbers")?;
            NumbersReader::read_mode(mode, chunk, &mut cursor, count, times)?
        };
        cursor.finish("the numbers")?;
        Ok(NumbersReader { values, count })
    }

    fn read_mode(
        mode: u8,
        chunk: &Bytes,
        cursor: &mut Cursor<'_>,
        count: usize,
        times: Option<&Arc<[i64]>>,
    ) -> Result<Numbers, Malformed> {
        match (mode, times) {
            (NUMBERS_TIME_OFFSET, Some(times)) if times.len() == count => {
                let differences = IntegersReader::Constant(cursor.signed("difference to the time")?);
                return Ok(Numbers::OfTime { times: Arc::clone(times), part: TimePart::WHOLE, differences });
            }
            (NUMBERS_NEAR_TIME, Some(times)) if times.len() == count => {
                let part = TimePart::read(cursor)?;
                let differences = IntegersReader::read(chunk, cursor, count)?;
                return Ok(Numbers::OfTime { times: Arc::clone(times), part, differences });
            }
            (NUMBERS_TIME_OFFSET | NUMBERS_NEAR_TIME, times) => {
                let known = times.map_or(0, |times| times.len());
                return Err(Malformed(format!("{count} numbers are stored for {known} times")));
            }
            (NUMBERS_DISTINCT, _) => {
                let few = usize::from(cursor.u8("distinct numbers")?);
                let few = read_integers(cursor, few)?;
                return Ok(Numbers::Distinct(few, SkewedReader::read(chunk, cursor, count, u8::BITS)?));
            }
            (NUMBERS_SKEWED | NUMBERS_PLANES | NUMBERS_STEP_PLANES, _) => {}
            (other, _) => return Err(Malformed(format!("mode {other} of numbers is unknown"))),
        }
        let min = cursor.signed("smallest number")?;
        let unit = cursor.varint("unit of numbers")?;
        let values = match mode {
            NUMBERS_SKEWED => Unsigned::Skewed(SkewedReader::read(chunk, cursor, count, u64::BITS)?),
            NUMBERS_PLANES => Unsigned::Planes(read_planes(cursor, count, 8)?),
            _ => {
                let mut planes = Unsigned::Planes(read_planes(cursor, count, 8)?);
                let mut last = 0u64;
                let steps = (0..count).map(|at| {
                    last = last.wrapping_add(unzigzag(planes.get(at, count)));
                    last
                });
                Unsigned::Decoded(steps.collect())
            }
        };
        Ok(Numbers::Above { min, unit, values })
    }

    /// One number, `count` times.
    pub(super) fn constant(number: i64, count: usize) -> NumbersReader {
        NumbersReader { values: Numbers::Plain(IntegersReader::Constant(number)), count }
    }

    /// Number `at`.
    pub(super) fn get(&mut self, at: usize) -> Result<i64, Malformed> {
        if at >= self.count {
            return Err(out_of_bounds(at, self.count));
        }
        Ok(match &mut self.values {
            Numbers::Plain(integers) => integers.get(at),
            Numbers::OfTime { times, part, differences } => part.of_time(times[at]).wrapping_add(differences.get(at)),
            Numbers::Distinct(few, codes) => {
                let code = codes.get(at) as usize;
                *few.get(code).ok_or_else(|| Malformed(format!("a code is not below {}", few.len())))?
            }
            Numbers::Above { min, unit, values } => {
                min.wrapping_add(values.get(at, self.count).wrapping_mul(*unit).cast_signed())
            }
        })
    }
}

impl TextsReader {
    /// Reads the `count` texts of a chunk of at most `limit` bytes in total.
    pub(super) fn read(
        chunk: &Bytes,
        count: usize,
        limit: u64,
        dictionary: Option<&TextDictionary>,
    ) -> Result<TextsReader, Malformed> {
        if chunk.first() == Some(&TEXTS_SPLIT) {
            return Ok(TextsReader::Cut(Box::new(SplitTextsReader::read(&chunk.slice(1..), count)?)));
        }
        let mut cursor = Cursor::new(chunk);
        if chunk.first() == Some(&TEXTS_TERMINATED) {
            cursor.u8("form of texts")?;
            let (bytes, ends) = decode_terminated(&mut cursor, count, limit, dictionary)?;
            return Ok(TextsReader::Unsplit { bytes: bytes.into(), ends });
        }
        let ends = read_ends(&mut cursor, count, limit)?;
        let bytes = match decompress_texts(&mut cursor, ends.last().map_or(0, |end| *end as usize), dictionary)? {
            Some(bytes) => bytes.into(),
            None => chunk.slice(chunk.len() - cursor.remaining()..),
        };
        Ok(TextsReader::Unsplit { bytes, ends })
    }

    /// Text number `at`.
    pub(super) fn get(&mut self, at: usize) -> Result<Bytes, Malformed> {
        let text = match self {
            TextsReader::Cut(cut) => cut.get(at)?,
            TextsReader::Unsplit { bytes, ends } => {
                let end = *ends.get(at).ok_or_else(|| out_of_bounds(at, ends.len()))? as usize;
                let start = if at == 0 { 0 } else { ends[at - 1] as usize };
                bytes.slice(start..end)
            }
        };
        match std::str::from_utf8(&text) {
            Ok(_) => Ok(text),
            Err(_) => Err(Malformed::new("its texts are not UTF-8")),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Orders in which all values are read one by one, each order from a newly opened chunk.
    fn access_orders(count: usize) -> [Vec<usize>; 3] {
        [(0..count).collect(), (0..count).rev().collect(), (0..count).map(|at| at * 7 % count).collect()]
    }

    pub(crate) fn check_codes(chunk: &[u8], codes: &[u32], limit: u32) {
        let chunk = Bytes::copy_from_slice(chunk);
        for places in access_orders(codes.len()) {
            let mut single = CodesReader::read(&chunk, codes.len(), limit).unwrap();
            assert!(places.into_iter().all(|at| single.get(at).unwrap() == codes[at]));
            assert!(single.get(codes.len()).is_err());
        }
        let most = codes.iter().copied().max().unwrap_or(0);
        let mut strict = CodesReader::read(&chunk, codes.len(), most).unwrap();
        assert!(codes.iter().enumerate().all(|(at, code)| strict.get(at).is_ok() == (*code < most)));
    }

    pub(crate) fn check_numbers(chunk: &[u8], numbers: &[i64], times: &[i64]) {
        let (chunk, times) = (Bytes::copy_from_slice(chunk), Arc::from(times));
        for places in access_orders(numbers.len()) {
            let mut single = NumbersReader::read(&chunk, numbers.len(), Some(&times)).unwrap();
            assert!(places.into_iter().all(|at| single.get(at).unwrap() == numbers[at]));
            assert!(single.get(numbers.len()).is_err());
        }
    }

    pub(crate) fn check_texts<T: AsRef<[u8]>>(chunk: &[u8], texts: &[T], limit: u64) {
        let chunk = Bytes::copy_from_slice(chunk);
        for places in access_orders(texts.len()) {
            let mut single = TextsReader::read(&chunk, texts.len(), limit, None).unwrap();
            assert!(places.into_iter().all(|at| single.get(at).unwrap() == texts[at].as_ref()));
            assert!(single.get(texts.len()).is_err());
        }
    }

    /// Reads from arbitrary bytes, which must yield a value or an error.
    pub(crate) fn read_garbage(bytes: &[u8], count: usize) {
        let chunk = Bytes::copy_from_slice(bytes);
        let times = vec![5; count].into();
        for at in 0..=count {
            drop(CodesReader::read(&chunk, count, 9).and_then(|mut codes| codes.get(at)));
            drop(NumbersReader::read(&chunk, count, Some(&times)).and_then(|mut numbers| numbers.get(at)));
            drop(TextsReader::read(&chunk, count, 50, None).and_then(|mut texts| texts.get(at)));
        }
    }
}
