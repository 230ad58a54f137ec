//! Creates snapshots, which list the segments that a search reads.

use std::sync::{Arc, OnceLock};

use quarry_event::TimeRange;
use quarry_stdx::HasKind;

use crate::live_buckets::UnloadedRange;
use crate::sealed_buckets::{RemainingRows, SealedBucket, SealedSegment, SlabPart, split_rows};
use crate::{Damage, IndexSelector, PageInfo, Segment, Snapshot, Store};

impl Store {
    /// All stored segments of the selected indexes that may overlap `range`.
    pub fn snapshot(&self, selector: &IndexSelector, range: &TimeRange) -> Snapshot {
        // Damage to the log concerns every search, because lost records may have belonged to any index and time.
        let (damaged, sealing) = (self.shared.log_damage.clone(), self.shared.sealing.clone());
        let mut snapshot = Snapshot { segments: Vec::new(), damaged, sealing };
        let mut sealed: Vec<Arc<SealedBucket>> = {
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
        sealed.sort_unstable_by_key(|bucket| bucket.row.number);
        let overlaps = |segment: &Arc<dyn Segment>| {
            segment.pages().iter().any(|page| range.overlaps(page.time_min, page.time_max))
        };
        snapshot.segments.retain(overlaps);
        self.shared.readers.faults.forget_unavailable(sealed.iter());
        let mut unreadable = self.shared.readers.open_concurrently(&sealed);
        let arrivals = arrivals(&snapshot.segments, &sealed);
        for bucket in sealed {
            match unreadable.remove(&bucket.row.number) {
                Some(error) => snapshot.damaged.push(Damage::of_error(bucket.id(), error)),
                None => self.add_sealed(bucket, &arrivals, &mut snapshot),
            }
        }
        snapshot.segments.sort_by_key(|segment| segment.first_arrival());
        snapshot
    }

    fn add_sealed(&self, bucket: Arc<SealedBucket>, arrivals: &[u64], snapshot: &mut Snapshot) {
        match self.shared.readers.open(&bucket) {
            Ok(open) => {
                let fault = self.shared.readers.faults.get(bucket.row.number);
                let listed = fault.is_some();
                snapshot.damaged.extend(fault);
                let cuts = split_rows(&bucket.origins, arrivals);
                for slab in 0..open.infos.len() {
                    let deleted = bucket.deleted_within(&open.infos[slab]);
                    for cut in slab_parts(&open.infos[slab], &cuts) {
                        let (bucket, open) = (bucket.clone(), open.clone());
                        let readers = self.shared.readers.clone();
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
