//! Term dictionaries written and read back, against an exact map.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use quarry_event::segment::fold_case;

use super::hash::{hash_pair, hash_term, load_pair};
use super::postings::{PostingsWriter, read_postings};
use super::read::TermDictionary;
use super::table::TermTable;
use super::write::encode_term_dictionary;
use super::{Namespace, field_term, truncate_term};
use crate::block::{BlockRef, BlockWriter};
use crate::error::BlockPosition;
use crate::limits::{MAX_TERM_BYTES, MAX_TERM_DICTIONARY_PAGE_TERMS};
use crate::read_at::MemoryObject;
use crate::source::ObjectSource;
use crate::wire::Cursor;

type Truth = BTreeMap<Vec<u8>, u64>;

/// Writes `pages` of terms and opens what was written.
fn write_terms(pages: &[Vec<Vec<u8>>]) -> (Truth, ObjectSource, TermDictionary) {
    let mut table = TermTable::new(Namespace::Tokens);
    let mut truth = Truth::new();
    for (number, terms) in pages.iter().enumerate() {
        table.start_page(number);
        for term in terms {
            table.add_term(term);
            *truth.entry(truncate_term(term).to_vec()).or_default() |= 1 << number;
        }
    }
    table.finish();
    let mut blocks = BlockWriter::new(Vec::new(), 1).unwrap();
    let directory = encode_term_dictionary(&table, pages.len(), &mut blocks).unwrap().write_pages(&mut blocks);
    let offset = blocks.object.len() as u64;
    let kind = Namespace::Tokens.directory_kind();
    let stored_len = blocks.write(kind, &directory).unwrap();
    let at = BlockRef { kind, offset, stored_len };
    let source = ObjectSource::open(Arc::new(MemoryObject(blocks.object.into()))).unwrap();
    let place = BlockPosition::outside_slabs("term dictionary directory", offset);
    let term_dictionary = TermDictionary::open(&source, Namespace::Tokens, place, at, pages.len()).unwrap();
    (truth, source, term_dictionary)
}

fn assert_agrees(truth: &Truth, source: &ObjectSource, term_dictionary: &TermDictionary, absent: &[Vec<u8>]) {
    let mut all = Vec::new();
    term_dictionary.for_each(source, &mut |term, pages| all.push((term.to_vec(), pages))).unwrap();
    assert!(all.iter().map(|(term, pages)| (term, pages)).eq(truth));
    for term in truth.keys().chain(absent) {
        assert_eq!(term_dictionary.find(source, term).unwrap(), truth.get(term).copied().unwrap_or(0));
        let prefix = &term[..term.len().div_ceil(2)];
        let expected = truth.iter().filter(|(term, _)| term.starts_with(prefix)).fold(0, |set, (_, pages)| set | pages);
        assert_eq!(term_dictionary.find_prefix(source, prefix).unwrap(), expected, "{prefix:?}");
    }
}

fn term() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-c]{1,4}".prop_map(String::into_bytes),
        "[0-9a-f]{7,20}".prop_map(String::into_bytes),
        "[a-zé中]{1,40}".prop_map(String::into_bytes),
        "(common-prefix-of-many-terms){1,3}[0-9]{0,3}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn arbitrary_terms_are_found(
        pages in prop::collection::vec(prop::collection::vec(term(), 0..60), 1..=64),
        absent in prop::collection::vec(term(), 0..20),
    ) {
        let (truth, source, term_dictionary) = write_terms(&pages);
        assert_agrees(&truth, &source, &term_dictionary, &absent);
    }

    #[test]
    fn both_hash_functions_agree(term in prop::collection::vec(any::<u8>(), 0..=16)) {
        let by_pair = hash_pair(Namespace::Fields, load_pair(&term), term.len());
        prop_assert_eq!(by_pair, hash_term(Namespace::Fields, &term));
        let mut padded = [0; 16];
        padded[..term.len()].copy_from_slice(&term);
        prop_assert_eq!(load_pair(&term), load_pair(&padded));
    }

    #[test]
    fn garbage_postings_return_errors(bytes in prop::collection::vec(any::<u8>(), 0..12), pages in 1usize..=64) {
        if let Ok(mask) = read_postings(&mut Cursor::new(&bytes), &[1, 2], pages) {
            prop_assert!(mask != 0 && (pages == 64 || mask >> pages == 0));
        }
    }
}

#[test]
fn many_pages_of_terms_and_shared_page_sets_round_trip() {
    let terms = |page: u32| (0..2_000).map(|at| format!("{:05x}", at * (page % 5 + 1)).into_bytes()).collect();
    let pages: Vec<Vec<Vec<u8>>> = (0..64).map(terms).collect();
    let (truth, source, term_dictionary) = write_terms(&pages);
    assert!(truth.len() > MAX_TERM_DICTIONARY_PAGE_TERMS);
    assert_agrees(&truth, &source, &term_dictionary, &[b"zzz".to_vec(), b"".to_vec(), b"0000".to_vec()]);
}

#[test]
fn an_empty_prefix_finds_every_page() {
    let (_, source, term_dictionary) = write_terms(&[vec![b"a".to_vec()], vec![], vec![b"b".to_vec()]]);
    assert_eq!(term_dictionary.find_prefix(&source, b"").unwrap(), 0b101);
}

#[test]
fn every_kind_of_page_set_round_trips() {
    let masks = [1u64, 1 << 63, 3, 0x7f, 0xff, u64::MAX, u64::MAX, u64::MAX, 0xf0f0, 0xf0f0, 0xf0f0, 0x8000_0000_0001];
    let mut table = TermTable::new(Namespace::Tokens);
    for (number, mask) in masks.iter().enumerate() {
        for page in (0..64).filter(|page| mask >> page & 1 == 1) {
            table.start_page(page);
            table.add_term(&[b'a' + number as u8]);
        }
    }
    table.finish();
    let writer = PostingsWriter::new(table.entries(), 64);
    assert_eq!(writer.shared(), [0xf0f0, u64::MAX]);
    let mut out = Vec::new();
    masks.iter().for_each(|mask| writer.put(*mask, &mut out));
    let mut cursor = Cursor::new(&out);
    let back: Vec<u64> = masks.iter().map(|_| read_postings(&mut cursor, writer.shared(), 64).unwrap()).collect();
    assert_eq!(back, masks);
}

#[test]
fn long_terms_are_truncated_at_a_character_boundary() {
    let long = "é".repeat(MAX_TERM_BYTES);
    assert_eq!(truncate_term(long.as_bytes()).len(), MAX_TERM_BYTES);
    assert_eq!(truncate_term(format!("x{long}").as_bytes()).len(), MAX_TERM_BYTES - 1);
    assert_eq!(truncate_term(&[0x80; 2 * MAX_TERM_BYTES]).len(), MAX_TERM_BYTES);
    assert!(field_term("name", &long).len() <= MAX_TERM_BYTES);
}

#[test]
fn case_folding_of_parts_agrees_with_the_whole_text() {
    assert_eq!(fold_case("ΑΣ"), fold_case("ας"));
    assert_eq!(fold_case("ÀB"), "àb");
}

/// The hash is part of the format: existing filters must stay readable.
#[test]
fn hashes_never_change() {
    let hashes = ["", "a", "error", "84dc9f24", "ccf635ee9e9e2fa4", "a term of more than sixteen bytes"]
        .map(|term| hash_term(Namespace::Tokens, term.as_bytes()));
    let written = [
        "fddc2abc6ef5c192",
        "125e9897bec184f2",
        "0bc7f1d484e4ba08",
        "8e7925de57211629",
        "8fb58a0adc71ecaf",
        "61929f3fac5fa743",
    ];
    assert_eq!(hashes.map(|hash| format!("{hash:016x}")), written);
}
