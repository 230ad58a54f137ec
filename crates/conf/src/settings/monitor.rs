//! inputs.conf `[monitor://PATH]` and `[batch://PATH]`: files that are watched, and files that are removed after
//! reading.
//!
//! Patterns stay text here; the file watcher compiles them and reports invalid patterns.

use quarry_stdx::Fault;

use crate::layers::Layers;
use crate::table::{Kind, REGEX, Row, at_least, boolean, count, row, text};
use crate::values::Values;

/// Prefix of stanzas for watched files.
pub(crate) const MONITOR_PREFIX: &str = "monitor://";
/// Prefix of stanzas for files that are removed after their events are stored.
pub(crate) const BATCH_PREFIX: &str = "batch://";
/// The only `move_policy` that a batch may have.
const SINKHOLE: &str = "sinkhole";
/// Value of `crcSalt` that means the file's path.
const SALT_OF_PATH: &str = "<SOURCE>";
/// Default index of events.
const DEFAULT_INDEX: &str = "main";

/// Settings of `[monitor://]` and `[batch://]` stanzas.
pub(crate) const MONITOR_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether the stanza is disabled"),
    row("index", Kind::Text, DEFAULT_INDEX, "", "index of the events"),
    text("host", "host of the events; empty: this machine's name"),
    row("host_regex", Kind::Regex { groups_min: 1 }, "", "", "pattern over the path; its first group is the host"),
    count("host_segment", "0", "", "segment of the path that is the host, from 1; 0 for none"),
    text("source", "source of the events; empty: the path"),
    text("sourcetype", "sourcetype of the events; empty: detected"),
    row("whitelist", REGEX, "", "", "pattern that a path must match"),
    row("blacklist", REGEX, "", "", "pattern that a path must not match; overrides whitelist"),
    boolean("recursive", "true", "whether subfolders are watched"),
    boolean("followSymlink", "true", "whether symbolic links are followed"),
    boolean("followTail", "false", "whether new files are read from their end"),
    text("ignoreOlderThan", "age, as in 7d, from which files are ignored; empty: none"),
    text("crcSalt", "distinguishes files of equal content; <SOURCE> means the path"),
    row(
        "initCrcLength",
        Kind::Integer { min: 256, max: 1 << 20 },
        "256",
        "bytes",
        "accepted without effect: files that begin alike are distinguished by their further content",
    ),
    row("time_before_close", at_least(1), "3", "seconds", "idle time after which an unterminated last line is read"),
    boolean(
        "multiline_event_extra_waittime",
        "false",
        "true: an event that may continue waits for time_before_close; false: for 0.6 seconds",
    ),
    text("_TCP_ROUTING", "groups of outputs.conf that a forwarder sends the events to, separated by commas"),
    row("move_policy", Kind::Choice(&[SINKHOLE]), "", "", "sinkhole: a batch's files are removed once they are stored"),
];

/// Settings of one `[monitor://…]` or `[batch://…]` stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorSettings {
    /// The path; `*` matches part of a segment and `...` any number of folders.
    pub path: String,
    /// Whether files are removed after their events are stored.
    pub is_batch: bool,
    /// Index of the events.
    pub index: String,
    /// `host` of the events.
    pub host: Option<String>,
    /// Pattern over the path whose first group is the host.
    pub host_regex: Option<String>,
    /// Number, from 1, of the path segment that is the host.
    pub host_segment: Option<usize>,
    /// `source` of the events.
    pub source: Option<String>,
    /// `sourcetype` of the events.
    pub sourcetype: Option<String>,
    /// Groups of outputs.conf that a forwarder sends the events to.
    pub routing: Option<String>,
    /// Pattern that a path must match.
    pub whitelist: Option<String>,
    /// Pattern that a path must not match.
    pub blacklist: Option<String>,
    /// Whether subfolders are included.
    pub recursive: bool,
    /// Whether links are followed.
    pub follow_symlink: bool,
    /// Whether a new file is read from its end.
    pub follow_tail: bool,
    /// A file is ignored if its last change is more than this many seconds ago.
    pub ignore_older_than_seconds: Option<u64>,
    /// Distinguishes files of equal content.
    pub crc_salt: CrcSalt,
    /// Idle seconds after which an unterminated last line becomes an event.
    pub close_after_seconds: u64,
    /// Whether an event that may continue with further lines also waits for `close_after_seconds`.
    pub extra_wait: bool,
}

/// Part of a file's identity in addition to its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrcSalt {
    /// No salt: a copy is the same file.
    None,
    /// The path: a copy is a different file.
    Path,
    /// A text: files of stanzas with different texts are different files.
    Text(String),
}

impl MonitorSettings {
    /// The valid enabled stanzas of inputs.conf by path, and the errors of the invalid stanzas.
    pub fn read_all(layers: &Layers) -> (Vec<MonitorSettings>, Vec<String>) {
        let conf = layers.conf("inputs");
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        for stanza in conf.stanzas() {
            let of = |prefix: &str| stanza.name.strip_prefix(prefix).filter(|path| !path.is_empty());
            let (path, is_batch) = match (of(MONITOR_PREFIX), of(BATCH_PREFIX)) {
                (Some(path), _) => (path, false),
                (None, Some(path)) => (path, true),
                (None, None) => continue,
            };
            let values = Values::for_stanza(MONITOR_ROWS, conf, &stanza.name);
            if values.bool("disabled") {
                continue;
            }
            if is_batch && !values.text("move_policy").eq_ignore_ascii_case(SINKHOLE) {
                let text = "a batch removes its files, so it must set move_policy = sinkhole; the stanza is ignored";
                wrong.push(format!("inputs.conf [{}]: {text}", stanza.name));
                continue;
            }
            match MonitorSettings::read(path, is_batch, &values) {
                Ok(settings) => all.push(settings),
                Err(text) => wrong.push(format!("inputs.conf [{}]: {text}", stanza.name)),
            }
        }
        all.sort_by(|left, right| left.path.cmp(&right.path));
        (all, wrong)
    }

    fn read(path: &str, is_batch: bool, values: &Values) -> Result<MonitorSettings, Fault> {
        if !path.starts_with('/') {
            let kind = if is_batch { BATCH_PREFIX } else { MONITOR_PREFIX };
            return Err(Fault::invalid(format!(
                "{path} is not an absolute path, so the stanza is skipped; write three slashes, as in [{kind}/{path}]"
            )));
        }
        let age = values.text("ignoreOlderThan");
        let age = if age.is_empty() { Some(0) } else { parse_age(age) };
        let no_age = "ignoreOlderThan must be a number followed by s, m, h or d, as in 7d; the stanza is skipped";
        let age = age.ok_or_else(|| Fault::invalid(no_age))?;
        Ok(MonitorSettings {
            path: path.to_owned(),
            is_batch,
            index: values.index(),
            host: values.optional("host").filter(|host| host != "$decideOnStartup"),
            host_regex: values.optional("host_regex"),
            host_segment: Some(values.size("host_segment")).filter(|segment| *segment > 0),
            source: values.optional("source"),
            sourcetype: values.optional("sourcetype"),
            routing: values.optional("_TCP_ROUTING"),
            whitelist: values.optional("whitelist"),
            blacklist: values.optional("blacklist"),
            recursive: values.bool("recursive"),
            follow_symlink: values.bool("followSymlink"),
            follow_tail: values.bool("followTail"),
            ignore_older_than_seconds: Some(age).filter(|age| *age > 0),
            crc_salt: match values.text("crcSalt") {
                "" => CrcSalt::None,
                SALT_OF_PATH => CrcSalt::Path,
                text => CrcSalt::Text(text.to_owned()),
            },
            close_after_seconds: values.count("time_before_close"),
            extra_wait: values.bool("multiline_event_extra_waittime"),
        })
    }
}

/// Seconds of `7d`, `12h`, `30m`, `20s`, or `7` for days.
fn parse_age(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" | "" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds)
}

#[cfg(test)]
mod tests {
    use super::{CrcSalt, MonitorSettings};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn monitor_stanzas_are_read_and_errors_reported() {
        let text = "[default]\nhost = edge\n[monitor:///var/log/.../*.log]\nindex = os\nwhitelist = a|b\nignoreOlderThan = 7d\n\
                    crcSalt = <SOURCE>\n[monitor:///off]\ndisabled = 1\n[monitor://relative]\n\
                    [batch:///spool]\nmove_policy = sinkhole\nindex = default\n[batch:///kept]\n\
                    [monitor:///age]\nignoreOlderThan = old\n";
        let layers = Layers::new([local("inputs", text)]);
        let (all, wrong) = MonitorSettings::read_all(&layers);
        let paths: Vec<_> = all.iter().map(|one| (one.path.as_str(), one.is_batch)).collect();
        assert_eq!(paths, [("/spool", true), ("/var/log/.../*.log", false)]);
        assert_eq!(all[0].index, "main");
        let logs = &all[1];
        assert_eq!((logs.index.as_str(), logs.host.as_deref()), ("os", Some("edge")));
        assert_eq!((logs.ignore_older_than_seconds, &logs.crc_salt), (Some(604_800), &CrcSalt::Path));
        assert_eq!((logs.close_after_seconds, logs.recursive), (3, true));
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong.iter().any(|text| text.ends_with("as in [monitor:///relative]")), "{wrong:?}");
        let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}
