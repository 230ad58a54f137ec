//! The shared dictionaries of an open bucket, for all its slabs.
//!
//! A read of whole columns needs a dictionary as a whole, because the codes of a column are in no order. A read of a
//! few events takes single runs, until so many runs were read that the whole dictionary costs little more.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::block::open_block;
use crate::columns::shared_dictionary::read::SharedDictionary;
use crate::columns::shared_dictionary::runs::{DictionaryRuns, decode_whole};
use crate::columns::shared_dictionary::{MAX_SHARED_BYTES, MAX_SHARED_DICTIONARIES, SharedAt};
use crate::error::{BlockPosition, BucketError};
use crate::source::ObjectSource;

/// The shared dictionaries of an open bucket by the offset of their block, read on first use.
#[derive(Debug, Default)]
pub(crate) struct SharedCache(Mutex<BTreeMap<u64, Opened>>);

#[derive(Debug)]
enum Opened {
    Whole(Arc<SharedDictionary>),
    Runs(Arc<DictionaryRuns>),
}

/// A dictionary for reading a few of its entries.
#[derive(Clone, Debug)]
pub(crate) enum FewEntries {
    Whole(Arc<SharedDictionary>),
    Runs(Arc<DictionaryRuns>),
}

impl FewEntries {
    /// Number of entries.
    pub(crate) fn len(&self) -> u32 {
        match self {
            FewEntries::Whole(whole) => whole.len(),
            FewEntries::Runs(runs) => runs.len(),
        }
    }

    /// The number of one component for this code, if it exists.
    pub(crate) fn number(&self, source: &ObjectSource, component: u32, code: u32) -> Result<Option<i64>, BucketError> {
        match self {
            FewEntries::Whole(whole) => Ok(whole.number(component, code)),
            FewEntries::Runs(runs) => runs.number(source, component, code),
        }
    }

    /// Byte range to be read for this code; `None` if there is nothing to be read.
    pub(crate) fn missing(&self, code: u32) -> Option<Range<u64>> {
        match self {
            FewEntries::Whole(_) => None,
            FewEntries::Runs(runs) => runs.missing(code),
        }
    }
}

impl SharedCache {
    /// Byte range to be read before the whole dictionary can be used; `None` if the dictionary is in memory.
    pub(crate) fn missing(&self, at: &SharedAt) -> Option<Range<u64>> {
        match self.locked().get(&at.block.offset) {
            Some(Opened::Whole(_)) => None,
            _ => Some(at.range()),
        }
    }

    /// Byte range to be read before the runs with a few entries are known; `None` if these bytes are in memory.
    pub(crate) fn missing_for_few(&self, at: &SharedAt) -> Option<Range<u64>> {
        match self.locked().get(&at.block.offset) {
            Some(_) => None,
            None => Some(at.block.range()),
        }
    }

    /// The whole dictionary.
    pub(crate) fn whole(&self, source: &ObjectSource, at: &SharedAt) -> Result<Arc<SharedDictionary>, BucketError> {
        // A panic cannot leave the map half updated.
        let mut opened = self.locked();
        if let Some(Opened::Whole(whole)) = opened.get(&at.block.offset) {
            return Ok(Arc::clone(whole));
        }
        let range = at.range();
        let place = BlockPosition::outside_slabs(at.block.kind.name(), range.start);
        let has_room = opened.len() < MAX_SHARED_DICTIONARIES || opened.contains_key(&at.block.offset);
        limited(has_room, place)?;
        let bytes = source.fetch_block(place, at.stored_bytes() as usize)?;
        let whole = match at.has_runs() {
            true => decode_whole(&bytes, at)?,
            false => {
                let block = open_block(&bytes, at.block.kind, place, MAX_SHARED_BYTES)?;
                place.map_malformed(SharedDictionary::decode(block.stored()?))?
            }
        };
        let whole = Arc::new(whole);
        opened.insert(at.block.offset, Opened::Whole(Arc::clone(&whole)));
        Ok(whole)
    }

    /// The dictionary for reading a few of its entries.
    pub(crate) fn few(&self, source: &ObjectSource, at: &SharedAt) -> Result<FewEntries, BucketError> {
        if at.has_runs() {
            let mut opened = self.locked();
            match opened.get(&at.block.offset) {
                Some(Opened::Whole(whole)) => return Ok(FewEntries::Whole(Arc::clone(whole))),
                Some(Opened::Runs(runs)) if !runs.are_many() => return Ok(FewEntries::Runs(Arc::clone(runs))),
                Some(Opened::Runs(_)) => {}
                None => {
                    let place = BlockPosition::outside_slabs(at.block.kind.name(), at.block.offset);
                    limited(opened.len() < MAX_SHARED_DICTIONARIES, place)?;
                    let runs = Arc::new(DictionaryRuns::open(source, at)?);
                    opened.insert(at.block.offset, Opened::Runs(Arc::clone(&runs)));
                    return Ok(FewEntries::Runs(runs));
                }
            }
        }
        self.whole(source, at).map(FewEntries::Whole)
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<u64, Opened>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn limited(has_room: bool, place: BlockPosition) -> Result<(), BucketError> {
    match has_room {
        true => Ok(()),
        false => Err(place.corrupt(format!("the bucket has more than {MAX_SHARED_DICTIONARIES} shared dictionaries"))),
    }
}
