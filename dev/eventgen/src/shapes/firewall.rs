//! A firewall's key=value records and the text messages of a Cisco ASA, mixed in one file.
//!
//! Random: the share of either kind, the optional keys and how often each is present, whether values are quoted,
//! addresses, users, rules. The fields of the text messages come from rules such as an administrator would write.

use super::draw::{Pool, address, between, happens, magnitude, noun, service, share, some_of, user};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const OPTIONAL: &[&str] =
    &["app", "srccountry", "dstcountry", "policyname", "vd", "devname", "loglevel", "sessiontime", "nat", "tag"];
const PROPS: &str = r"[bench:firewall]
SHOULD_LINEMERGE = false
MAX_TIMESTAMP_LOOKAHEAD = 40
EXTRACT-code = %ASA-(?<severity>\d)-(?<code>\d+):
REPORT-connection = bench_asa_connection
";
const TRANSFORMS: &str = r"[bench_asa_connection]
REGEX = (Built|Teardown) \w+ (TCP|UDP) connection (\d+) for (\w+):([\d.]+)/(\d+) to (\w+):([\d.]+)/(\d+)
FORMAT = verb::$1 transport::$2 connection::$3 src_zone::$4 src_ip::$5 src_port::$6 dest_zone::$7 dest_ip::$8 dest_port::$9
";

/// Generator of this shape.
pub(super) struct Firewall {
    inside: Pool,
    outside: Pool,
    ports: Pool,
    rules: Pool,
    users: Pool,
    actions: Pool,
    optional: Vec<(&'static str, f64, Pool)>,
    asa: f64,
    is_quoted: bool,
    connection: u64,
    session: u64,
    typical_bytes: f64,
}

impl Firewall {
    pub(super) fn draw(rng: &mut Rng) -> Firewall {
        let names = some_of(OPTIONAL, between(2, 9, rng) as usize, rng);
        let optional = names
            .into_iter()
            .map(|name| {
                let count = magnitude(2, 80, rng);
                (name, share(0.02, 0.95, rng), Pool::distinct(count, rng, service))
            })
            .collect();
        Firewall {
            inside: Pool::distinct(magnitude(60, 6_000, rng), rng, |rng| address(true, rng)),
            outside: Pool::distinct(magnitude(300, 30_000, rng), rng, |rng| address(false, rng)),
            ports: Pool::of(&["443", "80", "53", "22", "25", "3389", "8443", "123", "445", "1433"], rng),
            rules: Pool::distinct(magnitude(10, 250, rng), rng, |rng| format!("{} to {}", noun(rng), noun(rng))),
            users: Pool::distinct(magnitude(20, 900, rng), rng, user),
            actions: Pool::of(&["accept", "deny", "close", "timeout"], rng),
            optional,
            asa: share(0.2, 0.7, rng),
            is_quoted: rng.one_in(2),
            connection: between(1_000_000, 90_000_000, rng),
            session: between(1_000_000, 90_000_000, rng),
            typical_bytes: magnitude(500, 40_000, rng) as f64,
        }
    }

    fn asa(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let time = format_time(millis, "%Y-%m-%dT%H:%M:%S%.3fZ");
        let (inside, outside) = (self.inside.pick(rng).to_owned(), self.outside.pick(rng).to_owned());
        let (port, client_port) = (self.ports.pick(rng).to_owned(), between(1_024, 65_535, rng));
        let mut values = vec![Value::Absent; 10];
        let (code, message) = match rng.below(5) {
            0 | 1 => {
                self.connection += 1 + rng.below(3);
                let connection = self.connection;
                let is_built = rng.one_in(2);
                let transport = if rng.one_in(4) { "UDP" } else { "TCP" };
                let verb = if is_built { "Built" } else { "Teardown" };
                let (word, end) = if is_built {
                    ("outbound", format!(" ({inside}/{client_port})"))
                } else {
                    (
                        "expired",
                        format!(" duration 0:00:{:02} bytes {}", rng.below(60), rng.tail(self.typical_bytes) as u64),
                    )
                };
                values[3] = Value::text(&outside);
                values[4] = Value::text(&inside);
                values[8] = Value::text(verb);
                values[9] = Value::text(connection.to_string());
                let code = if is_built { "302013" } else { "302014" };
                (
                    code,
                    format!(
                        "{verb} {word} {transport} connection {connection} for outside:{outside}/{port} to inside:{inside}/{client_port}{end}"
                    ),
                )
            }
            2 => (
                "106023",
                format!(
                    "Deny tcp src outside:{outside}/{client_port} dst inside:{inside}/{port} by access-group \"{}\" [0x0, 0x0]",
                    self.rules.pick(rng)
                ),
            ),
            3 => (
                "113019",
                format!(
                    "Group = {}, Username = {}, IP = {outside}, Session disconnected. Session Type: SSL, Duration: 0h:{:02}m",
                    service(rng),
                    self.users.pick(rng),
                    rng.below(60)
                ),
            ),
            _ => (
                "305011",
                format!("Built dynamic TCP translation from inside:{inside}/{client_port} to outside:{outside}/{port}"),
            ),
        };
        let severity = if code == "106023" { 4 } else { 6 };
        values[6] = Value::Integer(severity);
        values[7] = Value::text(code);
        Event { file: 0, text: format!("{time} fw-edge %ASA-{severity}-{code}: {message}"), values }
    }

    fn record(&mut self, millis: i64, rng: &mut Rng) -> Event {
        self.session += 1 + rng.below(5);
        let time = format_time(millis, "%Y-%m-%dT%H:%M:%S%.3fZ");
        let (inside, outside) = (self.inside.pick(rng).to_owned(), self.outside.pick(rng).to_owned());
        let (action, rule) = (self.actions.pick(rng).to_owned(), self.rules.pick(rng).to_owned());
        let (port, sent) = (self.ports.pick(rng).to_owned(), rng.tail(self.typical_bytes) as i64);
        let user = rng.one_in(3).then(|| self.users.pick(rng).to_owned());
        let shown = |value: &str| if self.is_quoted { format!("\"{value}\"") } else { value.to_owned() };
        let mut text = format!(
            "{time} fw-core type=traffic action={} srcip={inside} dstip={outside} dstport={port} proto=6 rule=\"{rule}\" sentbyte={sent} sessionid={}",
            shown(&action),
            self.session
        );
        if let Some(user) = &user {
            text.push_str(&format!(" user={}", shown(user)));
        }
        for (name, share, pool) in &self.optional {
            if happens(*share, rng) {
                text.push_str(&format!(" {name}={}", shown(pool.pick(rng))));
            }
        }
        let values = vec![
            Value::Text(action),
            Value::Text(rule),
            Value::maybe(user),
            Value::Text(outside),
            Value::Text(inside),
            Value::Integer(sent),
            Value::Absent,
            Value::Absent,
            Value::Absent,
            Value::text(self.session.to_string()),
        ];
        Event { file: 0, text, values }
    }

    /// Adds questions about the text messages, which search by extracted fields and by phrases.
    fn add_message_questions(&self, questions: &mut QuestionList<'_>, samples: &Samples) {
        questions.text(
            "count by code",
            "",
            "stats count by code",
            "select code, count(*) from parsed where code is not null group by code",
        );
        questions.text(
            "count by code and severity",
            "",
            "stats count by code severity",
            "select code, severity, count(*) from parsed where code is not null group by code, severity",
        );
        questions.text(
            "count by verb",
            "",
            "stats count dc(connection) by verb",
            "select verb, count(*), count(distinct session) from parsed where verb is not null group by verb",
        );
        questions.text(
            "dc by rule of transforms",
            "verb=Teardown",
            "stats dc(dest_ip) by verb",
            "select verb, count(distinct inside) from parsed where verb = 'Teardown' group by verb",
        );
        let outside = samples.row(&["outside", "verb"], 3).swap_remove(0);
        for port in ["443", "22"] {
            let phrase = format!("outside:{outside}/{port}");
            questions.text(
                &format!("phrase {port}"),
                &format!("\"{phrase}\""),
                "stats count",
                &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
            );
        }
        let session = samples.row(&["session", "verb"], 5).swap_remove(0);
        let phrase = format!("TCP connection {session}");
        questions.text(
            "phrase and number",
            &format!("\"{phrase}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
        );
        let phrase = if self.is_quoted { "action=\"deny\"" } else { "action=deny" };
        let search = phrase.replace('"', "\\\"");
        questions.text(
            "quoted pair",
            &format!("\"{search}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(phrase)),
        );
        questions.text(
            "rex and dc",
            "",
            "rex \"connection (?<number>\\d+) for\" | stats dc(number)",
            "select count(distinct part(raw, 'connection (\\d+) for')) from parsed",
        );
    }
}

impl Shape for Firewall {
    fn name(&self) -> &'static str {
        "firewall"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "firewall.log", sourcetype: "bench:firewall" }]
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        vec![("props.conf", PROPS.to_owned()), ("transforms.conf", TRANSFORMS.to_owned())]
    }

    fn columns(&self) -> Vec<Column> {
        let by = |name, pattern| Column::by_pattern(name, Kind::Text, pattern);
        let connection = |rest: &str| format!(r"(?:Built|Teardown) \w+ (?:TCP|UDP) connection {rest}");
        let either = |name, key: &str, asa: &str| {
            Column::new(
                name,
                Kind::Text,
                format!(r"coalesce(part(raw, ' {key}=([^\s]+)'), part(raw, '{}'))", connection(asa)),
            )
        };
        vec![
            by("action", r#" action="?(\w+)"#),
            by("rule", r#" rule="([^"]*)""#),
            by("user_name", r#" user="?([^\s"]+)"#),
            either("outside", "dstip", r"\d+ for outside:([\d.]+)"),
            either("inside", "srcip", r"\d+ for \S+ to inside:([\d.]+)"),
            Column::by_pattern("sent", Kind::Integer, r" sentbyte=(\d+)"),
            Column::by_pattern("severity", Kind::Integer, r"%ASA-(\d)-"),
            by("code", r"%ASA-\d-(\d+):"),
            by("verb", r"(Built|Teardown) \w+ (?:TCP|UDP) connection"),
            either("session", "sessionid", r"(\d+) for"),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        if happens(self.asa, rng) { self.asa(millis, rng) } else { self.record(millis, rng) }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        // The two kinds of events name an address differently; the questions use the name in the key=value records.
        let roles = Roles {
            base: "index=main type=traffic".to_owned(),
            only: "action is not null",
            few: Field::same("action"),
            other: Field::new("user", "user_name"),
            many: Field::same("rule"),
            most: Field::new("dstip", "outside"),
            number: Field::new("sentbyte", "sent"),
            id: Field::new("sessionid", "session"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        self.add_message_questions(&mut questions, samples);
        questions.queries()
    }
}
