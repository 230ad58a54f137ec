//! Adds one file to an index, once.
//!
//! The sink's positions decide where reading starts. A reader thread extracts events (`reader`); the calling thread
//! passes them to the sink with the position after them. An interrupted add therefore resumes at the last durable
//! position, and nothing is stored twice. Standard input, pipes and devices cannot be read again: they are opened once
//! and have no position.

use std::ops::ControlFlow;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use jiff::tz::TimeZone;
use quarry_conf::PropsResolver;
use quarry_event::EventBatch;
use quarry_event::time::TimeNs;
use quarry_pipeline::{Pipeline, PipelineContext, ResumeHint, SAMPLE_BYTES, SourceInfo};
use quarry_stdx::number::usize_of;
use xxhash_rust::xxh3::Xxh3;

use super::binary::{SkipReason, skip_reason};
use super::fingerprint::TAIL_BYTES;
use super::identity::{ReadPlan, StartPosition};
use super::milestones;
use super::open::{Handle, OpenFile, READ_CHUNK_BYTES, STDIN};
use super::reader::{FileReader, ReadBatch, ReadEnd, ReadState};
use super::recent::RecentBytes;
use super::report::{FileReport, ShrunkFile};
use super::{Compression, Rotation};
use crate::{FileIdentity, FilePosition, InputError, Sink};

/// Maximum number of batches queued between the reader and the sink.
const QUEUED_BATCHES_MAX: usize = 2;
/// `source` of standard input.
const STDIN_SOURCE: &str = "stdin";
/// Name of the reader thread.
const READER_THREAD: &str = "quarry-read";

/// Options for adding files.
#[derive(Clone, Debug)]
pub struct OneshotOptions {
    /// Index that receives the events.
    pub index: String,
    /// `host` of the events.
    pub host: String,
    /// Whether the user set the host.
    pub host_is_fixed: bool,
    /// `source`; default is the absolute path.
    pub source: Option<String>,
    /// `sourcetype`; guessed when absent.
    pub sourcetype: Option<String>,
    /// Whether to add a file even if it was added before.
    pub ignore_positions: bool,
    /// Time zone of timestamps without a zone, unless `TZ` is set for them; default is the node's zone.
    pub zone: Option<TimeZone>,
    /// Current time.
    pub now: TimeNs,
    /// Scope within which a file is added only once; default is the index.
    pub scope: Option<String>,
    /// Whether files in this file's folder are rotated.
    pub rotation: Rotation,
    /// Set when the caller has given up. A pipe may stay silent forever, and a device may produce an endless line.
    pub ended: Arc<AtomicBool>,
}

/// Progress of adding a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddProgress {
    /// Decompressed bytes read.
    pub bytes: u64,
    /// Bytes read from the file on disk, which show the progress in a compressed file.
    pub stored_bytes: u64,
    /// Size of the file on disk; 0 if unknown.
    pub stored_bytes_all: u64,
    /// Events handed to the sink.
    pub events: u64,
    /// Events whose text yielded no acceptable timestamp.
    pub bad_timestamps: u64,
}

/// Receives the progress of adding a file.
pub trait Progress {
    /// Called after each batch; `Break` ends adding, but events already passed to the sink are kept.
    fn batch_added(&mut self, at: &AddProgress) -> ControlFlow<()>;
}

/// Ignores progress.
#[derive(Debug)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn batch_added(&mut self, _: &AddProgress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Adds the file at `path`, `-` for standard input. Its events are durable when [`Sink::flush`] returns. If only a part
/// of the file can be read, the error is [`InputError::PartiallyRead`].
pub fn add_file(
    path: &Path,
    options: &OneshotOptions,
    props: &PropsResolver,
    sink: &mut dyn Sink,
    progress: &mut dyn Progress,
) -> Result<FileReport, InputError> {
    let is_stdin = path.as_os_str() == STDIN;
    let wrong = |error: std::io::Error| InputError::read(path, &error);
    match if is_stdin { None } else { Handle::open(path).map_err(wrong)? } {
        Some(handle) => add_handle(&handle, path, options, props, sink, progress),
        None => add_stream(path, options, props, sink, progress),
    }
}

/// Adds standard input, a pipe or a device.
fn add_stream(
    path: &Path,
    options: &OneshotOptions,
    props: &PropsResolver,
    sink: &mut dyn Sink,
    progress: &mut dyn Progress,
) -> Result<FileReport, InputError> {
    let absolute = if path.as_os_str() == STDIN { STDIN_SOURCE.to_owned() } else { absolute_text(path) };
    let file = match OpenFile::open_until(path, &options.ended) {
        // The read was cancelled before any data arrived.
        Err(_) if options.ended.load(Ordering::Relaxed) => {
            return Ok(FileReport { interrupted: true, ..FileReport::default() });
        }
        file => file?,
    };
    let context = context_of(options, file.modified_ns);
    let pipeline = Pipeline::new(info_of(&absolute, options), props, context);
    let pipeline = pipeline.map_err(|source| InputError::Pipeline { path: path.to_path_buf(), source })?;
    let opened = OpenInput { file, pipeline, recent: RecentBytes::new(Vec::new(), 0, None) };
    add_opened(opened, path, 0, None, &options.ended, sink, progress)
}

/// Like [`add_file`], for a regular file that is open; it need not have the name `path` any longer.
pub(crate) fn add_handle(
    handle: &Handle,
    path: &Path,
    options: &OneshotOptions,
    props: &PropsResolver,
    sink: &mut dyn Sink,
    progress: &mut dyn Progress,
) -> Result<FileReport, InputError> {
    let absolute = absolute_text(path);
    let wrong = |error: std::io::Error| InputError::read(path, &error);
    let scope = options.scope.as_ref().unwrap_or(&options.index);
    let start =
        StartPosition::find(handle, path, &absolute, scope, (options.ignore_positions, options.rotation), sink)?;
    let (offset, stored_as) = (start.offset, start.stored_as);
    let plain = (handle.compression == Compression::None).then(|| handle.clone());
    let builder = PositionBuilder { identity: start.identity, path: absolute, plain };
    match start.next {
        ReadPlan::Read | ReadPlan::Undecided { .. } => {}
        ReadPlan::AtEnd => {
            let skipped = offset > 0;
            return Ok(FileReport { skipped, stored_as, resumed_at: offset, ..FileReport::default() });
        }
        ReadPlan::Copied { tail_hash, .. } => {
            if options.rotation != Rotation::None {
                let position = builder.position_of_copy(offset, tail_hash);
                let kept = sink.accept(EventBatch::default(), Some(position));
                kept.map_err(|error| InputError::sink(path, error))?;
            }
            return Ok(FileReport { skipped: true, stored_as, resumed_at: offset, ..FileReport::default() });
        }
    }
    if offset == 0 {
        match skip_reason(handle, &info_of(&builder.path, options), props).map_err(wrong)? {
            None => {}
            Some(reason @ (SkipReason::Binary | SkipReason::Utf16(_))) => {
                let warnings = vec![reason.to_string()];
                return Ok(FileReport { is_skipped_as_binary: true, warnings, ..FileReport::default() });
            }
            Some(archive) => return Err(wrong(std::io::Error::other(archive.to_string()))),
        }
    }
    let opened = open_at(handle, path, offset, &builder.path, options, props)?;
    add_opened(opened, path, offset, Some(&builder), &options.ended, sink, progress)
}

/// Adds the rest of an open file.
fn add_opened(
    opened: OpenInput,
    path: &Path,
    offset: u64,
    builder: Option<&PositionBuilder>,
    ended: &AtomicBool,
    sink: &mut dyn Sink,
    progress: &mut dyn Progress,
) -> Result<FileReport, InputError> {
    let OpenInput { file, pipeline, recent } = opened;
    let stored_bytes_all = file.stored_bytes;
    let expected = if file.compression == Compression::None { stored_bytes_all } else { 0 };
    let (batches, received) = sync_channel(QUEUED_BATCHES_MAX);
    // This channel is unbounded, but never holds more batches than were sent.
    let (returned, spares) = channel();
    let warnings = Vec::new();
    let reader = FileReader { path, file, pipeline, base: offset, recent, warnings, batches, spares };
    let (stored, read) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(READER_THREAD.to_owned());
        let thread = thread.spawn_scoped(scope, move || reader.run());
        let thread = thread.map_err(|error| InputError::read(path, &error))?;
        let stored = store(received, &returned, builder, stored_bytes_all, sink, progress);
        let read = thread.join().map_err(|_| {
            InputError::read(path, &std::io::Error::other("reading ended early because of a bug in quarry"))
        });
        Ok((stored, read))
    })?;
    let stored = stored.map_err(|error| InputError::sink(path, error))?;
    let ReadEnd { state, fault } = read?;
    if let ControlFlow::Break(state) = stored {
        return Ok(FileReport { interrupted: true, ..report_of(state, offset) });
    }
    let mut report = report_of(state, offset);
    match fault {
        Some(_) if ended.load(Ordering::Relaxed) => report.interrupted = true,
        Some(fault) => return Err(InputError::PartiallyRead { fault: Box::new(fault), report: Box::new(report) }),
        None if offset + report.bytes < expected => {
            report.shrunk = Some(ShrunkFile { expected, found: offset + report.bytes });
        }
        None => {}
    }
    Ok(report)
}

/// Creates the positions of a file.
struct PositionBuilder {
    identity: Arc<FileIdentity>,
    path: String,
    /// The file, if it is not compressed. Milestones of a compressed file are not needed, because it does not grow.
    plain: Option<Handle>,
}

impl PositionBuilder {
    fn position(&self, offset: u64, tail_hash: u64) -> FilePosition {
        // A file truncated in the meantime has no milestones and counts as a copy.
        let milestones = self.plain.as_ref().and_then(|handle| milestones::compute_for_plain(handle, offset).ok());
        self.at(offset, tail_hash, milestones.unwrap_or_default())
    }

    fn position_of_copy(&self, offset: u64, tail_hash: u64) -> FilePosition {
        self.at(offset, tail_hash, Vec::new())
    }

    fn at(&self, offset: u64, tail_hash: u64, milestones: Vec<u32>) -> FilePosition {
        FilePosition { identity: self.identity.clone(), offset, tail_hash, path: self.path.clone(), milestones }
    }
}

/// Passes batches to the sink until the reader ends; if adding is interrupted, returns the reader's progress so far.
fn store(
    received: Receiver<ReadBatch>,
    returned: &Sender<EventBatch>,
    builder: Option<&PositionBuilder>,
    stored_bytes_all: u64,
    sink: &mut dyn Sink,
    progress: &mut dyn Progress,
) -> Result<ControlFlow<ReadState>, crate::SinkError> {
    // The loop owns the receiver, so that a failure here ends the reader and no later batch reaches the sink.
    for ReadBatch { batch, position, state } in received {
        let position = builder.zip(position).map(|(builder, (offset, tail_hash))| builder.position(offset, tail_hash));
        if !batch.is_empty() || position.is_some() {
            sink.accept(batch, position)?;
        }
        if let Some(spare) = sink.spare_batch() {
            // Sending fails if the reader has finished.
            drop(returned.send(spare));
        }
        let flow = progress.batch_added(&AddProgress {
            bytes: state.bytes,
            stored_bytes: state.stored_bytes,
            stored_bytes_all,
            events: state.counters.events,
            bad_timestamps: state.counters.bad_timestamps,
        });
        if flow.is_break() {
            return Ok(ControlFlow::Break(state));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn report_of(state: ReadState, resumed_at: u64) -> FileReport {
    FileReport {
        bytes: state.bytes,
        events: state.counters.events,
        bad_timestamps: state.counters.bad_timestamps,
        truncated_lines: state.counters.truncated_lines,
        dropped_events: state.counters.dropped_events,
        skipped: false,
        stored_as: None,
        resumed_at,
        interrupted: false,
        sourcetype: state.sourcetype,
        shrunk: None,
        problem: state.problem,
        is_skipped_as_binary: false,
        has_unread_end: state.has_unread_end,
        warnings: state.warnings,
    }
}

/// A file opened at the offset where reading starts.
struct OpenInput {
    file: OpenFile,
    pipeline: Pipeline,
    /// The last bytes before that offset.
    recent: RecentBytes,
}

/// Metadata of the file at a path.
fn info_of(absolute: &str, options: &OneshotOptions) -> SourceInfo {
    SourceInfo {
        index: options.index.clone(),
        host: options.host.clone(),
        host_is_fixed: options.host_is_fixed,
        source: options.source.clone().unwrap_or_else(|| absolute.to_owned()),
        sourcetype: options.sourcetype.clone(),
    }
}

fn context_of(options: &OneshotOptions, modified: Option<TimeNs>) -> PipelineContext {
    PipelineContext { now: options.now, zone: options.zone.clone(), modified, orders: None }
}

/// Opens the pipeline at `offset` of a file's content.
fn open_at(
    handle: &Handle,
    path: &Path,
    offset: u64,
    absolute: &str,
    options: &OneshotOptions,
    props: &PropsResolver,
) -> Result<OpenInput, InputError> {
    let wrong = |error: std::io::Error| InputError::read(path, &error);
    let (file, reached) = handle.reader_at(offset.saturating_sub(TAIL_BYTES as u64)).map_err(wrong)?;
    let mut file = file.end_when(&options.ended);
    let (info, context) = (info_of(absolute, options), context_of(options, file.modified_ns));
    let mut prefix = (file.compression != Compression::None).then(Xxh3::new);
    let faulty = |source| InputError::Pipeline { path: path.to_path_buf(), source };
    if offset == 0 {
        let mut pipeline = Pipeline::new(info, props, context).map_err(faulty)?;
        take_samples(handle, path, &mut pipeline).map_err(wrong)?;
        return Ok(OpenInput { file, pipeline, recent: RecentBytes::new(Vec::new(), 0, prefix) });
    }
    let hint = hint(handle, path, &info, &context, props, false)?;
    let before = skip(&mut file, offset - reached, prefix.as_mut()).map_err(wrong)?;
    let mut pipeline = Pipeline::resume(info, props, context, hint).map_err(faulty)?;
    take_samples(handle, path, &mut pipeline).map_err(wrong)?;
    Ok(OpenInput { file, pipeline, recent: RecentBytes::new(before, offset, prefix) })
}

/// Passes lines sampled from the file and its siblings to a new pipeline that detects formats from more than the first
/// bytes.
pub(crate) fn take_samples(handle: &Handle, path: &Path, pipeline: &mut Pipeline) -> std::io::Result<()> {
    if pipeline.needs_samples() {
        pipeline.set_samples(handle.samples_with_siblings(path)?);
    }
    Ok(())
}

/// State for reading from the middle of a file, derived from its start; `was_growing` as in
/// [`Pipeline::resume_hint_from_head`].
pub(crate) fn hint(
    handle: &Handle,
    path: &Path,
    info: &SourceInfo,
    context: &PipelineContext,
    props: &PropsResolver,
    was_growing: bool,
) -> Result<ResumeHint, InputError> {
    let mut head = vec![0; SAMPLE_BYTES];
    let read = handle.reader().and_then(|mut file| file.read_chunk(&mut head));
    let read = read.map_err(|error| InputError::read(path, &error))?;
    let hint = Pipeline::resume_hint_from_head(info.clone(), props, context.clone(), &head[..read], was_growing);
    hint.map_err(|source| InputError::Pipeline { path: path.to_path_buf(), source })
}

/// Skips `bytes` bytes and returns the last [`TAIL_BYTES`] of them; the earlier bytes are added to the hash `prefix`.
fn skip(file: &mut OpenFile, bytes: u64, mut prefix: Option<&mut Xxh3>) -> std::io::Result<Vec<u8>> {
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    let mut before: Vec<u8> = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let want = usize_of(left.min(READ_CHUNK_BYTES as u64));
        let read = file.read_chunk(&mut buffer[..want])?;
        if read == 0 {
            let message = "was truncated below the position it had been read to";
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, message));
        }
        before.extend_from_slice(&buffer[..read]);
        let surplus = before.len().saturating_sub(TAIL_BYTES);
        if let Some(prefix) = &mut prefix {
            prefix.update(&before[..surplus]);
        }
        before.drain(..surplus);
        left -= read as u64;
    }
    Ok(before)
}

/// The absolute path as in events and checkpoints, without `..`. Links are kept, except before a `..`, which only the
/// system can resolve.
pub fn absolute_text(path: &Path) -> String {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    let folder = path.parent().filter(|_| goes_up).and_then(|folder| folder.canonicalize().ok());
    let resolved = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    let path = resolved.as_deref().unwrap_or(path);
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}
