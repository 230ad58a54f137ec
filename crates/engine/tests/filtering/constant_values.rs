//! Fields whose values, or parts of them, are the same for each number of a column of numbers: the same in each state
//! of the storage.

use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions};
use quarry_testworld::NoTables;

use super::quantities::store;
use super::{Form, times};

const PROPS: &str = r"
[clock]
KV_MODE = none
EXTRACT-seconds = (?<seconds>\d+\.\d+)
EXTRACT-fraction = \.(?<fraction>\d+)
[steps]
KV_MODE = none
EXTRACT-step = k=(?<step>\d+ t=\d)
";

fn check(events: &[(&'static str, String)], expected: &[(&str, usize)]) {
    let folder = tempfile::tempdir().unwrap();
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: PROPS.into() };
    let props = Arc::new(PropsResolver::new(&Layers::new([source])));
    let engine = Engine::new(&EngineOptions::default(), props, Arc::new(NoTables)).unwrap();
    for (name, form) in [("hot", Form::Hot), ("sealed", Form::Sealed), ("compacted", Form::Compacted)] {
        let store = store(events, form, &folder.path().join(name));
        for (condition, matches) in expected {
            assert_eq!(times(&engine, &store, condition).len(), *matches, "{condition}, {name}");
        }
    }
}

#[test]
fn a_number_that_is_the_same_in_all_events_is_found() {
    let events: Vec<_> = (0..3).map(|_| ("clock", "2026-11-01T10:00:00.123Z".to_owned())).collect();
    let expected = [
        ("seconds=00.123", 3),
        ("seconds=*.123", 3),
        ("seconds=00.123*", 3),
        ("seconds=00.12", 0),
        ("fraction=123", 3),
        ("fraction=23", 0),
    ];
    check(&events, &expected);
}

#[test]
fn a_number_that_is_the_beginning_of_a_value_is_found() {
    let event = |row: u32| ("steps", format!("k={} t=7.2{}z n={row}", 17 + row % 3, row % 2));
    let expected = [
        ("step=\"17 t=7\"", 100),
        ("step=\"19 t=7\"", 100),
        ("step=\"*8 t=7\"", 100),
        ("step=\"17 t=2\"", 0),
        ("step=*", 300),
    ];
    check(&(0..300).map(event).collect::<Vec<_>>(), &expected);
}
