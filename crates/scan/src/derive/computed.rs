//! Rules of the sources of one segment as its columns see them: which fields only have another name, which have to be
//! computed, and of what.
//!
//! Rules that read columns alone are carried out on those, so that no text is rebuilt for them. Rules that read the text
//! of an event, or what events are labelled with, are not: then the segment's pages are read as text.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{self, concat_rows};
use quarry_event::Metadata;

use super::names::Scope;
use super::plan::Plan;

/// How the events of a segment come by the fields that a search asks for.
#[derive(Clone, Default)]
pub(crate) struct Way {
    /// Whether only their texts tell.
    pub by_text: bool,
    /// Whether rules may read when events came.
    pub index_time: bool,
    /// What is computed of columns.
    pub computed: Option<Arc<ComputedFields>>,
}

/// Fields that rules give to the events of a segment, by columns.
pub(crate) struct ComputedFields {
    plans: Vec<Arc<Plan>>,
    /// Number of the plan of each metadata.
    plan_of: Vec<u32>,
    /// What the rules read of what events hold.
    reads: Vec<String>,
    gives: Vec<String>,
    /// Names that are only other names of fields that events hold.
    pub aliases: Vec<Alias>,
    /// Names that the condition tests, with the metadata whose events need not hold a value of theirs as it is written.
    unwritten: Vec<(String, Vec<bool>)>,
}

/// Another name of a field, the same for all events of a segment.
pub(crate) struct Alias {
    /// The name.
    pub target: String,
    /// The field.
    pub source: String,
    /// Whether a value that events have of the name stays.
    pub only_new: bool,
}

impl ComputedFields {
    /// What these plans, one per metadata, give. `tested` are names of the condition and the events that rules may give
    /// them.
    pub(super) fn new(
        metas: &[Metadata],
        of_metas: &[Arc<Plan>],
        tested: &[(String, Option<Scope>)],
    ) -> ComputedFields {
        assert_eq!(metas.len(), of_metas.len(), "every source has a plan");
        let mut plans: Vec<Arc<Plan>> = Vec::new();
        let plan_of = of_metas.iter().map(|plan| {
            let known = plans.iter().position(|known| Arc::ptr_eq(known, plan));
            known.unwrap_or_else(|| {
                plans.push(Arc::clone(plan));
                plans.len() - 1
            }) as u32
        });
        let plan_of = plan_of.collect();
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.dedup();
            names
        };
        let gives = sorted(plans.iter().flat_map(|plan| plan.gives()).map(str::to_owned).collect());
        let mut reads: Vec<String> = Vec::new();
        for plan in &plans {
            reads.extend(plan.reads().into_iter().map(str::to_owned));
            // What these events hold stays.
            reads.extend(gives.iter().filter(|name| !plan.gives().any(|given| given == *name)).cloned());
        }
        let reads = sorted(reads);
        let alias = |target: &String| {
            let mut all = plans.iter().map(|plan| plan.only_alias(target));
            let first = all.next()??;
            let source = first.source.to_owned();
            (all.all(|other| other == Some(first))).then(|| Alias {
                target: target.clone(),
                source,
                only_new: first.only_new,
            })
        };
        let aliases = gives.iter().filter_map(alias).collect();
        let holds =
            |scope: &Option<Scope>, meta: &Metadata| scope.as_ref().is_some_and(|scope| scope.holds(&meta.sourcetype));
        let unwritten = (tested.iter())
            .map(|(name, scope)| (name.clone(), metas.iter().map(|meta| holds(scope, meta)).collect()))
            .collect();
        ComputedFields { plans, plan_of, reads, gives, aliases, unwritten }
    }

    /// Fields that have to be read for it.
    pub(crate) fn reads(&self) -> &[String] {
        &self.reads
    }

    /// Fields that it gives, by name.
    pub(crate) fn gives(&self) -> &[String] {
        &self.gives
    }

    /// Whether each event is given the same.
    pub(crate) fn is_alike(&self) -> bool {
        self.plans.len() <= 1
    }

    /// By metadata whether a value of a field need not stand in the text as it is written.
    pub(crate) fn unwritten(&self, name: &str) -> Option<&[bool]> {
        self.unwritten.iter().find(|(known, _)| known == name).map(|(_, unwritten)| unwritten.as_slice())
    }

    /// The rows with what is given to them; `metas` says which metadata each has, unless all are given the same.
    pub(crate) fn apply(&self, rows: RecordBatch, metas: &[u32]) -> Result<RecordBatch, EngineError> {
        match self.plans.as_slice() {
            [] => Ok(rows),
            [plan] => plan.apply(rows),
            plans => {
                assert_eq!(metas.len(), rows.num_rows(), "every row has a source");
                let plan_of = |meta: &u32| self.plan_of.get(*meta as usize).copied().unwrap_or_default();
                by_plan(rows, plans, metas.iter().map(plan_of))
            }
        }
    }
}

/// The rows with what each one's plan, by number, adds to it.
pub(super) fn by_plan(
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
        parts.push(rows::plain(&part)?);
    }
    rows::take(&concat_rows(parts)?, &UInt32Array::from(order))
}
