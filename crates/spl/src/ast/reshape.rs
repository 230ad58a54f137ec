//! Syntax of the commands that turn tables into other tables: totals, transpose, xyseries, untable and their kin.

use super::FieldPattern;

/// A command that needs the whole table.
#[derive(Clone, Debug, PartialEq)]
pub enum ReshapeCommand {
    /// `addtotals` and `addcoltotals`.
    AddTotals(AddTotalsCommand),
    /// `mvcombine`.
    MvCombine {
        /// Field whose values are gathered.
        field: String,
        /// `delim=" "`.
        delimiter: String,
    },
    /// `transpose`.
    Transpose(TransposeCommand),
    /// `xyseries`.
    XySeries(XySeriesCommand),
    /// `untable X NAME VALUE`.
    Untable {
        /// Field that stays.
        row: String,
        /// Field that takes the names.
        name: String,
        /// Field that takes the values.
        value: String,
    },
    /// `fieldsummary`.
    FieldSummary {
        /// `maxvals=100`.
        values_max: usize,
        /// Fields told of; empty is all.
        fields: Vec<FieldPattern>,
    },
    /// `gauge`: numbers or fields.
    Gauge(Vec<String>),
}

/// `addtotals` and `addcoltotals`.
#[derive(Clone, Debug, PartialEq)]
pub struct AddTotalsCommand {
    /// `row=`: a field with the sum of each row.
    pub row: bool,
    /// `col=`: a row with the sums of columns.
    pub column: bool,
    /// `fieldname=Total`.
    pub field_name: String,
    /// `labelfield=`.
    pub label_field: Option<String>,
    /// `label=Total`.
    pub label: String,
    /// Fields summed; empty is every numeric one.
    pub fields: Vec<FieldPattern>,
}

/// `transpose`.
#[derive(Clone, Debug, PartialEq)]
pub struct TransposeCommand {
    /// Rows turned; 0 is all. Default 5.
    pub limit: usize,
    /// `column_name=column`.
    pub column_name: String,
    /// `header_field=`.
    pub header_field: Option<String>,
    /// `include_empty=t`.
    pub include_empty: bool,
}

/// `xyseries`.
#[derive(Clone, Debug, PartialEq)]
pub struct XySeriesCommand {
    /// `grouped=f`: rows of one x stand together already.
    pub grouped: bool,
    /// Field of the rows.
    pub row: String,
    /// Field whose values become columns.
    pub name: String,
    /// Fields whose values fill the cells.
    pub data: Vec<String>,
    /// `sep=": "`.
    pub separator: String,
    /// `format=`.
    pub format: Option<String>,
}
