//! Creates snapshots, which list the segments that a search reads.

use std::cmp::Reverse;
use std::sync::{Arc, OnceLock};

use quarry_bucket::MAX_PAGE_EVENTS;
use quarry_event::{TimeNs, TimeRange};
use quarry_stdx::HasKind;

use crate::live_buckets::UnloadedRange;
use crate::sealed_buckets::{
    CONCURRENT_OPENS_MAX, Readers, RemainingRows, SealedBucket, SealedSegment, SlabPart, split_rows,
};
use crate::{Damage, IndexSelector, LaterSegments, PageInfo, Segment, Snapshot, Store};

impl Store {
    /// All stored segments of the selected indexes that may overlap `range`.
    pub fn snapshot(&self, selector: &IndexSelector, range: &TimeRange) -> Snapshot {
        let (mut snapshot, sealed) = self.unopened_snapshot(selector, range);
        let buckets = SnapshotBuckets::new(&self.shared.readers, &snapshot, &sealed);
        buckets.add(sealed, &mut snapshot);
        snapshot
    }

    /// Like [`Store::snapshot`], for a search that reads the newest events first and may end early: of the buckets whose
    /// opening waits for a volume, only the newest are opened. The others are in groups of [`Snapshot::later`].
    pub fn snapshot_newest_first(&self, selector: &IndexSelector, range: &TimeRange) -> Snapshot {
        let (mut snapshot, mut sealed) = self.unopened_snapshot(selector, range);
        let readers = &self.shared.readers;
        let buckets = SnapshotBuckets::new(readers, &snapshot, &sealed);
        let mut far: Vec<Arc<SealedBucket>> = sealed.extract_if(.., |bucket| readers.is_opening_far(bucket)).collect();
        far.sort_by_key(|bucket| Reverse(bucket.row.time_max));
        let later = far.split_off(far.len().min(CONCURRENT_OPENS_MAX));
        sealed.extend(far);
        buckets.add(sealed, &mut snapshot);
        let group = |group: &[Arc<SealedBucket>]| -> Arc<dyn LaterSegments> {
            Arc::new(LaterBuckets { group: group.to_vec(), buckets: buckets.clone() })
        };
        snapshot.later = later.chunks(CONCURRENT_OPENS_MAX).rev().map(group).collect();
        snapshot
    }

    /// A snapshot without sealed buckets, and the sealed buckets that belong to it.
    fn unopened_snapshot(&self, selector: &IndexSelector, range: &TimeRange) -> (Snapshot, Vec<Arc<SealedBucket>>) {
        // Damage to the log concerns every search, because lost records may have belonged to any index and time.
        let (damaged, sealing) = (self.shared.log_damage.clone(), self.shared.sealing.clone());
        let mut snapshot = Snapshot { segments: Vec::new(), damaged, sealing, later: Vec::new() };
        let sealed: Vec<Arc<SealedBucket>> = {
            let wanted = |index: &str, unloaded: &UnloadedRange| {
                selector.matches(index) && range.overlaps(unloaded.times.0, unloaded.times.1)
            };
            let mut state = self.shared.state_with(wanted).unwrap_or_else(|error| {
                let reason = format!("not all buckets of the catalog can be searched: {error}");
                snapshot.damaged.push(Damage { bucket: "catalog".to_owned(), kind: error.kind(), reason });
                self.shared.state()
            });
            for (_, slab) in state.hot.iter_mut().filter(|(key, _)| selector.matches(&key.index)) {
                snapshot.segments.push(slab.segment());
            }
            for slab in state.closed.values().filter(|slab| selector.matches(slab.segment.index_name())) {
                snapshot.segments.push(slab.segment.clone());
            }
            state.sealed.overlapping(|index| selector.matches(index), range).cloned().collect()
        };
        let overlaps = |segment: &Arc<dyn Segment>| {
            segment.pages().iter().any(|page| range.overlaps(page.time_min, page.time_max))
        };
        snapshot.segments.retain(overlaps);
        self.shared.readers.faults.forget_unavailable(sealed.iter());
        (snapshot, sealed)
    }
}

/// The values that are needed to open sealed buckets of a snapshot.
#[derive(Clone, Debug)]
struct SnapshotBuckets {
    readers: Arc<Readers>,
    /// See [`arrivals`].
    arrivals: Arc<[u64]>,
}

impl SnapshotBuckets {
    /// `unopened` has the segments that are not sealed, `sealed` all buckets of the snapshot.
    fn new(readers: &Arc<Readers>, unopened: &Snapshot, sealed: &[Arc<SealedBucket>]) -> SnapshotBuckets {
        SnapshotBuckets { readers: Arc::clone(readers), arrivals: arrivals(&unopened.segments, sealed).into() }
    }

    /// Opens buckets and adds their segments and damage.
    fn add(&self, mut sealed: Vec<Arc<SealedBucket>>, snapshot: &mut Snapshot) {
        sealed.sort_unstable_by_key(|bucket| bucket.row.number);
        let mut unreadable = self.readers.open_concurrently(&sealed);
        for bucket in sealed {
            match unreadable.remove(&bucket.row.number) {
                Some(error) => snapshot.damaged.push(Damage::of_error(bucket.id(), error)),
                None => self.add_sealed(bucket, snapshot),
            }
        }
        snapshot.segments.sort_by_key(|segment| segment.first_arrival());
    }

    fn add_sealed(&self, bucket: Arc<SealedBucket>, snapshot: &mut Snapshot) {
        match self.readers.open(&bucket) {
            Ok(open) => {
                let fault = self.readers.faults.get(bucket.row.number);
                let listed = fault.is_some();
                snapshot.damaged.extend(fault);
                let cuts = split_rows(&bucket.origins, &self.arrivals);
                for slab in 0..open.infos.len() {
                    let deleted = bucket.deleted_within(&open.infos[slab]);
                    for cut in slab_parts(&open.infos[slab], &cuts) {
                        let (bucket, open) = (bucket.clone(), open.clone());
                        let readers = self.readers.clone();
                        let pages = cut.as_ref().map_or(&open.infos[slab], |cut| &cut.infos);
                        let rows = bucket.deleted.as_ref().filter(|_| deleted > 0);
                        let live = rows.and_then(|rows| RemainingRows::new(rows, pages));
                        if live.as_ref().is_some_and(|live| live.filled.is_empty()) {
                            continue;
                        }
                        let ahead = OnceLock::new();
                        let segment = SealedSegment { bucket, open, readers, slab, cut, live, deleted, listed, ahead };
                        snapshot.segments.push(Arc::new(segment));
                    }
                }
            }
            Err(error) => snapshot.damaged.push(Damage::of_error(bucket.id(), error)),
        }
    }
}

/// A group of buckets that a search opens when it has read all newer events.
#[derive(Debug)]
struct LaterBuckets {
    group: Vec<Arc<SealedBucket>>,
    buckets: SnapshotBuckets,
}

impl LaterSegments for LaterBuckets {
    fn time_max(&self) -> TimeNs {
        self.group.iter().map(|bucket| bucket.row.time_max).max().unwrap_or(TimeNs::MIN)
    }

    fn page_count(&self) -> u64 {
        self.group.iter().map(|bucket| bucket.row.events.div_ceil(MAX_PAGE_EVENTS as u64)).sum()
    }

    fn open(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.buckets.add(self.group.clone(), &mut snapshot);
        snapshot
    }
}

/// Numbers of all slabs and sealed buckets that a search reads, ascending, at which compacted buckets are split; empty
/// if no bucket needs to be split.
fn arrivals(unsealed: &[Arc<dyn Segment>], sealed: &[Arc<SealedBucket>]) -> Vec<u64> {
    if sealed.iter().all(|bucket| bucket.origins.len() == 1) {
        return Vec::new();
    }
    let unsealed = unsealed.iter().map(|segment| segment.origin());
    let sealed = sealed.iter().flat_map(|bucket| bucket.origins.iter().map(|origin| origin.number));
    let mut numbers: Vec<u64> = unsealed.chain(sealed).collect();
    numbers.sort_unstable();
    numbers
}

/// The parts of a slab with these pages if its bucket is split at rows `cuts`; a single `None` stands for the whole
/// slab.
fn slab_parts(pages: &[PageInfo], cuts: &[u64]) -> Vec<Option<SlabPart>> {
    let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return vec![None] };
    let end = last.first_row + u64::from(last.events);
    let inside = cuts.iter().copied().filter(|row| first.first_row < *row && *row < end);
    let mut borders: Vec<u64> = inside.collect();
    if borders.is_empty() {
        return vec![None];
    }
    borders.insert(0, first.first_row);
    borders.push(end);
    assert!(borders.is_sorted(), "a slab is split into parts that follow one another");
    borders.windows(2).map(|pair| Some(SlabPart::new(pages, pair[0]..pair[1]))).collect()
}
