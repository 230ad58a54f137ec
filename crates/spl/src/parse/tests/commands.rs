//! Commands with their options and defaults.

use super::one;
use crate::ast::{
    BinSpan, Command, FieldPattern, InlineData, MvSplit, PercentileKind, PercentileMethod, RexCommand, SedEdit,
    SedMatches, SeriesTest, SortKind, StatsFunction,
};
use crate::parse::parse;
use quarry_event::time::{Span as TimeSpan, SpanUnit};

fn names(fields: &[FieldPattern]) -> Vec<&str> {
    fields.iter().map(|field| field.text.as_str()).collect()
}

#[test]
fn field_lists_are_parsed() {
    for text in ["| table a, \"b c\" d*", "| table a \"b c\",d*", "| table  a,\"b c\"  ,  d* "] {
        let Command::Table(table) = one(text) else { panic!("{text}") };
        assert_eq!(names(&table.fields), ["a", "b c", "d*"], "{text}");
    }
    for (text, removes, listed) in [
        ("| fields - _raw, x", true, &["_raw", "x"][..]),
        ("| fields -x", true, &["x"]),
        ("| fields + x", false, &["x"]),
    ] {
        let Command::Fields(fields) = one(text) else { panic!("{text}") };
        assert_eq!((fields.removes, &names(&fields.fields)[..]), (removes, listed), "{text}");
    }
    let Command::Rename(rename) = one("| rename count(a b) AS n, \"x y\" as \"z z\" p.* AS *") else {
        panic!("rename")
    };
    let pairs: Vec<(&str, &str)> =
        rename.pairs.iter().map(|(from, to)| (from.text.as_str(), to.text.as_str())).collect();
    assert_eq!(pairs, [("count(a b)", "n"), ("x y", "z z"), ("p.*", "*")]);
    let Command::FillNull(fill) = one("| fillnull value=\"N/A\" a, b") else { panic!("fillnull") };
    assert_eq!((fill.value.as_str(), names(&fill.fields)), ("N/A", vec!["a", "b"]));
}

#[test]
fn sort_orders_are_parsed() {
    type Key = (&'static str, bool, SortKind);
    let table: &[(&str, usize, bool, &[Key])] = &[
        ("| sort x", 10_000, false, &[("x", false, SortKind::Auto)]),
        ("| sort 0 -x, +y", 0, false, &[("x", true, SortKind::Auto), ("y", false, SortKind::Auto)]),
        ("| sort - x y", 10_000, false, &[("x", true, SortKind::Auto), ("y", true, SortKind::Auto)]),
        ("| sort limit=5 -num(x) ip(y)", 5, false, &[("x", true, SortKind::Num), ("y", false, SortKind::Ip)]),
        ("| sort 5 x desc", 5, true, &[("x", false, SortKind::Auto)]),
        ("| sort -_time", 10_000, false, &[("_time", true, SortKind::Auto)]),
        ("| sort d", 10_000, false, &[("d", false, SortKind::Auto)]),
        ("| sort num", 10_000, false, &[("num", false, SortKind::Auto)]),
        ("| sort - count(x)", 10_000, false, &[("count(x)", true, SortKind::Auto)]),
    ];
    for (text, limit, reverse, keys) in table {
        let Command::Sort(sort) = one(text) else { panic!("{text}") };
        assert_eq!((sort.limit, sort.reverse), (*limit, *reverse), "{text}");
        let found: Vec<_> = sort.keys.iter().map(|key| (key.field.text.as_str(), key.descending, key.kind)).collect();
        assert_eq!(found, *keys, "{text}");
    }
}

#[test]
fn commands_that_select_rows_are_parsed() {
    let table = [("| head", Some(10)), ("| head 3", Some(3)), ("| head limit=4", Some(4)), ("| head (x<5)", None)];
    for (text, limit) in table {
        let Command::Head(head) = one(text) else { panic!("{text}") };
        assert_eq!((head.limit, head.condition.is_some()), (limit, limit.is_none()), "{text}");
    }
    let Command::Head(head) = one("| head x==1 null=t keeplast=true limit=7") else { panic!("head") };
    assert!(head.condition.is_some() && head.null_is_true && head.keep_last && head.limit == Some(7));
    assert!(matches!(one("| tail 2"), Command::Tail(tail) if tail.count == 2));
    assert!(matches!(one("| reverse"), Command::Reverse(_)));
    let Command::Dedup(dedup) = one("| dedup 2 a, b keepevents=t consecutive=true sortby -_time +c keepempty=f") else {
        panic!("dedup")
    };
    assert_eq!((dedup.count, names(&dedup.fields), dedup.sort_by.len()), (2, vec!["a", "b"], 2));
    assert!(dedup.keep_events && !dedup.keep_empty && dedup.consecutive);
    for text in ["| top 5 a, b by c showperc=f useother=t", "| top limit=5 showperc=false a b useother=1 BY c"] {
        let Command::Top(top) = one(text) else { panic!("{text}") };
        assert_eq!((top.limit, names(&top.fields), names(&top.by)), (5, vec!["a", "b"], vec!["c"]), "{text}");
        assert!(!top.rarest && !top.show_percent && top.show_count && top.use_other);
    }
    assert!(matches!(one("| rare x"), Command::Top(rare) if rare.rarest && rare.limit == 10));
}

#[test]
fn charts_are_parsed() {
    for text in [
        "| chart count over a by b",
        "| chart count by a, b",
        "| chart count by a b",
        "| chart limit=0 count OVER a BY b",
    ] {
        let Command::Chart(chart) = one(text) else { panic!("{text}") };
        let split = |split: &Option<crate::ast::SplitField>| split.as_ref().map(|split| split.field.text.clone());
        assert_eq!((split(&chart.row), split(&chart.column)), (Some("a".to_owned()), Some("b".to_owned())), "{text}");
    }
    let Command::Chart(chart) = one("| chart avg(x) AS m by y span=10 where max > 5") else { panic!("chart") };
    assert_eq!(chart.row.map(|row| row.bin.span), Some(Some(BinSpan::Number(10.0))));
    assert!(matches!(chart.series.filter.map(|f| f.test), Some(SeriesTest::Compare { value: 5.0, .. })));

    let text =
        "| timechart span=5m limit=bottom3 useother=f usenull=false cont=f count, p95(x) by host where sum in top4";
    let Command::TimeChart(chart) = one(text) else { panic!("timechart") };
    assert_eq!(chart.bin.span, Some(BinSpan::Time(TimeSpan::new(5, SpanUnit::Minute))));
    assert_eq!((chart.series.limit, chart.series.bottom, chart.cont), (3, true, false));
    assert!(!chart.series.use_other && !chart.series.use_null);
    assert_eq!(chart.series.filter.map(|f| f.test), Some(SeriesTest::In { top: true, count: 4 }));
    let percentile =
        StatsFunction::Percentile { percent: 95.0, kind: PercentileKind::Default, method: PercentileMethod::default() };
    assert_eq!(chart.aggregates[1].function, percentile);
    let Command::TimeChart(chart) = one("| timechart per_minute(x) by y span=1h limit=5") else { panic!("timechart") };
    assert_eq!(chart.bin.span, Some(BinSpan::Time(TimeSpan::new(1, SpanUnit::Hour))));
    assert_eq!(chart.series.limit, 5);

    for (text, span, output) in [
        ("| bin _time span=1d AS day", BinSpan::Time(TimeSpan::new(1, SpanUnit::Day)), Some("day")),
        ("| bucket span=0.5 x", BinSpan::Number(0.5), None),
        ("| discretize x span=2log10", BinSpan::Log { coefficient: 2.0, base: 10.0 }, None),
        ("| bin x span=log2", BinSpan::Log { coefficient: 1.0, base: 2.0 }, None),
    ] {
        let Command::Bin(bin) = one(text) else { panic!("{text}") };
        assert_eq!((bin.options.span, bin.output.as_deref()), (Some(span), output), "{text}");
    }
}

#[test]
fn running_aggregates_and_sparklines_are_parsed() {
    let text = "| streamstats current=f window=5 global=f reset_on_change=t reset_before=(x=1) sum(y) AS s by z";
    let Command::StreamStats(stats) = one(text) else { panic!("streamstats") };
    assert!(!stats.current && !stats.global && stats.reset_on_change && stats.reset_before.is_some());
    assert_eq!((stats.window, names(&stats.by)), (5, vec!["z"]));
    let quoted = one("| streamstats reset_after=\"(x=1)\" count");
    assert!(matches!(quoted, Command::StreamStats(stats) if stats.reset_after.is_some()));
    let between = one("| streamstats reset_after=\"(\"match(x, \"a\")\")\" count BY y");
    assert!(matches!(between, Command::StreamStats(stats) if stats.reset_after.is_some() && stats.by.len() == 1));
    assert!(matches!(one("| sort -a, b limit=5"), Command::Sort(sort) if sort.limit == 5 && sort.keys.len() == 2));
    let Command::Stats(stats) = one("| stats sparkline sparkline(count, 1h) AS s sparkline(avg(x), 5m)") else {
        panic!("stats")
    };
    let spans: Vec<_> = stats
        .aggregates
        .iter()
        .map(|aggregate| match &aggregate.function {
            StatsFunction::Sparkline { inner, span } => (inner.as_ref().clone(), span.map(|span| span.amount)),
            other => panic!("{other:?}"),
        })
        .collect();
    let count = StatsFunction::Count;
    assert_eq!(spans, [(count.clone(), None), (count, Some(1)), (StatsFunction::Avg, Some(5))]);
}

#[test]
fn extractions_are_parsed() {
    let Command::Rex(RexCommand::Extract(rex)) =
        one("| rex field=\"a b\" max_match=0 \"(?<x>\\d+) [(?<no>] (?P<y_1>\\\"q\\\")\" offset_field=o")
    else {
        panic!("rex")
    };
    assert_eq!((rex.field.as_str(), rex.max_match, rex.offset_field.as_deref()), ("a b", 0, Some("o")));
    assert_eq!((rex.groups, rex.pattern.text.contains("\"q\"")), (vec!["x".to_owned(), "y_1".to_owned()], true));
    let Command::Rex(RexCommand::Sed(sed)) = one("| rex mode=sed field=c \"s/a\\/(b)/\\1/gi y/ab/cd/ s/x/y/2\"") else {
        panic!("sed")
    };
    assert_eq!(sed.edits.len(), 3);
    assert!(matches!(&sed.edits[0], SedEdit::Substitute { pattern, replacement, which: SedMatches::All }
        if pattern.text == "(?i)a/(b)" && replacement == "\\1"));
    assert!(matches!(&sed.edits[1], SedEdit::Transliterate { from, to } if from.len() == to.len()));
    assert!(matches!(&sed.edits[2], SedEdit::Substitute { which: SedMatches::Nth(2), .. }));
    for (text, field, negated, pattern) in [
        ("| regex \"a|b\"", "_raw", false, "a|b"),
        ("| regex x=\"a=b\"", "x", false, "a=b"),
        ("| regex x != \"^a\"", "x", true, "^a"),
        ("| regex _raw=(?<!\\d)10\\.[^|]", "_raw", false, "(?<!\\d)10\\.[^|]"),
    ] {
        let Command::Regex(regex) = one(text) else { panic!("{text}") };
        let found = (regex.field.as_str(), regex.negated, regex.pattern.text.as_str());
        assert_eq!(found, (field, negated, pattern), "{text}");
    }
    for text in ["| spath input=i output=o path=a.b{}.c", "| spath input=i output=o a.b{}.c"] {
        let Command::Spath(spath) = one(text) else { panic!("{text}") };
        let found = (spath.input.as_str(), spath.output.as_deref(), spath.path.as_deref());
        assert_eq!(found, ("i", Some("o"), Some("a.b{}.c")), "{text}");
    }
    assert!(matches!(one("| makemv delim=\",\" allowempty=t x"), Command::MakeMv(makemv)
        if makemv.split == MvSplit::Delimiter(",".to_owned()) && makemv.allow_empty));
    assert!(matches!(one("| makemv tokenizer=\"(\\w+)\" x"), Command::MakeMv(makemv)
        if matches!(&makemv.split, MvSplit::Tokenizer(pattern) if pattern.text == "(\\w+)")));
    assert!(matches!(one("| mvexpand x limit=3"), Command::MvExpand(expand) if expand.limit == 3));
}

#[test]
fn commands_that_add_rows_or_fields_are_parsed() {
    let Command::Join(join) = one("| join type=left max=0 a, b [search c | stats count by a b]") else {
        panic!("join")
    };
    assert_eq!((join.left_outer, join.max, names(&join.fields)), (true, 0, vec!["a", "b"]));
    assert_eq!(join.subsearch.commands.len(), 2);
    let Command::Join(join) = one("| join left=L right=R where L.a=R.b R.d = L.c [search x]") else { panic!("join") };
    let pair = |left: &str, right: &str| (left.to_owned(), right.to_owned());
    assert_eq!(join.aliases.map(|aliases| aliases.pairs), Some(vec![pair("a", "b"), pair("c", "d")]));
    let Command::Append(append) = one("| append maxout=5 maxtime=9 [search x]") else { panic!("append") };
    assert_eq!((append.limits.max_out, append.limits.max_time_s), (Some(5), Some(9)));
    let text = "| lookup local=true t.csv a AS b, c OUTPUTNEW d as \"e f\" g";
    let Command::Lookup(lookup) = one(text) else { panic!("lookup") };
    assert_eq!((lookup.table.as_str(), lookup.only_new), ("t.csv", true));
    assert_eq!(
        (lookup.inputs, lookup.outputs),
        (vec![pair("a", "b"), pair("c", "c")], vec![pair("d", "e f"), pair("g", "g")])
    );
    let Command::InputLookup(lookup) = one("| inputlookup append=t start=2 max=3 t where a=1 OR b=2") else {
        panic!("input")
    };
    assert_eq!((lookup.append, lookup.start, lookup.max, lookup.filter.is_some()), (true, 2, 3, true));
    let Command::MakeResults(make) = one("| makeresults count=3 format=json data=\"[{\\\"a\\\":1}]\"") else {
        panic!("make")
    };
    assert_eq!((make.count, make.data), (3, Some(InlineData::Json("[{\"a\":1}]".to_owned()))));
}

#[test]
fn a_fault_drops_one_command_only() {
    let parsed = parse("a | stas count | head 5 | eval x= | table x | crawl y");
    assert_eq!(parsed.pipeline.commands.len(), 3);
    assert_eq!(parsed.diagnostics.len(), 3);
    assert_eq!(parsed.unsupported, ["command:stas", "command:crawl"]);
}

#[test]
fn wrong_arguments_are_errors() {
    for text in [
        "table",
        "fields -",
        "rename a b",
        "rename a* AS b",
        "sort",
        "dedup",
        "dedup 0 x",
        "top",
        "stats",
        "stats by x",
        "streamstats sum",
        "stats sum(x",
        "stats count by",
        "stats p101(x)",
        "stats per_second(x)",
        "chart",
        "chart count by a b c",
        "timechart count by a b",
        "timechart span=abc count",
        "timechart where sum",
        "bin",
        "bin x span=0",
        "rex",
        "rex \"(?<1x>a)\"",
        "rex mode=sed \"s/a/b\"",
        "rex mode=sed \"y/ab/c/\"",
        "regex",
        "spath output=x",
        "makemv",
        "mvexpand",
        "append",
        "append [search x",
        "join a",
        "join left=L [search x]",
        "lookup",
        "lookup t",
        "inputlookup",
        "makeresults format=csv",
        "head 5 6",
        "eval",
        "eval x",
        "where",
        "search AND a",
        "search a OR",
        "search f=",
        "search f IN ()",
        "reverse x",
        "tail x",
        "fillnull valu=3",
        "dedup x keepempty=maybe",
    ] {
        assert!(!parse(&format!("* | {text}")).is_ok(), "{text}");
    }
}
