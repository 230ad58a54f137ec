//! What programs write that bring data in: bytes of their output to events, without processes.
//!
//! An [`OutputReader`] takes what a program wrote, piece by piece, and appends events to a batch: text through an index
//! pipeline ([`TextReader`]), the XML of modular inputs ([`XmlReader`]), or entries of the journal of systemd
//! ([`JournalReader`]). Whoever runs the program says when it was quiet and when it ended.
//!
//! Not here: starting and ending programs, storing.

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

/// Makes events of what a program writes. Every call begins a batch: it is handed over before the next.
pub trait OutputReader: Send {
    /// Takes bytes and appends the events they complete; an error means that nothing more can be read.
    fn push(&mut self, bytes: &[u8], now: TimeNs, out: &mut EventBatch) -> Result<(), Fault>;
    /// The program is quiet: appends what is complete then.
    fn pause(&mut self, _now: TimeNs, _out: &mut EventBatch) {}
    /// The program has ended: appends what is left.
    fn finish(&mut self, now: TimeNs, out: &mut EventBatch);
    /// What was odd since it was asked last, in words.
    fn take_faults(&mut self) -> Vec<String> {
        Vec::new()
    }
    /// Where a program would go on behind the events given so far, if it can be told.
    fn mark(&self) -> Option<&str> {
        None
    }
}
