//! Commands of SPL that are not supported, each with an alternative.

/// Name of each command, and the hint of its error message, which may be empty.
pub const UNSUPPORTED_COMMANDS: &[(&str, &str)] = &[
    ("collapse", "internal to Splunk; results need no condensing here"),
    ("crawl", "add directories with `quarry add` or in inputs.conf"),
    ("findkeywords", "use cluster with showcount=t"),
    ("findtypes", "define event types in eventtypes.conf"),
    ("geomfilter", "maps are not supported"),
    ("mpreview", "read metrics with mstats"),
    ("msearch", "read metrics with mstats"),
    ("overlap", "find gaps with timechart over the summary index"),
    ("prjob", "every search runs in parallel"),
    ("reducers", "every search runs in parallel"),
    ("runshellscript", "use script with a program of an app"),
    ("sample", "keep a share of the rows with `where random()%100<5`"),
    ("scrub", "use replace or rex mode=sed"),
    ("summarize", "accelerated data models are summarised automatically"),
    ("tscollect", "tstats reads events directly; collect stores results"),
    ("typelearner", "define event types in eventtypes.conf"),
    (
        "x11",
        "Splunk does not document its seasonal adjustment; use `predict algorithm=LLP5` for a season, `trendline` for a trend",
    ),
];

/// The hint for an unsupported command of this lower-case name; may be empty.
pub(crate) fn unsupported_hint(name: &str) -> Option<&'static str> {
    UNSUPPORTED_COMMANDS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}
