//! The kinds of objects of `add`, `edit`, `remove`, `list` and `show`, one table row each.
//!
//! A row names the REST collection. Parameters come from the table of endpoints, and their descriptions from the tables
//! of settings. The rows here add only Splunk's option names, descriptions that these tables lack, and the columns of
//! lists.

use quarry_api::ENDPOINTS;
use quarry_conf::table::Kind as ValueKind;
use quarry_conf::tables::TABLES;

use super::objects::ObjectVerb;
use ObjectVerb::{Add, Edit, List, Remove, Show};

/// A kind of objects.
#[derive(Debug)]
pub(crate) struct ObjectKind {
    /// Word for the kind on the command line.
    pub(crate) word: &'static str,
    /// Aliases of the word.
    pub(crate) aliases: &'static [&'static str],
    /// Description of the kind, for help.
    pub(crate) about: &'static str,
    /// Placeholder of an object's name, for help.
    pub(crate) name: &'static str,
    /// REST collection below `/services/`.
    pub(crate) path: &'static str,
    /// Conf with the settings of the objects, and a stanza name (a prefix or an example) by which the settings are
    /// looked up in the tables of settings.
    pub(crate) settings: (&'static str, &'static str),
    /// Parameters that have no row in the tables of settings, or that REST accepts only by a wildcard.
    pub(crate) parameters: &'static [(&'static str, &'static str)],
    /// Further names of options, each with its parameter.
    pub(crate) options: &'static [(&'static str, &'static str)],
    /// Columns shown by `list`.
    pub(crate) columns: &'static [&'static str],
    /// Whether `-source` is the name if no other name is given, as in Splunk's `add monitor -source PATH`.
    pub(crate) is_named_by_source: bool,
    /// Whether the objects belong to an app.
    pub(crate) is_in_app: bool,
    /// Verbs that the kind supports.
    pub(crate) verbs: &'static [ObjectVerb],
}

/// A parameter of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Description; if it is empty, the option is hidden in help.
    pub(crate) help: &'static str,
    /// Placeholder of the parameter's values.
    pub(crate) value: &'static str,
}

const ALL: &[ObjectVerb] = &[Add, Edit, Remove, List, Show];

const INPUT: ObjectKind = ObjectKind {
    word: "",
    aliases: &[],
    about: "",
    name: "NAME",
    path: "",
    settings: ("inputs", ""),
    parameters: &[],
    options: &[],
    columns: &["name", "index", "sourcetype", "host", "disabled"],
    is_named_by_source: false,
    is_in_app: true,
    verbs: ALL,
};

/// The kinds.
pub(crate) static KINDS: &[ObjectKind] = &[
    ObjectKind {
        word: "monitor",
        aliases: &["tail"],
        about: "Watched files and folders",
        name: "PATH",
        path: "data/inputs/monitor",
        settings: ("inputs", "monitor://"),
        is_named_by_source: true,
        options: &[
            ("hostname", "host"),
            ("hostregex", "host_regex"),
            ("hostsegmentnum", "host_segment"),
            ("rename-source", "source"),
            ("follow-only", "followTail"),
        ],
        ..INPUT
    },
    ObjectKind {
        word: "tcp",
        about: "TCP ports for text, such as syslog",
        name: "[ADDRESS:]PORT",
        path: "data/inputs/tcp/raw",
        settings: ("inputs", "tcp://"),
        is_named_by_source: true,
        options: &[("remotehost", "restrictToHost"), ("resolvehost", "connection_host")],
        ..INPUT
    },
    ObjectKind {
        word: "udp",
        about: "UDP ports for text, such as syslog",
        name: "[ADDRESS:]PORT",
        path: "data/inputs/udp",
        settings: ("inputs", "udp://"),
        is_named_by_source: true,
        options: &[("remotehost", "restrictToHost"), ("resolvehost", "connection_host")],
        ..INPUT
    },
    ObjectKind {
        word: "splunktcp",
        aliases: &["listen"],
        about: "Ports for Splunk forwarders",
        name: "[ADDRESS:]PORT",
        path: "data/inputs/tcp/cooked",
        settings: ("inputs", "splunktcp://"),
        columns: &["name", "connection_host", "acceptFrom", "disabled"],
        ..INPUT
    },
    ObjectKind {
        word: "http-event-collector",
        aliases: &["hec", "http"],
        about: "Tokens of the HTTP Event Collector",
        path: "data/inputs/http",
        settings: ("inputs", "http://"),
        columns: &["name", "token", "index", "indexes", "sourcetype", "disabled"],
        ..INPUT
    },
    ObjectKind {
        word: "script",
        aliases: &["exec", "scripted"],
        about: "Programs whose output is indexed (scripted inputs)",
        name: "PATH",
        path: "data/inputs/script",
        settings: ("inputs", "script://"),
        columns: &["name", "interval", "index", "sourcetype", "disabled"],
        ..INPUT
    },
    ObjectKind {
        word: "index",
        aliases: &["indexes"],
        about: "Indexes",
        path: "data/indexes",
        settings: ("indexes", "index"),
        columns: &["name", "totalEventCount", "currentDBSizeMB", "frozenTimePeriodInSecs", "disabled"],
        ..INPUT
    },
    ObjectKind {
        word: "forward-server",
        aliases: &["forward-servers"],
        about: "Indexers that `quarry forward` sends to",
        name: "HOST:PORT",
        path: "data/outputs/tcp/server",
        settings: ("outputs", "tcpout-server://"),
        parameters: &[("group", "Output group; the default group if absent")],
        columns: &["name", "group", "disabled"],
        ..INPUT
    },
    ObjectKind {
        word: "user",
        aliases: &["users"],
        about: "Users who may log in",
        path: "authentication/users",
        settings: ("", ""),
        parameters: &[
            ("password", "Password; prompted for, or read from standard input, if absent"),
            ("roles", "Role; repeatable"),
            ("realname", "Full name"),
            ("email", "E-mail address"),
            ("defaultApp", "Default app"),
            ("tz", "Time zone"),
        ],
        options: &[("role", "roles"), ("full-name", "realname")],
        columns: &["name", "roles", "realname", "email"],
        is_in_app: false,
        ..INPUT
    },
    ObjectKind {
        word: "saved-search",
        aliases: &["saved-searches"],
        about: "Saved searches",
        path: "saved/searches",
        settings: ("", ""),
        parameters: &[
            ("search", "The search"),
            ("description", "Description"),
            ("dispatch.earliest_time", "Start of its time range"),
            ("dispatch.latest_time", "End of its time range"),
            ("dispatch.ttl", "Lifetime of its jobs in seconds, or in periods of its schedule (2p)"),
            ("cron_schedule", "Cron schedule; needs is_scheduled=1"),
            ("is_scheduled", "Whether the schedule is on"),
            ("disabled", "Whether it is disabled"),
        ],
        options: &[
            ("start_time", "dispatch.earliest_time"),
            ("end_time", "dispatch.latest_time"),
            ("ttl", "dispatch.ttl"),
            ("schedule", "cron_schedule"),
        ],
        columns: &["name", "search", "cron_schedule", "disabled"],
        ..INPUT
    },
    ObjectKind {
        word: "jobs",
        aliases: &["job"],
        about: "Running searches, and ended searches whose results are kept",
        name: "ID",
        path: "search/jobs",
        settings: ("", ""),
        columns: &["sid", "dispatchState", "eventCount", "resultCount", "runDuration", "ttl", "search"],
        is_in_app: false,
        verbs: &[Remove, List, Show],
        ..INPUT
    },
];

impl ObjectKind {
    /// The kind with this word; aliases have been resolved before.
    pub(super) fn of(word: &str) -> Option<&'static ObjectKind> {
        KINDS.iter().find(|kind| kind.word == word)
    }

    /// True if a parameter is repeatable.
    pub(super) fn is_list(parameter: &str) -> bool {
        parameter == "roles"
    }

    /// REST parameters for creating and changing an object.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let path = format!("/services/{}", self.path);
        let row = ENDPOINTS.iter().find(|row| row.method == "POST" && row.path == path);
        let taken = row.into_iter().flat_map(|row| row.needs.iter().chain(row.takes)).copied();
        let mut names: Vec<&'static str> = self.parameters.iter().map(|(name, _)| *name).collect();
        for name in taken.filter(|name| *name != "name") {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.into_iter().map(|name| self.parameter(name)).collect()
    }

    fn parameter(&self, name: &'static str) -> Parameter {
        if let Some((_, help)) = self.parameters.iter().find(|(known, _)| *known == name) {
            return Parameter { name, help, value: "VALUE" };
        }
        let (conf, stanza) = self.settings;
        let sections = TABLES.iter().find(|table| table.conf == conf).and_then(|table| table.sections_of(stanza));
        let mut rows = sections.into_iter().flatten().flat_map(|section| section.rows);
        match rows.find(|row| row.name == name) {
            Some(row) => Parameter { name, help: row.doc, value: placeholder_of(row.kind) },
            None => Parameter { name, help: "", value: "VALUE" },
        }
    }
}

/// Placeholder of values of a type.
fn placeholder_of(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Bool => "BOOL",
        ValueKind::Integer { .. } => "N",
        ValueKind::Regex { .. } => "REGEX",
        ValueKind::Age => "AGE",
        _ => "VALUE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_served_and_its_options_name_parameters() {
        for kind in KINDS {
            let path = format!("/services/{}", kind.path);
            let is_served =
                |method: &str, path: &str| ENDPOINTS.iter().any(|row| row.method == method && row.path == path);
            assert!(is_served("GET", &path), "{}", kind.word);
            for (verb, method) in [(Edit, "POST"), (Remove, "DELETE"), (Show, "GET")] {
                let rows = ENDPOINTS.iter().filter(|row| row.method == method);
                let mut below = rows.filter_map(|row| row.path.strip_prefix(&format!("{path}/")));
                let is_there = below.any(|rest| rest.starts_with('{') && !rest.contains('/'));
                assert!(is_there || !kind.verbs.contains(&verb), "{} {verb:?}", kind.word);
            }
            let parameters = kind.parameters();
            for (option, parameter) in kind.options {
                assert!(parameters.iter().any(|known| known.name == *parameter), "{} {option}", kind.word);
            }
            let changes = kind.verbs.contains(&Add);
            assert!(!changes || parameters.iter().any(|parameter| !parameter.help.is_empty()), "{}", kind.word);
        }
    }
}
