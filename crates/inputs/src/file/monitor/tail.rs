//! A plain file that is read as it grows.
//!
//! The pipeline stays open between reads, so that an event whose lines come one by one is one event. What is stored
//! goes together with the position behind it, as when a file is added; half an event has no position, and is read again
//! after a crash. The file is held open: renamed or removed, it is still read to its end.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::NANOSECONDS;
use super::held::Held;
use super::roster::Inode;
use crate::file::Packing;
use crate::file::binary::left_out;
use crate::file::fingerprint::{HEAD_BYTES, TAIL_BYTES, tail_hash};
use crate::file::identity::{Next, Start};
use crate::file::milestones;
use crate::file::oneshot::hint;
use crate::file::open::{Handle, OpenFile, READ_CHUNK_BYTES};
use crate::file::rotation::{Rotation, beside};
use crate::{FileIdentity, FilePosition, InputError, Sink};
use quarry_conf::PropsResolver;
use quarry_event::EventBatch;
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};
use quarry_stdx::number::usize_of;

/// Text bytes at which a batch is handed over.
const BATCH_RAW_BYTES: usize = 1 << 20;
/// Events at which a batch is handed over.
const BATCH_EVENTS: usize = 65_536;
/// Bytes looked back from the end of a file for the beginning of its last line.
const LAST_LINE_BYTES: u64 = 64 << 10;

/// Longest time after a file was written in which a few first bytes wait for the next.
const UNCLEAR_MAX_NS: i64 = NANOSECONDS;
/// Time after a file was written in which a copy may still be written.
const FRESH_NS: i64 = 5 * NANOSECONDS;

/// How a file is to be read.
pub(crate) struct TailOptions<'a> {
    /// Which file it is.
    pub(crate) node: Inode,
    /// The file, if it is open.
    pub(crate) held: Option<&'a Held>,
    pub(crate) info: SourceInfo,
    pub(crate) context: PipelineContext,
    pub(crate) scope: &'a str,
    /// Whether a file that nothing is known of is read from its end on.
    pub(crate) follow_tail: bool,
    pub(crate) rotation: Rotation,
    /// Whether a short file may still become a copy of one beside it.
    pub(crate) may_be_begun_copy: bool,
}

/// What opening a file came to.
pub(crate) enum Opened {
    Tail(Box<Tail>),
    /// All of it is stored.
    AtEnd,
    /// It is packed or no text, so that it does not grow line by line.
    Packed,
    /// It may be a copy of a file that is to be read on first.
    Undecided {
        /// How far that one is read, where this is known.
        origin_offset: u64,
    },
    /// It is a copy of a file that is read as far, so that nothing of it is to be read.
    Copied {
        end: FilePosition,
        /// Whether some of it was read, so that this is to be kept at once.
        was_read: bool,
    },
    /// Its next bytes decide how it is packed.
    Unclear,
    /// Another file has its name: it is known by the next look at its folder.
    Changed,
}

/// A file that is read as it grows.
pub(crate) struct Tail {
    handle: Handle,
    node: Inode,
    path: String,
    identity: Arc<FileIdentity>,
    /// The first bytes, as far as they were read, up to as many as an identity has.
    head: Vec<u8>,
    pipeline: Pipeline,
    /// Offset of the pipeline's first byte.
    base: u64,
    /// Offset behind the last byte read.
    fed: u64,
    /// Offset up to which events are handed over.
    kept: u64,
    recent: Recent,
    milestones: Vec<u32>,
    batch: EventBatch,
    pub(crate) counted: Counted,
}

/// What was handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) bytes: u64,
    pub(crate) events: u64,
}

/// Where reading an open file goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Where it stands.
    Here,
    /// Somewhere else, because a copy of it was read.
    Elsewhere,
    /// Nowhere: it does not hold what was read of it any more.
    Cut,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Nothing is left for now.
    End {
        /// Whether anything was read.
        has_grown: bool,
    },
    /// There is more.
    More,
    /// The file is shorter than what was read of it, or begins in another way than when it was opened.
    Shrunk,
}

impl Tail {
    /// Opens the file where the sink says that reading it goes on.
    pub(crate) fn open(
        path: &Path,
        options: &TailOptions,
        props: &PropsResolver,
        sink: &mut dyn Sink,
    ) -> Result<Opened, InputError> {
        let wrong = |error: io::Error| InputError::read(path, &error);
        let opened = match options.held {
            Some(held) => Handle::of(Arc::clone(&held.file)).map(Some),
            None => Handle::open(path),
        };
        let Some(handle) = opened.map_err(wrong)? else { return Ok(Opened::Changed) };
        let node = Inode::of(&handle.metadata);
        let is_named = || options.held.is_some_and(Held::has_no_name) || Tail::is_at(node, path);
        if node != options.node || !is_named() {
            return Ok(Opened::Changed);
        }
        let age = handle.modified_ns().map(|modified| options.context.now.saturating_sub(modified));
        if handle.is_unclear && age.is_some_and(|age| (0..UNCLEAR_MAX_NS).contains(&age)) {
            return Ok(Opened::Unclear);
        }
        if handle.packing != Packing::None {
            return Ok(Opened::Packed);
        }
        let text = path.display().to_string();
        let start = Start::find(&handle, path, &text, options.scope, (false, options.rotation), sink)?;
        if !is_named() {
            return Ok(Opened::Changed);
        }
        let is_new = start.offset == 0 && start.identity.variant == 0;
        let skipped = if is_new && options.follow_tail { last_line(&handle).map_err(wrong)? } else { 0 };
        let is_fresh = age.is_some_and(|age| age < FRESH_NS);
        match start.next {
            Next::Undecided { origin_offset } => return Ok(Opened::Undecided { origin_offset }),
            Next::AtEnd if skipped == 0 => return Ok(Opened::AtEnd),
            Next::Copied { tail_hash, was_read } => {
                let Start { identity, offset, .. } = start;
                let end = FilePosition { identity, offset, tail_hash, path: text, milestones: Vec::new() };
                return Ok(Opened::Copied { end, was_read });
            }
            Next::Read if start.offset == 0 && is_fresh && options.may_be_begun_copy => {
                if is_begun_copy(&handle, path, options.scope, &start, sink)? {
                    return Ok(Opened::Undecided { origin_offset: 0 });
                }
            }
            Next::Read | Next::AtEnd => {}
        }
        let offset = start.offset.max(skipped);
        if offset == 0 && left_out(&handle, &options.info, props).map_err(wrong)?.is_some() {
            return Ok(Opened::Packed);
        }
        let before = read_before(&handle, offset).map_err(wrong)?;
        let pipeline = pipeline_at(offset, &handle, path, options, props)?;
        Ok(Opened::Tail(Box::new(Tail {
            head: first_bytes(&handle, offset).map_err(wrong)?,
            milestones: milestones::of_plain(&handle, offset).map_err(wrong)?,
            handle,
            node,
            path: text,
            identity: start.identity,
            pipeline,
            base: offset,
            fed: offset,
            kept: start.offset,
            recent: Recent { bytes: before, end: offset },
            batch: EventBatch::default(),
            counted: Counted::default(),
        })))
    }

    /// Whether the file has this name (still).
    pub(crate) fn has_name(&self, path: &Path) -> bool {
        Tail::is_at(self.node, path)
    }

    fn is_at(node: Inode, path: &Path) -> bool {
        path.metadata().is_ok_and(|metadata| Inode::of(&metadata) == node)
    }

    /// Whether reading goes on where this stands, by what the sink and the file say. Asked before anything is handed
    /// over: a copy of the file may have been read meanwhile, or the file written anew.
    pub(crate) fn standing(
        &mut self,
        path: &Path,
        scope: &str,
        rotation: Rotation,
        sink: &mut dyn Sink,
    ) -> Result<Standing, InputError> {
        if self.has_name(path) {
            let wrong = |error: io::Error| InputError::read(path, &error);
            if let Some(handle) = Handle::open(path).map_err(wrong)?
                && Inode::of(&handle.metadata) == self.node
            {
                let start = Start::find(&handle, path, &self.path, scope, (false, rotation), sink)?;
                if !self.is_unchanged() {
                    return Ok(Standing::Cut);
                }
                if self.kept == 0 && start.offset == 0 {
                    // Nothing is handed over: it may be known by more bytes than it had when it was opened.
                    self.identity = start.identity.clone();
                }
                let goes_on = matches!(start.next, Next::Read | Next::AtEnd);
                let is_same = goes_on && start.offset == self.kept && start.identity == self.identity;
                return Ok(if is_same { Standing::Here } else { Standing::Elsewhere });
            }
        }
        if !self.is_unchanged() {
            return Ok(Standing::Cut);
        }
        // The name is another file's now, so this one is read to its end. Nobody else may take it up before what is handed
        // over is settled, which whoever asks for positions waits for.
        Ok(if self.is_overtaken(sink)? { Standing::Elsewhere } else { Standing::Here })
    }

    fn positions(&self, head: &[u8], sink: &mut dyn Sink) -> Result<Vec<FilePosition>, InputError> {
        let known = sink.positions(&self.identity.scope, head);
        known.map_err(|error| InputError::sink(Path::new(&self.path), error))
    }

    /// Whether somebody read the same content, in a copy of the file, beyond what is handed over of this one. What is
    /// handed over next may follow this question.
    fn is_overtaken(&mut self, sink: &mut dyn Sink) -> Result<bool, InputError> {
        if self.kept == 0 && self.head.len() < HEAD_BYTES {
            // A copy that is longer may be known by more bytes than were read here.
            for head in beside(Path::new(&self.path), &self.head) {
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
            offset if offset <= self.fed => position.tail_hash == tail_hash(self.recent.before(offset)),
            _ => self.kept == 0 && self.is_held_by(Path::new(&position.path)),
        };
        let is_overtaken = known.iter().any(is_beyond);
        if !is_overtaken && self.kept == 0 && known.iter().any(is_own) {
            // Another file that begins alike came first.
            let variant = known.iter().filter(has_own_head).map(|position| position.identity.variant + 1).max();
            let identity = FileIdentity { variant: variant.unwrap_or(0), ..FileIdentity::clone(&self.identity) };
            self.identity = Arc::new(identity);
        }
        Ok(is_overtaken)
    }

    /// Whether the file at a path holds what was read of this one, of which nothing is handed over.
    fn is_held_by(&self, path: &Path) -> bool {
        let read = self.recent.before(self.fed);
        let mut other = vec![0; read.len()];
        let opened = OpenFile::open(path);
        opened.is_ok_and(|mut file| file.read_chunk(&mut other).is_ok_and(|bytes| other[..bytes] == *read))
    }

    /// Hands over all that was read of a file that does not hold it any more, unless a copy of it was read meanwhile.
    pub(crate) fn abandon(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        if !self.is_waiting() || self.is_overtaken(sink)? {
            return Ok(());
        }
        self.finish(sink)
    }

    /// The same for events that are surely complete; a line without a break may be whole in a copy.
    pub(crate) fn abandon_lines(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        if !self.is_waiting() || self.is_overtaken(sink)? {
            return Ok(());
        }
        self.pause(sink)
    }

    /// Whether the bytes before the place where reading goes on are still those that were read.
    fn is_unchanged(&self) -> bool {
        let read = self.recent.before(self.fed);
        let read = &read[read.len().saturating_sub(TAIL_BYTES)..];
        let mut now = vec![0; read.len()];
        self.handle.read_exact_at(&mut now, self.fed - read.len() as u64).is_ok() && now == read
    }

    /// Offset up to which events are handed over.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether bytes were read whose events are not handed over.
    pub(crate) fn is_waiting(&self) -> bool {
        self.fed > self.kept
    }

    /// Whether more bytes are awaited to tell how the file begins.
    pub(crate) fn is_beginning(&self) -> bool {
        self.pipeline.is_beginning()
    }

    /// Whether those that were read tell something by now.
    pub(crate) fn can_begin(&self) -> bool {
        self.pipeline.can_begin()
    }

    /// Bytes of the file that are not read yet.
    pub(crate) fn has_more(&self) -> bool {
        self.handle.content_bytes_now().is_ok_and(|(bytes, _)| bytes != self.fed)
    }

    /// Reads about `limit` bytes at most and hands over the events that are complete.
    pub(crate) fn read(
        &mut self,
        now: i64,
        limit: usize,
        buffer: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<Reached, InputError> {
        let (bytes, modified) = self.handle.content_bytes_now().map_err(|error| self.wrong(&error))?;
        if bytes < self.fed {
            return Ok(Reached::Shrunk);
        }
        self.pipeline.set_now(now, modified);
        let mut read_bytes = 0;
        let reached = loop {
            match self.handle.read_at(buffer, self.fed) {
                Ok(0) => break Reached::End { has_grown: read_bytes > 0 },
                Ok(read) => {
                    // Emptied and written anew since it was opened, it is another file under the old one's identity.
                    let (begin, head) = (&buffer[..read], &self.identity.head);
                    if self.fed == 0 && begin.iter().zip(head).any(|(now, then)| now != then) {
                        return Ok(Reached::Shrunk);
                    }
                    self.take(&buffer[..read]);
                    read_bytes += read;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.hand_over(self.safe(), sink)?;
                    return Err(self.wrong(&error));
                }
            }
            if self.batch.raw.len() >= BATCH_RAW_BYTES || self.batch.len() >= BATCH_EVENTS {
                self.hand_over(self.safe(), sink)?;
            }
            if read_bytes >= limit {
                break Reached::More;
            }
        };
        self.hand_over(self.safe(), sink)?;
        Ok(reached)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.pipeline.push(bytes, &mut self.batch);
        if self.head.len() < HEAD_BYTES {
            let missing = HEAD_BYTES - self.head.len();
            self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        }
        milestones::pass(&mut self.milestones, self.recent.before(self.fed), self.fed, bytes);
        self.fed += bytes.len() as u64;
        self.counted.bytes += bytes.len() as u64;
        self.recent.push(bytes, self.safe());
    }

    /// Decides how the file begins by what was read of it, and hands over what is complete then.
    pub(crate) fn begin(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        self.pipeline.begin(&mut self.batch);
        self.hand_over(self.safe(), sink)
    }

    /// Hands over what is complete when nothing comes for a while: an event that might have gone on, too.
    pub(crate) fn pause(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        self.pipeline.pause(&mut self.batch);
        self.hand_over(self.safe(), sink)
    }

    /// Hands over all that is left, also a line without a break.
    pub(crate) fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), InputError> {
        self.pipeline.finish(&mut self.batch);
        self.hand_over(self.fed, sink)
    }

    /// Offset behind the last complete event.
    fn safe(&self) -> u64 {
        self.base + self.pipeline.safe_offset()
    }

    fn hand_over(&mut self, offset: u64, sink: &mut dyn Sink) -> Result<(), InputError> {
        if self.batch.is_empty() && offset == self.kept {
            return Ok(());
        }
        let position = FilePosition {
            identity: self.identity.clone(),
            offset,
            tail_hash: tail_hash(self.recent.before(offset)),
            path: self.path.clone(),
            milestones: self.milestones[..milestones::reached_by(offset).min(self.milestones.len())].to_vec(),
        };
        self.counted.events += self.batch.len() as u64;
        let next = sink.spare_batch().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        sink.accept(batch, Some(position)).map_err(|error| InputError::sink(Path::new(&self.path), error))?;
        self.kept = offset;
        Ok(())
    }

    fn wrong(&self, error: &io::Error) -> InputError {
        InputError::read(Path::new(&self.path), error)
    }
}

/// The pipeline for what lies behind `offset`.
fn pipeline_at(
    offset: u64,
    handle: &Handle,
    path: &Path,
    options: &TailOptions<'_>,
    props: &PropsResolver,
) -> Result<Pipeline, InputError> {
    let context = PipelineContext { modified: handle.modified_ns(), ..options.context.clone() };
    let faulty = |source| InputError::Pipeline { path: path.to_path_buf(), source };
    if offset == 0 {
        return Pipeline::new(options.info.clone(), props, context).map_err(faulty);
    }
    let hint = hint(handle, path, &options.info, &context, props)?;
    Pipeline::resume(options.info.clone(), props, context, hint).map_err(faulty)
}

/// The bytes before `offset`, but no more than an identity has.
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

/// Offset of the last line of a file, or its end when that has a break or is very long.
fn last_line(handle: &Handle) -> io::Result<u64> {
    let size = handle.content_bytes();
    let mut bytes = vec![0; size.min(LAST_LINE_BYTES) as usize];
    let from = size - bytes.len() as u64;
    handle.read_exact_at(&mut bytes, from)?;
    let after_break = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| from + at as u64 + 1);
    Ok(after_break.unwrap_or(size))
}

/// Whether a new file that is too short to be known holds nothing but the beginning of one beside it that was read: a copy
/// that is being written.
fn is_begun_copy(
    handle: &Handle,
    path: &Path,
    scope: &str,
    start: &Start,
    sink: &mut dyn Sink,
) -> Result<bool, InputError> {
    let bytes = handle.content_bytes();
    if bytes >= HEAD_BYTES as u64 {
        return Ok(false);
    }
    let wrong = |error| InputError::sink(path, error);
    let heads = beside(path, &start.identity.head);
    for head in &heads {
        if sink.positions(scope, head).map_err(wrong)?.iter().any(|known| known.offset >= bytes) {
            return Ok(true);
        }
    }
    if !heads.is_empty() {
        // What is handed over next is of this file.
        sink.positions(scope, &start.identity.head).map_err(wrong)?;
    }
    Ok(false)
}

/// The last bytes read, for the hash of a position among them.
#[derive(Debug)]
struct Recent {
    bytes: Vec<u8>,
    end: u64,
}

impl Recent {
    /// Takes bytes and forgets those that no position at or behind `safe` needs.
    fn push(&mut self, bytes: &[u8], safe: u64) {
        let begin = self.end - self.bytes.len() as u64;
        let needed = safe.saturating_sub(TAIL_BYTES as u64).max(begin);
        if needed >= self.end {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[usize_of(needed - self.end)..]);
        } else {
            self.bytes.drain(..usize_of(needed - begin));
            self.bytes.extend_from_slice(bytes);
        }
        self.end += bytes.len() as u64;
        self.bytes.shrink_to(2 * self.bytes.len().max(READ_CHUNK_BYTES / 64));
    }

    /// Those before `offset`.
    fn before(&self, offset: u64) -> &[u8] {
        let behind = usize_of(self.end - offset);
        &self.bytes[..self.bytes.len().saturating_sub(behind)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_bytes_hash_as_if_all_were_there() {
        let bytes: Vec<u8> = (0..5_000u32).map(|at| (at * 31 % 251) as u8).collect();
        for (size, lag) in [(1, 0), (7, 300), (256, 1), (999, 2_000), (5_000, 5_000)] {
            let mut recent = Recent { bytes: Vec::new(), end: 0 };
            for part in bytes.chunks(size) {
                let safe = (recent.end + part.len() as u64).saturating_sub(lag);
                recent.push(part, safe);
                for offset in [safe, recent.end] {
                    let all = &bytes[..offset as usize];
                    assert_eq!(tail_hash(recent.before(offset)), tail_hash(all), "{size} {offset}");
                }
            }
        }
    }
}
