//! Determines the current state of the file for which a position was recorded.
//!
//! Files often begin alike, and copies are written slowly, so the original file is examined. If it still has the bytes
//! before the position and continues differently, the new file is unrelated. If it no longer has those bytes, it was
//! renamed, or copied and truncated, and the new file takes over its position. While the original begins with the whole
//! new file, the original may be about to be truncated, or a copy may be in progress; the caller decides later.
//!
//! In long plain files only both ends of the common part are compared, just as a position is verified only by the bytes
//! before it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use quarry_stdx::number::usize_of;

use super::Compression;
use super::fingerprint::{HEAD_BYTES, tail_hash};
use super::open::{Handle, READ_CHUNK_BYTES};
use crate::FilePosition;

/// Bytes compared at either end of the common part of two files.
const COMPARED_BYTES: usize = 64 << 10;
/// Maximum number of names examined for neighbouring files.
const SIBLING_NAMES_MAX: usize = 1_024;
/// Maximum number of neighbouring files opened.
const SIBLINGS_OPENED_MAX: usize = 16;

/// Leading bytes, up to the size of an identity, of each file in the folder of `path` that begins with `bytes` and is
/// longer. Files with the most similar names come first.
///
/// The sink finds a file only by all its leading bytes, not by a prefix. With the returned bytes, the sink can also
/// find a longer file that begins with the content of a short file.
pub(super) fn sibling_heads(path: &Path, bytes: &[u8]) -> Vec<Vec<u8>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let likeness = |other: &OsStr| {
        let pairs = name.as_encoded_bytes().iter().zip(other.as_encoded_bytes());
        pairs.take_while(|(this, other)| this == other).count()
    };
    let mut names: Vec<_> = entries.take(SIBLING_NAMES_MAX).flatten().map(|entry| entry.file_name()).collect();
    names.retain(|other| other != name);
    names.sort_by_cached_key(|other| std::cmp::Reverse(likeness(other)));
    let heads = names.iter().take(SIBLINGS_OPENED_MAX).filter_map(|name| {
        let handle = Handle::open(&folder.join(name)).ok()??;
        if handle.compression == Compression::None && handle.content_bytes() <= bytes.len() as u64 {
            return None;
        }
        let mut head = vec![0; HEAD_BYTES];
        let read = handle.reader().ok()?.read_chunk(&mut head).ok()?;
        head.truncate(read);
        Some(head)
    });
    heads.filter(|head| head.len() > bytes.len() && head.starts_with(bytes)).collect()
}

/// Whether the files of a folder are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Not rotated, or unknown.
    None,
    /// Rotated; an undecided file may be examined again.
    Awaited,
    /// Rotated; the undecided file was examined often enough.
    Settled,
}

/// State of the original, the file for which a position was recorded, compared with the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginState {
    /// The original is the new file itself.
    Same,
    /// The original is gone or has other content.
    Gone,
    /// The original begins with the whole content of the new file.
    Copy,
    /// The original continues differently or cannot be read.
    Other,
}

impl OriginState {
    /// Examines the original, the file for which `position` was recorded; `this` is the new file, which matches the
    /// position.
    pub(super) fn of(position: &FilePosition, this: &Handle) -> OriginState {
        let other = match Handle::open(Path::new(&position.path)) {
            Ok(Some(other)) => other,
            Ok(None) => return OriginState::Gone,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return OriginState::Gone,
            // An unreadable file proves nothing.
            Err(_) => return OriginState::Other,
        };
        if is_same_file(this, &other) {
            return OriginState::Same;
        }
        match have_same_start(this, &other, position.identity.head.len())
            .and_then(|alike| Ok(alike && matches_position(&other, position)?))
        {
            Ok(true) if is_prefix_of(this, &other) => OriginState::Copy,
            Ok(true) => OriginState::Other,
            Ok(false) => OriginState::Gone,
            Err(_) => OriginState::Other,
        }
    }
}

/// True if the file of `position` begins with the whole content of `this`.
pub(super) fn is_copy_of(position: &FilePosition, this: &Handle) -> bool {
    let origin = Handle::open(Path::new(&position.path)).ok().flatten();
    origin.is_some_and(|origin| !is_same_file(this, &origin) && is_prefix_of(this, &origin))
}

/// Whether the file with this position is gone or has other content.
pub(super) fn is_gone(position: &FilePosition) -> bool {
    let origin = Handle::open(Path::new(&position.path)).ok().flatten();
    !origin.is_some_and(|origin| matches_position(&origin, position).unwrap_or(false))
}

fn is_same_file(this: &Handle, other: &Handle) -> bool {
    (this.metadata.dev(), this.metadata.ino()) == (other.metadata.dev(), other.metadata.ino())
}

/// Whether two files have the same first `bytes` bytes.
fn have_same_start(this: &Handle, other: &Handle, bytes: usize) -> io::Result<bool> {
    let (mut ours, mut theirs) = (vec![0; bytes], vec![0; bytes]);
    let read = (this.reader()?.read_chunk(&mut ours)?, other.reader()?.read_chunk(&mut theirs)?);
    Ok(read == (bytes, bytes) && ours == theirs)
}

/// True if a file has the bytes hashed in a position.
fn matches_position(file: &Handle, position: &FilePosition) -> io::Result<bool> {
    if file.compression == Compression::None {
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

/// Whether `other` begins with the whole, non-empty content of `this`.
fn is_prefix_of(this: &Handle, other: &Handle) -> bool {
    if this.compression != Compression::None || other.compression != Compression::None {
        return is_prefix_of_compressed(this, other).unwrap_or(false);
    }
    let bytes = this.content_bytes();
    if bytes == 0 || other.content_bytes() < bytes {
        return false;
    }
    let compared = bytes.min(COMPARED_BYTES as u64);
    let is_alike = |at: u64| -> io::Result<bool> {
        let (mut ours, mut theirs) = (vec![0; usize_of(compared)], vec![0; usize_of(compared)]);
        this.read_exact_at(&mut ours, at)?;
        other.read_exact_at(&mut theirs, at)?;
        Ok(ours == theirs)
    };
    is_alike(bytes - compared).is_ok_and(|is_alike| is_alike) && is_alike(0).is_ok_and(|is_alike| is_alike)
}

fn is_prefix_of_compressed(this: &Handle, other: &Handle) -> io::Result<bool> {
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
