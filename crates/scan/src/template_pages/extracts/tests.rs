//! Tests that the fields of built-in patterns are located in the templates that sealing makes.

use quarry_conf::{Layers, PropsResolver, builtin_sources};
use quarry_eval::messages::Messages;
use quarry_event::template::{ColumnKind, TemplateSet};
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, IndexSelector, Store, StoreOptions};

use super::*;
use crate::fields::FieldRules;

fn metadata(sourcetype: &str) -> Metadata {
    Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: sourcetype.into() }
}

/// The template set of a sealed slab with these lines, each of which is repeated often.
fn template_set(sourcetype: &str, lines: impl Iterator<Item = String>) -> Arc<TemplateSet> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1)).unwrap();
    let mut batch = EventBatch::default();
    let meta = batch.intern(&metadata(sourcetype));
    lines.enumerate().for_each(|(at, line)| batch.push(line.as_bytes(), at as i64, meta));
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    store.seal_all().unwrap();
    let segments = store.snapshot(&IndexSelector::all(), &TimeRange::ALL).segments;
    segments[0].template_set().unwrap().unwrap()
}

/// The number of templates in which values determine the field's location, and the number of templates in which the
/// field is one column.
fn count_by_value_and_variable(sourcetype: &str, template_set: &TemplateSet, name: &str) -> (usize, usize) {
    let rules = FieldRules::new(Arc::new(PropsResolver::new(&Layers::new(builtin_sources()))));
    let class = rules.extraction_class(&metadata(sourcetype), &[name.to_owned()], &Messages::default());
    let ColumnKind::Templates(templates) = &template_set.columns[0].kind else { panic!("column 0 is templates") };
    let budget = PlanningBudget::of_events(1);
    let mut named = NamedRules::new(&class.text_patterns, name, template_set, true, &budget);
    // The groups of all rules, so that rules are also planned for several groups at once.
    let names: Vec<String> = class.text_patterns.iter().flat_map(|rule| rule.names.iter().flatten()).cloned().collect();
    let mut shared = SharedPlans::new(&class.text_patterns, &names, template_set, &budget);
    let mut alone = SharedPlans::new(&[], &[], template_set, &budget);
    let mut named_alone = NamedRules::new(&class.text_patterns, name, template_set, true, &budget);
    let (mut by_value, mut variables) = (0, 0);
    for (number, template) in templates.iter().enumerate() {
        let planned = PlannedTemplate::new(template_set, number, template);
        let location = named.location(&planned, &mut shared, &mut |_| None);
        assert_eq!(location, named_alone.location(&planned, &mut alone, &mut |_| None), "{name} in {template:?}");
        match location {
            Division::ByCode { .. } | Division::Whole(RuleLocation::ByValue, _) => by_value += 1,
            Division::Whole(RuleLocation::At(ValueLocation::Variable(_)), _) => variables += 1,
            Division::Whole(RuleLocation::At(_) | RuleLocation::Nowhere, _) => {}
        }
    }
    (by_value, variables)
}

/// Lines in the combined log format; every 50th has the user agent `agent`.
fn lines(agent: &'static str) -> impl Iterator<Item = String> {
    (0..3_000usize).map(move |at| {
        let query = if at.is_multiple_of(2) { format!("?q=a{}", at * 7) } else { String::new() };
        let bytes = if at.is_multiple_of(9) { "-".to_owned() } else { (at * 31).to_string() };
        // A number precedes `agent`, because quotes in a common prefix of the values would have a known role.
        let agent = match at.is_multiple_of(50) {
            true => format!("{} {agent}", at / 50),
            false => "Mozilla/5.0 (X11; Linux x86_64)".to_owned(),
        };
        let user = ["-", "bob", "alice", "u7"][at % 4];
        format!(
            r#"10.0.{}.{} - {user} [20/Nov/2026:00:00:{:02} +0000] "GET /a/{}.html{query} HTTP/1.1" {} {bytes} "https://h.example/{}" "{agent} {at}""#,
            at % 200,
            at % 7,
            at % 60,
            at % 800,
            200 + at % 5,
            at % 30,
        )
    })
}

const FIELDS: [&str; 12] = [
    "clientip",
    "ident",
    "user",
    "req_time",
    "method",
    "uri",
    "uri_path",
    "uri_query",
    "version",
    "status",
    "bytes",
    "referer",
];

#[test]
fn fields_of_well_formed_requests_are_located_in_templates() {
    for sourcetype in ["nginx", "access_combined", "access_combined_wcookie"] {
        let template_set = template_set(sourcetype, lines("curl/8.9.1"));
        for name in FIELDS.iter().chain(&["useragent"]) {
            let (by_value, variables) = count_by_value_and_variable(sourcetype, &template_set, name);
            assert_eq!(by_value, 0, "{name} of {sourcetype}");
            assert!(variables > 0 || ["uri", "req_time"].contains(name), "{name} of {sourcetype} is a column");
        }
    }
}

#[test]
fn irregular_values_do_not_affect_other_fields() {
    for agent in [r#"say \"hi\""#, r#"\"k=\"v\\"#] {
        let template_set = template_set("nginx", lines(agent));
        for name in FIELDS {
            assert_eq!(count_by_value_and_variable("nginx", &template_set, name).0, 0, "{name} beside {agent}");
        }
        // `useragent` is tested only on lines with such an agent.
        let (by_value, variables) = count_by_value_and_variable("nginx", &template_set, "useragent");
        assert!(by_value > 0 && variables >= by_value, "{by_value} of {variables} for {agent}");
    }
}

#[test]
fn values_beyond_ascii_are_located_like_others() {
    let template_set = template_set("nginx", lines("ümlaut \u{a0}"));
    for name in FIELDS.iter().chain(&["useragent"]) {
        assert_eq!(count_by_value_and_variable("nginx", &template_set, name).0, 0, "{name}");
    }
}
