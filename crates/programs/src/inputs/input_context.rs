//! What inputs that run programs have in common: the node's settings, the end of them all, names and metadata.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use quarry_conf::ProgramInput;
use quarry_event::Metadata;
use quarry_inputs::{EventStore, InputSettings};
use quarry_stdx::{Fault, log};

/// Where events go, by the routing of an input.
pub type Stores<'a> = &'a dyn Fn(Option<&str>) -> Arc<dyn EventStore>;

/// What all inputs share.
pub(crate) struct Shared {
    pub(crate) settings: Arc<InputSettings>,
    /// Absolute path of the data folder.
    pub(crate) home: std::path::PathBuf,
    /// Name of this machine.
    pub(crate) host: String,
    /// Where the management port is, if there is one.
    pub(crate) address: Option<std::net::SocketAddr>,
    pub(crate) stop: Stop,
}

/// Becomes true once.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Whether everything ends.
    pub(crate) fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits no longer than this, and than everything goes on; whether it ends.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits as long as this, whether everything ends or not.
    pub(crate) fn pause(&self, time: Duration) {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(is_over, time, |_| true));
    }

    pub(super) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// Checks what is said of all of these inputs.
pub(super) fn check(input: &ProgramInput, store: &dyn EventStore) -> Result<(), Fault> {
    store.check_index(&input.index).map_err(|fault| fault.at(format_args!("[{}]", input.stanza)))?;
    for setting in &input.left_out {
        log::warning(format!("inputs.conf [{}]: {setting} is not carried out", input.stanza));
    }
    Ok(())
}

/// Name of a file that is kept for an input, whose own name may hold what file names do not.
pub(super) fn kept_name(name: &str) -> String {
    let plain: String =
        name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).take(80).collect();
    let mark = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{plain}-{mark:08x}")
}

/// Metadata of an input's events, where these say nothing themselves.
pub(super) fn metadata(input: &ProgramInput, source: &str, sourcetype: &str, shared: &Shared) -> Metadata {
    Metadata {
        index: input.index.as_str().into(),
        host: input.host.as_deref().unwrap_or(&shared.host).into(),
        source: input.source.as_deref().unwrap_or(source).into(),
        sourcetype: input.sourcetype.as_deref().unwrap_or(sourcetype).into(),
    }
}
