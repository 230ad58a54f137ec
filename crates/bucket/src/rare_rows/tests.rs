//! Candidate rows against the tokens of the texts themselves, and the texts of those rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_event::segment::{for_each_token, lower_token};
use quarry_event::template::{ColumnKind, NumberFormat};
use quarry_event::term::MetaField;
use quarry_event::{AnyColumn, EventBatch, Metadata, ValueColumns};

use super::*;
use crate::rare_pages::tests::log;
use crate::{EncodeOptions, MAX_PAGE_EVENTS, MemoryObject, encode};

fn rows_of_tokens(events: &EventBatch) -> BTreeMap<String, Vec<u32>> {
    let (mut truth, mut lower) = (BTreeMap::<String, Vec<u32>>::new(), Vec::new());
    for row in 0..events.len() {
        for_each_token(events.raw(row), |token| {
            lower_token(token, &mut lower);
            let rows = truth.entry(String::from_utf8(lower.clone()).unwrap()).or_default();
            if rows.last() != Some(&(row as u32)) {
                rows.push(row as u32);
            }
        });
    }
    truth
}

#[test]
fn rows_with_a_token_are_found_and_ids_yield_one_row() {
    let events = log(11, 2 * MAX_PAGE_EVENTS + 77);
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    let (mut known, mut alone) = (0, 0);
    for (token, rows) in rows_of_tokens(&events).iter().step_by(13) {
        for page in 0..3 {
            let start = (page * MAX_PAGE_EVENTS) as u32;
            let here: Vec<u32> = rows.iter().filter_map(|row| row.checked_sub(start)).collect();
            let here: Vec<u32> = here.into_iter().filter(|row| (*row as usize) < MAX_PAGE_EVENTS).collect();
            for query in [
                TermQuery::Token(token.as_str().into()),
                TermQuery::And(vec![TermQuery::Token("payments".into()), TermQuery::Token(token.as_str().into())]),
                TermQuery::Or(vec![TermQuery::Token(token.as_str().into()), TermQuery::None]),
            ] {
                let Some(found) = reader.candidate_rows(0, page, &query, &AnyColumn, 16).unwrap() else { continue };
                assert!(here.iter().all(|row| found.binary_search(row).is_ok()), "{token}: {here:?} in {found:?}");
                known += 1;
                alone += usize::from(found == here && here.len() == 1);
                let texts = reader.template_page(0, page).unwrap().unwrap().texts(0, &found).unwrap();
                let expected: Vec<&[u8]> = found.iter().map(|row| events.raw((start + row) as usize)).collect();
                assert!((0..found.len()).map(|at| texts.get(at)).eq(expected), "{token}");
            }
        }
    }
    assert!(known > 1_000 && alone > 500, "{known} known, {alone} of one row");
}

#[test]
fn rows_with_a_token_prefix_are_found() {
    let events = log(14, 2 * MAX_PAGE_EVENTS + 77);
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    let truth = rows_of_tokens(&events);
    let (mut known, mut alone) = (0, 0);
    for token in truth.keys().step_by(17).filter(|token| token.is_ascii()) {
        for prefix in [&token[..], &token[..token.len().div_ceil(2)], &token[..1]] {
            let begun = truth.range(prefix.to_owned()..).take_while(|(token, _)| token.starts_with(prefix));
            let rows: BTreeSet<u32> = begun.flat_map(|(_, rows)| rows).copied().collect();
            for page in 0..3 {
                let start = (page * MAX_PAGE_EVENTS) as u32;
                let here = rows.range(start..start + MAX_PAGE_EVENTS as u32).map(|row| row - start);
                let here: Vec<u32> = here.collect();
                let query = TermQuery::Prefix(prefix.into());
                let Some(found) = reader.candidate_rows(0, page, &query, &AnyColumn, 16).unwrap() else { continue };
                assert!(here.iter().all(|row| found.binary_search(row).is_ok()), "{prefix}*: {here:?} in {found:?}");
                known += 1;
                alone += usize::from(found == here && here.len() == 1);
            }
        }
    }
    assert!(known > 1_000 && alone > 500, "{known} known, {alone} of one row");
}

#[test]
fn rows_are_unknown_for_words_in_the_term_dictionary() {
    let events = log(12, 500);
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    for query in [TermQuery::Token("payments".into()), TermQuery::All, TermQuery::Prefix("pay".into())] {
        assert_eq!(reader.candidate_rows(0, 0, &query, &AnyColumn, 1_000).unwrap(), None, "{query:?}");
    }
}

/// A query for a field's value may accept a token or a sourcetype whose events need not contain the token. The
/// sourcetype matters only on pages that have events of it.
#[test]
fn metadata_is_looked_up_by_page() {
    let named = |sourcetype: &str| Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/x.log".into(),
        sourcetype: sourcetype.into(),
    };
    let mut events = EventBatch::default();
    let metas = ["first", "second"].map(|sourcetype| events.intern(&named(sourcetype)));
    for row in 0..2 * MAX_PAGE_EVENTS {
        let text = format!("request {:016x} took {row} ms", (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        events.push(text.as_bytes(), row as i64, metas[row / MAX_PAGE_EVENTS]);
    }
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    let of_sourcetype = |name: &str| TermQuery::Meta { field: MetaField::Sourcetype, pattern: name.into() };
    let token = TermQuery::Token(format!("{:016x}", 8u64.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into());
    for (page, sourcetype, rows) in [
        (0, "other", Some(vec![7])),
        (0, "second", Some(vec![7])),
        (0, "first", None),
        (0, "f*", None),
        (1, "first", Some(vec![])),
        (1, "second", None),
    ] {
        let query = TermQuery::Or(vec![token.clone(), of_sourcetype(sourcetype)]);
        let found = reader.candidate_rows(0, page, &query, &AnyColumn, 16).unwrap();
        assert_eq!(found, rows, "page {page}, {sourcetype}");
    }
}

#[test]
fn rows_are_unknown_for_many_alternatives() {
    let id = |row: usize| format!("{:016x}", (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut events = EventBatch::default();
    let meta = events.intern(&Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/x.log".into(),
        sourcetype: "first".into(),
    });
    for row in 0..2 * MAX_PAGE_EVENTS {
        events.push(format!("request {} took {row} ms", id(row)).as_bytes(), row as i64, meta);
    }
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    let any_of = |rows: usize| TermQuery::Or((0..rows).map(|row| TermQuery::Token(id(row).into())).collect());
    let all: Vec<u32> = (0..ALTERNATIVES_MAX as u32).collect();
    for (rows, expected) in [(ALTERNATIVES_MAX, Some(all)), (ALTERNATIVES_MAX + 1, None)] {
        assert_eq!(reader.candidate_rows(0, 0, &any_of(rows), &AnyColumn, 16).unwrap(), expected, "{rows}");
    }
}

/// Locates the values of every field in one column.
struct SingleColumn(u32);

impl FieldColumns for SingleColumn {
    fn columns_of(&self, _field: &str) -> Option<ValueColumns> {
        Some(ValueColumns { columns: vec![self.0], literals: false })
    }
}

#[test]
fn field_values_are_searched_only_in_columns_of_the_field() {
    let events = log(13, 2 * MAX_PAGE_EVENTS + 77);
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    let template_set = reader.template_set(0).unwrap().unwrap();
    let (mut asked, mut addresses) = (0, 0);
    for (number, column) in (0u32..).zip(&template_set.columns) {
        let ColumnKind::Numbers { format, .. } = column.kind else { continue };
        for page in 0..3 {
            let mut values = reader.template_page(0, page).unwrap().unwrap();
            let ColumnValues::Numbers(numbers) = values.values(number).unwrap() else { panic!("numbers") };
            for wanted in numbers.iter().step_by(numbers.len() / 9 + 1) {
                let mut text = Vec::new();
                format.write(*wanted, &mut text);
                let text = String::from_utf8(text).unwrap();
                let query = TermQuery::for_field_value("any", &text, TermQuery::for_keyword(&text));
                let pages = reader.candidate_pages(0, &query, &SingleColumn(number)).unwrap();
                let anywhere = reader.candidate_pages(0, &query, &AnyColumn).unwrap();
                assert!(pages.contains(page) && pages.0 & !anywhere.0 == 0, "{text}: {pages:?} of {anywhere:?}");
                let places = positions_where(&numbers, |other| other == wanted);
                let mut rows = values.rows_of_positions(number, places).unwrap();
                rows.sort_unstable();
                let found = reader.candidate_rows(0, page, &query, &SingleColumn(number), MAX_PAGE_EVENTS).unwrap();
                match (format, &found) {
                    // Values in these formats are found exactly, without further candidates.
                    (NumberFormat::Ip4 | NumberFormat::Integer | NumberFormat::Hex { .. }, _) => {
                        assert_eq!(found, Some(rows), "{text}");
                        addresses += usize::from(format == NumberFormat::Ip4);
                    }
                    (_, Some(found)) => assert!(rows.iter().all(|row| found.binary_search(row).is_ok()), "{text}"),
                    (_, None) => {}
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 100 && addresses > 0, "{asked} values, {addresses} addresses");
    let absent = TermQuery::for_field_value("any", "11.12.13.14", TermQuery::for_keyword("11.12.13.14"));
    let ip = (0u32..)
        .zip(&template_set.columns)
        .find(|(_, column)| matches!(column.kind, ColumnKind::Numbers { format: NumberFormat::Ip4, .. }));
    assert!(reader.candidate_pages(0, &absent, &SingleColumn(ip.unwrap().0)).unwrap().is_empty());
}
