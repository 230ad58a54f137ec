//! Ctrl-C: the first press makes the running work finish with the results so far, the second press ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_stdx::log;

use crate::bars;
use crate::failure::{self, Failure};
use crate::output::pager;

/// Whether Ctrl-C was pressed; shared with the signal handler.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// The action installed last. A process has only one signal handler, and some commands run several tasks in sequence.
static CURRENT: Mutex<Option<Action>> = Mutex::new(None);
/// Set once the signal handler of the process is installed.
static HAS_HANDLER: AtomicBool = AtomicBool::new(false);

/// Effect of Ctrl-C.
struct Action {
    interrupt: Interrupt,
    on_first: Box<dyn Fn() + Send>,
}

impl Interrupt {
    /// Handles Ctrl-C from now on; the first press also calls `on_first`.
    pub(crate) fn install(on_first: impl Fn() + Send + 'static) -> Result<Interrupt, Failure> {
        let interrupt = Interrupt::default();
        let action = Action { interrupt: interrupt.clone(), on_first: Box::new(on_first) };
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if !HAS_HANDLER.swap(true, Ordering::SeqCst) {
            let installed = ctrlc::set_handler(handle_press);
            installed.map_err(|error| Failure::Storage(format!("cannot handle Ctrl-C: {error}")))?;
        }
        *current = Some(action);
        Ok(interrupt)
    }

    /// Runs `work`; Ctrl-C during the work calls `on_press` and ends the program.
    pub(crate) fn run_interruptible<T>(
        on_press: impl Fn() + Send + 'static,
        work: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        let current = || CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let before = current().take();
        let installed = Interrupt::install(move || {
            on_press();
            std::process::exit(i32::from(failure::INTERRUPTED));
        });
        let worked = installed.map(|_| work());
        *current() = before;
        worked
    }

    /// The flag that is set when Ctrl-C is pressed.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// True if Ctrl-C was pressed.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Handles a press, in a thread of its own.
fn handle_press() {
    // A pager controls the terminal and handles Ctrl-C itself; this program ends with the pager.
    if pager::is_running() {
        return;
    }
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(action) = &*current else { std::process::exit(i32::from(failure::INTERRUPTED)) };
    if action.interrupt.0.swap(true, Ordering::SeqCst) {
        bars::clear();
        log::info("stopped");
        quarry_programs::end_all();
        std::process::exit(i32::from(failure::INTERRUPTED));
    }
    (action.on_first)();
}
