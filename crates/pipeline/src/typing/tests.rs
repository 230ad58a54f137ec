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
    typing_with_limits("")
}

fn typing_with_limits(limits: &str) -> EventTyping {
    let conf = |name: &str, text: &str| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: format!("{name}.conf"),
        text: text.to_owned(),
    };
    let layers = Layers::new([conf("props", PROPS), conf("transforms", TRANSFORMS), conf("limits", limits)]);
    EventTyping::new(Arc::new(PropsResolver::new(&layers)))
}

#[test]
fn a_fixed_host_and_the_limit_of_fields_hold_for_whole_events() {
    let typing = typing_with_limits("[kv]\nindexed_kv_limit = 3\n");
    let meta = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "app".into() };
    let plan = typing.plan(&meta);
    for (sent, fixed) in [(0, true), (0, false), (5, true)] {
        let fields = vec![("sent".into(), "x".to_owned()); sent];
        let event = WholeEvent { raw: "a b c d e f".to_owned(), time: 5, meta: meta.clone(), fields };
        let (events, _) = typing.run(&plan, event, fixed, TypingStage::All, 9);
        assert_eq!(&*events[0].meta.host, if fixed { "h" } else { "a" });
        assert_eq!(events[0].fields.len(), sent.max(3));
    }
}

proptest! {
    #[test]
    fn every_event_and_copy_keeps_its_text(raw in "[a-pr-yü \\n\\x00-\\x1f]{0,40}") {
        let typing = typing();
        let meta = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "app".into() };
        let plan = typing.plan(&meta);
        let event = WholeEvent { raw: raw.clone(), time: 5, meta: meta.clone(), fields: Vec::new() };
        let (events, _) = typing.run(&plan, event.clone(), false, TypingStage::All, 9);
        let has_text = raw.contains(|letter| letter != '\n');
        prop_assert_eq!(events.len(), 1 + usize::from(has_text));
        for event in &events {
            prop_assert_eq!(&event.raw, &raw);
            prop_assert_eq!(event.time, 5);
        }
        // Only rule sets apply to events that another node has processed, and there are none here.
        let (events, refused) = typing.run(&plan, event.clone(), false, TypingStage::Rulesets, 9);
        prop_assert_eq!((events, refused), (vec![event], None));
    }
}
