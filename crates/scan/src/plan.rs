//! A scan as plain data: which events are read, which fields are needed, and what is pushed down.
//!
//! Not here: planning, and the commands after the scan (engine).

use std::fmt;

use quarry_event::{TimeNs, TimeRange};
use quarry_spl::analyse::FieldNeeds;
use quarry_spl::ast::{RexExtraction, SearchExpr, SortKey, Span, SpathCommand, Stage};
use serde::{Deserialize, Serialize};

/// The scan at the start of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// Patterns of the indexes.
    pub indexes: Vec<String>,
    /// The condition, with subsearches, event types, tags and time modifiers already resolved.
    pub condition: SearchExpr,
    /// Instants of their `_time`.
    pub range: TimeRange,
    /// Instants of their `_indextime`.
    pub arrival: TimeRange,
    /// Fields of the events.
    pub fields: FieldSource,
    /// Fields that the commands need.
    pub projection: FieldNeeds,
    /// `rex` and `spath` commands pushed down into the scan, in order.
    pub extractions: Vec<Extraction>,
    /// Order in which events are read.
    pub order: Order,
    /// The top-k sort that follows, if any.
    pub top: Option<TopK>,
    /// The `dedup` that only takes the first of each combination of values.
    pub first: Option<FirstRows>,
    /// Conditions that the first commands after the scan make of each row: they drop the rows that fail one, so the scan
    /// need not extract more fields of these.
    pub demands: Vec<SearchExpr>,
    /// Rows to select before their other fields are extracted, if all fields are read.
    pub selection: Option<RowSelection>,
    /// Whether events that differ only in `_time` may be represented by their first and last.
    pub extremes: bool,
    /// Whether events with equal values may be represented by one row with a count.
    pub counts: bool,
    /// Data model summaries that may replace events.
    pub summary: Option<SummaryScan>,
}

/// A command pushed down into the scan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extraction {
    /// Method of extracting its fields.
    pub kind: ExtractionKind,
    /// Its position in the search text.
    pub span: Span,
}

/// An extraction that reads only the event text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExtractionKind {
    /// Groups of a regular expression.
    Rex(RexExtraction),
    /// Values at a JSON path.
    Spath(SpathCommand),
    /// A function of the event text.
    Text {
        /// The function.
        value: TextValue,
        /// The hidden field for the result; its name begins with [`TEXT_VALUE_PREFIX`].
        output: String,
    },
}

/// Name prefix of fields that hold a [`TextValue`].
pub const TEXT_VALUE_PREFIX: &str = "__raw:";

/// A function of the event text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextValue {
    /// Number of characters.
    Length,
    /// Whether this regular expression matches: 1 or 0.
    Match(String),
}

impl Extraction {
    /// The fields it makes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (groups, output): (&[String], _) = match &self.kind {
            ExtractionKind::Rex(rex) => (&rex.groups, None),
            ExtractionKind::Spath(spath) => (&[], spath.output.as_deref().or(spath.path.as_deref())),
            ExtractionKind::Text { output, .. } => (&[], Some(output.as_str())),
        };
        groups.iter().map(String::as_str).chain(output)
    }
}

/// Fields of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldSource {
    /// All fields, including those extracted and computed at search time.
    SearchTime,
    /// Index-time fields only.
    IndexTime,
}

/// Order in which events are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Any order: segments are read in parallel.
    Any,
    /// By `_time`, descending.
    NewestFirst,
}

/// A sort whose first rows are all that is needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    /// The first key.
    pub key: SortKey,
    /// Whether large values come first; `reverse` is taken into account.
    pub descending: bool,
    /// Rows wanted.
    pub count: usize,
    /// Whether there are no further keys, so that of rows with equal values the first ones, the newest, are wanted.
    pub is_only_key: bool,
}

/// The first rows of each combination of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstRows {
    /// Fields of the combination.
    pub fields: Vec<String>,
    /// Rows wanted of each.
    pub count: usize,
    /// Whether rows that lack a field are wanted.
    pub keeps_empty: bool,
}

/// The rows that the first commands after a scan keep. They are found by few fields of the events; the other fields are
/// extracted from these rows alone. The commands run on them again, so rows that they drop may be among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowSelection {
    /// Fields that decide.
    pub projection: FieldNeeds,
    /// Number of row commands that run on these fields.
    pub commands: usize,
    /// Rows wanted of those that remain; all if absent.
    pub limit: Option<RowLimit>,
}

/// Limit of the command that follows the row commands of a [`RowSelection`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RowLimit {
    /// Those of a top-k sort.
    Top(TopK),
    /// Those of a `dedup`.
    First(FirstRows),
    /// The oldest, for `tail`.
    Oldest(usize),
}

/// Summaries of a data model object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SummaryScan {
    /// Model and object, as `MODEL.OBJECT`.
    pub object: String,
    /// `summariesonly`: whether events without a summary are skipped.
    pub only: bool,
    /// Start of the time range that is summarised.
    pub earliest: Option<TimeNs>,
    /// Digest of the summaries to use; `None` if there can be none.
    pub digest: Option<[u8; 32]>,
    /// The commands for rows of a summary, including the fold; `None` if they need more than a summary holds.
    pub stages: Option<Vec<Stage>>,
    /// Columns that these commands read.
    pub columns: Vec<String>,
}

impl Scan {
    /// A scan of all fields of all events that meet a condition, newest first.
    pub fn new(indexes: Vec<String>, condition: SearchExpr, range: TimeRange, fields: FieldSource) -> Scan {
        Scan {
            indexes,
            condition,
            range,
            arrival: TimeRange::ALL,
            fields,
            projection: FieldNeeds::everything(),
            extractions: Vec::new(),
            order: Order::NewestFirst,
            top: None,
            first: None,
            demands: Vec::new(),
            selection: None,
            extremes: false,
            counts: false,
            summary: None,
        }
    }

    /// Whether all fields, or those of a pattern, are read, so that the result shows which columns the events have.
    pub fn is_open(&self) -> bool {
        self.projection.all || !self.projection.patterns.is_empty()
    }
}

impl fmt::Display for Scan {
    /// Indexes, fields and pushed-down parts, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields: Vec<&str> = self.projection.fields.iter().map(String::as_str).collect();
        fields.extend(self.projection.patterns.iter().map(String::as_str));
        let fields = if self.projection.all { "*".to_owned() } else { fields.join(",") };
        write!(f, "scan {} fields={fields}", self.indexes.join(","))?;
        if self.fields == FieldSource::IndexTime {
            write!(f, " of index time")?;
        }
        if self.order == Order::NewestFirst {
            write!(f, " newest first")?;
        }
        for extraction in &self.extractions {
            let kind = match extraction.kind {
                ExtractionKind::Rex(_) => "rex",
                ExtractionKind::Spath(_) => "spath",
                ExtractionKind::Text { value: TextValue::Length, .. } => "length",
                ExtractionKind::Text { value: TextValue::Match(_), .. } => "match",
            };
            write!(f, " {kind}={}", extraction.names().collect::<Vec<_>>().join(","))?;
        }
        if let Some(top) = &self.top {
            write!(f, " top={} by {}", top.count, top.key.field.text)?;
        }
        if let Some(first) = &self.first {
            write!(f, " first={} of {}", first.count, first.fields.join(","))?;
        }
        if let Some(selection) = &self.selection {
            let fields: Vec<&str> = selection.projection.fields.iter().map(String::as_str).collect();
            write!(f, " selects by={} commands={}", fields.join(","), selection.commands)?;
            match &selection.limit {
                Some(RowLimit::Top(top)) => write!(f, " top={} by {}", top.count, top.key.field.text)?,
                Some(RowLimit::First(first)) => write!(f, " first={} of {}", first.count, first.fields.join(","))?,
                Some(RowLimit::Oldest(count)) => write!(f, " oldest={count}")?,
                None => {}
            }
        }
        for (is, what) in [(self.extremes, "extremes"), (self.counts, "counts"), (self.summary.is_some(), "summary")] {
            if is {
                write!(f, " {what}")?;
            }
        }
        Ok(())
    }
}
