//! Guessing the sourcetype of a source without one.
//!
//! The guess depends on `[source::]` stanzas first, then on `[rule::]` stanzas of props.conf, then on the format of the
//! first lines: each well-known format requires a minimum share of matching lines. Otherwise, timestamps may mark the
//! start of multi-line events. Lines without a timestamp that do not look like continuations (indented lines, or an
//! exception's cause) are evidence against merging: splitting an event is better than merging unrelated events. Not
//! here: models learned from earlier files.

mod file_name;
mod rules;
mod shape;

use quarry_conf::PropsResolver;

use crate::recognise::Recogniser;
use file_name::hint_by_name;
pub(crate) use rules::GuessRules;
use shape::{Shape, is_access_with_cookie};

/// Sourcetype of data with no recognisable format.
pub const PLAIN_SOURCETYPE: &str = "generic_single_line";
/// Sourcetypes that the format of data can indicate, besides names derived from the file.
const KNOWN_SOURCETYPES: [&str; 24] = [
    PLAIN_SOURCETYPE,
    "_json",
    "access_combined",
    "access_combined_wcookie",
    "apache_error",
    "aws:cloudtrail",
    "cisco:asa",
    "csv",
    "iis",
    "journald:export",
    "json_lines",
    "kube:klog",
    "linux_audit",
    "linux_secure",
    "log4j",
    "mysql:slow",
    "nginx:error",
    "pan:log",
    "postgres",
    "postgres:csv",
    "syslog",
    "tsv",
    "WinEventLog",
    "XmlWinEventLog",
];
/// Number of lines within which an XML or pretty-printed JSON file reveals its format.
const HEAD_LINES: usize = 5;

/// A line format that suffices to identify a sourcetype.
struct VendorFormat {
    shape: Shape,
    sourcetype: &'static str,
    /// Minimum percentage of matching lines among those that may start an event.
    percent: usize,
    /// Whether the format has delimited columns, whose quoted values may contain line feeds.
    is_columns: bool,
    reason: &'static str,
}

/// Line formats and their sourcetypes, in the order in which they are tried.
const VENDOR_FORMATS: [VendorFormat; 6] = [
    VendorFormat {
        shape: Shape::PanOs,
        sourcetype: "pan:log",
        percent: 75,
        is_columns: true,
        reason: "columns of PAN-OS",
    },
    VendorFormat {
        shape: Shape::NginxError,
        sourcetype: "nginx:error",
        percent: 75,
        is_columns: false,
        reason: "lines of nginx's error log",
    },
    VendorFormat {
        shape: Shape::Klog,
        sourcetype: "kube:klog",
        percent: 50,
        is_columns: false,
        reason: "lines of Kubernetes' components",
    },
    VendorFormat {
        shape: Shape::LinuxAudit,
        sourcetype: "linux_audit",
        percent: 75,
        is_columns: false,
        reason: "records of the Linux audit daemon",
    },
    VendorFormat {
        shape: Shape::PostgresColumns,
        sourcetype: "postgres:csv",
        percent: 50,
        is_columns: true,
        reason: "columns of PostgreSQL's csvlog",
    },
    VendorFormat {
        shape: Shape::Postgres,
        sourcetype: "postgres",
        percent: 50,
        is_columns: false,
        reason: "lines of PostgreSQL's log",
    },
];
/// Maximum number of lines examined.
const LINES_MAX: usize = 2_000;
/// Number of bytes of a line that are searched for a timestamp; the same as the default at index time.
const LOOKAHEAD_BYTES: usize = 128;
/// Maximum length of a sourcetype derived from a file name.
const STEM_BYTES_MAX: usize = 64;
/// The current time that a guess assumes: the start of 2099, so that no timestamp of a log is too far in the future.
const LATEST_TIME_NS: i64 = 4_070_908_800 * quarry_event::time::NS_PER_SEC;

/// A guessed sourcetype and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// Name of the sourcetype, built in or derived from the file name.
    pub sourcetype: String,
    /// The evidence, in words.
    pub reason: &'static str,
}

impl Guess {
    fn new(sourcetype: &str, reason: &'static str) -> Guess {
        Guess { sourcetype: sourcetype.to_owned(), reason }
    }
}

/// Every sourcetype that may be guessed for a source.
pub(crate) fn candidates(source: &str, props: &PropsResolver) -> Vec<String> {
    let of_rules = props.sourcetype_rules().iter().map(|rule| rule.sourcetype.clone());
    let mut names: Vec<String> =
        KNOWN_SOURCETYPES.iter().map(|name| (*name).to_owned()).chain(file_stem(source)).chain(of_rules).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Guesses the sourcetype by name and first bytes of a source; `may_continue`: more bytes may follow.
pub(crate) fn guess_data(sample: &[u8], source: &str, may_continue: bool) -> Guess {
    let lines = complete_lines(sample);
    if lines.is_empty() {
        if let Some(name) = hint_by_name(source) {
            return name.guess();
        }
        return Guess::new(PLAIN_SOURCETYPE, "there are no lines");
    }
    let found = match delimited_sourcetype(source) {
        // Cells of a table may look like lines of other logs, so formats with columns are tried first.
        Some(sourcetype) => guess_by_vendor(&lines, |found| found.is_columns)
            .or_else(|| guess_by_columns(&lines, sourcetype))
            .or_else(|| guess_by_shape(&lines)),
        None => guess_by_shape(&lines),
    };
    match (hint_by_name(source), found) {
        (Some(name), found) if found.as_ref().is_none_or(|found| name.is_kind_of(&found.sourcetype)) => name.guess(),
        (_, Some(found)) => found,
        (_, None) => guess_by_times(&lines, source, may_continue),
    }
}

/// Non-empty lines; the last line only if it is complete or the only line.
fn complete_lines(sample: &[u8]) -> Vec<&[u8]> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let mut lines: Vec<&[u8]> = sample.split(is_break).filter(|line| !line.is_empty()).take(LINES_MAX + 1).collect();
    let is_whole = sample.last().is_some_and(is_break);
    if lines.len() > LINES_MAX || (lines.len() > 1 && !is_whole) {
        lines.pop();
    }
    lines
}

/// Whether at least `percent` of the lines satisfy `is`.
fn is_share_at_least(lines: &[&[u8]], percent: usize, is: impl Fn(&[u8]) -> bool) -> bool {
    lines.iter().filter(|line| is(line)).count() * 100 >= lines.len() * percent
}

fn guess_by_shape(lines: &[&[u8]]) -> Option<Guess> {
    // A pretty-printed record spans several lines, so its first lines are tested together.
    let is_pretty_printed = || {
        let head = lines[..lines.len().min(HEAD_LINES)].join(&b'\n');
        !Shape::Json.matches(lines[0]) && Shape::CloudTrail.matches(&head)
    };
    if is_share_at_least(lines, 90, |line| Shape::CloudTrail.matches(line)) || is_pretty_printed() {
        return Some(Guess::new("aws:cloudtrail", "records of AWS CloudTrail"));
    }
    if lines.iter().take(HEAD_LINES).any(|line| Shape::WindowsXml.matches(line)) {
        return Some(Guess::new("XmlWinEventLog", "Windows events as XML"));
    }
    if lines.iter().take(HEAD_LINES).any(|line| line.starts_with(b"#Fields: ")) {
        return Some(Guess::new("iis", "a line names W3C columns"));
    }
    if lines[0].starts_with(b"__CURSOR=") && lines.iter().any(|line| line.starts_with(b"__REALTIME_TIMESTAMP=")) {
        return Some(Guess::new("journald:export", "entries of systemd's journal"));
    }
    let has = |start: &[u8]| lines.iter().any(|line| line.starts_with(start));
    if has(b"# Time: ") && has(b"# Query_time: ") {
        return Some(Guess::new("mysql:slow", "entries of MySQL's log of slow queries"));
    }
    if is_share_at_least(lines, 90, |line| Shape::Json.matches(line)) {
        return Some(Guess::new("_json", "each line is a JSON object"));
    }
    if is_share_at_least(lines, 75, |line| Shape::Access.matches(line)) {
        let with_cookie = is_share_at_least(lines, 75, is_access_with_cookie);
        let sourcetype = if with_cookie { "access_combined_wcookie" } else { "access_combined" };
        return Some(Guess::new(sourcetype, "lines of a web server's access log"));
    }
    if let Some(found) = guess_by_vendor(lines, |_| true) {
        return Some(found);
    }
    if is_share_at_least(lines, 50, |line| Shape::CiscoAsa.matches(line)) {
        return Some(Guess::new("cisco:asa", "lines carry %ASA message numbers"));
    }
    if is_share_at_least(lines, 75, |line| Shape::ApacheError.matches(line)) {
        return Some(Guess::new("apache_error", "lines of a web server's error log"));
    }
    if is_share_at_least(lines, 80, |line| Shape::Syslog.matches(line)) {
        let is_secure = is_share_at_least(lines, 50, |line| Shape::Secure.matches(line));
        let sourcetype = if is_secure { "linux_secure" } else { "syslog" };
        return Some(Guess::new(sourcetype, "lines with time, host and process"));
    }
    let is_windows = Shape::WindowsEvent.matches(lines[0]) && lines.iter().any(|line| line.starts_with(b"LogName="));
    is_windows.then(|| Guess::new("WinEventLog", "Windows events as text"))
}

/// The first vendor format that matches enough of the lines that start events.
fn guess_by_vendor(lines: &[&[u8]], is_tried: impl Fn(&VendorFormat) -> bool) -> Option<Guess> {
    let found = VENDOR_FORMATS.iter().filter(|found| is_tried(found)).find(|found| {
        let begins = if found.is_columns { record_starts(lines) } else { unindented_lines(lines) };
        is_share_at_least(&begins, found.percent, |line| found.shape.matches(line))
    })?;
    Some(Guess::new(found.sourcetype, found.reason))
}

/// Lines that do not start inside quotes of an earlier line.
fn record_starts<'l>(lines: &[&'l [u8]]) -> Vec<&'l [u8]> {
    let mut is_open = false;
    let begins = lines.iter().filter(|line| {
        let begins = !is_open;
        is_open ^= line.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
        begins
    });
    begins.copied().collect()
}

/// Lines that are not indented, and the first line in any case.
fn unindented_lines<'l>(lines: &[&'l [u8]]) -> Vec<&'l [u8]> {
    let is_begin = |(at, line): &(usize, &&[u8])| *at == 0 || !line[0].is_ascii_whitespace();
    lines.iter().enumerate().filter(is_begin).map(|(_, line)| *line).collect()
}

/// Sourcetype of delimited text that the extension of a file's name indicates.
fn delimited_sourcetype(source: &str) -> Option<&'static str> {
    let extension = source.rsplit('.').next().unwrap_or_default();
    ["csv", "tsv"].into_iter().find(|known| extension.eq_ignore_ascii_case(known))
}

/// A guess for delimited text with a header line. A line that starts with a digit is a row, not a header.
fn guess_by_columns(lines: &[&[u8]], sourcetype: &str) -> Option<Guess> {
    let is_header = !lines[0][0].is_ascii_digit();
    is_header.then(|| Guess::new(sourcetype, "the name and the first line indicate columns"))
}

/// Counts of lines by their role in events.
#[derive(Default)]
struct LineCounts {
    dated: usize,
    with_level: usize,
    /// Number of lines with a timestamp that look like continuations.
    dated_continuations: usize,
    continuations: usize,
    strays: usize,
}

fn guess_by_times(lines: &[&[u8]], source: &str, may_continue: bool) -> Guess {
    let recogniser = Recogniser::new(LATEST_TIME_NS, [].into());
    let has_date = |line: &[u8]| {
        let stamp = recogniser.find(&line[..line.len().min(LOOKAHEAD_BYTES)]);
        stamp.is_some_and(|stamp| stamp.begins_event())
    };
    let mut census = LineCounts::default();
    for line in lines {
        let looks_continued = Shape::Continuation.matches(line);
        if has_date(line) {
            census.dated += 1;
            census.with_level += usize::from(!looks_continued && Shape::Level.matches(line));
            census.dated_continuations += usize::from(looks_continued);
        } else if looks_continued {
            census.continuations += 1;
        } else {
            census.strays += 1;
        }
    }
    let merges = census.dated > 0 && has_date(lines[0]) && census.strays * 5 <= lines.len();
    let has_room = census.continuations + census.strays <= census.dated.saturating_mul(LINES_PER_EVENT_MAX);
    if !merges || !has_room {
        return Guess::new(PLAIN_SOURCETYPE, "too few lines have a time to show where events begin");
    }
    let headed = census.dated - census.dated_continuations;
    if census.with_level * 100 >= headed * 80 && census.dated_continuations <= headed {
        return Guess::new("log4j", "lines with time and level");
    }
    let is_dated = census.continuations + census.strays == 0;
    // A log often begins with events of one line; stack traces may follow later.
    let is_undecided = may_continue && source.starts_with('/') && lines.len() < FEW_LINES_MAX;
    if is_dated && !is_undecided {
        return Guess::new(PLAIN_SOURCETYPE, "every line carries a time");
    }
    match file_stem(source) {
        Some(stem) if is_dated => {
            Guess { sourcetype: stem, reason: "the few lines so far carry a time, and lines without one may follow" }
        }
        Some(stem) => Guess { sourcetype: stem, reason: "lines without a time follow lines with one" },
        None => Guess::new(PLAIN_SOURCETYPE, "lines without a time, and no file name to name the sourcetype after"),
    }
}

/// Below this number of lines in a growing file, the guess assumes that later lines may have a different form.
const FEW_LINES_MAX: usize = 100;

/// Maximum average number of lines without a timestamp per line with one; with more, the file is a collection of lines
/// with occasional dates.
const LINES_PER_EVENT_MAX: usize = 60;

/// A file name without directories and extensions, and without digits, dashes and underscores at its end.
fn file_stem(source: &str) -> Option<String> {
    let name = source.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.trim_start_matches('.');
    let base = name.split('.').next().unwrap_or_default();
    let base = base.trim_end_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '_'));
    let clean = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let stem: String = base.chars().map(clean).take(STEM_BYTES_MAX).collect();
    let has_letter = stem.bytes().any(|byte| byte.is_ascii_alphabetic());
    has_letter.then_some(stem)
}

#[cfg(test)]
mod tests;
