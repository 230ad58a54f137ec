//! The tables of settings: one row per setting with its type, default, unit and meaning.
//!
//! A table is the only place that knows a setting: the checker, the typed views and the manual read it. A conf
//! without a table (macros, saved searches) is merged unchecked.

use crate::settings::{datamodels, http_input, indexes, limits, outputs, server, transforms};
use crate::{props, values};

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

/// Every table.
pub static TABLES: &[&ConfTable] = &[
    &props::table::PROPS,
    &transforms::TRANSFORMS,
    &limits::LIMITS,
    &indexes::INDEXES,
    &server::SERVER,
    &outputs::OUTPUTS,
    &http_input::INPUTS,
    &datamodels::DATAMODELS,
];

/// Confs without a table, and what is read from them.
pub const CONFS_WITHOUT_TABLE: &[(&str, &str)] = &[
    ("alert_actions", "the programs of `sendalert`, with their parameters"),
    ("commands", "search commands that apps bring along"),
    ("eventtypes", "event types: a search, its tags, whether it is disabled"),
    ("macros", "macros with their arguments and validation"),
    ("multikv", "how `multikv` finds tables"),
    ("savedsearches", "saved searches with their text and time range; schedules have no effect"),
    ("tags", "tags of values of fields"),
    ("transactiontypes", "the options of a kind of transaction"),
];

impl ConfTable {
    /// Table of a conf.
    pub fn of(conf: &str) -> Option<&'static ConfTable> {
        TABLES.iter().find(|table| table.conf == conf).copied()
    }

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

/// Whether a value is this word of a choice.
fn is_choice(word: &str, value: &str) -> bool {
    let begins = || value.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    word.eq_ignore_ascii_case(value) || (word.ends_with(':') && value.len() > word.len() && begins())
}

impl Kind {
    /// Whether the type takes a value.
    pub fn takes(self, value: &str) -> bool {
        value.is_empty()
            || match self {
                Kind::Text => true,
                Kind::Bool => values::parse_bool(value).is_some(),
                Kind::Integer { min, max } => value.parse::<i64>().is_ok_and(|value| (min..=max).contains(&value)),
                Kind::Choice(words) => words.iter().any(|word| is_choice(word, value)),
                Kind::Regex { groups_min } => values::capture_groups(value).is_some_and(|groups| groups >= groups_min),
                Kind::TimeFormat => quarry_event::time::Format::new(value).is_ok(),
                Kind::Zone => quarry_event::time::parse_zone(value).is_some(),
                Kind::Delimiter => values::parse_delimiter(value).is_some() || matches!(value, "whitespace" | "ws"),
                Kind::Age => crate::settings::index_rules::parse_age(value).is_some(),
                Kind::Extract => values::names_a_group(props::split_extract(value).0),
            }
    }

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
