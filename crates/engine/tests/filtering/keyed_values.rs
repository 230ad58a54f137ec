//! Fields behind variables that end with a separator in most rows only (CEF), pairs whose keys are numbers (FIX), and
//! pairs in JSON strings: the same in each state of the storage.

use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions};
use quarry_store::Store;
use quarry_testworld::{NoTables, lines, request, rows_of};

use super::quantities::store;
use super::{Form, times};

const PROPS: &str = r#"
[cef]
KV_MODE = auto
[fix]
REPORT-tags = tags
[pipes]
REPORT-tags = pipe_tags
REPORT-cells = cells
[docker]
KV_MODE = json
"#;

const TRANSFORMS: &str = r#"
[tags]
REGEX = (\d+)=([^\x01]*)
FORMAT = f$1::$2
[pipe_tags]
REGEX = (?:[ |])(\d+)=([^|]*)
FORMAT = f$1::$2
[cells]
DELIMS = "|", "="
CLEAN_KEYS = false
"#;

const EVENTS: u64 = 4_000;

/// Texts between the event class and `src=` in unusual events.
const ODD: [&str; 12] = [
    "|scan|5",
    "|scan ab",
    "|scan|x_",
    "|scan|-",
    "|scan src=1 |",
    "|scan|\"",
    "|scan|a=\"",
    "",
    "|",
    "|dst=",
    "|scan|5|a=b:",
    "|xsrc=7|",
];

/// Ends of FIX messages with unusual pairs.
const ODD_PAIRS: [&str; 10] =
    ["35=G|", "58=a=b c=d|", "58=|", "12345=6|", "058=x|", "58=\"q 35=9\"|", "a58=1|", "||58=2|", "58", "9=9|9=9|"];

fn events() -> Vec<(&'static str, String)> {
    let mut seed = 5_u64;
    let mut below = |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    let words = ["retry", "outage of", "scan", "login", "as", "transfer failed", "no", "quota reached"];
    let mut all = Vec::new();
    for at in 0..EVENTS {
        let (word, more) = (words[below(8) as usize], words[below(8) as usize]);
        let client = format!("10.{}.0.{}", below(4), below(9));
        if at % 4 == 0 {
            let name = match at % 52 {
                0 => ODD[(at / 52) as usize % ODD.len()].to_owned(),
                _ if below(3) == 0 => format!("|{word} {more}|{}|", below(11)),
                _ => format!("|{word}|{}|", below(11)),
            };
            let user = if below(2) == 0 { format!(" suser=u{}", below(30)) } else { String::new() };
            all.push((
                "cef",
                format!(
                    "gw CEF:0|v|alert|2.10|{}{name}src={client} dst=43.0.0.{} act=drop{user} out={}",
                    2_000 + below(90),
                    below(5),
                    below(900)
                ),
            ));
        } else if at % 4 == 3 {
            let quoted = if at % 28 == 3 { "\\\"a b\\\" level=x" } else { "" };
            all.push((
                "docker",
                format!(
                    "{{\"log\":\"n={at} level={} user={word} x-id={} msg={quoted}{more} dur={}ms\\n\",\"stream\":\"out\"}}",
                    ["info", "warn", "error"][below(3) as usize],
                    below(50),
                    below(900)
                ),
            ));
        } else {
            let mut pairs = format!(
                "8=FIX.4.4|9={}|35={}|49=B{}|34={at}|",
                below(200),
                ["D", "8", "0"][below(3) as usize],
                below(3)
            );
            if below(2) == 0 {
                pairs.push_str(&format!("55=S{}|44={}.{}|58={word} {more}|", below(40), below(300), below(10)));
            }
            if at % 39 == 1 {
                pairs.push_str(ODD_PAIRS[(at / 39) as usize % ODD_PAIRS.len()]);
            }
            pairs.push_str(&format!("10={:03}|", below(256)));
            match at % 4 {
                1 => all.push(("fix", pairs.replace('|', "\x01"))),
                _ => all.push(("pipes", format!("out {pairs}"))),
            }
        }
    }
    all
}

const CONDITIONS: &[&str] = &[
    "src=10.1.0.3",
    "src=10.2*",
    "NOT src=*",
    "xsrc=*",
    "absrc=*",
    "x_src=*",
    "src=7 OR src=1",
    "src=10.1.0.3 suser=u7",
    "dst=43.0.0.1 src=10.1*",
    "a=*",
    "f35=D",
    "f35=8 f55=S7",
    "f35=G",
    "f58=*b*",
    "35=8 55=S7",
    "58=*b*",
    "NOT 55=* sourcetype=pipes",
    "12345=6",
    "f58=2",
    "f12345=6",
    "f058=x",
    "f9=9",
    "NOT f55=* sourcetype=fix",
    "f44>150",
    "f10=007",
    "f8=FIX.4.4 f34=1001",
    "\"35=D\"",
    "S7",
    "*S7*",
    "FIX.4.4 B2",
    "log=*level=warn*",
];

const SEARCHES: &[&str] = &[
    "* | stats count by src",
    "* | stats dc(src) count(src) by act",
    "* | stats count by xsrc",
    "* | stats sum(out) as s by src, dst",
    "* | sort 20 - str(src) | table _time src",
    "* | dedup src | stats count",
    "* | stats count by f35",
    "* | stats count sum(f44) by f55",
    "* | stats count by f49, f35",
    "* | top limit=0 f58",
    "* | stats count sum(44) by 35, 49",
    "* | stats count by 58",
    "* | stats count by 9 34 | sort 40 9 34",
    "* | stats count by f9 f12345",
    "* | timechart span=10m count by f35",
    "* | rename log as _raw | extract | stats count by level",
    "* | rename log as _raw | extract | stats count dc(user) by x_id",
    "* | rename log as _raw | extract limit=3 | stats count by level, user",
    "* | rename log as _raw | extract clean_keys=f | stats count by x-id",
    "* | rename log as _raw | extract mv_add=t | stats count by level",
    "* | rename log as _raw | extract pairdelim=\" \" kvdelim=\"=\" | stats count by msg",
    "sourcetype=pipes | extract pairdelim=\"|\" kvdelim=\"=\" clean_keys=f | stats count by 35",
];

fn rows(engine: &Engine, store: &Arc<Store>, search: &str) -> Vec<String> {
    let mut job = engine.start(request(search), store.clone()).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
    let mut rows = lines(&rows_of(&mut job).unwrap_or_else(|error| panic!("{search}: {error}")));
    rows.sort();
    rows
}

#[test]
fn values_do_not_depend_on_what_stands_before_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [("props.conf", PROPS), ("transforms.conf", TRANSFORMS)].map(|(file, text)| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.into(),
        text: text.into(),
    });
    let layers = Layers::new(sources);
    let engine =
        Engine::new(&EngineOptions::default(), Arc::new(PropsResolver::new(&layers)), Arc::new(NoTables)).unwrap();
    let events = events();
    let forms = [Form::Hot, Form::Sealed, Form::Compacted];
    let stores = forms.map(|form| store(&events, form, &folder.path().join(format!("{form:?}"))));
    let mut found = 0;
    for condition in CONDITIONS {
        let expected = times(&engine, &stores[0], &format!("* | eval later=1 | search {condition}"));
        found += usize::from(!expected.is_empty());
        for (form, store) in forms.iter().zip(&stores) {
            for search in [(*condition).to_owned(), format!("* | eval later=1 | search {condition}")] {
                let times = times(&engine, store, &search);
                assert!(times == expected, "{search}, {form:?}: {} events, {} in memory", times.len(), expected.len());
            }
        }
    }
    assert!(found * 5 > CONDITIONS.len() * 4, "only {found} of {} conditions find events", CONDITIONS.len());
    for search in SEARCHES {
        let expected = rows(&engine, &stores[0], search);
        assert!(!expected.is_empty(), "{search} finds rows");
        for (form, store) in forms.iter().zip(&stores).skip(1) {
            assert_eq!(rows(&engine, store, search), expected, "{search}, {form:?}");
        }
    }
}
