//! Settings shared by all inputs of a node.

use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::{Layers, PropsResolver, ServerSettings};
use quarry_stdx::{Fault, SharedClock};

/// Configuration and machine properties that inputs and ports need.
#[derive(Clone, Debug)]
pub struct InputSettings {
    /// The merged configuration.
    pub layers: Layers,
    /// Index-time rules.
    pub props: Arc<PropsResolver>,
    /// The clock of the node.
    pub clock: SharedClock,
    /// Name of this machine: the default host.
    pub host: String,
    /// Time zone of this machine.
    pub zone: TimeZone,
    /// Open-file limit of the process.
    pub descriptors: usize,
}

impl InputSettings {
    /// Returns an error if an index is invalid or disabled.
    pub fn check_index(&self, index: &str) -> Result<(), Fault> {
        self.props.indexes().check(index)
    }

    /// Number of pipeline sets.
    pub fn pipeline_sets(&self) -> usize {
        ServerSettings::new(&self.layers).parallel_ingestion_pipelines
    }
}
