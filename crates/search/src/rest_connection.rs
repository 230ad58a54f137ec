//! The connection from `| rest` to the REST interface of the server.
//!
//! Once a server has connected its REST interface, `| rest` reads all endpoints there with the rights that its user has
//! over HTTP. Without a server, `| rest` has only the few endpoints of [`crate::node_facts`].

use std::sync::{Arc, PoisonError, RwLock};

use quarry_conf::Permissions;
use quarry_engine::{EntriesRequest, NodeEntry, NodeSession};
use quarry_stdx::Fault;

/// A REST interface that searches can read.
pub trait RestEntries: Send + Sync {
    /// The entries that a request of `viewer` returns; `None` if the path is not a list of entries.
    fn entries(&self, request: &EntriesRequest<'_>, viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault>;
    /// Paths that list entries.
    fn endpoints(&self) -> Vec<String>;
    /// Opens a session of `viewer` for a program.
    fn open_session(&self, viewer: &Permissions) -> Option<NodeSession>;
}

/// The connected REST interface, if any.
#[derive(Default)]
pub struct RestConnection(RwLock<Option<Arc<dyn RestEntries>>>);

impl RestConnection {
    /// Connects an interface.
    pub fn connect(&self, rest: Arc<dyn RestEntries>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    /// Disconnects the interface, so that it can be dropped.
    pub fn disconnect(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The connected interface.
    pub(crate) fn get(&self) -> Option<Arc<dyn RestEntries>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
