//! Open sessions by key. A session ends after some time without use (an hour unless configured), when its user or an
//! administrator ends it, or when its user is changed or removed.
//!
//! A new session beyond a user's limit ends the user's least recently used session, preferably a session from the same
//! address, so that a client that logs in for each call does not end other clients' sessions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use quarry_stdx::hex;

use crate::Identity;
use crate::keyed_hash::KeyedHash;

/// Default number of seconds without a request after which a session ends, as in Splunk.
pub const SESSION_IDLE_LIMIT_S: i64 = 3600;
/// Maximum number of sessions per user; a further session ends one of them.
pub const SESSIONS_PER_USER_MAX: usize = 1_000;
/// Maximum number of sessions of all users; a further session ends one of them.
pub const SESSIONS_MAX: usize = 10_000;

/// Open sessions.
pub(crate) struct Sessions {
    /// Sessions by the keyed hash of their key.
    by_key: BTreeMap<KeyedHash, Session>,
    /// Seconds without a request after which a session ends.
    idle_limit_s: i64,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions { by_key: BTreeMap::new(), idle_limit_s: SESSION_IDLE_LIMIT_S }
    }
}

/// An open session as shown to users. With its id, a client can end the session but not use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Hash of the session's key.
    pub id: String,
    /// Login name of the session's user.
    pub user: String,
    /// Time of the session's last request.
    pub last_use_ns: i64,
}

struct Session {
    identity: Identity,
    address: IpAddr,
    last_use_ns: i64,
    /// Whether the session ends after some time without a request.
    ends_when_idle: bool,
}

impl Session {
    fn is_idle(&self, limit_s: i64, now_ns: i64) -> bool {
        self.ends_when_idle && now_ns - self.last_use_ns > limit_s.saturating_mul(1_000_000_000)
    }
}

impl Sessions {
    /// Seconds without a request after which a session ends.
    pub(crate) fn idle_limit_s(&self) -> i64 {
        self.idle_limit_s
    }

    /// Changes the idle limit, for open sessions as well.
    pub(crate) fn set_idle_limit(&mut self, seconds: i64) {
        self.idle_limit_s = seconds;
    }

    /// Adds a session; ends another session if a limit is reached.
    pub(crate) fn open(&mut self, key: KeyedHash, identity: Identity, address: IpAddr, now_ns: i64) {
        let of_user = self.by_key.values().filter(|session| session.identity.user == identity.user).count();
        if of_user >= SESSIONS_PER_USER_MAX {
            self.end_first(|session| (session.identity.user != identity.user, session.address != address));
        } else if self.by_key.len() >= SESSIONS_MAX {
            let limit_s = self.idle_limit_s;
            self.by_key.retain(|_, session| !session.is_idle(limit_s, now_ns));
        }
        if self.by_key.len() >= SESSIONS_MAX {
            self.end_first(|_| ());
        }
        self.by_key.insert(key, Session { identity, address, last_use_ns: now_ns, ends_when_idle: true });
    }

    /// Adds a session that does not end by itself: the code that opens the session also ends it.
    pub(crate) fn open_until_ended(&mut self, key: KeyedHash, identity: Identity, address: IpAddr, now_ns: i64) {
        self.open(key, identity, address, now_ns);
        if let Some(session) = self.by_key.get_mut(&key) {
            session.ends_when_idle = false;
        }
    }

    /// Ends the session that is first in this order; of equal sessions, the least recently used session.
    fn end_first<K: Ord>(&mut self, order: impl Fn(&Session) -> K) {
        let first =
            self.by_key.iter().min_by_key(|(_, session)| (order(session), session.last_use_ns)).map(|(key, _)| *key);
        first.map(|key| self.by_key.remove(&key));
    }

    /// The identity of a live session; updates its last use.
    pub(crate) fn touch(&mut self, key: &KeyedHash, now_ns: i64) -> Option<Identity> {
        let limit_s = self.idle_limit_s;
        let session = self.by_key.get_mut(key)?;
        if session.is_idle(limit_s, now_ns) {
            self.by_key.remove(key);
            return None;
        }
        session.last_use_ns = now_ns;
        Some(session.identity.clone())
    }

    /// Open sessions, most recently used first.
    pub(crate) fn list(&self, now_ns: i64) -> Vec<SessionInfo> {
        let open = self.by_key.iter().filter(|(_, session)| !session.is_idle(self.idle_limit_s, now_ns));
        let shown = |(key, session): (&KeyedHash, &Session)| SessionInfo {
            id: hex::encode(key),
            user: session.identity.user.clone(),
            last_use_ns: session.last_use_ns,
        };
        let mut shown: Vec<SessionInfo> = open.map(shown).collect();
        shown.sort_by_key(|session| std::cmp::Reverse(session.last_use_ns));
        shown
    }

    /// The keyed hash of the session with an id.
    pub(crate) fn find_by_id(&self, id: &str) -> Option<KeyedHash> {
        self.by_key.keys().find(|key| hex::encode(key.as_slice()) == id).copied()
    }

    /// The user of a session.
    pub(crate) fn owner(&self, key: &KeyedHash) -> Option<&Identity> {
        self.by_key.get(key).map(|session| &session.identity)
    }

    pub(crate) fn end(&mut self, key: &KeyedHash) {
        self.by_key.remove(key);
    }

    pub(crate) fn end_user_sessions(&mut self, user: &str) {
        self.by_key.retain(|_, session| session.identity.user != user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(user: &str) -> Identity {
        Identity { user: user.to_owned(), roles: vec![], is_console: false }
    }

    fn key(number: usize) -> KeyedHash {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(number as u64).to_le_bytes());
        key
    }

    #[test]
    fn excess_logins_end_the_oldest_session_of_the_user() {
        let (mut sessions, here, there) =
            (Sessions::default(), IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        sessions.open(key(1), identity("tom"), here, 1);
        sessions.open(key(2), identity("eva"), there, 2);
        for number in 10..10 + 3 * SESSIONS_PER_USER_MAX {
            sessions.open(key(number), identity("eva"), here, number as i64);
            assert!(sessions.touch(&key(number), number as i64).is_some(), "the newest session is valid");
        }
        assert_eq!(sessions.by_key.len(), 1 + SESSIONS_PER_USER_MAX);
        assert!(sessions.touch(&key(1), 0).is_some(), "another user's");
        assert!(sessions.touch(&key(2), 0).is_some(), "the same user from another address");
        assert!(sessions.touch(&key(10), 0).is_none());
    }

    #[test]
    fn open_sessions_are_listed() {
        let (mut sessions, address) = (Sessions::default(), IpAddr::from([10, 0, 0, 1]));
        sessions.open(key(1), identity("eva"), address, 1);
        sessions.open(key(2), identity("tom"), address, 2);
        let shown = sessions.list(3);
        assert_eq!(shown.iter().map(|session| session.user.as_str()).collect::<Vec<_>>(), ["tom", "eva"]);
        assert_eq!((sessions.find_by_id(&shown[0].id), sessions.find_by_id("00")), (Some(key(2)), None));
        assert!(sessions.list(2 + (SESSION_IDLE_LIMIT_S + 1) * 1_000_000_000).is_empty());
    }

    #[test]
    fn a_session_that_its_opener_ends_does_not_end_when_idle() {
        let (mut sessions, address) = (Sessions::default(), IpAddr::from([127, 0, 0, 1]));
        sessions.open_until_ended(key(1), identity("program"), address, 0);
        sessions.open(key(2), identity("eva"), address, 0);
        let late = 100 * SESSION_IDLE_LIMIT_S * 1_000_000_000;
        assert!(sessions.touch(&key(1), late).is_some() && sessions.touch(&key(2), late).is_none());
        sessions.end(&key(1));
        assert!(sessions.touch(&key(1), late).is_none());
    }

    #[test]
    fn total_sessions_are_bounded() {
        let mut sessions = Sessions::default();
        let address = IpAddr::from([192, 0, 2, 1]);
        for number in 0..SESSIONS_MAX + 5 {
            sessions.open(key(number), identity(&format!("u{}", number / 50)), address, number as i64);
        }
        assert_eq!(sessions.by_key.len(), SESSIONS_MAX);
        assert!(sessions.touch(&key(0), 0).is_none() && sessions.touch(&key(SESSIONS_MAX + 4), 0).is_some());
    }
}
