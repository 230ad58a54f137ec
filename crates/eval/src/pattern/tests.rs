use super::*;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|message| panic!("{pattern}: {message}"))
}

#[test]
fn both_engines_read_pcre() {
    // Pattern, text, whether the text matches, whether the linear engine runs the pattern.
    let cases = [
        (r"status=(?<code>\d+)", "status=200", true, true),
        (r"(?P<code>\d+)", "a1", true, true),
        (r"foo(?=bar)", "foobar", true, false),
        (r"(?<!x)y", "xy", false, false),
        (r"(a)\1", "aa", true, false),
        (r"a++b", "aab", true, false),
        (r"[[:alpha:]]+\d", "ab1", true, true),
        (r#"[^["]+"#, "[", false, true),
        (r"[a-z&&b]", "&", true, true),
        (r"\<b\>", "<b>", true, true),
        (r"\bcat\b", "a cat.", true, true),
        (r"\bé", "xé", true, true),
        (r"^\w+$", "é", false, true),
        (r"^\d$", "٣", false, true),
        (r"(?i)ERROR", "an error", true, true),
        (r"a{,2}", "a{,2}", true, false),
        (r"x{2,3}", "xx", true, true),
        (r"\Qa.b\E", "a.b", true, false),
        (r"[\w.-]+@[\w-]+", "a.b-c@d-e", true, true),
        (r"[]a]+", "]", true, true),
        (r"(?:a|b)?c", "c", true, true),
        (r"\/path\/", "/path/", true, true),
        (r"(?>a+)b", "aab", true, false),
        (r"\s", "\u{b}", true, true),
    ];
    for (pattern, text, wanted, linear) in cases {
        let regex = regex(pattern);
        assert_eq!(regex.is_match(text), wanted, "{pattern} on {text}");
        assert_eq!(regex.is_linear(), linear, "engine of {pattern}");
    }
}

#[test]
fn groups_have_names_and_places() {
    for pattern in [r"(?<user>\w+)@(\w+)", r"(?<user>\w+)@(\w+)(?=\.)"] {
        let regex = regex(pattern);
        assert_eq!(regex.group_names(), [None, Some("user".to_owned()), None]);
        let text = "to ann@example.org and bob@other.net";
        let mut captures = regex.new_captures();
        assert!(regex.captures_into(text, &mut captures));
        assert_eq!(captures.text(text, 1), Some("ann"));
        assert_eq!(captures.get(2), Some((7, 14)));
        let next = captures.get(0).unwrap().1;
        assert!(regex.captures_at(text, next, &mut captures));
        assert_eq!(captures.text(text, 1), Some("bob"));
        assert_eq!(regex.find_iter(text).count(), 2);
        assert!(!regex.captures_at(text, text.len() + 1, &mut captures));
    }
}

#[test]
fn empty_matches_advance() {
    assert_eq!(regex("x*").find_iter("aéx").collect::<Vec<_>>(), [(0, 0), (1, 1), (3, 4), (4, 4)]);
    assert_eq!(regex("(?=é)").find_iter("aé").collect::<Vec<_>>(), [(1, 1)]);
}

#[test]
fn replacements_name_groups() {
    let cases = [
        (r"(\d+)-(\d+)", r"\2-\1", "10-20", Some("20-10")),
        (r"(\d+)", "<$1>", "a1b22", Some("a<1>b<22>")),
        (r"(?<n>\d+)", "${n}!", "1", Some("1!")),
        ("a", "$5", "aa", Some("$5$5")),
        ("a", r"\\n", "a", Some(r"\n")),
        ("(a)", r"\12", "a", Some("a2")),
        ("x", "y", "abc", None),
        ("(?<=a)b", "", "abcb", Some("acb")),
    ];
    for (pattern, with, text, wanted) in cases {
        let regex = regex(pattern);
        let replacement = Replacement::new(with, &regex);
        assert_eq!(regex.replace_all(text, &replacement).as_deref(), wanted, "{pattern} {with}");
    }
    let regex = regex("a");
    let replacement = Replacement::new("b", &regex);
    assert_eq!(regex.replace("aaa", &replacement, 2).as_deref(), Some("bba"));
}

#[test]
fn faulty_patterns_are_reported() {
    let message = Regex::new("a(b").unwrap_err().to_string();
    assert!(message.contains("'a(b'") && message.contains("byte 3"), "{message}");
    assert!(Regex::new(&"a".repeat(PATTERN_BYTES_MAX + 1)).is_err());
}

#[test]
fn runaway_patterns_end_without_a_match() {
    let regex = regex(r"^(a+)+(?=b)$");
    assert!(!regex.is_match(&"a".repeat(5000)));
}

#[test]
fn like_patterns() {
    let cases = [
        ("abc", "abc", true),
        ("abc", "ABC", false),
        ("a%", "abc", true),
        ("%c", "abc", true),
        ("%b%", "abc", true),
        ("a_c", "aéc", true),
        ("a_c", "ac", false),
        ("%a%b", "xaybzb", true),
        ("%a_b%", "aab--axb-", true),
        ("%%", "", true),
        ("", "", true),
        ("", "a", false),
        (r"10\%", "10%", true),
        (r"10\%", "100", false),
        ("_%", "", false),
    ];
    for (pattern, text, wanted) in cases {
        assert_eq!(LikePattern::new(pattern).is_match(text), wanted, "{pattern} on {text}");
    }
}

#[test]
fn wildcards_match_whole_values_without_case() {
    let cases = [
        ("web*", "WEB-01", true),
        ("*01", "web-01", true),
        ("web", "web-01", false),
        ("w*-*1", "Web-01", true),
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("äB", "Äb", true),
        ("*b*", "abc", true),
    ];
    for (pattern, text, wanted) in cases {
        assert_eq!(Wildcard::new(pattern, false).is_match(text), wanted, "{pattern} on {text}");
    }
    assert!(!Wildcard::new("web*", true).is_match("WEB"));
    assert!(Wildcard::new("**", false).is_any());
}

#[test]
fn leading_literals_do_not_change_matches() {
    let patterns = [
        r"ticket (?<id>[0-9a-f]{3,5})",
        r"ab(?<x>[a-c]*)c?(?<y>d)?",
        r"(?:ab|ac)(?<x>\w)(?<rest>.*)",
        r"ab(?<x>a|ab)?",
        r"ab\b(?<x> a)?",
        r"(?<all>abé?)(?<x>c+)?$",
        r"ab(?<x>.*)b",
        r"(?i)ab(?<x>c)",
        r"(?<number>\d+)",
        r" (?<quoted>[^ ]*) ",
        r"\b(?<word>[a-c]+)\b",
        r"(?<first>é|[bd])(?<x>9f?)?",
        r"(?<word>\w+) ",
        r"(?<all>.+)$",
    ];
    let letters = ["a", "b", "c", "d", " ", "é", "ab", "ticket ", "9f", "\n"];
    let (mut seed, mut quick) = (7u64, 0);
    for pattern in patterns {
        let regex = regex(pattern);
        let Engine::Linear(linear) = &regex.engine else { panic!("{pattern} runs on the linear engine") };
        quick += usize::from(linear.prefix_search().is_some());
        for _ in 0..2_000 {
            let mut text = String::new();
            for _ in 0..14 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(letters[(seed >> 33) as usize % letters.len()]);
            }
            for start in (0..=text.len()).filter(|start| text.is_char_boundary(*start)).step_by(5) {
                let (mut found, mut expected) = (regex.new_captures(), linear.regex.capture_locations());
                let is_match = regex.captures_at(&text, start, &mut found);
                let is_expected = linear.regex.captures_read_at(&mut expected, &text, start).is_some();
                assert_eq!(is_match, is_expected, "{pattern} in {text:?} from {start}");
                for group in (0..regex.group_count()).filter(|_| is_match) {
                    assert_eq!(found.get(group), expected.get(group), "group {group} of {pattern} in {text:?}");
                }
            }
        }
    }
    assert!(quick >= 8, "{quick} patterns are searched for by their literals or first bytes");
}

#[test]
fn expressions_of_few_searches_have_no_automaton() {
    for pattern in ["(?<number>[0-9]+)", "ticket (?<number>[0-9]+)"] {
        let regex = regex(pattern);
        let Engine::Linear(linear) = &regex.engine else { panic!("{pattern} runs on the linear engine") };
        for _ in 0..SEARCHES_BEFORE {
            assert!(regex.captures_into("ticket 17", &mut regex.new_captures()));
        }
        assert!(linear.prefixed.get().is_none() && linear.one_pass.get().is_none(), "{pattern}");
        let mut captures = regex.new_captures();
        assert!(regex.captures_into("ticket 17", &mut captures));
        assert_eq!(captures.get(1), Some((7, 9)), "{pattern}");
        assert!(matches!(linear.prefixed.get(), Some(Some(_))) && linear.one_pass.get().is_some(), "{pattern}");
    }
}

#[test]
fn captures_starting_here_equal_the_leftmost_match() {
    let patterns = [
        r#""(?<m>[a-c]+) (?<p>\w*)"#,
        r"(?<a>a+)(?<b>b)?(?<rest>.*)",
        r"\b(?<w>\w+)\b",
        r"(?m)^(?<line>[^ ]+)$",
        r"(?<x>a|ab)(?<y>c|bcd)?",
        r"(?i)É(?<x>.)",
        r"(?<n>\d{1,2})?-",
        r"a(?<lazy>.*?)b",
        r"(?<=a)b(?<x>c)",
        r"x*",
    ];
    let letters = ["a", "b", "c", "d", " ", "é", "ab", "\"", "9", "-", "\n"];
    let (mut seed, mut quick) = (11u64, 0);
    for pattern in patterns {
        let regex = regex(pattern);
        if let Engine::Linear(linear) = &regex.engine {
            quick += usize::from(linear.one_pass().is_some());
        }
        let mut found = regex.new_captures();
        for _ in 0..2_000 {
            let mut text = String::new();
            for _ in 0..9 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(letters[(seed >> 33) as usize % letters.len()]);
            }
            for start in (0..=text.len()).filter(|start| text.is_char_boundary(*start)) {
                let mut expected = regex.new_captures();
                let is_here = |captures: &Captures| captures.get(0).is_some_and(|(found, _)| found == start);
                let is_expected = regex.captures_at(&text, start, &mut expected) && is_here(&expected);
                assert_eq!(
                    regex.captures_starting_at(&text, start, &mut found),
                    is_expected,
                    "{pattern} in {text:?} at {start}"
                );
                for group in (0..regex.group_count()).filter(|_| is_expected) {
                    assert_eq!(found.get(group), expected.get(group), "group {group} of {pattern} in {text:?}");
                }
            }
        }
    }
    assert!(quick >= 4, "{quick} patterns are one-pass");
}
