//! nginx's access log in the combined format: query strings, user agents with quotes, `-` for missing values.
//!
//! Random: sites and paths, query string parameters and how often they are present, the number of clients, agents and
//! users, whether quotes in headers are written `\"` or `\x22`, requests that are not HTTP, and very long query
//! strings.

use super::draw::{Pool, Words, address, between, happens, hex, magnitude, noun, service, share, some_of, user};
use super::queries::{Field, Query, QuestionList, Roles, word_in_raw};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

const PATTERN_REQUEST: &str = r#""(?:[^"\\]|\\.)*""#;
const PARAMETERS: &[&str] =
    &["q", "page", "sort", "lang", "utm_source", "ref", "limit", "filter", "v", "cursor", "tab"];
const AGENTS: &[&str] = &[
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{}.1 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0",
    "curl/7.{}.1",
    "python-requests/2.{}.0",
    "Mozilla/5.0 (compatible; Examplebot/2.{}; +https://bot.example/about)",
    "okhttp/4.{}.0",
    "Acme-Scanner {} QUOTEnightlyQUOTE",
];

/// Generator of this shape.
pub(super) struct Nginx {
    clients: Pool,
    users: Pool,
    paths: Pool,
    agents: Pool,
    statuses: Pool,
    methods: Pool,
    referers: Pool,
    parameters: Vec<&'static str>,
    words: Words,
    with_query: f64,
    with_user: f64,
    with_referer: f64,
    broken: f64,
    long: f64,
    typical_bytes: f64,
}

impl Nginx {
    pub(super) fn draw(rng: &mut Rng) -> Nginx {
        let quote = if rng.one_in(2) { "\\\"" } else { "\\x22" };
        let agents = Pool::distinct(magnitude(30, 900, rng), rng, |rng| {
            let version = between(60, 140, rng).to_string();
            rng.pick(AGENTS).replace("{}", &version).replace("QUOTE", quote)
        });
        let mut path = |rng: &mut Rng| match rng.below(4) {
            0 => format!("/static/{}.{}.{}", noun(rng), hex(8, rng), rng.pick(&["js", "css", "png", "woff2"])),
            1 => format!("/api/v{}/{}/{}", between(1, 3, rng), noun(rng), between(1, 4_000, rng)),
            2 => format!("/{}/{}", noun(rng), service(rng)),
            _ => format!("/{}", noun(rng)),
        };
        Nginx {
            clients: Pool::distinct(magnitude(800, 60_000, rng), rng, |rng| address(false, rng)),
            users: Pool::distinct(magnitude(5, 300, rng), rng, user),
            paths: Pool::distinct(magnitude(60, 4_000, rng), rng, &mut path),
            agents,
            statuses: Pool::of(&["200", "304", "404", "301", "500", "502", "403", "499", "206"], rng),
            methods: Pool::of(&["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"], rng),
            referers: Pool::distinct(magnitude(10, 400, rng), rng, |rng| {
                format!("https://{}.example/{}", noun(rng), service(rng))
            }),
            parameters: some_of(PARAMETERS, between(2, 7, rng) as usize, rng),
            words: Words::draw(rng),
            with_query: share(0.2, 0.8, rng),
            with_user: share(0.0, 0.3, rng),
            with_referer: share(0.2, 0.8, rng),
            broken: share(0.0, 0.01, rng),
            long: share(0.0, 0.004, rng),
            typical_bytes: magnitude(900, 60_000, rng) as f64,
        }
    }

    fn query(&self, session: Option<&str>, rng: &mut Rng) -> String {
        let mut parts: Vec<String> = Vec::new();
        for name in &self.parameters {
            if happens(0.4, rng) {
                let value = match rng.below(4) {
                    0 => between(1, 500, rng).to_string(),
                    1 => format!("{}+{}", self.words.word(rng), self.words.word(rng)),
                    2 => format!("caf%C3%A9%20{}", self.words.word(rng)),
                    _ => self.words.word(rng).to_owned(),
                };
                parts.push(format!("{name}={value}"));
            }
        }
        if happens(self.long, rng) {
            parts.push(format!("state={}", hex(600 + rng.below(2_000) as usize, rng)));
        }
        parts.extend(session.map(|session| format!("sid={session}")));
        parts.join("&")
    }
}

impl Shape for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "nginx.log", sourcetype: "nginx" }]
    }

    fn columns(&self) -> Vec<Column> {
        let behind = |rest: &str| format!(r#"^\S+ \S+ \S+ \[[^\]]+\] {PATTERN_REQUEST} {rest}"#);
        vec![
            Column::by_pattern("clientip", Kind::Text, r"^(\S+)"),
            Column::by_pattern("user", Kind::Text, r"^\S+ \S+ (\S+)"),
            Column::by_pattern("method", Kind::Text, r#"\] "([A-Z]+) "#),
            Column::by_pattern("uri_path", Kind::Text, r#"\] "[A-Z]+ ([^?\s"]+)"#),
            Column::by_pattern("uri_query", Kind::Text, r#"\] "[A-Z]+ [^?\s"]+\?([^\s"]*)"#),
            Column::by_pattern("status", Kind::Integer, &behind(r"(\d{3})")),
            Column::by_pattern("bytes", Kind::Integer, &behind(r"\d{3} (\d+)")),
            Column::by_pattern("referer", Kind::Text, &behind(r#"\d{3} \S+ "((?:[^"\\]|\\.)*)""#)),
            Column::by_pattern("useragent", Kind::Text, &behind(r#"\d{3} \S+ "(?:[^"\\]|\\.)*" "((?:[^"\\]|\\.)*)""#)),
            Column::by_pattern("sid", Kind::Text, r"[?&]sid=([0-9a-f]+)"),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        let client = self.clients.pick(rng).to_owned();
        let user = if happens(self.with_user, rng) { self.users.pick(rng) } else { "-" }.to_owned();
        let time = format_time(millis, "%d/%b/%Y:%H:%M:%S +0000");
        if happens(self.broken, rng) {
            let request = if rng.one_in(2) { "\\x16\\x03\\x01\\x02\\x00" } else { "-" };
            let text = format!("{client} - - [{time}] \"{request}\" 400 150 \"-\" \"-\"");
            let mut values = vec![Value::Text(client), Value::text("-")];
            values.extend([Value::Absent, Value::Absent, Value::Absent, Value::Integer(400), Value::Integer(150)]);
            values.extend([Value::text("-"), Value::text("-"), Value::Absent]);
            return Event { file: 0, text, values };
        }
        let (method, path) = (self.methods.pick(rng).to_owned(), self.paths.pick(rng).to_owned());
        let session = happens(0.7, rng).then(|| hex(16, rng));
        let query = happens(self.with_query, rng).then(|| self.query(session.as_deref(), rng));
        let query = query.filter(|query| !query.is_empty());
        let session = session.filter(|_| query.is_some());
        let status = self.statuses.pick(rng).to_owned();
        let bytes = (!rng.one_in(9)).then(|| rng.tail(self.typical_bytes) as i64);
        let referer = if happens(self.with_referer, rng) { self.referers.pick(rng) } else { "-" }.to_owned();
        let agent = self.agents.pick(rng).to_owned();
        let version = rng.pick(&["1.1", "2.0"]);
        let uri = query.as_ref().map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
        let size = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let text = format!(
            "{client} - {user} [{time}] \"{method} {uri} HTTP/{version}\" {status} {size} \"{referer}\" \"{agent}\""
        );
        let values = vec![
            Value::Text(client),
            Value::Text(user),
            Value::Text(method),
            Value::Text(path),
            Value::maybe(query),
            Value::Integer(status.parse().unwrap_or_default()),
            bytes.map_or(Value::Absent, Value::Integer),
            Value::Text(referer),
            Value::Text(agent),
            Value::maybe(session),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main".to_owned(),
            only: "",
            few: Field::same("method"),
            other: Field::same("status"),
            many: Field::same("uri_path"),
            most: Field::same("clientip"),
            number: Field::same("bytes"),
            id: Field::same("sid"),
        };
        // `sid` is not a field of the log format; automatic key=value extraction finds it in the query string.
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.ask(
            "count by status",
            "stats count by status",
            "select status, count(*) from parsed group by status",
        );
        questions.ask(
            "count by agent",
            "stats count by useragent | sort 20 - count | table count",
            "select count(*) as c from parsed group by useragent order by c desc limit 20",
        );
        questions.find(
            "errors",
            "status>=500",
            "stats count by uri_path",
            "select uri_path, count(*) from parsed where status >= 500 and uri_path is not null group by uri_path",
        );
        questions.ask(
            "rex and dc",
            "rex \"[?&]sid=(?<s>[0-9a-f]{4})\" | stats dc(s)",
            "select count(distinct part(raw, '[?&]sid=([0-9a-f]{4})')) from parsed",
        );
        let path = samples.value("uri_path", 23);
        let phrase = format!("GET {path}");
        questions.text(
            "phrase",
            &format!("\"{phrase}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&phrase)),
        );
        questions.ask(
            "regex of text",
            "regex _raw=\"\\\" 50[0-4] \\d{4} \" | stats count",
            "select count(*) from parsed where matches(raw, '\" 50[0-4] \\d{4} ')",
        );
        questions.queries()
    }
}
