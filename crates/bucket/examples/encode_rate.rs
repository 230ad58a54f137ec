//! How fast a slab is encoded, and how many bytes its parts take: `encode_rate FILE [SLABS] [ZSTD_LEVEL]`.
//!
//! Each slab is the next 64 MB of lines of the file. A development tool, so it may print and take the time.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use quarry_bucket::{
    BucketReader, EncodeOptions, MAX_SLAB_EVENTS, MemoryObject, SlabSource, TARGET_SLAB_RAW_BYTES, TermFilter,
    encode_slabs, verify_slabs,
};
use quarry_event::{EventBatch, Metadata, PageColumns, TermQuery};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let options = EncodeOptions { zstd_level: number(3, 1) as i32, shaped: true };
    let mut file = File::open(&arguments[1]).expect("the file opens");
    let mut rest = Vec::new();
    for _ in 0..number(2, 3) {
        let batch = next_slab(&mut file, &mut rest);
        if batch.is_empty() {
            break;
        }
        measure(&batch, &options);
    }
    println!("peak resident set: {}", peak_memory());
}

fn next_slab(file: &mut File, rest: &mut Vec<u8>) -> EventBatch {
    let missing = (TARGET_SLAB_RAW_BYTES - rest.len()) as u64;
    file.by_ref().take(missing).read_to_end(rest).expect("the file is readable");
    let mut batch = EventBatch { index_time: 1_700_000_000_000_000_000, ..EventBatch::default() };
    let text: Arc<str> = "bench".into();
    batch.intern(&Metadata { index: text.clone(), host: text.clone(), source: text.clone(), sourcetype: text });
    batch.raw.reserve_exact(TARGET_SLAB_RAW_BYTES);
    let mut used = 0;
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        if batch.len() == MAX_SLAB_EVENTS || !line.ends_with(b"\n") {
            break;
        }
        let time = batch.index_time + 28_800_000_000 / 1_000_000 * 1_000_000 * batch.len() as i64;
        batch.push(&line[..line.len() - 1], time, 0);
        used += line.len();
    }
    rest.drain(..used);
    batch
}

fn measure(batch: &EventBatch, options: &EncodeOptions) {
    let raw = batch.raw.len() as f64;
    let slabs = [SlabSource::of(batch)];
    let start = thread_seconds();
    let encoded = encode_slabs(&slabs, options).expect("it encodes");
    let encode = thread_seconds() - start;
    let start = thread_seconds();
    verify_slabs(&encoded, &slabs).expect("it verifies");
    let verify = thread_seconds() - start;
    println!(
        "{:.1} MB, {} events: encode {:.0} ms, verify {:.0} ms, together {:.1} MB/s; object {:.2} % of raw, filter {:.2} %",
        raw / 1e6,
        batch.len(),
        encode * 1e3,
        verify * 1e3,
        raw / 1e6 / (encode + verify),
        encoded.object.len() as f64 / raw * 100.0,
        encoded.filter.len() as f64 / raw * 100.0,
    );
    let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).expect("it opens");
    for (kind, bytes) in reader.stored_bytes_by_kind(0).expect("it reads") {
        println!("    {kind}: {bytes} bytes, {:.3} % of raw", bytes as f64 / raw * 100.0);
    }
    let start = Instant::now();
    let pages = reader.slabs()[0].pages.len();
    for page in 0..pages {
        reader.read_page(0, page, PageColumns { raw: true, index_time: false, fields: false }).expect("it reads");
    }
    println!("    read_page: {:.2} ms a page", start.elapsed().as_secs_f64() * 1e3 / pages as f64);
    look_up(batch, &reader, &TermFilter::open(&encoded.filter).expect("it opens"));
}

fn look_up(batch: &EventBatch, reader: &BucketReader, filter: &TermFilter) {
    let mut queries = Vec::new();
    for row in (0..batch.len()).step_by(batch.len() / 400 + 1) {
        let mut pieces = Vec::new();
        quarry_event::segment::for_each_piece(batch.raw(row), |piece| pieces.push(piece.to_ascii_lowercase()));
        let piece = &pieces[row % pieces.len()];
        queries.push(TermQuery::Piece(String::from_utf8_lossy(piece).into()));
    }
    let start = Instant::now();
    let found = queries.iter().filter(|query| !reader.candidate_pages(0, query).expect("it reads").is_empty()).count();
    let lexicon = start.elapsed().as_secs_f64() * 1e6 / queries.len() as f64;
    let start = Instant::now();
    let known = queries.iter().filter(|query| filter.may_match(query)).count();
    let probe = start.elapsed().as_secs_f64() * 1e9 / queries.len() as f64;
    println!("    look-up: {lexicon:.1} us ({found} of {} found), filter {probe:.0} ns ({known})", queries.len());
}

/// Seconds this thread has spent on a processor: what others do on the machine does not count.
fn thread_seconds() -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts time by thread");
    spent.split_whitespace().next().and_then(|text| text.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("unknown").to_owned()
}
