//! What a search would read and do, told without reading an event.
//!
//! A search is explained by running it as far as its events: a [`Runner`] with an [`Explainer`] notes what it was about
//! to scan, and with which steps, and goes on with no rows. So searches that others are made of (data models, saved
//! searches, `tstats`) are explained as what they become. Subsearches have no results here: their conditions stand for
//! everything.
//!
//! Not here: how an explanation is shown (server).

use std::sync::{Arc, Mutex, PoisonError};

use quarry_event::term::MetaField;
use quarry_event::{TermQuery, TimeRange};
use quarry_spl::analyse::required_fields;
use quarry_spl::ast::{SearchCommand, SearchExpr, Stage};
use quarry_store::{IndexSelector, Segment};

use crate::EngineError;
use crate::command::CommandContext;
use crate::lower::Step;
use crate::run::Runner;
use crate::scan::EventScan;
use crate::scan::fields::FieldWish;
use crate::scan::filter::index_patterns;
use crate::scan::rexes::Rexes;
use crate::summary::read::SummaryRead;

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
    /// What the lexicons are asked.
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
    /// What each sieve leaves; empty where there is no data.
    pub sieves: Vec<Sieve>,
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
pub struct Sieve {
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

/// Collects what the searches of one search would do.
#[derive(Clone)]
pub(crate) struct Explainer {
    /// Text that places of commands point into; empty where they point elsewhere.
    text: Arc<str>,
    /// Whether there is data to count.
    counts: bool,
    /// Searches being explained, the innermost last.
    open: Arc<Mutex<Vec<ExplainedPlan>>>,
}

impl Explainer {
    /// Nothing explained yet.
    pub(crate) fn new(text: &str, counts: bool) -> Explainer {
        Explainer { text: text.into(), counts, open: Arc::new(Mutex::new(vec![ExplainedPlan::default()])) }
    }

    /// The same for a search that is written elsewhere.
    pub(crate) fn with_text(&self, text: &str) -> Explainer {
        Explainer { text: text.into(), ..self.clone() }
    }

    /// A search within the search begins.
    pub(crate) fn begin(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(ExplainedPlan::default());
    }

    /// It ends.
    pub(crate) fn end(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(inner) = open.pop() else { return };
        if let Some(outer) = open.last_mut() {
            outer.subsearches.push(inner);
        }
    }

    /// What was explained.
    pub(crate) fn finish(&self) -> ExplainedPlan {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drain(..)
            .next()
            .and_then(|mut outer| match outer.subsearches.len() {
                // The search itself is the only one in the outermost frame.
                1 => outer.subsearches.pop(),
                _ => Some(outer),
            })
            .unwrap_or_default()
    }

    /// Notes a first command that makes rows, or stands for a search.
    pub(crate) fn note_first(&self, stage: &Stage) {
        let stage = ExplainedStage { text: self.text_of(stage), phase: Phase::Reduce, shape: StageShape::Makes };
        self.note(|plan| plan.stages.push(stage));
    }

    fn note(&self, change: impl FnOnce(&mut ExplainedPlan)) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = open.last_mut() {
            change(plan);
        }
    }

    fn text_of(&self, stage: &Stage) -> String {
        let text = self.text.get(stage.span.start..stage.span.end).unwrap_or_default();
        shortened(text.trim())
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
    /// Notes the events that a search would read and its commands.
    pub(crate) fn explain_events(
        &self,
        explainer: &Explainer,
        expr: &SearchExpr,
        search: &SearchCommand,
        rest: &[Stage],
        context: &CommandContext,
        summary: Option<&SummaryRead>,
    ) -> Result<(), EngineError> {
        let mut stages = self.explained_stages(explainer, rest, context, true)?;
        let in_order = !stages.iter().any(|stage| stage.phase == Phase::MapReduce);
        let pushed = match in_order {
            true => {
                stages.iter_mut().for_each(|stage| stage.phase = Phase::Reduce);
                0
            }
            false => Rexes::leading(rest, |rest| FieldWish::new(&required_fields(rest))).1,
        };
        stages.iter_mut().take(pushed).for_each(|stage| stage.phase = Phase::Scan);
        let scan = self.scan(expr, search, &rest[pushed..], Rexes::default(), context)?;
        let needs = required_fields(&rest[pushed..]);
        let indexes = index_patterns(expr, &self.default_indexes).unwrap_or_else(|| self.default_indexes.clone());
        let sieves = if explainer.counts { self.sieves(&scan, &indexes, context)? } else { Vec::new() };
        let events = ExplainedEvents {
            range: context.range,
            terms: shortened(&text_of_terms(scan.filter.terms())),
            has_terms: *scan.filter.terms() != TermQuery::All,
            all_fields: needs.all,
            fields: needs.fields.iter().cloned().collect(),
            field_patterns: needs.patterns,
            tested_fields: scan.filter.names().map(str::to_owned).collect(),
            reads_text: scan.wish.raw || scan.filter.reads_text(),
            in_order,
            indexes,
            sieves,
            summaries: summary.map(|summary| self.summaries_read(summary, &scan, rest, context)).transpose()?,
        };
        explainer.note(|plan| {
            plan.events = Some(events);
            plan.stages.extend(stages);
        });
        Ok(())
    }

    /// What of the snapshot comes from summaries.
    fn summaries_read(
        &self,
        summary: &SummaryRead,
        scan: &EventScan,
        rest: &[Stage],
        context: &CommandContext,
    ) -> Result<ExplainedSummaries, EngineError> {
        let steps = self.steps(rest, context)?;
        let fold = steps.iter().find(|step| !matches!(step, Step::Row { ordered: false, .. }));
        let folds = matches!(fold, Some(Step::Reduce(fold)) if !fold.needs_order() && !fold.needs_bounds(context));
        let held = scan.snapshot.segments.iter().filter(|segment| folds && summary.holds(segment)).count();
        let of = scan.snapshot.segments.len() as u64;
        Ok(ExplainedSummaries { object: summary.object.clone(), slabs: held as u64, of })
    }

    /// Notes commands whose rows do not come from events.
    pub(crate) fn explain_chain(
        &self,
        explainer: &Explainer,
        stages: &[Stage],
        context: &CommandContext,
    ) -> Result<(), EngineError> {
        let stages = self.explained_stages(explainer, stages, context, false)?;
        explainer.note(|plan| plan.stages.extend(stages));
        Ok(())
    }

    fn explained_stages(
        &self,
        explainer: &Explainer,
        stages: &[Stage],
        context: &CommandContext,
        mut in_workers: bool,
    ) -> Result<Vec<ExplainedStage>, EngineError> {
        let mut explained = Vec::new();
        for stage in stages {
            let steps = self.steps(std::slice::from_ref(stage), context)?;
            for step in &steps {
                let (phase, shape) = match step {
                    Step::Row { ordered: false, .. } if in_workers => (Phase::Map, StageShape::Rows),
                    Step::Row { ordered: false, .. } => (Phase::Reduce, StageShape::Rows),
                    Step::Row { ordered: true, .. } => (Phase::Reduce, StageShape::OrderedRows),
                    Step::Reduce(reduce) if reduce.needs_order() => (Phase::Reduce, StageShape::OrderedFold),
                    Step::Reduce(_) if in_workers => (Phase::MapReduce, StageShape::Fold),
                    Step::Reduce(_) => (Phase::Reduce, StageShape::Fold),
                    Step::Blocking(_) => (Phase::Reduce, StageShape::AllRows),
                };
                in_workers &= phase == Phase::Map;
                explained.push(ExplainedStage { text: explainer.text_of(stage), phase, shape });
            }
        }
        Ok(explained)
    }

    /// What indexes, time, metadata and terms leave of all that is stored.
    fn sieves(
        &self,
        scan: &EventScan,
        indexes: &[String],
        context: &CommandContext,
    ) -> Result<Vec<Sieve>, EngineError> {
        let all = self.source.snapshot(&IndexSelector::all(), &TimeRange::ALL)?;
        let named = self.source.snapshot(&IndexSelector::new(indexes.to_vec()), &TimeRange::ALL)?;
        let whole = |segment: &Arc<dyn Segment>| (0..segment.pages().len()).collect::<Vec<_>>();
        let in_range = |segment: &Arc<dyn Segment>| {
            let pages = segment.pages().iter().enumerate();
            let wanted = pages.filter(|(_, info)| scan.range.overlaps(info.time_min, info.time_max));
            wanted.map(|(page, _)| page).collect::<Vec<_>>()
        };
        let may_match = |segment: &Arc<dyn Segment>| scan.filter.may_match_any(&segment.metas());
        let of_metadata = |segment: &Arc<dyn Segment>| if may_match(segment) { in_range(segment) } else { Vec::new() };
        let mut sieves = vec![
            sieve("stored", &all.segments, whole),
            sieve("index", &named.segments, whole),
            sieve("time", &scan.snapshot.segments, in_range),
            sieve("metadata", &scan.snapshot.segments, of_metadata),
        ];
        let mut left = Vec::new();
        for segment in scan.snapshot.segments.iter().filter(|segment| may_match(segment)) {
            let pages = scan.pages_of(segment, context)?.unwrap_or_default();
            left.push((segment, pages.into_iter().map(|page| page.page).collect::<Vec<_>>()));
        }
        sieves.push(sieve_of("terms", left));
        Ok(sieves)
    }
}

fn sieve(by: &'static str, segments: &[Arc<dyn Segment>], pages: impl Fn(&Arc<dyn Segment>) -> Vec<usize>) -> Sieve {
    sieve_of(by, segments.iter().map(|segment| (segment, pages(segment))))
}

/// Counts the parts that still have pages.
fn sieve_of<'s>(by: &'static str, left: impl IntoIterator<Item = (&'s Arc<dyn Segment>, Vec<usize>)>) -> Sieve {
    let mut sieve = Sieve { by, buckets: 0, slabs: 0, pages: 0, events: 0 };
    let mut buckets = std::collections::BTreeSet::new();
    for (segment, pages) in left {
        if pages.is_empty() {
            continue;
        }
        buckets.insert(segment.bucket());
        sieve.slabs += 1;
        sieve.pages += pages.len() as u64;
        let infos = segment.pages();
        sieve.events +=
            pages.iter().filter_map(|page| infos.get(*page)).map(|info| u64::from(info.events)).sum::<u64>();
    }
    sieve.buckets = buckets.len() as u64;
    sieve
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
        TermQuery::Piece(piece) => piece.to_string(),
        TermQuery::Prefix(prefix) => format!("{prefix}*"),
        TermQuery::Value { pieces, .. } => text_of_terms(pieces),
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
