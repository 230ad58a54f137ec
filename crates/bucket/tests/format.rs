//! Buckets written by a released version stay readable: the committed files and the events they must hold.
#![allow(clippy::unwrap_used)]

#[path = "support/fixture.rs"]
mod fixture;

use std::sync::Arc;

use quarry_bucket::{BucketReader, EncodeOptions, EncodedBucket, MemoryObject, TermFilter, encode, verify_against};
use quarry_event::template::{ColumnKind, TEXT_COLUMN};
use quarry_event::term::MetaField;
use quarry_event::{AnyColumn, TermQuery};

const OBJECT: &[u8] = include_bytes!("fixtures/v1.bucket");
const FILTER: &[u8] = include_bytes!("fixtures/v1.filter");

fn open_fixture() -> BucketReader {
    BucketReader::open(Arc::new(MemoryObject(OBJECT.into()))).unwrap()
}

#[test]
fn the_fixture_bucket_contains_its_events() {
    let reader = open_fixture();
    reader.check().unwrap();
    let summary = reader.summary().clone();
    assert_eq!((summary.events, summary.object_bytes), (4_105, OBJECT.len() as u64));
    let encoded = EncodedBucket { object: OBJECT.into(), filter: FILTER.into(), summary };
    verify_against(&encoded, &fixture::slabs()).unwrap();
}

/// Only the sizes in the summary depend on the version of the compressor.
#[test]
fn a_newly_written_bucket_has_the_summary_of_the_fixture() {
    let written = encode(&fixture::slabs(), &EncodeOptions::default()).unwrap();
    let mut summary = written.summary;
    assert_eq!(summary.filter_bytes, written.filter.len() as u64);
    (summary.object_bytes, summary.filter_bytes) = (OBJECT.len() as u64, FILTER.len() as u64);
    assert_eq!(&summary, open_fixture().summary());
}

#[test]
fn the_fixture_bucket_answers_lookups() {
    let reader = open_fixture();
    let filter = TermFilter::open(FILTER).unwrap();
    let token = |text: &str| TermQuery::Token(text.into());
    let field = |name: &str, value: &str| TermQuery::Field { name: name.into(), value: value.into() };
    let host = |pattern: &str| TermQuery::Meta { field: MetaField::Host, pattern: pattern.into() };
    for (query, pages) in [
        (token("request"), [0b11, 0]),
        (token("17"), [0b01, 0]),
        (token("64"), [0b10, 0]),
        (TermQuery::Prefix("to".into()), [0b11, 0]),
        (token("größe"), [0, 1]),
        (token("日本"), [0, 1]),
        (token("84dc9f24"), [0, 1]),
        (token("pieceofmorethansixteenbytes"), [0, 1]),
        (token("2fc"), [0, 1]),
        (field("Kind", "round4000"), [0b01, 0]),
        (field("tag", "second"), [0b01, 0]),
        (field("Straße", "äö"), [0, 1]),
        (field("empty", ""), [0, 1]),
        (host("web-02"), [0b11, 0]),
        (host("host*"), [0, 1]),
        (TermQuery::And(vec![token("request"), host("host3")]), [0, 0]),
    ] {
        let found = [0, 1].map(|slab| reader.candidate_pages(slab, &query, &AnyColumn).unwrap().0);
        assert_eq!(found, pages, "{query:?}");
        assert!(filter.may_match(&query), "{query:?}");
    }
    for absent in ["20b", "surely", "quests"] {
        assert!(
            [0, 1].iter().all(|slab| reader.candidate_pages(*slab, &token(absent), &AnyColumn).unwrap().is_empty())
        );
        assert!(!filter.may_match(&token(absent)), "{absent}");
    }
}

/// Buckets whose slabs share a dictionary: as one block, which older versions wrote, and in runs.
const SHARED: [(&[u8], &[u8], &str); 2] = [
    (
        include_bytes!("fixtures/v1-columns-shared.bucket"),
        include_bytes!("fixtures/v1-columns-shared.filter"),
        "shared dictionary",
    ),
    (
        include_bytes!("fixtures/v1-columns-shared-runs.bucket"),
        include_bytes!("fixtures/v1-columns-shared-runs.filter"),
        "shared dictionary run",
    ),
];

#[test]
fn the_committed_buckets_with_shared_dictionaries_hold_their_events() {
    let slabs = fixture::slabs_with_sessions();
    for (object, filter, kind) in SHARED {
        let reader = BucketReader::open(Arc::new(MemoryObject(object.into()))).unwrap();
        for (slab, events) in slabs.iter().enumerate() {
            for row in [0usize, 4_095, 4_199] {
                let mut page = reader.template_page(slab, row / 4_096).unwrap().unwrap();
                let texts = page.texts(TEXT_COLUMN, &[row as u32 % 4_096]).unwrap();
                assert_eq!(texts.get(0), events.raw(row), "{kind}");
            }
        }
        reader.check().unwrap();
        let kinds = reader.stored_bytes_by_kind(0).unwrap();
        assert!(kinds.iter().any(|(name, _)| *name == kind), "{kinds:?}");
        let encoded = EncodedBucket { object: object.into(), filter: filter.into(), summary: reader.summary().clone() };
        verify_against(&encoded, &slabs).unwrap();
    }
}

const WITH_TEMPLATES: [(&[u8], &[u8]); 3] = [
    (include_bytes!("fixtures/v1-columns-sealed.bucket"), include_bytes!("fixtures/v1-columns-sealed.filter")),
    (include_bytes!("fixtures/v1-columns-compacted.bucket"), include_bytes!("fixtures/v1-columns-compacted.filter")),
    (include_bytes!("fixtures/v1-columns-located.bucket"), include_bytes!("fixtures/v1-columns-located.filter")),
];

#[test]
fn the_template_fixture_buckets_contain_their_events() {
    for (object, filter) in WITH_TEMPLATES {
        let reader = BucketReader::open(Arc::new(MemoryObject(object.into()))).unwrap();
        reader.check().unwrap();
        let template_set = reader.template_set(0).unwrap().unwrap();
        let is_kind = |wanted: fn(&ColumnKind) -> bool| template_set.columns.iter().any(|column| wanted(&column.kind));
        assert!(is_kind(|kind| matches!(kind, ColumnKind::Dictionary { .. })));
        assert!(is_kind(|kind| matches!(kind, ColumnKind::Numbers { .. })));
        assert!(is_kind(|kind| matches!(kind, ColumnKind::Texts)));
        let kinds = reader.stored_bytes_by_kind(0).unwrap();
        for wanted in ["column layout", "column", "column pool"] {
            assert!(kinds.iter().any(|(kind, _)| *kind == wanted), "{wanted}: {kinds:?}");
        }
        let is_located = kinds.iter().any(|(kind, _)| *kind == "locator part");
        assert_eq!(is_located, object == WITH_TEMPLATES[2].0, "{kinds:?}");
        let summary = reader.summary().clone();
        let encoded = EncodedBucket { object: object.into(), filter: filter.into(), summary };
        verify_against(&encoded, &fixture::template_slabs()).unwrap();
    }
}
