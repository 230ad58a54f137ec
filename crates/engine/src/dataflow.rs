//! The one place that builds and runs DataFusion plans: grouping with merge, and sorting.
//!
//! Both take batches of one schema and run under one memory pool with spilling to files, so a report with more groups
//! than fit in memory still ends. The engine's threads are synchronous; a small runtime here drives the streams.
//!
//! Not here: what is grouped or sorted by ([`crate::aggregate`], [`crate::commands`]).

use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_expr::AggregateUDF;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;

use crate::EngineError;

/// Rows of a batch DataFusion works with.
const BATCH_ROWS: usize = 8_192;

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

/// One column that merges states of groups.
pub(crate) struct MergeColumn {
    /// Name in and out.
    pub name: String,
    /// How two states become one.
    pub function: Arc<AggregateUDF>,
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

    /// Groups `rows` by the first `keys` columns and merges the other columns as told. Every column but the keys has
    /// one entry in `merges`, in order, and its type is the type of that function's state: the plan's final half can
    /// then write states to files when memory is short.
    pub(crate) fn merge_groups(
        &self,
        rows: Vec<RecordBatch>,
        keys: usize,
        merges: &[MergeColumn],
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let schema = first.schema();
        let column = |at: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(at).name(), at)) };
        let groups = (0..keys).map(|at| (column(at), schema.field(at).name().clone())).collect();
        let aggregates = merges.iter().enumerate().map(|(at, merge)| {
            let arguments = vec![column(keys + at)];
            let aggregate = AggregateExprBuilder::new(Arc::clone(&merge.function), arguments);
            Ok(Arc::new(aggregate.schema(Arc::clone(&schema)).alias(merge.name.clone()).build()?))
        });
        let aggregates = aggregates.collect::<Result<Vec<_>, EngineError>>()?;
        let filters = vec![None; aggregates.len()];
        let input = source(rows, &schema)?;
        let groups = PhysicalGroupBy::new_single(groups);
        let plan = AggregateExec::try_new(AggregateMode::Final, groups, aggregates, filters, input, schema)?;
        self.collect(Arc::new(plan))
    }

    /// Sorts `rows` by the columns at `keys`, each with its direction; keeps the first `limit` rows. Rows that compare
    /// equal may come in any order: give a column that tells them apart.
    pub(crate) fn sort(
        &self,
        rows: Vec<RecordBatch>,
        keys: &[(usize, SortOptions)],
        limit: Option<usize>,
    ) -> Result<Vec<RecordBatch>, EngineError> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let schema = first.schema();
        let keys = keys
            .iter()
            .map(|(at, options)| PhysicalSortExpr::new(Arc::new(Column::new(schema.field(*at).name(), *at)), *options));
        let Some(ordering) = LexOrdering::new(keys) else { return Ok(rows) };
        let plan = SortExec::new(ordering, source(rows, &schema)?).with_fetch(limit);
        self.collect(Arc::new(plan))
    }

    fn collect(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, EngineError> {
        let context = TaskContext::default()
            .with_session_config(SessionConfig::new().with_batch_size(BATCH_ROWS).with_target_partitions(1))
            .with_runtime(Arc::clone(&self.environment));
        let mut stream = plan.execute(0, Arc::new(context))?;
        let mut batches = Vec::new();
        self.runtime.block_on(async {
            while let Some(batch) = stream.next().await {
                batches.push(batch?);
            }
            Ok(batches)
        })
    }
}

fn source(rows: Vec<RecordBatch>, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>, EngineError> {
    let partition = Batches { schema: Arc::clone(schema), rows };
    let source = StreamingTableExec::try_new(Arc::clone(schema), vec![Arc::new(partition)], None, [], false, None)?;
    Ok(Arc::new(source))
}

/// Batches as the input of a plan.
struct Batches {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
}

impl Debug for Batches {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Batches").field("batches", &self.rows.len()).finish()
    }
}

impl PartitionStream for Batches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = futures::stream::iter(self.rows.clone().into_iter().map(Ok));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
