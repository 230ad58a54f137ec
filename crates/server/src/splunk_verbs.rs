//! Equivalents of verbs of Splunk's command line that do not exist here.
//!
//! Looked up when the arguments cannot be parsed; the answer is printed below the error.

/// Words of a command line, and the equivalent. The first row whose words begin the arguments applies.
const VERBS: &[(&[&str], &str)] = &[
    (
        &["add", "monitor"],
        "files are watched by `[monitor:///PATH]` in DATA/etc/system/local/inputs.conf while the server runs; `quarry add oneshot FILE` adds one once",
    ),
    (&["add", "tail"], "files are watched by `[monitor:///PATH]` in DATA/etc/system/local/inputs.conf"),
    (&["add", "tcp"], "name the port in DATA/etc/system/local/inputs.conf: `[tcp://514]` with `sourcetype = syslog`"),
    (&["add", "udp"], "name the port in DATA/etc/system/local/inputs.conf: `[udp://514]` with `sourcetype = syslog`"),
    (
        &["add", "index"],
        "an index begins with the first event that is added to it: `quarry add oneshot FILE --index NAME`; its retention goes into DATA/etc/system/local/indexes.conf",
    ),
    (
        &["add", "forward-server"],
        "name it in DATA/etc/system/local/outputs.conf (`[tcpout:NAME]` with `server = HOST:9997`) and run `quarry forward`",
    ),
    (&["add", "saved-search"], "saved searches stand in savedsearches.conf of an app"),
    (&["add"], "`quarry add oneshot FILE...` adds files once; inputs.conf names what is watched"),
    (&["list", "monitor"], "`quarry btool inputs list` shows what inputs.conf watches and listens on"),
    (&["list", "index"], "`quarry bucket stats` shows the indexes with their sizes"),
    (&["list"], "`quarry btool CONF list` shows configuration, `quarry bucket stats` the indexes"),
    (&["show"], "`quarry btool CONF list` shows configuration, `quarry bucket stats` the indexes"),
    (&["start"], "`quarry serve` runs the server in the foreground; docs/running/operations.md has a unit for systemd"),
    (&["stop"], "end the server with Ctrl-C, SIGTERM or `systemctl stop quarry`"),
    (
        &["restart"],
        "end the server with Ctrl-C or SIGTERM and start `quarry serve` again; `systemctl restart quarry` does both",
    ),
    (
        &["status"],
        "`curl http://127.0.0.1:8089/` answers while a server runs; `systemctl status quarry` tells of the unit",
    ),
    (&["version"], "`quarry --version`"),
    (&["enable", "boot-start"], "docs/running/operations.md has a unit for systemd"),
    (&["enable"], "set `disabled = 0` in the stanza of its conf file, and start the server again"),
    (&["disable"], "set `disabled = 1` in the stanza of its conf file, and start the server again"),
    (&["edit"], "edit the conf files in DATA/etc/system/local; `quarry btool CONF list --debug` shows what holds"),
    (&["reload"], "conf files are read when the server starts"),
    (
        &["clean"],
        "events leave an index by its retention (indexes.conf); to begin anew, stop the server and remove the data folder",
    ),
    (&["remove"], "remove the stanza from its conf file; events leave an index by its retention"),
    (&["install"], "unpack the app below DATA/etc/apps and start the server again"),
    (&["cmd", "btool"], "`quarry btool CONF list [STANZA] [--debug]`"),
    (&["cmd"], "there is no wrapper: scripts of apps run by themselves; `quarry btool` shows configuration"),
    (&["login"], "no login is needed: the command line reads the data folder or the token of its server"),
    (&["logout"], "no login is needed: the command line reads the data folder or the token of its server"),
    (&["rtsearch"], "searches look back; run one again, or with --earliest -1m"),
    (&["dispatch"], "`quarry search 'SPL'`"),
    (&["export"], "`quarry search 'index=NAME' -o raw`"),
    (&["import"], "`quarry add oneshot FILE...`"),
    (&["spool"], "`quarry add oneshot FILE...`"),
    (
        &["diag"],
        "`quarry btool check` names faults of the configuration, `quarry bucket verify` damage of the data; the server's own log is its standard error",
    ),
    (&["validate"], "`quarry btool check` names every fault of the conf files"),
    (&["find"], "`quarry search 'WORDS'`"),
    (&["query"], "`quarry search 'SPL'`"),
    (&["tail"], "`quarry search '*' FILE --order oldest` shows a file; what is watched stands in inputs.conf"),
];

/// Options of `splunk search`, and the equivalent.
const SEARCH_OPTIONS: &[(&str, &str)] = &[
    ("-maxout", "write `| head N` at the end of the search, or nothing: all rows are shown"),
    ("-max_count", "write `| head N` at the end of the search"),
    ("-app", "write --app APP"),
    ("-earliest_time", "write --earliest TIME, or earliest=TIME in the search"),
    ("-latest_time", "write --latest TIME, or latest=TIME in the search"),
    ("-output", "write -o table, csv, json, ndjson, raw or vertical"),
    ("-preview", "leave it out: the answer is shown when it is whole"),
    ("-header", "leave it out; `-o csv` has a header line, `-o raw` has none"),
    ("-timeout", "leave it out: a search runs until it is done, or until Ctrl-C"),
    ("-wrap", "leave it out; `-o raw` shows lines as they are"),
    ("-detach", "searches run in the foreground; over REST, POST to /services/search/jobs"),
    ("-batch", "leave it out"),
    ("-auth", "leave it out: the command line reads the data folder or the token of its server"),
    ("-uri", "name the data folder with --data-dir; other nodes are asked over REST"),
];

/// The equivalent of these arguments, if they are Splunk's.
pub(crate) fn instead_of(arguments: &[String]) -> Option<String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.first() == Some(&"search") {
        let said: Vec<String> = SEARCH_OPTIONS
            .iter()
            .filter(|(option, _)| words.iter().any(|word| word == option))
            .map(|(option, instead)| format!("{option}: {instead}"))
            .collect();
        return (!said.is_empty()).then(|| said.join("\n      "));
    }
    let verb = VERBS.iter().find(|(verb, _)| words.starts_with(verb));
    verb.map(|(_, instead)| (*instead).to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_verb_is_one_that_is_not_here_and_has_an_answer() {
        for (verb, _) in VERBS {
            let line = std::iter::once("quarry").chain(verb.iter().copied()).chain(["x"]);
            assert!(Cli::try_parse_from(line).is_err(), "{verb:?} is a verb here");
            let arguments: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
            assert!(instead_of(&arguments).is_some());
        }
        for (option, _) in SEARCH_OPTIONS {
            assert!(Cli::try_parse_from(["quarry", "search", "error", option, "1"]).is_err(), "{option}");
            let arguments = ["search", "error", option].map(str::to_owned);
            assert!(instead_of(&arguments).is_some());
        }
        assert_eq!(instead_of(&["nonsense".to_owned()]), None);
    }
}
