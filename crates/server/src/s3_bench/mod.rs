//! `quarry bench s3`: measures an object store with the operations of a node.
//!
//! Each operation is a phase: the requested number of threads call the store repeatedly until the time has passed, or,
//! in `delete`, until all objects are deleted. Every thread uses one endpoint, so that endpoints can be compared. The
//! report follows [warp](https://github.com/minio/warp): requests and bytes per second, latency percentiles, and the
//! slowest, median and fastest second, per endpoint and in total.
//!
//! Requests are those of the node itself: objects carry block checksums, and a `get` reads the end of an object before
//! the rest, so it takes two requests where a plain client needs one.

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

/// Maximum number of requests recorded per thread; a thread stops at this limit.
const SAMPLES_MAX: usize = 1 << 20;
/// Maximum number of objects a thread puts.
const OBJECTS_MAX: usize = 1 << 20;
/// Objects that a thread puts, unmeasured, for operations that need objects.
const PREPARED_OBJECTS: usize = 8;
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
    "ttfb_p50_ms",
    "ttfb_p90_ms",
    "ttfb_p99_ms",
    "slowest_second",
    "median_second",
    "fastest_second",
];

/// An endpoint, with a store that uses only this endpoint.
struct Target {
    endpoint: String,
    store: S3Store,
}

/// Objects of a run.
#[derive(Default)]
struct Made {
    /// Names of the objects that are, or may be, in the store.
    names: Vec<String>,
    /// Number of puts that were answered.
    stored: usize,
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
    let interrupt = Interrupt::install(|| log::info("stopping; the objects of this run are deleted first"))?;
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
    let mut made = Made::default();
    let reported = bench.run_phases(&mut made);
    // If no put was answered, the error of the run has the reason already.
    if let (Some(remains), true) = (bench.clean_up(&made.names), made.stored > 0) {
        log::warning(remains);
    }
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
    fn run_phases(&self, made: &mut Made) -> Result<(Vec<serde_json::Value>, usize), Failure> {
        let (mut rows, mut errors) = (Vec::new(), 0);
        let (phases, prepares) = self.arguments.phases();
        let mut has_put = prepares;
        if prepares {
            log::info("storing objects …");
            check_answers(&self.run_phase(S3Operation::Put, PREPARED_OBJECTS, made))?;
        }
        for operation in phases {
            let needs = matches!(operation, S3Operation::Get | S3Operation::Stat | S3Operation::Delete);
            if needs && !has_put {
                return Err(Failure::Usage(
                    "objects that are read or deleted must be put first: --operations put,…".to_owned(),
                ));
            }
            has_put |= operation == S3Operation::Put;
            if self.interrupt.is_set() || needs && made.names.is_empty() {
                break;
            }
            log::info(format!("{} …", operation.name()));
            let phase = self.run_phase(operation, OBJECTS_MAX, made);
            errors += phase.sides.iter().map(EndpointWork::errors).sum::<usize>();
            check_answers(&phase)?;
            rows.extend(report::rows(operation.name(), phase.sides));
        }
        Ok((rows, errors))
    }

    /// Runs one operation on all threads, each of which puts at most `puts` objects.
    fn run_phase(&self, operation: S3Operation, puts: usize, made: &mut Made) -> Phase {
        let next = AtomicUsize::new(0);
        let objects: Arc<[String]> = made.names.as_slice().into();
        let start_ns = self.clock.elapsed_ns();
        let works: Vec<ThreadWork> = thread::scope(|scope| {
            let start = |worker: usize| {
                let (next, objects) = (&next, Arc::clone(&objects));
                scope.spawn(move || self.work(operation, worker, start_ns, puts, &objects, next))
            };
            let threads: Vec<_> = (0..self.arguments.concurrency.max(1)).map(start).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        if operation == S3Operation::Delete {
            // Objects that no thread has reached remain; objects that could not be deleted are added below.
            made.names.drain(..next.load(Ordering::Relaxed).min(objects.len()));
        }
        let mut sides: Vec<EndpointWork> =
            self.targets.iter().map(|target| EndpointWork::new(&target.endpoint)).collect();
        let mut last_error = None;
        for work in works {
            made.stored += if operation == S3Operation::Put { work.samples.len() } else { 0 };
            sides[work.target].add(work.samples, work.errors);
            made.names.extend(work.names);
            last_error = work.last_error.or(last_error);
        }
        Phase { sides, last_error }
    }

    fn work(
        &self,
        operation: S3Operation,
        worker: usize,
        start_ns: i64,
        puts: usize,
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
            let mut first_ns = None;
            let done = match operation {
                S3Operation::Put if work.names.len() >= puts => break,
                S3Operation::Put => {
                    let name = format!("{}/{worker}/{}", self.run, work.names.len());
                    work.names.push(name.clone());
                    store.put(&name, &self.body).map(|()| self.body.len())
                }
                S3Operation::Delete => match objects.get(at) {
                    // The name is kept, because another endpoint may delete the object at the end of the run.
                    Some(name) => store.delete(name).map(|()| 0).inspect_err(|_| work.names.push(name.clone())),
                    None => break,
                },
                S3Operation::List => store.list().map(|_| 0),
                S3Operation::Stat => store.exists(&objects[at % objects.len()]).map(|_| 0),
                S3Operation::Get => read_whole(store, &objects[at % objects.len()], || {
                    first_ns = Some(self.clock.elapsed_ns() - begin_ns);
                }),
            };
            match done {
                Ok(bytes) => {
                    let took_ns = self.clock.elapsed_ns() - begin_ns;
                    let at_ns = begin_ns + took_ns - start_ns;
                    work.samples.push(Sample { at_ns, took_ns, first_ns, bytes: bytes as u64 });
                }
                Err(error) => {
                    work.errors += 1;
                    work.last_error = Some(error);
                }
            }
        }
        work
    }

    /// Deletes the remaining objects of the run. Returns a message if some objects stay because no endpoint deletes
    /// them.
    fn clean_up(&self, made: &[String]) -> Option<String> {
        let next = AtomicUsize::new(0);
        let done: Vec<(usize, Option<BlobError>)> = thread::scope(|scope| {
            let start = |worker: usize| {
                let next = &next;
                scope.spawn(move || self.delete_some(worker, made, next))
            };
            let threads: Vec<_> = (0..self.arguments.concurrency.max(1)).map(start).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let deleted: usize = done.iter().map(|(deleted, _)| deleted).sum();
        let error = done.into_iter().find_map(|(_, error)| error)?;
        let (left, prefix) = (made.len() - deleted, self.arguments.prefix.trim_matches('/'));
        Some(format!("{left} objects below {prefix}/{} stay in {}: {error}", self.run, self.arguments.container))
    }

    /// Deletes objects until none is left, or until an object cannot be deleted through any endpoint. Returns the
    /// number of deleted objects and the error.
    fn delete_some(&self, worker: usize, made: &[String], next: &AtomicUsize) -> (usize, Option<BlobError>) {
        let (mut target, mut deleted) = (worker % self.targets.len(), 0);
        while let Some(name) = made.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut failed = None;
            for _ in 0..self.targets.len() {
                match self.targets[target].store.delete(name) {
                    Ok(()) => {
                        failed = None;
                        break;
                    }
                    Err(error) => {
                        failed = Some(error);
                        target = (target + 1) % self.targets.len();
                    }
                }
            }
            if failed.is_some() {
                return (deleted, failed);
            }
            deleted += 1;
        }
        (deleted, None)
    }
}

/// The work of one operation.
struct Phase {
    /// The work per endpoint.
    sides: Vec<EndpointWork>,
    /// One of the errors.
    last_error: Option<BlobError>,
}

/// Fails if an operation had only errors.
fn check_answers(phase: &Phase) -> Result<(), Failure> {
    match &phase.last_error {
        Some(error) if phase.sides.iter().all(|side| side.answers() == 0) => Err(error.clone().into()),
        _ => Ok(()),
    }
}

#[derive(Default)]
struct ThreadWork {
    target: usize,
    samples: Vec<Sample>,
    errors: usize,
    last_error: Option<BlobError>,
    /// Objects that were put, or could not be deleted.
    names: Vec<String>,
}

/// Reads an object; calls `begun` when the first bytes (the end of the object, with its length) have arrived.
fn read_whole(store: &S3Store, name: &str, begun: impl FnOnce()) -> Result<usize, BlobError> {
    let object = store.open(name)?;
    begun();
    let len = usize::try_from(object.len()).unwrap_or(usize::MAX);
    let failed = |error| BlobError::Read { name: name.to_owned(), part: "the content", error };
    object.read_at(0, len).map(|bytes| bytes.len()).map_err(failed)
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
