//! Tests of the columns and positions that may contain the end of a key.

use quarry_event::template::{Column, ColumnKind, TemplateSet};

use super::*;

/// The columns that may contain the end of the key `name`. `text` is the template, with `@` for each variable; `values`
/// has the values of each variable.
fn columns(name: &str, text: &str, values: &[&[&str]]) -> Option<Vec<u32>> {
    let mut template_set = TemplateSet::default();
    let column = |traits| Column { parent: Some(0), kind: ColumnKind::Texts, traits, values: 1 };
    template_set.columns.push(column(ValueTraits::default()));
    for values in values {
        let mut traits = ValueTraits::default();
        values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
        template_set.columns.push(column(traits));
    }
    let mut template = Template::default();
    for (at, literal) in text.split('@').enumerate() {
        if at > 0 {
            template.parts.push(TemplatePart::Variable(at as u32));
        }
        if !literal.is_empty() {
            template.parts.push(TemplatePart::Literal(literal.as_bytes().into()));
        }
    }
    KeyEnd::of(name).columns(&template_set, &template).map(Vec::from)
}

#[test]
fn keys_are_searched_in_values_that_can_contain_them() {
    assert_eq!(columns("foo", "a @ b @", &[&["x=y"], &["foo=1"]]), Some(vec![2]));
    assert_eq!(columns("uri_foo", "a @ b @", &[&["xfo"], &["foo=1", "z"]]), Some(vec![2]));
    assert_eq!(columns("foo_", "@", &[&["a=1"]]), Some(vec![1]));
    assert_eq!(columns("foo", "a @", &[&["fo="]]), Some(vec![]), "too short");
}

#[test]
fn keys_across_part_edges_require_the_text() {
    assert_eq!(columns("foo", "foo=@", &[&["1"]]), None);
    assert_eq!(columns("foo", "@=1", &[&["foo"]]), None);
    assert_eq!(columns("foo", "@=1", &[&["fob"]]), Some(vec![]));
    assert_eq!(columns("foo", "a fo@", &[&["o=1"]]), None);
    assert_eq!(columns("foo", "a fo@", &[&["x=1"]]), Some(vec![]));
    assert_eq!(columns("foo", "@o@", &[&["fo"], &["=2"]]), None);
    assert_eq!(columns("foo", "@o@", &[&["fx"], &["=2"]]), Some(vec![]));
    assert_eq!(columns("foo", "@@", &[&["f"], &["oo=2"]]), None);
    assert_eq!(columns("foo", "@@", &[&["foo="], &["x"]]), None);
    assert_eq!(columns("foo", "@@src=@", &[&["foo"], &["foo"], &["1"]]), Some(vec![]));
    assert_eq!(columns("foo", "@@o=@", &[&["f"], &["o"], &["1"]]), None);
    assert_eq!(columns("foo", "f@oo=", &[&["", "1"]]), None);
}

#[test]
fn only_texts_that_contain_the_whole_key_end_match() {
    let key = KeyEnd::of("a");
    let places = |texts: &[&str]| {
        let ends: Vec<u32> = texts
            .iter()
            .scan(0, |end, text| {
                *end += text.len() as u32;
                Some(*end)
            })
            .collect();
        key.matching_texts(texts.concat().as_bytes(), &ends)
    };
    assert_eq!(places(&["a=1", "b", "ba", "=a=a=", "", "a=", "a"]), [0, 3, 5]);
    assert_eq!(places(&["xa", "=", "a"]), [] as [usize; 0]);
    assert_eq!(places(&[]), [] as [usize; 0]);
}
