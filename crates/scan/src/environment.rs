//! Environment of a scan, passed in by the engine: rules, labels, progress and summaries.

use std::sync::Arc;

use quarry_conf::PropsResolver;
use quarry_eval::EngineError;
use quarry_eval::command::MakeRowCommand;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::wildcard_parts;
use quarry_eval::lookup::LookupSource;
use quarry_event::Metadata;
use quarry_store::Snapshot;

use crate::derive::{DerivationRequest, Derivations, DerivedNames, Tables, is_default_field};
use crate::event_scan::{EventScan, ScanProgress};
use crate::fields::{FieldRules, Projection, ShownFields};
use crate::filter::{EventFilter, Origins};
use crate::labels::LabelSource;
use crate::plan::{FieldSource, Scan};
use crate::pushed_commands::PushedCommands;
use crate::pushed_predicates::PushedPredicates;
use crate::row_selector::RowSelector;
use crate::summary::{SummaryReader, SummaryStore};
use crate::template_pages::{NeedleSlabs, PatternReaders, SlabCache, TemplateFactsCache, listed_names};
use crate::top_k::TopKThreshold;

/// Maximum number of fields that are read by name because they match a name pattern; the locations of more fields take
/// longer to find than texts to read.
const LISTED_NAMES_MAX: usize = 64;

/// Field extraction rules, shared by all searches that run under the same settings.
#[derive(Clone)]
pub struct ScanRules {
    search_time: RuleSet,
    index_time: RuleSet,
    /// Whether automatic lookups are skipped.
    skips_lookups: bool,
}

/// Rules, the facts about template slabs that depend on them, and the readers of patterns that searches have used.
#[derive(Clone)]
struct RuleSet {
    rules: Arc<FieldRules>,
    facts_cache: Arc<TemplateFactsCache>,
    pattern_readers: Arc<PatternReaders>,
}

impl ScanRules {
    /// Builds the rules from these settings.
    pub fn new(props: Arc<PropsResolver>) -> ScanRules {
        let index_time = Arc::new(FieldRules::index_time_only(Arc::clone(&props)));
        let search_time = Arc::new(FieldRules::new(props));
        let pattern_readers = Arc::<PatternReaders>::default();
        let side =
            |rules| RuleSet { rules, facts_cache: Arc::default(), pattern_readers: Arc::clone(&pattern_readers) };
        ScanRules { search_time: side(search_time), index_time: side(index_time), skips_lookups: false }
    }

    /// The same rules without automatic lookups, whose fields do not exist then.
    pub fn without_lookups(self) -> ScanRules {
        ScanRules { skips_lookups: true, ..self }
    }

    /// The same rules with the pattern readers of other rules, so that the limits of the readers apply to both together.
    /// What a reader knows depends on its pattern and on slabs only, and the reader of a rule serves no other rule.
    pub fn with_shared_readers(mut self, other: &ScanRules) -> ScanRules {
        for side in [&mut self.search_time, &mut self.index_time] {
            side.pattern_readers = Arc::clone(&other.search_time.pattern_readers);
        }
        self
    }

    /// The rules that apply to searches of events.
    pub(crate) fn of_searches(&self) -> &Arc<FieldRules> {
        &self.search_time.rules
    }

    /// The settings.
    pub fn props(&self) -> &Arc<PropsResolver> {
        self.search_time.rules.props()
    }
}

/// Everything a scan needs besides its plan and its snapshot.
pub struct ScanEnvironment<'a> {
    /// Rules of field extraction.
    pub rules: &'a ScanRules,
    /// Tables of automatic lookups.
    pub lookups: &'a Arc<dyn LookupSource>,
    /// Event types and tags.
    pub labels: &'a dyn LabelSource,
    /// Name of the node.
    pub node: String,
    /// Summaries of data models.
    pub summaries: &'a Arc<dyn SummaryStore>,
    /// Receives the progress of the scan.
    pub progress: &'a Arc<ScanProgress>,
    /// Context of the search.
    pub context: &'a CommandContext,
}

impl ScanEnvironment<'_> {
    /// Prepares to read the events of a scan.
    pub fn scan(&self, plan: &Scan, snapshot: Snapshot) -> Result<EventScan, EngineError> {
        let side = match plan.fields {
            FieldSource::SearchTime => &self.rules.search_time,
            FieldSource::IndexTime => &self.rules.index_time,
        };
        let mut projection = Projection::new(&plan.projection);
        projection.test_patterns(&plan.condition);
        let kept = &side.pattern_readers;
        let rexes = PushedCommands::new(&plan.extractions, &mut projection, kept);
        let tables = match self.rules.skips_lookups {
            true => Tables::skipped(Arc::clone(self.lookups)),
            false => Tables::new(Arc::clone(self.lookups)),
        };
        let derived = match plan.fields {
            FieldSource::IndexTime => DerivedNames::default(),
            FieldSource::SearchTime => DerivedNames::new(side.rules.derived_names(), &tables, &self.labels.fields()),
        };
        self.list_fields(&mut projection, plan, &snapshot, side, &derived);
        let (filter, demands, derivations) =
            self.condition(plan, &side.rules, &projection, &rexes, (tables, &derived))?;
        let summary = plan.summary.clone().map(|summary| SummaryReader::new(summary, Arc::clone(self.summaries)));
        Ok(EventScan {
            snapshot,
            range: plan.range,
            index_range: plan.arrival,
            filter,
            rules: Arc::clone(&side.rules),
            derivations,
            shown: ShownFields::default(),
            rexes,
            computed_rexes: PushedCommands::new(&[], &mut projection, kept),
            projection,
            slabs: SlabCache::new(Arc::clone(&side.facts_cache)),
            needles: NeedleSlabs::new(Arc::clone(&side.facts_cache)),
            top_k: plan.top.as_ref().map(|top| TopKThreshold::new(top, &plan.extractions)),
            first: plan.first.clone(),
            demands,
            selector: None,
            summary,
            extremes: plan.extremes,
            counts: plan.counts,
            keeps_numbers: false,
            progress: Arc::clone(self.progress),
            stop: Arc::clone(&self.context.stop),
        })
    }

    /// Lets the scan select rows with these commands, the first commands after the scan, if the plan allows it.
    pub fn select_rows(
        &self,
        scan: &mut EventScan,
        plan: &Scan,
        commands: Vec<MakeRowCommand>,
    ) -> Result<(), EngineError> {
        let Some(selection) = &plan.selection else { return Ok(()) };
        let narrow = Scan { projection: selection.projection.clone(), selection: None, ..plan.clone() };
        let narrow = self.scan(&narrow, scan.snapshot.clone())?;
        scan.shown.admit(selection.projection.fields.iter());
        scan.selector = Some(RowSelector::new(narrow, commands, selection.limit.as_ref()));
        Ok(())
    }

    /// Adds the fields that match the name patterns of a projection to its names, if the templates of the segments
    /// determine them.
    fn list_fields(
        &self,
        projection: &mut Projection,
        plan: &Scan,
        snapshot: &Snapshot,
        side: &RuleSet,
        derived: &DerivedNames,
    ) {
        let patterns = &projection.patterns;
        let has_only_patterns = !projection.all && !projection.every && projection.tested_patterns.is_empty();
        // Default fields are computed from texts.
        let reads_texts = patterns.iter().any(|pattern| is_default_field(pattern));
        let is_plain = plan.extractions.is_empty() && plan.summary.is_none() && plan.fields == FieldSource::SearchTime;
        // Segments that are not open yet may have further names.
        if patterns.is_empty() || !has_only_patterns || reads_texts || !is_plain || !snapshot.later.is_empty() {
            return;
        }
        let (segments, messages) = (&snapshot.segments, &self.context.messages);
        let is_wanted = |name: &str| patterns.iter().any(|pattern| wildcard_parts(pattern, name).is_some());
        let found = listed_names(segments, &side.facts_cache, &side.rules, messages, &is_wanted);
        let Some(mut fields) = found else { return };
        let metas: Vec<Metadata> = segments.iter().flat_map(|segment| segment.metas().to_vec()).collect();
        fields.extend(derived.fields_of(&metas).filter(|name| is_wanted(name)).cloned());
        if fields.len() <= LISTED_NAMES_MAX {
            projection.list(fields);
        }
    }

    /// Compiles the condition of a scan and the conditions of later commands that it tests ([`PushedPredicates`]), and
    /// prepares the rules that derive search-time fields.
    fn condition(
        &self,
        plan: &Scan,
        rules: &FieldRules,
        projection: &Projection,
        rexes: &PushedCommands,
        (tables, derived): (Tables, &DerivedNames),
    ) -> Result<(EventFilter, PushedPredicates, Derivations), EngineError> {
        let expressions = self.context.expressions();
        let origins = Origins::new(rules, derived);
        let filter = EventFilter::new(&plan.condition, &origins)?;
        let demands =
            PushedPredicates::new(&plan.demands, &filter, &|field| rexes.value_source(field), &origins, &expressions)?;
        let search = DerivationRequest { projection, filter: &filter, names: derived, node: self.node.clone() };
        let messages = &self.context.messages;
        let derivations = Derivations::new(rules.props(), &search, tables, self.labels, &expressions, messages)?;
        Ok((filter, demands, derivations))
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::Layers;

    use super::*;

    #[test]
    fn rules_share_pattern_readers_but_no_facts() {
        let rules = || ScanRules::new(Arc::new(PropsResolver::new(&Layers::new([]))));
        let whole = rules();
        let shared = rules().with_shared_readers(&whole);
        for side in [&whole.index_time, &shared.search_time, &shared.index_time] {
            assert!(Arc::ptr_eq(&side.pattern_readers, &whole.search_time.pattern_readers));
            assert!(!Arc::ptr_eq(&side.facts_cache, &whole.search_time.facts_cache));
        }
    }
}
