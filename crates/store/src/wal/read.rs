//! Reading the log at start.
//!
//! The newest segment may end in a torn record, which was never acknowledged and is truncated. Anything else that is
//! unreadable is damage. After damage, reading continues at the next valid record, however far away, and the numbers of
//! the records that may be lost are reported.

use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::wal::record::{FRAME_BYTES, Record, decode, framed_record_len};
use crate::wal::{HEADER_BYTES, Header, VERSION, first_lsn_of, read_header};

/// Whether files may be changed while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Truncate torn tails and replace damaged segments with segments of their valid records.
    Truncate,
    /// Change nothing.
    ReadOnly,
}

/// An item found in the log; items are passed on in order.
#[derive(Debug)]
pub(crate) enum WalItem {
    /// A valid record.
    Record(Box<Record>),
    /// Records are missing, from the first number up to the second (exclusive), which is `None` if the end is unknown.
    Lost(u64, Option<u64>),
}

/// Consecutive valid records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first_lsn: u64,
    pub(crate) last_lsn: u64,
    pub(crate) bytes: Range<usize>,
}

/// A segment that was read.
#[derive(Debug, Default)]
pub(crate) struct ReadSegment {
    /// The segment's runs of valid records.
    pub(crate) runs: Vec<Run>,
    /// Damage other than an ordinary torn tail.
    pub(crate) damage: Option<String>,
    /// Whether the bytes after the last valid record are a torn tail.
    pub(crate) torn: bool,
}

impl ReadSegment {
    /// Offset of the end of the last valid record; 0 if there is none.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.bytes.end as u64)
    }
}

/// Log files in a folder, in the order of the numbers that `lsn_of` returns; files for which it returns `None` are
/// skipped.
fn list(folder: &Path, lsn_of: impl Fn(&Path) -> Option<u64>) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error: io::Error| StoreError::from_io("list", folder, &error);
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if let Some(first_lsn) = lsn_of(&path) {
            found.push((first_lsn, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Segments of a folder, oldest first.
pub(crate) fn list_segments(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    list(folder, first_lsn_of)
}

/// Damaged segments that were kept for inspection.
pub(crate) fn list_damaged(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    list(folder, |path| path.extension().is_some_and(|extension| extension == super::DAMAGED_EXTENSION).then_some(0))
}

/// Reads one segment and passes on every valid record. `following` is the first record of the next segment, `None` for
/// the newest segment, the only one whose tail may be torn. `through` is the last record that the segment is known to
/// have contained.
pub(crate) fn read_segment(
    path: &Path,
    following: Option<u64>,
    through: Option<u64>,
    take: &mut dyn FnMut(WalItem),
) -> Result<ReadSegment, StoreError> {
    let bytes = fs::read(path).map_err(|error| StoreError::from_io("read", path, &error))?;
    let header = read_header(&bytes);
    if let Header::Newer(found) = header {
        return Err(StoreError::LogTooNew { path: path.to_owned(), found, known: VERSION });
    }
    let start = if header == Header::Known { HEADER_BYTES } else { 0 };
    let mut walk = RecordScanner { bytes: &bytes, at: start, expected: first_lsn_of(path).unwrap_or(0), following };
    let mut read = ReadSegment::default();
    let mut bad: Vec<Range<usize>> = Vec::new();
    let mut lost = 0;
    while let Some((record, len)) = walk.next(&mut bad) {
        if record.lsn > walk.expected {
            lost += record.lsn - walk.expected;
            take(WalItem::Lost(walk.expected, Some(record.lsn)));
        }
        let lsn = record.lsn;
        match read.runs.last_mut() {
            Some(run) if run.bytes.end == walk.at && lsn == walk.expected => {
                run.bytes.end += len;
                run.last_lsn = lsn;
            }
            _ => read.runs.push(Run { first_lsn: lsn, last_lsn: lsn, bytes: walk.at..walk.at + len }),
        }
        if lsn > walk.expected && bad.last().is_none_or(|region| region.end != walk.at) {
            bad.push(walk.at..walk.at);
        }
        walk.at += len;
        walk.expected = lsn + 1;
        take(WalItem::Record(Box::new(record)));
    }
    let rest = walk.at..bytes.len();
    let headless = start == 0 && bytes.len() > HEADER_BYTES;
    let missing = through.filter(|through| walk.expected <= *through);
    let is_tail = missing.is_none() && following.is_none() && !(headless && read.runs.is_empty());
    read.torn = is_tail && !rest.is_empty();
    if missing.is_some() || (!is_tail && (!rest.is_empty() || read.runs.is_empty())) {
        bad.push(rest);
        let end = missing.map(|through| through + 1).or(following);
        if end.is_none_or(|end| walk.expected < end) {
            lost += end.map_or(0, |end| end - walk.expected);
            take(WalItem::Lost(walk.expected, end));
        }
    }
    let behind = |pair: &[Run]| pair[0].last_lsn < pair[1].first_lsn && pair[0].bytes.end <= pair[1].bytes.start;
    assert!(read.runs.windows(2).all(behind), "runs of records follow each other in number and place");
    if let Some(first) = bad.first() {
        let unread: usize = bad.iter().map(Range::len).sum();
        let (path, at) = (path.display(), first.start);
        let missing = match lost {
            0 => String::new(),
            1 => ", one record is missing".to_owned(),
            more => format!(", {more} records are missing"),
        };
        let damage = format!("log segment {path} is damaged at byte {at}; {unread} bytes cannot be read{missing}");
        read.damage = Some(damage);
    }
    Ok(read)
}

/// Cursor over the bytes of a segment that finds its records.
struct RecordScanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The expected lsn of the next record.
    expected: u64,
    /// First record of the next segment.
    following: Option<u64>,
}

impl RecordScanner<'_> {
    /// The next valid record at or after `self.at`; skipped ranges are added to `bad`.
    fn next(&mut self, bad: &mut Vec<Range<usize>>) -> Option<(Record, usize)> {
        let from = self.at;
        if let Some(found) = self.record_at(from) {
            return Some(found);
        }
        // If the frame of a damaged record is intact, it determines the start of the next record. The record's text is
        // then not searched for records.
        let behind =
            self.bytes.get(from..).and_then(framed_record_len).map_or(from + 1, |len| from.saturating_add(len));
        let last = self.bytes.len().saturating_sub(FRAME_BYTES);
        let (at, found) = (behind..=last).find_map(|at| self.record_at(at).map(|found| (at, found)))?;
        bad.push(from..at);
        self.at = at;
        Some(found)
    }

    fn record_at(&self, at: usize) -> Option<(Record, usize)> {
        let (record, len) = decode(self.bytes.get(at..)?)?;
        // Another record must be able to follow.
        let is_possible = record.lsn >= self.expected && record.lsn < u64::MAX;
        let fits = is_possible && self.following.is_none_or(|next| record.lsn < next);
        fits.then_some((record, len))
    }
}

/// Truncates a file to `len` bytes, to remove an incomplete record at its end.
pub(crate) fn truncate_file(path: &Path, len: u64) -> Result<(), StoreError> {
    let shorten = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(len)?;
        file.sync_all()
    };
    shorten().map_err(|error| StoreError::from_io("truncate", path, &error))
}
