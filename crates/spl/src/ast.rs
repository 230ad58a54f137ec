//! The syntax tree of a search, with the position of every part in the text.
//!
//! One struct per command, with documented defaults filled in and names unescaped. The tree is independent of
//! execution; the engine turns it into steps. Wildcards in field names stay patterns ([`FieldPattern`]).

use serde::{Deserialize, Serialize};

mod aggregate;
mod builder;
mod learn;
mod series;

pub use crate::commands::Command;
pub use crate::commands::nodes::*;
pub use crate::functions::{DependsOn, PercentileKind, PercentileMethod, StatsFunction};
pub use aggregate::*;
pub use builder::NodeBuilder;
pub(crate) use builder::join_balanced;
pub use learn::*;
pub use series::*;

/// Byte range in the search text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A whole search or a subsearch: commands joined by `|`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Commands in order. A search that does not start with `|` starts with [`Command::Search`].
    pub commands: Vec<Stage>,
    /// Position in the text.
    pub span: Span,
}

/// One command with its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Command that the stage runs.
    pub command: Command,
    /// Position of the command, from its name to its last argument.
    pub span: Span,
}

// ---- fields -------------------------------------------------------------------------------------------------------

/// A field name that may contain `*` wildcards.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldPattern {
    /// Name as written, unquoted.
    pub text: String,
    /// Position in the text.
    pub span: Span,
}

impl FieldPattern {
    /// Whether the name contains a wildcard.
    pub fn is_wildcard(&self) -> bool {
        self.text.contains('*')
    }
}

// ---- search expressions -------------------------------------------------------------------------------------------

/// Inline time modifiers as written; resolved against "now" by the caller with `quarry_event::time::parse_time`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeModifiers {
    /// `earliest=` / `starttime=`.
    pub earliest: Option<TimeText>,
    /// `latest=` / `endtime=`.
    pub latest: Option<TimeText>,
    /// `_index_earliest=`.
    pub index_earliest: Option<TimeText>,
    /// `_index_latest=`.
    pub index_latest: Option<TimeText>,
}

impl TimeModifiers {
    /// Fills in the missing modifiers from `others`.
    pub fn or(self, others: &TimeModifiers) -> TimeModifiers {
        TimeModifiers {
            earliest: self.earliest.or_else(|| others.earliest.clone()),
            latest: self.latest.or_else(|| others.latest.clone()),
            index_earliest: self.index_earliest.or_else(|| others.index_earliest.clone()),
            index_latest: self.index_latest.or_else(|| others.index_latest.clone()),
        }
    }
}

/// A time modifier as written; the parser has checked that it is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeText {
    /// The modifier or absolute time.
    pub text: String,
    /// Position in the text.
    pub span: Span,
}

/// Condition of `search`. Precedence, tightest first: parentheses, NOT, OR, AND.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SearchExpr {
    /// `*` or nothing.
    All,
    /// Every part holds.
    And(Vec<SearchExpr>),
    /// At least one part holds.
    Or(Vec<SearchExpr>),
    /// The condition is false.
    Not(Box<SearchExpr>),
    /// Word or quoted phrase matched on `_raw`, case-insensitive, bounded by breakers; `*` wildcards allowed.
    Keyword(SearchPattern),
    /// `TERM(x)`: the whole text between two major breakers.
    Term(SearchPattern),
    /// `CASE(x)`: like a keyword, but case-sensitive.
    Case(SearchPattern),
    /// `field op value`.
    Compare {
        /// Field name.
        field: FieldPattern,
        /// Operator.
        op: CompareOp,
        /// Literal right side.
        value: SearchPattern,
        /// Whether the value is written as `CASE(x)`.
        case_sensitive: bool,
    },
    /// `field IN (a, b*)`.
    In {
        /// Field name.
        field: FieldPattern,
        /// Values; any may match.
        values: Vec<SearchPattern>,
    },
    /// `name::value`: an index-time field or metadata, case-insensitive.
    Indexed {
        /// Field name.
        field: FieldPattern,
        /// Value pattern.
        value: SearchPattern,
    },
    /// `[ ... ]`; replaced by its formatted result before the search runs.
    Subsearch(Box<Pipeline>),
}

/// A literal of a search expression. Asterisks are wildcards, even inside quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchPattern {
    /// Text without quotes, escapes resolved.
    pub text: String,
    /// Whether the literal was quoted (a phrase when used as a keyword).
    pub quoted: bool,
    /// Position in the text.
    pub span: Span,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompareOp {
    /// `=`, `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
}

// ---- eval expressions ---------------------------------------------------------------------------------------------

/// An eval expression with its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// The node.
    pub kind: ExprKind,
    /// Position in the text.
    pub span: Span,
}

/// Eval expression nodes. Precedence, loosest first: OR, XOR, AND, NOT, comparison/LIKE/IN, `.`/`+`/`-`, `*`/`/`/`%`,
/// unary minus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ExprKind {
    /// Quoted text.
    Text(String),
    /// Number: value, and the literal as written.
    Number(f64, String),
    /// A boolean from constant folding; the literals `true` and `false` are function calls.
    Bool(bool),
    /// Field reference, unquoted.
    Field(String),
    /// `-x`, `+x`, `NOT x`.
    Unary(UnaryOp, Box<Expr>),
    /// `a op b`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `x IN (a, b)`.
    In(Box<Expr>, Vec<Expr>),
    /// `name(args)`, name lower-cased and known; argument count already checked.
    Call(String, Vec<Expr>),
}

impl Expr {
    /// The direct subexpressions.
    pub fn parts(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Text(_) | ExprKind::Number(..) | ExprKind::Bool(_) | ExprKind::Field(_) => Vec::new(),
            ExprKind::Unary(_, inner) => vec![inner],
            ExprKind::Binary(_, left, right) => vec![left, right],
            ExprKind::In(value, list) => std::iter::once(&**value).chain(list).collect(),
            ExprKind::Call(_, arguments) => arguments.iter().collect(),
        }
    }

    /// The direct subexpressions.
    pub fn parts_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
            ExprKind::Text(_) | ExprKind::Number(..) | ExprKind::Bool(_) | ExprKind::Field(_) => Vec::new(),
            ExprKind::Unary(_, inner) => vec![inner],
            ExprKind::Binary(_, left, right) => vec![left, right],
            ExprKind::In(value, list) => std::iter::once(&mut **value).chain(list).collect(),
            ExprKind::Call(_, arguments) => arguments.iter_mut().collect(),
        }
    }
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnaryOp {
    /// Arithmetic negation.
    Neg,
    /// No effect on numbers.
    Plus,
    /// Logical negation.
    Not,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinaryOp {
    /// `+`: sum, or concatenation of two texts.
    Add,
    /// `-`.
    Sub,
    /// `*`.
    Mul,
    /// `/`.
    Div,
    /// `%`.
    Rem,
    /// `.`: concatenation.
    Concat,
    /// Comparison.
    Compare(CompareOp),
    /// `LIKE`.
    Like,
    /// `AND`.
    And,
    /// `OR`.
    Or,
    /// `XOR`.
    Xor,
}

// ---- other commands -----------------------------------------------------------------------------------------------

/// A regular expression with its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// PCRE text.
    pub text: String,
    /// Position in the text.
    pub span: Span,
}

/// Limits of a subsearch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubsearchLimits {
    /// `maxout=`: maximum number of rows.
    pub max_out: Option<usize>,
    /// `maxtime=`: maximum run time in seconds; 0 for no limit.
    pub max_time_s: Option<u64>,
    /// `timeout=` seconds.
    pub timeout_s: Option<u64>,
    /// Value of `extendtimerange=` (default `f`).
    pub extends_time: bool,
}

impl SubsearchLimits {
    /// The options without effect, each with a flag that says whether the search uses it.
    pub fn ignored_options(&self) -> [(bool, &'static str); 2] {
        [(self.timeout_s.is_some(), "timeout="), (self.extends_time, "extendtimerange=")]
    }
}
