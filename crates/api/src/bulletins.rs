//! Messages shown to users until they are removed (Splunk's bulletin board), to all users or to those with certain
//! roles and capabilities.
//!
//! Messages are kept in memory only. Messages of the node itself are separate ([`crate::NodeCondition::faults`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quarry_event::TimeNs;

/// Maximum number of messages; a further message replaces the oldest.
pub(crate) const BULLETINS_MAX: usize = 200;
/// Maximum bytes of a message, and of its name; a request with more is refused.
pub(crate) const BULLETIN_BYTES_MAX: usize = 8 << 10;

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Info,
    Warn,
    Error,
}

impl Severity {
    /// Parses Splunk's word.
    pub(crate) fn from_word(word: &str) -> Option<Severity> {
        [Severity::Info, Severity::Warn, Severity::Error].into_iter().find(|severity| severity.word() == word)
    }

    /// Splunk's word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warn => "warn",
            Severity::Error => "error",
        }
    }
}

/// A message to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bulletin {
    pub(crate) text: String,
    pub(crate) severity: Severity,
    pub(crate) author: String,
    pub(crate) time: TimeNs,
    /// Roles to which the message is shown; empty for all users.
    pub(crate) roles: Vec<String>,
    /// Capabilities that a user needs, all of them, to see the message.
    pub(crate) capabilities: Vec<String>,
}

/// The messages of a server by their names.
#[derive(Debug, Default)]
pub(crate) struct Bulletins(Mutex<BTreeMap<String, Bulletin>>);

impl Bulletins {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Bulletin>> {
        // A poisoned lock is safe to use, because each change is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All messages by name.
    pub(crate) fn list(&self) -> Vec<(String, Bulletin)> {
        self.lock().iter().map(|(name, bulletin)| (name.clone(), bulletin.clone())).collect()
    }

    /// Adds a message, or replaces the message of the same name.
    pub(crate) fn put(&self, name: String, bulletin: Bulletin) {
        let mut all = self.lock();
        all.insert(name, bulletin);
        while all.len() > BULLETINS_MAX {
            let oldest = all.iter().min_by_key(|(_, bulletin)| bulletin.time).map(|(name, _)| name.clone());
            oldest.and_then(|name| all.remove(&name));
        }
    }

    /// Removes a message; returns whether it existed.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_messages_replace_the_oldest() {
        let bulletins = Bulletins::default();
        let bulletin = |time| Bulletin {
            text: "t".into(),
            severity: Severity::Info,
            author: "eva".into(),
            time,
            roles: Vec::new(),
            capabilities: Vec::new(),
        };
        // The newest messages have the names that sort first.
        for at in 0..BULLETINS_MAX + 10 {
            bulletins.put(format!("{:04}", 9_999 - at), bulletin(at as i64));
        }
        let all = bulletins.list();
        assert_eq!((all.len(), all[0].1.time), (BULLETINS_MAX, BULLETINS_MAX as i64 + 9));
        assert!(all.iter().all(|(_, bulletin)| bulletin.time >= 10));
        assert!(bulletins.remove(&all[0].0) && !bulletins.remove(&all[0].0));
    }
}
