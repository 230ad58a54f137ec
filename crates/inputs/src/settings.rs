//! What all inputs of a node are set up with.

use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::{Layers, PropsResolver, ServerSettings};
use quarry_stdx::{Fault, SharedClock};

/// The configuration of a node and the facts of its machine, as inputs and ports need them.
#[derive(Clone, Debug)]
pub struct InputSettings {
    /// The merged configuration.
    pub layers: Layers,
    /// Rules of index time.
    pub props: Arc<PropsResolver>,
    /// The clock of the node.
    pub clock: SharedClock,
    /// Name of this machine: the host of events that name none.
    pub host: String,
    /// Time zone of this machine.
    pub zone: TimeZone,
    /// Files and connections that the process may have open.
    pub descriptors: usize,
}

impl InputSettings {
    /// Refuses a name that cannot be an index, and an index that is switched off; says why.
    pub fn check_index(&self, index: &str) -> Result<(), Fault> {
        self.props.indexes().check(index)
    }

    /// Pipeline sets that take events side by side.
    pub fn pipeline_sets(&self) -> usize {
        ServerSettings::new(&self.layers).parallel_ingestion_pipelines
    }
}
