//! `quarry help [COMMAND]`: the search commands, from the language's own table.

use std::io::Write;

use quarry_spl::commands;

use crate::failure::Failure;

pub(crate) fn run(command: Option<&str>, out: &mut dyn Write) -> Result<u8, Failure> {
    match command {
        None => {
            writeln!(out, "Search commands (quarry help COMMAND for one; quarry --help for the program):\n")?;
            for help in commands::HELP {
                writeln!(out, "  {:<12} {}", help.name, help.summary)?;
            }
            Ok(0)
        }
        Some(name) => match commands::HELP.iter().find(|help| help.name == name) {
            Some(help) => {
                writeln!(out, "{}\n\n  {}\n\n{}", help.name, help.syntax, help.summary)?;
                Ok(0)
            }
            None => Err(Failure::Usage(format!("no search command is called {name}: `quarry help` lists them"))),
        },
    }
}
