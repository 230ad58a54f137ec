//! Commands by name, and their help rows.

use std::sync::LazyLock;

use super::info::{CommandInfo, Group};
use super::{Call, Command, ENTRIES};
use crate::parse::{ParseResult, Parser};

/// A command as the parser looks it up.
pub(crate) struct Entry {
    /// The main name.
    pub(crate) name: &'static str,
    /// Aliases, help line and kind.
    pub(crate) info: &'static CommandInfo,
    /// Parses the command's arguments; a command that is rewritten to other commands returns those commands.
    pub(crate) parse: fn(&mut Parser<'_>, Call<'_>) -> ParseResult<Vec<Command>>,
}

impl Entry {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.info.aliases.iter().copied())
    }
}

/// The name of the command whose file is this module.
pub(crate) const fn name_of_module(module: &'static str) -> &'static str {
    match module.as_bytes() {
        [b'r', b'#', ..] => module.split_at(2).1,
        _ => module,
    }
}

/// A command name as shown in help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandHelp {
    /// Name in lower case; may be an alias.
    pub name: &'static str,
    /// Syntax line.
    pub syntax: String,
    /// Summary in one line.
    pub summary: String,
    /// Splunk's name of the capability that the command requires in addition to `search`.
    pub capability: Option<&'static str>,
    /// Chapter of the help page.
    pub group: Group,
    /// Page of `spec/spl` that describes the command.
    pub page: &'static str,
}

impl CommandHelp {
    fn of(name: &'static str, entry: &Entry) -> CommandHelp {
        let Entry { name: usual, info, .. } = *entry;
        let (syntax, summary) = match name == usual {
            true => (info.syntax.to_owned(), info.summary.to_owned()),
            false => (info.syntax.replacen(usual, name, 1), format!("Alias of {usual}")),
        };
        let page = info.page.unwrap_or(usual);
        CommandHelp { name, syntax, summary, capability: info.capability, group: info.group, page }
    }
}

/// Names with their commands, sorted by name.
static NAMES: LazyLock<Vec<(&'static str, &'static Entry)>> = LazyLock::new(|| {
    let named = ENTRIES.iter().flat_map(|entry| entry.names().map(move |name| (name, entry)));
    let mut names: Vec<_> = named.collect();
    names.sort_by_key(|(name, _)| *name);
    names
});

static HELP: LazyLock<Vec<CommandHelp>> =
    LazyLock::new(|| NAMES.iter().map(|(name, entry)| CommandHelp::of(name, entry)).collect());

/// The command of this lower-case name.
pub(crate) fn entry(name: &str) -> Option<&'static Entry> {
    let at = NAMES.binary_search_by_key(&name, |(known, _)| *known).ok()?;
    Some(NAMES[at].1)
}

/// Help rows of all supported commands by name, including aliases.
pub fn help() -> &'static [CommandHelp] {
    &HELP
}

/// The help row of a command of this lower-case name.
pub(crate) fn help_of(name: &str) -> Option<&'static CommandHelp> {
    HELP.binary_search_by_key(&name, |row| row.name).ok().map(|at| &HELP[at])
}

/// Whether a command of this lower-case name is supported.
pub fn is_command(name: &str) -> bool {
    help_of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::UNSUPPORTED_COMMANDS;
    use super::*;

    #[test]
    fn names_are_distinct() {
        assert!(HELP.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(UNSUPPORTED_COMMANDS.iter().all(|(name, _)| !is_command(name)));
    }

    #[test]
    fn clauses_are_named_like_commands() {
        for (name, entry) in NAMES.iter() {
            assert!(entry.info.clauses.iter().all(|clause| is_command(clause)), "{name}: {:?}", entry.info.clauses);
        }
    }

    #[test]
    fn syntax_lines_contain_the_command_name() {
        for row in help() {
            assert!(row.syntax.contains(row.name), "{}", row.name);
            assert!(!row.summary.is_empty(), "{}", row.name);
        }
    }
}
