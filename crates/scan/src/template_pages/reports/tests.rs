//! Tests of the pairs that a transform with names taken from the text finds in handwritten templates.

use quarry_conf::{ExtractionMethod, ReportRule};
use quarry_event::template::{ByteSet, Column, ColumnKind, ValueTraits};

use super::super::facts::TemplateFactsCache;
use super::*;

fn report() -> Arc<Report> {
    let pattern = r#"<Data Name="([^"]+)">([^<]*)</Data>"#.to_owned();
    let method = ExtractionMethod::Pattern { pattern, pairs: vec![("$1".to_owned(), "$2".to_owned())] };
    let rule = ReportRule {
        name: "data".to_owned(),
        source: "_raw".to_owned(),
        method,
        adds_values: false,
        cleans_names: true,
        keeps_empty: false,
    };
    Arc::new(Report::new(&rule).unwrap())
}

/// Templates over three columns: two columns with letters, and one with values that may be empty.
fn template_set(templates: &[&[&str]]) -> Arc<TemplateSet> {
    let part = |part: &&str| match part.strip_prefix('$') {
        Some(column) => TemplatePart::Variable(column.parse().unwrap()),
        None => TemplatePart::Literal(part.as_bytes().into()),
    };
    let templates = templates.iter().map(|parts| Template { parts: parts.iter().map(part).collect() });
    let letters = ByteSet::of(b"abc");
    let texts = |min_len| {
        let traits = ValueTraits {
            bytes: letters,
            firsts: letters,
            lasts: letters,
            min_len,
            max_len: 9,
            ..ValueTraits::default()
        };
        Column { parent: Some(0), kind: ColumnKind::Texts, traits, values: 1 }
    };
    let text = Column {
        parent: None,
        kind: ColumnKind::Templates(templates.collect()),
        traits: ValueTraits::default(),
        values: 1,
    };
    Arc::new(TemplateSet { columns: vec![text, texts(1), texts(1), texts(0)], ..TemplateSet::default() })
}

#[test]
fn pairs_named_by_the_text_are_found_once_and_cached_by_name() {
    let set = template_set(&[
        &[r#"<Data Name="a">"#, "$1", r#"</Data><Data Name="b c">x</Data><Data Name="a">"#, "$2", "</Data>"],
        &[r#"<Data Name="b c">"#, "$2", r#"</Data><Data Name=""#, "$1", r#"">x</Data><Data Name="d">y</Data>"#],
        &["no data"],
        &[r#"<Data Name="d">"#, "$3", "</Data>"],
    ]);
    let ColumnKind::Templates(templates) = &set.columns[0].kind else { panic!("column 0 is templates") };
    let (known, report) = (TemplateFactsCache::default(), report());
    let found = std::cell::Cell::new(0);
    let pairs_of = |report: &Arc<Report>| {
        known.of(&set).pairs_for(report, || {
            found.set(found.get() + 1);
            TemplatePairs::new(report, &set, templates)
        })
    };
    let places = |names: &[&str]| -> Vec<Vec<ValueLocation>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let planner = ReportPlanner::new(&report, &names, &set, &|_| None, &pairs_of);
        let of_template = |(number, template)| planner.locations(&PlannedTemplate::new(&set, number, template), &names);
        templates.iter().enumerate().map(of_template).collect()
    };
    use ValueLocation::{Absent, Constant, Text, Variable};
    let all = places(&["a", "b_c", "d", "e"]);
    assert_eq!(all[0], [Variable(1), Constant("x".into()), Absent, Absent], "the first value of a name counts");
    assert_eq!(all[1], [Text, Variable(2), Text, Text], "any field may be named by the values of a variable");
    assert_eq!(all[2], [Absent, Absent, Absent, Absent]);
    assert_eq!(all[3], [Text, Text, Text, Text], "whether there is a value is not decided");
    for (at, name) in ["a", "b_c", "d", "e"].iter().enumerate() {
        let alone: Vec<ValueLocation> = places(&[name]).into_iter().flatten().collect();
        let together: Vec<ValueLocation> = all.iter().map(|places| places[at].clone()).collect();
        assert_eq!(alone, together, "{name}");
    }
    assert_eq!(found.get(), 1, "later searches look names up");
}
