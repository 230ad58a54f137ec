//! Tests of the limits on the fields of a page and of a search.

use arrow::array::Array as _;
use quarry_conf::{Layers, builtin_sources};
use quarry_eval::rows::ColumnReader;

use super::*;

/// A page with these events of one source.
fn page(texts: &[String]) -> Page {
    let ends = texts.iter().scan(0, |end, text| {
        *end += u32_of(text.len());
        Some(*end)
    });
    let meta = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() };
    Page {
        first_row: 0,
        raw: texts.concat().into(),
        ends: ends.collect(),
        time: vec![0; texts.len()],
        index_time: vec![0; texts.len()],
        meta: vec![0; texts.len()],
        metas: [meta].into(),
        fields: Default::default(),
    }
}

#[test]
fn fields_that_a_search_names_are_extracted_beyond_the_limits() {
    let pairs = |text: usize| (0..50).map(|at| format!("k{}=v ", text * 50 + at)).collect::<String>();
    let mut texts: Vec<String> = (0..SEARCH_FIELDS_MAX / 50).map(pairs).collect();
    texts.push("named=1 tested=2 other=3".to_owned());
    let (page, last) = (page(&texts), texts.len() - 1);
    let rules = FieldRules::new(Arc::new(PropsResolver::new(&Layers::new(builtin_sources()))));
    let projection = Projection {
        all: true,
        names: vec!["named".to_owned()],
        tested_names: vec!["tested".to_owned()],
        ..Projection::default()
    };
    let (shown, messages) = (ShownFields::default(), Messages::default());
    let rows: Vec<u32> = (0..u32_of(texts.len())).collect();
    // All rows of a page, and the last row after the rows of another page.
    for selected in [&rows[..], &rows[last..]] {
        let found = extract_fields(&page, selected, &projection, &rules, &shown, &messages).unwrap();
        let value_of = |field: &str| {
            let (_, column) = found.iter().find(|(name, _)| name == field)?;
            ColumnReader::new(column).text(column.len() - 1, &mut String::new()).map(str::to_owned)
        };
        assert_eq!(["named", "tested", "other"].map(value_of), [Some("1".to_owned()), Some("2".to_owned()), None]);
    }
    assert!(messages.push_count() > 0, "dropped fields are reported");
}
