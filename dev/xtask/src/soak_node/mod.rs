//! `cargo xtask soak-node`: repeatedly kills a node and makes its disk fail while senders send; all acknowledged data
//! must be found exactly once.
//!
//! A world is a data directory that is used for [`ROUNDS_PER_WORLD`] rounds. In a round the node starts and four
//! senders send events: over HTTP with an answer when they are stored, over HTTP with acknowledgements that are polled
//! even after a kill, as packets of a forwarder with acknowledgements, and as lines of a watched file that is rotated.
//! At the same time, knowledge objects are changed ([`objects`]) and documents of the KV store are written
//! ([`documents`]). Then one of three things happens: the node is killed; or it dies in the middle of a write because
//! of a file size limit; or changes of its log, its objects or its catalog fail for a while with ENOSPC or EIO, after
//! which it is asked to stop, and killed if stopping takes too long. At the end all events are searched: acknowledged
//! events and lines of the file must be found exactly once; unacknowledged events may be missing. Events sent again on
//! their channel may be found twice if the disk failed to store the records of answers; otherwise, this may happen to
//! at most one request in 50 kills. Then bits are flipped in a copy of the data: [`damage`].
//!
//! Some worlds have other contents: a forwarder ([`forwarder`]), only watched files that are rotated in several ways
//! ([`watched_files`]), or buckets on remote volumes ([`volumes`]; with `--volumes`, all worlds are of this kind).
//!
//! Not here: generated searches (`soak-searches`). Timing differs from run to run, so a seed determines the actions but
//! not their times.

mod damage;
mod documents;
mod forwarder;
mod management;
mod node;
mod objects;
mod packets;
mod senders;
mod verdict;
mod volumes;
mod watched_files;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::documents::DocumentWriter;
use self::node::{DiskErrors, Fault, Node};
use self::objects::Editor;
use self::packets::Packets;
use self::senders::{AckSender, FileWriter, PlainSender};
use self::volumes::VolumeTotals;
use crate::root;

/// Number of rounds in CI.
pub(crate) const ROUNDS_OF_CI: u64 = 500;
/// Default number of rounds.
const ROUNDS: u64 = 10_000;
/// Rounds per data directory.
const ROUNDS_PER_WORLD: u64 = 20;
/// Worlds that run in parallel.
const WORLDS_AT_ONCE: usize = 4;
/// Maximum time between the start of the senders and the kill, in milliseconds.
const ROUND_MS_MAX: u64 = 60;
/// The same in worlds with many changes of objects in a round, because each change takes some milliseconds.
const LONG_ROUND_MS_MAX: u64 = 400;
/// Number of consecutive worlds of which one has only watched files, one has a forwarder, one has long rounds, and one
/// has remote volumes.
const SPECIAL_IN: u64 = 5;
/// Position of the world with remote volumes among [`SPECIAL_IN`] consecutive worlds.
const VOLUMES: u64 = 3;
/// Of the rounds without a failing disk, one in this many ends in the middle of a write.
const TORN_WRITE_IN: u64 = 4;
/// One round in this many has a failing disk.
const DISK_FAULT_IN: u64 = 3;
/// Parts of the paths of the files whose changes fail: the log, buckets (written when the node stops), the catalog, the
/// configuration, the KV store, the next acknowledgment id.
const FAILING: [&str; 6] =
    ["/data/wal/", "/data/db/", "/data/catalog.sqlite", "/data/etc/", "/data/kvstore/", "/data/hec/"];
/// One kill in this many may hit a server between the write that records an answer and the write that sends it, so that
/// the events of one request are stored twice. These writes follow each other directly, but a machine with more threads
/// than cores may run others between them.
const DOUBLED_KILL_IN: u64 = 50;
/// One in this many events that are sent again may be stored twice because the disk failed to store the records of
/// answers.
const DOUBLED_IN: u64 = 20;
/// ENOSPC and EIO.
const DISK_ERRORS: [i32; 2] = [28, 5];
/// Maximum number of file changes that succeed before the first failure, and maximum number of failing changes.
const PASSING_MAX: u64 = 40;
const FAILING_MAX: u64 = 12;
/// Maximum time in milliseconds that stopping may take before the node is killed.
const STOP_MS_MAX: u64 = 250;
/// File size limit, in blocks of 512 bytes, of a round that ends in the middle of a write.
const BLOCKS_MAX: u64 = 600;

/// `cargo xtask soak-node [--rounds N] [--seed S] [--volumes]`; with `--volumes`, all worlds are those of [`volumes`].
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(at + 1).and_then(|text| text.parse::<u64>().ok()).ok_or(format!("{name} takes a number")))
    };
    let rounds = value("--rounds").transpose()?.unwrap_or(ROUNDS);
    let seed = value("--seed").transpose()?.unwrap_or(1);
    let only_volumes = arguments.iter().any(|argument| argument == "--volumes");
    run_worlds(rounds, seed, only_volumes)
}

/// Runs the given number of rounds; the first fault stops the run and keeps its data directory.
pub(crate) fn run_rounds(rounds: u64, seed: u64) -> Result<(), String> {
    run_worlds(rounds, seed, false)
}

/// Like [`run_rounds`], with worlds on remote volumes only.
pub(crate) fn run_on_volumes(rounds: u64, seed: u64) -> Result<(), String> {
    run_worlds(rounds, seed, true)
}

fn run_worlds(rounds: u64, seed: u64, only_volumes: bool) -> Result<(), String> {
    let binary = binary()?;
    let folder = std::env::temp_dir().join(format!("quarry-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let disk_fault = node::build_disk_fault(&folder)?;
    let worlds = rounds.div_ceil(ROUNDS_PER_WORLD);
    println!("==> soak-node: {rounds} rounds over {worlds} data directories, seed {seed}");
    let next = Mutex::new(0..worlds);
    let failed: Mutex<Option<String>> = Mutex::default();
    let total: Mutex<Totals> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..WORLDS_AT_ONCE {
            scope.spawn(|| {
                while failed.lock().is_ok_and(|failed| failed.is_none()) {
                    let Some(world) = next.lock().ok().and_then(|mut next| next.next()) else { return };
                    let rounds = ROUNDS_PER_WORLD.min(rounds - world * ROUNDS_PER_WORLD);
                    let place = folder.join(world.to_string());
                    let seed = seed.wrapping_mul(1_000_003) + world;
                    let kind = if only_volumes { VOLUMES } else { world % SPECIAL_IN };
                    let done = match kind {
                        0 => watched_files::one_world(&binary, &disk_fault, &place, &mut Rng::new(seed)),
                        1 => forwarded_world(&binary, &disk_fault, &place, seed),
                        2 => one_world(&binary, &disk_fault, &place, (rounds, LONG_ROUND_MS_MAX), seed),
                        VOLUMES => world_on_volumes(&binary, &disk_fault, &place, rounds, seed),
                        _ => one_world(&binary, &disk_fault, &place, (rounds, ROUND_MS_MAX), seed),
                    };
                    match done {
                        Ok(totals) => total.lock().into_iter().for_each(|mut all| all.add(&totals)),
                        Err(fault) => {
                            let text = format!("{fault}\n  world {world} (seed {seed}) is left at {}", place.display());
                            if let Ok(mut failed) = failed.lock() {
                                failed.get_or_insert(text);
                            }
                            return;
                        }
                    }
                    drop(std::fs::remove_dir_all(&place));
                }
            });
        }
    });
    if let Some(fault) = failed.into_inner().unwrap_or_default() {
        return Err(fault);
    }
    drop(std::fs::remove_dir_all(&folder));
    let totals = total.into_inner().map_err(|_| "a thread of the soak failed")?;
    print(&totals);
    totals.volumes.check_coverage()?;
    let is_too_often = totals.doubled * DOUBLED_KILL_IN > totals.kills.max(DOUBLED_KILL_IN) * senders::EVENTS_MAX;
    if is_too_often || totals.doubled_unrecorded * DOUBLED_IN > totals.repeated {
        let (doubled, unrecorded, repeated) = (totals.doubled, totals.doubled_unrecorded, totals.repeated);
        return Err(format!(
            "too many of {repeated} events that were sent again are stored twice: {doubled} after a kill, and \
             {unrecorded} because the disk failed to record answers"
        ));
    }
    Ok(())
}

/// Prints the totals and the findings.
fn print(totals: &Totals) {
    println!(
        "soak-node: {} log rotations; {} lines, all stored once; of further lines that may have been truncated before \
         they were read, {} of {} stored, each once",
        totals.rotations, totals.rotated, totals.doubtful_found, totals.doubtful
    );
    println!(
        "soak-node: {} kills, {} of them in a write, {} after disk faults; {} events acknowledged ({} in packets), \
         {} lines watched, {} lines forwarded, all stored once; {} events sent again on a channel, {} of them stored twice, and \
         {} more because the disk failed to record their answers; {} bits flipped, {} of them reported, the others changed no \
         answer",
        totals.kills,
        totals.torn_writes,
        totals.disk_faults,
        totals.acknowledged,
        totals.packets,
        totals.lines,
        totals.forwarded,
        totals.repeated,
        totals.doubled,
        totals.doubled_unrecorded,
        totals.flips,
        totals.flips_reported
    );
    totals.volumes.print();
    println!(
        "soak-node: {} changes of objects and jobs and {} writes of documents were acknowledged, and each was found once",
        totals.changes, totals.documents
    );
}

/// A world with a forwarder.
fn forwarded_world(binary: &Path, disk_fault: &Path, place: &Path, seed: u64) -> Result<Totals, String> {
    let mut rng = Rng::new(seed);
    let (forwarded, kills) = forwarder::one_world(binary, disk_fault, place, &mut rng)?;
    Ok(Totals { kills, forwarded, ..Totals::default() })
}

/// A world with remote volumes.
fn world_on_volumes(binary: &Path, disk_fault: &Path, place: &Path, rounds: u64, seed: u64) -> Result<Totals, String> {
    let volumes = volumes::one_world(binary, disk_fault, place, rounds, seed)?.unwrap_or_default();
    Ok(Totals { volumes, ..Totals::default() })
}

/// Totals of the run.
#[derive(Default)]
struct Totals {
    volumes: VolumeTotals,
    kills: u64,
    torn_writes: u64,
    disk_faults: u64,
    acknowledged: u64,
    /// Number of acknowledged events that were sent in packets of a forwarder.
    packets: u64,
    lines: u64,
    /// Lines that arrived through a forwarder.
    forwarded: u64,
    repeated: u64,
    /// Events stored twice because they were sent again on a channel after a missing answer.
    doubled: u64,
    /// Events stored twice because the disk failed to store the records of answers.
    doubled_unrecorded: u64,
    flips: u64,
    flips_reported: u64,
    /// Acknowledged changes of objects and jobs.
    changes: u64,
    /// Answered writes of documents.
    documents: u64,
    /// Lines of watched files in [`watched_files`] that must be found.
    rotated: u64,
    rotations: u64,
    /// Lines that may have been truncated before they were read.
    doubtful: u64,
    doubtful_found: u64,
}

impl Totals {
    /// Counts a round that ended with this fault.
    fn note(&mut self, fault: &Fault) {
        self.torn_writes += u64::from(matches!(fault, Fault::TornWrite { .. }));
        self.disk_faults += u64::from(matches!(fault, Fault::Disk { .. }));
        self.kills += 1;
    }

    /// Counts the events that were stored twice in a world with these faults.
    fn count_doubled(&mut self, doubled: &[(&str, Sent)], faults: &[Fault]) {
        for (text, sent) in doubled {
            let between = faults_between(faults, sent.rounds);
            if between.iter().any(Fault::affects_records) {
                self.doubled_unrecorded += 1;
            } else {
                self.doubled += 1;
                println!("soak-node: stored twice: {} {between:?}", verdict::short(text));
            }
        }
    }

    fn add(&mut self, other: &Totals) {
        self.volumes.add(&other.volumes);
        self.kills += other.kills;
        self.torn_writes += other.torn_writes;
        self.disk_faults += other.disk_faults;
        self.acknowledged += other.acknowledged;
        self.packets += other.packets;
        self.lines += other.lines;
        self.forwarded += other.forwarded;
        self.repeated += other.repeated;
        self.doubled += other.doubled;
        self.doubled_unrecorded += other.doubled_unrecorded;
        self.flips += other.flips;
        self.flips_reported += other.flips_reported;
        self.changes += other.changes;
        self.documents += other.documents;
        self.rotated += other.rotated;
        self.rotations += other.rotations;
        self.doubtful += other.doubtful;
        self.doubtful_found += other.doubtful_found;
    }
}

/// History of an event that was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Number of times it was sent.
    times: u32,
    /// Rounds in which it was sent, one bit each.
    rounds: u32,
    /// Set if the node acknowledged the event.
    acknowledged: bool,
}

/// Events by their texts.
pub(crate) type Ledger = BTreeMap<String, Sent>;

fn one_world(
    binary: &Path,
    disk_fault: &Path,
    place: &Path,
    (rounds, round_ms): (u64, u64),
    seed: u64,
) -> Result<Totals, String> {
    let mut rng = Rng::new(seed);
    let node = Node::prepare(binary, disk_fault, place)?;
    let (mut plain, mut acked, mut packets) = (PlainSender::default(), AckSender::default(), Packets::default());
    let mut writer = FileWriter::new(&place.join("logs"))?;
    let (mut editor, mut documents) = (Editor::new(), DocumentWriter::default());
    let mut totals = Totals::default();
    let mut faults = Vec::new();
    for round in 0..rounds {
        let fault = draw_fault(&mut rng, round_ms);
        totals.note(&fault);
        let [plain_chance, acked_chance, writer_chance, packets_chance, editor_chance, documents_chance] =
            std::array::from_fn(|_| Rng(rng.next()));
        let running = node.start(&fault)?;
        let (hec, forwarders, over) = (running.hec(), running.packets(), AtomicBool::new(false));
        let management = running.management();
        let ended = std::thread::scope(|scope| {
            if let Some(hec) = &hec {
                scope.spawn(|| plain.send(hec, round, plain_chance, &over));
                scope.spawn(|| acked.send(hec, round, acked_chance, &over));
            }
            if let Some(address) = &forwarders {
                scope.spawn(|| packets.send(address, round, packets_chance, &over));
            }
            if let Some((address, token)) = &management {
                scope.spawn(|| editor.edit((address, token), editor_chance, &over, fault.leads_to_errors()));
                scope.spawn(|| documents.write((address, token), documents_chance, &over));
            }
            scope.spawn(|| writer.write(writer_chance, &over));
            let ended = running.end(&fault);
            over.store(true, Ordering::SeqCst);
            ended
        });
        ended?;
        faults.push(fault);
        writer.fault()?;
        editor.fault()?;
        documents.fault()?;
    }
    let running = node.start(&Fault::None)?;
    let (address, token) = running.management().ok_or("the node does not report its address")?;
    editor.check((&address, &token))?;
    documents.check((&address, &token))?;
    (totals.changes, totals.documents) = (editor.answered, documents.answered);
    let found = node.find_all(writer.lines())?;
    drop(running);
    totals.lines = writer.lines() as u64;
    let ledgers = [&plain.ledger, &acked.ledger, &packets.ledger, &writer.ledger];
    for ledger in ledgers {
        totals.acknowledged += ledger.values().filter(|sent| sent.acknowledged).count() as u64;
        totals.repeated += ledger.values().filter(|sent| sent.times > 1).count() as u64;
    }
    totals.acknowledged -= totals.lines;
    totals.packets = packets.ledger.values().filter(|sent| sent.acknowledged).count() as u64;
    verdict::check(&found, &ledgers)?;
    for ledger in [&plain.ledger, &acked.ledger] {
        totals.count_doubled(&verdict::doubled(&found, ledger), &faults);
    }
    node.check_log()?;
    node.verify()?;
    let flips = damage::check(&node, place, &found, &mut rng)?;
    (totals.flips, totals.flips_reported) = (flips.all, flips.reported);
    Ok(totals)
}

/// The faults of the rounds from the first to the last in which an event was sent, including both. Bit `n` of `rounds`
/// is set if the event was sent in round `n`.
fn faults_between(faults: &[Fault], rounds: u32) -> &[Fault] {
    let (first, end) = (rounds.trailing_zeros() as usize, (u32::BITS - rounds.leading_zeros()) as usize);
    faults.get(first..end.min(faults.len())).unwrap_or_default()
}

/// Draws the fault that ends a round.
fn draw_fault(rng: &mut Rng, round_ms: u64) -> Fault {
    if rng.below(DISK_FAULT_IN) == 0 {
        let errors = DiskErrors {
            path_part: FAILING[rng.below(FAILING.len() as u64) as usize],
            number: DISK_ERRORS[rng.below(DISK_ERRORS.len() as u64) as usize],
            after: rng.below(PASSING_MAX),
            count: 1 + rng.below(FAILING_MAX),
        };
        let stop_within = Some(Duration::from_millis(rng.below(STOP_MS_MAX))).filter(|_| rng.below(3) > 0);
        return Fault::Disk { errors, after: Duration::from_millis(rng.below(round_ms)), stop_within };
    }
    match rng.below(TORN_WRITE_IN) {
        0 => Fault::TornWrite { blocks: 8 + rng.below(BLOCKS_MAX) },
        _ => Fault::Kill { after: Duration::from_millis(rng.below(round_ms)) },
    }
}

/// Random numbers from a seed (xorshift).
pub(crate) struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// The release binary, which CI has built.
pub(crate) fn binary() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let binary = target.join("release/quarry");
    if binary.is_file() { Ok(binary) } else { Err(format!("{} does not exist: run `make build`", binary.display())) }
}
