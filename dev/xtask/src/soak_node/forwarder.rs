//! Soak test of a forwarder: lines of a file are sent by `quarry forward` to a node, and both processes are killed at
//! random.
//!
//! In each round lines are written and the file is rotated; then one, both or neither of the processes is killed. In
//! some rounds the forwarder dies in the middle of a write to its queue. At the end every line must be found exactly
//! once. The node keeps the number of the last batch that it has stored for the forwarder, so a batch that is sent
//! again because its acknowledgement was lost is not stored again.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use super::node::{Fault, Node};
use super::senders::FileWriter;
use super::{ROUND_MS_MAX, ROUNDS_PER_WORLD, Rng, TORN_WRITE_IN, verdict};

/// Ports that a node can keep while it is down: below the kernel's ephemeral port range.
const LASTING_PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Milliseconds by which a round may be longer than `ROUND_MS_MAX`, so that events can be sent before a kill.
const LIFE_MS: u64 = 250;

/// File size limit, in blocks of 512 bytes, of a forwarder that is to die in a write.
const QUEUE_BLOCKS_MAX: u64 = 8;

/// A forwarder's data directory and the binary that runs it.
struct Forwarder {
    binary: PathBuf,
    data: PathBuf,
    log: PathBuf,
}

/// Kills a process when dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Killing fails if the process has ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Forwarder {
    fn prepare(binary: &Path, place: &Path, port: u16) -> Result<Forwarder, String> {
        let cannot = |error: std::io::Error| format!("cannot prepare {}: {error}", place.display());
        let data = place.join("edge");
        let local = data.join("etc/system/local");
        std::fs::create_dir_all(&local).map_err(cannot)?;
        let logs = place.join("lines");
        std::fs::create_dir_all(&logs).map_err(cannot)?;
        let inputs = format!("[monitor://{}/*.log*]\nsourcetype = soak_lines\n", logs.display());
        std::fs::write(local.join("inputs.conf"), inputs).map_err(cannot)?;
        let props = "[soak_lines]\nSHOULD_LINEMERGE = false\nDATETIME_CONFIG = CURRENT\n";
        std::fs::write(local.join("props.conf"), props).map_err(cannot)?;
        let outputs = format!(
            "[tcpout]\ndefaultGroup = node\nuseACK = true\nmaxQueueSize = 2MB\n[tcpout:node]\nserver = 127.0.0.1:{port}\n"
        );
        std::fs::write(local.join("outputs.conf"), outputs).map_err(cannot)?;
        Ok(Forwarder { binary: binary.to_owned(), data, log: place.join("edge.log") })
    }

    /// Starts the forwarder; with `blocks`, a write that would make a file larger kills it.
    fn start(&self, blocks: Option<u64>) -> Result<KillOnDrop, String> {
        if let Some(blocks) = blocks {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]).arg(&self.binary);
            // The log is not written to a file, because such a write could also exceed the limit.
            shell.arg("--data-dir").arg(&self.data).arg("forward").stdout(Stdio::null()).stderr(Stdio::null());
            return shell.spawn().map(KillOnDrop).map_err(|error| format!("cannot start the forwarder: {error}"));
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| format!("cannot write {}: {error}", self.log.display()))?;
        let mut command = Command::new(&self.binary);
        command.arg("--data-dir").arg(&self.data).arg("forward").stdout(Stdio::null()).stderr(log);
        command.spawn().map(KillOnDrop).map_err(|error| format!("cannot start the forwarder: {error}"))
    }
}

/// Finds a port for the node of one world (a data directory with its node and forwarder) that neither an outgoing
/// connection nor another world's node takes while this node is down.
fn lasting_port() -> Result<u16, String> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = LASTING_PORTS.end - LASTING_PORTS.start;
    // Other soak runs on this machine begin at other ports.
    let first = (std::process::id() % u32::from(count)) as u16;
    (0..count)
        .map(|_| LASTING_PORTS.start + (first + NEXT.fetch_add(1, Ordering::Relaxed) % count) % count)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or_else(|| format!("no free port between {} and {}", LASTING_PORTS.start, LASTING_PORTS.end))
}

/// Runs one world; returns the number of lines that arrived and the number of kills.
pub(super) fn one_world(binary: &Path, disk_fault: &Path, place: &Path, rng: &mut Rng) -> Result<(u64, u64), String> {
    let port = lasting_port()?;
    let node = Node::prepare(binary, disk_fault, place)?;
    node.add_inputs(&format!("[splunktcp://{port}]\nbindAddress = 127.0.0.1\n"))?;
    let forwarder = Forwarder::prepare(binary, place, port)?;
    let mut writer = FileWriter::new(&place.join("lines"))?;
    let (mut serving, mut sending) = (None, None);
    let (mut kills, mut is_limited) = (0, false);
    for _ in 0..ROUNDS_PER_WORLD {
        if serving.is_none() {
            serving = Some(node.start(&Fault::None)?);
        }
        if sending.is_none() {
            is_limited = rng.below(TORN_WRITE_IN) == 0;
            sending = Some(forwarder.start(is_limited.then(|| 1 + rng.below(QUEUE_BLOCKS_MAX)))?);
        }
        let over = AtomicBool::new(false);
        let lines = Rng(rng.next() | 1);
        std::thread::scope(|scope| {
            scope.spawn(|| writer.write(lines, &over));
            std::thread::park_timeout(Duration::from_millis(rng.below(ROUND_MS_MAX + LIFE_MS)));
            over.store(true, Ordering::SeqCst);
        });
        writer.fault()?;
        // A forwarder with a write limit has died or must be killed.
        let dies = rng.below(4) | if is_limited { 2 } else { 0 };
        kills += (dies & 1) + (dies >> 1);
        if dies & 1 == 1 {
            serving = None;
        }
        if dies & 2 == 2 {
            sending = None;
        }
    }
    if serving.is_none() {
        serving = Some(node.start(&Fault::None)?);
    }
    if sending.is_none() {
        sending = Some(forwarder.start(None)?);
    }
    let found = node.find_all(writer.lines())?;
    drop((serving, sending));
    verdict::check(&found, &[&writer.ledger])?;
    node.verify()?;
    Ok((writer.lines() as u64, kills))
}
