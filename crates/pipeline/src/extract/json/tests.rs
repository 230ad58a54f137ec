use proptest::prelude::*;
use serde_json::Value;

use super::{NESTING_MAX, json_fields, json_stop, json_string};

fn fields(text: &str) -> (bool, Vec<(String, String)>) {
    let mut fields = Vec::new();
    let whole = json_fields(text, &mut |path, value| fields.push((path.to_owned(), value.into_owned())));
    (whole, fields)
}

/// The fields of a JSON text, as `path=value`.
fn flat(text: &str) -> Vec<String> {
    let (whole, fields) = fields(text);
    assert!(whole, "{text}");
    fields.into_iter().map(|(path, value)| format!("{path}={value}")).collect()
}

#[test]
fn paths_join_keys_and_mark_arrays() {
    let text =
        r#" {"a": {"b": [{"c": 1}, {"c": "two"}, [3]], "d": {}}, "e": [], "f": [true, null, false], "g": -1.50e+3} "#;
    assert_eq!(
        flat(text),
        ["a.b{}.c=1", "a.b{}.c=two", "a.b{}{}=3", "f{}=true", "f{}=null", "f{}=false", "g=-1.50e+3"]
    );
    assert_eq!(flat(r#"[{"a":1},2]"#), ["{}.a=1", "{}=2"]);
    assert_eq!(flat("17"), Vec::<String>::new());
    assert_eq!(flat(r#"{"a":""}"#), ["a="]);
}

#[test]
fn strings_are_unescaped() {
    assert_eq!(flat(r#"{"k\"\u00e9":"a\\b\/\n\t\r\b\f\u0041\uD83D\uDE00 é"}"#), ["k\"é=a\\b/\n\t\r\u{8}\u{c}A😀 é"]);
    assert_eq!(flat(r#"{"a":"\ud83dx\udc00\ud83d\u0041"}"#), ["a=\u{fffd}x\u{fffd}\u{fffd}A"]);
    assert_eq!(flat("{\"a\":\"raw\tline\nbreak\"}"), ["a=raw\tline\nbreak"]);
}

#[test]
fn the_content_of_a_string_is_unescaped_and_has_no_bare_quote() {
    for (written, text) in [
        ("plain", Some("plain")),
        (r#"key:\"/a\" "#, Some("key:\"/a\" ")),
        (r"\ud83d\ude00z\\", Some("😀z\\")),
        (r#"a"b"#, None),
        (r#"a\"b""#, None),
        (r"a\", None),
        (r"\u00e", None),
        (r"\x", None),
    ] {
        assert_eq!(json_string(written).as_deref(), text, "{written}");
    }
}

#[test]
fn broken_text_yields_the_fields_before_the_error() {
    let (whole, found) = fields(r#"{"a":1,"b":{"c":"x","d":"cut o"#);
    assert!(!whole);
    assert_eq!(found, [("a".to_owned(), "1".to_owned()), ("b.c".to_owned(), "x".to_owned())]);
    let broken = [
        "",
        "{",
        "{]",
        "[}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "[1,]",
        "[1 2]",
        "{a:1}",
        "01",
        "-",
        "1.",
        "1e",
        "tru",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "\"\\u12é4\"",
        "{} x",
        "{}{}",
        "nul",
        ",",
        "{,}",
        "\\",
    ];
    for text in broken {
        assert!(!fields(text).0, "{text}");
    }
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(fields(&nested(NESTING_MAX)).0);
    assert!(!fields(&nested(NESTING_MAX + 1)).0);
    assert!(!fields(&"{\"a\":".repeat(10_000)).0);
}

/// The fields of a parsed value, collected by recursion.
fn collect(path: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    let scalar = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => return items.iter().for_each(|item| collect(&format!("{path}{{}}"), item, fields)),
        Value::Object(members) => {
            for (key, member) in members {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(&inner, member, fields);
            }
            return;
        }
    };
    if !path.is_empty() {
        fields.push((path.to_owned(), scalar));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\"\\\\é.]{0,4}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn finds_the_same_fields_as_a_parser(value in any_value()) {
        let mut expected = Vec::new();
        collect("", &value, &mut expected);
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(fields(&text), (true, expected.clone()));
        }
    }

    #[test]
    fn truncated_text_yields_its_first_fields(value in any_value(), cut in any::<prop::sample::Index>()) {
        let mut all = Vec::new();
        collect("", &value, &mut all);
        let text = value.to_string();
        let end = text.floor_char_boundary(cut.index(text.len() + 1));
        let (_, found) = fields(&text[..end]);
        // The last field may be a number that lost digits.
        let sure = found.len().saturating_sub(1);
        prop_assert!(found.len() <= all.len());
        prop_assert_eq!(&found[..sure], &all[..sure]);
    }

    #[test]
    fn accepts_the_same_texts_as_a_parser(text in "[\\[\\]{}:,\"\\\\u0-9a-fn.eE+ -]{0,24}") {
        let strict = serde_json::from_str::<Value>(&text);
        let (whole, _) = fields(&text);
        if strict.is_ok() {
            prop_assert!(whole);
        }
    }
}

#[test]
fn the_reader_stops_at_or_before_a_byte_that_is_not_json() {
    for (text, expected) in [
        ("{\"a\":1}", None),
        ("{\"a\":1", None),
        ("{\"a\":", None),
        ("{\"a\":nul", Some(b'n')),
        ("{'a':1}", Some(b'\'')),
        ("{\"a\":1} x", Some(b'x')),
        ("[1;2]", Some(b'2')),
    ] {
        assert_eq!(json_stop(text), expected, "{text}");
    }
}
