//! Commands of SPL that are not supported, each with an alternative.

/// Name of each command, and the hint of its error message; may be empty.
pub const NOT_YET: &[(&str, &str)] = &[
    ("collapse", "it joins raw results of a cluster; there is none"),
    ("crawl", "give folders to `quarry add` or inputs.conf"),
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

/// The hint for an unsupported command of this lower-case name; may be empty.
pub(crate) fn reason_not_yet(name: &str) -> Option<&'static str> {
    NOT_YET.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}
