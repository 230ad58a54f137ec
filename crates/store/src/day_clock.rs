//! The wall clock for retention. A clock that is ahead makes everything look expired, so it is trusted only within
//! limits.

use quarry_catalog::Catalog;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::SharedClock;

/// Maximum gain of the wall clock over elapsed time; more means that the clock was set.
const GAIN_MAX_NS: i64 = 60 * 60 * NS_PER_SEC;
/// Time for which a clock that was set is not trusted.
const DOUBT_NS: i64 = 24 * 60 * 60 * NS_PER_SEC;
/// Beyond this gain a clock is never trusted at once: the effective time advances at double speed until it catches up.
pub(crate) const FAR_NS: i64 = 7 * DOUBT_NS;
/// Catalog setting with the last trusted time.
pub(crate) const BELIEVED: &str = "retention_time";
/// Advance of the trusted time after which it is saved again.
const SAVE_EVERY_NS: i64 = 60 * 60 * NS_PER_SEC;

/// The wall clock for retention.
#[derive(Debug)]
pub(crate) struct DayClock {
    /// The last trusted time, and when it was read.
    believed: i64,
    at: i64,
    told: bool,
    /// The last saved time.
    saved: i64,
}

impl DayClock {
    /// Trusts the clock unless it is far ahead of the last trusted time or of the newest bucket.
    pub(crate) fn new(clock: &SharedClock, catalog: &Catalog) -> DayClock {
        let (now, at) = (clock.now_ns(), clock.elapsed_ns());
        let saved = catalog.setting(BELIEVED).ok().flatten().and_then(|text| text.parse::<i64>().ok());
        let newest = || catalog.newest_created().ok().flatten();
        let known = saved.or_else(newest).unwrap_or(now);
        let is_far = now.saturating_sub(known) > FAR_NS;
        DayClock { believed: if is_far { known } else { now.max(known) }, at, told: false, saved: saved.unwrap_or(0) }
    }

    /// The effective time, and by how much the clock is ahead of it, if that is new.
    pub(crate) fn now(&mut self, clock: &SharedClock) -> (i64, Option<i64>) {
        let (now, elapsed) = (clock.now_ns(), clock.elapsed_ns());
        let passed = elapsed.saturating_sub(self.at);
        let expected = self.believed.saturating_add(passed);
        let gain = now.saturating_sub(expected);
        if gain > FAR_NS {
            (self.believed, self.at) = (expected.saturating_add(passed), elapsed);
            return (self.believed, self.news(gain));
        }
        if gain > GAIN_MAX_NS && passed < DOUBT_NS {
            let news = self.news(gain);
            return (expected, news);
        }
        // Going back removes nothing. But if it was a mistake, the correct time would later seem far ahead.
        if gain < -GAIN_MAX_NS && passed < DOUBT_NS {
            return (now, None);
        }
        (self.believed, self.at, self.told) = (now, elapsed, false);
        (now, None)
    }

    fn news(&mut self, gain: i64) -> Option<i64> {
        (!std::mem::replace(&mut self.told, true)).then_some(gain)
    }

    /// The trusted time, when it is due to be saved.
    pub(crate) fn take_due(&mut self) -> Option<i64> {
        let is_due = self.believed.abs_diff(self.saved) >= SAVE_EVERY_NS as u64;
        is_due.then(|| {
            self.saved = self.believed;
            self.believed
        })
    }
}
