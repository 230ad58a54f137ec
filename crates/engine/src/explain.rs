//! What a search would read and do, told without reading an event.
//!
//! The [`Plan`] is what is explained, so that searches that others are made of (data models, saved searches, `tstats`)
//! show as what they become. The steps of all commands are made, which finds their faults, and none is run. Subsearches
//! have no results here: their conditions stand for everything.
//!
//! Not here: how an explanation is shown (server).

use std::cell::RefCell;
use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_event::term::MetaField;
use quarry_event::{TermQuery, TimeRange};
use quarry_scan::EventScan;
use quarry_scan::plan::{Extraction, ExtractionKind, FieldSource, Order, Scan};
use quarry_spl::ast::{Command, Pipeline, Span, Stage};
use quarry_spl::commands::Kind;
use quarry_store::{IndexSelector, Segment};

use crate::commands::execution;
use crate::environment::Surroundings;
use crate::plan::{Effects, Plan, Planner, SearchChecker, Source, SubsearchExplainer, Subsearches};
use crate::run::Runner;
use crate::run::deletion::event_commands;

/// Longest text of a command or of terms that is told, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;

/// What a search would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The search with its macros replaced.
    pub expanded: String,
    /// Macros that were replaced, as `name` or `name(2)`, with what they are defined as.
    pub macros: Vec<(String, String)>,
    /// The search.
    pub plan: ExplainedPlan,
    /// Remarks for the user.
    pub messages: Vec<String>,
}

/// One search or subsearch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedPlan {
    /// What is read; `None` where the first command makes rows of its own.
    pub events: Option<ExplainedEvents>,
    /// The commands in order.
    pub stages: Vec<ExplainedStage>,
    /// Searches whose results it needs first, and those it is made of.
    pub subsearches: Vec<ExplainedPlan>,
}

/// What a search reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedEvents {
    /// Instants searched.
    pub range: TimeRange,
    /// Patterns of the indexes read.
    pub indexes: Vec<String>,
    /// What the term dictionaries are asked.
    pub terms: String,
    /// Whether the terms leave anything out.
    pub has_terms: bool,
    /// Every field is cut out of the events.
    pub all_fields: bool,
    /// Fields that commands read.
    pub fields: Vec<String>,
    /// Patterns of fields that commands read.
    pub field_patterns: Vec<String>,
    /// Fields that the condition tests on every event that the terms leave.
    pub tested_fields: Vec<String>,
    /// Whether the text of events is needed.
    pub reads_text: bool,
    /// Whether pages are read newest first, because the answer depends on the order.
    pub in_order: bool,
    /// What each pruning_step leaves; empty where there is no data.
    pub pruning_steps: Vec<PruningStep>,
    /// What the scan does for the commands behind it.
    pub pushed: Vec<String>,
    /// Summaries of a data model that are read in place of events.
    pub summaries: Option<ExplainedSummaries>,
}

/// Summaries of a data model that a search may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedSummaries {
    /// The model and the object that is summarised, as `MODEL.OBJECT`.
    pub object: String,
    /// Slabs in the range that have a summary which suffices.
    pub slabs: u64,
    /// Slabs in the range.
    pub of: u64,
}

/// A command and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedStage {
    /// The command as written; the one that stands for it where it comes from elsewhere.
    pub text: String,
    /// Where it runs.
    pub phase: Phase,
    /// What it asks of its rows.
    pub shape: StageShape,
}

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// While pages are read.
    Scan,
    /// In every worker, on the slices it reads.
    Map,
    /// Folded in every worker; the groups of all join afterwards.
    MapReduce,
    /// On one thread, after the workers.
    Reduce,
}

/// What a command asks of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageShape {
    /// One row at a time.
    Rows,
    /// One row at a time, in their order.
    OrderedRows,
    /// Folds rows into groups.
    Fold,
    /// Folds rows into groups, in their order.
    OrderedFold,
    /// All rows at once.
    AllRows,
    /// Makes rows, or stands for a search that does.
    Makes,
}

/// What is left after something was ruled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruningStep {
    /// By what: `stored`, `index`, `time`, `metadata`, `terms`.
    pub by: &'static str,
    /// Buckets left.
    pub buckets: u64,
    /// Slabs left.
    pub slabs: u64,
    /// Pages left.
    pub pages: u64,
    /// Events in these pages.
    pub events: u64,
}

/// Looks for faults by explaining a search to nobody.
pub(crate) struct FaultSearch;

impl SearchChecker for FaultSearch {
    fn check(&self, runner: &Runner, pipeline: &Pipeline, effects: Effects) -> Result<(), EngineError> {
        // Remarks and figures come when it runs.
        let context = CommandContext { messages: Arc::default(), ..runner.context.clone() };
        let runner = Runner { context, progress: Arc::default(), ..runner.clone() };
        let explainer = Explainer { is_shown: false, ..Explainer::new(false, effects) };
        explainer.explain(&runner, pipeline, "").map(drop)
    }
}

/// Explains the searches of one search.
pub(crate) struct Explainer {
    /// Whether there is data to count.
    counts: bool,
    /// What the search changes.
    effects: Effects,
    /// Whether anyone reads the explanation; else faults are looked for.
    is_shown: bool,
    /// Searches being explained, the innermost last.
    open: RefCell<Vec<OpenSearch>>,
}

/// A search being explained.
struct OpenSearch {
    /// Text that places of its commands point into.
    text: Arc<str>,
    /// The searches in it so far.
    subsearches: Vec<ExplainedPlan>,
}

impl Explainer {
    /// Explains searches over data that is counted, or over none.
    pub(crate) fn new(counts: bool, effects: Effects) -> Explainer {
        Explainer { counts, effects, is_shown: true, open: RefCell::default() }
    }

    /// What a search as it was written would do.
    pub(crate) fn explain(
        &self,
        runner: &Runner,
        pipeline: &Pipeline,
        text: &str,
    ) -> Result<ExplainedPlan, EngineError> {
        let planner = Planner::new(runner, Subsearches::Explain(self));
        self.within(text.into(), || self.explained(runner, &planner.plan_search(pipeline)?))
    }

    /// Explains the search that the one at hand begins with; its text is `text` where it is written elsewhere.
    fn explain_source(&self, runner: &Runner, plan: &Plan, text: Option<&str>) -> Result<(), EngineError> {
        let inner = self.within(text.map_or_else(|| self.text(), Arc::from), || self.explained(runner, plan))?;
        self.note(inner);
        Ok(())
    }

    fn within(
        &self,
        text: Arc<str>,
        explain: impl FnOnce() -> Result<ExplainedPlan, EngineError>,
    ) -> Result<ExplainedPlan, EngineError> {
        self.open.borrow_mut().push(OpenSearch { text, subsearches: Vec::new() });
        let explained = explain();
        let found = self.open.borrow_mut().pop();
        let mut explained = explained?;
        // Subsearches of the condition and of the commands come before the one that it begins with.
        explained.subsearches.extend(found.into_iter().flat_map(|open| open.subsearches));
        Ok(explained)
    }

    fn note(&self, inner: ExplainedPlan) {
        if let Some(open) = self.open.borrow_mut().last_mut() {
            open.subsearches.push(inner);
        }
    }

    fn text(&self) -> Arc<str> {
        self.open.borrow().last().map_or_else(|| "".into(), |open| Arc::clone(&open.text))
    }

    /// What is between two places of the text.
    fn text_at(&self, span: Span) -> String {
        shortened(self.text().get(span.start..span.end).unwrap_or_default().trim())
    }

    /// What a plan does.
    fn explained(&self, runner: &Runner, plan: &Plan) -> Result<ExplainedPlan, EngineError> {
        let context = CommandContext { range: plan.range(runner.context.range), ..runner.context.clone() };
        let surroundings = Surroundings { runner, context: &context, subsearches: Subsearches::Explain(self) };
        let mut explained = ExplainedPlan::default();
        match &plan.source {
            Source::Nothing | Source::Row => {}
            Source::Scan(scan) => {
                explained.events = Some(self.events(runner, scan, plan.fold.is_some(), &context)?);
                // Values of texts are part of the commands that ask for them.
                let is_command = |known: &&Extraction| !matches!(known.kind, ExtractionKind::Text { .. });
                let pushed = scan.extractions.iter().filter(is_command);
                explained.stages.extend(pushed.map(|rex| self.stage(rex.span, Phase::Scan, StageShape::Rows)));
            }
            Source::Command(stage) => {
                explained.stages.push(self.stage(stage.span, Phase::Reduce, StageShape::Makes));
                if !self.is_open(&stage.command) {
                    execution(&stage.command).check(runner)?;
                }
                for inner in stage.command.subsearches() {
                    self.explain_inner(runner, inner)?;
                }
            }
            Source::Search(inner) => {
                let text = format!("savedsearch {}", inner.name);
                explained.stages.push(ExplainedStage { text, phase: Phase::Reduce, shape: StageShape::Makes });
                self.explain_source(&runner.of_saved(), &inner.plan, Some(&inner.text))?;
            }
            Source::Series(series) => {
                explained.stages.push(self.stage(series.span, Phase::Reduce, StageShape::Makes));
                self.explain_source(runner, &series.measured, None)?;
            }
            Source::Delete(deletion) => {
                event_commands(&deletion.commands, &surroundings)?;
                let context = CommandContext { range: deletion.scan.range, ..context.clone() };
                explained.events = Some(self.events(runner, &deletion.scan, false, &context)?);
                let commands = deletion.commands.iter();
                explained.stages.extend(commands.map(|stage| self.stage(stage.span, Phase::Reduce, StageShape::Rows)));
                explained.stages.push(self.stage(deletion.span, Phase::Reduce, StageShape::AllRows));
            }
        }
        // Faults of commands are told, and their subsearches explained, where their steps are made.
        for (phase, stages) in
            [(Phase::Map, plan.map.as_slice()), (Phase::MapReduce, plan.fold.as_slice()), (Phase::Reduce, &plan.reduce)]
        {
            surroundings.steps(stages)?;
            let shown = stages.iter().map(|stage| ExplainedStage {
                text: self.text_of(stage),
                phase,
                shape: shape_of(stage.command.kind()),
            });
            explained.stages.extend(shown);
        }
        Ok(explained)
    }

    /// A command as written; with its name where it stands for the one that was.
    fn text_of(&self, stage: &Stage) -> String {
        let text = self.text_at(stage.span);
        let written = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        match stage.command.is_named(&written.to_lowercase()) {
            true => text,
            false => format!("{text} (as {})", stage.command.name()),
        }
    }

    fn stage(&self, span: Span, phase: Phase, shape: StageShape) -> ExplainedStage {
        ExplainedStage { text: self.text_at(span), phase, shape }
    }

    /// What a scan reads; `folds` tells whether its rows are folded.
    fn events(
        &self,
        runner: &Runner,
        planned: &Scan,
        folds: bool,
        context: &CommandContext,
    ) -> Result<ExplainedEvents, EngineError> {
        let scan = runner.event_scan(planned, context)?;
        let pruning_steps =
            if self.counts { runner.pruning_steps(&scan, &planned.indexes, context)? } else { Vec::new() };
        let summaries = scan.summary.as_ref().map(|summary| ExplainedSummaries {
            object: summary.scan.object.clone(),
            slabs: scan.snapshot.segments.iter().filter(|segment| folds && summary.holds(segment)).count() as u64,
            of: scan.snapshot.segments.len() as u64,
        });
        Ok(ExplainedEvents {
            range: planned.range,
            indexes: planned.indexes.clone(),
            terms: shortened(&text_of_terms(scan.terms())),
            has_terms: *scan.terms() != TermQuery::All,
            all_fields: planned.projection.all,
            fields: planned.projection.fields.iter().cloned().collect(),
            field_patterns: planned.projection.patterns.clone(),
            tested_fields: scan.tested_fields().map(str::to_owned).collect(),
            reads_text: scan.reads_text(),
            in_order: planned.order == Order::NewestFirst,
            pruning_steps,
            pushed: pushed_into(planned),
            summaries,
        })
    }
}

impl SubsearchExplainer for Explainer {
    fn explain_inner(&self, runner: &Runner, pipeline: &Pipeline) -> Result<(), EngineError> {
        let planner = Planner::new(runner, Subsearches::Explain(self));
        let inner = self.within(self.text(), || self.explained(runner, &planner.plan(pipeline)?))?;
        self.note(inner);
        Ok(())
    }

    fn is_open(&self, command: &Command) -> bool {
        // One with subsearches in its text is shown as it reads without what they find.
        (!self.is_shown && matches!(command, Command::Substitution(_))) || self.effects.reach(command)
    }
}

/// What a scan does for the commands behind it, beside extractions.
fn pushed_into(scan: &Scan) -> Vec<String> {
    let mut pushed = Vec::new();
    if scan.fields == FieldSource::IndexTime {
        pushed.push("index-time fields alone".to_owned());
    }
    if let Some(top) = &scan.top {
        let order = if top.descending { "largest" } else { "smallest" };
        pushed.push(format!("the {} {order} by {}", top.count, top.key.field.text));
    }
    if scan.counts {
        pushed.push("events with the same values as one row and their count".to_owned());
    } else if scan.extremes {
        pushed.push("of alike events the first and the last".to_owned());
    }
    pushed
}

fn shape_of(kind: Kind) -> StageShape {
    match kind {
        Kind::Row => StageShape::Rows,
        Kind::OrderedRow => StageShape::OrderedRows,
        Kind::Fold => StageShape::Fold,
        Kind::OrderedFold => StageShape::OrderedFold,
        Kind::Blocking => StageShape::AllRows,
        Kind::Generating => StageShape::Makes,
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

impl Runner {
    /// What indexes, time, metadata and terms leave of all that is stored.
    fn pruning_steps(
        &self,
        scan: &EventScan,
        indexes: &[String],
        context: &CommandContext,
    ) -> Result<Vec<PruningStep>, EngineError> {
        let all = self.source.snapshot(&IndexSelector::all(), &TimeRange::ALL)?;
        let named = self.source.snapshot(&IndexSelector::new(indexes.to_vec()), &TimeRange::ALL)?;
        let whole = |segment: &Arc<dyn Segment>| (0..segment.pages().len()).collect::<Vec<_>>();
        let in_range = |segment: &Arc<dyn Segment>| {
            let pages = segment.pages().iter().enumerate();
            let wanted = pages.filter(|(_, info)| scan.range.overlaps(info.time_min, info.time_max));
            wanted.map(|(page, _)| page).collect::<Vec<_>>()
        };
        let may_match = |segment: &Arc<dyn Segment>| scan.may_match(segment);
        let of_metadata = |segment: &Arc<dyn Segment>| if may_match(segment) { in_range(segment) } else { Vec::new() };
        let mut pruning_steps = vec![
            pruning_step("stored", &all.segments, whole),
            pruning_step("index", &named.segments, whole),
            pruning_step("time", &scan.snapshot.segments, in_range),
            pruning_step("metadata", &scan.snapshot.segments, of_metadata),
        ];
        let mut left = Vec::new();
        for segment in scan.snapshot.segments.iter().filter(|segment| may_match(segment)) {
            let pages = scan.pages_of(segment, context)?.unwrap_or_default();
            left.push((segment, pages.into_iter().map(|page| page.page).collect::<Vec<_>>()));
        }
        pruning_steps.push(pruning_step_of("terms", left));
        Ok(pruning_steps)
    }
}

fn pruning_step(
    by: &'static str,
    segments: &[Arc<dyn Segment>],
    pages: impl Fn(&Arc<dyn Segment>) -> Vec<usize>,
) -> PruningStep {
    pruning_step_of(by, segments.iter().map(|segment| (segment, pages(segment))))
}

/// Counts the parts that still have pages.
fn pruning_step_of<'s>(
    by: &'static str,
    left: impl IntoIterator<Item = (&'s Arc<dyn Segment>, Vec<usize>)>,
) -> PruningStep {
    let mut pruning_step = PruningStep { by, buckets: 0, slabs: 0, pages: 0, events: 0 };
    let mut buckets = std::collections::BTreeSet::new();
    for (segment, pages) in left {
        if pages.is_empty() {
            continue;
        }
        buckets.insert(segment.bucket());
        pruning_step.slabs += 1;
        pruning_step.pages += pages.len() as u64;
        let infos = segment.pages();
        pruning_step.events +=
            pages.iter().filter_map(|page| infos.get(*page)).map(|info| u64::from(info.events)).sum::<u64>();
    }
    pruning_step.buckets = buckets.len() as u64;
    pruning_step
}

/// Terms as a condition.
fn text_of_terms(terms: &TermQuery) -> String {
    let joined = |parts: &[TermQuery], by: &str| {
        let texts: Vec<String> = parts.iter().map(text_of_terms).collect();
        format!("({})", texts.join(by))
    };
    match terms {
        TermQuery::All => "*".to_owned(),
        TermQuery::None => "nothing".to_owned(),
        TermQuery::Token(token) => token.to_string(),
        TermQuery::Prefix(prefix) => format!("{prefix}*"),
        TermQuery::Value { tokens, .. } => text_of_terms(tokens),
        TermQuery::And(parts) => joined(parts, " AND "),
        TermQuery::Or(parts) => joined(parts, " OR "),
        TermQuery::Meta { field, pattern } => {
            let name = match field {
                MetaField::Index => "index",
                MetaField::Host => "host",
                MetaField::Source => "source",
                MetaField::Sourcetype => "sourcetype",
            };
            format!("{name}={pattern}")
        }
        TermQuery::Field { name, value } => format!("{name}::{value}"),
    }
}
