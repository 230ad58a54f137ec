//! Checkpoints: how far each file has been read. A file is identified by its content, not its name.
//!
//! A file is identified by a hash of its first 256 bytes, like Splunk's CRC, so that a rotated or copied file is not
//! read again. Files with the same head (a CSV with a long header line) are distinguished by a hash of the last bytes
//! before the offset: they are different `variant`s of one identity. The length of the hashed head is stored, so that a
//! file shorter than 256 bytes is still recognised after it has grown.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quarry_stdx::number::u32_of;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::checksum::{RowChecksum, Table, check_row};
use crate::transaction::{CatalogTransaction, Row, StepResult, upsert, values};
use crate::{Catalog, CatalogError};

/// Maximum bytes at the start of a file that identify it.
pub const HEAD_BYTES_MAX: usize = 256;
/// Maximum number of bytes before an offset that are hashed to verify the file.
pub const TAIL_BYTES_MAX: usize = 256;

/// Hash of a file's head and a salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceIdentity(pub [u8; 16]);

impl SourceIdentity {
    /// Identity of a file that starts with `head` (only its first [`HEAD_BYTES_MAX`] bytes count). A salt, such as the
    /// path, distinguishes files with the same content.
    pub fn of(head: &[u8], salt: &str) -> SourceIdentity {
        let head = &head[..head.len().min(HEAD_BYTES_MAX)];
        let mut hasher = Xxh3::new();
        hasher.update(&u32_of(head.len()).to_le_bytes());
        hasher.update(head);
        hasher.update(salt.as_bytes());
        SourceIdentity(hasher.digest128().to_le_bytes())
    }
}

/// Hash of the last [`TAIL_BYTES_MAX`] bytes read; `tail` may be longer.
pub fn tail_hash(tail: &[u8]) -> u64 {
    xxh3_64(&tail[tail.len().saturating_sub(TAIL_BYTES_MAX)..])
}

/// Key of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckpointKey {
    /// Hash of the head of the content.
    pub identity: SourceIdentity,
    /// Number among the files with the same head.
    pub variant: u32,
}

/// Stored read position of a file. It contains only a hash of the file's first bytes; the corresponding `FilePosition`
/// of the crate `inputs` contains the bytes themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheckpoint {
    /// Identifies the file.
    pub key: CheckpointKey,
    /// Number of bytes hashed for the identity: at most [`HEAD_BYTES_MAX`].
    pub head_bytes: u32,
    /// Offset in the (decompressed) file up to which events are stored.
    pub offset: u64,
    /// [`tail_hash`] of the bytes before `offset`.
    pub tail_hash: u64,
    /// Name of the file when it was last read.
    pub source: String,
    /// Hashes of the bytes before smaller offsets; only the file reader interprets them.
    pub milestones: Vec<u32>,
}

/// A checkpoint and the number of the log record it came with; the checkpoint of a newer record wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCheckpoint {
    /// The read position.
    pub checkpoint: FileCheckpoint,
    /// Sequence number of its log record.
    pub lsn: u64,
}

/// The head lengths that occur in checkpoints: few, usually just 256. To find a file, only its prefixes of these
/// lengths are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLengths([bool; HEAD_BYTES_MAX + 1]);

impl Default for HeadLengths {
    fn default() -> HeadLengths {
        HeadLengths([false; HEAD_BYTES_MAX + 1])
    }
}

impl HeadLengths {
    /// Adds the length of a checkpoint's head.
    pub fn note(&mut self, checkpoint: &FileCheckpoint) {
        self.0[(checkpoint.head_bytes as usize).min(HEAD_BYTES_MAX)] = true;
    }

    /// Possible identities of a file that starts with `head`, longest head first.
    pub fn identities(&self, head: &[u8], salt: &str) -> Vec<SourceIdentity> {
        let lengths = (0..=head.len().min(HEAD_BYTES_MAX)).rev().filter(|length| self.0[*length]);
        lengths.map(|length| SourceIdentity::of(&head[..length], salt)).collect()
    }
}

impl Catalog {
    /// Candidate checkpoints of a file that starts with `head`, including those written while the file was shorter than
    /// `head`. Longest heads come first; the caller compares tail hashes.
    pub fn checkpoints_of(&self, head: &[u8], salt: &str) -> Result<Vec<LoggedCheckpoint>, CatalogError> {
        let known = self.known_identities(head, salt)?;
        if known.is_empty() {
            return Ok(Vec::new());
        }
        self.read(|act| {
            let mut found = Vec::new();
            for identity in &known {
                read_checkpoints(act, *identity, &mut found)?;
            }
            Ok(found)
        })
    }

    /// The identities with checkpoints that a file starting with `head` may have.
    fn known_identities(&self, head: &[u8], salt: &str) -> Result<Vec<SourceIdentity>, CatalogError> {
        let mut heads = self.heads.lock();
        if heads.is_none() || !self.heads.is_writer {
            *heads = Some(self.read(read_heads)?);
        }
        let Some(heads) = &*heads else { return Ok(Vec::new()) };
        let mut identities = heads.lengths.identities(head, salt);
        identities.retain(|identity| heads.identities.contains(identity));
        Ok(identities)
    }

    /// Adds the checkpoints of a transaction to the known ones. If the transaction failed, it may have been committed
    /// nevertheless, so all identities are read again on the next use.
    pub(crate) fn add_known(&self, written: &Result<(), CatalogError>, checkpoints: &[LoggedCheckpoint]) {
        let mut known = self.heads.lock();
        if written.is_err() {
            *known = None;
        } else if let Some(heads) = known.as_mut() {
            checkpoints.iter().for_each(|logged| heads.note(&logged.checkpoint));
        }
    }
}

/// The identities of all checkpoints, loaded on first use. Kept in memory because a file may match by any prefix up to
/// 256 bytes, and most files looked up are new. Takes 16 bytes for each file ever read; identities of removed files are
/// harmless.
#[derive(Debug)]
pub(crate) struct KnownHeads {
    /// Whether no other process writes, so that the set stays valid.
    is_writer: bool,
    heads: Mutex<Option<Heads>>,
}

#[derive(Debug, Default)]
struct Heads {
    identities: BTreeSet<SourceIdentity>,
    lengths: HeadLengths,
}

impl Heads {
    fn note(&mut self, checkpoint: &FileCheckpoint) {
        self.identities.insert(checkpoint.key.identity);
        self.lengths.note(checkpoint);
    }
}

impl KnownHeads {
    pub(crate) fn for_writer() -> KnownHeads {
        KnownHeads { is_writer: true, heads: Mutex::new(None) }
    }

    pub(crate) fn for_reader() -> KnownHeads {
        KnownHeads { is_writer: false, heads: Mutex::new(None) }
    }

    /// Locks the set. The lock is held while identities are loaded, so that no identity committed during the load is
    /// missed.
    fn lock(&self) -> MutexGuard<'_, Option<Heads>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_heads(act: &CatalogTransaction<'_>) -> StepResult<Heads> {
    let mut heads = Heads::default();
    act.for_each("SELECT DISTINCT identity, head_bytes FROM checkpoint", &[], &mut |mut row| {
        heads.identities.insert(SourceIdentity(row.take(0)?));
        heads.lengths.0[(row.take::<u32>(1)? as usize).min(HEAD_BYTES_MAX)] = true;
        Ok(())
    })?;
    Ok(heads)
}

// PostgreSQL reserves the word offset.
const COLUMNS: &str = "identity, variant, head_bytes, \"offset\", tail_hash, source, lsn, checksum, milestones";

impl LoggedCheckpoint {
    fn sum(&self) -> i64 {
        let checkpoint = &self.checkpoint;
        let sum = RowChecksum::of(Table::Checkpoint).bytes(&checkpoint.key.identity.0);
        let sum = sum.number(checkpoint.key.variant.into()).number(checkpoint.head_bytes.into());
        let sum = sum.number(checkpoint.offset.cast_signed()).number(checkpoint.tail_hash.cast_signed());
        let sum = sum.text(&checkpoint.source).number(self.lsn.cast_signed());
        // Rows of earlier versions have no milestones, and checksums without them.
        match &*checkpoint.milestones {
            [] => sum.finish(),
            milestones => sum.bytes(&to_bytes(milestones)).finish(),
        }
    }
}

fn to_bytes(milestones: &[u32]) -> Vec<u8> {
    milestones.iter().flat_map(|hash| hash.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<u32> {
    let (hashes, _) = bytes.as_chunks();
    hashes.iter().map(|hash| u32::from_le_bytes(*hash)).collect()
}

fn read_checkpoint(row: &mut Row) -> StepResult<(LoggedCheckpoint, i64)> {
    let checkpoint = FileCheckpoint {
        key: CheckpointKey { identity: SourceIdentity(row.take(0)?), variant: row.take(1)? },
        head_bytes: row.take(2)?,
        offset: row.unsigned(3)?,
        tail_hash: row.unsigned(4)?,
        source: row.take(5)?,
        milestones: from_bytes(&row.take::<Vec<u8>>(8)?),
    };
    let logged = LoggedCheckpoint { checkpoint, lsn: row.unsigned(6)? };
    let sum = logged.sum();
    check_row(Table::Checkpoint, &logged.checkpoint.source, row.take(7)?, sum)?;
    Ok((logged, sum))
}

fn read_checkpoints(
    act: &CatalogTransaction<'_>,
    identity: SourceIdentity,
    found: &mut Vec<LoggedCheckpoint>,
) -> StepResult<()> {
    let select = format!("SELECT {COLUMNS} FROM checkpoint WHERE identity = ?1 ORDER BY variant");
    found.extend(act.rows(&select, values![&identity.0[..]], |row| read_checkpoint(row).map(|(logged, _)| logged))?);
    Ok(())
}

/// Stores a checkpoint unless a newer one exists.
pub(crate) fn write_checkpoint(act: &CatalogTransaction<'_>, logged: &LoggedCheckpoint) -> StepResult<()> {
    let checkpoint = &logged.checkpoint;
    let (identity, variant) = (checkpoint.key.identity.0.as_slice(), checkpoint.key.variant);
    let select = format!("SELECT {COLUMNS} FROM checkpoint WHERE identity = ?1 AND variant = ?2");
    let known = act.row(&select, values![identity, variant], read_checkpoint)?;
    if known.as_ref().is_some_and(|(known, _)| known.lsn >= logged.lsn) {
        return Ok(());
    }
    let sum = logged.sum();
    let milestones = to_bytes(&checkpoint.milestones);
    let values = values![
        identity,
        variant,
        checkpoint.head_bytes,
        checkpoint.offset.cast_signed(),
        checkpoint.tail_hash.cast_signed(),
        &checkpoint.source,
        logged.lsn.cast_signed(),
        sum,
        &*milestones,
    ];
    act.execute(&upsert("checkpoint", COLUMNS, "identity, variant"), values)?;
    act.note_change(Table::Checkpoint, known.map_or(0, |(_, sum)| sum), sum);
    Ok(())
}

fn all_checkpoints(act: &CatalogTransaction<'_>, each: &mut dyn FnMut(LoggedCheckpoint, i64)) -> StepResult<()> {
    act.for_each(&format!("SELECT {COLUMNS} FROM checkpoint"), &[], &mut |mut row| {
        let (logged, sum) = read_checkpoint(&mut row)?;
        each(logged, sum);
        Ok(())
    })
}

pub(crate) fn sum_of_checkpoints(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let mut all = 0;
    all_checkpoints(act, &mut |_, sum| all ^= sum)?;
    Ok(all)
}

/// Adds checksums to the rows of an older catalog.
pub(crate) fn add_checkpoint_sums(act: &CatalogTransaction<'_>) -> StepResult<()> {
    let mut all = Vec::new();
    all_checkpoints(act, &mut |logged, sum| all.push((logged.checkpoint.key, sum)))?;
    all.iter().try_for_each(|(key, sum)| {
        let update = "UPDATE checkpoint SET checksum = ?3 WHERE identity = ?1 AND variant = ?2";
        act.execute(update, values![&key.identity.0[..], key.variant, *sum]).map(drop)
    })
}
