//! The syntax tree of a search: what the user asked, with the place of every part in the text.
//!
//! One struct per command, options already defaulted as documented, names unescaped. It knows nothing of
//! execution; the engine lowers it. Wildcards in field names stay patterns ([`FieldPattern`]).

mod analytics;
mod custom;
mod flow;
mod generate;
mod learn;
mod node;
mod report;
mod reshape;
mod sequence;
mod several;
mod tables;
mod text;
mod values;

pub use crate::commands::Command;
pub use crate::commands::nodes::*;
pub use analytics::*;
pub use custom::*;
pub use flow::*;
pub use generate::*;
pub use learn::*;
pub use node::*;
pub use report::*;
pub use reshape::*;
pub use sequence::*;
pub use several::*;
pub use tables::*;
pub use text::*;
pub use values::*;

/// Byte range in the search text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A whole search or a subsearch: commands joined by `|`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// Commands in order. A search that does not start with `|` starts with [`Command::Search`].
    pub commands: Vec<Stage>,
    /// Place in the text.
    pub span: Span,
}

/// One command with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What it does.
    pub command: Command,
    /// Place of the command, from its name to its last argument.
    pub span: Span,
}

// ---- fields -------------------------------------------------------------------------------------------------------

/// A field name that may hold `*` wildcards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPattern {
    /// Name as written, unquoted.
    pub text: String,
    /// Place in the text.
    pub span: Span,
}

impl FieldPattern {
    /// Whether the name holds a wildcard.
    pub fn is_wildcard(&self) -> bool {
        self.text.contains('*')
    }
}

// ---- search expressions -------------------------------------------------------------------------------------------

/// Inline time modifiers as written; resolved against "now" by the caller with `quarry_event::time::parse_time`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// A time as written, already checked to parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeText {
    /// The modifier or absolute time.
    pub text: String,
    /// Place in the text.
    pub span: Span,
}

/// Condition of `search`. Precedence: parentheses, NOT, OR, AND.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchExpr {
    /// `*` or nothing.
    All,
    /// Every part holds.
    And(Vec<SearchExpr>),
    /// Some part holds.
    Or(Vec<SearchExpr>),
    /// The part does not hold.
    Not(Box<SearchExpr>),
    /// Word or quoted phrase matched on `_raw`, case-insensitive, bounded by breakers; `*` wildcards allowed.
    Keyword(SearchPattern),
    /// `TERM(x)`: one whole major segment.
    Term(SearchPattern),
    /// `CASE(x)`: as a keyword, case-sensitive.
    Case(SearchPattern),
    /// `field op value`.
    Compare {
        /// Field name.
        field: FieldPattern,
        /// Operator.
        op: CompareOp,
        /// Literal right side.
        value: SearchPattern,
        /// `field=CASE(x)`.
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

/// A literal of a search expression. Asterisks are wildcards, also inside quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPattern {
    /// Text without quotes, escapes resolved.
    pub text: String,
    /// Whether it was quoted (a phrase when used as a keyword).
    pub quoted: bool,
    /// Place in the text.
    pub span: Span,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// `target = expr` of eval.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// What is assigned.
    pub target: AssignTarget,
    /// The value.
    pub expr: Expr,
}

/// Left side of an eval assignment.
#[derive(Clone, Debug, PartialEq)]
pub enum AssignTarget {
    /// A field of this name.
    Field(String),
    /// `{f}` or `pre{f}post`: the name holds values of other fields, row by row.
    Dynamic(Vec<NamePart>),
}

/// Part of a dynamic field name.
#[derive(Clone, Debug, PartialEq)]
pub enum NamePart {
    /// Fixed text.
    Text(String),
    /// Value of this field.
    Field(String),
}

/// An eval expression with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The node.
    pub kind: ExprKind,
    /// Place in the text.
    pub span: Span,
}

/// Eval expression nodes. Precedence, loosest first: OR, XOR, AND, NOT, comparison/LIKE/IN, `.`/`+`/`-`, `*`/`/`/`%`,
/// unary minus.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// Quoted text.
    Text(String),
    /// Number: value, and the literal as written.
    Number(f64, String),
    /// `true`/`false` literals come from functions; this is only folded constants.
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

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// Arithmetic negation.
    Neg,
    /// No effect on numbers.
    Plus,
    /// Logical negation.
    Not,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// `sort`.
#[derive(Clone, Debug, PartialEq)]
pub struct SortCommand {
    /// Rows kept; 0 is all. Default 10,000.
    pub limit: usize,
    /// Keys, most significant first.
    pub keys: Vec<SortKey>,
    /// Trailing `desc`/`d`: reverses the whole order.
    pub reverse: bool,
}

/// One sort key.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// Field name.
    pub field: FieldPattern,
    /// `-`.
    pub descending: bool,
    /// How values compare.
    pub kind: SortKind,
}

/// `auto()`, `num()`, `ip()`, `str()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKind {
    /// Numbers numerically, addresses as addresses, else text.
    Auto,
    /// Numerically.
    Num,
    /// As IP addresses.
    Ip,
    /// As text.
    Str,
}

/// `head`.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadCommand {
    /// Rows kept at most; default 10 without a condition.
    pub limit: Option<usize>,
    /// Stops at the first row where this is false.
    pub condition: Option<Expr>,
    /// `null=f`: whether a null condition counts as true.
    pub null_is_true: bool,
    /// `keeplast=f`: keep the row that stopped it.
    pub keep_last: bool,
}

/// `dedup`.
#[derive(Clone, Debug, PartialEq)]
pub struct DedupCommand {
    /// Rows kept per combination.
    pub count: usize,
    /// Fields of the combination.
    pub fields: Vec<FieldPattern>,
    /// `keepevents=f`: keep rows, blank the fields of duplicates.
    pub keep_events: bool,
    /// `keepempty=f`: keep rows that lack a field.
    pub keep_empty: bool,
    /// `consecutive=f`.
    pub consecutive: bool,
    /// `sortby`.
    pub sort_by: Vec<SortKey>,
}

/// A regular expression with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// PCRE text.
    pub text: String,
    /// Place in the text.
    pub span: Span,
}

/// `regex`.
#[derive(Clone, Debug, PartialEq)]
pub struct RegexCommand {
    /// Field tested; default `_raw`.
    pub field: String,
    /// `!=`.
    pub negated: bool,
    /// Pattern, unanchored.
    pub pattern: Pattern,
}

/// `spath`.
#[derive(Clone, Debug, PartialEq)]
pub struct SpathCommand {
    /// `input=_raw`.
    pub input: String,
    /// `output=`; default the path.
    pub output: Option<String>,
    /// `path=`; `None` extracts all.
    pub path: Option<String>,
}

/// `fillnull`.
#[derive(Clone, Debug, PartialEq)]
pub struct FillNullCommand {
    /// `value=0`.
    pub value: String,
    /// Fields; empty is all known.
    pub fields: Vec<FieldPattern>,
}

/// `makemv`.
#[derive(Clone, Debug, PartialEq)]
pub struct MakeMvCommand {
    /// Field split.
    pub field: String,
    /// How.
    pub split: MvSplit,
    /// `allowempty=f`.
    pub allow_empty: bool,
    /// `setsv=f`.
    pub set_sv: bool,
}

/// How makemv splits.
#[derive(Clone, Debug, PartialEq)]
pub enum MvSplit {
    /// `delim=" "`.
    Delimiter(String),
    /// `tokenizer=`: group 1 of each match.
    Tokenizer(Pattern),
}

/// `mvexpand`.
#[derive(Clone, Debug, PartialEq)]
pub struct MvExpandCommand {
    /// Field expanded.
    pub field: String,
    /// `limit=0`: values per row; 0 is all.
    pub limit: usize,
}

/// Limits of a subsearch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubsearchLimits {
    /// `maxout=`.
    pub max_out: Option<usize>,
    /// `maxtime=` seconds.
    pub max_time_s: Option<u64>,
    /// `timeout=` seconds.
    pub timeout_s: Option<u64>,
    /// `extendtimerange=f`.
    pub extends_time: bool,
}

impl SubsearchLimits {
    /// Options that were given and change nothing.
    pub fn idle(&self) -> [(bool, &'static str); 3] {
        [
            (self.max_time_s.is_some(), "maxtime="),
            (self.timeout_s.is_some(), "timeout="),
            (self.extends_time, "extendtimerange="),
        ]
    }
}

impl StatsFunction {
    /// Whether the result depends on `_time` besides its argument.
    pub fn reads_time(&self) -> bool {
        matches!(
            self,
            StatsFunction::Earliest
                | StatsFunction::Latest
                | StatsFunction::EarliestTime
                | StatsFunction::LatestTime
                | StatsFunction::Rate
                | StatsFunction::SeriesRate { .. }
                | StatsFunction::Per(_)
                | StatsFunction::Sparkline { .. }
        )
    }
}
