//! Recording that the answer to a request is being sent.
//!
//! A sender repeats a request only if it received no answer. After a crash the store must know whether the answer was
//! sent, so the sending of an answer is recorded, as late as possible before the answer is sent. Only the port knows
//! that moment. The recording is therefore a hook in an extension of the response, and the port runs the hook directly
//! before it writes to the connection.
//!
//! A hook runs before the answer is sent, never after (docs/decisions/0030). If it is dropped without having run, the
//! answer was never sent. Not here: writing answers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::SinkError;

type HookFn = Box<dyn FnMut() -> Result<(), SinkError> + Send>;

/// An extension of a response, run by the port. Work that can wait until the answer is sent belongs in the destructor
/// of the hook's closure.
#[derive(Clone)]
pub struct ResponseHook(Arc<Mutex<HookFn>>);

impl ResponseHook {
    /// Creates a hook that runs `act` when the answer is about to be sent.
    pub fn new(act: impl FnMut() -> Result<(), SinkError> + Send + 'static) -> ResponseHook {
        ResponseHook(Arc::new(Mutex::new(Box::new(act))))
    }

    /// Records that the answer is about to be sent. After an error, the answer must not be sent.
    pub fn run(&self) -> Result<(), SinkError> {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))()
    }
}
