//! Template slabs on disk: the columns of `quarry_event::template` in blocks of their own.
//!
//! A slab whose texts split well has no text blocks in its pages. Instead, its columns follow the last page. The
//! columns are stored one after the other, and each column page by page, so that one page of a column, or a whole
//! column, is one range. Columns of a few kilobytes are pooled, because blocks of their own would consist mostly of
//! their heads. The *column layout block* lists the columns and their positions; it is read at the first use of the
//! slab's texts and cached.
//!
//! Not here: splitting texts (`crate::templates`); what a search does with columns (scan).

mod cells;
mod codec;
mod counts;
mod dictionary;
mod embedded_numbers;
mod extractions;
mod fields;
mod frequency_coding;
mod layout;
mod point_reads;
mod random_access;
mod read;
mod rebuild;
mod shared_dictionary;
mod slices;
#[cfg(test)]
pub(crate) mod tests;
mod text_dictionary;
mod time_parts;
mod write;

pub(crate) use cells::{BATCH_CELLS, Cells};
pub(crate) use layout::{Layout, StoredColumn};
pub use point_reads::POINT_READ_ROWS_MAX;
pub(crate) use read::PageFacts;
pub(crate) use read::SlabColumns;
pub use read::TemplatePage;
pub(crate) use rebuild::TextBuffer;
pub(crate) use shared_dictionary::{FewEntries, SharedCache, SharedColumns, SharedDictionary};
pub(crate) use write::{has_consistent_lengths, layout_content, write_columns};

/// Encoded size up to which the values of a column, or the texts of a dictionary, are stored in a pool.
const POOLED_BYTES_MAX: usize = 4 << 10;
/// Size at which a pool block is closed.
const TARGET_POOL_BYTES: usize = 256 << 10;
/// Maximum size of a pool block: the size at which it is closed, and one more entry.
const MAX_POOL_BYTES: usize = TARGET_POOL_BYTES + POOLED_BYTES_MAX;
/// Maximum number of pool blocks of a slab; enough for two entries of the greatest size per column.
const MAX_POOLS: usize = 256;
/// Maximum size of a column layout block before compression.
const MAX_LAYOUT_BYTES: usize = 64 << 20;
/// Maximum total number of parts of a slab's templates.
const MAX_TEMPLATE_PARTS: usize = 1 << 19;
/// Minimum zstd level at which every chunk encoding is tried.
const FULL_EFFORT_LEVEL_MIN: i32 = 3;
