//! Seeded sample logs: one day of a small web shop, with one planted incident.
//!
//! The same seed and size give the same bytes on every machine, so the demo's answers can be tested. Six files have six
//! formats: web access (combined), syslog of a bastion host, JSON and log4j application logs with multi-line stack
//! traces, firewall key=value, and metrics-like lines. [`Incident`] describes the incident; no log line names it. Other
//! modules generate logs of many different shapes ([`irregular_logs`]), repeat given samples with new times and ids
//! ([`repeats`]), and generate formats with randomised details and the benchmark's questions about them ([`shapes`]).
//!
//! Not here: Splunk's eventgen.conf, and sending data.

pub mod irregular_logs;
mod random;
pub mod repeats;
pub mod shapes;
mod sources;

use std::io::{self, Write};

use random::Rng;

/// Incident of the generated day; every file contains part of its traces.
#[derive(Clone, Copy, Debug)]
pub struct Incident {
    /// Address that guesses ssh passwords on the bastion host.
    pub attacker: &'static str,
    /// Account whose password is guessed.
    pub account: &'static str,
    /// Second of the day of the successful login.
    pub login_s: u32,
    /// Second of the day when a new payment configuration breaks checkout.
    pub outage_start_s: u32,
    /// Second of the day when the configuration is rolled back.
    pub outage_end_s: u32,
    /// Address that receives the stolen data.
    pub drop_host: &'static str,
}

/// The incident of every generated day.
pub const INCIDENT: Incident = Incident {
    attacker: "203.0.113.66",
    account: "deploy",
    login_s: 13 * 3600 + 42 * 60 + 7,
    outage_start_s: 14 * 3600 + 5 * 60,
    outage_end_s: 14 * 3600 + 47 * 60,
    drop_host: "198.51.100.23",
};

/// Seconds in the generated day.
pub(crate) const DAY_S: u32 = 86_400;

/// Data to generate.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Approximate total size of all files.
    pub bytes: u64,
    /// Midnight (UTC) that starts the day, seconds since the epoch.
    pub day_start_s: i64,
}

impl Plan {
    /// The demo's day: 2026-11-20, about 50 MB.
    pub const DEMO: Plan = Plan { seed: 7, bytes: 50_000_000, day_start_s: 1_795_132_800 };
}

/// One generated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFile {
    /// Apache combined access log of the shop.
    Access,
    /// Syslog of the bastion, with ssh.
    Auth,
    /// JSON log of the payment service, including stack traces.
    Payments,
    /// log4j log of the order service, multi-line stack traces.
    Orders,
    /// Firewall, key=value.
    Firewall,
    /// Metrics-like lines.
    Metrics,
}

impl LogFile {
    /// All files, in the order in which the demo indexes them.
    pub const ALL: [LogFile; 6] =
        [LogFile::Access, LogFile::Auth, LogFile::Payments, LogFile::Orders, LogFile::Firewall, LogFile::Metrics];

    /// File name.
    pub fn name(self) -> &'static str {
        match self {
            LogFile::Access => "access.log",
            LogFile::Auth => "auth.log",
            LogFile::Payments => "payments.json",
            LogFile::Orders => "orders.log",
            LogFile::Firewall => "firewall.log",
            LogFile::Metrics => "metrics.log",
        }
    }

    /// Share of the plan's bytes in percent.
    fn share(self) -> u64 {
        match self {
            LogFile::Access => 40,
            LogFile::Auth => 8,
            LogFile::Payments => 20,
            LogFile::Orders => 14,
            LogFile::Firewall => 12,
            LogFile::Metrics => 6,
        }
    }

    /// Writes the file and returns the number of events in it.
    pub fn write(self, plan: &Plan, out: &mut dyn Write) -> io::Result<u64> {
        let source = sources::Source::of(self);
        let mut rng = Rng::new(plan.seed ^ (self as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let bytes = plan.bytes * self.share() / 100;
        let regular = (bytes / source.mean_bytes()).max(u64::from(DAY_S / 60));
        let mut line = String::new();
        let mut events = 0;
        for at in 0..regular {
            // Even spacing with jitter inside each slot keeps the file in time order without a sort.
            let slot = f64::from(DAY_S) / regular as f64;
            let second = (at as f64 + rng.unit()) * slot;
            let slot_start_s = at as f64 * slot;
            let moment =
                Moment { day_start_s: plan.day_start_s, millis: (second * 1000.0) as u64, slot_start_s, slot_s: slot };
            line.clear();
            events += source.event(moment, &mut rng, &mut line);
            out.write_all(line.as_bytes())?;
        }
        Ok(events)
    }
}

/// A moment of the generated day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    day_start_s: i64,
    millis: u64,
    slot_start_s: f64,
    slot_s: f64,
}

impl Moment {
    /// True if `second` of the day falls into the time slot of this event, as it does for exactly one event of a file.
    pub(crate) fn carries(self, second: u32) -> bool {
        let second = f64::from(second);
        self.slot_start_s <= second && second < self.slot_start_s + self.slot_s
    }

    /// Second of the day.
    pub(crate) fn second(self) -> u32 {
        (self.millis / 1000) as u32
    }

    /// True if the outage is in progress.
    pub(crate) fn in_outage(self) -> bool {
        (INCIDENT.outage_start_s..INCIDENT.outage_end_s).contains(&self.second())
    }

    /// Formats the moment in UTC with strftime.
    pub(crate) fn format(self, format: &str) -> String {
        let since_epoch_ms = self.day_start_s * 1000 + self.millis as i64;
        let timestamp = jiff::Timestamp::from_millisecond(since_epoch_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        timestamp.to_zoned(jiff::tz::TimeZone::UTC).strftime(format).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate(file: LogFile, seed: u64) -> (String, u64) {
        let plan = Plan { seed, bytes: 3_000_000, ..Plan::DEMO };
        let mut out = Vec::new();
        let events = file.write(&plan, &mut out).expect("writing to a Vec cannot fail");
        (String::from_utf8(out).expect("logs are text"), events)
    }

    #[test]
    fn equal_seeds_give_equal_bytes() {
        for file in LogFile::ALL {
            assert_eq!(generate(file, 3), generate(file, 3));
            assert_ne!(generate(file, 3).0, generate(file, 4).0);
        }
    }

    #[test]
    fn sizes_follow_the_plan() {
        let total: usize = LogFile::ALL.into_iter().map(|file| generate(file, 1).0.len()).sum();
        assert!((2_000_000..4_500_000).contains(&total), "{total}");
    }

    #[test]
    fn the_incident_is_in_the_files() {
        let auth = generate(LogFile::Auth, 1).0;
        let guesses = auth.lines().filter(|line| line.contains("Failed password") && line.contains(INCIDENT.attacker));
        assert!(guesses.count() > 50);
        assert_eq!(
            auth.lines().filter(|line| line.contains("Accepted password for deploy from 203.0.113.66")).count(),
            1
        );
        let errors = generate(LogFile::Payments, 1).0.lines().filter(|line| line.contains("PoolExhausted")).count();
        assert!(errors > 20, "{errors}");
        assert!(generate(LogFile::Firewall, 1).0.contains(INCIDENT.drop_host));
    }

    #[test]
    fn multi_line_traces_are_one_event() {
        let (orders, events) = generate(LogFile::Orders, 1);
        let dated = orders.lines().filter(|line| line.starts_with("2026-11-20 ")).count() as u64;
        assert_eq!(dated, events);
        assert!(orders.lines().count() as u64 > events);
    }
}
