//! Conditions with numbers have the same answers for each kind of field, in each state of the storage, and whichever
//! values the other events of a page or slab have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_engine::{Engine, SnapshotSource};
use quarry_event::segment::contains_word;
use quarry_event::value::parse_exact_number;
use quarry_event::value::spelling::is_spelling;
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Store, StoreOptions};
use quarry_testworld::{SECOND, START, lines, request, rows_of};
use tempfile::{TempDir, tempdir};

use super::{engine_with, field_columns};

const PROPS: &str = r"
[cell]
KV_MODE = none
[given]
KV_MODE = none
[written]
KV_MODE = auto
[json]
KV_MODE = json
[part]
KV_MODE = none
EXTRACT-v = x(?<v>\S*)y\s
[computed]
KV_MODE = none
EXTRACT-w = w=(?<w>\S+)
EVAL-v = w
";

/// Values that are equal as numbers but not as texts, and values that look like numbers.
const VALUES: &[&str] = &[
    "0",
    "00",
    "000000000000",
    "-0",
    "0.0",
    "0e0",
    "00e1",
    "1",
    "01",
    "1.0",
    "1.",
    "1.00",
    "1e0",
    "1E0",
    "+1",
    "+1.0",
    "-1",
    "-1.0",
    " 1",
    "1.5",
    "1.50",
    "10",
    "0x1",
    "Infinity",
    "nan",
    "9007199254740993",
    "9007199254740992",
    "12345678901234567890",
    "12345678901234567891",
    "12345678901234567890.0",
    "1,0",
    "abc",
    "",
];
/// Values with which the conditions compare.
const COMPARED_VALUES: &[&str] = &[
    "0",
    "00",
    "000000000000",
    "-0",
    "1",
    "01",
    "1.0",
    "1e0",
    "+1",
    "-1",
    " 1",
    "1.5",
    "0x1",
    "Infinity",
    "nan",
    "9007199254740993",
    "12345678901234567890",
    "abc",
    "7",
];
/// The rest of each text, besides the value: plain words, a backslash, or numbers that are values of other events.
const NOTES: &[&str] = &["plain text", r"C:\temp", "other 1 and 0"];
const KINDS: &[&str] = &["cell", "given", "written", "pair", "json", "part", "computed"];
/// Events of each kind with the same value and note.
const REPEATS: usize = 8;
/// Kinds whose values of `v` are index-time fields.
const INDEX_TIME_KINDS: &[&str] = &["cell", "given", "written"];

/// Text of an event, and its value of `v` if that is an index-time field.
fn event(kind: &str, value: &'static str, note: &str, row: usize) -> (String, Vec<(&'static str, String)>) {
    let given = || if value.is_empty() { Vec::new() } else { vec![("v", value.to_owned())] };
    match kind {
        "cell" => {
            let line = format!("m{row}");
            let cells = [("line", line.clone()), ("note", note.to_owned())].into_iter().chain(given());
            (format!("{line}\t{value}\t{note}"), cells.collect())
        }
        "given" => (format!("m{row} {note}"), given()),
        "written" => (format!("code={value} {note} m{row}"), given()),
        "pair" => (format!("v={value} note=\"{note}\" m{row}"), Vec::new()),
        "json" => {
            let is_plain = serde_json::from_str::<serde_json::Number>(value).is_ok();
            let value = if is_plain { value.to_owned() } else { format!("\"{value}\"") };
            (format!(r#"{{"v":{value},"note":"{}","line":"m{row}"}}"#, note.replace('\\', r"\\")), Vec::new())
        }
        "part" => (format!("x{value}y m{row} {note}"), Vec::new()),
        _ => (format!("w={value} m{row} {note}"), Vec::new()),
    }
}

/// The expected properties of an event, which its host identifies; `texts` has the text of each repetition.
struct ExpectedEvent {
    kind: &'static str,
    texts: Vec<String>,
    /// Index-time value of `v`.
    given: Option<String>,
    /// All values of `v` that a search returns.
    value: Option<String>,
}

/// The events of one value, of all kinds, with their hosts.
fn batch_of(value: &'static str, known: &mut BTreeMap<String, ExpectedEvent>) -> EventBatch {
    let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
    for (kind, note) in KINDS.iter().flat_map(|kind| NOTES.iter().map(move |note| (*kind, *note))) {
        let host = format!("h{}", known.len());
        let meta =
            Metadata { index: "main".into(), host: host.as_str().into(), source: "s".into(), sourcetype: kind.into() };
        let meta = batch.intern(&meta);
        let (mut texts, mut given) = (Vec::new(), None);
        for at in 0..REPEATS {
            let (text, fields) = event(kind, value, note, known.len() * REPEATS + at);
            let row = batch.len() as u32;
            batch.push(text.as_bytes(), START + i64::from(row) * SECOND, meta);
            given = fields.iter().find(|(name, _)| *name == "v").map(|(_, value)| value.clone());
            batch.fields.extend(fields.into_iter().map(|(name, value)| (row, name, value)));
            texts.push(text);
        }
        known.insert(host, ExpectedEvent { kind, texts, given, value: None });
    }
    batch
}

fn open_store() -> (TempDir, Arc<Store>) {
    let dir = tempdir().unwrap();
    let store = Store::open(StoreOptions::at(dir.path()), ManualClock::shared(START + 10_000_000 * SECOND)).unwrap();
    (dir, store)
}

fn append(store: &Store, batch: EventBatch) {
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
}

/// The value of the other column of the result for each value of `host`.
fn by_host(engine: &Engine, store: &Arc<Store>, search: &str) -> BTreeMap<String, String> {
    let mut job = engine.start(request(search), Arc::clone(store) as Arc<dyn SnapshotSource>).unwrap();
    let rows = lines(&rows_of(&mut job).unwrap());
    let pair = |line: String| {
        let (host, other) = line.split_once(" | ").unwrap();
        (host.strip_prefix("host=").unwrap().to_owned(), other.split_once('=').unwrap().1.to_owned())
    };
    rows.into_iter().map(pair).collect()
}

/// A condition with a value of [`COMPARED_VALUES`].
#[derive(Clone, Copy)]
enum Operator {
    Term,
    Equal,
    In,
    Unequal,
    Not,
    NotTerm,
    AtLeast,
    Less,
    Prefix,
}

const OPERATORS: &[Operator] = &[
    Operator::Term,
    Operator::Equal,
    Operator::In,
    Operator::Unequal,
    Operator::Not,
    Operator::NotTerm,
    Operator::AtLeast,
    Operator::Less,
    Operator::Prefix,
];

impl Operator {
    fn condition(self, value: &str) -> String {
        match self {
            Operator::Term => format!("v::\"{value}\""),
            Operator::Equal => format!("v=\"{value}\""),
            Operator::In => format!("v IN (\"{value}\", absent)"),
            Operator::Unequal => format!("v!=\"{value}\""),
            Operator::Not => format!("NOT v=\"{value}\""),
            Operator::NotTerm => format!("NOT v::\"{value}\""),
            Operator::AtLeast => format!("v>=\"{value}\""),
            Operator::Less => format!("v<\"{value}\""),
            Operator::Prefix => format!("v=\"{value}*\""),
        }
    }

    /// Expected number of repetitions of an event that match; `None` if there is no model of the rule and the answer
    /// from events in memory is the reference.
    fn expected(self, asked: &str, event: &ExpectedEvent) -> Option<usize> {
        let number = |text: &str| parse_exact_number(text).map(|number| number.as_f64());
        let is_same = |value: &str| value.eq_ignore_ascii_case(asked);
        let is_equal = |value: &str| is_same(value) || (number(asked).is_some() && number(asked) == number(value));
        let value = event.value.as_deref();
        let all = |matches: bool| Some(if matches { event.texts.len() } else { 0 });
        match self {
            Operator::Term => all(event.given.as_deref().is_some_and(is_same)),
            Operator::NotTerm => all(!event.given.as_deref().is_some_and(is_same)),
            // This model compares doubles, which do not distinguish all integers of more than 15 digits; searches do.
            Operator::Unequal | Operator::Not if asked.len() > 15 => None,
            Operator::Unequal => all(value.is_some_and(|value| !is_equal(value))),
            Operator::Not => all(!value.is_some_and(is_equal)),
            Operator::Equal | Operator::In if event.kind == "computed" && asked.len() > 15 => None,
            Operator::Equal | Operator::In if event.kind == "computed" => all(value.is_some_and(is_equal)),
            Operator::Equal | Operator::In => {
                let Some(value) = value else { return Some(0) };
                let is_spelled = number(asked).is_some() && is_spelling(asked, value);
                let found =
                    |text: &&String| is_same(value) || (is_spelled && contains_word(text.as_bytes(), asked, false));
                Some(event.texts.iter().filter(found).count())
            }
            Operator::AtLeast | Operator::Less | Operator::Prefix => None,
        }
    }
}

#[test]
fn numbers_are_compared_in_the_same_way_everywhere() {
    let engine = engine_with(PROPS);
    let mut known = BTreeMap::new();
    let mut batches: Vec<EventBatch> = VALUES.iter().map(|value| batch_of(value, &mut known)).collect();
    // All values in the same pages; slabs with a single value each.
    let (_mixed_dir, mixed) = open_store();
    batches.iter().for_each(|batch| append(&mixed, batch.clone()));
    let (_single_dir, single) = open_store();
    for batch in batches.drain(..) {
        append(&single, batch);
        single.seal_all().unwrap();
    }
    for (host, value) in by_host(&engine, &mixed, "search index=main v=* | stats values(v) by host") {
        known.get_mut(&host).unwrap().value = Some(value);
    }
    let is_given = |event: &ExpectedEvent| event.given.is_none() || event.given == event.value;
    assert!(known.values().all(is_given), "an index-time value is the value of the field");
    let with_values: BTreeSet<&str> =
        known.values().filter(|event| event.value.is_some()).map(|event| event.kind).collect();
    assert_eq!(with_values.len(), KINDS.len(), "each kind has values");
    let conditions =
        || OPERATORS.iter().flat_map(|operator| COMPARED_VALUES.iter().map(move |asked| (*operator, *asked)));
    let ask = |store: &Arc<Store>, operator: Operator, asked: &str| {
        let search = format!("search index=main {} | stats count by host", operator.condition(asked));
        by_host(&engine, store, &search)
    };
    let hot: Vec<BTreeMap<String, String>> =
        conditions().map(|(operator, asked)| ask(&mixed, operator, asked)).collect();
    let check = |store: &Arc<Store>, when: &str| {
        let mut faults = Vec::new();
        for ((operator, asked), hot) in conditions().zip(&hot) {
            let found = ask(store, operator, asked);
            for (host, event) in &known {
                let count =
                    |answer: &BTreeMap<String, String>| answer.get(host).map_or(0, |count| count.parse().unwrap());
                let expected = operator.expected(asked, event).unwrap_or_else(|| count(hot));
                if count(&found) != expected {
                    let (condition, value, text) = (operator.condition(asked), &event.value, &event.texts[0]);
                    let found = count(&found);
                    faults.push(format!(
                        "{condition}: {found} instead of {expected} of {} {value:?} {text:?}",
                        event.kind
                    ));
                }
            }
        }
        assert!(faults.is_empty(), "{when}: {} faults\n{}", faults.len(), faults[..faults.len().min(40)].join("\n"));
    };
    let check_tstats = |store: &Arc<Store>, when: &str| {
        for asked in COMPARED_VALUES {
            for (condition, is_term) in [(format!("v::\"{asked}\""), true), (format!("v=\"{asked}\""), false)] {
                let search = format!("| tstats count where index=main {condition} by host");
                let found = by_host(&engine, store, &search);
                for (host, event) in known.iter().filter(|(_, event)| INDEX_TIME_KINDS.contains(&event.kind)) {
                    let operator = if is_term { Operator::NotTerm } else { Operator::Not };
                    let Some(others) = operator.expected(asked, event) else { continue };
                    let expected = event.texts.len() - others;
                    let count: usize = found.get(host).map_or(0, |count| count.parse().unwrap());
                    assert_eq!(count, expected, "{when}: {search}: {:?}", event.value);
                }
            }
        }
    };
    let check = |store: &Arc<Store>, when: &str| {
        check(store, when);
        check_tstats(store, when);
    };
    check(&mixed, "in memory");
    check(&single, "sealed, a value in each slab");
    mixed.seal_all().unwrap();
    assert!(field_columns(&mixed).iter().sum::<usize>() > 0, "{:?}", field_columns(&mixed));
    check(&mixed, "sealed");
    mixed.compact_all().unwrap();
    check(&mixed, "compacted");
    single.compact_all().unwrap();
    check(&single, "compacted, from slabs of a single value each");
}
