//! Random events have the same transactions as in a model that compares each event with all open transactions.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::context::CommandContext;
use quarry_eval::dataflow::Dataflow;
use quarry_eval::rows::{ColumnBuilder, batch_of, of_batches};
use quarry_event::time::NS_PER_SEC;
use quarry_testworld::lines;

use crate::plan::tests::runner;

const EVENTS: usize = 3_000;
const BATCH_ROWS: usize = 200;
/// A memory limit with which batches are kept, and a limit with which events are copied out of them.
const MEMORY: [usize; 2] = [64 << 20, 4 << 20];

/// The events, newest first; each field has up to two values.
struct Events {
    times: Vec<i64>,
    fields: [Vec<Vec<String>>; 2],
}

/// Limits of the transactions in seconds and events.
#[derive(Clone, Copy, Debug)]
struct Limits {
    span: Option<i64>,
    pause: Option<i64>,
    events: usize,
}

struct ModelTransaction {
    key: [Option<String>; 2],
    members: Vec<usize>,
    changed: usize,
}

fn events(seed: usize, distinct: usize) -> Events {
    let mut state = seed as u32;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % most
    };
    let mut events = Events { times: Vec::new(), fields: [Vec::new(), Vec::new()] };
    let mut time = 1_795_000_000;
    for _ in 0..EVENTS {
        time -= 1 + draw(3) as i64;
        events.times.push(time);
        for (field, prefix) in events.fields.iter_mut().zip(["session of a user, number ", "n"]) {
            let count = [0, 1, 1, 1, 1, 1, 1, 2][draw(8)];
            // Some values are equal in both fields.
            let mut value = || match draw(20) {
                0 => "same".to_owned(),
                _ => format!("{prefix}{}", draw(distinct)),
            };
            let mut values: Vec<String> = (0..count).map(|_| value()).collect();
            values.dedup();
            field.push(values);
        }
    }
    events
}

fn batches(events: &Events) -> Vec<RecordBatch> {
    let batch = |rows: std::ops::Range<usize>| {
        let [mut time, mut first, mut second, mut number] = [(); 4].map(|()| ColumnBuilder::new(rows.len()));
        for at in rows.clone() {
            time.push_time(events.times[at] * NS_PER_SEC);
            first.push_multi(&events.fields[0][at]);
            second.push_multi(&events.fields[1][at]);
            number.push_int(at as i64);
        }
        let columns = [("_time", time), ("first", first), ("second", second), ("number", number)];
        batch_of(columns.map(|(name, column)| (name, column.finish())), rows.len()).unwrap()
    };
    (0..EVENTS).step_by(BATCH_ROWS).map(|start| batch(start..start + BATCH_ROWS)).collect()
}

/// The transactions by the given fields, newest first.
fn model(events: &Events, by: &[usize], limits: Limits) -> Vec<String> {
    let (mut open, mut closed): (Vec<ModelTransaction>, Vec<(ModelTransaction, bool)>) = (Vec::new(), Vec::new());
    for (at, time) in events.times.iter().enumerate() {
        let is_over = |one: &mut ModelTransaction| {
            let (newest, oldest) = (events.times[one.members[0]], events.times[*one.members.last().unwrap()]);
            limits.span.is_some_and(|span| newest - time > span)
                || limits.pause.is_some_and(|pause| oldest - time > pause)
        };
        closed.extend(open.extract_if(.., is_over).map(|one| (one, true)));
        let mut key = [None, None];
        for field in by {
            let values = &events.fields[*field][at];
            key[*field] = (!values.is_empty()).then(|| values.join("\n"));
        }
        if key == [None, None] {
            continue;
        }
        let fits = |one: &&mut ModelTransaction| {
            let pairs = || one.key.iter().zip(&key);
            pairs().all(|(a, b)| a.is_none() || b.is_none() || a == b) && pairs().any(|(a, b)| a.is_some() && a == b)
        };
        match open.iter_mut().filter(fits).max_by_key(|one| one.changed) {
            Some(one) => {
                one.members.push(at);
                one.changed = at;
                one.key.iter_mut().zip(key).for_each(|(known, value)| *known = known.take().or(value));
            }
            None => open.push(ModelTransaction { key, members: vec![at], changed: at }),
        }
        let is_full = |one: &mut ModelTransaction| one.members.len() >= limits.events;
        closed.extend(open.extract_if(.., is_full).map(|one| (one, true)));
    }
    let is_limited = limits.span.is_some() || limits.pause.is_some();
    closed.extend(open.into_iter().map(|one| (one, is_limited)));
    closed.sort_by_key(|(one, _)| std::cmp::Reverse(events.times[*one.members.last().unwrap()]));
    let line = |(one, is_closed): &(ModelTransaction, bool)| {
        let field = |field: usize| {
            let mut values: Vec<&str> =
                one.members.iter().flat_map(|at| &events.fields[field][*at]).map(String::as_str).collect();
            values.sort_unstable();
            values.dedup();
            values.join(";")
        };
        let numbers: Vec<String> = one.members.iter().rev().map(usize::to_string).collect();
        let count = one.members.len();
        let [first, second] = [0, 1].map(field);
        format!(
            "first={first} | second={second} | number={} | eventcount={count} | closed_txn={}",
            numbers.join(";"),
            u8::from(*is_closed)
        )
    };
    closed.iter().map(line).collect()
}

fn transactions(events: &Events, options: &str, memory: usize) -> Vec<String> {
    let join = "foreach first second number [eval <<FIELD>>=mvjoin('<<FIELD>>', \";\")] \
                | table first second number eventcount closed_txn";
    let search = format!("* | transaction {options} maxopentxn=10000 mvlist=number | {join}");
    let parsed = quarry_spl::parse(&search);
    assert!(parsed.is_ok(), "{search}: {:?}", parsed.diagnostics);
    let runner = runner("*");
    let dataflow = Dataflow::new(memory, None).unwrap().for_search(&runner.context.stop);
    let context = CommandContext { dataflow: Arc::new(dataflow), ..runner.context.clone() };
    let rows = runner.chain(of_batches(batches(events)), &parsed.pipeline.commands[1..], &context);
    lines(&rows.and_then(Iterator::collect::<Result<Vec<_>, _>>).unwrap())
}

#[test]
fn transactions_are_those_of_the_model() {
    let limits = [
        ("", Limits { span: None, pause: None, events: 1_000 }),
        ("maxevents=3", Limits { span: None, pause: None, events: 3 }),
        ("maxspan=90s", Limits { span: Some(90), pause: None, events: 1_000 }),
        ("maxpause=25s maxevents=4", Limits { span: None, pause: Some(25), events: 4 }),
        ("maxspan=300s maxpause=60s", Limits { span: Some(300), pause: Some(60), events: 1_000 }),
    ];
    for (seed, distinct) in [(1, 4), (2, 60), (3, 2_500)] {
        let events = events(seed, distinct);
        for (fields, by) in [("first", &[0][..]), ("second first", &[0, 1])] {
            for (options, limits) in limits {
                let expected = model(&events, by, limits);
                assert!(expected.len() > 3, "{options}");
                for memory in MEMORY {
                    let found = transactions(&events, &format!("{fields} {options}"), memory);
                    let difference = found.iter().zip(&expected).find(|(found, expected)| found != expected);
                    assert_eq!(difference, None, "seed {seed}: transaction {fields} {options}, {memory} bytes");
                    assert_eq!(found.len(), expected.len(), "seed {seed}: transaction {fields} {options}");
                }
            }
        }
    }
}
