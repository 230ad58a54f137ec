//! Passes filled batches to the store.
//!
//! Senders of text get no answers and cannot repeat a refused batch, so a batch is kept until the store accepts it,
//! while its sender waits. The store may also refuse a batch later, when its log cannot grow because the disk is full;
//! it then returns the events, and they are appended again. The memory of a batch is reused for the next one.

use std::collections::VecDeque;
use std::sync::Arc;

use quarry_event::EventBatch;

use crate::{AppendError, EventStore, Receipt};

/// Maximum number of appends in progress; beyond it the reader waits.
const RECEIPTS_MAX: usize = 64;

/// Passes batches to a store.
pub struct Appender {
    store: Arc<dyn EventStore>,
    receipts: VecDeque<Box<dyn Receipt>>,
    /// Events that the store accepted and then refused; at most those of [`RECEIPTS_MAX`] appends and the last one.
    refused: VecDeque<EventBatch>,
    /// Error that has not been reported yet: refused events that were lost when they were appended again.
    failure: Option<AppendError>,
}

impl std::fmt::Debug for Appender {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Appender").field("receipts", &self.receipts.len()).finish_non_exhaustive()
    }
}

impl Appender {
    /// Creates an appender to `store`.
    pub fn new(store: Arc<dyn EventStore>) -> Appender {
        Appender { store, receipts: VecDeque::new(), refused: VecDeque::new(), failure: None }
    }

    /// Stores a batch and empties it, after the events that the store has refused so far. After [`AppendError::Busy`],
    /// no events are lost, but the batch still has its events, or refused events wait to be appended again: the caller
    /// must call again, even if the batch is empty. Any other error means that events are lost; these include the
    /// events of the batch unless the batch still has them.
    pub fn append(&mut self, batch: &mut EventBatch) -> Result<(), AppendError> {
        self.append_refused()?;
        if !batch.is_empty() {
            self.receipts.push_back(hand_over(&*self.store, batch)?);
        }
        let collected = self.collect(RECEIPTS_MAX);
        self.failure.take().map_or(collected, Err)
    }

    /// Waits until at most `left` appends are in progress, and collects the results of finished appends. Errors are
    /// those of [`Appender::append`].
    pub fn wait_until_at_most(&mut self, left: usize) -> Result<(), AppendError> {
        self.append_refused()?;
        let collected = self.collect(left);
        self.failure.take().map_or(collected, Err)
    }

    /// Whether every append has a result, although it may not be collected yet.
    pub fn is_done(&self) -> bool {
        self.receipts.iter().all(|receipt| receipt.is_done())
    }

    /// Whether everything that was appended is stored, or was reported as lost.
    pub fn is_settled(&self) -> bool {
        self.receipts.is_empty() && self.refused.is_empty() && self.failure.is_none()
    }

    /// Drops the events that wait to be appended again.
    pub fn drop_refused(&mut self) {
        self.refused.clear();
    }

    /// Appends refused events again; fails only if the store is busy.
    fn append_refused(&mut self) -> Result<(), AppendError> {
        while let Some(batch) = self.refused.front_mut() {
            match hand_over(&*self.store, batch) {
                Ok(receipt) => self.receipts.push_back(receipt),
                Err(error @ AppendError::Busy(_)) => return Err(error),
                Err(error) => self.failure = Some(error),
            }
            self.refused.pop_front();
        }
        Ok(())
    }

    fn collect(&mut self, left: usize) -> Result<(), AppendError> {
        let mut outcome = Ok(());
        while self.receipts.len() > left || self.receipts.front().is_some_and(|receipt| receipt.is_done()) {
            let Some(receipt) = self.receipts.pop_front() else { break };
            let mut refused = Vec::new();
            let result = match receipt.wait_for_all(&mut refused) {
                Err(error) if !refused.is_empty() && !matches!(error, AppendError::Stopping) => {
                    Err(AppendError::Busy(error.into()))
                }
                // The store may have room later, but it did not return the events.
                Err(AppendError::Busy(reason)) if refused.is_empty() => Err(AppendError::Failed(reason)),
                result => result,
            };
            self.refused.extend(refused);
            // An error that means lost events prevails over one after which events are kept.
            if outcome.is_ok() || matches!((&outcome, &result), (Err(AppendError::Busy(_)), Err(_))) {
                outcome = result;
            }
        }
        outcome
    }
}

/// Passes a batch to `store` and empties it. After an error, the batch keeps its events.
pub fn hand_over(store: &dyn EventStore, batch: &mut EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
    let copy = copy_of(batch, store.spare_batch().unwrap_or_default());
    let receipt = store.append(copy)?;
    clear(batch);
    Ok(receipt)
}

fn copy_of(batch: &EventBatch, mut copy: EventBatch) -> EventBatch {
    clear(&mut copy);
    copy.raw.extend_from_slice(&batch.raw);
    copy.ends.extend_from_slice(&batch.ends);
    copy.time.extend_from_slice(&batch.time);
    copy.meta.extend_from_slice(&batch.meta);
    copy.metas.extend_from_slice(&batch.metas);
    copy.fields.append(batch.fields.all(), 0, 0);
    copy.index_time = batch.index_time;
    copy
}

fn clear(batch: &mut EventBatch) {
    batch.raw.clear();
    batch.ends.clear();
    batch.time.clear();
    batch.meta.clear();
    batch.metas.clear();
    batch.fields.clear();
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use quarry_event::Metadata;
    use quarry_stdx::Fault;

    use super::*;

    /// A store with a log on a disk that may be full. The log returns the events that it refuses, except for "lost".
    #[derive(Default)]
    struct Log(Arc<Mutex<LogState>>);

    #[derive(Default)]
    struct LogState {
        is_full: bool,
        texts: Vec<String>,
    }

    struct Pending(Arc<Mutex<LogState>>, EventBatch);

    impl Receipt for Pending {
        fn is_done(&self) -> bool {
            false
        }

        fn wait(self: Box<Self>) -> Result<(), AppendError> {
            self.wait_for_all(&mut Vec::new())
        }

        fn wait_for_all(self: Box<Self>, refused: &mut Vec<EventBatch>) -> Result<(), AppendError> {
            let Pending(state, batch) = *self;
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.is_full {
                if batch.raw(0) != b"lost" {
                    refused.push(batch);
                }
                return Err(AppendError::Busy("no space left".into()));
            }
            state.texts.extend((0..batch.len()).map(|row| String::from_utf8_lossy(batch.raw(row)).into_owned()));
            Ok(())
        }
    }

    impl EventStore for Log {
        fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
            Ok(Box::new(Pending(Arc::clone(&self.0), batch)))
        }

        fn check_index(&self, _: &str) -> Result<(), Fault> {
            Ok(())
        }
    }

    fn batch(text: &str) -> EventBatch {
        let mut batch = EventBatch::default();
        let meta = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() };
        let meta = batch.intern(&meta);
        batch.push(text.as_bytes(), 0, meta);
        batch
    }

    #[test]
    fn batches_that_the_log_refuses_after_they_were_accepted_are_appended_again() {
        let state = Arc::<Mutex<LogState>>::default();
        let mut appender = Appender::new(Arc::new(Log(Arc::clone(&state))));
        let full = |is_full: bool| state.lock().unwrap().is_full = is_full;
        full(true);
        ["a", "b"].into_iter().for_each(|text| appender.append(&mut batch(text)).unwrap());
        for _ in 0..3 {
            assert!(matches!(appender.wait_until_at_most(0), Err(AppendError::Busy(_))));
            assert!(!appender.is_settled());
        }
        full(false);
        appender.append(&mut batch("c")).unwrap();
        appender.wait_until_at_most(0).unwrap();
        assert!(appender.is_settled());
        assert_eq!(state.lock().unwrap().texts, ["a", "b", "c"]);
    }

    #[test]
    fn lost_events_are_reported_even_if_others_are_kept() {
        let state = Arc::<Mutex<LogState>>::default();
        let mut appender = Appender::new(Arc::new(Log(Arc::clone(&state))));
        state.lock().unwrap().is_full = true;
        ["kept", "lost"].into_iter().for_each(|text| appender.append(&mut batch(text)).unwrap());
        assert!(matches!(appender.wait_until_at_most(0), Err(AppendError::Failed(_))));
        state.lock().unwrap().is_full = false;
        appender.wait_until_at_most(0).unwrap();
        assert_eq!(state.lock().unwrap().texts, ["kept"]);
    }
}
