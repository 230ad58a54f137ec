//! Queries Q1 to Q8 on the comparison data (nine, because Q2 has two forms), each sent to the server.

use std::time::Instant;

use super::figures::Figures;
use super::server::Server;

/// Runs per query after the first; the median of their times is recorded.
pub(super) const RUNS: usize = 5;

/// Name, search, and a text that the CSV answer must contain.
pub(super) const QUERIES: &[(&str, &str, &str)] = &[
    ("Q1 dc(user_id)", "every1 | stats dc(user_id) as n", "950118"),
    ("Q2a by status, host", "every1 | stats count by status, host", "200,host01,"),
    ("Q2b top client_ip", "every1 | top 10 client_ip", "10.0.0.1,"),
    ("Q3 every1k", "every1k | stats count", "3000"),
    ("Q4 every100k dc", "every100k | stats dc(user_id) as n", "30"),
    ("Q5 needle", "every1m | head 1 | table request_id", "request_id"),
    ("Q6 *zebra*", "*zebra* | stats count", "3117"),
    ("Q7 rex shard", "every1 | rex \"on shard-(?<shard>\\d+) \" | stats count by shard", "63,"),
    ("Q8 timechart", "index=main | timechart span=5m count by level", "FATAL"),
];

/// Runs every query, checks its answer and records its times.
pub(super) fn run(server: &Server, figures: &mut Figures) -> Result<(), String> {
    let mut connection = server.connect()?;
    for (name, search, expected) in QUERIES {
        let mut times = Vec::new();
        for _ in 0..=RUNS {
            let start = Instant::now();
            let answer = connection.search(search)?;
            times.push(start.elapsed().as_secs_f64() * 1000.0);
            if !answer.contains(expected) {
                return Err(format!("{name}: the answer lacks {expected}:\n{answer}"));
            }
        }
        // The first run opens the buckets, so its time is recorded separately.
        figures.add(&format!("{name} first ms"), times.remove(0));
        times.sort_by(f64::total_cmp);
        figures.add(&format!("{name} ms"), times[times.len() / 2]);
    }
    Ok(())
}

/// Runs every report on a server that caches partial states. The first run only registers the search and the second
/// fills the cache, so the median is that of the runs from the third on.
pub(super) fn run_kept(server: &Server, figures: &mut Figures) -> Result<(), String> {
    let mut connection = server.connect()?;
    let reports = QUERIES.iter().filter(|(_, search, _)| !search.contains("head"));
    for (name, search, expected) in reports {
        let mut times = Vec::new();
        for run in 0..RUNS + 2 {
            let start = Instant::now();
            let answer = connection.search(search)?;
            if run > 1 {
                times.push(start.elapsed().as_secs_f64() * 1000.0);
            }
            if !answer.contains(expected) {
                return Err(format!("{name}: the answer with kept states lacks {expected}:\n{answer}"));
            }
        }
        times.sort_by(f64::total_cmp);
        figures.add(&format!("{name} kept ms"), times[times.len() / 2]);
    }
    Ok(())
}
