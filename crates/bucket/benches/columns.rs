//! How fast slabs become columns and columns texts again, on one core.
//!
//! `cargo bench -p quarry-bucket --bench columns -- LEVEL FILE...`: the first 64 MB of each file as one slab; each
//! figure is the best of several runs, in megabytes of text a second of processor time.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use quarry_bucket::{
    BucketReader, EncodeOptions, MAX_SLAB_EVENTS, MemoryObject, SlabSource, TARGET_SLAB_RAW_BYTES, encode_slabs,
    verify_slabs,
};
use quarry_event::shape::{ColumnValues, TEXT_COLUMN};
use quarry_event::{EventBatch, Metadata, PageColumns};

const RUNS: usize = 5;
const RAW: PageColumns = PageColumns { raw: true, index_time: false, fields: false };

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let level = arguments.first().and_then(|level| level.parse().ok()).unwrap_or(1);
    for file in arguments.iter().skip(1) {
        measure(file, level);
    }
}

fn slab_of(file: &str) -> EventBatch {
    let mut text = Vec::new();
    File::open(file).unwrap().take(TARGET_SLAB_RAW_BYTES as u64).read_to_end(&mut text).unwrap();
    let mut batch = EventBatch { index_time: 1_795_132_800_000_000_000, ..EventBatch::default() };
    let name: Arc<str> = "bench".into();
    batch.intern(&Metadata { index: name.clone(), host: name.clone(), source: name.clone(), sourcetype: name });
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).take(MAX_SLAB_EVENTS) {
        batch.push(&line[..line.len() - 1], batch.index_time + batch.len() as i64 * 25_000_000, 0);
    }
    batch
}

fn measure(file: &str, zstd_level: i32) {
    let batch = slab_of(file);
    let slabs = [SlabSource::of(&batch)];
    let options = EncodeOptions { zstd_level, shaped: true };
    let encoded = encode_slabs(&slabs, &options).unwrap();
    let size = encoded.object.len() as f64;
    println!("{file}: {} events, {:.1} bytes each, {:.2} % of the text", batch.len(), size / batch.len() as f64, {
        size * 100.0 / batch.raw.len() as f64
    });
    let rate = |what: &str, run: &mut dyn FnMut()| {
        let seconds = (0..RUNS).map(|_| seconds_of(run)).fold(f64::MAX, f64::min);
        println!("    {what}: {:.0} MB/s", batch.raw.len() as f64 / 1e6 / seconds);
    };
    rate("encode", &mut || drop(encode_slabs(&slabs, &options).unwrap()));
    rate("verify", &mut || verify_slabs(&encoded, &slabs).unwrap());
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).unwrap();
    reader.check().unwrap();
    let pages = reader.slabs()[0].pages.len();
    rate("read pages", &mut || (0..pages).for_each(|page| drop(reader.read_page(0, page, RAW).unwrap())));
    let Some(shapes) = reader.shapes(0).unwrap() else {
        return println!("    plain text");
    };
    let mut values = 0;
    rate("read columns", &mut || {
        values = 0;
        for page in 0..pages {
            let mut shaped = reader.shaped_page(0, page).unwrap().unwrap();
            for column in 0..shapes.columns.len() as u32 {
                values += shaped.column(column).unwrap().values.len();
            }
        }
    });
    println!("    {} columns, {values} values", shapes.columns.len());
    rate("one event in a hundred", &mut || {
        for (page, info) in reader.slabs()[0].pages.iter().enumerate() {
            let rows: Vec<u32> = (0..info.events).step_by(100).collect();
            drop(reader.shaped_page(0, page).unwrap().unwrap().texts(TEXT_COLUMN, &rows).unwrap());
        }
    });
    for (number, column) in shapes.columns.iter().enumerate().filter(|(_, column)| column.parent == Some(0)).take(24) {
        let mut sum = 0u64;
        let mut read = || {
            for page in 0..pages {
                let mut shaped = reader.shaped_page(0, page).unwrap().unwrap();
                sum += match &shaped.column(number as u32).unwrap().values {
                    ColumnValues::Codes(codes) => u64::from(codes[0]),
                    ColumnValues::Numbers(numbers) => numbers[0] as u64,
                    ColumnValues::Texts { ends, .. } => u64::from(ends[0]),
                };
            }
        };
        // Too short for the clock of the processor.
        let timed = |_| {
            let start = Instant::now();
            read();
            start.elapsed().as_secs_f64()
        };
        let seconds = (0..RUNS).map(timed).fold(f64::MAX, f64::min);
        let kind: String = format!("{:?}", column.kind).chars().take(60).collect();
        println!("    column {number} with its parent: {:.1} ns a value, {kind}", seconds * 1e9 / column.values as f64);
    }
}

/// Seconds this thread spends on a processor: what others do on the machine does not count.
fn seconds_of(run: &mut dyn FnMut()) -> f64 {
    let spent = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
    };
    let start = spent();
    run();
    spent() - start
}
