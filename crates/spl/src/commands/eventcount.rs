//! `eventcount`: rewritten to `tstats count`, or with sizes to `dbinspect` and `stats`.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{Known, Parser, Read, quote};

const OPTIONS: Known = Known {
    command: "eventcount",
    names: &["index", "summarize", "report_size"],
    ignored: &["list_vix", "list_federated_remote", "splunk_server", "splunk_server_group"],
};

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["eventcount"],
    syntax: "eventcount [index=INDEX]... [summarize=]",
    summary: "Counts the events of indexes",
    group: Group::Searching,
    kind: Kind::Generating,
    ..CommandInfo::DEFAULT
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Vec<Command>> {
    let (mut indexes, mut summarizes, mut sizes) = (Vec::new(), true, false);
    loop {
        // Published searches write OR between indexes, like a condition.
        parser.eat_keyword("or");
        let Some(option) = parser.option(OPTIONS)? else { break };
        match option.name.as_str() {
            "index" => indexes.push(format!("index={}", quote(&option.value))),
            "summarize" => summarizes = option.boolean()?,
            "report_size" => sizes = option.boolean()?,
            // There are no virtual indexes to list.
            _ => drop(option.boolean()?),
        }
    }
    if indexes.is_empty() {
        indexes.push("index=*".to_owned());
    }
    let by = if summarizes { "" } else { "BY index | table count index" };
    // As in Splunk, the time range of the search is ignored.
    if sizes {
        let by = if summarizes { "" } else { "BY index" };
        return parser.standing_for(&format!(
            "| dbinspect alltime=t {} | stats sum(eventCount) AS count sum(sizeOnDiskMB) AS size_bytes {by} \
             | eval size_bytes=round(size_bytes*1048576) | table count index size_bytes",
            indexes.join(" ")
        ));
    }
    let filter = indexes.join(" OR ");
    parser.standing_for(&format!("| tstats count WHERE ({filter}) earliest=0 latest=9000000000 {by}"))
}
