//! Building summaries: determines which slabs have summaries, and builds missing summaries, newest slabs first.
//!
//! A slab is read as a search would read it. The summary is stored only if no event was dropped and no message was
//! raised, because a search that reads the summary instead of the events would not raise the message.
//!
//! Not here: scheduling, rate limiting and removal of obsolete summaries (search).

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows;
use quarry_event::{TimeNs, TimeRange};
use quarry_scan::index_patterns;
use quarry_scan::plan::{FieldSource, Scan};
use quarry_scan::summary::{SummaryHead, SummaryPage, collect_columns, encode, folder_name, object_name, open};
use quarry_scan::with_renamed_sourcetypes;
use quarry_spl::analyse::{is_constant, required_fields};
use quarry_spl::ast::{Span, Stage};
use quarry_stdx::Fault;
use quarry_stdx::number::u32_of;
use quarry_store::{IndexSelector, Segment, Snapshot, StoredSlab};

use super::plan::SummaryPlan;
use crate::SearchShape;
use crate::job::{Engine, SearchRequest};
use crate::knowledge::model::DataModel;
use crate::knowledge::model_text;
use crate::knowledge::object::{MEMBER_VALUE, ModelObject};
use crate::lowering::Step;
use crate::run::Runner;
use crate::source::SnapshotSource;
use crate::threads::with_stack;

/// Maximum number of distinct reasons recorded per object for missing summaries.
const FAULTS_MAX: usize = 8;

/// A request to determine, and perhaps to build, the summaries of a data model.
#[derive(Clone, Debug)]
pub struct SummaryRequest {
    /// The data model.
    pub model: String,
    /// The current time.
    pub now: TimeNs,
    /// Time zone for the model's expressions.
    pub zone: TimeZone,
    /// Indexes read if the model names no index.
    pub default_indexes: Vec<String>,
    /// Start of the summarised time range; a slab with an event in the range is summarised as a whole.
    pub earliest: Option<TimeNs>,
    /// Missing summaries are built only for slabs with events at or after this time.
    pub backfill: Option<TimeNs>,
    /// Whether missing summaries are built.
    pub build: bool,
}

/// The summaries of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryReport {
    /// Objects with summaries of their own, and objects that cannot be summarised.
    pub objects: Vec<SummaryObject>,
    /// Names of the current summaries of all slabs, including those not built yet.
    pub names: BTreeSet<String>,
    /// Whether all work ran to its end.
    pub is_complete: bool,
}

/// The summaries of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryObject {
    /// Name of the object.
    pub object: String,
    /// Directory of the object's summaries; empty if it cannot have any.
    pub folder: String,
    /// Sealed slabs that may hold events of the object.
    pub slabs_total: u64,
    /// Slabs with a summary.
    pub slabs_done: u64,
    /// Summaries made this time.
    pub slabs_built: u64,
    /// Events in slabs with a summary.
    pub events: u64,
    /// Events that belong to the object.
    pub rows: u64,
    /// Bytes of the object's summaries.
    pub bytes: u64,
    /// Smallest `_time` of summarised pages.
    pub earliest: Option<TimeNs>,
    /// Largest `_time` of summarised pages.
    pub latest: Option<TimeNs>,
    /// Reasons why the object or some of its slabs have no summary, without duplicates.
    pub faults: Vec<String>,
}

impl SummaryObject {
    fn fault(&mut self, text: String) {
        if self.faults.len() < FAULTS_MAX && !self.faults.contains(&text) {
            self.faults.push(text);
        }
    }

    fn count(&mut self, head: &SummaryHead, bytes: u64) {
        self.slabs_done += 1;
        self.bytes += bytes;
        for page in &head.pages {
            self.events += u64::from(page.events);
            self.rows += u64::from(page.rows);
            self.earliest = Some(self.earliest.map_or(page.time_min, |time| time.min(page.time_min)));
            self.latest = Some(self.latest.map_or(page.time_max, |time| time.max(page.time_max)));
        }
    }
}

impl Engine {
    /// Determines which slabs of `source` have a summary of a model, and builds missing summaries if requested. `go_on`
    /// is called before each page is read; false ends the work.
    pub fn summarise(
        &self,
        request: &SummaryRequest,
        source: Arc<dyn SnapshotSource>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SummaryReport, EngineError> {
        with_stack(|| self.summarised(request, source, go_on))
    }

    fn summarised(
        &self,
        request: &SummaryRequest,
        source: Arc<dyn SnapshotSource>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SummaryReport, EngineError> {
        let search = SearchRequest {
            text: String::new(),
            prefix: 0,
            pipeline: None,
            shape: SearchShape::default(),
            range: TimeRange::ALL,
            now: request.now,
            zone: request.zone.clone(),
            default_indexes: request.default_indexes.clone(),
            permissions: Arc::new(Permissions::owner()),
            sid: None,
        };
        let runner = self.runner(search, source);
        let text = model_text(runner.knowledge.as_ref(), &request.model)?;
        let model = DataModel::of_json(&request.model, &text)?;
        let mut report = SummaryReport { is_complete: true, ..SummaryReport::default() };
        for object in &model.objects {
            let expand = |text: &str| runner.expand_macros(text);
            let made = ModelObject::new(&model, Some(&object.name), &BTreeSet::new(), &expand);
            let mut state = SummaryObject { object: object.name.clone(), ..SummaryObject::default() };
            match made {
                Ok(made) if made.summarised_as() != object.name => continue,
                Ok(made) => match runner.summary_plan(&made, &text) {
                    Ok(plan) => {
                        state.folder = folder_name(&plan.digest);
                        let is_same = || runner.summary_plan(&made, &text).is_ok_and(|now| now.digest == plan.digest);
                        let work = ObjectWork { runner: &runner, plan: &plan, request, is_same: &is_same };
                        report.is_complete &= work.run(&mut state, &mut report.names, go_on)?;
                    }
                    Err(why) => state.fault(why.to_string()),
                },
                Err(error) => state.fault(error.to_string()),
            }
            report.objects.push(state);
        }
        Ok(report)
    }
}

/// A sealed slab with its segment.
type PlacedSlab = (StoredSlab, Arc<dyn Segment>);

struct ObjectWork<'a> {
    runner: &'a Runner,
    plan: &'a SummaryPlan,
    request: &'a SummaryRequest,
    /// Whether everything covered by the digest is unchanged.
    is_same: &'a dyn Fn() -> bool,
}

/// Outcome for one slab.
enum SummaryOutcome {
    Summary(SummaryHead, Vec<u8>),
    /// Stopped on request.
    Stopped,
}

impl ObjectWork<'_> {
    /// Processes all slabs; `false` if the work was stopped.
    fn run(
        &self,
        state: &mut SummaryObject,
        names: &mut BTreeSet<String>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, EngineError> {
        let store = self.runner.summaries.as_ref();
        let segments = self.segments()?;
        let folder = folder_name(&self.plan.digest);
        names.extend(segments.iter().map(|(slab, _)| object_name(&folder, *slab)));
        state.slabs_total = segments.len() as u64;
        let mut stopped = false;
        for (slab, segment) in segments {
            let name = object_name(&folder, slab);
            if let Some(known) = open(store, &self.plan.digest, slab) {
                state.count(&known.head, known.bytes());
                continue;
            }
            let is_due =
                self.request.backfill.is_none_or(|from| segment.pages().iter().any(|page| page.time_max >= from));
            if !self.request.build || stopped || !is_due {
                continue;
            }
            // An unexpected failure of an encoder or a rule must not end the builder.
            let made = quarry_eval::panics::catch_panic("a data model was summarised", || {
                Ok(self.build_summary(slab, &segment, go_on))
            })?;
            match made {
                Ok(SummaryOutcome::Stopped) => stopped = true,
                // The summary may be based on a table's new contents; the next round will have the new digest.
                Ok(SummaryOutcome::Summary(..)) if !(self.is_same)() => stopped = true,
                Ok(SummaryOutcome::Summary(head, bytes)) => match store.put(&name, &bytes) {
                    Ok(()) => {
                        state.count(&head, bytes.len() as u64);
                        state.slabs_built += 1;
                    }
                    Err(fault) => {
                        state.fault(format!("{name} cannot be written: {fault}"));
                        stopped = true;
                    }
                },
                Err(fault) => state.fault(format!("bucket {}: {fault}", segment.bucket())),
            }
        }
        Ok(!stopped)
    }

    /// Sealed slabs that may hold events of the object, the newest first.
    fn segments(&self) -> Result<Vec<PlacedSlab>, EngineError> {
        let runner = self.runner;
        let range = TimeRange { earliest: self.request.earliest, latest: None };
        let all = runner.source.snapshot(&IndexSelector::new(self.indexes()), &range)?;
        let indexes: BTreeSet<String> = all.segments.iter().map(|segment| segment.index().to_owned()).collect();
        let scan = self.scan_as(Snapshot::default(), &runner.context)?;
        let mut found = Vec::new();
        for index in indexes {
            // In a snapshot of a single index, no slab is split at the arrival of buckets of other indexes.
            let snapshot = runner.source.snapshot(&IndexSelector::new(vec![index]), &range)?;
            let snapshot = with_renamed_sourcetypes(snapshot, runner.rules.props());
            for segment in snapshot.segments {
                let (Some(_), Some(slab)) = (segment.identity(), segment.stored()) else { continue };
                let is_recent = segment.pages().iter().any(|page| range.overlaps(page.time_min, page.time_max));
                if is_recent && scan.may_match(&segment) {
                    found.push((segment.first_arrival(), slab, segment));
                }
            }
        }
        found.sort_by_key(|(arrival, ..)| std::cmp::Reverse(*arrival));
        Ok(found.into_iter().map(|(_, slab, segment)| (slab, segment)).collect())
    }

    fn scan_as(&self, snapshot: Snapshot, context: &CommandContext) -> Result<quarry_scan::EventScan, EngineError> {
        let (span, plan) = (Span::default(), self.plan);
        let mut rest = plan.stages.clone();
        rest.push(Stage { command: plan.keep_command(span), span });
        let scan = Scan {
            projection: required_fields(&rest),
            ..Scan::new(self.indexes(), plan.expr.clone(), context.range, FieldSource::SearchTime)
        };
        let runner = Runner { context: context.clone(), ..self.runner.clone() };
        runner.event_scan_over(&scan, snapshot, context)
    }

    /// Patterns of the indexes that may hold events of the object.
    fn indexes(&self) -> Vec<String> {
        let default = &self.runner.default_indexes;
        index_patterns(&self.plan.expr, default).unwrap_or_else(|| default.clone())
    }

    /// Builds the summary of a slab.
    fn build_summary(
        &self,
        slab: StoredSlab,
        segment: &Arc<dyn Segment>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SummaryOutcome, Fault> {
        self.check_rules(segment)?;
        let context = CommandContext { messages: Arc::default(), stop: Arc::default(), ..self.runner.context.clone() };
        let snapshot = Snapshot { segments: vec![Arc::clone(segment)], ..Snapshot::default() };
        let scan = self.scan_as(snapshot, &context)?;
        let steps = Runner { context: context.clone(), ..self.runner.clone() }.steps(&self.plan.stages, &context)?;
        if !steps.iter().all(|step| matches!(step, Step::Row { ordered: false, .. })) {
            return Err(Fault::invalid("a calculated field depends on more than its event"));
        }
        let mut commands: Vec<_> = steps.into_iter().filter_map(Step::into_row).map(|make| make()).collect();
        let pages = scan
            .pages_of(segment, &context)?
            .ok_or_else(|| Fault::unavailable("its bucket is damaged or cannot be read"))?;
        let names: Vec<String> = self.plan.columns.iter().cloned().collect();
        let mut batches: Vec<Option<RecordBatch>> = Vec::new();
        for number in 0..segment.pages().len() {
            let Some(page) = pages.iter().find(|page| page.page == number) else {
                batches.push(None);
                continue;
            };
            if !go_on() {
                return Ok(SummaryOutcome::Stopped);
            }
            let mut rows = scan.read_coded(page, &context)?;
            for command in &mut commands {
                rows = rows.filter(|rows| rows.num_rows() > 0).map(|rows| command.apply(rows)).transpose()?;
            }
            let rows = rows.filter(|rows| rows.num_rows() > 0);
            batches.push(rows.map(|rows| self.columns(&rows, &names)).transpose()?);
        }
        if context.messages.push_count() > 0 || context.stop.is_partial() {
            let message = context.messages.list().into_iter().next().unwrap_or_default();
            return Err(Fault::invalid(format!("searches over its events report: {message}")));
        }
        let page = |(info, rows): (&quarry_store::PageInfo, &Option<RecordBatch>)| SummaryPage {
            first_row: info.first_row,
            events: info.events,
            rows: rows.as_ref().map_or(0, |rows| u32_of(rows.num_rows())),
            time_min: info.time_min,
            time_max: info.time_max,
        };
        let pages = segment.pages().iter().zip(&batches).map(page).collect();
        let head = SummaryHead { digest: self.plan.digest, slab, pages };
        let bytes = encode(&head, &collect_columns(&names, &batches))?;
        Ok(SummaryOutcome::Summary(head, bytes))
    }

    /// Refuses events whose fields are computed from more than the event.
    fn check_rules(&self, segment: &Arc<dyn Segment>) -> Result<(), Fault> {
        for meta in segment.metas().iter() {
            let rules = self.runner.rules.props().resolve(&meta.source, &meta.host, &meta.sourcetype).search_time;
            for (field, expression) in &rules.evals {
                let is_settled = quarry_spl::parse_expression(expression).is_ok_and(|expr| is_constant(&expr));
                if !is_settled {
                    return Err(Fault::invalid(format!(
                        "EVAL-{field} of sourcetype {} depends on more than the event, such as now()",
                        meta.sourcetype
                    )));
                }
            }
        }
        Ok(())
    }

    /// The columns of the summary.
    fn columns(&self, rows: &RecordBatch, names: &[String]) -> Result<RecordBatch, EngineError> {
        let mut columns: Vec<(String, ArrayRef)> = Vec::with_capacity(names.len());
        for name in names {
            let column: ArrayRef = match self.plan.members.iter().find(|(column, _)| column == name) {
                Some((_, condition)) => {
                    let is_member = condition.matches(rows)?;
                    let texts = is_member.iter().map(|is| is.unwrap_or(false).then_some(MEMBER_VALUE));
                    Arc::new(texts.collect::<StringViewArray>())
                }
                None => rows::column_or_null(rows, name),
            };
            columns.push((name.clone(), column));
        }
        rows::batch_of(columns, rows.num_rows())
    }
}
