//! Parts of times: numbers in the texts that follow from the time of the event, as the milliseconds since 1970 or the
//! fraction of a second.

use crate::wire::{Cursor, Malformed, put_varint};

const MICROSECOND: i64 = 1_000;
const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A number is taken for a time if it differs from the event's time by at most this many nanoseconds: a day, and the
/// greatest offset of a time zone.
const NEAR_TIME_NS: i64 = 38 * HOUR;
/// A number is taken for a periodic part of the time if this many numbers at the start of a page equal it.
const EQUAL_NUMBERS_MIN: usize = 8;
const WHOLE_PARTS: [TimePart; 4] = [
    TimePart::WHOLE,
    TimePart { unit: MICROSECOND, period: 0 },
    TimePart { unit: MILLISECOND, period: 0 },
    TimePart { unit: SECOND, period: 0 },
];
const PERIODIC_PARTS: [TimePart; 7] = [
    MILLISECONDS,
    MICROSECONDS,
    TimePart { unit: 1, period: SECOND },
    TimePart { unit: SECOND / 100, period: 100 },
    TimePart { unit: SECOND, period: 60 },
    TimePart { unit: MINUTE, period: 60 },
    TimePart { unit: HOUR, period: 24 },
];
/// The fraction of a second with three or six digits.
const MILLISECONDS: TimePart = TimePart { unit: MILLISECOND, period: 1_000 };
const MICROSECONDS: TimePart = TimePart { unit: MICROSECOND, period: 1_000_000 };

/// A number that follows from a time: the time divided by a unit and, unless the period is 0, the remainder of this
/// divided by the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimePart {
    unit: i64,
    period: i64,
}

impl TimePart {
    /// The time itself, in nanoseconds.
    pub(super) const WHOLE: TimePart = TimePart { unit: 1, period: 0 };

    /// The part of the times that the numbers seem to be. A whole time may differ from the time of the event.
    pub(super) fn of(numbers: &[i64], times: &[i64]) -> Option<TimePart> {
        let (number, time) = (*numbers.first()?, *times.first()?);
        let is_near =
            |part: &TimePart| number.abs_diff(part.of_time(time)) <= (NEAR_TIME_NS / part.unit).unsigned_abs();
        let is_equal = |part: &TimePart| {
            let mut first = numbers.iter().zip(times).take(EQUAL_NUMBERS_MIN);
            first.all(|(number, time)| *number == part.of_time(*time))
        };
        let whole = || WHOLE_PARTS.into_iter().find(is_near);
        PERIODIC_PARTS.into_iter().find(is_equal).or_else(whole).filter(|_| numbers.len() == times.len())
    }

    #[inline(always)]
    pub(super) fn of_time(self, time: i64) -> i64 {
        let units = time.div_euclid(self.unit);
        if self.period == 0 { units } else { units.rem_euclid(self.period) }
    }

    /// The differences of numbers from this part of the times.
    pub(super) fn differences(self, numbers: &[i64], times: &[i64]) -> Vec<i64> {
        numbers.iter().zip(times).map(|(number, time)| number.wrapping_sub(self.of_time(*time))).collect()
    }

    /// Turns differences into numbers.
    pub(super) fn add_to(self, differences: &mut [i64], times: &[i64]) {
        // Division by a constant is several times as fast.
        match self {
            TimePart::WHOLE => add(differences, times, |time| time),
            MILLISECONDS => add(differences, times, |time| MILLISECONDS.of_time(time)),
            MICROSECONDS => add(differences, times, |time| MICROSECONDS.of_time(time)),
            _ => add(differences, times, |time| self.of_time(time)),
        }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.unit.unsigned_abs());
        put_varint(out, self.period.unsigned_abs());
    }

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<TimePart, Malformed> {
        let (unit, period) = (cursor.varint("unit of times")?, cursor.varint("period of times")?);
        match (i64::try_from(unit), i64::try_from(period)) {
            (Ok(unit @ 1..), Ok(period)) => Ok(TimePart { unit, period }),
            _ => Err(Malformed(format!("times cannot have the unit {unit} and the period {period}"))),
        }
    }
}

#[inline(always)]
fn add(differences: &mut [i64], times: &[i64], part_of: impl Fn(i64) -> i64) {
    for (difference, time) in differences.iter_mut().zip(times) {
        *difference = difference.wrapping_add(part_of(*time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_times_are_recognised() {
        // 2026-11-28T00:01:30.123456789Z and later.
        let times: Vec<i64> = (0..20).map(|at| 1_795_824_090_123_456_789 + at * 61_007_001_003).collect();
        let numbers = |part: &dyn Fn(i64) -> i64| -> Vec<i64> { times.iter().map(|time| part(*time)).collect() };
        for (unit, period, first) in [
            (1, 0, 1_795_824_090_123_456_789),
            (1_000_000, 0, 1_795_824_090_123),
            (1_000_000_000, 0, 1_795_824_090),
            (1_000_000, 1_000, 123),
            (1_000, 1_000_000, 123_456),
            (1, 1_000_000_000, 123_456_789),
            (10_000_000, 100, 12),
            (1_000_000_000, 60, 30),
            (60_000_000_000, 60, 1),
        ] {
            let part = TimePart { unit, period };
            let numbers = numbers(&|time| part.of_time(time));
            assert_eq!((numbers[0], TimePart::of(&numbers, &times)), (first, Some(part)), "{part:?}");
            let mut differences = part.differences(&numbers, &times);
            assert!(differences.iter().all(|difference| *difference == 0), "{part:?}");
            part.add_to(&mut differences, &times);
            assert_eq!(differences, numbers, "{part:?}");
            let mut stored = Vec::new();
            part.put(&mut stored);
            assert_eq!(TimePart::read(&mut Cursor::new(&stored)).unwrap(), part);
        }
        let shifted = numbers(&|time| time / 1_000_000 + 7_200_000);
        assert_eq!(TimePart::of(&shifted, &times), Some(TimePart { unit: 1_000_000, period: 0 }));
        assert_eq!(TimePart::of(&numbers(&|time| time % 997), &times), None);
        assert_eq!(TimePart::of(&shifted[1..], &times), None, "not every event has a number");
        assert!(TimePart::read(&mut Cursor::new(&[0, 0])).is_err(), "nothing is divided by 0");
        let before_1970 = TimePart { unit: 1_000_000, period: 1_000 };
        assert_eq!(before_1970.of_time(-1), 999);
    }
}
