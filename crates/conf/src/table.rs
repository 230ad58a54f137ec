//! What a table of settings is: one row per setting with its type, default, unit and meaning.
//!
//! A table is the only place that knows a setting: the checker, the typed views and the manual read it. A conf
//! without a table (macros, saved searches) is merged unchecked.
//!
//! Not here: which tables there are ([`crate::tables`]), whether a value is of a type ([`crate::check`]).

/// Settings of one conf.
#[derive(Debug)]
pub struct ConfTable {
    /// Name without `.conf`.
    pub conf: &'static str,
    /// Kinds of stanza; the first that fits counts.
    pub sections: &'static [Section],
    /// Settings of Splunk's that are not carried out: each raises a warning. A name that ends in `-` takes a class.
    pub unsupported: &'static [&'static str],
    /// Settings that Splunk's files hold and that change nothing here; they raise no warning.
    pub unused: &'static [&'static str],
}

/// Settings of one kind of stanza.
#[derive(Debug)]
pub struct Section {
    /// Stanzas it stands for.
    pub stanza: StanzaName,
    /// Settings.
    pub rows: &'static [Row],
}

/// Which stanzas a section stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StanzaName {
    /// The one of this name.
    Named(&'static str),
    /// Those that start with this.
    Prefix(&'static str),
    /// All.
    Any,
}

/// One setting.
#[derive(Debug)]
pub struct Row {
    /// Name; one that ends in `-`, `_` or `.` is followed by a class of the user's choice.
    pub name: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// Value where none is set.
    pub default: &'static str,
    /// Unit of a number, else empty.
    pub unit: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// Type of a value. An empty value means the default, whatever the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// true or false and their usual spellings.
    Bool,
    /// A whole number.
    Integer {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// One of these words, in any case; a name may follow one that ends in a colon.
    Choice(&'static [&'static str]),
    /// A PCRE pattern with at least this many groups.
    Regex {
        /// Groups it must have.
        groups_min: usize,
    },
    /// A strptime format.
    TimeFormat,
    /// A time zone.
    Zone,
    /// One character or its name.
    Delimiter,
    /// A span back from now: a number with s, m, h or d.
    Age,
    /// A pattern, and ` in FIELD` behind it if it reads another field than `_raw`.
    Extract,
}

/// A row.
pub(crate) const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> Row {
    Row { name, kind, default, unit, doc }
}

/// Name of a row that stands for every setting of its stanzas.
pub(crate) const ANY_NAME: &str = "*";

/// Largest count where no narrower bound makes sense.
const COUNT_MAX: i64 = 1 << 53;
/// A count from 0 on.
pub(crate) const COUNT: Kind = at_least(0);
/// A count from `min` on.
pub(crate) const fn at_least(min: i64) -> Kind {
    Kind::Integer { min, max: COUNT_MAX }
}

/// A pattern of any number of groups.
pub(crate) const REGEX: Kind = Kind::Regex { groups_min: 0 };

impl ConfTable {
    /// Sections whose settings may stand in a stanza: one, or all for `[default]`. `None` for a stanza nobody knows.
    pub fn sections_of(&self, stanza: &str) -> Option<&'static [Section]> {
        if stanza == crate::text::DEFAULT_STANZA {
            // What stands for any name would hide misspelt ones.
            let takes_any = |section: &&Section| section.rows.iter().any(|row| row.name == ANY_NAME);
            let from = self.sections.iter().take_while(takes_any).count();
            return self.sections.get(from..);
        }
        let at = self.sections.iter().position(|section| section.stanza.fits(stanza))?;
        Some(&self.sections[at..=at])
    }
}

impl StanzaName {
    /// Whether the section stands for a stanza.
    pub fn fits(self, stanza: &str) -> bool {
        match self {
            StanzaName::Named(name) => stanza == name,
            StanzaName::Prefix(prefix) => stanza.starts_with(prefix),
            StanzaName::Any => true,
        }
    }
}

impl Row {
    /// Whether the row stands for a setting.
    pub fn fits(&self, key: &str) -> bool {
        name_fits(self.name, key)
    }
}

/// Whether a name of a table, which may end in `-`, `_` or `.`, stands for a setting.
pub(crate) fn name_fits(name: &str, key: &str) -> bool {
    name == ANY_NAME
        || if name.ends_with(['-', '_', '.']) { key.starts_with(name) && key.len() > name.len() } else { key == name }
}

impl Kind {
    /// What the type takes, for people.
    pub fn allowed(self) -> String {
        match self {
            Kind::Text => "any text".to_owned(),
            Kind::Bool => "true or false".to_owned(),
            Kind::Integer { min, max: COUNT_MAX } => format!("a whole number from {min} on"),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Choice(words) => words.join(", "),
            Kind::Regex { groups_min: 0 } => "a regular expression with balanced brackets".to_owned(),
            Kind::Regex { groups_min } => {
                format!("a regular expression with balanced brackets and at least {groups_min} group in parentheses")
            }
            Kind::TimeFormat => "a strptime format such as %Y-%m-%dT%H:%M:%S".to_owned(),
            Kind::Zone => "a zone such as Europe/Berlin, UTC or +02:00".to_owned(),
            Kind::Age => "a number with s, m, h or d behind it, as in 90d".to_owned(),
            Kind::Delimiter => "one character, \\t, \\xHH, space, whitespace, tab, fs, gs, rs, us or none".to_owned(),
            Kind::Extract => {
                "a regular expression with a named group, and \"in FIELD\" behind it if need be".to_owned()
            }
        }
    }
}
