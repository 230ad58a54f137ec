//! Starts searches and collects their results.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_engine::{
    BaseSearch, Costs, Engine, EngineError, Explanation, Job, NodeEntry, Previews, ResultKind, ScanProgress,
    SearchRequest, SearchShape, SnapshotSource, Stopper, SummaryReport, SummaryRequest, allowed_indexes,
};
use quarry_event::time::{NS_PER_SEC, parse_time};
use quarry_event::{TimeError, TimeNs, TimeRange};
use quarry_spl::Diagnostic;
use quarry_spl::ast::Pipeline;
use quarry_spl::commands::Beginning;
use quarry_spl::editing::Vocabulary;
use quarry_spl::macros::Expansion;
use quarry_stdx::{Fault, SharedClock};
use quarry_store::{Follower, IndexSelector};

use crate::error::SearchError;
use crate::job_recorder::{JobFacts, JobRecorder, ResultCollector};
use crate::pending_rows::PendingRows;
use crate::result_pages::{SENT_BYTES, rows_memory_bytes};
use crate::summaries::ModelSummaries;
use crate::{CollectedRows, ResultTable};

/// Path of the indexes among the node's entries.
const INDEXES: &str = "/services/data/indexes";

/// Parameters of a search. The service fills in absent members, resolves relative times by its clock, and passes the
/// result to the engine as a [`SearchRequest`].
#[derive(Clone, Debug, Default)]
pub struct SearchParams {
    /// Text of the search.
    pub text: String,
    /// Number of bytes at the start of the text that the user did not write; messages omit these bytes.
    pub prefix: usize,
    /// The parsed search. If present, it runs instead of the text, and only messages use the text.
    pub pipeline: Option<Pipeline>,
    /// Start of the time range, as a time modifier; unbounded when absent.
    pub earliest: Option<String>,
    /// End of the time range (exclusive), as a time modifier; unbounded when absent.
    pub latest: Option<String>,
    /// Time zone of the user; defaults to the service's time zone.
    pub zone: Option<TimeZone>,
    /// Maximum number of rows collected; unlimited when absent.
    pub rows_max: Option<usize>,
    /// Whether the search was narrowed to the displayed part of its result; its rows are then not stored.
    pub is_narrowed: bool,
    /// Whether the server runs this search to answer a request other than a search; it is then neither logged nor
    /// stored.
    pub is_internal: bool,
    /// The user's permissions; none by default.
    pub permissions: Arc<Permissions>,
    /// Name of the job that stores the rows. If absent, the service names the search and passes its rows to its
    /// [`JobRecorder`].
    pub sid: Option<String>,
    /// Options of the search besides its text.
    pub shape: SearchShape,
    /// Time that `now` means in the search; defaults to the clock's time.
    pub now: Option<TimeNs>,
    /// Absolute time range; if present, replaces `earliest` and `latest`.
    pub range: Option<TimeRange>,
}

impl SearchParams {
    /// Parameters of the data directory's owner, who has all permissions; the text is empty.
    pub fn for_owner() -> SearchParams {
        SearchParams { permissions: Arc::new(Permissions::owner()), ..SearchParams::default() }
    }
}

/// A collected result.
#[derive(Debug)]
pub struct Outcome {
    /// Name of the search.
    pub id: String,
    /// Rows of the result.
    pub table: ResultTable,
    /// Messages for the user.
    pub messages: Vec<String>,
    /// Whether rows are missing, as the messages explain.
    pub partial: bool,
    /// Whether the rows are events.
    pub events: bool,
    /// Number of events scanned.
    pub events_scanned: u64,
    /// Run time in milliseconds.
    pub elapsed_ms: u64,
}

/// Function of the engine that starts a search.
type StartSearch = fn(&Engine, SearchRequest, Arc<dyn SnapshotSource>) -> Result<Job, Vec<Diagnostic>>;

/// Components of a service.
pub struct SearchServiceParts {
    /// Runs searches.
    pub engine: Engine,
    /// Provides events.
    pub source: Arc<dyn SnapshotSource>,
    /// Clock of the service.
    pub clock: SharedClock,
    /// Default time zone.
    pub zone: TimeZone,
    /// Indexes searched by default.
    pub default_indexes: Vec<String>,
    /// Stores finished searches.
    pub recorder: Option<Arc<dyn JobRecorder>>,
    /// Summaries of data models; none without a data directory.
    pub summaries: Option<Arc<ModelSummaries>>,
}

/// Runs searches over one source of events.
pub struct SearchService(SearchServiceParts);

/// A request for the summaries of a data model.
#[derive(Clone, Debug, Default)]
pub struct ModelSummaryRequest {
    /// Name of the data model.
    pub model: String,
    /// Time from which buckets are summarised.
    pub earliest: Option<TimeNs>,
    /// Time from which missing summaries are built.
    pub backfill: Option<TimeNs>,
    /// Whether missing summaries are built.
    pub build: bool,
}

impl SearchService {
    /// A service that runs searches with these components.
    pub fn new(parts: SearchServiceParts) -> SearchService {
        SearchService(parts)
    }

    /// The search engine of the service.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The summaries that searches read; none without a data directory.
    pub(crate) fn summaries(&self) -> Option<&ModelSummaries> {
        self.0.summaries.as_deref()
    }

    /// Entries at a path of the node's REST interface, as visible to a viewer; `None` if the path does not exist.
    pub fn node_entries(&self, path: &str, viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        self.0.engine.node().entries(path, viewer)
    }

    /// Default time zone.
    pub fn zone(&self) -> TimeZone {
        self.0.zone.clone()
    }

    /// The instant that a time modifier denotes by the service's clock; `zone` defaults to the service's time zone.
    pub fn resolve_time(&self, text: &str, zone: Option<&TimeZone>) -> Result<TimeNs, TimeError> {
        parse_time(text, self.0.clock.now_ns(), zone.unwrap_or(&self.0.zone))
    }

    pub(crate) fn clock(&self) -> SharedClock {
        Arc::clone(&self.0.clock)
    }

    /// Explains a search. With `counts`, also counts how much of the source the search would read.
    pub fn explain(&self, params: SearchParams, counts: bool) -> Result<Explanation, SearchError> {
        let (request, _) = self.request(params)?;
        let source = counts.then(|| Arc::clone(&self.0.source));
        self.0.engine.explain(request, source).map_err(SearchError::Syntax)
    }

    /// Checks a search without running it; returns errors and warnings with positions in its text.
    pub fn diagnose(&self, params: SearchParams) -> Result<Vec<Diagnostic>, SearchError> {
        let (request, _) = self.request(params)?;
        Ok(self.0.engine.diagnose(request))
    }

    /// A search with its macros expanded.
    pub fn expand_macros(&self, params: SearchParams) -> Result<Expansion, SearchError> {
        let (request, _) = self.request(params)?;
        Ok(self.0.engine.expand_macros(&request))
    }

    /// The search for events with which a search begins.
    pub(crate) fn base_search(&self, params: SearchParams) -> Option<BaseSearch> {
        let (request, _) = self.request(params).ok()?;
        self.0.engine.base_search(&request)
    }

    /// The names, other than field names, that a search of the user may use.
    pub fn vocabulary(&self, params: SearchParams) -> Result<Vocabulary, SearchError> {
        let indexes = self.node_entries(INDEXES, &params.permissions);
        let titles = |entries: Vec<NodeEntry>| -> Vec<String> {
            let title = |entry: NodeEntry| entry.into_iter().find(|(name, _)| name == "title")?.1.into_iter().next();
            entries.into_iter().filter_map(title).collect()
        };
        // A user who may not list indexes gets none suggested.
        let indexes = indexes.ok().flatten().map(titles).unwrap_or_default();
        let (request, _) = self.request(params)?;
        Ok(Vocabulary { indexes, ..self.0.engine.vocabulary(&request) })
    }

    /// Finds existing summaries of a data model, and builds missing ones if requested. `go_on` is called before
    /// each page is read; `false` stops the work.
    pub fn summarise(
        &self,
        wanted: &ModelSummaryRequest,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SummaryReport, EngineError> {
        let request = SummaryRequest {
            model: wanted.model.clone(),
            now: self.0.clock.now_ns(),
            zone: self.0.zone.clone(),
            default_indexes: self.0.default_indexes.clone(),
            earliest: wanted.earliest,
            backfill: wanted.backfill,
            build: wanted.build,
        };
        self.0.engine.summarise(&request, Arc::clone(&self.0.source), go_on)
    }

    /// Starts a search on a thread of its own.
    pub fn start(&self, params: SearchParams) -> Result<RunningSearch, SearchError> {
        self.start_with(params, Engine::start, Arc::clone(&self.0.source))
    }

    /// Starts a search that runs on the thread that reads its rows. If the stack of that thread is smaller than
    /// [`quarry_engine::STACK_BYTES`], the search runs on a larger stack.
    pub fn start_on_reader_thread(&self, params: SearchParams) -> Result<RunningSearch, SearchError> {
        self.start_with_source(params, Arc::clone(&self.0.source))
    }

    /// Like [`SearchService::start_on_reader_thread`] over events of another source.
    pub(crate) fn start_with_source(
        &self,
        params: SearchParams,
        source: Arc<dyn SnapshotSource>,
    ) -> Result<RunningSearch, SearchError> {
        self.start_with(params, Engine::start_on_reader_thread, source)
    }

    /// Refuses a data model with an object that no search of the user could use.
    pub fn check_data_model(&self, name: &str, text: &str, viewer: &Arc<Permissions>) -> Result<(), SearchError> {
        let params = SearchParams { permissions: Arc::clone(viewer), ..SearchParams::default() };
        let (request, _) = self.request(params)?;
        self.0.engine.check_data_model(name, text, request).map_err(SearchError::Engine)
    }

    /// Refuses a search with a command that its user may not run. A search that runs once is refused when it runs, but
    /// a repeated search is checked in advance, because otherwise each round of the search would be refused.
    pub(crate) fn check_permitted(&self, params: SearchParams) -> Result<(), SearchError> {
        let (request, _) = self.request(params)?;
        self.0.engine.permit(request).map_err(SearchError::Engine)
    }

    /// Follows the new events of all indexes that a user may search; `None` if there are too many followers.
    pub(crate) fn follow(&self, permissions: &Permissions) -> Option<Follower> {
        let all = || IndexSelector::new(["*", "_*"].map(str::to_owned));
        let indexes = if permissions.is_owner() { all() } else { allowed_indexes(permissions) };
        self.0.source.follow(&indexes)
    }

    fn start_with(
        &self,
        params: SearchParams,
        start: StartSearch,
        source: Arc<dyn SnapshotSource>,
    ) -> Result<RunningSearch, SearchError> {
        let (rows_left, keeps_rows) = (params.rows_max, !params.is_narrowed);
        let (sid, is_internal) = (params.sid.clone(), params.is_internal);
        let (mut request, zone) = self.request(params)?;
        let range = request.range;
        let started_ns = self.0.clock.elapsed_ns();
        let recorder = self.0.recorder.as_ref().filter(|_| sid.is_none() && !is_internal);
        let mut collector = recorder.and_then(|recorder| {
            let started = self.0.clock.now_ns();
            let sid = recorder.begin(started)?;
            let search = request.text.clone();
            let (saved, user) = (saved_name(&search), request.permissions.user.clone());
            let facts = JobFacts { sid, saved, search, user, started, ..JobFacts::default() };
            Some(ResultCollector::new(Arc::clone(recorder), facts, keeps_rows))
        });
        request.sid = sid.or_else(|| collector.as_ref().map(|collector| collector.facts.sid.clone()));
        let job = start(&self.0.engine, request, source).map_err(SearchError::Syntax)?;
        if let Some(collector) = &mut collector {
            collector.facts.events = job.kind() == ResultKind::Events;
        }
        let clock = Arc::clone(&self.0.clock);
        job.stopper().set_clock(Arc::clone(&clock));
        let pending = PendingRows::default();
        Ok(RunningSearch { job, pending, zone, range, rows_left, clock, started_ns, collector })
    }

    /// The request to the engine, and the time zone of the user.
    fn request(&self, params: SearchParams) -> Result<(SearchRequest, TimeZone), SearchError> {
        let now = params.now.unwrap_or_else(|| self.0.clock.now_ns());
        let zone = params.zone.unwrap_or_else(|| self.0.zone.clone());
        let time = |name, text: &Option<String>| match text.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => match parse_time(text, now, &zone) {
                Ok(time) => Ok(Some(time)),
                Err(error) => Err(SearchError::Time { name, reason: error.to_string() }),
            },
        };
        // In Splunk, an earliest time of 0 means all time, including events before 1970.
        let earliest = time("earliest", &params.earliest)?.filter(|time| *time != 0);
        let range = TimeRange { earliest, latest: time("latest", &params.latest)? };
        let range = params.range.unwrap_or(range);
        let default_indexes = match params.permissions.is_owner() {
            true => self.0.default_indexes.clone(),
            false => params.permissions.default_indexes.clone(),
        };
        let request = SearchRequest {
            text: params.text,
            prefix: params.prefix,
            pipeline: params.pipeline,
            shape: params.shape,
            range,
            now,
            zone: zone.clone(),
            default_indexes,
            permissions: params.permissions,
            sid: None,
        };
        Ok((request, zone))
    }

    /// Runs a search to its end on this thread.
    pub fn run(&self, params: SearchParams) -> Result<Outcome, SearchError> {
        self.start_on_reader_thread(params)?.finish()
    }
}

/// Name of the saved search that a search runs; `None` if the search does anything else.
pub(crate) fn saved_name(text: &str) -> Option<String> {
    // Most searches run no saved search, so they are not parsed.
    if !text.to_ascii_lowercase().contains("savedsearch") {
        return None;
    }
    match &quarry_spl::parse(text).pipeline.commands[..] {
        [stage] => match stage.command.begins_with() {
            Beginning::SavedSearch(saved) => Some(saved.name.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// A running search. Dropping it ends the search.
pub struct RunningSearch {
    job: Job,
    /// Rows produced but not read yet.
    pending: PendingRows,
    zone: TimeZone,
    range: TimeRange,
    rows_left: Option<usize>,
    clock: SharedClock,
    started_ns: i64,
    /// Collects the rows to be stored.
    collector: Option<ResultCollector>,
}

impl RunningSearch {
    /// Id of the search, for `loadjob`.
    pub fn id(&self) -> &str {
        self.job.id()
    }

    /// Requested time range.
    pub fn range(&self) -> TimeRange {
        self.range
    }

    /// The next rows; blocks. `None` at the end.
    pub(crate) fn next_rows(&mut self) -> Result<Option<RecordBatch>, SearchError> {
        if self.rows_left == Some(0) {
            self.end(false);
            return Ok(None);
        }
        let Some(rows) = self.job.next_batch() else {
            self.end(!self.job.is_partial());
            return Ok(None);
        };
        let mut rows = rows?;
        if let Some(left) = &mut self.rows_left {
            rows = rows.slice(0, rows.num_rows().min(*left));
            *left -= rows.num_rows();
        }
        if let Some(collector) = &mut self.collector {
            collector.add(&rows);
        }
        Ok(Some(rows))
    }

    /// Whether the search ended at the maximum number of rows, although there may be more.
    pub fn has_reached_row_limit(&self) -> bool {
        self.rows_left == Some(0)
    }

    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from((self.clock.elapsed_ns() - self.started_ns) / (NS_PER_SEC / 1_000)).unwrap_or(0)
    }

    /// Ends the collection of rows. `complete` is true if the client has read every row of a result that is not
    /// partial.
    fn end(&mut self, complete: bool) {
        let elapsed_ms = self.elapsed_ms();
        if let Some(collector) = &mut self.collector {
            collector.facts.elapsed_ms = elapsed_ms;
            collector.facts.events_scanned = self.job.progress().events_scanned();
            collector.facts.messages = self.job.messages();
            collector.end(complete);
        }
    }

    /// The next rows, about a megabyte at most, shown in `zone`; blocks. `None` at the end.
    pub fn next_table(&mut self, zone: &TimeZone) -> Result<Option<ResultTable>, SearchError> {
        loop {
            if let Some(piece) = self.pending.next()? {
                return Ok(Some(ResultTable::new(vec![piece], zone.clone())));
            }
            let Some(rows) = self.next_rows()? else { return Ok(None) };
            self.pending.add(&rows);
        }
    }

    /// Releases memory until the next rows are requested: finished rows are spilled, and data that can be recomputed is
    /// dropped.
    pub fn release_memory(&mut self) -> Result<(), SearchError> {
        self.job.release_memory();
        Ok(self.pending.spill(|| self.job.result_rows())?)
    }

    /// Collects all remaining rows, shown in `zone`, within the memory limit of searches.
    pub fn collect_rows(&mut self, zone: &TimeZone) -> Result<CollectedRows, SearchError> {
        let mut kept = self.job.result_rows();
        while let Some(rows) = self.next_rows()? {
            kept.push(&rows)?;
        }
        Ok(CollectedRows::new(kept, zone.clone()))
    }

    /// Collects all remaining rows, shown in `zone`, for a client that may read slowly: in memory up to a megabyte,
    /// otherwise in a file. `grow` is called once when the rows exceed this size, and may let other searches run first.
    pub fn collect_rows_to_send(
        &mut self,
        zone: &TimeZone,
        grow: impl FnOnce(&mut RunningSearch),
    ) -> Result<CollectedRows, SearchError> {
        let mut kept = self.job.slow_reader_result_rows();
        let mut grow = Some(grow);
        while let Some(rows) = self.next_rows()? {
            kept.push(&rows)?;
            drop(rows);
            if rows_memory_bytes(&kept) > SENT_BYTES
                && let Some(grow) = grow.take()
            {
                kept.spill()?;
                grow(self);
            }
        }
        let mut rows = CollectedRows::new(kept, zone.clone());
        if !rows.is_small() {
            rows.spill()?;
        }
        Ok(rows)
    }

    /// Collects all remaining rows in memory, for answers known to be small.
    pub fn collect_table(&mut self, zone: &TimeZone) -> Result<ResultTable, SearchError> {
        let mut batches = Vec::new();
        while let Some(rows) = self.next_rows()? {
            batches.push(rows);
        }
        Ok(ResultTable::new(batches, zone.clone()))
    }

    /// Runs to the end and collects everything.
    pub fn finish(mut self) -> Result<Outcome, SearchError> {
        let zone = self.zone.clone();
        let table = self.collect_table(&zone)?;
        let elapsed_ms = self.elapsed_ms();
        Ok(Outcome {
            id: self.id().to_owned(),
            table,
            messages: self.job.messages(),
            partial: self.job.is_partial(),
            events: self.is_events(),
            events_scanned: self.job.progress().events_scanned(),
            elapsed_ms,
        })
    }

    /// Whether the rows are events.
    pub fn is_events(&self) -> bool {
        self.job.kind() == ResultKind::Events
    }

    /// Messages for the user so far.
    pub fn messages(&self) -> Vec<String> {
        self.job.messages()
    }

    /// Whether the answer is partial so far.
    pub fn is_partial(&self) -> bool {
        self.job.is_partial()
    }

    /// Progress of the search.
    pub fn progress(&self) -> &ScanProgress {
        self.job.progress()
    }

    /// Like [`RunningSearch::progress`], but may be shared with other threads.
    pub fn shared_progress(&self) -> Arc<ScanProgress> {
        self.job.shared_progress()
    }

    /// Starts to measure the costs of the search's parts. Must be called before the first rows are requested.
    pub(crate) fn measure_costs(&self) -> Arc<Costs> {
        self.job.measure_costs(Arc::clone(&self.clock))
    }

    /// Previews of the search's report, which may be shared with other threads.
    pub(crate) fn previews(&self) -> Arc<Previews> {
        Arc::clone(self.job.previews())
    }

    /// A handle that stops the search from another thread.
    pub fn stopper(&self) -> Stopper {
        self.job.stopper()
    }

    /// Ends the search without a result.
    pub fn cancel(&self) {
        self.job.stopper().cancel();
    }
}
