//! Search-time fields added after extraction: aliases, calculated fields, lookups, event types, tags.
//!
//! [`plan`] traces the fields that a search needs back through the rules of a source to the fields that must be
//! extracted from the text. Sources whose rules produce none of the needed fields are read as if they had no rules. For
//! other sources, rules run in Splunk's order over columns: over the columns of template pages if these contain all
//! fields that the rules read ([`column_rules`]), otherwise over columns extracted from text, with the same result.
//!
//! `REPORT-` transforms that read only the text are extracted together with `EXTRACT-`; if the templates give the
//! positions of their fields, no text is rebuilt. Transforms that read other fields or append values run with the rules
//! here.
//!
//! Not here: extraction by `EXTRACT-` and `REPORT-` ([`crate::fields`]); expansion of event types and tags in a
//! condition (engine).

pub(crate) mod column_rules;
mod defaults;
mod names;
mod plan;
mod requested_fields;
mod tables;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, BooleanArray};
use arrow::record_batch::RecordBatch;
use quarry_conf::{PropsResolver, SearchTimeRules};
use quarry_eval::EngineError;
use quarry_eval::expr::ExprContext;
use quarry_eval::messages::Messages;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_event::{Metadata, Page};
use quarry_spl::analyse::search_fields;
use quarry_stdx::number::u32_of;
use quarry_store::Segment;

pub(crate) use self::column_rules::FieldStrategy;
use self::column_rules::{ComputedFields, apply_plans_by_row};
use self::defaults::DefaultFields;
pub(crate) use self::defaults::{LINE_COUNT_FIELD, is_default_field};
pub(crate) use self::names::{DerivedNames, RuleFieldNames, Scope, named_fields, sourcetype_term};
use self::plan::{Plan, with_column};
use self::requested_fields::RequestedFields;
pub(crate) use self::tables::Tables;
use super::fields::Projection;
use super::filter::EventFilter;
use crate::labels::{LabelCondition, LabelSource};
use crate::metadata_cache::MetadataCache;

/// Search-time fields that knowledge objects add to the events of one search.
pub(crate) struct Derivations {
    props: Arc<PropsResolver>,
    tables: Tables,
    context: ExprContext,
    requested: RequestedFields,
    /// Fields to compute over columns; if all texts are rebuilt in any case, only those that the condition tests.
    of_columns: RequestedFields,
    /// Fields that the condition tests, each with the events in which a rule may produce the field.
    tested: Vec<(String, Option<Scope>)>,
    labels: Vec<Label>,
    /// Events for which a rule may produce a requested field; `None` if there are no such events.
    by_rules: Option<Scope>,
    defaults: DefaultFields,
    /// Whether the search requests labels, every field by `*`, or default fields that only the event texts yield.
    needs_texts: bool,
    plans: Mutex<PlanCache>,
    column_plans: Mutex<PlanCache>,
    strategies: Mutex<Vec<(Arc<dyn Segment>, FieldStrategy)>>,
}

/// Maximum number of segments whose [`FieldStrategy`] is cached. Segments are read one after the other, so a few
/// suffice.
const CACHED_SEGMENTS_MAX: usize = 64;

/// Plans by metadata; sources with equal rules share a plan.
#[derive(Default)]
struct PlanCache {
    by_meta: MetadataCache<Arc<Plan>>,
    by_rules: Vec<(SearchTimeRules, Arc<Plan>)>,
}

/// Fields and condition of a search.
pub(crate) struct DerivationRequest<'a> {
    /// Fields that the commands of the search need.
    pub projection: &'a Projection,
    /// Condition of the search.
    pub filter: &'a EventFilter,
    /// Fields that rules may produce.
    pub names: &'a DerivedNames,
    /// Name of the node.
    pub node: String,
}

/// An event type or tag; its name becomes a value of some fields of the events that pass its condition.
struct Label {
    fields: Vec<String>,
    name: String,
    condition: RowFilter,
}

impl Derivations {
    /// Prepares the search-time fields of a search.
    pub(crate) fn new(
        props: &Arc<PropsResolver>,
        search: &DerivationRequest<'_>,
        tables: Tables,
        labels: &dyn LabelSource,
        context: &ExprContext,
        messages: &Messages,
    ) -> Result<Derivations, EngineError> {
        let tested: Vec<String> = search.filter.names().map(str::to_owned).collect();
        let mut wanted = RequestedFields::of(search.projection, tested.iter().map(String::as_str));
        let of_columns = match search.projection.includes_unnamed() {
            true => RequestedFields::of(&Projection::default(), tested.iter().map(String::as_str)),
            false => wanted.clone(),
        };
        let is_label = labels.fields().iter().any(|field| of_columns.names.contains(field));
        let mut found = Vec::new();
        if labels.fields().iter().any(|field| wanted.contains(field)) {
            for LabelCondition { fields, name, condition } in labels.conditions(messages) {
                if fields.iter().any(|field| wanted.contains(field)) {
                    wanted.names.extend(search_fields(&condition));
                    found.push(Label { fields, name, condition: RowFilter::new(&condition, context)? });
                }
            }
        }
        let by_rules = search.names.scope_of_requested(&wanted);
        let defaults = DefaultFields::new(props, &wanted, context.now, search.node.clone());
        // Templates determine the number of lines of most events.
        let is_of_text = |name: &String| is_default_field(name) && name != LINE_COUNT_FIELD;
        let is_default = of_columns.names.iter().any(is_of_text);
        let tested = tested.into_iter().map(|name| (name.clone(), search.names.scope_of(&name))).collect();
        Ok(Derivations {
            props: Arc::clone(props),
            tables,
            context: context.clone(),
            requested: wanted,
            needs_texts: is_label || is_default || (search.projection.every && !search.projection.includes_unnamed()),
            of_columns,
            tested,
            labels: found,
            by_rules,
            defaults,
            plans: Mutex::default(),
            column_plans: Mutex::default(),
            strategies: Mutex::default(),
        })
    }

    /// The [`FieldStrategy`] of a segment, cached for recent segments.
    pub(crate) fn strategy_of(
        &self,
        segment: &Arc<dyn Segment>,
        messages: &Messages,
    ) -> Result<FieldStrategy, EngineError> {
        let is_known = |(known, _): &&(Arc<dyn Segment>, FieldStrategy)| Arc::ptr_eq(known, segment);
        if let Some((_, way)) = self.strategies.lock().unwrap_or_else(PoisonError::into_inner).iter().find(is_known) {
            return Ok(way.clone());
        }
        let way = self.compute_strategy(&segment.metas(), messages)?;
        let mut ways = self.strategies.lock().unwrap_or_else(PoisonError::into_inner);
        if ways.len() == CACHED_SEGMENTS_MAX {
            ways.remove(0);
        }
        ways.push((Arc::clone(segment), way.clone()));
        Ok(way)
    }

    fn compute_strategy(&self, metas: &[Metadata], messages: &Messages) -> Result<FieldStrategy, EngineError> {
        if !self.may_produce_fields(metas, messages)? {
            return Ok(FieldStrategy::default());
        }
        let mut of_metas = Vec::with_capacity(metas.len());
        let mut way = FieldStrategy { by_text: self.needs_texts, ..FieldStrategy::default() };
        for meta in metas {
            let plan = self.column_plan(meta, messages)?;
            way.by_text |= !plan.reads_only_columns();
            way.index_time |= self.plan(meta, messages)?.required_fields().contains("_indextime");
            of_metas.push(plan);
        }
        if !way.by_text && of_metas.iter().any(|plan| !plan.is_empty()) {
            way.computed = Some(Arc::new(ComputedFields::new(metas, &of_metas, &self.tested)));
        }
        Ok(way)
    }

    /// Whether a rule may produce a requested field for events with one of these metadata.
    pub(crate) fn may_produce_fields(&self, metas: &[Metadata], messages: &Messages) -> Result<bool, EngineError> {
        if !self.labels.is_empty() || self.defaults.is_requested() {
            return Ok(true);
        }
        let Some(scope) = &self.by_rules else { return Ok(false) };
        for meta in metas.iter().filter(|meta| scope.contains(&meta.sourcetype)) {
            if !self.plan(meta, messages)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn plan(&self, meta: &Metadata, messages: &Messages) -> Result<Arc<Plan>, EngineError> {
        self.plan_in(&self.plans, &self.requested, meta, messages)
    }

    /// The rules that are evaluated over columns for events with these metadata.
    fn column_plan(&self, meta: &Metadata, messages: &Messages) -> Result<Arc<Plan>, EngineError> {
        self.plan_in(&self.column_plans, &self.of_columns, meta, messages)
    }

    fn plan_in(
        &self,
        plans: &Mutex<PlanCache>,
        wanted: &RequestedFields,
        meta: &Metadata,
        messages: &Messages,
    ) -> Result<Arc<Plan>, EngineError> {
        if let Some(plan) = plans.lock().unwrap_or_else(PoisonError::into_inner).by_meta.get(meta) {
            return Ok(Arc::clone(plan));
        }
        let is_in_scope = self.by_rules.as_ref().is_some_and(|scope| scope.contains(&meta.sourcetype));
        let rules = match is_in_scope {
            true => self.props.resolve(&meta.source, &meta.host, &meta.sourcetype).search_time,
            false => SearchTimeRules::default(),
        };
        let known = {
            let plans = plans.lock().unwrap_or_else(PoisonError::into_inner);
            plans.by_rules.iter().find(|(known, _)| *known == rules).map(|(_, plan)| Arc::clone(plan))
        };
        let made = known.unwrap_or_else(|| Arc::new(Plan::new(&rules, wanted, &self.tables, &self.context, messages)));
        let mut plans = plans.lock().unwrap_or_else(PoisonError::into_inner);
        // Two workers may build the same plan; that is harmless.
        let plan = match plans.by_rules.iter().find(|(known, _)| *known == rules) {
            Some((_, plan)) => Arc::clone(plan),
            None => {
                plans.by_rules.push((rules, Arc::clone(&made)));
                made
            }
        };
        plans.by_meta.insert(meta.clone(), Arc::clone(&plan));
        Ok(plan)
    }

    /// Fields to extract for the events of a page: the requested fields and the fields from which they are derived.
    /// `None` if no rule affects the requested fields.
    pub(crate) fn projection_for(
        &self,
        events: &Page,
        projection: &Projection,
        messages: &Messages,
    ) -> Result<Option<Projection>, EngineError> {
        if !self.may_produce_fields(&events.metas, messages)? {
            return Ok(None);
        }
        let mut wide = projection.clone();
        let mut names: BTreeSet<String> = self.requested.names.clone();
        for meta in events.metas.iter() {
            names.extend(self.plan(meta, messages)?.required_fields().iter().cloned());
        }
        wide.raw |= names.contains("_raw");
        wide.index_time |= names.contains("_indextime");
        let more: Vec<String> = names.into_iter().filter(|name| !wide.names.contains(name)).collect();
        wide.names.extend(more);
        Ok(Some(wide))
    }

    /// Adds the requested search-time fields to the rows. `selected` has each row's position in the page, `wide` has
    /// the extracted fields.
    pub(crate) fn add(
        &self,
        rows: RecordBatch,
        events: &Page,
        selected: &[u32],
        wide: &Projection,
        messages: &Messages,
    ) -> Result<RecordBatch, EngineError> {
        let rows = self.defaults.add(rows, events, selected, &wide.names, messages)?;
        let mut plans: Vec<Arc<Plan>> = Vec::new();
        let mut plan_of: Vec<Option<u32>> = vec![None; events.metas.len()];
        let mut of_rows: Vec<u32> = Vec::with_capacity(selected.len());
        for row in selected {
            let meta = events.meta[*row as usize] as usize;
            let number = match plan_of[meta] {
                Some(number) => number,
                None => {
                    let plan = self.plan(&events.metas[meta], messages)?;
                    let known = plans.iter().position(|known| Arc::ptr_eq(known, &plan));
                    u32_of(known.unwrap_or_else(|| {
                        plans.push(plan);
                        plans.len() - 1
                    }))
                }
            };
            plan_of[meta] = Some(number);
            of_rows.push(number);
        }
        let rows = apply_plans_by_row(rows, &plans, of_rows.into_iter())?;
        self.label(rows)
    }

    /// Adds `eventtype`, `tag` and `tag::field`.
    fn label(&self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut fields: Vec<(&str, Vec<(&str, BooleanArray)>)> = Vec::new();
        for label in &self.labels {
            let passes = label.condition.matches(&rows)?;
            for field in &label.fields {
                match fields.iter_mut().find(|(known, _)| known == field) {
                    Some((_, names)) => names.push((&label.name, passes.clone())),
                    None => fields.push((field, vec![(&label.name, passes.clone())])),
                }
            }
        }
        let mut result = rows;
        for (field, names) in fields {
            if self.requested.contains(field) {
                let column = append_label_names(&result, field, &names);
                result = with_column(&result, field, column)?;
            }
        }
        Ok(result)
    }
}

/// The existing values of a field, followed by the names of the labels that apply to the row.
fn append_label_names(rows: &RecordBatch, field: &str, names: &[(&str, BooleanArray)]) -> ArrayRef {
    let is_whole = |(_, passes): &(&str, BooleanArray)| passes.values().len() == rows.num_rows();
    assert!(names.iter().all(is_whole), "the condition of a label is tested on every row");
    let old = rows::reader(rows, field);
    let mut column = ColumnBuilder::new(rows.num_rows());
    for row in 0..rows.num_rows() {
        let mut values: Vec<String> = old.values(row).map(std::borrow::Cow::into_owned).collect();
        for (name, passes) in names {
            if passes.value(row) && !values.iter().any(|value| value == name) {
                values.push((*name).to_owned());
            }
        }
        column.push_multi(values);
    }
    column.finish()
}
