//! PostgreSQL's log as comma-separated columns (csvlog): quoted texts with doubled quotes, queries of several lines.
//!
//! Random: databases, users and applications, the statements and the way they are written, how often statements fail,
//! how often the application is empty, how long queries take.

use super::draw::{Pool, Words, address, between, happens, hex, magnitude, noun, service, share};
use super::queries::{Field, Query, QuestionList, Roles};
use super::{Column, Event, Kind, LogFile, Samples, Shape, Value};
use crate::random::Rng;
use crate::repeats::format_time;

/// Pattern of a cell, which is quoted with doubled inner quotes, or not quoted.
const CELL: &str = r#"(?:"(?:[^"]|"")*"|[^",]*)"#;

/// Generator of this shape.
pub(super) struct Postgres {
    databases: Pool,
    users: Pool,
    clients: Pool,
    applications: Pool,
    statements: Pool,
    errors: Pool,
    words: Words,
    sessions: Pool,
    failing: f64,
    timed: f64,
    with_application: f64,
    typical_millis: f64,
    line: i64,
}

impl Postgres {
    pub(super) fn draw(rng: &mut Rng) -> Postgres {
        let words = Words::draw(rng);
        let lines = between(0, 3, rng);
        let statements = Pool::distinct(magnitude(20, 400, rng), rng, |rng| {
            let (table, column) = (noun(rng), noun(rng));
            let gap = if rng.below(4) < lines { "\n  " } else { " " };
            match rng.below(4) {
                0 => format!("SELECT * FROM {table}{gap}WHERE {column} = $1"),
                1 => format!("INSERT INTO {table} ({column}, note){gap}VALUES ($1, 'it''s')"),
                2 => format!("UPDATE \"{table}\"{gap}SET {column} = $2 WHERE id = $1"),
                _ => format!(
                    "SELECT count(*), \"{column}\"{gap}FROM {table} t{gap}JOIN {} u USING (id){gap}GROUP BY 2",
                    noun(rng)
                ),
            }
        });
        Postgres {
            databases: Pool::distinct(magnitude(2, 20, rng), rng, |rng| noun(rng).to_owned()),
            users: Pool::distinct(magnitude(3, 40, rng), rng, |rng| format!("{}_rw", noun(rng))),
            clients: Pool::distinct(magnitude(10, 400, rng), rng, |rng| address(true, rng)),
            applications: Pool::distinct(magnitude(3, 60, rng), rng, service),
            statements,
            errors: Pool::of(
                &[
                    "duplicate key value violates unique constraint",
                    "deadlock detected",
                    "relation does not exist",
                    "canceling statement due to timeout",
                ],
                rng,
            ),
            words,
            sessions: Pool::distinct(magnitude(200, 20_000, rng), rng, |rng| {
                format!("{}.{}", hex(8, rng), hex(4, rng))
            }),
            failing: share(0.01, 0.2, rng),
            timed: share(0.4, 0.95, rng),
            with_application: share(0.3, 1.0, rng),
            typical_millis: magnitude(1, 300, rng) as f64,
            line: 0,
        }
    }
}

fn cell(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

impl Shape for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn files(&self) -> Vec<LogFile> {
        vec![LogFile { name: "postgres.csvlog", sourcetype: "postgres:csv" }]
    }

    fn columns(&self) -> Vec<Column> {
        let at = |place: usize, group: &str| format!("^(?:{CELL},){{{place}}}{group}");
        let quoted = |name, place: usize| Column::by_pattern(name, Kind::Text, &at(place, "\"([^\"]*)\""));
        let plain = |name, kind, place: usize| Column::by_pattern(name, kind, &at(place, "([^\",]+)"));
        vec![
            quoted("user_name", 1),
            quoted("database_name", 2),
            plain("process_id", Kind::Integer, 3),
            quoted("client", 4),
            plain("session", Kind::Text, 5),
            plain("line", Kind::Integer, 6),
            quoted("command", 7),
            plain("severity", Kind::Text, 11),
            plain("state", Kind::Text, 12),
            Column::by_pattern("took", Kind::Number, r"duration: ([\d.]+) ms"),
            quoted("application", 22),
            quoted("backend", 23),
        ]
    }

    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event {
        self.line += 1;
        let time = format_time(millis, "%Y-%m-%d %H:%M:%S%.3f UTC");
        let (user, database) = (self.users.pick(rng).to_owned(), self.databases.pick(rng).to_owned());
        let (process, line) = (between(200, 60_000, rng) as i64, self.line);
        let client = format!("{}:{}", self.clients.pick(rng), between(1_024, 65_535, rng));
        let (session, statement) = (self.sessions.pick(rng).to_owned(), self.statements.pick(rng).to_owned());
        let command = statement.split(' ').next().unwrap_or_default().to_owned();
        let (is_error, is_timed) = (happens(self.failing, rng), happens(self.timed, rng));
        let took = (rng.tail(self.typical_millis) * 1_000.0).round() / 1_000.0;
        let took = (!is_error && is_timed).then_some(took);
        let message = match took {
            _ if is_error => format!("{} \"{}\"", self.errors.pick(rng), self.words.word(rng)),
            Some(took) => format!("duration: {took} ms  execute {}: {statement}", hex(4, rng)),
            None => format!("connection authorized: user={user} note \"{}\"", self.words.phrase(3, rng)),
        };
        let severity = if is_error { "ERROR" } else { "LOG" };
        let state = if is_error { *rng.pick(&["23505", "40P01", "42P01", "57014"]) } else { "00000" };
        let query = if is_error { cell(&statement) } else { String::new() };
        let (transaction, application) = (rng.below(4), happens(self.with_application, rng));
        let application = application.then(|| self.applications.pick(rng).to_owned());
        let shown = application.as_ref().map_or_else(|| "\"\"".to_owned(), |name| cell(name));
        let place = if is_error { "50" } else { "" };
        let text = format!(
            "{time},\"{user}\",\"{database}\",{process},\"{client}\",{session},{line},\"{command}\",{time},{}/{},{transaction},{severity},{state},{},,,,,,{query},{place},,{shown},\"client backend\",,{}",
            rng.below(90),
            rng.below(90_000),
            cell(&message),
            rng.next() >> 2
        );
        let values = vec![
            Value::Text(user),
            Value::Text(database),
            Value::Integer(process),
            Value::Text(client),
            Value::Text(session),
            Value::Integer(line),
            Value::Text(command),
            Value::text(severity),
            Value::text(state),
            took.map_or(Value::Absent, Value::Number),
            Value::maybe(application),
            Value::text("client backend"),
        ];
        Event { file: 0, text, values }
    }

    fn queries(&self, samples: &Samples) -> Vec<Query> {
        let roles = Roles {
            base: "index=main | rex field=message \"duration: (?<took>[\\d.]+) ms\"".to_owned(),
            only: "",
            few: Field::new("error_severity", "severity"),
            other: Field::new("database_name", "database_name"),
            many: Field::new("user_name", "user_name"),
            most: Field::new("session_id", "session"),
            number: Field::same("took"),
            id: Field::new("connection_from", "client"),
        };
        let mut questions = QuestionList::common(self.columns(), &roles, samples);
        questions.text(
            "count by severity",
            "",
            "stats count by error_severity",
            "select severity, count(*) from parsed group by severity",
        );
        questions.text(
            "count by command",
            "",
            "stats count by command_tag database_name",
            "select command, database_name, count(*) from parsed group by command, database_name",
        );
        questions.text(
            "errors by state",
            "error_severity=ERROR",
            "stats count by sql_state_code",
            "select state, count(*) from parsed where severity = 'ERROR' group by state",
        );
        questions.text(
            "application",
            "",
            "stats count by application_name | where application_name!=\"\"",
            "select application, count(*) from parsed where application is not null group by application",
        );
        questions.text(
            "rex and dc",
            "",
            "rex \"execute (?<plan>[0-9a-f]{4}):\" | stats dc(plan)",
            "select count(distinct part(raw, 'execute ([0-9a-f]{4}):')) from parsed",
        );
        questions.text(
            "regex of text",
            "",
            "regex _raw=\"duration: \\d{3}\\.\" | stats count",
            "select count(*) from parsed where matches(raw, 'duration: \\d{3}\\.')",
        );
        questions.queries()
    }
}
