//! `explain`: what a search would read and do, determined without reading events.
//!
//! The [`Plan`] is explained, so that commands that expand to searches (data models, saved searches, `tstats`)
//! are shown expanded. The steps of all commands are built, which reveals faults, but they are not run. Subsearches are
//! not run; as conditions, they are assumed to match everything.
//!
//! Not here: formatting of an explanation (server).

use std::cell::RefCell;
use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_event::term::MetaField;
use quarry_event::{TermQuery, TextMark, TimeRange};
use quarry_scan::EventScan;
use quarry_scan::plan::{
    Extraction, ExtractionKind, FieldSource, FirstRows, Order, RowLimit, RowSelection, Scan, TopK,
};
use quarry_spl::ast::{Command, Pipeline, Span, Stage};
use quarry_spl::commands::Kind;
use quarry_store::{IndexSelector, Segment};

use crate::commands::execution;
use crate::environment::PipelineEnvironment;
use crate::plan::{Effects, Exchange, Plan, Planner, SearchChecker, Source, SubsearchExplainer, Subsearches};
use crate::run::Runner;
use crate::run::deletion::event_commands;

/// Maximum length of the text of a command or of terms, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;

/// Explanation of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The search with macros expanded.
    pub expanded: String,
    /// Expanded macros, as `name` or `name(2)`, with their definitions.
    pub macros: Vec<(String, String)>,
    /// The search.
    pub plan: ExplainedPlan,
    /// Remarks for the user.
    pub messages: Vec<String>,
}

/// One search or subsearch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedPlan {
    /// Events that are read; `None` if the first command generates rows or is replaced by another search.
    pub events: Option<ExplainedEvents>,
    /// Exchanges between the workers and the part that runs once, round by round; empty if no events are read, or if
    /// they are deleted.
    pub exchanges: Vec<Exchange>,
    /// The commands in order.
    pub stages: Vec<ExplainedStage>,
    /// Subsearches that run first, and searches to which this search expands.
    pub subsearches: Vec<ExplainedPlan>,
}

/// Events that a search reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedEvents {
    /// Time range that is searched.
    pub range: TimeRange,
    /// Patterns of the indexes read.
    pub indexes: Vec<String>,
    /// The query for the term dictionaries.
    pub terms: String,
    /// Whether the terms can exclude anything.
    pub has_terms: bool,
    /// Whether all fields are extracted.
    pub all_fields: bool,
    /// Fields that commands read.
    pub fields: Vec<String>,
    /// Field patterns that commands read.
    pub field_patterns: Vec<String>,
    /// Fields that the condition tests in every event that the terms do not exclude.
    pub tested_fields: Vec<String>,
    /// Whether the event text is read for more than field extraction.
    pub reads_text: bool,
    /// Whether pages are read newest first, because the result depends on the order.
    pub in_order: bool,
    /// Data that remains after each pruning step; empty if the search is explained without data.
    pub pruning_steps: Vec<PruningStep>,
    /// Work that the scan does on behalf of later commands.
    pub pushed_down: Vec<String>,
    /// Data model summaries that are read in place of events.
    pub summaries: Option<ExplainedSummaries>,
}

/// Data model summaries that a search may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedSummaries {
    /// Model and object, as `MODEL.OBJECT`.
    pub object: String,
    /// Slabs in the time range with a usable summary.
    pub slabs: u64,
    /// Number of slabs in the time range.
    pub slabs_total: u64,
}

/// A command and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedStage {
    /// The command as written, followed by `(as NAME)` if another command replaces it; for a command that the request
    /// adds, its name and `(of the request)`.
    pub text: String,
    /// Phase in which the command runs.
    pub phase: Phase,
    /// Number of rows that the command needs at a time.
    pub shape: StageShape,
}

/// Phase of a search in which a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// While pages are read.
    Scan,
    /// In every worker, on the slices it reads.
    Map,
    /// Folded in every worker; the groups are merged afterwards.
    MapReduce,
    /// On one thread, after the workers.
    Reduce,
}

/// Number of rows that a command needs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageShape {
    /// One row at a time.
    Rows,
    /// One row at a time, in order.
    OrderedRows,
    /// Folds rows into groups.
    Fold,
    /// Folds rows into groups, in order.
    OrderedFold,
    /// Needs all rows at once.
    AllRows,
    /// Generates rows, or is replaced by a search that does.
    Generates,
}

/// Data that remains after a pruning step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruningStep {
    /// Name of the step: `stored`, `index`, `time`, `metadata`, `terms`.
    pub by: &'static str,
    /// Number of remaining buckets.
    pub buckets: u64,
    /// Number of remaining slabs.
    pub slabs: u64,
    /// Number of remaining pages.
    pub pages: u64,
    /// Events in these pages.
    pub events: u64,
}

/// Checks a search for faults by explaining it and discarding the explanation.
pub(crate) struct ExplainChecker;

impl SearchChecker for ExplainChecker {
    fn check(&self, runner: &Runner, pipeline: &Pipeline, effects: Effects) -> Result<(), EngineError> {
        // Messages and statistics are produced later, when the search runs.
        let context = CommandContext { messages: Arc::default(), ..runner.context.clone() };
        let runner = Runner { context, progress: Arc::default(), ..runner.clone() };
        let explainer = Explainer { is_shown: false, ..Explainer::new(false, effects) };
        explainer.explain(&runner, pipeline, "").map(drop)
    }
}

/// Explains a search and the searches in it.
pub(crate) struct Explainer {
    /// Whether the search is explained with data, so that the data that remains after each pruning step is counted.
    counts: bool,
    /// Side effects of the search.
    effects: Effects,
    /// Whether the explanation is shown; otherwise only faults are of interest.
    is_shown: bool,
    /// Searches being explained, the innermost last.
    frames: RefCell<Vec<SearchFrame>>,
}

/// A search being explained.
struct SearchFrame {
    /// Text that spans of its commands refer to.
    text: Arc<str>,
    /// The searches found in it so far.
    subsearches: Vec<ExplainedPlan>,
}

impl Explainer {
    /// With `counts`, pruning steps are counted on the data.
    pub(crate) fn new(counts: bool, effects: Effects) -> Explainer {
        Explainer { counts, effects, is_shown: true, frames: RefCell::default() }
    }

    /// Explains a search as written.
    pub(crate) fn explain(
        &self,
        runner: &Runner,
        pipeline: &Pipeline,
        text: &str,
    ) -> Result<ExplainedPlan, EngineError> {
        let planner = Planner::new(runner, Subsearches::Explain(self));
        self.explain_nested(text.into(), || self.explain_plan(runner, &planner.plan_search(pipeline)?))
    }

    /// Explains the inner search with which the current search begins; `text` is the inner text if it is not part of
    /// the current search.
    fn explain_source(&self, runner: &Runner, plan: &Plan, text: Option<&str>) -> Result<(), EngineError> {
        let inner =
            self.explain_nested(text.map_or_else(|| self.text(), Arc::from), || self.explain_plan(runner, plan))?;
        self.add_subsearch(inner);
        Ok(())
    }

    fn explain_nested(
        &self,
        text: Arc<str>,
        explain: impl FnOnce() -> Result<ExplainedPlan, EngineError>,
    ) -> Result<ExplainedPlan, EngineError> {
        self.frames.borrow_mut().push(SearchFrame { text, subsearches: Vec::new() });
        let explained = explain();
        let found = self.frames.borrow_mut().pop();
        let mut explained = explained?;
        // In the order in which they were found: subsearches of the condition, the inner search or the subsearches of
        // the first command, then those of later commands.
        explained.subsearches.extend(found.into_iter().flat_map(|open| open.subsearches));
        Ok(explained)
    }

    fn add_subsearch(&self, inner: ExplainedPlan) {
        if let Some(open) = self.frames.borrow_mut().last_mut() {
            open.subsearches.push(inner);
        }
    }

    fn text(&self) -> Arc<str> {
        self.frames.borrow().last().map_or_else(|| "".into(), |open| Arc::clone(&open.text))
    }

    /// The text of a span.
    fn text_at(&self, span: Span) -> String {
        truncate(self.text().get(span.start..span.end).unwrap_or_default().trim())
    }

    fn explain_plan(&self, runner: &Runner, plan: &Plan) -> Result<ExplainedPlan, EngineError> {
        let context = CommandContext { range: plan.range(runner.context.range), ..runner.context.clone() };
        let surroundings = PipelineEnvironment { runner, context: &context, subsearches: Subsearches::Explain(self) };
        let mut explained = ExplainedPlan::default();
        match &plan.source {
            Source::Nothing | Source::Row => {}
            Source::Scan(scan) => {
                explained.events = Some(self.events(runner, scan, plan.fold.is_some(), &context)?);
                explained.exchanges = plan.rounds();
                // Text values are listed as part of the commands that use them.
                let is_command = |known: &&Extraction| !matches!(known.kind, ExtractionKind::Text { .. });
                let pushed = scan.extractions.iter().filter(is_command);
                explained.stages.extend(pushed.map(|rex| self.stage(rex.span, Phase::Scan, StageShape::Rows)));
            }
            Source::Command(stage) => {
                explained.stages.push(self.stage(stage.span, Phase::Reduce, StageShape::Generates));
                if !self.is_dynamic(&stage.command) {
                    execution(&stage.command).check(runner)?;
                }
                for inner in stage.command.subsearches() {
                    self.explain_inner(runner, inner)?;
                }
            }
            Source::Search(inner) => {
                let text = format!("savedsearch {}", inner.name);
                explained.stages.push(ExplainedStage { text, phase: Phase::Reduce, shape: StageShape::Generates });
                self.explain_source(&runner.for_saved_search(inner.range), &inner.plan, Some(&inner.text))?;
            }
            Source::Series(series) => {
                explained.stages.push(self.stage(series.span, Phase::Reduce, StageShape::Generates));
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
        // Building the steps reports faults of commands and explains their subsearches.
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

    /// The command as [`ExplainedStage::text`] shows it.
    fn text_of(&self, stage: &Stage) -> String {
        if stage.span.start == stage.span.end {
            return format!("{} (of the request)", stage.command.name());
        }
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

    /// Explains a scan; `folds` says whether the rows are folded.
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
            slabs: scan.snapshot.segments.iter().filter(|segment| folds && summary.covers_segment(segment)).count()
                as u64,
            slabs_total: scan.snapshot.segments.len() as u64,
        });
        Ok(ExplainedEvents {
            range: planned.range,
            indexes: planned.indexes.clone(),
            terms: truncate(&text_of_terms(scan.terms())),
            has_terms: *scan.terms() != TermQuery::All,
            all_fields: planned.projection.all,
            fields: planned.projection.fields.iter().cloned().collect(),
            field_patterns: planned.projection.patterns.clone(),
            tested_fields: scan.tested_fields().map(str::to_owned).collect(),
            reads_text: scan.reads_text(),
            in_order: planned.order == Order::NewestFirst,
            pruning_steps,
            pushed_down: pushed_down_work(planned),
            summaries,
        })
    }
}

impl SubsearchExplainer for Explainer {
    fn explain_inner(&self, runner: &Runner, pipeline: &Pipeline) -> Result<(), EngineError> {
        let planner = Planner::new(runner, Subsearches::Explain(self));
        let inner = self.explain_nested(self.text(), || self.explain_plan(runner, &planner.plan(pipeline)?))?;
        self.add_subsearch(inner);
        Ok(())
    }

    fn is_dynamic(&self, command: &Command) -> bool {
        // A command into which results of subsearches are substituted is shown as it would be without these results. If
        // nothing is shown, the command is skipped.
        (!self.is_shown && matches!(command, Command::Substitution(_))) || self.effects.affects(command)
    }
}

fn text_of_top(top: &TopK) -> String {
    let order = if top.descending { "largest" } else { "smallest" };
    format!("the {} {order} by {}", top.count, top.key.field.text)
}

fn text_of_first(first: &FirstRows) -> String {
    format!("the first {} of each {} of every page", first.count, first.fields.join(", "))
}

fn text_of_selection(selection: &RowSelection) -> String {
    let commands = match selection.commands {
        0 => None,
        1 => Some("those that the first command keeps".to_owned()),
        count => Some(format!("those that the first {count} commands keep")),
    };
    let limit = selection.limit.as_ref().map(|limit| match limit {
        RowLimit::Top(top) => text_of_top(top),
        RowLimit::First(first) => text_of_first(first),
        RowLimit::Oldest(count) => format!("the {count} oldest"),
    });
    let kept: Vec<String> = commands.into_iter().chain(limit).collect();
    let fields: Vec<&str> = selection.projection.fields.iter().map(String::as_str).collect();
    let by = if fields.is_empty() { "_time".to_owned() } else { fields.join(", ") };
    format!("all fields of {}, found by {by}", kept.join(", and of these "))
}

/// Work that a scan does on behalf of later commands, besides extractions.
fn pushed_down_work(scan: &Scan) -> Vec<String> {
    let mut pushed = Vec::new();
    if scan.fields == FieldSource::IndexTime {
        pushed.push("index-time fields alone".to_owned());
    }
    pushed.extend(scan.top.as_ref().map(text_of_top));
    pushed.extend(scan.first.as_ref().map(text_of_first));
    pushed.extend(scan.selection.as_ref().map(text_of_selection));
    if scan.counts {
        pushed.push("events with the same values as one row and their count".to_owned());
    } else if scan.extremes {
        pushed.push("the first and last of events with equal values".to_owned());
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
        Kind::Generating => StageShape::Generates,
    }
}

fn truncate(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

impl Runner {
    /// Buckets, slabs, pages and events that remain after each pruning step: stored, index, time, metadata, terms.
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

/// Counts the segments that still have pages, with their buckets, pages and events.
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
        TermQuery::Marked(TextMark::UnbrokenBlank) => "vertical tab or form feed".to_owned(),
        TermQuery::Marked(TextMark::XmlToken | TextMark::XmlValue) => "divided XML values".to_owned(),
        TermQuery::Marked(TextMark::JsonLetter) => "escaped JSON letters".to_owned(),
        TermQuery::IndexTimeFields => "index-time fields".to_owned(),
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
        TermQuery::Field { name, value } | TermQuery::FieldNumber { name, number: value } => format!("{name}::{value}"),
    }
}
