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
/// Values of one metadata field a [`crate::BucketSummary`] lists at most, the most frequent first.
pub const MAX_SUMMARY_VALUES: usize = 1_024;
/// Bytes of one value in a [`crate::BucketSummary`]; longer ones are left out.
pub(crate) const MAX_SUMMARY_VALUE_BYTES: usize = 4_096;

/// Slabs of a bucket.
pub(crate) const MAX_SLABS: usize = 4_096;
/// Text bytes after which a text block is closed. A page is always read whole, so that smaller blocks would only
/// narrow the window of zstd; larger ones gain nothing.
pub(crate) const TARGET_TEXT_BLOCK_BYTES: usize = 8 << 20;
/// Bytes of index, host, source and sourcetype of one metadata entry together.
pub(crate) const MAX_METADATA_BYTES: usize = 1 << 20;
/// Bytes of a slab's head before compression: metadata, pages, sections.
pub(crate) const MAX_SLAB_HEAD_BYTES: usize = 256 << 20;
/// Bytes of the bucket directory before compression: summary and slab list.
pub(crate) const MAX_DIRECTORY_BYTES: usize = 32 << 20;
/// Index-time fields of one block after which it is closed.
pub(crate) const MAX_FIELD_BLOCK_ENTRIES: usize = 65_536;
/// Bytes of names and values after which a field block is closed.
pub(crate) const TARGET_FIELD_BLOCK_BYTES: usize = 1 << 20;
/// Bytes of one index-time field, name and value together.
pub(crate) const MAX_FIELD_BYTES: usize = 64 << 20;
/// Distinct names a field block keeps in its dictionary; further names are written beside their values.
pub(crate) const MAX_FIELD_BLOCK_NAMES: usize = 4_096;
/// Bytes of a term in the term dictionary; longer terms are cut, in the writer and in queries alike.
pub(crate) const MAX_TERM_BYTES: usize = 1_024;
/// Terms of a term dictionary page: what one look-up decodes.
pub(crate) const MAX_TERM_DICTIONARY_PAGE_TERMS: usize = 4_096;
/// Bytes of one stream of a term dictionary page before compression. Follows from the two limits above.
pub(crate) const MAX_TERM_DICTIONARY_STREAM_BYTES: usize = MAX_TERM_DICTIONARY_PAGE_TERMS * (MAX_TERM_BYTES + 16);
/// Terms of one slab's term dictionary, for both namespaces each: every other byte of text can end a term.
pub(crate) const MAX_TERM_DICTIONARY_TERMS: usize = MAX_SLAB_RAW_BYTES;
/// Shared posting lists of a term dictionary.
pub(crate) const MAX_SHARED_MASKS: usize = 65_536;
/// Bytes of a term dictionary directory before compression.
pub(crate) const MAX_TERM_DICTIONARY_DIRECTORY_BYTES: usize = 128 << 20;
/// Keys of a term filter.
pub(crate) const MAX_FILTER_BYTES: usize = 1 << 30;
/// Bytes fetched with the first read of an object: usually trailer, directory and slab heads at once.
pub(crate) const TAIL_READ_BYTES: usize = 64 << 10;
