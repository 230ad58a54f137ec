//! A command that is rewritten to other commands yields the same nodes as these commands written out.

use super::*;
use crate::ast::{CollectCommand, ForeachCommand};

/// A command and the commands to which it expands.
const EXPANSIONS: &[(&str, &str)] = &[
    ("| contingency a b usetotal=f", "| chart limit=0 useother=f usenull=f count AS count OVER a BY b"),
    (
        "| contingency maxrows=2 maxcols=3 totalstr=all \"a b\" c",
        "| stats count AS __count BY \"a b\" c \
         | eventstats sum(__count) AS __v BY c | sort 0 -__v +c | streamstats dc(c) AS __rc \
         | eventstats sum(__count) AS __v BY \"a b\" | sort 0 -__v +\"a b\" | streamstats dc(\"a b\") AS __rr \
         | where __rc<=3 | where __rr<=2 \
         | chart limit=0 useother=f usenull=f sum(__count) AS count OVER \"a b\" BY c | fillnull \
         | rename \"a b\" AS __label | eval __label=\"=\".__label \
         | addtotals row=t col=t fieldname=all labelfield=__label label=\"=all\" \
         | eval __label=substr(__label, 2) | rename __label AS \"a b\"",
    ),
    (
        "| geostats latfield=y longfield=x maxzoomlevel=1 count AS n avg(b)",
        "| where isnum('y') AND isnum('x') \
         | eval geobin=mvappend(\
           \"bin_id_zl_0_y_\".tostring(floor(('y'+90)/22.5)).\"_x_\".tostring(floor(('x'+180)/45)), \
           \"bin_id_zl_1_y_\".tostring(floor(('y'+90)/11.25)).\"_x_\".tostring(floor(('x'+180)/22.5))) \
         | mvexpand geobin \
         | stats avg(y) AS latitude avg(x) AS longitude count AS n avg(b) BY geobin",
    ),
    (
        "| geostats maxzoomlevel=0 globallimit=3 count AS n BY \"p q\"",
        "| where isnum('lat') AND isnum('lon') \
         | eval geobin=mvappend(\
           \"bin_id_zl_0_y_\".tostring(floor(('lat'+90)/22.5)).\"_x_\".tostring(floor(('lon'+180)/45))) \
         | mvexpand geobin \
         | eventstats avg(lat) AS latitude avg(lon) AS longitude BY geobin \
         | eval geobin=geobin.\" \".'latitude'.\" \".'longitude' \
         | chart limit=3 count AS n OVER geobin BY \"p q\" \
         | eval latitude=mvindex(split(geobin, \" \"), 1) | eval longitude=mvindex(split(geobin, \" \"), 2) \
         | eval geobin=mvindex(split(geobin, \" \"), 0) | table geobin latitude longitude *",
    ),
    (
        "| eventcount index=\"a\" OR index=\"b\" summarize=f",
        "| tstats count AS count WHERE (index=\"a\" OR index=\"b\") earliest=0 latest=9000000000 BY index \
         | table count index",
    ),
    (
        "| eventcount index=\"a\" report_size=t",
        "| dbinspect alltime=t index=a | stats sum(eventCount) AS count sum(sizeOnDiskMB) AS size_bytes \
         | eval size_bytes=round(size_bytes*1048576) | table count index size_bytes",
    ),
    (
        "| mcollect index=m host=h d",
        "| eval _quarry_time=_time \
         | eval _metric=if(isnull(metric_name), null(), \"metric_name:\".metric_name), {_metric}=_value \
         | fields - metric_name | fields - _raw _metric _value | tojson output_field=_raw \
         | eval _time=_quarry_time | fields - _quarry_time | collect index=m host=h sourcetype=mcollect_stash",
    ),
];

/// Commands whose node contains a search, each with that search as text.
const SEARCHES: &[(&str, &str)] = &[
    (
        "| walklex type=term index=\"a\" prefix=Ab_",
        "search index=\"a\" | eval __word=null() | TERMS \
         | eval __word=mvdedup(mvmap(__word, lower(__word))) | stats count AS count BY index __word \
         | rename __word AS term | where like(lower(term), \"ab\\_%\") | table term count index",
    ),
    (
        "| typeahead prefix=\"source=b\" count=5 starttimeu=7",
        "| tstats count AS count WHERE index=\"*\" earliest=7 source=\"b*\" BY source \
         | eval content=\"source=\\\"\".replace('source', \"([\\\\\\\\\\\"])\", \"\\\\\\\\\\1\").\"\\\"\" \
         | eval operator=\"false\" | sort 5 -num(count) content | table content count operator",
    ),
    (
        "| typeahead prefix=\"a=B_\" count=5 starttimeu=7",
        "search index=\"*\" a=\"B_*\" earliest=7 | stats count AS count BY a | where like(lower(a), \"b\\_%\") \
         | eval content=\"a=\\\"\".replace('a', \"([\\\\\\\\\\\"])\", \"\\\\\\\\\\1\").\"\\\"\" \
         | eval operator=\"false\" | sort 5 -num(count) content | table content count operator",
    ),
    (
        "| typeahead prefix=ho index=\"i\" index=\"j\"",
        "search (index=\"i\" OR index=\"j\") \"ho*\" | CONTENT \
         | eval content=mvdedup(mvmap(content, lower(content))) | stats count AS count BY content \
         | append [ | tstats count AS count WHERE (index=\"i\" OR index=\"j\") host=\"*\" BY host \
         | eval content=\"host=\\\"\".replace('host', \"([\\\\\\\\\\\"])\", \"\\\\\\\\\\1\").\"\\\"\" ] \
         | eval operator=\"false\" | sort 50 -num(count) content | table content count operator",
    ),
];

#[test]
fn rewritten_commands_equal_their_expansions() {
    for (written, stands_for) in EXPANSIONS {
        let (written_nodes, nodes) = (commands(written), commands(stands_for));
        assert_eq!(written_nodes.len(), nodes.len(), "{written}");
        for (built, parsed) in written_nodes.into_iter().zip(nodes) {
            let built = match built {
                Command::Collect(collect) => Command::Collect(CollectCommand { name: "collect".to_owned(), ..collect }),
                other => other,
            };
            assert_eq!(without_spans(&built), without_spans(&parsed), "{written}");
        }
    }
}

#[test]
fn searches_of_rewritten_commands_equal_their_texts() {
    let text = |pipeline: &Pipeline| -> Vec<String> {
        let is_pattern = |stage: &&crate::ast::Stage| !matches!(stage.command, Command::Rex(_));
        pipeline.commands.iter().filter(is_pattern).map(|stage| without_spans(&stage.command)).collect()
    };
    for (written, search) in SEARCHES {
        // The patterns for words are generated from the breakers, so they are not compared.
        let terms = "rex \"(?<x>.)\" | eval __word=mvappend(__word, __part, __piece)";
        let search = search.replace("TERMS", terms).replace("CONTENT", "rex \"(?<x>.)\"");
        let parsed = parse(&search);
        assert!(parsed.is_ok(), "{search}: {:?}", parsed.diagnostics);
        assert_eq!(text(one(written).subsearches()[0]), text(&parsed.pipeline), "{written}");
    }
}

#[test]
fn generated_assignments_name_each_field() {
    let [_, Command::Foreach(foreach), ..] = &commands("| mcollect index=m split=t prefix_field=p d \"e'\"")[..] else {
        panic!("mcollect runs foreach");
    };
    let assigned = foreach.assignments_for("it's").unwrap();
    let written = commands(
        "| eval _metric=\"metric_name:\".p.\".\".\"FIELD\", \
         {_metric}=if(NOT in(\"FIELD\", \"d\", \"e'\") AND isnum(FIELD), FIELD, null()), \
         FIELD=if(NOT in(\"FIELD\", \"d\", \"e'\") AND isnum(FIELD), null(), FIELD)",
    );
    let assigned = without_spans(&assigned.into()).replace("it's", "FIELD");
    assert_eq!(assigned, without_spans(&written[0]));
    assert_eq!(foreach.field_text, ForeachCommand::FIELD);
}

fn commands(text: &str) -> Vec<Command> {
    let parsed = parse(text);
    assert!(parsed.is_ok(), "{text}: {:?}", parsed.diagnostics);
    parsed.pipeline.commands.into_iter().map(|stage| stage.command).collect()
}
