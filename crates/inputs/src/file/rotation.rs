//! What became of the file that a short position was kept of.
//!
//! Below 256 bytes, equal bytes prove little: files often begin alike. So the file of the position is looked at. If it
//! still holds those bytes, it is another one, and this file is read from its start; if it does not, it was renamed or
//! copied and emptied, and this file is what became of it. While both hold the same, one of them is about to be emptied
//! or both are copies: that is to be seen later.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::OpenFile;
use super::identity::{HEAD_BYTES, tail_hash};
use crate::KnownPosition;

/// Bytes of two files that are compared to tell a copy.
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
        let path = folder.join(name);
        if path.metadata().ok()?.len() <= bytes.len() as u64 || !path.is_file() {
            return None;
        }
        let mut head = begin(&path).ok()?;
        head.truncate(HEAD_BYTES);
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
    /// Looks at the file of `position`; `path` is the file that has the same bytes before it.
    pub(super) fn of(position: &KnownPosition, path: &Path) -> Origin {
        let origin = Path::new(&position.path);
        let (this, other) = match (path.metadata(), origin.metadata()) {
            (Ok(this), Ok(other)) => (this, other),
            (Ok(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => return Origin::Gone,
            // What cannot be seen proves nothing.
            _ => return Origin::Other,
        };
        if !other.is_file() {
            return Origin::Gone;
        }
        if (this.dev(), this.ino()) == (other.dev(), other.ino()) {
            return Origin::Same;
        }
        let (Ok(this), Ok(other)) = (begin(path), begin(origin)) else { return Origin::Other };
        let holds = usize::try_from(position.offset).ok().and_then(|offset| other.get(..offset));
        let begins_alike = other.get(..position.head_bytes).is_some_and(|head| this.starts_with(head));
        match holds {
            Some(before) if begins_alike && tail_hash(before) == position.tail_hash => {}
            _ => return Origin::Gone,
        }
        if other.starts_with(&this) { Origin::Copy } else { Origin::Other }
    }
}

/// The first bytes of a file's content.
fn begin(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = OpenFile::open(path).map_err(io::Error::other)?;
    let mut bytes = vec![0; COPY_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_chunk(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
