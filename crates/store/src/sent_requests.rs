//! Deduplication of requests that senders repeat when they get no answer.
//!
//! If the server dies before it answers, a sender cannot know whether its events are stored and sends the same body
//! again. To store it once, the record of each part of a request names the request, in the log together with the
//! events. A file beside the log has a slot per part that records the answer, written just before the answer is sent.
//! Parts of the last run that are in the log but not in that file are *candidates*: the first identical part that
//! arrives is not stored again, and only once.
//!
//! It errs in one direction only: a body sent twice on purpose must never be taken for a repetition. Therefore a
//! request counts as answered a moment before the answer leaves; nothing is a candidate after a failure of the machine
//! itself, when answers may be missing from the unsynced file; and nothing with an unreadable slot is. See
//! docs/decisions/0030.
//!
//! Not here: what makes two requests equal; the caller provides a key.

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

/// Maximum unanswered parts remembered; the oldest are dropped.
pub const UNANSWERED_PARTS_MAX: usize = 8_192;
/// How long before the end of a run a part may have been stored to be a candidate in the next, and how long it remains
/// one.
pub const UNANSWERED_SECS: i64 = 30 * 60;
/// Number of slots: far more than there can be candidates, because slots are reused.
const SLOTS: u64 = 65_536;
/// Magic, run, boot id, checksum; the slots follow.
const HEADER_BYTES: usize = 64;
/// Number and checksum.
const SLOT_BYTES: usize = 16;
const MAGIC: &[u8; 8] = b"QRYANSW\n";

/// Requests of this run, and candidates of earlier ones.
#[derive(Debug)]
pub(crate) struct SentRequests {
    run: u64,
    /// `None` in a read-only store.
    answers: Option<Arc<dyn DiskFile>>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number of requests begun.
    begun: u64,
    /// Number of parts numbered.
    numbered: u64,
    /// Parts of unanswered requests, by request.
    open: BTreeMap<u64, Vec<UnansweredPart>>,
    /// Their number.
    open_parts: usize,
    candidates: BTreeMap<u128, VecDeque<UnansweredPart>>,
    /// Monotonic time at which candidates expire.
    candidates_until: i64,
}

/// Monotonic time at which a candidate found now expires.
fn until(now_ns: i64) -> i64 {
    now_ns.saturating_add(UNANSWERED_SECS * NS_PER_SEC)
}

impl Inner {
    fn open(&mut self, request: u64, part: UnansweredPart) {
        self.open.entry(request).or_default().push(part);
        self.open_parts += 1;
        while self.open_parts > UNANSWERED_PARTS_MAX
            && let Some((_, parts)) = self.open.pop_first()
        {
            self.open_parts -= parts.len();
        }
    }

    fn close(&mut self, request: u64) -> Vec<UnansweredPart> {
        let parts = self.open.remove(&request).unwrap_or_default();
        self.open_parts -= parts.len();
        parts
    }
}

/// The state of a new part.
pub(crate) enum PartState {
    /// To be stored.
    New(UnansweredPart),
    /// Stored before the last crash.
    Stored,
}

impl SentRequests {
    /// For a read-only store.
    pub(crate) fn none() -> SentRequests {
        SentRequests { run: 0, answers: None, inner: Mutex::default() }
    }

    /// Begins the run whose first record is `run`. Unanswered parts in `logged` (from the log) and in the catalog
    /// become candidates. Returns a note if answers cannot be recorded: then nothing of this run will be a candidate.
    pub(crate) fn begin(
        disk: &dyn Disk,
        folder: &Path,
        catalog: &Catalog,
        run: u64,
        logged: Vec<UnansweredPart>,
        now_ns: i64,
    ) -> Result<(SentRequests, Option<String>), StoreError> {
        let known = catalog.unanswered()?;
        let answered = Answered::read(folder, disk.boot());
        let candidates = candidates_of(&answered, known.clone(), logged);
        let saved = if candidates == known { Ok(()) } else { catalog.set_unanswered(&candidates) };
        let path = answers_path(folder);
        let begin = || -> io::Result<Arc<dyn DiskFile>> {
            let file = disk.create(&path)?;
            file.write_all_at(&header(run, disk.boot()), 0)?;
            Ok(file)
        };
        let answers = begin().map_err(|error| StoreError::from_io("write", &path, &error));
        let note = saved.map_err(StoreError::from).err().or_else(|| answers.as_ref().err().cloned());
        let note = note.map(|error| format!("requests that are sent again after a crash may be stored twice: {error}"));
        let mut inner = Inner { candidates_until: until(now_ns), ..Inner::default() };
        for part in candidates {
            inner.candidates.entry(part.key).or_default().push_back(part);
        }
        Ok((SentRequests { run, answers: answers.ok(), inner: Mutex::new(inner) }, note))
    }

    /// Begins a request with this key.
    pub(crate) fn request(&self, key: u128) -> SentRequest {
        let mut inner = lock(&self.inner);
        inner.begun += 1;
        SentRequest { key, id: inner.begun }
    }

    /// Classifies a part of a request.
    pub(crate) fn part(&self, request: &SentRequest, batch: &EventBatch, now_ns: i64) -> PartState {
        let key = part_key(request.key, batch);
        let mut inner = lock(&self.inner);
        if now_ns >= inner.candidates_until {
            inner.candidates.clear();
        }
        if let Some(earlier) = inner.candidates.get_mut(&key).and_then(VecDeque::pop_front) {
            inner.open(request.id, earlier);
            return PartState::Stored;
        }
        inner.numbered += 1;
        PartState::New(UnansweredPart { run: self.run, number: inner.numbered, key, time: batch.index_time })
    }

    /// Records that a part is in the log. Only then, because the catalog must list stored parts only.
    pub(crate) fn stored(&self, request: u64, part: UnansweredPart) {
        lock(&self.inner).open(request, part);
    }

    /// The sender is told to retry: stored parts are not stored again.
    pub(crate) fn gave_up(&self, request: &SentRequest, now_ns: i64) {
        let mut inner = lock(&self.inner);
        for part in inner.close(request.id) {
            inner.candidates.entry(part.key).or_default().push_back(part);
        }
        inner.candidates_until = until(now_ns);
    }

    /// The sender is about to be answered: what it sends from now on is new.
    pub(crate) fn answered(&self, request: &SentRequest, catalog: &Catalog) -> Result<(), StoreError> {
        let parts = {
            let mut inner = lock(&self.inner);
            inner.close(request.id)
        };
        let (own, earlier): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.run == self.run);
        if !earlier.is_empty() {
            catalog.forget_unanswered(&earlier)?;
        }
        let Some(answers) = &self.answers else { return Ok(()) };
        let written = own.iter().try_for_each(|part| {
            let at = HEADER_BYTES as u64 + part.number % SLOTS * SLOT_BYTES as u64;
            answers.write_all_at(&slot(self.run, part.number), at)
        });
        written.map_err(|error| StoreError::from_io("write", Path::new("answers of the log"), &error))
    }

    /// Saves unanswered parts to the catalog before their records are deleted from the log.
    pub(crate) fn save(&self, catalog: &Catalog) -> Result<(), StoreError> {
        let open: Vec<UnansweredPart> = lock(&self.inner).open.values().flatten().copied().collect();
        if open.is_empty() { Ok(()) } else { Ok(catalog.note_unanswered(&open)?) }
    }
}

/// Hash of a request and the events of one part. Times are excluded, because times the body does not give differ.
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

/// Unanswered parts of those in the catalog and the log, oldest first.
fn candidates_of(answered: &Answered, known: Vec<UnansweredPart>, logged: Vec<UnansweredPart>) -> Vec<UnansweredPart> {
    let mut seen = BTreeSet::new();
    let mut newest = i64::MIN;
    let mut candidates = Vec::new();
    for (part, is_logged) in known.into_iter().map(|part| (part, false)).chain(logged.into_iter().map(|it| (it, true)))
    {
        newest = newest.max(part.time);
        // Parts saved by an earlier start were unanswered then, and would have been removed if answered since.
        let counts = if part.run == answered.run { answered.is_open(part.number) } else { !is_logged };
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
struct Answered {
    /// 0 if unknown.
    run: u64,
    slots: Vec<u8>,
}

impl Answered {
    /// Nothing is known if the file is from another boot or incomplete.
    fn read(folder: &Path, boot: Option<u128>) -> Answered {
        let bytes = fs::read(answers_path(folder)).unwrap_or_default();
        let unknown = Answered { run: 0, slots: Vec::new() };
        let Some((head, slots)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return unknown };
        let run = u64::from_le_bytes(*head[8..].first_chunk().unwrap_or(&[0; 8]));
        if boot.is_none() || header(run, boot) != *head {
            return unknown;
        }
        Answered { run, slots: slots.to_vec() }
    }

    /// Whether a part of the last run was certainly not answered.
    fn is_open(&self, number: u64) -> bool {
        let at = (number % SLOTS) as usize * SLOT_BYTES;
        match self.slots.get(at..at + SLOT_BYTES) {
            // The file ends with the last answer.
            None => self.slots.len() <= at,
            Some(found) if found.iter().all(|byte| *byte == 0) => true,
            // An older part occupies the slot; a newer or unreadable one says nothing.
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
    fn only_young_parts_of_the_last_run_without_an_answer_are_candidates() {
        let mut slots = vec![0; 4 * SLOT_BYTES];
        slots[SLOT_BYTES..2 * SLOT_BYTES].copy_from_slice(&slot(9, 1));
        slots[2 * SLOT_BYTES] = 7;
        slots[3 * SLOT_BYTES..].copy_from_slice(&slot(9, 3));
        let answered = Answered { run: 9, slots };
        let logged =
            vec![part(8, 0, 0), part(9, 0, 0), part(9, 1, 0), part(9, 2, 0), part(9, 3 + SLOTS, 0), part(9, 8, 0)];
        let known = vec![part(5, 3, 0), part(9, 1, 0), part(9, 0, 0)];
        let found = candidates_of(&answered, known.clone(), logged.clone());
        assert_eq!(found, [part(5, 3, 0), part(9, 0, 0), part(9, 8, 0), part(9, 3 + SLOTS, 0)]);
        let late = (UNANSWERED_SECS + 1) * NS_PER_SEC;
        let found = candidates_of(&answered, known, [logged, vec![part(9, 9, late)]].concat());
        assert_eq!(found, [part(9, 9, late)]);
    }

    #[test]
    fn the_answers_of_another_boot_or_a_damaged_file_say_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let (sent, _) = SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap();
        let boot = LocalDisk.boot();
        assert_eq!(Answered::read(folder.path(), boot).run, if boot.is_some() { 4 } else { 0 });
        assert_eq!(Answered::read(folder.path(), boot.map(|boot| boot ^ 1)).run, 0);
        assert_eq!(Answered::read(folder.path(), None).run, 0);
        drop(sent);
        let path = answers_path(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        bytes[9] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(Answered::read(folder.path(), boot).run, 0);
    }
}
