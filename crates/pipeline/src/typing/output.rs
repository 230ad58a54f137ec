//! End of the typing stage: events with their final keys are added to a batch, or returned to the caller.

use quarry_stdx::number::u32_of;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use quarry_conf::settings::indexes::IndexNames;
use quarry_conf::{PropsResolver, TypingSettings};
use quarry_event::{EventBatch, Metadata, TimeNs};

use super::event::TypedEvent;
use super::plan::{SharedPlan, TypingPlan};
use crate::pipeline::PipelineCounters;

/// Maximum number of cached plans by source, host and sourcetype; beyond that, the cache is cleared.
const CACHED_PLANS_MAX: usize = 4_096;
/// Maximum number of distinct plans shared by the cached entries; beyond that, the cache is cleared.
const DISTINCT_PLANS_MAX: usize = 256;

/// The typing stage of one source.
#[derive(Debug)]
pub(crate) struct Typing {
    plan: TypingPlan,
    indexes: Arc<IndexNames>,
    /// Whether the host was set explicitly, so that no rule may change it.
    host_is_fixed: bool,
    fields_max: usize,
    now: TimeNs,
    rows: MetadataRows,
    copies: Vec<TypedEvent>,
    refused: Option<String>,
}

impl Typing {
    /// The typing stage, if these settings require it.
    pub(crate) fn new(
        plan: TypingPlan,
        indexes: Arc<IndexNames>,
        host_is_fixed: bool,
        fields_max: usize,
        now: TimeNs,
    ) -> Option<Box<Typing>> {
        (!plan.is_empty()).then(|| {
            let (rows, copies) = (MetadataRows::default(), Vec::new());
            Box::new(Typing { plan, indexes, host_is_fixed, fields_max, now, rows, copies, refused: None })
        })
    }

    /// Must be called before events are added to a batch.
    pub(crate) fn begin(&mut self, out: &EventBatch) {
        self.rows.begin(out);
    }

    /// Sets a later current time.
    pub(crate) fn set_now(&mut self, now: TimeNs) {
        self.now = now;
    }

    /// First reason why an event did not go to the index named by a rule.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Runs the rules and adds the resulting events to the batch.
    pub(crate) fn take(&mut self, mut event: TypedEvent, out: &mut EventBatch, counters: &mut PipelineCounters) {
        let (index, host) = (Arc::clone(&event.meta.index), Arc::clone(&event.meta.host));
        let mut copies = std::mem::take(&mut self.copies);
        self.plan.run(&mut event, &mut copies, self.now);
        for mut event in std::iter::once(event).chain(copies.drain(..)) {
            if event.is_dropped {
                counters.dropped_events += 1;
                continue;
            }
            if self.host_is_fixed {
                event.meta.host = Arc::clone(&host);
            }
            if let Some(text) = resolve_index(&mut event.meta, &index, &self.indexes) {
                self.refused.get_or_insert(text);
            }
            counters.events += 1;
            counters.events_cut_by_rules += u64::from(event.is_truncated);
            let row = u32_of(out.len());
            let meta = self.rows.metadata_row(&event.meta, out);
            out.push(event.raw.as_bytes(), event.time, meta);
            let routing = event.routing().filter(|_| self.indexes.keeps_routing());
            let fields = event.fields.iter().take(self.fields_max).chain(&routing);
            fields.for_each(|(name, value)| out.fields.push(row, name, value));
        }
        self.copies = copies;
    }
}

/// Checks the index that rules have set. If it does not accept events, sets `lastChanceIndex` or the input's index
/// `own` instead, and returns the reason.
fn resolve_index(meta: &mut Metadata, own: &Arc<str>, indexes: &IndexNames) -> Option<String> {
    if Arc::ptr_eq(&meta.index, own) || meta.index == *own {
        return None;
    }
    let reason = indexes.check(&meta.index).err()?;
    let last_chance = indexes.last_chance().filter(|index| indexes.check(index).is_ok());
    meta.index = last_chance.map_or_else(|| Arc::clone(own), Arc::from);
    Some(format!("{reason}; events that rules sent there are in the index {}", meta.index))
}

/// Metadata rows of the current batch.
#[derive(Debug, Default)]
struct MetadataRows {
    /// Rows by metadata; at most as many as the batch has events.
    known: HashMap<Metadata, u32, RandomState>,
    last: Option<(Metadata, u32)>,
}

impl MetadataRows {
    fn begin(&mut self, out: &EventBatch) {
        // The row is valid only in the batch to which it was added.
        let is_same = self.last.as_ref().is_some_and(|(last, row)| {
            out.metas.get(*row as usize).is_some_and(|meta| {
                meta == last && Arc::ptr_eq(&meta.host, &last.host) && Arc::ptr_eq(&meta.source, &last.source)
            })
        });
        if !is_same {
            self.known.clear();
            self.last = None;
            let rows = out.metas.iter().enumerate().rev();
            self.known.extend(rows.map(|(row, meta)| (meta.clone(), u32_of(row))));
        }
    }

    fn metadata_row(&mut self, meta: &Metadata, out: &mut EventBatch) -> u32 {
        if let Some((last, row)) = &self.last
            && last == meta
        {
            return *row;
        }
        let row = self.known.get(meta).copied().unwrap_or_else(|| {
            out.metas.push(meta.clone());
            u32_of(out.metas.len() - 1)
        });
        self.known.insert(meta.clone(), row);
        let known = out.metas.get(row as usize).unwrap_or(meta);
        self.last = Some((known.clone(), row));
        row
    }
}

/// A complete event, with its time and metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeEvent {
    /// Text of the event.
    pub raw: String,
    /// `_time`.
    pub time: TimeNs,
    /// Index, host, source, sourcetype.
    pub meta: Metadata,
    /// Index-time fields in order; a multivalue field has several entries.
    pub fields: Vec<(Arc<str>, String)>,
}

/// Extent of the processing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypingStage {
    /// All rules.
    All,
    /// Only the rules that are applied again to events already processed by another node.
    Rulesets,
}

/// The typing stage for complete events from many sources. Plans are compiled once for equal settings.
#[derive(Debug)]
pub struct EventTyping {
    props: Arc<PropsResolver>,
    known: Mutex<PlanCache>,
}

#[derive(Debug, Default)]
struct PlanCache {
    by_names: HashMap<[Arc<str>; 3], SharedPlan, RandomState>,
    by_settings: HashMap<TypingSettings, SharedPlan, RandomState>,
}

impl EventTyping {
    /// The typing stage with these settings.
    pub fn new(props: Arc<PropsResolver>) -> EventTyping {
        EventTyping { props, known: Mutex::default() }
    }

    /// The plan for events with this metadata; an empty plan does nothing. Unusable settings are skipped
    /// ([`TypingPlan::settings_error`]).
    pub fn plan(&self, meta: &Metadata) -> Arc<TypingPlan> {
        let names = [&meta.source, &meta.host, &meta.sourcetype].map(Arc::clone);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = known.by_names.get(&names) {
            return Arc::clone(plan);
        }
        let settings = self.props.resolve(&meta.source, &meta.host, &meta.sourcetype).typing;
        // The plan for copies (`CLONE_SOURCETYPE`) also depends on the names of host, source and sourcetype, so it is
        // not shared.
        let is_shared = settings.rules().all(|rule| rule.clone_sourcetype.is_none());
        let shared = known.by_settings.get(&settings).filter(|_| is_shared).cloned();
        let plan = match shared {
            Some(plan) => plan,
            None => {
                let plan = TypingPlan::new_lenient(&self.props, &meta.source, &meta.host, &meta.sourcetype, &settings);
                Arc::new(plan)
            }
        };
        if known.by_names.len() >= CACHED_PLANS_MAX {
            known.by_names.clear();
        }
        if known.by_settings.len() >= DISTINCT_PLANS_MAX {
            known.by_settings.clear();
        }
        if is_shared {
            known.by_settings.insert(settings, Arc::clone(&plan));
        }
        known.by_names.insert(names, Arc::clone(&plan));
        plan
    }

    /// Applies a plan to an event: returns the event and its copies (`CLONE_SOURCETYPE`) without those that are
    /// dropped, and the reason if an event is not in the index named by its rule. With `host_is_fixed`, no rule changes
    /// the host. The limit of fields applies to fields that rules add, so that no field that came with the event is
    /// lost.
    pub fn run(
        &self,
        plan: &TypingPlan,
        event: WholeEvent,
        host_is_fixed: bool,
        stage: TypingStage,
        now: TimeNs,
    ) -> (Vec<WholeEvent>, Option<String>) {
        let (index, host) = (Arc::clone(&event.meta.index), Arc::clone(&event.meta.host));
        let fields_max = self.props.indexed_fields_max().max(event.fields.len());
        let mut typed = TypedEvent::new(event.raw, event.time, event.meta);
        typed.fields = event.fields;
        let (mut copies, mut refused) = (Vec::new(), None);
        match stage {
            TypingStage::All => plan.run(&mut typed, &mut copies, now),
            TypingStage::Rulesets => plan.run_rulesets(&mut typed, &mut copies, now),
        }
        let kept = std::iter::once(typed).chain(copies).filter(|event| !event.is_dropped);
        let settle = |mut event: TypedEvent| {
            if host_is_fixed {
                event.meta.host = Arc::clone(&host);
            }
            let fault = resolve_index(&mut event.meta, &index, self.props.indexes());
            refused = refused.take().or(fault);
            let routing = event.routing().filter(|_| self.props.indexes().keeps_routing());
            event.fields.truncate(fields_max);
            event.fields.extend(routing);
            WholeEvent { raw: event.raw, time: event.time, meta: event.meta, fields: event.fields }
        };
        let events = kept.map(settle).collect();
        (events, refused)
    }
}
