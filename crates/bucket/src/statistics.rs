//! Storage statistics of a bucket.

use crate::block::{BlockKind, BlockRef};
use crate::columns::{Layout, StoredColumn};
use crate::error::BucketError;
use crate::reader::BucketReader;

impl BucketReader {
    /// Stored bytes by kind of block of slab `slab`. Reads the column layout and the directories of term dictionaries
    /// and locator.
    pub fn stored_bytes_by_kind(&self, slab: usize) -> Result<Vec<(&'static str, u64)>, BucketError> {
        let parts = &self.parts()[slab];
        let mut blocks: Vec<BlockRef> = vec![parts.head];
        blocks.extend(parts.pages.iter().flatten());
        if let (Some(at), Some(columns)) = (parts.columns.at, self.columns(slab)?) {
            blocks.push(at);
            blocks.extend(columns.layout.blocks());
            blocks.extend(self.first_used_shared_blocks(slab, &columns.layout)?);
        }
        for slot in [&parts.tokens, &parts.fields] {
            blocks.extend(slot.at);
            blocks.extend(
                self.term_dictionary(slab, slot)?.into_iter().flat_map(|term_dictionary| term_dictionary.blocks()),
            );
        }
        blocks.extend(parts.locator.at);
        blocks.extend(self.locator(slab)?.into_iter().flat_map(|locator| locator.blocks()));
        blocks.sort_unstable_by_key(|at| at.kind);
        let of_kind = |run: &[BlockRef]| (run[0].kind.name(), run.iter().map(|at| u64::from(at.stored_len)).sum());
        Ok(blocks.chunk_by(|a, b| a.kind == b.kind).map(of_kind).collect())
    }

    /// Shared blocks of a slab that no earlier slab uses.
    fn first_used_shared_blocks(&self, slab: usize, layout: &Layout) -> Result<Vec<BlockRef>, BucketError> {
        let mut blocks = layout.shared_blocks(&self.source)?;
        blocks.sort_unstable_by_key(|at| at.offset);
        blocks.dedup();
        for before in 0..slab {
            if let (false, Some(columns)) = (blocks.is_empty(), self.columns(before)?) {
                let known = columns.layout.shared_blocks(&self.source)?;
                blocks.retain(|at| !known.contains(at));
            }
        }
        Ok(blocks)
    }

    /// Stored bytes of each column of slab `slab`, including its dictionary; empty if its pages hold plain text. Shared
    /// bytes count for the first column, or slab, that uses them. Small columns are pooled and counted by their size
    /// before compression.
    pub fn stored_bytes_by_column(&self, slab: usize) -> Result<Vec<u64>, BucketError> {
        let Some(columns) = self.columns(slab)? else {
            return Ok(Vec::new());
        };
        let first: Vec<BlockRef> = self.first_used_shared_blocks(slab, &columns.layout)?;
        let of_first = |kind: BlockKind| first.iter().filter(move |at| at.kind == kind);
        let stored = &columns.layout.stored;
        // Equal columns are stored once.
        let is_copy = |at: usize| {
            let (values, dictionary) = (&stored[at].values, stored[at].dictionary);
            stored[..at].iter().any(|other| other.values == *values && other.dictionary == dictionary)
        };
        let bytes_of = |(at, column): (usize, &StoredColumn)| match is_copy(at) {
            true => 0,
            false => column.stored_bytes(&mut |at| of_first(at.kind).any(|it| *it == at)),
        };
        Ok(stored.iter().enumerate().map(bytes_of).collect())
    }
}
