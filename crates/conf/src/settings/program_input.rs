//! inputs.conf stanzas of inputs that run programs or read the disk themselves: `[script://PATH]`,
//! `[journald://NAME]`, `[fschange:PATH]` and the `[SCHEME://NAME]` of apps. Also reports invalid stanza names.
//!
//! Not here: finding programs, scheduling them, reading their output.

use std::collections::BTreeMap;

use super::http_input::INPUTS;
use crate::layers::{Layers, MergedConf, MergedStanza};
use crate::table::{Kind, REGEX, Row, Section, StanzaName, at_least, boolean, count, row, text};
use crate::values::{DEFAULT_INDEX_WORD, Values};

/// Prefix of stanzas for scripts.
const SCRIPT_PREFIX: &str = "script://";
/// Prefix of stanzas for the systemd journal.
const JOURNAL_PREFIX: &str = "journald://";
/// Prefix of stanzas for watched file changes.
const CHANGE_PREFIX: &str = "fschange:";
/// Prefix of stanzas for filters of file changes.
const FILTER_PREFIX: &str = "filter:";
const FILTER_KINDS: [(&str, bool); 2] = [("whitelist", true), ("blacklist", false)];
/// Prefix of a filter's pattern settings.
const FILTER_PATTERN: &str = "regex";
/// Index and sourcetype of the events that Splunk would sign (`signedaudit = true`).
const AUDIT: [&str; 2] = ["_audit", "audittrail"];
/// Separator of an input's scheme and name.
const SCHEME_END: &str = "://";
/// Schemes whose port may directly follow the colon.
const WITHOUT_SLASHES: &[&str] = &["splunktcp-ssl", "tcp-ssl"];

/// Sections of inputs.conf that this module reads.
pub(crate) const SECTIONS: &[Section] = &[
    Section { stanza: StanzaName::Prefix(SCRIPT_PREFIX), rows: PROGRAM_ROWS },
    Section { stanza: StanzaName::Prefix(JOURNAL_PREFIX), rows: JOURNAL_ROWS },
    Section { stanza: StanzaName::Prefix(CHANGE_PREFIX), rows: CHANGE_ROWS },
];
/// Section of filters for `[fschange:]`. Its row accepts any setting, but not in `[default]`, where the row would hide
/// misspelt settings of other sections.
pub(crate) const FILTER: Section = Section { stanza: StanzaName::Prefix(FILTER_PREFIX), rows: FILTER_ROWS };

const PROGRAM_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the stanza is disabled"),
    row("index", Kind::Text, "main", "", "index of the events"),
    text("host", "host of the events; empty: this machine's name"),
    text("source", "source of the events; empty: the path of the file, or the stanza"),
    text("sourcetype", "sourcetype of the events; empty: the name of the program"),
    row(
        "interval",
        Kind::Text,
        "60",
        "",
        "seconds between two starts, 0 for immediately after the end, -1 for once, or a cron schedule",
    ),
    text("passAuth", "user whose session key the program reads from standard input"),
    boolean("start_by_shell", "true", "whether apps' programs are started through /bin/sh"),
    boolean(
        "send_index_as_argument_for_path",
        "",
        "whether the index follows the arguments of a .path file; not supported, with a warning",
    ),
    text("python.version", "accepted without effect: python3 runs all .py files"),
    text("_TCP_ROUTING", "groups of outputs.conf that a forwarder sends the events to, separated by commas"),
];

const JOURNAL_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the stanza is disabled"),
    row("index", Kind::Text, "main", "", "index of the events"),
    text("host", "host of the events; empty: that of the entry"),
    text("source", "source of the events; empty: the stanza"),
    row("sourcetype", Kind::Text, "journald", "", "sourcetype of the events"),
    row("interval", Kind::Text, "30", "seconds", "wait before journalctl is restarted after it has ended"),
    text("journalctl-include-fields", "fields of entries that become indexed fields, separated by commas"),
    text("journalctl-exclude-fields", "fields of entries that do not become indexed fields, separated by commas"),
    text("journalctl-filter", "matches passed to journalctl, as in _SYSTEMD_UNIT=ssh.service"),
    text("journalctl-grep", "pattern that messages must match"),
    text("journalctl-unit", "units, separated by commas"),
    text("journalctl-identifier", "identifiers, separated by commas"),
    text("journalctl-priority", "priority, or a range with .. between two"),
    text("journalctl-boot", "boot whose entries are read"),
    text("journalctl-facility", "facilities, separated by commas"),
    text("journalctl-since", "where to start if nothing has been read yet; empty: with new entries"),
    text("journalctl-until", "where to stop"),
    boolean("journalctl-dmesg", "false", "whether only kernel messages are read"),
    boolean("journalctl-quiet", "true", "accepted without effect"),
    text("journalctl-freetext", "arguments passed to journalctl unchanged"),
    text("_TCP_ROUTING", "groups of outputs.conf that a forwarder sends the events to, separated by commas"),
];

const CHANGE_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the stanza is disabled"),
    row("index", Kind::Text, "main", "", "index of the events"),
    text("host", "host of the events; empty: this machine's name"),
    row("source", Kind::Text, "fschangemonitor", "", "source of the events"),
    row("sourcetype", Kind::Text, "fs_notification", "", "sourcetype of the events"),
    boolean("recurse", "true", "whether subfolders are included"),
    boolean("recursive", "true", "the same as recurse"),
    boolean("followLinks", "false", "whether symbolic links are followed"),
    row("pollPeriod", at_least(1), "3600", "seconds", "time between two scans"),
    row(
        "hashMaxSize",
        Kind::Integer { min: -1, max: 1 << 40 },
        "-1",
        "bytes",
        "maximum size of files whose contents are compared by SHA-256; -1: never compared",
    ),
    boolean(
        "signedaudit",
        "false",
        "whether events go to _audit with the sourcetype audittrail; they are not signed, with a warning",
    ),
    boolean("fullEvent", "false", "whether the text of an added or changed file also becomes an event"),
    row(
        "sendEventMaxSize",
        Kind::Integer { min: -1, max: 1 << 40 },
        "-1",
        "bytes",
        "maximum size of a file whose text becomes an event; -1: the maximum size of an event",
    ),
    text("filters", "names of [filter:blacklist:NAME] and [filter:whitelist:NAME], separated by commas"),
    row("filesPerDelay", at_least(1), "10", "", "files checked between two pauses of delayInMills"),
    count("delayInMills", "100", "milliseconds", "pause after every filesPerDelay files"),
    row("whitelist", REGEX, "", "", "pattern that a path must match"),
    row("blacklist", REGEX, "", "", "pattern that a path must not match"),
    text("_TCP_ROUTING", "groups of outputs.conf that a forwarder sends the events to, separated by commas"),
];

const FILTER_ROWS: &[Row] = &[text("*", "regex1, regex2 and so on: patterns of paths")];

/// Settings that all inputs of this module share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramInput {
    /// Name of the stanza.
    pub stanza: String,
    /// Stanza name after the scheme.
    pub name: String,
    /// Scheme of an app's input; empty for other inputs.
    pub scheme: String,
    /// Index of the events.
    pub index: String,
    /// `host` of the events.
    pub host: Option<String>,
    /// `source` of the events.
    pub source: Option<String>,
    /// `sourcetype` of the events.
    pub sourcetype: Option<String>,
    /// Groups of outputs.conf that a forwarder sends the events to.
    pub routing: Option<String>,
    /// Schedule: seconds between starts, or a cron expression.
    pub interval: String,
    /// Whether an app's program is started through a shell.
    pub starts_by_shell: bool,
    /// Configured settings that are not supported.
    pub unsupported: Vec<&'static str>,
    /// User of the session whose key the program gets.
    pub pass_auth: Option<String>,
    /// All settings of the stanza, own and inherited.
    pub settings: BTreeMap<String, String>,
}

/// One `[fschange:PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeInput {
    /// Shared settings; `name` is the path.
    pub input: ProgramInput,
    /// Whether subfolders are included.
    pub recursive: bool,
    /// Whether links are followed.
    pub follows_links: bool,
    /// Seconds between two scans.
    pub poll_seconds: u64,
    /// Maximum size of files whose contents are compared; `None` if contents are not compared.
    pub hash_bytes_max: Option<u64>,
    /// Files checked between two pauses.
    pub files_per_delay: usize,
    /// Length of a pause in milliseconds.
    pub delay_milliseconds: u64,
    /// Pattern that a path must match.
    pub whitelist: Option<String>,
    /// Pattern that a path must not match.
    pub blacklist: Option<String>,
    /// Filters in order; the first that matches applies.
    pub filters: Vec<ChangeFilter>,
    /// Maximum size of an added or changed file whose text becomes an event; `None` for no such events.
    pub full_bytes_max: Option<u64>,
}

/// A `[filter:…]` stanza that an `[fschange:]` input refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeFilter {
    /// Whether matching files are included rather than excluded.
    pub keeps: bool,
    /// Patterns, one of which must match.
    pub patterns: Vec<String>,
}

/// All enabled inputs, in the order of inputs.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramInputs {
    /// `[script://]`.
    pub scripts: Vec<ProgramInput>,
    /// `[journald://]`.
    pub journals: Vec<ProgramInput>,
    /// `[fschange:]`.
    pub changes: Vec<ChangeInput>,
    /// `[SCHEME://NAME]` inputs of apps.
    pub modular: Vec<ProgramInput>,
    /// Errors in stanzas, as messages.
    pub faults: Vec<String>,
}

impl ProgramInputs {
    /// Reads inputs.conf.
    pub fn new(layers: &Layers) -> ProgramInputs {
        let conf = layers.conf("inputs");
        let mut all = ProgramInputs::default();
        for stanza in conf.stanzas() {
            if let Some(fault) = name_fault(&stanza.name) {
                all.faults.push(format!("inputs.conf [{}]: {fault}; the stanza is ignored", stanza.name));
                continue;
            }
            let name = stanza.name.as_str();
            if let Some(path) = name.strip_prefix(SCRIPT_PREFIX) {
                all.scripts.extend(input(conf, stanza, PROGRAM_ROWS, path));
            } else if let Some(rest) = name.strip_prefix(JOURNAL_PREFIX) {
                all.journals.extend(input(conf, stanza, JOURNAL_ROWS, rest));
            } else if let Some(path) = name.strip_prefix(CHANGE_PREFIX) {
                all.changes.extend(change(conf, stanza, path, &mut all.faults));
            } else if let Some((scheme, rest)) = name.split_once(SCHEME_END)
                && !built_in_schemes().any(|own| own == scheme)
            {
                let made = input(conf, stanza, PROGRAM_ROWS, rest);
                all.modular.extend(made.map(|made| modular(conf, scheme, made)));
            }
        }
        all
    }
}

/// The built-in schemes, which the table lists; all other schemes belong to apps.
fn built_in_schemes() -> impl Iterator<Item = &'static str> {
    let prefixes = INPUTS.sections.iter().filter_map(|section| match section.stanza {
        StanzaName::Prefix(prefix) => prefix.strip_suffix(SCHEME_END),
        StanzaName::Named(_) | StanzaName::Any => None,
    });
    prefixes.chain(WITHOUT_SLASHES.iter().copied())
}

/// An app's input. Settings of `[SCHEME]` are the defaults of stanzas with this scheme, except `disabled` and
/// `_TCP_ROUTING`.
fn modular(conf: &MergedConf, scheme: &str, mut made: ProgramInput) -> ProgramInput {
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    for name in [scheme, made.stanza.as_str()] {
        let own = conf.stanza(name).into_iter().flat_map(|stanza| &stanza.settings);
        settings.extend(own.map(|(key, setting)| (key.clone(), setting.value.clone())));
    }
    let asked = |key: &str| settings.get(key).filter(|value| !value.is_empty()).cloned();
    made.scheme = scheme.to_owned();
    made.index = asked("index").filter(|index| index != DEFAULT_INDEX_WORD).unwrap_or(made.index);
    made.host = asked("host").filter(|host| !is_own_host(host)).or(made.host);
    made.source = asked("source").or(made.source);
    made.sourcetype = asked("sourcetype").or(made.sourcetype);
    made.interval = asked("interval").unwrap_or(made.interval);
    made.pass_auth = asked("passAuth").or(made.pass_auth);
    made.starts_by_shell = asked("start_by_shell").is_none_or(|text| crate::values::parse_bool(&text).unwrap_or(true));
    let mut all = made.settings.clone();
    all.extend(settings);
    made.settings = all;
    made
}

fn is_own_host(host: &str) -> bool {
    host == "$decideOnStartup"
}

fn input(conf: &MergedConf, stanza: &MergedStanza, rows: &'static [Row], name: &str) -> Option<ProgramInput> {
    let values = Values::for_stanza(rows, conf, &stanza.name);
    if values.bool("disabled") {
        return None;
    }
    let settings: BTreeMap<String, String> = conf
        .effective(&stanza.name)
        .into_iter()
        .map(|(key, setting)| (key.to_owned(), setting.value.clone()))
        .collect();
    let pass_auth = settings.get("passAuth").filter(|user| !user.is_empty()).cloned();
    let is_on = |key: &str| settings.get(key).and_then(|text| crate::values::parse_bool(text)).unwrap_or(false);
    let mut unsupported = Vec::new();
    if is_on("send_index_as_argument_for_path") {
        unsupported.push("send_index_as_argument_for_path");
    }
    let has_shell = rows.iter().any(|row| row.name == "start_by_shell");
    let has_interval = rows.iter().any(|row| row.name == "interval");
    Some(ProgramInput {
        stanza: stanza.name.clone(),
        name: name.to_owned(),
        scheme: String::new(),
        index: values.index(),
        host: values.optional("host").filter(|host| !is_own_host(host)),
        source: values.optional("source"),
        sourcetype: values.optional("sourcetype"),
        routing: values.optional("_TCP_ROUTING"),
        interval: if has_interval { values.owned("interval") } else { String::new() },
        starts_by_shell: has_shell && values.bool("start_by_shell"),
        pass_auth,
        unsupported,
        settings,
    })
}

fn change(conf: &MergedConf, stanza: &MergedStanza, path: &str, faults: &mut Vec<String>) -> Option<ChangeInput> {
    let mut input = input(conf, stanza, CHANGE_ROWS, path)?;
    let values = Values::for_stanza(CHANGE_ROWS, conf, &stanza.name);
    let mut tell = |text: &str| faults.push(format!("inputs.conf [{}]: {text}", stanza.name));
    if values.bool("signedaudit") {
        let [index, sourcetype] = AUDIT;
        tell(&format!("signedaudit = true: events go to {index} as {sourcetype}, but are not signed"));
        (input.index, input.sourcetype) = (index.to_owned(), Some(sourcetype.to_owned()));
    }
    let mut filters = Vec::new();
    for name in values.text("filters").split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match filter(conf, name) {
            Some(filter) => filters.push(filter),
            // An input with a missing filter is refused, because it would report the wrong set of files.
            None => {
                let [(first, _), (second, _)] = FILTER_KINDS;
                tell(&format!(
                    "filters = {name}: neither [{FILTER_PREFIX}{first}:{name}] nor [{FILTER_PREFIX}{second}:{name}] has \
                     a {FILTER_PATTERN}1; the stanza is ignored"
                ));
                return None;
            }
        }
    }
    let full_bytes_max = u64::try_from(values.integer("sendEventMaxSize")).unwrap_or(u64::MAX);
    Some(ChangeInput {
        recursive: values.bool("recurse") && values.bool("recursive"),
        follows_links: values.bool("followLinks"),
        poll_seconds: values.count("pollPeriod"),
        hash_bytes_max: u64::try_from(values.integer("hashMaxSize")).ok(),
        files_per_delay: values.size("filesPerDelay"),
        delay_milliseconds: values.count("delayInMills"),
        whitelist: values.optional("whitelist"),
        blacklist: values.optional("blacklist"),
        filters,
        full_bytes_max: Some(full_bytes_max).filter(|_| values.bool("fullEvent")),
        input,
    })
}

/// The filter of this name, if it exists and has patterns.
fn filter(conf: &MergedConf, name: &str) -> Option<ChangeFilter> {
    FILTER_KINDS.into_iter().find_map(|(kind, keeps)| {
        let stanza = conf.stanza(&format!("{FILTER_PREFIX}{kind}:{name}"))?;
        let settings = stanza.settings.iter().filter(|(key, _)| key.starts_with(FILTER_PATTERN));
        let patterns: Vec<String> = settings.map(|(_, setting)| setting.value.clone()).collect();
        (!patterns.is_empty()).then_some(ChangeFilter { keeps, patterns })
    })
}

/// The reason why no input would ever read a stanza of this name.
fn name_fault(name: &str) -> Option<String> {
    let trimmed = name.trim();
    let (scheme, rest) = trimmed.split_once(':')?;
    let own = built_in_schemes().find(|own| own.eq_ignore_ascii_case(scheme.trim()));
    if let Some(own) = own
        && (own != scheme || trimmed != name)
    {
        return Some(format!(
            "write [{own}{SCHEME_END}{}], without blanks and in lower case",
            rest.trim_matches(['/', ' '])
        ));
    }
    if scheme == "fschange" {
        return (!rest.starts_with('/'))
            .then(|| "write an absolute path after the colon, as in [fschange:/etc]".to_owned());
    }
    let own = own?;
    match rest.strip_prefix("//") {
        None if WITHOUT_SLASHES.contains(&own) && !rest.is_empty() => None,
        None => {
            let slash = if matches!(own, "monitor" | "batch") { "/" } else { "" };
            let rest = rest.trim_start_matches('/');
            Some(format!("two slashes follow the colon: write [{own}{SCHEME_END}{slash}{rest}]"))
        }
        Some("") => Some(format!("nothing follows {own}{SCHEME_END}")),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::ProgramInputs;
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn program_inputs_are_read() {
        let text = "[default]\nindex = os\n[script://./bin/a.sh -x]\ninterval = */5 * * * *\nsourcetype = a\npassAuth = admin\n\
                    [script:///off]\ndisabled = 1\n[weather]\nindex = sky\nunit = C\n[weather://rome]\nunit = K\ncity = Rome\n\
                    [journald://all]\njournalctl-filter = _UID=0\n[fschange:/etc]\npollPeriod = 5\nhashMaxSize = 100\n";
        let layers = Layers::new([local("inputs", text)]);
        let all = ProgramInputs::new(&layers);
        let script = &all.scripts[0];
        assert_eq!((script.name.as_str(), script.index.as_str()), ("./bin/a.sh -x", "os"));
        assert_eq!((script.interval.as_str(), script.pass_auth.as_deref()), ("*/5 * * * *", Some("admin")));
        assert_eq!((all.scripts.len(), all.journals.len(), all.modular.len()), (1, 1, 1));
        let rome = &all.modular[0];
        assert_eq!((rome.scheme.as_str(), rome.index.as_str(), rome.interval.as_str()), ("weather", "sky", "60"));
        assert_eq!((rome.settings["unit"].as_str(), rome.settings["city"].as_str()), ("K", "Rome"));
        let etc = &all.changes[0];
        assert_eq!((etc.input.name.as_str(), etc.poll_seconds, etc.hash_bytes_max), ("/etc", 5, Some(100)));
        assert_eq!((etc.filters.len(), etc.full_bytes_max), (0, None));
        assert!(all.faults.is_empty(), "{:?}", all.faults);
        let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn the_index_default_is_the_default_index() {
        let text = "[script:///a.sh]\nindex = default\n[weather]\nindex = sky\n[weather://rome]\nindex = default\n";
        let all = ProgramInputs::new(&Layers::new([local("inputs", text)]));
        assert_eq!((all.scripts[0].index.as_str(), all.modular[0].index.as_str()), ("main", "main"));
        assert_eq!(all.modular[0].settings["index"], "default", "the program receives the setting as it is");
    }

    #[test]
    fn change_inputs_and_filters_are_read() {
        let text = "[filter:blacklist:copies]\nregex1 = ~$\nregex2 = \\.bak$\n[filter:whitelist:code]\nregex1 = \\.rs$\n\
                    [fschange:/src]\nfilters = copies, code\nfullEvent = true\nsendEventMaxSize = 100\nindex = dev\n\
                    [fschange:/etc]\nsignedaudit = true\nindex = dev\n[fschange:/x]\nfilters = nobody\n";
        let layers = Layers::new([local("inputs", text)]);
        let all = ProgramInputs::new(&layers);
        let src = all.changes.iter().find(|change| change.input.name == "/src").unwrap();
        assert_eq!((src.full_bytes_max, src.input.index.as_str()), (Some(100), "dev"));
        let filters: Vec<(bool, usize)> = src.filters.iter().map(|one| (one.keeps, one.patterns.len())).collect();
        assert_eq!(filters, [(false, 2), (true, 1)]);
        let etc = all.changes.iter().find(|change| change.input.name == "/etc").unwrap();
        assert_eq!((etc.input.index.as_str(), etc.input.sourcetype.as_deref()), ("_audit", Some("audittrail")));
        assert_eq!((all.changes.len(), all.faults.len()), (2, 2), "{:?}", all.faults);
        assert!(all.faults.iter().any(|fault| fault.contains("[filter:blacklist:nobody]")), "{:?}", all.faults);
        assert!(layers.warnings().is_empty(), "{:?}", layers.warnings());
    }

    #[test]
    fn stanza_names_that_no_input_reads_are_reported() {
        let text = "[monitor:/var/log]\n[Monitor:///x]\n[tcp:514]\n[script://]\n[fschange:etc]\n[tcp-ssl:6514]\n\
                    [splunktcp-ssl:9998]\n[monitor:///fine]\n[http://token]\ntoken = t\n";
        let faults = ProgramInputs::new(&Layers::new([local("inputs", text)])).faults;
        assert_eq!(faults.len(), 5, "{faults:?}");
        for (fault, hint) in faults.iter().zip([
            "[monitor:///var/log]",
            "[monitor://x]",
            "[tcp://514]",
            "nothing follows",
            "[fschange:/etc]",
        ]) {
            assert!(fault.contains(hint), "{fault}");
        }
    }
}
