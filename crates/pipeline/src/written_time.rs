//! The timestamp in an event's text, located again at search time.
//!
//! An event stores its instant, but not the clock time from which the instant was computed. The rules that found the
//! timestamp at index time are run again. The timestamp counts only if it equals the event's `_time`, so an event whose
//! time was not read from its text has no written time, even if the text contains one or the rules have changed since.

use jiff::tz::TimeZone;
use quarry_conf::PropsSettings;
use quarry_event::time::{ClockFields, DateTimeParts, NS_PER_SEC, ResolveContext, TimeNs};

use crate::error::PipelineError;
use crate::pipeline::PipelineContext;
use crate::recognise::swap_day_and_month;
use crate::timestamp::{FoundTimestamp, Timestamper};

/// Offsets from UTC are multiples of this, a quarter of an hour.
const ZONE_STEP_SECS: i64 = 900;
/// Largest offset from UTC.
const ZONE_SECS_MAX: i64 = 14 * 3600;
const DAY_SECS: i64 = 86_400;

/// Locates the timestamps of one source again.
#[derive(Debug)]
pub struct WrittenTimes {
    timestamper: Timestamper,
}

/// A timestamp as written in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenTime {
    /// Clock and calendar fields of the timestamp.
    pub clock: ClockFields,
    /// Offset of the zone that the timestamp names, in seconds east of UTC; `None` if it names none.
    pub zone: Option<i32>,
    /// Index of the first byte in the text.
    pub start: usize,
    /// Index after the last byte.
    pub end: usize,
}

impl WrittenTimes {
    /// Prepares for a source with these settings. `now` limits which numbers count as epochs.
    pub fn new(settings: &PropsSettings, now: TimeNs) -> Result<WrittenTimes, PipelineError> {
        let context = PipelineContext { now, zone: Some(TimeZone::UTC), modified: None, orders: None };
        Ok(WrittenTimes { timestamper: Timestamper::new(settings, &context)? })
    }

    /// The timestamp in an event's text that equals its time.
    pub fn read(&self, text: &[u8], time: TimeNs) -> Option<WrittenTime> {
        // If lines are merged, the time comes from the first line if possible, regardless of the lookahead.
        let first = memchr::memchr(b'\n', text).map(|end| &text[..end]);
        let of_first = first.and_then(|line| self.timestamper.find(line)).and_then(|found| written(&found, time));
        of_first.or_else(|| written(&self.timestamper.find(text)?, time))
    }
}

/// The timestamp found, if it equals `time` in either order of day and month: at index time, the source may have shown
/// the other order.
fn written(found: &FoundTimestamp, time: TimeNs) -> Option<WrittenTime> {
    let other = || swap_day_and_month(&found.parts, found.read?);
    written_as(&found.parts, found.place, time)
        .or_else(|| other().and_then(|(parts, _)| written_as(&parts, found.place, time)))
}

/// The timestamp with these parts, if it equals `time`; without a written zone, the two may differ by the offset of a
/// zone.
fn written_as(parts: &DateTimeParts, (start, end): (usize, usize), time: TimeNs) -> Option<WrittenTime> {
    let context = ResolveContext { now: time, tz: &TimeZone::UTC, last: Some(time) };
    let zone = if parts.epoch.is_some() { Some(0) } else { parts.offset };
    let ahead = parts.resolve(&context)?.div_euclid(NS_PER_SEC) - time.div_euclid(NS_PER_SEC);
    let ahead = match parts.has_full_date() || parts.month.is_some() {
        true => ahead,
        // A time without a date is assigned to the nearest day.
        false => (ahead + DAY_SECS / 2).rem_euclid(DAY_SECS) - DAY_SECS / 2,
    };
    let is_own = match zone {
        Some(_) => ahead == 0,
        None => ahead % ZONE_STEP_SECS == 0 && ahead.abs() <= ZONE_SECS_MAX,
    };
    let offset = zone.map_or(ahead, i64::from);
    is_own.then(|| WrittenTime { clock: ClockFields::at(time, offset), zone, start, end })
}

#[cfg(test)]
mod tests {
    use quarry_conf::{Layers, PropsResolver};

    use super::*;

    const NOON: TimeNs = 1_795_176_000 * NS_PER_SEC;

    fn read(text: &str, time: TimeNs) -> Option<WrittenTime> {
        let settings = PropsResolver::new(&Layers::new([])).resolve("s", "h", "t");
        WrittenTimes::new(&settings, NOON).unwrap().read(text.as_bytes(), time)
    }

    #[test]
    fn written_time_is_found_only_if_it_equals_the_event_time() {
        let shown = |text: &str, time| read(text, time).map(|w| (w.clock.day, w.clock.hour, w.zone, w.start, w.end));
        assert_eq!(shown("2026-11-20T12:00:00Z up", NOON), Some((20, 12, Some(0), 0, 20)));
        assert_eq!(shown("x [20/Nov/2026:23:00:00 +1100] up", NOON), Some((20, 23, Some(39_600), 3, 29)));
        assert_eq!(shown("2026-11-21 01:00:00 up", NOON), Some((21, 1, None, 0, 19)));
        assert_eq!(shown("Nov 20 04:00:00 web up", NOON), Some((20, 4, None, 0, 15)));
        // Half an hour west of UTC, on the previous day.
        assert_eq!(shown("23:30:00 up", NOON + 12 * 3600 * NS_PER_SEC), Some((20, 23, None, 0, 8)));
        // The source had shown that the day comes first, or that the month does.
        let fifth = NOON - 15 * 86_400 * NS_PER_SEC;
        for text in ["05/11/2026 12:00:00 up", "11/05/2026 12:00:00 up", "05-11-2026 12:00:00 up"] {
            assert_eq!(shown(text, fifth), Some((5, 12, None, 0, 19)), "{text}");
        }
        assert_eq!(shown("05/12/2026 12:00:00 up", fifth), None);
        assert_eq!(shown("2026-11-20T12:00:01Z up", NOON), None);
        assert_eq!(shown("2026-11-20 12:01:00 up", NOON), None);
        assert_eq!(shown("up", NOON), None);
        assert_eq!(shown("1795176000 up", NOON).map(|w| (w.1, w.2)), Some((12, Some(0))));
        assert_eq!(shown("2026-11-20 12:00:00\n at line\n", NOON).map(|w| w.1), Some(12));
    }
}
