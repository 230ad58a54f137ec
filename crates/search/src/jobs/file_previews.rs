//! Jobs with the events of a previewed file. Such a job runs no search: it is done as soon as it is created.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray, TimestampNanosecondArray};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_event::{Metadata, TimeNs};
use serde_json::json;

use super::counts::Counts;
use super::job::{JobFailure, MutableState};
use super::rows::JobRows;
use super::{JobOptions, JobState, Jobs, PreviewedFile, SearchJob};
use crate::error::SearchError;
use crate::hints::quote;
use crate::service::SearchParams;

/// An event of a previewed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedEvent {
    /// `_time`.
    pub time: TimeNs,
    /// `_raw`.
    pub raw: String,
    /// Number of lines of the text.
    pub lines: usize,
    /// Index, host, source and sourcetype.
    pub metadata: Metadata,
}

/// A file and the events that indexing it would produce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePreview {
    /// Path of the file.
    pub path: String,
    /// The events, in the order of the file.
    pub events: Vec<PreviewedEvent>,
    /// Remarks about the file, such as that only a part of it was read.
    pub notes: Vec<String>,
    /// Settings of props.conf that the request set for the file.
    pub props: BTreeMap<String, String>,
}

impl Jobs {
    /// Creates a finished job whose rows are the events of a previewed file. Its search is the one that finds these
    /// events once the file is indexed.
    pub fn create_preview(
        &self,
        permissions: &Arc<Permissions>,
        (app, zone): (&str, TimeZone),
        preview: FilePreview,
    ) -> Result<Arc<SearchJob>, SearchError> {
        self.check_capacity()?;
        let bytes_max = self.remaining_quota(permissions)?;
        let rows = event_rows(&preview.events).map_err(SearchError::from)?;
        let now = self.clock.now_ns();
        // A time of its own distinguishes the job from jobs that run this search, so that none is answered with it.
        let params = SearchParams {
            text: format!("search source={}", quote(&preview.path)),
            permissions: Arc::clone(permissions),
            now: Some(now),
            ..SearchParams::default()
        };
        let sourcetype = preview.events.first().map_or_else(String::new, |event| event.metadata.sourcetype.to_string());
        let previewed = Some(PreviewedFile { sourcetype, props: preview.props });
        let options = JobOptions { app: app.to_owned(), previewed, ..JobOptions::default() };
        let (sid, _beginning) = self.begin(None, &|sid: &str| json!(options.record(sid, &params, now)))?;
        let record = options.record(&sid, &params, now);
        let results = JobRows::new(self.job_store.rows_path(&sid)).with_bytes_max(bytes_max);
        let read = preview.events.len() as u64;
        let mut changing = MutableState::new(JobState::Running, results, &record);
        changing.counts = Counts { scanned: read, matched: read, ..Counts::default() };
        let context = (Arc::clone(&self.job_store), Arc::clone(&self.clock));
        let mut job = SearchJob::without_search(record, changing, context);
        (job.is_events, job.zone) = (true, zone);
        let ended = job.add_rows(&rows).map(drop).map_err(JobFailure::from);
        job.end(ended, preview.notes, false, 0);
        let job = Arc::new(job);
        self.lock().insert(sid, Arc::clone(&job));
        Ok(job)
    }
}

/// The events as rows.
fn event_rows(events: &[PreviewedEvent]) -> Result<RecordBatch, ArrowError> {
    let texts = |text: fn(&PreviewedEvent) -> &str| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(events.iter().map(text)))
    };
    let times = TimestampNanosecondArray::from_iter_values(events.iter().map(|event| event.time));
    let lines = events.iter().map(|event| i64::try_from(event.lines).unwrap_or(i64::MAX));
    let columns: [(&str, ArrayRef); 7] = [
        ("_time", Arc::new(times)),
        ("_raw", texts(|event| &event.raw)),
        ("host", texts(|event| &event.metadata.host)),
        ("source", texts(|event| &event.metadata.source)),
        ("sourcetype", texts(|event| &event.metadata.sourcetype)),
        ("index", texts(|event| &event.metadata.index)),
        ("linecount", Arc::new(Int64Array::from_iter_values(lines))),
    ];
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, column)| column).collect())
}
