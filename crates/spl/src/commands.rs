//! Help rows of every command: what completions and the help page show, and the names the parser suggests.
//!
//! The grammar itself lives in the parser; this table only describes it.

/// One command as help shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandHelp {
    /// Name in lower case.
    pub name: &'static str,
    /// How it is written.
    pub syntax: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

/// One row of the table.
const fn row(name: &'static str, syntax: &'static str, summary: &'static str) -> CommandHelp {
    CommandHelp { name, syntax, summary }
}

/// Commands that run, by name, aliases included.
pub static HELP: &[CommandHelp] = &[
    row("append", "append [maxout=N] [maxtime=S] [ SEARCH ]", "adds the rows of another search at the end"),
    row(
        "bin",
        "bin FIELD [AS NEW] [span=|bins=|minspan=|start=|end=|aligntime=]",
        "puts numbers or times into buckets",
    ),
    row("bucket", "bucket FIELD [span=]", "same as bin"),
    row("chart", "chart AGG... [OVER ROW] [BY ROW [COLUMN]] [limit=] [useother=] [where ...]", "a table of aggregates"),
    row("dedup", "dedup [N] FIELD... [keepevents=] [keepempty=] [consecutive=] [sortby KEY...]", "drops repeated rows"),
    row("discretize", "discretize FIELD [span=]", "same as bin"),
    row("eval", "eval FIELD=EXPR [, FIELD=EXPR]...", "computes fields"),
    row("eventstats", "eventstats AGG... [BY FIELD...]", "adds aggregates to every row"),
    row("fields", "fields [+|-] FIELD...", "keeps or removes fields"),
    row("fillnull", "fillnull [value=TEXT] [FIELD...]", "writes a value where none is"),
    row("head", "head [N] [(CONDITION)] [null=] [keeplast=]", "keeps the first rows"),
    row("inputlookup", "inputlookup [append=] [start=] [max=] TABLE [where EXPR]", "reads a lookup table"),
    row("join", "join [type=inner|left] [max=N] FIELD... [ SEARCH ]", "joins rows with those of another search"),
    row(
        "lookup",
        "lookup TABLE COLUMN [AS FIELD]... [OUTPUT|OUTPUTNEW COLUMN [AS FIELD]...]",
        "adds fields of a table",
    ),
    row("makemv", "makemv [delim=TEXT|tokenizer=REGEX] [allowempty=] [setsv=] FIELD", "splits a field into values"),
    row("makeresults", "makeresults [count=N] [annotate=] [format=csv|json data=TEXT]", "makes rows"),
    row("mvexpand", "mvexpand FIELD [limit=N]", "one row for each value of a field"),
    row("rare", "rare [N] FIELD... [BY FIELD...]", "the rarest values"),
    row("regex", "regex [FIELD=|FIELD!=]\"REGEX\"", "keeps rows that match"),
    row("rename", "rename FIELD AS NEW [, FIELD AS NEW]...", "renames fields"),
    row("reverse", "reverse", "turns the order of rows around"),
    row(
        "rex",
        "rex [field=FIELD] [max_match=N] [offset_field=] \"REGEX\" | rex mode=sed \"s/A/B/g\"",
        "extracts fields",
    ),
    row("search", "search EXPR", "keeps events or rows that match"),
    row("sort", "sort [N] [+|-]FIELD... [desc]", "orders rows"),
    row("spath", "spath [input=FIELD] [output=FIELD] [path=PATH]", "extracts fields from JSON or XML"),
    row("stats", "stats AGG... [BY FIELD...]", "aggregates rows"),
    row(
        "streamstats",
        "streamstats [window=N] [current=] [reset_on_change=] AGG... [BY FIELD...]",
        "running aggregates",
    ),
    row("table", "table FIELD...", "keeps these fields in this order"),
    row("tail", "tail [N]", "keeps the last rows, last first"),
    row("timechart", "timechart [span=] [limit=] [useother=] AGG... [BY FIELD] [where ...]", "aggregates over time"),
    row("top", "top [N] FIELD... [BY FIELD...] [showperc=] [countfield=] [useother=]", "the most frequent values"),
    row("where", "where EXPR", "keeps rows for which an expression is true"),
];

/// Commands of the language that do not run yet; named so that the message can say so.
pub(crate) const NOT_YET: &[&str] = &[
    "abstract",
    "accum",
    "addcoltotals",
    "addinfo",
    "addtotals",
    "analyzefields",
    "anomalies",
    "anomalousvalue",
    "anomalydetection",
    "appendcols",
    "appendpipe",
    "arules",
    "associate",
    "autoregress",
    "cluster",
    "cofilter",
    "collect",
    "concurrency",
    "contingency",
    "convert",
    "correlate",
    "datamodel",
    "dbinspect",
    "delete",
    "delta",
    "diff",
    "erex",
    "eventcount",
    "extract",
    "fieldformat",
    "fieldsummary",
    "filldown",
    "findtypes",
    "folderize",
    "foreach",
    "format",
    "from",
    "gauge",
    "gentimes",
    "geom",
    "geomfilter",
    "geostats",
    "highlight",
    "history",
    "iconify",
    "inputcsv",
    "iplocation",
    "kmeans",
    "kv",
    "loadjob",
    "localize",
    "localop",
    "makecontinuous",
    "makejson",
    "map",
    "mcatalog",
    "mcollect",
    "meventcollect",
    "metadata",
    "metasearch",
    "mpreview",
    "mstats",
    "multikv",
    "multisearch",
    "mvcombine",
    "nomv",
    "noop",
    "outlier",
    "outputcsv",
    "outputlookup",
    "outputtext",
    "overlap",
    "pivot",
    "predict",
    "rangemap",
    "redistribute",
    "reltime",
    "replace",
    "require",
    "rest",
    "return",
    "rtorder",
    "savedsearch",
    "script",
    "scrub",
    "searchtxn",
    "selfjoin",
    "sendalert",
    "sendemail",
    "set",
    "setfields",
    "sichart",
    "sirare",
    "sistats",
    "sitimechart",
    "sitop",
    "strcat",
    "tags",
    "timewrap",
    "tojson",
    "transaction",
    "transpose",
    "trendline",
    "tscollect",
    "tstats",
    "typeahead",
    "typelearner",
    "typer",
    "union",
    "uniq",
    "untable",
    "walklex",
    "x11",
    "xmlkv",
    "xmlunescape",
    "xpath",
    "xyseries",
];

/// Whether a command of this lower-case name runs.
pub fn is_command(name: &str) -> bool {
    HELP.binary_search_by_key(&name, |command| command.name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_disjoint() {
        assert!(HELP.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(NOT_YET.iter().all(|name| !is_command(name)));
    }
}
