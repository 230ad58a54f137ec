//! Notations for times: ranges, relative modifiers, spans, schedules, strptime and strftime.
//!
//! Instants are nanoseconds since the Unix epoch, UTC. The time zone and "now" are arguments, so that results do not
//! depend on the time of their computation. The time zone database is compiled in; the database of the system is not
//! used.

pub(crate) mod civil;
mod clock_fields;
mod cron;
pub mod modifier;
mod names;
pub mod span;
pub mod strftime;
pub mod strptime;
mod zone;

pub use civil::utc_offset_secs;
pub use clock_fields::ClockFields;
pub use cron::{Cron, period_seconds};
pub use modifier::{Snap, apply_modifier, modifier_text, parse_epoch, parse_time};
pub use span::{Span, SpanFloor, SpanUnit};
pub use strftime::{equal_text_range, strftime, strftime_into, strftime_out_of_range, strftime_unit};
pub use strptime::{DateTimeParts, Format, ResolveContext, strptime};
pub use zone::{fixed_zone, parse_zone, zone_name};

use crate::value::write_nanos;

/// Nanoseconds since 1970-01-01T00:00:00Z.
pub type TimeNs = i64;

/// Nanoseconds in a second.
pub const NS_PER_SEC: i64 = 1_000_000_000;

/// Seconds since the epoch, exact, with no more decimals than needed.
pub fn seconds_text(time: TimeNs) -> String {
    let mut text = String::new();
    write_nanos(time, &mut text);
    text
}

/// Half-open range of instants: `earliest` inclusive, `latest` exclusive; `None` is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TimeRange {
    /// First instant inside the range.
    pub earliest: Option<TimeNs>,
    /// First instant after the range.
    pub latest: Option<TimeNs>,
}

impl TimeRange {
    /// The range without bounds.
    pub const ALL: TimeRange = TimeRange { earliest: None, latest: None };

    /// Whether `time` is inside the range.
    pub fn contains(&self, time: TimeNs) -> bool {
        self.earliest.is_none_or(|from| time >= from) && self.latest.is_none_or(|to| time < to)
    }

    /// Whether the range may contain an instant from `first` to `last`.
    pub fn overlaps(&self, first: TimeNs, last: TimeNs) -> bool {
        self.earliest.is_none_or(|from| last >= from) && self.latest.is_none_or(|to| first < to)
    }

    /// The range of instants that are inside both ranges.
    pub fn intersect(&self, other: &TimeRange) -> TimeRange {
        TimeRange {
            earliest: self.earliest.max(other.earliest),
            latest: match (self.latest, other.latest) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TimeNs, TimeRange, parse_epoch, seconds_text};

    fn range(earliest: impl Into<Option<i64>>, latest: impl Into<Option<i64>>) -> TimeRange {
        TimeRange { earliest: earliest.into(), latest: latest.into() }
    }

    #[test]
    fn seconds_have_the_sign_of_the_whole_number() {
        for (time, text) in [
            (0, "0"),
            (1_500_000_000, "1.5"),
            (1_000_000_001, "1.000000001"),
            (-1_500_000_000, "-1.5"),
            (-500_000_000, "-0.5"),
            (-2_000_000_000, "-2"),
            (TimeNs::MIN, "-9223372036.854775808"),
            (TimeNs::MAX, "9223372036.854775807"),
        ] {
            assert_eq!(seconds_text(time), text);
            assert!(time == TimeNs::MIN || parse_epoch(text) == Some(time), "{text}");
        }
    }

    #[test]
    fn ranges_include_their_start_and_exclude_their_end() {
        let half_open = range(10, 20);
        assert_eq!([9, 10, 19, 20].map(|time| half_open.contains(time)), [false, true, true, false]);
        assert!(TimeRange::ALL.contains(i64::MIN) && TimeRange::ALL.contains(i64::MAX));
        for (first, last, expected) in [(0, 9, false), (0, 10, true), (19, 30, true), (20, 30, false), (12, 13, true)] {
            assert_eq!(half_open.overlaps(first, last), expected, "{first}..={last}");
        }
    }

    #[test]
    fn intersections_have_the_nearer_bounds() {
        for (a, b, expected) in [
            (range(10, 20), range(15, 30), range(15, 20)),
            (range(10, None), range(None, 20), range(10, 20)),
            (TimeRange::ALL, range(1, 2), range(1, 2)),
            (TimeRange::ALL, TimeRange::ALL, TimeRange::ALL),
        ] {
            assert_eq!(a.intersect(&b), expected);
            assert_eq!(b.intersect(&a), expected);
        }
        let nothing = range(0, 5).intersect(&range(8, 9));
        assert!((0..10).all(|time| !nothing.contains(time)));
    }
}
