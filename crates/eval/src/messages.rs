//! Messages of a search for its user, including notices about single values that were lost.
//!
//! A match may be abandoned, or a text may become too long, deep inside functions and patterns that do not know their
//! search. The threads of a search carry a reference to its messages, so that such losses are counted and reported; an
//! unreported loss would be a wrong result.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quarry_spl::truncate_message;

/// Maximum bytes of a text produced by replacement or concatenation; a longer text becomes null.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// Maximum number of steps that PCRE2 may take for one match; then the text counts as not matching.
pub const MATCH_STEPS_MAX: u32 = 100_000;
/// Maximum number of groups of one row with multivalue BY fields; the row is not in further groups.
pub const GROUPS_PER_ROW_MAX: usize = 10_000;

/// Distinct messages collected while a search runs, at most [`Messages::LIMIT`].
#[derive(Debug, Default)]
pub struct Messages {
    list: std::sync::Mutex<Vec<String>>,
    pushes: AtomicU64,
    /// Number of abandoned matches.
    matches_lost: AtomicU64,
    /// Number of texts that exceeded the length limit.
    texts_lost: AtomicU64,
    /// Number of rows with more groups than a row may have.
    groups_lost: AtomicU64,
}

impl Messages {
    /// Maximum number of messages kept; further ones are dropped.
    pub const LIMIT: usize = 100;

    /// Adds a message unless it is already in the list.
    pub fn push(&self, message: impl Into<String>) {
        self.pushes.fetch_add(1, Ordering::Relaxed);
        self.remark(message);
    }

    /// Adds a remark about the data. Unlike [`Messages::push`], it does not change [`Messages::push_count`], because
    /// the rows are correct and may be cached for later searches.
    pub fn remark(&self, message: impl Into<String>) {
        let message = truncate_message(message.into());
        let mut all = self.list.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if all.len() < Self::LIMIT && !all.contains(&message) {
            all.push(message);
        }
    }

    /// Counts a loss.
    pub fn record_loss(&self, loss: Loss) {
        self.pushes.fetch_add(1, Ordering::Relaxed);
        let count = match loss {
            Loss::Match => &self.matches_lost,
            Loss::Text => &self.texts_lost,
            Loss::Groups => &self.groups_lost,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of messages and losses so far, including duplicates.
    pub fn push_count(&self) -> u64 {
        self.pushes.load(Ordering::Relaxed)
    }

    /// The messages so far.
    pub fn list(&self) -> Vec<String> {
        let mut all = self.list.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let texts = |count: u64| if count == 1 { " 1 text".to_owned() } else { format!(" {count} texts") };
        match self.matches_lost.load(Ordering::Relaxed) {
            0 => {}
            count => all.push(format!(
                "a regular expression was abandoned on{} after {MATCH_STEPS_MAX} steps, which counts as no match: \
                 simplify it",
                texts(count)
            )),
        }
        match self.texts_lost.load(Ordering::Relaxed) {
            0 => {}
            count => all.push(format!("{} longer than {TEXT_BYTES_MAX} bytes became null", texts(count).trim())),
        }
        match self.groups_lost.load(Ordering::Relaxed) {
            0 => {}
            count => all.push(format!(
                "multivalue BY fields: {count} {} more than {GROUPS_PER_ROW_MAX} combinations of values, and only the \
                 first {GROUPS_PER_ROW_MAX} of a row are in the results: group by fewer fields, or expand one with \
                 mvexpand",
                if count == 1 { "row has" } else { "rows have" }
            )),
        }
        all
    }
}

thread_local! {
    static SEARCH: RefCell<Option<Arc<Messages>>> = const { RefCell::new(None) };
}

/// Kinds of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A pattern exceeded its step limit on a text; the text counts as not matching.
    Match,
    /// A text would have exceeded its length limit; it becomes null.
    Text,
    /// A row with multivalue BY fields would be in too many groups; it is only in some of them.
    Groups,
}

/// Associates the thread with the messages of a search until dropped.
pub struct MessageScope(Option<Arc<Messages>>);

impl Drop for MessageScope {
    fn drop(&mut self) {
        let before = self.0.take();
        SEARCH.with(|search| *search.borrow_mut() = before);
    }
}

/// From now on, records losses on this thread in these messages.
pub fn enter_scope(messages: Option<Arc<Messages>>) -> MessageScope {
    MessageScope(SEARCH.with(|search| std::mem::replace(&mut *search.borrow_mut(), messages)))
}

/// Counts a loss for the search of this thread, if there is one.
#[cold]
pub fn record_loss(loss: Loss) {
    SEARCH.with(|search| {
        if let Some(messages) = search.borrow().as_ref() {
            messages.record_loss(loss);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_reported_by_their_own_search() {
        let (one, other) = (Arc::new(Messages::default()), Arc::new(Messages::default()));
        record_loss(Loss::Match);
        let noted = enter_scope(Some(Arc::clone(&one)));
        record_loss(Loss::Match);
        {
            let _other = enter_scope(Some(Arc::clone(&other)));
            record_loss(Loss::Text);
        }
        record_loss(Loss::Match);
        drop(noted);
        record_loss(Loss::Match);
        assert_eq!(one.list().len(), 1);
        assert!(one.list()[0].contains(" 2 "), "{:?}", one.list());
        assert!(other.list()[0].starts_with("1 text longer"), "{:?}", other.list());
        assert!(
            one.push_count() == 2 && other.push_count() == 1,
            "states of folds that lost something are not used again"
        );
    }
}
