//! Deleted events: taken out of every later search for good.
//!
//! A bucket never changes, so what is deleted of it is a set of its rows beside it, in the catalog. A search notes the
//! events it found in a [`Deletion`], which [`crate::Store::delete`] commits in one catalog transaction and shows in one
//! critical section: later snapshots lack all of them, a crash leaves all or none. Only sealed events can be deleted:
//! [`crate::Store::seal_selected`] goes first.
//!
//! A merge leaves deleted events out. One that ends while a deletion is being collected moves rows: what holds a bucket
//! tells where to ([`Hold`]). A bucket of which nothing is left is retired at once.
//!
//! Not here: how a segment is read without its deleted events (`sealed::live`), who may delete what (engine).

mod commit;
mod found_rows;
mod row_set;

pub use self::found_rows::{DELETION_BYTES_MAX, Deletion};
pub(crate) use self::found_rows::{Hold, Moved};
pub(crate) use self::row_set::{Ranks, RowSet};
