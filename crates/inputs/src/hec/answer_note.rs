//! Recording that the answer to a request is sent.
//!
//! A sender that got its answer does not repeat the request; one that got none does. After a crash the store must know
//! which of the two applies, so the answer is recorded as late as possible before it is sent. Only the port knows when
//! that is: the note is an extension of the response, and the port runs it directly before it writes to the connection.
//!
//! It runs before the answer is sent, never after (docs/decisions/0030). A note that is dropped without having run means
//! that the answer was never sent. Not here: how answers are written.

use std::sync::{Arc, Mutex, PoisonError};

use crate::SinkError;

type Act = Box<dyn FnMut() -> Result<(), SinkError> + Send>;

/// An extension of a response, run by the port. What can wait until the answer is sent belongs into the drop of its action.
#[derive(Clone)]
pub struct AnswerNote(Arc<Mutex<Act>>);

impl AnswerNote {
    /// A note that runs `act`, unless the answer is never sent.
    pub fn new(act: impl FnMut() -> Result<(), SinkError> + Send + 'static) -> AnswerNote {
        AnswerNote(Arc::new(Mutex::new(Box::new(act))))
    }

    /// Records that the answer is sent now. After an error it must not be sent.
    pub fn leaves(&self) -> Result<(), SinkError> {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))()
    }
}
