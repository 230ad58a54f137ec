//! Searches, with the syntax trees and diagnostics that parsing them yields.

mod brackets;
mod commands;
mod expansions;
mod expressions;
mod malformed_texts;
mod wrong_searches;

use super::*;
use crate::ast::{AggregateArg, Command, CompareOp, ExprKind, SearchCommand};

/// The only command of a search, which must have no errors.
fn one(text: &str) -> Command {
    let mut parsed = parse(text);
    assert!(parsed.is_ok(), "{text}: {:?}", parsed.diagnostics);
    assert_eq!(parsed.pipeline.commands.len(), 1, "{text}");
    parsed.pipeline.commands.remove(0).command
}

/// A node as text, without positions.
pub(crate) fn without_spans(command: &Command) -> String {
    let text = format!("{command:?}");
    let parts = text.split("Span { start: ").enumerate();
    parts.map(|(at, part)| if at == 0 { part } else { part.split_once('}').unwrap().1 }).collect()
}

fn search(text: &str) -> SearchCommand {
    match one(text) {
        Command::Search(search) => search,
        other => panic!("{text}: {other:?}"),
    }
}

/// Prefix notation of a condition.
fn show(expr: &SearchExpr) -> String {
    let list = |parts: &[SearchExpr]| parts.iter().map(show).collect::<Vec<_>>().join(" ");
    match expr {
        SearchExpr::All => "all".to_owned(),
        SearchExpr::And(parts) => format!("(and {})", list(parts)),
        SearchExpr::Or(parts) => format!("(or {})", list(parts)),
        SearchExpr::Not(part) => format!("(not {})", show(part)),
        SearchExpr::Keyword(word) if word.quoted => format!("{:?}", word.text),
        SearchExpr::Keyword(word) => word.text.clone(),
        SearchExpr::Term(word) => format!("TERM({})", word.text),
        SearchExpr::Case(word) => format!("CASE({})", word.text),
        SearchExpr::Compare { field, op, value, case_sensitive } => {
            let op = match op {
                CompareOp::Eq => "=",
                CompareOp::Ne => "!=",
                CompareOp::Lt => "<",
                CompareOp::Le => "<=",
                CompareOp::Gt => ">",
                CompareOp::Ge => ">=",
            };
            format!("{}{op}{}{}", field.text, if *case_sensitive { "case:" } else { "" }, value.text)
        }
        SearchExpr::In { field, values } => {
            format!("{} in {}", field.text, values.iter().map(|v| v.text.as_str()).collect::<Vec<_>>().join("|"))
        }
        SearchExpr::Indexed { field, value } => format!("{}::{}", field.text, value.text),
        SearchExpr::Subsearch(inner) => format!("[{}]", inner.commands.len()),
    }
}

#[test]
fn search_conditions() {
    let table = [
        ("*", "all"),
        ("error", "error"),
        ("a b", "(and a b)"),
        ("a AND b", "(and a b)"),
        ("a OR b c", "(and (or a b) c)"),
        ("a b OR c AND d", "(and a (or b c) d)"),
        ("NOT a b", "(and (not a) b)"),
        ("NOT (a OR b) c", "(and (not (or a b)) c)"),
        ("NOT NOT a", "a"),
        ("index=main", "index=main"),
        ("search index=main", "index=main"),
        ("| search index=main", "index=main"),
        ("Image = \"*\\\\calc.exe\"", "Image=*\\calc.exe"),
        ("Image=*\\\\calc.exe", "Image=*\\calc.exe"),
        ("status!=200 size>=10 n<5", "(and status!=200 size>=10 n<5)"),
        ("status==200", "status=200"),
        ("f=CASE(Abc)", "f=case:Abc"),
        ("f IN (a, \"b c\" d*)", "f in a|b c|d*"),
        ("NOT f IN(a)", "(not f in a)"),
        ("\"a field\"=x", "a field=x"),
        ("sourcetype::access host::\"a b\"", "(and sourcetype::access host::a b)"),
        ("TERM(10.0.0.1) CASE(Foo)", "(and TERM(10.0.0.1) CASE(Foo))"),
        ("\"a \\\"b\\\" c\"", "\"a \\\"b\\\" c\""),
        ("a ```b``` c", "(and a c)"),
        ("url=http://x/y?z=1 k", "(and url=http://x/y?z=1 k)"),
        ("x [search y | fields z]", "(and x [2])"),
        ("x [| inputlookup t.csv]", "(and x [1])"),
        ("x [inputlookup t.csv]", "(and x [1])"),
        ("a, b", "(and a b)"),
        ("a,b", "a,b"),
        ("user=a@b.c", "user=a@b.c"),
        ("it's", "it's"),
        ("tag::host=web", "tag::host=web"),
        ("\"\" a", "a"),
        ("login in progress", "(and login in progress)"),
        ("latest=now() a[1] b", "(and a[1] b)"),
        ("(a OR (b c))", "(or a (and b c))"),
    ];
    for (text, want) in table {
        assert_eq!(show(&search(text).expr), want, "{text}");
    }
}

#[test]
fn time_modifiers_leave_the_condition() {
    let found = search("index=a earliest=-1d@d latest=\"10/19/2026:0:0:0\" _index_earliest=5");
    assert_eq!(show(&found.expr), "index=a");
    assert_eq!(found.time.earliest.map(|time| time.text), Some("-1d@d".to_owned()));
    assert_eq!(found.time.latest.map(|time| time.text), Some("10/19/2026:0:0:0".to_owned()));
    assert_eq!(found.time.index_earliest.map(|time| time.text), Some("5".to_owned()));
    for text in ["earliest=soon", "a OR earliest=soon", "earliest=rt-5m", "a OR _index_earliest=-1d"] {
        assert!(!parse(text).is_ok(), "{text}");
    }
}

#[test]
fn aggregates_keep_their_text() {
    let Command::Stats(stats) =
        one("| stats count, dc(\"a b\") avg( x ) AS \"mean x\" count(eval(y > 1)) p99.9(z) BY h, s")
    else {
        panic!("stats");
    };
    let names: Vec<&str> = stats.aggregates.iter().map(|aggregate| aggregate.name.as_str()).collect();
    assert_eq!(names, ["count", "dc(a b)", "mean x", "count(eval(y > 1))", "p99.9(z)"]);
    assert_eq!(stats.by.iter().map(|field| field.text.as_str()).collect::<Vec<_>>(), ["h", "s"]);
    assert!(matches!(&stats.aggregates[3].arg, AggregateArg::Eval(expr) if matches!(expr.kind, ExprKind::Binary(..))));
}

#[test]
fn faults_have_a_position_and_a_hint() {
    let table = [
        ("a | stas count", "unknown command `stas`", Some("did you mean `stats`?")),
        ("a | prjob x", "unsupported: command `prjob`", Some("every search runs in parallel")),
        ("a | eval x=foo(1)", "unknown function `foo`", None),
        ("a | eval x=lenn(y)", "unknown function `lenn`", Some("did you mean `len`?")),
        ("a | eval x=len(y, z)", "`len` takes 1 argument, got 2", Some("write len(text)")),
        ("a | eval x=(a>1)", "eval: `x` cannot hold a boolean", Some("write if(..., \"true\", \"false\")")),
        ("a | stats summ(x)", "stats: unknown aggregate `summ`", Some("did you mean `sum`?")),
        (
            "a | stats perc(x)",
            "stats: `perc` lacks its percentage",
            Some("write it after the name, as in perc95(field)"),
        ),
        ("a | timechart spam=1h count", "timechart: unknown option `spam`", Some("did you mean `span`?")),
        (
            "a | stats count by _time span=1h",
            "stats: unknown option `span`",
            Some("write `bin _time span=... | stats ...`, or use timechart"),
        ),
        (
            "a | rex \"(x)\"",
            "rex: the regular expression has no named group",
            Some("name what to extract: (?<field>...)"),
        ),
        (
            "a | rex \"(?<x\"",
            "rex: the name of a group is never closed",
            Some("a named group is written (?<field>...)"),
        ),
        ("a \"b", "this quote is never closed", Some("add `\"`")),
        ("a [search b", "this `[` is never closed", Some("add `]`")),
        ("a ] b", "this `]` has no `[`", Some("remove it")),
        ("a OR IN (b)", "`IN` needs a field on its left", Some("write `field IN (...)` or `NOT field IN (...)`")),
        ("* | where f NOT like (1)", "unexpected `NOT` after the expression", Some("write NOT before the condition")),
        (
            "a | eval x=if(y>1 ? 2 : 3)",
            "expected `)` after the arguments, found `?`",
            Some("write if(condition, yes, no)"),
        ),
        ("a | eval x=y>1 ? 2 : 3", "eval: unexpected `?`", Some("write if(condition, yes, no)")),
        (
            "a | eval x=y & 3",
            "eval: unexpected `&`",
            Some("write AND for two conditions, bit_and(x, y) for the bits of numbers"),
        ),
        ("a )", "this `)` has no `(`", Some("remove it")),
        ("", "the search is empty", Some("write `*` to select every event")),
        ("a | | head", "a command is missing here", Some("remove the `|`")),
        ("a | where x=", "an expression is missing its right side", None),
        (
            "`m(1)`",
            "unsupported: macro `m(1)`; macros are not expanded here",
            Some("write the text of the macro in its place"),
        ),
    ];
    for (text, message, hint) in table {
        let parsed = parse(text);
        let first = &parsed.diagnostics[0];
        assert_eq!((first.message.as_str(), first.hint.as_deref()), (message, hint), "{text}");
        assert_eq!(parsed.diagnostics.len(), 1, "{text}: {:?}", parsed.diagnostics);
        assert!(!parsed.is_ok());
    }
}

#[test]
fn lints_that_still_run_are_warnings() {
    for text in ["a and b", "not a", "f in (a)", "makeresults | eval x=1", "* | eval x=5m", "eval x=if(len(y)=0, 1, 2)"]
    {
        let parsed = parse(text);
        assert!(parsed.is_ok() && !parsed.diagnostics.is_empty(), "{text}: {:?}", parsed.diagnostics);
    }
    for text in ["a AND b", "makeresults=1", "\"and\"", "* | eval x=5"] {
        assert_eq!(parse(text).diagnostics, Vec::new(), "{text}");
    }
}

#[test]
fn foreign_words_and_typos_are_explained() {
    let hint = |text: &str| {
        let parsed = crate::parse(text);
        let first = parsed.diagnostics.first().unwrap_or_else(|| panic!("{text}: nothing is said"));
        first.hint.clone().unwrap_or_default()
    };
    for (text, says) in [
        ("'error' | stats count", "\"error\""),
        ("'connection refused'", "\"…\""),
        ("* | head limt=3", "`limit=`"),
        ("* | head 5 earliest=1", "before the first `|`"),
        ("* | stats count by a having count", "`| where CONDITION`"),
        ("* | stats count | limit 5", "`head 5`"),
        ("* | take 20", "`head 20`"),
        ("* | limit", "`head 10`"),
        ("* | stats count bye host", "`by`"),
        ("status like \"5%\"", "| where FIELD like"),
        ("status is not null", "FIELD=*"),
        ("| error | stats count", "`search error`"),
        ("|error | stats count", "`search error`"),
    ] {
        assert!(hint(text).contains(says), "{text}: {}", hint(text));
    }
    for text in ["don't panic", "* | head limit=3", "* | head (status=500)", "things like this", "user is root"] {
        assert_eq!(crate::parse(text).diagnostics, Vec::new(), "{text}");
    }
}

#[test]
fn conditions_and_expressions_parse_on_their_own() {
    assert_eq!(parse_condition("a OR b c").map(|expr| show(&expr)), Ok("(and (or a b) c)".to_owned()));
    for text in ["a | b", "a ]", "(a", "a \"b"] {
        assert!(parse_condition(text).is_err(), "{text}");
    }
    assert!(parse_expression("a | b").is_err());
}
