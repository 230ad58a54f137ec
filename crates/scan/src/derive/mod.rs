//! Fields that knowledge adds to events once fields are cut: aliases, calculated fields, lookups, event types, tags.
//!
//! A search asks for the fields it needs; [`plan`] follows these back through the rules of one source to what must be
//! cut out of the text for them. Pages of sources whose rules give nothing that is needed are read as if there were
//! no rules. The others are read as text, whatever form they are stored in, so that the answer is the same for each,
//! and the rules work on their columns in Splunk's order.
//!
//! Transforms (`REPORT-`) that read the text alone are cut with it, as `EXTRACT-` is, and need no text where templates
//! tell where their fields lie; those that read other fields or add values go the way of the rules here.
//!
//! Not here: how `EXTRACT-` and `REPORT-` cut ([`crate::fields`]), what a label stands for in a condition (engine).

mod defaults;
mod names;
mod needs;
mod plan;
mod tables;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_conf::{PropsResolver, SearchTimeRules};
use quarry_eval::EngineError;
use quarry_eval::expr::ExprContext;
use quarry_eval::messages::Messages;
use quarry_eval::row_filter::RowFilter;
use quarry_eval::rows::{self, ColumnBuilder, concat_rows};
use quarry_event::{Metadata, Page};
use quarry_spl::analyse::search_fields;

use self::defaults::DefaultFields;
pub(crate) use self::defaults::is_default_field;
pub(crate) use self::names::{DerivedNames, Scope};
use self::needs::Wanted;
use self::plan::Plan;
pub(crate) use self::tables::Tables;
use super::fields::Projection;
use super::filter::EventFilter;
use crate::labels::{LabelCondition, LabelSource};

/// What knowledge adds to the events of one search.
pub(crate) struct Derivations {
    props: Arc<PropsResolver>,
    tables: Tables,
    context: ExprContext,
    wanted: Wanted,
    labels: Vec<Label>,
    /// The events that a rule may give a field that is wanted; `None` for none.
    by_rules: Option<Scope>,
    defaults: DefaultFields,
    plans: Mutex<HashMap<Metadata, Arc<Plan>, FixedState>>,
}

/// What a search asks for.
pub(crate) struct Asked<'a> {
    /// Fields of its commands.
    pub projection: &'a Projection,
    /// Its condition.
    pub filter: &'a EventFilter,
    /// Fields that rules may give.
    pub names: &'a DerivedNames,
    /// Name of the node.
    pub node: String,
}

/// A name that events which pass a condition have as a value of some fields.
struct Label {
    fields: Vec<String>,
    name: String,
    condition: RowFilter,
}

impl Derivations {
    /// What is added for a search.
    pub(crate) fn new(
        props: &Arc<PropsResolver>,
        search: &Asked<'_>,
        tables: Tables,
        labels: &dyn LabelSource,
        context: &ExprContext,
        messages: &Messages,
    ) -> Result<Derivations, EngineError> {
        let mut wanted = Wanted::of(search.projection, search.filter.names());
        let mut found = Vec::new();
        if labels.fields().iter().any(|field| wanted.wants(field)) {
            for LabelCondition { fields, name, condition } in labels.conditions(messages) {
                if fields.iter().any(|field| wanted.wants(field)) {
                    wanted.names.extend(search_fields(&condition));
                    found.push(Label { fields, name, condition: RowFilter::new(&condition, context)? });
                }
            }
        }
        let by_rules = search.names.scope_of_wanted(&wanted);
        let defaults = DefaultFields::new(props, &wanted, context.now, search.node.clone());
        Ok(Derivations {
            props: Arc::clone(props),
            tables,
            context: context.clone(),
            wanted,
            labels: found,
            by_rules,
            defaults,
            plans: Mutex::default(),
        })
    }

    /// Whether events with one of these metadata are given a field that is wanted.
    pub(crate) fn concerns(&self, metas: &[Metadata], messages: &Messages) -> Result<bool, EngineError> {
        if !self.labels.is_empty() || self.defaults.are_wanted() {
            return Ok(true);
        }
        let Some(scope) = &self.by_rules else { return Ok(false) };
        for meta in metas.iter().filter(|meta| scope.holds(&meta.sourcetype)) {
            if !self.plan(meta, messages)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn plan(&self, meta: &Metadata, messages: &Messages) -> Result<Arc<Plan>, EngineError> {
        if let Some(plan) = self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(meta) {
            return Ok(Arc::clone(plan));
        }
        let is_in_scope = self.by_rules.as_ref().is_some_and(|scope| scope.holds(&meta.sourcetype));
        let rules = match is_in_scope {
            true => self.props.resolve(&meta.source, &meta.host, &meta.sourcetype).search_time,
            false => SearchTimeRules::default(),
        };
        let plan = Arc::new(Plan::new(&rules, &self.wanted, &self.tables, &self.context, messages));
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).insert(meta.clone(), Arc::clone(&plan));
        Ok(plan)
    }

    /// The fields to cut for events of a page: those wanted and those the others are made of. `None` when nothing is
    /// added to them.
    pub(crate) fn projection_for(
        &self,
        events: &Page,
        projection: &Projection,
        messages: &Messages,
    ) -> Result<Option<Projection>, EngineError> {
        if !self.concerns(&events.metas, messages)? {
            return Ok(None);
        }
        let mut wide = projection.clone();
        let mut names: BTreeSet<String> = self.wanted.names.clone();
        for meta in events.metas.iter() {
            names.extend(self.plan(meta, messages)?.needs().iter().cloned());
        }
        wide.raw |= names.contains("_raw");
        wide.index_time |= names.contains("_indextime");
        let more: Vec<String> = names.into_iter().filter(|name| !wide.names.contains(name)).collect();
        wide.names.extend(more);
        Ok(Some(wide))
    }

    /// The rows with the fields added that are wanted. `selected` are their places in the page, `wide` what was cut.
    pub(crate) fn add(
        &self,
        rows: RecordBatch,
        events: &Page,
        selected: &[u32],
        wide: &Projection,
        messages: &Messages,
    ) -> Result<RecordBatch, EngineError> {
        let rows = self.defaults.add(rows, events, selected, &wide.names, messages)?;
        let mut plans: Vec<(Arc<Plan>, Vec<u32>)> = Vec::new();
        for (place, row) in selected.iter().enumerate() {
            let plan = self.plan(&events.metas[events.meta[*row as usize] as usize], messages)?;
            match plans.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &plan)) {
                Some((_, places)) => places.push(place as u32),
                None => plans.push((plan, vec![place as u32])),
            }
        }
        let rows = match plans.as_slice() {
            [] => rows,
            [(plan, _)] => plan.apply(rows)?,
            _ => {
                let mut order = vec![0_u32; rows.num_rows()];
                let mut parts = Vec::new();
                let mut done = 0;
                for (plan, places) in plans {
                    for place in &places {
                        order[*place as usize] = done;
                        done += 1;
                    }
                    parts.push(plan.apply(rows::take(&rows, &UInt32Array::from(places))?)?);
                }
                rows::take(&concat_rows(parts)?, &UInt32Array::from(order))?
            }
        };
        self.label(rows)
    }

    /// The rows with `eventtype`, `tag` and `tag::field`.
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
            if self.wanted.wants(field) {
                let column = with_names(&result, field, &names);
                result = with_column(&result, field, column)?;
            }
        }
        Ok(result)
    }
}

/// The values a field has, then the names of the labels that a row has.
fn with_names(rows: &RecordBatch, field: &str, names: &[(&str, BooleanArray)]) -> ArrayRef {
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

/// The rows with a column, or without it when no row has a value.
fn with_column(rows: &RecordBatch, name: &str, column: ArrayRef) -> Result<RecordBatch, EngineError> {
    if rows::ColumnReader::new(&column).present().is_some_and(|present| present.null_count() == column.len()) {
        return rows::without(rows, |known| known == name);
    }
    rows::with_column(rows, name, column)
}
