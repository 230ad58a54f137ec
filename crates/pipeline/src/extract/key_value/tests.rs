use std::borrow::Cow;

use proptest::prelude::*;

use super::{KEY_BYTES_MAX, PairFinder, auto_kv, auto_kv_escaped, certain_value, clean_key, clean_name};

fn pairs(text: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    auto_kv(text, &mut |key, value| pairs.push((key, value)));
    pairs
}

fn escaped(text: &str) -> Vec<(&str, Cow<'_, str>)> {
    let mut pairs = Vec::new();
    auto_kv_escaped(text, &mut |key, value| pairs.push((key, value)));
    pairs
}

#[test]
fn pairs_are_split_at_separators() {
    assert_eq!(
        pairs("a=1 b=2,c=3;d=4|e=5&f=6\tg=7\nh=8"),
        [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5"), ("f", "6"), ("g", "7"), ("h", "8"),]
    );
    assert_eq!(
        pairs("login ok user=ada, ip=10.0.0.1 path=/x/y?z t=12:30:05"),
        [("user", "ada"), ("ip", "10.0.0.1"), ("path", "/x/y?z"), ("t", "12:30:05"),]
    );
}

#[test]
fn quoted_values_keep_their_separators() {
    let text = r#"msg="disk full, sorry" user="" name=" ada " path="C:\temp\" next=1 [k="v"]"#;
    assert_eq!(
        pairs(text),
        [("msg", "disk full, sorry"), ("name", "ada"), ("path", r"C:\temp\"), ("next", "1"), ("k", "v")]
    );
    assert_eq!(pairs("a=\"x=1 b=2\" c=3"), [("a", "x=1 b=2"), ("c", "3")]);
}

#[test]
fn unclosed_quotes_are_dropped() {
    assert_eq!(pairs("a=\"x y b=2"), [("a", "x"), ("b", "2")]);
    assert_eq!(pairs("a=\""), []);
}

#[test]
fn brackets_around_a_pair_are_excluded_from_its_value() {
    assert_eq!(
        pairs("(took=999) [user=eva] {id=a(b)} 'mode=fast' call=f(x)) <n=1> e=() f=) g='x' h=[[1]] i=)x("),
        [
            ("took", "999"),
            ("user", "eva"),
            ("id", "a(b)"),
            ("mode", "fast"),
            ("call", "f(x)"),
            ("n", "1"),
            ("e", "()"),
            ("g", "'x'"),
            ("h", "[[1]]"),
            ("i", ")x(")
        ]
    );
    assert_eq!(pairs("((a=1)) [b=(2)] k=\"x)\""), [("a", "1"), ("b", "(2)"), ("k", "x)")]);
}

#[test]
fn query_string_parameters_are_extracted() {
    let text = r#"10.0.0.1 "GET /cart.do?action=view&id=EST-6 HTTP/1.1" 200 "-""#;
    assert_eq!(pairs(text), [("action", "view"), ("id", "EST-6")]);
}

#[test]
fn keys_begin_with_a_letter() {
    assert_eq!(
        pairs("1st=a __x=b 42=c -f=d --long-name=e .p=f a.b=g"),
        [("st", "a"), ("x", "b"), ("f", "d"), ("long-name", "e"), ("p", "f"), ("a.b", "g"),]
    );
    assert_eq!(pairs("größe=5 (k=v"), [("größe", "5"), ("k", "v")]);
}

#[test]
fn invalid_pairs_are_ignored() {
    assert_eq!(pairs("a==b a!=b a<=b a>=b = =x a= b x= y"), []);
    assert_eq!(pairs("a = 1"), []);
    assert_eq!(pairs("token=YWJj== n=1"), [("token", "YWJj=="), ("n", "1")]);
    let long = "k".repeat(KEY_BYTES_MAX);
    assert_eq!(pairs(&format!("{long}=1")).len(), 1);
    assert_eq!(pairs(&format!("{long}k=1")).len(), 0);
}

#[test]
fn escaped_quotes_are_unescaped() {
    let found = escaped(r#"a="say \"hi\" \\ \n" b=x\"y c="plain""#);
    let found: Vec<_> = found.iter().map(|(key, value)| (*key, value.as_ref())).collect();
    assert_eq!(found, [("a", r#"say "hi" \ \n"#), ("b", r"x\"), ("c", "plain")]);
    assert_eq!(escaped(r#"a="x\"#).len(), 1);
}

#[test]
fn keys_become_valid_field_names() {
    assert_eq!(clean_key("a.b_c"), "a.b_c");
    assert_eq!(clean_key("long-name"), "long_name");
    assert_eq!(clean_key("\tAccount Name"), "_Account_Name");
    for (key, name) in [("\tAccount Name", "Account_Name"), ("9_lives", "lives"), ("a_9", "a_9"), ("_404", "")] {
        assert_eq!(clean_name(key), name, "{key}");
        assert_eq!(clean_name(name), name, "a name stays clean");
    }
}

proptest! {
    #[test]
    fn certain_values_are_those_of_the_first_pair_with_the_key(text in "[k=& ?\"(),ka]{0,4}(k=[=& \"ka)]{0,4}){0,3}") {
        let Some(at) = text.find("k=") else { return Ok(()) };
        if let Some(value) = certain_value(text.as_bytes(), at, at + 1) {
            let first = pairs(&text).into_iter().find(|(key, _)| *key == "k");
            prop_assert_eq!(first.map(|(_, value)| value.as_bytes()), Some(value), "{}", text);
        }
    }

    #[test]
    fn a_finder_of_one_name_finds_the_first_pair(text in "[k=& ?\"(),_a1-]{0,4}(k=[=& \"ka)]{0,4}|a-k=1|_k=2 |k_=3){0,3}") {
        for name in ["k", "ka", "a_k", "k_", "_k", "1k"] {
            let first = pairs(&text).into_iter().find(|(key, _)| clean_name(key) == name);
            if let Some(found) = PairFinder::new(name).value_in(&text) {
                prop_assert_eq!(found, first.map(|(_, value)| value), "{} in {}", name, text);
            }
        }
    }

    #[test]
    fn written_pairs_are_found(pairs_in in proptest::collection::vec(("[a-zA-Z][a-zA-Z0-9_.]{0,8}", "[a-z0-9/:.=<(é]{1,8}"), 0..8)) {
        prop_assume!(pairs_in.iter().all(|(_, value)| !value.starts_with('=')));
        let text: Vec<String> = pairs_in.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let text = text.join(" ");
        let expected: Vec<(&str, &str)> = pairs_in.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        prop_assert_eq!(pairs(&text), expected);
    }

    #[test]
    fn written_quoted_pairs_are_found(pairs_in in proptest::collection::vec(("[a-z]{1,8}", "[a-z\\\\\",;= ]{0,8}[a-z\\\\\"]"), 0..8)) {
        let quote = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
        let text: Vec<String> = pairs_in.iter().map(|(key, value)| format!("{key}=\"{}\"", quote(value))).collect();
        let text = text.join(", ");
        let found: Vec<(String, String)> =
            escaped(&text).into_iter().map(|(key, value)| (key.to_owned(), value.into_owned())).collect();
        let expected: Vec<(String, String)> =
            pairs_in.iter().map(|(key, value)| (key.clone(), value.trim_start_matches(' ').to_owned())).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_text_is_read_in_order(text in "[a=\"\\\\ ,é1_-]{0,60}") {
        let mut last = 0;
        for (key, value) in pairs(&text) {
            let place = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
            prop_assert!(!key.is_empty() && !value.is_empty());
            prop_assert!(place(key) >= last && place(value) > place(key));
            last = place(value) + value.len();
        }
        escaped(&text);
    }
}
