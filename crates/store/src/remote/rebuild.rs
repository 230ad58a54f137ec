//! Rebuilds a lost catalog from volumes alone, using the receipts next to the buckets ([`super::receipt`]).
//!
//! A listing finds the buckets. A bucket with a receipt is complete. It is restored with its index, its position in the
//! order of arrival and its deleted events, as a bucket that exists on its volume only. The inputs of merges may still
//! exist on the volume; the receipt of the resulting bucket names them, and they are retired. The catalog is built
//! under a temporary name and renamed at the end. The next rebuild continues an interrupted one.
//!
//! Data that existed only in the lost data directory is not restored: events that were not uploaded, and file
//! positions.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_blob::{BlobError, BlobStore};
use quarry_catalog::{BucketRow, BucketState, Catalog, FoundBucket, OtherCopy};
use quarry_stdx::number::usize_of;
use quarry_stdx::{ErrorKind, Fault, HasKind};

use super::copies::{ObjectKind, OwnFolder, RemotePath, STORE_ID_SETTING, UPLOAD_EPOCH_SETTING, epoch, stem};
use super::listing::{self, FoundObjects, StoreOnVolumes};
use super::receipt;
use crate::data_dir::DirLock;
use crate::object_names::object_stem;
use crate::{RemoteOptions, StoreError, StoreOptions, data_dir};

/// Maximum number of receipts read concurrently, and of buckets per transaction.
const CONCURRENT_READS_MAX: usize = 32;
const TRANSACTION_BUCKETS_MAX: usize = 512;
/// Extension of the temporary catalog file.
const UNFINISHED_EXTENSION: &str = "rebuilding";

/// Result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuildResult {
    /// Number of live buckets in the catalog.
    pub buckets: u64,
    /// Number of events in these buckets, without deleted ones.
    pub events: u64,
    /// Number of buckets whose events are in merged buckets, and whose objects will be deleted.
    pub replaced: u64,
    /// Buckets that could not be restored: volume and key of the receipt, with the reason.
    pub refused: Vec<(String, Fault)>,
}

/// Ids of the data directories that have buckets on the volumes.
pub fn stores_on_volumes(options: &RemoteOptions) -> Result<Vec<StoreOnVolumes>, StoreError> {
    let mut known = Vec::new();
    for (name, volume) in &options.volumes {
        StoreOnVolumes::add_from(&mut known, name, &**volume)?;
    }
    known.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(known)
}

/// Builds the catalog of a data directory that has no catalog and no events, from the objects of the lost data
/// directory `store_id` on the volumes. `now_ns` is the present time.
pub fn rebuild_catalog(options: &StoreOptions, store_id: &str, now_ns: i64) -> Result<RebuildResult, StoreError> {
    let Some(remote) = &options.remote else { return Err(StoreError::NoVolumes) };
    let dir = &options.dir;
    let _lock = DirLock::exclusive(dir)?;
    data_dir::check_empty(dir)?;
    let path = data_dir::catalog(dir).with_added_extension(UNFINISHED_EXTENSION);
    let catalog = begin(&path, store_id)?;
    let mut rebuild = Rebuild {
        catalog: &catalog,
        store_id,
        later: BTreeMap::new(),
        last_epoch: 0,
        rebuilt: RebuildResult::default(),
    };
    for (name, volume) in &remote.volumes {
        rebuild.add_from(name, volume)?;
    }
    rebuild.add_deferred()?;
    // Requests of the lost machine may still delete objects at the earlier locations of a bucket. The bucket moved to its
    // present location in the same epoch or in a later one, so the next epoch excludes all its earlier keys. All objects
    // of the last epoch may be deleted already, so that no key names it; the time makes the epoch unique nevertheless.
    let next_epoch = u64::try_from(now_ns).unwrap_or(0).max(rebuild.last_epoch.saturating_add(1));
    catalog.set_setting(UPLOAD_EPOCH_SETTING, &epoch(next_epoch))?;
    let mut rebuilt = rebuild.rebuilt;
    rebuilt.replaced = catalog.end_rebuild(&stem)?;
    let deletions: u64 = deleted_events(&catalog)?;
    for row in catalog.buckets(BucketState::Live)? {
        rebuilt.buckets += 1;
        rebuilt.events += row.events;
    }
    rebuilt.events = rebuilt.events.saturating_sub(deletions);
    catalog.close()?;
    let to = data_dir::catalog(dir);
    let renamed = fs::rename(&path, &to).and_then(|()| File::open(dir)?.sync_all());
    renamed.map_err(|error| StoreError::from_io("rename", &path, &error))?;
    Ok(rebuilt)
}

/// Opens the unfinished catalog; it has the results of an earlier attempt if there was one.
fn begin(path: &Path, store_id: &str) -> Result<Catalog, StoreError> {
    if let Ok(catalog) = Catalog::open(path)
        && catalog.setting(STORE_ID_SETTING)?.as_deref().is_none_or(|known| known == store_id)
    {
        catalog.set_setting(STORE_ID_SETTING, store_id)?;
        return Ok(catalog);
    }
    // The unfinished catalog belongs to another directory or is damaged. It can be deleted, because everything in it is
    // also on the volumes.
    let files: [PathBuf; 3] = ["", "-wal", "-shm"].map(|ending| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        name.into()
    });
    files.iter().for_each(|file| drop(fs::remove_file(file)));
    let catalog = Catalog::open(path)?;
    catalog.set_setting(STORE_ID_SETTING, store_id)?;
    Ok(catalog)
}

/// Number of deleted events of live buckets.
fn deleted_events(catalog: &Catalog) -> Result<u64, StoreError> {
    let mut deleted = 0;
    for row in catalog.deletions()? {
        let is_live = catalog.bucket(row.bucket)?.is_some_and(|bucket| bucket.state == BucketState::Live);
        deleted += crate::deletion::RowSet::decode(&row.rows).filter(|_| is_live).map_or(0, |rows| rows.len());
    }
    Ok(deleted)
}

struct Rebuild<'a> {
    catalog: &'a Catalog,
    store_id: &'a str,
    /// Buckets whose number is taken by another bucket, by the stem of their object names.
    later: BTreeMap<String, FoundBucket>,
    /// The last epoch of uploads that the keys of the data directory name; 0 without any.
    last_epoch: u64,
    rebuilt: RebuildResult,
}

/// A bucket whose receipt is to be read.
struct PendingReceipt {
    place: RemotePath,
    deleted: u64,
    key: String,
    /// The objects of the bucket.
    found: FoundObjects,
}

impl Rebuild<'_> {
    fn add_from(&mut self, name: &str, volume: &Arc<dyn BlobStore>) -> Result<(), StoreError> {
        let (mut wanted, mut failed) = (Vec::new(), None);
        listing::for_each(&**volume, &mut |found| {
            if found.store != self.store_id || failed.is_some() {
                return;
            }
            self.last_epoch = self.last_epoch.max(OwnFolder::of(&found.folder).epoch_number());
            match self.find_receipt(name, &found) {
                Ok(more) => wanted.extend(more),
                Err(error) => failed = Some(error),
            }
            if failed.is_none() && wanted.len() >= TRANSACTION_BUCKETS_MAX {
                failed = self.add(volume, std::mem::take(&mut wanted)).err();
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        self.add(volume, wanted)
    }

    /// The receipt to read for a bucket that was found; `None` if the bucket is known or incomplete.
    fn find_receipt(&self, volume: &str, found: &FoundObjects) -> Result<Option<PendingReceipt>, StoreError> {
        let (Some((deleted, key)), Some((number, _))) = (found.receipt(), found.number_and_time()) else {
            return Ok(None);
        };
        if !found.is_complete() {
            return Ok(None);
        }
        let known = self.catalog.bucket(number)?.filter(|row| stem(row) == found.stem);
        let is_known = known.is_some_and(|row| {
            row.remote.is_some_and(|copy| copy.volume == volume && copy.folder == found.folder)
                || row.other.is_some_and(|other| other.volume == volume && other.folder == found.folder)
        });
        if is_known || self.catalog.bucket_with_stem(&found.stem)?.is_some() {
            return Ok(None);
        }
        let place = RemotePath { volume: volume.to_owned(), path: found.folder.clone() };
        Ok(Some(PendingReceipt { place, deleted, key: key.to_owned(), found: found.clone() }))
    }

    /// Reads receipts and adds their buckets.
    fn add(&mut self, volume: &Arc<dyn BlobStore>, wanted: Vec<PendingReceipt>) -> Result<(), StoreError> {
        let mut buckets: Vec<FoundBucket> = Vec::new();
        for (wanted, read) in wanted.iter().zip(self.read(&**volume, &wanted)?) {
            match read {
                Ok(found) => self.add_or_defer(found, &mut buckets)?,
                Err(fault) => self.rebuilt.refused.push((format!("{}: {}", wanted.place.volume, wanted.key), fault)),
            }
        }
        Ok(self.catalog.add_found(&buckets)?)
    }

    /// Reads receipts concurrently. An unavailable volume ends the rebuild; a receipt that is damaged, or was deleted
    /// after the listing, only causes its bucket to be refused.
    fn read(
        &self,
        volume: &dyn BlobStore,
        wanted: &[PendingReceipt],
    ) -> Result<Vec<Result<FoundBucket, Fault>>, StoreError> {
        let next = AtomicUsize::new(0);
        let some = || {
            let mut read = Vec::new();
            while let Some(wanted) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                read.push((wanted.key.clone(), self.read_one(volume, wanted)));
            }
            read
        };
        let mut read: BTreeMap<String, Result<Result<FoundBucket, Fault>, BlobError>> = BTreeMap::new();
        std::thread::scope(|scope| {
            let start =
                |_| std::thread::Builder::new().name("quarry-receipts".to_owned()).spawn_scoped(scope, some).ok();
            // If a thread cannot be started, the other threads do its work.
            let threads: Vec<_> = (1..CONCURRENT_READS_MAX.min(wanted.len())).filter_map(start).collect();
            read.extend(some());
            threads.into_iter().for_each(|thread| read.extend(thread.join().unwrap_or_default()));
        });
        let lost = || Ok(Err(Fault::bug("its receipt was not read")));
        wanted.iter().map(|wanted| Ok(read.remove(&wanted.key).unwrap_or_else(lost)?)).collect()
    }

    fn read_one(
        &self,
        volume: &dyn BlobStore,
        wanted: &PendingReceipt,
    ) -> Result<Result<FoundBucket, Fault>, BlobError> {
        let object = match volume.open(&wanted.key) {
            Ok(object) => object,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {
                return Ok(Err(Fault::corrupt(error.to_string())));
            }
            Err(error) => return Err(error),
        };
        if object.len() > receipt::BYTES_MAX {
            return Ok(Err(Fault::corrupt(format!("its receipt has {} bytes", object.len()))));
        }
        let bytes = match object.read_at(0, usize_of(object.len())) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(Err(error.into())),
            Err(error) => return Err(BlobError::Read { name: wanted.key.clone(), part: "the content", error }),
        };
        let found = receipt::decode(&bytes, self.store_id, &wanted.place, wanted.deleted);
        Ok(found.and_then(|bucket| {
            let bytes_of = |part| match part {
                ObjectKind::Object => bucket.row.object_bytes,
                ObjectKind::Filter => bucket.row.filter_bytes,
            };
            match wanted.found.find_truncated(bytes_of) {
                None => Ok(bucket),
                Some((key, bytes)) => Err(Fault::corrupt(format!(
                    "{key} has only {bytes} bytes: it may be an interrupted copy; restore it and rebuild again"
                ))),
            }
        }))
    }

    /// Adds a bucket if its number is free; otherwise defers it. If a bucket is found at a second location, because of an
    /// interrupted move between volumes, the copy whose receipt lists more deleted events is restored, and the other is
    /// recorded to be deleted.
    fn add_or_defer(&mut self, mut found: FoundBucket, buckets: &mut Vec<FoundBucket>) -> Result<(), StoreError> {
        let same_number = buckets.iter().position(|other| other.row.number == found.row.number);
        let known = match same_number {
            Some(at) => Some(buckets[at].row.clone()),
            None => self.catalog.bucket(found.row.number)?,
        };
        let Some(mut known) = known else {
            buckets.push(found);
            return Ok(());
        };
        if stem(&known) != stem(&found.row) {
            self.later.insert(stem(&found.row), found);
            return Ok(());
        }
        let receipt_of = |row: &BucketRow| row.remote.as_ref().and_then(|copy| copy.receipt);
        let is_newer = receipt_of(&found.row) > receipt_of(&known);
        if is_newer {
            std::mem::swap(&mut known.remote, &mut found.row.remote);
        }
        let deleted = found.deleted.filter(|_| is_newer);
        if let Some(copy) = found.row.remote {
            known.other = Some(OtherCopy { volume: copy.volume, folder: copy.folder, is_obsolete: true });
        }
        match same_number {
            Some(at) => {
                buckets[at].row = known;
                buckets[at].deleted = deleted.or(buckets[at].deleted.take());
            }
            None => buckets.push(FoundBucket { row: known, deleted, replaces: Vec::new() }),
        }
        Ok(())
    }

    /// Adds the buckets whose numbers were taken, under new numbers.
    fn add_deferred(&mut self) -> Result<(), StoreError> {
        let mut number = self.catalog.bucket_number_max()?;
        let mut buckets = Vec::new();
        for (known_stem, mut found) in std::mem::take(&mut self.later) {
            number += 1;
            let row = &mut found.row;
            if row.origins.is_empty() {
                row.origins.push(quarry_catalog::Origin { first_row: 0, number: row.number });
            }
            let local = object_stem(&row.index, number);
            (row.number, row.level, row.stem) = (number, row.level.max(1), Some(known_stem));
            (row.object, row.filter) = (format!("{local}.bucket"), format!("{local}.filter"));
            buckets.push(found);
        }
        Ok(self.catalog.add_found(&buckets)?)
    }
}
