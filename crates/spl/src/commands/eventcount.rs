//! `eventcount`: counts the events of indexes; rewritten to `tstats count` or, with `report_size=t`, to `dbinspect` and
//! `stats`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::ast::{BinaryOp, DbInspectCommand, StatsFunction, TimeModifiers, TstatsCommand, TstatsSplit};
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("eventcount", &["index", "summarize", "report_size"]).ignoring(&[
    "list_vix",
    "list_federated_remote",
    "splunk_server",
    "splunk_server_group",
]);

const BYTES_PER_MB: u32 = 1 << 20;

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "eventcount [index=INDEX]... [summarize=]",
    summary: "Counts the events of indexes",
    group: Group::Searching,
    kind: Kind::Generating,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Vec<Command>> {
    let (mut indexes, mut summarizes, mut sizes) = (Vec::new(), true, false);
    loop {
        // Published searches write OR between indexes, as in a condition.
        parser.eat_keyword("or");
        let Some(option) = parser.option(OPTIONS)? else { break };
        match option.name.as_str() {
            "index" => indexes.push(option.value),
            "summarize" => summarizes = option.boolean()?,
            "report_size" => sizes = option.boolean()?,
            // There are no virtual indexes to list.
            _ => drop(option.boolean()?),
        }
    }
    if indexes.is_empty() {
        indexes.push("*".to_owned());
    }
    let make = parser.builder();
    let by: &[&str] = if summarizes { &[] } else { &["index"] };
    // As in Splunk, the time range of the search is ignored.
    if sizes {
        let bytes = make.binary(BinaryOp::Mul, make.field("size_bytes"), make.number(BYTES_PER_MB));
        let sums = [("eventCount", "count"), ("sizeOnDiskMB", "size_bytes")]
            .map(|(field, name)| make.aggregate(StatsFunction::Sum, field, name));
        return Ok(vec![
            DbInspectCommand { indexes, all_time: true, ..DbInspectCommand::default() }.into(),
            make.stats(sums.into(), by).into(),
            make.eval("size_bytes", make.call("round", [bytes])),
            make.table(&["count", "index", "size_bytes"]),
        ]);
    }
    let split = |field: &&str| TstatsSplit { field: (*field).to_owned(), span: None, place: make.span() };
    let tstats = TstatsCommand {
        aggregates: vec![make.count("count")],
        filter: make.equals_any("index", &indexes),
        time: TimeModifiers {
            earliest: Some(make.time("0")),
            latest: Some(make.time("9000000000")),
            ..TimeModifiers::default()
        },
        by: by.iter().map(split).collect(),
        ..TstatsCommand::empty()
    };
    let mut commands = vec![tstats.into()];
    if !summarizes {
        commands.push(make.table(&["count", "index"]));
    }
    Ok(commands)
}
