//! The mark: the newest record known to be durable, in a small file beside the segments.
//!
//! An unreadable record at the end of the log was either being written when the machine stopped, or was stored,
//! acknowledged, and damaged later. The first is normal; the second must be reported. The mark distinguishes the two
//! cases: it is written after each sync of the log and before any acknowledgment. Only the first write of the mark is
//! synced at once, because a sync for each group would double the group's cost. The mark survives the end of the
//! process, but after a failure of the machine it may be some seconds old. It is never ahead of the durable records.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::StoreError;
use crate::disk::{Disk, DiskFile};

const MAGIC: &[u8; 8] = b"QRYMARK\n";
/// Size of the file: magic, lsn, and checksum of both.
const MARK_BYTES: usize = 24;

/// File of the mark.
pub(crate) fn mark_path(folder: &Path) -> PathBuf {
    folder.join("durable")
}

/// Content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundMark {
    /// Records up to this one were durable.
    Durable(u64),
    /// The file does not exist, is empty, or has only zeros.
    Absent,
    /// The file is damaged.
    Broken,
}

/// Reads the mark of a log.
pub(crate) fn read_mark(folder: &Path) -> Result<FoundMark, StoreError> {
    let path = mark_path(folder);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundMark::Absent),
        read => read.map_err(|error| StoreError::from_io("read", &path, &error))?,
    };
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(FoundMark::Absent);
    }
    let Some(whole) = bytes.first_chunk::<MARK_BYTES>() else { return Ok(FoundMark::Broken) };
    let lsn = u64::from_le_bytes(*whole[8..].first_chunk().unwrap_or(&[0; 8]));
    let is_sound = encode(lsn) == *whole && lsn < u64::MAX;
    Ok(if is_sound { FoundMark::Durable(lsn) } else { FoundMark::Broken })
}

fn encode(lsn: u64) -> [u8; MARK_BYTES] {
    let mut out = [0; MARK_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..16].copy_from_slice(&lsn.to_le_bytes());
    let checksum = xxh3_64(&out[..16]);
    out[16..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// The mark of a log being written. It keeps its previous value until the first record is written.
#[derive(Debug)]
pub(crate) struct DurableMark {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
}

impl DurableMark {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: &Path) -> DurableMark {
        DurableMark { disk, path: mark_path(folder), file: None }
    }

    /// Notes that the log is durable up to record `lsn`. The catalog must not list log segments before the first
    /// success of this function, because a listed log without a mark counts as damaged.
    pub(crate) fn set(&mut self, lsn: u64) -> io::Result<()> {
        if let Some(file) = &self.file {
            return file.write_all_at(&encode(lsn), 0);
        }
        // The mark is written in place, so that a crash leaves either the old mark or the new one.
        let file = self.disk.open(&self.path)?;
        file.write_all_at(&encode(lsn), 0)?;
        file.sync()?;
        self.file = Some(file);
        Ok(())
    }

    /// Makes the mark durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.sync())
    }
}
