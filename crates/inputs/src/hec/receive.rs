//! Stores a request's events: adds metadata and makes batches, each for one index.
//!
//! A value that is missing in an event comes from the URL, else from the token, else from the collector's defaults.
//! Events before an invalid event are stored; the answer names the invalid event, as in Splunk. If the store refuses a
//! part of a request, the sender is asked to repeat the request, and its stored parts are not stored again
//! ([`Repeatable`]).
//!
//! Not here: HTTP, authentication.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::{Answer, Code};
use super::channels::Receipts;
use super::envelope::{Envelope, read_body};
use super::other_protocols::collectd;
use crate::{AppendError, EventStore, Receipt};
use quarry_conf::{HttpToken, PropsResolver};
use quarry_event::{EventBatch, Metadata, SentRequest, TimeNs};
use quarry_pipeline::{
    DateOrders, EventTyping, Pipeline, PipelineContext, PipelineError, SourceInfo, TypingPlan, TypingStage, WholeEvent,
};
use quarry_stdx::number::{u32_of, usize_of};

/// Bytes of text after which a batch is stored.
const BATCH_BYTES: usize = 8 << 20;
/// Number of events after which a batch is stored.
const BATCH_EVENTS: usize = 65_536;
/// Number of indexed fields after which a batch is stored.
const BATCH_FIELDS: usize = 1 << 20;
/// Maximum number of open batches of a request, one per index; beyond it, the oldest batch is stored.
const OPEN_BATCHES_MAX: usize = 16;
/// Number of recent metadata entries compared directly before a lookup in all of them.
const RECENT_METAS_MAX: usize = 16;
/// Default sourcetype.
const SOURCETYPE: &str = "httpevent";
/// Default index.
const INDEX: &str = "main";

/// Metadata that a request sets for all its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestMetadata {
    pub(crate) index: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) sourcetype: Option<String>,
    pub(crate) time: Option<TimeNs>,
}

/// Configuration common to all requests.
pub(crate) struct Destination {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) props: Arc<PropsResolver>,
    pub(crate) typing: EventTyping,
    pub(crate) orders: Arc<DateOrders>,
}

/// Identity of a request that its sender repeats if it gets no answer, or an answer that asks for a repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repeatable {
    /// The request was begun in the store.
    Begun(SentRequest),
    /// Key of the request, which is begun in the store when it turns out to have several parts: a single part is either
    /// stored or not, so nothing needs to be recorded about it.
    IfDivided(u128),
}

/// An open batch; if the items of a request are answered one by one, as in `_bulk`, also the item number of each event.
struct OpenBatch {
    batch: EventBatch,
    items: Vec<u32>,
}

/// An append in progress, and the items of its events.
struct PendingPart {
    receipt: Box<dyn Receipt>,
    items: Vec<u32>,
}

/// The appends of a request.
pub(crate) struct Appends {
    pub(crate) receipts: Receipts,
    /// Identity of the request in the store, if the store knows it.
    pub(crate) sent: Option<SentRequest>,
    /// The answer if the store refused a part, after which nothing more was appended.
    pub(crate) refused: Option<Answer>,
}

impl Appends {
    /// Waits until all appends have ended, and fails if any failed. This includes appends after a failed append,
    /// because the store must know all stored parts before the sender is asked to repeat the request.
    pub(crate) fn settle(self) -> Result<(), Answer> {
        let refused = self.refused.map_or(Ok(()), Err);
        let waited = self.receipts.into_iter().map(|receipt| receipt.wait().map_err(answer_of));
        waited.fold(refused, Result::and)
    }

    /// Like [`Appends::settle`], for protocols whose answers are not recorded when they are sent: records in `store`
    /// that the sender is answered, or that it is asked to repeat the request.
    pub(crate) fn settle_and_record(self, store: &dyn EventStore) -> Result<(), Answer> {
        let sent = self.sent;
        let settled = self.settle();
        let Some(sent) = sent else { return settled };
        if settled.is_err_and(|answer| answer.asks_to_retry()) {
            store.record_failure(&sent);
            return settled;
        }
        // A sender whose answer cannot be recorded must not be answered.
        settled.and(store.record_answered(&[sent]).map_err(|_| Code::ServerError.into()))
    }
}

/// Stores the events of one request.
pub(crate) struct Receiver<'a> {
    destination: &'a Destination,
    token: &'a HttpToken,
    /// Default metadata.
    metadata: Metadata,
    time: TimeNs,
    now: TimeNs,
    open: Vec<OpenBatch>,
    pending: Vec<PendingPart>,
    /// Identity of the request if its sender may repeat it.
    repeatable: Option<Repeatable>,
    /// The answer if the store refused a part.
    refused: Option<Answer>,
    /// Number of the item whose events are being added, if items are answered one by one.
    item: Option<u32>,
    /// Items with events that the store refused.
    failed_items: BTreeMap<u32, Answer>,
    /// Metadata of the last event, and its index-time rules if there are any.
    plan: Option<(Metadata, Option<Arc<TypingPlan>>)>,
}

impl<'a> Receiver<'a> {
    /// Creates a receiver; `sender` is the default host.
    pub(crate) fn new(
        destination: &'a Destination,
        token: &'a HttpToken,
        stated: &RequestMetadata,
        sender: &str,
        now: TimeNs,
    ) -> Receiver<'a> {
        let first = |said: &Option<String>, of_token: &Option<String>, default: &str| -> Arc<str> {
            said.as_deref().or(of_token.as_deref()).unwrap_or(default).into()
        };
        let metadata = Metadata {
            index: first(&stated.index, &token.index, INDEX),
            host: first(&stated.host, &token.host, sender),
            source: first(&stated.source, &token.source, &format!("http:{}", token.name)),
            sourcetype: first(&stated.sourcetype, &token.sourcetype, SOURCETYPE),
        };
        let time = stated.time.unwrap_or(now);
        Receiver {
            destination,
            token,
            metadata,
            time,
            now,
            open: Vec::new(),
            pending: Vec::new(),
            repeatable: None,
            refused: None,
            item: None,
            failed_items: BTreeMap::new(),
            plan: None,
        }
    }

    /// Sets the identity of the request, whose sender may repeat it.
    pub(crate) fn of_request(self, repeatable: Repeatable) -> Receiver<'a> {
        Receiver { repeatable: Some(repeatable), ..self }
    }

    /// Sets the number of the item to which the following events belong; [`Receiver::finish_items`] then returns the
    /// items that were not stored.
    pub(crate) fn begin_item(&mut self, item: u32) {
        self.item = Some(item);
    }

    /// Processes the envelopes of a body.
    pub(crate) fn events(&mut self, body: &str) -> Result<(), Answer> {
        let count = read_body(body, &mut |envelope, at| self.event(envelope, at))?;
        if count == 0 { Err(Code::NoData.into()) } else { Ok(()) }
    }

    /// Processes a text body, which the index pipeline breaks into events.
    pub(crate) fn raw(&mut self, body: &str) -> Result<(), Answer> {
        self.check_index(&self.metadata.index).map_err(|code| Answer::for_event(code, 1))?;
        if *self.metadata.sourcetype == *collectd::SOURCETYPE && self.measurements(body)? {
            return Ok(());
        }
        let info = SourceInfo {
            index: self.metadata.index.to_string(),
            host: self.metadata.host.to_string(),
            host_is_fixed: false,
            source: self.metadata.source.to_string(),
            sourcetype: Some(self.metadata.sourcetype.to_string()),
        };
        let context = PipelineContext {
            now: self.time,
            zone: None,
            modified: None,
            orders: Some(Arc::clone(&self.destination.orders)),
        };
        let pipeline = Pipeline::new_lenient(info, &self.destination.props, context);
        let mut pipeline = pipeline.map_err(|error| self.pipeline_error_answer(&error))?;
        if let Some(problem) = pipeline.settings_error() {
            self.destination.store.warn(&problem.to_string());
        }
        let mut batch = EventBatch::default();
        let mut taken = 0;
        for part in body.as_bytes().chunks(BATCH_BYTES) {
            pipeline.push(part, &mut batch);
            // The end of the part may wait for the next one, so a batch is usually a little smaller than its part.
            if batch.raw.len() >= BATCH_BYTES / 2 || batch.len() >= BATCH_EVENTS {
                taken += batch.len();
                batch.index_time = self.now;
                self.append(OpenBatch { batch: std::mem::take(&mut batch), items: Vec::new() }, false)?;
            }
        }
        pipeline.finish(&mut batch);
        taken += batch.len();
        batch.index_time = self.now;
        let is_only = self.pending.is_empty();
        self.append(OpenBatch { batch, items: Vec::new() }, is_only)?;
        if let Some(reason) = pipeline.refused_index() {
            self.destination.store.warn(reason);
        }
        if let Some(notice) = pipeline.counters().remark() {
            self.destination.store.warn(&format!("raw events of HEC token {}: {notice}", self.token.name));
        }
        taken += usize_of(pipeline.counters().dropped_events);
        if taken == 0 { Err(Code::NoData.into()) } else { Ok(()) }
    }

    /// Processes collectd's values; returns `false`, and stores nothing, if the body contains anything else.
    fn measurements(&mut self, body: &str) -> Result<bool, Answer> {
        let mut count = 0;
        let is_whole = collectd::read(body, &mut |_| {
            count += 1;
            Some(())
        });
        if is_whole.is_none() || count == 0 {
            return Ok(false);
        }
        let (mut at, mut outcome) = (0, Ok(true));
        // `outcome` has the reason if reading ended early.
        let _ended = collectd::read(body, &mut |event| {
            let taken = self.event(event, at);
            at += 1;
            outcome = taken.map(|()| true);
            outcome.is_ok().then_some(())
        });
        outcome
    }

    /// The answer if no pipeline can be made for a request: none of its events are stored.
    fn pipeline_error_answer(&self, error: &PipelineError) -> Answer {
        self.destination.store.warn(&error.to_string());
        Code::ServerError.into()
    }

    /// Stores the remaining batches, unless the store has refused an earlier one, and returns all appends.
    pub(crate) fn finish(mut self) -> Appends {
        let open: Vec<OpenBatch> =
            std::mem::take(&mut self.open).into_iter().filter(|open| !open.batch.is_empty()).collect();
        let is_only = self.pending.is_empty() && open.len() == 1;
        for batch in open {
            if self.refused.is_some() || self.append(batch, is_only).is_err() {
                break;
            }
        }
        let sent = match self.repeatable {
            Some(Repeatable::Begun(sent)) => Some(sent),
            Some(Repeatable::IfDivided(_)) | None => None,
        };
        let receipts = self.pending.into_iter().map(|part| part.receipt).collect();
        Appends { receipts, sent, refused: self.refused }
    }

    /// Stores the remaining batches, waits for all appends, and returns the items with events that are not stored, each
    /// with the answer for its sender.
    pub(crate) fn finish_items(mut self) -> BTreeMap<u32, Answer> {
        for batch in std::mem::take(&mut self.open) {
            // The items of a refused batch are recorded.
            self.append(batch, false).ok();
        }
        for PendingPart { receipt, items } in self.pending {
            if let Err(answer) = receipt.wait().map_err(answer_of) {
                self.failed_items.extend(items.into_iter().map(|item| (item, answer)));
            }
        }
        self.failed_items
    }

    /// Adds one event.
    pub(crate) fn event(&mut self, envelope: Envelope, at: u64) -> Result<(), Answer> {
        let slot = self.batch_slot(envelope.index.as_deref(), at)?;
        let meta = self.metadata_of(slot, &envelope);
        if let Some(plan) = self.typing_plan(slot, meta) {
            return self.typed_event(&plan, slot, meta, envelope);
        }
        self.push(slot, &envelope.raw, envelope.time.unwrap_or(self.time), meta, envelope.fields)
    }

    /// Index-time rules for events with these metadata.
    fn typing_plan(&mut self, slot: usize, meta: u32) -> Option<Arc<TypingPlan>> {
        let meta = &self.open[slot].batch.metas[meta as usize];
        if let Some((known, plan)) = &self.plan
            && known == meta
        {
            return plan.clone();
        }
        let plan = self.destination.typing.plan(meta);
        if let Some(problem) = plan.settings_error() {
            self.destination.store.warn(&problem.to_string());
        }
        let plan = Some(plan).filter(|plan| !plan.is_empty());
        self.plan = Some((meta.clone(), plan.clone()));
        plan
    }

    /// Applies index-time rules to an event and stores the result in the index that they set.
    fn typed_event(&mut self, plan: &TypingPlan, slot: usize, meta: u32, envelope: Envelope) -> Result<(), Answer> {
        let meta = self.open[slot].batch.metas[meta as usize].clone();
        let fields = envelope.fields.into_iter().map(|(name, value)| (Arc::from(name), value)).collect();
        let event = WholeEvent { raw: envelope.raw, time: envelope.time.unwrap_or(self.time), meta, fields };
        let (events, refused) = self.destination.typing.run(plan, event, false, TypingStage::All, self.now);
        if let Some(reason) = refused {
            self.destination.store.warn(&reason);
        }
        for event in events {
            let slot = self.open_batch(&event.meta.index)?;
            let meta = self.open[slot].batch.intern(&event.meta);
            self.push(slot, &event.raw, event.time, meta, event.fields)?;
        }
        Ok(())
    }

    fn push<N: AsRef<str>>(
        &mut self,
        slot: usize,
        raw: &str,
        time: TimeNs,
        meta: u32,
        fields: Vec<(N, String)>,
    ) -> Result<(), Answer> {
        let OpenBatch { batch, items } = &mut self.open[slot];
        let row = u32_of(batch.len());
        batch.push(raw.as_bytes(), time, meta);
        items.extend(self.item);
        for (name, value) in fields {
            batch.fields.push(row, name.as_ref(), &value);
        }
        if batch.raw.len() >= BATCH_BYTES || batch.len() >= BATCH_EVENTS || batch.fields.len() >= BATCH_FIELDS {
            let full = self.open.swap_remove(slot);
            self.append(full, false)?;
        }
        Ok(())
    }

    /// Slot of the open batch for an event; `index` is the index that the event names.
    fn batch_slot(&mut self, index: Option<&str>, at: u64) -> Result<usize, Answer> {
        let index = index.unwrap_or(&self.metadata.index);
        let known = self.slot_of(index);
        if let Some(slot) = known {
            return Ok(slot);
        }
        // Splunk numbers events from one in this answer.
        self.check_index(index).map_err(|code| Answer::for_event(code, at + 1))?;
        let index = index.to_owned();
        self.open_batch(&index)
    }

    /// Slot of the open batch for a valid index.
    fn open_batch(&mut self, index: &str) -> Result<usize, Answer> {
        let known = self.slot_of(index);
        if let Some(slot) = known {
            return Ok(slot);
        }
        let mut batch = EventBatch { index_time: self.now, ..EventBatch::default() };
        batch.intern(&Metadata { index: index.into(), ..self.metadata.clone() });
        if self.open.len() >= OPEN_BATCHES_MAX {
            let oldest = self.open.remove(0);
            self.append(oldest, false)?;
        }
        self.open.push(OpenBatch { batch, items: Vec::new() });
        Ok(self.open.len() - 1)
    }

    /// Slot of the open batch for an index, if there is one.
    fn slot_of(&self, index: &str) -> Option<usize> {
        self.open.iter().position(|open| open.batch.metas.first().is_some_and(|meta| *meta.index == *index))
    }

    /// Number of an event's metadata in its batch.
    fn metadata_of(&mut self, slot: usize, envelope: &Envelope) -> u32 {
        let default = &self.metadata;
        let batch = &mut self.open[slot].batch;
        let host = envelope.host.as_deref().unwrap_or(&default.host);
        let source = envelope.source.as_deref().unwrap_or(&default.source);
        let sourcetype = envelope.sourcetype.as_deref().unwrap_or(&default.sourcetype);
        let is_it = |meta: &Metadata| *meta.host == *host && *meta.source == *source && *meta.sourcetype == *sourcetype;
        let last = batch.meta.last().copied().unwrap_or(0);
        if batch.metas.get(last as usize).is_some_and(&is_it) {
            return last;
        }
        let first_near = batch.metas.len().saturating_sub(RECENT_METAS_MAX);
        if let Some(at) = batch.metas[first_near..].iter().position(is_it) {
            return u32_of(first_near + at);
        }
        let index = batch.metas.first().map_or_else(|| Arc::clone(&default.index), |meta| Arc::clone(&meta.index));
        batch.intern(&Metadata { index, host: host.into(), source: source.into(), sourcetype: sourcetype.into() })
    }

    /// Index for an index name of another system: the index of that name if the token may write there, else `None` for
    /// the token's index. A name that begins with `_` denotes an internal index; if the token may not write there, the
    /// event is refused rather than stored elsewhere.
    pub(crate) fn allowed_index(&self, name: &str) -> Result<Option<String>, Code> {
        match self.check_index(name) {
            Ok(()) => Ok(Some(name.to_owned())),
            Err(code) if name.starts_with('_') => Err(code),
            Err(_) => Ok(None),
        }
    }

    fn check_index(&self, index: &str) -> Result<(), Code> {
        // Only a token that lists an internal index may write there.
        let is_named = self.token.indexes.iter().chain(&self.token.index).any(|name| name == index);
        let is_listed = is_named || (self.token.indexes.is_empty() && !index.starts_with('_'));
        if is_listed && self.destination.store.check_index(index).is_ok() { Ok(()) } else { Err(Code::IncorrectIndex) }
    }

    /// Stores a batch; `is_only` is set if the request has no other batch.
    fn append(&mut self, open: OpenBatch, is_only: bool) -> Result<(), Answer> {
        let OpenBatch { batch, items } = open;
        if batch.is_empty() {
            return Ok(());
        }
        let store = &self.destination.store;
        if let Some(Repeatable::IfDivided(key)) = self.repeatable
            && !(is_only && batch.has_single_index())
        {
            self.repeatable = Some(Repeatable::Begun(store.begin_request(key)));
        }
        let appended = match &self.repeatable {
            Some(Repeatable::Begun(sent)) => store.append_sent(batch, sent),
            Some(Repeatable::IfDivided(_)) | None => store.append(batch),
        };
        match appended {
            Ok(receipt) => {
                self.pending.push(PendingPart { receipt, items });
                Ok(())
            }
            Err(error) => {
                let answer = answer_of(error);
                self.refused = self.refused.or(Some(answer));
                self.failed_items.extend(items.into_iter().map(|item| (item, answer)));
                Err(answer)
            }
        }
    }
}

/// The answer for events that the store refused.
fn answer_of(error: AppendError) -> Answer {
    Answer::from(match error {
        AppendError::Busy(_) => Code::Busy,
        AppendError::Stopping => Code::ShuttingDown,
        AppendError::Refused(_) => Code::Refused,
        AppendError::IndexRefused(_) => Code::IncorrectIndex,
        AppendError::Failed(_) => Code::ServerError,
    })
}
