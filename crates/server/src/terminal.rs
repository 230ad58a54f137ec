//! What the program's output goes to: a terminal of some width, or a pipe.

use std::io::IsTerminal;

use crate::cli::ColorChoice;

/// Whether standard output may be coloured. `NO_COLOR` is honoured.
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

/// Columns of the terminal that standard output is; `None` for a pipe or file.
#[expect(clippy::disallowed_methods, reason = "the server crate is where the environment is read")]
pub(crate) fn width() -> Option<u16> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (_, columns) = console::Term::stdout().size_checked()?;
    std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).or(Some(columns))
}

/// Whether messages on standard error may be coloured.
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
