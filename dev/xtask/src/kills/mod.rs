//! `cargo xtask soak`: a node is killed over and over while senders send; what they were told is stored is found once.
//!
//! A world is a data folder that lives through [`ROUNDS_PER_WORLD`] rounds. In a round the node starts, three senders
//! send (events with an answer when they are stored, events with an acknowledgment that is asked for, lines of a watched
//! file that is rotated), and after a while the node is killed, or dies in the middle of a write because its files may
//! grow no further. In the end everything is looked up: what was acknowledged is there exactly once, a line of the file
//! too; what was not may be missing, and may be there twice if its sender sent it again.
//!
//! Of some worlds a forwarder is part: [`forwarder`].
//!
//! Times differ from run to run, so that a seed gives what is done, not when.

mod forwarder;
mod node;
mod senders;
mod verdict;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::node::{Fault, Node};
use self::senders::{Acked, FileWriter, Plain};
use crate::root;

/// Rounds of CI.
pub(crate) const ROUNDS_OF_CI: u64 = 500;
/// Rounds if nobody says how many.
const ROUNDS: u64 = 10_000;
/// Rounds that one data folder lives through.
const ROUNDS_PER_WORLD: u64 = 20;
/// Worlds that live side by side.
const WORLDS_AT_ONCE: usize = 4;
/// Longest time between the start of the senders and the kill, in milliseconds.
const ROUND_MS_MAX: u64 = 60;
/// Of so many worlds one has a forwarder.
const FORWARDER_IN: u64 = 5;
/// Of so many rounds one ends in the middle of a write.
const TORN_WRITE_IN: u64 = 4;
/// Largest file, in blocks of 512 bytes, of a round that ends in a write.
const BLOCKS_MAX: u64 = 600;

/// `cargo xtask soak [--rounds N] [--seed S]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(at + 1).and_then(|text| text.parse::<u64>().ok()).ok_or(format!("{name} takes a number")))
    };
    let rounds = value("--rounds").transpose()?.unwrap_or(ROUNDS);
    let seed = value("--seed").transpose()?.unwrap_or(1);
    of_rounds(rounds, seed)
}

/// Runs so many rounds; the first fault ends it and leaves its data folder.
pub(crate) fn of_rounds(rounds: u64, seed: u64) -> Result<(), String> {
    let binary = binary()?;
    let folder = std::env::temp_dir().join(format!("quarry-soak-{}", std::process::id()));
    let worlds = rounds.div_ceil(ROUNDS_PER_WORLD);
    println!("==> soak: {rounds} kills over {worlds} data folders, seed {seed}");
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
                    let done = if world % FORWARDER_IN == FORWARDER_IN - 1 {
                        forwarded_world(&binary, &place, seed)
                    } else {
                        one_world(&binary, &place, rounds, seed)
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
    println!(
        "soak: {} kills, {} of them in a write; {} events acknowledged, {} lines watched, {} lines forwarded, all stored once; {} sent again",
        totals.kills, totals.torn_writes, totals.acknowledged, totals.lines, totals.forwarded, totals.repeated
    );
    Ok(())
}

/// A world with a forwarder.
fn forwarded_world(binary: &Path, place: &Path, seed: u64) -> Result<Totals, String> {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (forwarded, kills) = forwarder::one_world(binary, place, &mut chance)?;
    Ok(Totals { kills, forwarded, ..Totals::default() })
}

/// What was done.
#[derive(Default)]
struct Totals {
    kills: u64,
    torn_writes: u64,
    acknowledged: u64,
    lines: u64,
    /// Lines that came through a forwarder.
    forwarded: u64,
    repeated: u64,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.kills += other.kills;
        self.torn_writes += other.torn_writes;
        self.acknowledged += other.acknowledged;
        self.lines += other.lines;
        self.forwarded += other.forwarded;
        self.repeated += other.repeated;
    }
}

/// What is known of each event that a sender sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Times it was sent.
    times: u32,
    /// Whether the node said that it is stored.
    acknowledged: bool,
}

/// Events by their texts.
pub(crate) type Ledger = BTreeMap<String, Sent>;

fn one_world(binary: &Path, place: &Path, rounds: u64, seed: u64) -> Result<Totals, String> {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let node = Node::prepare(binary, place)?;
    let (mut plain, mut acked, mut writer) =
        (Plain::default(), Acked::default(), FileWriter::new(&place.join("logs"))?);
    let mut totals = Totals::default();
    for _ in 0..rounds {
        let fault = match chance.below(TORN_WRITE_IN) {
            0 => Fault::TornWrite { blocks: 8 + chance.below(BLOCKS_MAX) },
            _ => Fault::Kill { after: Duration::from_millis(chance.below(ROUND_MS_MAX)) },
        };
        totals.torn_writes += u64::from(matches!(fault, Fault::TornWrite { .. }));
        totals.kills += 1;
        let seeds = [chance.next(), chance.next(), chance.next()].map(Chance);
        let [plain_chance, acked_chance, writer_chance] = seeds;
        let running = node.start(&fault)?;
        let (hec, over) = (running.hec(), AtomicBool::new(false));
        let ended = std::thread::scope(|scope| {
            if let Some(hec) = &hec {
                scope.spawn(|| plain.send(hec, plain_chance, &over));
                scope.spawn(|| acked.send(hec, acked_chance, &over));
            }
            scope.spawn(|| writer.write(writer_chance, &over));
            let ended = running.end(&fault);
            over.store(true, Ordering::SeqCst);
            ended
        });
        ended?;
        writer.fault()?;
    }
    let running = node.start(&Fault::None)?;
    let found = node.find_all(writer.lines())?;
    drop(running);
    totals.lines = writer.lines() as u64;
    let ledgers = [&plain.ledger, &acked.ledger, &writer.ledger];
    for ledger in ledgers {
        totals.acknowledged += ledger.values().filter(|sent| sent.acknowledged).count() as u64;
        totals.repeated += ledger.values().filter(|sent| sent.times > 1).count() as u64;
    }
    totals.acknowledged -= totals.lines;
    verdict::check(&found, &ledgers)?;
    node.verify()?;
    Ok(totals)
}

/// Numbers that follow from a seed (xorshift).
pub(crate) struct Chance(u64);

impl Chance {
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

/// The release binary, which CI has built before.
fn binary() -> Result<PathBuf, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let binary = target.join("release/quarry");
    if binary.is_file() { Ok(binary) } else { Err(format!("{} is not there: make build", binary.display())) }
}
