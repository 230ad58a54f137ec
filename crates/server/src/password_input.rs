//! Reading passwords: typed on a terminal without echo, or one line of standard input.

use std::fs::File;
use std::io::{BufRead, IsTerminal, Read};

use quarry_auth::{PASSWORD_BYTES_MAX, check_new_password};
use quarry_stdx::log;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Maximum number of attempts to type the same password twice.
const TRIES_MAX: usize = 3;

/// Ctrl-D.
const END_OF_INPUT: char = '\u{4}';

/// Obtains a new password, typed on a terminal or read from standard input.
pub(crate) fn new_password(name: &str) -> Result<String, Failure> {
    let password = if std::io::stdin().is_terminal() { read_typed_password(name)? } else { read_password()? };
    check_new_password(&password).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(password)
}

fn read_typed_password(name: &str) -> Result<String, Failure> {
    for _ in 0..TRIES_MAX {
        let password = read_typed(&format!("new password of {name}: "))?;
        if read_typed("repeat the password: ")? == password {
            return Ok(password);
        }
        log::info("the passwords differ; try again");
    }
    Err(Failure::Usage("the passwords differ".to_owned()))
}

/// Reads a line typed without echo. Ctrl-C ends the program and leaves the terminal as it was.
pub(crate) fn read_typed(what: &str) -> Result<String, Failure> {
    let terminal = console::Term::stderr();
    terminal.write_str(what)?;
    let tty = File::options().read(true).write(true).open("/dev/tty")?;
    let settings = tcgetattr(&tty).map_err(std::io::Error::from)?;
    let other = terminal.clone();
    let restore = move || {
        // If the terminal is gone, no settings need to be restored.
        let _gone = (tcsetattr(&tty, OptionalActions::Flush, &settings), other.write_line(""));
    };
    let line = Interrupt::run_interruptible(restore, || terminal.read_secure_line())??;
    // Ctrl-D ends the input; it cannot be part of a password.
    if line.is_empty() || line.contains(END_OF_INPUT) {
        return Err(Failure::Usage("no password was typed".to_owned()));
    }
    Ok(line)
}

/// Reads a line of standard input.
pub(crate) fn read_password() -> Result<String, Failure> {
    let mut line = String::new();
    // Room for a line break and one extra byte, which shows that the password is too long.
    let most = PASSWORD_BYTES_MAX as u64 + 3;
    let read = std::io::stdin().lock().take(most).read_line(&mut line);
    read.map_err(|error| Failure::Usage(format!("standard input has no password: {error}")))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
