//! Sink that passes the events and positions of one pipeline set to the store.

use std::collections::VecDeque;
use std::sync::Arc;

use quarry_catalog::{CheckpointKey, FileCheckpoint, SourceIdentity};
use quarry_event::EventBatch;
use quarry_inputs::{FileIdentity, FilePosition, Sink, SinkError};
use quarry_stdx::number::u32_of;
use quarry_store::{AppendRequest, Store, Ticket};

use crate::claims::{Claim, Claims};
use crate::metrics::{BatchAmounts, Throughput};

/// Maximum number of appends in progress; beyond it the reader waits.
const TICKETS_MAX: usize = 64;

/// Passes an input's events to a store.
pub struct StoreSink<'a> {
    store: &'a Store,
    /// Pipeline set of the sink.
    set: usize,
    claims: Arc<Claims>,
    /// Claim of the file being read ([`Claims`]).
    claim: Option<Arc<Claim>>,
    /// Appends in progress, with the claims of their files.
    tickets: VecDeque<(Ticket, Option<Arc<Claim>>)>,
    /// Error of a failed append. Later batches are refused, because a stored position after the gap would
    /// keep the lost part from ever being read again.
    failure: Option<String>,
    throughput: Option<Arc<Throughput>>,
}

impl<'a> StoreSink<'a> {
    /// Creates a sink for pipeline set `set` of `store`; all sinks of a store share `claims`.
    pub fn new(store: &'a Store, set: usize, claims: &Arc<Claims>) -> StoreSink<'a> {
        StoreSink {
            store,
            set,
            claims: claims.clone(),
            claim: None,
            tickets: VecDeque::new(),
            failure: None,
            throughput: None,
        }
    }

    /// Makes the sink count its events in `throughput`.
    pub(crate) fn with_throughput(mut self, throughput: &Arc<Throughput>) -> StoreSink<'a> {
        self.throughput = Some(Arc::clone(throughput));
        self
    }

    /// Waits until at most `left` appends are in progress, and collects the results of finished appends.
    fn wait_until_at_most(&mut self, left: usize) -> Result<(), SinkError> {
        while self.failure.is_none() {
            let is_due = self.tickets.len() > left || self.tickets.front().is_some_and(|(ticket, _)| ticket.is_done());
            let Some((ticket, claim)) = is_due.then(|| self.tickets.pop_front()).flatten() else { return Ok(()) };
            self.failure = ticket.wait().err().map(|error| error.to_string());
            // The claim is held until now, so that an identical file started in the meantime waits for the appends of
            // this file.
            drop(claim);
        }
        self.failure.clone().map_or(Ok(()), |text| Err(text.into()))
    }
}

/// Converts a position to the store's type.
pub(crate) fn checkpoint_of(position: FilePosition) -> FileCheckpoint {
    FileCheckpoint {
        key: CheckpointKey {
            identity: SourceIdentity::of(&position.identity.head, &position.identity.scope),
            variant: position.identity.variant,
        },
        head_bytes: u32_of(position.identity.head.len()),
        offset: position.offset,
        tail_hash: position.tail_hash,
        source: position.path,
        milestones: position.milestones,
    }
}

/// Number of the pipeline set for a source; the store takes it modulo the number of its sets.
pub(crate) fn pipeline_set_of(identity: &FileIdentity) -> usize {
    let SourceIdentity(bytes) = SourceIdentity::of(&identity.head, &identity.scope);
    usize::from(bytes[0])
}

impl Drop for StoreSink<'_> {
    fn drop(&mut self) {
        self.end_file();
    }
}

impl Sink for StoreSink<'_> {
    fn positions(&mut self, index: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        self.end_file();
        let (claim, is_unsettled) = self.claims.claim(index, head);
        self.claim = Some(claim);
        // The store knows only durable positions, so a file with the same beginning as another waits until appends are
        // durable. Other files do not wait, so that many small files share their syncs.
        if is_unsettled {
            self.store.wait_for_appends()?;
            self.wait_until_at_most(self.tickets.len())?;
        }
        let known = self.store.checkpoints_of(head, index)?;
        let position = |checkpoint: FileCheckpoint| {
            let FileCheckpoint { key, head_bytes, offset, tail_hash, source, milestones } = checkpoint;
            let (scope, head) = (index.to_owned(), head[..head.len().min(head_bytes as usize)].to_vec());
            let identity = Arc::new(FileIdentity { scope, head, variant: key.variant });
            FilePosition { identity, offset, tail_hash, path: source, milestones }
        };
        Ok(known.into_iter().map(|logged| position(logged.checkpoint)).collect())
    }

    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError> {
        let checkpoint = position.map(checkpoint_of);
        self.wait_until_at_most(TICKETS_MAX)?;
        let amounts = self.throughput.as_ref().map(|throughput| (throughput, BatchAmounts::of(&batch)));
        match self.store.append_to_set(self.set, AppendRequest { batch, checkpoint }) {
            Ok(ticket) => {
                if let Some((throughput, amounts)) = amounts {
                    throughput.count_events(&amounts);
                }
                self.tickets.push_back((ticket, self.claim.clone()));
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
        self.wait_until_at_most(TICKETS_MAX)
    }

    fn spare_batch(&mut self) -> Option<EventBatch> {
        self.store.spare_batch()
    }

    fn end_file(&mut self) {
        if let Some(claim) = self.claim.take() {
            claim.end();
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.wait_until_at_most(0)
    }
}
