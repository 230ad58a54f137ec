//! Static description of commands for help, parser and planner: names, syntax line, chapter, kind.

/// Static description of a command: its aliases, help line and kind. The command's name is that of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// Further names in lower case.
    pub aliases: &'static [&'static str],
    /// Syntax line.
    pub syntax: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Chapter of the help page.
    pub group: Group,
    /// Splunk's name of the capability that the command requires in addition to `search`.
    pub capability: Option<&'static str>,
    /// Kind of row processing with the most demanding options.
    pub kind: Kind,
    /// Whether the command always returns a table of results, unless its options say otherwise.
    pub returns_table: bool,
    /// Page of `spec/spl` that describes the command, if the page has a different name.
    pub page: Option<&'static str>,
    /// Keywords of the arguments that are also names of commands, such as `where` of `chart`.
    pub clauses: &'static [&'static str],
    /// Whether any word of the arguments may be a keyword or text, so that none of them is a command after a missing
    /// pipe.
    pub has_own_keywords: bool,
}

impl CommandInfo {
    /// Defaults of the fields that most commands omit.
    pub(crate) const DEFAULT: CommandInfo = CommandInfo {
        aliases: &[],
        syntax: "",
        summary: "",
        group: Group::NoEffect,
        capability: None,
        kind: Kind::Row,
        returns_table: false,
        page: None,
        clauses: &[],
        has_own_keywords: false,
    };
}

/// Kinds of row processing, ordered so that each kind includes the abilities of the kinds before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Maps each row independently, so batches may run in parallel and in any order.
    Row,
    /// Maps rows in order, keeping state from one row to the next.
    OrderedRow,
    /// Aggregates rows into groups, in parallel, and returns the groups at the end.
    Fold,
    /// Aggregates rows into groups in row order, as `first` and `list` do.
    OrderedFold,
    /// Needs all rows before it returns the first.
    Blocking,
    /// Generates rows. Must be the first command of a search, except for commands that can add their rows to the rows
    /// of the commands before them (`union`, `inputlookup append=true`).
    Generating,
}

/// Chapters of the help page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Commands that select events.
    Searching,
    /// Commands that compute tables of aggregates.
    Reporting,
    /// Commands that change the fields of rows.
    Fields,
    /// Commands that work on whole rows.
    Rows,
    /// Commands that find clusters, outliers and trends.
    Patterns,
    /// Commands that generate rows that are not events.
    Generating,
    /// Commands that store or send results.
    Storing,
    /// Commands that are accepted for compatibility and do nothing.
    NoEffect,
}

impl Group {
    /// All chapters, in the order of the help page.
    pub const ALL: [Group; 8] = [
        Group::Searching,
        Group::Reporting,
        Group::Fields,
        Group::Rows,
        Group::Patterns,
        Group::Generating,
        Group::Storing,
        Group::NoEffect,
    ];

    /// Heading of the chapter.
    pub fn title(self) -> &'static str {
        match self {
            Group::Searching => "Finding events",
            Group::Reporting => "Reporting: aggregating rows into tables",
            Group::Fields => "Fields: selecting, computing, extracting",
            Group::Rows => "Rows: sorting, joining, running subsearches",
            Group::Patterns => "Patterns",
            Group::Generating => "Generating and loading rows",
            Group::Storing => "Storing and sending results",
            Group::NoEffect => "Accepted, without effect",
        }
    }
}
