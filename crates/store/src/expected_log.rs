//! Which records the log must hold: what catalog and mark say, beside the files that are there.
//!
//! The catalog lists segments from their first record until they are let go, with their last record once they take no
//! more; the mark names the newest durable record. What is listed and not there was removed by somebody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_catalog::{Catalog, LogSegmentRow};

use crate::StoreError;
use crate::log_files::LogSegment;
use crate::wal::mark::{FoundMark, mark_path, read_mark};
use crate::wal::read::list_segments;
use crate::wal::{first_lsn_of, segment_path};

/// The log as it should be.
#[derive(Debug)]
pub(crate) struct ExpectedLog {
    /// Segments that are there or should be, oldest first.
    pub(crate) segments: Vec<ExpectedSegment>,
    /// Newest record that was durable, as far as it is known.
    pub(crate) durable: Option<u64>,
    /// What people should know.
    pub(crate) notes: Vec<String>,
    listed: Vec<LogSegmentRow>,
}

/// One segment.
#[derive(Debug)]
pub(crate) struct ExpectedSegment {
    pub(crate) first_lsn: u64,
    pub(crate) path: PathBuf,
    /// Whether the file is there.
    pub(crate) exists: bool,
    /// What the catalog says of it.
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
        let mut notes = Vec::new();
        let durable = match read_mark(folder)? {
            FoundMark::Durable(lsn) => Some(lsn),
            FoundMark::Absent if listed.is_empty() => None,
            found => {
                let what = if found == FoundMark::Broken { "damaged" } else { "missing" };
                let path = mark_path(folder);
                notes.push(format!(
                    "{} is {what}: whether the newest records of the log are all there cannot be told this time",
                    path.display()
                ));
                None
            }
        };
        Ok(ExpectedLog { segments: segments.into_values().collect(), durable, notes, listed })
    }

    /// The last record that was in segment number `at`; `None` where nothing is known of it.
    pub(crate) fn through(&self, at: usize) -> Option<u64> {
        let segment = self.segments.get(at)?;
        let before_next = self.segments.get(at + 1).map(|next| next.first_lsn - 1);
        match (segment.row, before_next) {
            // Replacing a damaged one was interrupted: its later runs are segments already.
            (Some(row), before_next) if row.last_lsn.is_some() => {
                row.last_lsn.map(|last| before_next.map_or(last, |before| last.min(before)))
            }
            // The newest of its run, and the next one follows it.
            (Some(_), Some(before)) => Some(before),
            (None, Some(_)) => None,
            (_, None) => self.durable.filter(|durable| *durable >= segment.first_lsn),
        }
    }

    /// Lets the catalog know which segments there are now.
    pub(crate) fn now_is(&self, catalog: &Catalog, segments: &[LogSegment]) -> Result<(), StoreError> {
        let row =
            |segment: &LogSegment| LogSegmentRow { first_lsn: segment.first_lsn(), last_lsn: Some(segment.last_lsn) };
        let now: Vec<LogSegmentRow> = segments.iter().filter(|segment| segment.bytes > 0).map(row).collect();
        if now == self.listed { Ok(()) } else { Ok(catalog.set_log_segments(&now)?) }
    }
}
