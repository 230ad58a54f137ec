//! Syntax of commands that give results elsewhere, and of those that only look something up: outputlookup,
//! sendalert, delete, iplocation.

use super::Span;

/// A command that keeps its rows elsewhere and passes them on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepCommand {
    /// `outputlookup`.
    OutputLookup(OutputLookupCommand),
    /// `sendalert`.
    SendAlert(SendAlertCommand),
    /// `delete`, which gives counts in place of its rows.
    Delete,
}

/// `sendalert`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendAlertCommand {
    /// Stanza of alert_actions.conf.
    pub action: String,
    /// Place of the name.
    pub action_span: Span,
    /// `results_link=`: where the results are to be seen.
    pub results_link: Option<String>,
    /// `results_path=`: a file with results in place of one that is written.
    pub results_path: Option<String>,
    /// `param.NAME=VALUE` without the `param.`, in their order; of several with a name the last is meant.
    pub parameters: Vec<(String, String)>,
}

/// `outputlookup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLookupCommand {
    /// How it is written: `outputlookup` or `outputcsv`.
    pub name: &'static str,
    /// Table: a transforms.conf stanza or a CSV file name.
    pub table: String,
    /// Place of the name.
    pub table_span: Span,
    /// `append=f`: rows are added to those of the table.
    pub append: bool,
    /// `create_empty=t`: an empty result makes an empty table where none is.
    pub create_empty: bool,
    /// `override_if_empty=t`: an empty result empties the table.
    pub override_if_empty: bool,
    /// `max=`: rows written at most.
    pub max: Option<usize>,
    /// `key_field=`: rows with the same value are replaced.
    pub key_field: Option<String>,
    /// `csv_safe=f`: whether new cells that a spreadsheet would take for formulas get an apostrophe in front; ours.
    pub safe: bool,
}

/// `iplocation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpLocationCommand {
    /// Field with the address.
    pub field: String,
    /// `prefix=`.
    pub prefix: String,
    /// `allfields=f`.
    pub all_fields: bool,
    /// `lang=`: languages of names, the preferred first; empty is English.
    pub languages: Vec<String>,
}
