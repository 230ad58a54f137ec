//! Runs the pipeline over real samples, which are stored next to the repository; skipped if they are missing.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::PathBuf;

use jiff::tz::TimeZone;
use quarry_conf::{Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_event::time::{Format, ResolveContext, TimeNs};
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};

/// 2026-11-21T07:00:00Z.
const NOW: TimeNs = 1_795_244_400_000_000_000;
/// Number of lines of each sample.
const LINES: usize = 2_000;

/// File, number of words before the time on each line, format of the time.
const SAMPLES: [(&str, usize, &str); 8] = [
    ("Android", 0, "%m-%d %H:%M:%S.%3N"),
    ("Apache", 0, "[%a %b %d %H:%M:%S %Y]"),
    ("HDFS", 0, "%y%m%d %H%M%S"),
    ("Linux", 0, "%b %d %H:%M:%S"),
    ("OpenSSH", 0, "%b %d %H:%M:%S"),
    ("OpenStack", 1, "%Y-%m-%d %H:%M:%S.%3N"),
    ("Windows", 0, "%Y-%m-%d %H:%M:%S"),
    ("Zookeeper", 0, "%Y-%m-%d %H:%M:%S,%3N"),
];

fn sample(name: &str) -> Option<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/loghub");
    std::fs::read(PathBuf::from(folder).join(format!("{name}_2k.log"))).ok()
}

fn run(bytes: &[u8], name: &str, sourcetype: Option<&str>) -> (EventBatch, Pipeline) {
    let props = PropsResolver::new(&Layers::new([]));
    let info = SourceInfo {
        index: "main".to_owned(),
        host: "lab".to_owned(),
        host_is_fixed: false,
        source: format!("/data/{name}_2k.log"),
        sourcetype: sourcetype.map(str::to_owned),
    };
    let context = PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified: None, orders: None };
    let mut pipeline = Pipeline::new(info, &props, context).unwrap();
    let mut events = EventBatch::default();
    for chunk in bytes.chunks(10_007) {
        pipeline.push(chunk, &mut events);
    }
    pipeline.finish(&mut events);
    (events, pipeline)
}

#[test]
fn every_line_is_an_event_with_its_own_time() {
    let context = ResolveContext { now: NOW, tz: &TimeZone::UTC, last: None };
    for (name, words, format) in SAMPLES {
        let Some(bytes) = sample(name) else {
            println!("skipped {name}: the samples are not beside the repository");
            continue;
        };
        let format = Format::new(format).unwrap();
        for sourcetype in [None, Some("generic_single_line")] {
            let (events, pipeline) = run(&bytes, name, sourcetype);
            let label = format!("{name} as {:?}: {:?}", pipeline.sourcetype(), pipeline.guess());
            println!("{label}");
            assert_eq!(events.len(), LINES, "{label}");
            assert_eq!(pipeline.counters().bad_timestamps, 0, "{label}");
            assert_eq!(pipeline.counters().truncated_lines, 0, "{label}");
            assert_eq!(pipeline.safe_offset(), bytes.len() as u64, "{label}");
            for row in 0..events.len() {
                let text = std::str::from_utf8(events.raw(row)).unwrap();
                let start = text.split(' ').take(words).map(|word| word.len() + 1).sum();
                let time = format.parse(&text.as_bytes()[start..], &context);
                assert_eq!(Some(events.time[row]), time, "{label}: {text}");
            }
        }
    }
}
