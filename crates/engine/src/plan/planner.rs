//! Planner: from a pipeline to its plan.
//!
//! The first command determines the source of rows. Commands that expand to a search over events (`tstats`, `metadata`,
//! `datamodel`, `from`, `savedsearch`) are replaced by that search here; later stages of planning do not see them.
//! Subsearches in conditions are run here, unless the plan is only explained.

use std::collections::BTreeSet;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_event::TimeRange;
use quarry_scan::plan::{FieldSource, Scan, SummaryScan};
use quarry_spl::ast::{Command, Pipeline, SearchCommand, Stage};
use quarry_spl::commands::{Beginning, Effect, Kind};

use super::pushdown::push_down;
use super::{FoldStates, Plan, RowTimes, Source};
use crate::commands::substitution::substitute_all;
use crate::environment::PipelineEnvironment;
use crate::lowering::{Environment, fold_of, lower};
use crate::run::Runner;
use crate::run::subsearch_results::SubsearchResults;
use crate::subsearch::SubsearchBounds;

/// Message for a search whose first command processes rows.
const NO_ROWS: &str = "the first command processes rows, but there are none yet; searches begin with events (search, \
                       tstats) or rows (makeresults, inputlookup)";

/// Treatment of subsearches during planning.
#[derive(Clone, Copy)]
pub(crate) enum Subsearches<'a> {
    /// Subsearches are run.
    Run,
    /// Subsearches are explained and yield no result.
    Explain(&'a dyn SubsearchExplainer),
}

/// Explains subsearches instead of running them.
pub(crate) trait SubsearchExplainer {
    /// Explains a subsearch of the current search.
    fn explain_inner(&self, runner: &Runner, pipeline: &Pipeline) -> Result<(), EngineError>;
    /// Whether a command can be resolved only when the search runs, for example because it reads what the search itself
    /// writes.
    fn is_dynamic(&self, command: &Command) -> bool;
}

/// Checks a search with side effects for faults before any of it runs.
pub(crate) trait SearchChecker: Send + Sync {
    /// Refuses a search with a command that cannot run.
    fn check(&self, runner: &Runner, pipeline: &Pipeline, effects: Effects) -> Result<(), EngineError>;
}

/// Side effects of a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// Whether the search changes anything.
    pub any: bool,
    /// Lookup tables that the search writes.
    pub tables: BTreeSet<String>,
    /// Models that the search stores or removes.
    pub models: BTreeSet<String>,
}

impl Effects {
    /// Adds the side effects of a command.
    pub(crate) fn add(&mut self, command: &Command) {
        let effect = command.effect();
        self.any |= effect.is_some();
        match effect {
            Some(Effect::Table(name, _)) => self.tables.insert(name.to_owned()),
            Some(Effect::Model(name)) => self.models.insert(name.to_owned()),
            Some(Effect::Index(_) | Effect::Other) | None => false,
        };
    }

    /// Whether a command reads what the search changes.
    pub(crate) fn affects(&self, command: &Command) -> bool {
        let needs = command.own_dependencies();
        !needs.lookups.is_disjoint(&self.tables) || !needs.models.is_disjoint(&self.models)
    }
}

/// Makes plans.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    /// The running search.
    pub runner: &'a Runner,
    /// Treatment of subsearches.
    pub subsearches: Subsearches<'a>,
    /// Fields of the events at the start of the search.
    pub fields: FieldSource,
}

impl<'a> Planner<'a> {
    /// A planner for searches over events with all fields.
    pub(crate) fn new(runner: &'a Runner, subsearches: Subsearches<'a>) -> Planner<'a> {
        Planner { runner, subsearches, fields: FieldSource::SearchTime }
    }

    /// The plan of a whole search; `delete` is allowed only there, not in a subsearch.
    pub(crate) fn plan_search(&self, pipeline: &Pipeline) -> Result<Plan, EngineError> {
        match self.deletion(pipeline)? {
            Some(plan) => Ok(plan),
            None => self.plan(pipeline),
        }
    }

    /// The plan of a pipeline.
    pub(crate) fn plan(&self, pipeline: &Pipeline) -> Result<Plan, EngineError> {
        let context = &self.runner.context;
        let filled = substitute_all(pipeline, &self.environment(context))?;
        let pipeline = filled.as_ref();
        let Some((first, rest)) = pipeline.commands.split_first() else {
            return Ok(Plan::of_rows(Source::Nothing, Vec::new()));
        };
        self.runner.permit(&first.command, first.span)?;
        match first.command.begins_with() {
            Beginning::Events(search) => self.plan_events(search, rest.to_vec(), None),
            Beginning::Aggregates(command) => self.tstats(command, first.span, rest),
            Beginning::DataModel(command, name) => self.model_events(command, name, first.span, rest),
            Beginning::SavedSearch(command) => self.saved_search(command, rest),
            Beginning::Transactions(command) => self.transactions(command, rest),
            Beginning::Search { search, is_indexed } => {
                let fields = if is_indexed { FieldSource::IndexTime } else { self.fields };
                let commands = [search.commands.as_slice(), rest].concat();
                Planner { fields, ..*self }.plan(&Pipeline { commands, span: pipeline.span })
            }
            Beginning::EmptyRow => Ok(Plan::of_rows(Source::Row, pipeline.commands.clone())),
            _ if first.command.kind() == Kind::Generating => {
                Ok(Plan::of_rows(Source::Command(Box::new(first.clone())), rest.to_vec()))
            }
            // As in Splunk: `| stats count` yields a row with 0, `| stats count by x` yields no row.
            _ => {
                if !matches!(&first.command, Command::Stats(stats) if stats.by.is_empty()) {
                    context.messages.push(NO_ROWS.to_owned());
                }
                Ok(Plan::of_rows(Source::Nothing, pipeline.commands.clone()))
            }
        }
    }

    /// The plan of a search over events, using summaries if available.
    pub(super) fn plan_events(
        &self,
        search: &SearchCommand,
        commands: Vec<Stage>,
        summary: Option<SummaryScan>,
    ) -> Result<Plan, EngineError> {
        // A role's filter may test fields that summaries lack.
        let summary = summary.filter(|_| self.runner.context.permissions.limits.filter.is_none());
        let scan = Scan { summary, ..self.scan(search)? };
        let mut plan = Plan::of_rows(Source::Scan(Box::new(scan)), commands);
        push_down(&mut plan);
        self.prepare_fold(&mut plan)?;
        Ok(plan)
    }

    /// A scan of all events that a search selects, with all fields.
    pub(crate) fn scan(&self, search: &SearchCommand) -> Result<Scan, EngineError> {
        let (condition, range) = self.condition_of(search)?;
        let arrival = TimeRange {
            earliest: self.time(search.time.index_earliest.as_ref())?,
            latest: self.time(search.time.index_latest.as_ref())?,
        };
        let indexes = self.indexes_of(&condition);
        let (condition, range) = self.within_limits(condition, range)?;
        Ok(Scan { arrival, ..Scan::new(indexes, condition, range, self.fields) })
    }

    /// Prepares the fold: tells the scan whether the first and last events, or only counts, are enough, and records the
    /// fold's states.
    fn prepare_fold(&self, plan: &mut Plan) -> Result<(), EngineError> {
        let (Some(fold), Source::Scan(scan)) = (&plan.fold, &mut plan.source) else { return Ok(()) };
        let context = CommandContext { range: scan.range, ..self.runner.context.clone() };
        let steps = lower(fold, &self.environment(&context))?;
        let Some((at, reduce)) = fold_of(&steps) else { return Ok(()) };
        if at == 0 && plan.map.is_empty() {
            scan.extremes = reduce.accepts_extremes();
            scan.counts = reduce.accepts_counts();
        }
        let states = FoldStates::of(reduce.as_ref(), &context);
        // A fold that needs times of rows gets them only from the events, so the summary's own stages are not used.
        if let Some(summary) = scan.summary.as_mut().filter(|_| states.times == RowTimes::Needed) {
            summary.stages = None;
        }
        plan.states = Some(states);
        Ok(())
    }

    /// Environment of commands in this search.
    pub(super) fn environment<'e>(&self, context: &'e CommandContext) -> PipelineEnvironment<'e>
    where
        'a: 'e,
    {
        PipelineEnvironment { runner: self.runner, context, subsearches: self.subsearches }
    }

    /// The rows of a subsearch within its bounds.
    pub(crate) fn subsearch_rows(
        &self,
        pipeline: &Pipeline,
        bounds: SubsearchBounds,
    ) -> Result<Vec<RecordBatch>, EngineError> {
        match self.subsearches {
            Subsearches::Run => {
                // A preview reads the result of the outer subsearch, so results of subsearches inside it need not be
                // kept.
                let rows = match &self.runner.subsearch_results {
                    SubsearchResults::Kept(_) => {
                        let inner = Runner { subsearch_results: SubsearchResults::Unkept, ..self.runner.clone() };
                        inner.subsearch(pipeline, bounds)?
                    }
                    SubsearchResults::Unkept | SubsearchResults::Replayed(_) => {
                        self.runner.subsearch(pipeline, bounds)?
                    }
                };
                self.runner.subsearch_results.keep(pipeline, bounds.rows, &rows);
                Ok(rows)
            }
            Subsearches::Explain(explainer) => explainer.explain_inner(self.runner, pipeline).map(|()| Vec::new()),
        }
    }
}
