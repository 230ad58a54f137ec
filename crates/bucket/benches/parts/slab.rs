//! The slabs that benchmarks and size listings read: lines of a file, or generated ones.
//!
//! Every line is an event, 25 ms later than the previous one. Not here: breaking events and reading their times, which
//! the pipeline does.
#![allow(dead_code, reason = "each of its users needs a part of it")]

use std::io::BufRead;
use std::sync::Arc;

use quarry_bucket::{MAX_SLAB_EVENTS, TARGET_SLAB_RAW_BYTES};
use quarry_event::{EventBatch, Metadata};

/// Time of the first event.
const START_NS: i64 = 1_795_132_800_000_000_000;
/// Nanoseconds between events.
const STEP_NS: i64 = 25_000_000;

/// Yields a reader's lines slab by slab.
pub(crate) struct Slabs<R> {
    lines: R,
    /// The line that did not fit into the last slab.
    line: Vec<u8>,
    time: i64,
}

impl<R: BufRead> Slabs<R> {
    /// Starts at the reader's position.
    pub(crate) fn of(lines: R) -> Slabs<R> {
        Slabs { lines, line: Vec::new(), time: START_NS }
    }
}

impl<R: BufRead> Iterator for Slabs<R> {
    type Item = EventBatch;

    fn next(&mut self) -> Option<EventBatch> {
        let mut batch = EventBatch { index_time: START_NS, ..EventBatch::default() };
        let name: Arc<str> = "bench".into();
        batch.intern(&Metadata { index: name.clone(), host: name.clone(), source: name.clone(), sourcetype: name });
        while !self.line.is_empty() || self.lines.read_until(b'\n', &mut self.line).unwrap() > 0 {
            let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            if batch.len() == MAX_SLAB_EVENTS || batch.raw.len() + text.len() > TARGET_SLAB_RAW_BYTES {
                break;
            }
            batch.push(text, self.time, 0);
            self.time += STEP_NS;
            self.line.clear();
        }
        (!batch.is_empty()).then_some(batch)
    }
}

/// At least `bytes` bytes of lines like those of a small web shop; the same in every run.
pub(crate) fn generate_lines(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let processes = ["payments", "cron", "nginx", "auth"];
    let verbs = ["accepted", "queued", "rejected", "replicated", "dropped"];
    let (mut text, mut second) = (Vec::new(), 0);
    while text.len() < bytes {
        second += next(2);
        let clock = format!("{:02}:{:02}:{:02}.{:03}", second / 3_600 % 24, second / 60 % 60, second % 60, next(1_000));
        let process = processes[next(4) as usize];
        let ids = format!("user_id={} request_id={:08x}{:08x}", next(1_000_000), next(1 << 31), next(1 << 31));
        let address = format!("10.{}.{}.{}", next(8), next(256), next(256));
        let url = format!("/api/v1/items/{}?page={}", next(50_000), next(40));
        let sizes = format!("bytes={} duration_ms={}.{}", next(100_000), next(400), next(10));
        let verb = verbs[next(5) as usize];
        let prefix = format!("connection {} {verb} by w{:x} on shard-{}", next(100_000_000), next(1 << 20), next(64));
        let line = format!(
            "2026-11-20T{clock}Z host{:02} {process}[{}]: level=INFO {ids} client_ip={address} url={url} status=200 \
             {sizes} msg=\"{prefix} after {} attempts\"\n",
            next(10),
            next(32_768),
            next(9),
        );
        text.extend_from_slice(line.as_bytes());
    }
    text
}
