//! `quarry bench s3`: measures an object store with the operations of a node.
//!
//! Each operation is a phase: the requested number of threads call the store repeatedly until the time has passed, or,
//! in `delete`, until all objects are deleted. Every thread uses one endpoint, so that endpoints can be compared. The
//! report follows [warp](https://github.com/minio/warp): requests and bytes per second, latency percentiles, and the
//! slowest, median and fastest second, per endpoint and in total.
//!
//! Requests are those of the node itself: objects carry block checksums, and a `get` reads an object's end before the
//! rest, so it takes two requests, while a plain client needs one.

mod arguments;
mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use quarry_blob::{BlobError, BlobStore, S3Credentials, S3Settings, S3Store};
use quarry_stdx::{SharedClock, SystemClock, log, random};

pub(crate) use self::arguments::S3BenchArgs;
use self::arguments::S3Operation;
use self::report::{EndpointWork, Sample};
use crate::failure::{self, Failure};
use crate::interrupt::Interrupt;
use crate::{bucket, data_directory};

/// Maximum requests recorded per thread; a thread that reaches it stops.
const SAMPLES_MAX: usize = 1 << 20;
/// Maximum objects a thread puts.
const OBJECTS_MAX: usize = 1 << 20;
/// Failed requests after which a thread gives up.
const FAILURES_MAX: usize = 100;

const COLUMNS: &[&str] = &[
    "operation",
    "endpoint",
    "requests",
    "errors",
    "per_second",
    "mb_per_second",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "max_ms",
    "slowest_second",
    "median_second",
    "fastest_second",
];

/// An endpoint, with a store that uses only it.
struct Target {
    endpoint: String,
    store: S3Store,
}

/// State shared by all phases.
struct Bench<'a> {
    arguments: &'a S3BenchArgs,
    targets: Vec<Target>,
    clock: SharedClock,
    interrupt: Interrupt,
    /// Prefix of this run's object names.
    run: String,
    body: Vec<u8>,
}

/// Runs the phases and writes the report.
pub(crate) fn run(arguments: &S3BenchArgs) -> Result<u8, Failure> {
    let interrupt = Interrupt::install(|| log::info("ending; objects of this run are deleted first"))?;
    let clock = SystemClock::shared();
    let mut targets = Vec::new();
    for settings in settings(arguments)? {
        let endpoint = settings.endpoints.first().cloned().unwrap_or_else(|| format!("AWS {}", settings.region));
        targets.push(Target { endpoint, store: S3Store::open(settings, clock.clone())? });
    }
    let bench = Bench {
        arguments,
        targets,
        clock,
        interrupt,
        run: format!("{:016x}", random_number()),
        body: body(usize::try_from(arguments.size.0).map_err(|_| Failure::Usage("--size is too large".to_owned()))?),
    };
    let mut made = Vec::new();
    let reported = bench.run_phases(&mut made);
    bench.clean_up(&made);
    let (rows, errors) = reported?;
    bucket::print(&rows.into(), COLUMNS, arguments.output)?;
    Ok(if errors == 0 { 0 } else { failure::PARTIAL })
}

fn settings(arguments: &S3BenchArgs) -> Result<Vec<S3Settings>, Failure> {
    let variables = data_directory::environment_variables();
    let common = S3Settings {
        prefix: arguments.prefix.trim_matches('/').to_owned(),
        region: arguments.region.clone(),
        path_style: !arguments.virtual_host,
        requests_max: arguments.concurrency.max(1) * 8,
        authorities: match &arguments.ca {
            None => Vec::new(),
            Some(path) => std::fs::read(path)
                .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?,
        },
        ..S3Settings::new(&arguments.container, &[], S3Credentials::Machine(variables))
    };
    if arguments.endpoint.is_empty() {
        return Ok(vec![common]);
    }
    let of = |url: &String| S3Settings { endpoints: vec![url.trim_end_matches('/').to_owned()], ..common.clone() };
    Ok(arguments.endpoint.iter().map(of).collect())
}

impl Bench<'_> {
    /// Runs all phases; returns the rows of the report and the number of failed requests.
    fn run_phases(&self, made: &mut Vec<String>) -> Result<(Vec<serde_json::Value>, usize), Failure> {
        let (mut rows, mut errors) = (Vec::new(), 0);
        let mut has_put = false;
        for operation in &self.arguments.operations {
            let needs = matches!(operation, S3Operation::Get | S3Operation::Stat | S3Operation::Delete);
            if needs && !has_put {
                return Err(Failure::Usage(
                    "objects that are read or deleted must be put first: --operations put,…".to_owned(),
                ));
            }
            has_put |= *operation == S3Operation::Put;
            if self.interrupt.is_set() || needs && made.is_empty() {
                break;
            }
            log::info(format!("{} …", operation.name()));
            let (sides, last_error) = self.run_phase(*operation, made);
            errors += sides.iter().map(EndpointWork::errors).sum::<usize>();
            if let (Some(error), true) = (last_error, sides.iter().all(|side| side.answers() == 0)) {
                return Err(error.into());
            }
            rows.extend(report::rows(operation.name(), sides));
        }
        Ok((rows, errors))
    }

    /// Runs one operation on all threads; returns the work per endpoint, and one of the errors.
    fn run_phase(&self, operation: S3Operation, made: &mut Vec<String>) -> (Vec<EndpointWork>, Option<BlobError>) {
        let next = AtomicUsize::new(0);
        let objects: Arc<[String]> = made.as_slice().into();
        let start_ns = self.clock.elapsed_ns();
        let works: Vec<ThreadWork> = thread::scope(|scope| {
            let start = |worker: usize| {
                let (next, objects) = (&next, Arc::clone(&objects));
                scope.spawn(move || self.work(operation, worker, start_ns, &objects, next))
            };
            let threads: Vec<_> = (0..self.arguments.concurrency.max(1)).map(start).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let mut sides: Vec<EndpointWork> =
            self.targets.iter().map(|target| EndpointWork::new(&target.endpoint)).collect();
        let mut last_error = None;
        for work in works {
            sides[work.target].add(work.samples, work.errors);
            made.extend(work.made);
            last_error = work.last_error.or(last_error);
        }
        if operation == S3Operation::Delete {
            made.clear();
        }
        (sides, last_error)
    }

    fn work(
        &self,
        operation: S3Operation,
        worker: usize,
        start_ns: i64,
        objects: &[String],
        next: &AtomicUsize,
    ) -> ThreadWork {
        let target = worker % self.targets.len();
        let store = &self.targets[target].store;
        let mut work = ThreadWork { target, ..ThreadWork::default() };
        let end_ns = start_ns.saturating_add(i64::try_from(self.arguments.duration.0.as_nanos()).unwrap_or(i64::MAX));
        while work.samples.len() < SAMPLES_MAX && work.errors < FAILURES_MAX && !self.interrupt.is_set() {
            let begin_ns = self.clock.elapsed_ns();
            if begin_ns >= end_ns && operation != S3Operation::Delete {
                break;
            }
            let at = next.fetch_add(1, Ordering::Relaxed);
            let done = match operation {
                S3Operation::Put if work.made.len() >= OBJECTS_MAX => break,
                S3Operation::Put => {
                    let name = format!("{}/{worker}/{}", self.run, work.made.len());
                    work.made.push(name.clone());
                    store.put(&name, &self.body).map(|()| self.body.len())
                }
                S3Operation::Delete => match objects.get(at) {
                    Some(name) => store.delete(name).map(|()| 0),
                    None => break,
                },
                S3Operation::List => store.list().map(|_| 0),
                S3Operation::Stat => store.exists(&objects[at % objects.len()]).map(|_| 0),
                S3Operation::Get => read_whole(store, &objects[at % objects.len()]),
            };
            match done {
                Ok(bytes) => {
                    let took_ns = self.clock.elapsed_ns() - begin_ns;
                    work.samples.push(Sample { at_ns: begin_ns + took_ns - start_ns, took_ns, bytes: bytes as u64 });
                }
                Err(error) => {
                    work.errors += 1;
                    work.last_error = Some(error);
                }
            }
        }
        work
    }

    /// Deletes the remaining objects of the run.
    fn clean_up(&self, made: &[String]) {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for worker in 0..self.arguments.concurrency.max(1) {
                let (store, next) = (&self.targets[worker % self.targets.len()].store, &next);
                scope.spawn(move || {
                    while let Some(name) = made.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = store.delete(name) {
                            log::warning(format!("not deleted: {error}"));
                            break;
                        }
                    }
                });
            }
        });
    }
}

/// Work of one thread.
#[derive(Default)]
struct ThreadWork {
    target: usize,
    samples: Vec<Sample>,
    errors: usize,
    last_error: Option<BlobError>,
    made: Vec<String>,
}

fn read_whole(store: &S3Store, name: &str) -> Result<usize, BlobError> {
    let object = store.open(name)?;
    let len = usize::try_from(object.len()).unwrap_or(usize::MAX);
    let read = object.read_at(0, len);
    read.map(|bytes| bytes.len())
        .map_err(|error| BlobError::Damaged { name: name.to_owned(), reason: error.to_string() })
}

/// Returns incompressible bytes.
fn body(size: usize) -> Vec<u8> {
    let mut body = vec![0; size];
    random::fill(&mut body);
    body
}

fn random_number() -> u64 {
    let mut bytes = [0; 8];
    random::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
