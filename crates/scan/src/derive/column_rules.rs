//! Search-time rules of one segment's sources, evaluated over columns: which fields are plain aliases, which must be
//! computed, and from which columns.
//!
//! Rules that read only columns are evaluated on the columns, so no event text is rebuilt for them. If a rule reads
//! `_raw` or `_indextime` or calls `searchmatch`, or if labels (event types, tags) are requested, the segment's pages
//! are read as text.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{self, concat_rows};
use quarry_event::Metadata;
use quarry_stdx::number::u32_of;

use super::names::Scope;
use super::plan::Plan;

/// Method by which a scan obtains the requested fields of a segment's events.
#[derive(Clone, Default)]
pub(crate) struct FieldStrategy {
    /// Whether the fields can only be extracted from the event texts.
    pub by_text: bool,
    /// Whether rules may read `_indextime`.
    pub index_time: bool,
    /// Fields that rules compute from columns.
    pub computed: Option<Arc<ComputedFields>>,
}

/// Fields that search-time rules add to a segment's events, computed over columns.
pub(crate) struct ComputedFields {
    plans: Vec<Arc<Plan>>,
    /// For each metadata code, the index into `plans`.
    plan_of: Vec<u32>,
    /// Stored fields that the rules read.
    reads: Vec<String>,
    gives: Vec<String>,
    /// Fields that are mere aliases of stored fields.
    pub aliases: Vec<Alias>,
    /// Fields that the condition tests, each with a flag per metadata code: whether an event may have a value that its
    /// text does not contain verbatim.
    unwritten: Vec<(String, Vec<bool>)>,
}

/// An alias that applies to all events of a segment.
pub(crate) struct Alias {
    /// Name of the alias.
    pub target: String,
    /// The aliased field.
    pub source: String,
    /// Whether an event's own value of `target` takes precedence.
    pub only_new: bool,
}

impl ComputedFields {
    /// `of_metas` has the plan of each metadata code. `tested` lists the condition's fields, each with the events in
    /// which a rule may produce the field.
    pub(super) fn new(
        metas: &[Metadata],
        of_metas: &[Arc<Plan>],
        tested: &[(String, Option<Scope>)],
    ) -> ComputedFields {
        assert_eq!(metas.len(), of_metas.len(), "every source has a plan");
        let mut plans: Vec<Arc<Plan>> = Vec::new();
        let plan_of = of_metas.iter().map(|plan| {
            let known = plans.iter().position(|known| Arc::ptr_eq(known, plan));
            u32_of(known.unwrap_or_else(|| {
                plans.push(Arc::clone(plan));
                plans.len() - 1
            }))
        });
        let plan_of = plan_of.collect();
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            names
        };
        let gives = sorted(plans.iter().flat_map(|plan| plan.output_fields()).map(str::to_owned).collect());
        let mut reads: Vec<String> = Vec::new();
        for plan in &plans {
            reads.extend(plan.input_fields().into_iter().map(str::to_owned));
            // If the plan of some events does not produce a field, but other plans do, these events keep their own
            // value of the field, so the field's column is read as well.
            reads.extend(gives.iter().filter(|name| !plan.output_fields().any(|given| given == *name)).cloned());
        }
        let reads = sorted(reads);
        let alias = |target: &String| {
            let mut all = plans.iter().map(|plan| plan.sole_alias(target));
            let first = all.next()??;
            let source = first.source.to_owned();
            (all.all(|other| other == Some(first))).then(|| Alias {
                target: target.clone(),
                source,
                only_new: first.only_new,
            })
        };
        let aliases = gives.iter().filter_map(alias).collect();
        let holds = |scope: &Option<Scope>, meta: &Metadata| {
            scope.as_ref().is_some_and(|scope| scope.contains(&meta.sourcetype))
        };
        let unwritten = (tested.iter())
            .map(|(name, scope)| (name.clone(), metas.iter().map(|meta| holds(scope, meta)).collect()))
            .collect();
        ComputedFields { plans, plan_of, reads, gives, aliases, unwritten }
    }

    /// Stored fields that must be read.
    pub(crate) fn input_fields(&self) -> &[String] {
        &self.reads
    }

    /// Whether rules produce this field.
    pub(crate) fn has_output(&self, name: &str) -> bool {
        self.gives.iter().any(|given| given == name)
    }

    /// Whether all events share one plan.
    pub(crate) fn is_uniform(&self) -> bool {
        self.plans.len() <= 1
    }

    /// For a field of the condition, whether events of each metadata code may have a value that their text does not
    /// contain verbatim.
    pub(crate) fn nonverbatim_metas(&self, name: &str) -> Option<&[bool]> {
        self.unwritten.iter().find(|(known, _)| known == name).map(|(_, unwritten)| unwritten.as_slice())
    }

    /// Adds the computed fields to the rows. `metas` has the metadata code of each row and may be empty if
    /// [`ComputedFields::is_uniform`].
    pub(crate) fn apply(&self, rows: RecordBatch, metas: &[u32]) -> Result<RecordBatch, EngineError> {
        match self.plans.as_slice() {
            [] => Ok(rows),
            [plan] => plan.apply(rows),
            plans => {
                assert_eq!(metas.len(), rows.num_rows(), "every row has a source");
                let plan_of = |meta: &u32| self.plan_of.get(*meta as usize).copied().unwrap_or_default();
                apply_plans_by_row(rows, plans, metas.iter().map(plan_of))
            }
        }
    }
}

/// Applies to each row the plan with the given index.
pub(super) fn apply_plans_by_row(
    rows: RecordBatch,
    plans: &[Arc<Plan>],
    plan_of: impl Iterator<Item = u32>,
) -> Result<RecordBatch, EngineError> {
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); plans.len()];
    (0..).zip(plan_of).for_each(|(place, plan)| places[plan as usize].push(place));
    let used = plans.iter().zip(&places).filter(|(_, places)| !places.is_empty());
    if used.clone().count() <= 1 {
        return used.map(|(plan, _)| plan).next().map_or_else(|| Ok(rows.clone()), |plan| plan.apply(rows.clone()));
    }
    let mut order = vec![0_u32; rows.num_rows()];
    let (mut parts, mut done) = (Vec::new(), 0);
    for (plan, places) in used {
        for place in places {
            order[*place as usize] = done;
            done += 1;
        }
        let part = plan.apply(rows::take(&rows, &UInt32Array::from(places.clone()))?)?;
        parts.push(rows::decode_rows(&part)?);
    }
    rows::take(&concat_rows(parts)?, &UInt32Array::from(order))
}
