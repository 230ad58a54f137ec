//! What a search may hold in memory, where it spills, and the one place that runs a DataFusion plan: sorting.
//!
//! All searches of an engine share one memory pool. Rows that are kept ask it for their bytes and go to a file when it
//! refuses ([`crate::rows::KeptRows`]); what cannot go to a file ends with an error that names the limit
//! ([`MemoryAccount`]). The engine's threads are synchronous; a small runtime here drives the streams of a sort.
//!
//! Not here: what is sorted by ([`crate::commands`]), grouping ([`crate::aggregate`]).

use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::UInt32Array;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion_common::DataFusionError;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;

use crate::EngineError;
use crate::command::RowIter;
use crate::rows::{self, KeptRows, owned};

/// Rows of a batch that is sorted, at most.
const BATCH_ROWS: usize = 8_192;
/// Rows of such a batch, at least.
const BATCH_ROWS_MIN: usize = 64;
/// A batch takes at most one in so many bytes of the memory, so that many sorted files can be merged at once.
const BATCH_SHARE: usize = 128;
/// A sort that keeps few rows does so in memory while these take one in so many of its bytes.
const TOP_SHARE: usize = 8;
/// A sort holds one in so many bytes back for merging its files.
const MERGE_SHARE: usize = 8;

/// A runtime, a memory pool and a place for spill files.
pub(crate) struct Dataflow {
    runtime: tokio::runtime::Runtime,
    environment: Arc<RuntimeEnv>,
    memory_bytes: usize,
}

impl Debug for Dataflow {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dataflow").finish_non_exhaustive()
    }
}

/// Bytes of what a command holds and cannot spill.
pub(crate) struct MemoryAccount(MemoryReservation);

impl MemoryAccount {
    /// Notes that so many bytes are held; an error where they are more than the search may have.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), EngineError> {
        self.0.try_resize(bytes).map_err(EngineError::from)
    }
}

impl Dataflow {
    /// A dataflow that holds at most `memory_bytes` and spills into `spill`, or the system's folder for such files.
    pub(crate) fn new(memory_bytes: usize, spill: Option<PathBuf>) -> Result<Dataflow, EngineError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("dataflow").build();
        let runtime = runtime.map_err(|error| EngineError::invalid(format!("cannot start threads: {error}")))?;
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(memory_bytes));
        let mut builder = RuntimeEnvBuilder::new().with_memory_pool(pool);
        if let Some(folder) = spill {
            builder = builder.with_temp_file_path(folder);
        }
        Ok(Dataflow { runtime, environment: builder.build_arc()?, memory_bytes })
    }

    /// Bytes it may hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// An empty account of the pool.
    pub(crate) fn reservation(&self, what: &str, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new(what).with_can_spill(can_spill).register(&self.environment.memory_pool)
    }

    /// An account for what cannot spill.
    pub(crate) fn account(&self, what: &str) -> MemoryAccount {
        MemoryAccount(self.reservation(what, false))
    }

    /// A new file, gone when nobody holds it.
    pub(crate) fn spill_file(&self) -> Result<Arc<dyn SpillFile>, EngineError> {
        Ok(self.environment.disk_manager.create_tmp_file("keeping rows")?)
    }

    /// Sorts `rows`, under their unified schema, by the columns at `keys`, each with its direction; keeps the first
    /// `limit` rows. Rows that compare equal may come in any order: give a column that tells them apart.
    pub(crate) fn sort(
        self: &Arc<Self>,
        rows: KeptRows,
        keys: &[(usize, SortOptions)],
        limit: Option<usize>,
    ) -> Result<RowIter, EngineError> {
        let (schema, row_bytes, count) = (rows.schema(), rows.row_bytes().max(1), rows.num_rows());
        let ordering = LexOrdering::new(keys.iter().map(|(at, options)| {
            PhysicalSortExpr::new(Arc::new(Column::new(schema.field(*at).name(), *at)), *options)
        }));
        let Some(ordering) = ordering.filter(|_| count > 0) else { return Ok(rows.into_unified_rows()) };
        let fetch = limit.filter(|limit| limit.saturating_mul(row_bytes) <= self.memory_bytes / TOP_SHARE);
        let batch_rows = (self.memory_bytes / BATCH_SHARE / row_bytes).clamp(BATCH_ROWS_MIN, BATCH_ROWS);
        let plan = SortExec::new(ordering, source(rows.into_unified_rows(), &schema, batch_rows)?).with_fetch(fetch);
        let config = SessionConfig::new()
            .with_batch_size(batch_rows)
            .with_target_partitions(1)
            .with_sort_in_place_threshold_bytes(0)
            .with_sort_spill_reservation_bytes(self.memory_bytes / MERGE_SHARE);
        let context = TaskContext::default().with_session_config(config).with_runtime(Arc::clone(&self.environment));
        let stream = plan.execute(0, Arc::new(context))?;
        let sorted = Sorted { dataflow: Arc::clone(self), stream: Some(stream), left: limit.unwrap_or(usize::MAX) };
        Ok(Box::new(sorted))
    }
}

/// Rows of a sort as they come.
struct Sorted {
    dataflow: Arc<Dataflow>,
    stream: Option<SendableRecordBatchStream>,
    left: usize,
}

impl Iterator for Sorted {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = self.stream.as_mut().filter(|_| self.left > 0)?;
        let batch = self.dataflow.runtime.block_on(stream.next());
        match batch {
            Some(Ok(batch)) => {
                let batch = batch.slice(0, batch.num_rows().min(self.left));
                self.left -= batch.num_rows();
                Some(Ok(batch))
            }
            Some(Err(error)) => {
                self.stream = None;
                Some(Err(error.into()))
            }
            None => {
                self.stream = None;
                None
            }
        }
    }
}

/// Some rows of a batch, as a batch of their own: a slice would count as much memory as the whole.
fn part_of(batch: &RecordBatch, start: usize, rows: usize) -> Result<RecordBatch, DataFusionError> {
    if batch.num_rows() <= rows {
        return Ok(batch.clone());
    }
    let end = batch.num_rows().min(start.saturating_add(rows));
    let places: UInt32Array = (start as u32..end as u32).collect();
    let part = rows::take(batch, &places).and_then(|part| owned(&part));
    part.map_err(|error| DataFusionError::External(Box::new(error)))
}

fn source(rows: RowIter, schema: &SchemaRef, batch_rows: usize) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
    let partition = Batches { schema: Arc::clone(schema), rows: Mutex::new(Some(rows)), batch_rows };
    let source = StreamingTableExec::try_new(Arc::clone(schema), vec![Arc::new(partition)], None, [], false, None)?;
    Ok(Arc::new(source))
}

/// Rows as the input of a plan that reads them once.
struct Batches {
    schema: SchemaRef,
    rows: Mutex<Option<RowIter>>,
    batch_rows: usize,
}

impl Debug for Batches {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl PartitionStream for Batches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batch_rows = self.batch_rows;
        let small = rows.into_iter().flatten().flat_map(move |batch| match batch {
            Ok(batch) => {
                let starts = (0..batch.num_rows()).step_by(batch_rows);
                let parts = starts.map(|start| part_of(&batch, start, batch_rows));
                parts.collect::<Vec<_>>()
            }
            Err(error) => vec![Err(DataFusionError::External(Box::new(error)))],
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(small)))
    }
}
