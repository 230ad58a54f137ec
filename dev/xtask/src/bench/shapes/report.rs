//! The report of a shapes run: a line per question, geometric means per shape, the slowest questions, and differing
//! answers.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use quarry_eventgen::shapes::Query;
use serde_json::{Map, Value, json};

/// Number of slowest questions shown per shape.
const WORST: usize = 5;
/// Maximum ratio of a question's CPU time to that of DuckDB over the parsed table.
const RATIO_MAX: f64 = 6.0;
/// Maximum wall time of a search for one value, in milliseconds.
const NEEDLE_MS_MAX: f64 = 3.0;
/// Lower bound used for a time, because of the clock resolution.
const SHORTEST_S: f64 = 1e-5;

/// An engine and the data it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Quarry,
    DuckDbParsed,
    DuckDbRaw,
    ChDbParsed,
    ChDbRaw,
}

impl Engine {
    /// Names of the databases in `peer.py`.
    pub(super) const DUCKDB: &str = "duckdb";
    pub(super) const CHDB: &str = "chdb";
    /// The engines that Quarry is compared with.
    const PEERS: [Engine; 4] = [Engine::DuckDbParsed, Engine::DuckDbRaw, Engine::ChDbParsed, Engine::ChDbRaw];

    /// Name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Engine::Quarry => "quarry",
            Engine::DuckDbParsed => "duckdb parsed",
            Engine::DuckDbRaw => "duckdb text",
            Engine::ChDbParsed => "chdb parsed",
            Engine::ChDbRaw => "chdb text",
        }
    }

    /// True if the engine is ClickHouse.
    pub(super) fn is_chdb(self) -> bool {
        matches!(self, Engine::ChDbParsed | Engine::ChDbRaw)
    }
}

/// Cost of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
}

/// A question with its costs.
pub(super) struct AnsweredQuestion {
    pub(super) shape: String,
    pub(super) query: Query,
    /// Rows of Quarry's answer.
    pub(super) rows: usize,
    pub(super) costs: Vec<(Engine, Cost)>,
    /// Differences between Quarry's answer and DuckDB's.
    pub(super) differences: Vec<String>,
    /// Differences from ClickHouse, and engines that could not answer.
    pub(super) remarks: Vec<String>,
}

impl AnsweredQuestion {
    fn cost(&self, engine: Engine) -> Option<Cost> {
        self.costs.iter().find(|(known, _)| *known == engine).map(|(_, cost)| *cost)
    }

    /// Quarry's CPU time divided by that of an engine; the ratio of wall times if `of_wall` is set.
    fn ratio(&self, engine: Engine, of_wall: bool) -> Option<f64> {
        let seconds = |cost: Cost| if of_wall { cost.wall_s } else { cost.cpu_s }.max(SHORTEST_S);
        Some(seconds(self.cost(Engine::Quarry)?) / seconds(self.cost(engine)?))
    }

    fn json(&self, seed: u64) -> Value {
        let mut line = Map::new();
        line.insert("seed".to_owned(), json!(seed));
        line.insert("shape".to_owned(), json!(self.shape));
        line.insert("query".to_owned(), json!(self.query.name));
        line.insert("spl".to_owned(), json!(self.query.spl));
        line.insert("rows".to_owned(), json!(self.rows));
        for (engine, cost) in &self.costs {
            let milliseconds = json!({"wall_ms": cost.wall_s * 1e3, "cpu_ms": cost.cpu_s * 1e3});
            line.insert(engine.name().replace(' ', "_"), milliseconds);
        }
        if !self.remarks.is_empty() {
            line.insert("remarks".to_owned(), json!(self.remarks));
        }
        if !self.differences.is_empty() {
            line.insert("differences".to_owned(), json!(self.differences));
            line.insert("sql".to_owned(), json!(self.query.parsed));
            line.insert("sql_text".to_owned(), json!(self.query.raw));
        }
        Value::Object(line)
    }
}

/// The report of the questions so far.
pub(super) struct Report {
    seed: u64,
    lines: BufWriter<File>,
    answered: Vec<AnsweredQuestion>,
}

impl Report {
    /// Creates an empty report, whose lines are written to `path`.
    pub(super) fn new(seed: u64, path: &Path) -> Result<Report, String> {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Report { seed, lines: BufWriter::new(file), answered: Vec::new() })
    }

    /// Records the cost of indexing a shape.
    pub(super) fn ingested(&mut self, shape: &str, bytes: u64, events: u64, figures: &[(&str, f64)], loaded: &Value) {
        let parquet = loaded["parquet_bytes"].as_f64().unwrap_or_default() / 1e6;
        println!("\n{shape}: {events} events, {:.0} MB", bytes as f64 / 1e6);
        let mut line = json!({"seed": self.seed, "shape": shape, "bytes": bytes, "events": events});
        for (name, figure) in figures.iter().copied().chain([("Parquet (zstd) MB", parquet)]) {
            println!("  {name:<22} {figure:>9.1}");
            line[name] = json!(figure);
        }
        self.line(&line);
    }

    /// Records the figures of a shape's server under load.
    pub(super) fn loaded(&mut self, shape: &str, figures: &[(&str, f64)]) {
        let mut line = json!({"seed": self.seed, "shape": shape, "load": true});
        for (name, figure) in figures {
            println!("  {name:<28} {figure:>9.2}");
            line[*name] = json!(figure);
        }
        self.line(&line);
    }

    /// Records a question.
    pub(super) fn add(&mut self, answered: AnsweredQuestion) -> Result<(), String> {
        let line = answered.json(self.seed);
        self.line(&line);
        let milliseconds =
            |engine| answered.cost(engine).map_or_else(|| "-".to_owned(), |cost| format!("{:.1}", cost.cpu_s * 1e3));
        let figures: Vec<String> = Engine::PEERS.iter().map(|engine| format!("{:>8}", milliseconds(*engine))).collect();
        println!(
            "  {:<28} {:>8} {}{}",
            answered.query.name,
            milliseconds(Engine::Quarry),
            figures.join(" "),
            if answered.differences.is_empty() { "" } else { "  DIFFERS" }
        );
        self.answered.push(answered);
        Ok(())
    }

    /// Prints the means and the slowest questions of a shape.
    pub(super) fn shape_ended(&mut self, shape: &str) {
        let of_shape: Vec<&AnsweredQuestion> =
            self.answered.iter().filter(|answered| answered.shape == shape).collect();
        print_means(&of_shape);
        let mut worst: Vec<(f64, &AnsweredQuestion)> = of_shape
            .iter()
            .filter_map(|answered| Some((answered.ratio(Engine::DuckDbParsed, false)?, *answered)))
            .collect();
        worst.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (ratio, answered) in worst.iter().take(WORST) {
            println!("    {ratio:>6.1}x  {}: {}", answered.query.name, answered.query.spl);
        }
    }

    /// Prints the totals and fails if an answer differed.
    pub(super) fn finish(mut self) -> Result<(), String> {
        println!("\nall shapes, seed {}", self.seed);
        print_means(&self.answered.iter().collect::<Vec<_>>());
        self.print_missed();
        for answered in self.answered.iter().filter(|answered| answered.differences.is_empty()) {
            for remark in &answered.remarks {
                println!("remark on {}, {}: {remark}", answered.shape, answered.query.name);
            }
        }
        let wrong: Vec<&AnsweredQuestion> =
            self.answered.iter().filter(|answered| !answered.differences.is_empty()).collect();
        for answered in &wrong {
            println!("{}, {}: {}", answered.shape, answered.query.name, answered.query.spl);
            for difference in &answered.differences {
                println!("    {difference}");
            }
        }
        let ended = format!("{} questions, {} answered differently", self.answered.len(), wrong.len());
        self.lines.flush().map_err(|error| format!("shapes.jsonl: {error}"))?;
        if wrong.is_empty() {
            println!("{ended}");
            return Ok(());
        }
        Err(ended)
    }

    /// Prints every question that misses a goal, in descending order of the excess.
    fn print_missed(&self) {
        let beyond = |engine, limit: f64| {
            let ratio = move |answered: &AnsweredQuestion| answered.ratio(engine, false).filter(|ratio| *ratio > limit);
            (
                format!("above {limit}x of {}", engine.name()),
                Box::new(ratio) as Box<dyn Fn(&AnsweredQuestion) -> Option<f64>>,
            )
        };
        let is_needle = |answered: &AnsweredQuestion| answered.query.name.starts_with("needle");
        let needle_ms = move |answered: &AnsweredQuestion| {
            Some(answered.cost(Engine::Quarry)?.wall_s * 1e3).filter(|_| is_needle(answered))
        };
        let slow = move |answered: &AnsweredQuestion| needle_ms(answered).filter(|wall_ms| *wall_ms > NEEDLE_MS_MAX);
        let goals = [
            beyond(Engine::DuckDbParsed, RATIO_MAX),
            beyond(Engine::DuckDbRaw, 1.0),
            beyond(Engine::ChDbRaw, 1.0),
            (format!("needles that take more than {NEEDLE_MS_MAX} ms"), Box::new(slow) as _),
        ];
        for (name, miss) in goals {
            let mut missed: Vec<_> =
                self.answered.iter().filter_map(|answered| Some((miss(answered)?, answered))).collect();
            missed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
            println!("{} {name}", missed.len());
            for (figure, AnsweredQuestion { shape, query, .. }) in missed {
                println!("    {figure:>6.1}  {shape}, {}: {}", query.name, query.spl);
            }
        }
    }

    fn line(&mut self, line: &Value) {
        if let Err(error) = writeln!(self.lines, "{line}").and_then(|()| self.lines.flush()) {
            println!("shapes.jsonl: {error}");
        }
    }
}

/// Geometric means of Quarry's CPU and wall time over those of each engine, and the number of questions that take too
/// long.
fn print_means(answered: &[&AnsweredQuestion]) {
    for engine in Engine::PEERS {
        let mean = |of_wall| geometric_mean(answered.iter().filter_map(|answered| answered.ratio(engine, of_wall)));
        if let (Some(cpu), Some(wall)) = (mean(false), mean(true)) {
            println!("  mean against {:<14} CPU {cpu:>6.2}x  wall {wall:>6.2}x", engine.name());
        }
    }
    let beyond = |engine, limit: f64| {
        answered.iter().filter(|answered| answered.ratio(engine, false).is_some_and(|ratio| ratio > limit)).count()
    };
    println!(
        "  {} of {} above {RATIO_MAX}x of DuckDB over the parsed table, {} slower than DuckDB over the text, {} than ClickHouse over the text",
        beyond(Engine::DuckDbParsed, RATIO_MAX),
        answered.len(),
        beyond(Engine::DuckDbRaw, 1.0),
        beyond(Engine::ChDbRaw, 1.0)
    );
}

/// Geometric mean; `None` for no values.
fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = ratios.fold((0.0, 0u32), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_geometric() {
        assert_eq!(geometric_mean(std::iter::empty()), None);
        let mean = geometric_mean([1.0, 4.0].into_iter()).unwrap_or_default();
        assert!((mean - 2.0).abs() < 1e-12);
    }
}
