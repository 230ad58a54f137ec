//! Invalid searches and their diagnostics: `spec/wrong-searches.txt`, which is also documentation.
//!
//! A search begins at the margin. Its diagnostics follow, indented: `error` or `note` with the position, the message,
//! and `help` with a correction. A line that begins with `#` is a comment.

use super::*;

const PAGE: &str = include_str!("../../../../../spec/wrong-searches.txt");

/// Writes the diagnostics of a search in the notation of that file.
fn diagnostics_text(search: &str) -> String {
    let mut text = String::new();
    for remark in crate::parse(search).diagnostics {
        let kind = if remark.severity == Severity::Error { "error" } else { "note" };
        let at = search[..remark.span.start.min(search.len())].chars().count() + 1;
        text.push_str(&format!("  {kind} at {at}: {}\n", remark.message));
        if let Some(hint) = remark.hint {
            text.push_str(&format!("  help: {hint}\n"));
        }
    }
    text
}

#[test]
fn wrong_searches_give_the_documented_diagnostics() {
    let mut actual = String::new();
    let mut searches = 0;
    for line in PAGE.lines() {
        if line.starts_with('#') || line.is_empty() {
            actual.push_str(&format!("{line}\n"));
        } else if !line.starts_with("  ") {
            searches += 1;
            actual.push_str(&format!("{line}\n{}", diagnostics_text(line)));
        }
    }
    assert!(searches >= 60, "only {searches} searches");
    assert!(actual == PAGE, "spec/wrong-searches.txt should read:\n{actual}");
}

#[test]
fn every_wrong_search_gets_a_hint() {
    for line in PAGE.lines().filter(|line| !line.starts_with(['#', ' ']) && !line.is_empty()) {
        let remarks = crate::parse(line).diagnostics;
        assert!(remarks.iter().any(|remark| remark.hint.is_some()), "{line}: {remarks:?}");
    }
}

#[test]
fn plausible_searches_give_no_warning() {
    for search in [
        "error top secret",
        "failed transaction",
        "connection reset head",
        "drop table users",
        "login where user",
        "index=main sourcetype=access status=500",
        "error | where a='b.c' | where 'a b'='c' | eval x=if(a=\"b\", 1, 2)",
        "a | stats count(x) by y | table y count(x)",
        "a | stats avg(eval(b/1024)) sum(req-size) count(status) by host, source",
        "* | timechart count by host where count>5",
        "* | table title search app",
        "* | stats count by search, where, head",
        "error sort key invalid",
        "a | sort by",
        "a | sort - count",
        "a | regex _raw=\"a~b\"",
        "a | regex \"a~b\"",
        "a | head 10",
        "a | head (x>1)",
        "a | fillnull value=0 x",
        "group policy changed",
        "limit exceeded",
        "order by mail",
        "please select a file from here",
    ] {
        assert_eq!(crate::parse(search).diagnostics, [], "{search}");
    }
}

#[test]
fn one_line_diagnostics_contain_message_position_and_hint() {
    let search = "error | stast count";
    let parsed = crate::parse(search);
    let told: Vec<String> = parsed.diagnostics.iter().map(|remark| remark.to_one_line(search)).collect();
    assert_eq!(told, ["unknown command `stast` (character 9); did you mean `stats`?"]);
    let search = "x | head limit=y";
    let told: Vec<String> = crate::parse(search).diagnostics.iter().map(|remark| remark.to_one_line(search)).collect();
    assert!(told[0].starts_with("`limit` expects a number, got `y` (character 16)"), "{told:?}");
}
