//! `quarry completions SHELL`: completion scripts for verbs, options, and SPL commands after `quarry help`.

use std::io::{self, Write};

use clap::CommandFactory;
use clap::builder::PossibleValuesParser;
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
    out.write_all(&script)
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
            for word in ["oneshot", "vertical", "no-pager"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
            // The generator for fish omits values of positional arguments.
            assert!(shell == Shell::Fish || script.contains("streamstats"), "{shell}");
        }
    }
}
