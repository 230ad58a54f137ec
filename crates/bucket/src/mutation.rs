//! Mutation tests: buckets with random damage and checksums disabled, so that the decoders themselves are tested.

#[path = "../../../fuzz/entries/bucket_reader.rs"]
mod entry;
#[path = "../../../fuzz/entries/mutations.rs"]
mod mutations;

use quarry_event::{EventBatch, Metadata};

use crate::block::tests::ENFORCE_CHECKSUMS;
use crate::columns::tests::{encoded_by_words, lines};
use crate::{EncodeOptions, encode};

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for events in [0, 1, 40] {
        let mut batch = EventBatch { index_time: 7, ..EventBatch::default() };
        for row in 0..events {
            let meta = batch.intern(&Metadata {
                index: "main".into(),
                host: format!("host-{}", row % 3).into(),
                source: "a".into(),
                sourcetype: "b".into(),
            });
            batch.push(format!("Row {row} unique{row} größe").as_bytes(), i64::from(row) * 1_000_000, meta);
            batch.fields.push(row, "Row", &format!("R{row}"));
        }
        let encoded = encode(&[batch.clone(), batch], &EncodeOptions::default()).unwrap();
        seeds.push(encoded.object.to_vec());
        seeds.push(encoded.filter.to_vec());
    }
    for level in [1, 3] {
        seeds.push(encoded_by_words(&[lines(30)], level).object.to_vec());
    }
    seeds
}

#[test]
fn decoders_do_not_panic_on_mutated_bytes() {
    ENFORCE_CHECKSUMS.set(false);
    let seeds = seeds();
    mutations::for_each_mutation(&seeds, 4_000, entry::run);
    // Objects keep their length here, so that the damage reaches the decoders and not only the checks of block heads.
    for seed in &seeds {
        for at in 0..seed.len() {
            for value in [0, 1, 0x7f, 0xff, seed[at] ^ 1, seed[at].wrapping_add(1)] {
                let mut changed = seed.clone();
                changed[at] = value;
                entry::run(&changed);
            }
        }
    }
    ENFORCE_CHECKSUMS.set(true);
}

/// A bucket whose slabs share a dictionary.
const SHARED: &[u8] = include_bytes!("../tests/fixtures/v1-columns-shared-runs.bucket");

/// Columns large enough for blocks of their own, and a shared dictionary.
#[test]
fn column_decoders_do_not_panic_on_mutated_bytes() {
    let mut seeds = [1, 3].map(|level| encoded_by_words(&[lines(4_200)], level).object.to_vec()).to_vec();
    seeds.push(SHARED.to_vec());
    ENFORCE_CHECKSUMS.set(false);
    mutations::for_each_mutation(&seeds, 120, entry::run);
    for seed in &seeds {
        for at in (0..seed.len()).step_by(331) {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            entry::run(&changed);
        }
    }
    ENFORCE_CHECKSUMS.set(true);
}
