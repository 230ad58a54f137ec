//! State shared by inputs that run programs: settings, shutdown, names and metadata.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use quarry_conf::ProgramInput;
use quarry_event::Metadata;
use quarry_inputs::{EventStore, InputSettings};
use quarry_stdx::{Fault, log};

/// Maps an input's routing to its event store.
pub type Stores<'a> = &'a dyn Fn(Option<&str>) -> Arc<dyn EventStore>;

/// Opens sessions at the node's REST interface for programs.
pub trait ProgramSessions: Send + Sync {
    /// Opens a session of a user, or, without a name, of the node; returns the session's key. `None` if there is no
    /// such user.
    fn open(&self, user: Option<&str>) -> Option<String>;

    /// Ends a session.
    fn end(&self, key: &str);
}

/// An open session, which ends when this is dropped.
pub(crate) struct OpenSession<'a> {
    sessions: &'a dyn ProgramSessions,
    pub(crate) key: String,
}

impl<'a> OpenSession<'a> {
    pub(crate) fn open(sessions: &'a dyn ProgramSessions, user: Option<&str>) -> Option<OpenSession<'a>> {
        sessions.open(user).map(|key| OpenSession { sessions, key })
    }
}

impl Drop for OpenSession<'_> {
    fn drop(&mut self) {
        self.sessions.end(&self.key);
    }
}

/// State shared by the threads of one input.
pub(crate) struct Shared {
    pub(crate) settings: Arc<InputSettings>,
    /// Absolute path of the data directory.
    pub(crate) home: std::path::PathBuf,
    /// Name of this machine.
    pub(crate) host: String,
    /// Address of the management port, if any.
    pub(crate) address: Option<std::net::SocketAddr>,
    /// Sessions for programs, if the node has a management port.
    pub(crate) sessions: Option<Arc<dyn ProgramSessions>>,
    pub(crate) stop: StopSignal,
}

/// Signal to an input to shut down, because the node shuts down or the input's stanza has changed.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    /// True once the input must shut down.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to `time`; returns early, and true, at shutdown.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for `time` even during shutdown.
    pub(crate) fn pause(&self, time: Duration) {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(is_over, time, |_| true));
    }

    pub(super) fn set(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// Checks the settings common to all inputs that run programs; logs those that have no effect.
pub(super) fn check(input: &ProgramInput, store: &dyn EventStore) -> Result<(), Fault> {
    store.check_index(&input.index).map_err(|fault| fault.with_context(format_args!("[{}]", input.stanza)))?;
    for setting in &input.unsupported {
        log::warning(format!("inputs.conf [{}]: {setting} is not supported", input.stanza));
    }
    Ok(())
}

/// File name for an input, whose own name may contain characters that are not allowed in file names.
pub(super) fn file_name(name: &str) -> String {
    let plain: String =
        name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).take(80).collect();
    let mark = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{plain}-{mark:08x}")
}

/// Default metadata of an input's events.
pub(super) fn metadata(input: &ProgramInput, source: &str, sourcetype: &str, shared: &Shared) -> Metadata {
    Metadata {
        index: input.index.as_str().into(),
        host: input.host.as_deref().unwrap_or(&shared.host).into(),
        source: input.source.as_deref().unwrap_or(source).into(),
        sourcetype: input.sourcetype.as_deref().unwrap_or(sourcetype).into(),
    }
}
