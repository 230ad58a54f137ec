//! Throughput of aggregation on one core, compared with what the hardware allows.
//!
//! `cargo bench -p quarry-engine --features measure --bench aggregate`. Rows are synthetic and come in batches as a
//! scan delivers them; a run folds all of them and returns the result. The upper bound is a loop that only counts.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, StringViewArray, TimestampNanosecondArray, UInt32Array};
use arrow::record_batch::RecordBatch;
use criterion::{Criterion, Throughput};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_engine::measure::FoldMeasurement;

const ROWS: usize = 3_000_000;
/// Rows of a page.
const BATCH_ROWS: usize = 4_096;
const SAMPLES: usize = 10;

/// Numbers that look random and are the same in every run.
struct Mixer(u64);

impl Mixer {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn batches() -> Vec<RecordBatch> {
    let texts = |count: usize, name: &str| -> ArrayRef {
        Arc::new((0..count).map(|at| Some(format!("{name} {at}"))).collect::<StringViewArray>())
    };
    let (ten, hundred) = (texts(10, "status"), texts(100, "path of a page"));
    let mut mixer = Mixer(1);
    let mut batches = Vec::new();
    let mut start = 0;
    while start < ROWS {
        let rows = BATCH_ROWS.min(ROWS - start);
        let mut codes = |bound: u64| (0..rows).map(|_| mixer.below(bound) as u32).collect::<UInt32Array>();
        let a = DictionaryArray::new(codes(10), Arc::clone(&ten));
        let b = DictionaryArray::new(codes(100), Arc::clone(&hundred));
        let mut integers = |bound: u64| (0..rows).map(|_| mixer.below(bound) as i64).collect::<Int64Array>();
        let (user, bytes) = (integers(200_000), integers(1_000_000));
        // Times over a month, slightly out of order, as in logs.
        let times = (start..start + rows).map(|at| (at as i64 * 864_000 + mixer.below(2_000_000) as i64) * 1_000);
        let times = TimestampNanosecondArray::from_iter_values(times);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("_time", Arc::new(times)),
            ("a", Arc::new(a)),
            ("b", Arc::new(b)),
            ("user", Arc::new(user)),
            ("bytes", Arc::new(bytes)),
        ];
        batches.push(RecordBatch::try_from_iter(columns).unwrap());
        start += rows;
    }
    batches
}

/// Upper bound of throughput: counting rows by a one-byte code.
fn count_codes(codes: &[u8]) -> u64 {
    let mut counts = [0u64; 256];
    codes.iter().for_each(|code| counts[usize::from(*code)] += 1);
    counts[3]
}

/// Upper bound of throughput: counting rows by a key with many distinct values.
fn count_keys(keys: &[u64]) -> u64 {
    let mut counts: HashMap<u64, u64, FixedState> = HashMap::default();
    keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
    counts.len() as u64
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(SAMPLES)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let batches = batches();
    let mut mixer = Mixer(2);
    let codes: Vec<u8> = (0..ROWS).map(|_| mixer.below(10) as u8).collect();
    let keys: Vec<u64> = (0..ROWS).map(|_| mixer.below(200_000)).collect();
    for (search, hashed) in [
        ("stats count by a", false),
        ("stats count by a, b", false),
        ("stats count by user", true),
        ("top user", true),
        ("stats dc(bytes)", true),
        ("stats dc(user) by a", true),
        ("stats sum(bytes) avg(bytes) max(bytes) by a", false),
        ("timechart span=1h count by a", false),
        ("timechart span=1h count", false),
    ] {
        let mut group = criterion.benchmark_group(search);
        group.throughput(Throughput::Elements(ROWS as u64));
        let mut folding = FoldMeasurement::new(&format!("* | {search}")).unwrap();
        group.bench_function("quarry", |bencher| {
            bencher.iter(|| {
                batches.iter().for_each(|rows| folding.add(rows).unwrap());
                folding.finish().unwrap()
            });
        });
        if hashed {
            group
                .bench_function("ceiling: hashed 64-bit keys", |bencher| bencher.iter(|| count_keys(black_box(&keys))));
        } else {
            group.bench_function("ceiling: codes of a byte", |bencher| bencher.iter(|| count_codes(black_box(&codes))));
        }
        group.finish();
    }
    criterion.final_summary();
}
