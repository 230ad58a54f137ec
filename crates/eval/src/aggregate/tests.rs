//! Tests that every function has the same result whether its rows arrive in one slice or in many.

mod dictionary_codes;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray, TimestampNanosecondArray, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_event::TimeRange;
use quarry_spl::ast::{Command, DependsOn, StatsCommand, StatsFunction};
use quarry_spl::functions::{STATS_FUNCTIONS, StatsRow};

use super::running_state::RunningState;
use super::{AggregatePlan, Folded, Folder};
use crate::coded_rows::lines_of;
use crate::context::{CommandContext, Stop};
use crate::dataflow::Dataflow;
use crate::expr::ExprContext;
use crate::messages::Messages;
use crate::rows::{ColumnBuilder, ColumnReader, batch_of, column_or_null};

fn context() -> CommandContext {
    CommandContext {
        id: Arc::from(""),
        search: Arc::from(""),
        now: 0,
        zone: jiff::tz::TimeZone::UTC,
        range: TimeRange::ALL,
        dataflow: Arc::new(Dataflow::new(64 << 20, None).unwrap()),
        percentiles: quarry_spl::ast::PercentileMethod::default(),
        tables: crate::expr::ExprTables::default(),
        transactions: Default::default(),
        subsearches: Default::default(),
        messages: Arc::<Messages>::default(),
        stop: Arc::<Stop>::default(),
        holdings: Arc::default(),
        costs: Arc::default(),
        permissions: Arc::default(),
    }
}

fn plan(stats: &str) -> AggregatePlan {
    let parsed = quarry_spl::parse(&format!("* | stats {stats}"));
    assert!(parsed.is_ok(), "{stats}: {:?}", parsed.diagnostics);
    let Some(Command::Stats(StatsCommand { aggregates, by, .. })) =
        parsed.pipeline.commands.get(1).map(|stage| stage.command.clone())
    else {
        panic!("{stats} is not a stats command")
    };
    let by = by.into_iter().map(|field| field.text).collect();
    AggregatePlan::new(&aggregates, by, &ExprContext::new(0, jiff::tz::TimeZone::UTC)).unwrap()
}

/// Rows with `_time` (seconds), group and value; `-` means that the value is missing.
fn rows(rows: &[(i64, &str, &str)]) -> RecordBatch {
    let times: ArrayRef =
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.0 * 1_000_000_000)));
    let texts = |texts: Vec<&str>| -> ArrayRef {
        Arc::new(texts.into_iter().map(|text| (text != "-").then_some(text)).collect::<StringViewArray>())
    };
    let group = texts(rows.iter().map(|row| row.1).collect());
    let value = texts(rows.iter().map(|row| row.2).collect());
    batch_of([("_time", times), ("g", group), ("v", value)], rows.len()).unwrap()
}

/// Distribution of the rows over [`Folder`]s.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Distribution {
    /// All slices in one folder.
    OneFolder,
    /// A folder per slice, joined in memory.
    Folders,
    /// States spilled after every slice, then merged.
    States,
}

const DISTRIBUTIONS: [Distribution; 3] = [Distribution::OneFolder, Distribution::Folders, Distribution::States];

fn run_stats_distributed(stats: &str, slices: &[RecordBatch], way: Distribution) -> Vec<String> {
    let (plan, context) = (plan(stats), context());
    let mut folders: Vec<Folder> = Vec::new();
    for (rows, slice) in slices.iter().zip(0..) {
        // A single state without groups is never spilled.
        let limit = if way == Distribution::States && !plan.by.is_empty() { 0 } else { usize::MAX };
        if folders.is_empty() || way == Distribution::Folders {
            folders.push(Folder::with_limit(&plan, limit, &context));
        }
        folders.last_mut().unwrap().add(rows, slice, 0).unwrap();
    }
    lines_of(&plan.values(plan.gather(folders, &context).unwrap(), &context).unwrap())
}

fn run_stats(stats: &str, slices: &[RecordBatch]) -> Vec<String> {
    let answers = DISTRIBUTIONS.map(|way| run_stats_distributed(stats, slices, way));
    for (way, answer) in DISTRIBUTIONS.iter().zip(&answers) {
        assert_eq!(answer, &answers[0], "{stats} by {way:?}");
    }
    answers.into_iter().next().unwrap()
}

const ROWS: [(i64, &str, &str); 8] = [
    (9, "a", "3"),
    (8, "b", "x"),
    (7, "a", "1"),
    (6, "a", "-"),
    (5, "b", "10"),
    (4, "-", "99"),
    (3, "a", "1"),
    (2, "b", "y"),
];

#[test]
fn functions_do_not_depend_on_slices() {
    for (stats, expected) in [
        ("count by g", vec!["a 4", "b 3"]),
        ("count(v) as n, dc(v) as d by g", vec!["a 3 2", "b 3 3"]),
        ("sum(v), avg(v) by g", vec!["a 5 1.6666666666666667", "b 10 10"]),
        ("min(v), max(v), range(v) by g", vec!["a 1 3 2", "b 10 y 0"]),
        ("values(v) by g", vec!["a 1+3", "b 10+x+y"]),
        ("list(v) by g", vec!["a 3+1+1", "b x+10+y"]),
        ("first(v), last(v) by g", vec!["a 3 1", "b x y"]),
        ("earliest(v), latest(v) by g", vec!["a 1 3", "b y x"]),
        ("earliest_time(v), latest_time(v) by g", vec!["a 3 9", "b 2 8"]),
        ("mode(v) by g", vec!["a 1", "b 10"]),
        ("median(v), p100(v) by g", vec!["a 1 3", "b 10 10"]),
        (
            "stdev(v), var(v), stdevp(v), varp(v) by g",
            vec!["a 1.1547005383792515 1.3333333333333333 0.9428090415820634 0.8888888888888888", "b 0 0 0 0"],
        ),
        ("sumsq(v) by g", vec!["a 11", "b 100"]),
        ("count(eval(v>1)) as big by g", vec!["a 1", "b 3"]),
        ("count, sum(v)", vec!["8 114"]),
        ("sparkline(count, 4s) as s by g", vec!["a ##__SPARKLINE__##+1+2+1", "b ##__SPARKLINE__##+1+1+1"]),
        ("sparkline(sum(v), 8s) as s by g", vec!["a ##__SPARKLINE__##+2+3", "b ##__SPARKLINE__##+10+0"]),
    ] {
        let all = rows(&ROWS);
        for slices in
            [vec![all.clone()], vec![all.slice(0, 3), all.slice(3, 5)], (0..8).map(|row| all.slice(row, 1)).collect()]
        {
            assert_eq!(run_stats(stats, &slices), expected, "{stats} in {} slices", slices.len());
        }
    }
}

#[test]
fn rows_of_the_same_time_have_no_order() {
    let order = [(5, "a", "2"), (5, "a", "-"), (5, "a", "3"), (4, "a", "x"), (4, "a", "y"), (5, "a", "1")];
    let (forward, backward) = (rows(&order), rows(&order.into_iter().rev().collect::<Vec<_>>()));
    for all in [forward, backward] {
        for slices in [vec![all.clone()], vec![all.slice(0, 2), all.slice(2, 4)]] {
            assert_eq!(run_stats("earliest(v), latest(v) by g", &slices), ["a y 3"], "{} slices", slices.len());
        }
    }
}

/// Every call that the table of functions allows, with the sparkline of a count.
fn calls() -> Vec<String> {
    let call = |row: &StatsRow| match (row.help.name, &row.function) {
        ("sparkline", _) => Some("sparkline(count, 4s)".to_owned()),
        // Only `timechart` has this function.
        (_, Some(StatsFunction::Per(_))) => None,
        (name, Some(_)) => Some(format!("{name}(v)")),
        (name, None) => Some(format!("{name}95(v)")),
    };
    STATS_FUNCTIONS.iter().filter_map(call).collect()
}

#[test]
fn running_states_and_column_folds_give_the_same_values() {
    let all = rows(&ROWS.map(|(time, _, value)| (time, "a", value)));
    for call in calls().iter().filter(|call| !call.starts_with("sparkline")) {
        let plan = plan(&format!("{call} as x"));
        let body = plan.columns[0].body;
        let mut running = RunningState::new(body);
        for (time, _, value) in ROWS {
            let values: Vec<String> = (value != "-").then(|| value.to_owned()).into_iter().collect();
            running.add(body, &values, Some(time * 1_000_000_000));
        }
        let mut column = ColumnBuilder::new(1);
        column.push(running.value(body));
        let one_state = batch_of([("x", column.finish())], 1).unwrap();
        let in_columns = run_stats(&format!("{call} as x"), std::slice::from_ref(&all));
        assert_eq!(lines_of(&one_state), in_columns, "{call}");
    }
}

#[test]
fn states_match_the_announced_layout() {
    for call in calls() {
        for by in ["", " by g", " by g, v"] {
            let plan = plan(&format!("{call} as x{by}"));
            let (layout, context) = (plan.layout(), context());
            assert_eq!(layout.keys(), plan.by.len(), "{call}{by}");
            let mut folder = Folder::new(&plan, &context);
            folder.add(&rows(&ROWS), 0, 0).unwrap();
            let states = folder.take_state().unwrap();
            assert!(layout.accepts(&states), "{call}{by}: {layout:?} is not {:?}", states.schema());
            // Spilled states must not remain in the folder, and states that are read back must be unchanged.
            assert!(folder.take_state().unwrap().num_rows() <= usize::from(by.is_empty()), "{call}{by}");
            folder.add_states(&states).unwrap();
            let mut values =
                [folder.take_state().unwrap(), states].map(|states| lines_of(&plan.finish(&states).unwrap()));
            values.iter_mut().for_each(|lines| lines.sort());
            assert_eq!(values[0], values[1], "{call}{by}");
        }
    }
}

#[test]
fn states_of_another_plan_are_refused() {
    let layout = plan("avg(v) by g").layout();
    for other in ["avg(v)", "sumsq(v), c(v) by g", "count by g", "values(v), c(v) by g", "avg(v) by g, v"] {
        let plan = plan(other);
        let mut folder = Folder::new(&plan, &context());
        folder.add(&rows(&ROWS), 0, 0).unwrap();
        assert!(!layout.accepts(&folder.take_state().unwrap()), "{other}");
    }
}

/// Results must depend only on what `depends_on` says, because the planner relies on it.
#[test]
fn functions_depend_only_on_what_the_table_states() {
    let orders = [ROWS.to_vec(), ROWS.iter().rev().copied().collect()];
    let with_times = |rows: &[(i64, &'static str, &'static str)]| -> Vec<(i64, &'static str, &'static str)> {
        rows.iter().map(|(time, group, value)| (100 - time * time, *group, *value)).collect()
    };
    for call in calls() {
        let stats = format!("{call} as x by g");
        let depends_on = plan(&stats).columns[0].function.depends_on();
        let values = |found: &[(i64, &str, &str)]| run_stats(&stats, &[rows(found)]);
        if depends_on != DependsOn::Order {
            assert_eq!(values(&orders[0]), values(&orders[1]), "{call} in another order");
        }
        if depends_on != DependsOn::Time {
            assert_eq!(values(&orders[0]), values(&with_times(&orders[0])), "{call} at other times");
        }
    }
}

#[test]
fn empty_input_gives_one_row_only_without_by() {
    assert_eq!(run_stats("count, sum(v), values(v)", &[]), ["0 - -"]);
    assert_eq!(run_stats("count by g", &[]), Vec::<String>::new());
}

#[test]
fn a_row_with_several_values_is_in_several_groups() {
    let values = crate::rows::Value::multi(vec!["x".into(), "y".into()]);
    let mut column = crate::rows::ColumnBuilder::new(1);
    column.push(values);
    let one = batch_of([("g", column.finish()), ("v", column_or_null(&rows(&ROWS[..1]), "v"))], 1).unwrap();
    assert_eq!(run_stats("count, sum(v) by g", &[one]), ["x 1 3", "y 1 3"]);
}

#[test]
fn groups_beyond_memory_spill_and_stay_correct() {
    for stats in ["count, sum(v) by g", "count, values(v), dc(v), avg(v), first(v) by g"] {
        groups_beyond_memory(stats);
    }
}

fn groups_beyond_memory(stats: &str) {
    let context = CommandContext { dataflow: Arc::new(Dataflow::new(24 << 20, None).unwrap()), ..context() };
    let plan = plan(stats);
    let slice = |from: usize| {
        let names: Vec<String> = (from..from + 50_000).map(|at| format!("group number {at}")).collect();
        let group: ArrayRef = Arc::new(names.iter().map(Some).collect::<StringViewArray>());
        let value: ArrayRef = Arc::new(names.iter().map(|_| Some("2")).collect::<StringViewArray>());
        batch_of([("g", group), ("v", value)], names.len()).unwrap()
    };
    let mut folder = Folder::new(&plan, &context);
    [0, 25_000, 50_000, 75_000].into_iter().zip(0..).for_each(|(from, at)| folder.add(&slice(from), at, 0).unwrap());
    let folded = plan.gather(vec![folder], &context).unwrap();
    assert!(matches!(folded, Folded::Parts(_)), "the groups must not fit");
    let result = plan.values(folded, &context).unwrap();
    assert_eq!(result.num_rows(), 125_000);
    let counts = crate::rows::as_number_array(&column_or_null(&result, "count"));
    assert_eq!(counts.values().iter().sum::<f64>(), 200_000.0);
    assert_eq!(counts.len(), 125_000);
}

/// Integers are counted by index, and become groups only when all folders are merged.
#[test]
fn counts_of_integers_and_addresses_do_not_depend_on_slices() {
    let wide: Vec<i64> = (0..9_000).map(|at| (at * at) % 70_001 - 300).collect();
    let [narrow, far] = [vec![5, -3, 5, 7], vec![9_000_000_000, 5, 9_000_000_000]];
    let integers = [narrow, wide.clone(), far].map(|values| -> ArrayRef { Arc::new(Int64Array::from(values)) });
    let addresses = wide.iter().map(|value| *value as u32 & 0xffff);
    let address: ArrayRef = Arc::new(addresses.collect::<UInt32Array>());
    let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(["5", "0.0.0.5", "x"]));
    let [narrow, wide, far] = integers;
    for columns in [
        vec![narrow.clone(), wide.clone()],
        vec![wide.clone(), narrow.clone(), wide.clone()],
        vec![wide.clone(), far.clone(), narrow.clone()],
        vec![narrow, address.clone(), wide.clone(), text.clone()],
        vec![address.clone(), address],
        vec![text, wide, far],
    ] {
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        for column in columns.iter().map(ColumnReader::new) {
            for row in 0..column.len() {
                let value = column.value(row);
                *expected.entry(value.text().unwrap_or_default().into_owned()).or_default() += 1;
            }
        }
        let slices: Vec<RecordBatch> =
            columns.iter().map(|column| batch_of([("g", Arc::clone(column))], column.len()).unwrap()).collect();
        for way in DISTRIBUTIONS {
            let mut lines = run_stats_distributed("count, count as again by g", &slices, way);
            lines.sort_unstable();
            let mut expected: Vec<String> =
                expected.iter().map(|(value, count)| format!("{value} {count} {count}")).collect();
            expected.sort_unstable();
            assert_eq!(lines, expected, "{way:?}");
        }
    }
}

/// The memory check of a merge counts the groups that integers will become.
#[test]
fn groups_of_counted_integers_beyond_memory_are_merged_by_partition() {
    let plan = plan("count by g");
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..600_000));
    let rows = batch_of([("g", values)], 600_000).unwrap();
    for (memory, is_merged_in_memory) in [(256 << 20, true), (32 << 20, false)] {
        let context = CommandContext { dataflow: Arc::new(Dataflow::new(memory, None).unwrap()), ..context() };
        let mut folder = Folder::with_limit(&plan, usize::MAX, &context);
        folder.add(&rows, 0, 0).unwrap();
        let bytes = folder.bytes();
        assert!(bytes < memory / 3, "the counts themselves fit: {bytes}");
        let folded = plan.gather(vec![folder], &context).unwrap();
        assert_eq!(matches!(folded, Folded::Groups(_)), is_merged_in_memory, "{memory}");
        let groups: usize = plan.state_batches(folded).unwrap().map(|states| states.unwrap().num_rows()).sum();
        assert_eq!(groups, 600_000);
    }
}
