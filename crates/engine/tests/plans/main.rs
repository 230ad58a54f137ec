//! The answer of a search depends on its events alone: not on how they are stored, in which portions they are read, or
//! how much memory there is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod exchange;
mod generator;
mod members;
mod nested_groups;
mod random_searches;
mod shapes;
mod text_searches;
mod world;

use quarry_engine::{Engine, Slicing};
use tempfile::tempdir;

use crate::generator::{Rng, search};
use crate::shapes::SHAPES;
use crate::world::{SearchOutcome, StoredEvents, engine, run_search, storage_forms, tiny};

/// Memory limit within which no search of these tests spills.
const SUFFICIENT_BYTES: usize = 1 << 30;
/// Memory limit at which most searches that buffer rows spill to files.
const SPILLING_BYTES: usize = 600 << 10;
/// Text by which an error of the memory limit is recognised.
const LIMIT: &str = "max_mem_usage_mb";
/// Events, a little more than a page.
const EVENTS: u64 = 4_500;
/// Maximum number of differences shown.
const DIFFERENCES_SHOWN_MAX: usize = 12;

fn is_memory_error(answer: &SearchOutcome) -> bool {
    matches!(answer, Err(error) if error.contains(LIMIT))
}

/// Describes the first difference between two answers.
fn difference(found: &SearchOutcome, expected: &SearchOutcome) -> String {
    match (found, expected) {
        (Ok(found), Ok(expected)) => {
            let rows = 0..found.len().max(expected.len());
            let row = rows.into_iter().find(|row| found.get(*row) != expected.get(*row)).unwrap_or(0);
            let (was, is) = (expected.get(row), found.get(row));
            format!(
                "{} rows, {} expected; row {row}\n  found    {is:?}\n  expected {was:?}",
                found.len(),
                expected.len()
            )
        }
        _ => format!("found {found:?}, expected {expected:?}"),
    }
}

struct Variant<'a> {
    name: String,
    form: &'a StoredEvents,
    engine: &'a Engine,
    may_be_short: bool,
}

#[test]
fn all_plans_give_the_same_results() {
    let folder = tempdir().unwrap();
    let forms = storage_forms(folder.path(), EVENTS);
    let plain = engine(SUFFICIENT_BYTES, Slicing::default());
    let sliced = engine(SUFFICIENT_BYTES, tiny());
    let little = engine(SPILLING_BYTES, tiny());
    let mut variants = Vec::new();
    for form in &forms {
        let variant = |name: &str, engine| Variant {
            name: format!("{}, {name}", form.name),
            form,
            engine,
            may_be_short: name.starts_with("little"),
        };
        variants.push(variant("whole", &plain));
        if matches!(form.name, "hot" | "sealed" | "half sealed") {
            variants.push(variant("tiny slices", &sliced));
        }
        if form.name == "sealed" {
            variants.push(variant("little memory", &little));
        }
    }
    let mut faults = Vec::new();
    let (mut empty, mut short) = (Vec::new(), Vec::new());
    for search in SHAPES {
        let expected = run_search(&plain, &forms[0].kept, search);
        match &expected {
            Err(error) => faults.push(format!("{search}: {error}")),
            Ok(rows) if rows.len() < 2 && !search.starts_with("nothing") => empty.push(*search),
            Ok(_) => {}
        }
        for variant in &variants[1..] {
            let found = run_search(variant.engine, &variant.form.kept, search);
            if variant.may_be_short && is_memory_error(&found) {
                short.push(*search);
            } else if found != expected {
                faults.push(format!("{search} ({}): {}", variant.name, difference(&found, &expected)));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} differ\n{}",
        faults.len(),
        faults[..faults.len().min(DIFFERENCES_SHOWN_MAX)].join("\n")
    );
    assert!(empty.is_empty(), "no rows of {empty:#?}");
    assert!(short.len() * 5 < SHAPES.len(), "{} of {} ran out of memory: {short:#?}", short.len(), SHAPES.len());
}

/// Number of events that generated searches read.
const FEW_EVENTS: u64 = 400;
/// Number of generated searches per test run.
const SEEDS: u64 = 300;

/// Runs the searches of `seeds` over whole segments and over tiny slices, and compares the results.
fn run_generated(seeds: std::ops::Range<u64>) {
    let folder = tempdir().unwrap();
    let forms = storage_forms(folder.path(), FEW_EVENTS);
    let plain = engine(SUFFICIENT_BYTES, Slicing::default());
    let sliced = engine(SUFFICIENT_BYTES, tiny());
    let mut faults = Vec::new();
    let (mut answered, mut with_rows) = (0u64, 0u64);
    for seed in seeds.clone() {
        let text = search(seed);
        let expected = columns_sorted(run_search(&plain, &forms[0].kept, &text));
        match &expected {
            Ok(rows) => {
                answered += 1;
                with_rows += u64::from(rows.iter().any(|row| !row.starts_with("columns ")));
            }
            Err(error) if is_expected_error(error) => {}
            Err(error) => faults.push(format!("seed {seed}: {text}\n  {error}")),
        }
        for form in &forms[1..] {
            let found = columns_sorted(run_search(&sliced, &form.kept, &text));
            if found != expected {
                faults.push(format!("seed {seed} ({}): {text}\n  {}", form.name, difference(&found, &expected)));
            }
        }
        check_truncated(seed, &text);
    }
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults[..faults.len().min(DIFFERENCES_SHOWN_MAX)].join("\n")
    );
    let count = seeds.end - seeds.start;
    assert!(
        answered * 10 > count * 9 && with_rows * 3 > count,
        "{answered} answered, {with_rows} with rows, of {count}"
    );
}

/// Sorts the columns: where rows of a report contain events, the order of fields depends on the pages read.
fn columns_sorted(answer: SearchOutcome) -> SearchOutcome {
    let sorted = |line: String| match line.strip_prefix("columns ") {
        Some(names) => {
            let mut names: Vec<&str> = names.split(", ").collect();
            names.sort_unstable();
            format!("columns {}", names.join(", "))
        }
        None => line,
    };
    answer.map(|lines| lines.into_iter().map(sorted).collect())
}

/// Whether an error is one that a correct search may end with.
fn is_expected_error(error: &str) -> bool {
    ["timechart needs", "has no _time", "not a number"].iter().any(|part| error.contains(part))
}

/// A truncated search parses or yields errors, wherever it is cut.
fn check_truncated(seed: u64, text: &str) {
    let mut rng = Rng::new(seed ^ 0xC07);
    for _ in 0..3 {
        let mut at = rng.below(text.len() as u64) as usize;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let cut = quarry_spl::parse(&text[..at]);
        assert!(cut.diagnostics.iter().all(|remark| remark.span.end <= at && remark.span.start <= remark.span.end));
    }
}

/// For more or other seeds: `cargo xtask soak-searches --seeds N --from SEED`.
#[test]
#[expect(clippy::disallowed_methods, reason = "SOAK_SEEDS and SOAK_FROM say which searches")]
fn generated_searches_give_the_same_results_in_slices() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let from = number("SOAK_FROM", 0);
    run_generated(from..from + number("SOAK_SEEDS", SEEDS));
}
