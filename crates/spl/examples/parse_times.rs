//! Measures the time to parse and to analyse searches: `cargo run --release -p quarry-spl --example parse_times
//! FILE`. Each line of FILE is a search, or a JSON object with a search under `search_expanded`.

#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use quarry_spl::analyse::required_fields;
use quarry_spl::dependencies::Dependencies;
use quarry_spl::parse_with_unknown_macros;

/// Number of runs of each search; the fastest counts.
const RUNS: usize = 5;
/// Text before the search in a line that is a JSON object.
const FIELD: &str = "\"search_expanded\": \"";

/// Returns the search in a line of the file.
fn search_of(line: &str) -> String {
    let Some(start) = line.find(FIELD).map(|at| at + FIELD.len()) else { return line.to_owned() };
    let mut text = String::new();
    let mut characters = line[start..].chars();
    while let Some(next) = characters.next().filter(|next| *next != '"') {
        match (next, next == '\\') {
            (_, true) => match characters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            (plain, false) => text.push(plain),
        }
    }
    text
}

fn main() {
    let path = std::env::args().nth(1).expect("name a file");
    let text = std::fs::read_to_string(&path).expect("the file can be read");
    let mut times: Vec<(Duration, usize)> = Vec::new();
    for search in text.lines().filter(|line| !line.trim().is_empty()).map(search_of) {
        let time = || {
            let begun = Instant::now();
            let parsed = parse_with_unknown_macros(&search);
            std::hint::black_box((required_fields(&parsed.pipeline.commands), Dependencies::of(&parsed.pipeline)));
            begun.elapsed()
        };
        times.push(((0..RUNS).map(|_| time()).min().unwrap_or_default(), search.len()));
    }
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{} searches; median {:?} ({} bytes), longest {:?} ({} bytes)",
        times.len(),
        median.0,
        median.1,
        longest.0,
        longest.1
    );
}
