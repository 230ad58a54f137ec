use quarry_event::template::{Column, ValueTraits};

use super::*;

/// A template of literals and variables, each written as `@`, with one list of values per variable.
fn template_of(text: &str, values: &[&[&str]]) -> (TemplateSet, Template) {
    let mut template_set = TemplateSet::default();
    let column = |traits| Column { parent: Some(0), kind: ColumnKind::Texts, traits, values: 1 };
    template_set.columns.push(column(ValueTraits::default()));
    for values in values {
        let mut traits = ValueTraits::default();
        values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
        template_set.columns.push(column(traits));
    }
    let mut template = Template::default();
    for (at, literal) in (0u32..).zip(text.split('@')) {
        if at > 0 {
            template.parts.push(TemplatePart::Variable(at));
        }
        if !literal.is_empty() {
            template.parts.push(TemplatePart::Literal(literal.as_bytes().into()));
        }
    }
    (template_set, template)
}

/// The location of the element `f` for `KV_MODE=xml`.
fn element(text: &str, values: &[&[&str]]) -> ValueLocation {
    let (template_set, template) = template_of(text, values);
    XmlColumns::new(&template_set, &|_| None).locations(&template, &["f".to_owned()]).remove(0)
}

/// The location of the value at a path.
fn path(text: &str, path: &str, values: &[&[&str]]) -> ValueLocation {
    let (template_set, template) = template_of(text, values);
    XmlColumns::new(&template_set, &|_| None).path_location(&template, &XmlPath::parse(path).unwrap())
}

fn constant(text: &str) -> ValueLocation {
    ValueLocation::Constant(text.into())
}

fn is_written(place: &ValueLocation) -> bool {
    matches!(place, ValueLocation::Written(_))
}

#[test]
fn elements_are_located_where_no_value_changes_the_markup() {
    assert_eq!(element("<m><f>@</f></m>", &[&["ab", "c d"]]), ValueLocation::Variable(1));
    assert_eq!(element("<m><f>x</f><g>@</g></m>", &[&["ab"]]), constant("x"));
    assert_eq!(element("<m><f> x &amp; y </f><g>@</g></m>", &[&["ab"]]), constant("x & y"));
    assert_eq!(element("<m><g>@</g></m>", &[&["ab"]]), ValueLocation::Absent);
    assert_eq!(element("<m><f><g>@</g></f></m>", &[&["ab"]]), ValueLocation::Absent);
    assert_eq!(element("<m a='@'><f>x</f></m>", &[&["a>b\"<"]]), constant("x"));
    assert_eq!(element("<m a='@'><f>x</f></m>", &[&["a'b"]]), ValueLocation::Text);
    assert_eq!(element("<m><g>@</g><f>x</f></m>", &[&["a<b"]]), ValueLocation::Text);
    assert_eq!(element("<m @><f>x</f></m>", &[&["a"]]), ValueLocation::Text);
    assert_eq!(element("<m \"@\" b='1'><f>x</f></m>", &[&["k=v"]]), ValueLocation::Text, "the quote begins no value");
    assert_eq!(element("<!-- -@-><f>x</f>", &[&["", "a"]]), ValueLocation::Text, "an empty value ends the comment");
    assert_eq!(element("@ <m><f>x</f></m>", &[&["a>b"]]), constant("x"));
    assert_eq!(element("<!-- @ --><f>x</f>", &[&["<f>"]]), ValueLocation::Text);
    assert_eq!(element("<!-- @ --><f>x</f>", &[&["<f"]]), constant("x"));
}

#[test]
fn values_with_entities_or_blanks_are_computed() {
    assert!(is_written(&element("<f>@</f>", &[&["a&amp;b"]])));
    assert!(is_written(&element("<f>@</f>", &[&[" a"]])));
    assert!(is_written(&element("<f>@</f>", &[&["a\u{a0}"]])));
    assert!(is_written(&element("<f>@</f>", &[&["a", ""]])), "an empty element has no value");
    assert!(is_written(&element("<f>@ x</f>", &[&["", "a"]])));
    assert!(is_written(&element("<f>a&@</f>", &[&["lt;"]])));
    assert!(is_written(&element("<f><![CDATA[@]]></f>", &[&["a<b"]])));
    assert_eq!(element("<f><![CDATA[@]]></f>", &[&["a]]>b"]]), ValueLocation::Text);
    assert_eq!(
        element("<f>a @-@ b</f>", &[&[" x"], &["y "]]),
        ValueLocation::of_parts(&template_of("a @-@ b", &[&["x"], &["y"]]).1.parts)
    );
}

#[test]
fn paths_select_elements_and_attributes() {
    let text = "<m n=\"@\"><i>@</i><i q='1'>x</i></m>";
    let values: &[&[&str]] = &[&["a", " b"], &["c"]];
    assert_eq!(path(text, "m{@n}", values), ValueLocation::Variable(1));
    assert_eq!(path(text, "m.i{2}", values), constant("x"));
    assert_eq!(path(text, "m.i{@q}", values), constant("1"));
    assert_eq!(path(text, "m.i", values), ValueLocation::List([ValueLocation::Variable(2), constant("x")].into()));
    let ValueLocation::List(values_of_i) = path(text, "m.i", &[&["a"], &["c&amp;d"]]) else { panic!("a list") };
    assert!(is_written(&values_of_i[0]) && values_of_i[1] == constant("x"));
    assert_eq!(path(text, "m", values), ValueLocation::Text, "markup is read from the text");
    assert_eq!(path(text, "m.k", values), ValueLocation::Absent);
    assert!(is_written(&path("<m n=\"@\"/>", "m{@n}", &[&["&lt;"]])));
}
