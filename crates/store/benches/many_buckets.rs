//! Stores with very many buckets: the time in which the catalog finds the buckets of a day, in both databases, and the
//! memory that a store takes after its start.
//!
//! `cargo bench -p quarry-store --bench many_buckets [-- BUCKETS]`, by default with a million buckets of two years. Fails
//! if the median of a query exceeds [`FIND_MAX`], or if a store with all buckets takes over [`GROWTH_BYTES_MAX`] more
//! memory than a store with a quarter of them. Memory is measured in a process of its own for each store.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quarry_blob::MemoryBlobStore;
use quarry_catalog::{
    BucketRow, BucketState, Catalog, FoundBucket, Origin, PostgreSqlLocation, PostgreSqlSettings, RemoteCopy,
    RemoteState,
};
use quarry_event::TimeRange;
use quarry_pgworld::PostgreSql;
use quarry_stdx::SystemClock;
use quarry_store::{RemoteOptions, RemotePath, Store, StoreOptions};

const BUCKETS: u64 = 1_000_000;
/// Buckets added by one transaction.
const TRANSACTION_BUCKETS: usize = 10_000;
const INDEXES: u64 = 50;
/// The time of the first event, in 2024, and the days that the events cover.
const FIRST_NS: i64 = 1_704_067_200_000_000_000;
const DAYS: i64 = 730;
const HOUR_NS: i64 = 3_600_000_000_000;
/// Hours that the events of a bucket cover at most: those of a merged bucket, and of any other.
const MERGED_HOURS: u64 = 24;
const SEALED_HOURS: u64 = 2;
/// Days for which buckets are looked up, evenly distributed.
const QUERIES: i64 = 21;
/// Maximum median time of a query for a day of one index, or of all indexes.
const FIND_MAX: Duration = Duration::from_millis(5);
/// Maximum difference between the memory of a store with all buckets and of one with a quarter of them.
const GROWTH_BYTES_MAX: u64 = 16 << 20;
/// Argument of the process that opens a store and prints its memory.
const MEMORY: &str = "--memory";
const STORE_ID: &str = "00000000000005ee";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [MEMORY, folder] => println!("{}", memory_of_store(Path::new(folder))),
        [count] => measure(count.parse().unwrap()),
        _ => measure(BUCKETS),
    }
}

fn measure(count: u64) {
    let (few, all) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(&catalog_in(few.path()), count / 4);
    let catalog = catalog_in(all.path());
    fill(&catalog, count);
    find_days("SQLite", &catalog);
    let server = PostgreSql::start();
    let settings = PostgreSqlSettings { url: server.url(), ..PostgreSqlSettings::default() };
    let location = PostgreSqlLocation::new(&settings, "quarry_many_buckets").unwrap();
    let copy = Catalog::open_postgresql(&location, &SystemClock::shared()).unwrap();
    catalog.copy_to(&copy).unwrap();
    catalog.close().unwrap();
    server.run("quarry", "ANALYZE");
    find_days("PostgreSQL", &copy);
    let [of_few, of_all] = [few.path(), all.path()].map(memory_in_own_process);
    println!(
        "memory after the start: {} KB with {} buckets, {} KB with {count}",
        of_few >> 10,
        count / 4,
        of_all >> 10
    );
    assert!(of_all.saturating_sub(of_few) <= GROWTH_BYTES_MAX, "memory grows with the number of buckets");
}

fn catalog_in(folder: &Path) -> Catalog {
    Catalog::open(&folder.join("catalog.sqlite")).unwrap()
}

/// Adds buckets that are only on a volume.
fn fill(catalog: &Catalog, count: u64) {
    let mut state = 1_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut bucket = |number: u64| {
        // Buckets arrive in the order of their times, which are distributed evenly.
        let hours = i128::from(number) * i128::from(DAYS) * 24 / i128::from(count.max(1));
        let is_merged = !number.is_multiple_of(4);
        let covered = below(if is_merged { MERGED_HOURS } else { SEALED_HOURS } * HOUR_NS.unsigned_abs());
        let time_min = FIRST_NS + i64::try_from(hours).unwrap() * HOUR_NS;
        row(number, &format!("index{}", below(INDEXES)), is_merged, time_min..time_min + covered.cast_signed())
    };
    let numbers: Vec<u64> = (1..=count).collect();
    for some in numbers.chunks(TRANSACTION_BUCKETS) {
        let found = |number: &u64| FoundBucket { row: bucket(*number), deleted: None, replaces: Vec::new() };
        catalog.add_found(&some.iter().map(found).collect::<Vec<_>>()).unwrap();
    }
}

fn row(number: u64, index: &str, is_merged: bool, times: std::ops::Range<i64>) -> BucketRow {
    let folder = format!("{index}/{STORE_ID}");
    let copy = RemoteCopy { volume: "far".to_owned(), folder, state: RemoteState::Evicted, receipt: Some(0) };
    BucketRow {
        number,
        index: index.into(),
        state: BucketState::Live,
        object: format!("{index}/{number:010}.bucket"),
        filter: format!("{index}/{number:010}.filter"),
        slabs: 1,
        time_min: times.start,
        time_max: times.end,
        events: 200_000,
        raw_bytes: 60_000_000,
        object_bytes: 6_000_000,
        filter_bytes: 500_000,
        created: times.end,
        level: u32::from(is_merged),
        thawed: false,
        remote: Some(copy),
        other: None,
        stem: None,
        merged_into: None,
        origins: if is_merged { vec![Origin { first_row: 0, number }] } else { Vec::new() },
    }
}

/// Measures queries for a day of one index and of all indexes.
fn find_days(database: &str, catalog: &Catalog) {
    let names: Vec<String> = (0..INDEXES).map(|number| format!("index{number}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    for (what, indexes) in [("one index", &all[..1]), ("all indexes", &all[..])] {
        let mut found = 0;
        let mut times: Vec<Duration> = (0..QUERIES)
            .map(|query| {
                let earliest = FIRST_NS + query * (DAYS - 1) / (QUERIES - 1) * 24 * HOUR_NS;
                let range = TimeRange { earliest: Some(earliest), latest: Some(earliest + 24 * HOUR_NS) };
                let start = Instant::now();
                found += catalog.overlapping(indexes, &range).unwrap().len();
                start.elapsed()
            })
            .collect();
        times.sort();
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        let each = found / times.len();
        println!("{database}, a day of {what}: {each} buckets, median {median:?}, at most {longest:?}");
        assert!(found > 0 && median <= FIND_MAX, "{database}: {median:?} is more than {FIND_MAX:?}");
    }
}

fn memory_in_own_process(folder: &Path) -> u64 {
    let ran = Command::new(std::env::current_exe().unwrap()).arg(MEMORY).arg(folder).output().unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    printed.trim().parse().unwrap_or_else(|_| panic!("{printed}{}", String::from_utf8_lossy(&ran.stderr)))
}

/// Opens the store in `folder`; returns the resident memory of this process in bytes.
fn memory_of_store(folder: &Path) -> u64 {
    let remote = RemoteOptions {
        volumes: [("far".to_owned(), Arc::new(MemoryBlobStore::default()) as _)].into(),
        default: Some(RemotePath { volume: "far".to_owned(), path: "$_index_name".to_owned() }),
        of_index: [].into(),
        cache_bytes_max: 0,
        eviction_padding: 0,
        hotlist_recency_secs: 0,
        hotlist_of_index: [].into(),
        uploads_max: 1,
        orphan_grace_secs: 86_400,
        new_store_id: STORE_ID.to_owned(),
    };
    let options = StoreOptions { remote: Some(Arc::new(remote)), ..StoreOptions::at(folder) };
    let store = Store::open(options, SystemClock::shared()).unwrap();
    assert!(store.stats().iter().map(|index| index.buckets).sum::<u64>() > 0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
