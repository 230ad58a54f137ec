//! Locators of random hashes against the pages they were built from.

use std::sync::Arc;

use super::ribbon::mix_key;
use super::*;
use crate::block::{BlockKind, BlockRef, BlockWriter};
use crate::error::BlockPosition;
use crate::read_at::MemoryObject;
use crate::source::ObjectSource;

/// Hashes and the pages of each, usually few.
fn truth(count: u64, pages: u64) -> Vec<(u64, u64)> {
    let token = |at: u64| {
        let many = [1, 1, 1, 1, 1, 2, 3, 4, 5, 9][(mix_key(at) % 10) as usize];
        let set = (0..many).fold(0u64, |set, which| set | 1 << (mix_key(at * 31 + which) % pages));
        (mix_key(at + 7_000_000), set)
    };
    (0..count).map(token).collect()
}

fn write_locator(truth: &[(u64, u64)], pages: usize) -> Option<(ObjectSource, Locator)> {
    let mut rare = RareTokenPages::default();
    for (hash, set) in truth {
        for page in (0..pages).filter(|page| set >> page & 1 == 1) {
            rare.add(page, &mut vec![*hash, *hash]);
        }
    }
    let mut blocks = BlockWriter::new(Vec::new(), 1).unwrap();
    let tables = LocatorTables::of(rare, pages).unwrap()?;
    let (_, directory) = write_locators(&[(0, tables)], &mut blocks).remove(0);
    let offset = blocks.object.len() as u64;
    let kind = BlockKind::LocatorDirectory;
    let stored_len = blocks.write(kind, &directory).unwrap();
    let at = BlockRef { kind, offset, stored_len };
    let source = ObjectSource::open(Arc::new(MemoryObject(blocks.object.into()))).unwrap();
    let locator = Locator::open(&source, at, BlockPosition::outside_slabs("locator", at.offset), pages).unwrap();
    let tables = locator.read_tables(&source).unwrap();
    let same = |(hash, _): &(u64, u64)| tables.find(*hash).unwrap() == locator.find(&source, *hash).unwrap();
    assert!(truth.iter().all(same));
    Some((source, locator))
}

#[test]
fn every_token_is_located_in_its_pages() {
    for pages in [2usize, 3, 32, 63, 64] {
        for count in [1, 100, 30_000] {
            let truth = truth(count, pages as u64);
            let (source, locator) = write_locator(&truth, pages).unwrap();
            let mut untold = 0;
            for (hash, set) in &truth {
                match locator.find(&source, *hash).unwrap() {
                    Some(found) => assert_eq!(found, *set, "{count} tokens in {pages} pages"),
                    None => {
                        assert!(set.count_ones() as usize > MAX_LINKS);
                        untold += 1;
                    }
                }
            }
            let many = truth.iter().filter(|(_, set)| set.count_ones() as usize > MAX_LINKS).count();
            assert_eq!(untold, many);
        }
    }
}

#[test]
fn absent_tokens_are_located_in_few_existing_pages() {
    let (source, locator) = write_locator(&truth(10_000, 40), 40).unwrap();
    let found = (0..2_000u64).map(|at| locator.find(&source, mix_key(at + 99_000_000)).unwrap());
    let all = found.flatten().fold(0, |all, found| {
        assert!(found.count_ones() as usize <= MAX_LINKS);
        all | found
    });
    assert_eq!(all >> 40, 0);
}

#[test]
fn single_page_slabs_have_no_locator() {
    assert!(write_locator(&truth(10, 1), 1).is_none());
    assert!(write_locator(&[], 9).is_none());
}
