//! Planner passes: each search, followed by the plan that they make of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::tz::TimeZone;
use quarry_conf::{Layers, Permissions, PropsResolver};
use quarry_event::TimeRange;
use quarry_scan::plan::RowLimit;
use quarry_spl::ast::Command;
use quarry_stdx::Clock;
use quarry_store::MemoryStore;
use quarry_testworld::OneTable;

use super::*;
use crate::SearchShape;
use crate::explain::Explainer;
use crate::job::{Engine, EngineOptions, SearchRequest};
use crate::knowledge::KnowledgeSource;
use crate::run::Runner;

const NOW: i64 = 1_790_000_000_000_000_000;

struct KnownObjects;

impl KnowledgeSource for KnownObjects {
    fn saved_search(&self, name: &str) -> Option<String> {
        (name == "daily").then(|| "index=other disk | stats count by host".to_owned())
    }
}

/// A clock that advances by 40 ms whenever it is read.
#[derive(Debug, Default)]
pub(crate) struct ReadClock(AtomicI64);

impl Clock for ReadClock {
    fn now_ns(&self) -> i64 {
        self.elapsed_ns()
    }

    fn elapsed_ns(&self) -> i64 {
        self.0.fetch_add(40_000_000, Ordering::Relaxed)
    }
}

/// A runner for a search over no events.
pub(crate) fn runner(text: &str) -> Runner {
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    let tables = OneTable::of_csv("teams", "user,team\neva,red\n");
    let engine = Engine::new(&EngineOptions::default(), props, tables).unwrap().with_knowledge(Arc::new(KnownObjects));
    let request = SearchRequest {
        text: text.to_owned(),
        prefix: 0,
        pipeline: None,
        shape: SearchShape::default(),
        range: TimeRange::ALL,
        now: NOW,
        zone: TimeZone::UTC,
        default_indexes: vec!["main".into()],
        permissions: Arc::new(Permissions::owner()),
        sid: None,
    };
    engine.runner(request, Arc::new(MemoryStore::new("main")))
}

fn plan(text: &str) -> Plan {
    let parsed = quarry_spl::parse(text);
    assert!(parsed.is_ok(), "{text}: {:?}", parsed.diagnostics);
    let runner = runner(text);
    Planner::new(&runner, Subsearches::Run)
        .plan_search(&parsed.pipeline)
        .unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

fn scan(text: &str) -> Scan {
    match plan(text).source {
        Source::Scan(scan) => *scan,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn commands_are_split_where_rows_are_folded() {
    for (text, wanted) in [
        ("*", "scan main fields=* newest first"),
        ("* | where a>1 | eval b=a", "scan main fields=* newest first selects by=a commands=1\nreduce where | eval"),
        (
            "* | where a>1 | eval b=a | stats count by b | sort b | head 1",
            "scan main fields=a\nmap where | eval\nfold stats\nreduce sort | head",
        ),
        // Commands that depend on the order of events are not folded in parallel.
        ("* | stats first(a)", "scan main fields=a newest first\nreduce stats"),
        ("* | dedup a | stats count by a", "scan main fields=a newest first first=1 of a\nreduce dedup | stats"),
        (
            "* | eventstats first(a) as f | stats count by f",
            "scan main fields=a newest first\nreduce eventstats | stats",
        ),
        // The order does not matter if a command may keep any row of a combination, or if it reads all rows anyway.
        ("* | dedup a | stats count", "scan main fields=a first=1 of a\nreduce dedup | stats"),
        (
            "* | eventstats avg(a) as m by b | where a>m | stats count by b",
            "scan main fields=a,b\nreduce eventstats | where | stats",
        ),
        // The columns that match a pattern are known only when all rows have been read.
        ("* | stats sum(a*)", "scan main fields=a* newest first\nreduce stats"),
        ("* | foreach a b [ eval <<FIELD>>=1 ] | stats count", "scan main fields=\nmap foreach\nfold stats"),
        (
            "* | foreach a* [ eval <<FIELD>>=1 ] | stats count",
            "scan main fields=* newest first\nreduce foreach | stats",
        ),
        ("| makeresults | stats count", "makeresults\nreduce stats"),
        ("| stats count", "nothing\nreduce stats"),
        ("| eval a=1", "one row\nreduce eval"),
    ] {
        assert_eq!(plan(text).to_string(), wanted, "{text}");
    }
}

#[test]
fn work_is_pushed_down_to_the_scan() {
    for (text, wanted) in [
        ("* | rex \"u=(?<u>\\w+)\" | stats count by u", "scan main fields=u rex=u counts\nfold stats"),
        ("* | rex field=m \"u=(?<u>\\w+)\" | stats count by u", "scan main fields=u rex=u counts\nfold stats"),
        (
            "* | rex \"m=(?<m>\\w+)\" | rex field=m \"u=(?<u>\\w+)\" | stats count by u",
            "scan main fields=m,u rex=m\nmap rex\nfold stats",
        ),
        ("* | eval l=len(_raw) | stats avg(l)", "scan main fields=__raw:0 length=__raw:0\nmap eval\nfold stats"),
        ("* | regex \"a+\" | stats count by u", "scan main fields=__raw:0,u match=__raw:0\nmap where\nfold stats"),
        ("* | regex \"a+\" | stats count by _raw", "scan main fields=_raw\nmap regex\nfold stats"),
        (
            "* | eval l=len(_raw) | sort l",
            "scan main fields=* newest first selects by=_raw commands=1 top=10001 by l\nreduce eval | sort",
        ),
        // The results of the second `rex` are not used, but the error of the third is reported.
        (
            "* | rex \"u=(?<u>\\w+)\" | rex \"v=(?<v>\\w+)\" | dedup u | rex \"(?<w>[a\" | stats count by u",
            "scan main fields=_raw,u newest first\nreduce rex | dedup | rex | stats",
        ),
        (
            "* | rex \"u=(?<u>\\w+)\" | sort 5 -u | table u",
            "scan main fields=u newest first rex=u top=5 by u\nreduce sort | table",
        ),
        (
            "* | rex \"u=(?<u>\\w+)\" | sort 5 -u",
            "scan main fields=* newest first selects by=_raw,u commands=1 top=5 by u\nreduce rex | sort",
        ),
        // A later command needs the text itself.
        ("* | rex \"u=(?<u>\\w+)\" | stats count by u, _raw", "scan main fields=_raw,u\nmap rex\nfold stats"),
        ("* | rex field=host \"(?<u>.)\" | stats count by u", "scan main fields=host,u\nmap rex\nfold stats"),
        ("* | stats count by host", "scan main fields=host extremes counts\nfold stats"),
        ("* | stats sum(a) by host", "scan main fields=a,host\nfold stats"),
        ("* | sort 5 -a | table a", "scan main fields=a newest first top=5 by a\nreduce sort | table"),
        ("* | sort 5 -a", "scan main fields=* newest first selects by=a commands=0 top=5 by a\nreduce sort"),
        (
            "* | sort 0 a | head 3",
            "scan main fields=* newest first selects by=a commands=0 top=3 by a\nreduce sort | head",
        ),
        ("* | sort 0 a", "scan main fields=* newest first\nreduce sort"),
        ("* | sort 0 a | head a>1", "scan main fields=* newest first\nreduce sort | head"),
    ] {
        assert_eq!(plan(text).to_string(), wanted, "{text}");
    }
    let Command::Sort(sort) = &plan("* | sort 0 a | head 3").reduce[0].command else { panic!("a sort") };
    assert_eq!(sort.limit, 3, "the sort returns no more rows than requested");
}

#[test]
fn rows_are_selected_by_the_fields_that_the_first_commands_read() {
    for (commands, wanted) in [
        ("where a>b", Some(("a,b", 1, None))),
        ("search a=1 word | eval c=a+d | where c>1", Some(("_raw,a,d", 3, None))),
        ("where a>1 | eval c=a", Some(("a", 1, None))),
        ("where a>1 | dedup b", Some(("a,b", 1, Some("first")))),
        ("dedup 2 b c", Some(("b,c", 0, Some("first")))),
        ("tail 5", Some(("", 0, Some("oldest")))),
        ("regex \"a+\" | eval s=b | sort 5 s | where z=1", Some(("_raw,b", 2, Some("top")))),
        // No selection: these commands keep all rows, in another order or with other fields.
        ("eval c=a", None),
        ("sort 0 a", None),
        ("dedup a sortby b", None),
        // No selection: a second run may keep other rows, or run another subsearch.
        ("where random()>5", None),
        ("search [ search x | fields y ]", None),
        ("search a*=1", None),
        // No selection: the scan reads few fields anyway.
        ("where a>1 | table b", None),
    ] {
        let selection = scan(&format!("* | {commands}")).selection;
        let found = selection.as_ref().map(|selection| {
            let fields: Vec<&str> = selection.projection.fields.iter().map(String::as_str).collect();
            let limit = selection.limit.as_ref().map(|limit| match limit {
                RowLimit::Top(_) => "top",
                RowLimit::First(_) => "first",
                RowLimit::Oldest(_) => "oldest",
            });
            (fields.join(","), selection.commands, limit)
        });
        assert_eq!(found, wanted.map(|(fields, count, limit)| (fields.to_owned(), count, limit)), "{commands}");
    }
}

#[test]
fn row_requirements_of_first_commands_are_passed_to_the_scan() {
    for (text, wanted) in [
        ("* | rex \"u=(?<u>\\w+)\" | search u=a v=b* | stats count by w, x", vec!["u", "v", "w", "x"]),
        ("* | search (u=a OR v=b) NOT w=c word | search x>1 | table x", vec!["u v", "w", "x"]),
        ("* | search a=1 | eval b=a | search b=1 | stats count by b", vec!["a"]),
        ("* | stats count by a | search a=1", vec!["a"]),
        ("* | search eventtype=e tag::host=t host=h _time>1 v*=1 [ search x | fields y ] | stats count", vec![]),
        ("* | search a=1", vec!["a"]),
        ("* | search a=1 | stats sum(b*)", vec!["a"]),
    ] {
        let demands = scan(text).demands;
        let fields = demands.iter().map(|demand| {
            let fields: Vec<String> = quarry_spl::analyse::search_fields(demand).into_iter().collect();
            fields.join(" ")
        });
        assert_eq!(fields.collect::<Vec<_>>(), wanted, "{text}");
    }
}

#[test]
fn commands_that_read_events_are_planned_as_event_searches() {
    for (text, wanted) in [
        ("| tstats count where index=a by host", "scan a fields=host of index time extremes counts\nfold stats"),
        (
            "| metadata type=hosts index=a | head 1",
            "scan a fields=_indextime,_time,host counts\nfold stats\nreduce eval | table | head",
        ),
        ("| savedsearch daily | head 1", "saved search daily\nreduce head"),
        ("index=a x | eval y=1 | delete", "delete scan a fields= newest first"),
    ] {
        assert_eq!(plan(text).to_string(), wanted, "{text}");
    }
    let Source::Search(inner) = plan("| savedsearch daily").source else { panic!("a search") };
    assert_eq!(inner.plan.to_string(), "scan other fields=host extremes counts\nfold stats");
}

#[test]
fn plans_include_the_exchange_from_map_to_reduce() {
    for (text, wanted) in [
        ("*", "events, newest first: _time, _raw, _indextime, *"),
        ("* | where a>1 | table a b*", "events, newest first: _time, a, b*"),
        ("* | head 3 | table _raw", "events, newest first: _time, _raw"),
        ("* | eval l=len(_raw) | table l", "events, newest first: _time, __raw:0"),
        ("* | stats first(a)", "events, newest first: _time, a"),
        ("* | sort 5 -a, b | table a b", "events that may be among the 5 with the largest a: _time, a, b"),
        ("* | sort 0 a | head 3 | table a", "events that may be among the 3 with the smallest a: _time, a"),
        ("* | dedup 2 a, b | table a", "events that may be among the first 2 of each a, b: _time, a, b"),
        ("* | stats count", "one group: count (count)"),
        // Partial states are exchanged even if the scan returns rows that represent several events.
        ("* | stats count by host", "groups by host: count (count)"),
        ("| tstats count where index=a by host", "groups by host: count (count)"),
        (
            "| metadata type=hosts index=a",
            "groups by host: min(_time) (smallest number, smallest text), max(_time) (largest number, largest text), max(_indextime) (largest number, largest text), count (count)",
        ),
        (
            "* | where a>1 | stats avg(a) as mean range(a) dc(b) by c, d",
            "groups by c, d: avg(a) (sum, count of numbers), range(a) (smallest number, largest number), dc(b) (distinct values)",
        ),
        (
            "* | stats p95(a) exactperc50(a) mode(b) earliest(b) rate(a) sparkline(avg(a))",
            "one group: perc95(a) (digest), exactperc50(a) (exact digest), mode(b) (values with counts), earliest(b) (values of the earliest row), rate(a) (values of the earliest row, values of the latest row), sparkline(avg(a)) (numbers by span)",
        ),
        ("* | stats count(eval(a>1)) as big", "one group: count(eval(...)) (count)"),
        // The exchange also has the states that only the steps after the fold read.
        (
            "* | stats allnum=t sum(a)",
            "one group: sum(a) (sum, count of numbers), count(a) (count), count(eval(...)) (count)",
        ),
        ("* | chart sum(a) over b by c", "groups by b, c: sum(a) (sum, count of numbers)"),
        ("* | timechart span=1h count by host", "groups by _time, host: count (count)"),
        ("* | timechart count", "times of each worker's rows: first, last; groups by _time: count (count)"),
        ("* earliest=1 latest=9 | timechart count", "groups by _time: count (count)"),
        ("* | top 3 a by b", "groups by b, a: count (count)"),
        ("| savedsearch daily | head 1", "groups by host: count (count)"),
    ] {
        let rounds: Vec<String> = plan(text).rounds().iter().map(ToString::to_string).collect();
        assert_eq!(rounds.join("; "), wanted, "{text}");
    }
    for text in ["| makeresults | stats count", "| stats count", "| eval a=1", "index=a x | delete"] {
        assert_eq!(plan(text).exchange(), None, "{text}");
    }
}

#[test]
fn scan_conditions_contain_only_event_tests() {
    let found = scan("index=a [ | makeresults count=2 | eval u=\"eva\" | fields u ] earliest=100 latest=200");
    assert_eq!(found.indexes, ["a"]);
    assert_eq!(found.range, TimeRange { earliest: Some(100_000_000_000), latest: Some(200_000_000_000) });
    assert!(found.condition.subsearches().is_empty() && format!("{:?}", found.condition).contains("eva"));
    let found = scan("x _index_earliest=100");
    assert_eq!(found.arrival, TimeRange { earliest: Some(100_000_000_000), latest: None });
}

#[test]
fn explaining_a_plan_runs_no_subsearch() {
    let text = "index=a [ search index=b | head 1 | fields u ] | append [ search index=c ]";
    let parsed = quarry_spl::parse(text);
    let explained = Explainer::new(false, Effects::default()).explain(&runner(text), &parsed.pipeline, text).unwrap();
    let indexes = |plan: &crate::ExplainedPlan| plan.events.as_ref().unwrap().indexes.join(",");
    assert_eq!(indexes(&explained), "a");
    assert_eq!(explained.subsearches.iter().map(indexes).collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn names_of_partial_states_cover_all_their_inputs() {
    let name = |text: &str| name::partial_name(&plan(text), "fold", &TimeZone::UTC);
    let named = name("a | where b>1 | stats count by c").unwrap();
    assert_eq!(name("a | where b>1 | stats count by c | sort c | head 5").unwrap(), named);
    for other in [
        "x | where b>1 | stats count by c",
        "a | where b>2 | stats count by c",
        "a | where b>1 | stats count by d",
        "a | where b>1 | stats sum(c) by c",
        "index=z a | where b>1 | stats count by c",
    ] {
        assert_ne!(name(other).unwrap(), named, "{other}");
    }
    for unnamed in [
        "a | head 5",
        "a | eval b=now() | stats count by b",
        "a | lookup teams user | stats count by team",
        "a _index_earliest=1 | stats count",
        "| tstats count where index=a",
    ] {
        assert_eq!(name(unnamed), None, "{unnamed}");
    }
}

#[test]
fn fractions_of_seconds_before_1970_are_negative() {
    let plan = format!("{:?}", scan("search (earliest=\"1969-12-31T23:59:58.5Z\" a) OR (latest=1 b)").condition);
    assert!(plan.contains("\"-1.5\"") || plan.contains("-1500000000"), "{plan}");
}
