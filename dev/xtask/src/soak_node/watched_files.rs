//! Soak test of watched files: logs are copied slowly and truncated, renamed and compressed in place, or just
//! truncated, while the node that watches them is killed.
//!
//! At the end every line must be found exactly once. The exceptions are lines written between the end of a copy and the
//! truncation of its origin, or to a log that is truncated without a copy: they may be lost before any reader can read
//! them, so they may be missing, but must not be found twice.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::node::{Fault, Node};
use super::senders::FileWriter;
use super::{Ledger, ROUND_MS_MAX, ROUNDS_PER_WORLD, Rng, Totals, draw_fault, verdict};

/// Maximum pause of a writer, in microseconds.
const PAUSE_US: u64 = 600;
/// One line in this many is followed by a rotation of the log, if the log has its minimum number of lines.
const ROTATE_IN: u64 = 60;
/// Minimum number of lines of a log before it is rotated: a copy of less than 4 KiB may be found too late to be
/// recognised.
const LINES_MIN: u64 = 30;
/// Maximum bytes copied, and maximum compressed bytes written, between two lines: few, so that a rotation takes long.
const COPIED_MAX: u64 = 1_500;
const PACKED_MAX: u64 = 60;
/// Maximum number of lines between the end of a copy and the truncation of its origin, and maximum pause after each of
/// them.
const DOUBTFUL_MAX: u64 = 4;
const DOUBTFUL_PAUSE_US: u64 = 8_000;
/// Maximum number of steps of a rotation.
const STEPS_MAX: usize = 100_000;
/// Time to wait after the last line is found, in which a file that is read again would be noticed. It is longer than
/// the time that a compressed file must be unchanged before it is read.
const QUIET_TIME: Duration = Duration::from_secs(8);

/// Method of rotating a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RotationMethod {
    /// Copied slowly, then truncated.
    Copied,
    /// Renamed and slowly compressed into another file, then removed.
    Packed,
    /// Truncated.
    Emptied,
}

/// A rotation in progress.
enum Rotation {
    Copy { copy: File, at: u64 },
    Pack { origin: PathBuf, packed: Vec<u8>, file: File, at: usize },
}

/// Writes a log.
struct RotatedLog {
    ledger: Ledger,
    folder: PathBuf,
    way: RotationMethod,
    log: Option<File>,
    lines: u64,
    rotations: u64,
    rotating: Option<Rotation>,
    fault: Option<String>,
}

impl RotatedLog {
    fn new(folder: &Path, way: RotationMethod) -> RotatedLog {
        let (ledger, folder) = (Ledger::new(), folder.to_owned());
        RotatedLog { ledger, folder, way, log: None, lines: 0, rotations: 0, rotating: None, fault: None }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{:?}.log{suffix}", self.way))
    }

    /// Writes until the round is over.
    fn write(&mut self, mut rng: Rng, over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) && self.fault.is_none() {
            if let Err(error) = self.step(&mut rng) {
                self.fault = Some(format!("cannot write a log that is {:?}: {error}", self.way));
            }
            std::thread::park_timeout(Duration::from_micros(rng.below(PAUSE_US)));
        }
    }

    /// Completes the rotation in progress.
    fn finish(&mut self, rng: &mut Rng) -> std::io::Result<()> {
        for _ in 0..STEPS_MAX {
            if self.rotating.is_none() {
                break;
            }
            self.advance(rng)?;
        }
        Ok(())
    }

    fn step(&mut self, rng: &mut Rng) -> std::io::Result<()> {
        self.line(self.way != RotationMethod::Emptied, rng)?;
        if self.rotating.is_some() {
            return self.advance(rng);
        }
        if self.lines < LINES_MIN || rng.below(ROTATE_IN) > 0 {
            return Ok(());
        }
        self.rotations += 1;
        let to = self.path(&format!(".{}", self.rotations));
        match self.way {
            RotationMethod::Emptied => self.empty()?,
            RotationMethod::Copied => self.rotating = Some(Rotation::Copy { copy: File::create(to)?, at: 0 }),
            RotationMethod::Packed => {
                std::fs::rename(self.path(""), &to)?;
                (self.log, self.lines) = (None, 0);
                let packed = Command::new("gzip").arg("-c").arg(&to).output()?;
                if !packed.status.success() {
                    return Err(std::io::Error::other(format!("gzip: {}", packed.status)));
                }
                let file = File::create(self.path(&format!(".{}.gz", self.rotations)))?;
                self.rotating = Some(Rotation::Pack { origin: to, packed: packed.stdout, file, at: 0 });
            }
        }
        Ok(())
    }

    /// Writes a line; if `is_certain` is false, a truncation may remove it before it is read.
    fn line(&mut self, is_certain: bool, rng: &mut Rng) -> std::io::Result<()> {
        if self.log.is_none() {
            self.log = Some(OpenOptions::new().create(true).append(true).open(self.path(""))?);
        }
        let kind = if is_certain { "file" } else { "doubtful" };
        let text = format!("{kind} {:?} {} {}", self.way, self.ledger.len(), "z".repeat(260 + rng.below(100) as usize));
        if let Some(log) = &mut self.log {
            // A line may be written in two parts.
            let cut = rng.below(text.len() as u64) as usize;
            log.write_all(&text.as_bytes()[..cut])?;
            log.write_all(&text.as_bytes()[cut..])?;
            log.write_all(b"\n")?;
        }
        let sent = self.ledger.entry(text).or_default();
        (sent.times, sent.acknowledged) = (1, is_certain);
        self.lines += 1;
        Ok(())
    }

    fn empty(&mut self) -> std::io::Result<()> {
        self.lines = 0;
        self.log.as_ref().map_or(Ok(()), |log| log.set_len(0))
    }

    /// Makes the next step of a rotation.
    fn advance(&mut self, rng: &mut Rng) -> std::io::Result<()> {
        match &mut self.rotating {
            None => {}
            Some(Rotation::Copy { copy, at }) => {
                let mut part = vec![0; 1 + rng.below(COPIED_MAX) as usize];
                let read = File::open(self.folder.join(format!("{:?}.log", self.way)))?.read_at(&mut part, *at)?;
                copy.write_all(&part[..read])?;
                *at += read as u64;
                if read == 0 {
                    self.rotating = None;
                    for _ in 0..rng.below(DOUBTFUL_MAX) {
                        self.line(false, rng)?;
                        std::thread::park_timeout(Duration::from_micros(rng.below(DOUBTFUL_PAUSE_US)));
                    }
                    self.empty()?;
                }
            }
            Some(Rotation::Pack { origin, packed, file, at }) => {
                let end = (*at + 1 + rng.below(PACKED_MAX) as usize).min(packed.len());
                file.write_all(&packed[*at..end])?;
                *at = end;
                if end == packed.len() {
                    std::fs::remove_file(origin)?;
                    self.rotating = None;
                }
            }
        }
        Ok(())
    }
}

/// Runs one world and reports the outcome.
pub(super) fn one_world(binary: &Path, disk_fault: &Path, place: &Path, rng: &mut Rng) -> Result<Totals, String> {
    let node = Node::prepare(binary, disk_fault, place)?;
    let logs = place.join("logs");
    let mut renamed = FileWriter::new(&logs)?;
    let mut rotated = [RotationMethod::Copied, RotationMethod::Packed, RotationMethod::Emptied]
        .map(|way| RotatedLog::new(&logs, way));
    let mut totals = Totals::default();
    for _ in 0..ROUNDS_PER_WORLD {
        let fault = draw_fault(rng, ROUND_MS_MAX);
        totals.note(&fault);
        let running = node.start(&fault)?;
        let over = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            let lines = Rng(rng.next() | 1);
            scope.spawn(|| renamed.write(lines, &over));
            for log in &mut rotated {
                let (lines, over) = (Rng(rng.next() | 1), &over);
                scope.spawn(move || log.write(lines, over));
            }
            let ended = running.end(&fault);
            over.store(true, Ordering::SeqCst);
            ended
        });
        ended?;
        renamed.fault()?;
        rotated.iter_mut().try_for_each(|log| log.fault.take().map_or(Ok(()), Err))?;
    }
    let running = node.start(&Fault::None)?;
    for log in &mut rotated {
        log.finish(rng).map_err(|error| format!("cannot end a rotation: {error}"))?;
    }
    let ledgers: Vec<&Ledger> = rotated.iter().map(|log| &log.ledger).chain([&renamed.ledger]).collect();
    let sent = || ledgers.iter().flat_map(|ledger| ledger.values());
    totals.rotated = sent().filter(|sent| sent.acknowledged).count() as u64;
    node.find_all(totals.rotated as usize)?;
    super::node::pause(QUIET_TIME);
    let found = node.find_all(totals.rotated as usize)?;
    drop(running);
    totals.doubtful = sent().filter(|sent| !sent.acknowledged).count() as u64;
    totals.doubtful_found = found.iter().filter(|text| text.starts_with("doubtful ")).count() as u64;
    totals.rotations = rotated.iter().map(|log| log.rotations).sum();
    verdict::check(&found, &ledgers)?;
    node.check_log()?;
    node.verify()?;
    Ok(totals)
}
