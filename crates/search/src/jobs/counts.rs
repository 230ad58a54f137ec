//! Counts of a job's search (events, and reads from buckets on remote volumes), and their form in a finished job's
//! file.

use quarry_engine::ScanProgress;
use quarry_store::ReadStats;
use serde_json::{Value, json};

/// Counts of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of events scanned.
    pub(super) scanned: u64,
    /// Number of events that passed the search condition.
    pub(super) matched: u64,
    /// Counters of reads from buckets on remote volumes.
    pub(super) reads: ReadStats,
}

impl Counts {
    /// Counts of a search so far.
    pub(super) fn from_progress(progress: &ScanProgress) -> Counts {
        let (scanned, matched) = (progress.events_scanned(), progress.events_matched());
        Counts { scanned, matched, reads: progress.reads().stats() }
    }

    /// Counts of a finished job; counts that its facts file lacks are 0.
    pub(super) fn from_facts(facts: &Value) -> Counts {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let of_reads = |name: &str| number(&facts["remote_reads"][name]);
        Counts {
            scanned: number(&facts["scanned"]),
            matched: number(&facts["matched"]),
            reads: ReadStats {
                cached_reads: of_reads("cached_reads"),
                cached_bytes: of_reads("cached_bytes"),
                requests: of_reads("requests"),
                fetched_bytes: of_reads("fetched_bytes"),
                waited_ns: of_reads("waited_ns"),
            },
        }
    }

    /// Adds the counts to the facts of a finished job.
    pub(super) fn record(&self, facts: &mut Value) {
        facts["scanned"] = self.scanned.into();
        facts["matched"] = self.matched.into();
        if !self.reads.is_empty() {
            let ReadStats { cached_reads, cached_bytes, requests, fetched_bytes, waited_ns } = self.reads;
            facts["remote_reads"] = json!({
                "cached_reads": cached_reads, "cached_bytes": cached_bytes, "requests": requests,
                "fetched_bytes": fetched_bytes, "waited_ns": waited_ns,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_round_trip_through_job_facts() {
        let reads = ReadStats { cached_reads: 1, cached_bytes: 2, requests: 3, fetched_bytes: 4, waited_ns: 5 };
        for counts in [Counts { scanned: 7, matched: 6, reads }, Counts { scanned: 1, ..Counts::default() }] {
            let mut facts = json!({ "finalized": false });
            counts.record(&mut facts);
            assert_eq!(Counts::from_facts(&facts), counts);
            assert_eq!(facts.get("remote_reads").is_some(), !counts.reads.is_empty());
        }
        assert_eq!(Counts::from_facts(&json!({})), Counts::default());
    }
}
