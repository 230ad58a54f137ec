//! IIS logs in W3C's extended format, whose columns are index-time fields.
//!
//! Random: sites and servers, paths and parameters, users and how many are anonymous, clients, browsers, which optional
//! columns there are, how often a value is missing. The settings name the columns, because a shape writes no header.

use super::draw::{Pool, address, between, happens, magnitude, noun, service, share, some_of, user};
use super::queries::{Field, Query, QuestionList, Roles};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

/// Columns of every log.
const COLUMNS: &[&str] = &[
    "date",
    "time",
    "s_ip",
    "cs_method",
    "cs_uri_stem",
    "cs_uri_query",
    "s_port",
    "cs_username",
    "c_ip",
    "cs_User_Agent",
    "sc_status",
    "sc_bytes",
    "time_taken",
    "request_id",
];
const OPTIONAL: &[&str] = &["s_sitename", "s_computername", "cs_version", "cs_host", "cs_Referer", "sc_win32_status"];

/// Generator of this shape.
pub(super) struct Iis {
    servers: Pool,
    methods: Pool,
    stems: Pool,
    parameters: Pool,
    users: Pool,
    clients: Pool,
    agents: Pool,
    statuses: Pool,
    optional: Vec<(&'static str, Pool)>,
    anonymous: f64,
    has_query: f64,
    typical_bytes: f64,
    typical_millis: f64,
}

impl Iis {
    pub(super) fn draw(rng: &mut Rng) -> Iis {
        let names = some_of(OPTIONAL, between(1, OPTIONAL.len() as u64, rng) as usize, rng);
        let optional =
            names.into_iter().map(|name| (name, Pool::distinct(magnitude(2, 60, rng), rng, service))).collect();
        let path = |rng: &mut Rng| match rng.below(3) {
            0 => format!("/{}/{}/{}", noun(rng), noun(rng), rng.below(500)),
            1 => format!("/{}.aspx", noun(rng)),
            _ => format!("/api/{}/{}", noun(rng), noun(rng)),
        };
        let agent =
            |rng: &mut Rng| format!("Mozilla/5.0+(Windows+NT+10.0;+Win64;+x64)+{}/{}.0", noun(rng), 60 + rng.below(80));
        Iis {
            servers: Pool::distinct(between(1, 6, rng), rng, |rng| address(true, rng)),
            methods: Pool::of(&["GET", "POST", "HEAD", "OPTIONS"], rng),
            stems: Pool::distinct(magnitude(40, 3_000, rng), rng, path),
            parameters: Pool::distinct(between(2, 9, rng), rng, |rng| noun(rng).to_owned()),
            users: Pool::distinct(magnitude(20, 2_000, rng), rng, user),
            clients: Pool::distinct(magnitude(300, 30_000, rng), rng, |rng| address(false, rng)),
            agents: Pool::distinct(magnitude(10, 300, rng), rng, agent),
            statuses: Pool::of(&["200", "304", "404", "500", "302", "401", "503"], rng),
            optional,
            anonymous: share(0.1, 0.9, rng),
            has_query: share(0.1, 0.8, rng),
            typical_bytes: magnitude(500, 40_000, rng) as f64,
            typical_millis: magnitude(20, 800, rng) as f64,
        }
    }

    fn names(&self) -> Vec<&'static str> {
        COLUMNS.iter().copied().chain(self.optional.iter().map(|(name, _)| *name)).collect()
    }
}

impl Shape for Iis {
    fn name(&self) -> &'static str {
        "iis"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "iis.log", sourcetype: "bench:iis" }]
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        let names = self.names().join(",");
        let settings = "SHOULD_LINEMERGE = false\nINDEXED_EXTRACTIONS = w3c\nTZ = UTC\nKV_MODE = none\n";
        vec![("props.conf", format!("[bench:iis]\n{settings}FIELD_NAMES = {names}\n"))]
    }

    fn columns(&self) -> Vec<Column> {
        let names = self.names();
        let of = |name: &str, kind| {
            let before = names.iter().position(|known| *known == name).unwrap_or_default();
            Column::by_pattern(name, kind, &format!(r"^(?:\S+ ){{{before}}}(\S+)"))
        };
        let texts = ["cs_method", "cs_uri_stem", "cs_uri_query", "cs_username", "c_ip", "sc_status", "request_id"];
        let numbers = ["sc_bytes", "time_taken"];
        let texts = texts.into_iter().map(|name| of(name, Kind::Text));
        texts.chain(numbers.into_iter().map(|name| of(name, Kind::Integer))).collect()
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let time = format_time(millis, "%Y-%m-%d %H:%M:%S");
        let (server, method, stem) =
            (self.servers.pick(rng).to_owned(), self.methods.pick(rng).to_owned(), self.stems.pick(rng));
        let stem = stem.to_owned();
        let query = match happens(self.has_query, rng) {
            true => format!("{}={}", self.parameters.pick(rng), rng.below(10_000)),
            false => "-".to_owned(),
        };
        let user = if happens(self.anonymous, rng) { "-".to_owned() } else { self.users.pick(rng).to_owned() };
        let (client, agent) = (self.clients.pick(rng).to_owned(), self.agents.pick(rng).to_owned());
        let status = self.statuses.pick(rng).to_owned();
        let (bytes, taken) = (rng.tail(self.typical_bytes) as i64, rng.tail(self.typical_millis) as i64);
        let id = format!("{:016x}", rng.next());
        let mut text = format!(
            "{time} {server} {method} {stem} {query} 443 {user} {client} {agent} {status} {bytes} {taken} {id}"
        );
        for (_, pool) in &self.optional {
            text.push(' ');
            text.push_str(if rng.one_in(4) { "-" } else { pool.pick(rng) });
        }
        let texts = [method, stem, query, user, client, status, id].map(Value::Text);
        let values = texts.into_iter().chain([bytes, taken].map(Value::Integer)).collect();
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::same("cs_method"),
            other: Field::same("sc_status"),
            many: Field::same("cs_uri_stem"),
            most: Field::same("c_ip"),
            number: Field::same("time_taken"),
            id: Field::same("request_id"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        let user = samples.value("cs_username", 3);
        questions.find(
            "index-time value",
            &format!("cs_username::{user}"),
            "stats count sum(sc_bytes) by sc_status",
            &format!(
                "select sc_status, count(*), sum(sc_bytes) from parsed where cs_username = '{user}' group by sc_status"
            ),
        );
        questions.ask(
            "dc by status",
            "stats dc(c_ip) by sc_status",
            "select sc_status, count(distinct c_ip) from parsed group by sc_status",
        );
        questions.queries()
    }
}
