//! The engine's public interface: a request starts a job, a job yields batches.
//!
//! Normally, a job has a thread that runs until the result is read or the job is dropped ([`crate::threads`]). A
//! bounded queue slows the search down to the pace of its reader, so that memory does not fill. Alternatively, rows are
//! made on the reader's own thread. This saves two switches between threads, which take a fifth of the time of a search
//! for one event.

pub(crate) mod language;
mod row_source;
pub(crate) mod shape;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_conf::{Permissions, PropsResolver};
use quarry_eval::EngineError;
use quarry_eval::context::{CommandContext, ReleasableMemory, Stop, SubsearchDefaults, TransactionLimits, WorkStart};
use quarry_eval::costs::Costs;
use quarry_eval::dataflow::{Dataflow, Slicing};
use quarry_eval::expr::{ExprContext, ExprTables};
use quarry_eval::lookup::LookupSource;
use quarry_eval::messages::Messages;
use quarry_eval::panics::catch_panic;
use quarry_eval::rows::RowIter;
use quarry_event::time::NS_PER_SEC;
use quarry_event::{TimeNs, TimeRange};
use quarry_scan::summary::{NoSummaries, SummaryStore};
use quarry_scan::{PartialStates, RuleExtraction, ScanProgress, ScanRules};
use quarry_spl::ast::{DataModelName, PercentileMethod, Pipeline, Span};
use quarry_spl::commands::Beginning;
use quarry_spl::macros::{Expansion, SpanMap};
use quarry_spl::{Diagnostic, ParsedSearch, Severity, excerpt};
use quarry_stdx::SharedClock;
use quarry_store::{DELETION_BYTES_MAX, MemoryStore, SlabExtraction};

use self::row_source::{RowSource, SearchRows};
use self::shape::SearchShape;
use crate::custom_commands::{CommandSource, NoCommands};
use crate::explain::{ExplainChecker, Explainer, Explanation};
use crate::field_formats::DisplayFormats;
use crate::knowledge::macros::expand_macros;
use crate::knowledge::model::DataModel;
use crate::knowledge::object::ModelObject;
use crate::knowledge::{KnowledgeSource, NoKnowledge, data_model};
use crate::node::{NoNode, NodeSource};
use crate::permissions::restrict_source;
use crate::plan::Plan;
use crate::result_rows::ResultRows;
use crate::run::Runner;
use crate::run::preview::Previews;
use crate::run::subsearch_results::SubsearchResults;
use crate::source::SnapshotSource;
use crate::threads::{SearchThreads, with_stack};

/// Maximum nesting depth of saved searches and base searches that are followed to determine the kind of a result.
const SAVED_DEPTH_MAX: usize = 8;
/// Maximum number of batches queued for the reader.
const QUEUED_BATCHES_MAX: usize = 4;

/// Limits and settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Bytes that grouping and sorting may hold before they spill to files.
    pub memory_bytes: usize,
    /// Directory of spill files; the system's temporary directory if absent.
    pub spill: Option<PathBuf>,
    /// Bytes of cached partial states, which let a repeated search read only new data; 0 disables the cache.
    pub partial_state_bytes: usize,
    /// Sizes of the portions in which rows are read and passed on.
    pub slicing: Slicing,
    /// Default limits of `transaction`.
    pub transactions: TransactionLimits,
    /// Default limits of subsearches.
    pub subsearches: SubsearchDefaults,
    /// Algorithm for percentiles (limits.conf `[stats] perc_method`).
    pub percentiles: PercentileMethod,
    /// Maximum bytes of the event references of one deletion; a larger one is refused and deletes nothing.
    pub deletion_bytes: usize,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            memory_bytes: 1 << 30,
            spill: None,
            partial_state_bytes: 128 << 20,
            slicing: Slicing::default(),
            transactions: TransactionLimits::default(),
            subsearches: SubsearchDefaults::default(),
            percentiles: PercentileMethod::default(),
            deletion_bytes: DELETION_BYTES_MAX,
        }
    }
}

/// Runs searches.
pub struct Engine {
    dataflow: Arc<Dataflow>,
    rules: ScanRules,
    lookups: Arc<dyn LookupSource>,
    threads: Arc<SearchThreads>,
    knowledge: Arc<dyn KnowledgeSource>,
    commands: Arc<dyn CommandSource>,
    node: Arc<dyn NodeSource>,
    /// Cached partial states, which are valid only for `rules`.
    states: Option<Arc<PartialStates>>,
    transactions: TransactionLimits,
    subsearches: SubsearchDefaults,
    percentiles: PercentileMethod,
    deletion_bytes: usize,
    summaries: Arc<dyn SummaryStore>,
    /// Number of searches started, for generated names.
    started: AtomicU64,
}

/// A search with the time, zone, indexes and permissions that its run depends on: neither a clock nor a default is
/// looked up later.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The search.
    pub text: String,
    /// Bytes at the start of the text that its author did not write; positions in messages do not count them.
    pub prefix: usize,
    /// The syntax tree of the search. If set, the tree is run, and the text is used in messages only.
    pub pipeline: Option<Pipeline>,
    /// Options that change the search.
    pub shape: SearchShape,
    /// Time range that applies if the search text sets no time range.
    pub range: TimeRange,
    /// Value of `now`.
    pub now: TimeNs,
    /// Zone of the user.
    pub zone: TimeZone,
    /// Indexes read if the search names no index.
    pub default_indexes: Vec<String>,
    /// Permissions of the user. Commands without permission are refused; indexes without permission appear empty.
    pub permissions: Arc<Permissions>,
    /// Job id; if absent, one is generated that is unique within this engine.
    pub sid: Option<String>,
}

/// Kind of a result's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// Events.
    Events,
    /// Rows of a report.
    Results,
}

impl Engine {
    /// An engine that extracts fields according to `props` and reads tables from `lookups`.
    pub fn new(
        options: &EngineOptions,
        props: Arc<PropsResolver>,
        lookups: Arc<dyn LookupSource>,
    ) -> Result<Engine, EngineError> {
        let dataflow = Dataflow::new(options.memory_bytes, options.spill.clone())?;
        let dataflow = Arc::new(dataflow.with_slicing(&options.slicing));
        Ok(Engine {
            dataflow,
            knowledge: Arc::new(NoKnowledge),
            commands: Arc::new(NoCommands),
            node: Arc::new(NoNode),
            rules: ScanRules::new(props),
            lookups,
            threads: Arc::default(),
            states: PartialStates::new(options.partial_state_bytes),
            transactions: options.transactions,
            subsearches: options.subsearches,
            percentiles: options.percentiles,
            deletion_bytes: options.deletion_bytes,
            summaries: Arc::new(NoSummaries),
            started: AtomicU64::new(0),
        })
    }

    /// Shares the memory limit, threads, partial state cache and pattern readers of another engine, so that the limits
    /// apply to both engines together.
    pub fn with_shared_limits(self, other: &Engine) -> Engine {
        let states = other.states.as_ref().map(|states| states.share_with_engine());
        let rules = self.rules.with_shared_readers(&other.rules);
        Engine { dataflow: Arc::clone(&other.dataflow), threads: Arc::clone(&other.threads), states, rules, ..self }
    }

    /// Adds data models, macros and saved searches.
    pub fn with_knowledge(self, knowledge: Arc<dyn KnowledgeSource>) -> Engine {
        Engine { knowledge, ..self }
    }

    /// Adds the node that commands can query.
    pub fn with_node(self, node: Arc<dyn NodeSource>) -> Engine {
        Engine { node, ..self }
    }

    /// The node that commands can query.
    pub fn node(&self) -> &dyn NodeSource {
        self.node.as_ref()
    }

    /// Adds summaries of data models.
    pub fn with_summaries(self, summaries: Arc<dyn SummaryStore>) -> Engine {
        Engine { summaries, ..self }
    }

    /// Adds custom commands of apps.
    pub fn with_commands(self, commands: Arc<dyn CommandSource>) -> Engine {
        Engine { commands, ..self }
    }

    /// Extraction of the fields that compaction stores, by the rules of this engine.
    pub fn slab_extraction(&self) -> Arc<dyn SlabExtraction> {
        Arc::new(RuleExtraction::new(&self.rules))
    }

    /// Peak use of [`EngineOptions::memory_bytes`] by searches so far.
    pub fn peak_memory_bytes(&self) -> usize {
        self.dataflow.peak_bytes()
    }

    /// Starts a search. Faults in the text are returned immediately, all other faults by the job.
    pub fn start(&self, request: SearchRequest, source: Arc<dyn SnapshotSource>) -> Result<Job, Vec<Diagnostic>> {
        self.start_on(RowThread::Own, request, source)
    }

    /// Starts a search whose rows are made on the thread that reads them. If that thread has too little stack left, the
    /// rows are made on a new stack of [`STACK_BYTES`].
    ///
    /// [`STACK_BYTES`]: crate::STACK_BYTES
    pub fn start_on_reader_thread(
        &self,
        request: SearchRequest,
        source: Arc<dyn SnapshotSource>,
    ) -> Result<Job, Vec<Diagnostic>> {
        self.start_on(RowThread::Reader, request, source)
    }

    fn start_on(
        &self,
        row_thread: RowThread,
        request: SearchRequest,
        source: Arc<dyn SnapshotSource>,
    ) -> Result<Job, Vec<Diagnostic>> {
        with_stack(|| {
            let (_, parsed, spans) = self.parse_shaped(&request)?;
            let told: Vec<String> = parsed
                .diagnostics
                .iter()
                .map(|warning| warning.to_one_line_after(request.prefix, &request.text))
                .collect();
            let job = self.job(row_thread, parsed.pipeline, spans, request, source);
            told.into_iter().for_each(|warning| job.messages.push(warning));
            Ok(job)
        })
    }

    /// Refuses a data model with an object that no search could use; `request` determines which user's macros apply.
    pub fn check_data_model(&self, name: &str, text: &str, request: SearchRequest) -> Result<(), EngineError> {
        with_stack(|| {
            let model = DataModel::of_json(name, text)?;
            let runner = self.runner(request, Arc::new(MemoryStore::new("none")));
            for object in &model.objects {
                let expand = |text: &str| runner.expand_macros(text);
                ModelObject::new(&model, Some(&object.name), &BTreeSet::new(), &expand)?;
            }
            Ok(())
        })
    }

    /// Refuses a search with a command that its user may not run, before the search is started. Faults of the text are
    /// reported when the search starts.
    pub fn permit(&self, request: SearchRequest) -> Result<(), EngineError> {
        with_stack(|| {
            let Ok((_, parsed, spans)) = self.parse_shaped(&request) else { return Ok(()) };
            let runner = self.runner(request, Arc::new(MemoryStore::new("none")));
            runner.permit_all(&parsed.pipeline).map(drop).map_err(|error| {
                let place = error.span().map(|span| spans.original(span));
                error.with_span(place)
            })
        })
    }

    /// Refuses a search with side effects, because each run would repeat them.
    fn refuse_effects(
        &self,
        request: &SearchRequest,
        pipeline: &Pipeline,
        spans: &SpanMap,
    ) -> Result<(), Vec<Diagnostic>> {
        let runner = self.runner(request.clone(), Arc::new(MemoryStore::new("none")));
        // A command that the user may not run is refused when the search starts.
        if runner.permit_all(pipeline).is_ok_and(|effects| effects.any) {
            let text = "the search has side effects, which each round of a real-time search would repeat";
            let refusal = Diagnostic::error(text, spans.original(pipeline.span));
            return Err(vec![refusal.with_hint("run it over a past time range")]);
        }
        Ok(())
    }

    fn job(
        &self,
        row_thread: RowThread,
        pipeline: Pipeline,
        spans: SpanMap,
        request: SearchRequest,
        source: Arc<dyn SnapshotSource>,
    ) -> Job {
        let expressions = ExprContext::new(request.now, request.zone.clone());
        let kind = kind_of(&pipeline, self.knowledge.as_ref(), &expressions, 0);
        self.job_for_work(row_thread, RowSource::Search(pipeline), kind, spans, self.runner(request, source))
    }

    fn job_for_work(
        &self,
        row_thread: RowThread,
        work: RowSource,
        kind: ResultKind,
        spans: SpanMap,
        runner: Runner,
    ) -> Job {
        let (messages, stop) = (Arc::clone(&runner.context.messages), Arc::clone(&runner.context.stop));
        let (progress, id) = (Arc::clone(&runner.progress), Arc::clone(&runner.context.id));
        let (holdings, costs) = (Arc::clone(&runner.context.holdings), Arc::clone(&runner.context.costs));
        let previews = Arc::<Previews>::default();
        let made = SearchRows::new(runner, work, spans, Arc::clone(&previews));
        let rows = match row_thread {
            RowThread::Own => Rows::Queued(self.queue_rows(made)),
            RowThread::Reader => Rows::OnDemand(Box::new(made)),
        };
        let dataflow = Arc::clone(&self.dataflow);
        let _threads = Arc::clone(&self.threads);
        Job { id, rows, messages, stop, holdings, costs, progress, previews, kind, dataflow, _threads }
    }

    /// Plans a search. This runs the subsearches in its condition.
    pub fn plan(&self, request: SearchRequest, source: Arc<dyn SnapshotSource>) -> Result<Plan, Vec<Diagnostic>> {
        with_stack(|| {
            let (expansion, parsed, spans) = self.parse_shaped(&request)?;
            let runner = self.runner(request, source);
            let planned = catch_panic("a search was planned", || {
                runner.admit(&parsed.pipeline)?;
                runner.plan_search(&parsed.pipeline)
            });
            planned.map_err(|error| vec![diagnostic_of(&error, &expansion.text, &spans)])
        })
    }

    /// Runs a plan made by this or another engine of the same version. The text in `request` is used for messages
    /// only.
    pub fn start_plan(&self, plan: Plan, request: SearchRequest, source: Arc<dyn SnapshotSource>) -> Job {
        let kind = if plan.yields_events() { ResultKind::Events } else { ResultKind::Results };
        let runner = self.runner(request, source);
        self.job_for_work(RowThread::Own, RowSource::Plan(Box::new(plan)), kind, SpanMap::default(), runner)
    }

    /// Runs the part of a plan that runs next to the data, over the events of `source`. The job yields the rows of
    /// the plan's next [exchange](Plan::exchange): [times](crate::ExchangedRows::Times) go to [`Plan::with_times`],
    /// other rows to [`Engine::start_reduce`], on this node or another.
    pub fn start_map(&self, plan: Plan, request: SearchRequest, source: Arc<dyn SnapshotSource>) -> Job {
        let runner = self.runner(request, source);
        self.job_for_work(
            RowThread::Own,
            RowSource::Map(Box::new(plan)),
            ResultKind::Results,
            SpanMap::default(),
            runner,
        )
    }

    /// Runs the part of a plan that runs once, on the rows that the jobs of [`Engine::start_map`] yielded: events
    /// merged newest first, groups in any order. Subsearches read events from `source`.
    pub fn start_reduce(
        &self,
        plan: Plan,
        exchanged: RowIter,
        request: SearchRequest,
        source: Arc<dyn SnapshotSource>,
    ) -> Job {
        let kind = if plan.yields_events() { ResultKind::Events } else { ResultKind::Results };
        let work = RowSource::Reduce(Box::new(plan), exchanged);
        self.job_for_work(RowThread::Own, work, kind, SpanMap::default(), self.runner(request, source))
    }

    /// Makes rows on the search's own thread and queues them, until the end, an error, or until the reader drops the
    /// queue.
    fn queue_rows(&self, made: SearchRows) -> Receiver<Result<RecordBatch, EngineError>> {
        let (sender, batches) = sync_channel(QUEUED_BATCHES_MAX);
        let failed = sender.clone();
        let work = move || {
            for batch in made {
                if sender.send(batch).is_err() {
                    return;
                }
            }
        };
        if let Err(error) = self.threads.run(work) {
            // Sending cannot fail: the queue is empty and its receiver still exists.
            drop(failed.try_send(Err(EngineError::invalid(format!("cannot start a thread for the search: {error}")))));
        }
        batches
    }

    /// Explains what a search would do and, given a source, what it would read. No event is read, and no command is
    /// run.
    pub fn explain(
        &self,
        request: SearchRequest,
        source: Option<Arc<dyn SnapshotSource>>,
    ) -> Result<Explanation, Vec<Diagnostic>> {
        with_stack(|| self.explain_request(request, source))
    }

    fn explain_request(
        &self,
        request: SearchRequest,
        source: Option<Arc<dyn SnapshotSource>>,
    ) -> Result<Explanation, Vec<Diagnostic>> {
        let (expansion, parsed, spans) = self.parse_shaped(&request)?;
        let counts = source.is_some();
        let source = source.unwrap_or_else(|| Arc::new(MemoryStore::new("none")));
        let told: Vec<String> =
            parsed.diagnostics.iter().map(|warning| warning.to_one_line_after(request.prefix, &request.text)).collect();
        let runner = self.runner(request, source);
        let messages = Arc::clone(&runner.context.messages);
        told.into_iter().for_each(|warning| messages.push(warning));
        let formats = DisplayFormats::of(&parsed.pipeline, &runner.context);
        let permitted = runner.permit_all(&parsed.pipeline).and_then(|effects| formats.map(|_| effects));
        let explained = catch_panic("a search was explained", || {
            let explainer = Explainer::new(counts, permitted?);
            explainer.explain(&runner, &parsed.pipeline, &expansion.text)
        });
        let plan = explained.map_err(|error| vec![diagnostic_of(&error, &expansion.text, &spans)])?;
        let Expansion { text: expanded, replaced: macros, .. } = expansion;
        Ok(Explanation { expanded, macros, plan, messages: messages.list() })
    }

    /// The search that a request runs: as written, with the options of the request applied.
    fn parse_shaped(&self, request: &SearchRequest) -> Result<(Expansion, ParsedSearch, SpanMap), Vec<Diagnostic>> {
        let (expansion, mut parsed, spans) = self.parse_request(request)?;
        let placed = |fault: Diagnostic| vec![Diagnostic { span: spans.original(fault.span), ..fault }];
        request.shape.apply(&mut parsed).map_err(placed)?;
        if request.shape.is_repeated {
            self.refuse_effects(request, &parsed.pipeline, &spans)?;
        }
        Ok((expansion, parsed, spans))
    }

    /// The text of the search with macros expanded, its tree, and the mapping of positions to the original text.
    fn parse_request(&self, request: &SearchRequest) -> Result<(Expansion, ParsedSearch, SpanMap), Vec<Diagnostic>> {
        if let Some(pipeline) = &request.pipeline {
            let expansion = Expansion { text: request.text.clone(), ..Expansion::default() };
            return Ok((expansion, ParsedSearch::of(pipeline.clone()), SpanMap::default()));
        }
        let expressions = ExprContext::new(request.now, request.zone.clone());
        let mut expansion = expand_macros(&request.text, self.knowledge.as_ref(), &expressions);
        if !expansion.diagnostics.is_empty() {
            return Err(expansion.diagnostics);
        }
        let spans = std::mem::take(&mut expansion.spans);
        let mut parsed = match request.shape.is_condition {
            true => shape::parsed_condition(&expansion.text),
            false => quarry_spl::parse_with_commands(&expansion.text, &self.commands.names()),
        };
        for remark in &mut parsed.diagnostics {
            if let Some(fragment) = spans.fragment(remark.span) {
                let reads = format!("the macro expands to `{}`", excerpt(&fragment));
                remark.hint = Some(remark.hint.take().map_or_else(|| reads.clone(), |hint| format!("{hint}; {reads}")));
            }
            remark.span = spans.original(remark.span);
        }
        if parsed.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return Err(parsed.diagnostics);
        }
        Ok((expansion, parsed, spans))
    }

    /// The runner for a search.
    pub(crate) fn runner(&self, request: SearchRequest, source: Arc<dyn SnapshotSource>) -> Runner {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let of_user = self.lookups.for_user(&request.permissions);
        let lookups = of_user.unwrap_or_else(|| Arc::clone(&self.lookups));
        let messages = Arc::default();
        let stop = Arc::<Stop>::default();
        if let Some(events) = request.shape.events_max {
            stop.finish_after_events(events);
        }
        let (rules, states) = match request.shape.skips_lookups {
            // Cached states were computed with the lookups.
            true => (self.rules.clone().without_lookups(), None),
            false => (self.rules.clone(), self.states.clone()),
        };
        let context = CommandContext {
            id: request.sid.unwrap_or_else(|| format!("{}.{number}", request.now.div_euclid(NS_PER_SEC))).into(),
            search: request.text.into(),
            now: request.now,
            zone: request.zone,
            range: request.range,
            dataflow: Arc::new(self.dataflow.for_search(&stop)),
            transactions: self.transactions,
            subsearches: self.subsearches,
            percentiles: self.percentiles,
            tables: ExprTables(Some(Arc::clone(&lookups))),
            messages,
            stop,
            holdings: Arc::default(),
            costs: Arc::default(),
            permissions: Arc::clone(&request.permissions),
        };
        Runner {
            source: restrict_source(source, &request.permissions),
            lookups,
            rules,
            knowledge: Arc::clone(&self.knowledge),
            node: Arc::clone(&self.node),
            commands: Arc::clone(&self.commands),
            default_indexes: request.default_indexes,
            context,
            progress: Arc::default(),
            states,
            deletion_bytes: self.deletion_bytes,
            summaries: Arc::clone(&self.summaries),
            checker: Arc::new(ExplainChecker),
            depth: 0,
            subsearch_results: SubsearchResults::default(),
        }
    }
}

/// Converts an error to a diagnostic with its position in the original text.
fn diagnostic_of(error: &EngineError, expanded: &str, spans: &SpanMap) -> Diagnostic {
    let whole = Span { start: 0, end: expanded.len() };
    Diagnostic::error(error.to_string(), spans.original(error.span().unwrap_or(whole)))
}

/// The kind of a search's rows. If the search begins with a saved search, a base search of a data model or subsearches,
/// and does not transform their rows, their kind is also the kind of the search.
fn kind_of(
    pipeline: &Pipeline,
    knowledge: &dyn KnowledgeSource,
    expressions: &ExprContext,
    depth: usize,
) -> ResultKind {
    if quarry_spl::analyse::is_transforming(&pipeline.commands) {
        return ResultKind::Results;
    }
    let Some(first) = pipeline.commands.first() else { return ResultKind::Events };
    let text = match first.command.begins_with() {
        Beginning::Events(_) | Beginning::Transactions(_) => return ResultKind::Events,
        Beginning::SavedSearch(saved) => knowledge.saved_search(&saved.name),
        Beginning::DataModel(_, name) => base_search_of(name, knowledge),
        Beginning::Subsearches => {
            let subsearches = first.command.subsearches();
            let is_table = |search: &&Pipeline| kind_of(search, knowledge, expressions, depth) == ResultKind::Results;
            let all = !subsearches.is_empty() && subsearches.iter().all(is_table);
            return if all { ResultKind::Results } else { ResultKind::Events };
        }
        _ => return ResultKind::Results,
    };
    match text.filter(|_| depth < SAVED_DEPTH_MAX) {
        Some(text) => {
            let text = expand_macros(&text, knowledge, expressions).text;
            kind_of(&quarry_spl::parse(&text).pipeline, knowledge, expressions, depth + 1)
        }
        None => ResultKind::Events,
    }
}

/// The base search of a data model object, if the object is based on one.
fn base_search_of(name: &DataModelName, knowledge: &dyn KnowledgeSource) -> Option<String> {
    let model = data_model(knowledge, &name.model).ok()?;
    let object = name.object.clone().or_else(|| model.roots().next().map(|root| root.name.clone()))?;
    model.chain(&object).ok()?.first()?.base_search.clone()
}

/// Thread that makes the rows of a search: the search's own thread, or the reader's thread.
enum RowThread {
    Own,
    Reader,
}

/// Source of the reader's rows.
enum Rows {
    Queued(Receiver<Result<RecordBatch, EngineError>>),
    OnDemand(Box<SearchRows>),
}

/// A running search, which ends when this value is dropped.
pub struct Job {
    id: Arc<str>,
    rows: Rows,
    messages: Arc<Messages>,
    stop: Arc<Stop>,
    holdings: Arc<ReleasableMemory>,
    costs: Arc<Costs>,
    progress: Arc<ScanProgress>,
    previews: Arc<Previews>,
    kind: ResultKind,
    dataflow: Arc<Dataflow>,
    /// Dropped last, because dropping the last handle waits for the threads; by then the search is ending.
    _threads: Arc<SearchThreads>,
}

impl Job {
    /// Id of the search.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The next rows, once available; `None` at the end.
    pub fn next_batch(&mut self) -> Option<Result<RecordBatch, EngineError>> {
        match &mut self.rows {
            Rows::Queued(batches) => batches.recv().ok(),
            Rows::OnDemand(rows) => with_stack(|| rows.next()),
        }
    }

    /// Drops everything that can be computed again; for use while nobody reads rows.
    pub fn release_memory(&self) {
        self.holdings.release_memory();
    }

    /// Storage for rows of the result, within the memory of searches.
    pub fn result_rows(&self) -> ResultRows {
        ResultRows::new(&self.dataflow)
    }

    /// Storage for rows that may be read slowly: all but one batch are written to a file.
    pub fn slow_reader_result_rows(&self) -> ResultRows {
        ResultRows::for_slow_reader(&self.dataflow)
    }

    /// Messages for the user so far.
    pub fn messages(&self) -> Vec<String> {
        self.messages.list()
    }

    /// Progress of the search.
    pub fn progress(&self) -> &ScanProgress {
        &self.progress
    }

    /// Like [`Job::progress`], for use on another thread.
    pub fn shared_progress(&self) -> Arc<ScanProgress> {
        Arc::clone(&self.progress)
    }

    /// Measures the costs of the search's parts from now on; the result is shared, for use on another thread. A search
    /// that runs on its reader's thread begins only when the first rows are requested, so all its costs are measured.
    pub fn measure_costs(&self, clock: SharedClock) -> Arc<Costs> {
        self.costs.measure(clock);
        Arc::clone(&self.costs)
    }

    /// The job's previews, which are made only after a client has requested them.
    pub fn previews(&self) -> &Arc<Previews> {
        &self.previews
    }

    /// Kind of the rows: events, or rows of a report.
    pub fn kind(&self) -> ResultKind {
        self.kind
    }

    /// Whether the result is incomplete, for example because a bucket is damaged or the search was stopped.
    pub fn is_partial(&self) -> bool {
        self.stop.is_partial()
    }

    /// A handle that stops the search from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.stop.cancel();
        // Commands own one another, so dropping them recurses as deeply as requesting rows.
        if let Rows::OnDemand(rows) = &mut self.rows {
            with_stack(|| rows.end());
        }
    }
}

/// Stops a job.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    /// Ends the search without a result.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Sets the clock that limits the time of commands after [`Stopper::finish_early`].
    pub fn set_clock(&self, clock: SharedClock) {
        self.0.set_clock(clock);
    }

    /// Makes the search finish early when its clock reaches this time.
    pub fn finish_at(&self, elapsed_ns: i64) {
        self.0.finish_at(elapsed_ns);
    }

    /// Whether a command has ended before it had processed all events that were read, or the reader of the rows before it
    /// had read all rows.
    pub fn was_cut(&self) -> bool {
        self.0.was_cut()
    }

    /// Whether the search has read as many matching events as [`SearchShape::events_max`] permits.
    pub fn has_read_enough_events(&self) -> bool {
        self.0.has_read_enough_events()
    }

    /// Stops reading events; the result is based on the events read so far.
    pub fn finish_early(&self) {
        self.0.finish_early();
    }

    /// Begins work that ends when [`Stopper::should_end_rows`] is true.
    pub fn begin_work(&self) -> WorkStart {
        self.0.begin_work()
    }

    /// Whether a reader that began to read rows at `start` should read no more, because the search was finalised.
    pub fn should_end_rows(&self, start: WorkStart) -> bool {
        self.0.should_end_rows(start)
    }

    /// Stops reading events until [`Stopper::resume`].
    pub fn pause(&self) {
        self.0.pause();
    }

    /// Resumes reading.
    pub fn resume(&self) {
        self.0.resume();
    }

    /// Waits while the search is paused.
    pub fn wait_while_paused(&self) {
        self.0.wait_while_paused();
    }
}
