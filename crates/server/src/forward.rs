//! `quarry forward`: runs the inputs of `serve` without a store; events are sent to indexers through a queue on disk.
//!
//! The queue is the folder `forward` of the data directory; outputs.conf configures targets. Stopping does not wait for
//! the queue: queued events are sent after the next start. `run/forward.json` has the forwarder's addresses.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quarry_conf::{OutputSettings, ServerSettings};
use quarry_event::EventBatch;
use quarry_forward::{GroupOptions, Link, Outlet, OutletSink, Routes, Spool, SpoolOptions};
use quarry_ingest::{Claim, Claims, FileMonitors, SinkFactory, watch_files};
use quarry_inputs::{EventStore, FilePosition, Sink, SinkError};
use quarry_listen::{Listeners, listen_for_events, wait_stopped};
use quarry_programs::{ProgramInputs, start_inputs};
use quarry_stdx::{descriptors, log, private_file, private_folder, random};
use serde_json::json;
use tokio::sync::watch;

use crate::cli::ForwardArgs;
use crate::data_directory::{self, Settings};
use crate::failure::Failure;
use crate::serve::{parse_address, stop_signal};
use crate::watched_paths;

/// Folder of the queue, relative to the data directory.
const QUEUE_FOLDER: &str = "forward";
/// File with the forwarder's addresses.
const RUN_FILE: &str = "run/forward.json";
/// Interval of reports about losses.
const LOSS_REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// Time that shutdown waits for running requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Thread that syncs the queue.
const SYNC_THREAD: &str = "quarry-queue";
/// Number of network threads, which mostly wait.
const NETWORK_THREADS: usize = 2;

/// Factory of the sinks of file readers.
struct Forwarding {
    outlet: Outlet,
    claims: Arc<Claims>,
}

/// Runs the forwarder until it is stopped.
pub(crate) fn run(data_dir: &Path, arguments: &ForwardArgs) -> Result<u8, Failure> {
    let hec = arguments.hec.as_deref().map(|text| parse_address("--hec", text)).transpose()?;
    descriptors::raise_limit();
    let settings = Arc::new(Settings::for_forwarder(data_dir));
    let outputs = OutputSettings::new(&settings.layers);
    outputs.faults.iter().for_each(log::warning);
    if outputs.groups.is_empty() {
        let file = data_dir.join("etc/system/local/outputs.conf");
        let text = match outputs.is_disabled {
            true => "outputs.conf disables forwarding: write [tcpout] disabled = false to",
            false => {
                "no indexer to send to: write [tcpout] defaultGroup = NAME and [tcpout:NAME] server = host:9997 to"
            }
        };
        return Err(Failure::Usage(format!("{text} {}", file.display())));
    }
    watched_paths::report(&settings.layers);
    let (routes, spool) = open(data_dir, &outputs, &settings)?;
    private_folder::make_private(data_dir);
    let outlet = Outlet::new(Arc::clone(&spool), routes);
    let syncing = Arc::clone(&spool);
    let thread = std::thread::Builder::new().name(SYNC_THREAD.to_owned()).spawn(move || syncing.run());
    let thread = thread.map_err(|error| Failure::Storage(format!("cannot start a thread: {error}")))?;
    let sinks: Arc<dyn SinkFactory> =
        Arc::new(Forwarding { outlet: outlet.with_routing(None), claims: Arc::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(NETWORK_THREADS).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Storage(format!("cannot start threads: {error}")))?;
    let node = Forwarder { data_dir, settings, outputs, spool: Arc::clone(&spool), outlet };
    let mut reading = None;
    let served = runtime.block_on(node.forward(hec, &sinks, &mut reading));
    // File readers and programs may be waiting for room in the queue; stopping the queue ends these waits.
    spool.stop();
    drop(reading);
    runtime.shutdown_timeout(STOP_TIMEOUT);
    if thread.join().is_err() {
        log::error("the queue ended because of a bug in quarry; data that was not durable is read or sent again");
    }
    log::info("quarry stopped");
    served.map(|()| 0)
}

fn open(data_dir: &Path, outputs: &OutputSettings, settings: &Settings) -> Result<(Arc<Routes>, Arc<Spool>), Failure> {
    let routes = Arc::new(Routes::new(outputs)?);
    let group = |group: &quarry_conf::OutputGroup| GroupOptions { name: group.name.clone(), blocks: group.blocks };
    let (spool, notes) = Spool::open(SpoolOptions {
        folder: data_dir.join(QUEUE_FOLDER),
        limit_bytes: outputs.queue_bytes as u64,
        free_bytes_min: ServerSettings::new(&settings.layers).free_bytes_min,
        groups: outputs.groups.iter().take(routes.names().len()).map(group).collect(),
        drop_after: outputs.drop_after_seconds.map(Duration::from_secs),
        clock: settings.clock.clone(),
        new_name: random::id::<16>(),
    })?;
    notes.iter().for_each(log::warning);
    Ok((routes, spool))
}

/// A running forwarder.
struct Forwarder<'a> {
    data_dir: &'a Path,
    settings: Arc<Settings>,
    outputs: OutputSettings,
    spool: Arc<Spool>,
    outlet: Outlet,
}

impl Forwarder<'_> {
    /// Forwards until stopped; the running file readers and programs are stored in `reading`.
    async fn forward(
        &self,
        hec: Option<std::net::SocketAddr>,
        sinks: &Arc<dyn SinkFactory>,
        reading: &mut Option<(ProgramInputs, FileMonitors)>,
    ) -> Result<(), Failure> {
        let (data_dir, settings) = (self.data_dir, &Arc::new(self.settings.inputs()));
        let collector = listen_for_events(data_dir, hec, settings, Arc::new(self.outlet.with_routing(None))).await?;
        let stores = |routing: Option<&str>| -> Arc<dyn EventStore> { Arc::new(self.outlet.with_routing(routing)) };
        let (listeners, faults) = Listeners::start(data_dir, settings, None, &stores).await?;
        faults.iter().for_each(log::warning);
        let stop = stop_signal().map_err(|error| Failure::Storage(format!("cannot handle signals: {error}")))?;
        // The inputs start only now, so that a forwarder that cannot listen for events reads no files and runs no
        // programs.
        let programs = start_inputs(data_dir, settings, None, &stores)?;
        *reading = Some((programs, watch_files(settings, sinks)?));
        let (stopper, stopping) = watch::channel(false);
        let links: Vec<_> = self.links(&stopping).into_iter().map(|link| tokio::spawn(link.run())).collect();
        let hec = collector.as_ref().map(|collector| collector.address.to_string());
        let text = json!({ "hec": hec, "inputs": listeners.addresses }).to_string();
        let run_file = data_dir.join(RUN_FILE);
        private_file::write(&run_file, &text)?;
        log::info(format!("quarry forwards from {}", data_dir.display()));
        tokio::select! {
            () = stop => {}
            () = self.report_losses(stopping.clone()) => {}
        }
        listeners.stop().await;
        if let Some(collector) = collector {
            collector.stop().await;
        }
        stopper.send_replace(true);
        for link in links {
            // A failed task has reported its error.
            drop(link.await);
        }
        drop(std::fs::remove_file(&run_file));
        Ok(())
    }

    fn links(&self, stopping: &watch::Receiver<bool>) -> Vec<Link> {
        let groups = self.outputs.groups.iter().enumerate();
        let link = |(number, group): (usize, &quarry_conf::OutputGroup)| {
            let mut byte = [0; 1];
            random::fill(&mut byte);
            Link {
                group: group.clone(),
                number,
                spool: Arc::clone(&self.spool),
                clock: self.settings.clock.clone(),
                host: data_directory::host_name(),
                data_dir: self.data_dir.to_path_buf(),
                stopping: stopping.clone(),
                first: usize::from(byte[0]),
            }
        };
        groups.map(link).collect()
    }

    /// Periodically reports dropped and unroutable events, until the forwarder stops.
    async fn report_losses(&self, mut stopping: watch::Receiver<bool>) {
        let (mut unsent, mut oversized, mut dropped) = (0, 0, 0);
        let mut lost = vec![(0, 0); self.outputs.groups.len()];
        while tokio::time::timeout(LOSS_REPORT_INTERVAL, wait_stopped(&mut stopping)).await.is_err() {
            let told = |now: u64, before: &mut u64, text: &str| {
                let fresh = now.saturating_sub(std::mem::replace(before, now));
                if fresh > 0 {
                    log::warning(format!("{fresh} {text}"));
                }
            };
            let text = "events go to no group: there is no defaultGroup, or forwardedindex excludes their index";
            told(self.outlet.figures().unsent, &mut unsent, text);
            let text = "events have fields too long for any receiver, and are lost";
            told(self.outlet.figures().oversized, &mut oversized, text);
            told(self.spool.dropped_events(), &mut dropped, "events were dropped because the queue is full");
            for (group, (dropped, unsent)) in self.spool.figures().iter().zip(&mut lost) {
                let text = format!("batches for [tcpout:{}] were dropped because the queue is full", group.name);
                told(group.lost, dropped, &text);
                let text = format!("batches for [tcpout:{}] cannot be sent, and are lost", group.name);
                told(group.unsent, unsent, &text);
            }
            if self.spool.is_disk_low() {
                log::warning("the disk of the queue has less space than [diskUsage] minFreeSpace: inputs wait");
            }
            for name in self.outlet.routes().take_unknown() {
                log::warning(format!("_TCP_ROUTING = {name}: outputs.conf has no such group"));
            }
        }
    }
}

impl SinkFactory for Forwarding {
    fn sink(&self, _worker: usize) -> Box<dyn Sink + '_> {
        Box::new(ClaimedSink { sink: self.outlet.sink(), claims: Arc::clone(&self.claims), claim: None })
    }
}

/// A sink that lets files with the same beginning be read only one after the other.
struct ClaimedSink {
    sink: OutletSink,
    claims: Arc<Claims>,
    claim: Option<Arc<Claim>>,
}

impl Sink for ClaimedSink {
    fn positions(&mut self, scope: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        self.end_file();
        self.claim = Some(self.claims.claim(scope, head).0);
        self.sink.positions(scope, head)
    }

    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError> {
        self.sink.accept(batch, position)
    }

    fn spare_batch(&mut self) -> Option<EventBatch> {
        self.sink.spare_batch()
    }

    fn set_routing(&mut self, groups: Option<&str>) {
        self.sink.set_routing(groups);
    }

    fn end_file(&mut self) {
        if let Some(claim) = self.claim.take() {
            claim.end();
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.sink.flush()
    }
}

impl Drop for ClaimedSink {
    fn drop(&mut self) {
        self.end_file();
    }
}
