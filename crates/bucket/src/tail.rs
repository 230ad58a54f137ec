//! Tail of a bucket object: what follows the blocks of the last slab.
//!
//! The tail has the parts of the locators, the pages of the term dictionaries, then all structures that hold positions:
//! the column layouts, the directories of locators and term dictionaries, the slab heads, the directory and the
//! trailer. A reader of a remote object fetches the end first and then knows where to look up a term; small term
//! dictionaries come with the end. The locator parts in which a token is looked up are adjacent for all slabs, so that
//! one request fetches them. No block before the tail refers to the tail, so an encoder may discard a tail and write
//! another one without locators.
//!
//! Not here: reading the tail (`crate::reader`); the layout of its blocks (`crate::directory`, `crate::locator`,
//! `crate::columns`).

use crate::block::{BlockKind, BlockRef, BlockWriter};
use crate::directory::{Directory, SlabHead, put_trailer};
use crate::error::BucketError;
use crate::limits::{MAX_DIRECTORY_BYTES, MAX_SLAB_HEAD_BYTES, within};
use crate::locator::{LocatorTables, write_locators};
use crate::summary::BucketSummary;
use crate::term_dictionary::write::WrittenDictionary;

/// A block of a slab that is written with the tail.
pub(crate) struct SlabBlock {
    /// Number of the slab.
    pub(crate) slab: usize,
    pub(crate) kind: BlockKind,
    /// Uncompressed content of the block.
    pub(crate) content: Vec<u8>,
}

/// Content of a tail.
pub(crate) struct ObjectTail {
    /// Heads of all slabs, which do not list the blocks of the tail yet.
    pub(crate) heads: Vec<SlabHead>,
    /// Column layouts.
    pub(crate) layouts: Vec<SlabBlock>,
    /// Term dictionaries with the numbers of their slabs and the kinds of their directories.
    pub(crate) dictionaries: Vec<(usize, BlockKind, WrittenDictionary)>,
    /// Locators and the numbers of their slabs.
    pub(crate) locators: Vec<(usize, LocatorTables)>,
    /// Everything but `object_bytes`, which follows from the object itself.
    pub(crate) summary: BucketSummary,
}

impl ObjectTail {
    /// Appends the tail.
    pub(crate) fn write(&self, blocks: &mut BlockWriter) -> Result<(), BucketError> {
        assert!(self.locators.len() <= self.heads.len(), "a slab has at most one locator");
        assert!(self.dictionaries.len() <= 2 * self.heads.len(), "a slab has at most two term dictionaries");
        let mut added: Vec<Vec<BlockRef>> = vec![Vec::new(); self.heads.len()];
        let mut directories: Vec<SlabBlock> = Vec::with_capacity(self.locators.len() + self.dictionaries.len());
        for (slab, content) in write_locators(&self.locators, blocks) {
            directories.push(SlabBlock { slab, kind: BlockKind::LocatorDirectory, content });
        }
        for (slab, kind, dictionary) in &self.dictionaries {
            let content = dictionary.write_pages(blocks);
            directories.push(SlabBlock { slab: *slab, kind: *kind, content });
        }
        for SlabBlock { slab, kind, content } in self.layouts.iter().chain(&directories) {
            let offset = blocks.object.len() as u64;
            let stored_len = blocks.write(*kind, content)?;
            added[*slab].push(BlockRef { kind: *kind, offset, stored_len });
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
