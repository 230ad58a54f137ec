//! How far a file has been read, known by its content and not by its name.
//!
//! A file is recognised by a hash of its first 256 bytes, as Splunk's CRC does, so that a rotated or copied file is
//! not read again. Files that share a head (a CSV with a long header line) are told apart by a hash of the last bytes
//! before the offset: they get different `variant`s of one identity. A file that was shorter than 256 bytes when it
//! was read is still recognised after it grew, because the length of the hashed head is kept.

use rusqlite::{Connection, params};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::{Catalog, CatalogError};

/// Bytes at the start of a file that identify it.
pub const HEAD_BYTES_MAX: usize = 256;
/// Bytes before an offset that prove a file is the one the offset belongs to.
pub const TAIL_BYTES_MAX: usize = 256;

/// Hash of a file's head and of a salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceIdentity(pub [u8; 16]);

impl SourceIdentity {
    /// Identity of a file that starts with `head` (only its first [`HEAD_BYTES_MAX`] bytes count). A salt, such as
    /// the path, tells files of the same content apart.
    pub fn of(head: &[u8], salt: &str) -> SourceIdentity {
        let head = &head[..head.len().min(HEAD_BYTES_MAX)];
        let mut hasher = Xxh3::new();
        hasher.update(&(head.len() as u32).to_le_bytes());
        hasher.update(head);
        hasher.update(salt.as_bytes());
        SourceIdentity(hasher.digest128().to_le_bytes())
    }
}

/// Hash of the last [`TAIL_BYTES_MAX`] bytes of what was read; `tail` may hold more.
pub fn tail_hash(tail: &[u8]) -> u64 {
    xxh3_64(&tail[tail.len().saturating_sub(TAIL_BYTES_MAX)..])
}

/// Names one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CheckpointKey {
    /// Content head.
    pub identity: SourceIdentity,
    /// Counts files that share the head.
    pub variant: u32,
}

/// How far a file has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheckpoint {
    /// Which file.
    pub key: CheckpointKey,
    /// Bytes that went into the identity: at most [`HEAD_BYTES_MAX`].
    pub head_bytes: u32,
    /// Bytes of the file (unpacked) whose events are stored.
    pub offset: u64,
    /// [`tail_hash`] of the bytes before `offset`.
    pub tail_hash: u64,
    /// Name of the file when it was last read; for people.
    pub source: String,
}

/// A checkpoint and the log record it came with; a newer record wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCheckpoint {
    /// The checkpoint.
    pub checkpoint: FileCheckpoint,
    /// Sequence number of its log record.
    pub lsn: u64,
}

impl Catalog {
    /// Checkpoints a file that starts with `head` may have: same head, whole or as far as it was when it was read.
    /// Whole heads come first; the caller compares tail hashes.
    pub fn checkpoints_of(&self, head: &[u8], salt: &str) -> Result<Vec<LoggedCheckpoint>, CatalogError> {
        self.act(|act| {
            let mut lengths = act.prepare_cached(
                "SELECT DISTINCT head_bytes FROM checkpoint WHERE head_bytes <= ?1 ORDER BY head_bytes DESC",
            )?;
            let lengths: Vec<usize> = lengths
                .query_map([head.len().min(HEAD_BYTES_MAX) as i64], |row| row.get::<_, u32>(0))?
                .map(|length| length.map(|length| length as usize))
                .collect::<Result<_, _>>()?;
            let mut found = Vec::new();
            for length in lengths {
                read_checkpoints(act, SourceIdentity::of(&head[..length], salt), &mut found)?;
            }
            Ok(found)
        })
    }
}

fn read_checkpoints(
    act: &Connection,
    identity: SourceIdentity,
    found: &mut Vec<LoggedCheckpoint>,
) -> rusqlite::Result<()> {
    let select = "SELECT variant, head_bytes, offset, tail_hash, source, lsn FROM checkpoint WHERE identity = ?1
        ORDER BY variant";
    let mut statement = act.prepare_cached(select)?;
    let rows = statement.query_map([identity.0.as_slice()], |row| {
        let checkpoint = FileCheckpoint {
            key: CheckpointKey { identity, variant: row.get(0)? },
            head_bytes: row.get(1)?,
            offset: row.get::<_, i64>(2)? as u64,
            tail_hash: row.get::<_, i64>(3)? as u64,
            source: row.get(4)?,
        };
        Ok(LoggedCheckpoint { checkpoint, lsn: row.get::<_, i64>(5)? as u64 })
    })?;
    for row in rows {
        found.push(row?);
    }
    Ok(())
}

/// Stores a checkpoint unless a newer one is there.
pub(crate) fn write_checkpoint(act: &Connection, logged: &LoggedCheckpoint) -> rusqlite::Result<()> {
    let upsert = "INSERT INTO checkpoint (identity, variant, head_bytes, offset, tail_hash, source, lsn)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (identity, variant) DO UPDATE SET head_bytes = excluded.head_bytes, offset = excluded.offset,
            tail_hash = excluded.tail_hash, source = excluded.source, lsn = excluded.lsn
        WHERE excluded.lsn > checkpoint.lsn";
    let checkpoint = &logged.checkpoint;
    act.prepare_cached(upsert)?
        .execute(params![
            checkpoint.key.identity.0.as_slice(),
            checkpoint.key.variant,
            checkpoint.head_bytes,
            checkpoint.offset as i64,
            checkpoint.tail_hash as i64,
            checkpoint.source,
            logged.lsn as i64,
        ])
        .map(drop)
}
