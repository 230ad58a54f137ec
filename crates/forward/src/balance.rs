//! Load balancing within a group: which server is next, and when; failed servers are skipped for a while.
//!
//! Not here: connecting, clocks. The current time is an argument, in nanoseconds of a monotonic clock.

/// Time for which a server is skipped after its first failure, and maximum of this time, which doubles with each
/// further failure.
const BACKOFF_NS: (i64, i64) = (500_000_000, 30_000_000_000);
const NANOS: i64 = 1_000_000_000;

/// Conditions for switching to the next server; meeting either is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceSettings {
    /// Time on one server.
    pub seconds: u64,
    /// Bytes to one server; 0 for no limit.
    pub bytes: u64,
}

/// The servers of a group.
#[derive(Debug)]
pub struct Balance {
    settings: BalanceSettings,
    servers: Vec<Server>,
    next: usize,
    /// Time of connection to the current server, and the bytes sent to it.
    since: i64,
    sent: u64,
}

#[derive(Clone, Debug, Default)]
struct Server {
    failures: u32,
    not_before: i64,
}

impl Balance {
    /// A balance over `servers` servers. `first` is the first one to try; callers vary it so that forwarders start with
    /// different servers.
    pub fn new(settings: BalanceSettings, servers: usize, first: usize) -> Balance {
        let next = if servers == 0 { 0 } else { first % servers };
        Balance { settings, servers: vec![Server::default(); servers], next, since: 0, sent: 0 }
    }

    /// The server to connect to, or the time before which none should be tried.
    pub fn choose(&mut self, now: i64) -> Result<usize, i64> {
        let count = self.servers.len();
        let in_turn = (0..count).map(|step| (self.next + step) % count);
        match in_turn.into_iter().find(|server| self.servers[*server].not_before <= now) {
            Some(server) => {
                self.next = (server + 1) % count;
                Ok(server)
            }
            None => Err(self.servers.iter().map(|server| server.not_before).min().unwrap_or(i64::MAX)),
        }
    }

    /// Records that a server accepted the connection.
    pub fn record_connected(&mut self, server: usize, now: i64) {
        (self.since, self.sent) = (now, 0);
        if let Some(server) = self.servers.get_mut(server) {
            server.not_before = 0;
        }
    }

    /// Records that a server acknowledged data, and resets its failures.
    pub fn record_acknowledged(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            server.failures = 0;
        }
    }

    /// Records that a server could not be reached, or that its connection ended.
    pub fn record_failure(&mut self, server: usize, now: i64) {
        if let Some(server) = self.servers.get_mut(server) {
            let wait = BACKOFF_NS.0.saturating_mul(1_i64.checked_shl(server.failures.min(16)).unwrap_or(i64::MAX));
            server.not_before = now.saturating_add(wait.min(BACKOFF_NS.1));
            server.failures = server.failures.saturating_add(1);
        }
    }

    /// Counts bytes sent.
    pub fn record_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Whether to switch to another server; never if no other may be tried.
    pub fn should_switch(&self, now: i64) -> bool {
        let seconds = i64::try_from(self.settings.seconds).unwrap_or(i64::MAX).saturating_mul(NANOS);
        let is_due =
            now.saturating_sub(self.since) >= seconds || (self.settings.bytes > 0 && self.sent >= self.settings.bytes);
        let others = self.servers.iter().filter(|server| server.not_before <= now).count();
        is_due && others > 1
    }
}

#[cfg(test)]
mod tests {
    use super::{Balance, BalanceSettings, NANOS};

    fn balance(servers: usize, bytes: u64) -> Balance {
        Balance::new(BalanceSettings { seconds: 30, bytes }, servers, 1)
    }

    #[test]
    fn servers_rotate_after_a_time_or_volume() {
        let mut balance = balance(3, 1_000);
        let chosen: Vec<usize> = (0..4).map(|_| balance.choose(0).unwrap()).collect();
        assert_eq!(chosen, [1, 2, 0, 1]);
        balance.record_connected(1, 0);
        assert!(!balance.should_switch(29 * NANOS));
        assert!(balance.should_switch(30 * NANOS));
        balance.record_sent(999);
        assert!(!balance.should_switch(1));
        balance.record_sent(1);
        assert!(balance.should_switch(1));
        balance.record_connected(2, 1);
        assert!(!balance.should_switch(1));
    }

    #[test]
    fn failed_servers_are_skipped_with_increasing_backoff() {
        let mut balance = balance(2, 0);
        let mut now = 0;
        balance.record_failure(0, now);
        assert_eq!([balance.choose(now), balance.choose(now)], [Ok(1), Ok(1)]);
        balance.record_connected(1, now);
        assert!(!balance.should_switch(now + NANOS / 4 - 1), "there is no other");
        balance.record_failure(1, now);
        assert_eq!(balance.choose(now), Err(NANOS / 2));
        let mut waits = Vec::new();
        for _ in 0..8 {
            now += 100 * NANOS;
            balance.record_failure(0, now);
            balance.record_failure(1, now);
            waits.push((balance.choose(now).unwrap_err() - now) / (NANOS / 2));
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60]);
        balance.record_acknowledged(1);
        balance.record_failure(1, now);
        assert_eq!(balance.choose(now), Err(now + NANOS / 2));
    }

    #[test]
    fn a_single_server_is_never_switched() {
        let mut balance = balance(1, 1);
        assert_eq!(balance.choose(0), Ok(0));
        balance.record_connected(0, 0);
        balance.record_sent(9);
        assert!(!balance.should_switch(99 * NANOS));
    }
}
