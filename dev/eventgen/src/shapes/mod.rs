//! Fifteen log formats with randomised details, the fields of every event, and questions about them.
//!
//! A shape is a format: nginx's access log, container logs as JSON, Windows events as XML and so on. Everything that
//! varies between two installations of the same format is random: the number of services and users and how unevenly
//! they are distributed, the names of optional keys and how often they are present, how often a value is null, escaped,
//! written with or without decimals, or very long. A new seed therefore generates a different data set, not the same
//! events in another order.
//!
//! For each event, a shape returns the text and the typed values that a parser of this format would find. The values
//! are written next to the text as newline-delimited JSON, so that a database can load the parsed data.
//! [`Shape::queries`] states each question three times: in SPL, in SQL over the parsed table, and in SQL over the text
//! alone. By default, the SQL over the text is the SQL over the parsed table with each column replaced by the
//! expression that extracts it from the text.
//!
//! Not here: running the questions; `cargo xtask bench --shapes` does that.

mod audit;
mod cef;
mod cloudtrail;
mod draw;
mod firewall;
mod iis;
mod java;
mod klog;
mod kubernetes;
mod nginx;
mod otlp;
mod postgres;
mod prose;
mod proxy;
mod queries;
mod sourcetype_mix;
mod truth;
mod windows;

use std::io;
use std::path::Path;

pub use self::queries::Query;
use crate::random::Rng;

/// Type of a column of the parsed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text; booleans are the texts `true` and `false`.
    Text,
    /// 64-bit integer.
    Integer,
    /// 64-bit floating-point number.
    Number,
}

impl Kind {
    /// Name of the type in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Kind::Text => "VARCHAR",
            Kind::Integer => "BIGINT",
            Kind::Number => "DOUBLE",
        }
    }
}

/// A column of the parsed table. Every table also has `n` (number of the event), `t`
/// (milliseconds since the epoch), `sourcetype` and `raw`.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name in SQL.
    pub name: String,
    /// Type.
    pub kind: Kind,
    /// SQL that extracts the value from `raw` as text, null if absent. See [`Query`] for the functions it may use.
    pub from_raw: String,
}

impl Column {
    fn new(name: &str, kind: Kind, from_raw: impl Into<String>) -> Column {
        Column { name: name.to_owned(), kind, from_raw: from_raw.into() }
    }

    /// Makes a column that the first group of a regular expression extracts.
    fn by_pattern(name: &str, kind: Kind, pattern: &str) -> Column {
        Column::new(name, kind, format!("part(raw, '{}')", pattern.replace('\'', "''")))
    }

    /// Makes a column at a JSON path whose value may be a JSON null, which a search returns as the text `null`.
    fn by_path_or_null(name: &str, kind: Kind, path: &str) -> Column {
        Column::new(name, kind, format!("coalesce(json_part(raw, '{path}'), json_null(raw, '{path}'))"))
    }

    /// Makes a column at a path of the JSON object.
    fn by_path(name: &str, kind: Kind, path: &str) -> Column {
        Column::new(name, kind, format!("json_part(raw, '{path}')"))
    }
}

/// A typed value of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The event has no such field.
    Absent,
    /// Text, unescaped.
    Text(String),
    /// Integer.
    Integer(i64),
    /// Floating-point number.
    Number(f64),
}

impl Value {
    fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    fn maybe(text: Option<impl Into<String>>) -> Value {
        text.map_or(Value::Absent, |text| Value::Text(text.into()))
    }
}

/// One generated event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Index of the event's file in [`Shape::files`].
    pub file: usize,
    /// Text without the final line feed.
    pub text: String,
    /// A value per column, in the order of [`Shape::columns`].
    pub values: Vec<Value>,
}

/// A log file of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// File name.
    pub name: &'static str,
    /// Sourcetype under which it is indexed.
    pub sourcetype: &'static str,
}

/// A format with its randomised details.
pub trait Shape {
    /// Short name, for the command line and the report.
    fn name(&self) -> &'static str;

    /// Files that the events go to; most shapes have one.
    fn files(&self) -> Vec<LogFile>;

    /// Configuration that the sourcetype needs in addition to the built-in configuration: file name (`props.conf`) and
    /// text.
    fn conf(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Columns of the parsed table.
    fn columns(&self) -> Vec<Column>;

    /// Generates the next event; `millis` is its time in milliseconds since the epoch.
    fn event(&mut self, millis: i64, rng: &mut Rng) -> Event;

    /// At least 25 questions, whose values occur in `samples`.
    fn queries(&self, samples: &Samples) -> Vec<Query>;
}

/// All shapes, randomised by `seed`.
pub fn shapes(seed: u64) -> Vec<Box<dyn Shape>> {
    let rng = |salt: u64| Rng::new(seed ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    vec![
        Box::new(nginx::Nginx::draw(&mut rng(1))),
        Box::new(kubernetes::Kubernetes::draw(&mut rng(2))),
        Box::new(cloudtrail::CloudTrail::draw(&mut rng(3))),
        Box::new(windows::Windows::draw(&mut rng(4))),
        Box::new(firewall::Firewall::draw(&mut rng(5))),
        Box::new(java::Java::draw(&mut rng(6))),
        Box::new(prose::Prose::draw(&mut rng(7))),
        Box::new(otlp::Otlp::draw(&mut rng(8))),
        Box::new(klog::Klog::draw(&mut rng(9))),
        Box::new(postgres::Postgres::draw(&mut rng(10))),
        Box::new(sourcetype_mix::SourcetypeMix::draw(&mut rng(11))),
        Box::new(audit::Audit::draw(&mut rng(12))),
        Box::new(cef::Cef::draw(&mut rng(13))),
        Box::new(iis::Iis::draw(&mut rng(14))),
        Box::new(proxy::Proxy::draw(&mut rng(15))),
    ]
}

/// A uniform random sample of the events of a data set.
#[derive(Clone, Debug)]
pub struct Samples {
    columns: Vec<String>,
    events: Vec<Event>,
}

/// Salt that makes the random numbers of the events independent of those of the shape's details.
const EVENTS_SALT: u64 = 0x5DEE_CE66;
/// Number of sampled events, from which queries take their values.
const SAMPLES: usize = 256;

impl Samples {
    /// The values of `columns` in the `at`-th sample that has all of them; if there are fewer samples, they repeat.
    /// Returns empty texts if no sample has all columns.
    pub(crate) fn row(&self, columns: &[&str], at: usize) -> Vec<String> {
        let places: Vec<usize> =
            columns.iter().filter_map(|name| self.columns.iter().position(|known| known == name)).collect();
        let of = |event: &Event| places.iter().map(|place| event.values.get(*place).and_then(format_value)).collect();
        let rows: Vec<Vec<String>> =
            self.events.iter().filter_map(of).filter(|row: &Vec<String>| row.len() == columns.len()).collect();
        rows.get(at % rows.len().max(1)).cloned().unwrap_or_else(|| vec![String::new(); columns.len()])
    }

    /// One value of a column.
    pub(crate) fn value(&self, column: &str, at: usize) -> String {
        self.row(&[column], at).swap_remove(0)
    }

    /// Quantile `share` of a numeric column in the samples.
    pub(crate) fn quantile(&self, column: &str, share: f64) -> String {
        let place = self.columns.iter().position(|known| known == column).unwrap_or_default();
        let mut numbers: Vec<f64> = self
            .events
            .iter()
            .filter_map(|event| match event.values.get(place)? {
                Value::Integer(number) => Some(*number as f64),
                Value::Number(number) => Some(*number),
                Value::Absent | Value::Text(_) => None,
            })
            .collect();
        numbers.sort_by(f64::total_cmp);
        let at = (numbers.len() as f64 * share) as usize;
        numbers.get(at).map_or_else(|| "0".to_owned(), |number| format!("{}", number.floor()))
    }
}

/// Formats a value as a search condition needs it; `None` if it is absent or empty.
fn format_value(value: &Value) -> Option<String> {
    match value {
        Value::Absent => None,
        Value::Text(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Number(number) => Some(number.to_string()),
    }
}

/// The first `count` events of a shape's data set, one per second, each with its time in milliseconds since the epoch.
pub fn events(shape: &mut dyn Shape, seed: u64, count: u32, start_s: i64) -> Vec<(i64, Event)> {
    let mut rng = Rng::new(seed ^ EVENTS_SALT);
    let times = (0..i64::from(count)).map(|at| (start_s + at) * 1_000);
    times.map(|millis| (millis, shape.event(millis, &mut rng))).collect()
}

/// Size and counts of the written files.
#[derive(Clone, Debug)]
pub struct Written {
    /// Number of events.
    pub events: u64,
    /// Bytes of their texts, including a line feed after each.
    pub bytes: u64,
    /// A sample of the events.
    pub samples: Samples,
}

/// Writes about `bytes` bytes of a shape's events into `folder`: its files, and the parsed table as `parsed.ndjson`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(shape: &mut dyn Shape, seed: u64, bytes: u64, start_s: i64, folder: &Path) -> io::Result<Written> {
    let mut rng = Rng::new(seed ^ EVENTS_SALT);
    // The number of hours does not depend on the size, so a larger data set has a higher rate of events and the same
    // time range.
    let hours = 6 + rng.below(12);
    let mut files = truth::Files::create(shape, folder)?;
    let mut samples =
        Samples { columns: shape.columns().iter().map(|column| column.name.clone()).collect(), events: Vec::new() };
    let (mut events, mut made) = (0, 0);
    while made < bytes {
        let millis = start_s * 1_000 + (made as f64 / bytes as f64 * hours as f64 * 3_600_000.0) as i64;
        let event = shape.event(millis, &mut rng);
        made += event.text.len() as u64 + 1;
        files.write(events, millis, &event)?;
        events += 1;
        // Reservoir sampling (Vitter's algorithm R).
        if samples.events.len() < SAMPLES {
            samples.events.push(event);
        } else if let Some(place) = samples.events.get_mut(rng.below(events) as usize) {
            *place = event;
        }
    }
    files.finish()?;
    Ok(Written { events, bytes: made, samples })
}

#[cfg(test)]
mod tests;
