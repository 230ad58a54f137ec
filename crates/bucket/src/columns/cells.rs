//! Fast formatting of numbers into fixed-size cells that are copied as a whole.
//!
//! The output equals the output of `NumberFormat::write`. Here eight digits at a time come from one chain of
//! multiplications, dates are cached until the day changes, and no byte is pushed separately. Rebuilding a page formats
//! millions of numbers, so formatting numbers determines how fast texts are rebuilt.

use quarry_event::template::{NumberFormat, TimeLayout};
use quarry_stdx::number::{low_u8, low_u32, u8_of};

/// Bytes of a cell; no number in a valid format is longer.
pub(super) const CELL_BYTES: usize = 32;
/// Numbers formatted at once; their cells fit the first-level cache.
pub(crate) const BATCH_CELLS: usize = 64;

const EIGHT_DIGITS: u64 = 100_000_000;
const NS_PER_SEC: i64 = 1_000_000_000;
const NS_PER_DAY: i64 = 86_400 * NS_PER_SEC;
const ZEROES: u64 = 0x3030_3030_3030_3030;

/// Formatted numbers, one per cell.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) bytes: [[u8; CELL_BYTES]; BATCH_CELLS],
    pub(crate) lens: [u8; BATCH_CELLS],
    day: Day,
}

/// Date prefix shared by the times of one day.
#[derive(Debug, Default)]
struct Day {
    number: Option<i64>,
    text: [u8; 12],
}

impl Cells {
    pub(crate) fn new() -> Box<Cells> {
        Box::new(Cells { bytes: [[0; CELL_BYTES]; BATCH_CELLS], lens: [0; BATCH_CELLS], day: Day::default() })
    }

    /// Formats up to [`BATCH_CELLS`] numbers.
    pub(crate) fn format_numbers(&mut self, format: NumberFormat, numbers: &[i64]) {
        let cells = self.bytes.iter_mut().zip(&mut self.lens).zip(numbers);
        match format {
            NumberFormat::Integer => cells.for_each(|((cell, len), number)| *len = integer(*number, cell)),
            NumberFormat::Padded { digits } => {
                cells.for_each(|((cell, len), number)| *len = put_digits(number.unsigned_abs(), digits, cell, 0));
            }
            NumberFormat::Decimal { digits } => {
                cells.for_each(|((cell, len), number)| *len = decimal(*number, digits, cell));
            }
            NumberFormat::Shortest { digits } => {
                cells.for_each(|((cell, len), number)| *len = shortest(*number, digits, cell));
            }
            NumberFormat::Hex { digits } => {
                cells.for_each(|((cell, len), number)| *len = hex(number.cast_unsigned(), digits, cell));
            }
            NumberFormat::Ip4 => cells.for_each(|((cell, len), number)| *len = ip4(low_u32(*number), cell)),
            NumberFormat::Time(layout) => {
                let day = &mut self.day;
                cells.for_each(|((cell, len), number)| *len = time(*number, layout, day, cell));
            }
        }
    }
}

/// The decimal digits of a number below [`EIGHT_DIGITS`], the first in the lowest byte.
#[inline(always)]
fn eight_digits(number: u64) -> u64 {
    // Halves of four digits, then pairs, then digits, all in parallel; division is done by multiplication.
    let halves = (number / 10_000) | (number % 10_000) << 32;
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (halves - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - tens * 10) << 8
}

/// Writes eight bytes at an offset of a cell.
#[inline(always)]
fn put_word(word: u64, cell: &mut [u8; CELL_BYTES], at: usize) {
    if let Some(to) = cell.get_mut(at..at + 8) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

/// Writes a number with at least `least` digits at an offset of a cell; returns its end.
#[inline(always)]
fn put_digits(number: u64, least: u8, cell: &mut [u8; CELL_BYTES], at: usize) -> u8 {
    if number < EIGHT_DIGITS && least <= 8 {
        let word = eight_digits(number);
        let leading = (word.trailing_zeros() / 8).min(8 - u32::from(least));
        put_word((word | ZEROES) >> (8 * leading).min(63), cell, at);
        return low_u8(at + 8 - leading as usize);
    }
    put_long_digits(number, least, cell, at)
}

fn put_long_digits(number: u64, least: u8, cell: &mut [u8; CELL_BYTES], at: usize) -> u8 {
    let before =
        put_digits(number / EIGHT_DIGITS, least.saturating_sub(8).max(u8::from(number >= EIGHT_DIGITS)), cell, at);
    let end = usize::from(before);
    put_word(eight_digits(number % EIGHT_DIGITS) | ZEROES, cell, end);
    before + 8
}

#[inline(always)]
fn integer(number: i64, cell: &mut [u8; CELL_BYTES]) -> u8 {
    cell[0] = b'-';
    put_digits(number.unsigned_abs(), 1, cell, usize::from(number < 0))
}

#[inline(always)]
fn decimal(number: i64, digits: u8, cell: &mut [u8; CELL_BYTES]) -> u8 {
    let magnitude = number.unsigned_abs();
    let start = usize::from(number < 0);
    cell[0] = b'-';
    if magnitude < EIGHT_DIGITS && digits < 8 {
        let word = eight_digits(magnitude);
        let leading = (word.trailing_zeros() / 8).min(7 - u32::from(digits));
        let word = (word | ZEROES) >> (8 * leading);
        let whole = 8 - leading as usize - usize::from(digits);
        put_word(word, cell, start);
        put_word(word >> (8 * whole), cell, start + whole + 1);
        cell[start + whole] = b'.';
        return low_u8(start + whole + 1) + digits;
    }
    let unit = 10u64.pow(u32::from(digits));
    let point = usize::from(put_digits(magnitude / unit, 1, cell, start));
    cell[point] = b'.';
    put_digits(magnitude % unit, digits, cell, point + 1)
}

/// Like [`decimal`], without zeros at the end of the fraction and without a point before an empty fraction.
#[inline(always)]
fn shortest(number: i64, digits: u8, cell: &mut [u8; CELL_BYTES]) -> u8 {
    let mut len = decimal(number, digits, cell);
    let point = len - digits - 1;
    while len > point + 1 && cell[usize::from(len) - 1] == b'0' {
        len -= 1;
    }
    if len == point + 1 { point } else { len }
}

#[inline(always)]
fn hex(number: u64, digits: u8, cell: &mut [u8; CELL_BYTES]) -> u8 {
    let mut all = [0u8; 16];
    for (pair, byte) in all.as_chunks_mut::<2>().0.iter_mut().zip(number.to_be_bytes()) {
        *pair = HEX_PAIRS[usize::from(byte)];
    }
    let digits = digits.min(16);
    let text = u128::from_le_bytes(all) >> (8 * u32::from(16 - digits)).min(127);
    cell[..16].copy_from_slice(&text.to_le_bytes());
    digits
}

#[inline(always)]
fn ip4(number: u32, cell: &mut [u8; CELL_BYTES]) -> u8 {
    let mut at = 0;
    for part in number.to_be_bytes() {
        let (text, len) = BYTE_TEXTS[usize::from(part)];
        cell[at..at + 4].copy_from_slice(&text);
        at += usize::from(len);
    }
    low_u8(at) - 1
}

#[inline(always)]
fn time(nanos: i64, layout: TimeLayout, day: &mut Day, cell: &mut [u8; CELL_BYTES]) -> u8 {
    let number = nanos.div_euclid(NS_PER_DAY);
    let within = nanos.rem_euclid(NS_PER_DAY).cast_unsigned();
    let start = match layout {
        TimeLayout::Iso { .. } => 11,
        TimeLayout::Common => 12,
        TimeLayout::Clock => 0,
    };
    if day.number != Some(number) {
        let mut text = Vec::with_capacity(CELL_BYTES);
        NumberFormat::Time(layout).write(nanos, &mut text);
        day.text[..start].copy_from_slice(&text[..start]);
        day.number = Some(number);
    }
    cell[..12].copy_from_slice(&day.text);
    let (second, fraction) = (within / NS_PER_SEC.cast_unsigned(), within % NS_PER_SEC.cast_unsigned());
    // `00:00:00`: three pairs of digits with a byte between them.
    let pairs = (second / 3_600) | ((second / 60 % 60) << 24) | ((second % 60) << 48);
    let tens = ((pairs * 103) >> 10) & 0x000f_0000_0f00_000f;
    put_word((tens | (pairs - tens * 10) << 8) | CLOCK, cell, start);
    let end = start + 8;
    let TimeLayout::Iso { point, digits, zulu, .. } = layout else {
        return low_u8(end);
    };
    let mut end = end;
    if digits > 0 {
        cell[end] = point;
        let fraction = match digits {
            3 => fraction / 1_000_000,
            6 => fraction / 1_000,
            digits => fraction / 10u64.pow(9 - u32::from(digits.min(9))),
        };
        end = usize::from(put_digits(fraction, digits, cell, end + 1));
    }
    cell[end] = b'Z';
    low_u8(end + usize::from(zulu))
}

/// The zeroes and colons of a time of day.
const CLOCK: u64 = u64::from_le_bytes(*b"00:00:00");

static HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut at = 0;
    while at < 256 {
        pairs[at] = [digits[at >> 4], digits[at & 15]];
        at += 1;
    }
    pairs
};

/// The numbers 0 to 255 as texts followed by a point, each with its length.
static BYTE_TEXTS: [([u8; 4], u8); 256] = {
    let mut texts = [([0; 4], 0); 256];
    let mut at = 0;
    while at < 256 {
        let (hundreds, tens, ones) = (b'0' + u8_of(at / 100), b'0' + u8_of(at / 10 % 10), b'0' + u8_of(at % 10));
        texts[at] = match at {
            0..10 => ([ones, b'.', 0, 0], 2),
            10..100 => ([tens, ones, b'.', 0], 3),
            _ => ([hundreds, tens, ones, b'.'], 4),
        };
        at += 1;
    }
    texts
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn formats() -> Vec<NumberFormat> {
        let mut formats = vec![NumberFormat::Integer, NumberFormat::Ip4];
        formats.extend((1..=18).map(|digits| NumberFormat::Padded { digits }));
        formats.extend((1..=9).map(|digits| NumberFormat::Decimal { digits }));
        formats.extend((1..=9).map(|digits| NumberFormat::Shortest { digits }));
        formats.extend((1..=16).map(|digits| NumberFormat::Hex { digits }));
        formats.extend([TimeLayout::Common, TimeLayout::Clock].map(NumberFormat::Time));
        for digits in 0..=9 {
            let point = if digits == 0 { 0 } else { b'.' };
            let iso = |zulu| TimeLayout::Iso { between: b'T', point, digits, zulu };
            formats.extend([true, false].map(|zulu| NumberFormat::Time(iso(zulu))));
        }
        assert!(formats.iter().all(|format| format.is_valid()));
        formats
    }

    fn check(numbers: &[i64]) {
        let mut cells = Cells::new();
        for format in formats() {
            // A cached date is valid for one column only.
            cells.day = Day::default();
            cells.format_numbers(format, numbers);
            for (at, number) in numbers.iter().enumerate() {
                let mut expected = Vec::new();
                format.write(*number, &mut expected);
                let text = &cells.bytes[at][..usize::from(cells.lens[at])];
                assert_eq!(text.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{format:?} {number}");
            }
        }
    }

    proptest! {
        #[test]
        fn cells_equal_the_text_of_the_number_format(
            wild in prop::collection::vec(any::<i64>(), 20),
            near in prop::collection::vec((0u32..20, -9i64..10), 20),
        ) {
            check(&wild);
            let numbers: Vec<i64> = near.iter().map(|(power, step)| 10i64.saturating_pow(*power).saturating_add(*step)).collect();
            check(&numbers);
            let numbers: Vec<i64> = numbers.iter().map(|number| -*number).collect();
            check(&numbers);
        }
    }

    #[test]
    fn extreme_numbers_equal_the_text_of_the_number_format() {
        check(&[0, 1, -1, i64::MIN, i64::MAX, 99_999_999, 100_000_000, 9_999_999_999_999_999, 10_000_000_000_000_000]);
        for start in (0..100_000).step_by(BATCH_CELLS) {
            let numbers: Vec<i64> = (start..start + BATCH_CELLS as i64).collect();
            let mut cells = Cells::new();
            cells.format_numbers(NumberFormat::Integer, &numbers);
            for (at, number) in numbers.iter().enumerate() {
                assert_eq!(cells.bytes[at][..usize::from(cells.lens[at])], *number.to_string().as_bytes());
            }
        }
    }
}
