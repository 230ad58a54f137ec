//! Error output and exit status of input programs, as lines on standard error and events in `_internal`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_event::{EventBatch, Metadata, time::strftime};
use quarry_inputs::EventStore;
use quarry_stdx::log;

use super::input_context::Shared;

/// Index of these messages, which Splunk's users search for by index, sourcetype and component.
const INDEX: &str = "_internal";
const SOURCETYPE: &str = "splunkd";
const COMPONENT: &str = "ExecProcessor";
/// `source` of these messages: path of the file in Splunk, relative to the data directory.
const SOURCE: &str = "var/log/splunk/splunkd.log";
/// Maximum bytes kept from a line.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Maximum number of lines per run written to standard error; all lines become events.
const SHOWN_MAX: usize = 20;

/// Log of one program.
pub(crate) struct ProgramLog {
    store: Arc<dyn EventStore>,
    metadata: Metadata,
    /// Name of the stanza, for lines on standard error.
    stanza: String,
    is_stored: bool,
    shown_count: AtomicUsize,
    /// Bytes of an incomplete line.
    partial_line: Vec<u8>,
}

impl ProgramLog {
    /// Creates the log of an input.
    pub(crate) fn new(stanza: &str, store: &Arc<dyn EventStore>, shared: &Shared) -> ProgramLog {
        let metadata = Metadata {
            index: INDEX.into(),
            host: shared.host.as_str().into(),
            source: shared.home.join(SOURCE).display().to_string().into(),
            sourcetype: SOURCETYPE.into(),
        };
        ProgramLog {
            is_stored: store.check_index(INDEX).is_ok(),
            store: Arc::clone(store),
            metadata,
            stanza: stanza.to_owned(),
            shown_count: AtomicUsize::new(0),
            partial_line: Vec::new(),
        }
    }

    /// Starts a new run.
    pub(crate) fn begin(&mut self) {
        self.shown_count.store(0, Ordering::Relaxed);
    }

    /// Adds bytes of the error output.
    pub(crate) fn push(&mut self, bytes: &[u8], shared: &Shared) {
        self.partial_line.extend_from_slice(bytes);
        while let Some(end) = self.partial_line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial_line.drain(..=end).collect();
            self.log_message(&line, shared);
        }
        if self.partial_line.len() > LINE_BYTES_MAX {
            self.finish(shared);
        }
    }

    /// Ends the error output.
    pub(crate) fn finish(&mut self, shared: &Shared) {
        let line = std::mem::take(&mut self.partial_line);
        self.log_message(&line, shared);
    }

    fn log_message(&self, line: &[u8], shared: &Shared) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if !text.is_empty() {
            self.log_line("ERROR", &format!("message from \"{}\" {text}", self.stanza), shared);
        }
    }

    pub(crate) fn log_line(&self, level: &str, text: &str, shared: &Shared) {
        let mut end = text.len().min(LINE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        match self.shown_count.fetch_add(1, Ordering::Relaxed) {
            at if at < SHOWN_MAX => log::info(format!("[{}]: {text}", self.stanza)),
            SHOWN_MAX => log::info(format!("[{}]: further lines of this run are only in {INDEX}", self.stanza)),
            _ => {}
        }
        if !self.is_stored {
            return;
        }
        let now = shared.settings.clock.now_ns();
        let time = strftime(now, "%m-%d-%Y %H:%M:%S.%3N %z", &shared.settings.zone);
        let mut batch = EventBatch { index_time: now, ..EventBatch::default() };
        let meta = batch.intern(&self.metadata);
        batch.push(format!("{time} {level} {COMPONENT} - {text}").as_bytes(), now, meta);
        // Failures of the store are reported by the input itself; the first lines of a run are also on standard error.
        drop(self.store.append(batch));
    }
}
