//! Files: finding, decompressing, recognising, reading once, watching.

mod binary;
mod compression;
mod expand;
mod fingerprint;
mod gzip;
mod identity;
pub(crate) mod milestones;
mod monitor;
mod oneshot;
mod open;
mod reader;
mod recent;
mod report;
mod rotation;
mod siblings;
mod stream;
#[cfg(test)]
mod tests;
mod zip;

pub use binary::{SkipReason, content_skip_reason};
pub use compression::Compression;
pub use expand::{expand, expand_each};
pub use fingerprint::HEAD_BYTES;
pub use milestones::MILESTONES_MAX;
pub use monitor::{FileProgress, Monitor, MonitorCounters, MonitorOptions, WatchedFile};
pub use oneshot::{AddProgress, NoProgress, OneshotOptions, Progress, absolute_text, add_file};
pub use open::{OpenFile, sample_lines};
pub use report::{FileReport, ShrunkFile};
pub use rotation::Rotation;
