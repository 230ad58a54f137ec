//! OpenTelemetry log records as JSON, one record per line, wrapped in its resource and scope.
//!
//! Random: services and their versions, attributes, their types and how often each is present, bodies, severities, how
//! often a record belongs to a trace. Attributes are lists of key and value; rules extract three of them as fields, as
//! an administrator would configure.

use super::draw::{FOREIGN, Pool, Words, between, happens, hex, magnitude, noun, service, share, some_of};
use super::queries::{Field, Query, QuestionList, Roles};
use super::truth::push_quoted;
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Chance;
use crate::repeats::format_time;

const PROPS: &str = r#"[bench:otlp]
SHOULD_LINEMERGE = false
TRUNCATE = 1000000
TIME_PREFIX = "timeUnixNano":"
TIME_FORMAT = %s%9N
KV_MODE = json
EXTRACT-service = "key":"service\.name","value":\{"stringValue":"(?<service>[^"]*)"
EXTRACT-route = "key":"http\.route","value":\{"stringValue":"(?<route>[^"]*)"
EXTRACT-took = "key":"took_us","value":\{"intValue":"(?<took>\d+)"
"#;
const ATTRIBUTES: &[&str] = &[
    "net.peer.name",
    "thread.id",
    "code.function",
    "db.system",
    "rpc.method",
    "user.tier",
    "feature.flag",
    "cloud.zone",
    "process.pid",
    "messaging.topic",
    "retry.count",
    "cache.hit",
];
const RECORD: &str = "resourceLogs{}.scopeLogs{}.logRecords{}.";

/// Generator of this shape.
pub(super) struct Otlp {
    services: Pool,
    routes: Pool,
    scopes: Pool,
    severities: Pool,
    attributes: Vec<(&'static str, f64, Pool)>,
    bodies: Vec<String>,
    words: Words,
    with_trace: f64,
    with_took: f64,
    foreign: f64,
    typical_micros: f64,
}

impl Otlp {
    pub(super) fn draw(chance: &mut Chance) -> Otlp {
        let words = Words::draw(chance);
        let names = some_of(ATTRIBUTES, between(2, 9, chance) as usize, chance);
        let attributes = names
            .into_iter()
            .map(|name| {
                let count = magnitude(2, 200, chance);
                (name, share(0.05, 0.95, chance), Pool::distinct(count, chance, service))
            })
            .collect();
        let bodies = (0..magnitude(20, 200, chance)).map(|_| {
            let count = 3 + chance.below(8);
            words.phrase(count, chance)
        });
        let bodies = bodies.collect();
        Otlp {
            services: Pool::distinct(magnitude(5, 60, chance), chance, service),
            routes: Pool::distinct(magnitude(20, 500, chance), chance, |chance| {
                format!("/{}/{}", noun(chance), service(chance))
            }),
            scopes: Pool::distinct(magnitude(3, 30, chance), chance, |chance| format!("lib.{}", noun(chance))),
            severities: Pool::of(&["INFO", "WARN", "ERROR", "DEBUG"], chance),
            attributes,
            bodies,
            words,
            with_trace: share(0.3, 1.0, chance),
            with_took: share(0.3, 0.95, chance),
            foreign: share(0.0, 0.05, chance),
            typical_micros: magnitude(200, 90_000, chance) as f64,
        }
    }

    fn attribute(&self, name: &str, pool: &Pool, chance: &mut Chance) -> String {
        let value = match name {
            "thread.id" | "process.pid" | "retry.count" => format!("{{\"intValue\":\"{}\"}}", chance.below(900)),
            "cache.hit" => format!("{{\"boolValue\":{}}}", chance.one_in(3)),
            "feature.flag" if chance.one_in(9) => {
                let count = chance.below(4);
                let list: Vec<String> =
                    (0..count).map(|_| format!("{{\"stringValue\":\"{}\"}}", pool.pick(chance))).collect();
                format!("{{\"arrayValue\":{{\"values\":[{}]}}}}", list.join(","))
            }
            _ => format!("{{\"stringValue\":\"{}\"}}", pool.pick(chance)),
        };
        format!("{{\"key\":\"{name}\",\"value\":{value}}}")
    }
}

impl Shape for Otlp {
    fn name(&self) -> &'static str {
        "otlp"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "otlp.jsonl", sourcetype: "bench:otlp" }]
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        vec![("props.conf", PROPS.to_owned())]
    }

    fn columns(&self) -> Vec<Column> {
        let record = |rest: &str| format!("$.resourceLogs[0].scopeLogs[0].logRecords[0].{rest}");
        let by = |name, pattern| Column::by_pattern(name, Kind::Text, pattern);
        vec![
            Column::by_path("severity", Kind::Text, &record("severityText")),
            Column::by_path("severity_number", Kind::Integer, &record("severityNumber")),
            Column::by_path("body", Kind::Text, &record("body.stringValue")),
            Column::by_path("trace", Kind::Text, &record("traceId")),
            Column::by_path("scope", Kind::Text, "$.resourceLogs[0].scopeLogs[0].scope.name"),
            by("service", r#""key":"service\.name","value":\{"stringValue":"([^"]*)""#),
            by("route", r#""key":"http\.route","value":\{"stringValue":"([^"]*)""#),
            Column::by_pattern("took", Kind::Integer, r#""key":"took_us","value":\{"intValue":"(\d+)""#),
        ]
    }

    fn event(&mut self, millis: i64, chance: &mut Chance) -> Event {
        let nanos = format!("{}{:06}", format_time(millis, "%s%3f"), chance.below(1_000_000));
        let (service, scope) = (self.services.pick(chance).to_owned(), self.scopes.pick(chance).to_owned());
        let severity = self.severities.pick(chance).to_owned();
        let number = match severity.as_str() {
            "DEBUG" => 5,
            "INFO" => 9,
            "WARN" => 13,
            _ => 17,
        };
        let mut body = format!("{} {}", chance.skewed(&self.bodies), chance.below(5_000));
        if happens(self.foreign, chance) {
            body.push_str(&format!(" \"{}\" {}", chance.pick(FOREIGN), self.words.word(chance)));
        }
        let mut shown_body = String::new();
        push_quoted(&body, &mut shown_body);
        let route = (!chance.one_in(4)).then(|| self.routes.pick(chance).to_owned());
        let took = happens(self.with_took, chance).then(|| chance.tail(self.typical_micros) as i64);
        let trace = happens(self.with_trace, chance).then(|| hex(32, chance));
        let mut attributes: Vec<String> = Vec::new();
        attributes.extend(
            route.as_ref().map(|route| format!("{{\"key\":\"http.route\",\"value\":{{\"stringValue\":\"{route}\"}}}}")),
        );
        attributes.extend(took.map(|took| format!("{{\"key\":\"took_us\",\"value\":{{\"intValue\":\"{took}\"}}}}")));
        for (name, share, pool) in &self.attributes {
            if happens(*share, chance) {
                attributes.push(self.attribute(name, pool, chance));
            }
        }
        let ids = trace
            .as_ref()
            .map_or_else(String::new, |trace| format!(",\"traceId\":\"{trace}\",\"spanId\":\"{}\"", &trace[..16]));
        let text = format!(
            "{{\"resourceLogs\":[{{\"resource\":{{\"attributes\":[{{\"key\":\"service.name\",\"value\":{{\"stringValue\":\"{service}\"}}}},{{\"key\":\"host.arch\",\"value\":{{\"stringValue\":\"amd64\"}}}}]}},\"scopeLogs\":[{{\"scope\":{{\"name\":\"{scope}\"}},\"logRecords\":[{{\"timeUnixNano\":\"{nanos}\",\"severityNumber\":{number},\"severityText\":\"{severity}\",\"body\":{{\"stringValue\":{shown_body}}},\"attributes\":[{}]{ids}}}]}}]}}]}}",
            attributes.join(",")
        );
        let values = vec![
            Value::Text(severity),
            Value::Integer(number),
            Value::Text(body),
            Value::maybe(trace),
            Value::Text(scope),
            Value::Text(service),
            Value::maybe(route),
            took.map_or(Value::Absent, Value::Integer),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let record = |rest: &str| format!("{RECORD}{rest}");
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::new(record("severityText"), "severity"),
            other: Field::same("service"),
            many: Field::same("route"),
            most: Field::new(record("body.stringValue"), "body"),
            number: Field::same("took"),
            id: Field::new(record("traceId"), "trace"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "count by scope",
            "stats count by \"resourceLogs{}.scopeLogs{}.scope.name\"",
            "select scope, count(*) from parsed group by scope",
        );
        questions.ask(
            "rename",
            &format!("rename \"{}\" as level | stats avg(level) by service", record("severityNumber")),
            "select service, avg(severity_number) from parsed group by service",
        );
        questions.ask(
            "spath",
            &format!("spath path={} output=s | stats count by s", record("severityText")),
            "select severity, count(*) from parsed group by severity",
        );
        questions.ask(
            "rex and dc",
            "rex \"\\\"traceId\\\":\\\"(?<start>[0-9a-f]{4})\" | stats dc(start)",
            "select count(distinct part(raw, '\"traceId\":\"([0-9a-f]{4})')) from parsed",
        );
        questions.queries()
    }
}
