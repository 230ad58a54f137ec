//! Counting rows by one or two coded columns without looking at groups at all: a count per code, or per integer.
//!
//! `stats count by status` over codes of a dictionary needs one addition per row, and so does `timechart count by
//! status`, where runs of rows share the start of a span. The counts become counts of groups
//! when the dictionary changes, or at the end.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef};

use super::fold::{LANES, add_in_lanes};
use super::values::short_range;
use crate::rows::{ColumnReader, DictionaryColumn};

/// Integers of a range this long are counted by their place.
const INTEGERS_MAX: usize = 4 << 20;
/// Codes, or pairs of codes, counted by their place.
const CODES_MAX: usize = 64 << 10;
/// Codes up to which counts lie in lanes; more are seldom met in runs and should stay in the nearest cache.
const LANE_CODES_MAX: usize = 1_024;
/// Codes a batch must bring rows for, one in so many, to be worth an array of their own.
const CODES_PER_ROW: usize = 16;
/// The same for integers, which mostly keep to their range from batch to batch.
const INTEGERS_PER_ROW: usize = 256;
/// Codes counted per instant.
const TIME_CODES_MAX: usize = 4_096;
/// Rows an instant must come with, on average, to be counted so: starts of spans do, times of events do not.
const ROWS_PER_TIME: usize = 16;
/// Rows after which counts could overflow.
const ROWS_MAX: usize = u32::MAX as usize / 2;

/// Counts that are not counts of groups yet.
#[derive(Default)]
pub(crate) struct DirectCounts {
    counts: Counts,
    rows: usize,
}

#[derive(Default)]
enum Counts {
    #[default]
    Nothing,
    /// From the first integer on.
    Integers(i64, Vec<u32>),
    /// By code of one dictionary, or of two with the second in the low bits.
    Codes(Vec<ArrayRef>, u32, Places),
    /// By instant, and within an instant by code where there is a dictionary.
    Times { dictionary: Option<ArrayRef>, places: usize, counts: BTreeMap<i64, Vec<u32>> },
}

enum Places {
    Lanes(Vec<[u32; LANES]>),
    Plain(Vec<u32>),
}

/// What a count is of.
pub(crate) enum Counted<'a> {
    /// An integer.
    Integer(i64),
    /// A text per column.
    Texts(&'a [&'a str]),
    /// An instant, and a text where there are two columns.
    Time(i64, Option<&'a str>),
}

impl DirectCounts {
    /// Counts the rows of these columns; false where they are not such columns, or others than those counted so far.
    pub(crate) fn add(&mut self, columns: &[ColumnReader]) -> bool {
        let rows = columns.first().map_or(0, ColumnReader::len);
        let counted = self.rows + rows < ROWS_MAX
            && match columns {
                [ColumnReader::Int(array)] => {
                    short_range(array).is_some_and(|range| self.counts.add_integers(array.values(), range))
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

    /// Calls `found` with each value and its count, and forgets them.
    pub(crate) fn take(&mut self, mut found: impl FnMut(Counted<'_>, i64)) {
        self.rows = 0;
        match std::mem::take(&mut self.counts) {
            Counts::Nothing => {}
            Counts::Integers(base, counts) => {
                let counts = counts.iter().zip(base..).filter(|(count, _)| **count > 0);
                counts.for_each(|(count, integer)| found(Counted::Integer(integer), i64::from(*count)));
            }
            Counts::Codes(dictionaries, bits, places) => {
                let mut count_of = |place: usize, count: i64| {
                    let texts = |at: usize, code: usize| text_of(&dictionaries[at], code);
                    match dictionaries.len() {
                        1 => found(Counted::Texts(&[texts(0, place)]), count),
                        _ => found(
                            Counted::Texts(&[texts(0, place >> bits), texts(1, place & ((1 << bits) - 1))]),
                            count,
                        ),
                    }
                };
                places.for_each(&mut count_of);
            }
            Counts::Times { dictionary, counts, .. } => {
                for (time, counts) in counts {
                    let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
                    counts.for_each(|(code, count)| {
                        let text = dictionary.as_ref().map(|values| text_of(values, code));
                        found(Counted::Time(time, text), i64::from(*count));
                    });
                }
            }
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        match &self.counts {
            Counts::Nothing => 0,
            Counts::Times { places, counts, .. } => counts.len() * places * size_of::<u32>(),
            Counts::Integers(_, counts) => counts.len() * size_of::<u32>(),
            Counts::Codes(_, _, Places::Plain(counts)) => counts.len() * size_of::<u32>(),
            Counts::Codes(_, _, Places::Lanes(counts)) => counts.len() * size_of::<[u32; LANES]>(),
        }
    }
}

fn text_of(values: &ArrayRef, code: usize) -> &str {
    use arrow::array::AsArray;
    values.as_string_view_opt().map_or("", |texts| texts.value(code))
}

impl Places {
    fn new(places: usize) -> Places {
        match places <= LANE_CODES_MAX {
            true => Places::Lanes(vec![[0; LANES]; places]),
            false => Places::Plain(vec![0; places]),
        }
    }

    fn for_each(&self, found: &mut dyn FnMut(usize, i64)) {
        let mut found = |place, count| {
            if count > 0 {
                found(place, count);
            }
        };
        match self {
            Places::Plain(counts) => {
                counts.iter().enumerate().for_each(|(place, count)| found(place, i64::from(*count)));
            }
            Places::Lanes(counts) => {
                let total = |lanes: &[u32; LANES]| lanes.iter().map(|lane| i64::from(*lane)).sum::<i64>();
                counts.iter().enumerate().for_each(|(place, lanes)| found(place, total(lanes)));
            }
        }
    }
}

impl Counts {
    fn add_integers(&mut self, values: &[i64], (low, high): (i64, i64)) -> bool {
        if let Counts::Nothing = self {
            *self = Counts::Integers(low, Vec::new());
        }
        let Counts::Integers(base, counts) = self else { return false };
        if low < *base || high - *base >= counts.len() as i64 {
            let (from, to) = (low.min(*base), high.max(*base + counts.len() as i64 - 1));
            let needed = usize::try_from(to - from).unwrap_or(usize::MAX).saturating_add(1);
            // A range that grows by little each time is copied seldom.
            let len = needed.saturating_add(needed / 2).min(INTEGERS_MAX);
            if needed > INTEGERS_MAX || (counts.is_empty() && needed / INTEGERS_PER_ROW > values.len()) {
                return false;
            }
            let from = if low < *base { to - (len as i64 - 1) } else { from };
            let mut grown = vec![0; len];
            let start = (*base - from) as usize;
            grown[start..start + counts.len()].copy_from_slice(counts);
            (*base, *counts) = (from, grown);
        }
        let (base, counts) = (*base, counts.as_mut_slice());
        values.iter().for_each(|value| counts[(value - base) as usize] += 1);
        true
    }

    fn add_codes(&mut self, left: &DictionaryColumn, right: Option<&DictionaryColumn>) -> bool {
        if let Counts::Nothing = self {
            let bits = right.map_or(0, |right| right.texts.len().max(1).next_power_of_two().trailing_zeros());
            let places = left.texts.len() << bits;
            if places > CODES_MAX || places / CODES_PER_ROW > left.codes.len() {
                return false;
            }
            let dictionaries = [Some(left), right].into_iter().flatten().map(|column| column.values.clone());
            *self = Counts::Codes(dictionaries.collect(), bits, Places::new(places));
        }
        let Counts::Codes(dictionaries, bits, places) = self else { return false };
        match (dictionaries.as_slice(), right) {
            ([known], None) if left.shares(known) => match places {
                Places::Lanes(lanes) => add_in_lanes(lanes, left.codes.values()),
                Places::Plain(counts) => left.codes.values().iter().for_each(|code| counts[*code as usize] += 1),
            },
            ([known_left, known_right], Some(right)) if left.shares(known_left) && right.shares(known_right) => {
                let pairs = left.codes.values().iter().zip(right.codes.values());
                let pairs = pairs.map(|(left, right)| (*left as usize) << *bits | *right as usize);
                match places {
                    Places::Lanes(lanes) => pairs.enumerate().for_each(|(row, at)| lanes[at][row % LANES] += 1),
                    Places::Plain(counts) => pairs.for_each(|at| counts[at] += 1),
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
            let places = column.map_or(1, |column| column.texts.len());
            if places > TIME_CODES_MAX {
                return false;
            }
            let dictionary = column.map(|column| column.values.clone());
            *self = Counts::Times { dictionary, places, counts: BTreeMap::new() };
        }
        let Counts::Times { dictionary, places, counts } = self else { return false };
        let same = match (dictionary, column) {
            (None, None) => true,
            (Some(known), Some(column)) => column.shares(known),
            _ => false,
        };
        if !same || (counts.len() + changes + 1) * *places > INTEGERS_MAX {
            return false;
        }
        let mut start = 0;
        for run in times.chunk_by(|a, b| a == b) {
            let counts = counts.entry(run[0]).or_insert_with(|| vec![0; *places]);
            match column {
                None => counts[0] += run.len() as u32,
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
