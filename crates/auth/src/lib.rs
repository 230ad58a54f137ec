//! Who is asking: users with passwords, session keys, and the three ways a client proves who it is.
//!
//! A request carries `Authorization: Splunk KEY`, `Bearer KEY` or `Basic USER:PASSWORD`; [`Auth::authenticate`] turns
//! that into an [`Identity`]. Session keys live in memory and end after an hour without use. Users come as records;
//! reading and writing their file is the server's. Not here: roles' capabilities, LDAP, SAML.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod password;
mod session;
mod users;

use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quarry_stdx::SharedClock;

pub use password::hash_password;
pub use session::SESSION_IDLE_LIMIT_S;
pub use users::{UserRecord, parse_users, print_users};

use session::Sessions;

/// Why a request is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AuthError {
    /// No `Authorization` header, or one of an unknown form.
    #[error("not logged in: send `Authorization: Splunk KEY`, `Bearer KEY` or basic credentials")]
    Missing,
    /// Wrong user name, password or session key, or a session that ended.
    #[error("login failed: wrong user name, password or an ended session")]
    Denied,
    /// Stored password hash cannot be read, or hashing failed.
    #[error("user {user}: the stored password cannot be used: {reason}")]
    BadRecord {
        /// User name.
        user: String,
        /// What is wrong.
        reason: String,
    },
    /// Too many sessions are open.
    #[error("too many sessions are open (limit {limit}): log out elsewhere or wait an hour")]
    TooManySessions {
        /// The limit.
        limit: usize,
    },
}

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Roles of the user.
    pub roles: Vec<String>,
}

/// Fills a buffer with unpredictable bytes; the server hands in the operating system's source.
pub type RandomBytes = Box<dyn Fn(&mut [u8]) + Send + Sync>;

/// Checks logins and session keys.
pub struct Auth {
    users: Vec<UserRecord>,
    sessions: Mutex<Sessions>,
    clock: SharedClock,
    random: RandomBytes,
    local_token: String,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Auth").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

impl Auth {
    /// Authentication over `users`. Whoever shows [`Auth::local_token`] is the local administrator.
    pub fn new(users: Vec<UserRecord>, clock: SharedClock, random: RandomBytes) -> Auth {
        let local_token = token(&random);
        Auth { users, sessions: Mutex::new(Sessions::default()), clock, random, local_token }
    }

    /// Key that the command line of the same account reads from the run file; new at each start.
    pub fn local_token(&self) -> &str {
        &self.local_token
    }

    /// Checks a password and opens a session; gives its key.
    pub fn login(&self, user: &str, password: &str) -> Result<String, AuthError> {
        let identity = self.check_password(user, password)?;
        let key = token(&self.random);
        let mut sessions = self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        sessions.open(key.clone(), identity, self.clock.now_ns())?;
        Ok(key)
    }

    /// Who sent a request with this `Authorization` header.
    pub fn authenticate(&self, header: Option<&str>) -> Result<Identity, AuthError> {
        let (scheme, value) = header.and_then(|header| header.trim().split_once(' ')).ok_or(AuthError::Missing)?;
        let value = value.trim();
        match scheme.to_ascii_lowercase().as_str() {
            "splunk" | "bearer" => self.check_key(value),
            "basic" => {
                let decoded = STANDARD.decode(value).map_err(|_| AuthError::Denied)?;
                let text = String::from_utf8(decoded).map_err(|_| AuthError::Denied)?;
                let (user, password) = text.split_once(':').ok_or(AuthError::Denied)?;
                self.check_password(user, password)
            }
            _ => Err(AuthError::Missing),
        }
    }

    fn check_key(&self, key: &str) -> Result<Identity, AuthError> {
        if same(key.as_bytes(), self.local_token.as_bytes()) {
            return Ok(Identity { user: "admin".to_owned(), roles: vec!["admin".to_owned()] });
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        sessions.touch(key, self.clock.now_ns()).ok_or(AuthError::Denied)
    }

    fn check_password(&self, user: &str, password: &str) -> Result<Identity, AuthError> {
        let record = self.users.iter().find(|record| record.name == user).ok_or(AuthError::Denied)?;
        if !password::verify(record, password)? {
            return Err(AuthError::Denied);
        }
        Ok(Identity { user: record.name.clone(), roles: record.roles.clone() })
    }
}

/// A key of 256 random bits in hexadecimal.
fn token(random: &RandomBytes) -> String {
    let mut bytes = [0u8; 32];
    random(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Comparison whose time does not tell how many bytes agree.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use quarry_stdx::ManualClock;

    use super::*;

    fn auth(clock: SharedClock) -> Auth {
        let counter = AtomicU8::new(0);
        let random: RandomBytes = Box::new(move |bytes| bytes.fill(counter.fetch_add(1, Ordering::SeqCst)));
        let hash = hash_password("secret", &[7; 16]).unwrap();
        let users = vec![UserRecord { name: "admin".into(), password_hash: hash, roles: vec!["admin".into()] }];
        Auth::new(users, clock, random)
    }

    #[test]
    fn a_login_gives_a_key_that_works_until_it_is_idle_for_an_hour() {
        let clock = ManualClock::shared(0);
        let auth = auth(clock.clone());
        assert_eq!(auth.login("admin", "wrong"), Err(AuthError::Denied));
        assert_eq!(auth.login("nobody", "secret"), Err(AuthError::Denied));
        let key = auth.login("admin", "secret").unwrap();
        let header = format!("Splunk {key}");
        clock.advance_ns((SESSION_IDLE_LIMIT_S - 1) * 1_000_000_000);
        assert_eq!(auth.authenticate(Some(&header)).unwrap().user, "admin");
        clock.advance_ns((SESSION_IDLE_LIMIT_S - 1) * 1_000_000_000);
        assert!(auth.authenticate(Some(&header)).is_ok(), "use keeps a session alive");
        clock.advance_ns((SESSION_IDLE_LIMIT_S + 1) * 1_000_000_000);
        assert_eq!(auth.authenticate(Some(&header)), Err(AuthError::Denied));
    }

    #[test]
    fn every_scheme_is_read_and_others_are_refused() {
        let auth = auth(ManualClock::shared(0));
        let basic = format!("Basic {}", STANDARD.encode("admin:secret"));
        assert!(auth.authenticate(Some(&basic)).is_ok());
        assert!(auth.authenticate(Some(&format!("Bearer {}", auth.local_token()))).is_ok());
        assert_eq!(auth.authenticate(None), Err(AuthError::Missing));
        assert_eq!(auth.authenticate(Some("Digest x")), Err(AuthError::Missing));
        assert_eq!(auth.authenticate(Some("Splunk 00")), Err(AuthError::Denied));
    }
}
