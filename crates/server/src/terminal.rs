//! Properties of the program's output, such as the width of a terminal.

use std::io::IsTerminal;

use crate::cli::ColorChoice;

/// True if standard output may be coloured. Honours `NO_COLOR`.
#[expect(clippy::disallowed_methods, reason = "the server crate is where the environment is read")]
pub(crate) fn colors(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::io::stdout().is_terminal() && std::env::var("NO_COLOR").map_or(true, |value| value.is_empty())
        }
    }
}

/// Note to a user whose lines are read from the terminal.
pub(crate) const TYPED_INPUT_NOTE: &str = "reading lines from the terminal; Ctrl-D on an empty line ends the input";

/// Assumed width of a terminal that reports no width.
const DEFAULT_COLUMNS: u16 = 80;

/// Width of the terminal on standard output; `None` for a pipe or file.
#[expect(clippy::disallowed_methods, reason = "the server crate is where the environment is read")]
pub(crate) fn width() -> Option<u16> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let columns = console::Term::stdout().size_checked().map(|(_, columns)| columns).filter(|&columns| columns > 0);
    let columns = columns.unwrap_or(DEFAULT_COLUMNS);
    std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).or(Some(columns))
}

/// Lines and columns of the terminal on standard output; `None` for a pipe or file.
pub(crate) fn screen_size() -> Option<(usize, usize)> {
    let columns = width()?;
    let (lines, _) = console::Term::stdout().size_checked()?;
    Some((usize::from(lines), usize::from(columns)))
}

/// True if both results and messages are shown on a terminal.
pub(crate) fn is_interactive() -> bool {
    std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}

/// Default pager.
const PAGER: &str = "less";

/// The pager command: `$PAGER`, or `less`; `None` if it is empty or `cat`.
#[expect(clippy::disallowed_methods, reason = "the server crate is where the environment is read")]
pub(crate) fn pager_command() -> Option<String> {
    let command = std::env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
    Some(command).filter(|command| !matches!(command.trim(), "" | "cat"))
}

/// Options of `less` that the user has set.
#[expect(clippy::disallowed_methods, reason = "the server crate is where the environment is read")]
pub(crate) fn less_options() -> Option<String> {
    std::env::var("LESS").ok()
}

/// True if messages on standard error may be coloured.
#[expect(clippy::disallowed_methods, reason = "the server crate is where the environment is read")]
pub(crate) fn colors_on_stderr(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::io::stderr().is_terminal() && std::env::var("NO_COLOR").map_or(true, |value| value.is_empty())
        }
    }
}
