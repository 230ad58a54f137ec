//! The node behind the REST interface: one open store, added to and looked at by requests.

use std::path::Path;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_api::{AddFile, Node, NodeError};
use quarry_inputs::Sink;
use quarry_inputs::file::{NoProgress, OneshotOptions, add_file};
use quarry_store::Store;

use crate::local::{self, Settings, StoreSink};
use crate::{add, bucket};

/// A running node.
pub(crate) struct LocalNode {
    pub(crate) store: Arc<Store>,
    pub(crate) settings: Settings,
}

impl Node for LocalNode {
    fn add_file(&self, request: &AddFile) -> Result<String, NodeError> {
        self.settings.check_index(&request.index)?;
        let path = Path::new(&request.path);
        if !path.is_absolute() {
            return Err(format!("{}: give an absolute path on the server's machine", request.path).into());
        }
        let options = OneshotOptions {
            index: request.index.clone(),
            host: request.host.clone().unwrap_or_else(local::host_name),
            host_is_fixed: request.host.is_some(),
            source: request.source.clone(),
            sourcetype: request.sourcetype.clone(),
            again: request.again,
            zone: TimeZone::UTC,
            now: self.settings.clock.now_ns(),
        };
        let mut sink = StoreSink::new(&self.store);
        let added = add_file(path, &options, &self.settings.props, &mut sink, &mut NoProgress);
        // What came before a fault is durable too when the fault is told.
        sink.flush()?;
        let report = added?;
        Ok(add::to_json(&report).to_string())
    }

    fn buckets(&self) -> Result<String, NodeError> {
        Ok(bucket::listing(&self.store).to_string())
    }

    fn verify(&self) -> Result<String, NodeError> {
        Ok(bucket::verdicts(&self.store).to_string())
    }

    fn compact(&self) -> Result<String, NodeError> {
        Ok(bucket::compaction(&self.store.compact_all()?).to_string())
    }
}
