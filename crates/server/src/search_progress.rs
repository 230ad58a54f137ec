//! A line on the terminal with the running time of a search and the number of events read, until rows are shown.
//!
//! A quick search shows no such line. After Ctrl-C, the line says that the search finishes with the results so far.
//! Nothing is shown if standard output or standard error is not a terminal. Not here: drawing lines, and the progress
//! of reading files ([`crate::bars`]).

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use quarry_engine::ScanProgress;

use crate::interrupt::Interrupt;
use crate::{bars, terminal};

/// Time before the line appears.
const APPEAR_DELAY: Duration = Duration::from_millis(700);
/// Interval of redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(150);

/// The progress line, shown until this value is dropped.
#[derive(Debug)]
pub(crate) struct SearchProgress {
    end: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl SearchProgress {
    /// Starts the line: with statistics for a search of this process, without statistics for a search of a server.
    pub(crate) fn start(figures: Option<Arc<ScanProgress>>, interrupt: &Interrupt) -> SearchProgress {
        if !terminal::is_interactive() {
            return SearchProgress { end: None, drawing: None };
        }
        let (end, ended) = channel::<()>();
        let interrupt = interrupt.clone();
        let draw = move || {
            if ended.recv_timeout(APPEAR_DELAY) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = bars::add(ProgressBar::new_spinner());
            let styles = ["ends it", "again ends at once"].map(|effect| {
                ProgressStyle::with_template(&format!("{{spinner}} {{msg}}, {{elapsed}}; Ctrl-C {effect}"))
            });
            loop {
                let is_stopping = interrupt.is_set();
                if let Ok(style) = &styles[usize::from(is_stopping)] {
                    bar.set_style(style.clone());
                }
                bar.set_message(text(figures.as_ref().map(|figures| figures.events_scanned()), is_stopping));
                bar.tick();
                if ended.recv_timeout(REDRAW_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bars::remove(&bar);
        };
        // If the thread cannot be started, the search runs without the line.
        let drawing = std::thread::Builder::new().name("search-progress".to_owned()).spawn(draw).ok();
        SearchProgress { end: Some(end), drawing }
    }
}

impl Drop for SearchProgress {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(drawing) = self.drawing.take() {
            // The line is removed before any other output is written.
            drop(drawing.join());
        }
    }
}

fn text(events: Option<u64>, is_stopping: bool) -> String {
    match (events, is_stopping) {
        (None | Some(0), false) => "searching".to_owned(),
        (Some(events), false) => format!("searching: {} events read", HumanCount(events)),
        (None | Some(0), true) => "finishing".to_owned(),
        (Some(events), true) => format!("finishing with {} events", HumanCount(events)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_shows_the_events_read() {
        assert_eq!([None, Some(0)].map(|events| text(events, false)), ["searching", "searching"]);
        assert_eq!(text(Some(1_234_567), false), "searching: 1,234,567 events read");
        assert_eq!([None, Some(1_234)].map(|events| text(events, true)), ["finishing", "finishing with 1,234 events"]);
    }
}
