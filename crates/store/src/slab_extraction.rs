//! Interface through which compaction extracts the search-time fields that merged buckets store.
//!
//! Not here: rules and extraction (`quarry_scan`), merges ([`crate::compaction`]).

use std::fmt;
use std::sync::{Arc, OnceLock};

use quarry_event::EventBatch;
use quarry_event::template::Extraction;

use crate::segment::Segment;

/// Returns the extraction for the current rules; a merge uses the same extraction from beginning to end. `None` if the
/// rules cannot be read.
pub type CurrentExtraction = dyn Fn() -> Option<Arc<dyn SlabExtraction>> + Send + Sync;

/// A field that is worth storing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldToStore {
    /// Field name.
    pub name: String,
    /// Whether searches without the stored field must read the texts, or evaluate a pattern, for many events.
    pub is_slow: bool,
}

/// Extraction of the fields that merged buckets store.
pub trait SlabExtraction: Send + Sync {
    /// The fields that are to be stored for events like those of this slab, an input of a merge.
    fn fields_to_store(&self, slab: &Arc<dyn Segment>) -> Vec<FieldToStore>;

    /// The values of these fields in the events of a slab, and the names of all its fields if rules take names from the
    /// texts. Fields that cannot be stored, for example because an event has several values, are omitted. The same
    /// events and rules yield the same values.
    fn extract(&self, events: &EventBatch, names: &[String]) -> Extraction;
}

/// The function that returns the extraction of a store; set once.
#[derive(Default)]
pub(crate) struct ExtractionSlot(OnceLock<Box<CurrentExtraction>>);

impl fmt::Debug for ExtractionSlot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("ExtractionSlot").field(&self.is_set()).finish()
    }
}

impl ExtractionSlot {
    /// Whether search-time fields may be stored.
    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Sets the function that returns the extraction. Only the first call has an effect.
    pub(crate) fn set(&self, current: Box<CurrentExtraction>) {
        self.0.get_or_init(|| current);
    }

    /// The extraction for the current rules, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<dyn SlabExtraction>> {
        self.0.get().and_then(|current| current())
    }
}
