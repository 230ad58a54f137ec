//! Memory limit and spill files of searches.
//!
//! All searches of an engine share one memory pool of DataFusion's runtime. Buffered rows reserve memory from the pool
//! and are written to a file when the pool refuses ([`crate::rows::RowBuffer`]). Data that cannot be spilled fails the
//! search with an error that names the limit ([`MemoryAccount`]).
//!
//! Buffers of a cancelled search fail with their next batch ([`Dataflow::check_cancelled`]), so that a command that
//! works on buffered rows ends without a check of its own.
//!
//! Not here: sorting ([`crate::rows::sort_rows`]), grouping ([`crate::aggregate`]).

mod byte_semaphore;
mod pool;
mod working_threads;

use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use datafusion_execution::SpillFile;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

pub use self::byte_semaphore::{BytePermit, ByteSemaphore};
use self::pool::PeakTrackingPool;
use self::working_threads::ThreadCount;
pub use self::working_threads::WorkingThread;
use crate::EngineError;
use crate::context::Stop;

/// Sizes of the batches in which rows are read and passed on; no result depends on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slicing {
    /// Number of pages of a segment that one worker reads and folds together.
    pub window_pages: usize,
    /// Number of reader threads, however many other searches run; at most one per core if absent.
    pub workers: Option<usize>,
    /// Number of rows passed to a row command at once.
    pub step_rows: usize,
}

impl Default for Slicing {
    fn default() -> Slicing {
        Slicing { window_pages: 32, workers: None, step_rows: 4_096 }
    }
}

/// Maximum bytes of wide pages (pages with long rows) that time-ordered searches hold at once, per worker.
const WIDE_PAGE_BYTES: usize = 64 << 20;

/// Called for each batch of a buffer.
pub type BatchObserver = Arc<dyn Fn() + Send + Sync>;

/// A memory pool and a directory for spill files, for one search or for all searches.
#[derive(Clone)]
pub struct Dataflow {
    environment: Arc<RuntimeEnv>,
    pool: Arc<PeakTrackingPool>,
    memory_bytes: usize,
    wide_pages: Arc<ByteSemaphore>,
    /// The threads that work for all searches.
    working: Arc<ThreadCount>,
    slicing: Slicing,
    /// Control of the search, which may be cancelled.
    stop: Arc<Stop>,
    observer: Option<BatchObserver>,
}

impl Debug for Dataflow {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dataflow").finish_non_exhaustive()
    }
}

/// Accounts for memory of a command that cannot spill.
pub struct MemoryAccount(MemoryReservation);

impl MemoryAccount {
    /// Sets the number of bytes held; an error if they exceed the memory that searches may use.
    pub fn set(&mut self, bytes: usize) -> Result<(), EngineError> {
        self.0.try_resize(bytes).map_err(EngineError::from)
    }
}

impl Dataflow {
    /// A dataflow with a limit of `memory_bytes` that spills into `spill`, or the system's temporary directory.
    pub fn new(memory_bytes: usize, spill: Option<PathBuf>) -> Result<Dataflow, EngineError> {
        let pool = Arc::new(PeakTrackingPool::new(memory_bytes));
        let shared: Arc<dyn MemoryPool> = Arc::clone(&pool) as Arc<dyn MemoryPool>;
        let mut builder = RuntimeEnvBuilder::new().with_memory_pool(shared);
        if let Some(folder) = spill {
            builder = builder.with_temp_file_path(folder);
        }
        let wide_pages = Arc::new(ByteSemaphore::new(WIDE_PAGE_BYTES * worker_count()));
        let (working, slicing, stop) = (Arc::default(), Slicing::default(), Arc::default());
        let environment = builder.build_arc()?;
        Ok(Dataflow { environment, pool, memory_bytes, wide_pages, working, slicing, stop, observer: None })
    }

    /// The same pool and directory for a search that `stop` ends.
    pub fn for_search(&self, stop: &Arc<Stop>) -> Dataflow {
        Dataflow { stop: Arc::clone(stop), ..self.clone() }
    }

    /// The control over the search of this dataflow.
    pub(crate) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// Calls `observer` before each check. Tests use it to cancel a search at a certain batch.
    pub fn with_observer(self, observer: BatchObserver) -> Dataflow {
        Dataflow { observer: Some(observer), ..self }
    }

    /// Fails if the search is cancelled. Called for each batch that a buffer takes or returns, and between the steps of
    /// a merge. The user never sees the error, because a cancelled search has no result.
    pub fn check_cancelled(&self) -> Result<(), EngineError> {
        if let Some(observer) = &self.observer {
            observer();
        }
        self.stop.check_cancelled()
    }

    /// This dataflow with other batch sizes.
    pub fn with_slicing(self, slicing: &Slicing) -> Dataflow {
        let (window_pages, step_rows) = (slicing.window_pages.max(1), slicing.step_rows.max(1));
        Dataflow { slicing: Slicing { window_pages, workers: slicing.workers, step_rows }, ..self }
    }

    /// Number of pages of a segment that one worker reads and folds together.
    pub fn window_pages(&self) -> usize {
        self.slicing.window_pages
    }

    /// Number of rows passed to a row command at once.
    pub fn step_rows(&self) -> usize {
        self.slicing.step_rows
    }

    /// Maximum number of reader threads of a search.
    pub fn workers(&self) -> usize {
        self.slicing.workers.map_or_else(worker_count, |workers| workers.max(1))
    }

    /// Counts the calling thread, which runs a search, as working.
    pub fn begin_work(&self) -> WorkingThread {
        WorkingThread::begin(&self.working).0
    }

    /// Permits one more thread to read for a search; `None` if a thread already works for each core. `others` is the
    /// number of working threads that do not belong to searches. With `is_far`, the thread will mostly wait for remote
    /// data, and is always permitted.
    pub fn begin_help(&self, is_far: bool, others: usize) -> Option<WorkingThread> {
        let (helper, working) = WorkingThread::begin(&self.working);
        let is_core_free = working + others <= worker_count();
        (is_far || self.slicing.workers.is_some() || is_core_free).then_some(helper)
    }

    /// Maximum bytes that searches may hold.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Peak memory use so far.
    pub fn peak_bytes(&self) -> usize {
        self.pool.peak_bytes()
    }

    /// Gate for opening pages with very long rows.
    pub fn wide_pages(&self) -> &Arc<ByteSemaphore> {
        &self.wide_pages
    }

    /// An empty reservation from the pool.
    pub fn reservation(&self, what: &str, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new(what).with_can_spill(can_spill).register(&self.environment.memory_pool)
    }

    /// An account for memory that cannot be spilled.
    pub fn account(&self, what: &str) -> MemoryAccount {
        MemoryAccount(self.reservation(what, false))
    }

    /// A new spill file, deleted on drop.
    pub fn spill_file(&self) -> Result<Arc<dyn SpillFile>, EngineError> {
        Ok(self.environment.disk_manager.create_tmp_file("keeping rows")?)
    }
}

/// The default number of workers: one per core.
fn worker_count() -> usize {
    // Determining the number of cores reads several files, which would be noticeable in a search for one id.
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
