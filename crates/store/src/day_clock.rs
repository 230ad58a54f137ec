//! The time of day that retention goes by: a clock that is ahead makes everything look old, so it is not simply believed.

use quarry_catalog::{BucketState, Catalog};
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::SharedClock;

/// Most that the time of day may gain on the time that passed; more is a clock that was set.
const GAIN_MAX_NS: i64 = 60 * 60 * NS_PER_SEC;
/// How long a clock that was set is not believed.
const DOUBT_NS: i64 = 24 * 60 * 60 * NS_PER_SEC;
/// A clock that gained more is never believed at once: time is taken to pass twice as fast until it is reached.
pub(crate) const FAR_NS: i64 = 7 * DOUBT_NS;
/// Setting of the catalog with the time of day that was believed last.
pub(crate) const BELIEVED: &str = "retention_time";
/// How far the believed time moves before it is saved again.
const SAVE_EVERY_NS: i64 = 60 * 60 * NS_PER_SEC;

/// The time of day that retention goes by.
#[derive(Debug)]
pub(crate) struct DayClock {
    /// The last time of day that was believed, and when that was.
    believed: i64,
    at: i64,
    told: bool,
    /// What was saved last.
    saved: i64,
}

impl DayClock {
    /// Believes the clock unless it is far ahead of the last time that was believed, or of the newest bucket.
    pub(crate) fn new(clock: &SharedClock, catalog: &Catalog) -> DayClock {
        let (now, at) = (clock.now_ns(), clock.elapsed_ns());
        let saved = catalog.setting(BELIEVED).ok().flatten().and_then(|text| text.parse::<i64>().ok());
        let newest = || {
            let live = catalog.buckets(BucketState::Live).unwrap_or_default();
            live.iter().map(|bucket| bucket.created).max()
        };
        let known = saved.or_else(newest).unwrap_or(now);
        let is_far = now.saturating_sub(known) > FAR_NS;
        DayClock { believed: if is_far { known } else { now.max(known) }, at, told: false, saved: saved.unwrap_or(0) }
    }

    /// The time of day to go by, and by how much the clock is ahead of it if that is news.
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
        // Going back removes nothing; but it may have been a mistake, after which the right time would seem far ahead.
        if gain < -GAIN_MAX_NS && passed < DOUBT_NS {
            return (now, None);
        }
        (self.believed, self.at, self.told) = (now, elapsed, false);
        (now, None)
    }

    fn news(&mut self, gain: i64) -> Option<i64> {
        (!std::mem::replace(&mut self.told, true)).then_some(gain)
    }

    /// The believed time, when it is worth saving again.
    pub(crate) fn take_due(&mut self) -> Option<i64> {
        let is_due = self.believed.abs_diff(self.saved) >= SAVE_EVERY_NS as u64;
        is_due.then(|| {
            self.saved = self.believed;
            self.believed
        })
    }
}
