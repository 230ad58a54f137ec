//! Syntax of the commands that rewrite values of fields row by row: convert, strcat, replace, rangemap and their kin.

use super::{Expr, FieldPattern};

/// A command that changes values of fields and keeps the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum ValuesCommand {
    /// `convert`.
    Convert(ConvertCommand),
    /// `filldown`; no field is every field.
    FillDown(Vec<FieldPattern>),
    /// `strcat`.
    Strcat(StrcatCommand),
    /// `replace`.
    Replace(ReplaceCommand),
    /// `rangemap`.
    RangeMap(RangeMapCommand),
    /// `nomv FIELD`.
    NoMv(String),
    /// `fieldformat FIELD=EXPR`.
    FieldFormat(FieldFormatCommand),
    /// `addinfo`.
    AddInfo,
    /// `setfields a=TEXT, ...`.
    SetFields(Vec<(String, String)>),
    /// `typer`.
    Typer,
    /// `tags`.
    Tags(TagsCommand),
    /// Commands that only concern how or where Splunk runs or shows a search: rows pass as they are.
    Pass,
}

/// `tags`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagsCommand {
    /// Fields whose tags are wanted; empty is all.
    pub fields: Vec<String>,
    /// `outputfield=`: the field of all tags; else each field has its own, `tag::FIELD`.
    pub output: Option<String>,
    /// `inclname=f`: `FIELD::` in front of a tag.
    pub with_name: bool,
    /// `inclvalue=f`: the value and `::` in front of a tag.
    pub with_value: bool,
    /// `allowed_tags=`: no other tags.
    pub allowed: Option<Vec<String>>,
}

/// `convert`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertCommand {
    /// `timeformat=`.
    pub time_format: String,
    /// Conversions in order.
    pub conversions: Vec<Conversion>,
}

/// One `function(FIELD) [AS NEW]` of convert.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversion {
    /// How.
    pub function: ConvertFunction,
    /// What is read.
    pub field: FieldPattern,
    /// Where the result goes; the field itself when absent.
    pub output: Option<FieldPattern>,
}

/// Functions of convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvertFunction {
    /// To numbers by the way that fits all values.
    Auto,
    /// Seconds since the epoch to a date.
    CTime,
    /// `[D+]HH:MM:SS` to seconds.
    Dur2Sec,
    /// `10k`, `3m`, `2g` to kilobytes.
    MemK,
    /// A date to seconds since the epoch.
    MkTime,
    /// `[MM:]SS.SSS` to seconds.
    MsTime,
    /// Leaves fields alone that wildcards of others would take.
    None,
    /// To a number, else nothing.
    Num,
    /// Drops commas.
    RmComma,
    /// Drops what follows a leading number.
    RmUnit,
}

/// `strcat`.
#[derive(Clone, Debug, PartialEq)]
pub struct StrcatCommand {
    /// `allrequired=f`.
    pub all_required: bool,
    /// What is joined.
    pub sources: Vec<StrcatSource>,
    /// Field written.
    pub target: String,
}

/// One source of strcat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrcatSource {
    /// Value of a field.
    Field(String),
    /// Quoted text.
    Text(String),
}

/// `replace`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplaceCommand {
    /// What is replaced with what, wildcards included.
    pub pairs: Vec<(String, String)>,
    /// `IN` fields; empty is every field but internal ones.
    pub fields: Vec<FieldPattern>,
}

/// `rangemap`.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeMapCommand {
    /// `field=`.
    pub field: String,
    /// Name, least and greatest number of each range.
    pub ranges: Vec<(String, f64, f64)>,
    /// `default=None`.
    pub default: String,
}

/// `fieldformat`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldFormatCommand {
    /// Field shown otherwise than it is.
    pub field: String,
    /// What is shown.
    pub expr: Expr,
}
