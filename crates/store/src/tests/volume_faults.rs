//! A machine dies at random points of seals, uploads, evictions, merges, migrations and retention, while its volumes
//! lose, repeat and delay requests, and every other listing shows the objects as they were before. Every event is stored
//! once, and no object outlives its bucket by more than the grace period. In the end, a lost catalog is rebuilt from the
//! volumes with all events.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use quarry_blob::{BlobError, BlobStore, DirectoryStore, ListedObject};
use quarry_bucket::ReadAt;
use quarry_catalog::{BucketState, Catalog};
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::ManualClock;
use tempfile::{TempDir, tempdir};

use super::compaction::{objects, of_index};
use super::deletion::find_events;
use super::objects::{Objects, OperationsLeft, TimedObjects};
use super::remote::options;
use super::{sample, texts, try_append};
use crate::remote::copies::{ObjectKind, receipt_key};
use crate::{
    LocalDisk, RemoteOptions, RemotePath, RetentionRule, Store, StoreError, StoreOptions, data_dir, rebuild_catalog,
};

/// Number of simulated worlds (data directories with volumes) in a run, and number of lives of the machine in each.
/// `QUARRY_VOLUME_WORLDS=50` means 500 crashes.
const WORLDS: u64 = 3;
const LIVES: u64 = 10;
/// Maximum number of operations on objects in a life.
const OPERATIONS_MAX: u64 = 60;
/// Age in seconds at which an object that belongs to no bucket is deleted.
const GRACE: u64 = 100;
/// Number of operations that a life attempts.
const STEPS: u64 = 12;

/// Pseudo-random number generator.
#[derive(Debug)]
struct RandomNumbers(AtomicU64);

impl RandomNumbers {
    fn new(seed: u64) -> RandomNumbers {
        RandomNumbers(AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    /// A random number below `end`.
    fn below(&self, end: u64) -> u64 {
        let step = |mut state: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            Some(state ^ state << 17)
        };
        let drawn = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap();
        (drawn >> 16) % end
    }
}

/// A volume behind a bad network.
#[derive(Debug)]
struct FaultyVolume {
    objects: TimedObjects,
    chance: RandomNumbers,
    acts: Mutex<OperationsLeft>,
    is_calm: AtomicBool,
    /// Requests that reach the volume later: puts with their bytes, and deletes without bytes.
    under_way: Mutex<Vec<(String, Option<Vec<u8>>)>>,
    /// The objects at the end of the last life, which a late listing returns.
    earlier: Mutex<Vec<ListedObject>>,
    is_listing_late: AtomicBool,
    now_ns: AtomicI64,
}

impl FaultyVolume {
    fn new(seed: u64) -> Arc<FaultyVolume> {
        Arc::new(FaultyVolume {
            objects: TimedObjects::default(),
            chance: RandomNumbers::new(seed),
            acts: Mutex::default(),
            is_calm: AtomicBool::new(false),
            under_way: Mutex::default(),
            earlier: Mutex::default(),
            is_listing_late: AtomicBool::new(false),
            now_ns: AtomicI64::new(0),
        })
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        self.objects.put(name, bytes, self.now_ns.load(Ordering::SeqCst));
    }

    /// Completes some of the requests under way, or all.
    fn land(&self, all: bool) {
        *self.earlier.lock().unwrap() = self.objects.list();
        let under_way = std::mem::take(&mut *self.under_way.lock().unwrap());
        for (name, bytes) in under_way {
            match bytes {
                bytes if !all && self.chance.below(2) == 0 => self.under_way.lock().unwrap().push((name, bytes)),
                Some(bytes) => self.write(&name, &bytes),
                None => self.objects.delete(&name).unwrap(),
            }
        }
    }

    /// Random outcome of a request: when it is done, if at all, and whether it is answered.
    fn fate(&self) -> (Completion, bool) {
        if self.is_calm.load(Ordering::SeqCst) {
            return (Completion::Now, true);
        }
        let acts = self.acts.lock().unwrap().clone();
        let is_alive = acts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let done = match self.chance.below(if is_alive { 20 } else { 3 }) {
            0 => Completion::Never,
            1 => Completion::Later,
            _ => Completion::Now,
        };
        let is_told = is_alive && done == Completion::Now && self.chance.below(20) > 0;
        (done, is_told)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completion {
    Never,
    Now,
    Later,
}

fn no_answer(name: &str) -> BlobError {
    BlobError::Io { action: "reach", path: name.into(), reason: "no answer".into() }
}

impl BlobStore for FaultyVolume {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        let (done, is_told) = self.fate();
        match done {
            Completion::Never => {}
            Completion::Now => self.write(name, bytes),
            Completion::Later => self.under_way.lock().unwrap().push((name.to_owned(), Some(bytes.to_vec()))),
        }
        if is_told { Ok(()) } else { Err(no_answer(name)) }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.objects.store.open(name)
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        let (done, is_told) = self.fate();
        if done == Completion::Now {
            self.objects.delete(name)?;
        }
        // A request that was executed may have been sent before, and arrive once more.
        if done == Completion::Later || self.chance.below(3) == 0 {
            self.under_way.lock().unwrap().push((name.to_owned(), None));
        }
        if is_told { Ok(()) } else { Err(no_answer(name)) }
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        self.objects.store.exists(name)
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        self.objects.store.list()
    }

    fn list_each(&self, visit: &mut dyn FnMut(ListedObject)) -> Result<(), BlobError> {
        let is_late = !self.is_calm.load(Ordering::SeqCst) && self.is_listing_late.fetch_not(Ordering::SeqCst);
        let listed = if is_late { self.earlier.lock().unwrap().clone() } else { self.objects.list() };
        listed.into_iter().for_each(visit);
        Ok(())
    }
}

/// Possible locations of index `main`.
const PLACES: [Option<&str>; 3] = [Some("cold"), Some("warm"), None];

struct World {
    dir: TempDir,
    seed: u64,
    chance: RandomNumbers,
    volumes: [Arc<FaultyVolume>; 2],
    clock: Arc<ManualClock>,
    place: Option<&'static str>,
    /// Number of stored events of `main`.
    stored: u64,
    deleted: BTreeSet<u64>,
    /// Number of stored events of `old`, which retention removes.
    old: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let volumes = [1, 2].map(|volume| FaultyVolume::new(seed * 10 + volume));
        let (dir, chance, clock) = (tempdir().unwrap(), RandomNumbers::new(seed), ManualClock::shared(1_000_000));
        let place = PLACES[0];
        World { dir, seed, chance, volumes, clock, place, stored: 0, deleted: BTreeSet::new(), old: 0 }
    }

    fn options(&self, dir: &Path, cache_bytes_max: u64) -> StoreOptions {
        let options = options(dir, self.volumes[0].clone(), cache_bytes_max);
        let mut remote = RemoteOptions::clone(options.remote.as_ref().unwrap());
        remote.volumes.insert("warm".to_owned(), self.volumes[1].clone());
        let path = |volume: &str| RemotePath { volume: volume.to_owned(), path: format!("{volume}/$_index_name") };
        remote.of_index.insert("main".to_owned(), self.place.map(path));
        remote.orphan_grace_secs = GRACE;
        StoreOptions { remote: Some(Arc::new(remote)), ..options }
    }

    fn pass(&self, secs: u64) {
        let by_ns = i64::try_from(secs).unwrap() * NS_PER_SEC;
        self.clock.advance_ns(by_ns);
        for volume in &self.volumes {
            volume.now_ns.fetch_add(by_ns, Ordering::SeqCst);
        }
    }

    /// One life of the machine, which usually ends in the middle of some operation.
    fn live(&mut self) {
        let acts: OperationsLeft = Arc::new(AtomicU64::new(self.chance.below(OPERATIONS_MAX)));
        self.volumes.iter().for_each(|volume| *volume.acts.lock().unwrap() = acts.clone());
        self.place = PLACES[self.chance.below(3) as usize];
        let cache_bytes_max = [0, 1_500, u64::MAX][self.chance.below(3) as usize];
        let local = DirectoryStore::open(&data_dir::objects(self.dir.path())).unwrap();
        let local = Objects::new(Arc::new(local), &acts, self.chance.below(2) == 0);
        let catalog = Catalog::open(&data_dir::catalog(self.dir.path())).unwrap();
        let options = self.options(self.dir.path(), cache_bytes_max);
        let opened = Store::open_with(options, Arc::new(LocalDisk), local, catalog, self.clock.clone());
        let Ok(store) = opened else { return };
        for _ in 0..STEPS {
            if acts.load(Ordering::SeqCst) == 0 {
                break;
            }
            // Failed work is retried after a restart.
            let _failed: Result<(), StoreError> = self.step(&store);
        }
    }

    fn step(&mut self, store: &Store) -> Result<(), StoreError> {
        match self.chance.below(10) {
            0..3 => {
                try_append(store, "main", self.stored, 4)?;
                self.stored += 4;
                try_append(store, "old", self.old, 3)?;
                self.old += 3;
                store.seal_all()
            }
            3..5 => store.upload_all(),
            5 => store.compact_all().map(drop),
            6 => store.migrate("main", self.place).map(drop),
            7 => store.run_retention(&[expire_old_index_rule()], &|_| Ok(())).map(drop),
            8 => store.sweep_volumes().map(drop),
            _ => {
                store.seal_all()?;
                let number = self.chance.below(self.stored.max(1));
                let snapshot = of_index(store, "main");
                if snapshot.damaged.is_empty() {
                    store.delete(&find_events(&snapshot, |it| it == number))?;
                    self.deleted.extend((number < self.stored).then_some(number));
                }
                Ok(())
            }
        }
    }

    fn expected(&self) -> Vec<String> {
        let kept = (0..self.stored).filter(|number| !self.deleted.contains(number));
        kept.map(|number| sample::text("main", number)).collect()
    }

    fn check(&self, store: &Store, when: &str) {
        let mut found = texts(&of_index(store, "main"));
        found.sort();
        let mut expected = self.expected();
        expected.sort();
        assert_eq!(found, expected, "world {}, {when}", self.seed);
        let old = texts(&of_index(store, "old"));
        let once: BTreeSet<&String> = old.iter().collect();
        assert_eq!(once.len(), old.len(), "world {}, {when}: each once", self.seed);
    }

    /// Lets all volumes answer and all requests complete, and checks the remaining objects and events.
    fn end(&mut self) {
        for volume in &self.volumes {
            volume.is_calm.store(true, Ordering::SeqCst);
        }
        let store = Store::open(self.options(self.dir.path(), 0), self.clock.clone()).unwrap();
        self.check(&store, "before the last requests end");
        self.volumes.iter().for_each(|volume| volume.land(true));
        store.seal_all().unwrap();
        store.upload_all().unwrap();
        let is_left = |store: &Store| {
            let moves = |bucket: &Arc<crate::sealed_buckets::SealedBucket>| bucket.copies.other().is_some();
            store.shared.state_with_all().unwrap().sealed.values().any(moves)
        };
        while !store.migrate("main", self.place).unwrap().not_moved.is_empty() || is_left(&store) {
            store.upload_all().unwrap();
        }
        store.retention(&[]).unwrap();
        self.pass(GRACE + 1);
        store.sweep_volumes().unwrap();
        store.close();
        store.retention(&[]).unwrap();
        self.check(&store, "in the end");
        self.check_objects(&store);
        assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()), "world {}", self.seed);
        let old = texts(&of_index(&store, "old"));
        drop(store);
        if self.place.is_some() {
            // The machine is lost.
            let other = tempdir().unwrap();
            let options = self.options(other.path(), 0);
            assert_eq!(rebuild_catalog(&options, "00000000000005ee", 0).unwrap().refused, []);
            let store = Store::open(options, self.clock.clone()).unwrap();
            self.check(&store, "from the volumes");
            assert_eq!(texts(&of_index(&store, "old")), old);
        }
    }

    /// Asserts that the volumes and the data directory contain exactly the objects in the catalog.
    fn check_objects(&self, store: &Store) {
        let live = store.shared.catalog.buckets(BucketState::Live).unwrap();
        for (volume, name) in self.volumes.iter().zip(["cold", "warm"]) {
            let mut expected = BTreeSet::new();
            for row in &live {
                if let Some(copy) = row.remote.as_ref().filter(|copy| copy.volume == name) {
                    expected.extend(ObjectKind::ALL.map(|part| part.key(row, &copy.folder)));
                    expected.extend(copy.receipt.map(|deleted| receipt_key(row, &copy.folder, deleted)));
                }
            }
            let found: BTreeSet<String> = volume.list().unwrap().into_iter().collect();
            assert_eq!(found, expected, "world {}, {name}", self.seed);
        }
        let here = live.iter().filter(|row| row.remote.as_ref().is_none_or(|copy| copy.state.is_local_complete()));
        let here: BTreeSet<String> = here.flat_map(|row| [row.object.clone(), row.filter.clone()]).collect();
        assert_eq!(objects(store).into_iter().collect::<BTreeSet<_>>(), here, "world {}", self.seed);
    }
}

/// A rule by which all buckets of index `old` are expired.
fn expire_old_index_rule() -> RetentionRule {
    RetentionRule {
        index: "old".to_owned(),
        max_age_secs: 0,
        max_stored_bytes: None,
        max_raw_bytes: None,
        archives: false,
        empties_after_secs: 0,
    }
}

#[allow(clippy::disallowed_methods, reason = "the length of a longer run is given by hand")]
fn worlds() -> u64 {
    std::env::var("QUARRY_VOLUME_WORLDS").ok().and_then(|worlds| worlds.parse().ok()).unwrap_or(WORLDS)
}

#[test]
fn events_are_stored_once_despite_crashes_and_volume_faults() {
    for seed in 1..=worlds() {
        let mut world = World::new(seed);
        for _ in 0..LIVES {
            world.live();
            world.volumes.iter().for_each(|volume| volume.land(false));
            world.pass(10);
        }
        world.end();
    }
}
