//! The senders: over HTTP with an answer when events are stored, over HTTP with acknowledgements, and a file that grows
//! and is rotated.
//!
//! Each sender keeps a ledger of the events sent and of the answers received. An unanswered request is sent again in
//! the next round, or given up, at random.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::node::{ACK_TOKEN, PLAIN_TOKEN};
use super::{Ledger, Rng};

/// Channel of all requests.
const CHANNEL: &str = "fe0ecfad-13d5-401b-847d-77833bd77131";
/// Maximum wait for an answer of a node that may be dead.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Maximum number of events of a request.
pub(crate) const EVENTS_MAX: u64 = 20;
/// Maximum number of outstanding acknowledgements.
pub(crate) const OPEN_MAX: usize = 8;
/// Maximum number of ids from earlier rounds that are still queried.
const EARLIER_MAX: usize = 64;
/// Mean number of lines between two rotations of the file.
const ROTATE_IN: u64 = 150;
/// Maximum pause of the file's writer, in microseconds.
const WRITE_PAUSE_US: u64 = 600;
/// Maximum number of lines that the file's writer writes in a round.
const LINES_PER_ROUND: usize = 400;

/// A request that was sent and may have to be sent again.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) texts: Vec<String>,
}

impl Request {
    pub(crate) fn make(kind: &str, next: &mut u64, rng: &mut Rng) -> Request {
        let texts = (0..1 + rng.below(EVENTS_MAX)).map(|_| {
            *next += 1;
            format!("{kind} {next} {}", "x".repeat(rng.below(300) as usize))
        });
        Request { texts: texts.collect() }
    }

    fn body(&self) -> String {
        let event = |text: &String| format!("{{\"event\":\"{text}\",\"sourcetype\":\"soak_events\"}}");
        self.texts.iter().map(event).collect()
    }

    pub(crate) fn note_sent(&self, ledger: &mut Ledger, round: u64) {
        for text in &self.texts {
            let sent = ledger.entry(text.clone()).or_default();
            sent.times += 1;
            sent.rounds |= 1 << round;
        }
    }

    pub(crate) fn note_acknowledged(&self, ledger: &mut Ledger) {
        self.texts.iter().for_each(|text| ledger.entry(text.clone()).or_default().acknowledged = true);
    }
}

/// A connection to the collector.
struct Connection {
    stream: BufReader<TcpStream>,
    token: &'static str,
}

impl Connection {
    fn open(hec: &str, token: &'static str) -> Option<Connection> {
        let stream = TcpStream::connect(hec).ok()?;
        stream.set_read_timeout(Some(ANSWER_WAIT)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Connection { stream: BufReader::new(stream), token })
    }

    /// Posts a body; returns status and body of the answer, or `None` if there was none.
    fn post(&mut self, path: &str, body: &str) -> Option<(u16, Value)> {
        let request = format!(
            "POST /services/collector{path} HTTP/1.1\r\nHost: soak\r\nAuthorization: Splunk {}\r\n\
             X-Splunk-Request-Channel: {CHANNEL}\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).ok()?;
        Some((status, serde_json::from_slice(&answer).ok()?))
    }
}

/// Sends events and treats an answer as confirmation that they are stored.
#[derive(Default)]
pub(crate) struct PlainSender {
    pub(crate) ledger: Ledger,
    next: u64,
    again: Option<Request>,
}

impl PlainSender {
    /// Sends until the round or the node ends.
    pub(crate) fn send(&mut self, hec: &str, round: u64, mut rng: Rng, over: &AtomicBool) {
        let Some(mut connection) = Connection::open(hec, PLAIN_TOKEN) else { return };
        while !over.load(Ordering::SeqCst) {
            let kept = self.again.take().filter(|_| rng.below(2) == 0);
            let request = kept.unwrap_or_else(|| Request::make("plain", &mut self.next, &mut rng));
            request.note_sent(&mut self.ledger, round);
            match connection.post("/event", &request.body()) {
                Some((200, _)) => request.note_acknowledged(&mut self.ledger),
                Some(_) => self.again = Some(request),
                None => {
                    self.again = Some(request);
                    return;
                }
            }
        }
    }
}

/// Sends events and queries later which of them are stored. It continues to query ids of earlier rounds, like a sender
/// that did not notice the kill.
#[derive(Default)]
pub(crate) struct AckSender {
    pub(crate) ledger: Ledger,
    next: u64,
    again: Vec<Request>,
    /// Requests of earlier rounds whose ids were not reported as stored.
    earlier: Vec<(u64, Request)>,
}

impl AckSender {
    /// Sends until the round or the node ends.
    pub(crate) fn send(&mut self, hec: &str, round: u64, mut rng: Rng, over: &AtomicBool) {
        let Some(mut connection) = Connection::open(hec, ACK_TOKEN) else { return };
        let mut open: Vec<(u64, Request)> = Vec::new();
        while !over.load(Ordering::SeqCst) {
            let kept = self.again.pop().filter(|_| rng.below(2) == 0);
            let request = kept.unwrap_or_else(|| Request::make("acked", &mut self.next, &mut rng));
            request.note_sent(&mut self.ledger, round);
            let id = connection.post("/event", &request.body()).and_then(|(_, answer)| answer["ackId"].as_u64());
            let Some(id) = id else {
                self.again.push(request);
                break;
            };
            open.push((id, request));
            while open.len() >= OPEN_MAX || (!open.is_empty() && rng.below(3) == 0) {
                if self.ask(&mut connection, &mut open).is_none() || over.load(Ordering::SeqCst) {
                    break;
                }
            }
        }
        self.again.extend(open.iter().map(|(_, request)| request.clone()));
        self.again.truncate(OPEN_MAX);
        self.earlier.extend(open);
        let surplus = self.earlier.len().saturating_sub(EARLIER_MAX);
        self.earlier.drain(..surplus);
    }

    /// Queries the ids of this round and of earlier rounds; `None` if there was no answer.
    fn ask(&mut self, connection: &mut Connection, open: &mut Vec<(u64, Request)>) -> Option<()> {
        let ids: Vec<u64> = open.iter().chain(&self.earlier).map(|(id, _)| *id).collect();
        let (status, answer) = connection.post("/ack", &format!("{{\"acks\":{ids:?}}}"))?;
        if status != 200 {
            return None;
        }
        for asked in [open, &mut self.earlier] {
            asked.retain(|(id, request)| {
                let is_stored = answer["acks"][id.to_string()].as_bool() == Some(true);
                if is_stored {
                    request.note_acknowledged(&mut self.ledger);
                }
                !is_stored
            });
        }
        Some(())
    }
}

/// Writes lines into a file that the node watches.
pub(crate) struct FileWriter {
    pub(crate) ledger: Ledger,
    folder: PathBuf,
    file: Option<File>,
    rotated: u32,
    fault: Option<String>,
}

impl FileWriter {
    pub(crate) fn new(folder: &Path) -> Result<FileWriter, String> {
        Ok(FileWriter { ledger: Ledger::new(), folder: folder.to_owned(), file: None, rotated: 0, fault: None })
    }

    /// Number of lines written.
    pub(crate) fn lines(&self) -> usize {
        self.ledger.len()
    }

    /// The error that stopped the writer, if any.
    pub(crate) fn fault(&mut self) -> Result<(), String> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Writes until the round is over.
    pub(crate) fn write(&mut self, mut rng: Rng, over: &AtomicBool) {
        for _ in 0..LINES_PER_ROUND {
            if over.load(Ordering::SeqCst) {
                return;
            }
            if let Err(error) = self.line(&mut rng) {
                self.fault = Some(format!("cannot write the watched file: {error}"));
                return;
            }
            std::thread::park_timeout(Duration::from_micros(rng.below(WRITE_PAUSE_US)));
        }
    }

    fn line(&mut self, rng: &mut Rng) -> std::io::Result<()> {
        let path = self.folder.join("a.log");
        if self.file.is_none() {
            self.file = Some(OpenOptions::new().create(true).append(true).open(&path)?);
        }
        let number = self.ledger.len();
        let text = format!("file {number} {} {number}", "y".repeat(260 + rng.below(100) as usize));
        if let Some(file) = &mut self.file {
            // A line may be written in two parts.
            let cut = rng.below(text.len() as u64) as usize;
            file.write_all(&text.as_bytes()[..cut])?;
            file.write_all(&text.as_bytes()[cut..])?;
            file.write_all(b"\n")?;
        }
        let sent = self.ledger.entry(text).or_default();
        (sent.times, sent.acknowledged) = (1, true);
        if rng.below(ROTATE_IN) == 0 {
            self.rotated += 1;
            self.file = None;
            std::fs::rename(&path, self.folder.join(format!("a.log.{}", self.rotated)))?;
        }
        Ok(())
    }
}
