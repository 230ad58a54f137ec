//! Cache of recently checked credentials, right or wrong, by keyed hash. For a client that sends credentials with every
//! request, the password is hashed only once every few minutes. A client that keeps sending an old password is refused
//! without hashing, and its repeated failures count only once.

use std::collections::BTreeMap;

use crate::keyed_hash::KeyedHash;

/// Seconds for which the outcome of a check is used without hashing again.
pub const VERIFIED_S_MAX: i64 = 300;
/// Maximum number of cached credentials; the oldest credentials are evicted.
const VERIFIED_MAX: usize = 1_000;

/// Recently checked credentials. A cache has only right credentials or only wrong ones.
#[derive(Default)]
pub(crate) struct OutcomeCache(BTreeMap<KeyedHash, (String, i64)>);

impl OutcomeCache {
    /// The user these credentials belong to, if they were checked recently.
    pub(crate) fn cached_user(&mut self, credentials: &KeyedHash, now_ns: i64) -> Option<&str> {
        let (_, since) = self.0.get(credentials)?;
        if !(0..=VERIFIED_S_MAX * 1_000_000_000).contains(&(now_ns - since)) {
            self.0.remove(credentials);
            return None;
        }
        self.0.get(credentials).map(|(user, _)| user.as_str())
    }

    /// Adds credentials that were just checked.
    pub(crate) fn add(&mut self, credentials: KeyedHash, user: &str, now_ns: i64) {
        if self.0.len() >= VERIFIED_MAX && !self.0.contains_key(&credentials) {
            let oldest = self.0.iter().min_by_key(|(_, (_, since))| *since).map(|(credentials, _)| *credentials);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.insert(credentials, (user.to_owned(), now_ns));
    }

    /// Removes a user's credentials.
    pub(crate) fn remove_user(&mut self, user: &str) {
        self.0.retain(|_, (other, _)| other != user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_cached_until_they_expire_or_change() {
        let mut verified = OutcomeCache::default();
        verified.add([1; 32], "eva", 0);
        verified.add([2; 32], "tom", 0);
        assert_eq!(verified.cached_user(&[1; 32], VERIFIED_S_MAX * 1_000_000_000), Some("eva"));
        assert_eq!(verified.cached_user(&[1; 32], VERIFIED_S_MAX * 1_000_000_000 + 1), None);
        verified.remove_user("tom");
        assert_eq!(verified.cached_user(&[2; 32], 0), None);
        for number in 0..=VERIFIED_MAX as u64 {
            let mut credentials = [0; 32];
            credentials[..8].copy_from_slice(&number.to_le_bytes());
            verified.add(credentials, "eva", number as i64);
        }
        assert_eq!(
            (verified.0.len(), verified.cached_user(&[0; 32], 0)),
            (VERIFIED_MAX, None),
            "the oldest entry was removed"
        );
    }
}
