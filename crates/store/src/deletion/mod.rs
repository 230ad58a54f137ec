//! Deletion of events from all later searches.
//!
//! A bucket never changes, so its deleted events are a set of rows in the catalog. A search collects, in a
//! [`Deletion`], the events that it found; [`crate::Store::delete`] commits the deletion in one catalog transaction and
//! publishes it in one critical section. Later snapshots lack all of these events; after a crash, either all or none of
//! them are deleted. Only sealed events can be deleted, so [`crate::Store::seal_selected`] runs first.
//!
//! A merge omits deleted events. If a bucket is merged while a deletion collects its rows, [`Hold`] records their new
//! location. A bucket without remaining events is retired at once.
//!
//! Not here: reading a segment without its deleted events (`sealed_buckets::live_rows`), permissions (engine).

mod commit;
mod found_rows;
mod row_set;

pub use self::found_rows::{DELETION_BYTES_MAX, Deletion};
pub(crate) use self::found_rows::{Hold, MergedRows};
pub(crate) use self::row_set::{Ranks, RowSet};
