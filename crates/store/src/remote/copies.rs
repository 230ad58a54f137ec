//! The copies of a bucket, the keys of its objects on volumes, and the volume of each index.
//!
//! Not here: state transitions of a bucket.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use quarry_blob::{BlobError, BlobStore, BlockCache};
use quarry_bucket::ReadAt;
use quarry_catalog::{BucketRow, OtherCopy, RemoteCopy, RemoteState};

use crate::object_names::object_folder;
use crate::sealed_buckets::{LiveRow, WHOLE_FILTER_BYTES_MAX};
use crate::sync::lock;

/// Maximum number of distinct locations that buckets share in memory; beyond it, each bucket stores its location by
/// itself.
const SHARED_PLACES_MAX: usize = 65_536;
/// Placeholder for the index name in a path.
const INDEX_NAME_PLACEHOLDER: &str = "$_index_name";
/// The first read of a bucket object covers the end of the object. The read's length is the object's size divided by
/// this number: a little more than the metadata of all slabs takes.
const TAIL_DIVISOR: u64 = 240;
/// Minimum size of the first read of a bucket object, not counting its checksums: the 64 KiB that a reader of a bucket
/// reads first, and up to two checksum blocks that are read only in part.
const OBJECT_END_BYTES: u64 = 80 << 10;
/// The block checksums after an object take one byte for this many bytes of the object; the tags of an encrypted object
/// take as much again.
const SHARE_OF_SUMS: u64 = 1_024;
/// Catalog setting with the id that separates this data directory's objects from others on the same volume.
pub(crate) const STORE_ID_SETTING: &str = "store_id";
/// Catalog setting with the epoch of new uploads; see [`OwnFolder`].
pub(crate) const UPLOAD_EPOCH_SETTING: &str = "upload_epoch";

/// Remote volumes and their use.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The volumes of indexes.conf, by name.
    pub volumes: BTreeMap<String, Arc<dyn BlobStore>>,
    /// Default location of buckets; `None` for local only.
    pub default: Option<RemotePath>,
    /// Location of indexes with their own setting.
    pub of_index: BTreeMap<String, Option<RemotePath>>,
    /// Maximum bytes of local copies of uploaded buckets plus cached blocks.
    pub cache_bytes_max: u64,
    /// Bytes of disk space that local copies and cached blocks leave free, in addition to the store's reserve.
    pub eviction_padding: u64,
    /// Age in seconds of a bucket's newest event up to which its local copy counts as recent. Recent copies are evicted
    /// last.
    pub hotlist_recency_secs: u64,
    /// The same for indexes with their own setting.
    pub hotlist_of_index: BTreeMap<String, u64>,
    /// Maximum number of concurrent uploads.
    pub uploads_max: usize,
    /// Age in seconds, by the clock of the volume, at which an object that belongs to no bucket is deleted.
    pub orphan_grace_secs: u64,
    /// Id given to a data directory that has none yet: sixteen random hexadecimal digits.
    pub new_store_id: String,
}

/// A location on a volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemotePath {
    /// Name of the volume.
    pub volume: String,
    /// Path below the path of the volume; `$_index_name` stands for the index. Each part must be a valid object name.
    pub path: String,
}

impl RemotePath {
    /// Whether a folder of a volume is this location, not counting the epochs of uploads.
    pub(super) fn is_also(&self, volume: &str, folder: &str) -> bool {
        self.volume == volume && without_epoch(&self.path) == without_epoch(folder)
    }
}

fn without_epoch(folder: &str) -> &str {
    OwnFolder::of(folder).epoch.map_or(folder, |epoch| &folder[..folder.len() - epoch.len() - 1])
}

/// The last component of a folder with objects: `STORE` or `STORE-EPOCH`, where `STORE` is the id of the data
/// directory.
///
/// Before the objects of a live bucket are deleted, a new epoch of uploads begins, so that the bucket is never uploaded
/// again under the same keys: a request to delete may reach the store late, or twice, and must not delete objects that
/// were uploaded meanwhile. A rebuilt catalog begins a new epoch, too. There are few epochs, because such deletions occur
/// only in migrations and in sweeps after an older catalog was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnFolder<'a> {
    pub(super) store: &'a str,
    /// `None` for the uploads before the first epoch began.
    pub(super) epoch: Option<&'a str>,
}

impl<'a> OwnFolder<'a> {
    /// The last component of `folder`.
    pub(super) fn of(folder: &'a str) -> OwnFolder<'a> {
        let last = folder.rsplit('/').next().unwrap_or(folder);
        match last.split_once('-') {
            Some((store, epoch)) => OwnFolder { store, epoch: Some(epoch) },
            None => OwnFolder { store: last, epoch: None },
        }
    }

    /// The number of the epoch; 0 before the first one began.
    pub(super) fn epoch_number(&self) -> u64 {
        self.epoch.and_then(|epoch| u64::from_str_radix(epoch, 16).ok()).unwrap_or(0)
    }
}

/// The epoch with this number.
pub(super) fn epoch(number: u64) -> String {
    format!("{number:016x}")
}

impl fmt::Display for OwnFolder<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.store)?;
        self.epoch.map_or(Ok(()), |epoch| write!(out, "-{epoch}"))
    }
}

impl RemoteOptions {
    /// The location of an index's buckets, which ends with `own_folder`; `None` for local only.
    pub(crate) fn place_of(&self, index: &str, own_folder: &str) -> Option<RemotePath> {
        let own = self.of_index.get(index);
        let RemotePath { volume, path } = own.map_or(self.default.as_ref(), Option::as_ref)?;
        let path = path.replace(INDEX_NAME_PLACEHOLDER, &object_folder(index));
        let parts = path.split('/').filter(|part| !part.is_empty()).chain([own_folder]);
        Some(RemotePath { volume: volume.clone(), path: parts.collect::<Vec<_>>().join("/") })
    }
}

/// The copies of a live bucket, shared by all users of the bucket.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    known: Mutex<KnownCopies>,
    /// Sequence number of the bucket's last use, across all buckets.
    pub(crate) used: AtomicU64,
    /// Whether the local objects are being archived, so that they must not be evicted.
    is_archiving: AtomicBool,
}

/// The archiving of a bucket; dropped at its end.
pub(crate) struct Archiving<'a>(&'a Copies);

impl Drop for Archiving<'_> {
    fn drop(&mut self) {
        self.0.is_archiving.store(false, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct KnownCopies {
    remote: Option<KnownCopy>,
    /// The copy at a second location, while the bucket moves.
    other: Option<Box<OtherCopy>>,
    /// Totals of the store that include the bucket.
    counted: Counted,
}

/// Totals of a store that include a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The local copy may be evicted.
    pub(crate) evictable: bool,
    /// Both copies are complete.
    pub(crate) local: bool,
    /// The remote copy is complete.
    pub(crate) remote: bool,
    /// The objects at the previous location are to be deleted.
    pub(crate) leaving: bool,
    /// The local copy is being evicted or restored.
    pub(crate) evicting: bool,
}

/// A [`RemoteCopy`] in compact form.
#[derive(Debug)]
struct KnownCopy {
    place: Arc<RemotePath>,
    state: RemoteState,
    receipt: Option<u64>,
}

impl KnownCopy {
    fn new(copy: RemoteCopy) -> KnownCopy {
        let RemoteCopy { volume, folder, state, receipt } = copy;
        KnownCopy { place: shared_place(RemotePath { volume, path: folder }), state, receipt }
    }

    fn full(&self) -> RemoteCopy {
        let RemotePath { volume, path } = RemotePath::clone(&self.place);
        RemoteCopy { volume, folder: path, state: self.state, receipt: self.receipt }
    }
}

/// A shared instance of a location, because many buckets have the same location.
fn shared_place(place: RemotePath) -> Arc<RemotePath> {
    static PLACES: Mutex<BTreeSet<Arc<RemotePath>>> = Mutex::new(BTreeSet::new());
    let mut places = lock(&PLACES);
    if let Some(known) = places.get(&place) {
        return Arc::clone(known);
    }
    if places.len() >= SHARED_PLACES_MAX {
        places.retain(|place| Arc::strong_count(place) > 1);
    }
    let place = Arc::new(place);
    if places.len() < SHARED_PLACES_MAX {
        places.insert(Arc::clone(&place));
    }
    place
}

impl Copies {
    pub(crate) fn new(remote: Option<RemoteCopy>, other: Option<OtherCopy>) -> Arc<Copies> {
        let copies = Copies::default();
        copies.set(remote, other);
        Arc::new(copies)
    }

    pub(crate) fn remote(&self) -> Option<RemoteCopy> {
        lock(&self.known).remote.as_ref().map(KnownCopy::full)
    }

    pub(crate) fn other(&self) -> Option<OtherCopy> {
        lock(&self.known).other.as_deref().cloned()
    }

    /// Whether any objects of the bucket are, or may be, on a volume.
    pub(crate) fn is_anywhere_remote(&self) -> bool {
        let known = lock(&self.known);
        known.remote.is_some() || known.other.is_some()
    }

    /// Sets the copies to those in the catalog.
    pub(crate) fn set(&self, remote: Option<RemoteCopy>, other: Option<OtherCopy>) {
        let mut known = lock(&self.known);
        (known.remote, known.other) = (remote.map(KnownCopy::new), other.map(Box::new));
    }

    /// The totals that included the bucket so far, and those that include it from now on.
    pub(crate) fn recount(&self) -> (Counted, Counted) {
        let mut known = lock(&self.known);
        let (state, other) = (known.remote.as_ref().map(|copy| copy.state), known.other.as_deref());
        let local = state == Some(RemoteState::Uploaded);
        let now = Counted {
            // A bucket that moves to another volume is read from its local files.
            evictable: local && other.is_none_or(|other| other.is_obsolete),
            local,
            remote: state.is_some_and(RemoteState::is_remote_complete),
            leaving: other.is_some_and(|other| other.is_obsolete),
            evicting: state == Some(RemoteState::Evicting),
        };
        (std::mem::replace(&mut known.counted, now), now)
    }

    /// The totals that included the bucket so far; none includes it from now on.
    pub(crate) fn uncount(&self) -> Counted {
        std::mem::take(&mut lock(&self.known).counted)
    }

    pub(crate) fn state(&self) -> Option<RemoteState> {
        lock(&self.known).remote.as_ref().map(|copy| copy.state)
    }

    /// Whether the local objects are complete.
    pub(crate) fn is_local(&self) -> bool {
        self.state().is_none_or(RemoteState::is_local_complete)
    }

    /// Whether the local objects may be deleted, because the remote objects are complete and neither a move nor an
    /// archive program reads the local ones.
    pub(super) fn is_evictable(&self) -> bool {
        lock(&self.known).counted.evictable && !self.is_archiving()
    }

    pub(super) fn is_archiving(&self) -> bool {
        self.is_archiving.load(Ordering::Acquire)
    }

    /// Keeps the local objects from being evicted while they are archived. At most one thread archives a bucket.
    pub(crate) fn begin_archiving(&self) -> Archiving<'_> {
        self.is_archiving.store(true, Ordering::Release);
        Archiving(self)
    }
}

/// An object of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Object,
    Filter,
}

/// Bytes read from a filter's end in addition to checksums: the parameters of the slabs, and up to two checksum blocks
/// that are read only in part.
const FILTER_END_BYTES: u64 = 16 << 10;

impl ObjectKind {
    pub(crate) const ALL: [ObjectKind; 2] = [ObjectKind::Object, ObjectKind::Filter];

    /// Name of the object in the data directory.
    pub(crate) fn name(self, row: &LiveRow) -> Cow<'_, str> {
        match self {
            ObjectKind::Object => row.object(),
            ObjectKind::Filter => row.filter(),
        }
    }

    /// Size of the object in bytes.
    pub(crate) fn bytes(self, row: &LiveRow) -> u64 {
        match self {
            ObjectKind::Object => row.object_bytes,
            ObjectKind::Filter => row.filter_bytes,
        }
    }

    /// Estimated number of bytes at the end of the object that are needed when it is opened, and are therefore read
    /// first: the metadata of all slabs for a bucket object, the parameters of all slabs for a filter, and the block
    /// checksums after them. A small filter is read whole.
    pub(crate) fn tail_bytes(self, row: &LiveRow) -> u64 {
        match self {
            ObjectKind::Object => {
                let sums = row.object_bytes / SHARE_OF_SUMS;
                (row.object_bytes / TAIL_DIVISOR + sums / 2).max(OBJECT_END_BYTES + sums)
            }
            ObjectKind::Filter => {
                let whole = if row.filter_bytes <= WHOLE_FILTER_BYTES_MAX { row.filter_bytes } else { 0 };
                whole + 3 * row.filter_bytes / SHARE_OF_SUMS + FILTER_END_BYTES
            }
        }
    }

    /// Key of the object on a volume.
    pub(crate) fn key(self, row: &impl RemoteNames, folder: &str) -> String {
        format!("{folder}/{}.{}", stem(row), self.extension())
    }

    /// Extension of the object's key.
    pub(super) fn extension(self) -> &'static str {
        match self {
            ObjectKind::Object => "bucket",
            ObjectKind::Filter => "filter",
        }
    }
}

/// Name of a copy of a bucket on a volume: the volume and the prefix of the copy's keys.
pub(super) fn copy_name(volume: &str, folder: &str, stem: &str) -> String {
    format!("{volume}/{folder}/{stem}")
}

/// Prefix of the keys of a bucket's objects in their folder. It is derived from the catalog row, and is unique
/// because it includes a time: if an older catalog is restored, numbers may be reused.
pub(crate) fn stem(row: &impl RemoteNames) -> String {
    let (own, number, created) = row.name_parts();
    own.map_or_else(|| format!("{number:010}-{created:016x}"), str::to_owned)
}

/// A row with the names of a bucket's remote objects.
pub(crate) trait RemoteNames {
    /// The bucket's stem (`None` if it is derived from number and time); its number; the time of its seal or
    /// compaction.
    fn name_parts(&self) -> (Option<&str>, u64, i64);
}

impl RemoteNames for BucketRow {
    fn name_parts(&self) -> (Option<&str>, u64, i64) {
        (self.stem.as_deref(), self.number, self.created)
    }
}

impl RemoteNames for LiveRow {
    fn name_parts(&self) -> (Option<&str>, u64, i64) {
        (self.stem(), self.number, self.created)
    }
}

/// Key of a receipt with this number of deleted events.
pub(crate) fn receipt_key(row: &impl RemoteNames, folder: &str, deleted: u64) -> String {
    format!("{folder}/{}.{deleted:010}.{RECEIPT_EXTENSION}", stem(row))
}

/// Extension of receipts.
pub(super) const RECEIPT_EXTENSION: &str = "receipt";

#[derive(Clone)]
pub(crate) struct OpenObject {
    pub(crate) object: Arc<dyn ReadAt>,
    /// The same object; blocks read through this handle stay longer in the cache.
    pub(crate) lasting: Arc<dyn ReadAt>,
}

impl OpenObject {
    /// An object that is read without a cache.
    pub(crate) fn of(object: Arc<dyn ReadAt>) -> OpenObject {
        OpenObject { lasting: Arc::clone(&object), object }
    }
}

/// The volumes of a store and their block cache.
pub(crate) struct Remotes {
    volumes: BTreeMap<String, Arc<dyn BlobStore>>,
    pub(crate) cache: Option<Arc<BlockCache>>,
}

impl fmt::Debug for Remotes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Remotes").field("volumes", &self.volumes.keys()).finish_non_exhaustive()
    }
}

impl Remotes {
    /// No volumes.
    pub(crate) fn none() -> Remotes {
        Remotes { volumes: BTreeMap::new(), cache: None }
    }

    pub(crate) fn new(options: &RemoteOptions, cache: Arc<BlockCache>) -> Remotes {
        Remotes { volumes: options.volumes.clone(), cache: Some(cache) }
    }

    /// The blob store of a volume.
    pub(crate) fn volume(&self, name: &str) -> Result<&Arc<dyn BlobStore>, BlobError> {
        let reason =
            || format!("a bucket is on [volume:{name}], which indexes.conf does not define; put the stanza back");
        self.volumes.get(name).ok_or_else(|| BlobError::Settings { reason: reason() })
    }

    /// Opens an object of a bucket on its volume, through the cache.
    pub(crate) fn open(&self, row: &LiveRow, part: ObjectKind, copy: &RemoteCopy) -> Result<OpenObject, BlobError> {
        let key = part.key(row, &copy.folder);
        let volume = Arc::clone(self.volume(&copy.volume)?);
        let end_bytes = part.tail_bytes(row);
        match &self.cache {
            None => volume.open_with_tail(&key, end_bytes).map(OpenObject::of),
            Some(cache) => {
                let name = format!("{}/{key}", copy.volume);
                let open = Box::new(move |ranges: &[Range<u64>]| volume.open_and_read(&key, end_bytes, ranges));
                let object = cache.object(&name, part.bytes(row), open);
                Ok(OpenObject { lasting: Arc::new(object.lasting()), object: Arc::new(object) })
            }
        }
    }

    /// Deletes the objects of a bucket in a folder of a volume, and their cached blocks. The receipts, identified by
    /// their numbers of deleted events, are deleted first, because objects without a receipt do not count as a bucket.
    pub(crate) fn delete(&self, row: &LiveRow, place: &RemotePath, receipts: &[u64]) -> Result<(), BlobError> {
        let volume = self.volume(&place.volume)?;
        receipts.iter().try_for_each(|deleted| volume.delete(&receipt_key(row, &place.path, *deleted)))?;
        ObjectKind::ALL.into_iter().try_for_each(|part| {
            let key = part.key(row, &place.path);
            self.cache.iter().for_each(|cache| cache.remove_object(&format!("{}/{key}", place.volume)));
            volume.delete(&key)
        })
    }

    /// Stores the verified content of an object of a bucket, from an offset to its end, in the cache. The offset is a
    /// [`BlockCache::block_start`].
    pub(super) fn cache_object(
        &self,
        row: &LiveRow,
        (part, start): (ObjectKind, u64),
        copy: &RemoteCopy,
        content: &Bytes,
    ) {
        let name = format!("{}/{}", copy.volume, part.key(row, &copy.folder));
        self.cache.iter().for_each(|cache| cache.store_object(&name, start, content));
    }

    /// Drops the cached blocks of a bucket.
    pub(super) fn drop_blocks(&self, row: &LiveRow, copy: &RemoteCopy) {
        for part in ObjectKind::ALL {
            let name = format!("{}/{}", copy.volume, part.key(row, &copy.folder));
            self.cache.iter().for_each(|cache| cache.remove_object(&name));
        }
    }

    /// Names of the volumes.
    pub(super) fn volumes(&self) -> impl Iterator<Item = (&str, &Arc<dyn BlobStore>)> {
        self.volumes.iter().map(|(name, volume)| (name.as_str(), volume))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_has_its_own_folder_on_its_volume() {
        let path = |volume: &str, path: &str| Some(RemotePath { volume: volume.into(), path: path.into() });
        let options = RemoteOptions {
            volumes: BTreeMap::new(),
            default: path("cold", "$_index_name"),
            of_index: [("web".into(), path("hot", "/a/$_index_name/b/")), ("here".into(), None)].into(),
            cache_bytes_max: 0,
            eviction_padding: 0,
            hotlist_recency_secs: 0,
            hotlist_of_index: BTreeMap::new(),
            uploads_max: 1,
            orphan_grace_secs: 0,
            new_store_id: String::new(),
        };
        assert_eq!(options.place_of("main", "5eed"), path("cold", "main/5eed"));
        assert_eq!(options.place_of("web", "5eed"), path("hot", "a/web/b/5eed"));
        assert_eq!(options.place_of("here", "5eed"), None);
    }
}
