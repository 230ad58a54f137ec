//! Row buffer of a command, within the search's memory.
//!
//! Batches are held in memory while the pool grants their bytes. When the pool refuses, all batches in memory are
//! written to one spill file, one by one, so that rows can be read forwards, backwards and repeatedly. Batches are
//! compacted first, because texts of a scan point into whole pages, which they would keep in memory.
//!
//! Every batch is a point at which a cancelled search ends ([`Dataflow::check_cancelled`]).
//!
//! Not here: sorting and grouping ([`super::sort`], [`crate::aggregate`]).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef, UInt32Type};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use datafusion_execution::SpillFile;
use datafusion_execution::memory_pool::MemoryReservation;

use super::stream::RowIter;
use super::unify::Unified;
use super::{concat_rows, conform, rebuild};
use crate::EngineError;
use crate::context::CommandContext;
use crate::dataflow::{Dataflow, MemoryAccount};

/// Divisor of the search's memory for a row buffer; the command that reads the buffer needs the remaining memory.
const MEMORY_DIVISOR: usize = 4;
/// Approximate overhead of a column, in bytes.
const COLUMN_OVERHEAD_BYTES: usize = 32;
/// Bytes of unused shared text that may be kept alive.
const SLACK_BYTES: usize = 64 << 10;

/// Rows in order of arrival; see the module.
pub struct RowBuffer {
    dataflow: Arc<Dataflow>,
    held: MemoryReservation,
    /// Maximum bytes held.
    held_max: usize,
    locations: VecDeque<BatchLocation>,
    file: Option<BufferFile>,
    unified: Unified,
    rows: usize,
    bytes: u64,
}

/// Location of a batch: in memory, with its size in bytes, or in the file.
enum BatchLocation {
    InMemory(RecordBatch, usize),
    InFile { start: u64, len: u64, rows: usize },
}

struct BufferFile {
    file: Arc<dyn SpillFile>,
    written: u64,
}

impl RowBuffer {
    /// An empty buffer; `what` names it in memory accounting.
    pub fn new(what: &str, dataflow: &Arc<Dataflow>) -> RowBuffer {
        RowBuffer {
            held: dataflow.reservation(what, true),
            held_max: dataflow.memory_bytes() / MEMORY_DIVISOR,
            dataflow: Arc::clone(dataflow),
            locations: VecDeque::new(),
            file: None,
            unified: Unified::default(),
            rows: 0,
            bytes: 0,
        }
    }

    /// An empty buffer that holds at most `bytes`, even if more memory is available.
    pub fn with_limit(bytes: usize, what: &str, dataflow: &Arc<Dataflow>) -> RowBuffer {
        let kept = RowBuffer::new(what, dataflow);
        RowBuffer { held_max: kept.held_max.min(bytes), ..kept }
    }

    /// All rows of `rows`.
    pub fn collect(what: &str, rows: RowIter, dataflow: &Arc<Dataflow>) -> Result<RowBuffer, EngineError> {
        let mut kept = RowBuffer::new(what, dataflow);
        for batch in rows {
            kept.push(&batch?)?;
        }
        Ok(kept)
    }

    /// Appends rows; an empty batch is dropped.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), EngineError> {
        self.dataflow.check_cancelled()?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.unified.add(batch);
        let (batch, bytes) = compact(batch)?;
        let bytes = bytes + batch.num_columns() * COLUMN_OVERHEAD_BYTES;
        self.rows += batch.num_rows();
        self.bytes += bytes as u64;
        if self.held.size() + bytes > self.held_max || self.held.try_grow(bytes).is_err() {
            self.locations.push_back(BatchLocation::InMemory(batch, 0));
            return self.spill_batches();
        }
        self.locations.push_back(BatchLocation::InMemory(batch, bytes));
        Ok(())
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Number of batches.
    pub fn num_batches(&self) -> usize {
        self.locations.len()
    }

    /// Total bytes of all rows ever added.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Average bytes per row.
    pub fn row_bytes(&self) -> usize {
        usize::try_from(self.bytes / (self.rows as u64).max(1)).unwrap_or(usize::MAX)
    }

    /// A common schema for all rows ever added, see [`Unified`].
    pub fn schema(&self) -> SchemaRef {
        self.unified.schema()
    }

    /// Names of the columns with a value in some row ever added.
    pub fn valued_names(&self) -> Vec<String> {
        self.unified.valued_names()
    }

    /// Whether some rows are in a file.
    #[cfg(test)]
    pub fn is_spilled(&self) -> bool {
        self.file.is_some()
    }

    /// Rows of the first batch.
    pub fn first_rows(&self) -> Option<usize> {
        self.locations.front().map(BatchLocation::rows)
    }

    /// Drops the first batch.
    pub fn pop_front(&mut self) {
        if let Some(location) = self.locations.pop_front() {
            self.rows -= location.rows();
            self.release(&location);
        }
    }

    /// Batch number `at`, counted from the first one not dropped.
    pub fn batch(&self, at: usize) -> Result<RecordBatch, EngineError> {
        self.dataflow.check_cancelled()?;
        match &self.locations[at] {
            BatchLocation::InMemory(batch, _) => Ok(batch.clone()),
            BatchLocation::InFile { start, len, .. } => self.read(*start, *len),
        }
    }

    /// Reads the rows again, for a reader that outlives this reference.
    pub fn iter_shared(self: &Arc<RowBuffer>) -> RowIter {
        let kept = Arc::clone(self);
        Box::new((0..kept.locations.len()).map(move |at| kept.batch(at)))
    }

    /// The batches in order; can be called repeatedly.
    pub fn iter(&self) -> impl Iterator<Item = Result<RecordBatch, EngineError>> + '_ {
        (0..self.locations.len()).map(|at| self.batch(at))
    }

    /// The batches in order; each is dropped after it is read.
    pub fn into_rows(self) -> RowIter {
        Box::new(DrainingIter { kept: self, backwards: false })
    }

    /// The batches from last to first; the rows of each stay in order.
    pub fn into_rows_backwards(self) -> RowIter {
        Box::new(DrainingIter { kept: self, backwards: true })
    }

    /// The batches in order, each converted to the common schema.
    pub fn into_unified_rows(self) -> RowIter {
        let schema = self.schema();
        Box::new(self.into_rows().map(move |batch| conform(&batch?, &schema)))
    }

    fn release(&mut self, location: &BatchLocation) {
        if let BatchLocation::InMemory(_, bytes) = location {
            self.held.shrink(*bytes);
        }
    }

    /// Spills all batches in memory, if there are any.
    pub fn spill(&mut self) -> Result<(), EngineError> {
        let is_held = self.locations.iter().any(|location| matches!(location, BatchLocation::InMemory(..)));
        if is_held { self.spill_batches() } else { Ok(()) }
    }

    /// Spills all batches in memory.
    fn spill_batches(&mut self) -> Result<(), EngineError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufferFile { file: self.dataflow.spill_file()?, written: 0 }),
        };
        let mut out = Counting { out: BufWriter::new(file.file.open_writer()?), written: file.written };
        for location in &mut self.locations {
            let BatchLocation::InMemory(batch, _) = location else { continue };
            self.dataflow.check_cancelled()?;
            let start = out.written;
            // If columns point into the same text, each column would write the whole text.
            let own = copy_texts(batch)?;
            let mut writer = StreamWriter::try_new(&mut out, own.schema_ref())?;
            writer.write(&own)?;
            writer.finish()?;
            drop(writer);
            *location = BatchLocation::InFile { start, len: out.written - start, rows: batch.num_rows() };
        }
        out.flush().map_err(|error| ArrowError::from_external_error(Box::new(error)))?;
        file.written = out.written;
        self.held.free();
        Ok(())
    }

    fn read(&self, start: u64, len: u64) -> Result<RecordBatch, EngineError> {
        let failed = |error: std::io::Error| ArrowError::from_external_error(Box::new(error));
        let path = self.file.as_ref().and_then(|kept| kept.file.path());
        let path = path.ok_or_else(|| unreadable("a batch is in a file only after the file was created"))?;
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut reader = StreamReader::try_new(BufReader::new(file.take(len)), None)?;
        let batch = reader.next().transpose()?;
        batch.ok_or_else(|| unreadable("the file contains every batch that was written to it"))
    }
}

/// The error if the stated invariant does not hold.
fn unreadable(invariant: &str) -> EngineError {
    EngineError::Internal { stage: "reading spilled rows", message: format!("this does not hold: {invariant}") }
}

impl BatchLocation {
    fn rows(&self) -> usize {
        match self {
            BatchLocation::InMemory(batch, _) => batch.num_rows(),
            BatchLocation::InFile { rows, .. } => *rows,
        }
    }
}

/// A writer that counts the bytes written.
struct Counting<W> {
    out: W,
    written: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// An iterator that reads buffered rows and drops them.
struct DrainingIter {
    kept: RowBuffer,
    backwards: bool,
}

impl Iterator for DrainingIter {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let locations = &mut self.kept.locations;
        let location = if self.backwards { locations.pop_back()? } else { locations.pop_front()? };
        self.kept.release(&location);
        Some(self.kept.dataflow.check_cancelled().and_then(|()| match location {
            BatchLocation::InMemory(batch, _) => Ok(batch),
            BatchLocation::InFile { start, len, .. } => self.kept.read(start, len),
        }))
    }
}

/// Rows in one batch. Their bytes count as used by the search until this value is dropped.
pub struct RowsInMemory {
    rows: RecordBatch,
    _account: MemoryAccount,
}

impl RowsInMemory {
    /// The rows, which no longer count as used by the command.
    pub fn into_batch(self) -> RecordBatch {
        self.rows
    }
}

impl Deref for RowsInMemory {
    type Target = RecordBatch;

    fn deref(&self) -> &RecordBatch {
        &self.rows
    }
}

/// All rows in one batch, for a command that needs random access; an error if they do not fit into memory.
pub fn rows_in_memory(what: &str, rows: RowIter, context: &CommandContext) -> Result<RowsInMemory, EngineError> {
    let mut account = context.dataflow.account(what);
    let (mut all, mut bytes) = (Vec::new(), 0);
    for batch in rows {
        context.dataflow.check_cancelled()?;
        let (batch, more) = compact(&batch?)?;
        bytes += more;
        account.set(bytes)?;
        all.push(batch);
    }
    Ok(RowsInMemory { rows: concat_rows(all)?, _account: account })
}

/// Removes unused shared text, and returns the rows and their size in bytes.
pub fn compact(batch: &RecordBatch) -> Result<(RecordBatch, usize), EngineError> {
    let bytes = batch.columns().iter().map(value_bytes).sum::<usize>();
    let mut buffers: Vec<(usize, usize)> = Vec::new();
    batch.columns().iter().for_each(|column| text_buffers(column, &mut buffers));
    buffers.sort_unstable();
    buffers.dedup();
    let alive: usize = buffers.iter().map(|(_, len)| len).sum();
    if alive <= bytes + SLACK_BYTES {
        return Ok((batch.clone(), bytes));
    }
    Ok((copy_texts(batch)?, bytes))
}

/// Copies texts, so that the rows share no buffers.
pub(crate) fn copy_texts(batch: &RecordBatch) -> Result<RecordBatch, EngineError> {
    let columns = batch.columns().iter().map(without_slack);
    rebuild(batch.schema_ref().fields().to_vec(), columns.collect(), batch.num_rows())
}

/// Bytes that the values of a column need.
pub(crate) fn value_bytes(array: &ArrayRef) -> usize {
    let nulls = array.nulls().map_or(0, |nulls| nulls.len() / 8);
    let len = array.len();
    nulls
        + match array.data_type() {
            DataType::Null => 0,
            DataType::Utf8View => {
                let texts = array.as_string_view();
                len * size_of::<u128>() + texts.total_buffer_bytes_used()
            }
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                let (first, last) = items_of(lists);
                (len + 1) * size_of::<i32>() + value_bytes(&lists.values().slice(first, last - first))
            }
            DataType::Dictionary(..) => {
                let values = array.as_dictionary_opt::<UInt32Type>().map_or(0, |column| value_bytes(column.values()));
                len * size_of::<u32>() + values
            }
            DataType::Struct(_) => array.as_struct().columns().iter().map(value_bytes).sum::<usize>(),
            kind => kind.primitive_width().map_or(len / 8, |width| len * width),
        }
}

fn items_of(lists: &ListArray) -> (usize, usize) {
    let offsets = lists.value_offsets();
    (offsets.first().map_or(0, |at| *at as usize), offsets.last().map_or(0, |at| *at as usize))
}

/// Adds address and length of each buffer into which the column's texts point.
fn text_buffers(array: &ArrayRef, found: &mut Vec<(usize, usize)>) {
    if let Some(texts) = array.as_string_view_opt() {
        found.extend(texts.data_buffers().iter().map(|buffer: &Buffer| (buffer.as_ptr() as usize, buffer.len())));
    } else if let Some(lists) = array.as_list_opt::<i32>() {
        text_buffers(lists.values(), found);
    } else if let Some(column) = array.as_dictionary_opt::<UInt32Type>() {
        text_buffers(column.values(), found);
    } else if let Some(mixed) = array.as_struct_opt() {
        mixed.columns().iter().for_each(|column| text_buffers(column, found));
    }
}

/// The column with its own copy of the texts.
fn without_slack(array: &ArrayRef) -> ArrayRef {
    if let Some(texts) = array.as_string_view_opt() {
        return Arc::new(texts.gc());
    }
    if let Some(mixed) = array.as_struct_opt() {
        let columns = mixed.columns().iter().map(without_slack).collect();
        return StructArray::try_new(mixed.fields().clone(), columns, mixed.nulls().cloned())
            .map_or_else(|_| Arc::clone(array), |mixed| Arc::new(mixed));
    }
    let Some(lists) = array.as_list_opt::<i32>() else { return Arc::clone(array) };
    let (first, last) = items_of(lists);
    let items = lists.values().slice(first, last - first);
    let DataType::List(item) = lists.data_type() else { return Arc::clone(array) };
    let offsets =
        arrow::buffer::OffsetBuffer::from_lengths((0..lists.len()).map(|row| lists.value_length(row) as usize));
    match ListArray::try_new(Arc::clone(item), offsets, without_slack(&items), lists.nulls().cloned()) {
        Ok(lists) => Arc::new(lists),
        Err(_) => Arc::clone(array),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;
    use crate::rows::batch_of;

    /// Rows of numbers and texts; every third batch has an additional column.
    fn batch(at: i64) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(at * 100..at * 100 + 100));
        let texts = (0..100).map(|row| format!("a text too long for its view, number {}", at * 100 + row));
        let texts: ArrayRef = Arc::new(texts.map(Some).collect::<StringViewArray>());
        let mut columns = vec![("n", numbers), ("t", texts)];
        if at % 3 == 0 {
            columns.push(("none", crate::rows::null_column(100)));
        }
        batch_of(columns, 100).unwrap()
    }

    #[test]
    fn rows_are_read_from_memory_and_file_in_both_directions() {
        for memory in [1 << 30, 64 << 10, 1] {
            let dataflow = Arc::new(Dataflow::new(memory, None).unwrap());
            let all: Vec<RecordBatch> = (0..30).map(batch).collect();
            let keep = || {
                let mut kept = RowBuffer::new("test", &dataflow);
                all.iter().for_each(|batch| kept.push(batch).unwrap());
                kept
            };
            let kept = keep();
            assert_eq!(kept.is_spilled(), memory < 1 << 20);
            assert!(kept.held.size() <= memory);
            assert_eq!((kept.num_rows(), kept.num_batches()), (3_000, 30));
            assert_eq!(kept.schema().fields().len(), 3);
            for _ in 0..2 {
                assert_eq!(kept.iter().collect::<Result<Vec<_>, _>>().unwrap(), all);
            }
            assert_eq!(kept.into_rows().collect::<Result<Vec<_>, _>>().unwrap(), all);
            let mut backwards = keep().into_rows_backwards().collect::<Result<Vec<_>, _>>().unwrap();
            backwards.reverse();
            assert_eq!(backwards, all);
        }
    }

    #[test]
    fn shared_texts_are_written_only_once() {
        let mut texts = arrow::array::StringViewBuilder::new().with_fixed_block_size(2 << 20);
        (0..1_000).for_each(|row| texts.append_value(format!("{row:01000}")));
        let texts: ArrayRef = Arc::new(texts.finish());
        // Endings of the first texts, in the same buffer.
        let mut views = arrow::array::StringViewBuilder::new();
        let block = views.append_block(texts.as_string_view().data_buffers()[0].clone());
        (0..8).for_each(|row| views.try_append_view(block, row * 1_000 + 970, 20).unwrap());
        (8..1_000).for_each(|_| views.append_null());
        let ends: ArrayRef = Arc::new(views.finish());
        let columns = (0..40).map(|at| (format!("c{at}"), Arc::clone(&ends))).chain([("t".to_owned(), texts)]);
        let batch = batch_of(columns, 1_000).unwrap();
        let mut kept = RowBuffer::new("test", &Arc::new(Dataflow::new(1, None).unwrap()));
        kept.push(&batch).unwrap();
        let written = kept.file.as_ref().unwrap().written;
        assert!(written < 3 << 20, "{written} bytes");
        assert_eq!(kept.batch(0).unwrap(), batch);
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let dataflow = Arc::new(Dataflow::new(1, None).unwrap());
        let mut kept = RowBuffer::new("test", &dataflow);
        kept.push(&batch_of(Vec::<(String, ArrayRef)>::new(), 7).unwrap()).unwrap();
        kept.push(&batch(0)).unwrap();
        assert!(kept.is_spilled());
        assert_eq!(kept.into_rows().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 107);
    }

    #[test]
    fn slices_do_not_keep_unused_texts() {
        let texts: ArrayRef =
            Arc::new((0..10_000).map(|row| Some(format!("a text of its own {row:020}"))).collect::<StringViewArray>());
        let slice = batch_of([("t", texts)], 10_000).unwrap().slice(5_000, 10);
        let (small, bytes) = compact(&slice).unwrap();
        assert_eq!(small, slice);
        let mut buffers = Vec::new();
        text_buffers(small.column(0), &mut buffers);
        let alive: usize = buffers.iter().map(|(_, len)| len).sum();
        assert!(alive <= bytes && bytes < 1_000, "{alive} of {bytes}");
    }
}
