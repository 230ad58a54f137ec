//! What single values lose while a search runs: a match that was given up, a text that grew too long.
//!
//! Functions and patterns know nothing of the search they work for. Its threads carry a note of it, so that a loss,
//! deep down as it may be, is counted among the messages of its search. Silence would be a wrong answer.

use std::cell::RefCell;
use std::sync::Arc;

use crate::command::Messages;

thread_local! {
    static SEARCH: RefCell<Option<Arc<Messages>>> = const { RefCell::new(None) };
}

/// What was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A pattern took too many steps on a text; that counts as no match.
    Match,
    /// A text would have become longer than its limit; it is null.
    Text,
}

/// The search whose threads note their losses; the thread forgets it with this value.
pub(crate) struct Noted(Option<Arc<Messages>>);

impl Drop for Noted {
    fn drop(&mut self) {
        let before = self.0.take();
        SEARCH.with(|search| *search.borrow_mut() = before);
    }
}

/// From now on this thread works for the search of these messages.
pub(crate) fn work_for(messages: Option<Arc<Messages>>) -> Noted {
    Noted(SEARCH.with(|search| std::mem::replace(&mut *search.borrow_mut(), messages)))
}

/// Counts a loss.
#[cold]
pub(crate) fn note(loss: Loss) {
    SEARCH.with(|search| {
        if let Some(messages) = search.borrow().as_ref() {
            messages.note(loss);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_of_the_search_that_had_them() {
        let (one, other) = (Arc::new(Messages::default()), Arc::new(Messages::default()));
        note(Loss::Match);
        let noted = work_for(Some(Arc::clone(&one)));
        note(Loss::Match);
        {
            let _other = work_for(Some(Arc::clone(&other)));
            note(Loss::Text);
        }
        note(Loss::Match);
        drop(noted);
        note(Loss::Match);
        assert_eq!(one.list().len(), 1);
        assert!(one.list()[0].contains(" 2 "), "{:?}", one.list());
        assert!(other.list()[0].starts_with("1 text longer"), "{:?}", other.list());
        assert!(one.pushes() == 2 && other.pushes() == 1, "states of folds that lost something are not used again");
    }
}
