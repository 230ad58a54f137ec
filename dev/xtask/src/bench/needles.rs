//! Needle searches: searches for one user id or one session by 1 to 32 concurrent clients, through the server.
//!
//! The ids are taken from lines spread over the input, so that every id exists and none repeats soon. The clients share
//! the machine with the server, as in the comparison with other engines.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::figures::Figures;
use super::server::Server;

const CLIENTS: [usize; 4] = [1, 4, 16, 32];
/// Duration of the measurement for each number of clients.
const MEASURED: Duration = Duration::from_secs(5);
/// Number of lines whose user and session are searched for.
const LINES: u64 = 4_096;
/// Bytes read to find a whole line; more than the longest line of the comparison data.
const LINE_BYTES: usize = 4_096;

/// Measures and records needle searches per minute and the median and 95th percentile of their latency.
pub(super) fn run(server: &Server, input: &Path, figures: &mut Figures) -> Result<(), String> {
    let needles = needles_of(input).map_err(|error| format!("{}: {error}", input.display()))?;
    for clients in CLIENTS {
        let next = AtomicUsize::new(clients);
        let start = Instant::now();
        let client = || -> Result<Vec<f64>, String> {
            let mut connection = server.connect()?;
            let mut times = Vec::new();
            while start.elapsed() < MEASURED {
                let needle = &needles[next.fetch_add(1, Ordering::Relaxed) % needles.len()];
                let asked = Instant::now();
                let answer = connection.search(needle)?;
                times.push(asked.elapsed().as_secs_f64() * 1000.0);
                if answer.trim_end().lines().count() < 2 {
                    return Err(format!("{needle} found nothing:\n{answer}"));
                }
            }
            Ok(times)
        };
        let times = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked".to_owned())?);
            joined.collect::<Result<Vec<_>, String>>()
        })?;
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        let mut times: Vec<f64> = times.into_iter().flatten().collect();
        times.sort_by(f64::total_cmp);
        figures.add(&format!("needles/min, {clients} clients"), times.len() as f64 / minutes);
        figures.add(&format!("needle p50 ms, {clients} clients"), times[times.len() / 2]);
        figures.add(&format!("needle p95 ms, {clients} clients"), times[times.len() * 95 / 100]);
    }
    Ok(())
}

/// Searches for one user id or one session of lines spread over a file.
pub(super) fn needles_of(input: &Path) -> std::io::Result<Vec<String>> {
    let mut file = std::fs::File::open(input)?;
    let step = file.metadata()?.len() / (LINES + 1);
    let mut needles = Vec::new();
    let mut buffer = vec![0; LINE_BYTES];
    for at in 0..LINES {
        file.seek(SeekFrom::Start(at * step))?;
        let read = file.read(&mut buffer)?;
        let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
        let Some(line) = text.lines().nth(1) else { continue };
        let field = if at % 2 == 0 { "user_id" } else { "session" };
        let value = line.split(' ').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
        needles.extend(value.map(|value| format!("{field}={value} | table _time, {field}")));
    }
    if needles.is_empty() {
        return Err(std::io::Error::other("no line has user_id= and session="));
    }
    Ok(needles)
}
