//! A cancelled search works on no further batch, whichever command it is in.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::record_batch::RecordBatch;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::Dataflow;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, ColumnBuilder, batch_of, of_batches};
use quarry_stdx::ManualClock;

use super::{apply, apply_to_events};
use crate::plan::tests::runner;

/// Commands that process all their rows once more after the last row has arrived.
const SEARCHES: &[&str] = &[
    "sort 0 name",
    "sort 0 -number, name",
    "sort 0 name | sort 0 -number | sort 0 name",
    "sort 0 name | streamstats count by name",
    "dedup name sortby -number",
    "eventstats count by name",
    "eventstats max(number) by name | eventstats count",
    "reverse",
    "tail 5000",
    "fillnull",
    "xyseries name number word",
    "stats count by name, number",
    "stats values(number) by name",
    "chart limit=0 count by name, word",
    "timechart span=1m count by word",
    "top 0 name",
    "transaction word maxspan=20s",
    "selfjoin name",
    "appendpipe [stats count by name]",
    "outlier number",
    "anomalydetection number",
    "cluster field=name",
    "makecontinuous _time span=10",
    "eval many=split(name.\",\".word, \",\") | mvexpand many | sort 0 many",
    "rare limit=0 name by word",
    "stats count by name | sort 0 -count",
    "untable name field value | stats count by value",
    "mvcombine word",
    "trendline sma5(number) | reverse",
    "streamstats window=50 avg(number) by word | reverse",
    "stats dc(number) list(word) by name",
    "kmeans k=3 number",
    "anomalies field=word",
    "autoregress number p=2 | reverse",
    "contingency name word",
    "uniq | reverse",
];
/// A memory limit that fits all rows, and a limit that does not.
const MEMORY: [usize; 2] = [64 << 20, 192 << 10];
const BATCHES: usize = 16;
const BATCH_ROWS: usize = 250;
/// Maximum number of checks at which each search is cancelled, one per run.
const PLACES_MAX: usize = 8;

fn batches() -> Vec<RecordBatch> {
    let batch = |batch: usize| {
        let columns = ["_time", "name", "number", "word"].map(|name| {
            let mut column = ColumnBuilder::new(BATCH_ROWS);
            for at in (0..BATCH_ROWS).map(|row| batch * BATCH_ROWS + row) {
                match name {
                    "_time" => column.push_time(1_795_000_000_000_000_000 - at as i64 * 1_000_000_000),
                    "name" => column.push_text(&format!("n{}", at * 7_919 % 1_009)),
                    "number" => column.push_text(&(at * 31 % 257).to_string()),
                    _ => column.push_text(["red", "green", "blue"][at % 3]),
                }
            }
            (name, column.finish())
        });
        batch_of(columns, BATCH_ROWS).unwrap()
    };
    (0..BATCHES).map(batch).collect()
}

/// Runs commands and cancels them at the check with this number. Returns the number of checks, and whether the search
/// came to its end.
fn run(search: &str, memory: usize, cancelled_at: usize) -> (usize, bool) {
    let parsed = quarry_spl::parse(&format!("* | {search}"));
    assert!(parsed.is_ok(), "{search}: {:?}", parsed.diagnostics);
    let runner = runner("*");
    let (stop, seen) = (Arc::clone(&runner.context.stop), Arc::new(AtomicUsize::new(0)));
    let (observed, cancelled) = (Arc::clone(&seen), Arc::clone(&stop));
    let observer = Arc::new(move || {
        if observed.fetch_add(1, Ordering::Relaxed) + 1 == cancelled_at {
            cancelled.cancel();
        }
    });
    let dataflow = Dataflow::new(memory, None).unwrap().for_search(&stop).with_observer(observer);
    let context = CommandContext { dataflow: Arc::new(dataflow), ..runner.context.clone() };
    let rows = runner.chain(of_batches(batches()), &parsed.pipeline.commands[1..], &context);
    let is_complete = rows.and_then(|rows| rows.collect::<Result<Vec<_>, _>>()).is_ok();
    (seen.load(Ordering::Relaxed), is_complete)
}

#[test]
fn cancelled_searches_take_no_further_batch_from_a_buffer() {
    for (search, memory) in SEARCHES.iter().flat_map(|search| MEMORY.map(|memory| (search, memory))) {
        let (checks, is_complete) = run(search, memory, usize::MAX);
        if !is_complete {
            assert!(memory < MEMORY[0], "{search} fails");
            continue;
        }
        assert!(checks > 0, "{search} has no check at which it can be cancelled");
        for cancelled_at in (1..=checks).step_by(checks.div_ceil(PLACES_MAX)) {
            let (seen, is_complete) = run(search, memory, cancelled_at);
            assert_eq!(seen, cancelled_at, "{search} with {memory} bytes continues after it was cancelled");
            assert!(!is_complete, "{search} with {memory} bytes returns rows after it was cancelled");
        }
    }
}

/// Commands, each with its number of rows if the search is finalised and half of the batches arrive in time.
const FINISHED: &[(&str, usize)] = &[
    ("eval a=1", 2_000),
    ("eval a=1 | stats count by name", 1_009),
    ("stats count | eval a=1 | where count=2000", 1),
    ("sort 0 name | eval a=1", 2_000),
    ("reverse | eval a=1 | sort 0 name", 2_000),
    ("kmeans k=3 number", 2_000),
    ("eventstats count | where count=2000", 2_000),
    ("cluster t=0.9 labelonly=t field=name", 2_000),
];

#[test]
fn searches_told_to_finish_process_the_events_that_came_in_time() {
    for (search, expected) in FINISHED {
        let parsed = quarry_spl::parse(&format!("* | {search}"));
        let runner = runner("*");
        let (clock, context) = (ManualClock::shared(0), &runner.context);
        context.stop.set_clock(clock.clone());
        context.stop.finish_early();
        let rows = batches().into_iter().enumerate().map(move |(at, batch)| {
            clock.advance_ns(if at + 1 == BATCHES / 2 { 1_000_000_000 } else { 0 });
            Ok(batch)
        });
        let steps = runner.steps(&parsed.pipeline.commands[1..], context).unwrap();
        let made = apply_to_events(Box::new(rows), steps, context).unwrap();
        let made: usize = made.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(made, *expected, "{search}");
        assert!(context.stop.was_cut() && context.stop.is_partial(), "{search}");
    }
}

/// Commands, each with its number of rows if the search was finalised and reading a batch from a buffer takes 40
/// ms.
const SLOW: &[(&str, usize)] = &[
    // Four batches arrive within 150 ms.
    ("reverse", 1_000),
    // `eval` begins after 150 ms and may still work for 50 ms.
    ("reverse | eval a=1", 500),
    ("reverse | eval a=1 | stats count | where count=500", 1),
    // `foreach` copies each batch to a buffer of its own, which takes another 40 ms per batch.
    ("reverse | foreach na* [eval <<FIELD>>=1]", 250),
];

#[test]
fn searches_told_to_finish_end_before_all_rows_of_a_buffer_are_processed() {
    for (search, expected) in SLOW {
        let parsed = quarry_spl::parse(&format!("* | {search}"));
        let runner = runner("*");
        let (clock, stop) = (ManualClock::shared(0), Arc::clone(&runner.context.stop));
        stop.set_clock(clock.clone());
        stop.finish_early();
        let observer = Arc::new(move || clock.advance_ns(40_000_000));
        let dataflow = Dataflow::new(MEMORY[0], None).unwrap().for_search(&stop).with_observer(observer);
        let context = CommandContext { dataflow: Arc::new(dataflow), ..runner.context.clone() };
        let steps = runner.steps(&parsed.pipeline.commands[1..], &context).unwrap();
        let made = apply(of_batches(batches()), steps, &context).unwrap();
        let made: usize = made.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(made, *expected, "{search}");
        assert!(stop.was_cut() && stop.is_partial(), "{search}");
    }
}

#[test]
fn commands_that_write_receive_all_rows_of_a_search_told_to_finish() {
    let parsed = quarry_spl::parse("* | reverse | eval a=1");
    let runner = runner("*");
    let (clock, stop) = (ManualClock::shared(0), Arc::clone(&runner.context.stop));
    stop.set_clock(clock.clone());
    stop.keep_rows();
    stop.finish_early();
    let observer = Arc::new(move || clock.advance_ns(40_000_000));
    let dataflow = Dataflow::new(MEMORY[0], None).unwrap().for_search(&stop).with_observer(observer);
    let context = CommandContext { dataflow: Arc::new(dataflow), ..runner.context.clone() };
    let steps = runner.steps(&parsed.pipeline.commands[1..], &context).unwrap();
    let made = apply(of_batches(batches()), steps, &context).unwrap();
    let all: usize = batches().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(made.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), all);
}

/// Commands that work for long after they have received all rows, if the rows do not fit into memory.
const SPILLED: &[&str] =
    &["sort 0 name", "sort 0 -number, name", "stats count by name, number", "stats values(number) by name"];

/// The rows of a search as texts. The search is finalised when its first command has received all rows; each batch
/// of a buffer then takes `batch_ns`.
fn finished_lines(search: &str, batch_ns: i64, may_cut: bool) -> Vec<String> {
    let parsed = quarry_spl::parse(&format!("* | {search}"));
    let runner = runner("*");
    let (clock, stop) = (ManualClock::shared(0), Arc::clone(&runner.context.stop));
    stop.set_clock(clock.clone());
    if !may_cut {
        stop.keep_rows();
    }
    let observer = Arc::new(move || clock.advance_ns(batch_ns));
    let dataflow = Dataflow::new(MEMORY[1], None).unwrap().for_search(&stop).with_observer(observer);
    let context = CommandContext { dataflow: Arc::new(dataflow), ..runner.context.clone() };
    let told = Arc::clone(&stop);
    let rows = batches().into_iter().map(Ok).chain(std::iter::from_fn(move || {
        told.finish_early();
        None
    }));
    let steps = runner.steps(&parsed.pipeline.commands[1..], &context).unwrap();
    let mut lines = Vec::new();
    for batch in apply(Box::new(rows), steps, &context).unwrap() {
        let batch = batch.unwrap();
        let readers: Vec<_> = names_of(&batch).iter().map(|name| rows::reader(&batch, name)).collect();
        lines.extend((0..batch.num_rows()).map(|row| {
            let cells: Vec<String> =
                readers.iter().map(|cells| cells.values(row).collect::<Vec<_>>().join("+")).collect();
            cells.join(" ")
        }));
    }
    assert!(!stop.was_cut() || may_cut, "{search}");
    lines
}

#[test]
fn spilled_work_of_a_search_told_to_finish_ends_with_a_part_of_the_rows() {
    for search in SPILLED {
        let all = finished_lines(search, 0, true);
        let some = finished_lines(search, 40_000_000, true);
        assert!(!some.is_empty() && some.len() < all.len(), "{search}: {} of {} rows", some.len(), all.len());
        // Groups are complete, and sorted rows are in order.
        let kept: std::collections::HashSet<&String> = some.iter().collect();
        let expected: Vec<&String> = all.iter().filter(|line| kept.contains(line)).collect();
        assert_eq!(some.iter().collect::<Vec<_>>(), expected, "{search}");
        assert_eq!(finished_lines(search, 40_000_000, false), all, "{search} in a search that writes");
    }
}
