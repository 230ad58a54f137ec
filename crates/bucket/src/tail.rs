//! Tail of a bucket object: what follows the blocks of the last slab.
//!
//! Locators, then the column layout blocks that waited for the shared dictionaries, the slab heads, the directory and
//! the trailer. One read of the end thus tells a reader everything it needs for the next read. As nothing before the
//! tail refers to it, an encoder may discard one and write another, without locators.
//!
//! Not here: reading it (`crate::reader`); the layout of its blocks (`crate::directory`, `crate::locator`,
//! `crate::columns`).

use crate::block::{BlockAt, BlockKind, BlockWriter};
use crate::columns::{Layout, finish_layout};
use crate::directory::{Directory, SlabHead, put_trailer};
use crate::error::BucketError;
use crate::limits::{MAX_DIRECTORY_BYTES, MAX_SLAB_HEAD_BYTES, within};
use crate::locator::LocatorTables;
use crate::summary::BucketSummary;

/// Content of a tail.
pub(crate) struct ObjectTail {
    /// Heads of all slabs, without the blocks of the tail.
    pub(crate) heads: Vec<SlabHead>,
    /// Column layouts that are not yet written, and the numbers of their slabs.
    pub(crate) layouts: Vec<(usize, Layout)>,
    /// Locators and the numbers of their slabs.
    pub(crate) locators: Vec<(usize, LocatorTables)>,
    /// Everything but `object_bytes`, which follows from the object itself.
    pub(crate) summary: BucketSummary,
}

impl ObjectTail {
    /// Appends the tail.
    pub(crate) fn write(&self, blocks: &mut BlockWriter) -> Result<(), BucketError> {
        let mut added: Vec<Vec<BlockAt>> = vec![Vec::new(); self.heads.len()];
        for (slab, tables) in &self.locators {
            added[*slab].push(tables.write(blocks)?);
        }
        for (slab, layout) in &self.layouts {
            added[*slab].push(finish_layout(layout, blocks)?);
        }
        let mut directory = Directory { summary: self.summary.clone(), slabs: Vec::with_capacity(self.heads.len()) };
        let mut scratch = Vec::new();
        for (head, added) in self.heads.iter().zip(&added) {
            scratch.clear();
            head.put(added, &mut scratch);
            within(scratch.len(), "bytes of a slab head", "MAX_SLAB_HEAD_BYTES", MAX_SLAB_HEAD_BYTES)?;
            let offset = blocks.object.len() as u64;
            let stored_len = blocks.write(BlockKind::SlabHead, &scratch)?;
            directory.slabs.push((offset, stored_len));
        }
        scratch.clear();
        directory.put(&mut scratch);
        within(scratch.len(), "bytes of a bucket directory", "MAX_DIRECTORY_BYTES", MAX_DIRECTORY_BYTES)?;
        let offset = blocks.object.len() as u64;
        let stored_len = blocks.write(BlockKind::Directory, &scratch)?;
        assert_eq!(directory.slabs.len(), self.heads.len(), "the directory names every slab");
        assert_eq!(offset + u64::from(stored_len), blocks.object.len() as u64, "the directory is the last block");
        put_trailer(offset, stored_len, &mut blocks.object);
        Ok(())
    }
}
