//! The line formats from which the sourcetype of a source is guessed.

use std::sync::LazyLock;

use regex::bytes::Regex;

/// A line format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Json,
    Access,
    CiscoAsa,
    ApacheError,
    Syslog,
    Secure,
    WindowsEvent,
    /// A record of AWS CloudTrail, or a list of records.
    CloudTrail,
    /// A line with the XML namespace of Windows events.
    WindowsXml,
    PanOs,
    NginxError,
    /// Log format of Kubernetes components.
    Klog,
    /// Record of the Linux audit daemon.
    LinuxAudit,
    Postgres,
    PostgresColumns,
    /// A line with a severity after its timestamp.
    Level,
    /// A line that continues the previous one.
    Continuation,
}

/// Number of bytes of a line examined for most formats.
const SHAPE_BYTES: usize = 256;

macro_rules! compiled {
    ($pattern:expr) => {
        LazyLock::new(|| Regex::new($pattern).ok())
    };
}

/// Patterns are compiled on first use; an invalid one would match nothing.
static ACCESS: LazyLock<Option<Regex>> = compiled!(
    r#"^\S+ \S+ [^\[]{0,64}\[\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "(?:[^"\\]|\\.)*" \d{3} (?:\d+|-)"#
);
static COOKIE: LazyLock<Option<Regex>> = compiled!(r#" "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"\s*$"#);
static ASA: LazyLock<Option<Regex>> = compiled!(r"%(?:ASA|FTD|FWSM|PIX)-(?:[a-z]+-)?\d-\d+");
static APACHE_ERROR: LazyLock<Option<Regex>> =
    compiled!(r"^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? \d{4}\] \[[^\]]*\]");
static SYSLOG: LazyLock<Option<Regex>> = compiled!(concat!(
    r"^(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))",
    r" [^\s\[\]:]+ (?:[^\s:\[]+(?:\[\d+\])?:|last message repeated|[^\s:\[]+\[\d+\])",
    r"|^<\d{1,3}>1 \d{4}-\d\d-\d\dT"
));
static SECURE: LazyLock<Option<Regex>> =
    compiled!(r" (?:sshd|sudo|su|login|passwd|useradd|groupadd|systemd-logind|polkitd)(?:\([^)]*\))?(?:\[\d+\])?:");
static WINDOWS_EVENT: LazyLock<Option<Regex>> =
    compiled!(r"^\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}:\d{2}(?:\.\d+)? [AP]M\s*$");
/// Start of a CloudTrail record, or of a list of records.
static CLOUD_TRAIL: LazyLock<Option<Regex>> =
    compiled!(r#"^\s*(?:\{\s*"Records"\s*:\s*\[\s*)?\{\s*"eventVersion"\s*:\s*"[\d.]+""#);
static WINDOWS_XML: LazyLock<Option<Regex>> =
    compiled!(r#"<Event xmlns=['"]http://schemas\.microsoft\.com/win/2004/08/events/event['"]"#);
static PAN_OS: LazyLock<Option<Regex>> = compiled!(
    r"^[^,]{0,120},\d{4}/\d\d/\d\d \d\d:\d\d:\d\d,[0-9A-Za-z]*,(?:TRAFFIC|THREAT|SYSTEM|CONFIG|HIPMATCH|HIP-MATCH|USERID|GLOBALPROTECT|DECRYPTION|CORRELATION|AUTHENTICATION),"
);
static NGINX_ERROR: LazyLock<Option<Regex>> =
    compiled!(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[(?:debug|info|notice|warn|error|crit|alert|emerg)\] \d+#\d+: ");
static KLOG: LazyLock<Option<Regex>> = compiled!(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6}\s+\d+ [^\s:]+:\d+\] ");
static LINUX_AUDIT: LazyLock<Option<Regex>> =
    compiled!(r"^(?:node=\S+ )?type=\S+ (?:msg=)?audit\(\d{10}\.\d{3}:\d+\): ");
static POSTGRES: LazyLock<Option<Regex>> = compiled!(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Z][A-Za-z0-9+-]*)? \[\d+\].{0,200}?\b(?:DEBUG\d?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|STATEMENT|CONTEXT):  "
);
static POSTGRES_COLUMNS: LazyLock<Option<Regex>> = compiled!(
    r#"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Za-z0-9+:-]{1,8},(?:"[^"]*")?,(?:"[^"]*")?,\d+,(?:"[^"]*")?,[0-9a-f]+\.[0-9a-f]+,\d+,"#
);
/// A level that the sourcetype `log4j` extracts (crates/conf/default/props.conf).
static LEVEL: LazyLock<Option<Regex>> =
    compiled!(r"\b(?:TRACE|DEBUG|FINEST|FINER|FINE|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|CRITICAL|FATAL)\b");
static CONTINUATION: LazyLock<Option<Regex>> = compiled!(
    r"^(?:\s|Caused by:|Suppressed:|\.\.\. \d+ |Traceback |at |[}\])]+[,;]?\s*$|(?:[\w$]+\.)*[\w$]*(?:Exception|Error)\b)"
);

impl Shape {
    /// Whether a line has this format.
    pub(super) fn matches(self, line: &[u8]) -> bool {
        let start = &line[..line.len().min(SHAPE_BYTES)];
        match self {
            Shape::Json => line.trim_ascii().starts_with(b"{") && line.trim_ascii().ends_with(b"}"),
            Shape::Access => is_match(&ACCESS, line),
            Shape::CiscoAsa => is_match(&ASA, start),
            Shape::ApacheError => is_match(&APACHE_ERROR, start),
            Shape::Syslog => is_match(&SYSLOG, start),
            Shape::Secure => is_match(&SECURE, start),
            Shape::WindowsEvent => is_match(&WINDOWS_EVENT, start),
            Shape::CloudTrail => is_match(&CLOUD_TRAIL, start),
            Shape::WindowsXml => is_match(&WINDOWS_XML, line),
            Shape::PanOs => is_match(&PAN_OS, start),
            Shape::NginxError => is_match(&NGINX_ERROR, start),
            Shape::Klog => is_match(&KLOG, start),
            Shape::LinuxAudit => is_match(&LINUX_AUDIT, start),
            Shape::Postgres => is_match(&POSTGRES, start),
            Shape::PostgresColumns => is_match(&POSTGRES_COLUMNS, start),
            Shape::Level => is_match(&LEVEL, &start[..start.len().min(LEVEL_BYTES)]),
            Shape::Continuation => is_match(&CONTINUATION, start),
        }
    }
}

/// Number of bytes of a line in which a level is searched for.
const LEVEL_BYTES: usize = 128;

/// Whether an access log line ends in a third quoted field.
pub(super) fn is_access_with_cookie(line: &[u8]) -> bool {
    is_match(&COOKIE, line)
}

fn is_match(pattern: &LazyLock<Option<Regex>>, text: &[u8]) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}
