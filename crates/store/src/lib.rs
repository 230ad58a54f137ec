//! Hot write path, seal, retention, snapshot and scan.

mod error;
mod segment;

pub use error::StoreError;
pub use segment::{Damage, PageInfo, Segment, Snapshot};
