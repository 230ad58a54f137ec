//! The structure of a settings table: one row per setting with its type, default, unit and meaning.
//!
//! Settings are defined only in a table, which the checker, the structs with parsed settings ([`crate::settings`]) and
//! the manual read. A conf without a table (macros, saved searches) is merged unchecked.
//!
//! Not here: the tables themselves ([`crate::tables`]), checking values against a type ([`crate::check`]).

/// Settings of one conf.
#[derive(Debug)]
pub struct ConfTable {
    /// Name without `.conf`.
    pub conf: &'static str,
    /// Kinds of stanza; the first that matches applies.
    pub sections: &'static [Section],
    /// Splunk settings that are not supported: each raises a warning. A name that ends in `-`, `_` or `.` is followed
    /// by a class. A setting that is supported only in some stanzas is listed for the other stanzas as `[STANZA] NAME`,
    /// where `STANZA` may end in `*`.
    pub unsupported: &'static [&'static str],
    /// Splunk settings that have no effect here and raise no warning, listed in the same way.
    pub unused: &'static [&'static str],
}

/// Settings of one kind of stanza.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Stanzas to which the section applies.
    pub stanza: StanzaName,
    /// Settings.
    pub rows: &'static [Row],
}

/// Concatenates rows or sections for a table; `N` is their total number.
pub(crate) const fn concat<T: Copy, const N: usize>(parts: &[&'static [T]]) -> [T; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut count) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            all[count] = parts[part][at];
            (at, count) = (at + 1, count + 1);
        }
        part += 1;
    }
    assert!(count == N, "the list has exactly the capacity for the parts");
    all
}

/// The stanzas that a section applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StanzaName {
    /// The stanza of this name.
    Named(&'static str),
    /// Stanzas whose names start with this prefix.
    Prefix(&'static str),
    /// Every stanza.
    Any,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name; a name that ends in `-`, `_` or `.` is followed by a class that the user chooses.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default value.
    pub default: &'static str,
    /// Unit of the value; empty if the value has none.
    pub unit: &'static str,
    /// Effect of the setting.
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
    /// One of these words, ignoring case; a word that ends in a colon may be followed by a name.
    Choice(&'static [&'static str]),
    /// A PCRE pattern with at least this many groups.
    Regex {
        /// Minimum number of groups.
        groups_min: usize,
    },
    /// A strptime format.
    TimeFormat,
    /// A time zone.
    Zone,
    /// A character, or the name of a character.
    Delimiter,
    /// A time span: a number with s, m, h or d.
    Age,
    /// A pattern, optionally followed by ` in FIELD` to read a field other than `_raw`.
    Extract,
}

pub(crate) const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> Row {
    Row { name, kind, default, unit, doc }
}

/// A row of any text, empty by default.
pub(crate) const fn text(name: &'static str, doc: &'static str) -> Row {
    row(name, Kind::Text, "", "", doc)
}

/// A row of true or false.
pub(crate) const fn boolean(name: &'static str, default: &'static str, doc: &'static str) -> Row {
    row(name, Kind::Bool, default, "", doc)
}

/// A row of a non-negative count.
pub(crate) const fn count(name: &'static str, default: &'static str, unit: &'static str, doc: &'static str) -> Row {
    row(name, COUNT, default, unit, doc)
}

/// Name of a row that matches every setting of its stanzas.
pub(crate) const ANY_NAME: &str = "*";

/// Upper bound of counts without a narrower bound.
const COUNT_MAX: i64 = 1 << 53;
/// A non-negative count.
const COUNT: Kind = at_least(0);
/// A count of at least `min`.
pub(crate) const fn at_least(min: i64) -> Kind {
    Kind::Integer { min, max: COUNT_MAX }
}

/// A pattern with any number of groups.
pub(crate) const REGEX: Kind = Kind::Regex { groups_min: 0 };

impl ConfTable {
    /// Sections whose settings are allowed in a stanza: one section, or all for `[default]`. `None` for an unknown
    /// stanza.
    pub fn sections_of(&self, stanza: &str) -> Option<&'static [Section]> {
        if stanza == crate::text::DEFAULT_STANZA {
            return Some(self.sections);
        }
        let at = self.sections.iter().position(|section| section.stanza.matches_stanza(stanza))?;
        Some(&self.sections[at..=at])
    }
}

impl StanzaName {
    /// Whether the section applies to a stanza.
    pub fn matches_stanza(self, stanza: &str) -> bool {
        match self {
            StanzaName::Named(name) => stanza == name,
            StanzaName::Prefix(prefix) => stanza.starts_with(prefix),
            StanzaName::Any => true,
        }
    }
}

impl Row {
    /// Whether the row defines a setting.
    pub fn matches_key(&self, key: &str) -> bool {
        matches_name(self.name, key)
    }
}

/// The setting's name in an entry of [`ConfTable::unsupported`] or [`ConfTable::unused`], if the entry applies to the
/// stanza.
pub(crate) fn listed_name(entry: &'static str, stanza: &str) -> Option<&'static str> {
    match entry.strip_prefix('[').and_then(|entry| entry.split_once("] ")) {
        Some((of, name)) => match of.strip_suffix('*') {
            Some(prefix) => stanza.starts_with(prefix).then_some(name),
            None => (of == stanza).then_some(name),
        },
        None => Some(entry),
    }
}

/// Whether a name in a table, which may end in `-`, `_` or `.`, matches a setting.
pub(crate) fn matches_name(name: &str, key: &str) -> bool {
    name == ANY_NAME
        || if name.ends_with(['-', '_', '.']) { key.starts_with(name) && key.len() > name.len() } else { key == name }
}

impl Kind {
    /// The valid values of the type, for messages.
    pub fn describe_values(self) -> String {
        match self {
            Kind::Text => "any text".to_owned(),
            Kind::Bool => "true or false".to_owned(),
            Kind::Integer { min, max: COUNT_MAX } => format!("a whole number, {min} or more"),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Choice(words) => words.join(", "),
            Kind::Regex { groups_min: 0 } => "a regular expression with balanced brackets".to_owned(),
            Kind::Regex { groups_min } => {
                format!("a regular expression with balanced brackets and at least {groups_min} group in parentheses")
            }
            Kind::TimeFormat => "a strptime format such as %Y-%m-%dT%H:%M:%S".to_owned(),
            Kind::Zone => "a zone such as Europe/Berlin, UTC or +02:00".to_owned(),
            Kind::Age => "a number followed by s, m, h or d, as in 90d".to_owned(),
            Kind::Delimiter => "one character, \\t, \\xHH, space, whitespace, tab, fs, gs, rs, us or none".to_owned(),
            Kind::Extract => "a regular expression with a named group, optionally followed by \"in FIELD\"".to_owned(),
        }
    }
}
