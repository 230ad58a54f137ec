//! Logs of Kubernetes' own components (klog): severity and time, thread, file and line, then a message.
//!
//! Random: files and line numbers, structured messages, their keys and how often each key is present, plain messages,
//! how often values contain quotes, pods and namespaces. Times have no year.

use super::draw::{Pool, Words, address, between, happens, hex, magnitude, noun, service, share, some_of, uuid};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const KEYS: &[&str] =
    &["pod", "node", "volumeName", "containerID", "probe", "replicas", "plugin", "generation", "verb", "queue"];

/// Generator of this shape.
pub(super) struct Klog {
    places: Pool,
    pods: Pool,
    nodes: Pool,
    values: Pool,
    messages: Pool,
    plain: Vec<String>,
    keys: Vec<(&'static str, f64)>,
    words: Words,
    levels: Pool,
    structured: f64,
    quoted: f64,
    typical_millis: f64,
}

impl Klog {
    pub(super) fn draw(rng: &mut Rng) -> Klog {
        let words = Words::draw(rng);
        let names = some_of(KEYS, between(2, 8, rng) as usize, rng);
        let plain = (0..magnitude(10, 100, rng)).map(|_| {
            let count = 4 + rng.below(9);
            words.phrase(count, rng)
        });
        let plain = plain.collect();
        let messages = magnitude(20, 250, rng);
        Klog {
            places: Pool::distinct(magnitude(30, 400, rng), rng, |rng| {
                format!("{}_{}.go:{}", noun(rng), noun(rng), between(20, 1_800, rng))
            }),
            pods: Pool::distinct(magnitude(100, 6_000, rng), rng, |rng| {
                format!("{}/{}-{}", noun(rng), service(rng), hex(5, rng))
            }),
            nodes: Pool::distinct(magnitude(5, 300, rng), rng, |rng| {
                format!("node-{}", address(true, rng).replace('.', "-"))
            }),
            values: Pool::distinct(magnitude(4, 300, rng), rng, service),
            messages: Pool::distinct(messages, rng, |rng| {
                let count = 2 + rng.below(4);
                words.phrase(count, rng)
            }),
            plain,
            keys: names.into_iter().map(|name| (name, share(0.05, 0.95, rng))).collect(),
            words,
            levels: Pool::new(["I", "W", "E"].map(str::to_owned).to_vec(), rng),
            structured: share(0.4, 0.95, rng),
            quoted: share(0.0, 0.05, rng),
            typical_millis: magnitude(2, 3_000, rng) as f64,
        }
    }

    fn value(&self, key: &str, rng: &mut Rng) -> String {
        match key {
            "replicas" | "generation" => rng.below(60).to_string(),
            "containerID" => format!("\"containerd://{}\"", hex(24, rng)),
            "pod" => format!("\"{}\"", self.pods.pick(rng)),
            "node" => format!("\"{}\"", self.nodes.pick(rng)),
            _ if happens(self.quoted, rng) => {
                format!("\"say \\\"{}\\\" {}\"", self.words.word(rng), self.values.pick(rng))
            }
            _ => format!("\"{}\"", self.values.pick(rng)),
        }
    }
}

impl Shape for Klog {
    fn name(&self) -> &'static str {
        "klog"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "kubelet.log", sourcetype: "kube:klog" }]
    }

    fn columns(&self) -> Vec<Column> {
        let by = |name, pattern| Column::by_pattern(name, Kind::Text, pattern);
        vec![
            by("level", r"^([IWEF])\d{4}"),
            by("file", r"^\S+ \S+\s+\d+ ([^:\s]+):\d+\]"),
            Column::by_pattern("line", Kind::Integer, r"^\S+ \S+\s+\d+ [^:\s]+:(\d+)\]"),
            Column::by_pattern("tid", Kind::Integer, r"^\S+ \S+\s+(\d+) "),
            by("object", r#" object="([^"]*)""#),
            Column::by_pattern("latency", Kind::Integer, r" latency_ms=(\d+)"),
            by("uid", r#" UID="([^"]*)""#),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let time = format_time(millis, "%m%d %H:%M:%S%.3f");
        let level = self.levels.pick(rng).to_owned();
        let (place, tid) = (self.places.pick(rng).to_owned(), between(1, 4_000, rng) as i64);
        let (file, line) = place.split_once(':').unwrap_or(("main.go", "1"));
        let mut text = format!("{level}{time}{:03} {tid:>7} {place}] ", rng.below(1_000));
        let (mut object, mut latency, mut uid) = (None, None, None);
        if happens(self.structured, rng) {
            text.push_str(&format!("\"{}\"", self.messages.pick(rng)));
            object = (!rng.one_in(4)).then(|| self.pods.pick(rng).to_owned());
            latency = rng.one_in(2).then(|| rng.tail(self.typical_millis) as i64);
            uid = rng.one_in(2).then(|| uuid(rng));
            if let Some(object) = &object {
                text.push_str(&format!(" object=\"{object}\""));
            }
            if let Some(latency) = latency {
                text.push_str(&format!(" latency_ms={latency}"));
            }
            for (key, share) in &self.keys {
                if happens(*share, rng) {
                    text.push_str(&format!(" {key}={}", self.value(key, rng)));
                }
            }
            if let Some(uid) = &uid {
                text.push_str(&format!(" UID=\"{uid}\""));
            }
        } else {
            text.push_str(&format!(
                "{} {}: {}",
                rng.skewed(&self.plain),
                self.pods.pick(rng),
                self.words.phrase(2, rng)
            ));
        }
        let values = vec![
            Value::Text(level),
            Value::text(file),
            Value::Integer(line.parse().unwrap_or_default()),
            Value::Integer(tid),
            Value::maybe(object),
            latency.map_or(Value::Absent, Value::Integer),
            Value::maybe(uid),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::same("level"),
            other: Field::same("line"),
            many: Field::same("file"),
            most: Field::same("object"),
            number: Field::new("latency_ms", "latency"),
            id: Field::new("UID", "uid"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "count by place",
            "stats count by file line",
            "select file, line, count(*) from parsed group by file, line",
        );
        questions.ask(
            "dc of threads",
            "stats dc(tid) by file",
            "select file, count(distinct tid) from parsed group by file",
        );
        let object = samples.value("object", 15);
        let phrase = format!("object=\"{object}\"");
        questions.text(
            "phrase",
            &format!("\"object=\\\"{object}\\\"\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
        );
        questions.ask(
            "rex and dc",
            "rex \"object=\\\"(?<space>[a-z]+)/\" | stats dc(space)",
            "select count(distinct part(raw, 'object=\"([a-z]+)/')) from parsed",
        );
        questions.ask(
            "regex of text",
            "regex _raw=\"latency_ms=\\d{3}\\b\" | stats count by level",
            "select level, count(*) from parsed where matches(raw, 'latency_ms=\\d{3}\\b') group by level",
        );
        questions.queries()
    }
}
