//! Descriptions of the commands that have no file of their own yet.

use super::info::Group;

/// One row of [`ROWS`].
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) syntax: &'static str,
    pub(super) summary: &'static str,
    pub(super) capability: Option<&'static str>,
    pub(super) group: Group,
    pub(super) page: &'static str,
}

impl Row {
    /// The row of a command that not everybody may run.
    const fn takes(self, capability: &'static str) -> Row {
        Row { capability: Some(capability), ..self }
    }
}

/// One row of the table.
const fn row(group: Group, name: &'static str, syntax: &'static str, summary: &'static str) -> Row {
    Row { name, syntax, summary, capability: None, group, page: name }
}

/// Help rows, aliases included.
pub(super) const ROWS: &[Row] = &[
    row(
        Group::Reporting,
        "chart",
        "chart AGG... [OVER ROW] [BY ROW [COLUMN]] [limit=] [useother=] [where ...]",
        "a table of aggregates",
    ),
    row(
        Group::Searching,
        "datamodel",
        "datamodel [MODEL [OBJECT] [search|flat]] [strict_fields=]",
        "the events of a data model",
    ),
    row(
        Group::Searching,
        "from",
        "from datamodel:MODEL.OBJECT | lookup:NAME | savedsearch:NAME",
        "reads what has a name",
    ),
    row(
        Group::Searching,
        "metadata",
        "metadata type=hosts|sources|sourcetypes [index=]",
        "which hosts, sources or sourcetypes there are",
    )
    .takes("get_metadata"),
    row(
        Group::Searching,
        "mstats",
        "mstats AGG(_value|METRIC)... [where EXPR] [by FIELD...] [span=]",
        "aggregates metrics",
    ),
    row(Group::Searching, "savedsearch", "savedsearch NAME [TOKEN=VALUE...]", "runs a saved search"),
    row(
        Group::Reporting,
        "timechart",
        "timechart [span=] [limit=] [useother=] AGG... [BY FIELD] [where ...]",
        "aggregates over time",
    ),
    row(
        Group::Searching,
        "tstats",
        "tstats AGG... [from datamodel=MODEL.OBJECT] [where EXPR] [by FIELD... [_time span=]] [prestats=] [append=]",
        "aggregates index-time fields or a data model",
    ),
];
