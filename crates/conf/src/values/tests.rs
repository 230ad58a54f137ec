use super::{capture_groups, has_named_group, parse_bool, parse_delimiter};

#[test]
fn capture_groups_are_counted() {
    let cases = [
        ("", Some(0)),
        (r"([\r\n]+)", Some(1)),
        (r"(?<a>.)(?P<b>.)(?'c'.)", Some(3)),
        (r"(?:a)(?=b)(?!c)(?<=d)(?<!e)(?i)(*UTF)", Some(0)),
        (r"\(\)", Some(0)),
        (r"[(][)]", Some(0)),
        (r"[]()]", Some(0)),
        (r"[^]()]", Some(0)),
        (r"[[:alpha:](]", Some(0)),
        (r"[\](]", Some(0)),
        (r"\Q((\E(x)", Some(1)),
        ("(", None),
        (")", None),
        ("[a", None),
        ("a\\", None),
    ];
    for (pattern, groups) in cases {
        assert_eq!(capture_groups(pattern), groups, "{pattern}");
    }
}

#[test]
fn booleans_are_parsed_in_all_spellings() {
    assert!(["1", "t", "TRUE", "y", "Yes"].iter().all(|text| parse_bool(text) == Some(true)));
    assert!(["0", "f", "False", "n", "no"].iter().all(|text| parse_bool(text) == Some(false)));
    assert!(["", "2", "on", "enabled"].iter().all(|text| parse_bool(text).is_none()));
}

#[test]
fn delimiters_are_parsed_by_character_and_name() {
    assert_eq!(parse_delimiter(";"), Some(Some(';')));
    assert_eq!(parse_delimiter("Tab"), Some(Some('\t')));
    assert_eq!(parse_delimiter(r"\x1f"), Some(Some('\u{1f}')));
    assert_eq!(parse_delimiter("none"), Some(None));
    assert_eq!(parse_delimiter("whitespace"), None);
    assert_eq!(parse_delimiter(r"\xzz"), None);
    assert_eq!(parse_delimiter(r"\x+5"), None);
}

#[test]
fn named_groups_are_detected() {
    assert!(["(?<a>.)", "x(?P<_b>.)", "(?'c'.)"].iter().all(|pattern| has_named_group(pattern)));
    assert!(["", "(a)", "(?<=a)b", "(?<!a)b", "(?<a>."].iter().all(|pattern| !has_named_group(pattern)));
}
