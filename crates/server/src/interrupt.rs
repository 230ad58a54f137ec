//! Ctrl-C: the first press asks the running work to finish with what it has, the second ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{self, Failure};
use crate::output::pager;

/// Whether Ctrl-C was pressed; shared with the signal handler.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles Ctrl-C for the rest of the process; the first press also calls `on_first`.
    pub(crate) fn install(on_first: impl Fn() + Send + 'static) -> Result<Interrupt, Failure> {
        let interrupt = Interrupt::default();
        let pressed = interrupt.clone();
        let handler = move || {
            // A pager controls the terminal and handles Ctrl-C itself; the program ends with it.
            if pager::is_running() {
                return;
            }
            if pressed.0.swap(true, Ordering::SeqCst) {
                quarry_programs::end_all();
                std::process::exit(i32::from(failure::INTERRUPTED));
            }
            on_first();
        };
        let installed = ctrlc::set_handler(handler);
        installed.map_err(|error| Failure::Storage(format!("cannot listen to Ctrl-C: {error}")))?;
        Ok(interrupt)
    }

    /// Is set when Ctrl-C is pressed.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Whether Ctrl-C was pressed.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
