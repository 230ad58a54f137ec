//! Knowing a file again, and where reading it stopped.
//!
//! A position counts only if the 256 bytes before it are still the same ones: a file that was truncated and written
//! anew, or another file with the same first bytes, is read from its start. A position whose head and offset are both
//! below 256 bytes proves little, so it counts only for the file of that path, for a file that has nothing beyond it, or
//! for one in the same folder whose origin holds these bytes no more ([`super::rotation`]).
//!
//! Where a packed file was found to be damaged, the bytes before the fault may be wrong too, and which ones nobody
//! knows. Such a position holds the hash of everything before it: the same damaged file goes on there and gives nothing
//! twice, while the repaired one, if it differs before the fault, is read from its start.
//!
//! Of plain files only the bytes before a position are read to find it, so that a large file that grows costs little.

use std::io;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::open::READ_CHUNK_BYTES;
use super::rotation::{Origin, Rotation};
use super::{OpenFile, Packing};
use crate::{FileIdentity, InputError, KnownPosition, Sink};

/// First bytes that identify a file, as Splunk's `initCrcLength`.
pub const HEAD_BYTES: usize = 256;

/// Last bytes before a position that must be unchanged.
pub(crate) const TAIL_BYTES: usize = 256;

/// Hash of the last bytes of `before`, the bytes up to a position.
pub(crate) fn tail_hash(before: &[u8]) -> u64 {
    xxh3_64(&before[before.len().saturating_sub(TAIL_BYTES)..])
}

/// Where to read a file from.
#[derive(Debug)]
pub(crate) struct Start {
    /// Under which its positions are kept.
    pub(crate) identity: Arc<FileIdentity>,
    /// Unpacked bytes whose events are stored already.
    pub(crate) offset: u64,
    /// Whether the file has nothing beyond `offset`.
    pub(crate) at_end: bool,
    /// Whether it may be a copy of a file that is to be read on first, so that it is to be looked at later.
    pub(crate) is_undecided: bool,
}

/// A position that a file holds.
struct Held {
    position: KnownPosition,
    /// Whether the file ends there.
    at_end: bool,
}

/// What the known positions say of a file.
enum Found {
    /// It goes on there.
    At(Held),
    /// It is a new one.
    Nothing,
    /// As [`Start::is_undecided`].
    Undecided,
}

impl Start {
    /// Looks up what the sink knows of the file at `path`, of which nothing is read yet; `again` reads it from its start
    /// whatever is known, `rotation` says what happens to files beside it.
    pub(crate) fn find(
        mut file: OpenFile,
        path: &Path,
        absolute: &str,
        scope: &str,
        (again, rotation): (bool, Rotation),
        sink: &mut dyn Sink,
    ) -> Result<Start, InputError> {
        let mut head = vec![0; HEAD_BYTES];
        let read_bytes = file.read_chunk(&mut head).map_err(|error| file.describe(path, 0, &error))?;
        head.truncate(read_bytes);
        let mut known = sink.positions(scope, &head).map_err(|error| InputError::sink(path, error))?;
        let variant =
            known.iter().filter(|position| position.head_bytes == head.len()).map(|one| one.variant + 1).max();
        let mut is_undecided = false;
        if !again && !known.is_empty() {
            known.sort_by_key(|position| position.offset);
            match furthest(path, absolute, known, rotation)? {
                Found::At(Held { position, at_end }) => {
                    head.truncate(position.head_bytes);
                    let identity = FileIdentity { scope: scope.to_owned(), head, variant: position.variant };
                    let identity = Arc::new(identity);
                    return Ok(Start { identity, offset: position.offset, at_end, is_undecided });
                }
                Found::Nothing => {}
                Found::Undecided => is_undecided = true,
            }
        }
        let identity = FileIdentity { scope: scope.to_owned(), head, variant: variant.unwrap_or(0) };
        let at_end = identity.head.is_empty();
        Ok(Start { identity: Arc::new(identity), offset: 0, at_end, is_undecided })
    }
}

/// The furthest of the known positions (ascending by offset) that the file at `path` still holds and that count for it.
fn furthest(path: &Path, absolute: &str, known: Vec<KnownPosition>, rotation: Rotation) -> Result<Found, InputError> {
    let last = known.last().map_or(0, |position| position.offset);
    let (mut file, reached) = OpenFile::open_from(path, last.saturating_sub(TAIL_BYTES as u64))?;
    // Most often the file is the one of the furthest position, which is seen at once.
    if let Some(position) = known.last().filter(|_| file.packing == Packing::None) {
        let mut tail = vec![0; (last - reached) as usize];
        let read = file.read_chunk(&mut tail).map_err(|error| InputError::read(path, &error))?;
        if read == tail.len() && tail_hash(&tail) == position.tail_hash && position.is_of(absolute) {
            return Ok(Found::At(Held { position: position.clone(), at_end: file.at_end() }));
        }
    }
    let mut walk = Walk { file: OpenFile::open(path)?, tail: Tail::default(), content: Xxh3::new() };
    let held = walk.held(known).map_err(|error| walk.file.describe(path, walk.tail.offset, &error))?;
    Ok(choose(path, absolute, held, rotation))
}

/// Which of the positions that the file at `path` holds (ascending by offset) counts.
fn choose(path: &Path, absolute: &str, mut held: Vec<Held>, rotation: Rotation) -> Found {
    let own = held.iter().rposition(|one| one.position.is_of(absolute));
    let others = held.split_off(own.map_or(0, |own| own + 1));
    let own = held.pop();
    for other in others.into_iter().rev() {
        let at_end = other.at_end;
        if at_end && own.is_none() {
            return Found::At(other);
        }
        let folder = Path::new(&other.position.path).parent();
        if rotation == Rotation::None || folder != Path::new(absolute).parent() {
            continue;
        }
        match Origin::of(&other.position, path) {
            Origin::Same | Origin::Gone => return Found::At(other),
            Origin::Copy if own.is_none() && rotation == Rotation::Awaited => return Found::Undecided,
            Origin::Copy | Origin::Other => {}
        }
    }
    own.map_or(Found::Nothing, Found::At)
}

impl KnownPosition {
    /// Whether it surely was kept of the file of this path, which holds it.
    fn is_of(&self, path: &str) -> bool {
        self.path == path || self.head_bytes == HEAD_BYTES || self.offset >= TAIL_BYTES as u64
    }
}

/// Reads a file on from position to position.
struct Walk {
    file: OpenFile,
    tail: Tail,
    /// Hash of all bytes read.
    content: Xxh3,
}

impl Walk {
    /// Those of the known positions (ascending by offset) that the file holds.
    fn held(&mut self, known: Vec<KnownPosition>) -> io::Result<Vec<Held>> {
        let mut held = Vec::new();
        for position in known {
            if !self.read_to(position.offset)? {
                break;
            }
            if self.tail.hash() == position.tail_hash || self.content.digest() == position.tail_hash {
                let at_end = self.file.at_end();
                held.push(Held { position, at_end });
            }
        }
        Ok(held)
    }

    /// Whether the file reaches as far as `offset`. A packed file that is damaged before it does not: what can be
    /// unpacked of it is a file of its own.
    fn read_to(&mut self, offset: u64) -> io::Result<bool> {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        while self.tail.offset < offset {
            let want = (offset - self.tail.offset).min(buffer.len() as u64) as usize;
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
