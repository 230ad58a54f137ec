//! Output that may be long, such as that of `quarry search` and `quarry help`: standard output, through a pager if the
//! output exceeds a terminal's screen.
//!
//! Output is buffered until it exceeds the screen; then `$PAGER` (or `less -RFX`) is started and receives all output.
//! If no pager can be started, the output is written directly.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::terminal;

/// Options of `less` unless `$LESS` is set: pass colours, exit if the text fits, keep the screen.
const LESS: &str = "RFX";

/// Set while a pager controls the terminal.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Whether a pager controls the terminal.
pub(crate) fn is_running() -> bool {
    RUNNING.load(Ordering::SeqCst)
}

/// Standard output, possibly paged. [`Pager::close`] ends the output; dropping a `Pager` also waits for the pager.
pub(crate) struct Pager(State);

enum State {
    /// Written directly, without a pager.
    Plain(BufWriter<Stdout>),
    /// Buffered as long as it fits the screen; `screen` has lines and columns.
    Held { bytes: Vec<u8>, screen: (usize, usize) },
    /// Shown by a pager.
    Running { input: Option<BufWriter<ChildStdin>>, child: Child },
}

impl Pager {
    /// Opens standard output, paged if `is_wanted` and standard output is a terminal.
    pub(crate) fn open(is_wanted: bool) -> Pager {
        let screen = if is_wanted && terminal::pager_command().is_some() { terminal::screen_size() } else { None };
        Pager(match screen {
            Some(screen) => State::Held { bytes: Vec::new(), screen },
            None => State::Plain(BufWriter::new(io::stdout())),
        })
    }

    /// Whether a pager shows the output.
    pub(crate) fn is_paged(&self) -> bool {
        matches!(self.0, State::Running { .. })
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

    /// Switches to a pager, or to standard output if no pager starts.
    fn start_paging(&mut self) -> io::Result<()> {
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

/// Starts the pager with a pipe as its input.
fn start() -> Option<Child> {
    let command = terminal::pager_command()?;
    let mut pager = if command.contains(char::is_whitespace) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&command);
        shell
    } else {
        Command::new(&command)
    };
    pager.env("LESS", less_options(terminal::less_options().as_deref()));
    pager.stdin(Stdio::piped()).spawn().ok()
}

/// Options of `less`: the user's or the default, with an option added if needed to pass colours.
fn less_options(of_user: Option<&str>) -> String {
    match of_user.map(str::trim).filter(|options| !options.is_empty()) {
        None => LESS.to_owned(),
        // The letter of this option may also occur in a long option, so long options are compared as a whole.
        Some(options) if options.split_whitespace().any(passes_colours) => options.to_owned(),
        Some(options) if options.starts_with('-') => format!("{options} -R"),
        Some(options) => format!("-{options} -R"),
    }
}

/// True if a word of options makes `less` pass colours.
fn passes_colours(word: &str) -> bool {
    let is_long = word.starts_with("--");
    if is_long { word.eq_ignore_ascii_case("--raw-control-chars") } else { word.contains(['R', 'r']) }
}

/// Number of screen lines of a text; colour codes take no columns.
fn lines_shown(bytes: &[u8], columns: usize) -> usize {
    let (mut lines, mut column, mut in_code) = (0, 0, false);
    for byte in bytes {
        match byte {
            b'\n' => (lines, column) = (lines + 1, 0),
            0x1b => in_code = true,
            b'm' if in_code => in_code = false,
            // Only the first byte of each character is counted.
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
        self.start_paging().map(|()| buf.len())
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
        // The error that ends the verb is reported elsewhere, so an error here is ignored.
        let _ended = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_wrap_and_colour_codes_have_no_width() {
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
