//! Syntax of commands that run other searches or gather rows: foreach, map, transaction.

use quarry_event::time::Span as TimeSpan;

use super::{Command, Expr, FieldPattern, Pipeline, SearchExpr, Span};

/// A command that runs searches for its rows, or brings rows together.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowCommand {
    /// `foreach`.
    Foreach(ForeachCommand),
    /// `map`.
    Map(MapCommand),
    /// `transaction`.
    Transaction(TransactionCommand),
    /// A command with subsearches for parts of its text.
    Filled(FilledCommand),
}

/// A command that has subsearches where it takes none itself, as `where n > [...]` or `timechart span=[...]`: what they
/// give is written in their places, then the command is read.
#[derive(Clone, Debug, PartialEq)]
pub struct FilledCommand {
    /// Text before the first, between any two and after the last of the subsearches.
    pub pieces: Vec<String>,
    /// The subsearches, one less than pieces.
    pub subsearches: Vec<Pipeline>,
    /// Whether it begins a search.
    pub first: bool,
    /// How it reads with something simple in place of the subsearches.
    pub shape: Vec<Command>,
}

/// `foreach`.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeachCommand {
    /// What it goes over.
    pub over: ForeachOver,
    /// The commands, with `<<FIELD>>` and the like in places.
    pub template: String,
    /// Place of the commands.
    pub span: Span,
    /// What stands for a field's name: `<<FIELD>>` or what `fieldstr=` says.
    pub field_text: String,
    /// What stands for what the `*` of a pattern covers: `<<MATCHSTR>>` or what `matchstr=` says.
    pub match_text: String,
    /// The same for the first three `*`: `<<MATCHSEG1>>` and so on.
    pub segment_texts: [String; 3],
    /// What stands for an item: `<<ITEM>>` or what `itemstr=` says.
    pub item_text: String,
    /// What stands for the number of an item, from 0: `<<ITER>>` or what `iterstr=` says.
    pub number_text: String,
}

/// What `foreach` goes over.
#[derive(Clone, Debug, PartialEq)]
pub enum ForeachOver {
    /// Fields of the rows.
    Fields(Vec<FieldPattern>),
    /// Values of a multivalue field, row by row.
    Values(String),
    /// Items of a JSON array, row by row.
    JsonArray(String),
    /// Items of a JSON array where the field is one, else its values.
    Collection(String),
}

/// `map`.
#[derive(Clone, Debug, PartialEq)]
pub struct MapCommand {
    /// What is run for each row.
    pub search: MapSearch,
    /// `maxsearches=10`.
    pub max_searches: usize,
}

/// What `map` runs; `$field$` is replaced.
#[derive(Clone, Debug, PartialEq)]
pub enum MapSearch {
    /// `search="..."` or `[ ... ]`.
    Text(String, Span),
    /// A saved search.
    Saved(String, Span),
}

/// `transaction`.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionCommand {
    /// Fields whose values belong together.
    pub fields: Vec<String>,
    /// `maxspan=-1`: longest time from first to last.
    pub max_span: Option<TimeSpan>,
    /// `maxpause=-1`: longest time between two.
    pub max_pause: Option<TimeSpan>,
    /// `maxevents=1000`.
    pub max_events: usize,
    /// `startswith=`.
    pub starts_with: Option<EventTest>,
    /// `endswith=`.
    pub ends_with: Option<EventTest>,
    /// `connected=t`.
    pub connected: bool,
    /// `unifyends=t`.
    pub unify_ends: bool,
    /// `keeporphans=f`.
    pub keep_orphans: bool,
    /// `keepevicted=f`.
    pub keep_evicted: bool,
    /// `mvlist=`: which fields keep all values in order.
    pub lists: TransactionLists,
    /// `delim=" "`: what joins values where one text is wanted.
    pub delimiter: String,
    /// `nullstr=NULL`: what stands for a missing value in lists.
    pub null_text: String,
    /// `maxopentxn=`; else what limits.conf says.
    pub max_open: Option<usize>,
    /// `maxopenevents=`; else what limits.conf says.
    pub max_open_events: Option<usize>,
    /// `mvraw=f`: whether `_raw` has a value for each event.
    pub raw_is_list: bool,
    /// `name=`: the stanza of transactiontypes.conf that the other options overrule.
    pub kind: Option<TransactionKind>,
}

/// The stanza that a transaction is made by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionKind {
    /// Its name.
    pub name: String,
    /// Where it is named.
    pub span: Span,
    /// The other options, as they are written.
    pub options: String,
}

/// Which fields of a transaction are lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionLists {
    /// None: sets of distinct values.
    None,
    /// All.
    All,
    /// These.
    Fields(Vec<String>),
}

/// A test of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventTest {
    /// `"..."` or `(...)`: a search condition.
    Condition(SearchExpr),
    /// `eval(...)`.
    Expression(Expr),
}
