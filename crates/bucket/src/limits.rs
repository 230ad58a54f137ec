//! Every limit of the container, with its reason.
//!
//! The writer refuses what exceeds them and the reader checks each count and length against them before it
//! allocates, so that a damaged or hostile object costs a bounded amount of memory.

/// Events of a page: the grain of posting lists and of reading.
pub const MAX_PAGE_EVENTS: usize = 4_096;
/// Pages of a slab: a posting list is the 64 bits of one word.
pub const MAX_SLAB_PAGES: usize = 64;
/// Events of a slab.
pub const MAX_SLAB_EVENTS: usize = MAX_PAGE_EVENTS * MAX_SLAB_PAGES;
/// Text bytes at which a writer should close a slab. Larger slabs compress better and cost memory while encoding.
pub const TARGET_SLAB_RAW_BYTES: usize = 64 << 20;
/// Text bytes a slab may hold at most; also the longest event.
pub const MAX_SLAB_RAW_BYTES: usize = 256 << 20;
/// Slabs of a bucket.
pub(crate) const MAX_SLABS: usize = 4_096;
