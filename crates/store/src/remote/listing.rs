//! Finds the buckets on a volume by a listing: groups objects by bucket and by the data directory that stored them.
//!
//! A key is `PATH/STORE/NUMBER-TIME.ENDING` or `PATH/STORE-EPOCH/NUMBER-TIME.ENDING`, where `STORE` is the id of the data
//! directory and `EPOCH` the epoch in which the bucket was uploaded. The objects of a bucket are adjacent in a listing.

use std::collections::BTreeSet;

use quarry_blob::{BlobError, BlobStore, ListedObject};

use super::copies::{ObjectKind, OwnFolder, RECEIPT_EXTENSION, copy_name};

/// Number of digits of a data directory's id, and of an epoch of uploads.
const ID_DIGITS: usize = 16;

/// Objects whose keys name the same bucket at the same location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundObjects {
    /// Id of the data directory.
    pub(super) store: String,
    /// Folder on the volume, ending with the id of the data directory and the epoch of the upload.
    pub(super) folder: String,
    /// Common prefix of the objects' names in the folder.
    pub(super) stem: String,
    pub(super) objects: Vec<FoundObject>,
}

/// One object of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundObject {
    pub(super) key: String,
    pub(super) kind: FoundKind,
    pub(super) modified_ns: i64,
    /// Stored size; `None` if the volume does not report it.
    pub(super) bytes: Option<u64>,
}

/// Kind of an object of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundKind {
    Part(ObjectKind),
    /// A receipt that lists this number of deleted events.
    Receipt(u64),
}

impl FoundObjects {
    /// Whether all objects and a receipt exist.
    pub(super) fn is_complete(&self) -> bool {
        let has = |part| self.objects.iter().any(|object| object.kind == FoundKind::Part(part));
        ObjectKind::ALL.into_iter().all(has) && self.receipt().is_some()
    }

    /// Name of the copy on this volume.
    pub(super) fn copy_name(&self, volume: &str) -> String {
        copy_name(volume, &self.folder, &self.stem)
    }

    /// An object that is smaller than `bytes_of` its kind, as after an interrupted copy of the volume: its key and its
    /// size.
    pub(super) fn find_truncated(&self, bytes_of: impl Fn(ObjectKind) -> u64) -> Option<(&str, u64)> {
        self.objects.iter().find_map(|object| match object.kind {
            FoundKind::Part(part) => {
                object.bytes.filter(|bytes| *bytes < bytes_of(part)).map(|bytes| (object.key.as_str(), bytes))
            }
            FoundKind::Receipt(_) => None,
        })
    }

    /// The current receipt: the one with the most deleted events.
    pub(super) fn receipt(&self) -> Option<(u64, &str)> {
        let receipts = self.objects.iter().filter_map(|object| match object.kind {
            FoundKind::Receipt(deleted) => Some((deleted, object.key.as_str())),
            FoundKind::Part(_) => None,
        });
        receipts.max_by_key(|(deleted, _)| *deleted)
    }

    /// Number and time of the bucket, read from the stem.
    pub(super) fn number_and_time(&self) -> Option<(u64, i64)> {
        parse_stem(&self.stem)
    }
}

fn parse_stem(stem: &str) -> Option<(u64, i64)> {
    let (number, time) = stem.split_once('-')?;
    let is_plain = number.len() >= 10 && number.bytes().all(|byte| byte.is_ascii_digit()) && time.len() == 16;
    let time = u64::from_str_radix(time, 16).ok()?.cast_signed();
    is_plain.then(|| Some((number.parse().ok()?, time)))?
}

/// The object and bucket of a key; `None` if the key belongs to something else.
fn parse(listed: ListedObject) -> Option<FoundObjects> {
    let (folder, file) = listed.name.rsplit_once('/')?;
    let OwnFolder { store, epoch } = OwnFolder::of(folder);
    let is_id = |id: &str| id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (stem, ending) = file.split_once('.')?;
    parse_stem(stem).filter(|_| is_id(store) && epoch.is_none_or(is_id))?;
    let kind = match ending.split_once('.') {
        None => FoundKind::Part(ObjectKind::ALL.into_iter().find(|part| part.extension() == ending)?),
        Some((deleted, RECEIPT_EXTENSION)) => FoundKind::Receipt(deleted.parse().ok()?),
        Some(_) => return None,
    };
    let (store, folder, stem) = (store.to_owned(), folder.to_owned(), stem.to_owned());
    // A volume that reports no times reports no sizes either.
    let bytes = Some(listed.bytes).filter(|bytes| *bytes > 0 || listed.modified_ns != 0);
    let objects = vec![FoundObject { kind, modified_ns: listed.modified_ns, key: listed.name, bytes }];
    Some(FoundObjects { store, folder, stem, objects })
}

/// Passes the buckets found on a volume to `visit`, one at a time.
pub(super) fn for_each(volume: &dyn BlobStore, visit: &mut dyn FnMut(FoundObjects)) -> Result<(), BlobError> {
    let mut last: Option<FoundObjects> = None;
    volume.list_each(&mut |listed| {
        let Some(mut found) = parse(listed) else { return };
        match &mut last {
            Some(last) if last.folder == found.folder && last.stem == found.stem => {
                last.objects.append(&mut found.objects);
            }
            last => last.replace(found).into_iter().for_each(&mut *visit),
        }
    })?;
    last.into_iter().for_each(visit);
    Ok(())
}

/// A data directory that has buckets on volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOnVolumes {
    /// Id of the data directory.
    pub id: String,
    /// Number of buckets whose objects and receipt exist.
    pub buckets: u64,
    /// Time of the newest of these buckets, by the clock of its volume.
    pub newest_ns: i64,
    /// Names of the volumes and folders with its buckets; the ids and epochs in the names of folders are omitted.
    pub places: BTreeSet<String>,
}

impl StoreOnVolumes {
    /// Adds the data directories with complete buckets on a volume to `known`.
    pub(super) fn add_from(
        known: &mut Vec<StoreOnVolumes>,
        volume_name: &str,
        volume: &dyn BlobStore,
    ) -> Result<(), BlobError> {
        for_each(volume, &mut |found| {
            if !found.is_complete() {
                return;
            }
            let at = known.iter().position(|store| store.id == found.store).unwrap_or_else(|| {
                let store =
                    StoreOnVolumes { id: found.store.clone(), buckets: 0, newest_ns: 0, places: BTreeSet::new() };
                known.push(store);
                known.len() - 1
            });
            let store = &mut known[at];
            store.buckets += 1;
            let times = found.objects.iter().map(|object| object.modified_ns);
            store.newest_ns = times.max().unwrap_or(0).max(store.newest_ns);
            let above = found.folder.rsplit_once('/').map_or("", |(above, _)| above);
            store.places.insert(format!("{volume_name}/{above}"));
        })
    }
}

#[cfg(test)]
mod tests {
    use quarry_blob::MemoryBlobStore;

    use super::*;

    #[test]
    fn bucket_objects_are_grouped_and_other_objects_ignored() {
        let volume = MemoryBlobStore::default();
        let names = [
            "a/00000000000005ee/0000000001-00000000000f4240.0000000000.receipt",
            "a/00000000000005ee/0000000001-00000000000f4240.0000000012.receipt",
            "a/00000000000005ee/0000000001-00000000000f4240.bucket",
            "a/00000000000005ee/0000000001-00000000000f4240.filter",
            "a/00000000000005ee-0000000000000007/0000000002-00000000000f4240.filter",
            "a/00000000000005ee-7/0000000003-00000000000f4240.filter",
            "a/00000000000005ee/12345678901-ffffffffffffffff.bucket",
            "a/00000000000005ee/0000000001-00000000000f4240.other",
            "a/00000000000005ee/1-00000000000f4240.bucket",
            "a/5ee/0000000001-00000000000f4240.bucket",
            "readme",
        ];
        names.iter().for_each(|name| volume.put(name, b"").unwrap());
        let mut found = Vec::new();
        for_each(&volume, &mut |bucket| found.push(bucket)).unwrap();
        let whole: Vec<_> = found.iter().map(|it| (it.is_complete(), it.number_and_time(), it.objects.len())).collect();
        let of_epoch = (false, Some((2, 1_000_000)), 1);
        assert_eq!(whole, [of_epoch, (true, Some((1, 1_000_000)), 4), (false, Some((12_345_678_901, -1)), 1)]);
        assert!(found.iter().all(|bucket| bucket.store == "00000000000005ee"));
        assert_eq!(found[1].receipt().map(|(deleted, _)| deleted), Some(12));
        let mut stores = Vec::new();
        StoreOnVolumes::add_from(&mut stores, "cold", &volume).unwrap();
        assert_eq!((stores.len(), stores[0].buckets, &*stores[0].id), (1, 1, "00000000000005ee"));
        assert_eq!(stores[0].places, ["cold/a".to_owned()].into());
    }
}
