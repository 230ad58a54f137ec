//! Workers return the columns that the plan declares, and a search distributed over nodes has the same result.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::TimestampNanosecondType;
use quarry_engine::{Engine, Exchange, ExchangedRows, Plan, RowIter, Slicing};
use tempfile::tempdir;

use crate::generator::search;
use crate::shapes::SHAPES;
use crate::world::{
    EventSource, SearchOutcome, StoredEvents, engine, joined, nodes, outcome_of, run_search, search_request,
    storage_forms, tiny,
};
use crate::{
    DIFFERENCES_SHOWN_MAX, EVENTS, FEW_EVENTS, SUFFICIENT_BYTES, columns_sorted, difference, is_expected_error,
};

/// Number of generated searches.
const SEEDS: u64 = 200;

/// The nodes of a search, and the store in which its subsearches find all events.
struct World {
    engine: Engine,
    whole: Arc<EventSource>,
    nodes: Vec<StoredEvents>,
}

impl World {
    fn new(folder: &std::path::Path, events: u64, slicing: Slicing) -> World {
        let whole = Arc::clone(&storage_forms(&folder.join("whole"), events)[0].kept);
        World { engine: engine(SUFFICIENT_BYTES, slicing), whole, nodes: nodes(folder, events) }
    }

    /// The plan of a search, as it arrives at a node.
    fn plan(&self, text: &str) -> Result<Plan, String> {
        let plan = self.engine.plan(search_request(text), Arc::<EventSource>::clone(&self.whole)).map_err(joined)?;
        Ok(Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap())
    }

    /// The rows that each node returns, with its messages.
    fn handed_over(&self, plan: &Plan, text: &str) -> Result<(Vec<RecordBatch>, Vec<String>), String> {
        let (mut rows, mut messages) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let mut job =
                self.engine.start_map(plan.clone(), search_request(text), Arc::<EventSource>::clone(&node.kept));
            while let Some(batch) = job.next_batch() {
                rows.push(batch.map_err(|error| error.to_string())?);
            }
            messages.extend(job.messages());
        }
        Ok((rows, messages))
    }

    /// The answer computed from the returned rows.
    fn reduced(&self, plan: Plan, rows: Vec<RecordBatch>, text: &str) -> SearchOutcome {
        let rows: RowIter = Box::new(rows.into_iter().map(Ok));
        outcome_of(self.engine.start_reduce(plan, rows, search_request(text), Arc::<EventSource>::clone(&self.whole)))
    }
}

/// Events newest first; events with the same time keep their order.
fn merged(rows: &[RecordBatch]) -> Vec<RecordBatch> {
    let times = |rows: &RecordBatch| {
        let times = rows.column_by_name("_time").unwrap().as_primitive::<TimestampNanosecondType>();
        times.values().to_vec()
    };
    let mut positions: Vec<(i64, usize, u32)> = Vec::new();
    for (at, batch) in rows.iter().enumerate() {
        positions.extend(times(batch).into_iter().zip(0..).map(|(time, row)| (time, at, row)));
    }
    positions.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    let runs = positions.chunk_by(|one, next| one.1 == next.1);
    let taken = runs.map(|run| {
        let rows_of_run: UInt32Array = run.iter().map(|(.., row)| *row).collect();
        take_record_batch(&rows[run[0].1], &rows_of_run).unwrap()
    });
    taken.collect()
}

/// An error in the columns of the returned rows.
fn fault_of(exchange: &Exchange, rows: &[RecordBatch]) -> Option<String> {
    let wrong = rows.iter().find(|rows| !exchange.accepts(rows));
    if let Some(rows) = wrong {
        return Some(format!("{:?} is not {exchange}", rows.schema()));
    }
    let names =
        |rows: &RecordBatch| rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let announced: BTreeSet<&String> = exchange.columns.iter().map(|column| &column.name).collect();
    let given: BTreeSet<String> = rows.iter().flat_map(names).collect();
    let gives_all = matches!(exchange.rows, ExchangedRows::Groups | ExchangedRows::Times);
    let never = announced.iter().find(|name| gives_all && !given.contains(**name));
    never.filter(|_| !rows.is_empty()).map(|name| format!("{name} of {exchange} is never given"))
}

/// The answer without messages, and the messages, each once.
fn separate_messages(answer: SearchOutcome) -> (SearchOutcome, BTreeSet<String>) {
    match columns_sorted(answer) {
        Ok(lines) => {
            let (messages, lines): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.starts_with("message "));
            (Ok(lines), messages.into_iter().collect())
        }
        error => (error, BTreeSet::new()),
    }
}

/// Divides a search; returns the exchanges of its rounds, or a description of the error.
fn run_divided(world: &World, text: &str, expected: SearchOutcome) -> Result<Vec<Exchange>, String> {
    let mut plan = match (world.plan(text), &expected) {
        (Ok(plan), _) => plan,
        (Err(error), Err(known)) if error == *known => return Ok(Vec::new()),
        (Err(error), _) => return Err(format!("not planned: {error}")),
    };
    let rounds = plan.rounds();
    let (mut rows, mut told) = (Vec::new(), BTreeSet::new());
    for (exchange, left) in rounds.iter().zip((1..=rounds.len()).rev()) {
        assert_eq!(plan.rounds().len(), left, "{text}: one round fewer after each round");
        let messages;
        (rows, messages) = match world.handed_over(&plan, text) {
            Ok(found) => found,
            Err(error) if expected.is_err() && is_expected_error(&error) => return Ok(rounds),
            Err(error) => return Err(error),
        };
        told.extend(messages);
        if let Some(fault) = fault_of(exchange, &rows) {
            return Err(fault);
        }
        if exchange.rows == ExchangedRows::Times {
            let early = world.reduced(plan.clone(), rows.clone(), text).unwrap_err();
            assert!(early.contains("first round"), "{text}: {early}");
            plan = plan.with_times(&rows).map_err(|error| error.to_string())?;
        }
    }
    let Some(exchange) = rounds.last() else {
        let refused = world.handed_over(&plan, text).unwrap_err();
        assert!(refused.contains("run the whole plan"), "{text}: {refused}");
        return Ok(rounds);
    };
    let rows = if exchange.rows == ExchangedRows::Groups { rows } else { merged(&rows) };
    let (found, last) = separate_messages(world.reduced(plan, rows, text));
    // Parsing the text adds warnings, which running a plan does not repeat.
    let remarks = quarry_spl::parse(text).diagnostics;
    let remarks = remarks.iter().map(|remark| remark.to_one_line(text));
    let told: BTreeSet<String> =
        told.into_iter().chain(remarks).map(|message| format!("message {message}")).chain(last).collect();
    let (expected, known) = separate_messages(expected);
    if found != expected {
        return Err(difference(&found, &expected));
    }
    match told == known {
        true => Ok(rounds),
        false => Err(format!("says {told:?}, not {known:?}")),
    }
}

#[test]
fn divided_searches_exchange_the_rows_their_plans_declare() {
    let folder = tempdir().unwrap();
    let world = World::new(folder.path(), EVENTS, Slicing::default());
    let (mut faults, mut kinds, mut divided_shapes) = (Vec::new(), Vec::new(), 0);
    for text in SHAPES {
        match run_divided(&world, text, run_search(&world.engine, &world.whole, text)) {
            Ok(rounds) => {
                divided_shapes += usize::from(!rounds.is_empty());
                kinds.extend(rounds.into_iter().map(|exchange| exchange.rows));
            }
            Err(fault) => faults.push(format!("{text}: {fault}")),
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults[..faults.len().min(DIFFERENCES_SHOWN_MAX)].join("\n")
    );
    for kind in [
        ExchangedRows::Events,
        ExchangedRows::TopEvents { count: 0, field: String::new(), descending: false },
        ExchangedRows::FirstEvents { count: 0, fields: Vec::new() },
        ExchangedRows::Groups,
        ExchangedRows::Times,
    ] {
        let count = kinds.iter().filter(|known| discriminant(*known) == discriminant(&kind)).count();
        assert!(count > 1, "{kind:?}: {count}");
    }
    let shapes = SHAPES.len();
    assert!(divided_shapes * 10 > shapes * 8, "{divided_shapes} of {shapes} searches were divided");
}

#[test]
fn generated_searches_give_the_same_results_on_several_nodes() {
    let folder = tempdir().unwrap();
    let world = World::new(folder.path(), FEW_EVENTS, tiny());
    let mut faults = Vec::new();
    for seed in 0..SEEDS {
        let text = search(seed);
        if let Err(fault) = run_divided(&world, &text, run_search(&world.engine, &world.whole, &text)) {
            faults.push(format!("seed {seed}: {text}\n  {fault}"));
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults[..faults.len().min(DIFFERENCES_SHOWN_MAX)].join("\n")
    );
}

#[test]
fn rows_that_the_plan_does_not_exchange_are_refused() {
    let folder = tempdir().unwrap();
    let world = World::new(folder.path(), FEW_EVENTS, Slicing::default());
    for (text, other) in [
        ("* | stats count by user", "* | stats sum(took) by user"),
        ("* | stats count by user", "* | stats count by user, status"),
        ("* | stats count by user", "* | table user"),
        ("* | table user", "* | stats count by user"),
        ("* | table user", "* | table user status"),
    ] {
        let (rows, _) = world.handed_over(&world.plan(other).unwrap(), other).unwrap();
        let error = world.reduced(world.plan(text).unwrap(), rows, text).unwrap_err();
        assert!(error.contains("run the same build on all nodes"), "{text}: {error}");
    }
    let (counts, _) = world.handed_over(&world.plan("* | stats count").unwrap(), "* | stats count").unwrap();
    for (text, rows, fault) in [
        ("* | timechart count", counts.as_slice(), "run the same build on all nodes"),
        ("* | timechart span=1h count", &[], "run its only round"),
        ("| makeresults", &[], "run its only round"),
    ] {
        let error = world.plan(text).unwrap().with_times(rows).unwrap_err().to_string();
        assert!(error.contains(fault), "{text}: {error}");
    }
}
