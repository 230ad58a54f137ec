//! A server under test and persistent connections to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::quarry;

/// A running server; it stops when the value is dropped.
pub(super) struct Server {
    child: Child,
    address: String,
    token: String,
    /// Address of the event collector; empty if it does not listen.
    collector: String,
}

impl Server {
    /// Starts a server on free ports of the loopback interface and waits until it accepts connections.
    pub(super) fn start(data: &Path) -> Result<Server, String> {
        Server::start_with(data, &[])
    }

    /// Like [`Server::start`], with further arguments.
    pub(super) fn start_with(data: &Path, more: &[&str]) -> Result<Server, String> {
        let mut command = quarry(data);
        command.args(["serve", "--mgmt", "127.0.0.1:0"]).args(more).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run quarry serve: {error}"))?;
        // `serve` prints its address once it accepts connections.
        let said = child.stderr.take().map(|said| BufReader::new(said).lines());
        let ready = said.is_some_and(|mut said| said.any(|line| line.is_ok_and(|line| line.contains(" serves "))));
        if !ready {
            return Err("quarry serve ended before it was ready".to_owned());
        }
        let run_file = data.join("run/server.json");
        let text = std::fs::read_to_string(&run_file).map_err(|error| format!("{}: {error}", run_file.display()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", run_file.display()))?;
        let text_of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Ok(Server { child, address: text_of("mgmt"), token: text_of("token"), collector: text_of("hec") })
    }

    /// CPU time (user and system) of the server's process so far, in seconds.
    pub(super) fn cpu_seconds(&self) -> Result<f64, String> {
        let file = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        // The name in parentheses may contain blanks; the times are fields 14 and 15, in ticks of 1/100 s.
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
        Ok(fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0)
    }

    /// Process id.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Stops the server as an operator would, and waits for its end.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let process = self.child.id().to_string();
        let reported = std::process::Command::new("kill").args(["-TERM", &process]).status();
        reported.map_err(|error| format!("cannot run kill: {error}"))?;
        self.child.wait().map(drop).map_err(|error| format!("cannot wait for quarry: {error}"))
    }

    /// Opens a connection that is reused for several searches.
    pub(super) fn connect(&self) -> Result<Connection<'_>, String> {
        self.connect_to(&self.address)
    }

    /// Opens a connection to the event collector.
    pub(super) fn connect_to_collector(&self) -> Result<Connection<'_>, String> {
        self.connect_to(&self.collector)
    }

    fn connect_to(&self, address: &str) -> Result<Connection<'_>, String> {
        let opened = TcpStream::connect(address).and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok(BufReader::new(stream))
        });
        let stream = opened.map_err(|error| format!("{address}: {error}"))?;
        Ok(Connection { server: self, stream })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.kill().is_err() || self.child.wait().is_err() {
            println!("the server had ended already");
        }
    }
}

/// An open connection.
pub(super) struct Connection<'a> {
    server: &'a Server,
    stream: BufReader<TcpStream>,
}

impl Connection<'_> {
    /// Runs a search to its end; returns its rows as CSV.
    pub(super) fn search(&mut self, search: &str) -> Result<String, String> {
        self.oneshot(&format!("search {search}"))
    }

    /// Answer of a search that may begin with any command.
    pub(super) fn oneshot(&mut self, search: &str) -> Result<String, String> {
        let body = format!("exec_mode=oneshot&output_mode=csv&count=0&search={}", percent(search));
        self.ask("POST", "/services/search/jobs", &self.server.token, body.as_bytes())
    }

    /// Creates a job and returns its id.
    pub(super) fn create_job(&mut self, search: &str) -> Result<String, String> {
        let body = format!("output_mode=json&search={}", percent(&format!("search {search}")));
        let answer = self.ask("POST", "/services/search/jobs", &self.server.token, body.as_bytes())?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| format!("{answer}: {error}"))?;
        answer["sid"].as_str().map(str::to_owned).ok_or_else(|| format!("no job: {answer}"))
    }

    /// True if a job has a row in its preview.
    pub(super) fn has_preview(&mut self, job: &str) -> Result<bool, String> {
        let path = format!("/services/search/jobs/{job}/results_preview?output_mode=json&count=1");
        let answer = self.ask("GET", &path, &self.server.token, b"")?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        Ok(answer["results"].as_array().is_some_and(|rows| !rows.is_empty()))
    }

    /// Cancels a job and removes it.
    pub(super) fn remove_job(&mut self, job: &str) -> Result<(), String> {
        self.ask("DELETE", &format!("/services/search/jobs/{job}"), &self.server.token, b"").map(drop)
    }

    /// Sends lines to the event collector; returns when they are stored.
    pub(super) fn collect(&mut self, token: &str, lines: &[u8]) -> Result<(), String> {
        self.ask("POST", "/services/collector/raw", token, lines).map(drop)
    }

    /// Seals the events of an index; returns when they are in a bucket.
    pub(super) fn roll_hot_buckets(&mut self, index: &str) -> Result<(), String> {
        let path = format!("/services/data/indexes/{index}/roll-hot-buckets");
        self.ask("POST", &path, &self.server.token, b"").map(drop)
    }

    fn ask(&mut self, method: &str, path: &str, token: &str, body: &[u8]) -> Result<String, String> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: q\r\nAuthorization: Splunk {token}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            body.len(),
        );
        let request = [head.as_bytes(), body].concat();
        let answer = self.stream.get_mut().write_all(&request).and_then(|()| self.answer());
        let (status, text) = answer.map_err(|error| format!("{method} {path}: {error}"))?;
        if status.starts_with("HTTP/1.1 20") { Ok(text) } else { Err(format!("{method} {path}: {status}{text}")) }
    }

    fn answer(&mut self) -> std::io::Result<(String, String)> {
        let mut status = String::new();
        self.stream.read_line(&mut status)?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::Error::other("the connection ended inside an answer's head"));
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(text) = line.strip_prefix("content-length:") {
                length = text.trim().parse().map_err(std::io::Error::other)?;
            }
            chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
        }
        let mut body = Vec::new();
        if chunked {
            self.chunks(&mut body)?;
        } else {
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
        }
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> std::io::Result<()> {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            let start = body.len();
            body.resize(start + length, 0);
            self.stream.read_exact(&mut body[start..])?;
            line.clear();
            self.stream.read_line(&mut line)?;
            if length == 0 {
                return Ok(());
            }
        }
    }
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
