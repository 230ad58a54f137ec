//! Adds the data directory of this process to commands in messages, as in "change it with `quarry user passwd admin`",
//! so that the commands work when they are typed as printed. Without the option `--data-dir`, the commands would use,
//! or create, another data directory.
//!
//! All crates write messages without the option; the option is added when a message is printed. Not here: output that
//! is not a message, such as the text of `quarry demo`.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

pub(crate) const DATA_DIR_DEFAULT: &str = "quarry-data";

/// Commands that work on a data directory.
const DATA_DIR_COMMANDS: &[&str] = &[
    "add",
    "btool",
    "bucket",
    "catalog",
    "datamodel",
    "dispatch",
    "edit",
    "forward",
    "index",
    "list",
    "preview",
    "remove",
    "search",
    "serve",
    "show",
    "user",
];
/// The beginning of a command in a message.
const COMMAND_PREFIX: &str = "`quarry ";

/// Option `--data-dir DIR ` of this process; empty for the default directory.
static OPTION: OnceLock<String> = OnceLock::new();

/// Sets the data directory of this process. For a server the path is made absolute, because users may read its messages
/// in other folders.
pub(crate) fn set_data_dir(data_dir: &Path, is_server: bool) {
    let option = match std::path::absolute(data_dir) {
        Ok(absolute) if is_server => option_of(&absolute),
        _ if data_dir == Path::new(DATA_DIR_DEFAULT) => String::new(),
        _ => option_of(data_dir),
    };
    // The option is set only once, because the command line has one data directory.
    drop(OPTION.set(option));
}

fn option_of(data_dir: &Path) -> String {
    format!("--data-dir {} ", quote(&data_dir.to_string_lossy()))
}

/// Quotes a word for a shell.
pub(crate) fn quote(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_./-+,:@%=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// Adds the data directory to the commands in a message.
pub(crate) fn add_data_dir(message: &str) -> Cow<'_, str> {
    match OPTION.get().map(String::as_str) {
        None | Some("") => Cow::Borrowed(message),
        Some(option) => with_option(message, option),
    }
}

fn with_option<'t>(message: &'t str, option: &str) -> Cow<'t, str> {
    let mut parts = message.split(COMMAND_PREFIX);
    let mut text = parts.next().unwrap_or_default().to_owned();
    if text.len() == message.len() {
        return Cow::Borrowed(message);
    }
    for part in parts {
        text.push_str(COMMAND_PREFIX);
        let verb = part.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
        if DATA_DIR_COMMANDS.contains(&verb) {
            text.push_str(option);
        }
        text.push_str(part);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn commands_on_a_data_directory_name_it() {
        let option = option_of(Path::new("/srv/my data"));
        for (message, printed) in [
            (
                "change it with `quarry user passwd admin`",
                "change it with `quarry --data-dir '/srv/my data' user passwd admin`",
            ),
            ("`quarry help` and `quarry serve`", "`quarry help` and `quarry --data-dir '/srv/my data' serve`"),
            ("`quarry --data-dir D serve`", "`quarry --data-dir D serve`"),
            ("`quarry searches`, quarry search", "`quarry searches`, quarry search"),
            ("", ""),
        ] {
            assert_eq!(with_option(message, &option), printed);
        }
        for (word, typed) in [("D", "D"), ("it's", r"'it'\''s'"), ("", "''"), ("$HOME", "'$HOME'")] {
            assert_eq!(quote(word), typed);
        }
    }

    #[test]
    fn every_command_is_classified_by_data_directory_use() {
        let without = ["bench", "completions", "demo", "help", "man", "spl"];
        for command in crate::cli::Cli::command().get_subcommands() {
            let name = command.get_name();
            assert_ne!(DATA_DIR_COMMANDS.contains(&name), without.contains(&name), "{name}");
        }
    }

    /// Lines of the fenced blocks of all pages below a folder.
    fn blocks_below(folder: &Path, lines: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                blocks_below(&path, lines);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                lines.extend(text.split("```").skip(1).step_by(2).flat_map(str::lines).map(str::to_owned));
            }
        }
    }

    #[test]
    fn commands_in_the_manual_name_their_data_directory() {
        let mut lines = Vec::new();
        blocks_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs"), &mut lines);
        let mut seen = 0;
        for line in &lines {
            let Some(command) = line.trim_start_matches("$ ").strip_prefix("quarry ") else { continue };
            let verb = command.split(' ').next().unwrap_or_default();
            // A search over files and a preview need no data directory.
            let is_of_files = verb == "search" && !line.ends_with('\'');
            if DATA_DIR_COMMANDS.contains(&verb) && verb != "preview" && !is_of_files {
                assert!(line.contains("--uri"), "{line}");
            }
            seen += usize::from(command.starts_with("--data-dir "));
        }
        assert!(seen > 20, "{seen}");
    }
}
