//! From a pipeline to its plan.
//!
//! The first command says where rows come from. Commands that stand for a search over events (`tstats`, `metadata`,
//! `datamodel`, `from`, `savedsearch`, `delete`) are replaced by it here, so that nothing later knows of them. What a search is
//! made of is asked here: subsearches of conditions run, unless the plan is only to be explained.

use std::collections::BTreeSet;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_event::TimeRange;
use quarry_scan::plan::{FieldSource, Scan, SummaryScan};
use quarry_spl::ast::{Command, Pipeline, SearchCommand, Stage, TypeAheadCommand, WalkLexCommand};
use quarry_spl::commands::{Effect, Kind};

use super::pushdown::push_down;
use super::{Plan, Source};
use crate::commands::substitution::with_substitutions;
use crate::environment::Surroundings;
use crate::lower::{Environment, Step, lower};
use crate::run::Runner;

/// Told of a search whose first command takes rows.
const NO_ROWS: &str = "the first command takes rows, of which there are none; searches begin with events (search, tstats) or \
                       rows (makeresults, inputlookup)";

/// Where the results of subsearches come from while a search is planned.
#[derive(Clone, Copy)]
pub(crate) enum Subsearches<'a> {
    /// They are run.
    Run,
    /// They are explained, and find nothing.
    Explain(&'a dyn SubsearchExplainer),
}

/// Explains subsearches in place of running them.
pub(crate) trait SubsearchExplainer {
    /// Explains a subsearch of the search at hand.
    fn explain_inner(&self, runner: &Runner, pipeline: &Pipeline) -> Result<(), EngineError>;
    /// Whether it shows only when the search runs what a command is: what it reads comes of the search itself.
    fn is_open(&self, command: &Command) -> bool;
}

/// Looks for faults of a search that has effects before any of it runs.
pub(crate) trait SearchChecker: Send + Sync {
    /// Refuses a search of which a command cannot run.
    fn check(&self, runner: &Runner, pipeline: &Pipeline, effects: Effects) -> Result<(), EngineError>;
}

/// What a search changes beside its result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// Whether it changes anything.
    pub any: bool,
    /// Lookup tables that it writes.
    pub tables: BTreeSet<String>,
    /// Models that it keeps or removes.
    pub models: BTreeSet<String>,
}

impl Effects {
    /// Adds what a command changes.
    pub(crate) fn add(&mut self, command: &Command) {
        let effect = command.effect();
        self.any |= effect.is_some();
        match effect {
            Some(Effect::Table(name)) => self.tables.insert(name.to_owned()),
            Some(Effect::Model(name)) => self.models.insert(name.to_owned()),
            Some(Effect::Other) | None => false,
        };
    }

    /// Whether a command reads what the search changes.
    pub(crate) fn reach(&self, command: &Command) -> bool {
        let needs = command.own_needs();
        !needs.lookups.is_disjoint(&self.tables) || !needs.models.is_disjoint(&self.models)
    }
}

/// Makes plans.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    /// The search at work.
    pub runner: &'a Runner,
    /// Results of subsearches.
    pub subsearches: Subsearches<'a>,
    /// Fields of the events that the search begins with.
    pub fields: FieldSource,
}

impl<'a> Planner<'a> {
    /// A planner of searches over events with all their fields.
    pub(crate) fn new(runner: &'a Runner, subsearches: Subsearches<'a>) -> Planner<'a> {
        Planner { runner, subsearches, fields: FieldSource::SearchTime }
    }

    /// The plan of a search as it was written, which alone may delete events.
    pub(crate) fn plan_search(&self, pipeline: &Pipeline) -> Result<Plan, EngineError> {
        match self.deletion(pipeline)? {
            Some(plan) => Ok(plan),
            None => self.plan(pipeline),
        }
    }

    /// The plan of a pipeline.
    pub(crate) fn plan(&self, pipeline: &Pipeline) -> Result<Plan, EngineError> {
        let context = &self.runner.context;
        let filled = with_substitutions(pipeline, &self.environment(context))?;
        let pipeline = filled.as_ref();
        let Some((first, rest)) = pipeline.commands.split_first() else {
            return Ok(Plan::of_rows(Source::Nothing, Vec::new()));
        };
        self.runner.permit(&first.command, first.span)?;
        match &first.command {
            Command::Search(search) => self.of_events(search, rest.to_vec(), None),
            Command::Metadata(command) => self.metadata(command, first.span, rest),
            Command::DataModel(command) => self.data_model(command, first, rest),
            Command::From(command) => self.dataset(command, first.span, rest),
            Command::SavedSearch(command) => self.saved_search(command, rest),
            Command::Tstats(command) => self.tstats(command, first.span, rest),
            Command::WalkLex(WalkLexCommand { search }) | Command::TypeAhead(TypeAheadCommand { search }) => {
                let commands = [search.commands.as_slice(), rest].concat();
                Planner { fields: FieldSource::IndexTime, ..*self }.plan(&Pipeline { commands, span: pipeline.span })
            }
            Command::Eval(_) => Ok(Plan::of_rows(Source::Row, pipeline.commands.clone())),
            command if command.kind() == Kind::Generating => {
                Ok(Plan::of_rows(Source::Command(Box::new(first.clone())), rest.to_vec()))
            }
            // As Splunk: `| stats count` is a row of zero, `| stats count by x` none.
            command => {
                if !matches!(command, Command::Stats(stats) if stats.by.is_empty()) {
                    context.messages.push(NO_ROWS.to_owned());
                }
                Ok(Plan::of_rows(Source::Nothing, pipeline.commands.clone()))
            }
        }
    }

    /// The plan of a search over events, with rows of summaries where there are some.
    pub(super) fn of_events(
        &self,
        search: &SearchCommand,
        commands: Vec<Stage>,
        summary: Option<SummaryScan>,
    ) -> Result<Plan, EngineError> {
        // Summaries know nothing of the fields of a role's filter.
        let summary = summary.filter(|_| self.runner.context.permissions.limits.filter.is_none());
        let scan = Scan { summary, ..self.scan(search)? };
        let mut plan = Plan::of_rows(Source::Scan(Box::new(scan)), commands);
        push_down(&mut plan);
        self.push_counts(&mut plan)?;
        Ok(plan)
    }

    /// All events that a search selects, with all of their fields.
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

    /// Tells the scan what its fold is content with: the first and last of events, or their counts.
    fn push_counts(&self, plan: &mut Plan) -> Result<(), EngineError> {
        let (Some(fold), Source::Scan(scan)) = (&plan.fold, &mut plan.source) else { return Ok(()) };
        let context = CommandContext { range: scan.range, ..self.runner.context.clone() };
        let steps = lower(fold, &self.environment(&context))?;
        let reduces = |step: &&Step| matches!(step, Step::Reduce(_));
        if let Some(Step::Reduce(reduce)) = steps.first().filter(|_| plan.map.is_empty()) {
            scan.extremes = reduce.takes_extremes();
            scan.counts = reduce.takes_counts();
        }
        // Bounds are those of the rows of events.
        let needs_bounds =
            matches!(steps.iter().find(reduces), Some(Step::Reduce(reduce)) if reduce.needs_bounds(&context));
        if let Some(summary) = scan.summary.as_mut().filter(|_| needs_bounds) {
            summary.stages = None;
        }
        Ok(())
    }

    /// Surroundings of commands in this search.
    pub(super) fn environment<'e>(&self, context: &'e CommandContext) -> Surroundings<'e>
    where
        'a: 'e,
    {
        Surroundings { runner: self.runner, context, subsearches: self.subsearches }
    }

    /// The rows of a subsearch, at most so many.
    pub(crate) fn rows_of(&self, pipeline: &Pipeline, rows_max: usize) -> Result<Vec<RecordBatch>, EngineError> {
        match self.subsearches {
            Subsearches::Run => self.runner.subsearch(pipeline, rows_max),
            Subsearches::Explain(explainer) => explainer.explain_inner(self.runner, pipeline).map(|()| Vec::new()),
        }
    }
}
