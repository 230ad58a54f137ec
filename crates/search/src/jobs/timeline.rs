//! The timeline of a job: event counts in spans of equal width. The width follows from the time range of the events.
//!
//! Events arrive newest first and their range is unknown, so counting starts with spans of one second. When the range
//! would need more spans than allowed, including empty spans, the spans are merged into spans of the next width.
//! The widths are those of Splunk's timeline.

use std::collections::BTreeMap;

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use serde::{Deserialize, Serialize};

/// Widths of spans in seconds; each is a multiple of the previous width.
const WIDTHS: [i64; 8] = [1, 10, 60, 600, 3_600, 86_400, 30 * 86_400, 360 * 86_400];
/// Maximum number of spans that cover the range of a timeline, unless the spans already have the largest width.
pub const SPANS_MAX: usize = 1_000;

/// Counts of events by time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timeline {
    spans_max: usize,
    width: usize,
    /// Number of events by the start of their span in seconds.
    counts: BTreeMap<i64, u64>,
    /// Times of the earliest and latest event.
    bounds: Option<(TimeNs, TimeNs)>,
}

/// A span of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// Start of the span in seconds since 1970.
    pub start: i64,
    /// Length of the span in seconds.
    pub seconds: i64,
    /// Number of events in the span.
    pub count: u64,
}

impl Timeline {
    /// A timeline whose range is covered by at most `spans_max` spans (and at most [`SPANS_MAX`]), unless the spans
    /// already have the largest width. With 0, the timeline has only the bounds.
    pub(crate) fn new(spans_max: usize) -> Timeline {
        Timeline { spans_max: spans_max.min(SPANS_MAX), width: 0, counts: BTreeMap::new(), bounds: None }
    }

    /// Restores a timeline written by an earlier process, if valid.
    pub(crate) fn from_json(value: &serde_json::Value) -> Option<Timeline> {
        let timeline = Timeline::deserialize(value).ok()?;
        (timeline.width < WIDTHS.len()).then_some(timeline)
    }

    /// A timeline over these bounds. `count` returns the counts of events by the start of their span; it is called with
    /// the width of the spans. Starts and width are in seconds.
    pub(crate) fn from_counts<E>(
        spans_max: usize,
        bounds: (TimeNs, TimeNs),
        count: impl FnOnce(i64) -> Result<BTreeMap<i64, u64>, E>,
    ) -> Result<Timeline, E> {
        let mut timeline = Timeline { bounds: Some(bounds), ..Timeline::new(spans_max) };
        let starts = |timeline: &Timeline| {
            [bounds.0, bounds.1].map(|time| (timeline.span_start(time.div_euclid(NS_PER_SEC)), 0_u64))
        };
        timeline.counts = starts(&timeline).into();
        while timeline.covering_spans() > timeline.spans_max && timeline.width + 1 < WIDTHS.len() {
            timeline.width += 1;
            timeline.counts = starts(&timeline).into();
        }
        timeline.counts = count(WIDTHS[timeline.width])?;
        Ok(timeline)
    }

    /// Counts an event.
    pub(crate) fn add(&mut self, time: TimeNs) {
        self.bounds = Some(self.bounds.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        if self.spans_max == 0 {
            return;
        }
        *self.counts.entry(self.span_start(time.div_euclid(NS_PER_SEC))).or_default() += 1;
        while self.covering_spans() > self.spans_max && self.width + 1 < WIDTHS.len() {
            self.width += 1;
            for (start, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(self.span_start(start)).or_default() += count;
            }
        }
    }

    /// Number of spans from the first to the last that has events.
    fn covering_spans(&self) -> usize {
        let (first, last) = (self.counts.first_key_value(), self.counts.last_key_value());
        let Some(((first, _), (last, _))) = first.zip(last) else { return 0 };
        usize::try_from(last.saturating_sub(*first) / WIDTHS[self.width]).map_or(usize::MAX, |steps| steps + 1)
    }

    fn span_start(&self, seconds: i64) -> i64 {
        seconds - seconds.rem_euclid(WIDTHS[self.width])
    }

    /// Times of the earliest and latest event.
    pub fn bounds(&self) -> Option<(TimeNs, TimeNs)> {
        self.bounds
    }

    /// The non-empty spans in order of time.
    pub fn spans(&self) -> impl Iterator<Item = TimeSpan> + '_ {
        let seconds = WIDTHS[self.width];
        self.counts.iter().map(move |(start, count)| TimeSpan { start: *start, seconds, count: *count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_widen_and_lose_no_event() {
        for (step, most, width) in
            [(1, 300, 1), (1, 100, 10), (7, 300, 10), (3_600, 10, 86_400), (5 * 86_400, 300, 30 * 86_400)]
        {
            let mut timeline = Timeline::new(most);
            let times: Vec<i64> = (0..200).map(|at| 1_795_186_800 - at * step).collect();
            times.iter().for_each(|time| timeline.add(time * NS_PER_SEC + 5));
            let spans: Vec<TimeSpan> = timeline.spans().collect();
            assert_eq!(spans.iter().map(|span| span.count).sum::<u64>(), 200);
            assert!(spans.len() <= most && spans.is_sorted_by_key(|span| span.start));
            assert!(spans.iter().all(|span| span.seconds == width && span.start % width == 0), "{step} {spans:?}");
            let (first, last) = (times[199] * NS_PER_SEC + 5, times[0] * NS_PER_SEC + 5);
            assert_eq!(timeline.bounds(), Some((first, last)));
            let restored = Timeline::from_json(&serde_json::json!(timeline)).unwrap();
            assert!(restored.spans().eq(spans) && restored.bounds() == timeline.bounds());
        }
        let bounds = (5 * NS_PER_SEC, 3_605 * NS_PER_SEC);
        for (most, width) in [(4_000, 10), (400, 10), (100, 60), (2, 3_600)] {
            let counted = Timeline::from_counts(most, bounds, |seconds| {
                assert_eq!(seconds, width, "{most}");
                Ok::<_, ()>(BTreeMap::from([(0, 7)]))
            });
            let spans: Vec<TimeSpan> = counted.unwrap().spans().collect();
            assert_eq!(spans, [TimeSpan { start: 0, seconds: width, count: 7 }]);
        }
        let mut none = Timeline::new(0);
        none.add(-5);
        assert_eq!((none.spans().count(), none.bounds()), (0, Some((-5, -5))));
    }
}
