//! Tests of the locations of fields in templates, and of values that force reading the text.

use std::sync::Arc;

use proptest::prelude::*;
use quarry_event::template::{Column, ColumnKind, Dictionary, NumberFormat, is_string_content};

use super::super::ambiguous_columns::is_unseparated;
use super::super::value_location::{Nested, NestedValue};
use super::*;

const KV: AutoExtraction = AutoExtraction { kv_mode: KvMode::Auto, auto_json: true, by_pattern: false };

/// The location of `f` in a template of literals and variables, each written as `@`; `values` has one list per
/// variable.
fn place(automatic: AutoExtraction, text: &str, values: &[&[&str]]) -> ValueLocation {
    let (template_set, template) = template_of(text, values);
    let json = JsonColumns::new(&template_set, &|_| None);
    field_location(&template_set, &template, automatic, &json)
}

/// A template of literals and variables, each written as `@`; `values` has one list per variable.
fn template_of(text: &str, values: &[&[&str]]) -> (TemplateSet, Template) {
    let mut template_set = TemplateSet::default();
    let column = |kind, traits| Column { parent: Some(0), kind, traits, values: 1 };
    template_set.columns.push(column(ColumnKind::Texts, ValueTraits::default()));
    for values in values {
        let mut traits = ValueTraits::default();
        values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
        let kind = match NumberFormat::guess(values[0].as_bytes()) {
            Some(format) => ColumnKind::Numbers { format, min: 0, max: 1 },
            None => ColumnKind::Texts,
        };
        template_set.columns.push(column(kind, traits));
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
    (template_set, template)
}

/// The location of `f`. If the field must be extracted from a part of the text, or the location is right only for some
/// values, the location counts as text.
fn field_location(
    template_set: &TemplateSet,
    template: &Template,
    automatic: AutoExtraction,
    json: &JsonColumns<'_>,
) -> ValueLocation {
    let told = template_locations(template_set, template, automatic, &["f".to_owned()], json).remove(0);
    match told.place {
        ValueLocation::Pair(_) => ValueLocation::Text,
        _ if !told.ambiguous_columns.is_empty() => ValueLocation::Text,
        place => place,
    }
}

fn constant(text: &str) -> ValueLocation {
    ValueLocation::Constant(text.into())
}

#[test]
fn pairs_are_located_in_templates() {
    for (text, values, expected) in [
        ("at @ f=@ x", &[&["12"][..], &["ab", "c"]][..], ValueLocation::Variable(2)),
        ("f=@", &[&["ab"]], ValueLocation::Variable(1)),
        ("f=\"@\" x", &[&["a b"]], ValueLocation::Variable(1)),
        ("f=plain a=@", &[&["b"]], constant("plain")),
        ("f=1 f=@", &[&["b"]], constant("1")),
        ("g=@", &[&["b"]], ValueLocation::Absent),
        ("f == @", &[&["b"]], ValueLocation::Absent),
        ("a=\"f=@\"", &[&["b"]], ValueLocation::Absent),
        ("(@) f=@;", &[&["x y"], &["b=c"]], ValueLocation::Variable(2)),
        ("(f=@) x", &[&["12", "ab"]], ValueLocation::Variable(1)),
        ("[f=@] (g=@)", &[&["12"], &["3"]], ValueLocation::Variable(1)),
        // A value that ends with a breaker does not extend into the key after it, whatever precedes the value.
        ("|A@f=@ x", &[&["|2|", "|10|"], &["1"]], ValueLocation::Variable(2)),
        ("|A@=@ f=@", &[&["|", "||"], &["1"], &["2"]], ValueLocation::Variable(3)),
        ("|A@f=@ x", &[&["|2", "|10"], &["1"]], ValueLocation::Text),
        ("|A@f=@ x", &[&["|2|", "|x"], &["1"]], ValueLocation::Text),
    ] {
        assert_eq!(place(KV, text, values), expected, "{text}");
    }
    let parts = [
        TemplatePart::Literal(b"/v".as_slice().into()),
        TemplatePart::Variable(1),
        TemplatePart::Literal(b"?p".as_slice().into()),
    ];
    assert_eq!(place(KV, "f=/v@?p x", &[&["2"]]), ValueLocation::Composite(parts.into()));
}

#[test]
fn names_are_listed_unless_values_may_add_names() {
    let listed = |text: &str, values: &[&[&str]]| {
        let (template_set, template) = template_of(text, values);
        let json = JsonColumns::new(&template_set, &|_| None);
        let names = template_names(&template_set, &template, KV, &json, &mut 9)?;
        Some(names.into_iter().collect::<Vec<_>>().join(" "))
    };
    for (text, values, expected) in [
        ("at @ f=@ g-h=\"@\" x", &[&["12"][..], &["ab", "c"], &["a b"]][..], Some("f g_h")),
        ("f=@ host=@", &[&["1"], &["2"]], Some("extracted_host f")),
        ("plain @", &[&["a"]], Some("")),
        ("plain @", &[&["a", "b=c"]], None),
        ("f=1 @=1", &[&["k"]], None),
        ("{\"a\":{\"b\":@},\"c\":[@]}", &[&["1"], &["2"]], Some("a.b c{}")),
        ("{\"a\":\"@\"}", &[&["x=y"]], Some("a")),
        ("{\"a\":1,\"@\":1}", &[&["k"]], None),
        ("@{\"a\":1}", &[&["", " "]], None),
    ] {
        assert_eq!(listed(text, values).as_deref(), expected, "{text}");
    }
}

/// A `TemplateSet` whose first columns hold values and whose later columns hold these templates, written as in
/// [`place`].
fn shapes_of(values: &[&[&str]], columns: &[&[&str]]) -> (TemplateSet, impl Fn(&str) -> Template) {
    let template = |text: &str| {
        let mut parts = Vec::new();
        for (at, piece) in text.split('@').enumerate() {
            let (column, literal) = if at == 0 { ("", piece) } else { piece.split_at(1) };
            parts.extend(column.parse().map(TemplatePart::Variable));
            parts.extend((!literal.is_empty()).then(|| TemplatePart::Literal(literal.as_bytes().into())));
        }
        Template { parts }
    };
    let mut template_set = TemplateSet::default();
    let column = |kind, traits| Column { parent: Some(0), kind, traits, values: 1 };
    template_set.columns.push(column(ColumnKind::Texts, ValueTraits::default()));
    for values in values {
        let mut traits = ValueTraits::default();
        values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
        template_set.columns.push(column(ColumnKind::Texts, traits));
    }
    for forms in columns {
        let mut traits = ValueTraits::default();
        forms.iter().enumerate().for_each(|(at, form)| traits.add(form.as_bytes(), at == 0));
        template_set
            .columns
            .push(column(ColumnKind::Templates(forms.iter().map(|form| template(form)).collect()), traits));
    }
    (template_set, template)
}

#[test]
fn names_within_values_are_listed_by_the_templates_of_the_values() {
    let (template_set, template) = shapes_of(&[&["ab"], &["12"], &["z"]], &[&["/a?k=@1&sid=@2", "/b"]]);
    let json = JsonColumns::new(&template_set, &|_| None);
    let listed = |text: &str, mut left: usize| {
        let names = template_names(&template_set, &template(text), KV, &json, &mut left)?;
        Some(names.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(listed("GET @4 x=@3", 2).as_deref(), Some("k sid x"));
    assert_eq!(listed("GET @4 x=@3", 1), None, "a template of the values is not examined");
    assert_eq!(listed("GET @4@1=@3", 9), None, "the end of a value is part of a key");
}

#[test]
fn optional_pairs_are_located() {
    let nested = |columns: &[u32], may_repeat: bool| {
        let values = columns.iter().map(|column| NestedValue { column: *column, is_escaped: false }).collect();
        ValueLocation::Nested(Nested { values, may_repeat })
    };
    let values: [&[&str]; 3] = [&["ab", "c"], &["12"], &["say \\\"x\\", "y"]];
    for (text, columns, expected) in [
        ("w @1] \"m\"@4@5", [&["", " f=@2"][..], &["", " g=\"@1\""]], nested(&[2], false)),
        ("w @4@5", [&[" f=\"@1\"", "", " f=@2"], &["", " g=@3"]], nested(&[1, 2], false)),
        ("w @4@5\n@1", [&["", " g=@2"], &["", " f=@1,"]], nested(&[1], false)),
        ("w @4@5", [&["", " g=@2"], &["", " h=@1"]], ValueLocation::Absent),
        // A value that may end early affects only the value's own field.
        ("w@4@5", [&["", " f=@2"], &["", " g=\"@3\""]], nested(&[2], false)),
        ("w@4@5", [&["", " g=@2"], &["", " f=\"@3\""]], ValueLocation::Text),
        // The other field's value contains an equals sign, and may end early.
        ("w@4@5", [&["", " f=@1"], &["", " g=@2=@3"]], nested(&[1], false)),
        // After an equals sign, a value with quotes may open a quoted value that continues after the pair.
        ("w f=@1@4@5", [&["", " g=@2=@3"], &["", " h=\"@3\""]], ValueLocation::Text),
        // A row may have the field twice; the first value counts.
        ("w@4@5", [&["", " f=@1"], &["", " f=@2"]], nested(&[1, 2], true)),
        ("w f=@1@4@5", [&["", " f=@2"], &["", " g=@2"]], ValueLocation::Variable(1)),
        ("w f=@1@4@5", [&["", " g=@2"], &["", " h=@2"]], ValueLocation::Variable(1)),
        // The text after the pairs continues the last value, or contains a pair itself.
        ("w@4@5x", [&["", " f=@1"], &["", " g=@2"]], ValueLocation::Text),
        ("w@4@5 @1=2", [&["", " f=@1"], &["", " g=@2"]], nested(&[1], false)),
        ("k=\"w@4@5\"", [&["", " f=@1"], &["", " g=@2"]], ValueLocation::Text),
        // No pairs: the values begin with something else.
        ("w@4@5", [&["", "f=@1"], &["", " g=@2"]], ValueLocation::Text),
        ("w@4@5", [&["", "@1 f=2"], &["", " g=@2"]], ValueLocation::Text),
        (
            "w@4@5",
            [&["", " f=@1 \"h=@2"], &["", " g=@2"]],
            ValueLocation::Nested(Nested {
                values: [NestedValue { column: 1, is_escaped: false }].into(),
                may_repeat: false,
            }),
        ),
        ("w@4@5", [&["", " f=\"@1"], &["", " g=@2"]], ValueLocation::Text),
    ] {
        let (template_set, template) = shapes_of(&values, &columns);
        let json = JsonColumns::new(&template_set, &|_| None);
        assert_eq!(field_location(&template_set, &template(text), KV, &json), expected, "{text} {columns:?}");
    }
}

#[test]
fn only_rows_without_a_separator_before_the_key_are_ambiguous() {
    let unseparated = |column| vec![AmbiguousColumn::Unseparated(column)];
    for (text, values, expected) in [
        ("|A@f=@ x", &[&["|2|", "|x"][..], &["1"]][..], (ValueLocation::Variable(2), unseparated(1))),
        ("|@@f=@ x", &[&["2"], &["|", "|x"], &["1"]], (ValueLocation::Variable(3), unseparated(2))),
        ("|@f=@ x", &[&["", "2 "], &["1"]], (ValueLocation::Variable(2), unseparated(1))),
        // In ambiguous rows, the key names a different field.
        ("|@_f=@ x", &[&["|", "a"], &["1"]], (ValueLocation::Variable(2), unseparated(1))),
    ] {
        let (mut template_set, template) = template_of(text, values);
        let texts = template_set.columns.iter_mut().skip(1).filter(|column| column.kind == ColumnKind::Texts);
        texts.for_each(|column| column.kind = ColumnKind::Dictionary { len: 2 });
        let json = JsonColumns::new(&template_set, &|_| None);
        let found = template_locations(&template_set, &template, KV, &["f".to_owned()], &json).remove(0);
        assert_eq!((found.place, found.ambiguous_columns.to_vec()), expected, "{text} {values:?}");
    }
}

/// A division by separators after which the last part would be divided again in the same way.
#[test]
fn parts_of_divided_segments_are_not_divided_again() {
    for (text, values) in [("a|k=@|", &[&["", "x;"][..]][..]), ("f=@f=@ x", &[&["b ", "b"], &["1"]])] {
        let (mut template_set, template) = template_of(text, values);
        template_set.columns[1].kind = ColumnKind::Dictionary { len: 2 };
        let json = JsonColumns::new(&template_set, &|_| None);
        assert_eq!(template_locations(&template_set, &template, KV, &["f".to_owned()], &json).len(), 1);
    }
}

#[test]
fn doubt_about_a_segment_leaves_other_segments_certain() {
    for (text, values, expected) in [
        // A value that may begin with a quote; a key that varies.
        ("f=@ g=@", &[&["a"][..], &["(null)", "\"x y\""]][..], ValueLocation::Variable(1)),
        ("@=@ f=@", &[&["g", "h"], &["1"], &["a"]], ValueLocation::Variable(3)),
        ("@=1 f=1", &[&["g"]], constant("1")),
        // Values that may end early.
        ("g=@ f=@", &[&["a b", "c"], &["a"]], ValueLocation::Variable(2)),
        ("g=@,f=@", &[&["a)", "(b)"], &["a"]], ValueLocation::Variable(2)),
        // A quoted value with quotes inside ends at the next quote that follows no equals sign.
        ("g=\"@\" f=@", &[&["say \\\"x\\\"", "c"], &["a"]], ValueLocation::Variable(2)),
        ("g=\"@\" f=@", &[&["x=\"y", "c="], &["a"]], ValueLocation::Text),
        ("g=@ f=@", &[&["\"", "c"], &["a"]], ValueLocation::Text),
        // A value that may itself contain the field, before the field.
        ("g=@ f=@", &[&["a f=2", "c"], &["a"]], ValueLocation::Text),
        ("f=@ g=@", &[&["a"], &["a f=2", "c"]], ValueLocation::Variable(1)),
    ] {
        assert_eq!(place(KV, text, values), expected, "{text} {values:?}");
    }
}

#[test]
fn a_key_that_is_the_same_number_everywhere_is_constant() {
    let (mut template_set, template) = shapes_of(&[&["a0"], &["x"]], &[]);
    let format = NumberFormat::guess(b"a0").unwrap();
    let number = format.parse(b"a0").unwrap();
    template_set.columns[1].kind = ColumnKind::Numbers { format, min: number, max: number };
    let json = JsonColumns::new(&template_set, &|_| None);
    let found = template_locations(&template_set, &template("@1=@2 g=\"x"), KV, &["a0".to_owned()], &json).remove(0);
    assert_eq!(found, ValueLocation::Variable(2).into());
}

#[test]
fn values_that_may_shift_bounds_require_the_text() {
    for (text, values) in [
        ("f=@", &[&["a", "b c"][..]][..]),
        ("(f=@)", &[&["a", "b(c"]]),
        ("f=@ x", &[&["a", "b)"]]),
        ("f=a(@) x", &[&["a", "b("]]),
        ("f=@ x", &[&["a", "b;"]]),
        ("f=@ x", &[&["a", ""]]),
        ("f=@ x", &[&["=a"]]),
        ("f=\"@\"", &[&["a", "b\"c"]]),
        ("f=\"@\"", &[&["a", " b"]]),
        ("f=\"@\"", &[&["a", ""]]),
        ("f=\"x @", &[&["a"]]),
        ("@ f=1", &[&["a", "f=2"]]),
        ("@f=1", &[&["a"]]),
        ("@ f=1", &[&["{}"]]),
        ("@ f=1", &[&[" x"]]),
    ] {
        assert_eq!(place(KV, text, values), ValueLocation::Text, "{text} {values:?}");
    }
    assert_eq!(place(KV, "@f=1", &[&["a:"]]), constant("1"));
    let escaped = AutoExtraction { kv_mode: KvMode::AutoEscaped, ..KV };
    assert_eq!(place(escaped, "f=\"@\"", &[&["a\\"]]), ValueLocation::Text);
    assert_eq!(place(escaped, "f=\"@\"", &[&["a"]]), ValueLocation::Variable(1));
    // Only the value with escapes is read from the text, not the values around it.
    for text in ["f=1 g=\"a \\\"b\\\" @\" h=2", "g=\"a\\\\\" f=1 h=\"@\"", "g=\"\\\"=\\\"\" h=@ f=1"] {
        assert_eq!(place(escaped, text, &[&["x"]]), constant("1"), "{text}");
    }
    assert_eq!(place(escaped, "f=\"a \\\"b\\\" @\" h=2", &[&["x"]]), ValueLocation::Text);
    assert_eq!(place(escaped, "f=1 g=\"a\\@\" h=2", &[&["x"]]), ValueLocation::Text);
    assert_eq!(place(AutoExtraction { by_pattern: true, ..KV }, "f=1", &[]), ValueLocation::Text);
    assert_eq!(place(AutoExtraction { kv_mode: KvMode::None, ..KV }, "f=1", &[]), ValueLocation::Absent);
}

#[test]
fn json_fields_are_located_in_templates() {
    for (text, values, expected) in [
        ("{\"f\":\"@\"}", &[&["a=b", ""][..]][..], ValueLocation::Variable(1)),
        ("{\"f\":@,\"g\":1}", &[&["12"]], ValueLocation::Variable(1)),
        ("{\"g\":\"@\",\"f\":\"x\"}", &[&["a"]], constant("x")),
        ("{\"a\":{\"f\":@}}", &[&["12"]], ValueLocation::Absent),
        // Values with a quote, an escape, a key, a word, a part of a number, and several values (with escapes).
        ("{\"f\":\"@\"}", &[&["a\"b"]], ValueLocation::Text),
        ("{\"f\":\"@\"}", &[&["a\\n"]], ValueLocation::Text),
        ("{\"@\":\"x\",\"f\":1}", &[&["f"]], ValueLocation::Text),
        ("{\"f\":@}", &[&["true"]], ValueLocation::Text),
        ("{\"f\":1@}", &[&["x2"]], ValueLocation::Text),
        ("{\"f\":0@}", &[&["12"]], ValueLocation::Text),
        ("{\"f\":1,\"f\":\"@\"}", &[&["a"]], ValueLocation::List([constant("1"), ValueLocation::Variable(1)].into())),
        ("{\"f\":1,\"f\":\"@\"}", &[&["a\\n"]], ValueLocation::Text),
        // Text after the object.
        ("{\"f\":\"@\"} x", &[&["a"]], ValueLocation::Variable(1)),
    ] {
        assert_eq!(place(KV, text, values), expected, "{text} {values:?}");
    }
}

/// Texts that are not JSON have no fields if JSON is expected.
#[test]
fn prose_has_no_json_fields() {
    let json = AutoExtraction { kv_mode: KvMode::Json, ..KV };
    for (text, values, expected) in [
        ("started f=@", &["12"][..], ValueLocation::Absent),
        ("@ f=1", &["ab"], ValueLocation::Absent),
        ("@ f=1", &["ab", "{"], ValueLocation::Text),
        ("@ f=1", &["ab", " "], ValueLocation::Text),
        ("@ f=1", &["ab", ""], ValueLocation::Text),
    ] {
        assert_eq!(place(json, text, &[values]), expected, "{text} {values:?}");
    }
}

/// A text that breaks off has the fields before the break.
#[test]
fn fields_of_truncated_json_are_located() {
    let (one, two) = (ValueLocation::Variable(1), ValueLocation::Variable(2));
    for (text, variables, name, expected) in [
        // Within a string, whether or not an escape is truncated, within a key, and after a key or comma.
        ("{\"f\":\"@1\",\"g\":\"a@2", &[&["x"][..], &["b", "c\\"]][..], "f", one.clone()),
        ("{\"f\":\"@1\",\"g\":\"a@2", &[&["x"], &["b", "c\\"]], "g", ValueLocation::Absent),
        ("{\"f\":\"@1\",\"g\":\"a@2\\", &[&["x"], &["\\\"b"]], "f", one.clone()),
        ("{\"f\":\"@1\",\"@2", &[&["x"], &["g", "h"]], "f", one.clone()),
        ("{\"f\":\"@1\",\"g\":", &[&["x"]], "f", one.clone()),
        ("{\"a\":{\"f\":@1,", &[&["12"]], "a.f", one.clone()),
        // The text at the end, which may be truncated, is a complete value or begins no value.
        ("{\"f\":@1,\"g\":@2", &[&["12"], &["34"]], "g", two),
        ("{\"f\":@1,\"g\":@2", &[&["12"], &["nul", "tr"]], "f", one.clone()),
        ("{\"f\":@1,\"g\":@2", &[&["12"], &["nul", "tr"]], "g", ValueLocation::Absent),
        ("{\"f\":@1,\"g\":@2", &[&["12"], &["nul", "7x"]], "f", ValueLocation::Text),
        ("{\"f\":@1,\"g\":@2", &[&["12"], &["nul", "]"]], "f", ValueLocation::Text),
        // Strings with escapes that no JSON string has, in all texts or some, or which the next part may complete.
        ("{\"f\":@1,\"g\":\"a@2\",\"h\":1}", &[&["12"], &["\\x22", "b\\n\\q"]], "f", one.clone()),
        ("{\"f\":@1,\"g\":\"a@2\",\"h\":1}", &[&["12"], &["\\x22", "b\\n\\q"]], "h", ValueLocation::Absent),
        ("{\"f\":@1,\"g\":\"a@2\",\"h\":1}", &[&["12"], &["\\x22", "b"]], "f", ValueLocation::Text),
        ("{\"f\":@1,\"g\":\"a@2\",\"h\":1}", &[&["12"], &["\\x22", "\\u12"]], "f", ValueLocation::Text),
        // A variable that may be anything, where the reader has stopped or stops.
        ("{'a':@1,\"f\":1}", &[&["x y", "1"]], "f", ValueLocation::Absent),
        ("{\"f\":@1,\"g\":@2,\"h\":1}", &[&["12"], &["NaN", "undefined"]], "f", one.clone()),
        ("{\"f\":@1,\"g\":@2,\"h\":1}", &[&["12"], &["NaN", "undefined"]], "h", ValueLocation::Absent),
        ("{\"f\":@1,\"g\":@2,\"h\":1}", &[&["12"], &["NaN", "nan"]], "f", ValueLocation::Text),
        ("{\"f\":@1,\"g\":tru@2,\"h\":1}", &[&["12"], &["E", "e"]], "f", ValueLocation::Text),
        // Values that may close the string, or that are a key in some texts.
        ("{\"f\":\"@1\",\"g\":\"a@2", &[&["x"], &["b", "c\",\"f\":1"]], "f", ValueLocation::Text),
        ("{\"f\":\"@1\",@2", &[&["x"], &["\"k\"", "12"]], "f", ValueLocation::Text),
    ] {
        assert_eq!(json_place(text, variables, name), expected, "{name} in {text} {variables:?}");
    }
}

/// The texts of a value in which each `@N` stands for the values of variable N.
fn expanded(value: &str, variables: &[&[&str]]) -> Vec<String> {
    let Some((before, rest)) = value.split_once('@') else { return vec![value.to_owned()] };
    let (number, rest) = rest.split_at(1);
    let inner = variables[number.parse::<usize>().unwrap() - 1];
    let inner = inner.iter().flat_map(|value| expanded(value, variables));
    let rests = expanded(rest, variables);
    inner.flat_map(|inner| rests.iter().map(move |rest| format!("{before}{inner}{rest}")).collect::<Vec<_>>()).collect()
}

/// Like [`place`] for JSON, with dictionaries and templates in the variables: a value with `@N` in it is a template.
fn json_place(text: &str, variables: &[&[&str]], name: &str) -> ValueLocation {
    let mut template_set = TemplateSet::default();
    let column = |kind, traits| Column { parent: Some(0), kind, traits, values: 1 };
    template_set.columns.push(column(ColumnKind::Texts, ValueTraits::default()));
    let template_of = |text: &str| {
        let mut template = Template::default();
        let mut rest = text;
        while let Some(at) = rest.find('@') {
            if at > 0 {
                template.parts.push(TemplatePart::Literal(rest.as_bytes()[..at].into()));
            }
            template.parts.push(TemplatePart::Variable(u32::from(rest.as_bytes()[at + 1] - b'0')));
            rest = &rest[at + 2..];
        }
        if !rest.is_empty() {
            template.parts.push(TemplatePart::Literal(rest.as_bytes().into()));
        }
        template
    };
    let mut dictionaries = vec![Arc::new(Dictionary::default())];
    for values in variables {
        let (mut traits, mut bytes, mut ends) = (ValueTraits::default(), Vec::new(), Vec::new());
        for (at, text) in values.iter().flat_map(|value| expanded(value, variables)).enumerate() {
            traits.add(text.as_bytes(), at == 0);
        }
        for value in *values {
            bytes.extend_from_slice(value.as_bytes());
            ends.push(bytes.len() as u32);
        }
        let is_nested = values.iter().any(|value| value.contains('@'));
        let kind = match (is_nested, NumberFormat::guess(values[0].as_bytes())) {
            (true, _) => ColumnKind::Templates(values.iter().map(|value| template_of(value)).collect()),
            (false, Some(format)) => ColumnKind::Numbers { format, min: 0, max: 1 },
            (false, None) => ColumnKind::Dictionary { len: values.len() as u32 },
        };
        dictionaries.push(Arc::new(Dictionary { bytes: bytes.into(), ends }));
        template_set.columns.push(column(kind, traits));
    }
    let read = |column: u32| dictionaries.get(column as usize).cloned();
    let json = JsonColumns::new(&template_set, &read);
    template_locations(&template_set, &template_of(text), KV, &[name.to_owned()], &json).remove(0).place
}

#[test]
fn a_json_array_is_a_list_of_locations() {
    let variable = ValueLocation::Variable;
    for (text, variables, expected) in [
        ("{\"f\":[\"@1\",\"@2\",3]}", &[&["a"][..], &["b"]][..], &[variable(1), variable(2), constant("3")][..]),
        ("{\"f\":[\"a\",\"x@1\"]}", &[&["1"]], &[constant("a"), composite(&["x"], 1)]),
    ] {
        assert_eq!(json_place(text, variables, "f{}"), ValueLocation::List(expected.into()), "{text}");
    }
    assert_eq!(json_place("{\"f\":[\"@1\"]}", &[&["a"]], "f{}"), variable(1));
    let escaped = ValueLocation::Escaped([TemplatePart::Variable(2)].into());
    assert_eq!(
        json_place("{\"f\":[\"@1\",\"@2\"]}", &[&["a"], &["b\\n"]], "f{}"),
        ValueLocation::List([variable(1), escaped].into())
    );
}

/// Literals followed by a variable.
fn composite(literals: &[&str], column: u32) -> ValueLocation {
    let literal = |text: &&str| TemplatePart::Literal(text.as_bytes().into());
    ValueLocation::Composite(literals.iter().map(literal).chain([TemplatePart::Variable(column)]).collect())
}

#[test]
fn an_ambiguous_variable_does_not_affect_other_fields() {
    let texts = &["a\\n", "b"][..];
    for (text, variables, name, expected) in [
        // JSON literals and numbers of any form in the position of a value.
        ("{\"w\":@1,\"f\":@2}", &[&["true", "null", "1.5e3"][..], &["12"]][..], "f", ValueLocation::Variable(2)),
        ("{\"f\":@1}", &[&["true", "false", "null"]], "f", ValueLocation::Variable(1)),
        ("{\"f\":@1}", &[&["null", "@2"], &["12"]], "f", ValueLocation::Variable(1)),
        ("{\"f\":@1}", &[&["@2", "@2.@3"], &["12"], &["07"]], "f", ValueLocation::Variable(1)),
        (
            "{\"f\":@1.@2}",
            &[&["12"], &["07"]],
            "f",
            ValueLocation::Composite(
                [TemplatePart::Variable(1), TemplatePart::Literal(b".".as_slice().into()), TemplatePart::Variable(2)]
                    .into(),
            ),
        ),
        // Some of the values are strings: their quotes are not part of the value, and other fields are unaffected.
        ("{\"f\":@1}", &[&["\"x\"", "@2"], &["12"]], "f", ValueLocation::Escaped([TemplatePart::Variable(1)].into())),
        ("{\"g\":@1,\"f\":\"@3\"}", &[&["\"@3\"", "@2"], &["12"], &["x"]], "f", ValueLocation::Variable(3)),
        // Complete escapes, and incomplete escapes that the following text completes.
        ("{\"g\":\"@1\",\"f\":\"@2\"}", &[texts, &["x"]], "f", ValueLocation::Variable(2)),
        (
            "{\"g\":\"@1\",\"f\":\"@2\"}",
            &[texts, &["x"]],
            "g",
            ValueLocation::Escaped([TemplatePart::Variable(1)].into()),
        ),
        ("{\"g\":\"\\\"@1\"\",\"f\":\"@2\"}", &[&["a\\", "b\\"], &["x"]], "f", ValueLocation::Variable(2)),
        (
            "{\"g\":\"@1\",\"f\":\"@3\"}",
            &[&["said \\\"@2\\\"", "x @2"], &["1"], &["y"]],
            "f",
            ValueLocation::Variable(3),
        ),
        // Keys of fields that these templates cannot produce.
        ("{\"a\":{\"@1\":1},\"f\":\"@2\"}", &[&["k", "f"], &["x"]], "f", ValueLocation::Variable(2)),
        ("{\"a\":{\"@1\":1},\"f\":\"@2\"}", &[&["k", "f"], &["x"]], "a.f", ValueLocation::Text),
        ("{\"@1\":1}", &[&["k", "host"]], "extracted_host", ValueLocation::Text),
        // The text is read if a variable may not be a JSON value, may end its string, or may be an incomplete escape.
        ("{\"w\":@1,\"f\":1}", &[&["tru", "null"]], "f", ValueLocation::Text),
        ("{\"w\":@1,\"f\":1}", &[&["1,\"f\":2", "1"]], "f", ValueLocation::Text),
        ("{\"w\":@1,\"f\":1}", &[&["{}", "1"]], "f", ValueLocation::Text),
        ("{\"w\":@1,\"f\":1}", &[&[" 1", "1"]], "f", ValueLocation::Text),
        ("{\"w\":@1,\"f\":1}", &[&["@2@3"], &["12", "0"], &["07"]], "f", ValueLocation::Text),
        ("{\"w\":0@1,\"f\":1}", &[&["07", "11"]], "f", ValueLocation::Text),
        ("{\"w\":@1@1,\"f\":1}", &[&["07", "11"]], "f", ValueLocation::Text),
        ("{\"w\":\"@1\",\"f\":1}", &[&["a\"", "b"]], "f", ValueLocation::Text),
        ("{\"w\":\"@1\",\"f\":1}", &[&["a\\", "b"]], "f", ValueLocation::Text),
        ("{\"w\":\"@1\",\"f\":1}", &[&["a\\x", "b"]], "f", ValueLocation::Text),
        ("{\"w\":\"@1\",\"f\":1}", &[&["a\\u12", "b"]], "f", ValueLocation::Text),
        ("{\"w\":\"\\@1\",\"f\":1}", &[&["n", "t"]], "f", ValueLocation::Text),
    ] {
        assert_eq!(json_place(text, variables, name), expected, "{name} in {text} {variables:?}");
    }
}

/// The location of `f` in `{"a":"@","f":@}` if only traits of the columns are known: whether the texts of `a` are
/// complete between quotes, whether the texts of `f` are scalars, and their bytes.
fn place_by_traits(string_contents: bool, json_scalars: bool, values: &[&str]) -> ValueLocation {
    let mut template_set = TemplateSet::default();
    let column = |traits| Column { parent: Some(0), kind: ColumnKind::Texts, traits, values: 1 };
    template_set.columns.push(column(ValueTraits::default()));
    for (texts, string_contents, json_scalars) in
        [(&[r"a\n", r#"\"b\""#][..], string_contents, false), (values, false, json_scalars)]
    {
        let mut traits = ValueTraits { string_contents, json_scalars, ..ValueTraits::default() };
        texts.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
        template_set.columns.push(column(traits));
    }
    let literal = |text: &str| TemplatePart::Literal(text.as_bytes().into());
    let variable = TemplatePart::Variable;
    let template =
        Template { parts: vec![literal("{\"a\":\""), variable(1), literal("\",\"f\":"), variable(2), literal("}")] };
    let json = JsonColumns::new(&template_set, &|_| None);
    template_locations(&template_set, &template, KV, &["f".to_owned()], &json).remove(0).place
}

#[test]
fn traits_decide_without_reading_the_texts() {
    let escaped = ValueLocation::Escaped([TemplatePart::Variable(2)].into());
    assert_eq!(place_by_traits(true, true, &["12.5", "3", "null", "1e9"]), ValueLocation::Variable(2));
    assert_eq!(place_by_traits(true, true, &["\"x y\"", "null"]), escaped);
    assert_eq!(place_by_traits(true, false, &["12.5", "3", "null"]), ValueLocation::Text);
    assert_eq!(place_by_traits(false, true, &["12.5", "3", "null"]), ValueLocation::Text);
}

/// The location of `name` in an object `{"a":@` followed by optional members; each variable has a list of forms of its
/// members. Every `@` of a form is a number.
fn place_of_member(name: &str, variables: &[&[&str]]) -> ValueLocation {
    let mut template_set = TemplateSet::default();
    let column = |parent, kind, traits| Column { parent, kind, traits, values: 1 };
    let numbers = || {
        let mut traits = ValueTraits::default();
        traits.add(b"12", true);
        (ColumnKind::Numbers { format: NumberFormat::Integer, min: 1, max: 99 }, traits)
    };
    template_set.columns.push(column(None, ColumnKind::Texts, ValueTraits::default()));
    let (kind, traits) = numbers();
    template_set.columns.push(column(Some(0), kind, traits));
    let mut template =
        Template { parts: vec![TemplatePart::Literal(b"{\"a\":".as_slice().into()), TemplatePart::Variable(1)] };
    for forms in variables {
        let number = template_set.columns.len() as u32;
        template.parts.push(TemplatePart::Variable(number));
        template_set.columns.push(column(
            Some(0),
            ColumnKind::Texts,
            ValueTraits { max_len: 9, ..ValueTraits::default() },
        ));
        let mut templates = vec![Template::default()];
        for form in *forms {
            let mut parts = Vec::new();
            for (at, literal) in form.split('@').enumerate() {
                if at > 0 {
                    parts.push(TemplatePart::Variable(template_set.columns.len() as u32));
                    let (kind, traits) = numbers();
                    template_set.columns.push(column(Some(number), kind, traits));
                }
                if !literal.is_empty() {
                    parts.push(TemplatePart::Literal(literal.as_bytes().into()));
                }
            }
            templates.push(Template { parts });
        }
        template_set.columns[number as usize].kind = ColumnKind::Templates(templates.into());
    }
    template.parts.push(TemplatePart::Literal(b"}".as_slice().into()));
    let json = JsonColumns::new(&template_set, &|_| None);
    template_locations(&template_set, &template, KV, &[name.to_owned()], &json).remove(0).place
}

#[test]
fn optional_members_are_nested_columns_of_their_variables() {
    let nested = |columns: &[u32], may_repeat| {
        let value = |column: &u32| NestedValue { column: *column, is_escaped: false };
        ValueLocation::Nested(Nested { values: columns.iter().map(value).collect(), may_repeat })
    };
    let f = &[",\"f\":@"][..];
    for (name, variables, expected) in [
        ("a", &[f][..], ValueLocation::Variable(1)),
        ("f", &[f], nested(&[3], false)),
        ("f", &[&[",\"f\":@", ",\"f\":\"@\""]], nested(&[3, 4], false)),
        ("f", &[f, &[",\"g\":@,\"f\":@"]], nested(&[3, 6], true)),
        ("in.f", &[&[",\"in\":{\"f\":@}"]], nested(&[3], false)),
        ("g", &[f], ValueLocation::Absent),
        ("f", &[&[",\"f\":true"]], ValueLocation::Text),
        ("f", &[&[",\"f\":@,\"f\":@"]], ValueLocation::Text),
        ("a", &[f, &[",\"a\":@"]], ValueLocation::Text),
        // Anything that is not a member is read from the text.
        ("a", &[&[",\"f\":@}"]], ValueLocation::Text),
        ("a", &[&["\"f\":@"]], ValueLocation::Text),
        ("a", &[&[",@"]], ValueLocation::Text),
    ] {
        assert_eq!(place_of_member(name, variables), expected, "{name} in {variables:?}");
    }
}

/// Pieces of literals and of values: text that begins, ends or interrupts keys and values.
const PIECES: &[&str] =
    &["f", "=", "f=", "g=", " ", "|", "\"", "(", ")", ",", "a", "A7", "_", ".", "-", ":", "'", "\\", "\\\"", "é", "*"];

fn piece_text(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..=most).prop_map(|pieces| pieces.concat())
}

/// The values of a column; its traits are computed from all of them.
fn column_values() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        3 => prop::collection::vec(piece_text(3), 1..4),
        1 => prop::collection::vec("[0-9]{1,2}", 1..4),
        1 => prop::collection::vec("[|,:(]{1,2}", 1..4),
    ]
}

/// The text that consists of the literals and these values, one for each variable.
fn text_with(literals: &[String], values: &[&str]) -> String {
    let mut text = literals[0].clone();
    for (value, literal) in values.iter().zip(&literals[1..]) {
        text.push_str(value);
        text.push_str(literal);
    }
    text
}

fn value_in_text(text: &str, escaped: bool) -> Option<String> {
    let mut value: Option<String> = None;
    let mut take = |key: &str, found: &str| {
        if value.is_none() && extracted_name(&clean_key(key)) == "f" {
            value = Some(found.to_owned());
        }
    };
    match escaped {
        true => auto_kv_escaped(text, &mut |key, found| take(key, &found)),
        false => auto_kv(text, &mut take),
    }
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// The location of a field in a template holds for each of its texts.
    #[test]
    fn locations_agree_with_extraction_from_every_text(
        literals in prop::collection::vec(piece_text(4), 3..7),
        columns in prop::collection::vec(column_values(), 6),
        escaped in any::<bool>(),
    ) {
        let columns = &columns[..literals.len() - 1];
        let mut template_set = TemplateSet::default();
        let column = |traits| Column { parent: Some(0), kind: ColumnKind::Texts, traits, values: 1 };
        template_set.columns.push(column(ValueTraits::default()));
        let mut template = Template::default();
        let literal = |text: &String| (!text.is_empty()).then(|| TemplatePart::Literal(text.as_bytes().into()));
        template.parts.extend(literal(&literals[0]));
        for (at, values) in columns.iter().enumerate() {
            let mut traits = ValueTraits::default();
            values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
            traits.string_contents = values.iter().all(|value| is_string_content(value.as_bytes()));
            template_set.columns.push(column(traits));
            template.parts.push(TemplatePart::Variable(at as u32 + 1));
            template.parts.extend(literal(&literals[at + 1]));
        }
        let kv_mode = if escaped { KvMode::AutoEscaped } else { KvMode::Auto };
        let automatic = AutoExtraction { kv_mode, auto_json: false, by_pattern: false };
        let json = JsonColumns::new(&template_set, &|_| None);
        let FieldLocation { place, ambiguous_columns } =
            template_locations(&template_set, &template, automatic, &["f".to_owned()], &json).remove(0);
        let ways: usize = columns.iter().map(Vec::len).product();
        for mut way in 0..ways {
            let mut values = Vec::new();
            for column in columns {
                values.push(&*column[way % column.len()]);
                way /= column.len();
            }
            let text = text_with(&literals, &values);
            let value = |column: &u32| values[*column as usize - 1];
            let told = match &place {
                ValueLocation::Text => continue,
                _ if ambiguous_columns.iter().any(|column| match column {
                    AmbiguousColumn::WithKey(column) => value(column).contains("f="),
                    AmbiguousColumn::Unseparated(column) => is_unseparated(value(column).as_bytes()),
                }) => continue,
                ValueLocation::Absent => None,
                ValueLocation::Constant(constant) => Some(constant.to_string()),
                ValueLocation::Variable(column) => Some(value(column).to_owned()),
                ValueLocation::Composite(parts) => Some(parts.iter().map(|part| match part {
                    TemplatePart::Literal(literal) => std::str::from_utf8(literal).unwrap(),
                    TemplatePart::Variable(column) => value(column),
                }).collect()),
                ValueLocation::Pair(pair) => {
                    let piece_text = |piece: &[TemplatePart]| -> String {
                        piece.iter().map(|part| match part {
                            TemplatePart::Literal(literal) => std::str::from_utf8(literal).unwrap(),
                            TemplatePart::Variable(column) => value(column),
                        }).collect()
                    };
                    let finder = memchr::memmem::Finder::new("f=");
                    let in_piece = |piece: &[TemplatePart]| {
                        pair.value_in(piece_text(piece).as_bytes(), &finder).map(str::to_owned)
                    };
                    pair.pieces().find_map(in_piece)
                }
                other => panic!("{other:?} of a template without optional pairs"),
            };
            prop_assert_eq!(told, value_in_text(&text, escaped), "{} of {:?}", text, template);
        }
    }
}
