//! The records that the log should contain, compared with the segment files found. The catalog and the *mark*, a file
//! with the number of the newest durable record, determine these records.
//!
//! A segment is listed in the catalog until it is released: at first with the number of its first record and, once it
//! is complete, with the number of its last record as well. A listed segment without a file was removed by something
//! other than the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_catalog::{Catalog, LogSegmentRow};

use crate::StoreError;
use crate::log_files::LogSegment;
use crate::wal::mark::{FoundMark, mark_path, read_mark};
use crate::wal::read::list_segments;
use crate::wal::{first_lsn_of, segment_path};

#[derive(Debug)]
pub(crate) struct ExpectedLog {
    /// Existing and expected segments, oldest first.
    pub(crate) segments: Vec<ExpectedSegment>,
    /// Newest durable record, if known.
    pub(crate) durable: Option<u64>,
    /// Fault of the mark, if any. Not set if the catalog lists no segment, because the mark may then not have been
    /// written yet.
    pub(crate) mark_fault: Option<String>,
    listed: Vec<LogSegmentRow>,
}

#[derive(Debug)]
pub(crate) struct ExpectedSegment {
    pub(crate) first_lsn: u64,
    pub(crate) path: PathBuf,
    /// Whether the file exists.
    pub(crate) exists: bool,
    /// Row of the segment in the catalog.
    row: Option<LogSegmentRow>,
}

impl ExpectedLog {
    pub(crate) fn new(catalog: &Catalog, folder: &Path) -> Result<ExpectedLog, StoreError> {
        let listed = catalog.log_segments()?;
        let mut segments = BTreeMap::new();
        for path in list_segments(folder)? {
            let first_lsn = first_lsn_of(&path).unwrap_or(0);
            segments.insert(first_lsn, ExpectedSegment { first_lsn, path, exists: true, row: None });
        }
        for row in &listed {
            let absent = || {
                let path = segment_path(folder, row.first_lsn);
                ExpectedSegment { first_lsn: row.first_lsn, path, exists: false, row: None }
            };
            segments.entry(row.first_lsn).or_insert_with(absent).row = Some(*row);
        }
        let (durable, what) = match read_mark(folder)? {
            FoundMark::Durable(lsn) => (Some(lsn), None),
            FoundMark::Absent => (None, Some("missing")),
            FoundMark::Broken => (None, Some("damaged")),
        };
        // Without listed segments, the mark may not have been written yet.
        let what = what.filter(|_| !listed.is_empty());
        let mark_fault = what.map(|what| format!("{} is {what}", mark_path(folder).display()));
        Ok(ExpectedLog { segments: segments.into_values().collect(), durable, mark_fault, listed })
    }

    /// The last record that segment number `at` contained; `None` if unknown.
    pub(crate) fn last_record_of(&self, at: usize) -> Option<u64> {
        let segment = self.segments.get(at)?;
        let before_next = self.segments.get(at + 1).map(|next| next.first_lsn - 1);
        match (segment.row, before_next) {
            // The next segment may begin before the recorded end of this segment: if the salvage of a damaged segment
            // is interrupted, its later runs of records may be segments of their own already.
            (Some(row), before_next) if row.last_lsn.is_some() => {
                row.last_lsn.map(|last| before_next.map_or(last, |before| last.min(before)))
            }
            // The segment was the newest one when the process ended, so the next segment follows it without a gap.
            (Some(_), Some(before)) => Some(before),
            // The segment is not listed: either none of its records has been acknowledged yet, or all its records are
            // sealed and a crash came after the removal of its row and before that of its file. The mark may name a
            // later record, of a segment that has been deleted.
            (None, _) => None,
            (Some(_), None) => self.durable.filter(|durable| *durable >= segment.first_lsn),
        }
    }

    /// Whether a mark exists or once existed. Before the first mark is written, the catalog lists no segment, because a
    /// listed log without a mark counts as damaged.
    pub(crate) fn has_mark(&self) -> bool {
        self.durable.is_some() || self.mark_fault.is_some()
    }

    /// Updates the catalog's list of segments.
    pub(crate) fn save_segments(&self, catalog: &Catalog, segments: &[LogSegment]) -> Result<(), StoreError> {
        let row =
            |segment: &LogSegment| LogSegmentRow { first_lsn: segment.first_lsn(), last_lsn: Some(segment.last_lsn) };
        let now: Vec<LogSegmentRow> = segments.iter().filter(|segment| segment.bytes > 0).map(row).collect();
        if now == self.listed { Ok(()) } else { Ok(catalog.set_log_segments(&now)?) }
    }
}
