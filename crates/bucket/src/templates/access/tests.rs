//! Variables of access log lines, and lines that are not of this format.

use super::super::variables::{split_event, variable_end};
use super::*;

/// The variables of a text: values and kinds.
fn variables_of(text: &str) -> Vec<(&str, VariableKind)> {
    let mut variables = Vec::new();
    split_event(text.as_bytes(), &mut variables);
    for variable in &variables {
        for strict in [true, false] {
            assert_eq!(
                variable_end(variable.kind, text.as_bytes(), variable.start, strict),
                Some(variable.end),
                "{variable:?} of {text}"
            );
        }
    }
    variables.into_iter().map(|variable| (&text[variable.start..variable.end], variable.kind)).collect()
}

fn access(text: &str, piece: AccessPart) -> (&str, VariableKind) {
    (text, VariableKind::Access(piece))
}

#[test]
fn requests_are_split_into_their_parts() {
    use AccessPart::*;
    let head = r#"10.0.0.1 - zo [20/Nov/2026:00:00:00 +0000] "#;
    let names = |rest: &[(&'static str, VariableKind)]| {
        let mut all = vec![access("10.0.0.1", Who), access("-", Who), access("zo", Who)];
        all.extend([("20/Nov/2026:00:00:00", VariableKind::Chunk), ("+0000", VariableKind::Chunk)]);
        all.extend(rest);
        all
    };
    for (rest, expected) in [
        (
            r#""GET /a/b?c=d&e=%20f HTTP/1.1" 200 17 "-" "curl/8 \\ x""#,
            names(&[
                access("GET", Method),
                access("/a/b", Path),
                access("c=d&e=%20f", Query),
                access("1.1", Version),
                access("200", Status),
                access("17", Size),
                access("-", Note),
                access(r"curl/8 \\ x", Note),
            ]),
        ),
        (
            r#""M-SEARCH / HTTP/2" 304 -"#,
            names(&[access("M-SEARCH", Method), access("/", Path), access("2", Version), access("304", Status)]),
        ),
        // An empty query is not a variable; its `?` belongs to the literal.
        (
            r#""GET /? HTTP/1.0" 200 1"#,
            names(&[
                access("GET", Method),
                access("/", Path),
                access("1.0", Version),
                access("200", Status),
                access("1", Size),
            ]),
        ),
        (
            r#""GET /a?b?c HTTP/1.1" 200 1 "\"x\"" "ü""#,
            names(&[
                access("GET", Method),
                access("/a", Path),
                access("b?c", Query),
                access("1.1", Version),
                access("200", Status),
                access("1", Size),
                access(r#"\"x\""#, OddNote),
                access("ü", OddNote),
            ]),
        ),
    ] {
        assert_eq!(variables_of(&format!("{head}{rest}")), expected, "{rest}");
    }
    let odd = variables_of(r#"h - zoë [20/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#);
    assert_eq!(odd[2], access("zoë", OddWho));
    let host = variables_of(r#"shop:80 h - zoe [20/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1"#);
    assert_eq!(host[..2], [access("shop:80", Who), access("h", Who)]);
}

#[test]
fn texts_that_are_not_requests_are_not_split() {
    for request in [
        "-",
        "GET /a",
        "GET  /a HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /a HTTP/1.1 ",
        "GET /a HTTP/",
        "GET /a HTTP/1.",
        "GET /a HTTP/x",
        "GET /ä HTTP/1.1",
        "GET http://a.example/b HTTP/1.1",
        "OPTIONS * HTTP/1.0",
        "CONNECT a.example:443 HTTP/1.1",
        "get /a HTTP/1.1",
        "/a HTTP/1.1",
        r"\x16\x03\x01",
        "GET /a\tb HTTP/1.1",
        "GET /a\u{7f} HTTP/1.1",
    ] {
        let line = format!(r#"h - - [20/Nov/2026:00:00:00 +0000] "{request}" 400 0"#);
        let found = variables_of(&line);
        assert_eq!(
            found[5..],
            [(request, VariableKind::Phrase), access("400", AccessPart::Status), access("0", AccessPart::Size)]
        );
    }
    let line = r#"h - - [20/Nov/2026:00:00:00 +0000] "GET /\"a\" HTTP/1.1" 400 0"#;
    assert_eq!(variables_of(line)[5], (r#"GET /\"a\" HTTP/1.1"#, VariableKind::Escaped));
}

#[test]
fn other_quoted_texts_keep_their_kinds() {
    for (text, expected) in [
        (
            r#"k="GET / HTTP/1.1" l="a \"b\"""#,
            vec![("GET / HTTP/1.1", VariableKind::Text), (r#"a \"b\""#, VariableKind::Escaped)],
        ),
        (
            r#"{"a":"b","c":["GET / HTTP/1.1"]}"#,
            vec![("b", VariableKind::Content), ("GET / HTTP/1.1", VariableKind::Content)],
        ),
        (r#"<a b="GET / HTTP/1.1"/>"#, vec![("GET / HTTP/1.1", VariableKind::Quoted)]),
        (
            r#"said "a b" 12345 6"#,
            vec![("a b", VariableKind::Phrase), ("12345", VariableKind::Chunk), ("6", VariableKind::Chunk)],
        ),
        (r#"x [20/Nov/2026]"#, vec![("20/Nov/2026", VariableKind::Chunk)]),
    ] {
        assert_eq!(variables_of(text), expected, "{text}");
    }
}
