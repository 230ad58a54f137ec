//! Report of a benchmark phase.

use quarry_stdx::number::f64_of;
use serde_json::{Value, json};

const NS_PER_SECOND: i64 = 1_000_000_000;

/// An answered request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Time from the start of the phase to the answer.
    pub(super) at_ns: i64,
    /// Time from the request to its answer.
    pub(super) took_ns: i64,
    /// Time from the request to the first bytes of the object; `None` if the operation reads none.
    pub(super) first_ns: Option<i64>,
    /// Bytes of the object sent or received.
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct EndpointWork {
    endpoint: String,
    samples: Vec<Sample>,
    errors: usize,
}

impl EndpointWork {
    pub(super) fn new(endpoint: &str) -> EndpointWork {
        EndpointWork { endpoint: endpoint.to_owned(), samples: Vec::new(), errors: 0 }
    }

    pub(super) fn add(&mut self, samples: Vec<Sample>, errors: usize) {
        self.samples.extend(samples);
        self.errors += errors;
    }

    /// Number of failed requests.
    pub(super) fn errors(&self) -> usize {
        self.errors
    }

    /// Number of answered requests.
    pub(super) fn answers(&self) -> usize {
        self.samples.len()
    }
}

/// A row per endpoint, preceded by the total if there are several endpoints.
pub(super) fn rows(operation: &str, sides: Vec<EndpointWork>) -> Vec<Value> {
    let mut rows = Vec::new();
    if sides.len() > 1 {
        let mut all = EndpointWork::new("all");
        sides.iter().for_each(|side| all.add(side.samples.clone(), side.errors));
        rows.push(row(operation, all));
    }
    rows.extend(sides.into_iter().map(|side| row(operation, side)));
    rows
}

fn row(operation: &str, mut side: EndpointWork) -> Value {
    side.samples.sort_by_key(|sample| sample.took_ns);
    let latencies: Vec<i64> = side.samples.iter().map(|sample| sample.took_ns).collect();
    let mut first: Vec<i64> = side.samples.iter().filter_map(|sample| sample.first_ns).collect();
    first.sort_unstable();
    let end_ns = side.samples.iter().map(|sample| sample.at_ns).max().unwrap_or(0).max(1);
    let seconds = f64_of(end_ns) / f64_of(NS_PER_SECOND);
    let bytes: u64 = side.samples.iter().map(|sample| sample.bytes).sum();
    let series = series(&side.samples, end_ns);
    let mut by_speed: Vec<f64> = whole_seconds(&series, end_ns).iter().map(|second| speed(second, bytes > 0)).collect();
    by_speed.sort_by(f64::total_cmp);
    let second = |at: usize| by_speed.get(at).map(|speed| json!(rounded(*speed)));
    json!({
        "operation": operation,
        "endpoint": side.endpoint,
        "requests": side.samples.len(),
        "errors": side.errors,
        "seconds": rounded(seconds),
        "per_second": rounded(f64_of(side.samples.len()) / seconds),
        "mb_per_second": rounded(f64_of(bytes) / 1e6 / seconds),
        "p50_ms": percentile(&latencies, 50),
        "p90_ms": percentile(&latencies, 90),
        "p99_ms": percentile(&latencies, 99),
        "max_ms": percentile(&latencies, 100),
        "ttfb_p50_ms": percentile(&first, 50),
        "ttfb_p90_ms": percentile(&first, 90),
        "ttfb_p99_ms": percentile(&first, 99),
        "slowest_second": second(0),
        "median_second": second(by_speed.len() / 2),
        "fastest_second": second(by_speed.len().saturating_sub(1)),
        "series": series.iter().enumerate().map(|(at, (requests, bytes))| {
            json!({"second": at, "requests": requests, "bytes": bytes})
        }).collect::<Vec<_>>(),
    })
}

/// Requests and bytes in each second.
fn series(samples: &[Sample], end_ns: i64) -> Vec<(u64, u64)> {
    let mut series = vec![(0, 0); usize::try_from((end_ns - 1) / NS_PER_SECOND + 1).unwrap_or(0)];
    for sample in samples {
        let at = usize::try_from(sample.at_ns.clamp(0, end_ns - 1) / NS_PER_SECOND).unwrap_or(0);
        if let Some((requests, bytes)) = series.get_mut(at) {
            *requests += 1;
            *bytes += sample.bytes;
        }
    }
    series
}

/// The complete seconds of the phase, or all seconds if none is complete.
fn whole_seconds(series: &[(u64, u64)], end_ns: i64) -> &[(u64, u64)] {
    let whole = usize::try_from(end_ns / NS_PER_SECOND).unwrap_or(0).min(series.len());
    if whole == 0 { series } else { &series[..whole] }
}

/// Megabytes per second for operations that transfer bytes, else requests per second.
fn speed((requests, bytes): &(u64, u64), moves_bytes: bool) -> f64 {
    if moves_bytes { f64_of(*bytes) / 1e6 } else { f64_of(*requests) }
}

/// Nearest-rank percentile in milliseconds, of sorted durations in nanoseconds.
fn percentile(durations: &[i64], percent: usize) -> Option<f64> {
    let rank = (durations.len() * percent).div_ceil(100).max(1);
    durations.get(rank - 1).map(|duration| rounded(f64_of(*duration) / 1e6))
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(endpoint: &str, samples: impl Iterator<Item = (i64, i64, u64)>) -> EndpointWork {
        let mut side = EndpointWork::new(endpoint);
        let sample = |(at_ms, took_ms, bytes)| Sample {
            at_ns: at_ms * 1_000_000,
            took_ns: took_ms * 1_000_000,
            first_ns: (endpoint == "read").then_some(took_ms * 500_000),
            bytes,
        };
        side.add(samples.map(sample).collect(), 1);
        side
    }

    #[test]
    fn percentiles_use_nearest_rank_and_seconds_are_counted() {
        // 100 requests, one every 25 ms, taking 1 to 100 ms.
        let rows = rows("put", vec![side("a", (1..=100).map(|at| (at * 25, at, 1_000_000)))]);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((&row["p50_ms"], &row["p99_ms"], &row["max_ms"]), (&json!(50.0), &json!(99.0), &json!(100.0)));
        assert_eq!(
            (&row["seconds"], &row["per_second"], &row["mb_per_second"]),
            (&json!(2.5), &json!(40.0), &json!(40.0))
        );
        let requests: Vec<&Value> =
            row["series"].as_array().unwrap().iter().map(|second| &second["requests"]).collect();
        assert_eq!(requests, [39, 40, 21]);
        assert_eq!((&row["slowest_second"], &row["fastest_second"]), (&json!(39.0), &json!(40.0)));
        assert_eq!(row["errors"], 1);
    }

    #[test]
    fn first_bytes_have_percentiles_of_their_own() {
        let rows = rows("get", vec![side("read", (1..=100).map(|at| (at * 25, at, 1_000)))]);
        assert_eq!((&rows[0]["ttfb_p50_ms"], &rows[0]["ttfb_p99_ms"]), (&json!(25.0), &json!(49.5)));
        let rows = super::rows("put", vec![side("a", std::iter::once((25, 1, 1_000)))]);
        assert_eq!((&rows[0]["p50_ms"], &rows[0]["ttfb_p50_ms"]), (&json!(1.0), &Value::Null));
    }

    #[test]
    fn several_endpoints_add_a_total_row() {
        let rows =
            rows("stat", vec![side("a", [(10, 1, 0)].into_iter()), side("b", [(500, 3, 0), (800, 5, 0)].into_iter())]);
        let reported: Vec<_> =
            rows.iter().map(|row| (row["endpoint"].as_str().unwrap(), row["requests"].as_u64().unwrap())).collect();
        assert_eq!(reported, [("all", 3), ("a", 1), ("b", 2)]);
        assert_eq!(rows[0]["median_second"], 3.0);
    }

    #[test]
    fn empty_results_do_not_divide_by_zero() {
        let rows = rows("get", vec![side("a", std::iter::empty())]);
        assert_eq!(
            (&rows[0]["requests"], &rows[0]["p50_ms"], &rows[0]["per_second"]),
            (&json!(0), &Value::Null, &json!(0.0))
        );
    }
}
