//! The store as its callers use it.

mod bucket_groups;
mod catalog;
mod compaction;
mod compaction_faults;
mod crash;
mod damage;
mod deletion;
mod faults;
mod full_disk;
mod gaps;
mod index_rows;
mod life;
mod log_damage;
mod lost_answers;
mod many_indexes;
mod migrate;
mod objects;
mod panics;
mod rebuild;
mod remote;
pub(crate) mod sample;
mod sent;
mod sets;
mod stored_fields;
mod sweep;
mod thaw;
mod volume_faults;

use std::path::Path;
use std::sync::Arc;

use quarry_event::{PageColumns, TimeRange};
use quarry_stdx::ManualClock;

use crate::{AppendRequest, IndexSelector, Segment, Snapshot, Store, StoreError, StoreOptions};

/// Options that make slabs, log segments and caches small.
pub(crate) fn small(dir: &Path) -> StoreOptions {
    let mut options = StoreOptions::at(dir);
    options.sealers = 2;
    options.slab_events = 20;
    options.log_segment_bytes = 1_000;
    // Most rows are read only when something needs them, a few at a time.
    options.rows_at_start = 1;
    options.rows_of_cell = 3;
    options
}

pub(crate) fn open(options: &StoreOptions) -> Arc<Store> {
    Store::open(options.clone(), ManualClock::shared(1_000_000)).unwrap()
}

pub(crate) fn append(store: &Store, index: &str, first: u64, events: u64) {
    try_append(store, index, first, events).unwrap();
}

pub(crate) fn try_append(store: &Store, index: &str, first: u64, events: u64) -> Result<(), StoreError> {
    store.append(AppendRequest { batch: sample::batch(index, first, events), checkpoint: None })?.wait()
}

/// Texts of a snapshot in arrival order, read through every column.
pub(crate) fn texts(snapshot: &Snapshot) -> Vec<String> {
    assert_eq!(snapshot.damaged, []);
    snapshot.segments.iter().flat_map(|segment| segment_texts(&**segment).unwrap()).collect()
}

pub(crate) fn segment_texts(segment: &dyn Segment) -> Result<Vec<String>, StoreError> {
    let mut texts = Vec::new();
    for (at, info) in segment.pages().iter().enumerate() {
        let page = segment.read_page(at, PageColumns::ALL)?;
        assert_eq!((page.first_row, page.len()), (info.first_row, info.events as usize));
        for row in 0..page.len() {
            assert_eq!(page.index_time[row], 5);
            assert_eq!(&*page.metas[page.meta[row] as usize].index, segment.index());
            let text = String::from_utf8(page.raw(row).to_vec()).unwrap();
            assert_eq!(text, sample::text(segment.index(), page.time[row] as u64));
            texts.push(text);
        }
    }
    Ok(texts)
}

/// The expected texts of the events `numbers` of `index`.
pub(crate) fn expected(index: &str, numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| sample::text(index, number)).collect()
}

pub(crate) fn all(store: &Store) -> Snapshot {
    store.shared.unload_idle(0);
    store.shared.state().sealed.check_sums();
    store.snapshot(&IndexSelector::all(), &TimeRange::ALL)
}
