//! Logs of a Java program: one line per event, and multi-line stack traces after errors.
//!
//! Random: packages, classes and threads, messages and their parameters, how often an event has a stack trace, its
//! depth, its number of causes and how often frames repeat.

use super::draw::{Pool, Words, between, happens, hex, magnitude, noun, share, some_of, user};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const METHODS: &[&str] =
    &["run", "invoke", "call", "apply", "read", "write", "lambda$0", "process", "doFilter", "close"];
const ENDS: &[&str] =
    &["Handler", "Worker", "Router", "Session", "Client", "Codec", "Filter", "Loader", "Service", "Dao"];
const ROOTS: &[&str] = &["com.example", "org.acme", "io.channel", "net.pool", "java.util", "jdk.internal"];

/// Generator of this shape.
pub(super) struct Java {
    classes: Pool,
    frames: Pool,
    traces: Vec<Vec<String>>,
    exceptions: Pool,
    levels: Pool,
    threads: Pool,
    users: Pool,
    messages: Vec<String>,
    words: Words,
    with_trace: f64,
    with_took: f64,
    fresh_frames: f64,
    typical_millis: f64,
}

impl Java {
    pub(super) fn draw(rng: &mut Rng) -> Java {
        let words = Words::draw(rng);
        let roots = some_of(ROOTS, between(2, 6, rng) as usize, rng);
        let mut class = |rng: &mut Rng| {
            let (first, second) = (noun(rng), noun(rng));
            let capital = format!("{}{}", first[..1].to_uppercase(), &first[1..]);
            format!("{}.{second}.{capital}{}", rng.pick(&roots), rng.pick(ENDS))
        };
        let classes = Pool::distinct(magnitude(20, 300, rng), rng, &mut class);
        let frames = Pool::distinct(magnitude(150, 4_000, rng), rng, |rng| {
            let class = classes.pick(rng).to_owned();
            let file = class.rsplit('.').next().unwrap_or_default();
            format!("\tat {class}.{}({file}.java:{})", rng.pick(METHODS), between(20, 900, rng))
        });
        let traces = (0..magnitude(10, 200, rng))
            .map(|_| (0..between(4, 45, rng)).map(|_| frames.pick(rng).to_owned()).collect())
            .collect();
        let messages = (0..magnitude(20, 150, rng)).map(|_| {
            let count = 2 + rng.below(6);
            words.phrase(count, rng)
        });
        let messages = messages.collect();
        Java {
            frames,
            traces,
            exceptions: Pool::distinct(magnitude(6, 40, rng), rng, |rng| format!("{}Exception", class(rng))),
            classes,
            levels: Pool::of(&["INFO", "DEBUG", "WARN", "ERROR"], rng),
            threads: Pool::distinct(magnitude(8, 200, rng), rng, |rng| format!("exec-{}", rng.below(400))),
            users: Pool::distinct(magnitude(50, 20_000, rng), rng, user),
            messages,
            words,
            with_trace: share(0.02, 0.15, rng),
            with_took: share(0.3, 0.9, rng),
            fresh_frames: share(0.0, 0.5, rng),
            typical_millis: magnitude(5, 400, rng) as f64,
        }
    }

    fn trace(&self, rng: &mut Rng, out: &mut String) {
        for cause in 0..1 + rng.below(3) {
            let begin = if cause == 0 { "" } else { "Caused by: " };
            let message = self.words.phrase(3, rng);
            out.push_str(&format!("\n{begin}{}: {message}", self.exceptions.pick(rng)));
            for frame in rng.pick(&self.traces) {
                let frame = if happens(self.fresh_frames * 0.2, rng) { self.frames.pick(rng) } else { frame };
                out.push('\n');
                out.push_str(frame);
            }
            if cause > 0 {
                out.push_str(&format!("\n\t... {} more", 1 + rng.below(40)));
            }
        }
    }
}

impl Shape for Java {
    fn name(&self) -> &'static str {
        "java"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "application.log", sourcetype: "log4j" }]
    }

    fn columns(&self) -> Vec<Column> {
        let by = |name, pattern| Column::by_pattern(name, Kind::Text, pattern);
        vec![
            by("level", r"^\S+ \S+ (\w+)"),
            by("thread", r"^\S+ \S+ \w+ +\[([^\]]+)\]"),
            by("class", r"^\S+ \S+ \w+ +\[[^\]]+\] (\S+) - "),
            Column::by_pattern("took", Kind::Integer, r" took=(\d+)"),
            by("user_name", r" user=(\S+)"),
            by("request", r" request=([0-9a-f]+)"),
            by("exception", r"(?:^|\n)Caused by: (\S+):"),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let time = format_time(millis, "%Y-%m-%d %H:%M:%S,%3f");
        let (level, thread) = (self.levels.pick(rng).to_owned(), self.threads.pick(rng).to_owned());
        let class = self.classes.pick(rng).to_owned();
        let took = happens(self.with_took, rng).then(|| rng.tail(self.typical_millis) as i64);
        let user = self.users.pick(rng).to_owned();
        let request = hex(12, rng);
        let mut text = format!("{time} {level} [{thread}] {class} - {}", rng.skewed(&self.messages));
        text.push_str(&format!(" user={user} request={request}"));
        if let Some(took) = took {
            text.push_str(&format!(" took={took}"));
        }
        let mut exception = None;
        if happens(self.with_trace, rng) {
            self.trace(rng, &mut text);
            let cause = text.split("\nCaused by: ").nth(1);
            exception = cause.and_then(|cause| cause.split(": ").next()).map(str::to_owned);
        }
        let values = vec![
            Value::Text(level),
            Value::Text(thread),
            Value::Text(class),
            took.map_or(Value::Absent, Value::Integer),
            Value::Text(user),
            Value::Text(request),
            Value::maybe(exception),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main | rex \"^\\S+ \\S+ \\w+ +\\[(?<thread>[^\\]]+)\\] (?<class>\\S+) - \"".to_owned(),
            only: "",
            few: Field::same("level"),
            other: Field::same("thread"),
            many: Field::same("class"),
            most: Field::new("user", "user_name"),
            number: Field::same("took"),
            id: Field::same("request"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.text(
            "count by level",
            "",
            "stats count by level",
            "select level, count(*) from parsed group by level",
        );
        questions.text(
            "slowest",
            "",
            "sort 20 - num(took) | table took",
            "select took from parsed where took is not null order by took desc limit 20",
        );
        questions.text(
            "rex of a later line",
            "",
            "rex \"\\nCaused by: (?<exception>\\S+):\" | stats count by exception",
            "select exception, count(*) from parsed where exception is not null group by exception",
        );
        questions.text(
            "rex and dc",
            "",
            "rex \"request=(?<start>[0-9a-f]{4})\" | stats dc(start)",
            "select count(distinct part(raw, 'request=([0-9a-f]{4})')) from parsed",
        );
        let frame = self.frames.values().last().map_or("", |frame| frame.trim_start_matches("\tat "));
        questions.text(
            "phrase of a frame",
            &format!("\"{frame}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(frame.trim_end_matches(')'))),
        );
        questions.text(
            "lines of traces",
            "\"Caused by\"",
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw("Caused by")),
        );
        questions.text(
            "regex of text",
            "",
            "regex _raw=\"took=9\\d\\d\\b\" | stats count",
            "select count(*) from parsed where matches(raw, 'took=9\\d\\d\\b')",
        );
        questions.queries()
    }
}
