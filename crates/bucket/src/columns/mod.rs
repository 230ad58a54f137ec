//! Template slabs on disk: the columns of `quarry_event::template` in blocks of their own.
//!
//! A slab whose texts fall apart well has no text blocks in its pages. Instead the columns lie behind the last page,
//! column by column and within a column page by page, so that one page of a column or a whole column is one range.
//! Columns of a few kilobytes are pooled: a block each would be more head than content. The *shape block* says what
//! the columns are and where everything lies; it is read at the first use of the slab's texts and kept.
//!
//! Not here: how texts are taken apart (`crate::templates`), what a search does with columns (engine).

mod cells;
mod codec;
mod counts;
mod dictionary;
mod embedded_numbers;
mod frequency_coding;
mod layout;
mod point_reads;
mod random_access;
mod read;
mod rebuild;
mod shared_dictionary;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub(crate) use layout::Layout;
pub(crate) use read::PageFacts;
pub(crate) use read::SlabColumns;
pub use read::TemplatePage;
pub(crate) use rebuild::TextBuffer;
pub(crate) use shared_dictionary::{SharedCache, SharedColumns, SharedDictionary};
pub(crate) use write::{can_be_written, write_columns};

/// Encoded bytes up to which the values of a column, or the texts of a dictionary, go to a pool.
const POOLED_BYTES: usize = 4 << 10;
/// Bytes after which a pool block is closed.
const TARGET_POOL_BYTES: usize = 256 << 10;
/// Bytes of a pool block at most: a full one and one more entry.
const MAX_POOL_BYTES: usize = TARGET_POOL_BYTES + POOLED_BYTES;
/// Pool blocks of a slab: two entries per column of the greatest size fit.
const MAX_POOLS: usize = 256;
/// Bytes of a shape block before compression.
const MAX_SHAPE_BYTES: usize = 64 << 20;
/// Parts of all templates of a slab together.
const MAX_TEMPLATE_PARTS: usize = 1 << 19;
/// zstd level from which on every way to store a chunk is tried.
const EFFORT_LEVEL: i32 = 3;
