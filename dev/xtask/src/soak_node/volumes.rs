//! Worlds whose buckets are on remote volumes: the node is killed while it seals, uploads, evicts, migrates, merges and
//! deletes, with a fault proxy between it and its S3 server.
//!
//! In each round the index `main` belongs to one of two volumes or to the data directory, the proxy fails requests in
//! one of several ways, senders send, and an operator runs commands: adding files, merging, sealing, migrating. At the
//! end the proxy injects no faults, and the following must hold: every acknowledged event is found once; all buckets
//! are where indexes.conf says; after the grace period every object on a volume belongs to a bucket; and a catalog
//! rebuilt from the volumes alone has the same events. The index `old` is limited to one megabyte, so that its buckets
//! are removed all the time; each of its events may be missing, except those of the last file, but none may be found
//! twice. A long run fails if its kills and faults hit no upload, or if retention removed nothing: then it shows nothing.
//!
//! If no S3 server is installed, these worlds are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quarry_s3world::{CONTAINER, FaultProxy, Faults, Gateway, KEY_ID, SECRET};
use serde_json::Value;

use super::node::{Fault, Node, Running, pause};
use super::senders::{AckSender, FileWriter, PlainSender};
use super::{Ledger, Rng, Sent, verdict};

/// Maximum time between the start of the senders and the kill, in milliseconds: some rounds end while the node's
/// background threads start, others during a migration.
const ROUND_MS_MAX: u64 = 900;
/// Kinds of requests that kills wait for, because a request is rarely under way at a random time, and a deletion hardly
/// ever; `None` for a kill at a random time.
const AWAITED: [Option<RequestKind>; 4] = [None, None, Some(RequestKind::Put), Some(RequestKind::Deletion)];
/// Maximum number of checks whether such a request is under way, and the pause between two checks.
const AWAITED_CHECKS_MAX: usize = 1_500;
const AWAITED_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time until an offline command is killed, in milliseconds.
const SEAL_MS_MAX: u64 = 250;
/// Age in seconds at which an object that belongs to no bucket is deleted.
const GRACE_SECS: u64 = 1;
/// Number of lines in a file added to `old`, and hexadecimal digits of each line, which make a bucket of about 100 KB.
const OLD_LINES: u64 = 200;
const OLD_DIGITS: usize = 900;
/// Maximum number of checks whether all buckets are at their locations, and the pause between two checks.
const LOCATION_CHECKS_MAX: usize = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of starts of a node, each of which begins with a sweep, until no orphaned object remains.
const SWEEPS_MAX: usize = 10;
/// Number of kills from which a run must have hit uploads.
const KILLS_OF_LONG_RUN: u64 = 100;
/// Round recorded for all requests. One round suffices, because no fault here prevents the node from recording its
/// answers.
const ROUND: u64 = 0;
/// Possible locations of `main`.
const PLACES: [Option<&str>; 3] = [Some("far"), Some("near"), None];

/// Totals of a world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VolumeTotals {
    /// Number of kills.
    pub(super) kills: u64,
    /// Number of kills during an upload; those during a deletion and during a read are counted in `in_delete` and
    /// `in_read`.
    pub(super) in_put: u64,
    /// Number of kills of a command that adds and seals.
    pub(super) in_seal: u64,
    pub(super) in_delete: u64,
    pub(super) in_read: u64,
    /// Number of requests, and of those that the proxy failed, damaged or delayed.
    pub(super) requests: u64,
    pub(super) faulty: u64,
    /// Number of acknowledged events, each of which was found once.
    pub(super) acknowledged: u64,
    /// Number of objects on the volumes at the end.
    pub(super) objects: u64,
    /// Number of events of the index `old` that retention removed.
    pub(super) old_removed: u64,
}

impl VolumeTotals {
    pub(super) fn add(&mut self, other: &VolumeTotals) {
        self.kills += other.kills;
        self.in_put += other.in_put;
        self.in_seal += other.in_seal;
        self.in_delete += other.in_delete;
        self.in_read += other.in_read;
        self.requests += other.requests;
        self.faulty += other.faulty;
        self.acknowledged += other.acknowledged;
        self.objects += other.objects;
        self.old_removed += other.old_removed;
    }
}

impl VolumeTotals {
    /// Fails if a long run did not exercise what it is for.
    pub(super) fn check_coverage(&self) -> Result<(), String> {
        let needed = [
            ("kill while adding and sealing", self.in_seal),
            ("kill with a put under way", self.in_put),
            ("kill with a deletion under way", self.in_delete),
            ("request that the proxy failed", self.faulty),
            ("event removed by retention", self.old_removed),
        ];
        let missing = needed.iter().find(|(_, count)| *count == 0 && self.kills >= KILLS_OF_LONG_RUN);
        missing.map_or(Ok(()), |(what, _)| Err(format!("{} kills on remote volumes, but no {what}", self.kills)))
    }

    pub(super) fn print(&self) {
        if self.kills == 0 {
            return;
        }
        println!(
            "soak-node: on remote volumes {} kills, {} of them while adding and sealing, {} with a put under way, {} with a deletion, {} with a read; {} \
             requests, {} of them failed, damaged or delayed by the proxy; {} events acknowledged, all stored once; {} \
             removed by retention; {} objects left, none without its bucket",
            self.kills,
            self.in_seal,
            self.in_put,
            self.in_delete,
            self.in_read,
            self.requests,
            self.faulty,
            self.acknowledged,
            self.old_removed,
            self.objects
        );
    }
}

struct World<'a> {
    node: Node,
    place: &'a Path,
    gateway: Gateway,
    proxy: FaultProxy,
    /// Current location of `main`.
    main: Option<&'static str>,
    old: Ledger,
}

/// Runs a world; `None` if versitygw is not installed.
pub(super) fn one_world(
    binary: &Path,
    disk_fault: &Path,
    place: &Path,
    rounds: u64,
    seed: u64,
) -> Result<Option<VolumeTotals>, String> {
    let Some(gateway) = Gateway::start() else { return Ok(None) };
    let proxy = FaultProxy::start(gateway.address(), Faults::default());
    let node = Node::prepare(binary, disk_fault, place)?;
    let mut world = World { node, place, gateway, proxy, main: PLACES[0], old: Ledger::new() };
    let mut rng = Rng::new(seed);
    let (mut plain, mut acked) = (PlainSender::default(), AckSender::default());
    let mut writer = FileWriter::new(&place.join("logs"))?;
    let mut totals = VolumeTotals::default();
    for _ in 0..rounds {
        world.seal(&mut rng, &mut totals)?;
        world.main = PLACES[rng.below(3) as usize];
        world.configure(&mut rng)?;
        world.proxy.set(faults_by(&mut rng));
        world.round((&mut plain, &mut acked, &mut writer), &mut rng, &mut totals)?;
        writer.fault()?;
    }
    world.proxy.set(Faults::default());
    let seen = world.proxy.requests();
    (totals.requests, totals.faulty) = (seen.len() as u64, seen.iter().filter(|seen| seen.faulty).count() as u64);
    world.seal_and_wait(writer.lines(), &mut rng)?;
    let ledgers = [&plain.ledger, &acked.ledger, &writer.ledger, &world.old];
    let sent = |ledger: &&Ledger| ledger.values().filter(|sent| sent.acknowledged).count() as u64;
    totals.acknowledged = ledgers.iter().map(sent).sum();
    let found = world.node.find_all(writer.lines())?;
    verdict::check(&found, &ledgers)?;
    let old_found = found.iter().filter(|text| text.starts_with("old ")).count() as u64;
    totals.old_removed = world.old.len() as u64 - old_found;
    totals.objects = world.wait_for_sweep()?;
    world.node.check_log()?;
    world.node.verify()?;
    world.check_rebuild(found)?;
    Ok(Some(totals))
}

/// Draws the faults of requests in a round.
fn faults_by(rng: &mut Rng) -> Faults {
    let seed = rng.next();
    let calm = Faults { seed, ..Faults::default() };
    let each = |share: u64| Faults {
        refused: share,
        failed: share,
        reset_before: share,
        reset_after: share,
        truncated: share,
        corrupted: share,
        slow: share,
        stalled: share / 4,
        ..calm.clone()
    };
    match rng.below(6) {
        0 => calm,
        1 => Faults { latency: Duration::from_millis(5 + rng.below(40)), ..calm },
        // The S3 server is down.
        2 => Faults { refused: 1000, ..calm },
        // The S3 server throttles requests.
        3 => Faults { refused: 400, ..calm },
        4 => each(100),
        _ => each(30),
    }
}

impl World<'_> {
    /// Writes indexes.conf and server.conf: in half of the rounds, no space is left for local copies.
    fn configure(&self, rng: &mut Rng) -> Result<(), String> {
        let url = self.proxy.url();
        let volume = |name: &str| {
            format!(
                "[volume:{name}]\nstorageType = remote\npath = s3://{CONTAINER}/{name}\nremote.s3.endpoint = {url}\n\
                 remote.s3.access_key = {KEY_ID}\nremote.s3.secret_key = {SECRET}\nremote.s3.timeout.read = 700\n"
            )
        };
        let main = self.main.map(|volume| format!("volume:{volume}/$_index_name")).unwrap_or_default();
        let indexes = format!(
            "[default]\nremotePath = volume:far/$_index_name\n[main]\nremotePath = {main}\n\
             [old]\nmaxGlobalDataSizeMB = 1\n{}{}",
            volume("far"),
            volume("near")
        );
        let padding = if rng.below(2) == 0 { 1_000_000_000 } else { 0 };
        let server = format!("[cachemanager]\neviction_padding = {padding}\norphan_grace_secs = {GRACE_SECS}\n");
        self.node.write_conf("indexes.conf", &indexes)?;
        self.node.write_conf("server.conf", &server)
    }

    /// Adds a file while no node runs; the command seals all events in memory. One in two of these commands is killed.
    fn seal(&mut self, rng: &mut Rng, totals: &mut VolumeTotals) -> Result<(), String> {
        let path = old_file(self.place, &mut self.old, rng)?;
        let add = ["add", "oneshot", &path, "--index", "old", "--sourcetype", "soak_lines"];
        let kill_after = (rng.below(2) == 0).then(|| Duration::from_millis(rng.below(SEAL_MS_MAX)));
        if self.node.run_and_kill(&add, kill_after)? {
            totals.kills += 1;
            totals.in_seal += 1;
        }
        Ok(())
    }

    /// Runs the node once, until it is killed.
    fn round(
        &mut self,
        (plain, acked, writer): (&mut PlainSender, &mut AckSender, &mut FileWriter),
        rng: &mut Rng,
        totals: &mut VolumeTotals,
    ) -> Result<(), String> {
        let fault = Fault::Kill { after: Duration::from_millis(rng.below(ROUND_MS_MAX)) };
        let [of_plain, of_acked, of_writer, mut of_operator] =
            [rng.next(), rng.next(), rng.next(), rng.next()].map(Rng);
        let running = self.node.start(&fault)?;
        let (hec, over) = (running.hec(), AtomicBool::new(false));
        let awaited = AWAITED[rng.below(AWAITED.len() as u64) as usize];
        let (node, main, folder) = (&self.node, self.main, self.place);
        let old = &mut self.old;
        let proxy = &self.proxy;
        std::thread::scope(|scope| {
            if let Some(hec) = &hec {
                scope.spawn(|| plain.send(hec, ROUND, of_plain, &over));
                scope.spawn(|| acked.send(hec, ROUND, of_acked, &over));
            }
            scope.spawn(|| writer.write(of_writer, &over));
            let operator = scope.spawn(|| operate(node, main, folder, old, &mut of_operator, &over));
            let open = running.end_observed(&fault, || wait_for_request(proxy, awaited));
            over.store(true, Ordering::SeqCst);
            let operated = operator.join().map_err(|_| "the operator's thread failed".to_owned());
            let open = open?;
            totals.kills += 1;
            let has = |kind: RequestKind| u64::from(open.iter().any(|line| RequestKind::of(line) == kind));
            totals.in_put += has(RequestKind::Put);
            totals.in_delete += has(RequestKind::Deletion);
            totals.in_read += has(RequestKind::Read);
            operated?
        })
    }

    /// Waits until the watched file is read, seals everything, and waits until all buckets are at their locations.
    fn seal_and_wait(&mut self, lines: usize, rng: &mut Rng) -> Result<(), String> {
        let running = self.node.start(&Fault::None)?;
        self.node.find_all(lines)?;
        running.stop()?;
        let earlier = self.old.clone();
        let path = old_file(self.place, &mut self.old, rng)?;
        let added = self.node.run(&["add", "oneshot", &path, "--index", "old", "--sourcetype", "soak_lines"])?;
        if added.code != Some(0) {
            return Err(format!("cannot add a file: {}", added.err));
        }
        // Retention never removes the newest bucket of an index, so the lines of the last file must be found.
        for (line, sent) in &mut self.old {
            sent.acknowledged = !earlier.contains_key(line);
        }
        let running = self.node.start(&Fault::None)?;
        self.wait_for_locations(&running)?;
        running.stop()
    }

    /// Waits until every sealed bucket is where indexes.conf says.
    fn wait_for_locations(&self, running: &Running<'_>) -> Result<(), String> {
        let mut left = String::new();
        for _ in 0..LOCATION_CHECKS_MAX {
            // The command fails while an earlier migration is in progress.
            drop(self.node.run(&["index", "migrate", "main", "--to", self.main.unwrap_or("local")]));
            left = self.describe_misplaced()?;
            if left.is_empty() {
                return Ok(());
            }
            if !running.is_alive() {
                return Err("the node ended by itself".to_owned());
            }
            pause(POLL_INTERVAL);
        }
        Err(format!("buckets are not where they belong, although all requests succeed: {left}"))
    }

    /// Describes the sealed buckets that are not where indexes.conf says.
    fn describe_misplaced(&self) -> Result<String, String> {
        let mut astray = Vec::new();
        for bucket in self.node.buckets()? {
            let of = |name: &str| bucket[name].as_str().unwrap_or_default();
            let is_remote = of("index") != "main" || self.main.is_some();
            let is_there = match of("copies") {
                "remote" | "local and remote" => is_remote,
                "local" => !is_remote,
                _ => false,
            };
            if of("state") == "sealed" && !is_there {
                astray.push(format!("{} is {}", of("bucket"), of("copies")));
            }
        }
        Ok(astray.join(", "))
    }

    /// Restarts the node until it has swept all orphaned objects from the volumes; returns the number of objects left.
    fn wait_for_sweep(&self) -> Result<u64, String> {
        let mut orphans = Vec::new();
        for _ in 0..SWEEPS_MAX {
            pause(Duration::from_secs(GRACE_SECS + 1));
            let running = self.node.start(&Fault::None)?;
            self.wait_for_locations(&running)?;
            for _ in 0..LOCATION_CHECKS_MAX / SWEEPS_MAX {
                let objects = self.objects();
                orphans = self.orphans(&objects)?;
                if orphans.is_empty() {
                    running.stop()?;
                    return Ok(objects.len() as u64);
                }
                pause(POLL_INTERVAL);
            }
            running.stop()?;
        }
        Err(format!("objects that belong to no bucket and are older than the grace period: {}", orphans.join(", ")))
    }

    /// Keys of all objects, read from the folder of the S3 server.
    fn objects(&self) -> BTreeSet<String> {
        let root = self.gateway.file("");
        let mut keys = BTreeSet::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(path.strip_prefix(&root).map(|key| keys.insert(key.display().to_string()))),
                }
            }
        }
        // This is the server's own folder of unfinished puts.
        keys.retain(|key| !key.starts_with(".sgwtmp"));
        keys
    }

    /// Lists objects that belong to no bucket on their volume, and buckets on a volume that do not have three objects.
    fn orphans(&self, objects: &BTreeSet<String>) -> Result<Vec<String>, String> {
        let mut expected: BTreeSet<(String, String)> = BTreeSet::new();
        for bucket in self.node.buckets()? {
            let of = |name: &str| bucket[name].as_str().unwrap_or_default().to_owned();
            if matches!(of("copies").as_str(), "remote" | "local and remote") {
                let volume = if of("index") == "main" { self.main.unwrap_or_default() } else { "far" };
                let number = of("bucket").rsplit('~').next().and_then(|number| number.parse::<u64>().ok());
                let number = number.ok_or_else(|| format!("bucket {} has no number", of("bucket")))?;
                expected.insert((format!("{volume}/{}", of("index")), format!("{number:010}")));
            }
        }
        let mut found: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        let mut orphans = Vec::new();
        for key in objects {
            // VOLUME/INDEX/STORE/NUMBER-TIME.ENDING
            let parts: Vec<&str> = key.split('/').collect();
            // Buckets of internal indexes are created and removed during this check.
            if parts.get(1).is_some_and(|index| index.starts_with('_')) {
                continue;
            }
            let bucket = match parts[..] {
                [volume, index, _, name] => {
                    name.split_once('-').map(|(number, _)| (format!("{volume}/{index}"), number))
                }
                _ => None,
            };
            match bucket.map(|(folder, number)| (folder, number.to_owned())).filter(|bucket| expected.contains(bucket))
            {
                Some(bucket) => found.entry(bucket).or_default().push(key),
                None => orphans.push(key.clone()),
            }
        }
        for bucket in &expected {
            let keys = found.get(bucket).map(Vec::as_slice).unwrap_or_default();
            let has = |ending: &str| keys.iter().filter(|key| key.ends_with(ending)).count() == 1;
            if keys.len() != 3 || !has(".bucket") || !has(".filter") || !has(".receipt") {
                orphans.push(format!("{}/{} has {keys:?}", bucket.0, bucket.1));
            }
        }
        Ok(orphans)
    }

    /// Simulates the loss of the machine: a new data directory must have all events that were on volumes.
    fn check_rebuild(&self, mut found: Vec<String>) -> Result<(), String> {
        let lost = self.node.with_data(&self.place.join("rebuilt"))?;
        let listed = lost.run(&["bucket", "rebuild-catalog", "-o", "json"])?;
        let stores: Vec<Value> =
            serde_json::from_str(&listed.out).map_err(|error| format!("{error}: {}", listed.err))?;
        let [store] = &stores[..] else {
            return Err(format!("expected one data directory on the volumes, found {stores:?}"));
        };
        let id = store["store"].as_str().unwrap_or_default();
        let rebuilt = lost.run(&["bucket", "rebuild-catalog", "--store", id])?;
        if rebuilt.code != Some(0) {
            return Err(format!("cannot rebuild the catalog: {}{}", rebuilt.out, rebuilt.err));
        }
        let mut again = lost.find_all(0)?;
        if self.main.is_none() {
            found.retain(|text| text.starts_with("old "));
            again.retain(|text| text.starts_with("old "));
        }
        found.sort();
        again.sort();
        if found != again {
            return Err(format!("the rebuilt catalog has {} events, not {}", again.len(), found.len()));
        }
        Ok(())
    }
}

/// Kind of a request to the S3 server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// Part of an upload.
    Put,
    Deletion,
    Read,
}

impl RequestKind {
    /// Kind of the request with this first line. Objects are deleted by `POST …?delete`, which names several.
    fn of(line: &str) -> RequestKind {
        match line.split(' ').next() {
            Some("GET" | "HEAD") => RequestKind::Read,
            Some("DELETE") => RequestKind::Deletion,
            _ if line.contains("?delete") => RequestKind::Deletion,
            _ => RequestKind::Put,
        }
    }
}

/// Waits until a request of this kind is under way; returns the requests that are under way at the end.
fn wait_for_request(proxy: &FaultProxy, awaited: Option<RequestKind>) -> Vec<String> {
    let mut open = proxy.open_requests();
    for _ in 0..AWAITED_CHECKS_MAX {
        if awaited.is_none_or(|kind| open.iter().any(|line| RequestKind::of(line) == kind)) {
            break;
        }
        pause(AWAITED_INTERVAL);
        open = proxy.open_requests();
    }
    open
}

/// Runs commands until the round is over; failures are expected, because the node is killed or a volume does not
/// answer.
fn operate(
    node: &Node,
    main: Option<&'static str>,
    folder: &Path,
    old: &mut Ledger,
    rng: &mut Rng,
    over: &AtomicBool,
) -> Result<(), String> {
    while !over.load(Ordering::SeqCst) {
        match rng.below(5) {
            0 => drop(node.run(&["bucket", "compact"])?),
            1 => drop(node.run(&["index", "migrate", "main", "--to", main.unwrap_or("local")])?),
            // The search matches nothing, but `delete` seals all events first.
            2 => drop(node.run(&["search", "index=* no_such_field=here | delete", "-o", "raw"])?),
            3 => drop(node.run(&["search", "index=* | stats count", "-o", "raw"])?),
            _ => {
                let path = old_file(folder, old, rng)?;
                drop(node.run(&["add", "oneshot", &path, "--index", "old", "--sourcetype", "soak_lines"])?);
            }
        }
    }
    Ok(())
}

/// Writes a file of new lines for the index `old`; returns its path.
fn old_file(folder: &Path, old: &mut Ledger, rng: &mut Rng) -> Result<String, String> {
    let number = old.len() as u64;
    let digits =
        |rng: &mut Rng| -> String { (0..OLD_DIGITS.div_ceil(16)).map(|_| format!("{:016x}", rng.next())).collect() };
    let lines: Vec<String> = (number..number + OLD_LINES).map(|line| format!("old {line} {}", digits(rng))).collect();
    let path = folder.join(format!("old-{number}.log"));
    std::fs::write(&path, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    old.extend(lines.into_iter().map(|line| (line, Sent { times: 1, ..Sent::default() })));
    Ok(path.display().to_string())
}
