//! Tailing: reading a plain file as it grows.
//!
//! The pipeline stays open between reads, so that an event whose lines arrive one by one is one event. Events are
//! handed over to the sink together with the position after them, as in [`super::super::oneshot`], and become durable
//! with it; an incomplete event comes after the position, so it is read again after a crash. The file is held open, so
//! that it is read to its end even after it is renamed or removed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::NANOS_PER_SEC;
use super::held_files::HeldFile;
use super::roster::Inode;
use crate::file::Compression;
use crate::file::binary::skip_reason;
use crate::file::fingerprint::{HEAD_BYTES, TAIL_BYTES};
use crate::file::identity::{ReadPlan, StartPosition};
use crate::file::milestones;
use crate::file::oneshot::{hint, take_samples};
use crate::file::open::{Handle, OpenFile};
use crate::file::recent::RecentBytes;
use crate::file::rotation::{Rotation, sibling_heads};
use crate::{FileIdentity, FilePosition, InputError, Sink};
use quarry_conf::PropsResolver;
use quarry_event::EventBatch;
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};
use quarry_stdx::number::usize_of;

/// Bytes of text after which a batch is handed over.
const BATCH_RAW_BYTES: usize = 1 << 20;
/// Number of events after which a batch is handed over.
const BATCH_EVENTS: usize = 65_536;
/// Maximum distance from a file's end at which the start of its last line is sought.
const LAST_LINE_BYTES: u64 = 64 << 10;

/// Time after the last write during which a file with too few bytes to identify waits for more.
const UNIDENTIFIED_MAX_NS: i64 = NANOS_PER_SEC;
/// Time after the last write during which a copy may still be in progress.
const COPY_IN_PROGRESS_MAX_NS: i64 = 5 * NANOS_PER_SEC;

/// Options for opening a file.
pub(crate) struct TailOptions<'a> {
    /// Inode of the file.
    pub(crate) node: Inode,
    /// The open file, if it was held since discovery.
    pub(crate) held: Option<&'a HeldFile>,
    pub(crate) info: SourceInfo,
    pub(crate) context: PipelineContext,
    pub(crate) scope: &'a str,
    /// Whether an unknown file is read from its end, or from its last line if that is incomplete.
    pub(crate) follow_tail: bool,
    pub(crate) rotation: Rotation,
    /// Whether a short file may still become a copy of a neighbouring file.
    pub(crate) check_partial_copy: bool,
}

/// Result of opening a file for tailing.
pub(crate) enum OpenOutcome {
    Tail(Box<Tail>),
    /// All events of the file are stored.
    AtEnd,
    /// The file is compressed or binary and does not grow line by line.
    Compressed,
    /// The file may be a copy of another file that has not been read to its end.
    Undecided {
        /// Offset up to which the other file was read; 0 if unknown.
        origin_offset: u64,
    },
    /// A copy of a file that was read up to the same offset, so nothing needs to be read.
    Copied {
        end: FilePosition,
        /// Set if events of the copy were stored under a position of its own, which must be replaced at once.
        was_read: bool,
    },
    /// More bytes are needed to determine the file's format.
    Unidentifiable,
    /// Another file now has this name; the next scan of the folder will find that file.
    Changed,
}

/// A file being tailed.
pub(crate) struct Tail {
    handle: Handle,
    node: Inode,
    path: String,
    identity: Arc<FileIdentity>,
    /// Leading bytes of the file read so far, at most [`HEAD_BYTES`].
    head: Vec<u8>,
    pipeline: Pipeline,
    /// Offset in the file of the first byte given to the pipeline.
    base: u64,
    /// Offset after the last byte read.
    fed: u64,
    /// Offset up to which events were handed over.
    kept: u64,
    recent: RecentBytes,
    milestones: Vec<u32>,
    batch: EventBatch,
    pub(crate) counted: ReadCounts,
}

/// Counts of the bytes read and of the events handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts {
    pub(crate) bytes: u64,
    pub(crate) events: u64,
}

/// Position at which reading an open file resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumePosition {
    /// At the current offset of the open file.
    Current,
    /// At another offset, because a copy of the file was read.
    OtherOffset,
    /// Nowhere, because the content of the file changed.
    ContentChanged,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// No unread bytes are left for now.
    End {
        /// Whether anything was read.
        has_grown: bool,
    },
    /// More bytes can be read now.
    More,
    /// The file is shorter than the part read from it, or its beginning changed since it was opened.
    Shrunk,
}

impl Tail {
    /// Opens the file at the position that the sink has stored for it.
    pub(crate) fn open(
        path: &Path,
        options: &TailOptions,
        props: &PropsResolver,
        sink: &mut dyn Sink,
    ) -> Result<OpenOutcome, InputError> {
        let wrong = |error: io::Error| InputError::read(path, &error);
        let opened = match options.held {
            Some(held) => Handle::of(Arc::clone(&held.file)).map(Some),
            None => Handle::open(path),
        };
        let Some(handle) = opened.map_err(wrong)? else { return Ok(OpenOutcome::Changed) };
        let node = Inode::of(&handle.metadata);
        let is_named = || options.held.is_some_and(HeldFile::has_no_name) || Tail::is_at(node, path);
        if node != options.node || !is_named() {
            return Ok(OpenOutcome::Changed);
        }
        let age = handle.modified_ns().map(|modified| options.context.now.saturating_sub(modified));
        if handle.is_format_unknown && age.is_some_and(|age| (0..UNIDENTIFIED_MAX_NS).contains(&age)) {
            return Ok(OpenOutcome::Unidentifiable);
        }
        if handle.compression != Compression::None {
            return Ok(OpenOutcome::Compressed);
        }
        let text = path.display().to_string();
        let start = StartPosition::find(&handle, path, &text, options.scope, (false, options.rotation), sink)?;
        if !is_named() {
            return Ok(OpenOutcome::Changed);
        }
        let is_new = start.offset == 0 && start.identity.variant == 0;
        let skipped = if is_new && options.follow_tail { last_line(&handle).map_err(wrong)? } else { 0 };
        let is_fresh = age.is_some_and(|age| age < COPY_IN_PROGRESS_MAX_NS);
        match start.next {
            ReadPlan::Undecided { origin_offset } => return Ok(OpenOutcome::Undecided { origin_offset }),
            ReadPlan::AtEnd if skipped == 0 => return Ok(OpenOutcome::AtEnd),
            ReadPlan::Copied { tail_hash, was_read } => {
                let StartPosition { identity, offset, .. } = start;
                let end = FilePosition { identity, offset, tail_hash, path: text, milestones: Vec::new() };
                return Ok(OpenOutcome::Copied { end, was_read });
            }
            ReadPlan::Read if start.offset == 0 && is_fresh && options.check_partial_copy => {
                if may_be_partial_copy(&handle, path, options.scope, &start, sink)? {
                    return Ok(OpenOutcome::Undecided { origin_offset: 0 });
                }
            }
            ReadPlan::Read | ReadPlan::AtEnd => {}
        }
        let offset = start.offset.max(skipped);
        if offset == 0 && skip_reason(&handle, &options.info, props).map_err(wrong)?.is_some() {
            return Ok(OpenOutcome::Compressed);
        }
        let before = read_before(&handle, offset).map_err(wrong)?;
        let pipeline = pipeline_at(offset, &handle, path, options, props)?;
        Ok(OpenOutcome::Tail(Box::new(Tail {
            head: first_bytes(&handle, offset).map_err(wrong)?,
            milestones: milestones::compute_for_plain(&handle, offset).map_err(wrong)?,
            handle,
            node,
            path: text,
            identity: start.identity,
            pipeline,
            base: offset,
            fed: offset,
            kept: start.offset,
            recent: RecentBytes::new(before, offset, None),
            batch: EventBatch::default(),
            counted: ReadCounts::default(),
        })))
    }

    /// Whether the file (still) has this name.
    pub(crate) fn has_name(&self, path: &Path) -> bool {
        Tail::is_at(self.node, path)
    }

    /// The open file.
    pub(crate) fn file(&self) -> Arc<File> {
        self.handle.file()
    }

    /// True if no name of the file is left.
    pub(crate) fn is_removed(&self) -> bool {
        self.handle.is_removed()
    }

    fn is_at(node: Inode, path: &Path) -> bool {
        path.metadata().is_ok_and(|metadata| Inode::of(&metadata) == node)
    }

    /// Determines, from the sink's positions and the file's content, the position at which reading resumes. Called each
    /// time before reading continues, because the file may have been rewritten, or a copy of it read, in the meantime.
    pub(crate) fn resume_position(
        &mut self,
        path: &Path,
        scope: &str,
        rotation: Rotation,
        sink: &mut dyn Sink,
    ) -> Result<ResumePosition, InputError> {
        if self.has_name(path) {
            let wrong = |error: io::Error| InputError::read(path, &error);
            if let Some(handle) = Handle::open(path).map_err(wrong)?
                && Inode::of(&handle.metadata) == self.node
            {
                let start = StartPosition::find(&handle, path, &self.path, scope, (false, rotation), sink)?;
                if !self.is_unchanged() {
                    return Ok(ResumePosition::ContentChanged);
                }
                if self.kept == 0 && start.offset == 0 {
                    // Before the first batch, the identity may have grown since the file was opened.
                    self.identity = start.identity.clone();
                }
                let goes_on = matches!(start.next, ReadPlan::Read | ReadPlan::AtEnd);
                let is_same = goes_on && start.offset == self.kept && start.identity == self.identity;
                return Ok(if is_same { ResumePosition::Current } else { ResumePosition::OtherOffset });
            }
        }
        if !self.is_unchanged() {
            return Ok(ResumePosition::ContentChanged);
        }
        // The name belongs to another file now, so the open file is read to its end. No other reader may resume the
        // file before the batches handed over are stored; `sink.positions` waits until they are.
        Ok(if self.was_copy_read_further(sink)? { ResumePosition::OtherOffset } else { ResumePosition::Current })
    }

    fn positions(&self, head: &[u8], sink: &mut dyn Sink) -> Result<Vec<FilePosition>, InputError> {
        let known = sink.positions(&self.identity.scope, head);
        known.map_err(|error| InputError::sink(Path::new(&self.path), error))
    }

    /// True if another file with the same content, usually a copy, has been read further than this file. Otherwise, the
    /// next batch may be handed over.
    fn was_copy_read_further(&mut self, sink: &mut dyn Sink) -> Result<bool, InputError> {
        if self.kept == 0 && self.head.len() < HEAD_BYTES {
            // A longer copy may be stored under more leading bytes than have been read from this file.
            for head in sibling_heads(Path::new(&self.path), &self.head) {
                if self.positions(&head, sink)?.iter().any(|known| known.offset >= self.fed) {
                    return Ok(true);
                }
            }
        }
        let known = self.positions(&self.head, sink)?;
        let has_own_head = |position: &&FilePosition| position.identity.head.len() == self.identity.head.len();
        let is_own =
            |position: &FilePosition| position.identity.variant == self.identity.variant && has_own_head(&position);
        let is_beyond = |position: &FilePosition| match position.offset {
            offset if self.kept > 0 && is_own(position) => offset != self.kept,
            offset if offset <= self.kept => false,
            offset if offset <= self.fed => position.tail_hash == self.recent.tail_hash(offset),
            _ => self.kept == 0 && self.is_held_by(Path::new(&position.path)),
        };
        let is_overtaken = known.iter().any(is_beyond);
        if !is_overtaken && self.kept == 0 && known.iter().any(is_own) {
            // Another file with the same beginning already has this variant number, so this file gets the next one.
            let variant = known.iter().filter(has_own_head).map(|position| position.identity.variant + 1).max();
            let identity = FileIdentity { variant: variant.unwrap_or(0), ..FileIdentity::clone(&self.identity) };
            self.identity = Arc::new(identity);
        }
        Ok(is_overtaken)
    }

    /// True if the file at `path` begins with the bytes read from this file; used before the first batch is handed
    /// over.
    fn is_held_by(&self, path: &Path) -> bool {
        let read = self.recent.bytes_before(self.fed);
        let mut other = vec![0; read.len()];
        let opened = OpenFile::open(path);
        opened.is_ok_and(|mut file| file.read_chunk(&mut other).is_ok_and(|bytes| other[..bytes] == *read))
    }

    /// Hands over everything read from a file whose content has changed, unless a copy of it was read in the meantime.
    pub(crate) fn abandon(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        if !self.has_undelivered() || self.was_copy_read_further(sink)? {
            return Ok(());
        }
        self.finish(sink)
    }

    /// Like [`Tail::abandon`], but only for events that are certainly complete; an unfinished line may be complete in a
    /// copy.
    pub(crate) fn abandon_lines(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        if !self.has_undelivered() || self.was_copy_read_further(sink)? {
            return Ok(());
        }
        self.pause(sink)
    }

    /// Whether the last bytes before the current offset are unchanged.
    fn is_unchanged(&self) -> bool {
        let read = self.recent.bytes_before(self.fed);
        let read = &read[read.len().saturating_sub(TAIL_BYTES)..];
        let mut now = vec![0; read.len()];
        self.handle.read_exact_at(&mut now, self.fed - read.len() as u64).is_ok() && now == read
    }

    /// Offset up to which events were handed over.
    pub(crate) fn delivered_offset(&self) -> u64 {
        self.kept
    }

    /// True if bytes were read whose events have not been handed over.
    pub(crate) fn has_undelivered(&self) -> bool {
        self.fed > self.kept
    }

    /// True if more bytes are needed to determine the file's format.
    pub(crate) fn is_beginning(&self) -> bool {
        self.pipeline.is_beginning()
    }

    /// True if the bytes read so far suffice to determine the file's format.
    pub(crate) fn can_begin(&self) -> bool {
        self.pipeline.can_begin()
    }

    /// True if the file has unread bytes or has become shorter.
    pub(crate) fn has_more(&self) -> bool {
        self.handle.content_bytes_now().is_ok_and(|(bytes, _)| bytes != self.fed)
    }

    /// Reads up to about `limit` bytes and hands over complete events.
    pub(crate) fn read(
        &mut self,
        now: i64,
        limit: usize,
        buffer: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<ReadOutcome, InputError> {
        let (bytes, modified) = self.handle.content_bytes_now().map_err(|error| self.read_error(&error))?;
        if bytes < self.fed {
            return Ok(ReadOutcome::Shrunk);
        }
        self.pipeline.set_now(now, modified);
        let mut read_bytes = 0;
        let reached = loop {
            match self.handle.read_at(buffer, self.fed) {
                Ok(0) => break ReadOutcome::End { has_grown: read_bytes > 0 },
                Ok(read) => {
                    // A file that was truncated and rewritten since it was opened is a different file: its old identity
                    // is wrong.
                    let (begin, head) = (&buffer[..read], &self.identity.head);
                    if self.fed == 0 && begin.iter().zip(head).any(|(now, then)| now != then) {
                        return Ok(ReadOutcome::Shrunk);
                    }
                    // These bytes may already belong to other content of at least the same length.
                    if !self.is_unchanged() {
                        return Ok(ReadOutcome::Shrunk);
                    }
                    self.take(&buffer[..read]);
                    read_bytes += read;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.deliver(self.complete_offset(), sink)?;
                    return Err(self.read_error(&error));
                }
            }
            if self.batch.raw.len() >= BATCH_RAW_BYTES || self.batch.len() >= BATCH_EVENTS {
                self.deliver(self.complete_offset(), sink)?;
            }
            if read_bytes >= limit {
                break ReadOutcome::More;
            }
        };
        self.deliver(self.complete_offset(), sink)?;
        Ok(reached)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.pipeline.push(bytes, &mut self.batch);
        if self.head.len() < HEAD_BYTES {
            let missing = HEAD_BYTES - self.head.len();
            self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        }
        milestones::add_passed(&mut self.milestones, self.recent.bytes_before(self.fed), self.fed, bytes);
        self.fed += bytes.len() as u64;
        self.counted.bytes += bytes.len() as u64;
        self.recent.push(bytes, self.complete_offset());
    }

    /// Determines the file's format from the bytes read so far and hands over the complete events.
    pub(crate) fn begin(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        self.pipeline.begin(&mut self.batch);
        self.deliver(self.complete_offset(), sink)
    }

    /// Hands over the complete events of a quiet file, including a last event that might have continued.
    pub(crate) fn pause(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        self.pipeline.pause(&mut self.batch);
        self.deliver(self.complete_offset(), sink)
    }

    /// Hands over everything, including an unfinished line.
    pub(crate) fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        self.pipeline.finish(&mut self.batch);
        self.deliver(self.fed, sink)
    }

    /// Offset after the last complete event.
    fn complete_offset(&self) -> u64 {
        self.base + self.pipeline.safe_offset()
    }

    fn deliver(&mut self, offset: u64, sink: &mut dyn Sink) -> Result<(), InputError> {
        if self.batch.is_empty() && offset == self.kept {
            return Ok(());
        }
        let position = FilePosition {
            identity: self.identity.clone(),
            offset,
            tail_hash: self.recent.tail_hash(offset),
            path: self.path.clone(),
            milestones: self.milestones[..milestones::reached_count(offset).min(self.milestones.len())].to_vec(),
        };
        self.counted.events += self.batch.len() as u64;
        let next = sink.spare_batch().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        sink.accept(batch, Some(position)).map_err(|error| InputError::sink(Path::new(&self.path), error))?;
        self.kept = offset;
        Ok(())
    }

    /// Remarks about ambiguous dates and truncated lines, if the file has any.
    pub(crate) fn remark(&self) -> Option<String> {
        self.pipeline.counters().remark()
    }

    fn read_error(&self, error: &io::Error) -> InputError {
        InputError::read(Path::new(&self.path), error)
    }
}

/// The pipeline for the content after `offset`.
fn pipeline_at(
    offset: u64,
    handle: &Handle,
    path: &Path,
    options: &TailOptions<'_>,
    props: &PropsResolver,
) -> Result<Pipeline, InputError> {
    let context = PipelineContext { modified: handle.modified_ns(), ..options.context.clone() };
    let faulty = |source| InputError::Pipeline { path: path.to_path_buf(), source };
    let mut pipeline = if offset == 0 {
        Pipeline::new(options.info.clone(), props, context)
    } else {
        let hint = hint(handle, path, &options.info, &context, props, true)?;
        Pipeline::resume(options.info.clone(), props, context, hint)
    }
    .map_err(faulty)?;
    take_samples(handle, path, &mut pipeline).map_err(|error| InputError::read(path, &error))?;
    Ok(pipeline)
}

/// The first bytes of the file: as many as identify it, at most `offset`.
fn first_bytes(handle: &Handle, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize_of(offset.min(HEAD_BYTES as u64))];
    handle.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Up to 256 bytes before `offset`.
fn read_before(handle: &Handle, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize_of(offset.min(TAIL_BYTES as u64))];
    let from = offset - bytes.len() as u64;
    handle.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// Offset of a file's last line, or the end of the file if its last line is complete or very long.
fn last_line(handle: &Handle) -> io::Result<u64> {
    let size = handle.content_bytes();
    let mut bytes = vec![0; size.min(LAST_LINE_BYTES) as usize];
    let from = size - bytes.len() as u64;
    handle.read_exact_at(&mut bytes, from)?;
    let after_break = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| from + at as u64 + 1);
    Ok(after_break.unwrap_or(size))
}

/// True if a new file that is too short to identify may be a copy in progress: it equals the beginning of a
/// neighbouring file that was read at least as far.
fn may_be_partial_copy(
    handle: &Handle,
    path: &Path,
    scope: &str,
    start: &StartPosition,
    sink: &mut dyn Sink,
) -> Result<bool, InputError> {
    let bytes = handle.content_bytes();
    if bytes >= HEAD_BYTES as u64 {
        return Ok(false);
    }
    let wrong = |error| InputError::sink(path, error);
    let heads = sibling_heads(path, &start.identity.head);
    for head in &heads {
        if sink.positions(scope, head).map_err(wrong)?.iter().any(|known| known.offset >= bytes) {
            return Ok(true);
        }
    }
    if !heads.is_empty() {
        // This call tells the sink which file the next batch belongs to.
        sink.positions(scope, &start.identity.head).map_err(wrong)?;
    }
    Ok(false)
}
