//! Container logs as Kubernetes log collectors write them: one JSON object per line, partly nested.
//!
//! Random: names of the optional keys and how often each is present, whether resource keys are nested or have dots in
//! their names, how often numbers have decimals, messages have escapes or are long, and values are null.

use super::draw::{FOREIGN, Pool, Words, between, happens, hex, magnitude, service, share, some_of};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::truth::push_quoted;
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const OPTIONAL: &[&str] =
    &["tenant", "region", "shard", "cohort", "flag", "zone", "revision", "queue", "locale", "release", "peer", "step"];

/// Generator of this shape.
pub(super) struct Kubernetes {
    services: Pool,
    pods: Pool,
    namespaces: Pool,
    severities: Pool,
    values: Pool,
    labels: Pool,
    templates: Vec<String>,
    words: Words,
    /// Name of a key, share of events that have it, and share of these events in which it is null.
    optional: Vec<(&'static str, f64, f64)>,
    is_nested: bool,
    is_severity_lower: bool,
    decimals: f64,
    escapes: f64,
    foreign: f64,
    with_trace: f64,
    with_retry: f64,
    long: f64,
    typical_millis: f64,
}

impl Kubernetes {
    pub(super) fn draw(rng: &mut Rng) -> Kubernetes {
        let words = Words::draw(rng);
        let services = Pool::distinct(magnitude(6, 80, rng), rng, service);
        let per_service = between(2, 40, rng);
        let mut pods = Vec::new();
        for name in services.values() {
            let replica_set = hex(10, rng);
            pods.extend((0..per_service).map(|_| format!("{name}-{replica_set}-{}", hex(5, rng))));
        }
        let templates = (0..magnitude(20, 200, rng)).map(|_| {
            let count = 2 + rng.below(6);
            words.phrase(count, rng)
        });
        let templates = templates.collect();
        let names = some_of(OPTIONAL, between(3, 10, rng) as usize, rng);
        let optional = names.into_iter().map(|name| (name, share(0.01, 0.9, rng), share(0.0, 0.1, rng))).collect();
        Kubernetes {
            pods: Pool::new(pods, rng),
            namespaces: Pool::distinct(magnitude(3, 25, rng), rng, |rng| super::draw::noun(rng).to_owned()),
            severities: Pool::of(&["info", "warn", "error", "debug", "trace"], rng),
            values: Pool::distinct(magnitude(4, 400, rng), rng, |rng| {
                format!("{}{}", super::draw::noun(rng), rng.below(90))
            }),
            labels: Pool::distinct(magnitude(5, 60, rng), rng, service),
            services,
            templates,
            words,
            optional,
            is_nested: rng.one_in(2),
            is_severity_lower: rng.one_in(2),
            decimals: share(0.0, 1.0, rng),
            escapes: share(0.002, 0.05, rng),
            foreign: share(0.002, 0.05, rng),
            with_trace: share(0.3, 1.0, rng),
            with_retry: share(0.05, 0.5, rng),
            long: share(0.0, 0.005, rng),
            typical_millis: magnitude(4, 900, rng) as f64,
        }
    }

    fn resource(&self, service: &str, pod: &str, namespace: &str) -> String {
        if self.is_nested {
            format!(
                "{{\"service\":{{\"name\":\"{service}\"}},\"k8s\":{{\"pod\":{{\"name\":\"{pod}\"}},\"namespace\":{{\"name\":\"{namespace}\"}}}}}}"
            )
        } else {
            format!(
                "{{\"service.name\":\"{service}\",\"k8s.pod.name\":\"{pod}\",\"k8s.namespace.name\":\"{namespace}\"}}"
            )
        }
    }

    fn message(&self, rng: &mut Rng) -> String {
        let template = rng.skewed(&self.templates);
        let mut text = format!("{template} {}", between(1, 9_000, rng));
        if happens(self.escapes, rng) {
            text.push_str(&format!(" path=\"C:\\{}\"\nnext line", self.words.word(rng)));
        }
        if happens(self.foreign, rng) {
            text.push_str(&format!(" {}", rng.pick(FOREIGN)));
        }
        if happens(self.long, rng) {
            let count = 100 + rng.below(600);
            text.push_str(&self.words.phrase(count, rng));
        }
        text
    }

    fn optional_keys(&self, rng: &mut Rng, out: &mut String) -> Option<String> {
        let mut first = None;
        for (at, (name, share, null)) in self.optional.iter().enumerate() {
            if !happens(*share, rng) {
                continue;
            }
            let value = if happens(*null, rng) { None } else { Some(self.values.pick(rng).to_owned()) };
            match &value {
                Some(value) => out.push_str(&format!(",\"{name}\":\"{value}\"")),
                None => out.push_str(&format!(",\"{name}\":null")),
            }
            if at == 0 {
                // A search returns a JSON null as this text.
                first = Some(value.unwrap_or_else(|| "null".to_owned()));
            }
        }
        first
    }
}

/// Formats a JSON string, sometimes with escapes where plain characters would be valid.
fn quoted(text: &str, rng: &mut Rng) -> String {
    let mut out = String::new();
    push_quoted(text, &mut out);
    if rng.one_in(2) { out.replace('/', "\\/").replace('é', "\\u00e9").replace('ü', "\\u00fc") } else { out }
}

impl Shape for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "containers.jsonl", sourcetype: "_json" }]
    }

    fn columns(&self) -> Vec<Column> {
        let resource = |dotted: &str| {
            if self.is_nested { format!("$.resource.{dotted}") } else { format!("$.resource.\"{dotted}\"") }
        };
        let optional = self.optional.first().map_or("none", |(name, _, _)| name);
        vec![
            Column::by_path("severity", Kind::Text, "$.severity"),
            Column::by_path("service", Kind::Text, &resource("service.name")),
            Column::by_path("pod", Kind::Text, &resource("k8s.pod.name")),
            Column::by_path("namespace", Kind::Text, &resource("k8s.namespace.name")),
            Column::by_path("message", Kind::Text, "$.body.message"),
            Column::by_path("duration", Kind::Number, "$.attributes.duration_ms"),
            Column::by_path_or_null("retry", Kind::Text, "$.attributes.retry"),
            Column::by_path("trace", Kind::Text, "$.trace_id"),
            Column::by_path_or_null("optional", Kind::Text, &format!("$.attributes.{optional}")),
            Column::by_path("line", Kind::Integer, "$.attributes.line"),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let severity = self.severities.pick(rng);
        let severity = if self.is_severity_lower { severity.to_owned() } else { severity.to_ascii_uppercase() };
        let (service, pod) = (self.services.pick(rng).to_owned(), self.pods.pick(rng).to_owned());
        let (namespace, message) = (self.namespaces.pick(rng).to_owned(), self.message(rng));
        let (line, took) = (between(10, 900, rng) as i64, rng.tail(self.typical_millis));
        let duration = (!rng.one_in(12))
            .then(|| if happens(self.decimals, rng) { (took * 100.0).round() / 100.0 } else { took.round() });
        let retry = happens(self.with_retry, rng).then(|| *rng.skewed(&["false", "true", "null"]));
        let trace = happens(self.with_trace, rng).then(|| hex(32, rng));
        let mut attributes = format!("\"line\":{line}");
        if let Some(duration) = duration {
            attributes.push_str(&format!(",\"duration_ms\":{duration}"));
        }
        if let Some(retry) = retry {
            attributes.push_str(&format!(",\"retry\":{retry}"));
        }
        let optional = self.optional_keys(rng, &mut attributes);
        if rng.one_in(5) {
            let labels: Vec<String> = (0..rng.below(4)).map(|_| format!("\"{}\"", self.labels.pick(rng))).collect();
            attributes.push_str(&format!(",\"labels\":[{}]", labels.join(",")));
        }
        let time = format_time(millis, "%Y-%m-%dT%H:%M:%S%.3fZ");
        let mut text = format!("{{\"timestamp\":\"{time}\",\"severity\":\"{severity}\",\"body\":{{\"message\":");
        text.push_str(&quoted(&message, rng));
        let resource = self.resource(&service, &pod, &namespace);
        text.push_str(&format!("}},\"resource\":{resource},\"attributes\":{{{attributes}}}"));
        if let Some(trace) = &trace {
            text.push_str(&format!(",\"trace_id\":\"{trace}\",\"span_id\":\"{}\"", &trace[8..24]));
        }
        text.push('}');
        let values = vec![
            Value::Text(severity),
            Value::Text(service),
            Value::Text(pod),
            Value::Text(namespace),
            Value::Text(message),
            duration.map_or(Value::Absent, Value::Number),
            Value::maybe(retry),
            Value::maybe(trace),
            Value::maybe(optional),
            Value::Integer(line),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let optional = self.optional.first().map_or("none", |(name, _, _)| name);
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::same("severity"),
            other: Field::new("resource.k8s.namespace.name", "namespace"),
            many: Field::new("resource.service.name", "service"),
            most: Field::new("resource.k8s.pod.name", "pod"),
            number: Field::new("attributes.duration_ms", "duration"),
            id: Field::new("trace_id", "trace"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "boolean",
            "stats count by attributes.retry",
            // A search returns a JSON null as the text `null`.
            "select retry, count(*) from parsed where retry is not null group by retry",
        );
        questions.find(
            "boolean condition",
            "attributes.retry=true",
            "stats count by severity",
            "select severity, count(*) from parsed where retry = 'true' group by severity",
        );
        questions.ask(
            "optional key",
            &format!("stats count by attributes.{optional} | stats count sum(count)"),
            "select count(*), sum(c) from (select optional, count(*) as c from parsed where optional is not null group by optional)",
        );
        questions.ask("dc of message", "stats dc(body.message)", "select count(distinct message) from parsed");
        questions.ask(
            "rex and dc",
            "rex field=body.message \"(?<number>\\d+)$\" | stats dc(number)",
            "select count(distinct part(message, '(\\d+)$')) from parsed",
        );
        let row = samples.row(&["service", "namespace"], 31);
        let phrase = row[1].clone();
        questions.text(
            "phrase",
            &format!("\"name\\\":\\\"{phrase}\\\"\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&format!("name\":\"{phrase}\""))),
        );
        questions.ask(
            "spath",
            "spath path=attributes.line output=at | stats avg(at) by severity",
            "select severity, avg(line) from parsed group by severity",
        );
        questions.queries()
    }
}
