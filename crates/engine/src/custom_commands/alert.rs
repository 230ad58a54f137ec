//! Information that an alert action receives about a search and its rows.

use jiff::tz::TimeZone;
use quarry_eval::lookup::FillTable;
use quarry_event::TimeNs;

/// Input of an alert action.
pub struct AlertCall<'a> {
    /// Name of the action.
    pub action: &'a str,
    /// Parameters of the command; they override the parameters of the action.
    pub parameters: &'a [(String, String)],
    /// Link to the results, as given in the command.
    pub results_link: Option<&'a str>,
    /// An existing results file, to be used instead of a file with these rows.
    pub results_path: Option<&'a str>,
    /// Id of the search.
    pub sid: &'a str,
    /// Text of the search.
    pub search: &'a str,
    /// The search's user; `None` without a server.
    pub user: Option<&'a str>,
    /// Key of a session of the search's user at the node's REST interface; empty without a session.
    pub session_key: &'a str,
    /// Start of the search.
    pub now: TimeNs,
    /// Zone of the user.
    pub zone: &'a TimeZone,
    /// Number of rows.
    pub row_count: usize,
    /// Fields of the first row with their values; those without a value are omitted.
    pub first_row: &'a [(String, Vec<String>)],
    /// Writes the rows as CSV.
    pub write_rows: FillTable<'a>,
}
