//! Generates logs that have many different shapes: nested JSON, free text, tables, stack traces and event XML.
//!
//! The words come from short lists in this file. A seeded generator makes the variety: arrays of varying length, words
//! with Zipf frequencies, stack frames in any order. Compression and indexing are measured on these logs, because
//! measurements on regular logs would be too good.

use std::fmt::Write;

use crate::random::Rng;
use crate::repeats::format_time;

/// Maximum time between two events, in milliseconds.
const STEP_MILLIS: u64 = 700;
/// Number of words in the vocabulary of free text.
const VOCABULARY: usize = 12_000;

const STEMS: &str = "the of and to in is that it was for on are with as be at one have this from or had by not but what all were \
    when we there can an your which their said if do will each about how up out them then she many some so \
    these would other into has more her two like him see time could no make than first been its who now people \
    my made over did down only way find use may water long little very after words called just where most know \
    get through back much before go good new write our used me man too any day same right look think also \
    around another came come work three word must because does part even place well such here take why things \
    help put years different away again off went old number great tell men say small every found still between \
    name should home big give air line set own under read last never us left end along while might next sound \
    below saw something thought both few those always looked show large often together asked house world going \
    want school important until form food keep children feet land side without boy once animals life enough \
    took sometimes four head above kind began almost live page got earth need far hand high year mother light \
    parts country father let night following picture being study second eyes soon times story boys since white \
    days ever paper hard near sentence better best across during today others however sure means knew try told \
    young miles sun ways thing whole hear example heard several change answer room sea against top turned learn \
    point city play toward five using himself usually";
const BEGINNINGS: &[&str] = &["", "re", "un", "over", "out", "mis", "pre"];
const ENDINGS: &[&str] = &["", "s", "ed", "ing", "er", "ly", "ness", "able", "ment"];
const EVENT_KINDS: &[&str] =
    &["PushEvent", "CreateEvent", "WatchEvent", "PullRequestEvent", "IssuesEvent", "IssueCommentEvent", "ForkEvent"];
const PACKAGES: &[&str] =
    &["shop.order", "shop.pay", "shop.stock", "io.net.channel", "org.sql.pool", "java.util", "app.web"];
const CLASSES: &[&str] =
    &["Handler", "Worker", "Router", "Session", "Client", "Codec", "Dispatcher", "Filter", "Loader"];
const METHODS: &[&str] =
    &["run", "invoke", "call", "apply", "read", "write", "lambda$0", "process", "doFilter", "close"];
const PROVIDERS: &[(&str, &str)] = &[
    ("Microsoft-Windows-Security-Auditing", "Security"),
    ("Service Control Manager", "System"),
    ("Microsoft-Windows-Kernel-General", "System"),
    ("MsiInstaller", "Application"),
];
const DATA_NAMES: &[&str] = &[
    "SubjectUserSid",
    "SubjectUserName",
    "SubjectDomainName",
    "SubjectLogonId",
    "TargetUserName",
    "LogonType",
    "IpAddress",
    "IpPort",
    "ProcessName",
    "param1",
    "param2",
    "WorkstationName",
];

/// A kind of irregular log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irregular {
    /// Nested JSON with arrays of varying length, like the user activity events of a code host.
    NestedJson,
    /// Free English-like text.
    Prose,
    /// Comma-separated table, some cells quoted or empty.
    Table,
    /// Stack traces of several lines.
    Traces,
    /// Windows events as XML.
    WindowsXml,
}

impl Irregular {
    /// All kinds.
    pub const ALL: [Irregular; 5] =
        [Irregular::NestedJson, Irregular::Prose, Irregular::Table, Irregular::Traces, Irregular::WindowsXml];

    /// Name of the file for this kind.
    pub fn name(self) -> &'static str {
        match self {
            Irregular::NestedJson => "nested.json",
            Irregular::Prose => "prose.log",
            Irregular::Table => "table.csv",
            Irregular::Traces => "traces.log",
            Irregular::WindowsXml => "windows.xml",
        }
    }

    /// Passes about `bytes` bytes of events to `each`, starting at `start_s` (seconds since the epoch); a stack trace
    /// is one event of many lines.
    pub fn write(self, seed: u64, bytes: u64, start_s: i64, each: &mut dyn FnMut(&str)) {
        let mut maker = Maker { rng: Rng::new(seed), words: vocabulary(), millis: start_s * 1_000 };
        let (mut made, mut event) = (0, String::new());
        while made < bytes {
            maker.millis += maker.rng.below(STEP_MILLIS) as i64;
            event.clear();
            let written = match self {
                Irregular::NestedJson => maker.nested_json(&mut event),
                Irregular::Prose => maker.prose(&mut event),
                Irregular::Table => maker.table(&mut event),
                Irregular::Traces => maker.trace(&mut event),
                Irregular::WindowsXml => maker.windows_xml(&mut event),
            };
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
            each(&event);
            made += event.len() as u64 + 1;
        }
    }
}

/// Makes the vocabulary: plain stems first, then stems with prefixes and suffixes.
pub(crate) fn vocabulary() -> Vec<String> {
    let affixes = BEGINNINGS.iter().flat_map(|first| ENDINGS.iter().map(move |last| (*first, *last)));
    let mut affixes: Vec<_> = affixes.collect();
    affixes.sort_by_key(|(first, last)| first.len() + last.len());
    let words =
        affixes.iter().flat_map(|(first, last)| STEMS.split(' ').map(move |stem| format!("{first}{stem}{last}")));
    words.take(VOCABULARY).collect()
}

type FmtResult = std::fmt::Result;

struct Maker {
    rng: Rng,
    words: Vec<String>,
    millis: i64,
}

impl Maker {
    fn time(&self) -> String {
        format_time(self.millis, "%Y-%m-%dT%H:%M:%S%.3fZ")
    }

    /// Random index below `len`; the r-th index is about 1/r as likely as the first.
    fn rank(&mut self, len: usize) -> usize {
        (((len as f64 + 1.0).powf(self.rng.unit()) - 1.0) as usize).min(len - 1)
    }

    fn word(&mut self) -> &str {
        let rank = self.rank(self.words.len());
        &self.words[rank]
    }

    fn text(&mut self, words: u64, out: &mut String) {
        for at in 0..words {
            let gap = match self.rng.below(14) {
                _ if at == 0 => "",
                0 => ", ",
                1 => ". ",
                _ => " ",
            };
            out.push_str(gap);
            out.push_str(self.word());
        }
    }

    fn name(&mut self) -> String {
        let number = self.rng.below(90);
        let last = self.word().to_owned();
        format!("{}-{last}{number}", self.word())
    }

    fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits);
        while text.len() < digits {
            text.push_str(&format!("{:016x}", self.rng.next()));
        }
        text.truncate(digits);
        text
    }

    fn nested_json(&mut self, out: &mut String) -> FmtResult {
        let (kind, id) = (*self.rng.skewed(EVENT_KINDS), 30_000_000_000 + self.rng.below(9_000_000_000));
        let (user, user_id, repository, repository_id) =
            (self.name(), self.rng.below(90_000_000), self.name(), self.rng.below(700_000_000));
        write!(
            out,
            "{{\"id\":\"{id}\",\"type\":\"{kind}\",\"actor\":{{\"id\":{user_id},\"login\":\"{user}\",\"url\":\"https://api.example.com/users/{user}\"}},"
        )?;
        write!(out, "\"repo\":{{\"id\":{repository_id},\"name\":\"{user}/{repository}\"}},\"payload\":{{")?;
        match kind {
            "PushEvent" => {
                let commits = 1 + self.rank(20);
                let (head, before) = (self.hex(40), self.hex(40));
                write!(
                    out,
                    "\"size\":{commits},\"ref\":\"refs/heads/main\",\"head\":\"{head}\",\"before\":\"{before}\",\"commits\":["
                )?;
                for at in 0..commits {
                    let comma = if at == 0 { "" } else { "," };
                    let (hash, words) = (self.hex(40), 2 + self.rng.below(9));
                    write!(out, "{comma}{{\"sha\":\"{hash}\",\"author\":{{\"name\":\"{user}\"}},\"message\":\"")?;
                    self.text(words, out);
                    write!(out, "\",\"distinct\":{}}}", !self.rng.one_in(7))?;
                }
                out.push(']');
            }
            "IssuesEvent" | "IssueCommentEvent" | "PullRequestEvent" => {
                let (number, labels, words) = (self.rng.below(9_000), self.rank(6), 4 + self.rng.below(60));
                write!(
                    out,
                    "\"action\":\"{}\",\"number\":{number},\"labels\":[",
                    self.rng.skewed(&["opened", "closed", "edited"])
                )?;
                for at in 0..labels {
                    let comma = if at == 0 { "" } else { "," };
                    write!(out, "{comma}{{\"name\":\"{}\",\"color\":\"", self.word())?;
                    let color = self.hex(6);
                    write!(out, "{color}\",\"default\":false}}")?;
                }
                out.push_str("],\"body\":\"");
                self.text(words, out);
                out.push('"');
            }
            _ => {
                let words = 3 + self.rng.below(12);
                write!(out, "\"ref_type\":\"branch\",\"description\":\"")?;
                self.text(words, out);
                out.push('"');
            }
        }
        write!(out, "}},\"public\":true,\"created_at\":\"{}\"}}", self.time())
    }

    fn prose(&mut self, out: &mut String) -> FmtResult {
        let words = 8 + self.rng.below(50);
        write!(out, "{} ", self.time())?;
        self.text(words, out);
        out.push('.');
        Ok(())
    }

    fn table(&mut self, out: &mut String) -> FmtResult {
        let (time, customer, sku) = (self.time(), self.rng.below(400_000), self.rng.below(9_000));
        let (amount, unit) = (self.rng.tail(40.0), self.rng.unit());
        write!(out, "{time},{customer:08},SKU-{sku:05},{amount:.2},")?;
        match self.rng.below(4) {
            0 => out.push_str("\"\","),
            1 => {
                let words = 2 + self.rng.below(6);
                out.push('"');
                self.text(words, out);
                out.push_str("\",");
            }
            _ => write!(out, "{},", self.rng.skewed(&["EUR", "USD", "SEK", "GBP", "CHF"]))?,
        }
        let hash = self.hex(12);
        write!(out, "{unit:.6},{hash},{}", self.rng.skewed(&["paid", "open", "void", "returned"]))
    }

    fn trace(&mut self, out: &mut String) -> FmtResult {
        let (thread, id, words) = (self.rng.below(64), self.hex(8), 3 + self.rng.below(8));
        write!(out, "{} ERROR [worker-{thread}] request {id} failed: ", self.time())?;
        self.text(words, out);
        for cause in 0..1 + self.rank(3) {
            let (package, class) = (*self.rng.skewed(PACKAGES), *self.rng.skewed(CLASSES));
            let begin = if cause == 0 { "" } else { "Caused by: " };
            write!(out, "\n{begin}{package}.{class}Exception: ")?;
            let words = 2 + self.rng.below(5);
            self.text(words, out);
            for _ in 0..3 + self.rng.below(22) {
                let (package, class) = (*self.rng.skewed(PACKAGES), *self.rng.pick(CLASSES));
                let (method, line) = (*self.rng.pick(METHODS), 10 + self.rank(900));
                write!(out, "\n\tat {package}.{class}.{method}({class}.java:{line})")?;
            }
        }
        Ok(())
    }

    fn windows_xml(&mut self, out: &mut String) -> FmtResult {
        let (provider, channel) = *self.rng.skewed(PROVIDERS);
        let (event, record, process) = (4_600 + self.rank(200), self.millis / 350, 400 + self.rng.below(9_000));
        write!(
            out,
            "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'>\n  <System>\n    <Provider Name='{provider}'/>\n    <EventID>{event}</EventID>\n"
        )?;
        write!(
            out,
            "    <TimeCreated SystemTime='{}'/>\n    <EventRecordID>{record}</EventRecordID>\n    <Execution ProcessID='{process}' ThreadID='{}'/>\n    <Channel>{channel}</Channel>\n    <Computer>PC-{:03}.corp.example</Computer>\n  </System>\n  <EventData>\n",
            self.time(),
            self.rng.below(20_000),
            self.rng.below(200)
        )?;
        let first = self.rng.below(4) as usize;
        for name in DATA_NAMES.iter().skip(first).take(3 + self.rng.below(8) as usize) {
            write!(out, "    <Data Name='{name}'>")?;
            match *name {
                "SubjectUserSid" => {
                    write!(out, "S-1-5-21-{}-{}-1001", self.rng.below(4_000_000_000), self.rng.below(90))?
                }
                "IpAddress" => write!(out, "10.{}.{}.{}", self.rng.below(4), self.rng.below(256), self.rng.below(256))?,
                "IpPort" | "LogonType" => write!(out, "{}", self.rng.below(65_536))?,
                "SubjectLogonId" => write!(out, "0x{:x}", self.rng.below(1 << 28))?,
                "ProcessName" => write!(out, "C:\\Windows\\System32\\{}.exe", self.word())?,
                _ => out.push_str(self.word()),
            }
            out.push_str("</Data>\n");
        }
        out.push_str("  </EventData>\n</Event>");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(kind: Irregular, seed: u64) -> Vec<String> {
        let mut events = Vec::new();
        kind.write(seed, 100_000, 1_795_132_800, &mut |event| events.push(event.to_owned()));
        events
    }

    #[test]
    fn equal_seeds_give_equal_events() {
        for kind in Irregular::ALL {
            let events = made(kind, 5);
            assert_eq!(events, made(kind, 5));
            assert_ne!(events, made(kind, 6));
            assert!(events.len() > 30, "{kind:?}");
            assert!(events.iter().map(String::len).sum::<usize>() < 110_000);
        }
        assert!(made(Irregular::Traces, 1).iter().all(|event| event.lines().count() > 3));
    }

    #[test]
    fn word_frequencies_follow_their_rank() {
        let text = made(Irregular::Prose, 1).concat();
        let often = |word: &str| text.matches(&format!(" {word} ")).count();
        assert!(often("the") > 2 * often("in") && often("in") > often("usually"));
    }
}
