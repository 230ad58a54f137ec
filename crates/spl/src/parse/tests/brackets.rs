//! Searches and commands in brackets, in every command that takes them.

use super::*;

/// Searches with brackets; `{}` stands for the content of the brackets.
const PLACES: &[&str] = &[
    "[{}]",
    "error NOT [{}]",
    "user IN ([{}])",
    "* | search [{}]",
    "* | where n > [{}]",
    "* | eval n=[{}]",
    "* | head [{}]",
    "* | timechart span=[{}] count",
    "* | append [{}]",
    "* | append maxout=5 [{}]",
    "* | appendcols [{}]",
    "* | appendpipe [{}]",
    "* | join user [{}]",
    "* | join type=left user [{}]",
    "* | selfjoin [{}]",
    "* | union [{}]",
    "| union [search a] [{}]",
    "| multisearch [search a] [{}]",
    "| set union [search a] [{}]",
    "| set diff [{}] [search a]",
    "* | multireport [{}]",
    "* | multireport [stats count] [{}]",
    "* | foreach a b [{}]",
    "* | foreach mode=multivalue a [{}]",
    "* | map [{}]",
    "| tstats count where [{}]",
    "| inputlookup t.csv where [{}]",
    "| from datamodel:m | append [{}]",
    "* | append [search a | append [{}]]",
    "* | map [search a | append [{}]]",
    "* | foreach a b [append [{}]]",
];

/// The errors of a search whose brackets contain `inner`, each with the text at its position.
fn faults(place: &str, inner: &str) -> Vec<(String, String)> {
    let text = place.replace("{}", inner);
    let faults = crate::parse(&text).diagnostics.into_iter().filter(|remark| remark.severity == Severity::Error);
    faults.map(|remark| (remark.message, text[remark.span.start..remark.span.end].trim().to_owned())).collect()
}

#[test]
fn unknown_commands_are_reported_at_their_position_in_all_brackets() {
    for place in PLACES {
        for (inner, name) in [
            ("nosuch", "nosuch"),
            ("nosuch foo bar", "nosuch"),
            (" nosuch | stats count", "nosuch"),
            ("| nosuch", "nosuch"),
            ("search a | nosuch x=1", "nosuch"),
        ] {
            let found = faults(place, inner);
            let want = vec![(format!("unknown command `{name}`"), name.to_owned())];
            assert_eq!(found, want, "{place} with {inner}");
        }
    }
}

#[test]
fn conditions_in_brackets_need_no_command() {
    for place in ["[{}]", "* | append [{}]", "* | join user [{}]", "| multisearch [search a] [{}]"] {
        for inner in [
            "search error",
            "user=eva",
            "user = eva",
            "user!=eva error",
            "status>400",
            "status IN (1, 2)",
            "a.b{}.c=1",
            "host::web",
            "NOT error",
            "TERM(10.0.0.1)",
            "CASE(Error)",
            "\"two words\" error",
            "(a OR b)",
            "*",
            "stats=5",
        ] {
            assert_eq!(faults(place, inner), [], "{place} with {inner}");
        }
    }
}

#[test]
fn searches_of_map_are_checked_only_for_unknown_commands() {
    for good in [
        "* | map [search user=$user$ earliest=$t$ | stats count by $by$ | $command$ x]",
        "* | map [$command$ x]",
        "* | map search=\"search a=\\\"$a$\\\" | eval x=\\\"|nosuch\\\" | head $n$\"",
        "* | map search=\"$search$\"",
        "* | map search=\"error $5 | `mine` | stats count\"",
    ] {
        assert_eq!(crate::parse(good).diagnostics, [], "{good}");
    }
    let text = "* | map maxsearches=3 search=\"search a=\\\"$a$\\\" | nosuch\"";
    let found = crate::parse(text).diagnostics;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.starts_with("unknown command `nosuch`"), "{found:?}");
    assert_eq!(crate::parse(text).unsupported, ["command:nosuch"]);
}

#[test]
fn brackets_after_a_name_are_not_a_subsearch() {
    for (text, place) in [
        ("* | eval g[0]=2", "g[0]"),
        ("* | eval a=1, g[0]=2", "g[0]"),
        ("* | eval g[search x]=2", "g[search x]"),
        ("* | eval g[]=1", "g[]"),
        ("* | eval x=g[0]", "g[0]"),
        ("* | eval x=g[-1]+1", "g[-1]"),
        ("* | fieldformat g[0]=2", "g[0]"),
        ("* | where g[0]=1", "g[0]"),
        ("* | where g{}.a[0]=1", "g{}.a[0]"),
        ("* | table g[0]", "g[0]"),
        ("* | table a g[*] b", "g[*]"),
        ("* | fields - g[0]", "g[0]"),
        ("* | stats count by g[0]", "g[0]"),
        ("* | stats sum(x) by a, g[0]", "g[0]"),
        ("* | sort g[0]", "g[0]"),
        ("* | dedup g[0]", "g[0]"),
        ("* | rename g[0] AS x", "g[0]"),
        ("* | top g[0]", "g[0]"),
        ("* | mvexpand g[0]", "g[0]"),
    ] {
        let found = crate::parse(text).diagnostics;
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].message, format!("`{place}` is not a field: brackets are for subsearches"), "{text}");
        assert_eq!(&text[found[0].span.start..found[0].span.end], place, "{text}");
        assert!(found[0].hint.is_some(), "{text}");
    }
    for text in [
        "* | eval \"g[0]\"=2",
        "* | eval x='g[0]'",
        "* | table \"g[0]\"",
        "* | stats sum(g[0])",
        "g[0]=1",
        "* | timechart span=[| makeresults | return $s] count",
        "* | eval x=round([| makeresults | return $s], 2)",
        "* | head[| makeresults | return $s]",
    ] {
        assert!(crate::parse(text).is_ok(), "{text}: {:?}", crate::parse(text).diagnostics);
    }
}

#[test]
fn messages_that_repeat_input_are_bounded() {
    let long = "x".repeat(100_000);
    for text in [
        format!("* | {long}"),
        format!("* | append [{long}]"),
        format!("* | eval {long}[0]=1"),
        format!("* | eval x={long}(1)"),
        format!("* | stats {long}(x)"),
        format!("* | stats count {long}=1"),
        format!("* | join type={long} x [search a]"),
        format!("* | rex \"(?<{long}\""),
        format!("`{long}`"),
        format!("\"{long}"),
        format!("* | head {long}"),
        format!("* | timechart span={long} count"),
        format!("earliest={long} a"),
    ] {
        for remark in crate::parse(&text).diagnostics {
            assert!(remark.message.len() <= crate::MESSAGE_BYTES_MAX, "{} bytes: {:.99}", remark.message.len(), text);
            assert!(remark.hint.iter().all(|hint| hint.len() <= crate::MESSAGE_BYTES_MAX), "hint: {:.99}", text);
            assert!(remark.to_one_line(&text).len() <= 2 * crate::MESSAGE_BYTES_MAX + 500, "told: {text:.99}");
        }
    }
}
