//! A line on the terminal while a search has shown nothing yet: how long it has run, and how many events it has read.
//!
//! Quick searches show none. After Ctrl-C it says that the search finishes with what it has. Silent where standard output
//! or standard error is not a terminal. Not here: how lines are drawn, and files being read ([`crate::bars`]).

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use quarry_engine::ScanProgress;

use crate::interrupt::Interrupt;
use crate::{bars, terminal};

/// Time before the line appears.
const QUIET: Duration = Duration::from_millis(700);
/// Interval of redraws.
const STEP: Duration = Duration::from_millis(150);

/// The line, shown until this is dropped.
#[derive(Debug)]
pub(crate) struct SearchProgress {
    end: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl SearchProgress {
    /// Begins to wait for a search: one of this process with its figures, or one of a server.
    pub(crate) fn start(figures: Option<Arc<ScanProgress>>, interrupt: &Interrupt) -> SearchProgress {
        if !terminal::is_interactive() {
            return SearchProgress { end: None, drawing: None };
        }
        let (end, ended) = channel::<()>();
        let interrupt = interrupt.clone();
        let draw = move || {
            if ended.recv_timeout(QUIET) != Err(RecvTimeoutError::Timeout) {
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
                if ended.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bars::remove(&bar);
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
    fn the_line_says_how_much_is_read() {
        assert_eq!([None, Some(0)].map(|events| text(events, false)), ["searching", "searching"]);
        assert_eq!(text(Some(1_234_567), false), "searching: 1,234,567 events read");
        assert_eq!([None, Some(1_234)].map(|events| text(events, true)), ["finishing", "finishing with 1,234 events"]);
    }
}
