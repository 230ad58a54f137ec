//! The reader of a file being added: it passes the bytes through the pipeline and makes batches with positions.
//!
//! Runs on its own thread, so that extracting and storing events overlap. A batch is sent when it is large enough, with
//! the position after it: the pipeline's safe offset and the hash of the bytes before it.
//!
//! An error ends reading, but the complete lines before it are still sent, with a position at which reading of the same
//! file, or of the repaired file, resumes.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender};

use quarry_event::{EventBatch, IndexedFields};
use quarry_pipeline::{Pipeline, PipelineCounters};

use super::Compression;
use super::open::{OpenFile, READ_CHUNK_BYTES};
use super::recent::RecentBytes;
use crate::InputError;

/// Number of text bytes at which a batch is sent.
const BATCH_RAW_BYTES: usize = 1 << 20;
/// Number of events at which a batch is sent. A chunk of 256 KiB adds at most one event per two bytes, so a batch stays
/// below the size of a slab (262,144).
const BATCH_EVENTS: usize = 65_536;

/// A batch for the sink.
#[derive(Debug)]
pub(crate) struct ReadBatch {
    pub(crate) batch: EventBatch,
    /// Offset after the batch, and the hash of the bytes before it.
    pub(crate) position: Option<(u64, u64)>,
    pub(crate) state: ReadState,
}

/// Progress of reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadState {
    /// Decompressed bytes read since `quarry add` was started.
    pub(crate) bytes: u64,
    /// Bytes read from the file on disk.
    pub(crate) stored_bytes: u64,
    pub(crate) counters: PipelineCounters,
    pub(crate) sourcetype: Option<String>,
    /// Errors in the settings of the guessed sourcetype.
    pub(crate) problem: Option<String>,
    /// Whether bytes after the compressed content were not read.
    pub(crate) has_unread_end: bool,
    /// Warnings about the file.
    pub(crate) warnings: Vec<String>,
}

/// Final state of reading a file.
#[derive(Debug)]
pub(crate) struct ReadEnd {
    pub(crate) state: ReadState,
    /// The error that ended reading before the end of the file.
    pub(crate) fault: Option<InputError>,
}

/// Reads one file into batches.
pub(crate) struct FileReader<'a> {
    pub(crate) path: &'a Path,
    pub(crate) file: OpenFile,
    pub(crate) pipeline: Pipeline,
    /// Decompressed bytes before the pipeline's first one.
    pub(crate) base: u64,
    /// The last bytes read.
    pub(crate) recent: RecentBytes,
    /// Warnings about the file.
    pub(crate) warnings: Vec<String>,
    pub(crate) batches: SyncSender<ReadBatch>,
    /// Emptied batches that the sink's thread returns for reuse.
    pub(crate) spares: Receiver<EventBatch>,
}

impl FileReader<'_> {
    /// Reads to the end; stops early if the receiver is gone. After an error, the events before it are still sent.
    pub(crate) fn run(mut self) -> ReadEnd {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        let mut batch = EventBatch::default();
        let mut bytes = 0u64;
        let fault = loop {
            let read = match self.file.read_chunk(&mut buffer) {
                Ok(0) => break None,
                Ok(read) => read,
                Err(error) => break Some(error),
            };
            let chunk = self.usable_part(&buffer[..read]);
            bytes += chunk.len() as u64;
            self.pipeline.push(chunk, &mut batch);
            let safe = self.base + self.pipeline.safe_offset();
            self.recent.push(chunk, safe);
            if batch.raw.len() >= BATCH_RAW_BYTES || batch.len() >= BATCH_EVENTS {
                let next = self.spares.try_recv().unwrap_or_else(|_| with_same_capacity(&batch));
                let batch = std::mem::replace(&mut batch, next);
                let position = Some((safe, self.recent.tail_hash(safe)));
                if self.batches.send(ReadBatch { batch, position, state: self.state(bytes) }).is_err() {
                    return ReadEnd { state: self.state(bytes), fault: None };
                }
            }
        };
        self.end(batch, bytes, fault)
    }

    /// Sends the last batch with the position after it.
    fn end(mut self, mut batch: EventBatch, bytes: u64, fault: Option<io::Error>) -> ReadEnd {
        let safe = self.pipeline.safe_offset();
        let is_done = fault.as_ref().is_none_or(|fault| self.emits_last_lines_before_error(fault, safe));
        if is_done {
            self.pipeline.finish(&mut batch);
        }
        let offset = self.base + if is_done { bytes } else { safe };
        let hash = match &fault {
            Some(_) if self.file.compression != Compression::None => self.recent.content_hash(offset),
            _ => Some(self.recent.tail_hash(offset)),
        };
        let position = hash.filter(|_| offset > self.base || fault.is_none()).map(|hash| (offset, hash));
        if self.file.has_garbage() {
            self.warnings.push("bytes after the compressed content are not gzip and are ignored".to_owned());
        }
        self.warnings.extend(self.pipeline.refused_index().map(str::to_owned));
        self.warnings.extend(self.pipeline.counters().remark());
        let state = self.state(bytes);
        // The receiver is gone only after adding was interrupted or the sink failed, and the sink's error is reported.
        drop(self.batches.send(ReadBatch { batch, position, state: state.clone() }));
        let fault = fault.map(|error| self.file.describe(self.path, self.base + bytes, &error));
        ReadEnd { state, fault }
    }

    /// Whether the last lines before an error become events now, although the rest of their text may be missing. If
    /// not, they are read from the repaired file.
    fn emits_last_lines_before_error(&self, fault: &io::Error, safe: u64) -> bool {
        let is_whole = fault.kind() == io::ErrorKind::InvalidData;
        // No event is complete while the sourcetype is being guessed. Without the last lines, nothing would be added.
        let is_guessing = self.base == 0 && safe == 0;
        self.file.is_stream || is_whole || is_guessing
    }

    /// Part of `chunk` to use: all of it, or only whole lines if an error follows and the file can be read again.
    fn usable_part<'c>(&self, chunk: &'c [u8]) -> &'c [u8] {
        match self.file.fault() {
            Some(fault) if !self.file.is_stream && fault.kind() != io::ErrorKind::InvalidData => {
                &chunk[..chunk.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)]
            }
            _ => chunk,
        }
    }

    fn state(&self, bytes: u64) -> ReadState {
        ReadState {
            bytes,
            stored_bytes: self.file.stored_bytes_read(),
            counters: self.pipeline.counters(),
            sourcetype: self.pipeline.sourcetype().map(str::to_owned),
            problem: self.pipeline.settings_error().map(ToString::to_string),
            has_unread_end: self.file.has_garbage(),
            warnings: self.warnings.clone(),
        }
    }
}

/// An empty batch with the capacity of `full`.
fn with_same_capacity(full: &EventBatch) -> EventBatch {
    let more = |len: usize| len + len / 16;
    let mut fields = IndexedFields::default();
    let of_full = &full.fields;
    fields.reserve(more(of_full.event_count()), more(of_full.len()), more(of_full.value_bytes()));
    EventBatch {
        raw: Vec::with_capacity(more(full.raw.len())),
        ends: Vec::with_capacity(more(full.len())),
        time: Vec::with_capacity(more(full.len())),
        meta: Vec::with_capacity(more(full.len())),
        fields,
        ..EventBatch::default()
    }
}
