//! Drives a search: events through the chain of steps to result rows.
//!
//! Up to the first step that needs order or all rows, slices of events are mapped in parallel; if that step is a fold,
//! it is folded per slice too. Everything after runs on one thread, batch by batch, and stops reading as soon as a
//! step wants no more.

mod bounds;
mod row_steps;
mod several;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_event::time::parse_time;
use quarry_event::{EventBatch, TimeNs, TimeRange};
use quarry_spl::analyse::required_fields;
use quarry_spl::ast::{Command, Pipeline, SearchCommand, SearchExpr, Span, Stage, TimeText};
use quarry_spl::commands::Kind;
use quarry_store::{AppendRequest, BucketListing, Deletion, IndexSelector, MemoryStore, Snapshot, Store, StoreError};

use self::bounds::bounds_of_rows;
use self::row_steps::RowSteps;
use crate::EngineError;
use crate::command::{CommandContext, MakeRowCommand, Reduce, RowIter, of_batches};
use crate::commands::empty_columns::DropEmptyColumns;
use crate::commands::execution;
use crate::commands::filled::all_filled;
use crate::commands::lookup::{LookupSource, LookupTable, no_table};
use crate::commands::makeresults::make_results;
use crate::commands::sort::Sort;
use crate::commands::timechart::time_bounds;
use crate::custom::CommandSource;
use crate::explain::Explainer;
use crate::expr::ExprContext;
use crate::knowledge::labels::Labels;
use crate::knowledge::{KnowledgeSource, NoKnowledge};
use crate::lower::{Environment, Step, lower};
use crate::node::NodeSource;
use crate::partial::plan::plan_name;
use crate::partial::work::{WindowCommands, fold_windows};
use crate::partial::{PartialStates, PlanStates};
use crate::rows::{self, KeptRows};
use crate::scan::best::BestRows;
use crate::scan::derive::{Asked, Derivations, DerivedNames, Tables};
use crate::scan::fields::reports::Report;
use crate::scan::fields::{FieldRules, FieldWish, ShownFields};
use crate::scan::filter::{EventFilter, Origins, index_patterns};
use crate::scan::ordered::OrderedRows;
use crate::scan::renamed::renamed;
use crate::scan::rexes::Rexes;
use crate::scan::shaped::{KnownShapes, Slabs};
use crate::scan::{EventScan, PageRef, ScanProgress};
use crate::subsearch::{CONDITION_ROWS_MAX, condition_of};
use crate::summary::SummaryStore;
use crate::summary::read::SummaryRead;
use crate::time_windows::{TimeWindows, intersection};

/// Told of a search whose first command takes rows.
const NO_ROWS: &str = "the first command takes rows, of which there are none; searches begin with events (search, tstats) or \
                       rows (makeresults, inputlookup)";
/// Told where events are not in buckets.
const NOT_DELETED: &str = "no events can be deleted here: they are in no index";
/// Rows of a slice where rows come from another command.
const SLICE_ROWS: u64 = 65_536;

/// Where a search gets its events.
pub trait SnapshotSource: Send + Sync {
    /// The events of these indexes in this range, as they are now.
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError>;
    /// The buckets there are; `None` where events are not kept in buckets.
    fn buckets(&self) -> Option<Vec<BucketListing>> {
        None
    }
    /// Keeps events that a search made, all of one index.
    fn keep(&self, _events: EventBatch) -> Result<(), String> {
        Err("no events can be kept here".to_owned())
    }
    /// Puts the events of these indexes that are there where they can be deleted.
    fn seal(&self, _indexes: &IndexSelector) -> Result<(), String> {
        Err(NOT_DELETED.to_owned())
    }
    /// Takes events out of every later snapshot, all or none; gives how many of each index.
    fn delete(&self, _deletion: &Deletion) -> Result<BTreeMap<String, u64>, String> {
        Err(NOT_DELETED.to_owned())
    }
}

impl SnapshotSource for Store {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(Store::snapshot(self, indexes, range))
    }

    fn buckets(&self) -> Option<Vec<BucketListing>> {
        Some(Store::buckets(self))
    }

    fn keep(&self, events: EventBatch) -> Result<(), String> {
        let kept = self.append(AppendRequest { batch: events, checkpoint: None }).and_then(|ticket| ticket.wait());
        kept.map(|_| ()).map_err(|error| error.to_string())
    }

    fn seal(&self, indexes: &IndexSelector) -> Result<(), String> {
        self.seal_selected(indexes).map_err(|error| error.to_string())
    }

    fn delete(&self, deletion: &Deletion) -> Result<BTreeMap<String, u64>, String> {
        Store::delete(self, deletion).map_err(|error| error.to_string())
    }
}

/// Every event, whatever index is asked for: a search over files has one.
impl SnapshotSource for MemoryStore {
    fn snapshot(&self, _: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(MemoryStore::snapshot(self))
    }

    fn keep(&self, events: EventBatch) -> Result<(), String> {
        self.append(events).map_err(|error| error.to_string())
    }
}

/// How events look to commands that read only index-time fields.
#[derive(Clone)]
pub(crate) struct IndexTimeSide {
    /// How fields are cut: not at all.
    pub rules: Arc<FieldRules>,
    /// What is known of shaped slabs under these rules.
    pub shapes: Arc<KnownShapes>,
}

/// One search at work.
#[derive(Clone)]
pub(crate) struct Runner {
    /// Events.
    pub source: Arc<dyn SnapshotSource>,
    /// Tables.
    pub lookups: Arc<dyn LookupSource>,
    /// How fields are cut.
    pub rules: Arc<FieldRules>,
    /// What is known of shaped slabs.
    pub shapes: Arc<KnownShapes>,
    /// The same for index-time fields alone.
    pub index_time: IndexTimeSide,
    /// Data models and what else has a name.
    pub knowledge: Arc<dyn KnowledgeSource>,
    /// What else the node knows.
    pub node: Arc<dyn NodeSource>,
    /// Commands of apps.
    pub commands: Arc<dyn CommandSource>,
    /// Indexes read when none is named.
    pub default_indexes: Vec<String>,
    /// Context of the commands.
    pub context: CommandContext,
    /// Figures.
    pub progress: Arc<ScanProgress>,
    /// What folds of earlier searches left.
    pub states: Option<Arc<PartialStates>>,
    /// Summaries of data models.
    pub summaries: Arc<dyn SummaryStore>,
    /// Saved searches this one is run by.
    pub depth: usize,
    /// Told what would be read; nothing is read then.
    pub explainer: Option<Explainer>,
}

impl Runner {
    /// The rows of a pipeline.
    pub(crate) fn run(&self, pipeline: &Pipeline) -> Result<RowIter, EngineError> {
        let Some(explainer) = &self.explainer else { return self.run_commands(pipeline) };
        explainer.begin();
        let ran = self.run_commands(pipeline);
        explainer.end();
        ran
    }

    fn run_commands(&self, pipeline: &Pipeline) -> Result<RowIter, EngineError> {
        let filled = all_filled(pipeline, self)?;
        let pipeline = filled.as_ref();
        let Some((first, rest)) = pipeline.commands.split_first() else { return Ok(Box::new(std::iter::empty())) };
        if let Some(explainer) = self.explainer.as_ref().filter(|_| !matches!(first.command, Command::Search(_))) {
            explainer.note_first(first);
            if makes_rows_alone(&first.command) {
                return self.chain(Box::new(std::iter::empty()), rest, &self.context);
            }
        }
        self.permit(&first.command, first.span)?;
        if let Some(execution) = execution(&first.command)
            && let Some(rows) = execution.generate(self)?
        {
            return self.chain(rows, rest, &self.context);
        }
        match &first.command {
            Command::Search(search) => self.events(search, rest),
            Command::Metadata(command) => self.metadata(command, rest),
            Command::DataModel(command) => self.data_model(command, first.span, rest),
            Command::From(command) => self.dataset(command, first.span, rest),
            Command::SavedSearch(command) => self.saved_search(command, rest),
            Command::Tstats(tstats) => self.tstats(tstats, first.span, rest),
            Command::Several(several) if several.generates() => self.several(several, rest),
            Command::Eval(_) => {
                let one = quarry_spl::ast::MakeResultsCommand { count: 1, annotate: false, data: None };
                self.chain(
                    of_batches(make_results(&one, &self.node.name(), &self.context)?),
                    &pipeline.commands,
                    &self.context,
                )
            }
            // As Splunk: `| stats count` is a row of zero, `| stats count by x` none.
            command => {
                if !matches!(command, Command::Stats(stats) if stats.by.is_empty()) {
                    self.context.messages.push(NO_ROWS.to_owned());
                }
                self.chain(of_batches(Vec::new()), &pipeline.commands, &self.context)
            }
        }
    }

    /// Rows of a search over events.
    pub(crate) fn events(&self, search: &SearchCommand, rest: &[Stage]) -> Result<RowIter, EngineError> {
        self.events_or_summaries(search, rest, None)
    }

    /// As [`Runner::events`], with rows of summaries where there are some.
    pub(crate) fn events_or_summaries(
        &self,
        search: &SearchCommand,
        rest: &[Stage],
        summary: Option<SummaryRead>,
    ) -> Result<RowIter, EngineError> {
        let mut context = self.context.clone();
        let (expr, range) = self.condition_of(search)?;
        context.range = range;
        if let Some(explainer) = &self.explainer {
            self.explain_events(explainer, &expr, search, rest, &context, summary.as_ref())?;
            return Ok(Box::new(std::iter::empty()));
        }
        let mut steps = self.steps(rest, &context)?;
        let parallel = steps.iter().take_while(|step| matches!(step, Step::Row { ordered: false, .. })).count();
        let reduces = matches!(steps.get(parallel), Some(Step::Reduce(reduce)) if !reduce.needs_order());
        if !reduces {
            let mut scan = self.scan(&expr, search, rest, Rexes::default(), &context)?;
            scan.summary = summary;
            if let Some((best, sort)) = BestRows::of(rest) {
                steps[0] = Step::Blocking(Arc::new(Sort(sort)));
                if scan.wish.all || !scan.wish.patterns.is_empty() {
                    steps.insert(1, Step::Blocking(Arc::new(DropEmptyColumns)));
                }
                scan.best = Some(best);
            }
            let rows = OrderedRows::new(scan, context.clone())?;
            return apply(Box::new(rows), steps, &context);
        }
        let after = steps.split_off(parallel + 1);
        // Each of these commands is one step.
        let (rexes, pushed) = Rexes::leading(rest, |rest| FieldWish::new(&required_fields(rest)));
        steps.drain(..pushed);
        let mut scan = self.scan(&expr, search, &rest[pushed..], rexes, &context)?;
        // Bounds are those of the rows of events.
        let mut summary = summary;
        if let Some(summary) = summary.as_mut().filter(|_| reduce_needs_bounds(&steps, &context)) {
            summary.stages = None;
        }
        let of_summary = self.summary_commands(summary, &mut scan, &context)?;
        let Some(Step::Reduce(reduce)) = steps.pop() else {
            return apply(Box::new(std::iter::empty()), after, &context);
        };
        scan.extremes = steps.is_empty() && reduce.takes_extremes();
        scan.counts = steps.is_empty() && reduce.takes_counts();
        let states = self.states_of(&expr, search, rest, &scan.wish, reduce.as_ref(), &context);
        let windows = scan.windows(&context, states.as_ref())?;
        let commands: Vec<MakeRowCommand> = steps.into_iter().filter_map(Step::into_row).collect();
        if reduce.needs_bounds(&context) {
            let pages: Vec<&PageRef> = windows.iter().flat_map(|window| &window.pages).collect();
            // What is read here is read again.
            let progress = std::mem::take(&mut scan.progress);
            let bounds = bounds_of_rows(&scan, &pages, &rest[..parallel], &commands, &context)?;
            scan.progress = progress;
            reduce.prepare(bounds, &context);
        }
        let commands = WindowCommands { of_events: &commands, of_summary: &of_summary };
        let folders = fold_windows(&scan, &windows, &commands, reduce.as_ref(), &context, states.as_ref())?;
        let rows = reduce.finish(folders, &context)?;
        apply(rows, after, &context)
    }

    /// The condition of a search as it is tested, and the range to read for it.
    pub(crate) fn condition_of(&self, search: &SearchCommand) -> Result<(SearchExpr, TimeRange), EngineError> {
        let expr = self.without_labels(&self.resolved(&search.expr)?)?;
        self.windowed(search, expr)
    }

    /// The indexes that a condition names, or those that are read where it names none.
    pub(crate) fn indexes_of(&self, expr: &SearchExpr) -> IndexSelector {
        let default = &self.default_indexes;
        IndexSelector::new(index_patterns(expr, default).unwrap_or_else(|| default.clone()))
    }

    /// The partial states of a search that comes again.
    fn states_of(
        &self,
        expr: &SearchExpr,
        search: &SearchCommand,
        rest: &[Stage],
        wish: &FieldWish,
        reduce: &dyn Reduce,
        context: &CommandContext,
    ) -> Option<PlanStates> {
        let states = self.states.as_ref()?;
        let fold = reduce.fold_name(context)?;
        states.of_plan(plan_name(expr, search, rest, wish, &fold, context)?, context.range)
    }

    pub(crate) fn scan(
        &self,
        expr: &SearchExpr,
        search: &SearchCommand,
        rest: &[Stage],
        rexes: Rexes,
        context: &CommandContext,
    ) -> Result<EventScan, EngineError> {
        let snapshot = self.source.snapshot(&self.indexes_of(expr), &context.range)?;
        // Index-time fields are as they were written.
        let snapshot = match self.rules.is_index_time_only() {
            true => snapshot,
            false => renamed(snapshot, self.rules.props()),
        };
        self.scan_of(expr, search, rest, rexes, context, snapshot)
    }

    /// As [`Runner::scan`], over a snapshot that is there.
    pub(crate) fn scan_of(
        &self,
        expr: &SearchExpr,
        search: &SearchCommand,
        rest: &[Stage],
        rexes: Rexes,
        context: &CommandContext,
        snapshot: Snapshot,
    ) -> Result<EventScan, EngineError> {
        let expressions = context.expressions();
        let wish = FieldWish::new(&required_fields(rest));
        let (filter, derivations) = self.condition(expr, &wish, &expressions)?;
        let index_range = TimeRange {
            earliest: self.time(search.time.index_earliest.as_ref())?,
            latest: self.time(search.time.index_latest.as_ref())?,
        };
        Ok(EventScan {
            snapshot,
            range: context.range,
            index_range,
            filter,
            wish,
            rules: Arc::clone(&self.rules),
            derivations,
            shown: ShownFields::default(),
            rexes,
            slabs: Slabs::new(Arc::clone(&self.shapes)),
            best: None,
            summary: None,
            extremes: false,
            counts: false,
            progress: Arc::clone(&self.progress),
        })
    }

    /// The condition with event types and tags written out.
    pub(crate) fn without_labels(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        if self.rules.is_index_time_only() {
            return Ok(expr.clone());
        }
        let expressions = self.context.expressions();
        Labels::new(self.knowledge.as_ref(), &expressions).expand(expr)
    }

    /// The condition ready to test, and what knowledge adds to the events it is tested on.
    fn condition(
        &self,
        expr: &SearchExpr,
        wish: &FieldWish,
        expressions: &ExprContext,
    ) -> Result<(EventFilter, Derivations), EngineError> {
        let rules = self.rules.as_ref();
        let tables = Tables::new(Arc::clone(&self.lookups));
        let index_time_only = rules.is_index_time_only();
        let knowledge: &dyn KnowledgeSource = if index_time_only { &NoKnowledge } else { self.knowledge.as_ref() };
        let labels = Labels::new(knowledge, expressions);
        let derived = match index_time_only {
            true => DerivedNames::default(),
            false => DerivedNames::new(rules.props(), &tables, &labels.fields()),
        };
        let filter = EventFilter::new(expr, &Origins { rules, derived: &derived }, expressions)?;
        let messages = &self.context.messages;
        let search = Asked { wish, filter: &filter, names: &derived, node: self.node.name() };
        let derivations = Derivations::new(rules.props(), &search, tables, &labels, expressions, messages)?;
        Ok((filter, derivations))
    }

    /// The range of the search: its own modifiers win over the request's.
    pub(crate) fn range_of(&self, search: &SearchCommand) -> Result<TimeRange, EngineError> {
        let earliest = self.time(search.time.earliest.as_ref())?;
        let latest = self.time(search.time.latest.as_ref())?;
        Ok(match (earliest, latest) {
            (None, None) => self.context.range,
            (Some(earliest), None) => {
                let latest = self.context.range.latest.unwrap_or(self.context.now);
                TimeRange { earliest: Some(earliest), latest: Some(latest) }
            }
            (earliest, latest) => TimeRange { earliest, latest },
        })
    }

    /// The condition with its modifiers of time as tests, and the range to read for it.
    fn windowed(&self, search: &SearchCommand, expr: SearchExpr) -> Result<(SearchExpr, TimeRange), EngineError> {
        let default = self.range_of(search)?;
        let (expr, range) = TimeWindows { context: &self.context, default }.read(expr)?;
        let is_bounded = search.time.earliest.is_some() || search.time.latest.is_some();
        Ok((expr, if is_bounded { intersection(range, default) } else { range }))
    }

    fn time(&self, text: Option<&TimeText>) -> Result<Option<TimeNs>, EngineError> {
        let Some(text) = text else { return Ok(None) };
        match parse_time(&text.text, self.context.now, &self.context.zone) {
            Ok(time) => Ok(Some(time)),
            Err(error) => Err(EngineError::Invalid { message: error.to_string(), span: Some(text.span) }),
        }
    }

    pub(crate) fn steps(&self, stages: &[Stage], context: &CommandContext) -> Result<Vec<Step>, EngineError> {
        let environment = Surroundings { runner: self, context };
        let mut steps = Vec::new();
        for stage in stages {
            steps.extend(lower(stage, &environment)?);
        }
        Ok(steps)
    }

    pub(crate) fn chain(
        &self,
        rows: RowIter,
        stages: &[Stage],
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        if let Some(explainer) = &self.explainer {
            self.explain_chain(explainer, stages, context)?;
            return Ok(Box::new(std::iter::empty()));
        }
        apply(rows, self.steps(stages, context)?, context)
    }
}

/// A runner with the context of one pipeline.
struct Surroundings<'a> {
    runner: &'a Runner,
    context: &'a CommandContext,
}

impl Environment for Surroundings<'_> {
    fn context(&self) -> &CommandContext {
        self.context
    }

    fn permit(&self, command: &Command, span: Span) -> Result<(), EngineError> {
        self.runner.permit(command, span)
    }

    fn subsearch(&self, pipeline: &Pipeline, rows_max: usize) -> Result<Vec<RecordBatch>, EngineError> {
        self.runner.subsearch(pipeline, rows_max)
    }

    fn resolved(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        self.runner.resolved(expr)
    }

    fn table(&self, name: &str, span: Span) -> Result<LookupTable, EngineError> {
        self.runner.table(name, span)
    }

    fn report(&self, name: &str, span: Span) -> Result<Report, EngineError> {
        self.runner.report(name, span)
    }

    fn detached(&self) -> Arc<dyn Environment + Send + Sync> {
        Arc::new(Runner { context: self.context.clone(), ..self.runner.clone() })
    }

    fn lookups(&self) -> Arc<dyn LookupSource> {
        Arc::clone(&self.runner.lookups)
    }

    fn source(&self) -> Arc<dyn SnapshotSource> {
        Arc::clone(&self.runner.source)
    }

    fn knowledge(&self) -> Arc<dyn KnowledgeSource> {
        Arc::clone(&self.runner.knowledge)
    }

    fn commands(&self) -> Arc<dyn CommandSource> {
        Arc::clone(&self.runner.commands)
    }

    fn saved_text(&self, name: &str, span: Span) -> Result<String, EngineError> {
        self.runner.saved_text(name, span)
    }
}

impl Environment for Runner {
    fn context(&self) -> &CommandContext {
        &self.context
    }

    fn permit(&self, command: &Command, span: Span) -> Result<(), EngineError> {
        Runner::permit(self, command, span)
    }

    fn subsearch(&self, pipeline: &Pipeline, rows_max: usize) -> Result<Vec<RecordBatch>, EngineError> {
        let mut batches = Vec::new();
        let mut left = rows_max;
        for batch in self.run(pipeline)? {
            let batch = batch?;
            if batch.num_rows() > left {
                let message = format!("a subsearch gave more than {rows_max} rows; the others are dropped (maxout)");
                self.context.messages.push(message);
            }
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            batches.push(rows::without(&batch, rows::is_hidden)?);
            if left == 0 {
                break;
            }
        }
        Ok(batches)
    }

    fn resolved(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        let all = |parts: &[SearchExpr]| parts.iter().map(|part| self.resolved(part)).collect::<Result<Vec<_>, _>>();
        Ok(match expr {
            SearchExpr::And(parts) => SearchExpr::And(all(parts)?),
            SearchExpr::Or(parts) => SearchExpr::Or(all(parts)?),
            SearchExpr::Not(part) => SearchExpr::Not(Box::new(self.resolved(part)?)),
            SearchExpr::Subsearch(pipeline) => {
                let rows = self.subsearch(pipeline, CONDITION_ROWS_MAX)?;
                match self.explainer {
                    Some(_) => SearchExpr::All,
                    None => condition_of(&rows, pipeline.span)?,
                }
            }
            other => other.clone(),
        })
    }

    fn detached(&self) -> Arc<dyn Environment + Send + Sync> {
        Arc::new(self.clone())
    }

    fn lookups(&self) -> Arc<dyn LookupSource> {
        Arc::clone(&self.lookups)
    }

    fn source(&self) -> Arc<dyn SnapshotSource> {
        Arc::clone(&self.source)
    }

    fn knowledge(&self) -> Arc<dyn KnowledgeSource> {
        Arc::clone(&self.knowledge)
    }

    fn commands(&self) -> Arc<dyn CommandSource> {
        Arc::clone(&self.commands)
    }

    fn saved_text(&self, name: &str, span: Span) -> Result<String, EngineError> {
        self.text_of_saved(name, span)
    }

    fn report(&self, name: &str, span: Span) -> Result<Report, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(span) };
        let rule = self.rules.props().report_rule(name);
        let rule = rule.ok_or_else(|| invalid(format!("transforms.conf has no stanza {name} that cuts fields")))?;
        Report::new(rule).map_err(|fault| invalid(format!("transforms.conf [{name}]: {fault}")))
    }

    fn table(&self, name: &str, span: Span) -> Result<LookupTable, EngineError> {
        let invalid = |message| EngineError::Invalid { message, span: Some(span) };
        match self.lookups.table(name) {
            Ok(Some(table)) => Ok(table),
            Ok(None) => Err(invalid(no_table(name, self.lookups.as_ref()))),
            Err(message) => Err(invalid(message)),
        }
    }
}

/// Whether a first command makes its rows without a search of its own, so that there is nothing in it to explain.
fn makes_rows_alone(command: &Command) -> bool {
    use Command::{DataModel, From, InputLookup, Metadata, SavedSearch, Tstats};
    match command {
        InputLookup(_) => true,
        Metadata(_) | DataModel(_) | From(_) | SavedSearch(_) | Tstats(_) => false,
        other => other.kind() == Some(Kind::Generating) && other.subsearches().is_empty(),
    }
}

/// Whether the fold at the end of these steps has to know between which instants its rows lie.
fn reduce_needs_bounds(steps: &[Step], context: &CommandContext) -> bool {
    matches!(steps.last(), Some(Step::Reduce(reduce)) if reduce.needs_bounds(context))
}

/// Rows through steps, one after the other.
pub(crate) fn apply(mut rows: RowIter, steps: Vec<Step>, context: &CommandContext) -> Result<RowIter, EngineError> {
    for step in steps {
        rows = match step {
            Step::Row { make, .. } => {
                let (step_rows, stop) = (context.dataflow.step_rows(), Arc::clone(&context.stop));
                Box::new(RowSteps::new(rows, make(), step_rows, stop))
            }
            Step::Reduce(reduce) => fold(until_cancelled(rows, context), reduce.as_ref(), context)?,
            Step::Blocking(blocking) => blocking.run(until_cancelled(rows, context), context)?,
        };
    }
    Ok(rows)
}

/// The rows until the search is cancelled: what takes all rows before it gives one would go on for nobody.
fn until_cancelled(rows: RowIter, context: &CommandContext) -> RowIter {
    let stop = Arc::clone(&context.stop);
    Box::new(rows.take_while(move |_| !stop.is_cancelled()))
}

/// The result of a fold over rows.
pub(crate) fn fold(rows: RowIter, reduce: &dyn Reduce, context: &CommandContext) -> Result<RowIter, EngineError> {
    let mut rows = rows;
    if reduce.needs_bounds(context) {
        let mut bounds = None;
        let mut kept = KeptRows::new("rows before a fold", &context.dataflow);
        for batch in rows {
            let batch = batch?;
            bounds = time_bounds(bounds, &batch);
            kept.push(&batch)?;
        }
        reduce.prepare(bounds, context);
        rows = kept.into_rows();
    }
    let mut folder = reduce.folder(context)?;
    let (mut slice, mut place) = (0, 0);
    for batch in rows {
        let batch = batch?;
        folder.add(&batch, slice, place)?;
        place += batch.num_rows() as u64;
        if place >= SLICE_ROWS {
            (slice, place) = (slice + 1, 0);
        }
    }
    reduce.finish(vec![folder], context)
}
