//! Files: found, unpacked, known again, read once, watched.

mod binary;
mod expand;
mod gzip;
mod identity;
mod monitor;
mod oneshot;
mod open;
mod reader;
mod rotation;
#[cfg(test)]
mod tests;

pub use expand::expand;
pub use identity::HEAD_BYTES;
pub use monitor::{Monitor, MonitorCounters, MonitorOptions};
pub use oneshot::{FileReport, NoProgress, OneshotOptions, Progress, Reached, Shrunk, add_file};
pub use open::{OpenFile, Packing};
pub use rotation::Rotation;
