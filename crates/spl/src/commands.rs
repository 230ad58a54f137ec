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
    /// Capability that it takes beside that of searching, by Splunk's name.
    pub capability: Option<&'static str>,
}

/// What commands of apps take.
pub const CUSTOM_CAPABILITY: &str = "run_custom_command";
/// What reading a file of the node takes.
const READS_FILES: &str = "input_file";
/// What writing a file of the node takes.
const WRITES_FILES: &str = "output_file";

impl CommandHelp {
    /// The row of a command that not everybody may run.
    const fn takes(self, capability: &'static str) -> CommandHelp {
        CommandHelp { capability: Some(capability), ..self }
    }
}

/// One row of the table.
const fn row(name: &'static str, syntax: &'static str, summary: &'static str) -> CommandHelp {
    CommandHelp { name, syntax, summary, capability: None }
}

/// Commands that run, by name, aliases included.
pub static HELP: &[CommandHelp] = &[
    row("abstract", "abstract [maxlines=N] [maxterms=N]", "changes nothing; says so"),
    row("accum", "accum FIELD [AS NEW]", "a running sum"),
    row("addcoltotals", "addcoltotals [labelfield=FIELD] [label=TEXT] [FIELD...]", "sums of columns as a last row"),
    row("addinfo", "addinfo", "the range and the name of the search in every row"),
    row(
        "addtotals",
        "addtotals [row=] [col=] [fieldname=] [labelfield=] [label=] [FIELD...]",
        "sums of rows, and of columns",
    ),
    row("af", "af classfield=FIELD", "same as analyzefields"),
    row("analyzefields", "analyzefields classfield=FIELD", "how well fields of numbers tell the value of another"),
    row(
        "anomalies",
        "anomalies [threshold=N] [field=FIELD] [maxvalues=N] [labelonly=] [by FIELD...]",
        "how unexpected each row is after those before it",
    ),
    row(
        "anomalousvalue",
        "anomalousvalue [action=filter|annotate|summary] [pthresh=N] [FIELD...]",
        "values that are rare or far off",
    ),
    row(
        "anomalydetection",
        "anomalydetection [method=histogram|zscore|iqr] [action=] [pthresh=N] [FIELD...]",
        "rows that are improbable",
    ),
    row("append", "append [maxout=N] [maxtime=S] [ SEARCH ]", "adds the rows of another search at the end"),
    row("appendcols", "appendcols [override=] [maxout=N] [ SEARCH ]", "puts the fields of another search beside"),
    row("appendpipe", "appendpipe [ COMMANDS ]", "adds what commands make of the rows"),
    row("apply", "apply [app:]MODEL [as NEW] [OPTION=VALUE]...", "what a model that was learnt says of rows"),
    row("ar", "ar FIELD [AS NEW] [p=N|N-M]", "same as autoregress"),
    row("arules", "arules [sup=N] [conf=N] FIELD FIELD...", "which values imply others"),
    row(
        "associate",
        "associate [supcnt=N] [supfreq=N] [improv=N] [FIELD...]",
        "values that foretell values of other fields",
    ),
    row("autoregress", "autoregress FIELD [AS NEW] [p=N|N-M]", "values of rows before"),
    row(
        "bin",
        "bin FIELD [AS NEW] [span=|bins=|minspan=|start=|end=|aligntime=]",
        "puts numbers or times into buckets",
    ),
    row("bucket", "bucket FIELD [span=]", "same as bin"),
    row(
        "bucketdir",
        "bucketdir pathfield=FIELD sizefield=FIELD [maxcount=N] [countfield=FIELD] [sep=C]",
        "folds paths into folders",
    ),
    row("chart", "chart AGG... [OVER ROW] [BY ROW [COLUMN]] [limit=] [useother=] [where ...]", "a table of aggregates"),
    row(
        "cluster",
        "cluster [t=N] [showcount=] [field=] [labelonly=] [match=termlist|termset|ngramset]",
        "groups texts that are alike",
    ),
    row("cofilter", "cofilter USER ITEM", "how many users have both of two items"),
    row(
        "collect",
        "collect index=INDEX [source=] [sourcetype=] [marker=] [testmode=]",
        "adds rows to an index as events",
    )
    .takes("run_collect"),
    row(
        "concurrency",
        "concurrency duration=FIELD [start=FIELD] [output=FIELD]",
        "how many rows were at work when each began",
    ),
    row(
        "contingency",
        "contingency ROWS COLUMNS [usetotal=] [totalstr=] [maxrows=] [maxcols=]",
        "a table of how often values meet",
    ),
    row("convert", "convert [timeformat=] FUNCTION(FIELD) [AS NEW]...", "turns values into another notation"),
    row("correlate", "correlate", "how often fields occur together"),
    row("counttable", "counttable ROWS COLUMNS", "same as contingency"),
    row("ctable", "ctable ROWS COLUMNS", "same as contingency"),
    row("datamodel", "datamodel [MODEL [OBJECT] [search|flat]] [strict_fields=]", "the events of a data model"),
    row("dbinspect", "dbinspect [index=INDEX]... [timeformat=FORMAT]", "the buckets of indexes"),
    row("dedup", "dedup [N] FIELD... [keepevents=] [keepempty=] [consecutive=] [sortby KEY...]", "drops repeated rows"),
    row("delete", "SEARCH | delete", "takes the events of a search out of every later one, for good")
        .takes("delete_by_keyword"),
    row("deletemodel", "deletemodel [app:]MODEL", "removes a model").takes(WRITES_FILES),
    row("delta", "delta FIELD [AS NEW] [p=N]", "the difference to a row before"),
    row(
        "diff",
        "diff [position1=N] [position2=N] [attribute=FIELD] [diffheader=] [context=] [maxlen=]",
        "lines in which two rows differ",
    ),
    row("discretize", "discretize FIELD [span=]", "same as bin"),
    row(
        "erex",
        "erex FIELD examples=\"A, B\" [counterexamples=TEXT] [fromfield=FIELD]",
        "a field learnt from examples",
    ),
    row("eval", "eval FIELD=EXPR [, FIELD=EXPR]...", "computes fields"),
    row("eventcount", "eventcount [index=INDEX]... [summarize=]", "how many events indexes have"),
    row("eventstats", "eventstats AGG... [BY FIELD...]", "adds aggregates to every row"),
    row("excerpt", "excerpt [maxlines=N] [maxterms=N]", "changes nothing; says so"),
    row(
        "extract",
        "extract [pairdelim=TEXT kvdelim=TEXT] [limit=N] [maxchars=N] [clean_keys=] [mv_add=]",
        "fields of pairs in the text",
    ),
    row("fieldformat", "fieldformat FIELD=EXPR", "shows a field otherwise than it is"),
    row("fields", "fields [+|-] FIELD...", "keeps or removes fields"),
    row("fieldsummary", "fieldsummary [maxvals=N] [FIELD...]", "what values fields have"),
    row("filldown", "filldown [FIELD...]", "writes the value of the row before where none is"),
    row("fillnull", "fillnull [value=TEXT] [FIELD...]", "writes a value where none is"),
    row(
        "fit",
        "fit ALGORITHM [TARGET from] FIELD... [by FIELD...] [into [app:]MODEL] [as NEW] [OPTION=VALUE]...",
        "learns a model of rows and applies it to them",
    )
    .takes(WRITES_FILES),
    row(
        "folderize",
        "folderize attr=FIELD [sep=TEXT] [size=FIELD] [minfolders=N] [maxfolders=N]",
        "folds values into their folders",
    ),
    row(
        "foreach",
        "foreach FIELD... [mode=multivalue|json_array] [ COMMANDS with <<FIELD>> ]",
        "the same commands for several fields",
    ),
    row("format", "format [mvsep=] [maxresults=] [emptystr=] [SIX TEXTS]", "rows as one condition"),
    row("from", "from datamodel:MODEL.OBJECT | lookup:NAME | savedsearch:NAME", "reads what has a name"),
    row("fromjson", "fromjson FIELD [prefix=]", "the members of a JSON object as fields"),
    row("gauge", "gauge VALUE [BOUND...]", "the table that a gauge shows"),
    row("gentimes", "gentimes start=TIME [end=TIME] [increment=N(s|m|h|d)]", "a row for each step of a range of time"),
    row("geom", "geom [COLLECTION] [featureIdField=FIELD]", "changes nothing; says so"),
    row(
        "geostats",
        "geostats [latfield=] [longfield=] [globallimit=N] AGG... [BY FIELD]",
        "aggregates by place, for every zoom of a map",
    ),
    row("head", "head [N] [(CONDITION)] [null=] [keeplast=]", "keeps the first rows"),
    row("highlight", "highlight TEXT...", "changes nothing"),
    row("history", "history", "searches that ran before"),
    row("iconify", "iconify FIELD...", "changes nothing"),
    row("inputcsv", "inputcsv [append=] [start=] [max=] NAME [where EXPR]", "reads what outputcsv wrote")
        .takes(READS_FILES),
    row("inputlookup", "inputlookup [append=] [start=] [max=] TABLE [where EXPR]", "reads a lookup table")
        .takes(READS_FILES),
    row("iplocation", "iplocation [prefix=] [allfields=] FIELD", "where an address is"),
    row("join", "join [type=inner|left] [max=N] FIELD... [ SEARCH ]", "joins rows with those of another search"),
    row(
        "kmeans",
        "kmeans [k=N] [reps=N] [maxiters=N] [dt=] [cfield=FIELD] [FIELD...]",
        "groups of rows whose numbers are near",
    ),
    row("kv", "kv [pairdelim=TEXT kvdelim=TEXT]", "same as extract"),
    row("listmodels", "listmodels", "the models there are"),
    row("loadjob", "loadjob SID | savedsearch=\"USER:APP:NAME\"", "the result of a job"),
    row("localize", "localize [maxpause=] [timebefore=] [timeafter=]", "times in which rows lie close together"),
    row("localop", "localop", "changes nothing"),
    row(
        "lookup",
        "lookup TABLE COLUMN [AS FIELD]... [OUTPUT|OUTPUTNEW COLUMN [AS FIELD]...]",
        "adds fields of a table",
    ),
    row("makecontinuous", "makecontinuous [FIELD] [span=|bins=] [start=] [end=]", "adds rows where a field has gaps"),
    row("makejson", "makejson FIELD... output=FIELD", "fields as a JSON object in a field"),
    row("makemv", "makemv [delim=TEXT|tokenizer=REGEX] [allowempty=] [setsv=] FIELD", "splits a field into values"),
    row("makeresults", "makeresults [count=N] [annotate=] [format=csv|json data=TEXT]", "makes rows"),
    row("map", "map search=\"SEARCH with $field$\" [maxsearches=N]", "a search for each row"),
    row("mcatalog", "mcatalog values(FIELD) [where EXPR] [by FIELD...]", "which metrics and dimensions there are"),
    row("mcollect", "mcollect index=INDEX [split=] [DIMENSION...]", "adds rows to an index as measurements")
        .takes("run_mcollect"),
    row(
        "metadata",
        "metadata type=hosts|sources|sourcetypes [index=]",
        "which hosts, sources or sourcetypes there are",
    )
    .takes("get_metadata"),
    row("metasearch", "metasearch EXPR", "host, index, source, sourcetype and node of events"),
    row(
        "meventcollect",
        "meventcollect index=INDEX [split=] [DIMENSION...]",
        "adds events to an index as measurements",
    )
    .takes("run_mcollect"),
    row("mstats", "mstats AGG(_value|METRIC)... [where EXPR] [by FIELD...] [span=]", "aggregates metrics"),
    row(
        "multikv",
        "multikv [conf=STANZA] [fields NAME...] [filter TEXT...] [forceheader=N] [noheader=] [multitable=] [rmorig=] [copyattrs=]",
        "a row for each row of a table in the text",
    ),
    row("multireport", "multireport [ COMMANDS ] [ COMMANDS ]...", "what several commands make of the same rows"),
    row("multisearch", "multisearch [ SEARCH ] [ SEARCH ]...", "events of several searches, newest first"),
    row("mvcombine", "mvcombine [delim=TEXT] FIELD", "one row of rows that differ in one field"),
    row("mvexpand", "mvexpand FIELD [limit=N]", "one row for each value of a field"),
    row("nomv", "nomv FIELD", "joins the values of a field into one text"),
    row("noop", "noop", "changes nothing"),
    row(
        "outlier",
        "outlier [action=rm|tf] [param=N] [uselower=] [mark=] [FIELD...]",
        "drops or cuts off numbers far from the others",
    ),
    row(
        "outputcsv",
        "outputcsv [append=] [create_empty=] [override_if_empty=] [csv_safe=] [NAME]",
        "writes rows to a file of results",
    )
    .takes(WRITES_FILES),
    row(
        "outputlookup",
        "outputlookup [append=] [key_field=] [override_if_empty=] [csv_safe=] TABLE",
        "writes a lookup table",
    )
    .takes(WRITES_FILES),
    row("outputtext", "outputtext", "copies the text to _xml"),
    row(
        "pivot",
        "pivot MODEL OBJECT AGG(FIELD) [AS NAME]... [SPLITROW FIELD]... [SPLITCOL FIELD] [FILTER FIELD is VALUE]...",
        "a report over a data model",
    ),
    row(
        "predict",
        "predict FIELD [AS NAME]... [algorithm=LL|LLT|LLP|LLP5] [future_timespan=N] [period=N]",
        "what a series will be",
    ),
    row("rangemap", "rangemap field=FIELD [NAME=START-END]... [default=TEXT]", "names the ranges of a number"),
    row("rare", "rare [N] FIELD... [BY FIELD...]", "the rarest values"),
    row("redistribute", "redistribute", "changes nothing"),
    row("regex", "regex [FIELD=|FIELD!=]\"REGEX\"", "keeps rows that match"),
    row("relevancy", "relevancy", "how much of a text is what the search asks for"),
    row("reltime", "reltime [timefield=FIELD] [prefix=TEXT]", "how long ago a time is"),
    row("rename", "rename FIELD AS NEW [, FIELD AS NEW]...", "renames fields"),
    row("replace", "replace OLD WITH NEW [, ...] [IN FIELD...]", "replaces whole values"),
    row("require", "require", "fails when there are no rows"),
    row("rest", "rest PATH [count=N] [search=TEXT] [f=FIELD]", "what an endpoint of this node answers"),
    row("return", "return [N] FIELD... | NAME=FIELD... | $FIELD...", "fields of the first rows as one condition"),
    row("reverse", "reverse", "turns the order of rows around"),
    row(
        "rex",
        "rex [field=FIELD] [max_match=N] [offset_field=] \"REGEX\" | rex mode=sed \"s/A/B/g\"",
        "extracts fields",
    ),
    row("rtorder", "rtorder", "changes nothing; says so"),
    row("run", "run [python|perl] NAME [ARGUMENT...]", "passes rows through a program of an app")
        .takes(CUSTOM_CAPABILITY),
    row("savedsearch", "savedsearch NAME [TOKEN=VALUE...]", "runs a saved search"),
    row("score", "score METHOD FIELD... against FIELD... [OPTION=VALUE]...", "how well what was foretold fits what is"),
    row("script", "script [python|perl] NAME [ARGUMENT...]", "passes rows through a program of an app")
        .takes(CUSTOM_CAPABILITY),
    row("search", "search EXPR", "keeps events or rows that match"),
    row(
        "searchtxn",
        "searchtxn TYPE [max_terms=N] [use_disjunct=] [eventsonly=] SEARCH",
        "transactions of a type that hold what is searched for",
    ),
    row(
        "selfjoin",
        "selfjoin [overwrite=] [max=N] [keepsingle=] FIELD...",
        "joins rows with others of the same result",
    ),
    row(
        "sendalert",
        "sendalert ACTION [results_link=] [param.NAME=VALUE]...",
        "gives the rows to an alert action of an app",
    )
    .takes("run_sendalert"),
    row("sendemail", "sendemail to=ADDRESS [OPTIONS]", "changes nothing; says so"),
    row("set", "set (union|diff|intersect) [ SEARCH ] [ SEARCH ]", "compares rows of two searches"),
    row("setfields", "setfields FIELD=TEXT [, ...]", "the same text in every row"),
    row("sichart", "sichart AGG... [OVER ROW] [BY ROW [COLUMN]]", "rows for a summary that chart reads"),
    row("sirare", "sirare FIELD... [BY FIELD...]", "rows for a summary that rare reads"),
    row("sistats", "sistats AGG... [BY FIELD...]", "rows for a summary that stats reads"),
    row("sitimechart", "sitimechart [span=] AGG... [BY FIELD]", "rows for a summary that timechart reads"),
    row("sitop", "sitop [N] FIELD... [BY FIELD...]", "rows for a summary that top reads"),
    row("sort", "sort [N] [+|-]FIELD... [desc]", "orders rows"),
    row("spath", "spath [input=FIELD] [output=FIELD] [path=PATH]", "extracts fields from JSON or XML"),
    row("stats", "stats AGG... [BY FIELD...]", "aggregates rows"),
    row("strcat", "strcat [allrequired=] SOURCE... TARGET", "joins values and texts"),
    row(
        "streamstats",
        "streamstats [window=N] [current=] [reset_on_change=] AGG... [BY FIELD...]",
        "running aggregates",
    ),
    row("sumindex", "sumindex index=INDEX [OPTIONS]", "same as collect"),
    row("summary", "summary [app:]MODEL", "what a model holds"),
    row("summaryindex", "summaryindex index=INDEX [OPTIONS]", "same as collect"),
    row("table", "table FIELD...", "keeps these fields in this order"),
    row("tags", "tags [outputfield=FIELD] [inclname=] [inclvalue=] [FIELD...]", "the tags of events in a field"),
    row("tail", "tail [N]", "keeps the last rows, last first"),
    row("timechart", "timechart [span=] [limit=] [useother=] AGG... [BY FIELD] [where ...]", "aggregates over time"),
    row(
        "timewrap",
        "timewrap SPAN [series=relative|short|exact] [time_format=] [align=end|now]",
        "a series of timechart for each period",
    ),
    row(
        "tojson",
        "tojson [TYPE(FIELD)]... [default_type=] [fill_null=] [include_internal=] [output_field=]",
        "fields as a JSON object",
    ),
    row("top", "top [N] FIELD... [BY FIELD...] [showperc=] [countfield=] [useother=]", "the most frequent values"),
    row(
        "transaction",
        "transaction [FIELD...] [maxspan=] [maxpause=] [maxevents=] [startswith=] [endswith=] [keepevicted=] [mvlist=]",
        "events that belong together",
    ),
    row("transpose", "transpose [N] [column_name=] [header_field=] [include_empty=]", "turns rows into columns"),
    row("trendline", "trendline (sma|ema|wma)N(FIELD) [AS NEW]...", "moving averages"),
    row(
        "tstats",
        "tstats AGG... [from datamodel=MODEL.OBJECT] [where EXPR] [by FIELD... [_time span=]] [prestats=] [append=]",
        "aggregates index-time fields or a data model",
    ),
    row("typeahead", "typeahead prefix=TEXT [count=N] [index=INDEX]...", "words and values that begin with a text")
        .takes("get_typeahead"),
    row("typer", "typer", "event types are there already"),
    row("union", "union [maxout=N] [ SEARCH ]...", "rows of several searches"),
    row("uniq", "uniq", "drops rows like the one before"),
    row("untable", "untable ROWS NAMES VALUES", "a list of a table"),
    row(
        "walklex",
        "walklex [type=field|fieldvalue|term|all] [prefix=TEXT|pattern=TEXT] index=INDEX...",
        "the words and indexed fields of an index",
    )
    .takes("run_walklex"),
    row("where", "where EXPR", "keeps rows for which an expression is true"),
    row("xmlkv", "xmlkv [FIELD]", "fields of XML"),
    row("xmlunescape", "xmlunescape", "entities of XML as characters"),
    row("xpath", "xpath [field=] [outfield=] [default=] \"PATH\"", "a value of XML"),
    row("xyseries", "xyseries [grouped=] ROWS COLUMNS CELLS... [sep=] [format=]", "a table of a list"),
];

/// What commands are for: the chapters of the help page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Which events there are.
    Searching,
    /// Tables of aggregates.
    Reporting,
    /// Fields of rows.
    Fields,
    /// Rows as a whole.
    Rows,
    /// What is alike, unusual or to come.
    Patterns,
    /// Rows that are no events.
    Making,
    /// Results that stay.
    Keeping,
    /// Taken for what was written for Splunk.
    Nothing,
}

impl Group {
    /// All of them, in the order of the help page.
    pub const ALL: [Group; 8] = [
        Group::Searching,
        Group::Reporting,
        Group::Fields,
        Group::Rows,
        Group::Patterns,
        Group::Making,
        Group::Keeping,
        Group::Nothing,
    ];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::Searching => "Finding events",
            Group::Reporting => "Reporting: tables of aggregates",
            Group::Fields => "Fields: choosing, computing, cutting out",
            Group::Rows => "Rows: ordering, joining, running searches",
            Group::Patterns => "Patterns",
            Group::Making => "Making and reading rows",
            Group::Keeping => "Keeping and sending rows",
            Group::Nothing => "Taken, and without effect",
        }
    }

    fn commands(self) -> &'static str {
        match self {
            Group::Searching => {
                "search where regex head tail dedup uniq metasearch require dbinspect metadata eventcount \
                 datamodel from savedsearch tstats mstats mcatalog multisearch walklex typeahead"
            }
            Group::Reporting => {
                "stats eventstats streamstats chart timechart top rare contingency counttable ctable \
                 geostats sistats sichart sitimechart sitop sirare fieldsummary pivot gauge addtotals \
                 addcoltotals transpose xyseries untable timewrap trendline makecontinuous"
            }
            Group::Fields => {
                "eval fields table rename rex extract kv spath fromjson xmlkv xmlunescape xpath multikv \
                 makemv mvexpand mvcombine nomv strcat replace convert fieldformat fillnull filldown bin \
                 bucket discretize rangemap setfields addinfo reltime erex tojson makejson tags typer \
                 iplocation lookup accum delta autoregress ar localize"
            }
            Group::Rows => {
                "sort reverse append appendcols appendpipe join union set selfjoin diff transaction \
                 concurrency searchtxn foreach map multireport return format"
            }
            Group::Patterns => {
                "cluster kmeans anomalies anomalousvalue anomalydetection outlier associate arules \
                 correlate cofilter predict fit apply score relevancy bucketdir folderize analyzefields af"
            }
            Group::Making => "makeresults gentimes inputlookup inputcsv rest history loadjob listmodels summary",
            Group::Keeping => {
                "delete outputlookup outputcsv outputtext collect sumindex summaryindex mcollect meventcollect \
                 deletemodel sendalert script run"
            }
            Group::Nothing => "abstract excerpt geom highlight iconify localop noop redistribute rtorder sendemail",
        }
    }
}

/// What the command of this name is for.
pub fn group_of(name: &str) -> Group {
    let has = |group: &Group| group.commands().split_whitespace().any(|known| known == name);
    Group::ALL.into_iter().find(has).unwrap_or(Group::Nothing)
}

/// Commands of the language that do not run yet, each with what helps instead; named so that the message can say so.
pub const NOT_YET: &[(&str, &str)] = &[
    ("collapse", "it joins raw results of a cluster; there is none"),
    ("crawl", "give folders to `quarry add` or inputs.conf"),
    (
        "dump",
        "`quarry search -o raw` (csv, json, ndjson) writes what a search finds, and so does /services/search/jobs/export",
    ),
    ("findkeywords", "use cluster with showcount=t"),
    ("findtypes", "write event types yourself"),
    ("geomfilter", "there are no maps"),
    ("mpreview", "read metrics with mstats"),
    ("msearch", "read metrics with mstats"),
    ("overlap", "summaries are not kept in jobs"),
    ("prjob", "every search runs in parallel"),
    ("reducers", "every search runs in parallel"),
    ("runshellscript", "use script with a program of an app"),
    ("scrub", "use replace or rex mode=sed"),
    ("summarize", "the server summarises accelerated data models by itself"),
    ("tscollect", "tstats reads events themselves; collect keeps rows"),
    ("typelearner", "write event types yourself"),
    (
        "x11",
        "how it takes seasons out is not documented enough to do the same; `predict algorithm=LLP5` has a season, `trendline` a trend",
    ),
];

/// What to do instead of a command of this lower-case name that does not run yet; perhaps empty.
pub(crate) fn reason_not_yet(name: &str) -> Option<&'static str> {
    NOT_YET.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// The capability that a command of this lower-case name takes beside that of searching; commands that the language does
/// not have are those of apps.
pub fn capability_of(name: &str) -> Option<&'static str> {
    match HELP.binary_search_by_key(&name, |command| command.name) {
        Ok(at) => HELP[at].capability,
        Err(_) => Some(CUSTOM_CAPABILITY),
    }
}

/// Whether a command of this lower-case name runs.
pub fn is_command(name: &str) -> bool {
    HELP.binary_search_by_key(&name, |command| command.name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = Group::ALL.iter().flat_map(|group| group.commands().split_whitespace()).collect();
        for help in HELP {
            assert_eq!(grouped.iter().filter(|name| **name == help.name).count(), 1, "{}", help.name);
        }
        assert!(grouped.iter().all(|name| is_command(name)));
    }

    #[test]
    fn rows_are_sorted_and_disjoint() {
        assert!(HELP.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(NOT_YET.iter().all(|(name, _)| !is_command(name)));
    }
}
