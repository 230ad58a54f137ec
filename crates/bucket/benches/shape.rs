//! How fast texts are taken apart: the first 64 MB of `$QUARRY_BENCH_FILE`, else made lines.
//!
//! The ceiling beside it is what tokenising alone reaches on one core. Processor time of the thread, the best of some
//! runs, so that a busy machine disturbs it least. A development tool, so it may print and read the environment.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs::File;
use std::io::Read;

use quarry_bucket::bench_api::shape_slab;
use quarry_bucket::{MAX_SLAB_EVENTS, TARGET_SLAB_RAW_BYTES};
use quarry_event::EventBatch;

/// Bytes a second that finding the tokens alone reaches.
const CEILING: f64 = 1.5e9;
const RUNS: usize = 7;

fn main() {
    let mut text = Vec::new();
    match std::env::var("QUARRY_BENCH_FILE") {
        Ok(path) => {
            let file = File::open(path).unwrap();
            file.take(TARGET_SLAB_RAW_BYTES as u64).read_to_end(&mut text).unwrap();
        }
        Err(_) => made_lines(&mut text),
    }
    let mut events = EventBatch::default();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| std::str::from_utf8(line).is_ok());
    for line in lines.take(MAX_SLAB_EVENTS) {
        events.raw.extend_from_slice(line);
        events.ends.push(events.raw.len() as u32);
    }
    let mut best = f64::MAX;
    let mut found = None;
    for _ in 0..RUNS {
        let start = thread_seconds();
        found = shape_slab(&events);
        best = best.min(thread_seconds() - start);
    }
    let rate = events.raw.len() as f64 / best;
    let made = found.map_or("not worth shaping".to_owned(), |(columns, templates)| {
        format!("{columns} columns, {templates} templates")
    });
    println!(
        "shape: {:.0} MB/s, {:.2} M events/s ({:.0} % of the ceiling of {:.0} MB/s); {} events: {made}",
        rate / 1e6,
        events.len() as f64 / best / 1e6,
        rate * 100.0 / CEILING,
        CEILING / 1e6,
        events.len(),
    );
}

/// Lines like those of a small web shop.
fn made_lines(text: &mut Vec<u8>) {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let processes = ["payments", "cron", "nginx", "auth"];
    let verbs = ["accepted", "queued", "rejected", "replicated", "dropped"];
    let mut second = 0;
    while text.len() < TARGET_SLAB_RAW_BYTES {
        second += next(2);
        let line = format!(
            "2026-11-20T{:02}:{:02}:{:02}.{:03}Z host{:02} {}[{}]: level=INFO user_id={} request_id={:08x}{:08x} \
             client_ip=10.{}.{}.{} url=/api/v1/items/{}?page={} status=200 bytes={} duration_ms={}.{} \
             msg=\"connection {} {} by w{:x} on shard-{} after {} attempts\"\n",
            second / 3_600 % 24,
            second / 60 % 60,
            second % 60,
            next(1_000),
            next(10),
            processes[next(4) as usize],
            next(32_768),
            next(1_000_000),
            next(1 << 31),
            next(1 << 31),
            next(8),
            next(256),
            next(256),
            next(50_000),
            next(40),
            next(100_000),
            next(400),
            next(10),
            next(100_000_000),
            verbs[next(5) as usize],
            next(1 << 20),
            next(64),
            next(9),
        );
        text.extend_from_slice(line.as_bytes());
    }
}

/// Processor time of this thread.
fn thread_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}
