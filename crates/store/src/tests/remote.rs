//! Searches find all events of buckets with a volume, regardless of the location of their copies, of failures, and of
//! crashes.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use quarry_blob::{BlobError, BlobStore, DirectoryStore, MemoryBlobStore};
use quarry_bucket::{ReadAt, ReadError};
use quarry_catalog::{BucketRow, BucketState, Catalog, RemoteState};
use quarry_event::template::TEXT_COLUMN;
use quarry_event::{AnyColumn, PageSet, TermQuery};
use quarry_stdx::{ErrorKind, ManualClock};
use tempfile::tempdir;

use super::compaction::{objects, seal};
use super::objects::{Objects, OperationsLeft, Request};
use super::{all, append, expected, open, sample, small, texts};
use crate::remote::copies::{ObjectKind, receipt_key};
use crate::sealed_buckets::SealedBucket;
use crate::{AppendRequest, LocalDisk, RemoteOptions, RemotePath, Store, StoreError, StoreOptions, data_dir};

/// Options of a store whose indexes are on volume `cold`, except `here`.
pub(super) fn options(dir: &Path, volume: Arc<dyn BlobStore>, cache_bytes_max: u64) -> StoreOptions {
    let place = RemotePath { volume: "cold".to_owned(), path: "buckets/$_index_name".to_owned() };
    let remote = RemoteOptions {
        volumes: [("cold".to_owned(), volume)].into(),
        default: Some(place),
        of_index: [("here".to_owned(), None)].into(),
        cache_bytes_max,
        eviction_padding: 0,
        hotlist_recency_secs: 0,
        hotlist_of_index: [].into(),
        uploads_max: 3,
        orphan_grace_secs: 86_400,
        new_store_id: "00000000000005ee".to_owned(),
    };
    StoreOptions { remote: Some(Arc::new(remote)), ..small(dir) }
}

/// Location of each bucket, by number.
pub(super) fn states(store: &Store) -> Vec<Option<RemoteState>> {
    store.shared.state_with_all().unwrap().sealed.values().map(|bucket| bucket.copies.state()).collect()
}

/// Asserts that the volume and the data directory contain exactly the objects in the catalog.
pub(super) fn assert_tidy(store: &Store, volume: &dyn BlobStore) {
    let live = store.shared.catalog.buckets(BucketState::Live).unwrap();
    let keys = |row: &BucketRow| {
        let of_copy = |copy: &quarry_catalog::RemoteCopy| {
            let receipt = copy.receipt.map(|deleted| receipt_key(row, &copy.folder, deleted));
            ObjectKind::ALL.into_iter().map(|part| part.key(row, &copy.folder)).chain(receipt).collect::<Vec<_>>()
        };
        row.remote.as_ref().map(of_copy).unwrap_or_default()
    };
    let expected: BTreeSet<String> = live.iter().flat_map(keys).collect();
    assert_eq!(volume.list().unwrap().into_iter().collect::<BTreeSet<_>>(), expected);
    let is_local = |row: &&BucketRow| row.remote.as_ref().is_none_or(|copy| copy.state.is_local_complete());
    let local = live.iter().filter(is_local).flat_map(|row| [row.object.clone(), row.filter.clone()]);
    assert_eq!(objects(store).into_iter().collect::<BTreeSet<_>>(), local.collect());
}

#[test]
fn uploaded_buckets_are_searched_from_the_volume_when_their_copies_are_gone() {
    let dir = tempdir().unwrap();
    let volume = Arc::new(MemoryBlobStore::default());
    for (cache_bytes_max, after) in [(u64::MAX, RemoteState::Uploaded), (0, RemoteState::Evicted)] {
        let options = options(dir.path(), volume.clone(), cache_bytes_max);
        let store = open(&options);
        if store.buckets().is_empty() {
            seal(&store, &["main", "here"], 6, 5);
        }
        store.upload_all().unwrap();
        assert_eq!(states(&store), [Some(after), None, Some(after), None, Some(after), None]);
        let mut whole = [expected("main", 0..15), expected("here", 0..15)].concat();
        let sorted = |store: &Store| {
            let mut texts = texts(&all(store));
            texts.sort();
            texts
        };
        whole.sort();
        assert_eq!(sorted(&store), whole);
        assert_tidy(&store, &*volume);
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
        drop(store);
        let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
        assert_eq!(sorted(&reader), whole);
        drop(reader);
        assert_eq!(sorted(&open(&options)), whole);
    }
    let key = &volume.list().unwrap()[0];
    assert!(key.starts_with("buckets/main/00000000000005ee/0000000001-"), "{key}");
    // An expired bucket is removed everywhere.
    let store = open(&options(dir.path(), volume.clone(), 0));
    assert_eq!(store.retention(&[("main".to_owned(), 0)]).unwrap().len(), 3);
    assert_eq!((volume.list().unwrap().len(), texts(&all(&store)).len()), (0, 15));
    assert_tidy(&store, &*volume);
}

#[test]
fn running_searches_survive_eviction() {
    let dir = tempdir().unwrap();
    let volume = Arc::new(MemoryBlobStore::default());
    let mut options = options(dir.path(), volume, 0);
    options.open_buckets_max = 1;
    let store = open(&options);
    seal(&store, &["main"], 5, 5);
    let before = all(&store);
    store.upload_all().unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Evicted); 5]);
    assert_eq!(texts(&before), expected("main", 0..25));
    // Below, another program removes the local copies.
    let options = StoreOptions { remote: options.remote.clone(), ..small(dir.path()) };
    drop((store, before));
    let store = open(&options);
    // Nothing is evicted meanwhile.
    let _turn = store.shared.uploads.lock_transfers();
    let buckets: Vec<Arc<SealedBucket>> = store.shared.state_with_all().unwrap().sealed.values().cloned().collect();
    buckets.iter().for_each(|bucket| store.shared.ensure_local(bucket).unwrap());
    assert_eq!(states(&store), [Some(RemoteState::Uploaded); 5]);
    std::fs::remove_dir_all(dir.path().join("db/main")).unwrap();
    assert_eq!(texts(&all(&store)), expected("main", 0..25));
}

#[test]
fn unreachable_volumes_block_and_lose_nothing() {
    let dir = tempdir().unwrap();
    let volume = Objects::new(Arc::new(MemoryBlobStore::default()), &OperationsLeft::new(u64::MAX.into()), false);
    let options = options(dir.path(), volume.clone(), 0);
    let store = open(&options);
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    volume.is_down.store(true, Ordering::SeqCst);
    append(&store, "main", 10, 5);
    store.seal_all().unwrap();
    let error = store.upload_all().unwrap_err();
    assert!(error.to_string().contains("out of reach"), "{error}");
    assert_eq!(states(&store)[2], Some(RemoteState::Uploading));
    // Local data is found; the search reports the missing buckets.
    let found = all(&store);
    assert_eq!((found.segments.len(), found.damaged.len()), (1, 2));
    let told = found.damaged[0].to_string();
    assert!(told.starts_with("bucket main~1 cannot be read: ") && told.matches("main~1").count() == 1, "{told}");
    assert!(told.contains("out of reach; check that its storage can be reached"), "{told}");
    assert!(found.damaged.iter().all(|damage| damage.kind == ErrorKind::Unavailable), "{:?}", found.damaged);
    let verified = store.verify();
    let unread = verified.iter().filter_map(|verdict| verdict.result.as_ref().err().map(|fault| fault.kind()));
    assert_eq!(unread.collect::<Vec<_>>(), [ErrorKind::Unavailable; 2]);
    assert_eq!(store.retention(&[("main".to_owned(), 0)]).unwrap().len(), 3);
    assert!(
        store
            .messages()
            .iter()
            .any(|message| message.text.contains("cannot delete the objects of retired bucket main~1"))
    );
    drop((found, store));
    // The same holds after a restart, which does not wait for the network.
    let store = open(&options);
    assert_eq!((all(&store).segments.len(), volume.list().unwrap().len()), (0, 6));
    volume.is_down.store(false, Ordering::SeqCst);
    assert_eq!(store.retention(&[]).unwrap(), [""; 0]);
    assert_tidy(&store, &*volume);
}

/// A volume whose objects with `extension` cannot be opened while its switch is set; the switch, and the number of
/// refused requests.
fn partly_reachable(extension: &'static str) -> (Arc<Objects>, Arc<AtomicBool>, Arc<AtomicU64>) {
    let (is_down, refused) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let (down, counted) = (Arc::clone(&is_down), Arc::clone(&refused));
    let volume = Objects::watched(move |request| match request {
        Request::Open(name) if down.load(Ordering::SeqCst) && name.ends_with(extension) => {
            counted.fetch_add(1, Ordering::SeqCst);
            Err(request.unreachable("it is out of reach"))
        }
        _ => Ok(()),
    });
    (volume, is_down, refused)
}

#[test]
fn each_bucket_out_of_reach_is_asked_for_once_per_search() {
    let dir = tempdir().unwrap();
    let (volume, is_down, refused) = partly_reachable(".bucket");
    let store = open(&options(dir.path(), volume.clone(), 0));
    seal(&store, &["main"], 5, 5);
    store.upload_all().unwrap();
    assert!(states(&store).iter().all(|state| *state == Some(RemoteState::Evicted)));
    drop(store);
    let store = open(&options(dir.path(), volume.clone(), 0));
    is_down.store(true, Ordering::SeqCst);
    let found = all(&store);
    assert!(found.segments.is_empty() && found.damaged.len() == 5, "{found:?}");
    let buckets: BTreeSet<&str> = found.damaged.iter().map(|damage| damage.bucket.as_str()).collect();
    assert_eq!((buckets.len(), refused.load(Ordering::SeqCst)), (5, 5));
    is_down.store(false, Ordering::SeqCst);
    assert_eq!(texts(&all(&store)), expected("main", 0..25));
}

#[test]
fn term_filters_out_of_reach_are_read_again_by_later_searches() {
    let dir = tempdir().unwrap();
    let (volume, is_down, _) = partly_reachable(".filter");
    let store = open(&options(dir.path(), volume.clone(), 0));
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Evicted)]);
    let faults = |store: &Store| {
        let snapshot = all(store);
        let query = TermQuery::for_keyword("number");
        for segment in &snapshot.segments {
            assert!(!segment.candidate_pages(&query, &AnyColumn).unwrap().is_empty());
        }
        let later = snapshot.segments.iter().filter_map(|segment| segment.damage());
        snapshot.damaged.iter().cloned().chain(later).map(|damage| damage.kind).collect::<Vec<_>>()
    };
    is_down.store(true, Ordering::SeqCst);
    assert_eq!(faults(&store), [ErrorKind::Unavailable]);
    assert_eq!(faults(&store), [ErrorKind::Unavailable]);
    is_down.store(false, Ordering::SeqCst);
    assert_eq!(faults(&store), []);
    // A missing object counts as damage, not as unreachable.
    let filter = volume.list().unwrap().into_iter().find(|name| name.ends_with(".filter")).unwrap();
    volume.delete(&filter).unwrap();
    drop(store);
    std::fs::remove_dir_all(dir.path().join("cache")).unwrap_or_default();
    assert_eq!(faults(&open(&options(dir.path(), volume, 0))), [ErrorKind::Corrupt]);
}

#[test]
fn recent_events_of_an_index_are_evicted_last() {
    let dir = tempdir().unwrap();
    let volume = Arc::new(MemoryBlobStore::default());
    let mut options = options(dir.path(), volume, u64::MAX);
    if let Some(remote) = options.remote.as_mut() {
        let hotlist_of_index = [("first".to_owned(), u64::MAX)].into();
        *remote = Arc::new(RemoteOptions { hotlist_of_index, ..RemoteOptions::clone(remote) });
    }
    let store = open(&options);
    seal(&store, &["first"], 1, 5);
    seal(&store, &["second"], 1, 5);
    store.upload_all().unwrap();
    // The bucket of `second` is used later, but only the bucket of `first` counts as recent.
    drop(store.snapshot(&crate::IndexSelector::new(["second"]), &quarry_event::TimeRange::ALL));
    store.evict_cache(Some(1)).unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Uploaded), Some(RemoteState::Evicted)]);
}

#[test]
fn closing_a_store_reports_that_it_waits_for_an_upload() {
    let dir = tempdir().unwrap();
    // Puts wait until a gate is open. The pair is whether a put waits, and whether the gate is open.
    let gate = Arc::new((Mutex::new((false, false)), Condvar::new()));
    let (waits_at, opens) = (Arc::clone(&gate), Arc::clone(&gate));
    let volume = Objects::watched(move |request| {
        if let Request::Put(..) = request {
            let (gate, changed) = &*waits_at;
            gate.lock().unwrap().0 = true;
            changed.notify_all();
            drop(changed.wait_while(gate.lock().unwrap(), |gate| !gate.1).unwrap());
        }
        Ok(())
    });
    let store = open(&options(dir.path(), volume.clone(), u64::MAX));
    let waits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&waits);
    store.report_upload_waits(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        opens.0.lock().unwrap().1 = true;
        opens.1.notify_all();
    });
    seal(&store, &["main"], 1, 5);
    drop(gate.1.wait_while(gate.0.lock().unwrap(), |gate| !gate.0).unwrap());
    store.close();
    drop(store);
    assert_eq!((waits.load(Ordering::SeqCst), volume.list().unwrap().len()), (1, 3));
    // No upload is left, so closing does not wait.
    let store = open(&options(dir.path(), volume, u64::MAX));
    let counted = Arc::clone(&waits);
    store.report_upload_waits(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    store.close();
    assert_eq!(waits.load(Ordering::SeqCst), 1);
}

#[test]
fn copies_and_blocks_are_evicted_on_request() {
    let dir = tempdir().unwrap();
    let volume = Arc::new(MemoryBlobStore::default());
    let store = open(&options(dir.path(), volume.clone(), u64::MAX));
    seal(&store, &["main"], 3, 5);
    seal(&store, &["here"], 1, 5);
    let refused = |id: &str| matches!(store.evict_bucket(id), Err(StoreError::NotEvictable { .. }));
    store.upload_all().unwrap();
    let evicted = || states(&store).iter().filter(|state| **state == Some(RemoteState::Evicted)).count();
    let blocks = || store.shared.readers.remotes().cache.as_ref().unwrap().stats().bytes;
    assert!(refused("here~4") && evicted() == 0);
    let before = texts(&all(&store));
    store.evict_bucket("main~2").unwrap();
    assert_eq!((states(&store)[1], evicted(), blocks()), (Some(RemoteState::Evicted), 1, 0));
    assert!(texts(&all(&store)) == before && blocks() > 0);
    store.evict_bucket("main~2").unwrap();
    assert_eq!(blocks(), 0);
    store.close_bucket("main~2").unwrap();
    assert_eq!(texts(&all(&store)), before);
    store.evict_cache(Some(1)).unwrap();
    assert_eq!(evicted(), 2);
    store.evict_cache(None).unwrap();
    assert_eq!((evicted(), blocks()), (3, 0));
    assert_eq!(texts(&all(&store)), before);
    for id in ["main~9", "main", "here~1", "~", "main~x"] {
        assert!(matches!(store.evict_bucket(id), Err(StoreError::NoBucket { .. })), "{id}");
        assert!(matches!(store.close_bucket(id), Err(StoreError::NoBucket { .. })), "{id}");
    }
}

#[test]
fn buckets_of_unconfigured_volumes_are_reported_and_recover() {
    let dir = tempdir().unwrap();
    let volume = Arc::new(MemoryBlobStore::default());
    let with = options(dir.path(), volume, 0);
    let store = open(&with);
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    drop(store);
    let store = open(&small(dir.path()));
    let damaged = all(&store).damaged;
    assert_eq!(damaged.len(), 2);
    assert!(damaged[0].reason.contains("[volume:cold], which indexes.conf does not define"), "{damaged:?}");
    assert!(damaged[0].to_string().starts_with("bucket main~1 cannot be read: "), "{}", damaged[0]);
    drop(store);
    assert_eq!(texts(&all(&open(&with))), expected("main", 0..10));
}

#[test]
fn failed_uploads_are_reported_again_after_the_failing_bucket_is_gone() {
    let dir = tempdir().unwrap();
    // Puts of every other bucket fail.
    let volume = Objects::watched(|request| match request {
        Request::Put(name, _) => {
            let number = name.rsplit('/').next().and_then(|name| name.split('-').next()?.parse::<u64>().ok());
            if number.unwrap() % 2 == 1 { Err(request.unreachable("it is odd")) } else { Ok(()) }
        }
        _ => Ok(()),
    });
    let store = open(&options(dir.path(), volume, u64::MAX));
    store.shared.uploads.stop();
    let count = |part: &str| store.messages().iter().filter(|message| message.text.contains(part)).count();
    let reports = || (count("buckets cannot be uploaded"), count("no upload of a bucket fails any more"));
    for round in 0..2 {
        seal(&store, &["main"], 2, 5);
        assert!(store.shared.transfer().unwrap());
        assert_eq!(reports(), (round + 1, round));
        assert_eq!(store.retention(&[("main".to_owned(), 0)]).unwrap().len(), 2);
        assert!(!store.shared.transfer().unwrap());
        assert_eq!(reports(), (round + 1, round + 1));
    }
}

#[test]
fn damaged_and_missing_buckets_are_reported_and_not_uploaded() {
    for is_missing in [false, true] {
        let dir = tempdir().unwrap();
        let volume = Arc::new(MemoryBlobStore::default());
        let down = Objects::new(Arc::new(MemoryBlobStore::default()), &OperationsLeft::new(0.into()), false);
        let store = open(&options(dir.path(), down, 0));
        seal(&store, &["main"], 2, 5);
        drop(store);
        let path = dir.path().join("db/main/0000000001.bucket");
        if is_missing {
            std::fs::remove_file(&path).unwrap();
        } else {
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 3;
            bytes[middle] ^= 4;
            std::fs::write(&path, bytes).unwrap();
        }
        let store = open(&options(dir.path(), volume.clone(), 0));
        store.upload_all().unwrap();
        assert_eq!(states(&store), [Some(RemoteState::Uploading), Some(RemoteState::Evicted)]);
        let told = store.messages();
        let expected = "bucket main~1 is damaged and stays on the local disk";
        assert!(told.iter().any(|message| message.text.contains(expected)), "{told:?}");
        assert!(path.exists() != is_missing && volume.list().unwrap().len() == 3);
    }
}

#[test]
fn merged_and_archived_buckets_leave_nothing_on_the_volume() {
    let dir = tempdir().unwrap();
    let volume = Arc::new(MemoryBlobStore::default());
    let store = open(&options(dir.path(), volume.clone(), u64::MAX));
    seal(&store, &["main"], 4, 5);
    store.upload_all().unwrap();
    assert_eq!(store.compact_all().unwrap().buckets_after, 1);
    store.upload_all().unwrap();
    // The objects of the merged buckets were deleted at the end of the upload, unless a search for orphaned objects was
    // checking them at that time.
    store.retention(&[]).unwrap();
    assert_eq!((volume.list().unwrap().len(), states(&store)), (3, vec![Some(RemoteState::Uploaded)]));
    assert_tidy(&store, &*volume);
    drop(store);
    let store = open(&options(dir.path(), volume.clone(), 0));
    store.upload_all().unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Evicted)]);
    drop(store);
    // Buckets that are only on the volume are not merged.
    let store = open(&options(dir.path(), volume.clone(), u64::MAX));
    seal_more(&store);
    assert_eq!(store.compact_all().unwrap().buckets_after, 2);
    let given = Mutex::new(Vec::new());
    let archive = |bucket: &crate::ExpiredBucket| {
        store.evict_cache(None).unwrap();
        let here = bucket.objects.iter().all(|object| dir.path().join("db").join(object).exists());
        given.lock().unwrap().push(here);
        Ok(())
    };
    store.run_retention(&[archiving_rule()], &archive).unwrap();
    assert_eq!(*given.lock().unwrap(), [true, true]);
    assert_eq!((volume.list().unwrap().len(), texts(&all(&store)).len()), (0, 0));
    assert_tidy(&store, &*volume);
}

/// A rule by which all events of `main` are archived.
fn archiving_rule() -> crate::RetentionRule {
    crate::RetentionRule {
        index: "main".to_owned(),
        max_age_secs: 0,
        max_stored_bytes: None,
        max_raw_bytes: None,
        archives: true,
        empties_after_secs: 0,
    }
}

#[test]
fn a_bucket_that_is_archived_does_not_count_as_evicted() {
    let dir = tempdir().unwrap();
    let store = open(&options(dir.path(), Arc::new(MemoryBlobStore::default()), u64::MAX));
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    let given = Mutex::new(Vec::new());
    let archive = |_: &crate::ExpiredBucket| {
        store.evict_cache(Some(1)).unwrap();
        given.lock().unwrap().push(states(&store));
        Ok(())
    };
    store.run_retention(&[archiving_rule()], &archive).unwrap();
    let [here, gone] = [Some(RemoteState::Uploaded), Some(RemoteState::Evicted)];
    assert_eq!(*given.lock().unwrap(), [[here, gone], [gone, here]]);
}

#[test]
fn a_damaged_local_copy_is_fetched_again_before_it_is_archived() {
    let dir = tempdir().unwrap();
    let options = options(dir.path(), Arc::new(MemoryBlobStore::default()), u64::MAX);
    let store = open(&options);
    seal(&store, &["main"], 1, 5);
    store.upload_all().unwrap();
    drop(store);
    let path = dir.path().join("db/main/0000000001.bucket");
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 3] ^= 4;
    std::fs::write(&path, damaged).unwrap();
    let store = open(&options);
    let given = Mutex::new(Vec::new());
    let archive = |_: &crate::ExpiredBucket| {
        given.lock().unwrap().push(std::fs::read(&path).unwrap());
        Ok(())
    };
    store.run_retention(&[archiving_rule()], &archive).unwrap();
    assert!(*given.lock().unwrap() == [whole]);
}

fn seal_more(store: &Store) {
    for first in [20, 25] {
        append(store, "main", first, 5);
        store.seal_all().unwrap();
    }
}

/// Runs a store on a machine that dies after `acts` operations on local and remote objects; returns whether all work
/// was done before the machine died.
fn crash_after(acts: u64, writes_late: bool) -> bool {
    let dir = tempdir().unwrap();
    let (local, volume) =
        (DirectoryStore::open(&data_dir::objects(dir.path())).unwrap(), Arc::new(MemoryBlobStore::default()));
    let left: OperationsLeft = Arc::new(acts.into());
    let mut tried = 0;
    {
        let remote = Objects::new(volume.clone(), &left, writes_late);
        let options = options(dir.path(), remote, 1_500);
        let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
        let blobs = Objects::new(Arc::new(local), &left, writes_late);
        let opened =
            Store::open_with(options.clone(), Arc::new(LocalDisk), blobs, catalog, ManualClock::shared(1_000_000));
        let mut work = |store: &Store| -> Result<(), StoreError> {
            for round in 0..3_u64 {
                for first in [round * 12, round * 12 + 6] {
                    append(store, "main", first, 6);
                    tried = first + 6;
                    store.seal_all()?;
                }
                store.upload_all()?;
                if round == 1 {
                    store.compact_all()?;
                }
            }
            store.upload_all()
        };
        if let Ok(store) = opened {
            drop(work(&store));
        }
    }
    let is_over = left.load(Ordering::SeqCst) > 0;
    let store = open(&options(dir.path(), volume.clone(), 1_500));
    assert_eq!(texts(&all(&store)), expected("main", 0..tried), "{acts} acts");
    store.seal_all().unwrap();
    store.upload_all().unwrap();
    store.close();
    store.retention(&[]).unwrap();
    assert_eq!(texts(&all(&store)), expected("main", 0..tried), "{acts} acts");
    assert_tidy(&store, &*volume);
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    store.retention(&[("main".to_owned(), 0)]).unwrap();
    // The upload thread may have held one of the buckets, whose objects can be deleted only now.
    store.close();
    store.retention(&[]).unwrap();
    assert_eq!((volume.list().unwrap().len(), objects(&store).len()), (0, 0));
    is_over
}

#[test]
fn crash_at_any_step_neither_loses_nor_duplicates_events() {
    for writes_late in [false, true] {
        let mut acts = 0;
        while !crash_after(acts, writes_late) {
            acts += 1 + u64::from(writes_late);
        }
        assert!(acts > 30, "six seals, as many uploads, a merge and evictions: {acts}");
    }
}

/// A volume that counts reads of its objects.
#[derive(Debug)]
struct CountedVolume {
    store: MemoryBlobStore,
    reads: Arc<AtomicU64>,
}

struct CountedObject {
    object: Arc<dyn ReadAt>,
    reads: Arc<AtomicU64>,
    /// Bytes that were read when the object was opened.
    tail: Mutex<Option<(u64, Bytes)>>,
}

impl BlobStore for CountedVolume {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        self.store.put(name, bytes)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        let (reads, tail) = (Arc::clone(&self.reads), Mutex::default());
        Ok(Arc::new(CountedObject { object: self.store.open(name)?, reads, tail }))
    }

    fn open_with_tail(&self, name: &str, end_bytes: u64) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let object = self.store.open(name)?;
        // Only whole blocks of the cache are passed on.
        let start = object.len().saturating_sub(end_bytes).next_multiple_of(8 << 10).min(object.len());
        let tail = object.read_at(start, (object.len() - start) as usize).unwrap();
        Ok(Arc::new(CountedObject { object, reads: Arc::clone(&self.reads), tail: Mutex::new(Some((start, tail))) }))
    }

    fn verifies_checksums(&self) -> bool {
        true
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        self.store.delete(name)
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        self.store.exists(name)
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        self.store.list()
    }
}

impl ReadAt for CountedObject {
    fn len(&self) -> u64 {
        self.object.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.object.read_at(offset, len)
    }

    fn take_tail(&self) -> Option<(u64, Bytes)> {
        self.tail.lock().unwrap().take()
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
        self.reads.fetch_add(u64::from(!ranges.is_empty()), Ordering::SeqCst);
        self.object.read_ranges(ranges)
    }
}

/// The events found by a search that announces its pages and reads them newest first, and the number of reads of the
/// volume.
fn read_ahead(store: &Store, reads: &AtomicU64, is_certain: bool) -> (Vec<Vec<u8>>, u64) {
    let mut found = Vec::new();
    let segments = all(store).segments;
    let before = reads.load(Ordering::SeqCst);
    for segment in segments.iter().filter(|segment| segment.is_remote()) {
        let requests = segment.request_count();
        segment.prefetch_pages(PageSet::first(segment.pages().len()), is_certain);
        for (number, info) in segment.pages().iter().enumerate().rev() {
            let rows: Vec<u32> = (0..info.events).collect();
            let mut page = segment.template_page(number).unwrap().expect("a page of columns");
            let texts = page.texts(TEXT_COLUMN, &rows).unwrap();
            found.extend((0..rows.len()).map(|row| texts.get(row).to_vec()));
            segment.release_page(number);
        }
        assert!(segment.request_count() > requests);
    }
    (found, reads.load(Ordering::SeqCst) - before)
}

fn mixed_text(number: u64) -> String {
    let mixed = |by: u64| (number + 1).wrapping_mul(by) >> 20;
    format!("user={} took={} level={}", mixed(0x9e37_79b9_7f4a_7c15), mixed(0xc4ce_b9fe_1a85_ec53), number % 7)
}

#[test]
fn a_small_term_filter_is_read_with_one_request() {
    let dir = tempdir().unwrap();
    let reads = Arc::<AtomicU64>::default();
    let volume = Arc::new(CountedVolume { store: MemoryBlobStore::default(), reads: Arc::clone(&reads) });
    let options = StoreOptions { slab_events: 20_000, log_segment_bytes: 64 << 20, ..options(dir.path(), volume, 0) };
    let store = open(&options);
    let batch = sample::batch_of("main", (0..20_000).map(|number| (number, mixed_text(number))));
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    store.seal_all().unwrap();
    store.upload_all().unwrap();
    let filter_bytes = store.shared.state_with_all().unwrap().sealed.values().next().unwrap().row.filter_bytes;
    assert!((32 << 10..256 << 10).contains(&filter_bytes), "{filter_bytes}");
    drop(store);
    let store = open(&options);
    let snapshot = all(&store);
    let opened = reads.load(Ordering::SeqCst);
    let absent = TermQuery::for_keyword("absent");
    assert!(snapshot.segments[0].candidate_pages(&absent, &AnyColumn).unwrap().is_empty());
    assert_eq!(reads.load(Ordering::SeqCst) - opened, 1);
}

#[test]
fn the_directories_and_the_term_filter_of_an_evicted_bucket_stay_in_the_cache() {
    let dir = tempdir().unwrap();
    let opened = Arc::<Mutex<Vec<String>>>::default();
    let names = Arc::clone(&opened);
    let volume = Objects::watched(move |request| {
        if let Request::Open(name) = request {
            names.lock().unwrap().push(name.rsplit('/').next().unwrap_or_default().to_owned());
        }
        Ok(())
    });
    let with_cache = |bytes_max| StoreOptions {
        slab_events: 20_000,
        log_segment_bytes: 64 << 20,
        ..options(dir.path(), volume.clone(), bytes_max)
    };
    let store = open(&with_cache(u64::MAX));
    for from in [0, 60_000, 120_000] {
        let batch = sample::batch_of("main", (from..from + 60_000).map(|number| (number, mixed_text(number))));
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
    }
    store.upload_all().unwrap();
    let rows: Vec<_> =
        store.shared.state_with_all().unwrap().sealed.values().map(|bucket| bucket.row.clone()).collect();
    let stored: u64 = rows.iter().map(|row| row.stored_bytes()).sum();
    drop(store);
    // There is room for two of the three local copies, and for all blocks of the third bucket.
    let store = open(&with_cache(stored - 1));
    store.upload_all().unwrap();
    let kept = Some(RemoteState::Uploaded);
    assert_eq!(states(&store), [Some(RemoteState::Evicted), kept, kept]);
    let cached = store.shared.readers.remotes().cache.as_ref().unwrap().stats();
    let read_on_opening = ObjectKind::Object.tail_bytes(&rows[0]).next_multiple_of(8 << 10);
    let expected = rows[0].filter_bytes.next_multiple_of(8 << 10) + read_on_opening;
    assert!((expected..=expected + (8 << 10)).contains(&cached.bytes), "{} of {expected} bytes", cached.bytes);
    assert_eq!(cached.failed_writes, 0);
    opened.lock().unwrap().clear();
    let absent = TermQuery::for_keyword("absent");
    for segment in all(&store).segments {
        assert!(segment.candidate_pages(&absent, &AnyColumn).unwrap().is_empty());
    }
    assert_eq!(*opened.lock().unwrap(), [""; 0], "no request to the volume");
}

#[test]
fn pages_of_a_remote_bucket_are_fetched_together() {
    let [at_once, one_by_one] = [true, false].map(|is_certain| {
        let dir = tempdir().unwrap();
        let reads = Arc::<AtomicU64>::default();
        let volume = Arc::new(CountedVolume { store: MemoryBlobStore::default(), reads: Arc::clone(&reads) });
        let options =
            StoreOptions { slab_events: 40_000, log_segment_bytes: 64 << 20, ..options(dir.path(), volume, 0) };
        let store = open(&options);
        // Ten pages of numbers, which compress so little that reading the end of the object does not fetch them.
        for from in (0..40_000).step_by(2_000) {
            let batch = sample::batch_of("main", (from..from + 2_000).map(|number| (number, mixed_text(number))));
            store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        }
        store.seal_all().unwrap();
        store.upload_all().unwrap();
        let (found, reads) = read_ahead(&store, &reads, is_certain);
        let mut found: Vec<String> = found.into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
        let mut whole: Vec<String> = (0..40_000).map(mixed_text).collect();
        found.sort();
        whole.sort();
        assert!(found == whole, "{} of {} events", found.len(), whole.len());
        reads
    });
    assert!(at_once <= one_by_one && one_by_one <= 40, "{at_once} and {one_by_one} requests");
}

#[test]
fn steps_recorded_without_an_answer_are_completed() {
    let dir = tempdir().unwrap();
    let volume = Arc::new(MemoryBlobStore::default());
    let options = options(dir.path(), volume.clone(), u64::MAX);
    let store = open(&options);
    store.shared.uploads.stop();
    seal(&store, &["main"], 3, 5);
    let catalog = &store.shared.catalog;
    let folder = "buckets/main/00000000000005ee";
    // The catalog knows that the upload of bucket 1 has begun, and memory does not.
    assert_eq!(catalog.begin_uploads(&[1], "cold", folder).unwrap(), [1]);
    store.upload_all().unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Uploaded); 3]);
    assert_tidy(&store, &*volume);
    // The catalog knows that the eviction of bucket 2 has begun, and memory does not.
    assert!(catalog.set_remote_state(2, RemoteState::Evicting).unwrap());
    store.evict_cache(None).unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Evicted); 3]);
    assert_eq!(texts(&all(&store)), expected("main", 0..15));
    assert_tidy(&store, &*volume);
}

#[test]
fn an_interrupted_eviction_is_completed_without_a_restart() {
    let dir = tempdir().unwrap();
    let options = options(dir.path(), Arc::new(MemoryBlobStore::default()), u64::MAX);
    let local = Objects::around(Arc::new(DirectoryStore::open(&data_dir::objects(dir.path())).unwrap()));
    let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
    let clock = ManualClock::shared(1_000_000);
    let store = Store::open_with(options, Arc::new(LocalDisk), local.clone(), catalog, clock).unwrap();
    store.shared.uploads.stop();
    seal(&store, &["main"], 2, 5);
    store.upload_all().unwrap();
    local.keeps.store(true, Ordering::SeqCst);
    store.evict_bucket("main~1").unwrap_err();
    assert_eq!(states(&store), [Some(RemoteState::Evicting), Some(RemoteState::Uploaded)]);
    local.keeps.store(false, Ordering::SeqCst);
    store.upload_all().unwrap();
    assert_eq!(states(&store), [Some(RemoteState::Evicted), Some(RemoteState::Uploaded)]);
    assert_eq!(texts(&all(&store)), expected("main", 0..10));
}
