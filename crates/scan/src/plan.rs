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
    /// Index name patterns.
    pub indexes: Vec<String>,
    /// The condition, with subsearches, event types, tags and time modifiers already resolved.
    pub condition: SearchExpr,
    /// Range of `_time`.
    pub range: TimeRange,
    /// Range of `_indextime`.
    pub arrival: TimeRange,
    /// Whether fields are extracted at search time.
    pub fields: FieldSource,
    /// Fields that the commands need.
    pub projection: FieldNeeds,
    /// `rex` and `spath` commands pushed down into the scan, in order.
    pub extractions: Vec<Extraction>,
    /// Order in which events are read.
    pub order: Order,
    /// The top-k sort that follows the scan.
    pub top: Option<TopK>,
    /// The `dedup` that follows the scan.
    pub first: Option<FirstRows>,
    /// Conditions that the first commands after the scan impose on each row. These commands drop rows that fail a
    /// condition, so the scan need not extract further fields of such rows.
    pub demands: Vec<SearchExpr>,
    /// Rows to select before their other fields are extracted, if all fields are read.
    pub selection: Option<RowSelection>,
    /// Whether, for events that differ only in `_time`, the first and the last event suffice.
    pub extremes: bool,
    /// Whether events with equal values may be represented by one row with a count.
    pub counts: bool,
    /// Data model summaries that may replace events.
    pub summary: Option<SummaryScan>,
}

/// A command pushed down into the scan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extraction {
    /// Method of extraction.
    pub kind: ExtractionKind,
    /// Position of the command in the search text.
    pub span: Span,
}

/// An extraction that reads only the event text, or a field that no earlier extraction produces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExtractionKind {
    /// Groups of a regular expression.
    Rex(RexExtraction),
    /// Values at a JSON path.
    Spath(SpathCommand),
    /// `spath` without a path, of which later commands need only some fields.
    SpathFields {
        /// The field with the text.
        input: String,
        /// The needed fields.
        fields: Vec<String>,
    },
    /// A function of the event text or of a field.
    Text {
        /// The function.
        value: TextValue,
        /// The hidden field for the result; its name begins with [`TEXT_VALUE_PREFIX`].
        output: String,
    },
}

/// Name prefix of fields that hold a [`TextValue`].
pub const TEXT_VALUE_PREFIX: &str = "__raw:";

/// A function of the event text or of an extracted field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextValue {
    /// Number of characters of the event text.
    Length,
    /// Whether this regular expression matches the event text: 1 or 0.
    Match(String),
    /// For a field with JSON texts, a document in which a path of keys has the same value as in the text: usually a
    /// document with only this value, which has a column of its own, but possibly the whole text.
    Document {
        /// The field with the text.
        field: String,
        /// Keys joined by dots.
        path: String,
    },
}

impl Extraction {
    /// The fields that the extraction produces.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (groups, output): (&[String], _) = match &self.kind {
            ExtractionKind::Rex(rex) => (&rex.groups, None),
            ExtractionKind::Spath(spath) => (&[], spath.output.as_deref().or(spath.path.as_deref())),
            ExtractionKind::SpathFields { fields, .. } => (fields, None),
            ExtractionKind::Text { output, .. } => (&[], Some(output.as_str())),
        };
        groups.iter().map(String::as_str).chain(output)
    }
}

/// Source of the fields of events.
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

/// A sort of which only the first rows are needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    /// The first key.
    pub key: SortKey,
    /// Whether large values come first; `reverse` is taken into account.
    pub descending: bool,
    /// Number of rows kept.
    pub count: usize,
    /// Whether the sort has no further keys, so that among rows with equal values the newest come first.
    pub is_only_key: bool,
}

/// A `dedup`: the first rows of each combination of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstRows {
    /// Fields that form the combination.
    pub fields: Vec<String>,
    /// Maximum number of rows kept for each combination.
    pub count: usize,
    /// Whether rows that lack a field are kept.
    pub keeps_empty: bool,
}

/// The rows that the first commands after a scan (row commands, which handle one batch at a time) keep. Only the few
/// fields that these commands read are extracted to find the rows; the other fields are extracted from the found rows
/// alone. The commands run again after the scan, so the found rows may include some that the commands drop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowSelection {
    /// Fields that the row commands read.
    pub projection: FieldNeeds,
    /// Number of leading row commands, all of which run on these fields.
    pub commands: usize,
    /// Limit of the rows that pass the row commands, if any.
    pub limit: Option<RowLimit>,
}

/// Limit of the command that follows the row commands of a [`RowSelection`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RowLimit {
    /// The first rows of a top-k sort.
    Top(TopK),
    /// The first rows of a `dedup`.
    First(FirstRows),
    /// The oldest rows, for `tail`.
    Oldest(usize),
}

/// Summaries of a data model object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SummaryScan {
    /// Model and object, as `MODEL.OBJECT`.
    pub object: String,
    /// `summariesonly`: whether events without a summary row are skipped.
    pub only: bool,
    /// Start of the summarised time range.
    pub earliest: Option<TimeNs>,
    /// Digest that identifies the summaries to use; `None` if no summaries can be used.
    pub digest: Option<[u8; 32]>,
    /// The commands for rows of a summary, including the fold; `None` if they need fields that a summary does not
    /// hold.
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
            projection: FieldNeeds::all_fields(),
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

    /// Whether the scan reads all fields, or all that match a pattern, so that the columns of the result depend on the
    /// events.
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
                ExtractionKind::Spath(_) | ExtractionKind::SpathFields { .. } => "spath",
                ExtractionKind::Text { value: TextValue::Length, .. } => "length",
                ExtractionKind::Text { value: TextValue::Match(_), .. } => "match",
                ExtractionKind::Text { value: TextValue::Document { .. }, .. } => "document",
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
