//! A scan as plain data: which events are read, which fields of them, and what is pushed into reading.
//!
//! Not here: who makes it and the commands behind it (engine).

use std::fmt;

use quarry_event::{TimeNs, TimeRange};
use quarry_spl::analyse::FieldNeeds;
use quarry_spl::ast::{RexExtraction, SearchExpr, SortKey, Span, SpathCommand, Stage};
use serde::{Deserialize, Serialize};

/// Events that are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// Patterns of the indexes.
    pub indexes: Vec<String>,
    /// Their condition, without subsearches, event types, tags and modifiers of time.
    pub condition: SearchExpr,
    /// Instants of their `_time`.
    pub range: TimeRange,
    /// Instants of their `_indextime`.
    pub arrival: TimeRange,
    /// Which fields they have.
    pub fields: FieldSource,
    /// Fields of them that the commands read.
    pub projection: FieldNeeds,
    /// `rex` and `spath` commands that the scan runs itself, in order.
    pub extractions: Vec<Extraction>,
    /// In which order they are read.
    pub order: Order,
    /// The sort that only takes so many of them.
    pub top: Option<TopK>,
    /// Whether events that differ in `_time` only may come as the first and the last of them.
    pub extremes: bool,
    /// Whether events with the same values may come as one row with their count.
    pub counts: bool,
    /// Summaries of a data model that may stand for them.
    pub summary: Option<SummaryScan>,
}

/// A command that a scan runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extraction {
    /// What finds its fields.
    pub kind: ExtractionKind,
    /// Its place.
    pub span: Span,
}

/// What finds fields in the text of an event and reads nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExtractionKind {
    /// The groups of a pattern.
    Rex(RexExtraction),
    /// The values at a path of JSON.
    Spath(SpathCommand),
    /// What a function says of the text.
    Text {
        /// The function.
        value: TextValue,
        /// The hidden field of what it says, whose name begins with [`TEXT_VALUE_PREFIX`].
        output: String,
    },
}

/// What the names of fields begin with that hold a [`TextValue`].
pub const TEXT_VALUE_PREFIX: &str = "__raw:";

/// A function of the text of an event.
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

/// Which fields events have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldSource {
    /// All that are extracted and computed at search time.
    SearchTime,
    /// Those written with them when they were indexed.
    IndexTime,
}

/// In which order events are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Any: in parallel.
    Any,
    /// By `_time`, descending.
    NewestFirst,
}

/// A sort of which only the first rows are wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    /// The first key.
    pub key: SortKey,
    /// Whether large values come first, `reverse` included.
    pub descending: bool,
    /// Rows wanted.
    pub count: usize,
}

/// Summaries of an object of a data model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SummaryScan {
    /// The model and the object, as `MODEL.OBJECT`.
    pub object: String,
    /// Whether events without a summary are left out.
    pub only: bool,
    /// From when on buckets are summarised.
    pub earliest: Option<TimeNs>,
    /// Which summaries are meant; `None` where there can be none.
    pub digest: Option<[u8; 32]>,
    /// The commands that rows of a summary go through, the fold included; `None` where they need more than it has.
    pub stages: Option<Vec<Stage>>,
    /// Columns that these read.
    pub columns: Vec<String>,
}

impl Scan {
    /// All fields of all events that meet a condition, newest first.
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
            extremes: false,
            counts: false,
            summary: None,
        }
    }

    /// Whether all fields, or those of a pattern, are read, so that rows show which columns events have.
    pub fn is_open(&self) -> bool {
        self.projection.all || !self.projection.patterns.is_empty()
    }
}

impl fmt::Display for Scan {
    /// Indexes, fields and what is pushed down, on one line.
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
        for (is, what) in [(self.extremes, "extremes"), (self.counts, "counts"), (self.summary.is_some(), "summary")] {
            if is {
                write!(f, " {what}")?;
            }
        }
        Ok(())
    }
}
