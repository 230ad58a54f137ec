//! Damage to the write-ahead log: the records that were lost, and the reports about them.
//!
//! A lost record may have held events of any input file, and a checkpoint in a later record would hide the gap.
//! Checkpoints from the first lost record on are therefore dropped, so that their files are read again from an earlier
//! position, at the price of duplicate events. The damaged segment is kept in the log's folder. Searches, `verify` and
//! messages report it until it is removed by hand.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use quarry_catalog::{Catalog, CheckpointKey, LoggedCheckpoint};

use crate::wal::DAMAGED_EXTENSION;
use crate::wal::mark::mark_path;
use crate::wal::read::list_damaged;
use crate::{Damage, StoreError};

/// Catalog setting with the number of the newest record whose checkpoint may have been dropped. Checkpoints in records
/// up to this record are ignored when checkpoints are restored.
const VOID_THROUGH_SETTING: &str = "log_checkpoints_void_through";
/// Prefix of catalog settings that describe a damaged segment.
const DAMAGE_PREFIX: &str = "log_damage ";

/// The first lost record, and the checkpoints before it.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    lost_from: Option<u64>,
    void_through: u64,
    before: BTreeMap<CheckpointKey, LoggedCheckpoint>,
}

impl Losses {
    pub(crate) fn new(catalog: &Catalog) -> Result<Losses, StoreError> {
        let void_through = catalog.setting(VOID_THROUGH_SETTING)?.and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Losses { void_through, ..Losses::default() })
    }

    /// Notes that records from `lsn` on are missing.
    pub(crate) fn record_loss(&mut self, lsn: u64) {
        self.lost_from.get_or_insert(lsn);
    }

    /// Adds a checkpoint of the log; returns whether it is valid, that is, whether no record before it was lost.
    pub(crate) fn add_checkpoint(&mut self, logged: &LoggedCheckpoint) -> bool {
        if self.lost_from.is_some() {
            return false;
        }
        if logged.lsn > self.void_through {
            self.before.insert(logged.checkpoint.key, logged.clone());
        }
        true
    }

    /// Whether any record was lost.
    pub(crate) fn has_losses(&self) -> bool {
        self.lost_from.is_some()
    }

    /// Makes the catalog drop the checkpoints that may hide the loss; `last_lsn` is the newest record of the log.
    pub(crate) fn commit(&self, catalog: &Catalog, last_lsn: u64) -> Result<(), StoreError> {
        let Some(from) = self.lost_from else { return Ok(()) };
        let before: Vec<LoggedCheckpoint> = self.before.values().cloned().collect();
        catalog.replace_lost_checkpoints(from, &before, last_lsn)?;
        Ok(catalog.set_setting(VOID_THROUGH_SETTING, &last_lsn.to_string())?)
    }
}

/// The reported damage to the segment at `path`.
pub(crate) fn describe(path: &Path, what: &str, lost: bool) -> Damage {
    let reason = match lost {
        true => format!(
            "{what}; events may be lost. Intact records are kept. Add the files of that time again: files stored \
             after the damage are read again from an earlier position, so some of their events are duplicated"
        ),
        false => format!("{what}; no event is missing"),
    };
    Damage::corrupt(segment_name(path), reason)
}

/// Damage report about records whose segment is missing.
pub(crate) fn describe_missing(path: &Path, from: u64, through: Option<u64>) -> Damage {
    let records = match through {
        Some(through) => format!("{} records from {from} on are", through.saturating_sub(from) + 1),
        None => format!("records from {from} on are"),
    };
    describe(path, &format!("log segment {} is missing or was cut; {records} missing", path.display()), true)
}

/// Damage report about the file with the number of the last durable record, without which it is unknown which records
/// were durable.
pub(crate) fn describe_mark(folder: &Path, fault: &str) -> Damage {
    let reason =
        format!("{fault}: it cannot be determined this time whether the newest records of the log are missing");
    Damage::corrupt(segment_name(&mark_path(folder)), reason)
}

/// Creates a file in place of a missing segment, so that the damage is reported until the file is removed.
pub(crate) fn create_placeholder(path: &Path, damage: &Damage) -> Result<(), StoreError> {
    let note = path.with_extension(DAMAGED_EXTENSION);
    let write = || -> std::io::Result<()> {
        fs::write(&note, &damage.reason)?;
        File::open(&note)?.sync_all()?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|error| StoreError::from_io("write", &note, &error))
}

/// Stores the description of a damaged segment, which is reported as long as the segment's file exists.
pub(crate) fn save_damage(catalog: &Catalog, damage: &Damage) -> Result<(), StoreError> {
    Ok(catalog.set_setting(&format!("{DAMAGE_PREFIX}{}", damage.bucket), &damage.reason)?)
}

/// The damaged segments that still exist.
pub(crate) fn load_damage(catalog: &Catalog, folder: &Path) -> Result<Vec<Damage>, StoreError> {
    let mut kept: BTreeMap<String, (PathBuf, String)> = BTreeMap::new();
    for path in list_damaged(folder)? {
        let name = segment_name(&path);
        let reason = catalog.setting(&format!("{DAMAGE_PREFIX}{name}"))?;
        let reason = reason.unwrap_or_else(|| "a damaged log segment; events may be lost".to_owned());
        kept.insert(name, (path, reason));
    }
    let told = |(bucket, (path, reason)): (String, (PathBuf, String))| {
        Damage::corrupt(bucket, format!("{reason}. Remove {} to end this report", path.display()))
    };
    Ok(kept.into_iter().map(told).collect())
}

/// Name of a segment in reports.
fn segment_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    format!("wal~{}", file.split('.').next().unwrap_or_default())
}
