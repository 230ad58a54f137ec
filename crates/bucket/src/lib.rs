//! The bucket container: slabs, text column, term dictionary, term filter; bytes in, bytes out.
//!
//! A bucket is one immutable object of one or more slabs plus a small sidecar, the term filter. [`encode`] makes
//! both from event batches, [`verify_against`] decodes them again and compares before anybody forgets the input, and
//! [`BucketReader`] answers from range reads: directory first, then only the blocks a search needs. The layout is
//! drawn in docs/formats/bucket.md.
//!
//! Not here: files, sockets, clocks, caches and the choice of what becomes a bucket (blob and store do that).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// The fuzz entry, which a unit test shares, names this crate from outside.
#[cfg(test)]
extern crate self as quarry_bucket;

mod block;
mod check;
mod columns;
mod directory;
mod encode;
mod error;
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
mod templates;
mod term_dictionary;
mod verify;
mod wire;

#[cfg(test)]
mod mutation;

pub use columns::TemplatePage;
pub use encode::{BucketEncoder, EncodeOptions, EncodedBucket, SlabSource, encode, encode_slabs};
pub use error::{BlockPosition, BucketError, ReadError};
pub use filter::{RangedFilter, TermFilter};
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
pub use verify::{BucketVerifier, encode_verified, verify_against, verify_slabs};
