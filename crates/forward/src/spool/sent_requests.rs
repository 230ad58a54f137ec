//! Requests that their senders repeat, because the forwarder did not answer them or could not queue all of their parts.
//! Parts that were queued are not queued again.
//!
//! The record of a part in the queue contains its key. A file next to the queue records which parts were answered; it
//! is written directly before an answer is sent. After a crash, the parts without an answer are candidates for
//! repetition. Before a file of the queue is deleted, the unanswered parts are written to a list. After a failure of
//! the machine itself, there are no candidates, because answers may be missing from the unsynced file.
//!
//! Not here: open requests and candidates in memory, and the format of the file ([`quarry_event::sent_request`]); the
//! content of requests (`quarry_inputs::hec`).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use quarry_event::SentRequest;
use quarry_event::sent_request::{
    ANSWERS_HEADER_BYTES, RecordedAnswers, SentParts, UNANSWERED_PARTS_MAX, UNANSWERED_SECS, answer_writes,
    answers_header,
};
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::{boot_id, log};
use xxhash_rust::xxh3::xxh3_64;

use super::record::{Reader, RequestPart};
use super::segment::{PRIVATE_MODE, replace};
use crate::ForwardError;

/// Names of the files.
const ANSWERS_FILE: &str = "answers";
const LIST_FILE: &str = "unanswered";
/// Magic of the list.
const MAGIC: &[u8; 8] = b"QFSENT\0\x01";

/// A queued part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueuedPart {
    /// Number of the record that makes the part durable.
    record: u64,
    part: RequestPart,
}

/// Parts of the last run that were certainly not answered, collected while the queue is opened.
#[derive(Debug)]
pub(super) struct UnansweredParts {
    answers: RecordedAnswers,
    parts: BTreeMap<u64, QueuedPart>,
    /// Parts beyond the limit.
    excess: Vec<QueuedPart>,
    newest: i64,
}

impl UnansweredParts {
    /// Reads the recorded answers and the list.
    pub(super) fn read(folder: &Path) -> Result<UnansweredParts, ForwardError> {
        let read = |name: &str| match std::fs::read(folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read.map_err(|error| ForwardError::disk(&folder.join(name), "cannot be read", &error)),
        };
        let answers = RecordedAnswers::decode(&read(ANSWERS_FILE)?, boot_id());
        let mut found = UnansweredParts { answers, parts: BTreeMap::new(), excess: Vec::new(), newest: i64::MIN };
        // A damaged list is like a missing one: its parts may be queued twice.
        parse_list(&read(LIST_FILE)?)
            .unwrap_or_default()
            .into_iter()
            .for_each(|queued| found.add(queued.record, queued.part));
        Ok(found)
    }

    /// Adds a part from the queue.
    pub(super) fn add(&mut self, record: u64, part: RequestPart) {
        self.newest = self.newest.max(part.time);
        // The file of answers knows nothing about records before its first.
        let is_known = self.answers.run > 0 && self.answers.run <= record;
        if is_known && self.answers.is_open(record) {
            self.parts.insert(record, QueuedPart { record, part });
            if self.parts.len() > UNANSWERED_PARTS_MAX {
                self.excess.extend(self.parts.pop_first().map(|(_, oldest)| oldest));
            }
        }
    }
}

/// Open requests and candidates, and the file that records which parts were answered.
#[derive(Debug)]
pub(super) struct SentRequests {
    parts: SentParts<QueuedPart>,
    answers: File,
    path: PathBuf,
    /// Number of the first record whose answer the file records.
    first: u64,
    /// Whether the header was made invalid.
    is_void: bool,
}

impl SentRequests {
    /// Begins a run whose first record is `next`. The recent parts in `found` become candidates.
    pub(super) fn open(
        folder: &Path,
        found: UnansweredParts,
        next: u64,
        elapsed_ns: i64,
    ) -> Result<SentRequests, ForwardError> {
        let path = folder.join(ANSWERS_FILE);
        let failed = |error: io::Error| ForwardError::disk(&path, "cannot be written", &error);
        let is_new = found.answers.run == 0;
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(is_new).mode(PRIVATE_MODE).open(&path);
        let answers = opened.map_err(failed)?;
        if is_new {
            answers.write_all_at(&answers_header(next, boot_id()), 0).map_err(failed)?;
        }
        let newest = found.newest;
        let is_recent = |it: &QueuedPart| newest.saturating_sub(it.part.time) <= UNANSWERED_SECS * NS_PER_SEC;
        let (candidates, mut dropped): (Vec<_>, Vec<_>) = found.parts.into_values().partition(is_recent);
        dropped.extend(found.excess);
        let parts = SentParts::new(|queued: &QueuedPart| queued.part.key, candidates, elapsed_ns);
        let first = if is_new { next } else { found.answers.run };
        let mut sent = SentRequests { parts, answers, path, first, is_void: false };
        // Later runs must not find the dropped parts in the queue or in a list that is out of date.
        sent.write_answers(&dropped)?;
        Ok(sent)
    }

    /// Begins a request with this key.
    pub(super) fn begin(&mut self, key: u128) -> SentRequest {
        self.parts.begin(key)
    }

    /// If a part with this key is queued already, adds it to the request, and returns the number of its record.
    pub(super) fn find_queued(
        &mut self,
        request: &SentRequest,
        key: u128,
        elapsed_ns: i64,
    ) -> Result<Option<u64>, ForwardError> {
        // After a crash, expired candidates must not be candidates again.
        let expired = self.parts.drop_expired(elapsed_ns);
        self.write_answers(&expired)?;
        let Some(queued) = self.parts.take_candidate(key) else { return Ok(None) };
        self.record_queued(request, queued.record, queued.part)?;
        Ok(Some(queued.record))
    }

    /// Records that a part of a request is queued.
    pub(super) fn record_queued(
        &mut self,
        request: &SentRequest,
        record: u64,
        part: RequestPart,
    ) -> Result<(), ForwardError> {
        let forgotten = self.parts.open(request.id, QueuedPart { record, part });
        self.write_answers(&forgotten)
    }

    /// Records that the senders of these requests are about to be answered. After an error, they must not be answered.
    pub(super) fn record_answered(&mut self, requests: &[SentRequest]) -> Result<(), ForwardError> {
        let closed = requests.iter().map(|request| (request.id, self.parts.close(request.id)));
        let closed: Vec<(u64, Vec<QueuedPart>)> = closed.collect();
        let parts: Vec<QueuedPart> = closed.iter().flat_map(|(_, parts)| parts).copied().collect();
        let written = self.write_answers(&parts);
        if written.is_err() {
            for (request, parts) in closed {
                // Parts removed here because of the limit cannot be recorded, because writing has just failed.
                parts.into_iter().for_each(|part| drop(self.parts.open(request, part)));
            }
        }
        written
    }

    /// Records that a request failed: its queued parts become candidates.
    pub(super) fn record_failure(&mut self, request: &SentRequest, elapsed_ns: i64) -> Result<(), ForwardError> {
        let forgotten = self.parts.fail(request.id, elapsed_ns);
        self.write_answers(&forgotten)
    }

    /// The list of unanswered parts; `None` if there are none. The list on disk is then out of date and harmless,
    /// because all of its parts are recorded as answered.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&[0; 8]);
        let empty = bytes.len();
        for QueuedPart { record, part } in self.parts.unanswered() {
            bytes.extend_from_slice(&record.to_le_bytes());
            bytes.extend_from_slice(&part.key.to_le_bytes());
            bytes.extend_from_slice(&part.time.to_le_bytes());
        }
        let hash = xxh3_64(&bytes[empty..]);
        bytes[8..16].copy_from_slice(&hash.to_le_bytes());
        (bytes.len() > empty).then_some(bytes)
    }

    /// Writes a list that [`SentRequests::to_bytes`] has returned.
    pub(super) fn save_list(folder: &Path, list: &[u8]) -> Result<(), ForwardError> {
        replace(&folder.join(LIST_FILE), list)
    }

    /// Records parts as answered. If that fails, makes the header invalid; returns an error only if that fails, too.
    fn write_answers(&mut self, parts: &[QueuedPart]) -> Result<(), ForwardError> {
        if self.is_void {
            return Ok(());
        }
        // Parts share slots. A slot that already names a later part is kept: it only leaves open whether the earlier
        // part was answered, whereas overwriting it would count the later part as unanswered.
        let write = |(offset, slot): &(u64, Vec<u8>)| {
            let mut known = [0; 8];
            let is_later = match self.answers.read_exact_at(&mut known, *offset) {
                Ok(()) => slot.first_chunk().is_some_and(|slot| u64::from_le_bytes(known) > u64::from_le_bytes(*slot)),
                Err(_) => false,
            };
            if is_later { Ok(()) } else { self.answers.write_all_at(slot, *offset) }
        };
        let slots = parts.iter().flat_map(|part| answer_writes(self.first, [part.record]));
        let written = slots.collect::<Vec<_>>().iter().try_for_each(write);
        written.or_else(|error| self.void(&ForwardError::disk(&self.path, "cannot be written", &error)))
    }

    /// Makes the header invalid, so that no part of this run or an earlier one is a candidate after a restart. Reports the
    /// first reason.
    pub(super) fn void(&mut self, reason: &dyn Display) -> Result<(), ForwardError> {
        let voided = self.answers.write_all_at(&[0; ANSWERS_HEADER_BYTES], 0);
        voided.map_err(|error| ForwardError::disk(&self.path, "cannot be written", &error))?;
        if !std::mem::replace(&mut self.is_void, true) {
            log::warning(format!("requests that are retried after a crash may be queued twice: {reason}"));
        }
        Ok(())
    }
}

/// The parts of a list; `None` if it is damaged.
fn parse_list(bytes: &[u8]) -> Option<Vec<QueuedPart>> {
    let (hash, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    if xxh3_64(rest) != u64::from_le_bytes(*hash) {
        return None;
    }
    let (mut parts, mut reader) = (Vec::new(), Reader(rest));
    while !reader.0.is_empty() {
        parts.push(QueuedPart { record: u64::from_le_bytes(*reader.array()?), part: reader.part()? });
    }
    Some(parts)
}
