//! Splunk's option syntax: a long option name after a single dash, with the value in the next word.
//!
//! `-maxout 5` becomes `--maxout=5` if the verb has that option. A misspelt name such as `-sourcetyp` is passed on as
//! `--sourcetyp`, which is then refused, unless the word can mean something else. All other words are left as typed.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, CommandFactory};

use crate::cli::Cli;

/// Minimum length of a word that is treated as a misspelt option name.
const NAME_MIN: usize = 3;

/// Puts two dashes before each long option.
pub(crate) fn with_two_dashes(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.collect();
    // Building the parser of all verbs takes longer than some commands run, so it is skipped if no argument has a
    // single dash.
    if !arguments.iter().any(|argument| argument.to_str().is_some_and(may_be_splunks)) {
        return arguments;
    }
    let arguments = arguments.into_iter();
    let mut program = Cli::command();
    program.build();
    let (mut command, mut arguments) = (&program, arguments.peekable());
    let mut read: Vec<OsString> = arguments.next().into_iter().collect();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.to_str() else {
            read.push(argument);
            continue;
        };
        if text == "--" {
            read.push(argument);
            read.extend(arguments);
            break;
        }
        if let Some(named) = TypedOption::of(command, text) {
            let takes_next = named.option.get_action().takes_values() && !text.contains('=');
            let next = arguments.next_if(|_| takes_next && !named.requires_equals());
            match (named.is_splunks, next.or_else(|| arguments.next_if(|next| named.is_splunks && is_bool(next)))) {
                (true, Some(value)) => {
                    let mut joined = OsString::from(format!("-{text}="));
                    joined.push(value);
                    read.push(joined);
                }
                (true, None) => read.push(format!("-{text}").into()),
                (false, value) => {
                    read.push(argument);
                    read.extend(value);
                }
            }
            continue;
        }
        if may_be_misspelt(command, text) {
            read.push(format!("-{text}").into());
            continue;
        }
        if let Some(inner) = command.find_subcommand(text) {
            command = inner;
        }
        read.push(argument);
    }
    read
}

/// Whether a word may be a long option name after a single dash.
fn may_be_splunks(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|name| name.len() > 1 && !name.starts_with('-'))
}

struct TypedOption<'c> {
    option: &'c Arg,
    /// Whether the option is a long name after a single dash.
    is_splunks: bool,
}

impl TypedOption<'_> {
    fn of<'c>(command: &'c Command, text: &str) -> Option<TypedOption<'c>> {
        let word = text.split('=').next().unwrap_or_default();
        let long = |name: &str| {
            command.get_arguments().find(|option| {
                let mut aliases = option.get_all_aliases().into_iter().flatten();
                option.get_long() == Some(name) || aliases.any(|alias| alias == name)
            })
        };
        if let Some(name) = word.strip_prefix("--") {
            return Some(TypedOption { option: long(name)?, is_splunks: false });
        }
        let name = word.strip_prefix('-')?;
        let mut letters = name.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => {
                let option = command.get_arguments().find(|option| option.get_short() == Some(letter))?;
                Some(TypedOption { option, is_splunks: false })
            }
            _ => Some(TypedOption { option: long(name)?, is_splunks: true }),
        }
    }

    /// True if the value must follow an equals sign.
    fn requires_equals(&self) -> bool {
        self.option.is_require_equals_set()
    }
}

/// True if a word is neither a short option with its value nor text, so that it can only be a long name.
fn may_be_misspelt(command: &Command, text: &str) -> bool {
    let Some(name) = text.strip_prefix('-') else { return false };
    let word = name.split('=').next().unwrap_or_default();
    let is_name = word.len() >= NAME_MIN && word.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_');
    let mut arguments = command.get_arguments();
    is_name
        && !arguments.any(|argument| argument.is_positional() && argument.is_allow_hyphen_values_set())
        && !may_be_short(command, name)
}

/// True if letters can be short options without values, followed by at most one with its value.
fn may_be_short(command: &Command, letters: &str) -> bool {
    for letter in letters.chars() {
        match command.get_arguments().find(|option| option.get_short() == Some(letter)) {
            None => return false,
            Some(option) if option.get_action().takes_values() => return true,
            Some(_) => {}
        }
    }
    true
}

/// True if a word is a Boolean, which Splunk's switches accept as a value.
fn is_bool(word: &OsStr) -> bool {
    ["true", "false", "t", "f", "1", "0"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from);
        let read = with_two_dashes(std::iter::once("quarry".into()).chain(words));
        read.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn single_dashes_before_long_options_become_double() {
        for (typed, meant) in [
            ("search error -maxout 5 -output rawdata", "search error --maxout=5 --output=rawdata"),
            ("search -earliest_time -24h error", "search --earliest_time=-24h error"),
            ("search error -detach true", "search error --detach=true"),
            ("search error --detach true", "search error --detach true"),
            ("search error -detach", "search error --detach"),
            ("search error -preview=0", "search error --preview=0"),
            ("--data-dir D add monitor /x -index web", "--data-dir D add monitor /x --index=web"),
            ("-data-dir D search x", "--data-dir=D search x"),
            (
                "add saved-search -name a -search b -start_time -1d",
                "add saved-search --name=a --search=b --start_time=-1d",
            ),
            ("search error -o csv --earliest -maxout", "search error -o csv --earliest -maxout"),
            ("search -error -ojson", "search --error -ojson"),
            ("search -- -maxout 5", "search -- -maxout 5"),
            ("add oneshot x -sourcetyp y", "add oneshot x --sourcetyp y"),
            ("add oneshot x -5", "add oneshot x -5"),
            ("add oneshot x -hostname y -rename-source z", "add oneshot x --hostname=y --rename-source=z"),
            ("add oneshot x -hosts y", "add oneshot x --hosts y"),
            ("add oneshot -h", "add oneshot -h"),
            ("add oneshot x -sourcetype", "add oneshot x --sourcetype"),
        ] {
            assert_eq!(read(typed), meant, "{typed}");
        }
    }
}
