//! Equivalents of verbs of Splunk's command line that do not exist here.
//!
//! The equivalents are looked up when the arguments cannot be parsed, and printed below the error.

use clap::error::ErrorKind;

/// Words of a command line, and the equivalent. The first row whose words begin the arguments applies.
const VERBS: &[(&[&str], &str)] = &[
    (&["add"], "`quarry add oneshot FILE...` adds files once; `quarry add monitor PATH` has the server watch them"),
    (&["list"], "`quarry btool CONF list` shows configuration, `quarry bucket stats` the indexes with their sizes"),
    (&["show", "config"], "`quarry btool CONF list` shows configuration"),
    (&["show"], "`quarry btool CONF list` shows configuration, `quarry bucket stats` the indexes with their sizes"),
    (&["display"], "`quarry list` lists objects of the node, `quarry btool CONF list` shows configuration"),
    (&["start"], "`quarry serve` runs the server in the foreground; docs/running/operations.md has a unit for systemd"),
    (&["stop"], "end the server with Ctrl-C, SIGTERM or `systemctl stop quarry`"),
    (&["restart"], "`systemctl restart quarry`, or `curl -X POST -u USER HOST:8089/services/server/control/restart`"),
    (
        &["status"],
        "`curl http://127.0.0.1:8089/` answers while a server runs; `systemctl status quarry` shows the unit",
    ),
    (&["version"], "`quarry --version`"),
    (&["enable", "boot-start"], "docs/running/operations.md has a unit for systemd"),
    (&["enable", "listen"], "`quarry add splunktcp 9997`"),
    (&["enable"], "`quarry edit KIND NAME --disabled 0`"),
    (&["disable"], "`quarry edit KIND NAME --disabled 1`"),
    (&["edit"], "other settings are in the conf files of DATA/etc; `quarry btool CONF list --debug` shows which apply"),
    (
        &["reload"],
        "the verb `_reload` of a REST collection reads its conf files again, as in `curl -X POST -u USER HOST:8089/services/saved/searches/_reload`",
    ),
    (
        &["clean"],
        "events leave an index by its retention (indexes.conf); to start over, stop the server and remove the data directory",
    ),
    (
        &["remove"],
        "other stanzas are removed from their conf file; `quarry remove index NAME` removes an index with its events",
    ),
    (&["install"], "`curl -u USER HOST:8089/services/apps/local -d name=/PATH/APP.spl -d filename=1` installs an app"),
    (&["cmd", "btool"], "`quarry btool CONF list [STANZA] [--debug]`"),
    (&["cmd"], "there is no wrapper: scripts of apps run by themselves; `quarry btool` shows configuration"),
    (&["login"], "no login is needed on this machine; other nodes are addressed with --uri and --auth or --token"),
    (&["logout"], "no login is needed on this machine; other nodes are addressed with --uri and --auth or --token"),
    (&["rtsearch"], "`quarry search -f 'SPL'`"),
    (&["export"], "`quarry search 'index=NAME' -o raw`"),
    (&["import"], "`quarry add oneshot FILE...`"),
    (&["spool"], "`quarry add oneshot FILE...`"),
    (
        &["diag"],
        "`quarry btool check` names faults of the configuration, `quarry bucket verify` damage of the data; the server's own log is its standard error",
    ),
    (&["validate"], "`quarry btool check` names every fault of the conf files"),
    (
        &["http-event-collector"],
        "`quarry add http-event-collector NAME` creates a token; `quarry list hec` shows tokens",
    ),
    (&["find"], "`quarry search 'WORDS'`"),
    (&["query"], "`quarry search 'SPL'`"),
    (&["tail"], "`quarry search '*' FILE --order oldest` shows a file; inputs.conf lists the watched files"),
];

/// Options of `splunk search` that are not supported, and the equivalent.
const SEARCH_OPTIONS: &[(&str, &str)] = &[
    ("-index_earliest", "write _index_earliest=TIME in the search"),
    ("-index_latest", "write _index_latest=TIME in the search"),
    ("-rt_maxtime", "`quarry search -f` runs until it is interrupted, or until it has shown --maxout events"),
    ("-realtime", "`quarry search -f` shows events as they arrive"),
];

/// The equivalent of these arguments, if they were refused because only Splunk has them.
pub(crate) fn find_equivalent(arguments: &[String], refused: ErrorKind) -> Option<String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if matches!(words.first(), Some(&"search" | &"dispatch")) {
        let said: Vec<String> = SEARCH_OPTIONS
            .iter()
            .filter(|(option, _)| words.iter().any(|word| word == option))
            .map(|(option, instead)| format!("{option}: {instead}"))
            .collect();
        return (!said.is_empty()).then(|| said.join("\n      "));
    }
    if refused != ErrorKind::InvalidSubcommand {
        return None;
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
    fn listed_verbs_are_unsupported_and_have_an_equivalent() {
        for (verb, _) in VERBS {
            let line = std::iter::once("quarry").chain(verb.iter().copied()).chain(["x"]);
            let refused = Cli::try_parse_from(line).err().map(|error| error.kind());
            assert_eq!(refused, Some(ErrorKind::InvalidSubcommand), "{verb:?} is a verb here");
            let arguments: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
            assert!(find_equivalent(&arguments, ErrorKind::InvalidSubcommand).is_some());
            assert_eq!(find_equivalent(&arguments, ErrorKind::UnknownArgument), None);
        }
        for (option, _) in SEARCH_OPTIONS {
            assert!(Cli::try_parse_from(["quarry", "search", "error", option, "1"]).is_err(), "{option}");
            let arguments = ["search", "error", option].map(str::to_owned);
            assert!(find_equivalent(&arguments, ErrorKind::UnknownArgument).is_some());
        }
        assert_eq!(find_equivalent(&["nonsense".to_owned()], ErrorKind::InvalidSubcommand), None);
    }
}
