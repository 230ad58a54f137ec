//! OpenTelemetry log records as JSON, one record per line, wrapped in its resource and scope.
//!
//! Random: services, routes and scopes, attributes and how often each is present, bodies, severities, how often a
//! record belongs to a trace. Attributes are lists of key and value; rules extract three of them as fields, as an
//! administrator would configure.

use super::draw::{FOREIGN, Pool, Words, between, happens, hex, magnitude, noun, service, share, some_of};
use super::queries::{Field, Query, QuestionList, Roles};
use super::truth::push_quoted;
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
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
    pub(super) fn draw(rng: &mut Rng) -> Otlp {
        let words = Words::draw(rng);
        let names = some_of(ATTRIBUTES, between(2, 9, rng) as usize, rng);
        let attributes = names
            .into_iter()
            .map(|name| {
                let count = magnitude(2, 200, rng);
                (name, share(0.05, 0.95, rng), Pool::distinct(count, rng, service))
            })
            .collect();
        let bodies = (0..magnitude(20, 200, rng)).map(|_| {
            let count = 3 + rng.below(8);
            words.phrase(count, rng)
        });
        let bodies = bodies.collect();
        Otlp {
            services: Pool::distinct(magnitude(5, 60, rng), rng, service),
            routes: Pool::distinct(magnitude(20, 500, rng), rng, |rng| format!("/{}/{}", noun(rng), service(rng))),
            scopes: Pool::distinct(magnitude(3, 30, rng), rng, |rng| format!("lib.{}", noun(rng))),
            severities: Pool::of(&["INFO", "WARN", "ERROR", "DEBUG"], rng),
            attributes,
            bodies,
            words,
            with_trace: share(0.3, 1.0, rng),
            with_took: share(0.3, 0.95, rng),
            foreign: share(0.0, 0.05, rng),
            typical_micros: magnitude(200, 90_000, rng) as f64,
        }
    }

    fn attribute(&self, name: &str, pool: &Pool, rng: &mut Rng) -> String {
        let value = match name {
            "thread.id" | "process.pid" | "retry.count" => format!("{{\"intValue\":\"{}\"}}", rng.below(900)),
            "cache.hit" => format!("{{\"boolValue\":{}}}", rng.one_in(3)),
            "feature.flag" if rng.one_in(9) => {
                let count = rng.below(4);
                let list: Vec<String> =
                    (0..count).map(|_| format!("{{\"stringValue\":\"{}\"}}", pool.pick(rng))).collect();
                format!("{{\"arrayValue\":{{\"values\":[{}]}}}}", list.join(","))
            }
            _ => format!("{{\"stringValue\":\"{}\"}}", pool.pick(rng)),
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

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let nanos = format!("{}{:06}", format_time(millis, "%s%3f"), rng.below(1_000_000));
        let (service, scope) = (self.services.pick(rng).to_owned(), self.scopes.pick(rng).to_owned());
        let severity = self.severities.pick(rng).to_owned();
        let number = match severity.as_str() {
            "DEBUG" => 5,
            "INFO" => 9,
            "WARN" => 13,
            _ => 17,
        };
        let mut body = format!("{} {}", rng.skewed(&self.bodies), rng.below(5_000));
        if happens(self.foreign, rng) {
            body.push_str(&format!(" \"{}\" {}", rng.pick(FOREIGN), self.words.word(rng)));
        }
        let mut shown_body = String::new();
        push_quoted(&body, &mut shown_body);
        let route = (!rng.one_in(4)).then(|| self.routes.pick(rng).to_owned());
        let took = happens(self.with_took, rng).then(|| rng.tail(self.typical_micros) as i64);
        let trace = happens(self.with_trace, rng).then(|| hex(32, rng));
        let mut attributes: Vec<String> = Vec::new();
        attributes.extend(
            route.as_ref().map(|route| format!("{{\"key\":\"http.route\",\"value\":{{\"stringValue\":\"{route}\"}}}}")),
        );
        attributes.extend(took.map(|took| format!("{{\"key\":\"took_us\",\"value\":{{\"intValue\":\"{took}\"}}}}")));
        for (name, share, pool) in &self.attributes {
            if happens(*share, rng) {
                attributes.push(self.attribute(name, pool, rng));
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
