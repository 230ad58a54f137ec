//! Progress on a terminal, a line per pipeline set; silent elsewhere.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use indicatif::{DecimalBytes, HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use quarry_inputs::file::{Progress, Reached};

use crate::interrupt::Interrupt;

/// Redraws per second at most.
const DRAWS_PER_SECOND: u8 = 8;
/// Time between two pictures of a spinner.
const SPINNER_STEP: Duration = Duration::from_millis(120);

/// The lines of a terminal.
#[derive(Debug)]
pub(crate) struct Bars(MultiProgress);

impl Bars {
    /// Those of standard error, which hide themselves where that is no terminal.
    pub(crate) fn new() -> Bars {
        Bars(MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND)))
    }

    /// A line for files one after the other; it also ends them when the user wants so.
    pub(crate) fn bar(&self, interrupt: Interrupt) -> Bar<'_> {
        Bar { bars: self, bar: ProgressBar::hidden(), interrupt, is_sized: false }
    }

    /// Shows that events are in the log and become buckets now.
    pub(crate) fn sealing(&self) -> ProgressBar {
        let bar = self.0.add(ProgressBar::new_spinner().with_message("events are safe; writing buckets"));
        if !bar.is_hidden() {
            bar.enable_steady_tick(SPINNER_STEP);
        }
        bar
    }

    /// Runs what writes to the terminal, with no line in its way.
    pub(crate) fn beside(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }
}

/// The line of one pipeline set.
pub(crate) struct Bar<'a> {
    bars: &'a Bars,
    bar: ProgressBar,
    interrupt: Interrupt,
    is_sized: bool,
}

impl Bar<'_> {
    /// Begins with a file.
    pub(crate) fn begin(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        // How large the file is shows with its first bytes; until then the line is its name.
        let bar = ProgressBar::no_length().with_prefix(name);
        let bar = match ProgressStyle::with_template("{prefix} {msg}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        self.bar = self.bars.0.add(bar);
        self.is_sized = false;
    }

    fn size(&mut self, bytes: u64) {
        self.is_sized = true;
        let style =
            "{prefix} {bar:24} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} ETA {eta} {wide_msg}";
        if bytes > 0
            && let Ok(style) = ProgressStyle::with_template(style)
        {
            self.bar.set_style(style);
            self.bar.set_length(bytes);
        }
    }

    /// Ends with the file.
    pub(crate) fn end(&mut self) {
        self.bar.finish_and_clear();
        self.bars.0.remove(&self.bar);
        self.bar = ProgressBar::hidden();
    }
}

impl Progress for Bar<'_> {
    fn reached(&mut self, at: &Reached) -> ControlFlow<()> {
        if !self.bar.is_hidden() {
            if !self.is_sized {
                self.size(at.stored_bytes_all);
            }
            let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
            let rate = HumanCount((at.events as f64 / seconds) as u64);
            let mut message = format!("{} events {rate}/s", HumanCount(at.events));
            if at.bad_timestamps > 0 {
                message.push_str(&format!(" {} bad timestamps", HumanCount(at.bad_timestamps)));
            }
            if at.stored_bytes_all == 0 {
                message.push_str(&format!(" {}", DecimalBytes(at.bytes)));
            }
            self.bar.set_position(at.stored_bytes);
            self.bar.set_message(message);
        }
        if self.interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
