//! Snapshots: which segments a search reads.

use std::sync::Arc;

use quarry_event::TimeRange;

use crate::sealed::{SealedBucket, SealedSegment};
use crate::{Damage, IndexSelector, Segment, Snapshot, Store};

impl Store {
    /// Everything that is stored now in the selected indexes and may lie in `range`.
    pub fn snapshot(&self, selector: &IndexSelector, range: &TimeRange) -> Snapshot {
        // What is lost of the log may have belonged to any index and any time.
        let mut snapshot = Snapshot { damaged: self.shared.log_damage.clone(), ..Snapshot::default() };
        let sealed: Vec<Arc<SealedBucket>> = {
            let mut state = self.shared.state();
            for (_, slab) in state.hot.iter_mut().filter(|(index, _)| selector.matches(index)) {
                snapshot.segments.push(slab.segment());
            }
            for slab in state.closed.values().filter(|slab| selector.matches(slab.segment.index_name())) {
                snapshot.segments.push(slab.segment.clone());
            }
            let wanted = |bucket: &&Arc<SealedBucket>| {
                range.overlaps(bucket.row.time_min, bucket.row.time_max) && selector.matches(&bucket.row.index)
            };
            state.sealed.values().filter(wanted).cloned().collect()
        };
        let overlaps = |segment: &Arc<dyn Segment>| {
            segment.pages().iter().any(|page| range.overlaps(page.time_min, page.time_max))
        };
        snapshot.segments.retain(overlaps);
        for bucket in sealed {
            self.add_sealed(bucket, &mut snapshot);
        }
        snapshot.segments.sort_by_key(|segment| segment.sequence());
        snapshot
    }

    fn add_sealed(&self, bucket: Arc<SealedBucket>, snapshot: &mut Snapshot) {
        match self.shared.readers.open(&bucket) {
            Ok(open) => {
                let fault = self.shared.readers.faults.of(bucket.row.number);
                let listed = fault.is_some();
                snapshot.damaged.extend(fault);
                for slab in 0..open.infos.len() {
                    let (bucket, open) = (bucket.clone(), open.clone());
                    let readers = self.shared.readers.clone();
                    snapshot.segments.push(Arc::new(SealedSegment { bucket, open, readers, slab, listed }));
                }
            }
            Err(error) => {
                snapshot.damaged.push(Damage { bucket: bucket.id.to_string(), reason: error.to_string() });
            }
        }
    }
}
