//! Times as people write them: ranges, relative modifiers, spans, strptime and strftime.
//!
//! All instants are nanoseconds since the Unix epoch, UTC. The zone and "now" are arguments, so a search and a test
//! give the same answer at any moment. The zone database is compiled in; the system's is not read.

mod civil;
pub mod modifier;
mod names;
pub mod span;
pub mod strftime;
pub mod strptime;
mod zone;

pub use modifier::{ModifierError, Snap, apply_modifier, parse_epoch, parse_time};
pub use span::{Span, SpanFloor, SpanUnit};
pub use strftime::{strftime, strftime_into};
pub use strptime::{DateTimeParts, Format, FormatError, ResolveContext, strptime};
pub use zone::{fixed_zone, parse_zone};

/// Nanoseconds since 1970-01-01T00:00:00Z.
pub type TimeNs = i64;

/// Nanoseconds in a second.
pub const NS_PER_SEC: i64 = 1_000_000_000;

/// Half-open range of instants: `earliest` inclusive, `latest` exclusive; `None` is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// First instant inside.
    pub earliest: Option<TimeNs>,
    /// First instant after.
    pub latest: Option<TimeNs>,
}

impl TimeRange {
    /// The range without bounds.
    pub const ALL: TimeRange = TimeRange { earliest: None, latest: None };

    /// Whether `time` lies inside.
    pub fn contains(&self, time: TimeNs) -> bool {
        self.earliest.is_none_or(|from| time >= from) && self.latest.is_none_or(|to| time < to)
    }

    /// Whether any instant of `first..=last` may lie inside.
    pub fn overlaps(&self, first: TimeNs, last: TimeNs) -> bool {
        self.earliest.is_none_or(|from| last >= from) && self.latest.is_none_or(|to| first < to)
    }

    /// The instants inside both ranges.
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
