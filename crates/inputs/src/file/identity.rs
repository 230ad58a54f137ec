//! Knowing a file again, and where reading it stopped.
//!
//! A position counts only if the 256 bytes before it are still the same ones: a file that was truncated and written
//! anew, or another file with the same first bytes, is read from its start. A position whose head and offset are both
//! below 256 bytes proves little, so it counts only for the file of that path, or for a file that has nothing beyond it.
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
}

impl Start {
    /// Looks up what the sink knows of the file at `path`, of which nothing is read yet; `again` reads it from its start
    /// whatever is known.
    pub(crate) fn find(
        mut file: OpenFile,
        path: &Path,
        absolute: &str,
        scope: &str,
        again: bool,
        sink: &mut dyn Sink,
    ) -> Result<Start, InputError> {
        let mut head = vec![0; HEAD_BYTES];
        let read_bytes = file.read_chunk(&mut head).map_err(|error| file.describe(path, 0, &error))?;
        head.truncate(read_bytes);
        let mut known = sink.positions(scope, &head).map_err(|error| InputError::sink(path, error))?;
        let variant =
            known.iter().filter(|position| position.head_bytes == head.len()).map(|one| one.variant + 1).max();
        if !again && !known.is_empty() {
            known.sort_by_key(|position| position.offset);
            if let Some((position, at_end)) = furthest(path, absolute, known)? {
                head.truncate(position.head_bytes);
                let identity = FileIdentity { scope: scope.to_owned(), head, variant: position.variant };
                return Ok(Start { identity: Arc::new(identity), offset: position.offset, at_end });
            }
        }
        let identity = FileIdentity { scope: scope.to_owned(), head, variant: variant.unwrap_or(0) };
        let at_end = identity.head.is_empty();
        Ok(Start { identity: Arc::new(identity), offset: 0, at_end })
    }
}

/// The furthest of the known positions (ascending by offset) that the file at `path` still holds, and whether it ends
/// there.
fn furthest(
    path: &Path,
    absolute: &str,
    known: Vec<KnownPosition>,
) -> Result<Option<(KnownPosition, bool)>, InputError> {
    let last = known.last().map_or(0, |position| position.offset);
    let (mut file, reached) = OpenFile::open_from(path, last.saturating_sub(TAIL_BYTES as u64))?;
    // Most often the file is the one of the furthest position, which is seen at once.
    if let Some(position) = known.last().filter(|_| file.packing == Packing::None) {
        let mut tail = vec![0; (last - reached) as usize];
        let read = file.read_chunk(&mut tail).map_err(|error| InputError::read(path, &error))?;
        if read == tail.len() && tail_hash(&tail) == position.tail_hash {
            let at_end = file.at_end();
            if at_end || position.is_of(absolute) {
                return Ok(Some((position.clone(), at_end)));
            }
        }
    }
    let mut walk = Walk { file: OpenFile::open(path)?, tail: Tail::default(), content: Xxh3::new() };
    walk.furthest(known, absolute).map_err(|error| walk.file.describe(path, walk.tail.offset, &error))
}

impl KnownPosition {
    /// Whether a file of this path that goes on behind the position is the one it was kept of.
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
    /// As the function of this name.
    fn furthest(&mut self, known: Vec<KnownPosition>, path: &str) -> io::Result<Option<(KnownPosition, bool)>> {
        let mut best = None;
        for position in known {
            if !self.read_to(position.offset)? {
                return Ok(best);
            }
            if self.tail.hash() != position.tail_hash && self.content.digest() != position.tail_hash {
                continue;
            }
            let at_end = self.file.at_end();
            if at_end || position.is_of(path) {
                best = Some((position, at_end));
            }
        }
        Ok(best)
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
