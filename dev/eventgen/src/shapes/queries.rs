//! Questions as data, and the questions that apply to every shape.
//!
//! SQL is written once for DuckDB and ClickHouse. Where their functions differ, the SQL uses the following functions,
//! which the benchmark defines in both: `part(x, re)` the first group of a regular expression, null if it does not
//! match; `matches(x, re)`; `json_part(x, path)` the text at a JSON path, null if absent; `holds`, `begins` and
//! `ends(x, y)`; `chars(x)` the length in characters; `bucket(t, ms)` the start of a span in seconds; `whole(x)` and
//! `number(x)`, null if the text is not a number; `shown(x)` a value as text; `json_null(x, path)` the text `null` for
//! a JSON null, which is what a search returns. Regular expressions are RE2's.

use super::{Column, Samples};

/// A question in SPL and SQL. All answers have the same columns in the same order, but the names may differ.
#[derive(Clone, Debug)]
pub struct Query {
    /// Name of the question, unique within the shape.
    pub name: String,
    /// The search.
    pub spl: String,
    /// The same question in SQL over the table `parsed`.
    pub parsed: String,
    /// The same question in SQL over the table `lines`, which has `n`, `t`, `sourcetype` and `raw`.
    pub raw: String,
    /// Whether the order of rows is part of the answer.
    pub ordered: bool,
}

/// A field: its name in searches, and its column in the parsed table.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    spl: String,
    sql: &'static str,
}

impl Field {
    pub(crate) fn new(spl: impl Into<String>, sql: &'static str) -> Field {
        Field { spl: spl.into(), sql }
    }

    /// A field whose column has the same name.
    pub(crate) fn same(name: &'static str) -> Field {
        Field::new(name, name)
    }

    /// Name of the field in an expression.
    fn in_eval(&self) -> String {
        let plain = self.spl.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if plain { self.spl.clone() } else { format!("'{}'", self.spl) }
    }

    /// Name of the field in field lists and search conditions.
    fn name(&self) -> String {
        let plain = self.spl.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        if plain { self.spl.clone() } else { format!("\"{}\"", self.spl) }
    }
}

/// The fields of a shape that the common questions use.
#[derive(Clone, Debug)]
pub(crate) struct Roles {
    /// Search that finds all events and extracts the fields; `index=main`, or more.
    pub(crate) base: String,
    /// SQL condition for the events that the base search finds; empty if it finds all.
    pub(crate) only: &'static str,
    /// Field with few values, all of them texts.
    pub(crate) few: Field,
    /// Another field with few values.
    pub(crate) other: Field,
    /// Field with dozens to thousands of values, all of them lower-case texts.
    pub(crate) many: Field,
    /// Field with very many values.
    pub(crate) most: Field,
    /// Numeric field.
    pub(crate) number: Field,
    /// Field whose values each occur in one or a few events.
    pub(crate) id: Field,
}

/// Collects the questions of a shape.
pub(crate) struct QuestionList<'a> {
    columns: Vec<Column>,
    roles: &'a Roles,
    queries: Vec<Query>,
}

impl QuestionList<'_> {
    /// Creates a list with the questions that apply to every shape.
    pub(crate) fn common<'a>(columns: Vec<Column>, roles: &'a Roles, samples: &Samples) -> QuestionList<'a> {
        let mut questions = QuestionList { columns, roles, queries: Vec::new() };
        questions.counts(samples);
        questions.many_groups();
        questions.conditions(samples);
        questions.orders(samples);
        questions.needles(samples);
        questions
    }

    /// All questions.
    pub(crate) fn queries(self) -> Vec<Query> {
        self.queries
    }

    /// Adds a question, given by the commands after the base search and by SQL over `parsed`.
    pub(crate) fn ask(&mut self, name: &str, commands: &str, sql: &str) {
        let spl = format!("{} | {commands}", self.roles.base);
        let sql = self.narrowed(sql);
        self.push(name, spl, &sql);
    }

    /// Adds a question about the events that match a search condition.
    pub(crate) fn find(&mut self, name: &str, condition: &str, commands: &str, sql: &str) {
        let spl = format!("{} | {commands}", self.with(condition));
        let sql = self.narrowed(sql);
        self.push(name, spl, &sql);
    }

    /// Adds a search without the base search.
    pub(crate) fn text(&mut self, name: &str, condition: &str, commands: &str, sql: &str) {
        let spl = format!("index=main {condition} | {commands}");
        self.push(name, spl, sql);
    }

    /// Marks the last question as having ordered rows.
    fn ordered(&mut self) {
        if let Some(query) = self.queries.last_mut() {
            query.ordered = true;
        }
    }

    fn push(&mut self, name: &str, spl: String, sql: &str) {
        let raw = format!("{}{sql}", self.parsing());
        self.queries.push(Query { name: name.to_owned(), spl, parsed: sql.to_owned(), raw, ordered: false });
    }

    /// Restricts SQL to the events that the base search finds.
    fn narrowed(&self, sql: &str) -> String {
        match self.roles.only {
            "" => sql.to_owned(),
            only => sql.replace("from parsed", &format!("from (select * from parsed where {only})")),
        }
    }

    /// SQL that derives `parsed` from `lines`; databases compute only the columns that a question uses.
    fn parsing(&self) -> String {
        let columns: String = self
            .columns
            .iter()
            .map(|column| {
                let value = match column.kind {
                    super::Kind::Text => column.from_raw.clone(),
                    super::Kind::Integer => format!("whole({})", column.from_raw),
                    super::Kind::Number => format!("number({})", column.from_raw),
                };
                format!(", {value} as {}", column.name)
            })
            .collect();
        format!("with parsed as (select n, t, sourcetype, raw{columns} from lines) ")
    }

    /// Adds a condition to the base search: in its first command, or at the end if commands create the fields.
    fn with(&self, condition: &str) -> String {
        let base = &self.roles.base;
        if base.contains('|') { format!("{base} | search {condition}") } else { format!("{base} {condition}") }
    }

    fn counts(&mut self, samples: &Samples) {
        let Roles { few, other, many, most, number, .. } = self.roles.clone();
        let (f, o, m, h, x) = (few.sql, other.sql, many.sql, most.sql, number.sql);
        let (fs, os, ms, hs, xs) = (few.name(), other.name(), many.name(), most.name(), number.name());
        let (xe, big) = (number.in_eval(), samples.quantile(x, 0.9));
        let present = |columns: &[&str]| {
            let conditions: Vec<String> = columns.iter().map(|column| format!("{column} is not null")).collect();
            conditions.join(" and ")
        };
        let count = |columns: &[&str]| {
            let list = columns.join(", ");
            format!("select {list}, count(*) from parsed where {} group by {list}", present(columns))
        };
        self.ask("count by few", &format!("stats count by {fs}"), &count(&[f]));
        self.ask("count by two", &format!("stats count by {fs} {os}"), &count(&[f, o]));
        self.ask("count by many", &format!("stats count by {ms}"), &count(&[m]));
        let sql = format!("select {f}, avg({x}), sum({x}), count({x}) from parsed where {f} is not null group by {f}");
        self.ask("avg sum by few", &format!("stats avg({xs}) sum({xs}) count(eval(isnum({xe}))) by {fs}"), &sql);
        let sql = format!("select count(distinct {h}) from parsed");
        self.ask("dc of most", &format!("stats dc({hs})"), &sql);
        let sql = format!("select {f}, count(distinct {h}) from parsed where {f} is not null group by {f}");
        self.ask("dc of most by few", &format!("stats dc({hs}) by {fs}"), &sql);
        let sql = format!(
            "select count(*), max(c) from (select {h}, count(*) as c from parsed where {h} is not null group by {h})"
        );
        self.ask("count by most", &format!("stats count as c by {hs} | stats count max(c)"), &sql);
        let sql = format!(
            "select s from (select {h}, sum({x}) as s from parsed where {h} is not null group by {h}) where s is not null order by s desc limit 10"
        );
        self.ask("largest sums by most", &format!("stats sum({xs}) as s by {hs} | sort 10 - s | table s"), &sql);
        self.ordered();
        let sql =
            format!("select count(*) as c from parsed where {m} is not null group by {m} order by c desc limit 10");
        self.ask("top of many", &format!("top limit=10 {ms} | table count"), &sql);
        self.ordered();
        let sql =
            format!("select bucket(t, 300000) as s, {f}, count(*) from parsed where {f} is not null group by s, {f}");
        self.ask("count by time and few", &format!("bin _time span=5m | stats count by _time {fs}"), &sql);
        let sql = "select bucket(t, 600000) as s, count(*) from parsed group by s order by s";
        self.ask("timechart count", "timechart span=10m count", sql);
        self.ordered();
        let sql = format!("select bucket(t, 1800000) as s, avg({x}) from parsed group by s order by s");
        self.ask("timechart avg", &format!("timechart span=30m avg({xs})"), &sql);
        self.ordered();
        let sql = format!(
            "select case when {x} > {big} then 'big' else 'small' end as size, count(*), avg({x}) from parsed where {x} is not null group by size"
        );
        let commands =
            format!("where isnum({xe}) | eval size=if({xe}>{big}, \"big\", \"small\") | stats count avg({xs}) by size");
        self.ask("eval if", &commands, &sql);
        let sql = format!("select upper({f}) as u, count(*) from parsed where {f} is not null group by u");
        self.ask("eval upper", &format!("eval u=upper({}) | stats count by u", few.in_eval()), &sql);
        self.ask(
            "len of text",
            "eval l=len(_raw) | stats avg(l) max(l)",
            "select avg(chars(raw)), max(chars(raw)) from parsed",
        );
    }

    fn many_groups(&mut self) {
        let Roles { few, most, id, .. } = self.roles.clone();
        let (f, h, i) = (few.sql, most.sql, id.sql);
        let (fs, hs, is) = (few.name(), most.name(), id.name());
        let sql = format!(
            "select count(*), max(c) from (select {i}, count(*) as c from parsed where {i} is not null group by {i})"
        );
        self.ask("count by id", &format!("stats count as c by {is} | stats count max(c)"), &sql);
        self.ask("dc of id", &format!("stats dc({is})"), &format!("select count(distinct {i}) from parsed"));
        let sql = format!("select {h} from parsed where {h} is not null order by {h} desc limit 20");
        self.ask("sort texts", &format!("sort 20 - str({hs}) | table {hs}"), &sql);
        self.ordered();
        let sql =
            format!("select bucket(t, 1800000) as s, {f}, count(*) from parsed where {f} is not null group by s, {f}");
        let commands = format!(
            "timechart span=30m limit=0 usenull=f count by {fs} | untable _time series count | where count > 0"
        );
        self.ask("timechart by few", &commands, &sql);
    }

    fn conditions(&mut self, samples: &Samples) {
        let Roles { few, other, many, number, .. } = self.roles.clone();
        let (f, o, m, x) = (few.sql, other.sql, many.sql, number.sql);
        let (fs, os, ms, xs) = (few.name(), other.name(), many.name(), number.name());
        let middle = samples.quantile(x, 0.5);
        let (value, second, seldom) = (samples.value(f, 0), samples.value(o, 1), samples.value(m, 2));
        let sql = format!("select {f}, count(*) from parsed where {x} > {middle} and {f} is not null group by {f}");
        self.ask("where number", &format!("where {} > {middle} | stats count by {fs}", number.in_eval()), &sql);
        let sql = format!("select count(*), sum({x}) from parsed where {f} = '{value}' and {x} > {middle}");
        let condition = format!("{fs}=\"{value}\" {xs}>{middle}");
        self.find("value and number", &condition, &format!("stats count sum({xs})"), &sql);
        let sql = format!(
            "select {f}, count(*) from parsed where coalesce(shown({o}), '') <> '{second}' and {f} is not null group by {f}"
        );
        self.find("not value", &format!("NOT {os}=\"{second}\""), &format!("stats count by {fs}"), &sql);
        let sql = format!("select {o}, count(*) from parsed where {m} = '{seldom}' and {o} is not null group by {o}");
        self.find("seldom value", &format!("{ms}=\"{seldom}\""), &format!("stats count by {os}"), &sql);
        let tail: String = seldom.chars().rev().take(4).collect::<Vec<_>>().into_iter().rev().collect();
        let sql = format!("select count(*) from parsed where ends({m}, '{tail}')");
        self.find("leading wildcard", &format!("{ms}=\"*{tail}\""), "stats count", &sql);
        let piece = letters(&seldom);
        let sql = format!("select count(*) from parsed where matches({m}, '{piece}[^b-n]')");
        let commands = format!("where match({}, \"{piece}[^b-n]\") | stats count", many.in_eval());
        self.ask("where match", &commands, &sql);
    }

    fn orders(&mut self, samples: &Samples) {
        let Roles { few, many, most, number, .. } = self.roles.clone();
        let (f, m, h, x) = (few.sql, many.sql, most.sql, number.sql);
        let (fs, ms, hs, xs) = (few.name(), many.name(), most.name(), number.name());
        let sql = format!("select {x} from parsed where {x} is not null order by {x} desc limit 100");
        self.ask("sort and head", &format!("sort 100 - num({xs}) | table {xs}"), &sql);
        self.ordered();
        let sql = format!(
            "select {f}, count(*) from (select {f} from parsed order by t desc, n desc limit 5000) where {f} is not null group by {f}"
        );
        self.ask("head", &format!("head 5000 | stats count by {fs}"), &sql);
        let sql = format!("select count(distinct {m}) from parsed");
        self.ask("dedup many", &format!("dedup {ms} | stats count"), &sql);
        let sql = format!(
            "select {f}, {h} from (select {f}, {h}, row_number() over (partition by {f} order by t desc, n desc) as k from parsed where {f} is not null) where k <= 2"
        );
        self.ask("dedup few", &format!("dedup 2 {fs} | table {fs} {hs}"), &sql);
        let sql = format!(
            "select {f}, count(*) from (select {f}, {x}, avg({x}) over (partition by {f}) as a from parsed where {f} is not null) where {x} > 2 * a group by {f}"
        );
        let commands =
            format!("eventstats avg({xs}) as a by {fs} | where {} > 2*a | stats count by {fs}", number.in_eval());
        self.ask("eventstats", &commands, &sql);
        let sql = format!(
            "select {f}, count(*) from (select {f}, row_number() over (partition by {m} order by t desc, n desc) as c from parsed where {m} is not null) where c % 50 = 0 and {f} is not null group by {f}"
        );
        let commands = format!("streamstats count as c by {ms} | where c % 50 = 0 | stats count by {fs}");
        self.ask("streamstats by many", &commands, &sql);
        let sql = format!(
            "select max(a) from (select avg({x}) over (order by t desc, n desc rows 9 preceding) as a from parsed where {x} is not null)"
        );
        let commands =
            format!("where isnum({}) | streamstats window=10 avg({xs}) as a | stats max(a)", number.in_eval());
        self.ask("streamstats window", &commands, &sql);
        let seldom = samples.value(m, 5);
        let sql =
            format!("select count(distinct {h}), count(*) from parsed where {m} = '{seldom}' and {h} is not null");
        let commands = format!(
            "transaction {hs} maxevents=100000 maxopentxn=1000000 maxopenevents=1000000 | stats count sum(eventcount)"
        );
        self.find("transaction", &format!("{ms}=\"{seldom}\" {hs}=*"), &commands, &sql);
    }

    fn needles(&mut self, samples: &Samples) {
        let Roles { many, most, id, .. } = self.roles.clone();
        let (m, h, i) = (many.sql, most.sql, id.sql);
        let needle = samples.value(i, 7);
        let sql = format!("select {i}, bucket(t, 1000) from parsed where {i} = '{needle}'");
        let commands = format!("eval s=floor(_time) | table {} s", id.name());
        self.find("needle by field", &format!("{}=\"{needle}\"", id.name()), &commands, &sql);
        let word = samples.value(i, 11);
        self.text(
            "needle by word",
            &format!("\"{word}\""),
            "stats count",
            &format!("select count(*) from parsed where {}", word_in_raw(&word)),
        );
        let row = samples.row(&[m, h], 13);
        let (first, second) = (&row[0], &row[1]);
        let sql = format!("select count(*) from parsed where {} and {}", word_in_raw(first), word_in_raw(second));
        self.text("two words", &format!("\"{first}\" \"{second}\""), "stats count", &sql);
        let most_of = samples.value(h, 17);
        let start: String = most_of.chars().take(most_of.chars().count().div_ceil(2)).collect();
        let sql = format!("select count(*) from parsed where begins({h}, '{start}')");
        self.find("wildcard at the end", &format!("{}=\"{start}*\"", most.name()), "stats count", &sql);
        let piece = letters(&samples.value(m, 19));
        let sql = format!("select count(*) from parsed where raw ilike '%{piece}%'");
        self.text("wildcard in text", &format!("*{piece}*"), "stats count", &sql);
        let sql = "select count(*) from parsed where holds(raw, 'qqzzxj')";
        self.text("absent word", "qqzzxj", "stats count", sql);
    }
}

/// SQL condition that is true if the text contains `word` as a whole word.
pub(crate) fn word_in_raw(word: &str) -> String {
    let mut pattern = String::new();
    for character in word.chars() {
        if character.is_ascii() && !character.is_ascii_alphanumeric() && character != ' ' {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    let (word, pattern) = (word.replace('\'', "''"), pattern.replace('\'', "''"));
    // No border is checked at an end of the word that is itself a breaker.
    let is_of_word = |character: Option<char>| character.is_some_and(|character| character.is_ascii_alphanumeric());
    let before = if is_of_word(word.chars().next()) { "(^|[^0-9A-Za-z])" } else { "" };
    let behind = if is_of_word(word.chars().next_back()) { "($|[^0-9A-Za-z])" } else { "" };
    // The substring test comes first because it is fast, so databases evaluate the regular expression on few rows.
    format!("holds(raw, '{word}') and matches(raw, '{before}{pattern}{behind}')")
}

/// The longest run of lower-case letters in a text.
fn letters(text: &str) -> String {
    let runs = text.split(|character: char| !character.is_ascii_lowercase());
    runs.max_by_key(|run| run.len()).unwrap_or_default().to_owned()
}
