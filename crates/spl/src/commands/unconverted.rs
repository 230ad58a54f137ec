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

    /// The row of a command that is described on the page of another.
    const fn on_page(self, page: &'static str) -> Row {
        Row { page, ..self }
    }
}

/// One row of the table.
const fn row(group: Group, name: &'static str, syntax: &'static str, summary: &'static str) -> Row {
    Row { name, syntax, summary, capability: None, group, page: name }
}

/// Help rows, aliases included.
pub(super) const ROWS: &[Row] = &[
    row(Group::Nothing, "abstract", "abstract [maxlines=N] [maxterms=N]", "changes nothing; says so").on_page("noop"),
    row(
        Group::Reporting,
        "addcoltotals",
        "addcoltotals [labelfield=FIELD] [label=TEXT] [FIELD...]",
        "sums of columns as a last row",
    )
    .on_page("addtotals"),
    row(Group::Fields, "addinfo", "addinfo", "the range and the name of the search in every row"),
    row(
        Group::Reporting,
        "addtotals",
        "addtotals [row=] [col=] [fieldname=] [labelfield=] [label=] [FIELD...]",
        "sums of rows, and of columns",
    ),
    row(
        Group::Rows,
        "appendcols",
        "appendcols [override=] [maxout=N] [ SEARCH ]",
        "puts the fields of another search beside",
    ),
    row(Group::Rows, "appendpipe", "appendpipe [ COMMANDS ]", "adds what commands make of the rows"),
    row(Group::Fields, "ar", "ar FIELD [AS NEW] [p=N|N-M]", "same as autoregress").on_page("autoregress"),
    row(Group::Fields, "autoregress", "autoregress FIELD [AS NEW] [p=N|N-M]", "values of rows before"),
    row(
        Group::Reporting,
        "chart",
        "chart AGG... [OVER ROW] [BY ROW [COLUMN]] [limit=] [useother=] [where ...]",
        "a table of aggregates",
    ),
    row(
        Group::Fields,
        "convert",
        "convert [timeformat=] FUNCTION(FIELD) [AS NEW]...",
        "turns values into another notation",
    ),
    row(
        Group::Searching,
        "datamodel",
        "datamodel [MODEL [OBJECT] [search|flat]] [strict_fields=]",
        "the events of a data model",
    ),
    row(Group::Fields, "delta", "delta FIELD [AS NEW] [p=N]", "the difference to a row before"),
    row(Group::Nothing, "excerpt", "excerpt [maxlines=N] [maxterms=N]", "changes nothing; says so").on_page("noop"),
    row(Group::Fields, "fieldformat", "fieldformat FIELD=EXPR", "shows a field otherwise than it is"),
    row(Group::Reporting, "fieldsummary", "fieldsummary [maxvals=N] [FIELD...]", "what values fields have"),
    row(Group::Fields, "filldown", "filldown [FIELD...]", "writes the value of the row before where none is"),
    row(Group::Rows, "format", "format [mvsep=] [maxresults=] [emptystr=] [SIX TEXTS]", "rows as one condition"),
    row(
        Group::Searching,
        "from",
        "from datamodel:MODEL.OBJECT | lookup:NAME | savedsearch:NAME",
        "reads what has a name",
    ),
    row(Group::Reporting, "gauge", "gauge VALUE [BOUND...]", "the table that a gauge shows"),
    row(
        Group::Making,
        "gentimes",
        "gentimes start=TIME [end=TIME] [increment=N(s|m|h|d)]",
        "a row for each step of a range of time",
    ),
    row(Group::Nothing, "geom", "geom [COLLECTION] [featureIdField=FIELD]", "changes nothing; says so").on_page("noop"),
    row(Group::Nothing, "highlight", "highlight TEXT...", "changes nothing").on_page("noop"),
    row(Group::Nothing, "iconify", "iconify FIELD...", "changes nothing").on_page("noop"),
    row(Group::Nothing, "localop", "localop", "changes nothing").on_page("noop"),
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
    row(
        Group::Rows,
        "multireport",
        "multireport [ COMMANDS ] [ COMMANDS ]...",
        "what several commands make of the same rows",
    ),
    row(
        Group::Searching,
        "multisearch",
        "multisearch [ SEARCH ] [ SEARCH ]...",
        "events of several searches, newest first",
    ),
    row(Group::Fields, "mvcombine", "mvcombine [delim=TEXT] FIELD", "one row of rows that differ in one field"),
    row(Group::Fields, "nomv", "nomv FIELD", "joins the values of a field into one text"),
    row(Group::Nothing, "noop", "noop", "changes nothing"),
    row(
        Group::Fields,
        "rangemap",
        "rangemap field=FIELD [NAME=START-END]... [default=TEXT]",
        "names the ranges of a number",
    ),
    row(Group::Nothing, "redistribute", "redistribute", "changes nothing").on_page("noop"),
    row(Group::Fields, "replace", "replace OLD WITH NEW [, ...] [IN FIELD...]", "replaces whole values"),
    row(
        Group::Rows,
        "return",
        "return [N] FIELD... | NAME=FIELD... | $FIELD...",
        "fields of the first rows as one condition",
    ),
    row(Group::Nothing, "rtorder", "rtorder", "changes nothing; says so").on_page("noop"),
    row(Group::Searching, "savedsearch", "savedsearch NAME [TOKEN=VALUE...]", "runs a saved search"),
    row(Group::Nothing, "sendemail", "sendemail to=ADDRESS [OPTIONS]", "changes nothing; says so").on_page("noop"),
    row(Group::Rows, "set", "set (union|diff|intersect) [ SEARCH ] [ SEARCH ]", "compares rows of two searches"),
    row(Group::Fields, "setfields", "setfields FIELD=TEXT [, ...]", "the same text in every row"),
    row(Group::Fields, "strcat", "strcat [allrequired=] SOURCE... TARGET", "joins values and texts"),
    row(
        Group::Fields,
        "tags",
        "tags [outputfield=FIELD] [inclname=] [inclvalue=] [FIELD...]",
        "the tags of events in a field",
    ),
    row(
        Group::Reporting,
        "timechart",
        "timechart [span=] [limit=] [useother=] AGG... [BY FIELD] [where ...]",
        "aggregates over time",
    ),
    row(
        Group::Reporting,
        "transpose",
        "transpose [N] [column_name=] [header_field=] [include_empty=]",
        "turns rows into columns",
    ),
    row(Group::Reporting, "trendline", "trendline (sma|ema|wma)N(FIELD) [AS NEW]...", "moving averages"),
    row(
        Group::Searching,
        "tstats",
        "tstats AGG... [from datamodel=MODEL.OBJECT] [where EXPR] [by FIELD... [_time span=]] [prestats=] [append=]",
        "aggregates index-time fields or a data model",
    ),
    row(
        Group::Searching,
        "typeahead",
        "typeahead prefix=TEXT [count=N] [index=INDEX]...",
        "words and values that begin with a text",
    )
    .takes("get_typeahead"),
    row(Group::Fields, "typer", "typer", "event types are there already").on_page("tags"),
    row(Group::Rows, "union", "union [maxout=N] [ SEARCH ]...", "rows of several searches"),
    row(Group::Searching, "uniq", "uniq", "drops rows like the one before"),
    row(Group::Reporting, "untable", "untable ROWS NAMES VALUES", "a list of a table"),
    row(
        Group::Searching,
        "walklex",
        "walklex [type=field|fieldvalue|term|all] [prefix=TEXT|pattern=TEXT] index=INDEX...",
        "the words and indexed fields of an index",
    )
    .takes("run_walklex"),
    row(
        Group::Reporting,
        "xyseries",
        "xyseries [grouped=] ROWS COLUMNS CELLS... [sep=] [format=]",
        "a table of a list",
    ),
];
