//! Output of input programs: converts bytes to events, without processes.
//!
//! An [`OutputReader`] processes a program's output piece by piece and appends events to a batch: text through an index
//! pipeline ([`TextReader`]), the XML of modular inputs ([`XmlReader`]), or entries of the systemd journal
//! ([`JournalReader`]). The caller reports when the program is quiet and when it has ended.
//!
//! Not here: processes, storing.

mod journal;
#[cfg(test)]
mod tests;
mod text;
mod xml;
mod xml_events;

use quarry_event::{EventBatch, TimeNs};
use quarry_stdx::Fault;

pub use journal::JournalReader;
pub use text::TextReader;
pub use xml::{XmlToken, XmlTokens, escape_xml};
pub use xml_events::{StanzaDefaults, XmlReader};

/// Converts a program's output to events. Every call fills a batch that is stored before the next call.
pub trait OutputReader: Send {
    /// Processes bytes and appends completed events; an error means that nothing more can be read.
    fn push(&mut self, bytes: &[u8], now: TimeNs, out: &mut EventBatch) -> Result<(), Fault>;
    /// Called when the program is quiet; appends the complete events.
    fn pause(&mut self, _now: TimeNs, _out: &mut EventBatch) {}
    /// Called when the program has ended; appends the remaining events.
    fn finish(&mut self, now: TimeNs, out: &mut EventBatch);
    /// Returns the warnings since the last call.
    fn take_faults(&mut self) -> Vec<String> {
        Vec::new()
    }
    /// The position after the returned events, if known, from which a later run can resume.
    fn resume_position(&self) -> Option<&str> {
        None
    }
}
