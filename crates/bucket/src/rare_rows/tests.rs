//! Candidate rows against the pieces of the texts themselves, and the texts of those rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_event::EventBatch;
use quarry_event::segment::{for_each_piece, lower_piece};

use super::*;
use crate::rare_pages::tests::log;
use crate::{EncodeOptions, MAX_PAGE_EVENTS, MemoryObject, encode};

fn rows_of_pieces(events: &EventBatch) -> BTreeMap<String, Vec<u32>> {
    let (mut truth, mut lower) = (BTreeMap::<String, Vec<u32>>::new(), Vec::new());
    for row in 0..events.len() {
        for_each_piece(events.raw(row), |piece| {
            lower_piece(piece, &mut lower);
            let rows = truth.entry(String::from_utf8(lower.clone()).unwrap()).or_default();
            if rows.last() != Some(&(row as u32)) {
                rows.push(row as u32);
            }
        });
    }
    truth
}

#[test]
fn no_row_that_holds_a_piece_is_left_out_and_ids_give_one() {
    let events = log(11, 2 * MAX_PAGE_EVENTS + 77);
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    let (mut known, mut alone) = (0, 0);
    for (piece, rows) in rows_of_pieces(&events).iter().step_by(13) {
        for page in 0..3 {
            let start = (page * MAX_PAGE_EVENTS) as u32;
            let here: Vec<u32> = rows.iter().filter_map(|row| row.checked_sub(start)).collect();
            let here: Vec<u32> = here.into_iter().filter(|row| (*row as usize) < MAX_PAGE_EVENTS).collect();
            for query in [
                TermQuery::Piece(piece.as_str().into()),
                TermQuery::And(vec![TermQuery::Piece("payments".into()), TermQuery::Piece(piece.as_str().into())]),
                TermQuery::Or(vec![TermQuery::Piece(piece.as_str().into()), TermQuery::None]),
            ] {
                let Some(found) = reader.candidate_rows(0, page, &query, 16).unwrap() else { continue };
                assert!(here.iter().all(|row| found.binary_search(row).is_ok()), "{piece}: {here:?} in {found:?}");
                known += 1;
                alone += usize::from(found == here && here.len() == 1);
                let texts = reader.shaped_page(0, page).unwrap().unwrap().texts(0, &found).unwrap();
                let expected: Vec<&[u8]> = found.iter().map(|row| events.raw((start + row) as usize)).collect();
                assert!((0..found.len()).map(|at| texts.get(at)).eq(expected), "{piece}");
            }
        }
    }
    assert!(known > 1_000 && alone > 500, "{known} known, {alone} of one row");
}

#[test]
fn what_rows_may_hold_is_not_said_of_words_of_the_lexicon() {
    let events = log(12, 500);
    let encoded = encode(std::slice::from_ref(&events), &EncodeOptions::default()).unwrap();
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object))).unwrap();
    for query in [TermQuery::Piece("payments".into()), TermQuery::All, TermQuery::Prefix("pay".into())] {
        assert_eq!(reader.candidate_rows(0, 0, &query, 1_000).unwrap(), None, "{query:?}");
    }
}
