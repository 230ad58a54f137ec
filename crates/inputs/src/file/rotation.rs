//! What became of the file that a position was kept of.
//!
//! Files often begin alike, and copies come slowly. So the file of a position is looked at. If it still holds those
//! bytes and goes on in another way, it is another one; if it holds them no more, it was renamed or copied and
//! emptied, and the file at hand is what became of it. While one holds all of the other, one of them is about to be
//! emptied, or is a copy that is still being written: that is to be seen later.
//!
//! Of long plain files only both ends of what they share are compared, as only the bytes before a position are.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use quarry_stdx::number::usize_of;

use super::Packing;
use super::fingerprint::{HEAD_BYTES, tail_hash};
use super::open::{Handle, READ_CHUNK_BYTES};
use crate::FilePosition;

/// Bytes of two files that are compared at either end of what they share.
const COPY_BYTES: usize = 64 << 10;
/// Names that are looked at for files beside one.
const BESIDE_NAMES_MAX: usize = 1_024;
/// Files beside one that are opened.
const BESIDE_OPENED_MAX: usize = 16;

/// Files in the folder of `path`, those of the most similar names, that begin with `bytes` and go on behind them: their
/// first bytes, up to as many as identify a file.
///
/// The sink finds a file by its first bytes, but not by the first of these. So this is how the file is found that a
/// short one is, or was, the beginning of.
pub(super) fn beside(path: &Path, bytes: &[u8]) -> Vec<Vec<u8>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let likeness = |other: &OsStr| {
        let pairs = name.as_encoded_bytes().iter().zip(other.as_encoded_bytes());
        pairs.take_while(|(this, other)| this == other).count()
    };
    let mut names: Vec<_> = entries.take(BESIDE_NAMES_MAX).flatten().map(|entry| entry.file_name()).collect();
    names.retain(|other| other != name);
    names.sort_by_cached_key(|other| std::cmp::Reverse(likeness(other)));
    let heads = names.iter().take(BESIDE_OPENED_MAX).filter_map(|name| {
        let handle = Handle::open(&folder.join(name)).ok()??;
        if handle.packing == Packing::None && handle.content_bytes() <= bytes.len() as u64 {
            return None;
        }
        let mut head = vec![0; HEAD_BYTES];
        let read = handle.reader().ok()?.read_chunk(&mut head).ok()?;
        head.truncate(read);
        Some(head)
    });
    heads.filter(|head| head.len() > bytes.len() && head.starts_with(bytes)).collect()
}

/// Whether files are renamed and emptied where a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// They are not, or nobody knows.
    None,
    /// They are; a file may be looked at again if it cannot be told yet what it is.
    Awaited,
    /// They are; it was looked at often enough.
    Settled,
}

/// The file that a position was kept of, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is the file itself.
    Same,
    /// It is gone, or holds something else.
    Gone,
    /// It holds all that the other file holds, too.
    Copy,
    /// It is there, and goes on in another way.
    Other,
}

impl Origin {
    /// Looks at the file of a position that `this` file holds.
    pub(super) fn of(position: &FilePosition, this: &Handle) -> Origin {
        let other = match Handle::open(Path::new(&position.path)) {
            Ok(Some(other)) => other,
            Ok(None) => return Origin::Gone,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Origin::Gone,
            // What cannot be seen proves nothing.
            Err(_) => return Origin::Other,
        };
        if is_same_file(this, &other) {
            return Origin::Same;
        }
        match begin_alike(this, &other, position.identity.head.len())
            .and_then(|alike| Ok(alike && holds(&other, position)?))
        {
            Ok(true) if is_begin_of(this, &other) => Origin::Copy,
            Ok(true) => Origin::Other,
            Ok(false) => Origin::Gone,
            Err(_) => Origin::Other,
        }
    }
}

/// Whether `this` file is, as far as it goes, a copy of the one that a position was kept of.
pub(super) fn is_copy_of(position: &FilePosition, this: &Handle) -> bool {
    let origin = Handle::open(Path::new(&position.path)).ok().flatten();
    origin.is_some_and(|origin| !is_same_file(this, &origin) && is_begin_of(this, &origin))
}

/// Whether the file that a position was kept of is there no more, or holds something else.
pub(super) fn is_gone(position: &FilePosition) -> bool {
    let origin = Handle::open(Path::new(&position.path)).ok().flatten();
    !origin.is_some_and(|origin| holds(&origin, position).unwrap_or(false))
}

fn is_same_file(this: &Handle, other: &Handle) -> bool {
    (this.metadata.dev(), this.metadata.ino()) == (other.metadata.dev(), other.metadata.ino())
}

/// Whether two files have the same first bytes, so many.
fn begin_alike(this: &Handle, other: &Handle, bytes: usize) -> io::Result<bool> {
    let (mut ours, mut theirs) = (vec![0; bytes], vec![0; bytes]);
    let read = (this.reader()?.read_chunk(&mut ours)?, other.reader()?.read_chunk(&mut theirs)?);
    Ok(read == (bytes, bytes) && ours == theirs)
}

/// Whether a file holds a position.
fn holds(file: &Handle, position: &FilePosition) -> io::Result<bool> {
    if file.packing == Packing::None {
        if file.content_bytes() < position.offset {
            return Ok(false);
        }
        let mut tail = vec![0; usize_of(position.offset.min(HEAD_BYTES as u64))];
        let from = position.offset - tail.len() as u64;
        file.read_exact_at(&mut tail, from)?;
        return Ok(tail_hash(&tail) == position.tail_hash);
    }
    let (mut reader, mut last, mut left) = (file.reader()?, Vec::new(), position.offset);
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    while left > 0 {
        let want = usize_of(left.min(READ_CHUNK_BYTES as u64));
        let read = reader.read_chunk(&mut buffer[..want])?;
        if read == 0 {
            return Ok(false);
        }
        last.extend_from_slice(&buffer[..read]);
        last.drain(..last.len().saturating_sub(HEAD_BYTES));
        left -= read as u64;
    }
    Ok(tail_hash(&last) == position.tail_hash)
}

/// Whether `other` begins with all that `this` holds, which is something.
fn is_begin_of(this: &Handle, other: &Handle) -> bool {
    if this.packing != Packing::None || other.packing != Packing::None {
        return is_begin_of_packed(this, other).unwrap_or(false);
    }
    let bytes = this.content_bytes();
    if bytes == 0 || other.content_bytes() < bytes {
        return false;
    }
    let compared = bytes.min(COPY_BYTES as u64);
    let is_alike = |at: u64| -> io::Result<bool> {
        let (mut ours, mut theirs) = (vec![0; usize_of(compared)], vec![0; usize_of(compared)]);
        this.read_exact_at(&mut ours, at)?;
        other.read_exact_at(&mut theirs, at)?;
        Ok(ours == theirs)
    };
    is_alike(bytes - compared).is_ok_and(|is_alike| is_alike) && is_alike(0).is_ok_and(|is_alike| is_alike)
}

fn is_begin_of_packed(this: &Handle, other: &Handle) -> io::Result<bool> {
    let (mut this, mut other) = (this.reader()?, other.reader()?);
    let (mut ours, mut theirs) = (vec![0; READ_CHUNK_BYTES], vec![0; READ_CHUNK_BYTES]);
    let mut is_something = false;
    loop {
        let read = this.read_chunk(&mut ours)?;
        if read == 0 {
            return Ok(is_something);
        }
        is_something = true;
        if other.read_chunk(&mut theirs[..read])? < read || ours[..read] != theirs[..read] {
            return Ok(false);
        }
    }
}
