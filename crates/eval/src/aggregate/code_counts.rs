//! Direct counting: counts rows by the dictionary codes of one or two columns, or by integer, without a group lookup.
//!
//! One addition per row is enough for `stats count by status` over dictionary codes, and for `timechart count by
//! status`, where runs of rows share a span. The counts are turned into group counts when the dictionary changes, or at
//! the end.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef};
use quarry_stdx::number::u32_of;

use super::fold::{LANES, add_in_lanes};
use super::integers::bounds;
use super::values::{IntegerForm, is_short, short_range};
use crate::rows::{ColumnReader, DictionaryColumn};

/// Maximum length of an array of counts; if integers or times need a longer one, their rows use the group lookup.
const INTEGERS_MAX: usize = 4 << 20;
/// Maximum number of codes, or pairs of codes, counted in an array; with more, rows use the group lookup.
const CODES_MAX: usize = 64 << 10;
/// Maximum number of codes whose counts are kept in lanes ([`super::fold::LANES`]). With more codes, runs are rare, and
/// the counts should stay in the nearest cache.
const LANE_CODES_MAX: usize = 1_024;
/// A batch must have at least one row per this many codes to justify an array of its own.
const CODES_PER_ROW: usize = 16;
/// Like [`CODES_PER_ROW`], for integers, whose range usually stays the same from batch to batch.
const INTEGERS_PER_ROW: usize = 256;
/// Maximum number of codes counted per timestamp; with more, rows use the group lookup.
const TIME_CODES_MAX: usize = 4_096;
/// Minimum average of rows per timestamp for counting by time: starts of spans reach this average, times of events do
/// not.
const ROWS_PER_TIME: usize = 16;
/// Number of rows after which counts are turned into group counts, because they could overflow.
const ROWS_MAX: usize = u32::MAX as usize / 2;
/// Number of integers whose counts are turned into group counts at a time.
const DRAIN_CHUNK_INTEGERS: usize = 8_192;

/// Counts not yet turned into group counts.
#[derive(Default)]
pub(crate) struct DirectCounts {
    counts: Counts,
    rows: usize,
}

#[derive(Default)]
enum Counts {
    #[default]
    Nothing,
    Integers(IntegerCounts),
    /// Counts by code of one dictionary, or by codes of two, with the second code in the low bits.
    Codes(Vec<ArrayRef>, u32, CountArray),
    /// Counts by time and, if there is a dictionary, by code within each time.
    Times {
        dictionary: Option<ArrayRef>,
        cells: usize,
        counts: BTreeMap<i64, Vec<u32>>,
    },
}

/// Counts of integers of one [`IntegerForm`], indexed by the difference from `base`.
struct IntegerCounts {
    form: IntegerForm,
    base: i64,
    counts: Vec<u32>,
}

enum CountArray {
    Lanes(Vec<[u32; LANES]>),
    Plain(Vec<u32>),
}

/// The values to which counts belong.
pub(crate) enum CountedValues<'a> {
    /// Ascending integers of this form; each has a count.
    Integers(IntegerForm, &'a [i64]),
    /// A text per column.
    Texts(&'a [&'a str]),
    /// A time, and a text if there are two columns.
    Time(i64, Option<&'a str>),
}

impl DirectCounts {
    /// Counts the rows of these columns; false if the columns are unsuitable, differ from the columns counted so far,
    /// or have too many rows.
    pub(crate) fn add(&mut self, columns: &[ColumnReader]) -> bool {
        let rows = columns.first().map_or(0, ColumnReader::len);
        let counted = self.rows + rows < ROWS_MAX
            && match columns {
                [ColumnReader::Int(array)] if array.null_count() == 0 => {
                    self.counts.add_integers(IntegerForm::Integer, array.values(), range_with_room)
                }
                [ColumnReader::Address(array)] if array.null_count() == 0 => {
                    self.counts.add_integers(IntegerForm::Address, array.values(), bounds)
                }
                [ColumnReader::Dictionary(only)] if only.is_complete() => self.counts.add_codes(only, None),
                [ColumnReader::Dictionary(left), ColumnReader::Dictionary(right)]
                    if left.is_complete() && right.is_complete() =>
                {
                    self.counts.add_codes(left, Some(right))
                }
                [ColumnReader::Time(times)] if times.null_count() == 0 => self.counts.add_times(times.values(), None),
                [ColumnReader::Time(times), ColumnReader::Dictionary(column)]
                    if times.null_count() == 0 && column.is_complete() =>
                {
                    self.counts.add_times(times.values(), Some(column))
                }
                _ => false,
            };
        self.rows += if counted { rows } else { 0 };
        counted
    }

    /// Takes over the counts of `other` if `self` has none, or if both count integers of the same form with close
    /// ranges; otherwise both are unchanged.
    pub(crate) fn absorb(&mut self, other: &mut DirectCounts) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        let (Counts::Integers(mine), Counts::Integers(others)) = (&mut self.counts, &mut other.counts) else { return };
        if self.rows + other.rows < ROWS_MAX && mine.absorb(others) {
            self.rows += other.rows;
            *other = DirectCounts::default();
        }
    }

    /// Calls `found` with values and their counts, then resets the counts.
    pub(crate) fn drain(&mut self, mut found: impl FnMut(CountedValues<'_>, &[i64])) {
        self.rows = 0;
        match std::mem::take(&mut self.counts) {
            Counts::Nothing => {}
            Counts::Integers(counts) => counts.for_each_part(|form, values, counts| {
                found(CountedValues::Integers(form, values), counts);
            }),
            Counts::Codes(dictionaries, bits, cells) => {
                let mut count_of = |cell: usize, count: i64| {
                    let texts = |at: usize, code: usize| text_of(&dictionaries[at], code);
                    match dictionaries.len() {
                        1 => found(CountedValues::Texts(&[texts(0, cell)]), &[count]),
                        _ => found(
                            CountedValues::Texts(&[texts(0, cell >> bits), texts(1, cell & ((1 << bits) - 1))]),
                            &[count],
                        ),
                    }
                };
                cells.for_each(&mut count_of);
            }
            Counts::Times { dictionary, counts, .. } => {
                for (time, counts) in counts {
                    let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
                    counts.for_each(|(code, count)| {
                        let text = dictionary.as_ref().map(|values| text_of(values, code));
                        found(CountedValues::Time(time, text), &[i64::from(*count)]);
                    });
                }
            }
        }
    }

    /// Whether nothing is counted.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.counts, Counts::Nothing)
    }

    /// Number of different integers counted.
    pub(crate) fn integer_count(&self) -> usize {
        match &self.counts {
            Counts::Integers(integers) => integers.counts.iter().filter(|count| **count > 0).count(),
            _ => 0,
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        match &self.counts {
            Counts::Nothing => 0,
            Counts::Times { cells, counts, .. } => counts.len() * cells * size_of::<u32>(),
            Counts::Integers(integers) => integers.counts.len() * size_of::<u32>(),
            Counts::Codes(_, _, CountArray::Plain(counts)) => counts.len() * size_of::<u32>(),
            Counts::Codes(_, _, CountArray::Lanes(counts)) => counts.len() * size_of::<[u32; LANES]>(),
        }
    }
}

fn text_of(values: &ArrayRef, code: usize) -> &str {
    use arrow::array::AsArray;
    values.as_string_view_opt().map_or("", |texts| texts.value(code))
}

impl CountArray {
    fn new(cells: usize) -> CountArray {
        match cells <= LANE_CODES_MAX {
            true => CountArray::Lanes(vec![[0; LANES]; cells]),
            false => CountArray::Plain(vec![0; cells]),
        }
    }

    fn for_each(&self, found: &mut dyn FnMut(usize, i64)) {
        let mut found = |cell, count| {
            if count > 0 {
                found(cell, count);
            }
        };
        match self {
            CountArray::Plain(counts) => {
                counts.iter().enumerate().for_each(|(cell, count)| found(cell, i64::from(*count)));
            }
            CountArray::Lanes(counts) => {
                let total = |lanes: &[u32; LANES]| lanes.iter().map(|lane| i64::from(*lane)).sum::<i64>();
                counts.iter().enumerate().for_each(|(cell, lanes)| found(cell, total(lanes)));
            }
        }
    }
}

/// The range of the integers; `None` if an array of counts for this range, with room to grow, could cover integers that
/// are not [short](is_short).
fn range_with_room(integers: &[i64]) -> Option<(i64, i64)> {
    let room = INTEGERS_MAX as i64;
    let (low, high) = short_range(integers)?;
    (is_short(low - room) && is_short(high + room)).then_some((low, high))
}

impl IntegerCounts {
    /// Counts values; false, with nothing counted, if the values have no range or their range is too far from the range
    /// of the array.
    fn add<T: Copy + Into<i64>>(&mut self, values: &[T], range_of: impl Fn(&[T]) -> Option<(i64, i64)>) -> bool {
        // Usually the array covers all values.
        let Some(outside) = self.count_covered(values) else { return true };
        let (counted, rest) = values.split_at(outside);
        // The first array is sized for the rows of a batch.
        let most =
            if self.counts.is_empty() { INTEGERS_MAX.min(values.len() * INTEGERS_PER_ROW) } else { INTEGERS_MAX };
        let needed =
            range_of(rest).map(|range| (range, self.required_len(range))).filter(|(_, needed)| *needed <= most);
        match needed {
            Some((range, needed)) => {
                self.cover(range, needed);
                self.count_covered(rest);
                true
            }
            None => {
                counted.iter().for_each(|value| self.counts[((*value).into() - self.base) as usize] -= 1);
                false
            }
        }
    }

    /// Counts values up to the first that the array does not cover, and returns its position.
    fn count_covered<T: Copy + Into<i64>>(&mut self, values: &[T]) -> Option<usize> {
        let (base, counts) = (self.base, self.counts.as_mut_slice());
        values.iter().position(|value| {
            let count = counts.get_mut((*value).into().wrapping_sub(base) as usize);
            count.map(|count| *count += 1).is_none()
        })
    }

    /// Adds the counts of `others`; false if they have a different form or their range is too far away.
    fn absorb(&mut self, others: &mut IntegerCounts) -> bool {
        let range_of = |counts: &IntegerCounts| (counts.base, counts.base + counts.counts.len() as i64 - 1);
        let needed = self.required_len(range_of(others));
        if self.form != others.form || needed > INTEGERS_MAX {
            return false;
        }
        // The longer array usually covers the shorter one, so that no array is allocated.
        if others.counts.len() > self.counts.len() {
            std::mem::swap(self, others);
        }
        self.cover(range_of(others), needed);
        let start = (others.base - self.base) as usize;
        let mine = &mut self.counts[start..start + others.counts.len()];
        mine.iter_mut().zip(&others.counts).for_each(|(count, more)| *count += more);
        true
    }

    /// Array length needed to cover the existing range and `low..=high`.
    fn required_len(&self, (low, high): (i64, i64)) -> usize {
        let (from, to) = (low.min(self.base), high.max(self.base + self.counts.len() as i64 - 1));
        usize::try_from(to - from).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// Extends the array to cover `low..=high`; `needed` is the length that [`IntegerCounts::required_len`] returned.
    fn cover(&mut self, (low, high): (i64, i64), needed: usize) {
        if low >= self.base && high - self.base < self.counts.len() as i64 {
            return;
        }
        // Over-allocation, so that a slowly growing range is rarely copied.
        let len = needed.saturating_add(needed / 2).min(INTEGERS_MAX);
        let end = high.max(self.base + self.counts.len() as i64 - 1);
        let from = if low < self.base { end - (len as i64 - 1) } else { low.min(self.base) };
        let mut grown = vec![0; len];
        let start = (self.base - from) as usize;
        grown[start..start + self.counts.len()].copy_from_slice(&self.counts);
        (self.base, self.counts) = (from, grown);
    }

    /// Calls `found` with the form, some integers and their counts, until all are reported.
    fn for_each_part(&self, mut found: impl FnMut(IntegerForm, &[i64], &[i64])) {
        let (mut values, mut counts) = (Vec::new(), Vec::new());
        for (some, base) in self.counts.chunks(DRAIN_CHUNK_INTEGERS).zip((self.base..).step_by(DRAIN_CHUNK_INTEGERS)) {
            values.clear();
            counts.clear();
            for (count, value) in some.iter().zip(base..).filter(|(count, _)| **count > 0) {
                values.push(value);
                counts.push(i64::from(*count));
            }
            found(self.form, &values, &counts);
        }
    }
}

impl Counts {
    fn add_integers<T: Copy + Into<i64>>(
        &mut self,
        form: IntegerForm,
        values: &[T],
        range_of: impl Fn(&[T]) -> Option<(i64, i64)>,
    ) -> bool {
        if let Counts::Nothing = self {
            let Some((low, _)) = range_of(values) else { return false };
            *self = Counts::Integers(IntegerCounts { form, base: low, counts: Vec::new() });
        }
        let Counts::Integers(known) = self else { return false };
        known.form == form && known.add(values, range_of)
    }

    fn add_codes(&mut self, left: &DictionaryColumn, right: Option<&DictionaryColumn>) -> bool {
        if let Counts::Nothing = self {
            let bits = right.map_or(0, |right| right.texts.len().max(1).next_power_of_two().trailing_zeros());
            let cells = left.texts.len() << bits;
            if cells > CODES_MAX || cells / CODES_PER_ROW > left.codes.len() {
                return false;
            }
            let dictionaries = [Some(left), right].into_iter().flatten().map(|column| column.values.clone());
            *self = Counts::Codes(dictionaries.collect(), bits, CountArray::new(cells));
        }
        let Counts::Codes(dictionaries, bits, cells) = self else { return false };
        match (dictionaries.as_slice(), right) {
            ([known], None) if left.has_dictionary(known) => match cells {
                CountArray::Lanes(lanes) => add_in_lanes(lanes, left.codes.values()),
                CountArray::Plain(counts) => left.codes.values().iter().for_each(|code| counts[*code as usize] += 1),
            },
            ([known_left, known_right], Some(right))
                if left.has_dictionary(known_left) && right.has_dictionary(known_right) =>
            {
                let pairs = left.codes.values().iter().zip(right.codes.values());
                let pairs = pairs.map(|(left, right)| (*left as usize) << *bits | *right as usize);
                match cells {
                    CountArray::Lanes(lanes) => pairs.enumerate().for_each(|(row, at)| lanes[at][row % LANES] += 1),
                    CountArray::Plain(counts) => pairs.for_each(|at| counts[at] += 1),
                }
            }
            _ => return false,
        }
        true
    }

    fn add_times(&mut self, times: &[i64], column: Option<&DictionaryColumn>) -> bool {
        let changes = times.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if changes >= times.len() / ROWS_PER_TIME {
            return false;
        }
        if let Counts::Nothing = self {
            let cells = column.map_or(1, |column| column.texts.len());
            if cells > TIME_CODES_MAX {
                return false;
            }
            let dictionary = column.map(|column| column.values.clone());
            *self = Counts::Times { dictionary, cells, counts: BTreeMap::new() };
        }
        let Counts::Times { dictionary, cells, counts } = self else { return false };
        let same = match (dictionary, column) {
            (None, None) => true,
            (Some(known), Some(column)) => column.has_dictionary(known),
            _ => false,
        };
        if !same || (counts.len() + changes + 1) * *cells > INTEGERS_MAX {
            return false;
        }
        let mut start = 0;
        for run in times.chunk_by(|a, b| a == b) {
            let counts = counts.entry(run[0]).or_insert_with(|| vec![0; *cells]);
            match column {
                None => counts[0] += u32_of(run.len()),
                Some(column) => {
                    let codes = &column.codes.values()[start..start + run.len()];
                    codes.iter().for_each(|code| counts[*code as usize] += 1);
                }
            }
            start += run.len();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, UInt32Array};

    use super::*;

    /// The counts by value.
    fn drained(counts: &mut DirectCounts) -> BTreeMap<i64, i64> {
        let mut all = BTreeMap::new();
        counts.drain(|counted, rows| {
            let CountedValues::Integers(_, values) = counted else { panic!("integers") };
            all.extend(values.iter().copied().zip(rows.iter().copied()));
        });
        all
    }

    fn integers(values: &[i64]) -> [ColumnReader; 1] {
        let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        [ColumnReader::new(&array)]
    }

    fn counts_of(values: &[i64]) -> BTreeMap<i64, i64> {
        values.iter().fold(BTreeMap::new(), |mut counts, value| {
            *counts.entry(*value).or_default() += 1;
            counts
        })
    }

    #[test]
    fn integers_are_counted_in_any_order_and_merged() {
        let [first, second] = [[7, 7, -3, 900, 7], [901, 0, -300, 7, 600]];
        let (mut left, mut right) = (DirectCounts::default(), DirectCounts::default());
        assert!(left.add(&integers(&first)) && left.add(&integers(&second)) && right.add(&integers(&second)));
        left.absorb(&mut right);
        assert_eq!(drained(&mut left), counts_of(&[first, second, second].concat()));
        assert_eq!(drained(&mut right), BTreeMap::new());
    }

    #[test]
    fn batches_with_too_wide_a_range_are_not_counted() {
        let mut counts = DirectCounts::default();
        assert!(counts.add(&integers(&[1, 2, 3])));
        for far in [INTEGERS_MAX as i64 + 2, i64::MIN, i64::MAX, 10i64.pow(18)] {
            assert!(!counts.add(&integers(&[1, 2, far, 3])), "{far}");
        }
        assert_eq!(drained(&mut counts), counts_of(&[1, 2, 3]));
    }

    #[test]
    fn integers_and_addresses_are_counted_separately() {
        let (mut left, mut right) = (DirectCounts::default(), DirectCounts::default());
        let array: ArrayRef = Arc::new(UInt32Array::from(vec![1, 2, 2]));
        let addresses = [ColumnReader::new(&array)];
        assert!(left.add(&addresses) && right.add(&integers(&[1, 2])) && !left.add(&integers(&[1, 2])));
        left.absorb(&mut right);
        assert_eq!(drained(&mut left), BTreeMap::from([(1, 1), (2, 2)]));
        assert_eq!(drained(&mut right), counts_of(&[1, 2]));
    }

    #[test]
    fn integers_near_the_text_bound_are_not_counted_by_index() {
        let mut counts = DirectCounts::default();
        assert!(!counts.add(&integers(&[10i64.pow(18) - 1, 10i64.pow(18) - 2])));
    }
}
