//! Knowing a file again, and where reading it stopped.
//!
//! A position counts only if the 256 bytes before it are still the same ones: a file that was truncated and written
//! anew, or another file with the same first bytes, is read from its start. A position whose head and offset are both
//! below 256 bytes proves little, so it counts only for the file of that path, for a file that has nothing beyond it, or
//! for one in the same folder whose origin holds these bytes no more ([`super::rotation`]).
//!
//! A file that ends before a position of another one, and is so far a copy of it, is no file of its own: copies are often
//! seen while they are written. It is judged again whenever it grows: one that goes on in another way is a new file.
//!
//! The same holds for a copy whose origin was emptied since, if it holds all milestones ([`super::milestones`]) of the
//! origin that it reaches: the origin went on while it was copied, and was read farther than the copy goes. While the
//! origin is still there, the two are compared instead: files may begin alike for many milestones.
//!
//! A copy may have a position of its own: it stalled and was kept, or its first events were taken before it could be
//! known. It is read no further than that while it is a copy. A position that was kept of a copy has no milestones. Of
//! another one, which may be that of a file that only begins like the origin, a milestone behind it has to be held.
//!
//! Where a packed file was found to be damaged, the bytes before the fault may be wrong too, and which ones nobody
//! knows. Such a position holds the hash of everything before it: the same damaged file goes on there and gives nothing
//! twice, while the repaired one, if it differs before the fault, is read from its start.
//!
//! Of plain files only the bytes before a position are read to find it, so that a large file that grows costs little.

use std::io;
use std::path::Path;
use std::sync::Arc;

use quarry_stdx::number::usize_of;
use xxhash_rust::xxh3::Xxh3;

use super::fingerprint::{HEAD_BYTES, TAIL_BYTES, tail_hash};
use super::milestones;
use super::open::{Handle, READ_CHUNK_BYTES};
use super::rotation::{Origin, Rotation, is_copy_of, is_gone};
use super::{OpenFile, Packing};
use crate::{FileIdentity, FilePosition, InputError, Sink};

/// Files that are looked at to find the one that another is a copy of.
const ORIGINS_MAX: usize = 16;

/// Where to read a file from.
#[derive(Debug)]
pub(crate) struct Start {
    /// Under which its positions are kept.
    pub(crate) identity: Arc<FileIdentity>,
    /// Unpacked bytes whose events are stored already.
    pub(crate) offset: u64,
    /// Path of the file by which these are known.
    pub(crate) stored_as: Option<String>,
    pub(crate) next: Next,
}

/// What is to be read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// What lies behind [`Start::offset`].
    Read,
    /// Nothing: it has nothing beyond.
    AtEnd,
    /// Nothing: all of it is a copy of what another file holds that was read as far, or farther.
    Copied {
        /// Of the last bytes before the offset, which is its end.
        tail_hash: u64,
        /// Whether it has a position of its own that does not say so: it is to be kept at once that it is a copy.
        was_read: bool,
    },
    /// Nothing for now: it may be a copy of a file that is to be read on first.
    Undecided {
        /// How far that one is read.
        origin_offset: u64,
    },
}

/// A position that a file holds.
#[derive(Clone, Debug)]
struct Held {
    position: FilePosition,
    /// Whether the file ends there.
    at_end: bool,
}

/// What the known positions say of a file.
enum KnownPosition {
    /// It goes on there.
    At(Held),
    /// It is a new one.
    Nothing,
    /// As [`Next::Undecided`]; the position is that of the other file.
    Undecided(FilePosition),
    /// As [`Next::Copied`]; the position is its own, if there is one.
    Copied { own: Option<Held>, origin: String, end: u64, tail_hash: u64 },
}

impl Start {
    /// Looks up what the sink knows of the file at `path`; `again` reads it from its start whatever is known, `rotation`
    /// says what happens to files beside it.
    pub(crate) fn find(
        handle: &Handle,
        path: &Path,
        absolute: &str,
        scope: &str,
        (again, rotation): (bool, Rotation),
        sink: &mut dyn Sink,
    ) -> Result<Start, InputError> {
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
            KnownPosition::At(Held { position, at_end }) => {
                let next = if at_end { Next::AtEnd } else { Next::Read };
                (position.identity, position.offset, Some(position.path), next)
            }
            KnownPosition::Copied { own, origin, end, tail_hash } => {
                let was_read = own.as_ref().is_some_and(|own| !is_of_a_copy(&own.position));
                let identity = own.map_or_else(new, |own| own.position.identity);
                (identity, end, Some(origin), Next::Copied { tail_hash, was_read })
            }
            KnownPosition::Undecided(origin) => (new(), 0, None, Next::Undecided { origin_offset: origin.offset }),
            KnownPosition::Nothing => (new(), 0, None, if is_empty { Next::AtEnd } else { Next::Read }),
        };
        Ok(Start { identity, offset, stored_as, next })
    }
}

/// Looks among known positions for those of a file.
struct Search<'a> {
    handle: &'a Handle,
    path: &'a Path,
    absolute: &'a str,
    rotation: Rotation,
    /// Whether the file is so short that it has no whole identity.
    is_short: bool,
}

/// How far a file was read to find its positions: to its end, if it does not reach the last of them.
struct Reached {
    offset: u64,
    tail_hash: u64,
}

impl Search<'_> {
    /// What the known positions (ascending by offset) say.
    fn run(&self, known: &[FilePosition]) -> Result<KnownPosition, InputError> {
        let (found, reached) = self.furthest(known)?;
        if matches!(&found, KnownPosition::At(held) if held.at_end && held.position.path == self.absolute) {
            return Ok(found);
        }
        let is_foreign = |position: &&FilePosition| position.path != self.absolute;
        // Copies are judged by more than the first bytes; those of a short file prove little.
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
            && let Some(origin) = longer().find(|position| self.is_left_of(position, &found, reached.offset))
        {
            return Ok(self.copied(found, origin, reached));
        }
        // What is left of the file may be in the one that it is a copy of, and be read there.
        match &found {
            KnownPosition::At(held) if self.rotation == Rotation::Awaited && is_foreign(&&held.position) => {
                let is_copy = is_copy_of(&held.position, self.handle);
                Ok(if is_copy { KnownPosition::Undecided(held.position.clone()) } else { found })
            }
            _ => Ok(found),
        }
    }

    /// The position that is of the file itself.
    fn own<'f>(&self, found: &'f KnownPosition) -> Option<&'f Held> {
        match found {
            KnownPosition::At(held) if held.position.path == self.absolute => Some(held),
            _ => None,
        }
    }

    /// The file is a copy as far as it reaches.
    fn copied(&self, found: KnownPosition, origin: &FilePosition, reached: Reached) -> KnownPosition {
        let own = self.own(&found).cloned();
        let origin = origin.path.clone();
        KnownPosition::Copied { own, origin, end: reached.offset, tail_hash: reached.tail_hash }
    }

    /// Whether the file of this length is what is left of a longer one of this position: that is there no more, and this
    /// one holds its milestones as far as it goes.
    fn is_left_of(&self, position: &FilePosition, found: &KnownPosition, length: u64) -> bool {
        let reached = milestones::reached_by(length);
        let Some(expected) = position.milestones.get(..reached) else { return false };
        let is_known_by_more =
            |own: &Held| is_of_a_copy(&own.position) || reached > milestones::reached_by(own.position.offset);
        reached >= milestones::REACHED_MIN
            && self.own(found).is_none_or(is_known_by_more)
            && self.holds_milestones(expected)
            && is_gone(position)
    }

    fn holds_milestones(&self, expected: &[u32]) -> bool {
        let length = expected.len().checked_sub(1).map_or(0, milestones::length_at);
        if self.handle.packing == Packing::None {
            return milestones::of_plain(self.handle, length).is_ok_and(|found| found == expected);
        }
        let Ok(mut walk) = Walk::new(self.handle) else { return false };
        expected.iter().enumerate().all(|(milestone, expected)| {
            let is_there = walk.read_to(milestones::length_at(milestone)).unwrap_or(false);
            is_there && milestones::hash(&walk.tail.bytes) == *expected
        })
    }

    /// The furthest of the known positions that the file still holds and that count for it.
    fn furthest(&self, known: &[FilePosition]) -> Result<(KnownPosition, Reached), InputError> {
        let (path, handle) = (self.path, self.handle);
        let wrong = |error: io::Error| InputError::read(path, &error);
        if handle.packing == Packing::None {
            // Most often the file is the one of the furthest position, which is seen at once.
            if let Some(position) = known.last().filter(|last| is_of(last, self.absolute))
                && handle.content_bytes() >= position.offset
                && tail_before(handle, position.offset).map_err(wrong)? == position.tail_hash
            {
                let at_end = handle.reader_at(position.offset).map_err(wrong)?.0.at_end();
                let reached = Reached { offset: position.offset, tail_hash: position.tail_hash };
                return Ok((KnownPosition::At(Held { position: position.clone(), at_end }), reached));
            }
            let held = self.held_by_plain(known).map_err(wrong)?;
            let offset = handle.content_bytes();
            let tail_hash = tail_before(handle, offset).map_err(wrong)?;
            return Ok((self.choose(held), Reached { offset, tail_hash }));
        }
        let mut walk = Walk::new(handle).map_err(wrong)?;
        let held = walk.held(known).map_err(|error| walk.file.describe(path, walk.tail.offset, &error))?;
        let reached = Reached { offset: walk.tail.offset, tail_hash: walk.tail.hash() };
        Ok((self.choose(held), reached))
    }

    /// Those of the known positions that a plain file holds. Only the bytes before each are read, unless a position may be
    /// one of damaged content.
    fn held_by_plain(&self, known: &[FilePosition]) -> io::Result<Vec<Held>> {
        let end = self.handle.content_bytes();
        let (mut held, mut walk) = (Vec::new(), None);
        for position in known.iter().take_while(|position| position.offset <= end) {
            let mut is_held = tail_before(self.handle, position.offset)? == position.tail_hash;
            if !is_held {
                let mut reader = match walk.take() {
                    Some(walk) => walk,
                    None => Walk::new(self.handle)?,
                };
                is_held = reader.read_to(position.offset)? && reader.content.digest() == position.tail_hash;
                walk = Some(reader);
            }
            if is_held {
                held.push(Held { position: position.clone(), at_end: position.offset == end });
            }
        }
        Ok(held)
    }

    /// Which of the positions that the file holds (ascending by offset) counts.
    fn choose(&self, mut held: Vec<Held>) -> KnownPosition {
        let own = held.iter().rposition(|one| is_of(&one.position, self.absolute));
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
            match Origin::of(&other.position, self.handle) {
                Origin::Same | Origin::Gone => return KnownPosition::At(other),
                Origin::Copy if own.is_none() && self.rotation == Rotation::Awaited => {
                    return KnownPosition::Undecided(other.position);
                }
                Origin::Copy | Origin::Other => {}
            }
        }
        own.map_or(KnownPosition::Nothing, KnownPosition::At)
    }
}

/// The bytes by which a file is known: no more than it had when it was opened, so that what is found out about it by its
/// length is about the same content.
fn head_of(handle: &Handle, path: &Path) -> Result<Vec<u8>, InputError> {
    let wrong = |error: io::Error| InputError::read(path, &error);
    let mut file = handle.reader().map_err(wrong)?;
    let mut head = vec![0; HEAD_BYTES];
    let read = file.read_chunk(&mut head).map_err(|error| file.describe(path, 0, &error))?;
    head.truncate(read);
    let opened = handle.content_bytes();
    // Files that the system makes up have no length, and do not grow.
    if handle.packing == Packing::None
        && (read as u64) > opened
        && handle.content_bytes_now().map_err(wrong)?.0 > opened
    {
        head.truncate(usize_of(opened));
    }
    Ok(head)
}

/// Whether a position was kept of a file that was a copy so far, or of so few bytes that they prove nothing.
fn is_of_a_copy(position: &FilePosition) -> bool {
    position.milestones.is_empty()
}

/// Whether a position surely was kept of the file of this path, which holds it.
fn is_of(position: &FilePosition, path: &str) -> bool {
    position.path == path || position.identity.head.len() == HEAD_BYTES || position.offset >= TAIL_BYTES as u64
}

/// Reads a file on from position to position.
struct Walk {
    file: OpenFile,
    tail: Tail,
    /// Hash of all bytes read.
    content: Xxh3,
}

/// Hash of the last bytes of a plain file before `offset`, which it reaches.
fn tail_before(handle: &Handle, offset: u64) -> io::Result<u64> {
    let mut tail = vec![0; usize_of(offset.min(TAIL_BYTES as u64))];
    let from = offset - tail.len() as u64;
    handle.read_exact_at(&mut tail, from)?;
    Ok(tail_hash(&tail))
}

impl Walk {
    fn new(handle: &Handle) -> io::Result<Walk> {
        Ok(Walk { file: handle.reader()?, tail: Tail::default(), content: Xxh3::new() })
    }

    /// Those of the known positions (ascending by offset) that the file holds.
    fn held(&mut self, known: &[FilePosition]) -> io::Result<Vec<Held>> {
        let mut held = Vec::new();
        for position in known {
            if !self.read_to(position.offset)? {
                break;
            }
            if self.tail.hash() == position.tail_hash || self.content.digest() == position.tail_hash {
                let at_end = self.file.at_end();
                held.push(Held { position: position.clone(), at_end });
            }
        }
        Ok(held)
    }

    /// Whether the file reaches as far as `offset`. A packed file that is damaged before it does not: what can be
    /// unpacked of it is a file of its own.
    fn read_to(&mut self, offset: u64) -> io::Result<bool> {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        while self.tail.offset < offset {
            let want = usize_of((offset - self.tail.offset).min(buffer.len() as u64));
            let read = match self.file.read_chunk(&mut buffer[..want]) {
                Ok(0) => return Ok(false),
                Ok(read) => read,
                Err(_) if self.file.packing != Packing::None => return Ok(false),
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
    fn the_tail_does_not_depend_on_how_bytes_come() {
        let bytes: Vec<u8> = (0..2000u32).map(|at| (at * 7) as u8).collect();
        for size in [1, 3, 255, 256, 257, 1999, 2000] {
            let mut parts = Tail::default();
            bytes.chunks(size).for_each(|part| parts.push(part));
            assert_eq!((parts.offset, parts.hash()), (2000, tail_hash(&bytes)), "chunks of {size}");
        }
    }
}
