//! Application messages in whole sentences, without keys.
//!
//! Random: the sentences, the values they mention, their length, how often text is non-ASCII or quoted, and how often a
//! message has only words. All fields are extracted from the text by `rex`.

use super::draw::{FOREIGN, Pool, Words, between, happens, hex, magnitude, noun, service, share};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const BASE: &str = "index=main | rex \"The (?<component>[a-z-]+) could not reach (?<peer>[a-z-]+) after (?<attempts>\\d+) attempts\" | rex \"in (?<place>[a-z]+)\\. \" | rex \"ticket (?<ticket>[0-9a-f]{10})\" | rex \"order (?<number>\\d+) \"";

/// Generator of this shape.
pub(super) struct Prose {
    components: Pool,
    peers: Pool,
    places: Pool,
    sentences: Vec<String>,
    words: Words,
    failing: f64,
    placed: f64,
    free: f64,
    foreign: f64,
    orders: u64,
    tail: u64,
}

impl Prose {
    pub(super) fn draw(rng: &mut Rng) -> Prose {
        let words = Words::draw(rng);
        let sentences = (0..magnitude(30, 400, rng)).map(|_| {
            let count = between(4, 14, rng);
            words.phrase(count, rng)
        });
        let sentences = sentences.collect();
        Prose {
            components: Pool::distinct(magnitude(4, 40, rng), rng, service),
            peers: Pool::distinct(magnitude(20, 300, rng), rng, |rng| format!("{}-{}", noun(rng), service(rng))),
            places: Pool::distinct(magnitude(4, 30, rng), rng, |rng| noun(rng).to_owned()),
            sentences,
            words,
            failing: share(0.1, 0.6, rng),
            placed: share(0.3, 0.9, rng),
            free: share(0.1, 0.7, rng),
            foreign: share(0.0, 0.03, rng),
            orders: magnitude(5_000, 900_000, rng),
            tail: between(3, 30, rng),
        }
    }
}

impl Shape for Prose {
    fn name(&self) -> &'static str {
        "prose"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "messages.log", sourcetype: "generic_single_line" }]
    }

    fn columns(&self) -> Vec<Column> {
        let failure = "The ([a-z-]+) could not reach ([a-z-]+) after (\\d+) attempts";
        let group = |wanted: usize| {
            let mut at = 0;
            let parts = failure.split('(').map(|part| {
                at += 1;
                if at == 1 {
                    part.to_owned()
                } else if at == wanted + 1 {
                    format!("({part}")
                } else {
                    format!("(?:{part}")
                }
            });
            parts.collect::<String>()
        };
        vec![
            Column::by_pattern("component", Kind::Text, &group(1)),
            Column::by_pattern("peer", Kind::Text, &group(2)),
            Column::by_pattern("attempts", Kind::Integer, &group(3)),
            Column::by_pattern("place", Kind::Text, r"in ([a-z]+)\. "),
            Column::by_pattern("ticket", Kind::Text, r"ticket ([0-9a-f]{10})"),
            Column::by_pattern("number", Kind::Text, r"order (\d+) "),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let time = format_time(millis, "%Y-%m-%dT%H:%M:%S%.3fZ");
        let (component, peer) = (self.components.pick(rng).to_owned(), self.peers.pick(rng).to_owned());
        let failure = happens(self.failing, rng).then(|| between(1, 12, rng) as i64);
        let place = happens(self.placed, rng).then(|| self.places.pick(rng).to_owned());
        let order = rng.one_in(2).then(|| (10_000 + rng.below(self.orders)).to_string());
        let ticket = rng.one_in(3).then(|| hex(10, rng));
        let mut text = format!("{time} ");
        match failure {
            Some(attempts) => {
                text.push_str(&format!("The {component} could not reach {peer} after {attempts} attempts. "))
            }
            None => text.push_str(&format!("Now {component} says: ")),
        }
        let sentence: &String = rng.skewed(&self.sentences);
        text.push_str(sentence);
        if let Some(order) = &order {
            text.push_str(&format!(" with order {order} of a customer"));
        }
        if let Some(place) = &place {
            text.push_str(&format!(" in {place}. Then"));
        }
        if happens(self.free, rng) {
            let count = 1 + rng.below(self.tail);
            text.push_str(&format!(" \"{}\",", self.words.phrase(count, rng)));
        }
        if happens(self.foreign, rng) {
            text.push_str(&format!(" {}", rng.pick(FOREIGN)));
        }
        if let Some(ticket) = &ticket {
            text.push_str(&format!(" see ticket {ticket}"));
        }
        text.push(if rng.one_in(9) { '?' } else { '.' });
        let values = vec![
            Value::maybe(failure.map(|_| component)),
            Value::maybe(failure.map(|_| peer)),
            failure.map_or(Value::Absent, Value::Integer),
            Value::maybe(place),
            Value::maybe(ticket),
            Value::maybe(order),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: BASE.to_owned(),
            only: "",
            few: Field::same("component"),
            other: Field::same("place"),
            many: Field::same("peer"),
            most: Field::same("number"),
            number: Field::same("attempts"),
            id: Field::same("ticket"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.text("rex and count", "", "rex \"after (?<a>\\d+) attempts\" | stats count by a", "select part(raw, 'after (\\d+) attempts') as a, count(*) from parsed where part(raw, 'after (\\d+) attempts') is not null group by a");
        questions.text(
            "rex and dc",
            "",
            "rex \"order (?<o>\\d+) of\" | stats dc(o)",
            "select count(distinct part(raw, 'order (\\d+) of')) from parsed",
        );
        questions.text(
            "rex at the end",
            "",
            "rex \"(?<last>\\w+)\\?$\" | stats dc(last)",
            "select count(distinct part(raw, '([0-9A-Za-z_]+)\\?$')) from parsed",
        );
        let peer = samples.value("peer", 29);
        let phrase = format!("could not reach {peer} after");
        questions.text(
            "phrase",
            &format!("\"{phrase}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
        );
        let sentence = self.sentences.last().map_or("", String::as_str);
        questions.text(
            "rare phrase",
            &format!("\"{sentence}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(sentence)),
        );
        questions.text(
            "regex of text",
            "",
            "regex _raw=\"after 1[0-2] attempts\" | stats count",
            "select count(*) from parsed where matches(raw, 'after 1[0-2] attempts')",
        );
        questions.queries()
    }
}
