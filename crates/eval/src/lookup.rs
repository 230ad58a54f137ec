//! Lookup tables: where they come from, their index, and the fields of their matching rows.
//!
//! A table lives in memory as one batch of texts with an index over its input columns, made once per search.

mod matched_rows;

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_conf::Permissions;
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, strptime};
use quarry_spl::ast::{LookupCommand, TableContext};
use quarry_stdx::Fault;

use crate::EngineError;
use crate::aggregate::keys::{KeyTable, add_key_part};
use crate::functions::Network;
use crate::pattern::Wildcard;
use crate::row_filter::network_of;
use crate::rows::{self, ColumnBuilder, ColumnReader, batch_of};

pub use matched_rows::Lookup;

/// Writes the CSV text of a table, piece by piece.
pub type FillTable<'f> = &'f mut dyn FnMut(&mut dyn std::io::Write) -> Result<(), Fault>;

/// Where tables come from.
pub trait LookupSource: Send + Sync {
    /// The tables and models as a user sees and may change them; `None` where that is the same for all.
    fn of_user(&self, _user: &Arc<Permissions>) -> Option<Arc<dyn LookupSource>> {
        None
    }
    /// The table of a transforms.conf stanza or of a CSV file; `None` when there is none of this name. An
    /// error names the table.
    fn table(&self, name: &str) -> Result<Option<LookupTable>, Fault>;
    /// Names there are, for a suggestion.
    fn names(&self) -> Vec<String>;
    /// Where tables are looked for, for whoever asks for one that is not there.
    fn searched(&self) -> Option<String> {
        None
    }
    /// Refuses a name under which [`LookupSource::write`] writes nothing, before a search does its work.
    fn check_written(&self, _name: &str, _context: Option<TableContext>) -> Result<(), Fault> {
        Ok(())
    }
    /// Writes the table of a stanza or a CSV file, in place of what was there; where `fill` fails, nothing changes. A file that is
    /// not there yet goes where `context` says, else into the app of the search, or where its user may not write that, to the
    /// user's own.
    fn write(&self, name: &str, _context: Option<TableContext>, _fill: FillTable<'_>) -> Result<(), Fault> {
        Err(Fault::invalid(format!("lookup {name}: no lookup tables can be written here")))
    }
    /// Adds the rows that `fill` writes to a table whose rows have keys (`_key`), each in the place of the one of its key, or, with
    /// `key_field`, of those that have its value in that field; other rows stay as they are. `false` where the table has no keys: then
    /// nothing was written, and [`LookupSource::write`] takes it as a whole.
    fn add_rows(&self, _name: &str, _key_field: Option<&str>, _fill: FillTable<'_>) -> Result<bool, Fault> {
        Ok(false)
    }
    /// Whether [`LookupSource::add_rows`] takes rows of this table.
    fn has_keys(&self, _name: &str) -> bool {
        false
    }
    /// A new file of `dump` below the folder of the search `sid`; `path` is relative to it, with `/` between folders.
    fn dump_file(&self, _sid: &str, _path: &str) -> Result<Box<dyn Write + Send>, Fault> {
        Err(Fault::invalid("dump: no files can be written here"))
    }
    /// The bytes of a model that `fit` kept; `None` where none of this name is seen. With `shared` it is the one of the app,
    /// else the user's own before that.
    fn model(&self, _name: &str, _shared: bool) -> Result<Option<Vec<u8>>, Fault> {
        Ok(None)
    }
    /// Keeps a model, whole or not at all, in place of one of its name: for the user, or with `shared` for the app.
    fn write_model(&self, name: &str, _shared: bool, _bytes: &[u8]) -> Result<(), Fault> {
        Err(Fault::invalid(format!("model {name}: no models can be kept here")))
    }
    /// Removes a model; `false` where none of this name is seen.
    fn remove_model(&self, _name: &str, _shared: bool) -> Result<bool, Fault> {
        Ok(false)
    }
    /// The models that are seen, by name.
    fn models(&self) -> Result<Vec<ModelFile>, Fault> {
        Ok(Vec::new())
    }
    /// The database of addresses that `iplocation` reads; `None` when there is none.
    fn places(&self) -> Result<Option<Arc<dyn AddressLocations>>, Fault> {
        Ok(None)
    }
}

/// What a database knows of an address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Location {
    /// Name of the town.
    pub city: Option<String>,
    /// Name of the country.
    pub country: Option<String>,
    /// Name of the largest part of the country.
    pub region: Option<String>,
    /// Degrees north.
    pub latitude: Option<f64>,
    /// Degrees east.
    pub longitude: Option<f64>,
    /// Name of the continent.
    pub continent: Option<String>,
    /// Number of the market area, in the United States.
    pub metro_code: Option<i64>,
    /// Time zone, as `Europe/Berlin`.
    pub time_zone: Option<String>,
}

/// A database of addresses.
pub trait AddressLocations: Send + Sync {
    /// Where an address is, in the first of the languages that its record has; `code` asks for ISO codes.
    fn place(&self, address: IpAddr, languages: &[String]) -> Result<Option<Location>, Fault>;
}

/// Where a model is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// Its name.
    pub name: String,
    /// The app.
    pub app: String,
    /// Whose it is; `None` where the users of the app share it.
    pub owner: Option<String>,
}

/// A table and how it is matched.
#[derive(Clone, Debug)]
pub struct LookupTable {
    /// CSV text with a header line.
    pub csv: Arc<str>,
    /// `case_sensitive_match`.
    pub case_sensitive: bool,
    /// `max_matches`: rows of the table one event takes values from; 0 is all up to 1,000.
    pub max_matches: usize,
    /// `default_match`: value of outputs without a match.
    pub default_match: Option<String>,
    /// Columns whose cells are `*` patterns (`match_type = WILDCARD(c)`).
    pub wildcard_columns: Vec<String>,
    /// Columns whose cells are networks, matched by the addresses in them (`match_type = CIDR(c)`).
    pub network_columns: Vec<String>,
    /// `min_matches`: where fewer rows match, `default_match` makes up the number.
    pub min_matches: usize,
    /// Where rows hold for a time: only those before an event match, the latest first.
    pub time: Option<TableTime>,
}

/// How rows of a table are told apart by the time of an event.
#[derive(Clone, Debug)]
pub struct TableTime {
    /// Column with the time of a row (`time_field`).
    pub column: String,
    /// How it is written (`time_format`).
    pub format: String,
    /// How many seconds before the event a row may be, at most and at least (`max_offset_secs`, `min_offset_secs`).
    pub offsets: (i64, i64),
}

impl LookupTable {
    /// A table with Splunk's defaults.
    pub fn of_csv(csv: impl Into<Arc<str>>) -> LookupTable {
        LookupTable {
            csv: csv.into(),
            case_sensitive: true,
            max_matches: 0,
            default_match: None,
            wildcard_columns: Vec::new(),
            network_columns: Vec::new(),
            min_matches: 0,
            time: None,
        }
    }
}

/// Rows of a table one event takes values from when nothing is set.
const MATCHES_MAX: usize = 1_000;

/// What to tell where there is no table of a name.
pub fn no_table(name: &str, source: &dyn LookupSource) -> String {
    let names = source.names();
    let known = if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
    let searched = source.searched().map(|places| format!(" (looked for in {places})")).unwrap_or_default();
    format!("there is no lookup table {name}{searched}; {known}")
}

/// Names of the columns of CSV text.
pub fn csv_columns(text: &str) -> Result<Vec<String>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| Fault::invalid(format!("cannot read the header line: {error}")))?;
    Ok(header.iter().map(str::to_owned).collect())
}

/// Reads CSV text (RFC 4180) with a header line; an empty cell is null.
pub fn read_csv(text: &str) -> Result<RecordBatch, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header =
        reader.headers().map_err(|error| Fault::invalid(format!("cannot read the header line: {error}")))?.clone();
    let mut columns: Vec<ColumnBuilder> = header.iter().map(|_| ColumnBuilder::new(0)).collect();
    let mut count = 0;
    for record in reader.records() {
        let record = record.map_err(|error| Fault::invalid(format!("cannot read CSV: {error}")))?;
        for (at, column) in columns.iter_mut().enumerate() {
            match record.get(at) {
                None | Some("") => column.push_null(),
                Some(cell) => column.push_text(cell),
            }
        }
        count += 1;
    }
    let named = header.iter().map(str::to_owned).zip(columns.into_iter().map(ColumnBuilder::finish));
    Ok(batch_of(named, count)?)
}

/// Whether a value fits a cell of a row that is not found by its key.
enum CellTest {
    Same(String),
    Pattern(Wildcard),
    Network(Network),
}

/// A table indexed for one `lookup` command.
pub struct LookupIndex {
    command: LookupCommand,
    table: LookupTable,
    rows: RecordBatch,
    /// Table column and event field of each output.
    outputs: Vec<(String, String)>,
    keys: KeyTable,
    /// Rows of the table per key, in their order.
    places: Vec<Vec<u32>>,
    /// Rows whose key cells hold wildcards or networks, tried in order.
    patterns: Vec<(Vec<CellTest>, u32)>,
    /// The time of each row, of a table whose rows hold for a time.
    times: Vec<Option<TimeNs>>,
}

impl LookupIndex {
    /// Reads the table and indexes its input columns.
    pub fn new(command: &LookupCommand, table: LookupTable) -> Result<LookupIndex, EngineError> {
        let rows = read_csv(&table.csv)
            .map_err(|fault| EngineError::at(fault.at(format_args!("lookup {}", command.table)), command.table_span))?;
        let columns = crate::field_names::names_of(&rows);
        for (column, _) in command.inputs.iter().chain(&command.outputs) {
            if !columns.contains(column) {
                let message = format!("lookup {} has no column {column}; it has {}", command.table, columns.join(", "));
                return Err(EngineError::at(Fault::invalid(message), command.table_span));
            }
        }
        let outputs = if command.outputs.is_empty() {
            let others = columns.iter().filter(|column| !command.inputs.iter().any(|(input, _)| input == *column));
            others.map(|column| (column.clone(), column.clone())).collect()
        } else {
            command.outputs.clone()
        };
        let mut index = LookupIndex {
            command: command.clone(),
            table,
            rows,
            outputs,
            keys: KeyTable::default(),
            places: Vec::new(),
            patterns: Vec::new(),
            times: Vec::new(),
        };
        index.fill();
        index.read_times();
        Ok(index)
    }

    fn fill(&mut self) {
        let inputs = &self.command.inputs;
        let readers: Vec<_> = inputs.iter().map(|(column, _)| rows::reader(&self.rows, column)).collect();
        let is_of = |columns: &[String], at: usize| columns.contains(&inputs[at].0);
        let (mut key, mut scratch) = (Vec::new(), String::new());
        for row in 0..self.rows.num_rows() {
            let cells: Vec<String> =
                readers.iter().map(|reader| reader.text(row, &mut scratch).unwrap_or_default().to_owned()).collect();
            let tests: Vec<CellTest> = (cells.iter().enumerate())
                .map(|(at, cell)| match network_of(cell).filter(|_| is_of(&self.table.network_columns, at)) {
                    Some(network) => CellTest::Network(network),
                    None if is_of(&self.table.wildcard_columns, at) && cell.contains('*') => {
                        CellTest::Pattern(Wildcard::new(cell, self.table.case_sensitive))
                    }
                    None => CellTest::Same(self.folded(cell).into_owned()),
                })
                .collect();
            if !tests.iter().all(|test| matches!(test, CellTest::Same(_))) {
                self.patterns.push((tests, row as u32));
                continue;
            }
            key.clear();
            cells.iter().for_each(|cell| add_key_part(&mut key, &self.folded(cell), cells.len()));
            let at = self.keys.intern(&key) as usize;
            if at >= self.places.len() {
                self.places.push(Vec::new());
            }
            self.places[at].push(row as u32);
        }
    }

    /// Reads the times of the rows.
    fn read_times(&mut self) {
        let Some(time) = &self.table.time else { return };
        let (reader, mut scratch) = (rows::reader(&self.rows, &time.column), String::new());
        let whole_seconds = matches!(time.format.as_str(), "%s" | "%s.%Q" | "%s.%3N" | "%s.%6N");
        for row in 0..self.rows.num_rows() {
            let text = reader.text(row, &mut scratch).unwrap_or_default();
            let number = text.trim().parse::<f64>().ok().filter(|_| whole_seconds);
            let read = match number {
                Some(seconds) => Some((seconds * NS_PER_SEC as f64) as TimeNs),
                None => strptime(text, &time.format, &TimeZone::UTC),
            };
            self.times.push(read);
        }
    }

    /// Of rows that match, those that hold at a moment, the latest first.
    fn at_moment(&self, mut found: Vec<u32>, moment: Option<TimeNs>) -> Vec<u32> {
        let Some(time) = &self.table.time else { return found };
        let (most, least) = time.offsets;
        let age = |row: &u32| Some(moment?.saturating_sub(self.times.get(*row as usize).copied().flatten()?));
        let seconds = |seconds: i64| seconds.saturating_mul(NS_PER_SEC);
        found.retain(|row| age(row).is_some_and(|age| age >= seconds(least) && age <= seconds(most)));
        found.sort_by_key(age);
        // Of rows that hold one after the other only the last does, unless more are asked for.
        found.truncate(self.table.max_matches.max(1));
        found
    }

    fn folded<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        if self.table.case_sensitive { text.into() } else { text.to_lowercase().into() }
    }

    /// Rows of the table that match these values.
    fn find(&self, values: &[String], key: &mut Vec<u8>) -> Vec<u32> {
        key.clear();
        values.iter().for_each(|value| add_key_part(key, &self.folded(value), values.len()));
        let limit = match self.table.max_matches {
            _ if self.table.time.is_some() => usize::MAX,
            0 => MATCHES_MAX,
            limit => limit,
        };
        let exact = self.keys.find(key).map(|at| self.places[at as usize].as_slice()).unwrap_or_default();
        let fits = |tests: &[CellTest]| {
            tests.iter().zip(values).all(|(test, value)| match test {
                CellTest::Same(cell) => *cell == *self.folded(value),
                CellTest::Pattern(pattern) => pattern.is_match(value),
                CellTest::Network(network) => network.contains(value),
            })
        };
        let by_pattern = self.patterns.iter().filter(|(patterns, _)| fits(patterns)).map(|(_, row)| *row);
        exact.iter().copied().chain(by_pattern).take(limit).collect()
    }
}

impl LookupIndex {
    /// The first row of the table that matches these values of its inputs.
    pub fn first_match(&self, values: &[String]) -> Option<u32> {
        self.find(values, &mut Vec::new()).first().copied()
    }

    /// A cell of the table; `None` where it is empty or there is no such column.
    pub fn cell(&self, row: u32, column: &str) -> Option<String> {
        let column = rows::column(&self.rows, column)?;
        ColumnReader::new(column).values(row as usize).next().map(std::borrow::Cow::into_owned)
    }
}
