//! Lookup tables: sources, indexes, and fields of matching rows.
//!
//! A table is held in memory as one batch of texts with an index on its input columns, built once per search.

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
use quarry_stdx::number::u32_of;

use crate::EngineError;
use crate::aggregate::keys::{KeyTable, add_key_part};
use crate::functions::Network;
use crate::functions::time::instant;
use crate::pattern::Wildcard;
use crate::row_filter::network_of;
use crate::rows::{self, ColumnBuilder, ColumnReader, Value, batch_of};

pub use matched_rows::Lookup;

/// Writes the CSV text of a table incrementally.
pub type FillTable<'f> = &'f mut dyn FnMut(&mut dyn std::io::Write) -> Result<(), Fault>;

/// Source of lookup tables.
pub trait LookupSource: Send + Sync {
    /// The tables and models that a user can see and change; `None` if they do not depend on the user.
    fn for_user(&self, _user: &Arc<Permissions>) -> Option<Arc<dyn LookupSource>> {
        None
    }
    /// The table of a transforms.conf stanza or of a CSV file; `None` if no table has this name. An error names the
    /// table.
    fn table(&self, name: &str) -> Result<Option<LookupTable>, Fault>;
    /// Existing names, for suggestions.
    fn names(&self) -> Vec<String>;
    /// The locations searched for tables, as listed in the error about a missing table.
    fn search_locations(&self) -> Option<String> {
        None
    }
    /// Rejects a name that [`LookupSource::write`] would reject; called before a search does its work.
    fn check_writable(&self, _name: &str, _context: Option<TableContext>) -> Result<(), Fault> {
        Ok(())
    }
    /// Replaces the table of a stanza or a CSV file; if `fill` fails, nothing changes. A new file is created in the
    /// location that `context` selects; by default in the app of the search or, if the user may not write to the app,
    /// among the user's own files.
    fn write(&self, name: &str, _context: Option<TableContext>, _fill: FillTable<'_>) -> Result<(), Fault> {
        Err(Fault::invalid(format!("lookup {name}: no lookup tables can be written here")))
    }
    /// Adds the rows written by `fill` to a table whose rows have keys (`_key`). Each new row replaces the row with
    /// the same key or, with `key_field`, all rows with the same value in that field; other rows are kept. `false` if
    /// the table has no keys: nothing was written, and the caller must replace the whole table with
    /// [`LookupSource::write`].
    fn add_rows(&self, _name: &str, _key_field: Option<&str>, _fill: FillTable<'_>) -> Result<bool, Fault> {
        Ok(false)
    }
    /// Whether [`LookupSource::add_rows`] supports this table.
    fn has_keys(&self, _name: &str) -> bool {
        false
    }
    /// A new file for `dump` in the directory of the search `sid`; `path` is relative to this directory, with `/` as
    /// separator.
    fn dump_file(&self, _sid: &str, _path: &str) -> Result<Box<dyn Write + Send>, Fault> {
        Err(Fault::invalid("dump: no files can be written here"))
    }
    /// The bytes of a model stored by `fit`; `None` if no model of this name is visible. With `shared`, the model of
    /// the app is read; otherwise the user's own model takes precedence.
    fn model(&self, _name: &str, _shared: bool) -> Result<Option<Vec<u8>>, Fault> {
        Ok(None)
    }
    /// Stores a model atomically, replacing a model of the same name: for the user or, with `shared`, for the app.
    fn write_model(&self, name: &str, _shared: bool, _bytes: &[u8]) -> Result<(), Fault> {
        Err(Fault::invalid(format!("model {name}: no models can be stored here")))
    }
    /// Removes a model; `false` if no model of this name is visible.
    fn remove_model(&self, _name: &str, _shared: bool) -> Result<bool, Fault> {
        Ok(false)
    }
    /// The visible models, by name.
    fn models(&self) -> Result<Vec<ModelFile>, Fault> {
        Ok(Vec::new())
    }
    /// The GeoIP database used by `iplocation`, if there is a database.
    fn address_locations(&self) -> Result<Option<Arc<dyn AddressLocations>>, Fault> {
        Ok(None)
    }
}

/// Location of an address, as listed in a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Location {
    /// Name of the town.
    pub city: Option<String>,
    /// Name of the country.
    pub country: Option<String>,
    /// Name of the country's largest subdivision.
    pub region: Option<String>,
    /// Degrees north.
    pub latitude: Option<f64>,
    /// Degrees east.
    pub longitude: Option<f64>,
    /// Name of the continent.
    pub continent: Option<String>,
    /// Metro code, in the United States.
    pub metro_code: Option<i64>,
    /// Time zone, such as `Europe/Berlin`.
    pub time_zone: Option<String>,
}

/// A database of IP addresses and their locations.
pub trait AddressLocations: Send + Sync {
    /// Location of an address. Names are in the first of `languages` that the address's record contains; the language
    /// `code` means ISO codes.
    fn locate(&self, address: IpAddr, languages: &[String]) -> Result<Option<Location>, Fault>;
}

/// A stored model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// Name of the model.
    pub name: String,
    /// App to which the model belongs.
    pub app: String,
    /// Owner of the model; `None` if it is shared within the app.
    pub owner: Option<String>,
}

/// A table and the rules for matching its rows.
#[derive(Clone, Debug)]
pub struct LookupTable {
    /// CSV text with a header line.
    pub csv: Arc<str>,
    /// `case_sensitive_match`.
    pub case_sensitive: bool,
    /// `max_matches`: maximum number of matching rows per event; 0 means up to 1,000.
    pub max_matches: usize,
    /// `default_match`: value of outputs without a match.
    pub default_match: Option<String>,
    /// Columns with `*` patterns (`match_type = WILDCARD(c)`).
    pub wildcard_columns: Vec<String>,
    /// Columns with networks, which match any address in the network (`match_type = CIDR(c)`).
    pub network_columns: Vec<String>,
    /// `min_matches`: minimum number of results; if fewer rows match, `default_match` supplies the missing results.
    pub min_matches: usize,
    /// For time-based tables: only rows before an event match, the latest first.
    pub time: Option<TableTime>,
}

/// Settings of a time-based table.
#[derive(Clone, Debug)]
pub struct TableTime {
    /// Column with the time of a row (`time_field`).
    pub column: String,
    /// Format of the time (`time_format`).
    pub format: String,
    /// Maximum and minimum number of seconds that a row may precede the event (`max_offset_secs`, `min_offset_secs`).
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

/// Default of `max_matches`.
const DEFAULT_MATCHES_MAX: usize = 1_000;

/// Error text for a table that does not exist.
pub fn unknown_table_message(name: &str, source: &dyn LookupSource) -> String {
    let names = source.names();
    let searched = source.search_locations();
    let near = quarry_spl::closest_name(name, names.iter().map(String::as_str));
    let known = match near {
        Some(near) if names.len() > 1 => format!("existing tables: {}; did you mean {near}?", names.join(", ")),
        _ if !names.is_empty() => format!("existing tables: {}", names.join(", ")),
        _ if searched.is_some() => {
            "no table exists: CSV files go to etc/apps/search/lookups of the data directory".to_owned()
        }
        _ => "no table exists".to_owned(),
    };
    let searched = searched.map(|places| format!(" (looked for in {places})")).unwrap_or_default();
    format!("there is no lookup table {name}{searched}; {known}")
}

/// Column names of CSV text.
pub fn csv_columns(text: &str) -> Result<Vec<String>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| Fault::invalid(format!("cannot read the header line: {error}")))?;
    Ok(header.iter().map(str::to_owned).collect())
}

/// Parses CSV text (RFC 4180) with a header line; an empty cell is null.
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

/// Test of a cell with a pattern or network, whose row cannot be found by key.
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
    /// For each key, its rows in the table, in order.
    key_rows: Vec<Vec<u32>>,
    /// Rows with wildcards or networks in key cells, which are tried in order.
    patterns: Vec<(Vec<CellTest>, u32)>,
    /// Time of each row, in a time-based table.
    times: Vec<Option<TimeNs>>,
}

impl LookupIndex {
    /// Parses the table and indexes its input columns.
    pub fn new(command: &LookupCommand, table: LookupTable) -> Result<LookupIndex, EngineError> {
        let rows = read_csv(&table.csv).map_err(|fault| {
            EngineError::at(fault.with_context(format_args!("lookup {}", command.table)), command.table_span)
        })?;
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
            key_rows: Vec::new(),
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
                    None => CellTest::Same(self.fold_case(cell).into_owned()),
                })
                .collect();
            if !tests.iter().all(|test| matches!(test, CellTest::Same(_))) {
                self.patterns.push((tests, u32_of(row)));
                continue;
            }
            key.clear();
            cells.iter().for_each(|cell| add_key_part(&mut key, &self.fold_case(cell), cells.len()));
            let at = self.keys.intern(&key) as usize;
            if at >= self.key_rows.len() {
                self.key_rows.push(Vec::new());
            }
            self.key_rows[at].push(u32_of(row));
        }
    }

    /// Parses the times of the rows.
    fn read_times(&mut self) {
        let Some(time) = &self.table.time else { return };
        let (reader, mut scratch) = (rows::reader(&self.rows, &time.column), String::new());
        let is_epoch = matches!(time.format.as_str(), "%s" | "%s.%Q" | "%s.%3N" | "%s.%6N");
        for row in 0..self.rows.num_rows() {
            let text = reader.text(row, &mut scratch).unwrap_or_default();
            let epoch = if is_epoch { instant(&Value::borrowed_text(text.trim())) } else { None };
            self.times.push(epoch.or_else(|| strptime(text, &time.format, &TimeZone::UTC)));
        }
    }

    /// The matching rows that are valid at a given time, the latest first.
    fn valid_at(&self, mut found: Vec<u32>, moment: Option<TimeNs>) -> Vec<u32> {
        let Some(time) = &self.table.time else { return found };
        let (most, least) = time.offsets;
        let age = |row: &u32| Some(moment?.saturating_sub(self.times.get(*row as usize).copied().flatten()?));
        let seconds = |seconds: i64| seconds.saturating_mul(NS_PER_SEC);
        found.retain(|row| age(row).is_some_and(|age| age >= seconds(least) && age <= seconds(most)));
        found.sort_by_key(age);
        // By default, only the latest of the valid rows is used.
        found.truncate(self.table.max_matches.max(1));
        found
    }

    fn fold_case<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        if self.table.case_sensitive { text.into() } else { text.to_lowercase().into() }
    }

    /// Rows of the table that match these values, in the order of the table.
    fn find(&self, values: &[String], key: &mut Vec<u8>) -> Vec<u32> {
        key.clear();
        values.iter().for_each(|value| add_key_part(key, &self.fold_case(value), values.len()));
        let limit = match self.table.max_matches {
            _ if self.table.time.is_some() => usize::MAX,
            0 => DEFAULT_MATCHES_MAX,
            limit => limit,
        };
        let exact = self.keys.find(key).map(|at| self.key_rows[at as usize].as_slice()).unwrap_or_default();
        let exact = &exact[..exact.len().min(limit)];
        // Rows after this one exceed the limit.
        let last = exact.get(limit - 1).copied().unwrap_or(u32::MAX);
        let fits = |tests: &[CellTest]| {
            tests.iter().zip(values).all(|(test, value)| match test {
                CellTest::Same(cell) => *cell == *self.fold_case(value),
                CellTest::Pattern(pattern) => pattern.is_match(value),
                CellTest::Network(network) => network.contains(value),
            })
        };
        let patterns = self.patterns.iter().take_while(|(_, row)| *row < last);
        let by_pattern = patterns.filter(|(tests, _)| fits(tests)).map(|(_, row)| *row).take(limit);
        let mut found: Vec<u32> = exact.iter().copied().chain(by_pattern).collect();
        found.sort_unstable();
        found.truncate(limit);
        found
    }
}

impl LookupIndex {
    /// The first row of the table that matches these input values.
    pub fn first_match(&self, values: &[String]) -> Option<u32> {
        self.find(values, &mut Vec::new()).first().copied()
    }

    /// A cell of the table; `None` if it is empty or there is no such column.
    pub fn cell(&self, row: u32, column: &str) -> Option<String> {
        let column = rows::column(&self.rows, column)?;
        ColumnReader::new(column).values(row as usize).next().map(std::borrow::Cow::into_owned)
    }
}

#[cfg(test)]
mod tests {
    use quarry_spl::ast::Span;

    use super::*;

    fn index(table: LookupTable) -> LookupIndex {
        let command = LookupCommand {
            table: "t".to_owned(),
            table_span: Span { start: 0, end: 0 },
            inputs: vec![("k".to_owned(), "k".to_owned())],
            outputs: Vec::new(),
            only_new: false,
            time_field: None,
        };
        LookupIndex::new(&command, table).unwrap()
    }

    #[test]
    fn patterns_and_keys_match_in_the_order_of_the_table() {
        let table = |max_matches| LookupTable {
            wildcard_columns: vec!["k".to_owned()],
            max_matches,
            ..LookupTable::of_csv("k,v\na*,1\nab,2\n*b,3\nab,4\nac,5\n*,6\n")
        };
        let find = |max_matches, value: &str| index(table(max_matches)).find(&[value.to_owned()], &mut Vec::new());
        assert_eq!(find(0, "ab"), [0, 1, 2, 3, 5]);
        assert_eq!(find(1, "ab"), [0]);
        assert_eq!(find(2, "ab"), [0, 1]);
        assert_eq!(find(3, "ab"), [0, 1, 2]);
        assert_eq!(find(1, "x"), [5]);
    }

    #[test]
    fn a_row_is_valid_from_exactly_its_time() {
        let time = TableTime { column: "at".to_owned(), format: "%s.%3N".to_owned(), offsets: (i64::MAX, 0) };
        let csv = "k,at\na,1732060800.123\na,1732060800.789\n";
        let index = index(LookupTable { time: Some(time), ..LookupTable::of_csv(csv) });
        for (moment, expected) in [
            (1_732_060_800_122_999_999, None),
            (1_732_060_800_123_000_000, Some(0)),
            (1_732_060_800_788_999_999, Some(0)),
            (1_732_060_800_789_000_000, Some(1)),
        ] {
            assert_eq!(index.valid_at(vec![0, 1], Some(moment)).first().copied(), expected, "{moment}");
        }
    }
}
