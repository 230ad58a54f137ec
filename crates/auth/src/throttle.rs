//! Throttling of failed logins: after some free attempts, the next login must wait one second, then two, then four, up
//! to a minute.
//!
//! Failures are counted per user and address, per address, and per user. For a user who logged in successfully from an
//! address within the last day, only the count per user and address applies at this address, so that password guessing
//! from other addresses does not lock out legitimate users. Not here: the response.

use std::collections::BTreeMap;

use crate::Origin;
use crate::keyed_hash::KeyedHash;

const NS_PER_S: i64 = 1_000_000_000;
/// Number of failed logins per user and address before the first wait.
pub const FREE_PER_USER_AND_ADDRESS: u32 = 5;
/// Number of failed logins per address before the first wait.
pub const FREE_PER_ADDRESS: u32 = 20;
/// Number of failed logins per user, from any address, before the first wait.
pub const FREE_PER_USER: u32 = 50;
/// Longest wait for the next login.
pub const WAIT_S_MAX: i64 = 60;
/// Failures are forgotten after this time without another failure.
const FAILURE_TTL_S: i64 = 15 * 60;
/// Seconds for which a successful login makes a user trusted at an address.
const TRUST_S: i64 = 24 * 3600;
/// Maximum number of counters; beyond it, the counter that has been unchanged for longest is evicted.
const TALLIES_MAX: usize = 10_000;

/// Key by which failures are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    UserAt(KeyedHash, u128),
    Address(u128),
    User(KeyedHash),
}

impl Key {
    fn free_failures(self) -> u32 {
        match self {
            Key::UserAt(..) => FREE_PER_USER_AND_ADDRESS,
            Key::Address(_) => FREE_PER_ADDRESS,
            Key::User(_) => FREE_PER_USER,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Tally {
    failures: u32,
    last_ns: i64,
    blocked_until_ns: i64,
    /// Time of the last successful login.
    good_ns: Option<i64>,
}

/// Recent failures.
#[derive(Default)]
pub(crate) struct Throttle(BTreeMap<Key, Tally>);

impl Throttle {
    /// Seconds until `user` (a keyed hash) may try again from `origin`; `None` means now.
    pub(crate) fn wait_s(&self, user: KeyedHash, origin: &Origin, now_ns: i64) -> Option<u64> {
        let at = Key::UserAt(user, origin.network_key());
        let good = self.0.get(&at).and_then(|tally| tally.good_ns);
        let is_trusted = good.is_some_and(|good| now_ns - good <= TRUST_S * NS_PER_S);
        let keys = [at, Key::Address(origin.network_key()), Key::User(user)];
        let keys = if is_trusted { &keys[..1] } else { &keys[..] };
        let until = keys.iter().filter_map(|key| self.0.get(key)).map(|tally| tally.blocked_until_ns).max()?;
        let wait_ns = until - now_ns;
        (wait_ns > 0).then(|| wait_ns.unsigned_abs().div_ceil(NS_PER_S.unsigned_abs()).min(WAIT_S_MAX.unsigned_abs()))
    }

    /// Counts a failure.
    pub(crate) fn record_failure(&mut self, user: KeyedHash, origin: &Origin, now_ns: i64) {
        for key in [Key::UserAt(user, origin.network_key()), Key::Address(origin.network_key()), Key::User(user)] {
            let tally = self.tally(key);
            if now_ns - tally.last_ns > FAILURE_TTL_S * NS_PER_S {
                tally.failures = 0;
            }
            tally.failures = tally.failures.saturating_add(1);
            tally.last_ns = now_ns;
            if let Some(doublings) = tally.failures.checked_sub(key.free_failures()) {
                let wait_s = 1i64.checked_shl(doublings.min(32)).unwrap_or(WAIT_S_MAX).min(WAIT_S_MAX);
                tally.blocked_until_ns = now_ns + wait_s * NS_PER_S;
            }
        }
    }

    /// Records a successful login.
    pub(crate) fn record_success(&mut self, user: KeyedHash, origin: &Origin, now_ns: i64) {
        let tally = self.tally(Key::UserAt(user, origin.network_key()));
        *tally = Tally { last_ns: now_ns, good_ns: Some(now_ns), ..Tally::default() };
    }

    fn tally(&mut self, key: Key) -> &mut Tally {
        if self.0.len() >= TALLIES_MAX && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, tally)| tally.last_ns).map(|(key, _)| *key);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        self.0.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVA: KeyedHash = [1; 32];

    fn origin(address: &str) -> Origin {
        Origin { address: address.parse().unwrap(), is_local: false }
    }

    #[test]
    fn waits_double_up_to_a_minute_and_reset_on_success() {
        let (mut throttle, here) = (Throttle::default(), origin("192.0.2.1"));
        let mut now = NS_PER_S;
        let mut waits = Vec::new();
        for _ in 0..12 {
            throttle.record_failure(EVA, &here, now);
            let wait = throttle.wait_s(EVA, &here, now);
            waits.push(wait.unwrap_or(0));
            now += wait.unwrap_or(0) as i64 * NS_PER_S;
            assert_eq!(throttle.wait_s(EVA, &here, now), None, "the wait is as long as announced");
        }
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        throttle.record_success(EVA, &here, now);
        throttle.record_failure(EVA, &here, now);
        assert_eq!(throttle.wait_s(EVA, &here, now), None);
        for _ in 1..FREE_PER_USER_AND_ADDRESS {
            throttle.record_failure(EVA, &here, now);
        }
        assert!(throttle.wait_s(EVA, &here, now).is_some());
        now += (FAILURE_TTL_S + 1) * NS_PER_S;
        throttle.record_failure(EVA, &here, now);
        assert_eq!(throttle.wait_s(EVA, &here, now), None, "old failures are forgotten");
    }

    #[test]
    fn addresses_and_users_are_throttled_except_trusted_users() {
        let (mut throttle, here, there) = (Throttle::default(), origin("192.0.2.1"), origin("192.0.2.2"));
        throttle.record_success(EVA, &here, 1);
        for number in 0..FREE_PER_ADDRESS {
            throttle.record_failure([number as u8 + 2; 32], &here, 2);
        }
        assert!(throttle.wait_s([99; 32], &here, 3).is_some(), "the address guesses");
        assert_eq!(throttle.wait_s([99; 32], &there, 3), None);
        assert_eq!(throttle.wait_s(EVA, &here, 3), None, "a user who logged in from there is not throttled");
        for number in 0..FREE_PER_USER {
            throttle.record_failure(EVA, &origin(&format!("198.51.100.{number}")), 4);
        }
        assert!(throttle.wait_s(EVA, &there, 5).is_some(), "many addresses guess the password of one user");
        assert_eq!(throttle.wait_s(EVA, &here, 5), None, "a user who logged in from there is not throttled");
    }

    #[test]
    fn counters_are_bounded() {
        let mut throttle = Throttle::default();
        for number in 0..TALLIES_MAX as u32 {
            let mut user = [0; 32];
            user[..4].copy_from_slice(&number.to_le_bytes());
            throttle.record_failure(user, &origin("192.0.2.1"), i64::from(number));
        }
        assert_eq!(throttle.0.len(), TALLIES_MAX);
        assert!(
            throttle.wait_s([77; 32], &origin("192.0.2.1"), TALLIES_MAX as i64).is_some(),
            "the address is still known"
        );
    }
}
