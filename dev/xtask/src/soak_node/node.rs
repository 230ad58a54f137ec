//! The node under test: its data directory, its process, and the events found in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::root;

/// Token whose requests are answered when their events are stored.
pub(crate) const PLAIN_TOKEN: &str = "11111111-1111-1111-1111-111111111111";
/// Token whose events are acknowledged on request.
pub(crate) const ACK_TOKEN: &str = "44444444-4444-4444-4444-444444444444";
/// Maximum wait for a start, an end, or the lines of a file.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time within which a node must reach its file size limit before it is killed.
const TORN_WRITE_WAIT: Duration = Duration::from_millis(150);

#[expect(clippy::disallowed_methods, reason = "a tool that waits for a process looks at the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Sleeps for `time`.
pub(crate) fn pause(time: Duration) {
    let begun = now();
    while begun.elapsed() < time {
        std::thread::park_timeout(time - begun.elapsed().min(time));
    }
}

/// Fault that ends a round.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// SIGKILL.
    Kill {
        /// Time until the kill.
        after: Duration,
    },
    /// The process is killed by a write that would make a file larger than `blocks`.
    TornWrite {
        /// Blocks of 512 bytes.
        blocks: u64,
    },
    /// Changes of some files fail for a while; then the node is asked to stop, and killed if that takes too long.
    Disk {
        /// Files whose changes fail, the error, and the number of failures.
        errors: DiskErrors,
        /// Time until the node is asked to stop.
        after: Duration,
        /// Time limit for the stop; `None` kills it at once.
        stop_within: Option<Duration>,
    },
}

impl Fault {
    /// True if a request may be answered with a server error. A node whose file may not grow is killed by the write
    /// itself, so only a failing disk has this effect.
    pub(crate) fn leads_to_errors(&self) -> bool {
        matches!(self, Fault::Disk { .. })
    }

    /// True if the fault can keep the node from recording which requests it answered.
    pub(crate) fn affects_records(&self) -> bool {
        matches!(self, Fault::Disk { errors, .. } if ["/data/wal/", "/data/catalog.sqlite"].contains(&errors.path_part))
    }
}

/// Errors of a failing disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskErrors {
    /// Part of the names of the affected files.
    pub(crate) path_part: &'static str,
    /// Error number (errno).
    pub(crate) number: i32,
    /// Number of changes that succeed before the first failure.
    pub(crate) after: u64,
    /// Number of changes that fail.
    pub(crate) count: u64,
}

/// Builds the library that makes the disk fail, in `folder`, the directory of the worlds.
pub(crate) fn build_disk_fault(folder: &Path) -> Result<PathBuf, String> {
    let built = folder.join("disk_fault.so");
    let source = root().join("dev/xtask/src/soak_node/disk_fault.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&built).arg(&source).arg("-ldl");
    match compiler.status() {
        Ok(status) if status.success() => Ok(built),
        Ok(status) => Err(format!("cc {}: {status}", source.display())),
        Err(error) => Err(format!("cannot run cc, which builds {}: {error}", source.display())),
    }
}

/// A data directory and the binary that serves it.
pub(crate) struct Node {
    binary: PathBuf,
    data: PathBuf,
    log: PathBuf,
    /// Path of the library that [`build_disk_fault`] builds.
    disk_fault: PathBuf,
}

/// Result of a command.
pub(crate) struct CommandResult {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A running node; killed when dropped.
pub(crate) struct Running<'a> {
    node: &'a Node,
    child: std::sync::Mutex<Child>,
    run_file: Option<Value>,
}

impl Node {
    /// Creates the data directory with the configuration that the senders need.
    pub(crate) fn prepare(binary: &Path, disk_fault: &Path, place: &Path) -> Result<Node, String> {
        let cannot = |error: std::io::Error| format!("cannot prepare {}: {error}", place.display());
        let data = place.join("data");
        let local = data.join("etc/system/local");
        std::fs::create_dir_all(&local).map_err(cannot)?;
        let logs = place.join("logs");
        std::fs::create_dir_all(&logs).map_err(cannot)?;
        let inputs = format!(
            "[http://plain]\ntoken = {PLAIN_TOKEN}\n[http://acked]\ntoken = {ACK_TOKEN}\nuseACK = 1\n\
             [splunktcp://0]\nbindAddress = 127.0.0.1\n\
             [monitor://{}/*.log*]\nsourcetype = soak_lines\n",
            logs.display()
        );
        std::fs::write(local.join("inputs.conf"), inputs).map_err(cannot)?;
        let props = "[soak_lines]\nSHOULD_LINEMERGE = false\nDATETIME_CONFIG = CURRENT\n";
        std::fs::write(local.join("props.conf"), props).map_err(cannot)?;
        let of_app = data.join("etc/apps/search/local");
        std::fs::create_dir_all(&of_app).map_err(cannot)?;
        std::fs::write(of_app.join("collections.conf"), super::documents::COLLECTIONS_CONF).map_err(cannot)?;
        let (binary, disk_fault) = (binary.to_owned(), disk_fault.to_owned());
        Ok(Node { binary, data, log: place.join("node.log"), disk_fault })
    }

    /// Creates a node with the same binary and configuration and another, empty data directory.
    pub(crate) fn with_data(&self, place: &Path) -> Result<Node, String> {
        let cannot = |error: std::io::Error| format!("cannot prepare {}: {error}", place.display());
        let local = place.join("etc/system/local");
        std::fs::create_dir_all(&local).map_err(cannot)?;
        for name in ["indexes.conf", "server.conf", "props.conf"] {
            let from = self.data.join("etc/system/local").join(name);
            std::fs::copy(&from, local.join(name)).map_err(cannot)?;
        }
        let (binary, disk_fault) = (self.binary.clone(), self.disk_fault.clone());
        Ok(Node { binary, data: place.to_owned(), log: self.log.clone(), disk_fault })
    }

    /// Writes a file of the node's configuration.
    pub(crate) fn write_conf(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.data.join("etc/system/local").join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Runs a command on the node's data directory, through the running node if there is one.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<CommandResult, String> {
        let ran = self.command(arguments).output().map_err(|error| format!("cannot run {arguments:?}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(CommandResult { code: ran.status.code(), out: text(&ran.stdout), err: text(&ran.stderr) })
    }

    /// Runs a command and kills it after the time `after`, if given; returns true if it was killed before its end.
    pub(crate) fn run_and_kill(&self, arguments: &[&str], after: Option<Duration>) -> Result<bool, String> {
        let spawned = self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| format!("cannot run {arguments:?}: {error}"))?;
        if let Some(after) = after {
            pause(after);
        }
        let is_killed = after.is_some() && matches!(child.try_wait(), Ok(None));
        if is_killed {
            // Killing fails if the command has just ended.
            drop(child.kill());
        }
        child.wait().map(|_| is_killed).map_err(|error| format!("cannot wait for {arguments:?}: {error}"))
    }

    /// Lists the node's buckets without those of internal indexes.
    pub(crate) fn buckets(&self) -> Result<Vec<Value>, String> {
        let ran = self.run(&["bucket", "list", "-o", "json"])?;
        let listed: Result<Vec<Value>, _> = serde_json::from_str(&ran.out);
        let mut buckets = listed.map_err(|error| format!("bucket list: {error}: {}", ran.err))?;
        buckets.retain(|bucket| bucket["index"].as_str().is_some_and(|index| !index.starts_with('_')));
        Ok(buckets)
    }

    /// Adds stanzas to the node's inputs.conf.
    pub(crate) fn add_inputs(&self, stanzas: &str) -> Result<(), String> {
        let path = self.data.join("etc/system/local/inputs.conf");
        let before = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        std::fs::write(&path, before + stanzas).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--data-dir").arg(&self.data).args(arguments);
        command
    }

    fn run_file(&self) -> Option<String> {
        std::fs::read_to_string(self.data.join("run/server.json")).ok()
    }

    /// Starts the node; with a file size limit or a failing disk, it may end before it listens.
    pub(crate) fn start(&self, fault: &Fault) -> Result<Running<'_>, String> {
        let before = self.run_file();
        let serve = ["serve", "--mgmt", "127.0.0.1:0", "--hec", "127.0.0.1:0"];
        let mut command = match fault {
            Fault::TornWrite { blocks } => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]).arg(&self.binary);
                shell.arg("--data-dir").arg(&self.data).args(serve);
                shell
            }
            Fault::Disk { errors: DiskErrors { path_part, number, after, count }, .. } => {
                let mut command = self.command(&serve);
                command.env("LD_PRELOAD", &self.disk_fault);
                command.env("SOAK_DISK_FAULT", format!("{path_part}:{number}:{after}:{count}"));
                command
            }
            Fault::None | Fault::Kill { .. } => self.command(&serve),
        };
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| format!("cannot write {}: {error}", self.log.display()))?;
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        let mut child = child.map_err(|error| format!("cannot start the node: {error}"))?;
        let is_limited = matches!(fault, Fault::TornWrite { .. } | Fault::Disk { .. });
        let begun = now();
        let run_file = loop {
            match self.run_file() {
                Some(text) if Some(&text) != before.as_ref() => match serde_json::from_str(&text) {
                    Ok(run_file) => break Some(run_file),
                    Err(error) => return Err(format!("run/server.json is damaged: {error}")),
                },
                _ => {}
            }
            match child.try_wait() {
                Ok(None) if begun.elapsed() < WAIT_MAX => std::thread::park_timeout(POLL_INTERVAL),
                Ok(Some(_)) if is_limited => break None,
                Ok(Some(status)) => {
                    return Err(format!("the node did not start: {status}; see {}", self.log.display()));
                }
                _ => return Err("the node did not start in time".to_owned()),
            }
        };
        Ok(Running { node: self, child: std::sync::Mutex::new(child), run_file })
    }

    /// Waits until the given number of file lines has arrived, at most [`WAIT_MAX`]; returns the texts of all events.
    pub(crate) fn find_all(&self, lines: usize) -> Result<Vec<String>, String> {
        let begun = now();
        loop {
            let found = self.search("search index=* | table _raw")?;
            if found.iter().filter(|text| text.starts_with("file ")).count() >= lines {
                return Ok(found);
            }
            if begun.elapsed() > WAIT_MAX {
                return Ok(found);
            }
            std::thread::park_timeout(POLL_INTERVAL * 20);
        }
    }

    /// The node's data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Searches for all events of a data directory; returns exit status, texts and messages.
    pub(crate) fn search_in(&self, data: &Path) -> Result<(Option<i32>, Vec<String>, String), String> {
        let mut command = Command::new(&self.binary);
        command.arg("--data-dir").arg(data).args(["search", "search index=* | table _raw", "-o", "raw"]);
        let ran = command.output().map_err(|error| format!("cannot search: {error}"))?;
        let texts = String::from_utf8_lossy(&ran.stdout).lines().map(str::to_owned).collect();
        Ok((ran.status.code(), texts, String::from_utf8_lossy(&ran.stderr).into_owned()))
    }

    fn search(&self, text: &str) -> Result<Vec<String>, String> {
        let ran = self.command(&["search", text, "-o", "raw"]).output();
        let ran = ran.map_err(|error| format!("cannot search: {error}"))?;
        if !ran.status.success() {
            return Err(format!("the search ended with {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr)));
        }
        Ok(String::from_utf8_lossy(&ran.stdout).lines().map(str::to_owned).collect())
    }

    /// Checks that no thread has panicked, even after disk errors.
    pub(crate) fn check_log(&self) -> Result<(), String> {
        let log = std::fs::read(&self.log).map_err(|error| format!("{}: {error}", self.log.display()))?;
        let log = String::from_utf8_lossy(&log);
        match log.lines().find(|line| line.contains("panicked")) {
            None => Ok(()),
            Some(line) => Err(format!("a thread panicked: {line}; see {}", self.log.display())),
        }
    }

    /// Checks that all buckets are intact.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let ran = self.command(&["bucket", "verify"]).output().map_err(|error| format!("cannot verify: {error}"))?;
        if ran.status.success() {
            return Ok(());
        }
        Err(format!("bucket verify: {}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr)))
    }
}

impl Running<'_> {
    /// Address of the HTTP Event Collector.
    pub(crate) fn hec(&self) -> Option<String> {
        Some(self.run_file.as_ref()?["hec"].as_str()?.to_owned())
    }

    /// Address of its management port, and its owner's token.
    pub(crate) fn management(&self) -> Option<(String, String)> {
        let text_of = |name: &str| Some(self.run_file.as_ref()?[name].as_str()?.to_owned());
        Some((text_of("mgmt")?, text_of("token")?))
    }

    /// Address for packets of forwarders.
    pub(crate) fn packets(&self) -> Option<String> {
        Some(self.run_file.as_ref()?["inputs"]["splunktcp://0"].as_str()?.to_owned())
    }

    /// Stops the node and waits for its end.
    pub(crate) fn stop(&self) -> Result<(), String> {
        self.request_stop();
        let stop_sent = now();
        while stop_sent.elapsed() < WAIT_MAX {
            if !self.is_alive() {
                return Ok(());
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
        Err("the node does not stop".to_owned())
    }

    fn request_stop(&self) {
        let process = self.child.lock().map(|child| child.id()).unwrap_or_default();
        // The signal fails if the process has ended.
        drop(Command::new("kill").args(["-TERM", &process.to_string()]).stderr(Stdio::null()).status());
    }

    /// Ends the node according to the fault.
    pub(crate) fn end(&self, fault: &Fault) -> Result<(), String> {
        self.end_observed(fault, || ())
    }

    /// Like [`Running::end`]; calls `look` immediately before a kill and returns its result, or the default if there is
    /// no fault.
    pub(crate) fn end_observed<T: Default>(&self, fault: &Fault, look: impl FnOnce() -> T) -> Result<T, String> {
        let begun = now();
        match fault {
            Fault::None => return Ok(T::default()),
            Fault::Kill { after } => pause(*after),
            Fault::Disk { after, stop_within, .. } => {
                pause(*after);
                if let Some(stop_within) = stop_within {
                    self.request_stop();
                    let stop_sent = now();
                    while stop_sent.elapsed() < *stop_within && self.is_alive() {
                        std::thread::park_timeout(POLL_INTERVAL);
                    }
                }
            }
            Fault::TornWrite { .. } => {
                while begun.elapsed() < TORN_WRITE_WAIT && self.is_alive() {
                    std::thread::park_timeout(POLL_INTERVAL);
                }
            }
        }
        let seen = look();
        if matches!(fault, Fault::Kill { .. }) && !self.is_alive() {
            return Err(format!("the node ended by itself; see {}", self.node.log.display()));
        }
        self.kill();
        Ok(seen)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.child.lock().is_ok_and(|mut child| matches!(child.try_wait(), Ok(None)))
    }

    fn kill(&self) {
        if let Ok(mut child) = self.child.lock() {
            // Killing fails if the process has ended.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}
