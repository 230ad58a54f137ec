//! Syntax of commands that make fields or rows of the texts of rows: extract, xmlkv, xpath, multikv, tojson and kin.

use super::Span;

/// A command that reads texts row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum TextCommand {
    /// `extract` / `kv`.
    Extract(ExtractCommand),
    /// `xmlkv FIELD`: elements of XML without elements inside become fields.
    XmlKv(String),
    /// `xmlunescape`: entities of XML in `_raw` become characters.
    XmlUnescape,
    /// `xpath`.
    XPath(XPathCommand),
    /// `multikv`.
    MultiKv(MultiKvCommand),
    /// `tojson`.
    ToJson(ToJsonCommand),
}

/// `extract` / `kv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractCommand {
    /// Stanzas of transforms.conf, each with its place; with them pairs are not looked for.
    pub rules: Vec<(String, Span)>,
    /// `pairdelim=` and `kvdelim=`: characters that end a pair and a name; without them `name=value` is found anywhere.
    pub delimiters: Option<(String, String)>,
    /// `limit=50`: pairs of a row at most.
    pub limit: usize,
    /// `maxchars=10240`: characters of a row that are read.
    pub chars_max: usize,
    /// `clean_keys=t`: other characters than letters and digits in names become `_`.
    pub clean_keys: bool,
    /// `mv_add=f`: a name that comes again adds a value.
    pub adds_values: bool,
}

/// `xpath`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XPathCommand {
    /// `field=_raw`.
    pub field: String,
    /// `outfield=xpath`.
    pub output: String,
    /// `default=`: written where the path leads nowhere.
    pub default: Option<String>,
    /// Steps of the path.
    pub path: XPath,
}

/// A path to elements of XML, to an attribute or to their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XPath {
    /// Steps from the root, or from anywhere where the first is [`XPathStep::anywhere`].
    pub steps: Vec<XPathStep>,
    /// `/@name` at the end.
    pub attribute: Option<String>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XPathStep {
    /// Whether `//` stands before it.
    pub anywhere: bool,
    /// Name of the element; `*` is any.
    pub name: String,
    /// `[N]`: which of the elements of this name, from 1.
    pub position: Option<u32>,
    /// `[@name]` and `[@name="value"]`.
    pub attributes: Vec<(String, Option<String>)>,
}

/// `multikv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiKvCommand {
    /// `copyattrs=t`: rows keep the fields of their event.
    pub copies_fields: bool,
    /// `fields`: columns that become fields; empty is every one.
    pub fields: Vec<String>,
    /// `filter`: rows without any of these texts drop out.
    pub filter: Vec<String>,
    /// `forceheader=`: line of the header, from 1, blank lines not counted.
    pub header_line: Option<usize>,
    /// `multitable=t`: a text may hold several tables.
    pub several_tables: bool,
    /// `noheader=f`: columns are `Column_1` and so on.
    pub no_header: bool,
    /// `rmorig=t`: the event itself drops out.
    pub removes_event: bool,
    /// `conf=`: a stanza of multikv.conf, and its place.
    pub rule: Option<(String, Span)>,
}

/// `tojson`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToJsonCommand {
    /// Patterns of fields and their types; empty is every field.
    pub fields: Vec<(JsonType, String)>,
    /// `default_type=none`.
    pub default_type: JsonType,
    /// `fill_null=f`: what cannot be written is `null`.
    pub fill_null: bool,
    /// `include_internal=f`: also fields whose names begin with `_`.
    pub internal: bool,
    /// `output_field=_raw`.
    pub output: String,
}

/// How `tojson` writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// By what the text looks like: number, condition, null, document, else text.
    Auto,
    /// As a condition.
    Bool,
    /// As a document.
    Json,
    /// Numbers as numbers, all else as text.
    None,
    /// As a number.
    Num,
    /// As text.
    Str,
}
