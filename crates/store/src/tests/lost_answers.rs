//! A commit that was executed although its answer was lost is found in the catalog: it is neither repeated, nor does the
//! store go on as if it had failed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quarry_blob::{DirectoryStore, MemoryBlobStore};
use quarry_catalog::{Catalog, PostgreSqlLocation, PostgreSqlSettings, RemoteState};
use quarry_event::SentRequest;
use quarry_pgworld::{Cut, CuttingProxy, PostgreSql};
use quarry_stdx::{ManualClock, SystemClock};
use tempfile::{TempDir, tempdir};

use super::deletion::{find_events, remaining_texts};
use super::objects::Objects;
use super::sample::batch;
use super::{all, append, expected, open, remote, small, texts};
use crate::{LocalDisk, Store, StoreError, StoreOptions, data_dir};

/// Maximum number of attempts while the server notices that a connection was lost.
const ATTEMPTS_MAX: usize = 1_000;

/// A data directory whose catalog is behind a proxy and does not wait for lost connections.
struct World {
    dir: TempDir,
    proxy: CuttingProxy,
    place: PostgreSqlLocation,
    /// The volume of the indexes, if they have one.
    volume: Option<Arc<Objects>>,
}

impl World {
    fn new() -> World {
        let server = PostgreSql::shared();
        let proxy = CuttingProxy::start(server.socket());
        let url = server.url_through(proxy.address());
        let settings = PostgreSqlSettings { url, wait: Duration::ZERO, ..PostgreSqlSettings::default() };
        let place = PostgreSqlLocation::new(&settings, &data_dir::new_schema()).unwrap();
        World { dir: tempdir().unwrap(), proxy, place, volume: None }
    }

    fn with_volume() -> World {
        World { volume: Some(Objects::around(Arc::new(MemoryBlobStore::default()))), ..World::new() }
    }

    /// Makes the volume reachable or unreachable.
    fn set_volume_down(&self, is_down: bool) {
        self.volume.iter().for_each(|volume| volume.is_down.store(is_down, Ordering::SeqCst));
    }

    fn options(&self) -> StoreOptions {
        let dir = self.dir.path().join("data");
        let options = match &self.volume {
            Some(volume) => remote::options(&dir, volume.clone(), 1 << 30),
            None => small(&dir),
        };
        StoreOptions { sealers: 1, ..options }
    }

    fn open(&self) -> Arc<Store> {
        until_ok(|| -> Result<Arc<Store>, StoreError> {
            let options = self.options();
            let catalog = Catalog::open_postgresql(&self.place, &SystemClock::shared())?;
            let blobs = Arc::new(DirectoryStore::open(&data_dir::objects(&options.dir))?);
            Store::open_with(options, Arc::new(LocalDisk), blobs, catalog, ManualClock::shared(0))
        })
    }
}

fn until_ok<T, E: std::fmt::Debug>(mut act: impl FnMut() -> Result<T, E>) -> T {
    let mut failure = None;
    for _ in 0..ATTEMPTS_MAX {
        match act() {
            Ok(value) => return value,
            Err(error) => failure = Some(error),
        }
        std::thread::yield_now();
    }
    panic!("still fails: {failure:?}")
}

/// For each commit of `act`, loses its answer, repeats `act` until it succeeds, and checks the store then and after a
/// restart.
fn for_each_lost_answer(
    prepare: impl Fn(&World, &Store),
    act: impl Fn(&World, &Store) -> Result<(), StoreError>,
    check: impl Fn(&World, &Store),
) {
    for_each_lost_answer_in(World::new, prepare, act, check);
}

fn for_each_lost_answer_in(
    new: fn() -> World,
    prepare: impl Fn(&World, &Store),
    act: impl Fn(&World, &Store) -> Result<(), StoreError>,
    check: impl Fn(&World, &Store),
) {
    let mut failures = 0;
    for commit in 1.. {
        let world = new();
        let store = world.open();
        prepare(&world, &store);
        let before = world.proxy.cuts();
        world.proxy.cut(Cut::AfterCommits(commit));
        let acted = act(&world, &store);
        if world.proxy.cuts() == before {
            acted.unwrap();
            break;
        }
        failures += usize::from(acted.is_err());
        if acted.is_err() {
            until_ok(|| act(&world, &store));
        }
        check(&world, &store);
        assert_sound(&store);
        drop(store);
        let store = world.open();
        check(&world, &store);
        assert_sound(&store);
    }
    assert!(failures > 0, "no lost answer had an effect");
}

fn assert_sound(store: &Store) {
    let wrong: Vec<_> = store.verify().into_iter().filter(|verdict| verdict.result.is_err()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn seal(store: &Store, first: u64) {
    append(store, "main", first, 8);
    store.seal_all().unwrap();
}

#[test]
fn a_seal_is_not_repeated() {
    for_each_lost_answer(
        |_, store| append(store, "main", 0, 8),
        |_, store| store.seal_all(),
        |_, store| {
            assert_eq!(texts(&all(store)), expected("main", 0..8));
            assert_eq!(store.buckets().len(), 1);
        },
    );
}

#[test]
fn a_crash_during_the_next_attempt_to_seal_loses_nothing() {
    for commit in 1..12 {
        let world = World::new();
        let store = world.open();
        append(&store, "main", 0, 8);
        world.proxy.cut(Cut::AfterCommits(commit));
        let is_sealed = store.seal_all().is_ok();
        // The next attempt gets a little further each time.
        world.proxy.cut(Cut::AfterCommits(commit % 4 + 1));
        drop(store.seal_all());
        drop(store);
        let store = world.open();
        assert_eq!(texts(&all(&store)), expected("main", 0..8), "{commit}");
        until_ok(|| store.seal_all());
        assert_eq!(texts(&all(&store)), expected("main", 0..8), "{commit}, sealed: {is_sealed}");
    }
}

#[test]
fn a_merge_takes_effect_before_the_next_change() {
    for_each_lost_answer(
        |_, store| {
            seal(store, 0);
            seal(store, 8);
        },
        |_, store| store.compact_all().map(drop),
        |_, store| {
            assert_eq!(texts(&all(store)), expected("main", 0..16));
            assert_eq!(store.buckets().len(), 1);
        },
    );
}

#[test]
fn a_removal_after_a_merge_removes_the_merged_bucket() {
    for_each_lost_answer(
        |_, store| {
            seal(store, 0);
            seal(store, 8);
        },
        |_, store| {
            let merged = store.compact_all().map(drop);
            until_ok(|| store.remove_events_of("main"));
            merged
        },
        |_, store| assert!(texts(&all(store)).is_empty()),
    );
}

#[test]
fn a_deletion_is_visible_after_the_next_change() {
    for_each_lost_answer(
        |_, store| seal(store, 0),
        |_, store| {
            let deleted = store.delete(&find_events(&all(store), |number| number == 3)).map(drop);
            append(store, "other", 0, 1);
            until_ok(|| store.seal_all());
            deleted
        },
        |_, store| {
            let mut found = texts(&all(store));
            found.retain(|text| text.starts_with("main"));
            assert_eq!(found, remaining_texts("main", 0..8, |number| number == 3));
        },
    );
}

#[test]
fn retired_buckets_stay_retired() {
    for_each_lost_answer(
        |_, store| {
            seal(store, 0);
            seal(store, 8);
        },
        |_, store| store.remove_events_of("main").map(drop),
        |_, store| assert!(texts(&all(store)).is_empty()),
    );
}

#[test]
fn uploads_and_evictions_go_on() {
    for_each_lost_answer_in(
        World::with_volume,
        |world, store| {
            // The upload thread fails and pauses.
            world.set_volume_down(true);
            seal(store, 0);
            store.upload_all().unwrap_err();
        },
        |world, store| {
            world.set_volume_down(false);
            store.upload_all()?;
            store.evict_cache(None)
        },
        |_, store| {
            assert_eq!(remote::states(store), [Some(RemoteState::Evicted)]);
            assert_eq!(texts(&all(store)), expected("main", 0..8));
        },
    );
}

/// Number of stored events.
fn stored(store: &Store) -> usize {
    all(store).segments.iter().flat_map(|segment| segment.pages().iter().map(|page| page.events as usize)).sum()
}

#[test]
fn a_repeated_request_is_recognised_once() {
    let world = World::new();
    let send = |store: &Store| -> Result<SentRequest, StoreError> {
        let request = store.begin_request(7);
        store.append_sent(0, batch("main", 0, 1), &request)?.wait()?;
        Ok(request)
    };
    send(&world.open()).unwrap();
    // The sender repeats the request, and the catalog records this, but its answer is lost.
    let store = world.open();
    world.proxy.cut(Cut::AfterCommit);
    send(&store).unwrap_err();
    let request = until_ok(|| send(&store));
    assert_eq!(stored(&store), 1);
    store.record_answered(&[request]).unwrap();
    drop(store);
    // The request was answered, so the same content is a new request.
    let store = world.open();
    send(&store).unwrap();
    assert_eq!(stored(&store), 2);
}

/// The folder of an archived bucket with the events `0..8` of main.
fn archived(place: &Path) -> PathBuf {
    let store = open(&small(&place.join("before")));
    seal(&store, 0);
    drop(store);
    let folder = place.join("db_7_0_1");
    std::fs::create_dir(&folder).unwrap();
    for object in ["0000000001.bucket", "0000000001.filter"] {
        std::fs::copy(place.join("before/db/main").join(object), folder.join(object)).unwrap();
    }
    folder
}

#[test]
fn a_bucket_is_thawed_once() {
    for_each_lost_answer(
        |world, _| drop(archived(world.dir.path())),
        |world, store| store.thaw("main", &world.dir.path().join("db_7_0_1")).map(drop),
        |_, store| {
            assert_eq!(store.scan_thawed().unwrap(), Default::default());
            assert_eq!(texts(&all(store)), expected("main", 0..8));
            assert_eq!(store.buckets().len(), 1);
        },
    );
}

#[test]
fn idle_rows_leave_memory_after_a_lost_answer() {
    for commit in 1.. {
        let world = World::with_volume();
        let store = world.open();
        world.set_volume_down(true);
        (0..3).for_each(|bucket| seal(&store, bucket * 8));
        store.upload_all().unwrap_err();
        world.set_volume_down(false);
        let before = world.proxy.cuts();
        world.proxy.cut(Cut::AfterCommits(commit));
        let act = || store.upload_all().and_then(|()| store.evict_cache(None));
        let acted = act();
        if world.proxy.cuts() == before {
            acted.unwrap();
            break;
        }
        // The copies of buckets may now differ between memory and catalog.
        for is_settled in [false, true] {
            if is_settled {
                until_ok(act);
                until_ok(|| {
                    store.shared.unload_idle(0);
                    let rows = store.shared.state().sealed.rows();
                    if rows <= 1 { Ok(()) } else { Err(rows) }
                });
            }
            store.shared.unload_idle(0);
            until_ok(|| store.shared.state_with_all().map(drop));
            assert_eq!(texts(&all(&store)), expected("main", 0..24), "commit {commit}");
        }
    }
}
