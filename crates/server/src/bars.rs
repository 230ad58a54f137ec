//! Progress lines at the bottom of a terminal: one for each pipeline set that reads files, or one for a search
//! ([`crate::search_progress`]). Nothing is shown if standard error is not a terminal. Messages on standard error are
//! written above the progress lines.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use console::Term;
use indicatif::{
    DecimalBytes, HumanCount, HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike,
};
use quarry_inputs::file::{AddProgress, Progress};
use quarry_stdx::number::{f64_of, integer_part};

use crate::interrupt::Interrupt;
use crate::output::line_folding::stderr_width;
use crate::output::text_width::{escape_line, truncate, width};

/// Maximum number of redraws per second.
const DRAWS_PER_SECOND: u8 = 8;
/// Interval between the frames of a spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

/// Assumed width of a terminal that reports no width.
const DEFAULT_COLUMNS: usize = 80;
/// Columns left free at the end of a line, because the terminal echoes `^C` there, and some terminals wrap after the
/// last column.
const MARGIN: usize = 4;
/// Separator between facts.
const GAP: &str = "  ";
/// Minimum number of columns of a truncated name.
const NAME_MIN: usize = 12;

/// Progress lines of this process, hidden unless standard error is a terminal.
static LINES: LazyLock<MultiProgress> = LazyLock::new(|| {
    MultiProgress::with_draw_target(match io::stderr().is_terminal() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(NarrowTerminal(Term::stderr())), DRAWS_PER_SECOND),
        false => ProgressDrawTarget::hidden(),
    })
});

/// A terminal that reports a smaller width than it has. Progress lines are padded to the reported width. If they were
/// padded to the full width, the echo of `^C` would wrap, and the wrong line would be cleared.
#[derive(Debug)]
struct NarrowTerminal(Term);

impl TermLike for NarrowTerminal {
    fn width(&self) -> u16 {
        let margin = u16::try_from(MARGIN).unwrap_or(0);
        self.0.size().1.saturating_sub(margin).max(1)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.0.write_line(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a line to standard error above the progress lines.
pub(crate) fn write_above(line: &[u8]) {
    // If standard error is closed, the line is lost.
    LINES.suspend(|| drop(io::stderr().lock().write_all(line)));
}

/// Adds a progress line below the others.
pub(crate) fn add(bar: ProgressBar) -> ProgressBar {
    LINES.add(bar)
}

/// Removes a progress line.
pub(crate) fn remove(bar: &ProgressBar) {
    bar.finish_and_clear();
    LINES.remove(bar);
}

/// Removes all lines, before the process ends.
pub(crate) fn clear() {
    // Clearing fails only if the terminal accepts no more output; it then shows no lines either.
    drop(LINES.clear());
    // This keeps other lines from being drawn before the process ends.
    LINES.set_draw_target(ProgressDrawTarget::hidden());
}

/// Creates a progress line for files read one after the other; `interrupt` lets Ctrl-C end the reading.
pub(crate) fn bar(interrupt: Interrupt) -> Bar {
    Bar { bar: ProgressBar::hidden(), name: String::new(), interrupt, is_sized: false }
}

/// Adds a line that says that the events are in the log and are being sealed.
pub(crate) fn add_sealing_line() -> ProgressBar {
    let bar = add(ProgressBar::new_spinner().with_message("events are safe; writing buckets"));
    if !bar.is_hidden() {
        bar.enable_steady_tick(SPINNER_INTERVAL);
    }
    bar
}

/// The progress line of one pipeline set.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Name of the file, safe for a terminal.
    name: String,
    interrupt: Interrupt,
    is_sized: bool,
}

impl Bar {
    /// Starts the line for a file.
    pub(crate) fn begin(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        // The line shows only the name until the first bytes are read, because the size is not known until then.
        self.name = escape_line(&name).into_owned();
        let bar = match ProgressStyle::with_template("{msg}") {
            Ok(style) => ProgressBar::no_length().with_style(style),
            Err(_) => ProgressBar::no_length(),
        };
        self.bar = add(bar);
        self.bar.set_message(format_line(columns(), &self.name, &[]));
        self.is_sized = false;
    }

    fn size(&mut self, bytes: u64) {
        self.is_sized = true;
        if bytes > 0 {
            self.bar.set_length(bytes);
        }
    }

    /// Ends the line for a file.
    pub(crate) fn end(&mut self) {
        remove(&self.bar);
        self.bar = ProgressBar::hidden();
    }
}

impl Progress for Bar {
    fn batch_added(&mut self, at: &AddProgress) -> ControlFlow<()> {
        if !self.bar.is_hidden() {
            if !self.is_sized {
                self.size(at.stored_bytes_all);
            }
            self.bar.set_position(at.stored_bytes);
            let facts = progress_facts(at, self.bar.elapsed(), self.bar.eta());
            self.bar.set_message(format_line(columns(), &self.name, &facts));
        }
        if self.interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn columns() -> usize {
    stderr_width().map_or(DEFAULT_COLUMNS, usize::from)
}

/// Facts about a file being read, most important first.
fn progress_facts(at: &AddProgress, elapsed: Duration, left: Duration) -> Vec<String> {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let per_second = |count: u64| integer_part::<u64>(f64_of(count) / seconds);
    let mut facts = Vec::new();
    match at.stored_bytes_all {
        0 => facts.push(DecimalBytes(at.bytes).to_string()),
        all => {
            facts.push(format!("{}%", u128::from(at.stored_bytes) * 100 / u128::from(all)));
            facts.push(format!("ETA {:#}", HumanDuration(left)));
        }
    }
    facts.push(format!("{} events", HumanCount(at.events)));
    if at.bad_timestamps > 0 {
        let what = if at.bad_timestamps == 1 { "bad timestamp" } else { "bad timestamps" };
        facts.push(format!("{} {what}", HumanCount(at.bad_timestamps)));
    }
    facts.push(format!("{}/s", DecimalBytes(per_second(at.stored_bytes.max(at.bytes)))));
    facts.push(format!("{} events/s", HumanCount(per_second(at.events))));
    if at.stored_bytes_all > 0 {
        facts.push(format!("{} of {}", DecimalBytes(at.stored_bytes), DecimalBytes(at.stored_bytes_all)));
    }
    facts
}

/// Formats a line that fits the terminal: the name, truncated if necessary, and as many whole facts as fit.
fn format_line(columns: usize, name: &str, facts: &[String]) -> String {
    let room = columns.saturating_sub(MARGIN);
    // A long name is truncated to leave room for the first two facts.
    let wanted: usize = facts.iter().take(2).map(|fact| GAP.len() + width(fact)).sum();
    let mut line = truncate(name, room.saturating_sub(wanted).max(NAME_MIN)).into_owned();
    for fact in facts {
        if width(&line) + GAP.len() + width(fact) > room {
            break;
        }
        line.push_str(GAP);
        line.push_str(fact);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_any_terminal_without_cutting_words() {
        let at = AddProgress {
            stored_bytes: 1_234_567_890,
            stored_bytes_all: 9_876_543_210,
            bytes: 1_234_567_890,
            events: 12_345_678,
            bad_timestamps: 42,
        };
        let facts = progress_facts(&at, Duration::from_secs(30), Duration::from_secs(4_000));
        for name in [
            "a.log",
            "a-very-long-name-of-a-log-file-that-rotates-every-hour.log.2026-11-23-20.gz",
            "日本語のログファイル.log",
        ] {
            for columns in 40..200 {
                let line = format_line(columns, name, &facts);
                assert!(width(&line) < columns, "{columns}: {line}");
                let said = line.split(GAP).skip(1).count();
                assert!(said >= 2, "{columns}: {line}");
                assert_eq!(line.split(GAP).skip(1).collect::<Vec<_>>(), facts[..said], "{columns}");
            }
        }
        assert!(format_line(200, "a.log", &facts).ends_with("1.23 GB of 9.88 GB"));
    }
}
