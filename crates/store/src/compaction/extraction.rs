//! Search-time fields that merged buckets store.
//!
//! Most fields are located by the templates of a slab and need no storage of their own. Fields that the templates do not
//! locate, because a pattern spans free text or a transform cuts pairs, are extracted from the texts when buckets are
//! merged, and stored in columns. Searches whose rules for the field are the same read the column; all others extract
//! the field as before.
//!
//! Not here: rules and extraction (`quarry_scan`), the columns (`quarry_bucket`).

use std::sync::Arc;

use quarry_event::EventBatch;
use quarry_event::template::ExtractedField;

use crate::Segment;

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
