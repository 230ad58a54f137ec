//! `[fschange:PATH]`: periodic scans that report changes of files.
//!
//! A scan is saved before its events are stored, and the last batch of these events carries the scan's number into the
//! store. After a crash, the number in the store determines which of the two saved scans is used. Each change is
//! therefore reported once, unless the crash falls between two batches of a scan: then the changes in the batches
//! stored before the crash are reported again.
//!
//! Not here: the content of a scan and the text of a change (`quarry_inputs::changes`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use quarry_conf::ChangeInput;
use quarry_event::{EventBatch, Metadata};
use quarry_inputs::changes::{
    Action, ChangeRules, Entries, SavedScan, changes, content_text, event_text, parse_scan, scan_files, write_scan,
};
use quarry_inputs::{AppendError, EventStore, FileIdentity, FilePosition};
use quarry_stdx::{Fault, log, private_file};

use super::input_context::{Shared, Stores, check, file_name, metadata};

/// Folder of saved scans, relative to the data directory.
const SCANS_FOLDER: &str = "var/lib/quarry/fschange";
/// Extension of the saved scan whose events are stored; the other extension is for a scan whose events may not be
/// stored yet.
const STORED_EXTENSION: &str = "look";
const NEXT_EXTENSION: &str = "next";
/// Scope of scan numbers in the store; it cannot be an index name.
const SCOPE: &str = "fschange\0";
/// Source and sourcetype of events.
const SOURCE: &str = "fschangemonitor";
const SOURCETYPE: &str = "fs_notification";
/// Number of events, and bytes of their texts, after which a batch is stored.
const BATCH_EVENTS: usize = 65_536;
const BATCH_BYTES: usize = 16 << 20;
/// Pause before an append to a busy store is retried.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(200);

/// An input of one `[fschange:]` stanza.
pub(crate) struct ChangeScanner {
    input: ChangeInput,
    rules: ChangeRules,
    metadata: Metadata,
    /// Path of the saved scans without extension.
    file: PathBuf,
    name: String,
    store: Arc<dyn EventStore>,
}

/// Creates the input of a stanza; the error says why it cannot run.
pub(crate) fn change_scanner(
    change: &ChangeInput,
    shared: &Shared,
    stores: Stores<'_>,
) -> Result<ChangeScanner, Fault> {
    let input = &change.input;
    let store = stores(input.routing.as_deref());
    check(input, &*store)?;
    let rules = ChangeRules::new(change).map_err(|error| Fault::invalid(format!("[{}]: {error}", input.stanza)))?;
    let name = file_name(&input.name);
    Ok(ChangeScanner {
        rules,
        metadata: metadata(input, SOURCE, SOURCETYPE, shared),
        file: shared.home.join(SCANS_FOLDER).join(&name),
        name,
        store,
        input: change.clone(),
    })
}

impl ChangeScanner {
    /// Scans until shutdown.
    pub(crate) fn run(&self, shared: &Shared) {
        let mut known = match self.load_scan() {
            Ok(known) => known,
            Err(fault) => return self.report_fault(&format!("{fault}; the input is ignored")),
        };
        let mut reported = Vec::new();
        loop {
            if let Err(fault) = self.run_round(&mut known, &mut reported, shared) {
                self.report_fault(&fault.to_string());
            }
            if shared.stop.wait(Duration::from_secs(self.input.poll_seconds)) {
                return;
            }
        }
    }

    fn report_fault(&self, fault: &str) {
        log::warning(format!("inputs.conf [{}]: {fault}", self.input.input.stanza));
    }

    /// Loads the last scan whose events are stored.
    fn load_scan(&self) -> Result<SavedScan, Fault> {
        let (stored, next) = (self.file.with_extension(STORED_EXTENSION), self.file.with_extension(NEXT_EXTENSION));
        let in_store = self.store.known_offset(SCOPE, self.name.as_bytes());
        let in_store = in_store.map_err(|error| Fault::unavailable(error.to_string()))?;
        let of_next = std::fs::read_to_string(&next).ok().and_then(|text| parse_scan(&text));
        if let Some(scan) = of_next.filter(|scan| scan.number == in_store) {
            std::fs::rename(&next, &stored).map_err(|error| Fault::io(next.display(), error))?;
            return Ok(scan);
        }
        let mut scan = match std::fs::read_to_string(&stored) {
            Ok(text) => parse_scan(&text).unwrap_or_else(|| {
                self.report_fault(&format!("{} is damaged; every file is reported as added", stored.display()));
                SavedScan::default()
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => SavedScan::default(),
            Err(error) => return Err(Fault::io(stored.display(), error)),
        };
        // The store accepts each number only once.
        scan.number = scan.number.max(in_store);
        Ok(scan)
    }

    /// Scans, reports changes and saves the scan; `reported` has the problems that were reported before.
    fn run_round(&self, known: &mut SavedScan, reported: &mut Vec<String>, shared: &Shared) -> Result<(), Fault> {
        let mut files = 0;
        let mut goes_on = || {
            files += 1;
            let is_pause = files % self.input.files_per_delay.max(1) == 0;
            let wait = if is_pause { self.input.delay_milliseconds } else { 0 };
            if wait == 0 { !shared.stop.is_stopped() } else { !shared.stop.wait(Duration::from_millis(wait)) }
        };
        let Some(seen) = scan_files(&self.rules, &known.entries, &mut goes_on) else { return Ok(()) };
        seen.problems
            .iter()
            .filter(|problem| !reported.contains(problem))
            .for_each(|problem| self.report_fault(problem));
        *reported = seen.problems;
        if seen.entries == known.entries {
            return Ok(());
        }
        let number = known.number + 1;
        let (stored, next) = (self.file.with_extension(STORED_EXTENSION), self.file.with_extension(NEXT_EXTENSION));
        private_file::write(&next, &write_scan(number, &seen.entries))?;
        if !self.store_changes(&known.entries, &seen.entries, number, shared)? {
            return Ok(());
        }
        std::fs::rename(&next, &stored).map_err(|error| Fault::io(next.display(), error))?;
        *known = SavedScan { number, entries: seen.entries };
        Ok(())
    }

    /// Stores an event per change, and the contents of files if configured. Returns false at shutdown; the changes are
    /// then reported after the next start.
    fn store_changes(&self, before: &Entries, after: &Entries, number: u64, shared: &Shared) -> Result<bool, Fault> {
        let now = shared.settings.clock.now_ns();
        let mut batch = EventBatch { index_time: now, ..EventBatch::default() };
        for change in changes(before, after) {
            if batch.len() >= BATCH_EVENTS || batch.raw.len() >= BATCH_BYTES {
                let full = std::mem::replace(&mut batch, EventBatch { index_time: now, ..EventBatch::default() });
                if !self.append(full, None, shared)? {
                    return Ok(false);
                }
            }
            let meta = batch.intern(&self.metadata);
            batch.push(event_text(&change, now, &TimeZone::UTC).as_bytes(), now, meta);
            let Some(most) = self.input.full_bytes_max.filter(|_| change.action != Action::Delete) else { continue };
            match content_text(change.path, change.entry, most) {
                Ok(Some(text)) => {
                    let source = change.path.display().to_string();
                    let meta = batch.intern(&Metadata { source: source.into(), ..self.metadata.clone() });
                    batch.push(text.as_bytes(), now, meta);
                }
                Ok(None) => {}
                Err(error) => self.report_fault(&format!("{}: {error}", change.path.display())),
            }
        }
        if batch.is_empty() {
            // The scans differ only in attributes that are not reported, such as a hash computed for the first time.
            return Ok(true);
        }
        self.append(batch, Some(number), shared)
    }

    /// Stores a batch and waits while the store is busy. `number` is the scan's number, given with its last batch.
    fn append(&self, batch: EventBatch, number: Option<u64>, shared: &Shared) -> Result<bool, Fault> {
        loop {
            let appended = match number {
                Some(number) => self.store.append_at(batch.clone(), self.position(number)),
                None => self.store.append(batch.clone()),
            };
            let stored = appended.and_then(|receipt| receipt.wait());
            match stored {
                Ok(()) => return Ok(true),
                Err(AppendError::Busy(_)) if !shared.stop.wait(BUSY_RETRY_DELAY) => {}
                Err(AppendError::Busy(_) | AppendError::Stopping) => return Ok(false),
                Err(error) => return Err(Fault::unavailable(format!("changes are reported later: {error}"))),
            }
        }
    }

    fn position(&self, number: u64) -> FilePosition {
        let head = self.name.clone().into_bytes();
        let identity = Arc::new(FileIdentity { scope: SCOPE.to_owned(), head, variant: 0 });
        let (path, milestones) = (self.input.input.name.clone(), Vec::new());
        FilePosition { identity, offset: number, tail_hash: 0, path, milestones }
    }
}
