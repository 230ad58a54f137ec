//! `linecount` is the same whether texts, templates or fields of the events and rules determine it.

use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions};
use quarry_store::Store;
use quarry_testworld::{NoTables, lines, request, rows_of};

use super::quantities::store;
use super::{Form, times};

const PROPS: &str = r#"
[java]
KV_MODE = none
[pairs]
KV_MODE = auto
[json]
KV_MODE = json
[rule]
KV_MODE = none
EXTRACT-count = lines: (?<linecount>\d+)
[inner]
KV_MODE = none
EXTRACT-size = size=(?<size>\S+)
EXTRACT-count = (?<linecount>\d+)kB in size
EXTRACT-digit = (?<digit>\d) in linecount
[computed]
KV_MODE = auto
EVAL-linecount = if(n > 4, "many", null())
EVAL-twice = linecount * 2
FIELDALIAS-count = linecount ASNEW count
"#;

const EVENTS: usize = 1_800;

fn events() -> Vec<(&'static str, String)> {
    let event = |at: usize| {
        let (n, user) = (at % 9, format!("user{}", at % 13));
        match at % 12 {
            0 => ("java", format!("INFO request {at} of {user} is done")),
            1 => (
                "java",
                format!("ERROR request {at} of {user} failed\n\tat com.example.Main({n})\n\tat com.example.Run"),
            ),
            2 => ("java", format!("ERROR request {at} failed{}", "\n\tat com.example.Main".repeat(n))),
            3 => ("pairs", format!("a={at} b={user}\n")),
            4 => ("pairs", format!("a={at} linecount={n} b={user}")),
            5 => ("pairs", format!("a={at}\nb={user}{}", if n > 3 { "" } else { "\n" })),
            6 => ("json", format!("{{\"a\":{at},\"b\":\"{user}\"}}")),
            7 if n > 4 => ("json", format!("{{\"a\":{at},\n\"linecount\":{n}}}")),
            7 => ("json", format!("{{\"a\":{at}}}")),
            8 => ("rule", format!("request {at}{}", if n > 4 { format!(" lines: {n}") } else { String::new() })),
            9 => ("inner", format!("request {at} size={n}{}", if n > 4 { "kB" } else { "MB" })),
            10 => ("computed", format!("n={n} count={}", if n > 6 { "3" } else { "" })),
            _ => ("computed", format!("n={n}\nrequest={at}")),
        }
    };
    (0..EVENTS).map(event).collect()
}

const CONDITIONS: &[&str] = &[
    "linecount=1",
    "linecount=2 sourcetype=java",
    "linecount>2",
    "linecount!=1",
    "NOT linecount=1",
    "NOT linecount=*",
    "linecount=*",
    "linecount=many",
    "linecount=m*",
    "linecount IN (1, 3)",
    "linecount=1 user1",
    "linecount=7 sourcetype=rule",
    "digit=7",
    "twice=*",
    "count=1 OR count=3",
    "line*=2",
];

const SEARCHES: &[&str] = &[
    "* | stats count by linecount",
    "* | stats count by sourcetype linecount",
    "* | stats sum(linecount) max(linecount) dc(linecount) count",
    "linecount=1 | stats count by sourcetype",
    "linecount>1 | table _time linecount _raw",
    "* | stats count(digit) values(digit) by linecount",
    "* | stats count by linecount punct",
    "* | stats count by twice count",
    "* | where linecount=2 | stats count by sourcetype",
    "* | rex field=linecount \"(?<first>\\d)\" | stats count by first",
    "* | eval l=linecount+1 | stats sum(l) by sourcetype",
    "* | sort 20 - linecount _time | table _time linecount",
    "* | dedup linecount sourcetype | table linecount sourcetype",
    "* | fields line* | stats count by linecount",
    "sourcetype=java | table linecount",
    "* | timechart span=10m avg(linecount)",
];

#[test]
fn line_counts_do_not_depend_on_their_storage() {
    let folder = tempfile::tempdir().unwrap();
    let layer = Layer::SystemLocal;
    let layers = Layers::new([ConfSource { layer, app: None, file: "props.conf".into(), text: PROPS.into() }]);
    let engine =
        Engine::new(&EngineOptions::default(), Arc::new(PropsResolver::new(&layers)), Arc::new(NoTables)).unwrap();
    let forms = [Form::Hot, Form::Sealed, Form::Compacted];
    let events = events();
    let stores = forms.map(|form| store(&events, form, &folder.path().join(format!("{form:?}"))));
    let mut found = 0;
    for condition in CONDITIONS {
        let expected = times(&engine, &stores[0], &format!("* | eval later=1 | search {condition}"));
        found += usize::from(!expected.is_empty());
        for (form, store) in forms.iter().zip(&stores) {
            let early = times(&engine, store, condition);
            assert!(early == expected, "{condition}, {form:?}: {} events, {} in memory", early.len(), expected.len());
        }
    }
    assert!(found * 4 > CONDITIONS.len() * 3, "only {found} of {} conditions find events", CONDITIONS.len());
    for search in SEARCHES {
        let rows = |store: &Arc<Store>| {
            let mut job =
                engine.start(request(search), store.clone()).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
            let mut rows = lines(&rows_of(&mut job).unwrap_or_else(|error| panic!("{search}: {error}")));
            rows.sort();
            rows
        };
        let expected = rows(&stores[0]);
        assert!(!expected.is_empty(), "{search}");
        for (form, store) in forms.iter().zip(&stores).skip(1) {
            assert_eq!(rows(store), expected, "{search}, {form:?}");
        }
    }
}
