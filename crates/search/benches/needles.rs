//! Needles in process: several threads search for single user ids and sessions, without HTTP.
//!
//! `cargo bench -p quarry-search --bench needles -- DATA_DIR FILE [THREADS] [SECONDS]`: `DATA_DIR` holds the indexed
//! syslog.log of the comparison data, and `FILE` is that log. Needles are taken from lines spread over the log, as in
//! `cargo xtask bench`. A server would add only its protocol. Searches for absent ids measure the upper limit of the
//! rate: each only probes the term filter of every slab.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use quarry_engine::{EngineOptions, STACK_BYTES};
use quarry_search::{SearchParams, SearchService, SearchServiceParts};
use quarry_stdx::SystemClock;
use quarry_store::{Store, StoreOptions};

/// Number of lines from which a user id or a session is taken as needle.
const LINES: u64 = 4_096;
/// Stack large enough for a search to run on the calling thread.
const THREAD_STACK_BYTES: usize = STACK_BYTES + (1 << 20);
/// Number of bytes read at each position, enough to contain a whole line.
const LINE_BYTES: usize = 4_096;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [data, file, more @ ..] = &arguments[..] else {
        return println!("give a data directory and the log file that was added to it");
    };
    let number = |at: usize, default: usize| more.get(at).map_or(default, |text| text.parse().unwrap());
    let (threads, seconds) = (number(0, 2), Duration::from_secs(number(1, 5) as u64));
    let clock = SystemClock::shared();
    let options =
        EngineOptions { memory_bytes: 1 << 30, spill: None, partial_state_bytes: 0, ..EngineOptions::default() };
    let service = SearchService::new(SearchServiceParts {
        engine: quarry_testworld::engine(&options),
        source: Store::open_read_only(StoreOptions::at(data.as_str()), clock.clone()).unwrap(),
        clock,
        zone: TimeZone::UTC,
        default_indexes: vec!["main".to_owned()],
        recorder: None,
        summaries: None,
    });
    let needles = read_needles(file);
    let absent: Vec<String> =
        (0..LINES).map(|at| format!("session=00000000-{at:04x}-4000-8000-000000000000")).collect();
    for (what, searches, is_there) in [("needles", &needles, true), ("absent ids", &absent, false)] {
        // A first round caches blocks and filters.
        searches.iter().for_each(|search| assert_eq!(finds_event(&service, search), is_there, "{search}"));
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let thread = std::thread::Builder::new().stack_size(THREAD_STACK_BYTES);
                let work = || {
                    while start.elapsed() < seconds {
                        let search = &searches[next.fetch_add(1, Ordering::Relaxed) % searches.len()];
                        assert_eq!(finds_event(&service, search), is_there, "{search}");
                    }
                };
                thread.spawn_scoped(scope, work).unwrap();
            }
        });
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        println!("{what}: {:.0} a minute on {threads} threads", next.into_inner() as f64 / minutes);
    }
}

fn finds_event(service: &SearchService, search: &str) -> bool {
    let params = SearchParams { text: search.to_owned(), ..SearchParams::for_owner() };
    !service.run(params).unwrap().table.is_empty()
}

fn read_needles(file: &str) -> Vec<String> {
    let mut file = File::open(file).unwrap();
    let step = file.metadata().unwrap().len() / (LINES + 1);
    let mut needles = Vec::new();
    let mut buffer = vec![0; LINE_BYTES];
    for at in 0..LINES {
        file.seek(SeekFrom::Start(at * step)).unwrap();
        let read = file.read(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..read]);
        let Some(line) = text.lines().nth(1) else { continue };
        let field = if at % 2 == 0 { "user_id" } else { "session" };
        let value = line.split(' ').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
        needles.extend(value.map(|value| format!("{field}={value} | table _time, {field}")));
    }
    needles
}
