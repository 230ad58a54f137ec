//! Search-time fields that merged buckets store.
//!
//! Most fields are located by the templates of a slab and need no storage of their own. Fields that the templates do
//! not locate, because a pattern spans free text or a transform splits key-value pairs, are extracted from the texts
//! when buckets are merged, and stored in columns. Searches with the same rules for the field read the column; all
//! others extract the field from the texts.
//!
//! Not here: rules and extraction (`quarry_scan`), the columns (`quarry_bucket`).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use quarry_event::EventBatch;
use quarry_event::template::Extraction;
use quarry_stdx::Fault;

use crate::sealed_buckets::{Readers, SealedBucket, SealedSegment};
use crate::segment::Segment;
use crate::slab_extraction::SlabExtraction;

/// The fields that a merge stores, and the extraction of their values.
pub(crate) struct FieldStorage {
    extraction: Option<Arc<dyn SlabExtraction>>,
    /// The names of the fields, and whether each is slow to extract from some slab.
    fields: BTreeMap<String, bool>,
}

impl FieldStorage {
    /// Extracts with `extraction`; stores no fields yet.
    pub(crate) fn new(extraction: Option<Arc<dyn SlabExtraction>>) -> FieldStorage {
        FieldStorage { extraction, fields: BTreeMap::new() }
    }

    /// Stores no fields.
    pub(crate) const NONE: FieldStorage = FieldStorage { extraction: None, fields: BTreeMap::new() };

    /// Whether no field is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Adds the fields that are to be stored for the events of a bucket.
    pub(crate) fn add_fields_of(&mut self, readers: &Arc<Readers>, bucket: &Arc<SealedBucket>) -> Result<(), Fault> {
        let Some(extraction) = &self.extraction else { return Ok(()) };
        let open = readers.open_uncached(bucket).map_err(|error| Fault::corrupt(error.to_string()))?;
        for segment in SealedSegment::whole_slabs(bucket, Arc::new(open), readers) {
            let segment: Arc<dyn Segment> = Arc::new(segment);
            for field in guarded(|| extraction.fields_to_store(&segment))? {
                *self.fields.entry(field.name).or_default() |= field.is_slow;
            }
        }
        Ok(())
    }

    /// Extracts the fields from the events of a slab.
    pub(crate) fn extract(&self, events: &EventBatch) -> Result<Extraction, Fault> {
        let Some(extraction) = self.extraction.as_ref().filter(|_| !self.is_empty()) else {
            return Ok(Extraction::default());
        };
        let names: Vec<String> = self.fields.keys().cloned().collect();
        let mut extracted = guarded(|| extraction.extract(events, &names))?;
        for field in &mut extracted.fields {
            field.is_slow = self.fields.get(&*field.name).is_some_and(|is_slow| *is_slow);
        }
        Ok(extracted)
    }
}

/// Runs an extraction, whose panic must not prevent a merge.
fn guarded<T>(extract: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(extract)).map_err(|_| Fault::bug("the extraction of search-time fields panicked"))
}
