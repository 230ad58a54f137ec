//! Open sessions: key to identity, ended by an hour without use.

use std::collections::BTreeMap;

use crate::{AuthError, Identity};

/// Seconds without a request after which a session ends (Splunk's default `sessionTimeout`).
pub const SESSION_IDLE_LIMIT_S: i64 = 3600;

/// Most sessions open at once.
const SESSIONS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Sessions(BTreeMap<String, Session>);

struct Session {
    identity: Identity,
    last_use_ns: i64,
}

impl Session {
    fn is_idle(&self, now_ns: i64) -> bool {
        now_ns - self.last_use_ns > SESSION_IDLE_LIMIT_S * 1_000_000_000
    }
}

impl Sessions {
    /// Adds a session; ended ones make room first.
    pub(crate) fn open(&mut self, key: String, identity: Identity, now_ns: i64) -> Result<(), AuthError> {
        if self.0.len() >= SESSIONS_MAX {
            self.0.retain(|_, session| !session.is_idle(now_ns));
        }
        if self.0.len() >= SESSIONS_MAX {
            return Err(AuthError::TooManySessions { limit: SESSIONS_MAX });
        }
        self.0.insert(key, Session { identity, last_use_ns: now_ns });
        Ok(())
    }

    /// Identity of a live session; notes the use.
    pub(crate) fn touch(&mut self, key: &str, now_ns: i64) -> Option<Identity> {
        let session = self.0.get_mut(key)?;
        if session.is_idle(now_ns) {
            self.0.remove(key);
            return None;
        }
        session.last_use_ns = now_ns;
        Some(session.identity.clone())
    }
}
