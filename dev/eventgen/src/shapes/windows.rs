//! Windows events as XML, as a forwarder sends them: one `<Event>` after another, with named `<Data>`.
//!
//! Random: the events that occur and the data of each, computers, accounts and processes, whether an event is one line
//! or many, single or double quotes, how often values are `-`, contain entities, or are long.

use super::draw::{Pool, Words, address, between, happens, hex, magnitude, noun, share, some_of, user};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const DATA: &[&str] = &[
    "SubjectUserSid",
    "SubjectDomainName",
    "TargetDomainName",
    "Status",
    "FailureReason",
    "WorkstationName",
    "AuthenticationPackageName",
    "IpPort",
    "ObjectName",
    "AccessMask",
    "PrivilegeList",
    "CommandLine",
    "TaskName",
    "ServiceName",
    "TicketOptions",
    "ParentProcessName",
    "ElevatedToken",
    "Hashes",
];

/// Rules that add-ons define for such events: aliases, and fields calculated from one field, from several fields and
/// from a missing field.
const PROPS: &str = r#"[XmlWinEventLog]
FIELDALIAS-dest = Computer AS dest, IpAddress ASNEW src
EVAL-severity_name = case(Level=1, "critical", Level=2, "error", Level=3, "warning", true(), "information")
EVAL-session = dest . ":" . coalesce(LogonType, "none")
EVAL-account = if(isnull(TargetUserName), "nobody", upper(TargetUserName))
"#;

/// A kind of event with the names of its data.
struct EventKind {
    id: u64,
    names: Vec<&'static str>,
}

/// Generator of this shape.
pub(super) struct Windows {
    kinds: Vec<EventKind>,
    order: Pool,
    computers: Pool,
    users: Pool,
    processes: Pool,
    addresses: Pool,
    logon_types: Pool,
    channels: Pool,
    words: Words,
    is_one_line: bool,
    quote: char,
    dashes: f64,
    entities: f64,
    long: f64,
    record: i64,
}

impl Windows {
    pub(super) fn draw(rng: &mut Rng) -> Windows {
        let count = magnitude(8, 60, rng);
        let ids = Pool::distinct(count, rng, |rng| between(4_608, 5_160, rng).to_string());
        let kinds: Vec<EventKind> = ids
            .values()
            .iter()
            .map(|id| {
                let count = between(1, 11, rng) as usize;
                EventKind { id: id.parse().unwrap_or_default(), names: some_of(DATA, count, rng) }
            })
            .collect();
        let order = (0..kinds.len()).map(|at| at.to_string()).collect();
        Windows {
            kinds,
            order: Pool::new(order, rng),
            computers: Pool::distinct(magnitude(10, 900, rng), rng, |rng| {
                format!("{}{:03}.corp.example", noun(rng), rng.below(400))
            }),
            users: Pool::distinct(magnitude(20, 3_000, rng), rng, user),
            processes: Pool::distinct(magnitude(10, 300, rng), rng, |rng| {
                format!("C:\\Program Files\\{}\\{}.exe", noun(rng), noun(rng))
            }),
            addresses: Pool::distinct(magnitude(50, 6_000, rng), rng, |rng| address(true, rng)),
            logon_types: Pool::of(&["2", "3", "4", "5", "7", "10"], rng),
            channels: Pool::of(&["Security", "System", "Application"], rng),
            words: Words::draw(rng),
            is_one_line: rng.one_in(2),
            quote: if rng.one_in(2) { '\'' } else { '"' },
            dashes: share(0.02, 0.4, rng),
            entities: share(0.0, 0.1, rng),
            long: share(0.0, 0.01, rng),
            record: between(1_000, 90_000_000, rng) as i64,
        }
    }

    fn datum(&self, name: &str, rng: &mut Rng) -> String {
        if happens(self.dashes, rng) {
            return "-".to_owned();
        }
        if happens(self.entities, rng) {
            return format!("{} &lt;{}&gt; &amp; &quot;{}&quot;", noun(rng), noun(rng), noun(rng));
        }
        match name {
            "SubjectUserSid" => format!("S-1-5-21-{}-{}", rng.below(4_000_000_000), 1_000 + rng.below(900)),
            "IpPort" => between(1_024, 65_535, rng).to_string(),
            "Status" | "AccessMask" | "TicketOptions" => format!("0x{}", hex(8, rng)),
            "CommandLine" => {
                let count = if happens(self.long, rng) { 300 } else { 2 + rng.below(6) };
                format!("powershell.exe -File {}", self.words.phrase(count, rng))
            }
            "ElevatedToken" => rng.pick(&["%%1842", "%%1843"]).to_string(),
            _ => noun(rng).to_uppercase(),
        }
    }
}

impl Shape for Windows {
    fn name(&self) -> &'static str {
        "windows"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "events.xml", sourcetype: "XmlWinEventLog" }]
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        vec![("props.conf", PROPS.to_owned())]
    }

    fn columns(&self) -> Vec<Column> {
        let data = |name: &str| format!("<Data Name=[''\"]{name}[''\"]>([^<]*)</Data>");
        let by = |name, kind, pattern: &str| Column::new(name, kind, format!("part(raw, '{pattern}')"));
        vec![
            by("event_id", Kind::Integer, "<EventID>(\\d+)</EventID>"),
            by("level", Kind::Integer, "<Level>(\\d+)</Level>"),
            by("channel", Kind::Text, "<Channel>([^<]*)</Channel>"),
            by("computer", Kind::Text, "<Computer>([^<]*)</Computer>"),
            by("record", Kind::Text, "<EventRecordID>(\\d+)</EventRecordID>"),
            by("process_id", Kind::Integer, "ProcessID=[''\"](\\d+)"),
            by("target", Kind::Text, &data("TargetUserName")),
            by("logon_type", Kind::Text, &data("LogonType")),
            by("ip", Kind::Text, &data("IpAddress")),
            by("process", Kind::Text, &data("ProcessName")),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        self.record += 1;
        let at: usize = self.order.pick(rng).parse().unwrap_or_default();
        let kind = &self.kinds[at.min(self.kinds.len() - 1)];
        let (computer, channel) = (self.computers.pick(rng).to_owned(), self.channels.pick(rng).to_owned());
        let (level, process_id) = (rng.below(5) as i64, between(300, 60_000, rng) as i64);
        let (record, time) = (self.record, format_time(millis, "%Y-%m-%dT%H:%M:%S%.3fZ"));
        let target = (!rng.one_in(6)).then(|| self.users.pick(rng).to_owned());
        let logon_type = rng.one_in(2).then(|| self.logon_types.pick(rng).to_owned());
        let ip = rng.one_in(2).then(|| self.addresses.pick(rng).to_owned());
        let process = rng.one_in(2).then(|| self.processes.pick(rng).to_owned());
        let (line, deep) = if self.is_one_line { ("", "") } else { ("\n  ", "\n    ") };
        let q = self.quote;
        let mut text = format!(
            "<Event xmlns={q}http://schemas.microsoft.com/win/2004/08/events/event{q}>{line}<System>{deep}<Provider Name={q}Microsoft-Windows-Security-Auditing{q} Guid={q}{{54849625-5478-4994-a5ba-3e3b0328c30d}}{q}/>{deep}<EventID>{}</EventID>{deep}<Version>1</Version>{deep}<Level>{level}</Level>{deep}<Task>12544</Task>{deep}<Opcode>0</Opcode>{deep}<Keywords>0x8020000000000000</Keywords>{deep}<TimeCreated SystemTime={q}{time}{q}/>{deep}<EventRecordID>{record}</EventRecordID>{deep}<Execution ProcessID={q}{process_id}{q} ThreadID={q}{}{q}/>{deep}<Channel>{channel}</Channel>{deep}<Computer>{computer}</Computer>{deep}<Security/>{line}</System>{line}<EventData>",
            kind.id,
            rng.below(20_000)
        );
        let mut datum =
            |name: &str, value: &str| text.push_str(&format!("{deep}<Data Name={q}{name}{q}>{value}</Data>"));
        let known =
            [("TargetUserName", &target), ("LogonType", &logon_type), ("IpAddress", &ip), ("ProcessName", &process)];
        for (name, value) in known.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            datum(name, value);
        }
        for name in &kind.names {
            datum(name, &self.datum(name, rng));
        }
        let end = if self.is_one_line { "" } else { "\n" };
        text.push_str(&format!("{line}</EventData>{end}</Event>"));
        let values = vec![
            Value::Integer(kind.id as i64),
            Value::Integer(level),
            Value::Text(channel),
            Value::Text(computer),
            Value::Text(record.to_string()),
            Value::Integer(process_id),
            Value::maybe(target),
            Value::maybe(logon_type),
            Value::maybe(ip),
            Value::maybe(process),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::new("Channel", "channel"),
            other: Field::new("EventID", "event_id"),
            many: Field::new("Computer", "computer"),
            most: Field::new("IpAddress", "ip"),
            number: Field::new("ProcessID", "process_id"),
            id: Field::new("EventRecordID", "record"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "count by event",
            "stats count by EventID",
            "select event_id, count(*) from parsed group by event_id",
        );
        questions.ask(
            "count by code",
            "stats count by EventCode Level",
            "select event_id, level, count(*) from parsed group by event_id, level",
        );
        add_rule_questions(&mut questions);
        questions.ask(
            "named data",
            "stats count by LogonType",
            "select logon_type, count(*) from parsed where logon_type is not null group by logon_type",
        );
        questions.find(
            "named data condition",
            "LogonType=3",
            "stats dc(TargetUserName)",
            "select count(distinct target) from parsed where logon_type = '3'",
        );
        questions.ask(
            "dc of named data",
            "stats dc(ProcessName) by EventID",
            "select event_id, count(distinct process) from parsed group by event_id",
        );
        let user = samples.value("target", 21);
        let phrase = format!("TargetUserName{q}>{user}", q = self.quote);
        let search = phrase.replace('"', "\\\"");
        questions.text(
            "phrase",
            &format!("\"{search}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
        );
        questions.ask(
            "rex and dc",
            "rex \"<Data Name=.ProcessName.>(?<path>[^<]+)\\\\\\\\\" | stats dc(path)",
            "select count(distinct part(raw, '<Data Name=.ProcessName.>([^<]+)\\\\')) from parsed",
        );
        questions.queries()
    }
}

/// Adds questions about fields that come from rules.
fn add_rule_questions(questions: &mut QuestionList<'_>) {
    questions.ask(
        "alias",
        "stats dc(src) by dest",
        "select computer, count(distinct ip) from parsed group by computer",
    );
    let severity = "case when level = 1 then 'critical' when level = 2 then 'error' when level = 3 then 'warning' else 'information' end";
    questions.ask(
        "calculated field",
        "stats count by severity_name",
        &format!("select {severity}, count(*) from parsed group by all"),
    );
    questions.find(
        "calculated condition",
        "severity_name=error NOT account=nobody",
        "stats count by EventCode",
        "select event_id, count(*) from parsed where level = 2 and target is not null and upper(target) <> 'NOBODY' group by event_id",
    );
    questions.ask(
        "calculated of two",
        "stats dc(session) by severity_name",
        &format!("select {severity}, count(distinct computer || ':' || coalesce(logon_type, 'none')) from parsed group by all"),
    );
}
