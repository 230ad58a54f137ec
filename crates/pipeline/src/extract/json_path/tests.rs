use std::borrow::Cow;

use proptest::prelude::*;

use super::JsonPath;
use crate::extract::json_fields;

fn json_get<'t>(text: &'t str, path: &str) -> Vec<Cow<'t, str>> {
    JsonPath::parse(path).map(|path| path.values(text)).unwrap_or_default()
}

const TEXT: &str = r#"{"a": {"b": "x\ny", "n": null, "t": true}, "l": [{"c": 1}, {"c": [2, 3], "d": "}"}, {"c": {"e" : 4}}], "a.b": 9}"#;

fn get(path: &str) -> Vec<Cow<'static, str>> {
    json_get(TEXT, path)
}

#[test]
fn members_and_elements_are_found() {
    assert_eq!(get("a.b"), ["x\ny"]);
    assert_eq!(get("a.t"), ["true"]);
    assert_eq!(get("l{}.c"), ["1", "[2, 3]", r#"{"e" : 4}"#]);
    assert_eq!(get("l{1}.c{}"), ["2", "3"]);
    assert_eq!(get("l{1}.c{0}"), ["2"]);
    assert_eq!(get("l{2}.c.e"), ["4"]);
    assert_eq!(get("l{1}"), [r#"{"c": [2, 3], "d": "}"}"#]);
    assert_eq!(json_get("[[1,2],[3]]", "{}{0}"), ["1", "3"]);
    assert_eq!(json_get(r#"[{"a":1}]"#, "{0}.a"), ["1"]);
}

#[test]
fn missing_paths_yield_nothing() {
    for path in ["", ".", "a.", "a..b", "b", "a.b.c", "l.c", "l{9}.c", "a{}", "l{x}.c", "l{", "l{}x", "{}", "a.{}"] {
        assert_eq!(get(path), Vec::<Cow<str>>::new(), "{path}");
    }
    assert_eq!(json_get("plain text", "a"), Vec::<Cow<str>>::new());
    assert_eq!(json_get("{}", "a"), Vec::<Cow<str>>::new());
}

#[test]
fn objects_are_returned_as_text_and_keys_may_repeat() {
    assert_eq!(get("a"), [r#"{"b": "x\ny", "n": null, "t": true}"#]);
    assert_eq!(json_get(r#"{"a":1,"a":2}"#, "a"), ["1", "2"]);
    assert_eq!(json_get(r#"{"\u0061":1}"#, "a"), ["1"]);
}

#[test]
fn broken_text_yields_the_values_before_the_error() {
    assert_eq!(json_get(r#"{"a":[{"b":1},{"b":2},{"b"#, "a{}.b"), ["1", "2"]);
}

fn any_text() -> impl Strategy<Value = String> {
    // No scalar's text can be mistaken for an object or array, which a path may also select.
    let scalar = prop_oneof![Just("null".to_owned()), "[1-9]{1,3}", "\"([a-z][a-z{}\\[\\],: ]{0,4})?\""];
    scalar.prop_recursive(4, 30, 4, |inner| {
        let member = ("[a-c]", inner.clone()).prop_map(|(key, value)| format!("\"{key}\" :{value}"));
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
            proptest::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

proptest! {
    #[test]
    fn field_paths_return_the_field_values(text in any_text()) {
        let mut fields: Vec<(String, String)> = Vec::new();
        prop_assert!(json_fields(&text, &mut |path, value| fields.push((path.to_owned(), value.into_owned()))));
        for (path, _) in &fields {
            let expected: Vec<&String> = fields.iter().filter(|(other, _)| other == path).map(|(_, value)| value).collect();
            let found = json_get(&text, path);
            // If keys repeat or an array is mixed, the path also selects objects and arrays, which are skipped.
            let scalars: Vec<&str> = found.iter().map(AsRef::as_ref).filter(|value| expected.iter().any(|one| one == value)).collect();
            prop_assert_eq!(scalars, expected);
        }
    }

    #[test]
    fn arbitrary_texts_and_paths_do_not_panic(text in "[\\[\\]{}:,\"a\\\\1 é]{0,30}", path in "[a.{}01é]{0,8}") {
        json_get(&text, &path);
    }
}
