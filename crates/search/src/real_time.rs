//! Real-time searches: windows that move with the clock, and events as they arrive.
//!
//! A [`RealTimeWindow`] represents the bounds of a request, such as `earliest_time=rt-5m` and `latest_time=rt`. A job
//! with such a window runs its search repeatedly, each time over the current window ([`super::jobs`]). [`NewEvents`]
//! runs a search over each group of arriving events, for clients that show events one after the other.
//!
//! Not here: the queue of a client ([`quarry_store::Follower`]), reports that a client reads repeatedly
//! ([`crate::live_report`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use quarry_engine::{SearchShape, SnapshotSource};
use quarry_event::time::parse_time;
use quarry_event::{EventBatch, TimeNs, TimeRange};
use quarry_stdx::{ErrorKind, Fault};
use quarry_store::{Follower, IndexSelector, MemoryStore, Snapshot, StoreError};

use crate::ResultTable;
use crate::error::SearchError;
use crate::service::{SearchParams, SearchService};

/// Prefix of real-time bounds.
const REAL_TIME: &str = "rt";
/// Maximum bytes of rows of one round of new events, after which the round ends. The events of a round are bounded, but
/// commands may add rows or fields.
const ROUND_BYTES_MAX: usize = 64 << 20;

/// The time range of a real-time search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealTimeWindow {
    /// All events that arrive after the start, regardless of their times (`rt` to `rt`).
    Arrivals,
    /// Events with times between two bounds that move with the clock.
    Window {
        /// Start as a time modifier, such as `-5m`; `None` for no lower bound.
        earliest: Option<String>,
        /// End as a time modifier.
        latest: String,
    },
}

/// The time modifier in a real-time bound: `-5m` for `rt-5m`, empty for `rt`. `None` if the text is not a real-time
/// bound.
pub fn real_time_modifier(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix(REAL_TIME)?;
    let is_modifier = rest.is_empty() || rest == "now" || rest.starts_with(['+', '-', '@']);
    is_modifier.then_some(if rest == "now" { "" } else { rest })
}

impl RealTimeWindow {
    /// The window of a request; `None` if the request searches the past. `is_wanted` is true for
    /// `search_mode=realtime`.
    pub fn of(
        (earliest, latest): (Option<&str>, Option<&str>),
        is_wanted: bool,
    ) -> Result<Option<RealTimeWindow>, Fault> {
        let given = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let (earliest, latest) = (given(earliest), given(latest));
        let bounds = [&earliest, &latest].map(|bound| bound.as_deref().map(real_time_modifier));
        match bounds {
            [None | Some(None), None | Some(None)] if !is_wanted => Ok(None),
            [Some(None), _] | [_, Some(None)] => {
                let (earliest, latest) = (earliest.unwrap_or_default(), latest.unwrap_or_default());
                Err(Fault::invalid(format!(
                    "earliest_time={earliest} and latest_time={latest}: a real-time search has two real-time bounds, as in \
                     earliest_time=rt-5m and latest_time=rt"
                )))
            }
            [None | Some(Some("")), None | Some(Some(""))] => Ok(Some(RealTimeWindow::Arrivals)),
            [earliest, latest] => {
                let modifier = |bound: Option<Option<&str>>| bound.flatten().unwrap_or_default().to_owned();
                let earliest = Some(modifier(earliest)).filter(|text| !text.is_empty());
                Ok(Some(RealTimeWindow::Window { earliest, latest: modifier(latest) }))
            }
        }
    }

    /// The time range of the window at time `now`.
    pub fn range(&self, now: TimeNs, zone: &TimeZone) -> Result<TimeRange, SearchError> {
        let bound = |name: &'static str, text: &str| match text {
            "" => Ok(now),
            text => parse_time(text, now, zone).map_err(|error| SearchError::Time { name, reason: error.to_string() }),
        };
        match self {
            RealTimeWindow::Arrivals => Ok(TimeRange::ALL),
            RealTimeWindow::Window { earliest, latest } => {
                let earliest = earliest.as_deref().map(|text| bound("earliest_time", text)).transpose()?;
                Ok(TimeRange { earliest, latest: Some(bound("latest_time", latest)?) })
            }
        }
    }

    /// Options for the search of a job that started at time `started`. With `is_backfilled`, a window includes events
    /// that arrived before the start.
    pub fn apply_to_shape(&self, shape: SearchShape, started: TimeNs, is_backfilled: bool) -> SearchShape {
        let is_limited = *self == RealTimeWindow::Arrivals || !is_backfilled;
        SearchShape { is_repeated: true, arrived_from: is_limited.then_some(started), events_max: None, ..shape }
    }
}

/// A search over events as they arrive.
pub struct NewEvents {
    service: Arc<SearchService>,
    params: SearchParams,
    follower: Follower,
    zone: TimeZone,
}

/// Rows found among the newly arrived events.
#[derive(Debug)]
pub struct NewRows {
    /// Rows, oldest first; `None` if no event has arrived.
    pub rows: Option<ResultTable>,
    /// Number of events that were dropped because they arrived faster than they were read.
    pub missed: u64,
}

impl NewEvents {
    /// Follows the events that the user of `params` may search. Refuses a search whose rows are not events.
    pub fn new(service: Arc<SearchService>, params: SearchParams) -> Result<NewEvents, SearchError> {
        let zone = params.zone.clone().unwrap_or_else(|| service.zone());
        let shape = SearchShape { is_repeated: true, ..params.shape.clone() };
        let params = SearchParams {
            shape,
            is_internal: true,
            range: Some(TimeRange::ALL),
            earliest: None,
            latest: None,
            ..params
        };
        service.check_permitted(params.clone())?;
        let is_events = service.start_with_source(params.clone(), Arc::new(Arrivals::default()))?.is_events();
        if !is_events {
            let text = "a report cannot be followed, only a search for events: a report is recomputed as a whole";
            return Err(SearchError::Engine(Fault::invalid(text).into()));
        }
        let full = || {
            let text = "too many clients follow new events: try again when one has ended";
            SearchError::Engine(Fault::new(ErrorKind::Busy, text).into())
        };
        let follower = service.follow(&params.permissions).ok_or_else(full)?;
        Ok(NewEvents { service, params, follower, zone })
    }

    /// The rows of the events that have arrived since the last call; waits for some, up to a timeout.
    pub fn next(&self, most: Duration) -> Result<NewRows, SearchError> {
        let followed = self.follower.next(most);
        let missed = followed.missed;
        if followed.batches.is_empty() {
            return Ok(NewRows { rows: None, missed });
        }
        let arrivals = Arrivals::from_batches(&followed.batches)?;
        let mut running = self.service.start_with_source(self.params.clone(), Arc::new(arrivals))?;
        let mut found = Vec::new();
        let mut bytes = 0;
        while let Some(rows) = running.next_rows()? {
            bytes += rows.get_array_memory_size();
            found.push(rows);
            if bytes > ROUND_BYTES_MAX {
                running.cancel();
                break;
            }
        }
        // Searches return the newest events first; clients that follow events show them last.
        let found = found.iter().rev().map(quarry_engine::reverse).collect::<Result<Vec<_>, _>>()?;
        Ok(NewRows { rows: Some(ResultTable::new(found, self.zone.clone())), missed })
    }
}

/// Events that have arrived, by index.
#[derive(Default)]
struct Arrivals(BTreeMap<String, MemoryStore>);

impl Arrivals {
    fn from_batches(batches: &[Arc<EventBatch>]) -> Result<Arrivals, SearchError> {
        let mut found: BTreeMap<String, MemoryStore> = BTreeMap::new();
        for batch in batches {
            let Some(index) = batch.metas.first().map(|meta| meta.index.to_string()) else { continue };
            let store = found.entry(index).or_insert_with_key(|index| MemoryStore::new(index));
            store.append(EventBatch::clone(batch)).map_err(|error| SearchError::Engine(error.into()))?;
        }
        Ok(Arrivals(found))
    }
}

impl SnapshotSource for Arrivals {
    fn snapshot(&self, indexes: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        let mut found = Snapshot::default();
        for (_, store) in self.0.iter().filter(|(index, _)| indexes.matches(index)) {
            found.segments.extend(store.snapshot().segments);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_bounds_move_with_the_clock() {
        let of = |earliest, latest, is_wanted| RealTimeWindow::of((earliest, latest), is_wanted);
        let window = |earliest: Option<&str>, latest: &str| {
            Some(RealTimeWindow::Window { earliest: earliest.map(str::to_owned), latest: latest.to_owned() })
        };
        for (earliest, latest, is_wanted, want) in [
            (None, None, false, None),
            (Some("-5m"), Some("now"), false, None),
            (None, None, true, Some(RealTimeWindow::Arrivals)),
            (Some("rt"), Some("rt"), false, Some(RealTimeWindow::Arrivals)),
            (Some("rtnow"), Some("rtnow"), false, Some(RealTimeWindow::Arrivals)),
            (Some("rt-5m"), None, false, window(Some("-5m"), "")),
            (Some("rt-5m@m"), Some("rt-1m"), true, window(Some("-5m@m"), "-1m")),
            (Some("rt"), Some("rt+30s"), true, window(None, "+30s")),
        ] {
            assert_eq!(of(earliest, latest, is_wanted).unwrap(), want, "{earliest:?} {latest:?}");
        }
        for (earliest, latest) in [(Some("rt-5m"), Some("now")), (Some("-5m"), Some("rt")), (Some("rtx"), Some("rt"))] {
            assert!(of(earliest, latest, true).is_err(), "{earliest:?} {latest:?}");
        }
        let minute = 60_000_000_000;
        let range = window(Some("-5m"), "").unwrap().range(10 * minute, &TimeZone::UTC).unwrap();
        assert_eq!((range.earliest, range.latest), (Some(5 * minute), Some(10 * minute)));
        assert!(window(Some("-5parsecs"), "").unwrap().range(0, &TimeZone::UTC).is_err());
    }
}
