//! What an alert action is told of a search and its rows.

use jiff::tz::TimeZone;
use quarry_eval::lookup::FillTable;
use quarry_event::TimeNs;

/// What an alert action is given.
pub struct AlertCall<'a> {
    /// Name of the action.
    pub action: &'a str,
    /// Parameters of the command; they win over those of the action.
    pub parameters: &'a [(String, String)],
    /// Where the results are to be seen, as the command says.
    pub results_link: Option<&'a str>,
    /// A file with results that there is already, in place of one with these rows.
    pub results_path: Option<&'a str>,
    /// Name of the search.
    pub sid: &'a str,
    /// Text of the search.
    pub search: &'a str,
    /// Start of the search.
    pub now: TimeNs,
    /// Zone of the user.
    pub zone: &'a TimeZone,
    /// How many rows there are.
    pub row_count: usize,
    /// Fields of the first row with their values; those without a value are left out.
    pub first_row: &'a [(String, Vec<String>)],
    /// Writes the rows as CSV.
    pub write_rows: FillTable<'a>,
}
