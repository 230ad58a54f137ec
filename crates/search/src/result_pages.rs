//! All rows of a result, collected within the memory limit of searches, for output formats that need the names of all
//! columns first.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_engine::{EngineError, ResultRows};

use crate::{ResultTable, SearchError};

/// Maximum number of rows of a part.
pub const PART_ROWS: usize = 10_000;
/// Approximate size of a part in bytes.
pub const PART_BYTES: usize = 8 << 20;

/// Maximum size in bytes of a result that stays in memory while it is sent, and approximate size of the parts of a
/// larger result.
pub(crate) const SENT_BYTES: usize = 1 << 20;

/// A collected result, read part by part.
pub struct CollectedRows {
    rows: ResultRows,
    fields: Arc<[String]>,
    zone: TimeZone,
}

impl CollectedRows {
    /// All of `rows`, with times shown in `zone`.
    pub(crate) fn new(rows: ResultRows, zone: TimeZone) -> CollectedRows {
        let fields = rows.names().iter().filter(|name| !name.starts_with("__")).cloned().collect();
        CollectedRows { rows, fields, zone }
    }

    /// Names of the columns.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The same rows with only the columns of the list `wanted`, in the order of the list; names of missing columns are
    /// ignored.
    pub fn with_fields(mut self, wanted: &[String]) -> CollectedRows {
        self.fields = wanted.iter().filter(|name| self.fields.contains(name)).cloned().collect();
        self
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all rows fit into one part to send.
    pub fn is_small(&self) -> bool {
        self.len() <= PART_ROWS && self.bytes() <= SENT_BYTES
    }

    /// Moves rows of more than a megabyte to a file, because a slow client may read them for a long time.
    pub fn spill(&mut self) -> Result<(), SearchError> {
        if self.bytes() > SENT_BYTES { Ok(self.rows.spill()?) } else { Ok(()) }
    }

    fn bytes(&self) -> usize {
        rows_memory_bytes(&self.rows)
    }

    /// The rows in parts of at most [`PART_ROWS`] rows and about [`PART_BYTES`]; each part has all columns.
    pub fn parts(&self) -> impl Iterator<Item = Result<ResultTable, SearchError>> + '_ {
        self.parts_of(PART_BYTES)
    }

    /// The rows in parts of about a megabyte, for a slow client.
    pub fn parts_to_send(&self) -> impl Iterator<Item = Result<ResultTable, SearchError>> + '_ {
        self.parts_of(SENT_BYTES)
    }

    fn parts_of(&self, bytes: usize) -> impl Iterator<Item = Result<ResultTable, SearchError>> + '_ {
        let most = (bytes / self.rows.row_bytes().max(1)).clamp(1, PART_ROWS);
        let slices = Slices { batches: self.rows.batches(), rest: None, rows_max: most, bytes };
        slices.map(|part| Ok(ResultTable::with_fields(Arc::clone(&self.fields), part?, self.zone.clone())))
    }
}

/// Approximate memory use of rows in bytes.
pub(crate) fn rows_memory_bytes(rows: &ResultRows) -> usize {
    rows.row_bytes().saturating_mul(rows.num_rows())
}

/// Regroups batches into slices of at most `rows_max` rows.
struct Slices<I> {
    batches: I,
    rest: Option<RecordBatch>,
    rows_max: usize,
    /// Size in bytes at which a slice ends, even if it has fewer rows.
    bytes: usize,
}

impl<I: Iterator<Item = Result<RecordBatch, EngineError>>> Iterator for Slices<I> {
    type Item = Result<Vec<RecordBatch>, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut part, mut left) = (Vec::new(), self.rows_max);
        let mut bytes = 0;
        while left > 0 && bytes < self.bytes {
            let batch = match self.rest.take().map(Ok).or_else(|| self.batches.next()) {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            };
            bytes += batch.get_array_memory_size();
            let count = batch.num_rows().min(left);
            left -= count;
            if count < batch.num_rows() {
                self.rest = Some(batch.slice(count, batch.num_rows() - count));
            }
            part.push(batch.slice(0, count));
        }
        (!part.is_empty()).then_some(Ok(part))
    }
}
