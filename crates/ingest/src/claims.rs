//! Claims on file beginnings: files that begin with the same bytes are added one after the other, even by different
//! pipeline sets.
//!
//! A file is identified by its first bytes. Of two files with the same beginning, one may be a copy that must be
//! skipped; otherwise the files are told apart by a variant number. Which case applies is known only after the
//! first file has been read. A file therefore claims its first bytes until it has been read, and another file with the
//! same beginning waits. If appends of the first file are still in progress at that time, the second file also waits
//! for them.

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
    /// True while the file is being read, so that more of its events may follow.
    is_being_read: bool,
}

/// A claim to a file's first bytes; released when the last holder drops it.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    number: u64,
}

impl Claims {
    /// Waits until no file with the beginning `head` is being read, and claims this beginning. The flag says whether
    /// appends of such files may still be in progress. Must not be called while reading a file: two callers could wait
    /// for each other.
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
            // An empty file has no checkpoint, so it conflicts with no other file.
            let is_empty = head.is_empty() || claimed.head.is_empty();
            let fits = head.starts_with(&claimed.head) || claimed.head.starts_with(head);
            claimed.index == index && !is_empty && fits
        };
        self.claimed.values().filter(has_equal_head)
    }
}

impl Claim {
    /// Called when the file has been read completely; its appends may still be in progress.
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
    fn files_wait_only_for_files_with_the_same_head() {
        let claims = Arc::new(Claims::default());
        let (first, is_unsettled) = claims.claim("main", b"abc");
        assert!(!is_unsettled);
        // None of these claims has to wait.
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
            assert!(waiting.join().unwrap(), "appends of the first file may be in progress");
        });
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["read", "claimed"]);
        drop(first);
        assert!(!claims.claim("main", b"abcdef").1);
    }
}
