//! Tests that rules which drop no events lose none.

use std::sync::Arc;

use proptest::prelude::*;
use quarry_conf::layers::Layer;
use quarry_conf::{ConfSource, Layers, PropsResolver};
use quarry_event::Metadata;

use super::{EventTyping, TypingStage, WholeEvent};

const PROPS: &str =
    "[app]\nSEDCMD-a = s/q//g\nSEDCMD-b = s/(.)x/\\1x/g y/z/z/\nTRANSFORMS-a = copy, fields, meta, index\n";
const TRANSFORMS: &str = "[copy]\nREGEX = (.)\nCLONE_SOURCETYPE = other\n\
    [fields]\nREGEX = (\\w+)\nFORMAT = word::$1\nWRITE_META = true\nREPEAT_MATCH = true\n\
    [meta]\nREGEX = ^(.)\nDEST_KEY = MetaData:Host\nFORMAT = host::$1\n\
    [index]\nREGEX = (.)$\nDEST_KEY = _MetaData:Index\nFORMAT = $1\n";

fn typing() -> EventTyping {
    let conf = |name: &str, text: &str| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: format!("{name}.conf"),
        text: text.to_owned(),
    };
    let layers = Layers::new([conf("props", PROPS), conf("transforms", TRANSFORMS)]);
    EventTyping::new(Arc::new(PropsResolver::new(&layers)))
}

proptest! {
    #[test]
    fn every_event_and_copy_keeps_its_text(raw in "[a-pr-yü \\n\\x00-\\x1f]{0,40}") {
        let typing = typing();
        let meta = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "app".into() };
        let plan = typing.plan(&meta);
        let event = WholeEvent { raw: raw.clone(), time: 5, meta: meta.clone(), fields: Vec::new() };
        let (events, _) = typing.run(&plan, event.clone(), TypingStage::All, 9);
        let has_text = raw.contains(|letter| letter != '\n');
        prop_assert_eq!(events.len(), 1 + usize::from(has_text));
        for event in &events {
            prop_assert_eq!(&event.raw, &raw);
            prop_assert_eq!(event.time, 5);
        }
        // Only rule sets apply to events that another node has processed, and there are none here.
        let (events, refused) = typing.run(&plan, event.clone(), TypingStage::Rulesets, 9);
        prop_assert_eq!((events, refused), (vec![event], None));
    }
}
