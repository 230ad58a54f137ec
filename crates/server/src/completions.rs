//! `quarry completions SHELL`: completion scripts for verbs, options, and SPL commands after `quarry help`.

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use quarry_spl::commands;

use crate::cli::Cli;

/// Writes the script.
pub(crate) fn write(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    let names = commands::help().iter().map(|help| help.name);
    let mut command = Cli::command().mut_subcommand("help", |help| {
        help.mut_arg("command", |argument| argument.value_parser(PossibleValuesParser::new(names)))
    });
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "quarry", &mut script);
    out.write_all(&script)?;
    if shell == Shell::Fish {
        out.write_all(positional_values(&command).as_bytes())?;
    }
    Ok(())
}

/// Completions for the values of positional arguments, which the fish generator omits.
fn positional_values(command: &Command) -> String {
    let mut lines = String::new();
    for verb in command.get_subcommands() {
        let words = verb.get_positionals().flat_map(Arg::get_possible_values).filter(|value| !value.is_hide_set());
        for value in words {
            let about =
                commands::help().iter().find(|help| help.name == value.get_name()).map(|help| help.summary.as_str());
            let about = about.unwrap_or_default().replace('\'', "\\'");
            let name = value.get_name();
            let condition = format!("__fish_seen_subcommand_from {}", verb.get_name());
            lines.push_str(&format!("complete -c quarry -n \"{condition}\" -f -a '{name}' -d '{about}'\n"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_verbs_options_and_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            write(shell, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            for word in
                ["oneshot", "vertical", "no-pager", "streamstats", "maxout", "saved-search", "frozenTimePeriodInSecs"]
            {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
