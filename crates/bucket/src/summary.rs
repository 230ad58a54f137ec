//! Summary of a bucket for the catalog, so that most questions about the bucket are answered without reading the
//! object.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use quarry_event::{Metadata, TimeNs};

use crate::limits::{MAX_SUMMARY_VALUE_BYTES, MAX_SUMMARY_VALUES};
use crate::metas::MetaCount;
use crate::slab_source::CheckedSlab;

/// Facts about a whole bucket. Times are 0 in a bucket without events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketSummary {
    /// Number of events.
    pub events: u64,
    /// Bytes of text before encoding.
    pub raw_bytes: u64,
    /// Bytes of the object.
    pub object_bytes: u64,
    /// Bytes of the object with the term filter.
    pub filter_bytes: u64,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Largest `_indextime`.
    pub index_time_max: TimeNs,
    /// Distinct hosts, the most frequent first; see [`crate::MAX_SUMMARY_VALUES`].
    pub hosts: Vec<ValueSummary>,
    /// Distinct sources.
    pub sources: Vec<ValueSummary>,
    /// Distinct sourcetypes.
    pub sourcetypes: Vec<ValueSummary>,
    /// Whether some field had more or longer values than the lists can hold, so that a value may occur without being
    /// listed.
    pub values_cut: bool,
}

impl BucketSummary {
    /// Bytes of both objects.
    pub fn stored_bytes(&self) -> u64 {
        self.object_bytes + self.filter_bytes
    }
}

/// One value of a metadata field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSummary {
    /// A host, source or sourcetype.
    pub value: Arc<str>,
    /// Number of events with this value.
    pub events: u64,
    /// Smallest `_time` of its events.
    pub first: TimeNs,
    /// Largest `_time` of its events.
    pub last: TimeNs,
}

type Values = HashMap<Arc<str>, MetaCount, FixedState>;

/// Builds a summary slab by slab.
#[derive(Debug, Default)]
pub(crate) struct SummaryBuilder {
    summary: BucketSummary,
    index_time_max: Option<TimeNs>,
    hosts: Values,
    sources: Values,
    sourcetypes: Values,
    all: Option<MetaCount>,
}

impl SummaryBuilder {
    /// Adds a slab; `counts` has one entry per entry of `metas`.
    pub(crate) fn add_slab(&mut self, slab: &CheckedSlab<'_>, metas: &[Metadata], counts: &[MetaCount]) {
        let events = slab.events.len();
        let counted: u64 = counts.iter().map(|count| count.events).sum();
        assert_eq!(metas.len(), counts.len(), "each metadata entry is counted");
        assert_eq!(counted, events as u64, "each event has one metadata entry");
        self.summary.events += events as u64;
        self.summary.raw_bytes += slab.events.raw.len() as u64;
        self.index_time_max = self.index_time_max.max(slab.index_times(0..events).iter().copied().max());
        for (meta, count) in metas.iter().zip(counts) {
            self.all.get_or_insert(MetaCount::NONE).merge(count);
            for (values, text) in [
                (&mut self.hosts, &meta.host),
                (&mut self.sources, &meta.source),
                (&mut self.sourcetypes, &meta.sourcetype),
            ] {
                values.entry(text.clone()).or_insert(MetaCount::NONE).merge(count);
            }
        }
    }

    /// The summary without the sizes of the objects.
    pub(crate) fn finish(self) -> BucketSummary {
        let mut summary = self.summary;
        assert_eq!(self.all.map_or(0, |all| all.events), summary.events, "the slabs have all events of the bucket");
        if let Some(all) = self.all {
            summary.time_min = all.first;
            summary.time_max = all.last;
        }
        summary.index_time_max = self.index_time_max.unwrap_or(0);
        summary.hosts = most_frequent_values(self.hosts, &mut summary.values_cut);
        summary.sources = most_frequent_values(self.sources, &mut summary.values_cut);
        summary.sourcetypes = most_frequent_values(self.sourcetypes, &mut summary.values_cut);
        summary
    }
}

fn most_frequent_values(values: Values, cut: &mut bool) -> Vec<ValueSummary> {
    let distinct = values.len();
    let mut list: Vec<ValueSummary> = values
        .into_iter()
        .filter(|(value, _)| value.len() <= MAX_SUMMARY_VALUE_BYTES)
        .map(|(value, count)| ValueSummary { value, events: count.events, first: count.first, last: count.last })
        .collect();
    list.sort_unstable_by(|a, b| b.events.cmp(&a.events).then_with(|| a.value.cmp(&b.value)));
    list.truncate(MAX_SUMMARY_VALUES);
    *cut |= list.len() < distinct;
    list
}
