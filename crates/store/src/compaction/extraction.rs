//! Search-time fields that merged buckets store.
//!
//! Most fields are located by the templates of a slab and need no storage of their own. Fields that the templates do not
//! locate, because a pattern spans free text or a transform cuts pairs, are extracted from the texts when buckets are
//! merged, and stored in columns. Searches whose rules for the field are the same read the column; all others extract
//! the field as before.
//!
//! Not here: rules and extraction (`quarry_scan`), the columns (`quarry_bucket`).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use quarry_event::EventBatch;
use quarry_event::template::ExtractedField;

use crate::sealed_buckets::{Readers, SealedBucket, SealedSegment};
use crate::{Segment, Store};

/// Returns the extraction by the rules of the moment; a merge uses one from its beginning to its end. `None` if the rules
/// cannot be read.
pub type CurrentExtraction = dyn Fn() -> Option<Arc<dyn SlabExtraction>> + Send + Sync;

/// Extraction of the fields that merged buckets store.
pub trait SlabExtraction: Send + Sync {
    /// Names of the fields that are to be stored for events like those of this slab, an input of a merge.
    fn fields_to_store(&self, slab: &Arc<dyn Segment>) -> Vec<String>;

    /// The values of these fields in the events of a slab. Fields that cannot be stored, for example because an event
    /// has several values, are left out. The same events and rules yield the same values.
    fn extract(&self, events: &EventBatch, names: &[String]) -> Vec<ExtractedField>;
}

/// Returns the extraction of a store; set once.
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

    /// The extraction by the rules of the moment, with which a merge chooses fields and extracts them.
    pub(crate) fn current(&self) -> FieldStorage {
        FieldStorage { extraction: self.0.get().and_then(|current| current()), names: Vec::new() }
    }
}

/// The fields that a merge stores, and the extraction of their values.
pub(crate) struct FieldStorage {
    extraction: Option<Arc<dyn SlabExtraction>>,
    names: Vec<String>,
}

impl FieldStorage {
    /// Stores no fields.
    pub(crate) const NONE: FieldStorage = FieldStorage { extraction: None, names: Vec::new() };

    /// Whether no field is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds the fields that are to be stored for the events of a bucket.
    pub(crate) fn add_fields_of(&mut self, readers: &Arc<Readers>, bucket: &Arc<SealedBucket>) -> Result<(), String> {
        let Some(extraction) = &self.extraction else { return Ok(()) };
        let open = readers.open_uncached(bucket).map_err(|error| error.to_string())?;
        for segment in SealedSegment::whole_slabs(bucket, Arc::new(open), readers) {
            let segment: Arc<dyn Segment> = Arc::new(segment);
            self.names.extend(guarded(|| extraction.fields_to_store(&segment))?);
        }
        self.names.sort_unstable();
        self.names.dedup();
        Ok(())
    }

    /// The values of the fields in the events of a slab.
    pub(crate) fn extract(&self, events: &EventBatch) -> Result<Vec<ExtractedField>, String> {
        match &self.extraction {
            Some(extraction) if !self.is_empty() => guarded(|| extraction.extract(events, &self.names)),
            _ => Ok(Vec::new()),
        }
    }
}

/// Runs an extraction, whose panic must not prevent a merge.
fn guarded<T>(extract: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(extract)).map_err(|_| "the extraction of search-time fields panicked".to_owned())
}

impl Store {
    /// Lets merged buckets store search-time fields, extracted by what `current` returns at the time of a merge. Only the
    /// first call has an effect.
    pub fn store_extractions(&self, current: Box<CurrentExtraction>) {
        self.shared.extraction.0.get_or_init(|| current);
        // Buckets that were not merged yet may have to be rewritten.
        let _state = self.shared.state();
        self.shared.seal_done.notify_all();
    }
}
