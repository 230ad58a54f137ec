//! Subsearches beyond their limits end with the rows so far, and the search goes on.

use std::sync::Arc;

use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::Dataflow;
use quarry_stdx::ManualClock;

use crate::plan::tests::runner;
use crate::run::Runner;

/// Rows of a search, and its messages. Each batch of a buffer takes 40 s.
fn run(search: &str, time_max_s: u64) -> (usize, Vec<String>, bool) {
    let parsed = quarry_spl::parse(search);
    assert!(parsed.is_ok(), "{search}: {:?}", parsed.diagnostics);
    let runner = runner("*");
    let clock = ManualClock::shared(0);
    runner.context.stop.set_clock(clock.clone());
    let observer = Arc::new(move || clock.advance_ns(40_000_000_000));
    let stop = &runner.context.stop;
    let dataflow = Dataflow::new(64 << 20, None).unwrap().for_search(stop).with_observer(observer);
    let mut context = CommandContext { dataflow: Arc::new(dataflow), ..runner.context.clone() };
    context.subsearches.time_s = time_max_s;
    context.subsearches.join_time_s = time_max_s;
    let runner = Runner { context: context.clone(), ..runner };
    let rows = runner.run(&parsed.pipeline).unwrap();
    let rows = rows.map(|batch| batch.unwrap().num_rows()).sum();
    (rows, context.messages.list(), context.stop.is_partial())
}

const LIMITED: &str = "[subsearch]: Search auto-finalized after time limit (60 seconds) reached.";

#[test]
fn subsearches_that_run_too_long_end_with_their_rows_so_far() {
    let slow = "| makeresults count=100000 | streamstats count AS n | reverse";
    for search in [
        format!("| makeresults | append [{slow}]"),
        format!("| makeresults | eval n=1 | join type=left n [{slow}]"),
        format!("| makeresults | appendcols [{slow}]"),
        format!("| set union [{slow}] [| makeresults]"),
    ] {
        let (rows, messages, is_partial) = run(&search, 60);
        assert!(rows > 0 && rows < 50_000, "{search}: {rows} rows");
        assert!(messages.iter().any(|message| message == LIMITED), "{search}: {messages:?}");
        assert!(is_partial, "{search}");
        let (_, messages, is_partial) = run(&search, 0);
        assert!(
            !is_partial && !messages.iter().any(|message| message.contains("time limit")),
            "{search}: {messages:?}"
        );
    }
    let own = format!("| makeresults | append maxtime=0 [{slow}]");
    assert!(!run(&own, 60).2, "maxtime= replaces the default");
    let (_, messages, is_partial) = run(&format!("| makeresults | append maxtime=70 [{slow}]"), 0);
    assert!(is_partial && messages[0].contains("(70 seconds)"), "{messages:?}");
}
