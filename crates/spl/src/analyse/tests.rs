//! Fields that searches need from their events.

use super::*;
use crate::parse;

/// Needs of the commands after the first, written as a list; `*` is everything.
fn needs(text: &str) -> String {
    let parsed = parse(text);
    assert!(parsed.is_ok(), "{text}: {:?}", parsed.diagnostics);
    let needs = required_fields(&parsed.pipeline.commands[1..]);
    if needs.all {
        return "*".to_owned();
    }
    let names: Vec<String> = needs.fields.into_iter().chain(needs.patterns).collect();
    names.join(" ")
}

#[test]
fn only_read_fields_are_needed() {
    let table = [
        ("a", "*"),
        ("a | head 5", "*"),
        ("a | stats count", ""),
        ("a | stats sum(x) by y", "x y"),
        ("a | stats latest(x)", "_time x"),
        ("a | stats sum(*) by y", "*"),
        ("a | stats sum(x_*) by y", "y x_*"),
        ("a | timechart count by host", "_time host"),
        ("a | chart avg(x) over y by z", "x y z"),
        ("a | top x by y", "x y"),
        ("a | table x, y*", "x y*"),
        ("a | table *", "*"),
        ("a | fields x", "_raw _time x"),
        ("a | fields x y | stats count by y", "y"),
        ("a | fields - x | stats count by x", ""),
        ("a | eval z=x+y | stats sum(z)", "x y"),
        ("a | eval q=w | eval z=x | stats sum(z)", "x"),
        ("a | eval z=z+1 | stats sum(z)", "z"),
        ("a | eval {f}=1 | stats sum(z)", "f z"),
        ("a | where searchmatch(\"b\") | stats count", "_raw"),
        ("a | where searchmatch(\"b c=1\") | stats count", "_raw c"),
        ("a | where searchmatch(\"d*=2\") | stats count", "*"),
        ("a | stats count(eval(searchmatch(\"b\"))) AS n by x", "_raw x"),
        ("a | foreach x y [eval <<FIELD>>_2=<<FIELD>>*2] | stats sum(x_2)", "x"),
        ("a | foreach x y [eval t=t+'<<FIELD>>'] | stats sum(t)", "t x y"),
        ("a | foreach x* [eval <<FIELD>>=1] | stats count", "*"),
        ("a | where x>1 | stats count", "x"),
        ("a | search b x=1 NOT y IN (1) | stats count", "_raw x y"),
        ("a | search [search b] | stats count", "*"),
        ("a | rename x AS y | stats count by y", "x"),
        ("a | rename x AS y y AS x | stats count by y", "x y"),
        ("a | rename p.* AS * | stats count by y", "y p.*"),
        ("a | rex \"(?<y>.)\" | stats count by y", "_raw y"),
        ("a | rex field=x \"(?<y>.)\" | stats count by y", "x y"),
        ("a | spath | stats count by y", "_raw y"),
        ("a | lookup t c AS x OUTPUT d AS y | stats count by y", "x y"),
        ("a | join x [search b] | stats count by y", "x y"),
        ("a | join [search b] | stats count", "*"),
        ("a | eventstats avg(x) AS m | where y>m | stats count", "x y"),
        ("a | eventstats avg(x) AS x BY y | stats sum(x)", "x y"),
        ("a | streamstats window=2 avg(x) AS m BY z | stats max(m)", "x z"),
        ("a | streamstats reset_after=(m>1) sum(x) AS m | stats max(m)", "m x"),
        ("a | dedup x sortby -_time | stats count", "_time x"),
        ("a | sort - x | table y", "x y"),
        ("a | bin _time span=1h | stats count by _time", "_time"),
        ("a | stats count by x | eval y=z | table y", "x"),
        ("a | stats count(eval(x>1)) AS c", "x"),
        ("a | append [search b | stats count] | stats count by y", "y"),
    ];
    for (text, want) in table {
        assert_eq!(needs(text), want, "{text}");
    }
}

#[test]
fn transforming_searches_are_recognised() {
    for (text, want) in [
        ("a | eval x=1 | fields x", false),
        ("a | stats count", true),
        ("a | table x", true),
        ("| makeresults", true),
        ("a | eventstats count", false),
        ("a | timechart count", true),
        ("a | timechart span=[| makeresults | return $s] count", true),
        ("a earliest=[| makeresults | return $s]", false),
    ] {
        assert_eq!(is_transforming(&parse(text).pipeline.commands), want, "{text}");
    }
}

#[test]
fn searches_that_select_events_are_recognised() {
    for (text, want) in [
        ("a | stats count", true),
        ("| search a", true),
        ("a earliest=[| makeresults | return $s] | head", true),
        ("| makeresults", false),
        ("| tstats count where index=a by [| makeresults | return $s]", false),
    ] {
        assert_eq!(begins_with_events(&parse(text).pipeline.commands), want, "{text}");
    }
}

#[test]
fn commands_that_keep_times_are_recognised() {
    for (text, want) in [
        ("search x=1", true),
        ("where x>1", true),
        ("regex x=\"a\"", true),
        ("fields - x", true),
        ("eval x=1", true),
        ("eval x=1, _time=now()", false),
        ("eval {x}=1", false),
        ("rex \"(?<x>a)\"", true),
        ("rex \"(?<_time>a)\"", false),
        ("rex mode=sed field=_time \"s/1/2/\"", false),
        ("lookup t x OUTPUT y", true),
        ("lookup t x OUTPUT y AS _time", false),
        ("lookup t x", false),
        ("bin _time span=1h", false),
        ("bin _time span=1h AS hour", true),
        ("spath path=a output=_time", false),
        ("spath", false),
        ("stats count by _time", false),
    ] {
        let parsed = parse(&format!("a | {text}"));
        assert!(parsed.is_ok(), "{text}: {:?}", parsed.diagnostics);
        assert_eq!(parsed.pipeline.commands[1].command.keeps_times(), want, "{text}");
    }
}
