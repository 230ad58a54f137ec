//! How fast rows fold into groups on one core, beside what the hardware allows.
//!
//! `cargo bench -p quarry-engine --features measure --bench aggregate`. Rows are synthetic and come in batches as a
//! scan delivers them; each figure is the best of several runs over all of them, results included.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, DictionaryArray, Int64Array, StringViewArray, TimestampNanosecondArray, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_engine::measure::Folding;

const ROWS: usize = 3_000_000;
/// Rows of a page.
const BATCH_ROWS: usize = 4_096;
const RUNS: usize = 40;
/// Seconds after which no more runs start.
const SECONDS_MAX: f64 = 3.0;

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
        // A month, with small disorder as logs have it.
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

fn main() {
    let batches = batches();
    println!("{ROWS} rows, one core; million rows a second with and without the result's making");
    let (codes, hashed) = ("2000 codes of a byte", "360 hashed 64-bit keys");
    for (search, ceiling) in [
        ("stats count by a", codes),
        ("stats count by a, b", codes),
        ("stats count by user", hashed),
        ("top user", hashed),
        ("stats dc(bytes)", hashed),
        ("stats dc(user) by a", hashed),
        ("stats sum(bytes) avg(bytes) max(bytes) by a", codes),
        ("timechart span=1h count by a", codes),
        ("timechart span=1h count", codes),
    ] {
        let (mut folding, mut whole) = (f64::MAX, f64::MAX);
        let mut work = Folding::new(&format!("* | {search}")).unwrap();
        let begin = Instant::now();
        for _ in 0..RUNS {
            let start = Instant::now();
            batches.iter().for_each(|rows| work.add(rows).unwrap());
            folding = folding.min(start.elapsed().as_secs_f64());
            work.finish().unwrap();
            whole = whole.min(start.elapsed().as_secs_f64());
            if begin.elapsed().as_secs_f64() > SECONDS_MAX {
                break;
            }
        }
        let rate = |seconds: f64| ROWS as f64 / seconds / 1e6;
        println!("{search:45} {:7.0} {:7.0}   ceiling: {ceiling}", rate(whole), rate(folding));
    }
}
