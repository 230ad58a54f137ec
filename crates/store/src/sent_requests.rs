//! Deduplication of requests that senders repeat when they get no answer.
//!
//! If the server dies before it answers, a sender cannot know whether its events are stored and sends the same body
//! again. To store the events only once, the log record of each part of a request also identifies that part. In a file
//! next to the log, each part has a slot that records that the part was answered; the slot is written directly before
//! the answer is sent. Parts of the last run that are in the log but not in this file are *candidates*. When a part
//! identical to a candidate arrives, it is not stored again. A candidate is used only once; the part then gets a slot
//! of the new run.
//!
//! In doubtful cases, events are stored twice, because a body that was sent twice on purpose must never be taken for a
//! repetition. Therefore, a request counts as answered a moment before the answer is sent. After a failure of the
//! machine itself, there are no candidates, because answers may be missing from the unsynced file. A part with an
//! unreadable slot is not a candidate either. See docs/decisions/0030.
//!
//! Not here: which requests are equal. The caller passes a key that identifies sender and content.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use quarry_catalog::{Catalog, UnansweredPart};
use quarry_event::time::NS_PER_SEC;
use quarry_event::{EventBatch, SentRequest};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use crate::StoreError;
use crate::disk::{Disk, DiskFile};
use crate::sync::lock;

/// Maximum number of unanswered parts remembered; the oldest are dropped.
pub const UNANSWERED_PARTS_MAX: usize = 8_192;
/// A part becomes a candidate only if it was stored within this many seconds before the end of its run. It stays a
/// candidate for as many seconds in the next run, counted anew from each request that fails.
pub const UNANSWERED_SECS: i64 = 30 * 60;
/// Number of slots. Slots are reused, so there are far more slots than possible candidates.
const SLOTS: u64 = 65_536;
/// Size of the header: magic, run, boot id and checksum. The slots follow.
const HEADER_BYTES: usize = 64;
/// Size of a slot: part number and checksum.
const SLOT_BYTES: usize = 16;
const MAGIC: &[u8; 8] = b"QRYANSW\n";

/// Parts of requests by run and number.
type Parts = BTreeMap<(u64, u64), UnansweredPart>;

/// Requests of this run, and candidates of earlier runs.
#[derive(Debug)]
pub(crate) struct SentRequests {
    run: u64,
    /// File of recorded answers; `None` in a read-only store.
    answers: Option<Arc<dyn DiskFile>>,
    /// Parts listed in the catalog. The catalog's list is changed only under this lock. Lock order: this lock is taken
    /// before `inner`, which is held only briefly.
    in_catalog: Mutex<ListedParts>,
    inner: Mutex<Inner>,
}

/// The parts that the catalog lists.
#[derive(Debug, Default)]
struct ListedParts {
    parts: Parts,
    /// Whether the last change of the list failed. It may have taken effect nevertheless.
    is_uncertain: bool,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number of requests begun.
    begun: u64,
    /// Number of part numbers assigned so far.
    numbered: u64,
    /// Parts of unanswered requests, by request.
    open: BTreeMap<u64, Vec<UnansweredPart>>,
    /// Number of parts of unanswered requests.
    open_parts: usize,
    candidates: BTreeMap<u128, VecDeque<UnansweredPart>>,
    /// Number of candidates.
    candidate_parts: usize,
    /// Monotonic time at which the candidates expire.
    candidates_until: i64,
    /// Error that caused the file to be voided; kept until it is reported.
    fault: Option<StoreError>,
}

/// Monotonic time at which a candidate that is added at `now_ns` expires.
fn expires_at(now_ns: i64) -> i64 {
    now_ns.saturating_add(UNANSWERED_SECS * NS_PER_SEC)
}

impl Inner {
    /// Adds a part of an unanswered request. If there are too many parts, removes and returns the oldest ones, which
    /// must count as answered.
    fn open(&mut self, request: u64, part: UnansweredPart) -> Vec<UnansweredPart> {
        self.open.entry(request).or_default().push(part);
        self.open_parts += 1;
        let mut forgotten = Vec::new();
        while self.open_parts > UNANSWERED_PARTS_MAX
            && let Some((_, parts)) = self.open.pop_first()
        {
            self.open_parts -= parts.len();
            forgotten.extend(parts);
        }
        forgotten
    }

    fn close(&mut self, request: u64) -> Vec<UnansweredPart> {
        let parts = self.open.remove(&request).unwrap_or_default();
        self.open_parts -= parts.len();
        parts
    }

    /// Adds a candidate; returns whether there was room for it.
    fn add_candidate(&mut self, part: UnansweredPart) -> bool {
        let has_room = self.candidate_parts < UNANSWERED_PARTS_MAX;
        if has_room {
            self.candidates.entry(part.key).or_default().push_back(part);
            self.candidate_parts += 1;
        }
        has_room
    }

    /// Drops the candidates if their time is over; returns whether there were any.
    fn drop_expired(&mut self, now_ns: i64) -> bool {
        let is_over = now_ns >= self.candidates_until && self.candidate_parts > 0;
        if is_over {
            self.candidates.clear();
            self.candidate_parts = 0;
        }
        is_over
    }

    fn take_candidate(&mut self, key: u128) -> Option<UnansweredPart> {
        let alike = self.candidates.get_mut(&key)?;
        let part = alike.pop_front();
        if alike.is_empty() {
            self.candidates.remove(&key);
        }
        self.candidate_parts -= usize::from(part.is_some());
        part
    }

    fn next_part(&mut self, run: u64, key: u128, time: i64) -> UnansweredPart {
        self.numbered += 1;
        UnansweredPart { run, number: self.numbered, key, time }
    }
}

/// The state of a new part.
pub(crate) enum PartState {
    /// The part must be stored.
    New(UnansweredPart),
    /// The part was stored before.
    Stored,
}

impl SentRequests {
    /// The value for a read-only store.
    pub(crate) fn none() -> SentRequests {
        SentRequests { run: 0, answers: None, in_catalog: Mutex::default(), inner: Mutex::default() }
    }

    /// Begins a run whose first record is `first_record`. Unanswered parts in `logged` (from the log) and in the catalog
    /// become candidates. If answers cannot be recorded, returns a message; no part of this run will then be a
    /// candidate.
    pub(crate) fn begin(
        disk: &dyn Disk,
        folder: &Path,
        catalog: &Catalog,
        first_record: u64,
        logged: Vec<UnansweredPart>,
        now_ns: i64,
    ) -> Result<(SentRequests, Option<String>), StoreError> {
        let known = catalog.unanswered()?;
        let answered = RecordedAnswers::read(folder, disk.boot());
        let run = next_run(first_record, &answered, known.iter().chain(&logged));
        let candidates = find_candidates(&answered, known.clone(), logged);
        let mut in_catalog = ListedParts { parts: index_by_number(known), is_uncertain: false };
        let saved = in_catalog.update(catalog, index_by_number(candidates.iter().copied()));
        let path = answers_path(folder);
        let begin = || -> io::Result<Arc<dyn DiskFile>> {
            let file = disk.create(&path)?;
            file.write_all_at(&header(run, disk.boot()), 0)?;
            Ok(file)
        };
        // The file with the answers of the last run is replaced only after the catalog was changed.
        let answers = saved.and_then(|()| begin().map_err(|error| StoreError::from_io("write", &path, &error)));
        let note = answers.as_ref().err();
        let note = note.map(duplicates_message);
        let mut inner = Inner { candidates_until: expires_at(now_ns), ..Inner::default() };
        for part in candidates {
            inner.add_candidate(part);
        }
        let (in_catalog, inner) = (Mutex::new(in_catalog), Mutex::new(inner));
        Ok((SentRequests { run, answers: answers.ok(), in_catalog, inner }, note))
    }

    /// Begins a request with this key.
    pub(crate) fn begin_request(&self, key: u128) -> SentRequest {
        let mut inner = lock(&self.inner);
        inner.begun += 1;
        SentRequest { key, id: inner.begun }
    }

    /// Classifies a part of a request. Fails if the catalog cannot record that an earlier part was repeated.
    pub(crate) fn add_part(
        &self,
        request: &SentRequest,
        batch: &EventBatch,
        catalog: &Catalog,
        now_ns: i64,
    ) -> Result<PartState, StoreError> {
        let key = part_key(request.key, batch);
        let (found, has_expired) = {
            let mut inner = lock(&self.inner);
            let has_expired = inner.drop_expired(now_ns);
            let found = match inner.take_candidate(key) {
                Some(earlier) => Ok(earlier),
                None => Err(inner.next_part(self.run, key, batch.index_time)),
            };
            (found, has_expired)
        };
        if has_expired {
            // The catalog must not list the expired candidates any more: after a crash, the next run would accept them
            // again. If saving fails, it is repeated before the next deletion of log records.
            drop(self.save(catalog, now_ns));
        }
        let found = match found {
            Ok(earlier) => earlier,
            Err(new) => return Ok(PartState::New(new)),
        };
        let forgotten = match found.run == self.run {
            true => lock(&self.inner).open(request.id, found),
            false => self.renumber(request, found, catalog)?,
        };
        self.write_answers(&forgotten)?;
        Ok(PartState::Stored)
    }

    /// Gives an unanswered part of an earlier run a number, and therefore a slot, of this run. The slow change of the
    /// catalog is made now, so that the answer only needs to write the slot.
    fn renumber(
        &self,
        request: &SentRequest,
        earlier: UnansweredPart,
        catalog: &Catalog,
    ) -> Result<Vec<UnansweredPart>, StoreError> {
        let mut in_catalog = lock(&self.in_catalog);
        let again = lock(&self.inner).next_part(self.run, earlier.key, earlier.time);
        let mut wanted = if in_catalog.is_uncertain { self.unanswered() } else { in_catalog.parts.clone() };
        wanted.remove(&(earlier.run, earlier.number));
        wanted.insert((again.run, again.number), again);
        if let Err(error) = in_catalog.update(catalog, wanted) {
            lock(&self.inner).add_candidate(earlier);
            return Err(error);
        }
        Ok(lock(&self.inner).open(request.id, again))
    }

    /// The parts of unanswered requests, and the candidates.
    fn unanswered(&self) -> Parts {
        let inner = lock(&self.inner);
        let (open, candidates) = (inner.open.values().flatten(), inner.candidates.values().flatten());
        index_by_number(open.chain(candidates).copied())
    }

    /// Records that a part is in the log. Must not be called earlier, because the catalog must list stored parts only.
    pub(crate) fn record_stored(&self, request: u64, part: UnansweredPart) -> Result<(), StoreError> {
        let forgotten = lock(&self.inner).open(request, part);
        self.write_answers(&forgotten)
    }

    /// Records that a request failed and that its sender will be asked to repeat it; its stored parts will not be
    /// stored again.
    pub(crate) fn record_failure(&self, request: &SentRequest, now_ns: i64) -> Result<(), StoreError> {
        let forgotten: Vec<_> = {
            let mut inner = lock(&self.inner);
            inner.candidates_until = expires_at(now_ns);
            let parts = inner.close(request.id);
            parts.into_iter().filter(|part| !inner.add_candidate(*part)).collect()
        };
        self.write_answers(&forgotten)
    }

    /// Records that the senders of these requests are about to be answered; anything they send afterwards is new. After
    /// an error, they must not be answered.
    pub(crate) fn record_answered(&self, requests: &[SentRequest]) -> Result<(), StoreError> {
        let closed: Vec<(u64, Vec<UnansweredPart>)> = {
            let mut inner = lock(&self.inner);
            requests.iter().map(|request| (request.id, inner.close(request.id))).collect()
        };
        let parts: Vec<_> = closed.iter().flat_map(|(_, parts)| parts).copied().collect();
        self.write_answers(&parts).inspect_err(|_| {
            let mut inner = lock(&self.inner);
            for (request, parts) in closed {
                // Parts removed here because of the limit cannot be recorded as answered, because writing slots has
                // just failed.
                parts.into_iter().for_each(|part| drop(inner.open(request, part)));
            }
        })
    }

    /// Records parts of this run as answered. If that fails, voids the file, so that no part of this run becomes a
    /// candidate. Returns an error only if voiding fails, too.
    fn write_answers(&self, parts: &[UnansweredPart]) -> Result<(), StoreError> {
        let Some(answers) = &self.answers else { return Ok(()) };
        let failed = |error: io::Error| StoreError::from_io("write", Path::new("answers of the log"), &error);
        if let Err(error) = self.write_slots(&**answers, parts) {
            answers.write_all_at(&[0; HEADER_BYTES], 0).map_err(failed)?;
            lock(&self.inner).fault = Some(failed(error));
        }
        Ok(())
    }

    /// Reason why the file was voided; reported once.
    pub(crate) fn take_fault(&self) -> Option<StoreError> {
        lock(&self.inner).fault.take()
    }

    /// Writes adjacent slots with one write. Fewer writes shorten the time in which a crash leaves an answer recorded
    /// but not sent.
    fn write_slots(&self, answers: &dyn DiskFile, parts: &[UnansweredPart]) -> io::Result<()> {
        let mut places: Vec<(u64, u64)> = parts.iter().map(|part| (part.number % SLOTS, part.number)).collect();
        places.sort_unstable();
        places.chunk_by(|(place, _), (next, _)| place + 1 == *next).try_for_each(|adjacent| {
            let first = adjacent.first().map_or(0, |(place, _)| *place);
            let slots: Vec<u8> = adjacent.iter().flat_map(|(_, number)| slot(self.run, *number)).collect();
            answers.write_all_at(&slots, HEADER_BYTES as u64 + first * SLOT_BYTES as u64)
        })
    }

    /// Saves unanswered parts to the catalog before their records are deleted from the log. Candidates whose time is
    /// over are not saved: a body that is sent again later is a new request, in a later run as well.
    pub(crate) fn save(&self, catalog: &Catalog, now_ns: i64) -> Result<(), StoreError> {
        let mut in_catalog = lock(&self.in_catalog);
        lock(&self.inner).drop_expired(now_ns);
        let unanswered = self.unanswered();
        in_catalog.update(catalog, unanswered)
    }
}

/// Message for the operator that no part of this run will be a candidate.
pub(crate) fn duplicates_message(error: &StoreError) -> String {
    format!("requests that are retried after a crash may be stored twice: {error}")
}

fn index_by_number(parts: impl IntoIterator<Item = UnansweredPart>) -> Parts {
    parts.into_iter().map(|part| ((part.run, part.number), part)).collect()
}

impl ListedParts {
    /// Changes the list in the catalog to `wanted`.
    fn update(&mut self, catalog: &Catalog, wanted: Parts) -> Result<(), StoreError> {
        if self.is_uncertain {
            // A part that stayed on the list although it is not known here would later count as unanswered.
            self.parts = index_by_number(catalog.unanswered_for_certain()?);
            self.is_uncertain = false;
        }
        let without = |some: &Parts, others: &Parts| -> Vec<UnansweredPart> {
            some.iter().filter(|(place, part)| others.get(place) != Some(part)).map(|(_, part)| *part).collect()
        };
        let (dropped, added) = (without(&self.parts, &wanted), without(&wanted, &self.parts));
        if !(dropped.is_empty() && added.is_empty()) {
            self.is_uncertain = true;
            catalog.change_unanswered(&dropped, &added)?;
            (self.parts, self.is_uncertain) = (wanted, false);
        }
        Ok(())
    }
}

/// Number of the next run: the number of its first log record, or a higher one if an earlier run had that number. That
/// happens if the earlier run wrote no records; its parts and its file of answers must not be mixed up with new ones.
fn next_run<'p>(first_record: u64, answered: &RecordedAnswers, parts: impl Iterator<Item = &'p UnansweredPart>) -> u64 {
    parts
        .map(|part| part.run)
        .chain([answered.run])
        .fold(first_record, |run, earlier| run.max(earlier.saturating_add(1)))
}

/// Hash of a request and the events of one part. Times are excluded, because they differ between repetitions if the
/// body contains none.
fn part_key(request: u128, batch: &EventBatch) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&request.to_le_bytes());
    let index = batch.metas.first().map_or("", |meta| &*meta.index);
    for text in [index.as_bytes(), &batch.raw] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    batch.ends.iter().for_each(|end| hasher.update(&end.to_le_bytes()));
    hasher.digest128()
}

/// The parts in the catalog and in the log that are unanswered, oldest first.
fn find_candidates(
    answered: &RecordedAnswers,
    known: Vec<UnansweredPart>,
    logged: Vec<UnansweredPart>,
) -> Vec<UnansweredPart> {
    let mut seen = BTreeSet::new();
    let mut newest = i64::MIN;
    let mut candidates = Vec::new();
    for (part, is_logged) in known.into_iter().map(|part| (part, false)).chain(logged.into_iter().map(|it| (it, true)))
    {
        newest = newest.max(part.time);
        let counts = match part.run.cmp(&answered.run) {
            Ordering::Equal => answered.is_open(part.number),
            // Parts of earlier runs in the catalog are unanswered. If they had been repeated during the last run, they
            // would have a number of that run.
            Ordering::Less => !is_logged,
            // The answers of that run were not written, or cannot be read.
            Ordering::Greater => false,
        };
        if counts && seen.insert((part.run, part.number)) {
            candidates.push(part);
        }
    }
    candidates.retain(|part| newest.saturating_sub(part.time) <= UNANSWERED_SECS * NS_PER_SEC);
    candidates.sort_by_key(|part| (part.run, part.number));
    candidates.split_off(candidates.len().saturating_sub(UNANSWERED_PARTS_MAX))
}

fn answers_path(folder: &Path) -> PathBuf {
    folder.join("answers")
}

fn header(run: u64, boot: Option<u128>) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..16].copy_from_slice(&run.to_le_bytes());
    out[16..32].copy_from_slice(&boot.unwrap_or(0).to_le_bytes());
    let checksum = xxh3_128(&out[..48]);
    out[48..].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn slot(run: u64, number: u64) -> [u8; SLOT_BYTES] {
    let mut out = [0; SLOT_BYTES];
    out[..8].copy_from_slice(&(number + 1).to_le_bytes());
    let mut sealed = [0; SLOT_BYTES];
    sealed[..8].copy_from_slice(&run.to_le_bytes());
    sealed[8..].copy_from_slice(&out[..8]);
    out[8..].copy_from_slice(&xxh3_64(&sealed).to_le_bytes());
    out
}

/// The recorded answers of the last run.
struct RecordedAnswers {
    /// The run whose answers are recorded; 0 (before the first run) if unknown.
    run: u64,
    slots: Vec<u8>,
}

impl RecordedAnswers {
    /// Reads the recorded answers. If the file is from another boot or incomplete, no answers are known.
    fn read(folder: &Path, boot: Option<u128>) -> RecordedAnswers {
        let bytes = fs::read(answers_path(folder)).unwrap_or_default();
        let unknown = RecordedAnswers { run: 0, slots: Vec::new() };
        let Some((head, slots)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return unknown };
        let run = u64::from_le_bytes(*head[8..].first_chunk().unwrap_or(&[0; 8]));
        if boot.is_none() || header(run, boot) != *head {
            return unknown;
        }
        RecordedAnswers { run, slots: slots.to_vec() }
    }

    /// Whether a part of the last run was certainly not answered.
    fn is_open(&self, number: u64) -> bool {
        let at = (number % SLOTS) as usize * SLOT_BYTES;
        match self.slots.get(at..at + SLOT_BYTES) {
            // The file ends with the last answer, so parts beyond its end are unanswered.
            None => self.slots.len() <= at,
            Some(found) if found.iter().all(|byte| *byte == 0) => true,
            // If an older part occupies the slot, this part was not answered. A newer part or an unreadable slot proves
            // nothing.
            Some(found) => {
                let written = u64::from_le_bytes(*found.first_chunk().unwrap_or(&[0; 8])).wrapping_sub(1);
                written < number && slot(self.run, written) == *found
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalDisk;

    fn part(run: u64, number: u64, time: i64) -> UnansweredPart {
        UnansweredPart { run, number, key: number.into(), time }
    }

    #[test]
    fn only_recent_unanswered_parts_of_the_last_run_are_candidates() {
        let mut slots = vec![0; 4 * SLOT_BYTES];
        slots[SLOT_BYTES..2 * SLOT_BYTES].copy_from_slice(&slot(9, 1));
        slots[2 * SLOT_BYTES] = 7;
        slots[3 * SLOT_BYTES..].copy_from_slice(&slot(9, 3));
        let answered = RecordedAnswers { run: 9, slots };
        let logged =
            vec![part(8, 0, 0), part(9, 0, 0), part(9, 1, 0), part(9, 2, 0), part(9, 3 + SLOTS, 0), part(9, 8, 0)];
        // The answers of run 10 were not recorded, so its parts are not candidates.
        let known = vec![part(5, 3, 0), part(9, 1, 0), part(9, 0, 0), part(10, 6, 0)];
        let logged = [logged, vec![part(10, 7, 0)]].concat();
        let found = find_candidates(&answered, known.clone(), logged.clone());
        assert_eq!(found, [part(5, 3, 0), part(9, 0, 0), part(9, 8, 0), part(9, 3 + SLOTS, 0)]);
        let late = (UNANSWERED_SECS + 1) * NS_PER_SEC;
        let found = find_candidates(&answered, known, [logged, vec![part(9, 9, late)]].concat());
        assert_eq!(found, [part(9, 9, late)]);
    }

    /// A file that fails writes at certain offsets.
    #[derive(Debug)]
    struct Failing {
        file: Arc<dyn DiskFile>,
        fails: fn(u64) -> bool,
    }

    impl DiskFile for Failing {
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            if (self.fails)(offset) { Err(io::Error::other("broken")) } else { self.file.write_all_at(bytes, offset) }
        }

        fn sync(&self) -> io::Result<()> {
            self.file.sync()
        }

        fn truncate(&self, len: u64) -> io::Result<()> {
            self.file.truncate(len)
        }
    }

    #[test]
    fn unrecordable_answers_void_the_candidates_or_fail() {
        for (fails, is_refused) in [((|offset| offset > 0) as fn(u64) -> bool, false), (|_| true, true)] {
            let folder = tempfile::tempdir().unwrap();
            let catalog = Catalog::open_in_memory().unwrap();
            let (mut sent, _) = SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap();
            let sound = sent.answers.take().unwrap();
            let file = Arc::clone(&sound);
            sent.answers = Some(Arc::new(Failing { file, fails }));
            let request = sent.begin_request(1);
            sent.record_stored(request.id, part(4, 1, 0)).unwrap();
            assert_eq!(sent.record_answered(&[request]).is_err(), is_refused);
            assert_eq!(sent.take_fault().is_some(), !is_refused);
            let found = RecordedAnswers::read(folder.path(), LocalDisk.boot());
            let candidates = find_candidates(&found, vec![part(3, 7, 0)], vec![part(4, 1, 0)]);
            if !is_refused {
                assert_eq!(candidates, []);
                continue;
            }
            // The request is still unanswered and can be answered later.
            assert_eq!(candidates, [part(3, 7, 0), part(4, 1, 0)]);
            sent.answers = Some(sound);
            sent.record_answered(&[request]).unwrap();
            let found = RecordedAnswers::read(folder.path(), LocalDisk.boot());
            assert_eq!(find_candidates(&found, Vec::new(), vec![part(4, 1, 0)]), []);
        }
    }

    #[test]
    fn adjacent_slots_are_all_written() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let (sent, _) = SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap();
        let numbers = [SLOTS - 1, SLOTS, SLOTS + 1, 7, 8, 9, 11, SLOTS + 9];
        let requests = numbers.map(|number| {
            let request = sent.begin_request(number.into());
            sent.record_stored(request.id, part(4, number, 0)).unwrap();
            request
        });
        sent.record_answered(&requests).unwrap();
        let found = RecordedAnswers::read(folder.path(), LocalDisk.boot());
        assert_eq!([6, 10, 12, 2 * SLOTS].map(|number| found.is_open(number)), [true; 4]);
        assert_eq!(numbers.map(|number| found.is_open(number)), [false; 8]);
        assert!(found.is_open(2 * SLOTS + 9), "an older part occupied the slot");
    }

    #[test]
    fn answers_of_another_boot_or_a_damaged_file_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let (sent, _) = SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap();
        let boot = LocalDisk.boot();
        assert_eq!(RecordedAnswers::read(folder.path(), boot).run, if boot.is_some() { 4 } else { 0 });
        assert_eq!(RecordedAnswers::read(folder.path(), boot.map(|boot| boot ^ 1)).run, 0);
        assert_eq!(RecordedAnswers::read(folder.path(), None).run, 0);
        drop(sent);
        let path = answers_path(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        bytes[9] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(RecordedAnswers::read(folder.path(), boot).run, 0);
    }

    fn request_with(sent: &SentRequests, catalog: &Catalog, key: u128, now_ns: i64) -> (SentRequest, bool) {
        let request = sent.begin_request(key);
        let batch = crate::tests::sample::batch("main", u64::try_from(key).unwrap(), 1);
        match sent.add_part(&request, &batch, catalog, now_ns).unwrap() {
            PartState::New(part) => {
                sent.record_stored(request.id, part).unwrap();
                (request, true)
            }
            PartState::Stored => (request, false),
        }
    }

    #[test]
    fn numbers_of_a_run_without_log_records_are_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let begin = || SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap().0;
        // A part is saved and not answered; the next run gives it a number of its own and dies without a log record.
        let sent = begin();
        request_with(&sent, &catalog, 1, 0);
        sent.save(&catalog, 0).unwrap();
        let sent = begin();
        assert!(!request_with(&sent, &catalog, 1, 0).1);
        let sent = begin();
        let (other, is_new) = request_with(&sent, &catalog, 2, 0);
        assert!(is_new);
        // The answer to the new part says nothing about the first one, and both stay apart in the catalog.
        sent.save(&catalog, 0).unwrap();
        assert_eq!(catalog.unanswered().unwrap().len(), 2);
        sent.record_answered(&[other]).unwrap();
        let sent = begin();
        assert_eq!((request_with(&sent, &catalog, 1, 0).1, request_with(&sent, &catalog, 2, 0).1), (false, true));
    }

    #[test]
    fn answers_of_an_earlier_run_say_nothing_about_a_run_that_records_none() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let begin = |logged| SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, logged, 0).unwrap().0;
        drop(begin(Vec::new()));
        let kept = fs::read(answers_path(folder.path())).unwrap();
        let mut sent = begin(Vec::new());
        // The file of the answers could not be replaced, so that the earlier one is still there.
        fs::write(answers_path(folder.path()), kept).unwrap();
        sent.answers = None;
        let request = sent.begin_request(1);
        let batch = crate::tests::sample::batch("main", 1, 1);
        let PartState::New(part) = sent.add_part(&request, &batch, &catalog, 0).unwrap() else { panic!("stored") };
        sent.record_stored(request.id, part).unwrap();
        sent.record_answered(&[request]).unwrap();
        let sent = begin(vec![part]);
        assert!(request_with(&sent, &catalog, 1, 0).1, "an answered part is no candidate");
    }

    #[test]
    fn expired_candidates_do_not_return_in_the_next_run() {
        for is_saved in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let catalog = Catalog::open_in_memory().unwrap();
            let begin = || SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap().0;
            let sent = begin();
            request_with(&sent, &catalog, 1, 0);
            sent.save(&catalog, 0).unwrap();
            let sent = begin();
            let late = expires_at(0);
            if is_saved {
                sent.save(&catalog, late).unwrap();
            } else {
                let (request, _) = request_with(&sent, &catalog, 2, late);
                sent.record_answered(&[request]).unwrap();
            }
            let sent = begin();
            assert!(request_with(&sent, &catalog, 1, 0).1, "saved: {is_saved}");
        }
    }

    #[test]
    fn a_change_of_the_catalog_without_an_answer_leaves_no_part_behind() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let begin = || SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap().0;
        let sent = begin();
        request_with(&sent, &catalog, 1, 0);
        sent.save(&catalog, 0).unwrap();
        let sent = begin();
        // A renumbering that took effect and had no answer: the catalog has a number that memory does not know.
        let [earlier] = catalog.unanswered().unwrap()[..] else { panic!("one part") };
        let again = UnansweredPart { run: sent.run, number: 700, ..earlier };
        catalog.change_unanswered(&[earlier], &[again]).unwrap();
        lock(&sent.in_catalog).is_uncertain = true;
        let (request, is_new) = request_with(&sent, &catalog, 1, 0);
        assert!(!is_new);
        sent.record_answered(&[request]).unwrap();
        sent.save(&catalog, 0).unwrap();
        assert_eq!(catalog.unanswered().unwrap(), []);
    }
}
