//! The wall clock for retention. A clock that is ahead makes all events look expired, so the clock is trusted only
//! within limits.

use quarry_catalog::Catalog;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::SharedClock;

/// Maximum gain of the wall clock over monotonic time in nanoseconds; a larger gain means that the clock was set.
const GAIN_MAX_NS: i64 = 60 * 60 * NS_PER_SEC;
/// Time in nanoseconds for which a clock that was set is not trusted.
const DISTRUST_NS: i64 = 24 * 60 * 60 * NS_PER_SEC;
/// Gain in nanoseconds beyond which a clock is not trusted even after `DISTRUST_NS`. Instead, the effective time
/// advances at double speed until the gain is smaller.
pub(crate) const LARGE_GAIN_NS: i64 = 7 * DISTRUST_NS;
/// Catalog setting with the last trusted time.
pub(crate) const TRUSTED_TIME_SETTING: &str = "retention_time";
/// Advance of the trusted time, in nanoseconds, after which it is saved again.
const SAVE_INTERVAL_NS: i64 = 60 * 60 * NS_PER_SEC;

/// The wall clock for retention.
#[derive(Debug)]
pub(crate) struct DayClock {
    /// The last trusted time, and the monotonic time at which it was read.
    trusted_ns: i64,
    at: i64,
    is_reported: bool,
    /// The last saved time.
    saved: i64,
}

impl DayClock {
    /// Trusts the clock unless it is far ahead of the last trusted time or, if none is saved, of the newest bucket.
    pub(crate) fn new(clock: &SharedClock, catalog: &Catalog) -> DayClock {
        let (now, at) = (clock.now_ns(), clock.elapsed_ns());
        let saved = catalog.setting(TRUSTED_TIME_SETTING).ok().flatten().and_then(|text| text.parse::<i64>().ok());
        let newest = || catalog.newest_created().ok().flatten();
        let known = saved.or_else(newest).unwrap_or(now);
        let is_far = now.saturating_sub(known) > LARGE_GAIN_NS;
        DayClock {
            trusted_ns: if is_far { known } else { now.max(known) },
            at,
            is_reported: false,
            saved: saved.unwrap_or(0),
        }
    }

    /// The effective time, and, if not reported yet, by how much the wall clock is ahead of the expected time.
    pub(crate) fn now(&mut self, clock: &SharedClock) -> (i64, Option<i64>) {
        let (now, elapsed) = (clock.now_ns(), clock.elapsed_ns());
        let passed = elapsed.saturating_sub(self.at);
        let expected = self.trusted_ns.saturating_add(passed);
        let gain = now.saturating_sub(expected);
        if gain > LARGE_GAIN_NS {
            (self.trusted_ns, self.at) = (expected.saturating_add(passed), elapsed);
            return (self.trusted_ns, self.take_unreported_gain(gain));
        }
        if gain > GAIN_MAX_NS && passed < DISTRUST_NS {
            let news = self.take_unreported_gain(gain);
            return (expected, news);
        }
        // A clock that was set back is used at once, because that makes no event expire. But this time is not
        // remembered as trusted: if it is wrong, the correct time would later seem far ahead.
        if gain < -GAIN_MAX_NS && passed < DISTRUST_NS {
            return (now, None);
        }
        (self.trusted_ns, self.at, self.is_reported) = (now, elapsed, false);
        (now, None)
    }

    fn take_unreported_gain(&mut self, gain: i64) -> Option<i64> {
        (!std::mem::replace(&mut self.is_reported, true)).then_some(gain)
    }

    /// The trusted time, if it is due to be saved.
    pub(crate) fn take_due(&mut self) -> Option<i64> {
        let is_due = self.trusted_ns.abs_diff(self.saved) >= SAVE_INTERVAL_NS.cast_unsigned();
        is_due.then(|| {
            self.saved = self.trusted_ns;
            self.trusted_ns
        })
    }
}
