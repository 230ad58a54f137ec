//! Reading summaries in place of events, page by page, within one search.
//!
//! The rows of a page come from the summary of its slab if the summary has the digest that the search requires, belongs
//! to this bucket, and lists a page with the same rows. If a search over several indexes sees only part of a slab, the
//! pages that it sees completely still come from the summary. Columns of a slab are read once and shared by all workers
//! that read the slab.
//!
//! Not here: the commands that follow (`tstats`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::page::PageRef;
use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::TimestampNanosecondType;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows;
use quarry_event::TimeRange;
use quarry_stdx::Fault;
use quarry_store::{Segment, StoredSlab};

use super::SummaryStore;
use super::decode::OpenSummary;
use crate::plan::SummaryScan;

/// Maximum number of slabs whose columns are cached; with more workers than that, some columns are read twice.
const CACHED_SLABS_MAX: usize = 8;

/// The summaries that one search may read.
pub struct SummaryReader {
    /// Object, digest and columns of the summaries to read.
    pub scan: SummaryScan,
    /// Storage of the summaries.
    store: Arc<dyn SummaryStore>,
    cached: Mutex<VecDeque<(StoredSlab, Arc<CachedSummary>)>>,
}

/// State of one slab's summary.
struct CachedSummary {
    name: String,
    summary: Option<OpenSummary>,
    columns: OnceLock<Option<Vec<Vec<ArrayRef>>>>,
}

/// Name of the folder with the summaries of this digest.
pub fn folder_name(digest: &[u8; 32]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Name of the stored object with the summary of a slab.
pub fn object_name(folder: &str, slab: StoredSlab) -> String {
    format!("{folder}/{:010}-{:02}.summary", slab.bucket, slab.slab)
}

/// Opens the summary of a slab if it has this digest. If an existing summary is unusable, the reason is reported to
/// the store.
pub fn open(store: &dyn SummaryStore, digest: &[u8; 32], slab: StoredSlab) -> Option<OpenSummary> {
    let name = object_name(&folder_name(digest), slab);
    let opened = store.open(&name).and_then(|file| file.map(OpenSummary::open).transpose());
    match opened {
        Ok(None) => None,
        Ok(Some(summary)) if summary.head.digest == *digest && summary.head.slab == slab => Some(summary),
        Ok(Some(_)) => {
            store.report_unusable(&name, "it belongs to another bucket or to an older definition");
            None
        }
        Err(fault) => {
            store.report_unusable(&name, &fault.to_string());
            None
        }
    }
}

impl SummaryReader {
    /// Prepares to read these summaries from `store`.
    pub(crate) fn new(scan: SummaryScan, store: Arc<dyn SummaryStore>) -> SummaryReader {
        SummaryReader { scan, store, cached: Mutex::default() }
    }

    /// Whether the search skips the events of a segment, because it reads summaries only.
    pub(crate) fn skips_segment(&self, segment: &Arc<dyn Segment>) -> bool {
        if !self.scan.only {
            return false;
        }
        let (Some(_), Some(slab)) = (self.scan.digest, segment.stored()) else { return true };
        if self.load_slab(slab).is_some_and(|held| held.summary.is_some()) {
            return false;
        }
        // A merge or a deletion of events replaced slabs that had summaries or were about to get them. The events of
        // the new slab are read until it has a summary of its own; skipping the slab would lose rows.
        let is_in_range =
            self.scan.earliest.is_none_or(|earliest| segment.pages().iter().any(|page| page.time_max >= earliest));
        !((slab.level > 0 || slab.deleted > 0) && is_in_range)
    }

    /// Whether rows of a segment come from a summary.
    pub fn covers_segment(&self, segment: &Arc<dyn Segment>) -> bool {
        let held = self.scan.stages.as_ref().and(segment.stored()).and_then(|slab| self.load_slab(slab));
        held.is_some_and(|held| held.summary.is_some())
    }

    /// The rows of a page within `range`; `None` if the rows must be computed from the events.
    pub(crate) fn read_page(&self, page: &PageRef, range: &TimeRange) -> Result<Option<RecordBatch>, EngineError> {
        let held = self.scan.stages.as_ref().and(page.segment.stored()).and_then(|slab| self.load_slab(slab));
        let Some(held) = held else { return Ok(None) };
        let Some(summary) = &held.summary else { return Ok(None) };
        let is_same = |at: &usize| {
            let known = &summary.head.pages[*at];
            (known.first_row, known.events) == (page.info.first_row, page.info.events)
        };
        let place = summary.head.pages.partition_point(|known| known.first_row < page.info.first_row);
        let Some(place) = Some(place).filter(|at| *at < summary.head.pages.len()).filter(is_same) else {
            return Ok(None);
        };
        let Some(columns) = held.columns.get_or_init(|| self.read_columns(&held.name, summary)) else {
            return Ok(None);
        };
        assert_eq!(columns.len(), self.scan.columns.len(), "every requested column was read");
        let count = summary.head.pages[place].rows as usize;
        let named =
            self.scan.columns.iter().zip(columns).map(|(name, pages)| (name.as_str(), Arc::clone(&pages[place])));
        let rows = rows::batch_of(named, count)?;
        if range.contains(page.info.time_min) && range.contains(page.info.time_max) {
            return Ok(Some(rows));
        }
        let times = rows::column_or_null(&rows, "_time");
        let Some(times) = times.as_primitive_opt::<TimestampNanosecondType>() else {
            return Ok(Some(rows.slice(0, 0)));
        };
        let keep: BooleanArray = times.values().iter().map(|time| Some(range.contains(*time))).collect();
        rows::filter(&rows, &keep).map(Some)
    }

    fn read_columns(&self, name: &str, summary: &OpenSummary) -> Option<Vec<Vec<ArrayRef>>> {
        let column = |column: &String| {
            let missing = || Fault::invalid(format!("it has no column {column}"));
            summary.column(column).and_then(|pages| pages.ok_or_else(missing))
        };
        match self.scan.columns.iter().map(column).collect::<Result<Vec<_>, _>>() {
            Ok(columns) => Some(columns),
            Err(fault) => {
                self.store.report_unusable(name, &fault.to_string());
                None
            }
        }
    }

    fn load_slab(&self, slab: StoredSlab) -> Option<Arc<CachedSummary>> {
        let digest = self.scan.digest.as_ref()?;
        let mut held = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = held.iter().find(|(known, _)| *known == slab) {
            return Some(Arc::clone(known));
        }
        let summary = open(self.store.as_ref(), digest, slab);
        let made = Arc::new(CachedSummary {
            name: object_name(&folder_name(digest), slab),
            summary,
            columns: OnceLock::new(),
        });
        if held.len() >= CACHED_SLABS_MAX {
            held.pop_front();
        }
        held.push_back((slab, Arc::clone(&made)));
        assert!(held.len() <= CACHED_SLABS_MAX, "the number of cached slabs has a limit");
        Some(made)
    }
}
