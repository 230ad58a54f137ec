//! Salvage: replaces a damaged segment with segments of its intact runs.
//!
//! The damaged file is first kept under another name. Then its runs of valid records are written as segments of their
//! own, the last one first, and finally the damaged file is removed. After a crash in between, reading finds the damage
//! again, skips the records that a later segment already contains, and the salvage starts over.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::wal::read::Run;
use crate::wal::{DAMAGED_EXTENSION, header, segment_path};

/// File extension of a segment being written.
const UNFINISHED_EXTENSION: &str = "unfinished";
/// Maximum number of names tried for a damaged file; then the salvage fails.
const NAME_ATTEMPTS_MAX: u32 = 1_000;

/// Replaces the segment at `path` with its `runs`; returns the new segments in the same order.
pub(crate) fn salvage(path: &Path, runs: &[Run]) -> Result<Vec<PathBuf>, StoreError> {
    replace(path, runs).map_err(|error| StoreError::from_io("keep the intact part of", path, &error))
}

fn replace(path: &Path, runs: &[Run]) -> io::Result<Vec<PathBuf>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let bytes = fs::read(path)?;
    keep_backup(path)?;
    File::open(folder)?.sync_all()?;
    let mut written = Vec::new();
    for run in runs.iter().rev() {
        let segment = segment_path(folder, run.first_lsn);
        let unfinished = segment.with_extension(UNFINISHED_EXTENSION);
        let mut file = File::create(&unfinished)?;
        file.write_all(&header(run.first_lsn))?;
        file.write_all(bytes.get(run.bytes.clone()).ok_or(io::ErrorKind::UnexpectedEof)?)?;
        file.sync_all()?;
        fs::rename(&unfinished, &segment)?;
        File::open(folder)?.sync_all()?;
        written.push(segment);
    }
    if !written.iter().any(|segment| segment == path) {
        fs::remove_file(path)?;
        File::open(folder)?.sync_all()?;
    }
    written.reverse();
    Ok(written)
}

/// Gives the file a second, permanent name.
fn keep_backup(path: &Path) -> io::Result<()> {
    let mut aside = path.with_extension(DAMAGED_EXTENSION);
    for again in 2..NAME_ATTEMPTS_MAX {
        match fs::hard_link(path, &aside) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                aside = path.with_extension(format!("{again}.{DAMAGED_EXTENSION}"));
            }
            // Some file systems do not support hard links.
            Err(_) => {
                fs::copy(path, &aside)?;
                File::open(&aside)?.sync_all()?;
                return Ok(());
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
