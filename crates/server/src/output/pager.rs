//! What `quarry search` and `quarry help` write to: standard output, by way of a pager where a terminal's screen does
//! not hold it.
//!
//! Output is held back until it is longer than the screen; then `$PAGER` (or `less -RFX`) is started and gets all of it. Where none
//! can be started, the output is written as it is.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::terminal;

/// Options of `less` unless `$LESS` has some: colours pass, a short text ends it, the screen is left as it is.
const LESS: &str = "RFX";

/// Whether a pager has the terminal.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether a pager has the terminal.
pub(crate) fn is_running() -> bool {
    RUNNING.load(Ordering::SeqCst)
}

/// Standard output, perhaps paged. [`Pager::close`] ends it; dropping waits for the pager, too.
pub(crate) struct Pager(State);

enum State {
    /// Not paged.
    Plain(BufWriter<Stdout>),
    /// Held back while it fits the screen of so many lines and columns.
    Held { bytes: Vec<u8>, screen: (usize, usize) },
    /// Shown by a pager.
    Running { input: Option<BufWriter<ChildStdin>>, child: Child },
}

impl Pager {
    /// Standard output, paged if that is wanted and it is a terminal.
    pub(crate) fn open(is_wanted: bool) -> Pager {
        let screen = if is_wanted && terminal::pager_command().is_some() { terminal::screen() } else { None };
        Pager(match screen {
            Some(screen) => State::Held { bytes: Vec::new(), screen },
            None => State::Plain(BufWriter::new(io::stdout())),
        })
    }

    /// Ends the output and waits for the pager.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> io::Result<()> {
        match &mut self.0 {
            State::Plain(out) => out.flush(),
            State::Held { bytes, .. } => {
                let bytes = std::mem::take(bytes);
                let mut out = io::stdout().lock();
                out.write_all(&bytes).and_then(|()| out.flush())
            }
            State::Running { input, child } => {
                let flushed = input.take().map_or(Ok(()), |mut input| input.flush());
                child.wait()?;
                RUNNING.store(false, Ordering::SeqCst);
                flushed
            }
        }
    }

    /// Goes on to a pager, or to standard output where none starts.
    fn overflow(&mut self) -> io::Result<()> {
        let State::Held { bytes, .. } = &mut self.0 else { return Ok(()) };
        let bytes = std::mem::take(bytes);
        let started = start();
        RUNNING.store(started.is_some(), Ordering::SeqCst);
        self.0 = match started {
            Some(mut child) => State::Running { input: child.stdin.take().map(BufWriter::new), child },
            None => State::Plain(BufWriter::new(io::stdout())),
        };
        self.write_all(&bytes)
    }
}

/// The pager, with a pipe to it.
fn start() -> Option<Child> {
    let command = terminal::pager_command()?;
    let mut pager = if command.contains(char::is_whitespace) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&command);
        shell
    } else {
        Command::new(&command)
    };
    if !terminal::has_less_options() {
        pager.env("LESS", LESS);
    }
    pager.stdin(Stdio::piped()).spawn().ok()
}

/// Lines of a screen of so many columns that a text takes; colours take no room.
fn lines_shown(bytes: &[u8], columns: usize) -> usize {
    let (mut lines, mut column, mut in_code) = (0, 0, false);
    for byte in bytes {
        match byte {
            b'\n' => (lines, column) = (lines + 1, 0),
            0x1b => in_code = true,
            b'm' if in_code => in_code = false,
            // The first byte of a character.
            byte if !in_code && byte & 0xc0 != 0x80 => {
                if column == columns {
                    (lines, column) = (lines + 1, 0);
                }
                column += 1;
            }
            _ => {}
        }
    }
    lines
}

impl Write for Pager {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            State::Plain(out) => return out.write(buf),
            State::Running { input: Some(input), .. } => return input.write(buf),
            State::Running { input: None, .. } => return Err(ErrorKind::BrokenPipe.into()),
            State::Held { bytes, screen } => {
                bytes.extend_from_slice(buf);
                if lines_shown(bytes, screen.1) < screen.0 {
                    return Ok(buf.len());
                }
            }
        }
        self.overflow().map(|()| buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            State::Plain(out) => out.flush(),
            State::Running { input: Some(input), .. } => input.flush(),
            State::Held { .. } | State::Running { input: None, .. } => Ok(()),
        }
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // The error that ends the verb is told; that its output was cut is no news.
        let _ended = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_take_several_of_the_screen_and_colours_none() {
        for (text, lines) in [
            ("", 0),
            ("a\nb\n", 2),
            ("12345\n", 1),
            ("123456\n", 2),
            ("\u{1b}[1;33m12345\u{1b}[0m\n", 1),
            ("ééééé\n", 1),
        ] {
            assert_eq!(lines_shown(text.as_bytes(), 5), lines, "{text:?}");
        }
    }
}
