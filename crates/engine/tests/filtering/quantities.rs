//! Numbers with units (`404mA`, `0.043mm/s`): fields, words, wildcards and phrases are the same in each state of the
//! storage, even if the number or the unit is unusual or missing.

use std::path::Path;
use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Store, StoreOptions};
use quarry_testworld::{NoTables, lines, request, rows_of};

use super::{Form, times};

const PROPS: &str = r#"
[units]
KV_MODE = none
EXTRACT-took = took=(?<took>-?[\d.]+)(?<unit>[a-zµ]+)
EXTRACT-whole = took=(?<whole>\S+)
EXTRACT-current = \scur=(?<current>[\d.]+)(?<cur_unit>m?A)
EXTRACT-rpm = (?:load (?<load>\d+)% )?rpm=(?<rpm>\d+)rpm(?: vib=(?<vib>[\d.]+)mm/s)?
EXTRACT-digit = rpm=(?<first>\d)
EXTRACT-fraction = vib=\d+\.(?<fraction>\d+)(?<per>mm/\w)
[pairs]
KV_MODE = auto
[json]
KV_MODE = json
"#;

/// Values that are not a number with a unit, or not one of the usual units.
const ODD: [&str; 18] = [
    "-",
    "007ms",
    "+5ms",
    "-12.5ms",
    "99999999999999999999ms",
    "5MS",
    "1e3ms",
    "12",
    "0.50s",
    ".5s",
    "5m30s",
    "5ms5",
    "ms",
    "-0ms",
    "5.ms",
    "100%ms",
    "1,5ms",
    "5ms.",
];

const EVENTS: usize = 2_700;

fn events() -> Vec<(&'static str, String)> {
    let mut seed = 11_u64;
    let mut below = |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    let mut odd = 0;
    let mut value = |usual: String, is_odd: bool| {
        odd += usize::from(is_odd);
        if is_odd { ODD[odd % ODD.len()].to_owned() } else { usual }
    };
    let mut all = Vec::new();
    for at in 0..EVENTS {
        let number = below(40_000);
        let took = match below(4) {
            0 => format!("{}.{}s", number / 900, number % 10),
            1 => format!("{}.{:03}s", number / 9_000, number % 1_000),
            _ => format!("{number}ms"),
        };
        let took = value(took, at % 31 == 3);
        let current =
            if number % 3 == 0 { format!("{}.{}A", below(30), below(10)) } else { format!("{}mA", below(900)) };
        let current = value(current, at % 37 == 5);
        let rpm = value(format!("{}rpm", below(100_000)), at % 41 == 7);
        let vibration = value(format!("0.{:03}mm/s", below(300)), at % 43 == 11);
        let load = below(101);
        all.push(match at % 3 {
            0 => {
                let load = if number % 2 == 0 { format!("load {load}% ") } else { String::new() };
                ("units", format!("unit {} took={took} cur={current} {load}rpm={rpm} vib={vibration} done", at % 7))
            }
            1 => {
                ("pairs", format!("n={} took={took}, cur={current} rpm=\"{rpm}\" vib={vibration} load={load}%", at % 7))
            }
            _ => (
                "json",
                format!(
                    "{{\"took\":\"{took}\",\"cur\":\"{current}\",\"rpm\":\"{rpm}\",\"load\":\"{load}%\",\"n\":{}}}",
                    at % 7
                ),
            ),
        });
    }
    all
}

/// A store with these events in three batches, which are three buckets before compaction.
pub(super) fn store(events: &[(&'static str, String)], form: Form, place: &Path) -> Arc<Store> {
    let of_host: Vec<_> = events.iter().map(|(sourcetype, line)| ("web", *sourcetype, line.clone())).collect();
    store_of_hosts(&of_host, form, place)
}

/// A store of events, each with its host, sourcetype and text.
pub(super) fn store_of_hosts(events: &[(&str, &str, String)], form: Form, place: &Path) -> Arc<Store> {
    let store = Store::open(StoreOptions::at(place), ManualClock::shared(1_000_000_000)).unwrap();
    let mut time = 0;
    for part in events.chunks(events.len() / 3) {
        let mut batch = EventBatch::default();
        for (host, sourcetype, line) in part {
            let meta = batch.intern(&Metadata {
                index: "main".into(),
                host: (*host).into(),
                source: "/logs/x".into(),
                sourcetype: (*sourcetype).into(),
            });
            time += 1_000_000_000;
            batch.push(line.as_bytes(), time, meta);
        }
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        if form == Form::Compacted {
            store.seal_all().unwrap();
        }
    }
    if form != Form::Hot {
        store.seal_all().unwrap();
    }
    if form == Form::Compacted {
        store.compact_all().unwrap();
    }
    store
}

const CONDITIONS: &[&str] = &[
    "took=5",
    "took>20000",
    "took<1.5 unit=s",
    "took=-12.5",
    "took=12*",
    "took=*ms",
    "took=\"*.5s\"",
    "whole=*s",
    "whole=5ms5",
    "whole=\"+5ms\"",
    "whole=12",
    "took=12",
    "took=007ms",
    "took=5MS",
    "took=5ms",
    "cur=*mA",
    "cur=4*A",
    "cur_unit=mA current<30",
    "current=404 OR current=40.4",
    "cur=-",
    "rpm>90000",
    "rpm=*rpm",
    "rpm=9*rpm",
    "rpm=12",
    "rpm!=*rpm",
    "NOT rpm=*",
    "vib<0.05 vib>0.01",
    "vib=0.043",
    "vib=0.04*",
    "vib=\"0.043mm/s\"",
    "vib=*mm/s",
    "fraction=043",
    "per=mm/s first=9",
    "load=37",
    "load=37%",
    "load=\"3*%\"",
    "load>50",
    "*mA",
    "4*mA",
    "ma",
    "ms",
    "*ms",
    "5ms",
    "5MS",
    "007ms",
    "99999999999999999999ms",
    "rpm",
    "*rpm",
    "9*rpm",
    "5m30s",
    "37",
    "37%",
    "\"37% rpm\"",
    "\"0.043mm/s\"",
    "\"043mm\"",
    "043mm",
    "\"mm/s done\"",
    "\"mm/s\"",
    "mm",
    "*3mm",
    "s",
    "\"0.04\"",
    "\"rpm vib\"",
    "*rpm*vib*",
    "12",
    "\"took=12\"",
    "CASE(5MS)",
    "CASE(5ms)",
    "TERM(cur=404mA)",
    "TERM(took=5ms5)",
    "1e3ms",
    "5",
    "\"5 ms\"",
    "unit=ms first=1",
];

const SEARCHES: &[&str] = &[
    "* | stats count(took) sum(took) avg(took) min(took) max(took) dc(took) by unit",
    "* | stats count(whole) dc(whole) min(whole) max(whole)",
    "* | stats sum(current) avg(current) max(current) by cur_unit",
    "* | stats count sum(rpm) max(rpm) dc(rpm) by sourcetype",
    "* | stats avg(vib) min(vib) dc(vib) count(vib) by first",
    "* | stats count by load | sort 0 load",
    "* | stats count by fraction, per",
    "* | top limit=0 whole",
    "* | stats count by cur",
    "* | eval a=if(cur_unit=\"mA\",current/1000,current) | stats sum(a) max(a) count(a)",
    "* | timechart span=10m avg(rpm) max(current)",
    "* | sort 9 - rpm | table _time rpm vib took cur",
    "* | sort 9 took | table _time took unit",
    "* | dedup took | stats count",
    "* | rex \"took=(?<n>\\d+)(?<u>ms|s)\\b\" | stats count sum(n) by u",
    "* | rex field=cur \"^(?<n>[\\d.]+)(?<u>.*)$\" | stats count sum(n) by u",
    "* | where vib>0.1 AND rpm<50000 | stats count sum(rpm)",
    "* | where like(cur,\"%mA\") | stats count",
    "* | eval l=len(cur).\"/\".substr(rpm,1,2) | stats count by l",
    "* | head 60 | table _time _raw",
];

#[test]
fn numbers_with_units_do_not_depend_on_their_storage() {
    let folder = tempfile::tempdir().unwrap();
    let layers = Layers::new([ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: "props.conf".into(),
        text: PROPS.into(),
    }]);
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
            let early = times(&engine, store, condition);
            let late = times(&engine, store, &format!("* | eval later=1 | search {condition}"));
            assert!(early == late, "{condition}, {form:?}: {} events instead of {}", early.len(), late.len());
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
        for (form, store) in forms.iter().zip(&stores).skip(1) {
            assert_eq!(rows(store), expected, "{search}, {form:?}");
        }
    }
}
