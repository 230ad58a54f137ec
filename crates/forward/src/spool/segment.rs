//! Files of the queue: naming, recovery, and atomic replacement of small files.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::positions::Positions;
use super::record::{self, HEAD_BYTES, RequestPart};
use crate::ForwardError;

/// Extension of record files.
const EXTENSION: &str = "log";
/// Readable and writable by the owner only.
pub(super) const PRIVATE_MODE: u32 = 0o600;

/// One file of records.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    /// Number of the segment's first record, even if it is empty.
    pub(super) first: u64,
    /// Number of the segment's last record; one less than `first` if the segment is empty.
    pub(super) last: u64,
    pub(super) bytes: u64,
}

impl Segment {
    /// Creates a file for records starting with `first`.
    pub(super) fn create(folder: &Path, first: u64) -> Result<Segment, ForwardError> {
        let path = folder.join(format!("{first:016x}.{EXTENSION}"));
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(PRIVATE_MODE).open(&path);
        let file = opened.map_err(|error| ForwardError::disk(&path, "cannot be created", &error))?;
        sync_folder(folder)?;
        Ok(Segment { path, file: Arc::new(file), first, last: first - 1, bytes: 0 })
    }
}

/// Makes a folder's entries durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), ForwardError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| ForwardError::disk(folder, "cannot be synced", &error))
}

/// Replaces a file atomically.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ForwardError> {
    let temporary = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_MODE).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(|error| ForwardError::disk(path, "cannot be written", &error))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Result of recovery.
#[derive(Debug, Default)]
pub(super) struct RecoveredSegments {
    pub(super) segments: Vec<Segment>,
    /// Number of the last record.
    pub(super) last: u64,
    /// Whether bytes were dropped; the numbers of the records in them must not be assigned again.
    pub(super) is_cut: bool,
    pub(super) notes: Vec<String>,
}

/// Reads all files of a folder, adds their positions to `positions`, and passes parts of requests, with the numbers of
/// their records, to `add_part`; cuts off writes left incomplete by a crash.
pub(super) fn recover(
    folder: &Path,
    positions: &mut Positions,
    add_part: &mut dyn FnMut(u64, RequestPart),
) -> Result<RecoveredSegments, ForwardError> {
    let listed = std::fs::read_dir(folder).map_err(|error| ForwardError::disk(folder, "cannot be read", &error))?;
    let mut names: Vec<(u64, PathBuf)> = Vec::new();
    for entry in listed {
        let path = entry.map_err(|error| ForwardError::disk(folder, "cannot be read", &error))?.path();
        let is_one = path.extension().is_some_and(|extension| extension == EXTENSION);
        let first = path.file_stem().and_then(|stem| u64::from_str_radix(stem.to_str()?, 16).ok());
        names.extend(first.filter(|first| is_one && *first > 0).map(|first| (first, path)));
    }
    names.sort();
    let mut found = RecoveredSegments::default();
    let count = names.len();
    for (at, (first, path)) in names.into_iter().enumerate() {
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.map_err(|error| ForwardError::disk(&path, "cannot be opened", &error))?;
        let length = file.metadata().map_err(|error| ForwardError::disk(&path, "cannot be read", &error))?.len();
        let mut segment = Segment { path, file: Arc::new(file), first, last: first - 1, bytes: 0 };
        read_all(&mut segment, length, positions, add_part)?;
        if segment.bytes < length {
            found.is_cut = true;
            // Only the last file can be incomplete after a crash; any other incomplete file is damaged.
            if at + 1 < count {
                let path = segment.path.display();
                found.notes.push(format!("{path}: damaged after {} bytes; later records are lost", segment.bytes));
            }
        }
        let settled = segment.file.set_len(segment.bytes).and_then(|()| segment.file.sync_all());
        settled.map_err(|error| ForwardError::disk(&segment.path, "cannot be settled", &error))?;
        found.last = found.last.max(segment.last);
        if segment.bytes == 0 {
            std::fs::remove_file(&segment.path)
                .map_err(|error| ForwardError::disk(&segment.path, "cannot be removed", &error))?;
        } else {
            found.segments.push(segment);
        }
    }
    Ok(found)
}

/// Reads records up to the first incomplete one; an append of several records counts completely or not at all.
fn read_all(
    segment: &mut Segment,
    length: u64,
    positions: &mut Positions,
    add_part: &mut dyn FnMut(u64, RequestPart),
) -> Result<(), ForwardError> {
    let mut body = Vec::new();
    let mut at = 0;
    while at + HEAD_BYTES as u64 <= length {
        let mut head = [0; HEAD_BYTES];
        let unreadable = |error: std::io::Error| ForwardError::disk(&segment.path, "cannot be read", &error);
        segment.file.read_exact_at(&mut head, at).map_err(unreadable)?;
        let Some((bytes, hash)) = record::parse_head(&head) else { return Ok(()) };
        let end = at + HEAD_BYTES as u64 + bytes as u64;
        if end > length {
            return Ok(());
        }
        body.resize(bytes, 0);
        segment.file.read_exact_at(&mut body, at + HEAD_BYTES as u64).map_err(unreadable)?;
        let Some(read) = record::read(&body, hash).filter(|read| read.number > segment.last) else { return Ok(()) };
        at = end;
        if let Some(position) = read.position {
            positions.set(position);
        }
        if let Some(part) = read.part {
            add_part(read.number, part);
        }
        if !read.has_more {
            (segment.last, segment.bytes) = (read.number, at);
        }
    }
    Ok(())
}
