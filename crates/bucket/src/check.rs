//! Full check of a bucket against every rule of the format, as `bucket verify` runs it.

use bytes::Bytes;
use quarry_event::template::{ValueTraits, is_json_scalar, is_string_content};
use quarry_event::{PageColumns, PageSet};
use quarry_stdx::number::{u32_of, usize_of};

use crate::block::{BlockKind, BlockRef, open_block};
use crate::directory::{HEADER_BYTES, TRAILER_BYTES, bucket_header};
use crate::error::{BlockPosition, BucketError};
use crate::reader::BucketReader;
use crate::term_dictionary::Namespace;
use crate::term_dictionary::hash::hash_term;
use crate::term_dictionary::write::term_fingerprint;

impl BucketReader {
    /// Reads everything; checks every checksum and structural rule, and that every byte belongs to a block.
    pub fn check(&self) -> Result<(), BucketError> {
        let place = BlockPosition::outside_slabs("header", 0);
        if self.source.fetch_block(place, HEADER_BYTES)?[..] != bucket_header() {
            return Err(place.corrupt("the object does not start as a bucket of this version does"));
        }
        for slab in 0..self.slabs().len() {
            self.check_slab_facts(slab)?;
            for page in 0..self.slabs()[slab].pages.len() {
                self.check_page(slab, page)?;
            }
            self.check_columns(slab)?;
            self.check_term_dictionaries(slab, &mut |_| {})?;
            // The locator, if there is one, is looked up for every token that the term dictionary omits.
            if self.locator(slab)?.is_some() {
                self.check_locator_covers_rare_tokens(slab, true, &mut |_| {})?;
            }
        }
        self.check_blocks_fill_object()
    }

    /// The bytes from `start` to the end of the object. The checksums of all blocks that are at least partly in this
    /// range are verified first.
    pub fn verified_end(&self, start: u64) -> Result<Bytes, BucketError> {
        for at in self.blocks()?.iter().filter(|at| at.range().end > start) {
            self.check_block(*at)?;
        }
        let len = usize_of(self.source.len().saturating_sub(start));
        self.source.fetch_block(BlockPosition::outside_slabs("object", start), len)
    }

    /// All blocks of the object, in the order of their offsets.
    fn blocks(&self) -> Result<Vec<BlockRef>, BucketError> {
        let (mut blocks, mut shared) = (vec![self.directory_block()], Vec::new());
        for (slab, parts) in self.parts().iter().enumerate() {
            blocks.push(parts.head);
            blocks.extend(parts.pages.iter().flatten());
            if let Some(columns) = self.columns(slab)? {
                blocks.extend(parts.columns.at);
                blocks.extend(columns.layout.blocks());
                shared.extend(columns.layout.shared_blocks(&self.source)?);
            }
            for slot in [&parts.tokens, &parts.fields] {
                if let Some(term_dictionary) = self.term_dictionary(slab, slot)? {
                    blocks.extend(slot.at);
                    blocks.extend(term_dictionary.blocks());
                }
            }
            if let Some(locator) = self.locator(slab)? {
                blocks.extend(parts.locator.at);
                blocks.extend(locator.blocks());
            }
        }
        // Several columns or slabs may use the same shared block.
        shared.sort_unstable_by_key(|at| at.offset);
        shared.dedup();
        blocks.extend(shared);
        blocks.sort_unstable_by_key(|at| at.offset);
        Ok(blocks)
    }

    /// Reads each column of each page separately, and checks its values against its traits and counts.
    fn check_columns(&self, slab: usize) -> Result<(), BucketError> {
        let Some(columns) = self.columns(slab)? else { return Ok(()) };
        self.check_dictionaries(slab)?;
        for page in 0..self.slabs()[slab].pages.len() {
            let Some(mut values) = self.template_page(slab, page)? else { continue };
            for (number, column) in (0u32..).zip(&columns.layout.template_set.columns) {
                let read = values.column(number)?;
                if let Some(counts) = columns.layout.template_set.counts.get(&number)
                    && !counts.matches_page(page, &read.values)
                {
                    let reason = format!("the value counts of column {number} do not add up to its values");
                    return Err(values.position().corrupt(reason));
                }
                let texts = values.all_texts(number)?;
                if let Some(at) = (0..texts.ends.len()).find(|at| !satisfies_traits(texts.get(*at), &column.traits)) {
                    let reason = format!("value {at} of column {number} contradicts the traits of its column");
                    return Err(values.position().corrupt(reason));
                }
            }
        }
        if self.parts()[slab].listed != columns.layout.listed_blocks() {
            let place = BlockPosition::outside_slabs("slab head", self.parts()[slab].head.offset).in_slab(slab);
            return Err(place.corrupt("it lists other dictionaries than the columns use"));
        }
        Ok(())
    }

    /// Reads the dictionaries of all columns.
    pub(crate) fn check_dictionaries(&self, slab: usize) -> Result<(), BucketError> {
        let Some(columns) = self.columns(slab)? else { return Ok(()) };
        let mut numbers = 0..u32_of(columns.layout.stored.len());
        numbers.try_for_each(|column| columns.check_dictionary(&self.source, column))
    }

    /// Checks that no page of a slab is empty and only the last page is short.
    fn check_slab_facts(&self, slab: usize) -> Result<(), BucketError> {
        let info = &self.slabs()[slab];
        let place = BlockPosition::outside_slabs("slab head", self.parts()[slab].head.offset).in_slab(slab);
        for (number, page) in info.pages.iter().enumerate() {
            let last = number + 1 == info.pages.len();
            if page.events == 0 || (!last && page.events as usize != crate::MAX_PAGE_EVENTS) {
                return Err(place.in_page(number).corrupt(format!("the page has {} events", page.events)));
            }
        }
        Ok(())
    }

    fn check_page(&self, slab: usize, number: usize) -> Result<(), BucketError> {
        let info = &self.slabs()[slab].pages[number];
        let page = self.read_page(slab, number, PageColumns::ALL)?;
        let place =
            BlockPosition::outside_slabs("slab head", self.parts()[slab].head.offset).in_slab(slab).in_page(number);
        let times = (page.time.iter().copied().min(), page.time.iter().copied().max());
        if times != (Some(info.time_min), Some(info.time_max)) {
            return Err(
                place.corrupt(format!("its times are {times:?}, {}..={} is recorded", info.time_min, info.time_max))
            );
        }
        let mut codes = page.meta;
        codes.sort_unstable();
        codes.dedup();
        if !info.metas.iter().eq(codes) {
            return Err(place.corrupt("its metadata differs from the recorded set"));
        }
        Ok(())
    }

    /// Reads both term dictionaries and passes the hashes of all terms to `visit`.
    pub(crate) fn check_term_dictionaries(
        &self,
        slab: usize,
        visit: &mut dyn FnMut(&[u64]),
    ) -> Result<(), BucketError> {
        let parts = &self.parts()[slab];
        for (slot, namespace) in [(&parts.tokens, Namespace::Tokens), (&parts.fields, Namespace::Fields)] {
            let (Some(term_dictionary), Some(at)) = (self.term_dictionary(slab, slot)?, slot.at) else {
                continue;
            };
            let every_page = PageSet::first(self.slabs()[slab].pages.len());
            let mut fingerprint = 0u64;
            term_dictionary.for_each(&self.source, &mut |term, pages| {
                assert!(pages & !every_page.0 == 0);
                let hash = hash_term(namespace, term);
                fingerprint = fingerprint.wrapping_add(term_fingerprint(hash, pages));
                visit(&[hash]);
            })?;
            if fingerprint != term_dictionary.fingerprint {
                let place = BlockPosition::outside_slabs(at.kind.name(), at.offset).in_slab(slab);
                return Err(place.corrupt("the terms differ from those that were collected"));
            }
        }
        Ok(())
    }

    /// Checks that the locator of a slab, if the slab has one, finds the pages of every rare token, that is, every
    /// token that the term dictionary omits. Passes the hashes of all rare tokens to `visit`, with repetitions. If
    /// `texts` is false and the slab has no locator, only the tokens of number columns are passed.
    pub(crate) fn check_locator_covers_rare_tokens(
        &self,
        slab: usize,
        texts: bool,
        visit: &mut dyn FnMut(&[u64]),
    ) -> Result<(), BucketError> {
        let Some(locator) = self.locator(slab)? else {
            return self.for_each_rare_token(slab, (false, texts), &mut |hashes, _| {
                visit(hashes);
                Ok(())
            });
        };
        let mut missing = 0;
        let tables = locator.read_tables(&self.source)?;
        self.for_each_rare_token(slab, (true, true), &mut |hashes, page| {
            visit(hashes);
            let Some(page) = page else { return Ok(()) };
            for hash in hashes {
                missing += usize::from(tables.find(*hash)?.is_some_and(|pages| pages >> page & 1 == 0));
            }
            Ok(())
        })?;
        match (missing, self.parts()[slab].locator.at) {
            (1.., Some(at)) => {
                let place = BlockPosition::outside_slabs(at.kind.name(), at.offset).in_slab(slab);
                Err(place.corrupt(format!("{missing} tokens are in pages that it does not list")))
            }
            _ => Ok(()),
        }
    }

    /// Verifies the checksum and kind of a block.
    fn check_block(&self, at: BlockRef) -> Result<(), BucketError> {
        let place = BlockPosition::outside_slabs(at.kind.name(), at.offset);
        let bytes = self.source.fetch_block(place, at.stored_len as usize)?;
        open_block(&bytes, at.kind, place, u32::MAX as usize).map(drop)
    }

    /// Checks that the blocks fill the space between header and trailer without gaps or overlap.
    fn check_blocks_fill_object(&self) -> Result<(), BucketError> {
        let mut end = HEADER_BYTES as u64;
        for at in self.blocks()? {
            if at.offset != end {
                let place = BlockPosition::outside_slabs(at.kind.name(), at.offset);
                return Err(place.corrupt(format!("the previous block ends at byte {end}")));
            }
            // The other checks read a page's blocks by kind and ignore blocks of an unexpected kind, so such blocks are
            // found here.
            self.check_block(at)?;
            end = at.offset.saturating_add(u64::from(at.stored_len));
        }
        let trailer = self.source.len().saturating_sub(TRAILER_BYTES as u64);
        if end != trailer {
            return Err(
                BlockPosition::outside_slabs("trailer", trailer).corrupt(format!("the last block ends at byte {end}"))
            );
        }
        assert_eq!(self.directory_block().kind, BlockKind::Directory);
        Ok(())
    }
}

/// Whether the traits of a column hold for this value.
fn satisfies_traits(value: &[u8], traits: &ValueTraits) -> bool {
    let len = value.len() as u64;
    let ends_fit = |(first, last): (&u8, &u8)| traits.firsts.contains(*first) && traits.lasts.contains(*last);
    value.iter().all(|byte| traits.bytes.contains(*byte))
        && value.first().zip(value.last()).is_none_or(ends_fit)
        && (u64::from(traits.min_len)..=u64::from(traits.max_len)).contains(&len)
        && (!traits.string_contents || is_string_content(value))
        && (!traits.json_scalars || is_json_scalar(value))
        && value
            .strip_prefix(traits.prefix.as_bytes())
            .is_some_and(|rest| traits.prefix.is_empty() || rest.iter().all(|byte| traits.after_prefix.contains(*byte)))
}
