//! What a search may hold in memory and where it spills.
//!
//! All searches of an engine share one memory pool of DataFusion's runtime. Rows that are kept ask it for their bytes
//! and go to a file when it refuses ([`crate::rows::KeptRows`]); what cannot go to a file ends with an error that names
//! the limit ([`MemoryAccount`]).
//!
//! Not here: sorting ([`crate::rows::sorted`]), grouping ([`crate::aggregate`]).

use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

use datafusion_execution::SpillFile;
use datafusion_execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion_execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

use crate::EngineError;

/// A memory pool and a place for spill files.
pub(crate) struct Dataflow {
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
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(memory_bytes));
        let mut builder = RuntimeEnvBuilder::new().with_memory_pool(pool);
        if let Some(folder) = spill {
            builder = builder.with_temp_file_path(folder);
        }
        Ok(Dataflow { environment: builder.build_arc()?, memory_bytes })
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
}
