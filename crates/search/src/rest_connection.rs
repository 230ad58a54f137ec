//! The connection from `| rest` to the REST interface of the server.
//!
//! Searches know a few endpoints themselves ([`crate::node_facts`]), which also work without a server. A server connects
//! its interface, and then `| rest` reads what its user could read over HTTP.

use std::sync::{Arc, PoisonError, RwLock};

use quarry_conf::Permissions;
use quarry_engine::NodeEntry;
use quarry_stdx::Fault;

/// A REST interface as searches read it.
pub trait RestEntries: Send + Sync {
    /// The entries at a path that a user may read; `None` if nothing is listed there.
    fn entries(&self, path: &str, viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault>;
    /// Paths at which something is listed.
    fn endpoints(&self) -> Vec<String>;
}

/// The interface that is connected, if any.
#[derive(Default)]
pub struct RestConnection(RwLock<Option<Arc<dyn RestEntries>>>);

impl RestConnection {
    /// Connects an interface.
    pub fn connect(&self, rest: Arc<dyn RestEntries>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    /// Disconnects it, so that it can be dropped.
    pub fn disconnect(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The connected interface.
    pub(crate) fn get(&self) -> Option<Arc<dyn RestEntries>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
