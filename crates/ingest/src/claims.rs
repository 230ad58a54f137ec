//! Files that begin alike are added one after the other, whatever pipeline set takes them.
//!
//! A file is known by its first bytes. Two that share them may be copies, of which one is to be left out, or need
//! different variants of their identity; both are decided by what is known of the first when the second begins. So a
//! file claims its first bytes until it is added, and one that begins alike waits for that. Where the end of the first
//! is still on its way to the log, the second has the store settle before it asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The files that are being added.
#[derive(Debug, Default)]
pub struct Claims {
    inner: Mutex<Inner>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    claimed: BTreeMap<u64, Claimed>,
}

#[derive(Debug)]
struct Claimed {
    index: String,
    head: Vec<u8>,
    /// Whether more of the file may come.
    is_read: bool,
}

/// The first bytes of a file that is added; free when the last holder drops it.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    number: u64,
}

impl Claims {
    /// Waits until no file is read that begins like `head`, and claims it. Says too whether what the store knows of
    /// such files is not settled. Nobody may wait here who reads a file: two could wait for each other.
    pub fn claim(self: &Arc<Claims>, index: &str, head: &[u8]) -> (Arc<Claim>, bool) {
        let mut inner = self.lock();
        while inner.alike(index, head).any(|claimed| claimed.is_read) {
            inner = self.ended.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let is_unsettled = inner.alike(index, head).next().is_some();
        let number = inner.next;
        inner.next += 1;
        inner.claimed.insert(number, Claimed { index: index.to_owned(), head: head.to_vec(), is_read: true });
        (Arc::new(Claim { claims: self.clone(), number }), is_unsettled)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn alike(&self, index: &str, head: &[u8]) -> impl Iterator<Item = &Claimed> {
        let is_alike = move |claimed: &&Claimed| {
            // Nothing is kept of a file without a byte.
            let is_empty = head.is_empty() || claimed.head.is_empty();
            let fits = head.starts_with(&claimed.head) || claimed.head.starts_with(head);
            claimed.index == index && !is_empty && fits
        };
        self.claimed.values().filter(is_alike)
    }
}

impl Claim {
    /// Nothing more comes of the file; what came may still be on its way.
    pub fn end(&self) {
        if let Some(claimed) = self.claims.lock().claimed.get_mut(&self.number) {
            claimed.is_read = false;
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
        // None of these waits.
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
