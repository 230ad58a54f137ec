//! The bucket container: slabs, text column, lexicon, term filter; bytes in, bytes out.
//!
//! A bucket is one immutable object of one or more slabs plus a small sidecar, the term filter. [`encode`] makes
//! both from event batches, [`verify_against`] decodes them again and compares before anybody forgets the input, and
//! [`BucketReader`] answers from range reads: directory first, then only the blocks a search needs. The layout is
//! drawn in docs/formats/bucket.md.
//!
//! Not here: files, sockets, clocks, caches and the choice of what becomes a bucket (blob and store do that).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod encode;
mod error;
mod filter;
mod limits;
mod read_at;
mod reader;
mod summary;
mod verify;

pub use encode::{EncodeOptions, EncodedBucket, SlabSource, encode, encode_slabs};
pub use error::{BucketError, Place, ReadError};
pub use filter::TermFilter;
pub use limits::{MAX_PAGE_EVENTS, MAX_SLAB_EVENTS, MAX_SLAB_PAGES, MAX_SLAB_RAW_BYTES, TARGET_SLAB_RAW_BYTES};
pub use read_at::{MemoryObject, ReadAt};
pub use reader::{BucketReader, MetaSet, PageInfo, SlabInfo};
pub use summary::{BucketSummary, ValueSummary};
pub use verify::verify_against;
