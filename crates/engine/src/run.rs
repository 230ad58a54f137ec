//! Runs a plan: passes events through the steps and yields result rows.
//!
//! In a plan with a fold, slices of events are mapped and folded in parallel. The steps after the fold, or all steps of
//! a plan without one, run on one thread, batch by batch, and stop reading as soon as one of them needs no more rows.

mod bounds;
pub(crate) mod chain;
mod cost_meters;
pub(crate) mod deletion;
mod map_reduce;
pub(crate) mod preview;
mod row_steps;
pub(crate) mod subsearch_results;

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::aggregate::Folder;
use quarry_eval::command::{MakeRowCommand, Reduce};
use quarry_eval::context::CommandContext;
use quarry_eval::costs::ScanPart;
use quarry_eval::lookup::LookupSource;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_event::TimeRange;
use quarry_scan::plan::{FieldSource, Order, Scan};
use quarry_scan::summary::SummaryStore;
use quarry_scan::{
    EventScan, OrderedRows, PartialStates, PlanStates, Previewer, ScanEnvironment, ScanProgress, ScanRules,
    WindowCommands, fold_windows, with_renamed_sourcetypes,
};
use quarry_spl::ast::{Command, DependsOn, Pipeline, SearchExpr, Stage, StatsFunction};
use quarry_spl::commands::Kind;
use quarry_store::{IndexSelector, Snapshot, StoreError};

use self::bounds::bounds_of_rows;
pub(crate) use self::chain::{apply, apply_to_events, fold};
pub(crate) use self::cost_meters::metered;
use self::preview::{PreviewMaker, Previews};
use self::subsearch_results::SubsearchResults;
use crate::commands::empty_columns::DropEmptyBatchColumns;
use crate::commands::execution;
use crate::commands::makeresults::make_results;
use crate::custom_commands::CommandSource;
use crate::environment::PipelineEnvironment;
use crate::field_formats::DisplayFormats;
use crate::knowledge::labels::Labels;
use crate::knowledge::{KnowledgeSource, NoKnowledge};
use crate::lowering::{Step, row};
use crate::node::NodeSource;
use crate::plan::name::partial_name;
use crate::plan::{InnerSearch, Plan, Planner, RowTimes, SearchChecker, Source, Subsearches};
use crate::source::SnapshotSource;

/// Error text for a first command that does not generate rows.
const NOT_FIRST: &str = "this command cannot come first: it processes rows of a command before it";
/// A running search with everything that it accesses.
#[derive(Clone)]
pub(crate) struct Runner {
    /// Store of the events.
    pub source: Arc<dyn SnapshotSource>,
    /// Store of lookup tables and models.
    pub lookups: Arc<dyn LookupSource>,
    /// Rules of field extraction.
    pub rules: ScanRules,
    /// Data models and other named knowledge objects.
    pub knowledge: Arc<dyn KnowledgeSource>,
    /// Other information about the node.
    pub node: Arc<dyn NodeSource>,
    /// Commands of apps.
    pub commands: Arc<dyn CommandSource>,
    /// Indexes read if a search names no index.
    pub default_indexes: Vec<String>,
    /// Context of the commands.
    pub context: CommandContext,
    /// Progress of the search.
    pub progress: Arc<ScanProgress>,
    /// Cached partial states of earlier searches.
    pub states: Option<Arc<PartialStates>>,
    /// Maximum bytes of the event references of one deletion.
    pub deletion_bytes: usize,
    /// Summaries of data models.
    pub summaries: Arc<dyn SummaryStore>,
    /// Checks searches with side effects.
    pub checker: Arc<dyn SearchChecker>,
    /// Nesting depth of saved searches around this one.
    pub depth: usize,
    /// Results of subsearches, kept for previews.
    pub subsearch_results: SubsearchResults,
}

impl Runner {
    /// The rows of a pipeline.
    pub(crate) fn run(&self, pipeline: &Pipeline) -> Result<RowIter, EngineError> {
        self.execute(Planner::new(self, Subsearches::Run).plan(pipeline)?)
    }

    /// The plan of a search as written.
    pub(crate) fn plan_search(&self, pipeline: &Pipeline) -> Result<Plan, EngineError> {
        Planner::new(self, Subsearches::Run).plan_search(pipeline)
    }

    /// The rows of a plan.
    pub(crate) fn execute(&self, plan: Plan) -> Result<RowIter, EngineError> {
        self.execute_with_previews(plan, None)
    }

    /// The rows of a plan. If a client reads previews, they are made while the plan runs.
    pub(crate) fn execute_with_previews(
        &self,
        plan: Plan,
        shown: Option<(&Arc<DisplayFormats>, &Arc<Previews>)>,
    ) -> Result<RowIter, EngineError> {
        let context = self.context_of(&plan);
        if plan.commands().any(|stage| stage.command.effect().is_some()) {
            context.stop.keep_rows();
        }
        let Some(shown) = shown.filter(|(_, previews)| previews.is_enabled()) else {
            return self.rows_of(&plan, None, &context, None);
        };
        let keeping = Runner { subsearch_results: SubsearchResults::kept(), ..self.clone() };
        match PreviewMaker::of(&keeping, &plan, &context, shown) {
            None => self.rows_of(&plan, None, &context, None),
            previews => keeping.rows_of(&plan, None, &context, previews),
        }
    }

    /// The context of a plan's commands.
    fn context_of(&self, plan: &Plan) -> CommandContext {
        CommandContext { range: plan.range(self.context.range), ..self.context.clone() }
    }

    /// The rows of a plan; `exchanged` has the rows of its exchange if they were computed by other engines.
    fn rows_of(
        &self,
        plan: &Plan,
        exchanged: Option<RowIter>,
        context: &CommandContext,
        previews: Option<PreviewMaker>,
    ) -> Result<RowIter, EngineError> {
        if let (Source::Scan(scan), None) = (&plan.source, &plan.fold) {
            let steps = self.steps_of_rows(plan, context)?;
            let rows = exchanged.map_or_else(|| self.events_here(scan, plan, context), Ok)?;
            let rows = match previews {
                Some(previews) => previews.of_rows(rows, &steps),
                None => rows,
            };
            return apply_to_events(rows, steps, context);
        }
        // The steps are built before anything is read, written or deleted, so that a fault in a later command leaves
        // everything unchanged.
        let steps = self.steps(&plan.reduce, context)?;
        let rows = match &plan.source {
            Source::Scan(scan) => {
                let fold = self.prepared_fold(plan, context)?;
                let folders = match exchanged {
                    Some(states) => vec![fold.folder_of(states, context)?],
                    None => self.fold_events(scan, plan, &fold, context, previews.as_ref())?,
                };
                fold.finish(folders, plan, context)?
            }
            Source::Nothing => of_batches(Vec::new()),
            Source::Row => self.one_row()?,
            Source::Command(stage) => self.generate_rows(stage)?,
            Source::Series(series) => {
                let measured = self.rows_of(&series.measured, exchanged, &self.context_of(&series.measured), None)?;
                self.series(series, measured, context)?
            }
            Source::Delete(deletion) => self.delete(deletion)?,
            Source::Search(inner) => {
                let InnerSearch { plan, name, span, range, .. } = inner.as_ref();
                let runner = self.for_saved_search(*range);
                let rows = runner.rows_of(plan, exchanged, &runner.context_of(plan), None);
                rows.map_err(|error| error.in_saved_search(name, *span))?
            }
        };
        apply(rows, steps, context)
    }

    /// The runner for a saved search that this runner's search includes.
    pub(crate) fn for_saved_search(&self, range: TimeRange) -> Runner {
        Runner { depth: self.depth + 1, context: CommandContext { range, ..self.context.clone() }, ..self.clone() }
    }

    /// The rows generated by a first command, until the search reads no more.
    fn generate_rows(&self, stage: &Stage) -> Result<RowIter, EngineError> {
        let generate = || {
            let rows = execution(&stage.command).generate(self)?;
            rows.ok_or_else(|| EngineError::Invalid { message: NOT_FIRST.to_owned(), span: Some(stage.span) })
        };
        let rows = match self.context.costs.command_meter(stage.command.name()) {
            Some(meter) => meter.meter_rows(Box::new(std::iter::empty()), |_| generate())?,
            None => generate()?,
        };
        let stop = Arc::clone(&self.context.stop);
        Ok(Box::new(rows.take_while(move |_| {
            let goes_on = !stop.should_stop_reading();
            if !goes_on {
                stop.mark_partial();
            }
            goes_on
        })))
    }

    /// One row with only `_time`.
    fn one_row(&self) -> Result<RowIter, EngineError> {
        let one = quarry_spl::ast::MakeResultsCommand { count: 1, annotate: false, data: None };
        make_results(&one, self.node.name(), &self.context)
    }

    /// The events of a plan without a fold, newest first.
    fn events(&self, scan: &Scan, plan: &Plan, context: &CommandContext) -> Result<RowIter, EngineError> {
        let exchange = plan.exchange();
        let rows = OrderedRows::new(self.selecting_scan(scan, plan, context)?, context.clone())?;
        Ok(Box::new(rows.inspect(move |rows| {
            let is_admitted = |rows| exchange.as_ref().is_some_and(|exchange| exchange.accepts(rows));
            assert!(rows.as_ref().map_or(true, is_admitted), "a scan gives the columns that its plan announces");
        })))
    }

    /// Like [`Runner::events`], for commands in the same process. If the commands support it, columns may hold numbers
    /// that a scan reads in place of texts, and rows come in any order if the plan says so; an exchange permits neither.
    fn events_here(&self, scan: &Scan, plan: &Plan, context: &CommandContext) -> Result<RowIter, EngineError> {
        if !supports_numbers(&plan.reduce) {
            return self.events(scan, plan, context);
        }
        let mut events = self.selecting_scan(scan, plan, context)?;
        events.keep_numbers();
        Ok(Box::new(match scan.order {
            Order::NewestFirst => OrderedRows::new(events, context.clone())?,
            Order::Any => OrderedRows::in_any_order(events, context.clone())?,
        }))
    }

    /// The scan of a plan without a fold. It selects rows by the first commands of the plan.
    fn selecting_scan(&self, scan: &Scan, plan: &Plan, context: &CommandContext) -> Result<EventScan, EngineError> {
        let take: TakeSnapshot = |source, indexes, range| source.snapshot_newest_first(indexes, range);
        let mut events = self.event_scan_of(scan, take, context)?;
        if let Some(selection) = &scan.selection {
            let steps = self.steps(plan.reduce.get(..selection.commands).unwrap_or_default(), context)?;
            let commands = steps.into_iter().filter_map(Step::into_row).collect();
            self.with_environment(scan, context, |environment| environment.select_rows(&mut events, scan, commands))?;
        }
        Ok(events)
    }

    /// The steps that run once on the rows of a plan's source.
    fn steps_of_rows(&self, plan: &Plan, context: &CommandContext) -> Result<Vec<Step>, EngineError> {
        if plan.fold.is_some() || !matches!(&plan.source, Source::Scan(scan) if scan.is_open()) {
            return self.steps(&plan.reduce, context);
        }
        // If rows are dropped, columns may remain without values, depending on the rows that were read. Columns without
        // values are also dropped.
        let (first, rest) = plan.reduce.split_at(count_dropping(&plan.reduce));
        let mut steps = self.steps(first, context)?;
        steps.push(row(|| DropEmptyBatchColumns));
        steps.extend(self.steps(rest, context)?);
        Ok(steps)
    }

    /// The fold of a plan, with the commands before it.
    fn prepared_fold(&self, plan: &Plan, context: &CommandContext) -> Result<PreparedFold, EngineError> {
        let stages: Vec<Stage> = plan.map.iter().chain(&plan.fold).cloned().collect();
        let mut steps = self.steps(&stages, context)?;
        let rows = steps.iter().take_while(|step| matches!(step, Step::Row { ordered: false, .. })).count();
        let after = steps.split_off((rows + 1).min(steps.len()));
        let (Some(Step::Reduce(reduce)), Some(states)) = (steps.pop(), &plan.states) else {
            return Err(EngineError::Internal {
                stage: "a plan was run",
                message: "the plan's fold cannot be folded".to_owned(),
            });
        };
        if states.layout != reduce.aggregates().layout() {
            return Err(EngineError::invalid("the plan comes from another build: run the same build on all nodes"));
        }
        if let RowTimes::Known(times) = states.times {
            reduce.prepare(times, context);
        }
        let commands = steps.into_iter().filter_map(Step::into_row).collect();
        Ok(PreparedFold { commands, reduce, after })
    }

    /// The events of a plan, folded in parallel.
    fn fold_events(
        &self,
        scan: &Scan,
        plan: &Plan,
        fold: &PreparedFold,
        context: &CommandContext,
        previews: Option<&PreviewMaker>,
    ) -> Result<Vec<Folder>, EngineError> {
        let reduce = fold.reduce.as_ref();
        let mut events = self.event_scan(scan, context)?;
        let of_summary = self.summary_commands(scan, context)?;
        let states = self.states_of(plan, reduce, context);
        let windows = events.windows(context, states.as_ref())?;
        if plan.states.as_ref().is_some_and(|states| states.times == RowTimes::Needed) {
            // No other worker has rows, so the second round follows at once.
            let times = bounds_of_rows(&mut events, &windows, &plan.map, &fold.commands, context)?;
            reduce.prepare(times, context);
        }
        let commands = WindowCommands { event_commands: &fold.commands, summary_commands: &of_summary };
        let previews = previews.map(|previews| previews.of_fold(reduce));
        let previewer = previews.as_ref().map(|previews| -> &dyn Previewer { previews });
        fold_windows(&events, &windows, &commands, reduce, context, (states.as_ref(), previewer))
    }

    /// The commands applied to rows of summaries before the fold.
    fn summary_commands(&self, scan: &Scan, context: &CommandContext) -> Result<Vec<MakeRowCommand>, EngineError> {
        let Some(stages) = scan.summary.as_ref().and_then(|summary| summary.stages.as_ref()) else {
            return Ok(Vec::new());
        };
        let steps = self.steps(stages, context)?;
        let rows = steps.into_iter().take_while(|step| matches!(step, Step::Row { ordered: false, .. }));
        Ok(rows.filter_map(Step::into_row).collect())
    }

    /// The plan's cached partial states; `None` if they cannot be cached, or if the search has not been repeated yet.
    fn states_of(&self, plan: &Plan, reduce: &dyn Reduce, context: &CommandContext) -> Option<PlanStates> {
        let states = self.states.as_ref()?;
        let fold = reduce.fold_name(context)?;
        states.states_for_plan(partial_name(plan, &fold, &context.zone)?, context.range)
    }

    /// The scan's reader of events.
    pub(crate) fn event_scan(&self, scan: &Scan, context: &CommandContext) -> Result<EventScan, EngineError> {
        self.event_scan_of(scan, |source, indexes, range| source.snapshot(indexes, range), context)
    }

    /// Like [`Runner::event_scan`], over the snapshot that `take` returns.
    fn event_scan_of(
        &self,
        scan: &Scan,
        take: TakeSnapshot,
        context: &CommandContext,
    ) -> Result<EventScan, EngineError> {
        let snapshot = context.costs.measure_part(ScanPart::Index, || {
            take(&*self.source, &IndexSelector::new(scan.indexes.clone()), &scan.range)
        })?;
        // Index-time fields have their stored values, without `rename`.
        let snapshot = match scan.fields {
            FieldSource::IndexTime => snapshot,
            FieldSource::SearchTime => with_renamed_sourcetypes(snapshot, self.rules.props()),
        };
        self.event_scan_over(scan, snapshot, context)
    }

    /// Like [`Runner::event_scan`], over an existing snapshot.
    pub(crate) fn event_scan_over(
        &self,
        scan: &Scan,
        snapshot: Snapshot,
        context: &CommandContext,
    ) -> Result<EventScan, EngineError> {
        self.with_environment(scan, context, |environment| environment.scan(scan, snapshot))
    }

    /// Runs `act` with the environment of a scan.
    fn with_environment<T>(
        &self,
        scan: &Scan,
        context: &CommandContext,
        act: impl FnOnce(&ScanEnvironment<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        // Index-time fields need no knowledge objects.
        let knowledge: &dyn KnowledgeSource = match scan.fields {
            FieldSource::IndexTime => &NoKnowledge,
            FieldSource::SearchTime => self.knowledge.as_ref(),
        };
        let expressions = context.expressions();
        act(&ScanEnvironment {
            rules: &self.rules,
            lookups: &self.lookups,
            labels: &Labels::new(knowledge, &expressions),
            node: self.node.name(),
            summaries: &self.summaries,
            progress: &self.progress,
            context,
        })
    }

    /// The condition with event types and tags expanded.
    pub(crate) fn expand_labels(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        Labels::new(self.knowledge.as_ref(), &self.context.expressions()).expand(expr)
    }

    /// The steps of commands.
    pub(crate) fn steps(&self, stages: &[Stage], context: &CommandContext) -> Result<Vec<Step>, EngineError> {
        let environment = PipelineEnvironment { runner: self, context, subsearches: Subsearches::Run };
        environment.steps(stages)
    }

    /// Passes rows through commands.
    pub(crate) fn chain(
        &self,
        rows: RowIter,
        stages: &[Stage],
        context: &CommandContext,
    ) -> Result<RowIter, EngineError> {
        apply(rows, self.steps(stages, context)?, context)
    }
}

/// Returns a snapshot of these indexes in this time range.
type TakeSnapshot = fn(&dyn SnapshotSource, &IndexSelector, &TimeRange) -> Result<Snapshot, StoreError>;

/// The fold of a plan over events, ready to run.
struct PreparedFold {
    /// Row commands before the fold.
    commands: Vec<MakeRowCommand>,
    reduce: Arc<dyn Reduce>,
    /// Steps after the fold that belong to the same command.
    after: Vec<Step>,
}

impl PreparedFold {
    /// The result rows from the [`Folder`]s of all workers.
    fn finish(self, folders: Vec<Folder>, plan: &Plan, context: &CommandContext) -> Result<RowIter, EngineError> {
        let is_row = |step: &Step| matches!(step, Step::Row { ordered: false, .. });
        let rows = match self.after.iter().all(is_row) && !reads_order(&plan.reduce) {
            true => self.reduce.finish_unordered(folders, context)?,
            false => self.reduce.finish(folders, context)?,
        };
        apply(rows, self.after, context)
    }
}

/// Whether the rows of a scan reach a `stats` through commands that support columns of numbers and texts.
fn supports_numbers(stages: &[Stage]) -> bool {
    for stage in stages {
        match &stage.command {
            Command::Stats(_) => return true,
            Command::Search(_)
            | Command::Where(_)
            | Command::Eval(_)
            | Command::EventStats(_)
            | Command::StreamStats(_) => {}
            Command::Dedup(dedup) if !dedup.keep_events && dedup.sort_by.is_empty() => {}
            _ => return false,
        }
    }
    false
}

/// Number of commands up to the last one that drops rows, among the leading commands that drop rows or are `eval`.
/// Other commands may depend on which columns exist.
fn count_dropping(stages: &[Stage]) -> usize {
    let drops = |command: &Command| match command {
        Command::Search(_)
        | Command::Where(_)
        | Command::Regex(_)
        | Command::Dedup(_)
        | Command::Head(_)
        | Command::Tail(_) => true,
        Command::Sort(sort) => sort.limit > 0,
        _ => false,
    };
    let is_leading = |stage: &&Stage| drops(&stage.command) || matches!(stage.command, Command::Eval(_));
    let leading: Vec<&Stage> = stages.iter().take_while(is_leading).collect();
    leading.iter().rposition(|stage| drops(&stage.command)).map_or(0, |last| last + 1)
}

/// Whether the results of these commands may depend on the order of rows. False if the first command other than row
/// commands is a `stats` whose functions read only values.
fn reads_order(stages: &[Stage]) -> bool {
    let next = stages.iter().find(|stage| stage.command.kind() != Kind::Row);
    let Some(Command::Stats(stats)) = next.map(|stage| &stage.command) else { return true };
    let is_free = |function: &StatsFunction| function.depends_on() == DependsOn::Nothing;
    next.is_some_and(|stage| stage.command.kind() != Kind::Fold)
        || !stats.aggregates.iter().all(|aggregate| is_free(&aggregate.function))
}
