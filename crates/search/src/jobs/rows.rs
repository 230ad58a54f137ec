//! The rows of a job: appended while the job's search runs, readable by page at any time.
//!
//! Rows accumulate in memory up to [`TAIL_BYTES_MAX`] and are then appended to the job's file as a *part*, a separate
//! Arrow IPC stream. An in-memory index maps rows to parts and their offsets, so a page can be read without the
//! preceding rows. Parts never change, so a [`RowsView`] can be read while further parts are written.
//!
//! Not here: the lifetime of the file (dispatch), the presentation of rows (table).

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, TimestampNanosecondArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::TimestampNanosecondType;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_engine::{SeenNames, split_by_bytes};
use quarry_event::TimeRange;

use crate::ResultTable;
use crate::error::SearchError;
use crate::job_recorder::copy_texts;

/// Size in bytes at which buffered rows are written as a part.
const TAIL_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a job's file in bytes; a search with more rows ends with the rows that fit.
pub const RESULT_BYTES_MAX: u64 = 512 << 20;

/// A part of the file.
#[derive(Clone, Copy, Debug)]
struct FilePart {
    /// Number of the first row.
    first: usize,
    rows: usize,
    /// Offset of the part's stream in the file.
    at: u64,
}

#[derive(Debug)]
pub(crate) struct JobRows {
    path: PathBuf,
    /// The file, once a part has been written.
    file: Option<File>,
    parts: Vec<FilePart>,
    /// Size of the file in bytes.
    bytes: u64,
    tail: Vec<RecordBatch>,
    tail_bytes: usize,
    rows: usize,
    names: SeenNames,
    /// Whether the file is from an earlier process and its index has not been read yet.
    is_unread: bool,
    /// Number of fields of a file whose index has not been read yet.
    unread_fields: usize,
    /// Maximum size of the file in bytes.
    bytes_max: u64,
}

/// Whether more rows are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// More rows are accepted.
    Available,
    /// The file has its maximum size.
    Full,
}

impl JobRows {
    /// No rows yet; rows will be written to `path`.
    pub(crate) fn new(path: PathBuf) -> JobRows {
        JobRows {
            path,
            file: None,
            parts: Vec::new(),
            bytes: 0,
            tail: Vec::new(),
            tail_bytes: 0,
            rows: 0,
            names: SeenNames::default(),
            is_unread: false,
            unread_fields: 0,
            bytes_max: RESULT_BYTES_MAX,
        }
    }

    /// The same rows with a maximum file size, which is never more than [`RESULT_BYTES_MAX`].
    pub(crate) fn with_bytes_max(self, bytes_max: u64) -> JobRows {
        JobRows { bytes_max: bytes_max.min(RESULT_BYTES_MAX), ..self }
    }

    /// Maximum size of the file in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Rows in a file of an earlier process, with `unread_fields` fields. The file is read on first access.
    pub(crate) fn from_file(path: PathBuf, rows: usize, unread_fields: usize, bytes: u64) -> JobRows {
        JobRows { rows, bytes, is_unread: true, unread_fields, ..JobRows::new(path) }
    }

    /// Reads the parts and columns of a file of an earlier process.
    fn read_index(&mut self) -> Result<(), ArrowError> {
        let mut found = JobRows::new(self.path.clone());
        found.bytes = self.path.metadata()?.len();
        let mut file = BufReader::new(File::open(&self.path)?);
        loop {
            let at = file.stream_position()?;
            if at >= found.bytes {
                break;
            }
            let first = found.rows;
            for batch in StreamReader::try_new(&mut file, None)? {
                found.count_rows(&batch?);
            }
            found.parts.push(FilePart { first, rows: found.rows - first, at });
        }
        if found.rows != self.rows {
            let (path, known) = (self.path.display(), self.rows);
            return Err(ArrowError::IpcError(format!("{path}: {} rows, where {known} were written", found.rows)));
        }
        *self = found;
        Ok(())
    }

    fn count_rows(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows();
        self.names.add(batch);
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Number of fields; 0 without rows, because no file keeps the columns of a job without rows.
    pub(crate) fn field_count(&self) -> usize {
        match self.rows {
            0 => 0,
            _ if self.is_unread => self.unread_fields,
            _ => count_fields(self.names.all()),
        }
    }

    /// Size of the file including buffered rows.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.tail_bytes as u64
    }

    /// Appends rows; a batch without rows declares columns.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<Capacity, ArrowError> {
        if batch.num_rows() == 0 {
            self.count_rows(batch);
        }
        // A batch of long rows is split, because a reader holds a whole batch in memory.
        for piece in split_by_bytes(batch, TAIL_BYTES_MAX) {
            if piece.num_rows() > 0 {
                self.count_rows(&piece);
                let own = copy_texts(&piece);
                self.tail_bytes += own.get_array_memory_size();
                self.tail.push(own);
            }
            if self.tail_bytes >= TAIL_BYTES_MAX {
                self.flush()?;
            }
        }
        Ok(if self.bytes() < self.bytes_max { Capacity::Available } else { Capacity::Full })
    }

    /// Writes buffered rows. A batch with other columns starts a new part.
    pub(crate) fn flush(&mut self) -> Result<(), ArrowError> {
        if self.tail.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::create(&self.path)?),
        };
        let mut first = self.rows - self.tail.iter().map(RecordBatch::num_rows).sum::<usize>();
        let mut parts = Vec::new();
        for alike in self.tail.chunk_by(|one, next| one.schema_ref() == next.schema_ref()) {
            let at = file.stream_position()?;
            let mut writer = StreamWriter::try_new(BufWriter::new(&mut *file), alike[0].schema_ref())?;
            alike.iter().try_for_each(|batch| writer.write(batch))?;
            writer.into_inner()?.flush()?;
            let rows = alike.iter().map(RecordBatch::num_rows).sum();
            parts.push(FilePart { first, rows, at });
            first += rows;
        }
        assert_eq!(first, self.rows, "every row is in a part");
        self.bytes = file.stream_position()?;
        self.parts.extend(parts);
        self.tail.clear();
        self.tail_bytes = 0;
        Ok(())
    }

    /// Up to `count` of the rows available now, from number `offset` on.
    pub(crate) fn view(&mut self, offset: usize, count: usize) -> Result<RowsView, ArrowError> {
        if self.is_unread {
            self.read_index()?;
        }
        Ok(self.window(offset, count))
    }

    fn window(&self, offset: usize, count: usize) -> RowsView {
        let end = offset.saturating_add(count).min(self.rows);
        let offset = offset.min(end);
        let from = self.parts.partition_point(|part| part.first + part.rows <= offset);
        let to = self.parts.partition_point(|part| part.first < end);
        RowsView {
            path: self.path.clone(),
            parts: self.parts[from.min(to)..to].to_vec(),
            tail: self.tail.clone(),
            tail_first: self.rows - self.tail.iter().map(RecordBatch::num_rows).sum::<usize>(),
            fields: self.names.all().iter().filter(|name| !name.starts_with("__")).cloned().collect(),
            offset,
            end,
            of_range: None,
        }
    }
}

/// The times of rows, if they have any.
pub(super) fn times_of(rows: &RecordBatch) -> Option<&TimestampNanosecondArray> {
    rows.column_by_name("_time")?.as_primitive_opt::<TimestampNanosecondType>()
}

/// Number of columns that are fields of events, and not internal as `_time` and `_raw` are.
fn count_fields(columns: &[String]) -> usize {
    columns.iter().filter(|name| !name.starts_with('_')).count()
}

/// A page of the rows in a time range.
#[derive(Clone, Copy, Debug)]
struct RangePage {
    range: TimeRange,
    /// Number of the first row of the page among the rows in the range, and the number after its last row.
    offset: usize,
    end: usize,
}

impl RangePage {
    /// The rows of a batch that are on the page; `seen` counts the rows in the range so far.
    fn select(&self, batch: &RecordBatch, seen: &mut usize) -> Result<RecordBatch, ArrowError> {
        // A row without a time is in no range.
        let Some(times) = times_of(batch) else { return Ok(batch.slice(0, 0)) };
        let is_on_page = |time: Option<i64>| {
            let is_in_range = time.is_some_and(|time| self.range.contains(time));
            let at = std::mem::replace(seen, *seen + usize::from(is_in_range));
            is_in_range && (self.offset..self.end).contains(&at)
        };
        let kept: BooleanArray = times.iter().map(is_on_page).map(Some).collect();
        filter_record_batch(batch, &kept)
    }
}

/// Some rows of a job, as they were at the time of the request.
#[derive(Clone, Debug)]
pub struct RowsView {
    path: PathBuf,
    parts: Vec<FilePart>,
    tail: Vec<RecordBatch>,
    tail_first: usize,
    fields: Arc<[String]>,
    offset: usize,
    end: usize,
    /// The page of the rows in a time range, if the view is limited to a time range.
    of_range: Option<RangePage>,
}

impl RowsView {
    /// Rows of batches in memory.
    pub(crate) fn from_batches(batches: &[RecordBatch], offset: usize, count: usize) -> RowsView {
        let mut rows = JobRows::new(PathBuf::new());
        batches.iter().for_each(|batch| rows.count_rows(batch));
        rows.tail = batches.to_vec();
        rows.window(offset, count)
    }

    /// Column names of all rows that the job had at the time of the request.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Number of fields.
    pub(crate) fn field_count(&self) -> usize {
        count_fields(&self.fields)
    }

    /// Number of the first row.
    pub fn offset(&self) -> usize {
        self.of_range.map_or(self.offset, |page| page.offset)
    }

    /// Up to `count` rows of this view that are in a time range, after skipping `offset` such rows.
    pub fn within(self, range: TimeRange, offset: usize, count: usize) -> RowsView {
        RowsView { of_range: Some(RangePage { range, offset, end: offset.saturating_add(count) }), ..self }
    }

    /// Number of rows; reads the rows if the view is limited to a time range.
    pub fn count_rows(&self) -> Result<usize, SearchError> {
        match self.of_range {
            Some(_) => Ok(self.batches().map(|rows| rows.map(|rows| rows.num_rows())).sum::<Result<usize, _>>()?),
            None => Ok(self.len()),
        }
    }

    /// Number of rows, regardless of a time range.
    pub fn len(&self) -> usize {
        self.end - self.offset
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same rows with only these columns, in this order; missing columns are dropped.
    pub fn with_fields(mut self, wanted: &[String]) -> RowsView {
        self.fields = wanted.iter().filter(|name| self.fields.contains(name)).cloned().collect();
        self
    }

    /// The rows as tables, each with all columns of the view; times are shown in `zone`.
    pub fn tables(&self, zone: &TimeZone) -> impl Iterator<Item = Result<ResultTable, SearchError>> + '_ {
        let zone = zone.clone();
        let table = move |rows| ResultTable::with_fields(Arc::clone(&self.fields), vec![rows], zone.clone());
        self.batches().map(move |rows| Ok(table(rows?)))
    }

    /// Like [`RowsView::tables`], with the times of the rows of each table.
    pub(crate) fn tables_with_times(
        &self,
        zone: &TimeZone,
    ) -> impl Iterator<Item = Result<(ResultTable, Option<TimestampNanosecondArray>), SearchError>> + '_ {
        let zone = zone.clone();
        self.batches().map(move |rows| {
            let rows = rows?;
            let times = times_of(&rows).cloned();
            Ok((ResultTable::with_fields(Arc::clone(&self.fields), vec![rows], zone.clone()), times))
        })
    }

    /// The rows in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> + '_ {
        let stored = self.parts.iter().flat_map(|part| PartBatches::new(&self.path, part));
        let first = self.parts.first().map_or(self.tail_first, |part| part.first);
        let mut seen = 0;
        stored
            .chain(self.tail.iter().cloned().map(Ok))
            .scan(first, |at, batch| Some(self.slice_batch(at, batch)))
            .map_while(move |batch| match &self.of_range {
                Some(page) if seen >= page.end => None,
                Some(page) => Some(batch.and_then(|batch| page.select(&batch, &mut seen))),
                None => Some(batch),
            })
            .filter(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0))
    }

    /// The portion of a batch inside the view. `at` is the number of the batch's first row, and is advanced to the
    /// first row of the next batch.
    fn slice_batch(&self, at: &mut usize, batch: Result<RecordBatch, ArrowError>) -> Result<RecordBatch, ArrowError> {
        let batch = batch?;
        let (from, to) = (self.offset.max(*at), self.end.min(*at + batch.num_rows()));
        let first = std::mem::replace(at, *at + batch.num_rows());
        Ok(if from < to { batch.slice(from - first, to - from) } else { batch.slice(0, 0) })
    }
}

/// Iterator over the batches of a part; holds one batch in memory.
struct PartBatches<'v> {
    path: &'v Path,
    part: &'v FilePart,
    reader: Option<StreamReader<BufReader<File>>>,
    /// Rows read so far.
    rows: usize,
    is_over: bool,
}

impl<'v> PartBatches<'v> {
    fn new(path: &'v Path, part: &'v FilePart) -> PartBatches<'v> {
        PartBatches { path, part, reader: None, rows: 0, is_over: false }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let mut file = File::open(self.path)?;
                file.seek(SeekFrom::Start(self.part.at))?;
                none.insert(StreamReader::try_new(BufReader::new(file), None)?)
            }
        };
        let batch = reader.next().transpose()?;
        self.rows += batch.as_ref().map_or(0, RecordBatch::num_rows);
        if batch.is_none() && self.rows != self.part.rows {
            let (path, rows, at, written) = (self.path.display(), self.rows, self.part.at, self.part.rows);
            let text = format!("{path}: {rows} rows at byte {at}, where {written} were written");
            return Err(ArrowError::IpcError(text));
        }
        Ok(batch)
    }
}

impl Iterator for PartBatches<'_> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(column: &str, from: i64, rows: usize) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows as i64));
        RecordBatch::try_from_iter([(column, values)]).unwrap()
    }

    fn numbers(view: &RowsView) -> Vec<i64> {
        let values = |batch: RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        view.batches().flat_map(|batch| values(batch.unwrap())).collect()
    }

    #[test]
    fn long_rows_are_read_in_small_batches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.arrow");
        let mut rows = JobRows::new(path.clone());
        let text = |row: usize| format!("{}{row:03}", "0".repeat(300_000));
        let texts: StringViewArray = (0..40).map(|row| Some(text(row))).collect();
        let texts: ArrayRef = Arc::new(texts);
        rows.push(&RecordBatch::try_from_iter([("a", texts)]).unwrap()).unwrap();
        for mut rows in [JobRows::from_file(path, rows.len(), 0, rows.bytes()), rows] {
            let view = rows.view(5, 20).unwrap();
            let batches: Vec<RecordBatch> = view.batches().map(Result::unwrap).collect();
            assert!(batches.iter().all(|batch| batch.num_rows() <= 4), "a megabyte of them");
            let found: Vec<usize> = batches
                .iter()
                .flat_map(|batch| batch.column(0).as_string_view().iter().map(|text| text.unwrap().parse().unwrap()))
                .collect();
            assert_eq!(found, (5..25).collect::<Vec<usize>>());
        }
    }

    #[test]
    fn pages_of_a_time_range_count_its_rows_only() {
        let mut rows = JobRows::new(PathBuf::new());
        let times = |times: &[i64]| {
            let times: ArrayRef = Arc::new(arrow::array::TimestampNanosecondArray::from(times.to_vec()));
            RecordBatch::try_from_iter([("_time", times)]).unwrap()
        };
        rows.push(&times(&[9, 8, 7])).unwrap();
        rows.push(&batch("a", 0, 2)).unwrap();
        rows.push(&times(&[6, 5, 4, 3])).unwrap();
        let range = TimeRange { earliest: Some(4), latest: Some(9) };
        for (offset, count, expected) in
            [(0, 9, vec![8, 7, 6, 5, 4]), (1, 3, vec![7, 6, 5]), (4, 5, vec![4]), (5, 1, vec![])]
        {
            let view = rows.view(0, usize::MAX).unwrap().within(range, offset, count);
            let found: Vec<i64> = view
                .batches()
                .flat_map(|batch| batch.unwrap().column(0).as_primitive::<TimestampNanosecondType>().values().to_vec())
                .collect();
            assert_eq!((view.count_rows().unwrap(), found, view.offset()), (expected.len(), expected, offset));
        }
    }

    #[test]
    fn pages_are_equal_during_writing_afterwards_and_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.arrow");
        let mut rows = JobRows::new(path.clone());
        rows.push(&batch("a", 0, 0)).unwrap();
        assert_eq!(rows.field_count(), 0, "a column without rows");
        // Sizes for which parts end before, at and after the ends of pages; the columns change in between.
        let sizes = [1, 7, 140_000, 3, 150_000, 0, 5, 90_000, 2];
        let mut total = 0;
        for (at, size) in sizes.into_iter().enumerate() {
            let column = if at < 4 { "a" } else { "b" };
            assert_eq!(rows.push(&batch(column, total as i64, size)).unwrap(), Capacity::Available);
            total += size;
            assert_eq!(rows.len(), total);
        }
        assert!(!rows.tail.is_empty() && rows.parts.len() > 2, "some rows wait and others are written");
        let pages = [(0, 1), (0, 10), (5, 100_010), (99_990, 100), (total - 3, 100), (total, 5), (250_000, 90_000)];
        let check = |rows: &mut JobRows| {
            for (offset, count) in pages {
                let view = rows.view(offset, count).unwrap();
                let expected: Vec<i64> = (offset as i64..(offset + count).min(total) as i64).collect();
                assert_eq!(numbers(&view), expected, "{offset}+{count}");
                assert_eq!((view.len(), view.offset()), (expected.len(), offset));
                assert_eq!(view.fields(), ["a", "b"]);
            }
        };
        check(&mut rows);
        let before = rows.view(0, usize::MAX).unwrap();
        rows.flush().unwrap();
        check(&mut rows);
        assert_eq!(numbers(&before), numbers(&rows.view(0, usize::MAX).unwrap()));
        let mut restored = JobRows::from_file(path.clone(), total, 2, rows.bytes());
        assert_eq!((restored.field_count(), rows.field_count()), (2, 2));
        check(&mut restored);
        assert_eq!(restored.field_count(), 2, "as counted in the file");
        assert!(JobRows::from_file(path.clone(), total + 1, 2, rows.bytes()).view(0, 1).is_err());
        let view = rows.view(0, 1).unwrap().with_fields(&["b".to_owned(), "c".to_owned()]);
        assert_eq!(view.fields(), ["b"]);
        std::fs::write(&path, &std::fs::read(&path).unwrap()[..1_000]).unwrap();
        assert!(JobRows::from_file(path, total, 2, 1_000).view(0, 1).is_err());
        assert!(rows.view(0, usize::MAX).unwrap().batches().any(|batch| batch.is_err()));
    }
}
