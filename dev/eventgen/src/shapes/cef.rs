//! Records of security devices in ArcSight's Common Event Format (CEF) behind a syslog header.
//!
//! Random: products and their signatures, the optional keys and how often each is present, how many words names and
//! messages have, labelled custom strings, networks, users, how often values contain escaped equals signs.

use super::draw::{Pool, Words, address, between, happens, hex, magnitude, noun, service, share, some_of, user};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const OPTIONAL: &[&str] = &["app", "deviceInboundInterface", "dhost", "dvchost", "fname", "outcome", "reason", "shost"];

/// Generator of this shape.
pub(super) struct Cef {
    devices: Pool,
    products: Pool,
    signatures: Pool,
    sources: Pool,
    destinations: Pool,
    users: Pool,
    actions: Pool,
    rules: Pool,
    optional: Vec<(&'static str, f64, Pool)>,
    words: Words,
    with_user: f64,
    with_message: f64,
    escaped: f64,
    typical_bytes: f64,
}

impl Cef {
    pub(super) fn draw(rng: &mut Rng) -> Cef {
        let words = Words::draw(rng);
        let names = some_of(OPTIONAL, between(1, 7, rng) as usize, rng);
        let optional = names.into_iter().map(|name| {
            let count = magnitude(2, 90, rng);
            (name, share(0.05, 1.0, rng), Pool::distinct(count, rng, service))
        });
        let optional = optional.collect();
        Cef {
            devices: Pool::distinct(magnitude(2, 40, rng), rng, service),
            products: Pool::distinct(magnitude(1, 5, rng), rng, |rng| {
                format!("{}|{}|{}.{}", noun(rng), noun(rng), rng.below(9), rng.below(20))
            }),
            signatures: Pool::distinct(magnitude(10, 400, rng), rng, |rng| {
                let count = 1 + rng.below(4);
                format!("{}|{}|{}", between(100, 9_999, rng), words.phrase(count, rng), rng.below(11))
            }),
            sources: Pool::distinct(magnitude(60, 9_000, rng), rng, |rng| address(true, rng)),
            destinations: Pool::distinct(magnitude(60, 9_000, rng), rng, |rng| address(false, rng)),
            users: Pool::distinct(magnitude(20, 900, rng), rng, user),
            actions: Pool::of(&["blocked", "allowed", "alerted", "reset"], rng),
            rules: Pool::distinct(magnitude(5, 120, rng), rng, |rng| {
                let count = 1 + rng.below(3);
                words.phrase(count, rng)
            }),
            optional,
            words,
            with_user: share(0.3, 1.0, rng),
            with_message: share(0.3, 1.0, rng),
            escaped: share(0.0, 0.03, rng),
            typical_bytes: magnitude(300, 60_000, rng) as f64,
        }
    }
}

impl Shape for Cef {
    fn name(&self) -> &'static str {
        "cef"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "cef.log", sourcetype: "bench:cef" }]
    }

    fn conf(&self) -> Vec<(&'static str, String)> {
        vec![("props.conf", "[bench:cef]\nSHOULD_LINEMERGE = false\nMAX_TIMESTAMP_LOOKAHEAD = 40\n".to_owned())]
    }

    fn columns(&self) -> Vec<Column> {
        let by = |name, pattern| Column::by_pattern(name, Kind::Text, pattern);
        vec![
            by("act", r" act=(\S+)"),
            Column::by_pattern("dpt", Kind::Integer, r" dpt=(\d+)"),
            by("src", r"\|src=(\S+)"),
            by("dst", r" dst=(\S+)"),
            by("suser", r" suser=(\S+)"),
            Column::by_pattern("sent", Kind::Integer, r" out=(\d+)"),
            by("id", r" externalId=(\S+)"),
            by("rule", r" cs1=(.*?) cs1Label="),
            by("signature", r"CEF:0\|[^|]*\|[^|]*\|[^|]*\|(\d+)\|"),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let time = format_time(millis, "%Y-%m-%dT%H:%M:%S%.3fZ");
        let pick = |pool: &Pool, rng: &mut Rng| pool.pick(rng).to_owned();
        let (signature, action) = (pick(&self.signatures, rng), pick(&self.actions, rng));
        let (source, destination) = (pick(&self.sources, rng), pick(&self.destinations, rng));
        let (port, sent) = ([443, 80, 22, 53, 3_389][rng.below(5) as usize], rng.tail(self.typical_bytes) as i64);
        let (rule, id) = (pick(&self.rules, rng), hex(12, rng));
        let mut text = format!(
            "{time} {} CEF:0|{}|{signature}|src={source} dst={destination} spt={} dpt={port} proto={} act={action}",
            self.devices.pick(rng),
            self.products.pick(rng),
            between(1_024, 65_535, rng),
            if rng.one_in(5) { "UDP" } else { "TCP" },
        );
        let name = happens(self.with_user, rng).then(|| pick(&self.users, rng));
        if let Some(name) = &name {
            text.push_str(&format!(" suser={name}"));
        }
        for (key, share, pool) in &self.optional {
            if happens(*share, rng) {
                text.push_str(&format!(" {key}={}", pool.pick(rng)));
            }
        }
        text.push_str(&format!(" cs1={rule} cs1Label=Rule"));
        if happens(self.with_message, rng) {
            let count = 2 + rng.below(8);
            text.push_str(&format!(" msg={}", self.words.phrase(count, rng)));
            if happens(self.escaped, rng) {
                text.push_str(&format!(" {}\\={}", self.words.word(rng), rng.below(99)));
            }
        }
        text.push_str(&format!(" out={sent} externalId={id}"));
        let values = vec![
            Value::Text(action),
            Value::Integer(port),
            Value::Text(source),
            Value::Text(destination),
            Value::maybe(name),
            Value::Integer(sent),
            Value::Text(id),
            Value::Text(rule),
            Value::text(signature.split('|').next().unwrap_or_default()),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::same("act"),
            other: Field::same("dpt"),
            many: Field::same("suser"),
            most: Field::same("src"),
            number: Field::new("out", "sent"),
            id: Field::new("externalId", "id"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "count by rule",
            "rex \"cs1=(?<rule>.*?) cs1Label=\" | stats count by rule",
            "select rule, count(*) from parsed group by rule",
        );
        questions.ask(
            "count by signature",
            "rex \"CEF:0\\|[^|]*\\|[^|]*\\|[^|]*\\|(?<signature>\\d+)\\|\" | stats count by signature act",
            "select signature, act, count(*) from parsed group by signature, act",
        );
        questions.ask(
            "dc of destinations",
            "stats dc(dst) by dpt",
            "select dpt, count(distinct dst) from parsed group by dpt",
        );
        let phrase = format!("suser={}", samples.value("suser", 11));
        questions.text(
            "phrase",
            &format!("\"{phrase}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
        );
        questions.ask(
            "regex of text",
            "regex _raw=\"out=\\d{5}\\b\" | stats count by act",
            "select act, count(*) from parsed where matches(raw, 'out=\\d{5}\\b') group by act",
        );
        questions.queries()
    }
}
