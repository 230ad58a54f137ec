//! Truncated, shuffled and very long texts cause no panic and no deep tree, and every position lies within the text.

use std::collections::BTreeSet;

use crate::analyse::required_fields;
use crate::diagnostic::{Diagnostic, Severity};
use crate::parse::{
    MAX_COMMANDS, MAX_FIELDS_READ, MAX_NAMES, MAX_NESTING, MAX_SEARCH_BYTES, MAX_SUBSEARCH_DEPTH, MAX_TERMS,
    ParsedSearch, WILDCARD_NAMES, parse_condition, parse_expression,
};

const SMALL_STACK_BYTES: usize = 256 << 10;

/// Searches in the style of real searches.
const SEARCHES: &[&str] = &[
    "sourcetype=aws:cloudtrail eventName = \"Put*\" NOT (userAgent!=*.amazonaws.com OR user IN (\"a\\\\b\", c*)) earliest=-1d@d \
     | bucket _time span=1h | stats count as failures dc(eventName) as methods by src_ip, userIdentity.arn, _time \
     | where failures >= 5 and methods>=1 | sort - failures | search *",
    "index=a TERM(10.0.0.1) CASE(Foo) host::web* [search index=b | fields c | rename c AS d] ```note``` | rex field=_raw \
     max_match=0 \"\\[(?<proto>HTTPS|HTTP):(?<id>[^\\:]+)\\] \\\"x\" | eval m=if(match(_raw, \"IN\") and isnotnull(x), \"by \" . x, \
     \"no\"), 'b c'=case(a>1,1,true(),-2.5e3), {f}=x | timechart span=5m limit=top5 useother=f p95(x) by h where max > 5",
    "| makeresults count=2 | eval a=mvindex(split(\"é,ü\",\",\"),0) | join type=left a [| inputlookup t.csv where x=1 OR y=2 \
     | append [search q | head (z<4) keeplast=t]] | lookup t a AS b OUTPUTNEW c AS \"d e\" | streamstats reset_before=(a=1) \
     window=5 sum(a) AS s by b | chart sparkline(avg(x), 1h) over r by c | rex mode=sed \"s/a/\\1/g y/é/e/\" `m(1)`",
];

/// A small seeded generator, so that failures are reproducible.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

fn check(text: &str) -> ParsedSearch {
    let parsed = crate::parse(text);
    for remark in &parsed.diagnostics {
        assert!(remark.span.start <= remark.span.end, "{text:?}: {remark:?}");
        assert!(text.get(remark.span.start..remark.span.end).is_some(), "{text:?}: {remark:?}");
        assert!(!remark.message.is_empty());
    }
    let mut last = 0;
    for stage in &parsed.pipeline.commands {
        assert!(
            stage.span.start >= last && text.get(stage.span.start..stage.span.end).is_some(),
            "{text:?}: {stage:?}"
        );
        last = stage.span.end;
    }
    required_fields(&parsed.pipeline.commands);
    parsed
}

#[test]
fn truncated_searches_do_not_panic() {
    for search in SEARCHES {
        for cut in (0..=search.len()).filter(|cut| search.is_char_boundary(*cut)) {
            check(&search[..cut]);
            check(&search[cut..]);
            check(&format!("| eval x={}", &search[cut..]));
        }
    }
}

#[test]
fn shuffled_searches_do_not_panic() {
    let pieces = [
        "\"", "'", "\\", "|", "[", "]", "(", ")", "`", "```", "=", "!", ",", "*", " ", "é", "{", "}", "AND", "NOT ",
        " OR ", " IN (", "stats ", "by ", "eval ", "::", "1", "-", "\u{a0}", "\n", "<", "where ", "rex ", "sort ",
        "s/", "span=",
    ];
    let mut dice = Dice(7);
    for round in 0..3_000 {
        let mut text: Vec<char> = SEARCHES[round % SEARCHES.len()].chars().collect();
        for _ in 0..=dice.below(6) {
            let at = dice.below(text.len());
            let until = (at + dice.below(12)).min(text.len());
            let piece = pieces[dice.below(pieces.len())];
            text.splice(at..until, piece.chars());
        }
        check(&text.into_iter().collect::<String>());
    }
    for _ in 0..3_000 {
        let text: String = (0..dice.below(30)).map(|_| pieces[dice.below(pieces.len())]).collect();
        check(&text);
        check(&format!("* | eval x={text}"));
        check(&format!("* | stats {text}"));
    }
}

/// Runs `read` on a thread whose stack is smaller than the stack of any thread of the program.
fn on_a_small_stack(read: fn()) {
    std::thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(read).unwrap().join().unwrap();
}

#[test]
fn deep_and_long_searches_are_read_on_a_small_stack() {
    on_a_small_stack(nesting_has_a_limit);
    on_a_small_stack(long_chains_stay_shallow);
    on_a_small_stack(|| {
        // The longest chain within the deepest nesting, through every entry point of the parser.
        let deep = nested_chain();
        parse_expression(&deep).unwrap();
        parse_condition(&format!("{}a=1{}", "(".repeat(MAX_NESTING), ")".repeat(MAX_NESTING))).unwrap();
        for text in
            [format!("* | eval x={deep}"), format!("* | where {deep}>1"), format!("* | stats sum(eval({deep})) AS x")]
        {
            assert!(check(&text).is_ok(), "{text}");
            assert!(crate::parse_with_unknown_macros(&text).is_ok());
        }
        // The position of every macro is kept, because any of them may supply missing text.
        let macros = format!("* {} | stats `what` by x", "`m` ".repeat(10_000));
        assert_eq!(super::super::blank_out(&macros).macros.len(), 10_001);
        assert!(crate::parse_with_unknown_macros(&macros).is_ok());
        let (open, close) = ("* | append [search ".repeat(MAX_SUBSEARCH_DEPTH), "]".repeat(MAX_SUBSEARCH_DEPTH));
        let within = format!("{open}* | eval x=1{close}");
        assert!(crate::parse_with_commands(&within, &BTreeSet::new()).is_ok());
    });
}

/// Additions, as many and as deeply nested as the limits allow.
fn nested_chain() -> String {
    let depth = MAX_NESTING - 4;
    format!("{}n{}{}", "(".repeat(depth), "+n".repeat(400), ")".repeat(depth))
}

#[test]
fn nesting_has_a_limit() {
    let nest = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    for (lead, open, middle, close, limit) in [
        ("", "(", "a", ")", MAX_NESTING),
        ("* | where ", "(", "a=1", ")", MAX_NESTING - 1),
        ("* | eval x=", "abs(", "1", ")", MAX_NESTING - 1),
        ("* | eval x=", "-", "1", "", MAX_NESTING - 1),
        ("* | where ", "NOT ", "a=1", "", MAX_NESTING - 1),
        ("", "[search ", "a", "]", MAX_SUBSEARCH_DEPTH),
        ("* ", "| append [search a", "", "]", MAX_SUBSEARCH_DEPTH),
    ] {
        let within = check(&format!("{lead}{}", nest(open, middle, close, limit)));
        assert!(within.is_ok(), "{lead}{open}: {:?}", within.diagnostics);
        for depth in [limit + 1, 5_000] {
            let beyond = check(&format!("{lead}{}", nest(open, middle, close, depth)));
            let message = &beyond.diagnostics[0].message;
            assert!(message.contains("limit of"), "{lead}{open}: {message}");
        }
    }
    let beyond = check(&format!("* {}", nest("| foreach a b [", "eval x=1", "]", MAX_SUBSEARCH_DEPTH + 1)));
    assert!(beyond.diagnostics[0].message.contains("limit of"), "{:?}", beyond.diagnostics);
    let inner = nest("(", "a", ")", MAX_NESTING - MAX_SUBSEARCH_DEPTH);
    assert!(check(&nest("[search ", &inner, "]", MAX_SUBSEARCH_DEPTH)).is_ok());
}

#[test]
fn long_chains_stay_shallow() {
    let long = 20_000;
    for (lead, part, ok) in [
        ("* | where a=1", " OR a=1", true),
        ("* | where a=1", " AND b>c", true),
        ("* | eval x=a", ".b", true),
        ("* | eval x=a", "+b", false),
        ("* | where a", " IN (b)", false),
        ("* | where a", "=b", false),
        ("*", " OR a", true),
        ("*", " NOT a", true),
        ("* | table a", ",a", false),
        ("* | stats count", ",count", false),
        ("* | eval a=1", ",a=1", false),
    ] {
        let parsed = check(&format!("{lead}{}", part.repeat(long)));
        assert_eq!(parsed.is_ok(), ok, "{lead}{part}: {:?}", parsed.diagnostics.first());
    }
    assert!(check(&format!("*{}", " | head 1".repeat(MAX_COMMANDS - 1))).is_ok());
    assert!(!check(&format!("*{}", " | head 1".repeat(MAX_COMMANDS))).is_ok());
}

#[test]
fn names_and_terms_are_bounded() {
    for (lead, part, limit) in [
        ("* | eval a=1", ", a=1", MAX_NAMES),
        ("* | table a", " a", MAX_NAMES),
        ("* | fields a*", ", a*", MAX_NAMES / (WILDCARD_NAMES + 1)),
        ("* | sort a", ", a", MAX_NAMES),
        ("* | stats count", " count", MAX_NAMES),
        ("* | stats count by a", ", a", MAX_NAMES - 1),
        ("* | fillnull a", " a", MAX_NAMES),
        ("*", " a", MAX_TERMS),
        ("a", " OR a", MAX_TERMS),
        ("* | search a=1", " OR a=1", MAX_TERMS - 1),
    ] {
        let of = |parts: usize| check(&format!("{lead}{}", part.repeat(parts - 1)));
        assert!(of(limit - 3).is_ok(), "{lead}{part}: {:?}", of(limit - 3).diagnostics.first());
        let beyond = of(limit + 3);
        assert!(
            beyond.diagnostics.iter().any(|remark| remark.message.contains("more than the limit of")),
            "{lead}{part}: {:?}",
            beyond.diagnostics.first()
        );
    }
    for value in ["a", "\"\""] {
        let of = |values: usize| check(&format!("f IN ({})", vec![value; values].join(",")));
        assert!(of(MAX_TERMS - 1).is_ok() && !of(MAX_TERMS).is_ok(), "{value}");
    }
    // A subsearch does not count towards its command.
    let inner = vec!["a"; MAX_NAMES - 9].join(",");
    assert!(check(&format!("* | append [search b | table {inner}] | table {inner}")).is_ok());
}

#[test]
fn different_fields_of_conditions_are_bounded() {
    let numbered = |count: usize, join: &str, term: &str| {
        let terms: Vec<String> = (0..count).map(|at| term.replace('#', &at.to_string())).collect();
        terms.join(join)
    };
    for (lead, join, term) in [
        ("", " OR ", "f#=v"),
        ("", " ", "f#!=v"),
        ("", " ", "f#::v"),
        ("* | search ", " ", "f# IN (a, b)"),
        ("* | where ", " OR ", "f#=1"),
        ("* | where ", " OR ", "'f#'=1"),
    ] {
        let of = |count: usize| check(&format!("{lead}{}", numbered(count, join, term)));
        assert!(of(MAX_FIELDS_READ).is_ok(), "{lead}{term}: {:?}", of(MAX_FIELDS_READ).diagnostics.first());
        let beyond = of(MAX_FIELDS_READ + 1).diagnostics;
        let is_limit = |remark: &Diagnostic| remark.message.contains("different fields in one search");
        assert!(beyond.iter().any(is_limit), "{lead}{term}: {:?}", beyond.first());
    }
    // A field that several commands read counts once.
    let again = numbered(MAX_FIELDS_READ, " OR ", "f#=1");
    assert!(check(&format!("{again} | where {again}")).is_ok());
}

/// Every word of a search is compared with commands and with other languages; a quadratic pass would take minutes.
#[test]
fn a_search_of_very_many_words_is_parsed_at_once() {
    const BYTES: usize = 400_000;
    for word in ["limit ", "between ", "select ", "where ", "count ", "a1b2c ", "\"a\" "] {
        let words: String =
            (0..BYTES / 10).map(|at| if at % 2 == 0 { word.to_owned() } else { format!("w{at} ") }).collect();
        assert!(check(&words).is_ok(), "{word}");
        assert!(check(&format!("{words}| relevancy")).is_ok(), "{word}");
    }
    assert!(!check(&format!("* | rex \"{}\"", "(?<a ".repeat(BYTES / 5))).is_ok());
    let groups: String = (0..BYTES / 20).map(|at| format!("(?<g{at}>x)?")).collect();
    assert!(check(&format!("* | rex \"{groups}\"")).diagnostics.len() <= 100);
}

#[test]
fn search_size_and_diagnostics_are_bounded() {
    let parsed = check(&"a".repeat(MAX_SEARCH_BYTES + 1));
    assert!(!parsed.is_ok() && parsed.pipeline.commands.is_empty());
    for text in ["|", "[", "]", "(", ")", "\"", "`a` ", "`a`|", "foo(", "| foo ", "\\", "[|", "a= ", "a | "] {
        let parsed = check(&text.repeat(100_000 / text.len()));
        assert!(parsed.diagnostics.len() <= 100, "{text}");
        assert!(
            parsed.diagnostics.iter().any(|remark| remark.severity == Severity::Error) || matches!(text, "\\" | "\""),
            "{text}"
        );
    }
}

#[test]
fn a_megabyte_of_brackets_ends_at_a_limit() {
    for lead in ["", "* | eval x=", "* | where ", "* | stats count by ", "* | append "] {
        for open in ["(", "[", "[[search ", "(NOT ", "abs(", "| append [", "-", "NOT ", "if(a=(", "{", "[|", "a=("] {
            let mut text = lead.to_owned();
            while text.len() + open.len() <= MAX_SEARCH_BYTES {
                text.push_str(open);
            }
            let parsed = check(&text);
            // Elsewhere, brackets are parts of names, whose length is not limited.
            let nests = !lead.contains("stats") && matches!(open, "(" | "[" | "[[search " | "(NOT ");
            assert!(!nests || !parsed.is_ok(), "{lead}{open}");
        }
    }
}
