//! Claims on file beginnings: files that start with the same bytes are added one after the other, whichever pipeline
//! set reads them.
//!
//! A file is identified by its first bytes. Two files with the same beginning may be copies, one of which must be
//! skipped, or need different variants of their identity. Both decisions require that the first has been read. A file
//! therefore claims its first bytes until then, and another with the same beginning waits. If the end of the first is
//! still on its way to the log, the second also waits until the store has settled.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Claims of the files being added.
#[derive(Debug, Default)]
pub struct Claims {
    inner: Mutex<Inner>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    claimed: BTreeMap<u64, ActiveClaim>,
}

#[derive(Debug)]
struct ActiveClaim {
    index: String,
    head: Vec<u8>,
    /// Whether the file is still being read, so that more of it may follow.
    is_being_read: bool,
}

/// A claim to a file's first bytes; released when the last holder drops it.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    number: u64,
}

impl Claims {
    /// Waits until no file with the beginning `head` is being read, and claims it. Also returns whether the store has
    /// unsettled appends of such files. Must not be called while reading a file: two callers could wait for each other.
    pub fn claim(self: &Arc<Claims>, index: &str, head: &[u8]) -> (Arc<Claim>, bool) {
        let mut inner = self.lock();
        while inner.with_equal_head(index, head).any(|claimed| claimed.is_being_read) {
            inner = self.ended.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let is_unsettled = inner.with_equal_head(index, head).next().is_some();
        let number = inner.next;
        inner.next += 1;
        inner.claimed.insert(number, ActiveClaim { index: index.to_owned(), head: head.to_vec(), is_being_read: true });
        (Arc::new(Claim { claims: self.clone(), number }), is_unsettled)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn with_equal_head(&self, index: &str, head: &[u8]) -> impl Iterator<Item = &ActiveClaim> {
        let has_equal_head = move |claimed: &&ActiveClaim| {
            // An empty file has no checkpoint.
            let is_empty = head.is_empty() || claimed.head.is_empty();
            let fits = head.starts_with(&claimed.head) || claimed.head.starts_with(head);
            claimed.index == index && !is_empty && fits
        };
        self.claimed.values().filter(has_equal_head)
    }
}

impl Claim {
    /// The file has been read completely; appends may still be in progress.
    pub fn end(&self) {
        if let Some(claimed) = self.claims.lock().claimed.get_mut(&self.number) {
            claimed.is_being_read = false;
        }
        self.claims.ended.notify_all();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().claimed.remove(&self.number);
        self.claims.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_waits_for_one_that_begins_alike_and_for_no_other() {
        let claims = Arc::new(Claims::default());
        let (first, is_unsettled) = claims.claim("main", b"abc");
        assert!(!is_unsettled);
        // None of these claims waits.
        for (index, head) in [("main", b"x".as_slice()), ("other", b"abc"), ("main", b"")] {
            assert!(!claims.claim(index, head).1);
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let claimed = claims.claim("main", b"ab");
                sender.send("claimed").unwrap();
                claimed.1
            });
            sender.send("read").unwrap();
            first.end();
            assert!(waiting.join().unwrap(), "its end is not settled");
        });
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["read", "claimed"]);
        drop(first);
        assert!(!claims.claim("main", b"abcdef").1);
    }
}
