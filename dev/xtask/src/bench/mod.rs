//! The speed table: ingest of the comparison data, its size on disk, and the eight queries through a running server.
//!
//! `cargo xtask bench DIR` takes a folder with `syslog.log` made by the comparison generator (3,000,000 events).
//! Answers are checked before their times count. Medians of [`RUNS`]; the table is printed and kept in
//! `target/bench/last.txt`, and the next run shows its ratio to it.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::root;

/// Runs per query; the median counts.
const RUNS: usize = 5;

/// Name, search, and a text the CSV answer must hold.
const QUERIES: &[(&str, &str, &str)] = &[
    ("Q1 dc(user_id)", "every1 | stats dc(user_id) as n", "950118"),
    ("Q2a by status, host", "every1 | stats count by status, host", "200,host01,"),
    ("Q2b top client_ip", "every1 | top 10 client_ip", "client_ip"),
    ("Q3 every1k", "every1k | stats count", "3000"),
    ("Q4 every100k dc", "every100k | stats dc(user_id) as n", "30"),
    ("Q5 needle", "every1m | head 1 | table request_id", "request_id"),
    ("Q6 *zebra*", "*zebra* | stats count", "3117"),
    ("Q7 rex shard", "every1 | rex \"on shard-(?<shard>\\d+) \" | stats count by shard", "63,"),
    ("Q8 timechart", "index=main | timechart span=5m count by level", "FATAL"),
];

/// Runs the whole table.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let folder = arguments.first().map(PathBuf::from).ok_or("usage: cargo xtask bench DIR (with syslog.log in it)")?;
    let input = folder.join("syslog.log");
    let bytes = std::fs::metadata(&input).map_err(|error| format!("{}: {error}", input.display()))?.len();
    let data = folder.join("quarry-bench");
    let mut figures = Figures::load();
    ingest(&input, &data, bytes, &mut figures)?;
    let mut server = Server::start(&data)?;
    let outcome = queries(&server, &mut figures);
    server.stop();
    outcome?;
    figures.save()
}

fn quarry(data: &Path) -> Command {
    let mut command = Command::new(root().join("target/release/quarry"));
    command.arg("--data-dir").arg(data);
    command
}

fn ingest(input: &Path, data: &Path, bytes: u64, figures: &mut Figures) -> Result<(), String> {
    if data.exists() {
        std::fs::remove_dir_all(data).map_err(|error| format!("{}: {error}", data.display()))?;
    }
    let start = Instant::now();
    let mut add = quarry(data);
    let output =
        add.args(["add", "oneshot"]).arg(input).output().map_err(|error| format!("cannot run quarry: {error}"))?;
    let seconds = start.elapsed().as_secs_f64();
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("add oneshot ended with {}: {report}", output.status));
    }
    println!("{}", report.lines().last().unwrap_or_default());
    figures.add("ingest wall s", seconds);
    figures.add("ingest MB/s", bytes as f64 / 1e6 / seconds);
    figures.add("disk MB", folder_bytes(data) as f64 / 1e6);
    Ok(())
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

fn queries(server: &Server, figures: &mut Figures) -> Result<(), String> {
    for (name, search, expected) in QUERIES {
        let mut times = Vec::new();
        for _ in 0..=RUNS {
            let start = Instant::now();
            let answer = server.search(search)?;
            times.push(start.elapsed().as_secs_f64() * 1000.0);
            if !answer.contains(expected) {
                return Err(format!("{name}: the answer lacks {expected}:\n{answer}"));
            }
        }
        // The first run opened the buckets; it is the cold figure.
        figures.add(&format!("{name} first ms"), times.remove(0));
        times.sort_by(f64::total_cmp);
        figures.add(&format!("{name} ms"), times[times.len() / 2]);
    }
    Ok(())
}

/// A node under test.
struct Server {
    child: Child,
    address: String,
    token: String,
}

impl Server {
    fn start(data: &Path) -> Result<Server, String> {
        let mut command = quarry(data);
        command.args(["serve", "--mgmt", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run quarry serve: {error}"))?;
        // Serve says where it listens once it accepts connections.
        let said = child.stderr.take().map(|said| BufReader::new(said).lines());
        let ready = said.is_some_and(|mut said| said.any(|line| line.is_ok_and(|line| line.contains(" serves "))));
        if !ready {
            return Err("quarry serve ended before it was ready".to_owned());
        }
        let run_file = data.join("run/server.json");
        let text = std::fs::read_to_string(&run_file).map_err(|error| format!("{}: {error}", run_file.display()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", run_file.display()))?;
        let text_of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Ok(Server { child, address: text_of("mgmt"), token: text_of("token") })
    }

    fn search(&self, search: &str) -> Result<String, String> {
        let body = format!("exec_mode=oneshot&output_mode=csv&count=0&search={}", percent(&format!("search {search}")));
        let request = format!(
            "POST /services/search/jobs HTTP/1.1\r\nHost: q\r\nAuthorization: Splunk {}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.token,
            body.len(),
        );
        let exchange = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = exchange().map_err(|error| format!("{}: {error}", self.address))?;
        if !answer.starts_with("HTTP/1.1 200") {
            return Err(answer);
        }
        Ok(answer)
    }

    fn stop(&mut self) {
        if self.child.kill().is_err() || self.child.wait().is_err() {
            println!("the server had ended already");
        }
    }
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Figures of this run beside those of the last.
struct Figures {
    last: BTreeMap<String, f64>,
    now: Vec<(String, f64)>,
}

impl Figures {
    fn path() -> PathBuf {
        root().join("target/bench/last.txt")
    }

    fn load() -> Figures {
        let text = std::fs::read_to_string(Figures::path()).unwrap_or_default();
        let rows = text.lines().filter_map(|line| line.rsplit_once(' '));
        let last = rows.filter_map(|(name, figure)| Some((name.to_owned(), figure.parse().ok()?))).collect();
        Figures { last, now: Vec::new() }
    }

    fn add(&mut self, name: &str, figure: f64) {
        let ratio =
            self.last.get(name).map(|last| format!("  x{:.2} of the last run", figure / last)).unwrap_or_default();
        println!("{name:<28} {figure:>10.1}{ratio}");
        self.now.push((name.to_owned(), figure));
    }

    fn save(&self) -> Result<(), String> {
        let path = Figures::path();
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let text: String = self.now.iter().map(|(name, figure)| format!("{name} {figure:.3}\n")).collect();
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}
