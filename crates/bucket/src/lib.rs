//! The bucket format: slabs, text column, term dictionary, term filter; bytes in, bytes out.
//!
//! A bucket is one immutable object with one or more slabs, plus a small object with its term filter. [`encode()`]
//! makes both from event batches. [`verify_against`] decodes both and compares them with the input, which must be kept
//! until then. [`BucketReader`] answers queries by range reads: the directory first, then only the blocks that a search
//! needs. docs/formats/bucket.md describes the layout.
//!
//! Errors are [`BucketError`]s. Only the storage behind [`ReadAt`], which other crates implement, has an error of its own
//! ([`ReadError`]): it knows names of objects, but nothing of the format.
//!
//! Not here: files, sockets, clocks, caches, and which events form a bucket (blob, store).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// The fuzz entry, which a unit test shares, uses this crate's external name.
#[cfg(test)]
extern crate self as quarry_bucket;

mod block;
mod check;
mod columns;
mod directory;
mod encode;
mod error;
mod extraction_digest;
mod fields;
mod filter;
mod integers;
mod limits;
mod locator;
mod metas;
mod rare_pages;
mod rare_rows;
mod read_ahead;
mod read_at;
mod reader;
mod slab_source;
mod source;
mod statistics;
mod summary;
mod tail;
mod templates;
mod term_dictionary;
mod token_lookup;
mod verify;
mod wire;

#[cfg(test)]
mod mutation;

pub use columns::{POINT_READ_ROWS_MAX, TemplatePage};
pub use encode::{BucketEncoder, EncodeOptions, EncodedBucket, Locators, SlabSource, encode, encode_slabs};
pub use error::{BlockPosition, BucketError, ReadError};
pub use extraction_digest::ExtractionDigest;
pub use filter::{RangedFilter, SlabFacts, TermFilter};
pub use limits::{
    MAX_PAGE_EVENTS, MAX_SLAB_EVENTS, MAX_SLAB_PAGES, MAX_SLAB_RAW_BYTES, MAX_SUMMARY_VALUES, TARGET_SLAB_RAW_BYTES,
};
pub use metas::MetaSet;
pub use read_ahead::ReadAheadBudget;
pub use read_at::{MemoryObject, ReadAt};
pub use reader::{BucketReader, PageInfo, SlabInfo};
pub use summary::{BucketSummary, ValueSummary};
#[doc(hidden)]
pub use templates::bench as bench_api;
pub use token_lookup::TokenLookup;
pub use verify::{BucketVerifier, encode_verified, verify_against, verify_slabs};
