//! Limits of the bucket format.
//!
//! Unless the comment of a limit says otherwise, the writer refuses input that exceeds it. The reader checks each count
//! and length against its limit before allocating memory. A damaged or hostile object therefore costs a bounded amount
//! of memory.

use crate::error::BucketError;

/// Maximum number of events of a page. Posting lists refer to whole pages, and most blocks are read per page.
pub const MAX_PAGE_EVENTS: usize = 4_096;
/// Maximum number of pages of a slab, so that a posting list fits in one 64-bit word.
pub const MAX_SLAB_PAGES: usize = 64;
/// Maximum number of events of a slab.
pub const MAX_SLAB_EVENTS: usize = MAX_PAGE_EVENTS * MAX_SLAB_PAGES;
/// Text bytes at which a writer should close a slab. Larger slabs compress better but take more memory while encoding.
pub const TARGET_SLAB_RAW_BYTES: usize = 64 << 20;
/// Maximum text bytes of a slab, and therefore of an event.
pub const MAX_SLAB_RAW_BYTES: usize = 256 << 20;
/// Maximum number of values of one metadata field that a [`crate::BucketSummary`] lists. If there are more, the most
/// frequent values are listed.
pub const MAX_SUMMARY_VALUES: usize = 1_024;
/// Maximum bytes of one value in a [`crate::BucketSummary`]; longer values are omitted.
pub(crate) const MAX_SUMMARY_VALUE_BYTES: usize = 4_096;

/// Maximum number of slabs of a bucket.
pub(crate) const MAX_SLABS: usize = 4_096;
/// Text bytes at which a text block is closed. A page is always read as a whole, so smaller blocks would only narrow
/// the zstd window; larger blocks gain nothing.
pub(crate) const TARGET_TEXT_BLOCK_BYTES: usize = 8 << 20;
/// Maximum total bytes of index, host, source and sourcetype of one metadata entry.
pub(crate) const MAX_METADATA_BYTES: usize = 1 << 20;
/// Maximum bytes of a slab's head before compression: metadata, pages, blocks.
pub(crate) const MAX_SLAB_HEAD_BYTES: usize = 256 << 20;
/// Maximum bytes of the bucket directory before compression: summary and slab list.
pub(crate) const MAX_DIRECTORY_BYTES: usize = 32 << 20;
/// Number of index-time fields at which a field block is closed.
pub(crate) const MAX_FIELD_BLOCK_ENTRIES: usize = 65_536;
/// Bytes of names and values at which a field block is closed.
pub(crate) const TARGET_FIELD_BLOCK_BYTES: usize = 1 << 20;
/// Maximum bytes of one index-time field, name and value together.
pub(crate) const MAX_FIELD_BYTES: usize = 64 << 20;
/// Maximum number of names in the dictionary of a field block; further names are written next to their values.
pub(crate) const MAX_FIELD_BLOCK_NAMES: usize = 4_096;
/// Maximum bytes of a term in the term dictionary; longer terms are truncated, by the writer and in queries alike.
pub(crate) const MAX_TERM_BYTES: usize = 1_024;
/// Maximum number of terms of a term dictionary page. A lookup decodes one page.
pub(crate) const MAX_TERM_DICTIONARY_PAGE_TERMS: usize = 4_096;
/// Maximum bytes of one stream of a term dictionary page before compression. Follows from the two limits above.
pub(crate) const MAX_TERM_DICTIONARY_STREAM_BYTES: usize = MAX_TERM_DICTIONARY_PAGE_TERMS * (MAX_TERM_BYTES + 16);
/// Maximum number of terms of a term dictionary. A slab has one for the tokens of its texts and one for its index-time
/// fields. A text has fewer tokens than bytes.
pub(crate) const MAX_TERM_DICTIONARY_TERMS: usize = MAX_SLAB_RAW_BYTES;
/// Maximum number of shared posting lists of a term dictionary.
pub(crate) const MAX_SHARED_MASKS: usize = 65_536;
/// Maximum bytes of a term dictionary directory before compression.
pub(crate) const MAX_TERM_DICTIONARY_DIRECTORY_BYTES: usize = 128 << 20;
/// Maximum bytes of a term filter.
pub(crate) const MAX_FILTER_BYTES: usize = 1 << 30;
/// Bytes at the end of an object that opening reads first; they usually include trailer, directory and slab heads.
pub(crate) const TAIL_READ_BYTES: usize = 64 << 10;

/// Refuses to write more than a limit.
pub(crate) fn within(
    value: usize,
    what: &'static str,
    limit_name: &'static str,
    limit: usize,
) -> Result<(), BucketError> {
    if value <= limit {
        return Ok(());
    }
    Err(BucketError::Limit { what, value: value as u64, limit_name, limit: limit as u64 })
}

/// Maximum number of index-time fields of a slab that get a column; the others are stored by row.
pub(crate) const MAX_FIELD_COLUMNS: usize = 512;
/// Maximum bytes of the values of an index-time field of a slab that gets a column; beyond that, the field is stored by
/// row.
pub(crate) const MAX_FIELD_COLUMN_BYTES: usize = 64 << 20;
/// Maximum bytes of the name of a stored search-time field; a field with a longer name is not stored.
pub(crate) const MAX_EXTRACTION_NAME_BYTES: usize = 1_024;
/// The columns of stored search-time fields take at most one byte per this many bytes of the columns of the texts;
/// fields for which there is no space are not stored.
pub(crate) const TEXT_BYTES_PER_EXTRACTION_BYTE: u64 = 2;
/// Maximum n of a slice of a variable's value that is defined by a length: all bytes after the first n, or the first n
/// bytes (decision 0119). Longer slices are not stored as slices.
pub(crate) const MAX_SLICE_BYTES: usize = 64;
/// Maximum number of parts of a text that a stored value consists of.
pub(crate) const MAX_VALUE_PARTS: usize = 64;
