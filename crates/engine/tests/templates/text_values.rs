//! Functions of the event text (`len`, `match`, `like`) have the same results from columns as from the text itself.

use std::sync::Arc;

use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::{MemoryStore, Segment};

use super::{FixedSnapshot, SPLIT_OPTIONS, compare, engine, run_search, store};
use crate::shaper::HandMade;

/// Searches in which `TEXT` is the text of an event.
const SEARCHES: &[&str] = &[
    "eval n=len(TEXT) | stats count sum(n) min(n) max(n) by host",
    "eval n=len(TEXT) | stats count by n",
    "where len(TEXT)>40 | stats count by level",
    "where len(TEXT)%3=1 AND status>200 | stats count by sourcetype",
    "stats sum(eval(len(TEXT)*2)) as s count(eval(match(TEXT,\"every3\"))) as c by host",
    "chart max(eval(len(TEXT))) over host by level",
    "timechart span=1m count(eval(like(TEXT,\"%zebra%\"))) as z",
    "where match(TEXT,\"shard-[3-5]\") | stats count by level",
    "where NOT match(TEXT,\"\\d{3}\") | stats count by host",
    "where match(TEXT,\"^\\s*\\{\") OR match(TEXT,\"z\\w+a on\") | stats count by host",
    "where match(TEXT,\"(?<!a)lice\") | stats count",
    "where match(TEXT,\"x*\") | stats count",
    "where match(TEXT,\"[äë]\") | stats count by sourcetype",
    "where match(TEXT,\"level=(INFO|WARN)\\b.*ip=10\\.[13]\\.\") | stats count by status",
    "eval m=if(match(TEXT,\"took=\\d+\\.5\"),\"half\",\"other\") | stats count by m level",
    "where like(TEXT,\"{%}\") | stats count by host",
    "where TEXT LIKE \"%user=_ob%\" | stats count by host",
    "eval a=if(like(TEXT,\"2026-11-20%every3\"),1,0), b=if(like(TEXT,\"%\\\"\"),\"y\",\"n\") | stats count by a b",
    "eval n=len(TEXT) | sort 5 - n _time | table _time n",
    "eval n=len(TEXT) | where n<60 | table _time n level",
    "rex field=TEXT \"shard-(?<s>\\d)\" | eval n=len(TEXT) | stats avg(n) by s",
    "eval n=len(TEXT), level=lower(level) | where match(TEXT,\"INFO\") | stats sum(n) by level",
    "search status=404 | eval n=len(TEXT) | bin n span=10 | stats count by n",
    "eval n=len(upper(TEXT)), k=len(TEXT.\"x\") | stats sum(n) sum(k)",
    "eval n=len(TEXT), t=TEXT | stats dc(t) sum(n)",
    "where len(TEXT)=0 | stats count by host",
];

/// Pairs of searches: one reads the event text, the other a field with the same values, for which there is no
/// push-down.
fn pairs() -> Vec<(String, String)> {
    let conditions = ["*", "NOT level=INFO"];
    let pairs = SEARCHES.iter().flat_map(|search| {
        conditions.iter().map(move |condition| {
            let of_field = search.replace("TEXT", "held");
            let of_text = search.replace("TEXT", "_raw");
            (format!("search {condition} | {of_text}"), format!("search {condition} | eval held=_raw | {of_field}"))
        })
    });
    pairs.collect()
}

#[test]
fn functions_of_the_text_do_not_depend_on_its_storage() {
    compare(pairs().into_iter().map(|(of_text, _)| (of_text, TimeRange::ALL)));
    let range = TimeRange { earliest: Some(10_000_000_000), latest: Some(1_020_000_000_000) };
    compare(pairs().into_iter().step_by(2).map(|(of_text, _)| (of_text, range)));
}

#[test]
fn functions_of_the_text_equal_those_of_a_field_that_holds_it() {
    let source = Arc::new(FixedSnapshot(store().snapshot().segments));
    let engine = engine();
    for (of_text, of_field) in pairs() {
        let ask = |search: &str| run_search(&engine, &source, search, TimeRange::ALL);
        assert_eq!(ask(&of_text), ask(&of_field), "{of_text}");
    }
}

/// If an earlier command changes, creates or removes `_raw`, its values are not those of the event.
#[test]
fn functions_of_a_changed_text_read_the_changed_text() {
    let source = Arc::new(FixedSnapshot(store().snapshot().segments));
    let engine = engine();
    let cases = [
        ("eval _raw=\"abc\" | stats max(eval(len(_raw))) as n", "n=3"),
        ("eval _raw=\"abc\", n=len(_raw) | stats max(n) as n", "n=3"),
        ("rex mode=sed \"s/^.*$/four/\" | eval n=len(_raw) | where n=4 | stats max(n) as n", "n=4"),
        ("head 1 | fields - _raw | eval n=coalesce(len(_raw),-1) | stats max(n) as n", "n=-1"),
        ("head 1 | table host | eval n=coalesce(len(_raw),-1) | stats max(n) as n", "n=-1"),
        ("head 1 | rename _raw as x | eval n=coalesce(len(_raw),-1) | stats max(n) as n", "n=-1"),
    ];
    for (search, wanted) in cases {
        assert_eq!(run_search(&engine, &source, &format!("search * | {search}"), TimeRange::ALL), [wanted], "{search}");
    }
}

/// Numbers of all widths and forms, texts beyond ASCII, empty values.
#[test]
fn lengths_count_characters_of_numbers_and_texts_of_any_form() {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch::default();
    let meta =
        batch.intern(&Metadata { index: "main".into(), host: "a".into(), source: "b".into(), sourcetype: "c".into() });
    let mut rng = 0x9E37_79B9_7F4A_7C15u64;
    let mut below = |end: u64| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) % end
    };
    let words = ["", "a", "zoë", "日本語", "🦓", "e\u{301}", "\u{7ff}", "\u{800}", "x y", "ÿ"];
    for at in 0..300i64 {
        let wide: String = (0..below(4)).map(|_| words[below(10) as usize]).collect();
        let number = match below(5) {
            0 => 0,
            1 => -(below(1_000) as i64),
            2 => below(10) as i64,
            3 => 10i64.pow(below(18) as u32),
            _ => 10i64.pow(below(18) as u32) - 1,
        };
        let (half, ip) = (below(2_000) as f64 / 4.0, below(256));
        let text = format!(
            "2026-11-20T00:00:{:02}.{:03}Z n={number} d={half:.2} h={:04x} p={:05} ip=10.{ip}.{}.1 w=\"{wide}\" 日={at} {}",
            at % 60,
            below(1_000),
            below(65_536),
            below(100_000),
            below(256),
            words[below(10) as usize],
        );
        batch.push(text.as_bytes(), at * 1_000_000_000, meta);
    }
    store.append(batch).unwrap();
    let engine = engine();
    let plain = store.snapshot().segments;
    for manner in SPLIT_OPTIONS {
        let shaped = plain.iter().map(|segment| HandMade::new(Arc::clone(segment), manner) as Arc<dyn Segment>);
        let source = Arc::new(FixedSnapshot(shaped.collect()));
        let ask = |search: &str| run_search(&engine, &source, search, TimeRange::ALL);
        for condition in ["*", "n>5", "h=00*"] {
            let found = ask(&format!("search {condition} | eval n=len(_raw) | table _time n"));
            let expected = ask(&format!("search {condition} | eval held=_raw | eval n=len(held) | table _time n"));
            assert_eq!(found, expected, "{condition} {manner:?}");
        }
    }
}
