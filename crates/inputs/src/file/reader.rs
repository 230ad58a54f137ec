//! The reading half of an added file: bytes through the pipeline into batches with their positions.
//!
//! Runs on a thread of its own, so that cutting events and storing them overlap. A batch is handed over when it is
//! large enough and the position after it is provable: the 256 bytes before the pipeline's safe offset must be among
//! the last two chunks read.

use std::path::Path;
use std::sync::mpsc::SyncSender;

use quarry_event::EventBatch;
use quarry_pipeline::{Pipeline, PipelineCounters};

use super::open::{OpenFile, READ_CHUNK_BYTES};
use super::{Packing, identity};
use crate::InputError;

/// Text bytes at which a batch is handed over.
const BATCH_RAW_BYTES: usize = 4 << 20;
/// Events at which a batch is handed over. A chunk adds at most one event per two bytes, so that a batch stays below
/// what a slab holds (262,144).
const BATCH_EVENTS: usize = 65_536;

/// A batch on its way to the sink.
#[derive(Debug)]
pub(crate) struct ReadBatch {
    pub(crate) batch: EventBatch,
    /// Offset after the batch and the hash of the bytes before it.
    pub(crate) position: Option<(u64, u64)>,
    pub(crate) state: ReadState,
}

/// How far reading is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadState {
    /// Unpacked bytes read in this run.
    pub(crate) bytes: u64,
    /// Bytes of the file on disk read.
    pub(crate) stored_bytes: u64,
    pub(crate) counters: PipelineCounters,
    pub(crate) sourcetype: Option<String>,
    /// What is wrong with the settings of the guessed sourcetype.
    pub(crate) problem: Option<String>,
}

/// Reads one file.
pub(crate) struct FileReader<'a> {
    pub(crate) path: &'a Path,
    pub(crate) file: OpenFile,
    pub(crate) pipeline: Pipeline,
    /// Unpacked bytes before the pipeline's first one.
    pub(crate) base: u64,
    /// The last of them, for hashes of positions near the start.
    pub(crate) before: Vec<u8>,
    pub(crate) batches: SyncSender<ReadBatch>,
}

impl FileReader<'_> {
    /// Reads to the end; stops early when nobody takes batches any more. A fault comes after what was read before it.
    pub(crate) fn run(mut self) -> Result<ReadState, InputError> {
        let mut window = Window::new(self.base, std::mem::take(&mut self.before));
        let mut batch = EventBatch::default();
        let mut bytes = 0u64;
        let fault = loop {
            let chunk = match window.read(&mut self.file) {
                Ok(0) => break None,
                Ok(_) => window.chunk(),
                Err(error) => break Some(error),
            };
            bytes += chunk.len() as u64;
            self.pipeline.push(chunk, &mut batch);
            let is_full = batch.raw.len() >= BATCH_RAW_BYTES || batch.len() >= BATCH_EVENTS;
            if is_full && let Some(hash) = window.tail_hash(self.base + self.pipeline.safe_offset()) {
                let position = Some((self.base + self.pipeline.safe_offset(), hash));
                let ready = ReadBatch { batch: std::mem::take(&mut batch), position, state: self.state(bytes) };
                if self.batches.send(ready).is_err() {
                    return Ok(self.state(bytes));
                }
            }
        };
        if fault.is_none() {
            self.pipeline.finish(&mut batch);
        }
        let offset = if fault.is_none() { self.base + bytes } else { self.base + self.pipeline.safe_offset() };
        let position = window.tail_hash(offset).map(|hash| (offset, hash));
        let state = self.state(bytes);
        // Nobody listens only after the sink failed, and its error is the one to tell.
        drop(self.batches.send(ReadBatch { batch, position, state: state.clone() }));
        match fault {
            None => Ok(state),
            Some(error) if self.file.packing == Packing::None => Err(InputError::read(self.path, &error)),
            Some(error) => {
                let (path, offset) = (self.path.to_path_buf(), self.base + bytes);
                Err(InputError::Unpack { path, offset, reason: error.to_string() })
            }
        }
    }

    fn state(&self, bytes: u64) -> ReadState {
        ReadState {
            bytes,
            stored_bytes: self.file.stored_bytes_read(),
            counters: self.pipeline.counters(),
            sourcetype: self.pipeline.sourcetype().map(str::to_owned),
            problem: self.pipeline.problem().map(ToString::to_string),
        }
    }
}

/// The last two chunks read.
struct Window {
    previous: Vec<u8>,
    current: Vec<u8>,
    /// Takes the next chunk.
    spare: Vec<u8>,
    /// Unpacked offset of the end of `current`.
    end: u64,
}

impl Window {
    fn new(base: u64, before: Vec<u8>) -> Window {
        Window { previous: Vec::new(), current: before, spare: Vec::new(), end: base }
    }

    fn read(&mut self, file: &mut OpenFile) -> std::io::Result<usize> {
        self.spare.resize(READ_CHUNK_BYTES, 0);
        let read = file.read_chunk(&mut self.spare)?;
        if read > 0 {
            self.spare.truncate(read);
            std::mem::swap(&mut self.previous, &mut self.current);
            std::mem::swap(&mut self.current, &mut self.spare);
            self.end += read as u64;
        }
        Ok(read)
    }

    fn chunk(&self) -> &[u8] {
        &self.current
    }

    /// Hash of the bytes before `offset`, if the window holds them.
    fn tail_hash(&self, offset: u64) -> Option<u64> {
        let back = usize::try_from(self.end.checked_sub(offset)?).ok()?;
        let held = self.previous.len() + self.current.len();
        let upto = held.checked_sub(back)?;
        let reaches_start = self.end == held as u64;
        if upto < identity::HEAD_BYTES && !reaches_start {
            return None;
        }
        let in_current = upto.saturating_sub(self.previous.len());
        let mut tail = self.previous[..upto.min(self.previous.len())].to_vec();
        let keep_from = tail.len().saturating_sub(identity::HEAD_BYTES);
        tail.drain(..keep_from);
        tail.extend_from_slice(&self.current[..in_current]);
        Some(identity::tail_hash(&tail))
    }
}
