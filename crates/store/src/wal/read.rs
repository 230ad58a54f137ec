//! Reading the log at start.
//!
//! The newest segment may end in a torn record: that record was never acknowledged and is cut off. Damage anywhere
//! else lost acknowledged records; it is reported and the file is kept aside.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::wal::record::{Record, decode};
use crate::wal::{HEADER_BYTES, Header, VERSION, first_lsn_of, read_header};

/// Whether the files may be changed while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Torn tails are cut.
    Cut,
    /// Nothing is changed.
    Leave,
}

/// A segment that was read.
#[derive(Debug)]
pub(crate) struct ReadSegment {
    /// Bytes of whole records and header; 0 for a segment without any record.
    pub(crate) bytes: u64,
    /// What is wrong with it, unless it is an ordinary torn tail.
    pub(crate) damage: Option<String>,
}

/// Segments of a folder, oldest first.
pub(crate) fn list_segments(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error: io::Error| StoreError::from_io("list", folder, &error);
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if let Some(first_lsn) = first_lsn_of(&path) {
            found.push((first_lsn, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Reads one segment and hands every whole record to `take`. `newest` says that its tail may be torn.
pub(crate) fn read_segment(
    path: &Path,
    newest: bool,
    repair: Repair,
    take: &mut dyn FnMut(Record) -> Result<(), StoreError>,
) -> Result<ReadSegment, StoreError> {
    let bytes = fs::read(path).map_err(|error| StoreError::from_io("read", path, &error))?;
    let mut at = match read_header(&bytes) {
        Header::Known => HEADER_BYTES,
        Header::Newer(found) => return Err(StoreError::LogTooNew { path: path.to_owned(), found, known: VERSION }),
        Header::Broken => 0,
    };
    let mut records = 0;
    let mut expected = first_lsn_of(path).unwrap_or(0);
    while at >= HEADER_BYTES && at < bytes.len() {
        let Some((record, len)) = decode(&bytes[at..]) else { break };
        if record.lsn != expected {
            break;
        }
        expected += 1;
        at += len;
        records += 1;
        take(record)?;
    }
    let whole = if records == 0 { 0 } else { at as u64 };
    let headless = at == 0 && bytes.len() > HEADER_BYTES;
    let mut read = ReadSegment { bytes: whole, damage: None };
    if at == bytes.len() {
        return Ok(read);
    }
    if !newest || headless {
        let lost = bytes.len() - at;
        read.damage = Some(format!("log segment {} is damaged at byte {at}; {lost} bytes are lost", path.display()));
    } else if repair == Repair::Cut && records > 0 {
        cut(path, at as u64)?;
    }
    Ok(read)
}

fn cut(path: &Path, len: u64) -> Result<(), StoreError> {
    let shorten = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    };
    shorten().map_err(|error| StoreError::from_io("cut back", path, &error))
}
