//! Stored sizes of irregular logs: `irregular_sizes MEGABYTES SAMPLES_FOLDER [NAME...]` prints a line per log.
//!
//! A line compares the stored bytes (object and filter), sealed and compacted, with those of zstd level 3 over blocks
//! of 8 MB, and shows the speed of encoding and verifying on one core. With names, only logs whose names begin with one
//! of them are measured, and the bytes of each kind of block are printed as well. A development tool.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_bucket::{
    BucketReader, EncodeOptions, EncodedBucket, Locators, MAX_SLAB_EVENTS, MemoryObject, SlabSource,
    TARGET_SLAB_RAW_BYTES, encode_slabs, verify_slabs,
};
use quarry_event::{EventBatch, Metadata};
use quarry_eventgen::irregular_logs::Irregular;
use quarry_eventgen::repeats::{Stamp, repeat};

const SEED: u64 = 11;
const START_S: i64 = 1_795_132_800;
const BLOCK_BYTES: usize = 8 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let bytes = arguments[0].parse::<u64>().unwrap() << 20;
    let names = &arguments[2..];
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| name.starts_with(wanted.as_str()));
    println!("log: raw MB, zstd-3 %, sealed % (of zstd), MB/s encode, verify, both; compacted % (of zstd), MB/s both");
    let mut samples: Vec<_> = std::fs::read_dir(&arguments[1]).unwrap().map(|entry| entry.unwrap().path()).collect();
    samples.sort();
    for path in samples {
        let name = path.file_name().unwrap().to_str().unwrap();
        if wanted(name) {
            let sample = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            let mut slabs = Slabs::default();
            repeat(&sample, Stamp::of(name), SEED, bytes, START_S, &mut |event| slabs.push(event));
            measure(name, &slabs, !names.is_empty());
        }
    }
    for kind in Irregular::ALL.into_iter().filter(|kind| wanted(kind.name())) {
        let mut slabs = Slabs::default();
        kind.write(SEED, bytes, START_S, &mut |event| slabs.push(event));
        measure(kind.name(), &slabs, !names.is_empty());
    }
}

#[derive(Default)]
struct Slabs {
    batches: Vec<EventBatch>,
    text: Vec<u8>,
}

impl Slabs {
    fn push(&mut self, event: &str) {
        let is_full = self.batches.last().is_none_or(|batch| {
            batch.len() == MAX_SLAB_EVENTS || batch.raw.len() + event.len() > TARGET_SLAB_RAW_BYTES
        });
        if is_full {
            let mut batch = EventBatch { index_time: START_S * 1_000_000_000, ..EventBatch::default() };
            let name: Arc<str> = "irregular".into();
            batch.intern(&Metadata { index: name.clone(), host: name.clone(), source: name.clone(), sourcetype: name });
            self.batches.push(batch);
        }
        let batch = self.batches.last_mut().unwrap();
        batch.push(event.as_bytes(), batch.index_time + batch.len() as i64 * 20_000_000, 0);
        self.text.extend_from_slice(event.as_bytes());
        self.text.push(b'\n');
    }
}

fn measure(name: &str, slabs: &Slabs, in_detail: bool) {
    let zstd: usize = slabs.text.chunks(BLOCK_BYTES).map(|block| zstd::bulk::compress(block, 3).unwrap().len()).sum();
    let sources: Vec<SlabSource<'_>> = slabs.batches.iter().map(SlabSource::of).collect();
    let raw = slabs.text.len() as f64;
    let run = |zstd_level| {
        let start = seconds();
        let encoded = encode_slabs(
            &sources,
            &EncodeOptions { zstd_level, templates: true, locators: Locators::included_if(zstd_level > 1) },
        )
        .unwrap();
        let encode = seconds() - start;
        verify_slabs(&encoded, &sources).unwrap();
        (encoded, encode, seconds() - start - encode)
    };
    let (sealed, encode, verify) = run(1);
    let (compacted, encode_cold, verify_cold) = run(9);
    let rate = |seconds: f64| raw / 1e6 / seconds;
    let stored = |bucket: &EncodedBucket| (bucket.object.len() + bucket.filter.len()) as f64;
    println!(
        "{name}: {:.1}, {:.2}, {:.2} ({:.2}), {:.0} {:.0} {:.0}; {:.2} ({:.2}), {:.0}",
        raw / 1e6,
        zstd as f64 * 100.0 / raw,
        stored(&sealed) * 100.0 / raw,
        stored(&sealed) / zstd as f64,
        rate(encode),
        rate(verify),
        rate(encode + verify),
        stored(&compacted) * 100.0 / raw,
        stored(&compacted) / zstd as f64,
        rate(encode_cold + verify_cold),
    );
    if in_detail {
        [("sealed", &sealed), ("compacted", &compacted)].iter().for_each(|(what, bucket)| details(what, bucket, raw));
    }
}

fn details(what: &str, bucket: &EncodedBucket, raw: f64) {
    let reader = BucketReader::open(Arc::new(MemoryObject(bucket.object.clone()))).unwrap();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut columns, mut with_templates) = (0, 0);
    for slab in 0..reader.slabs().len() {
        for (kind, bytes) in reader.stored_bytes_by_kind(slab).unwrap() {
            *kinds.entry(kind).or_default() += bytes;
        }
        let template_set = reader.template_set(slab).unwrap();
        with_templates += usize::from(template_set.is_some());
        columns += template_set.map_or(0, |template_set| template_set.columns.len());
    }
    kinds.insert("filter", bucket.filter.len() as u64);
    println!("  {what}: {with_templates} of {} slabs with templates, {columns} columns", reader.slabs().len());
    kinds.iter().for_each(|(kind, bytes)| println!("    {kind}: {:.3} %", *bytes as f64 * 100.0 / raw));
}

/// CPU seconds of this thread, so that other load on the machine does not count.
fn seconds() -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    spent.split_whitespace().next().and_then(|text| text.parse::<f64>().ok()).unwrap() / 1e9
}
