//! A line on the terminal while a search has shown nothing yet: how long it has run, and how many events it has read.
//!
//! Quick searches show none. Silent where standard output or standard error is not a terminal. Not here: files being read
//! ([`crate::bars`]).

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use quarry_engine::ScanProgress;

use crate::terminal;

/// Time before the line appears.
const QUIET: Duration = Duration::from_millis(700);
/// Interval of redraws.
const STEP: Duration = Duration::from_millis(150);
/// Maximum redraws per second.
const DRAWS_PER_SECOND: u8 = 8;

/// The line, shown until this is dropped.
#[derive(Debug)]
pub(crate) struct SearchProgress {
    end: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl SearchProgress {
    /// Begins to wait for a search: one of this process with its figures, or one of a server.
    pub(crate) fn start(figures: Option<Arc<ScanProgress>>) -> SearchProgress {
        if !terminal::is_interactive() {
            return SearchProgress { end: None, drawing: None };
        }
        let (end, ended) = channel::<()>();
        let draw = move || {
            if ended.recv_timeout(QUIET) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
            let bar = ProgressBar::with_draw_target(None, target);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}; Ctrl-C ends it") {
                bar.set_style(style);
            }
            loop {
                bar.set_message(text(figures.as_ref().map(|figures| figures.events_scanned())));
                bar.tick();
                if ended.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bar.finish_and_clear();
        };
        // Without the line, the search goes on.
        let drawing = std::thread::Builder::new().name("search-progress".to_owned()).spawn(draw).ok();
        SearchProgress { end: Some(end), drawing }
    }
}

impl Drop for SearchProgress {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(drawing) = self.drawing.take() {
            // The line is gone before anything else is written.
            drop(drawing.join());
        }
    }
}

fn text(events: Option<u64>) -> String {
    match events {
        None | Some(0) => "searching".to_owned(),
        Some(events) => format!("searching: {} events read", HumanCount(events)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_is_read() {
        assert_eq!([None, Some(0)].map(text), ["searching", "searching"]);
        assert_eq!(text(Some(1_234_567)), "searching: 1,234,567 events read");
    }
}
