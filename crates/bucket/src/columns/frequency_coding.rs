//! Entropy coding of numbers and codes, for columns in which some values are frequent.
//!
//! The upper bits of each number are one of up to 256 symbols. The symbols are coded by rANS (range asymmetric numeral
//! systems) with the frequencies of the page, four interleaved states and words of 16 bits. The lower bits, which are
//! nearly random, are bit-packed. A status that is 200 in four cases out of five takes 1.4 bits instead of four.

use bytes::Bytes;
use quarry_stdx::number::{f64_of, low_u8, low_u16, u32_of};

use crate::integers::{PackedReader, pack, unpack};
use crate::wire::{Cursor, Malformed, put_varint};

/// log2 of the frequency total.
const SCALE_BITS: u32 = 12;
const SCALE: u32 = 1 << SCALE_BITS;
/// Lower bound of a state between two symbols.
const STATE_MIN: u32 = 1 << 16;
const STATES: usize = 4;
/// Maximum number of upper bits that form a symbol.
const SYMBOL_BITS_MAX: u32 = 8;
/// With fewer values, the frequency table costs more than it saves.
const MIN_VALUES: usize = 256;
/// Approximate bits of a frequency in the table.
const FREQUENCY_BITS: f64 = 10.0;
/// Approximate bits of states and headers.
const HEAD_BITS: f64 = 200.0;

/// Appends the values, each of at most `width` bits, if frequency coding is expected to save 1/`save` of their bits;
/// returns whether they were appended.
pub(super) fn encode_skewed(values: &[u64], width: u32, save: usize, out: &mut Vec<u8>) -> bool {
    if values.len() < MIN_VALUES || width == 0 {
        return false;
    }
    let cost = |bits: &u32| expected_bits(&symbol_counts(values, width - bits), values.len(), width - bits);
    let costs = (1..=width.min(SYMBOL_BITS_MAX)).map(|bits| (bits, cost(&bits)));
    let Some((bits, cost)) = costs.min_by(|a, b| a.1.total_cmp(&b.1)) else { return false };
    let packed = f64_of(values.len() * width as usize);
    if cost > packed - packed / f64_of(save) {
        return false;
    }
    let low_bits = width - bits;
    let frequencies = normalize_counts(&symbol_counts(values, low_bits), values.len());
    assert_eq!(frequencies.iter().sum::<u32>(), SCALE, "frequencies fill the scale");
    assert!(frequencies.len() <= 1 << SYMBOL_BITS_MAX, "a symbol has at most SYMBOL_BITS_MAX bits");
    out.push(low_u8(low_bits));
    put_varint(out, frequencies.len() as u64);
    frequencies.iter().for_each(|frequency| put_varint(out, u64::from(*frequency)));
    encode_symbols(values.iter().rev().map(|value| (value >> low_bits) as usize), values.len(), &frequencies, out);
    let mask = (1 << low_bits) - 1;
    pack(values.iter().map(|value| value & mask), low_bits, out);
    true
}

/// Count of each symbol, up to the last symbol that occurs.
fn symbol_counts(values: &[u64], low_bits: u32) -> Vec<u32> {
    let mut counts = vec![0; 1 << SYMBOL_BITS_MAX];
    values.iter().for_each(|value| counts[(value >> low_bits) as usize & 0xff] += 1);
    let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    counts.truncate(used);
    counts
}

fn expected_bits(counts: &[u32], total: usize, low_bits: u32) -> f64 {
    let bits = |count: &u32| f64::from(*count) * (f64_of(total) / f64::from(*count)).log2();
    let symbols: f64 = counts.iter().filter(|count| **count > 0).map(bits).sum();
    symbols + f64_of(total * low_bits as usize) + FREQUENCY_BITS * f64_of(counts.len()) + HEAD_BITS
}

/// The counts scaled to a total of `SCALE`. The frequency of a symbol that occurs is at least one.
fn normalize_counts(counts: &[u32], total: usize) -> Vec<u32> {
    let scaled = |count: &u32| match count {
        0 => 0,
        count => u32_of(*count as usize * SCALE as usize / total).max(1),
    };
    let mut frequencies: Vec<u32> = counts.iter().map(scaled).collect();
    let mut sum: u32 = frequencies.iter().sum();
    while sum != SCALE {
        let Some(largest) = frequencies.iter_mut().max() else { break };
        // Rounding up adds at most one per symbol, so the largest frequency can always be reduced.
        let step = if sum < SCALE { SCALE - sum } else { (sum - SCALE).min(*largest / 2).max(1) };
        if sum < SCALE {
            *largest += step;
            sum += step;
        } else {
            *largest -= step;
            sum -= step;
        }
    }
    frequencies
}

/// Encodes symbols, which are given in reverse order.
fn encode_symbols(symbols: impl Iterator<Item = usize>, count: usize, frequencies: &[u32], out: &mut Vec<u8>) {
    let starts = cumulative_starts(frequencies);
    let mut states = [STATE_MIN; STATES];
    let mut words: Vec<u16> = Vec::with_capacity(count / 2);
    for (at, symbol) in (0..count).rev().zip(symbols) {
        let (frequency, start) = (frequencies[symbol], starts[symbol]);
        let state = &mut states[at % STATES];
        if u64::from(*state) >= u64::from(frequency) << (u32::BITS - SCALE_BITS) {
            words.push(low_u16(*state));
            *state >>= 16;
        }
        *state = ((*state / frequency) << SCALE_BITS) + *state % frequency + start;
    }
    assert!(words.len() <= count, "a symbol emits at most one word");
    states.iter().for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
    put_varint(out, words.len() as u64);
    words.iter().rev().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn cumulative_starts(frequencies: &[u32]) -> Vec<u32> {
    let running = frequencies.iter().scan(0, |sum, frequency| {
        *sum += frequency;
        Some(*sum - frequency)
    });
    running.collect()
}

/// Decodes `count` values of at most `limit` bits.
pub(super) fn decode_skewed(cursor: &mut Cursor<'_>, count: usize, limit: u32) -> Result<Vec<u64>, Malformed> {
    let mut slots = [0u32; SCALE as usize];
    let low_bits = read_slots(cursor, limit, &mut slots)?;
    let mut values = vec![0u64; count];
    decode_symbols(cursor, &slots, low_bits, &mut values)?;
    let mut low = Vec::new();
    let width = cursor.clone().u8("width of lower bits")?;
    if u32::from(width) != low_bits {
        return Err(Malformed(format!("lower bits are {width} wide, {low_bits} expected")));
    }
    unpack(cursor, count, &mut low)?;
    values.iter_mut().zip(low).for_each(|(value, low)| *value |= low);
    Ok(values)
}

/// Reads the number of low bits, and the frequency table: for each slot of the scale its symbol, the symbol's frequency
/// minus one, and the offset within the symbol.
fn read_slots(cursor: &mut Cursor<'_>, limit: u32, slots: &mut [u32; SCALE as usize]) -> Result<u32, Malformed> {
    let low_bits = u32::from(cursor.u8("lower bits")?);
    let symbols = cursor.count32("number of symbols", 1 << SYMBOL_BITS_MAX)?;
    let symbol_bits = u32::BITS - symbols.saturating_sub(1).leading_zeros();
    if low_bits + symbol_bits > limit || low_bits >= u64::BITS {
        return Err(Malformed(format!("{symbols} symbols and {low_bits} lower bits need more than {limit} bits")));
    }
    let mut next = 0;
    for symbol in 0..symbols {
        let frequency = cursor.count32("a frequency", SCALE as usize - next)?;
        let head = symbol << (2 * SCALE_BITS) | frequency.saturating_sub(1) << SCALE_BITS;
        let end = next + frequency as usize;
        slots[next..end].iter_mut().zip(0u32..).for_each(|(slot, within)| *slot = head | within);
        next = end;
    }
    if next != SCALE as usize {
        return Err(Malformed(format!("the frequencies add up to {next}")));
    }
    Ok(low_bits)
}

/// Random access to frequency-coded numbers: symbols are decoded up to the last requested symbol.
#[derive(Debug)]
pub(super) struct SkewedReader {
    slots: Box<[u32; SCALE as usize]>,
    states: [u32; STATES],
    /// Words of two bytes each.
    words: Bytes,
    next_word: usize,
    symbols: Vec<u8>,
    low: PackedReader,
}

impl SkewedReader {
    /// Reads `count` values of at most `limit` bits at the position of `cursor`, which reads `chunk`.
    pub(super) fn read(
        chunk: &Bytes,
        cursor: &mut Cursor<'_>,
        count: usize,
        limit: u32,
    ) -> Result<SkewedReader, Malformed> {
        let mut slots = Box::new([0u32; SCALE as usize]);
        let low_bits = read_slots(cursor, limit, &mut slots)?;
        let mut states = [0u32; STATES];
        for state in &mut states {
            *state = cursor.u32("a state")?;
        }
        let words = 2 * cursor.count("number of words", cursor.remaining() / 2)?;
        let start = chunk.len() - cursor.remaining();
        cursor.take(words, "words")?;
        let low = PackedReader::read(chunk, cursor, count, u64::BITS)?;
        if low.width() != low_bits as usize {
            return Err(Malformed(format!("lower bits are {} wide, {low_bits} expected", low.width())));
        }
        let words = chunk.slice(start..start + words);
        Ok(SkewedReader { slots, states, words, next_word: 0, symbols: Vec::new(), low })
    }

    /// Value number `at`, which must exist.
    pub(super) fn get(&mut self, at: usize) -> u64 {
        if at >= self.symbols.len() {
            self.decode_to(at + 1);
        }
        let symbol = self.symbols.get(at).copied().unwrap_or(0);
        u64::from(symbol) << self.low.width() | self.low.get(at)
    }

    /// Decodes symbols until `count` symbols are decoded.
    fn decode_to(&mut self, count: usize) {
        let (words, _) = self.words.as_chunks::<2>();
        let mut states = self.states;
        let mut next = self.next_word;
        self.symbols.reserve(count - self.symbols.len());
        for at in self.symbols.len()..count {
            let word = words.get(next).map_or(0, |word| u32::from(u16::from_le_bytes(*word)));
            let (symbol, is_due) = decode_symbol(&self.slots, &mut states[at % STATES], word);
            next += usize::from(is_due);
            self.symbols.push(low_u8(symbol));
        }
        (self.states, self.next_word) = (states, next);
    }
}

/// Takes a symbol from a state. Returns the symbol, and whether the state was refilled with `word`.
#[inline(always)]
fn decode_symbol(slots: &[u32; SCALE as usize], state: &mut u32, word: u32) -> (u32, bool) {
    let slot = slots[(*state & (SCALE - 1)) as usize];
    let (symbol, frequency, within) =
        (slot >> (2 * SCALE_BITS), (slot >> SCALE_BITS & (SCALE - 1)) + 1, slot & (SCALE - 1));
    // The result does not exceed the previous state, because the frequency does not exceed the scale.
    let left = frequency * (*state >> SCALE_BITS) + within;
    let is_due = left < STATE_MIN;
    *state = if is_due { left << 16 | word } else { left };
    (symbol, is_due)
}

fn decode_symbols(
    cursor: &mut Cursor<'_>,
    slots: &[u32; SCALE as usize],
    low_bits: u32,
    values: &mut [u64],
) -> Result<(), Malformed> {
    let mut states = [0u32; STATES];
    for state in &mut states {
        *state = cursor.u32("a state")?;
    }
    let words = cursor.count("number of words", cursor.remaining() / 2)?;
    let (words, _) = cursor.take(2 * words, "words")?.as_chunks::<2>();
    let words: Vec<u16> = words.iter().map(|word| u16::from_le_bytes(*word)).collect();
    let mut next = 0;
    let mut take = |state: &mut u32| {
        // The processor cannot predict when a state needs a word, so a word is always loaded; past the end, the word is
        // 0.
        let word = u32::from(words.get(next).copied().unwrap_or(0));
        let (symbol, is_due) = decode_symbol(slots, state, word);
        next += usize::from(is_due);
        u64::from(symbol) << low_bits
    };
    let (rows, rest) = values.as_chunks_mut::<STATES>();
    for row in rows {
        for at in 0..STATES {
            row[at] = take(&mut states[at]);
        }
    }
    rest.iter_mut().zip(&mut states).for_each(|(value, state)| *value = take(state));
    match next == words.len() && states == [STATE_MIN; STATES] {
        true => Ok(()),
        false => {
            Err(Malformed::new("words are left over after decoding, or the final states differ from the initial ones"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::integers::width_of;

    fn check(values: &[u64]) -> Option<usize> {
        let width = width_of(values.iter().fold(0, |all, value| all | value));
        let mut out = Vec::new();
        if !encode_skewed(values, width, 32, &mut out) {
            assert!(out.is_empty());
            return None;
        }
        let mut cursor = Cursor::new(&out);
        assert_eq!(decode_skewed(&mut cursor, values.len(), 64).unwrap(), values);
        cursor.finish("the values").unwrap();
        let chunk = Bytes::from(out);
        for places in [vec![0], vec![values.len() - 1, 5], (0..values.len()).step_by(7).collect()] {
            let mut single = SkewedReader::read(&chunk, &mut Cursor::new(&chunk), values.len(), 64).unwrap();
            assert!(places.iter().all(|at| single.get(*at) == values[*at]));
        }
        Some(chunk.len())
    }

    fn pseudo_random(at: u64) -> u64 {
        (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    #[test]
    fn frequent_values_are_encoded_in_few_bits() {
        let status: Vec<u64> =
            (0..4_096).map(|at| if pseudo_random(at) % 10 < 8 { 3 } else { pseudo_random(at) >> 9 & 15 }).collect();
        assert!(check(&status).unwrap() < 4_096 * 2 / 8);
        let sizes: Vec<u64> = (0..4_096).map(|at| (pseudo_random(at) % 65_536).pow(3) >> 32).collect();
        assert!(check(&sizes).unwrap() < 4_096 * 31 / 16);
        let one: Vec<u64> = (0..4_096).map(|at| u64::from(at == 77)).collect();
        assert!(check(&one).unwrap() < 60);
    }

    #[test]
    fn random_and_constant_values_are_not_frequency_coded() {
        assert_eq!(check(&(0..4_096).map(|at| pseudo_random(at) & 0xffff).collect::<Vec<u64>>()), None);
        assert_eq!(check(&(0..4_096).map(|at| pseudo_random(at) << 20).collect::<Vec<u64>>()), None);
        assert_eq!(check(&[0; 300]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_values_round_trip(
            values in prop::collection::vec(prop_oneof![8 => 0u64..3, 1 => 0u64..1_000, 1 => any::<u64>()], 256..600),
            wide in any::<bool>(),
        ) {
            let mask = if wide { u64::MAX } else { 1_023 };
            check(&values.iter().map(|value| value & mask).collect::<Vec<u64>>());
        }

        #[test]
        fn frequencies_sum_to_the_scale(counts in prop::collection::vec(0u32..5_000, 1..256)) {
            let total: u32 = counts.iter().sum();
            prop_assume!(total > 0);
            let frequencies = normalize_counts(&counts, total as usize);
            prop_assert_eq!(frequencies.iter().sum::<u32>(), SCALE);
            prop_assert!(counts.iter().zip(&frequencies).all(|(count, frequency)| (*count > 0) == (*frequency > 0)));
        }

        #[test]
        fn garbage_returns_errors(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0usize..100) {
            drop(decode_skewed(&mut Cursor::new(&bytes), count, 32));
        }

        #[test]
        fn damaged_chunks_are_rejected_or_decoded(at in any::<prop::sample::Index>(), value in any::<u8>()) {
            let values: Vec<u64> = (0..300).map(|at| if pseudo_random(at) % 10 < 8 { 3 } else { pseudo_random(at) & 15 }).collect();
            let mut out = Vec::new();
            prop_assert!(encode_skewed(&values, 4, 16, &mut out));
            *at.get_mut(&mut out) = value;
            drop(decode_skewed(&mut Cursor::new(&out), 300, 32));
        }
    }
}
