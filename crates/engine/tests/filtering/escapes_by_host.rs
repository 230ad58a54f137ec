//! A field whose values are JSON strings in the events of one host, and the same strings as written in those of another.

use std::sync::Arc;

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions};
use quarry_testworld::NoTables;

use super::quantities::store_of_hosts;
use super::{Form, times};

const PROPS: &str = r#"
[names]
KV_MODE = json
[host::plain]
KV_MODE = none
EXTRACT-name = "name":"(?<name>[^"]*)"
"#;

#[test]
fn escapes_are_resolved_only_in_events_of_the_host_with_json() {
    let folder = tempfile::tempdir().unwrap();
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: PROPS.into() };
    let props = Arc::new(PropsResolver::new(&Layers::new([source])));
    let engine = Engine::new(&EngineOptions::default(), props, Arc::new(NoTables)).unwrap();
    // Each host has 50 events per name.
    let names = ["Jos\\u00e9", "Ana", "Bo"];
    let event = |row: usize| {
        let host = if (row / 3).is_multiple_of(2) { "json" } else { "plain" };
        (host, "names", format!("{{\"name\":\"{}\",\"row\":{row}}}", names[row % 3]))
    };
    let events: Vec<_> = (0..300).map(event).collect();
    for (name, form) in [("hot", Form::Hot), ("sealed", Form::Sealed), ("compacted", Form::Compacted)] {
        let store = store_of_hosts(&events, form, &folder.path().join(name));
        for (condition, matches) in
            [("name=José", 50), ("name=José host=plain", 0), ("name!=José", 250), ("name=Ana", 100), ("name=Jos*", 100)]
        {
            assert_eq!(times(&engine, &store, condition).len(), matches, "{condition}, {name}");
        }
    }
}
