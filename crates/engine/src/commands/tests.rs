//! Commands return the same table for rows of texts and for coded rows. Folding commands do so with any number of
//! workers, whether or not their groups fit into memory.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::command::Reduce;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::{Dataflow, Slicing};
use quarry_eval::expr::ExprContext;
use quarry_eval::rows::of_batches;
use quarry_event::TimeRange;
use quarry_spl::ast::Command;
use quarry_testworld::coded_rows::{batches, lines_of};

use super::chart::Chart;
use super::timechart::TimeChart;
use super::top::Top;
use crate::plan::tests::runner;

fn reduce_of(search: &str) -> Arc<dyn Reduce> {
    let parsed = quarry_spl::parse(&format!("* | {search}"));
    assert!(parsed.is_ok(), "{search}: {:?}", parsed.diagnostics);
    let context = ExprContext::new(0, jiff::tz::TimeZone::UTC);
    match &parsed.pipeline.commands[1].command {
        Command::Chart(chart) => Arc::new(Chart::new(chart, &context).unwrap()),
        Command::TimeChart(chart) => Arc::new(TimeChart::new(chart, &context).unwrap()),
        Command::Top(top) => Arc::new(Top::new(top)),
        other => panic!("{other:?}"),
    }
}

/// The memory of a search.
const MEMORY_BYTES: usize = 64 << 20;

/// The table with ordered rows, folded by one `Folder` or by one `Folder` per batch. Each of them has one of `shares`
/// equal shares of the memory.
fn table(search: &str, batches: &[RecordBatch], workers: bool, shares: usize) -> Vec<String> {
    let slicing = Slicing { workers: Some(shares), ..Slicing::default() };
    let dataflow = Arc::new(Dataflow::new(MEMORY_BYTES, None).unwrap().with_slicing(&slicing));
    let context = CommandContext { range: TimeRange::ALL, dataflow, ..runner("*").context };
    let reduce = reduce_of(search);
    reduce.prepare(Some((0, 9_000 * 1_000_000_000)), &context);
    let mut folders = vec![reduce.folder(&context).unwrap()];
    for (rows, slice) in batches.iter().zip(0..) {
        if workers && slice > 0 {
            folders.push(reduce.folder(&context).unwrap());
        }
        folders.last_mut().unwrap().add(rows, slice, 0).unwrap();
    }
    let rows: Vec<RecordBatch> = reduce.finish(folders, &context).unwrap().collect::<Result<_, _>>().unwrap();
    let schema = rows[0].schema();
    let mut lines = vec![schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(" ")];
    for batch in &rows {
        (0..batch.num_rows()).for_each(|row| lines.extend(lines_of(&batch.slice(row, 1))));
    }
    lines
}

#[test]
fn tables_are_the_same_for_codes_and_texts_and_for_any_workers_and_memory() {
    let [texts, typed, dictionaries, mixed] = batches();
    for search in [
        "chart count by word",
        "chart count, dc(user) by word, path",
        "chart limit=2 avg(price) over user by word",
        "chart useother=f limit=3 sum(user) over address by odd",
        "timechart span=1m count",
        "timechart span=90s aligntime=17 count by path",
        "timechart span=1h max(user) by word",
        "timechart span=1h count",
        "timechart span=1h count by path",
        "timechart span=20m count by address",
        "timechart span=1d count by word",
        "timechart dc(address) by odd",
        "timechart span=1d per_hour(user) by _time",
        "top user",
        "top limit=3 odd",
        "top limit=0 address",
        "top limit=2 path by word",
        "top limit=4 useother=t word, path",
        "rare limit=5 user",
        "rare odd by path",
        "top price",
    ] {
        /// A share of the memory that fits all groups, and a share that fits no group, so that every batch is spilled.
        const SHARES: [usize; 2] = [1, usize::MAX];
        let expected = table(search, &texts, false, SHARES[0]);
        assert!(expected.len() > 1, "{search}: {expected:?}");
        for rows in [&texts, &typed, &dictionaries, &mixed] {
            for (workers, shares) in
                [false, true].into_iter().flat_map(|workers| SHARES.map(|shares| (workers, shares)))
            {
                let found = table(search, rows, workers, shares);
                assert_eq!(found, expected, "{search}, workers: {workers}, shares of the memory: {shares}");
            }
        }
    }
}

/// The rows that leave these commands, as lines.
fn lines_after(commands: &str, batches: &[RecordBatch]) -> Vec<String> {
    let search = format!("* | {commands}");
    let (parsed, runner) = (quarry_spl::parse(&search), runner(&search));
    let rows = runner.chain(of_batches(batches.to_vec()), &parsed.pipeline.commands[1..], &runner.context).unwrap();
    rows.flat_map(|rows| lines_of(&rows.unwrap())).collect()
}

#[test]
fn commands_over_ordered_rows_return_the_same_table_for_codes_and_texts() {
    let [texts, typed, dictionaries, mixed] = batches();
    for commands in [
        "dedup address | stats count by word",
        "dedup 2 price path | stats count by address",
        "streamstats count as c by address | where c=3 | stats count by address",
        "streamstats current=f count as c, sum(price) as s by word | stats max(c) max(s) by word",
        "streamstats window=5 sum(price) as s, count(odd) as c by address | stats sum(s) sum(c) by address",
        "eventstats avg(price) as a, count as n by address | where price>a | stats count max(n) by address",
    ] {
        let expected = lines_after(commands, &texts);
        assert!(!expected.is_empty(), "{commands}");
        for rows in [&typed, &dictionaries, &mixed] {
            assert_eq!(lines_after(commands, rows), expected, "{commands}");
        }
    }
}
