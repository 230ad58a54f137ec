//! Recognising a file, and finding where reading it stopped.
//!
//! A position is valid only if the 256 bytes before it are unchanged: a file that was truncated and rewritten, or
//! another file with the same first bytes, is read from its start. A position is weak evidence if its offset and the
//! number of leading bytes stored with it are both below 256. Such a position applies only to three kinds of files: the
//! file with the stored path; a file that ends at the offset; and, if the files of the folder are rotated and the file
//! at the stored path no longer has these bytes, another file of the folder ([`super::rotation`]).
//!
//! A file that matches another file, the origin, but ends before the origin's position is treated as a copy, because
//! copies are often seen while they are written. The copy is examined again whenever it grows; if it then differs, it
//! becomes a new file.
//!
//! A file is also a copy if the origin has since been emptied and the file matches every milestone
//! ([`super::milestones`]) of the origin up to its own length. This happens when the origin grew during the copy and
//! was read beyond the end of the copy. While the origin still has its content, the two files are compared instead,
//! because different files may share many milestones.
//!
//! A copy may have a position of its own, either because the position was recorded when the copy stalled, or because
//! the first events of the copy were read before it was recognised. While the file is a copy, it is not read further. A
//! position recorded for a copy has no milestones. Any other position may belong to a file that merely begins like the
//! origin, so a milestone after that position must match.
//!
//! If a compressed file was found to be damaged, the bytes before the error may be wrong as well. The position of such
//! a file has the hash of everything before the offset: the same damaged file resumes there without duplicates, while a
//! repaired file that differs before the error is read from its start.
//!
//! To verify a position in a plain file, only the 256 bytes before it are read, so that a large growing file costs
//! little.

use std::io;
use std::path::Path;
use std::sync::Arc;

use quarry_stdx::number::usize_of;
use xxhash_rust::xxh3::Xxh3;

use super::fingerprint::{HEAD_BYTES, TAIL_BYTES, tail_hash};
use super::milestones;
use super::open::{Handle, READ_CHUNK_BYTES};
use super::rotation::{OriginState, Rotation, is_copy_of, is_gone};
use super::{Compression, OpenFile};
use crate::{FileIdentity, FilePosition, InputError, Sink};

/// Maximum number of files examined to find the origin of a copy.
const ORIGINS_MAX: usize = 16;

/// Position at which to start reading a file, and the identity to store it under.
#[derive(Debug)]
pub(crate) struct StartPosition {
    /// Identity under which the file's positions are stored.
    pub(crate) identity: Arc<FileIdentity>,
    /// Number of decompressed bytes whose events are stored.
    pub(crate) offset: u64,
    /// Path under which the stored positions know the file.
    pub(crate) stored_as: Option<String>,
    pub(crate) next: ReadPlan,
}

/// Part of a file that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPlan {
    /// Everything after [`StartPosition::offset`].
    Read,
    /// Nothing: the file has been read to its end.
    AtEnd,
    /// Nothing: the file is a copy of another file that was read at least as far.
    Copied {
        /// Hash of the last bytes before the offset, which is the end of the file.
        tail_hash: u64,
        /// Set if the file has a position of its own that does not mark it as a copy, so that a new position must be
        /// recorded at once.
        was_read: bool,
    },
    /// Nothing yet: the file may be a copy of another file that has not been read to its end.
    Undecided {
        /// Offset up to which the other file was read.
        origin_offset: u64,
    },
}

/// A position that matches a file.
#[derive(Clone, Debug)]
struct MatchedPosition {
    position: FilePosition,
    /// Whether the file ends at the position.
    at_end: bool,
}

/// Result of comparing a file with the known positions.
enum KnownPosition {
    /// Reading resumes at this position.
    At(MatchedPosition),
    /// The file is new.
    Nothing,
    /// Like [`ReadPlan::Undecided`]; the position belongs to the other file.
    Undecided(FilePosition),
    /// Like [`ReadPlan::Copied`]; `own` is the position of the copy itself, if any.
    Copied { own: Option<MatchedPosition>, origin: String, end: u64, tail_hash: u64 },
}

impl StartPosition {
    /// Finds the position of the file at `path` among the positions in the sink. If `again` is set, the file counts as
    /// new whatever its positions; `rotation` tells whether files in the same folder are rotated.
    pub(crate) fn find(
        handle: &Handle,
        path: &Path,
        absolute: &str,
        scope: &str,
        (again, rotation): (bool, Rotation),
        sink: &mut dyn Sink,
    ) -> Result<StartPosition, InputError> {
        let head = head_of(handle, path)?;
        let mut known = sink.positions(scope, &head).map_err(|error| InputError::sink(path, error))?;
        let variant =
            known.iter().map(|one| &one.identity).filter(|one| one.head == head).map(|one| one.variant + 1).max();
        let mut found = KnownPosition::Nothing;
        if !again && !known.is_empty() {
            known.sort_by_key(|position| position.offset);
            found = Search { handle, path, absolute, rotation, is_short: head.len() < HEAD_BYTES }.run(&known)?;
        }
        let is_empty = head.is_empty();
        let new = || Arc::new(FileIdentity { scope: scope.to_owned(), head, variant: variant.unwrap_or(0) });
        let (identity, offset, stored_as, next) = match found {
            KnownPosition::At(MatchedPosition { position, at_end }) => {
                let next = if at_end { ReadPlan::AtEnd } else { ReadPlan::Read };
                (position.identity, position.offset, Some(position.path), next)
            }
            KnownPosition::Copied { own, origin, end, tail_hash } => {
                let was_read = own.as_ref().is_some_and(|own| !belongs_to_copy(&own.position));
                let identity = own.map_or_else(new, |own| own.position.identity);
                (identity, end, Some(origin), ReadPlan::Copied { tail_hash, was_read })
            }
            KnownPosition::Undecided(origin) => (new(), 0, None, ReadPlan::Undecided { origin_offset: origin.offset }),
            KnownPosition::Nothing => (new(), 0, None, if is_empty { ReadPlan::AtEnd } else { ReadPlan::Read }),
        };
        Ok(StartPosition { identity, offset, stored_as, next })
    }
}

/// Search for the position of one file among the known positions.
struct Search<'a> {
    handle: &'a Handle,
    path: &'a Path,
    absolute: &'a str,
    rotation: Rotation,
    /// Whether the file is too short for a complete identity.
    is_short: bool,
}

/// End of the part of a file that was compared with the known positions: at least the last known position, or the end
/// of a shorter file.
struct ComparedEnd {
    offset: u64,
    tail_hash: u64,
}

impl Search<'_> {
    /// Evaluates the known positions (ascending by offset).
    fn run(&self, known: &[FilePosition]) -> Result<KnownPosition, InputError> {
        let (found, reached) = self.furthest_match(known)?;
        if matches!(&found, KnownPosition::At(held) if held.at_end && held.position.path == self.absolute) {
            return Ok(found);
        }
        let is_foreign = |position: &&FilePosition| position.path != self.absolute;
        // The first bytes of a short file are not enough evidence that the file is a copy.
        match &found {
            KnownPosition::At(held) if held.at_end => {
                let is_copy =
                    !self.is_short && self.rotation != Rotation::None && is_copy_of(&held.position, self.handle);
                if is_copy {
                    let (end, tail_hash) = (held.position.offset, held.position.tail_hash);
                    return Ok(KnownPosition::Copied { own: None, origin: held.position.path.clone(), end, tail_hash });
                }
                return Ok(found);
            }
            KnownPosition::Undecided(_) | KnownPosition::Copied { .. } => return Ok(found),
            KnownPosition::At(_) | KnownPosition::Nothing => {}
        }
        let longer = || known.iter().rev().filter(|known| known.offset > reached.offset).filter(is_foreign);
        let origin = longer().take(ORIGINS_MAX).find(|position| is_copy_of(position, self.handle));
        if let Some(origin) = origin {
            return Ok(match found {
                found if !self.is_short => self.copied(found, origin, reached),
                KnownPosition::Nothing if self.rotation == Rotation::Awaited => {
                    KnownPosition::Undecided(origin.clone())
                }
                found => found,
            });
        }
        if !self.is_short
            && self.rotation != Rotation::None
            && let Some(origin) = longer().find(|position| self.is_copy_of_emptied(position, &found, reached.offset))
        {
            return Ok(self.copied(found, origin, reached));
        }
        // The rest of this copy may still be in its origin and be read from there.
        match &found {
            KnownPosition::At(held) if self.rotation == Rotation::Awaited && is_foreign(&&held.position) => {
                let is_copy = is_copy_of(&held.position, self.handle);
                Ok(if is_copy { KnownPosition::Undecided(held.position.clone()) } else { found })
            }
            _ => Ok(found),
        }
    }

    /// The file's own position.
    fn own_position<'f>(&self, found: &'f KnownPosition) -> Option<&'f MatchedPosition> {
        match found {
            KnownPosition::At(held) if held.position.path == self.absolute => Some(held),
            _ => None,
        }
    }

    /// Result for a file that equals the origin up to its own end.
    fn copied(&self, found: KnownPosition, origin: &FilePosition, reached: ComparedEnd) -> KnownPosition {
        let own = self.own_position(&found).cloned();
        let origin = origin.path.clone();
        KnownPosition::Copied { own, origin, end: reached.offset, tail_hash: reached.tail_hash }
    }

    /// True if a file of this length is a copy of the longer file for which `position` was recorded, and that file has
    /// since been removed or emptied. The copy must match every milestone of the position up to its own length.
    fn is_copy_of_emptied(&self, position: &FilePosition, found: &KnownPosition, length: u64) -> bool {
        let reached = milestones::reached_count(length);
        let Some(expected) = position.milestones.get(..reached) else { return false };
        let is_known_by_more = |own: &MatchedPosition| {
            belongs_to_copy(&own.position) || reached > milestones::reached_count(own.position.offset)
        };
        reached >= milestones::REACHED_MIN
            && self.own_position(found).is_none_or(is_known_by_more)
            && self.holds_milestones(expected)
            && is_gone(position)
    }

    fn holds_milestones(&self, expected: &[u32]) -> bool {
        let length = expected.len().checked_sub(1).map_or(0, milestones::length_at);
        if self.handle.compression == Compression::None {
            return milestones::compute_for_plain(self.handle, length).is_ok_and(|found| found == expected);
        }
        let Ok(mut walk) = PositionReader::new(self.handle) else { return false };
        expected.iter().enumerate().all(|(milestone, expected)| {
            let is_there = walk.read_to(milestones::length_at(milestone)).unwrap_or(false);
            is_there && milestones::hash(&walk.tail.bytes) == *expected
        })
    }

    /// The furthest known position that matches the file and applies to it.
    fn furthest_match(&self, known: &[FilePosition]) -> Result<(KnownPosition, ComparedEnd), InputError> {
        let (path, handle) = (self.path, self.handle);
        let wrong = |error: io::Error| InputError::read(path, &error);
        if handle.compression == Compression::None {
            // Usually the furthest position belongs to this very file, and verifying it is cheap.
            if let Some(position) = known.last().filter(|last| belongs_to(last, self.absolute))
                && handle.content_bytes() >= position.offset
                && tail_before(handle, position.offset).map_err(wrong)? == position.tail_hash
            {
                let at_end = handle.reader_at(position.offset).map_err(wrong)?.0.is_at_end();
                let reached = ComparedEnd { offset: position.offset, tail_hash: position.tail_hash };
                return Ok((KnownPosition::At(MatchedPosition { position: position.clone(), at_end }), reached));
            }
            let held = self.matches_in_plain(known).map_err(wrong)?;
            let offset = handle.content_bytes();
            let tail_hash = tail_before(handle, offset).map_err(wrong)?;
            return Ok((self.choose(held), ComparedEnd { offset, tail_hash }));
        }
        let mut walk = PositionReader::new(handle).map_err(wrong)?;
        let held =
            walk.matching_positions(known).map_err(|error| walk.file.describe(path, walk.tail.offset, &error))?;
        let reached = ComparedEnd { offset: walk.tail.offset, tail_hash: walk.tail.hash() };
        Ok((self.choose(held), reached))
    }

    /// The known positions that match a plain file. Only the bytes before each position are read, unless a position may
    /// lie after damaged content.
    fn matches_in_plain(&self, known: &[FilePosition]) -> io::Result<Vec<MatchedPosition>> {
        let end = self.handle.content_bytes();
        let (mut held, mut walk) = (Vec::new(), None);
        for position in known.iter().take_while(|position| position.offset <= end) {
            let mut is_held = tail_before(self.handle, position.offset)? == position.tail_hash;
            if !is_held {
                let mut reader = match walk.take() {
                    Some(walk) => walk,
                    None => PositionReader::new(self.handle)?,
                };
                is_held = reader.read_to(position.offset)? && reader.content.digest() == position.tail_hash;
                walk = Some(reader);
            }
            if is_held {
                held.push(MatchedPosition { position: position.clone(), at_end: position.offset == end });
            }
        }
        Ok(held)
    }

    /// Selects the applicable position from the matching ones (ascending by offset).
    fn choose(&self, mut held: Vec<MatchedPosition>) -> KnownPosition {
        let own = held.iter().rposition(|one| belongs_to(&one.position, self.absolute));
        let others = held.split_off(own.map_or(0, |own| own + 1));
        let own = held.pop();
        for other in others.into_iter().rev() {
            let at_end = other.at_end;
            if at_end && own.is_none() {
                return KnownPosition::At(other);
            }
            let folder = Path::new(&other.position.path).parent();
            if self.rotation == Rotation::None || folder != Path::new(self.absolute).parent() {
                continue;
            }
            match OriginState::of(&other.position, self.handle) {
                OriginState::Same | OriginState::Gone => return KnownPosition::At(other),
                OriginState::Copy if own.is_none() && self.rotation == Rotation::Awaited => {
                    return KnownPosition::Undecided(other.position);
                }
                OriginState::Copy | OriginState::Other => {}
            }
        }
        own.map_or(KnownPosition::Nothing, KnownPosition::At)
    }
}

/// The identifying bytes of a file. Bytes appended after it was opened are excluded, so that the bytes agree with its
/// length at that time.
fn head_of(handle: &Handle, path: &Path) -> Result<Vec<u8>, InputError> {
    let wrong = |error: io::Error| InputError::read(path, &error);
    let mut file = handle.reader().map_err(wrong)?;
    let mut head = vec![0; HEAD_BYTES];
    let read = file.read_chunk(&mut head).map_err(|error| file.describe(path, 0, &error))?;
    head.truncate(read);
    let opened = handle.content_bytes();
    // Virtual files of the system have no length and do not grow.
    if handle.compression == Compression::None
        && (read as u64) > opened
        && handle.content_bytes_now().map_err(wrong)?.0 > opened
    {
        head.truncate(usize_of(opened));
    }
    Ok(head)
}

/// True if a position was recorded for a copy, or for too few bytes to prove anything.
fn belongs_to_copy(position: &FilePosition) -> bool {
    position.milestones.is_empty()
}

/// Whether a matching position certainly belongs to the file with this path.
fn belongs_to(position: &FilePosition, path: &str) -> bool {
    position.path == path || position.identity.head.len() == HEAD_BYTES || position.offset >= TAIL_BYTES as u64
}

/// Reads a file from position to position.
struct PositionReader {
    file: OpenFile,
    tail: Tail,
    /// Hash of all bytes read.
    content: Xxh3,
}

/// Hash of the last bytes before `offset` in a plain file that is at least that long.
fn tail_before(handle: &Handle, offset: u64) -> io::Result<u64> {
    let mut tail = vec![0; usize_of(offset.min(TAIL_BYTES as u64))];
    let from = offset - tail.len() as u64;
    handle.read_exact_at(&mut tail, from)?;
    Ok(tail_hash(&tail))
}

impl PositionReader {
    fn new(handle: &Handle) -> io::Result<PositionReader> {
        Ok(PositionReader { file: handle.reader()?, tail: Tail::default(), content: Xxh3::new() })
    }

    /// The known positions (ascending by offset) that match the file.
    fn matching_positions(&mut self, known: &[FilePosition]) -> io::Result<Vec<MatchedPosition>> {
        let mut held = Vec::new();
        for position in known {
            if !self.read_to(position.offset)? {
                break;
            }
            if self.tail.hash() == position.tail_hash || self.content.digest() == position.tail_hash {
                let at_end = self.file.is_at_end();
                held.push(MatchedPosition { position: position.clone(), at_end });
            }
        }
        Ok(held)
    }

    /// Whether the file reaches `offset`. Returns false for a compressed file that is damaged before `offset`: its
    /// readable part is a file of its own.
    fn read_to(&mut self, offset: u64) -> io::Result<bool> {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        while self.tail.offset < offset {
            let want = usize_of((offset - self.tail.offset).min(buffer.len() as u64));
            let read = match self.file.read_chunk(&mut buffer[..want]) {
                Ok(0) => return Ok(false),
                Ok(read) => read,
                Err(_) if self.file.compression != Compression::None => return Ok(false),
                Err(error) => return Err(error),
            };
            self.tail.push(&buffer[..read]);
            self.content.update(&buffer[..read]);
        }
        Ok(true)
    }
}

/// The last bytes read.
#[derive(Clone, Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    offset: u64,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        if bytes.len() >= TAIL_BYTES {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[bytes.len() - TAIL_BYTES..]);
        } else {
            self.bytes.extend_from_slice(bytes);
            let surplus = self.bytes.len().saturating_sub(TAIL_BYTES);
            self.bytes.drain(..surplus);
        }
    }

    fn hash(&self) -> u64 {
        tail_hash(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_hash_is_independent_of_chunking() {
        let bytes: Vec<u8> = (0..2000u32).map(|at| (at * 7) as u8).collect();
        for size in [1, 3, 255, 256, 257, 1999, 2000] {
            let mut parts = Tail::default();
            bytes.chunks(size).for_each(|part| parts.push(part));
            assert_eq!((parts.offset, parts.hash()), (2000, tail_hash(&bytes)), "chunks of {size}");
        }
    }
}
