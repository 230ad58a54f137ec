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
//! Not here: which requests are equal (the caller passes a key that identifies sender and content); open requests and
//! candidates in memory, and the format of the file ([`quarry_event::sent_request`]).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use quarry_catalog::{Catalog, UnansweredPart};
use quarry_event::sent_request::{
    ANSWER_SLOTS, ANSWERS_HEADER_BYTES, RecordedAnswers, SentParts, answer_writes, answers_header,
};
use quarry_event::time::NS_PER_SEC;
use quarry_event::{EventBatch, SentRequest};

use crate::StoreError;
use crate::disk::{Disk, DiskFile};
use crate::sync::lock;

pub use quarry_event::sent_request::{UNANSWERED_PARTS_MAX, UNANSWERED_SECS};

/// A part counts as late if at least this many later parts have numbers: before its answer is written, one of them may
/// take its slot, because slots are reused.
const LATE_PARTS: u64 = ANSWER_SLOTS / 2;

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

#[derive(Debug)]
struct Inner {
    /// Number of part numbers assigned so far.
    numbered: u64,
    parts: SentParts<UnansweredPart>,
    /// Error that caused the file to be voided; kept until it is reported.
    fault: Option<StoreError>,
}

impl Inner {
    fn new(candidates: Vec<UnansweredPart>, now_ns: i64) -> Inner {
        Inner { numbered: 0, parts: SentParts::new(|part| part.key, candidates, now_ns), fault: None }
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
        SentRequests {
            run: 0,
            answers: None,
            in_catalog: Mutex::default(),
            inner: Mutex::new(Inner::new(Vec::new(), 0)),
        }
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
        let answered = read_answers(folder, disk.boot());
        let run = next_run(first_record, &answered, known.iter().chain(&logged));
        let candidates = find_candidates(&answered, known.clone(), logged);
        let mut in_catalog = ListedParts { parts: index_by_number(known), is_uncertain: false };
        let saved = in_catalog.update(catalog, index_by_number(candidates.iter().copied()));
        let path = answers_path(folder);
        let begin = || -> io::Result<Arc<dyn DiskFile>> {
            let file = disk.create(&path)?;
            file.write_all_at(&answers_header(run, disk.boot()), 0)?;
            Ok(file)
        };
        // The file with the answers of the last run is replaced only after the catalog was changed.
        let answers = saved.and_then(|()| begin().map_err(|error| StoreError::from_io("write", &path, &error)));
        let note = answers.as_ref().err();
        let note = note.map(duplicates_message);
        let (in_catalog, inner) = (Mutex::new(in_catalog), Mutex::new(Inner::new(candidates, now_ns)));
        Ok((SentRequests { run, answers: answers.ok(), in_catalog, inner }, note))
    }

    pub(crate) fn begin_request(&self, key: u128) -> SentRequest {
        lock(&self.inner).parts.begin(key)
    }

    /// Classifies a part of a request. Fails if the catalog cannot record that an earlier part was repeated.
    pub(crate) fn add_part(
        &self,
        request: &SentRequest,
        batch: &EventBatch,
        catalog: &Catalog,
        now_ns: i64,
    ) -> Result<PartState, StoreError> {
        let key = request.part_key(batch);
        let (found, has_expired) = {
            let mut inner = lock(&self.inner);
            let has_expired = !inner.parts.drop_expired(now_ns).is_empty();
            let found = match inner.parts.take_candidate(key) {
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
            true => lock(&self.inner).parts.open(request.id, found),
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
            lock(&self.inner).parts.add_candidate(earlier);
            return Err(error);
        }
        Ok(lock(&self.inner).parts.open(request.id, again))
    }

    /// The parts of unanswered requests, and the candidates.
    fn unanswered(&self) -> Parts {
        index_by_number(lock(&self.inner).parts.unanswered())
    }

    /// Records that a part is in the log. Must not be called earlier, because the catalog must list stored parts only.
    pub(crate) fn record_stored(&self, request: u64, part: UnansweredPart) -> Result<(), StoreError> {
        let forgotten = lock(&self.inner).parts.open(request, part);
        self.write_answers(&forgotten)
    }

    /// Records that a request failed and that its sender will be asked to repeat it; its stored parts will not be
    /// stored again.
    pub(crate) fn record_failure(&self, request: &SentRequest, now_ns: i64) -> Result<(), StoreError> {
        let forgotten = lock(&self.inner).parts.fail(request.id, now_ns);
        self.write_answers(&forgotten)
    }

    /// Records that the senders of these requests are about to be answered; anything they send afterwards is new. After
    /// an error, they must not be answered.
    pub(crate) fn record_answered(&self, requests: &[SentRequest]) -> Result<(), StoreError> {
        let closed: Vec<(u64, Vec<UnansweredPart>)> = {
            let mut inner = lock(&self.inner);
            requests.iter().map(|request| (request.id, inner.parts.close(request.id))).collect()
        };
        let parts: Vec<_> = closed.iter().flat_map(|(_, parts)| parts).copied().collect();
        self.write_answers(&parts).inspect_err(|_| {
            let mut inner = lock(&self.inner);
            for (request, parts) in closed {
                // Parts removed here because of the limit cannot be recorded as answered, because writing slots has
                // just failed.
                parts.into_iter().for_each(|part| drop(inner.parts.open(request, part)));
            }
        })
    }

    /// Records parts of this run as answered. If that fails, voids the file, so that no part of this run becomes a
    /// candidate. Returns an error only if voiding fails, too.
    fn write_answers(&self, parts: &[UnansweredPart]) -> Result<(), StoreError> {
        let Some(answers) = &self.answers else { return Ok(()) };
        let failed = |error: io::Error| StoreError::from_io("write", Path::new("answers of the log"), &error);
        if let Err(error) = self.write_slots(&**answers, parts) {
            answers.write_all_at(&[0; ANSWERS_HEADER_BYTES], 0).map_err(failed)?;
            lock(&self.inner).fault = Some(failed(error));
        }
        Ok(())
    }

    /// Reason why the file was voided; reported once.
    pub(crate) fn take_fault(&self) -> Option<StoreError> {
        lock(&self.inner).fault.take()
    }

    fn write_slots(&self, answers: &dyn DiskFile, parts: &[UnansweredPart]) -> io::Result<()> {
        let numbered = lock(&self.inner).numbered;
        let is_late = |number: &u64| number.saturating_add(LATE_PARTS) <= numbered;
        let (late, recent): (Vec<u64>, Vec<u64>) = parts.iter().map(|part| part.number).partition(is_late);
        // The number of a late part would prove that the later part of the same slot was not answered. An unreadable slot
        // proves nothing about either.
        let mut writes = answer_writes(self.run, late);
        writes.iter_mut().for_each(|(_, slots)| slots.fill(0xff));
        writes.extend(answer_writes(self.run, recent));
        writes.iter().try_for_each(|(offset, slots)| answers.write_all_at(slots, *offset))
    }

    /// Saves unanswered parts to the catalog before their records are deleted from the log. Candidates whose time is
    /// over are not saved: a body that is sent again later is a new request, in a later run as well.
    pub(crate) fn save(&self, catalog: &Catalog, now_ns: i64) -> Result<(), StoreError> {
        let mut in_catalog = lock(&self.in_catalog);
        lock(&self.inner).parts.drop_expired(now_ns);
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

/// Reads the recorded answers of the last run.
fn read_answers(folder: &Path, boot: Option<u128>) -> RecordedAnswers {
    RecordedAnswers::decode(&fs::read(answers_path(folder)).unwrap_or_default(), boot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalDisk;

    const SLOTS: u64 = ANSWER_SLOTS;

    fn part(run: u64, number: u64, time: i64) -> UnansweredPart {
        UnansweredPart { run, number, key: number.into(), time }
    }

    #[test]
    fn only_recent_unanswered_parts_of_the_last_run_are_candidates() {
        let mut file = answers_header(9, Some(1)).to_vec();
        for (offset, slots) in answer_writes(9, [1, 3]) {
            file.resize(offset as usize, 0);
            file.extend(slots);
        }
        file[ANSWERS_HEADER_BYTES + 2 * 16] = 7;
        let answered = RecordedAnswers::decode(&file, Some(1));
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
            let found = read_answers(folder.path(), LocalDisk.boot());
            let candidates = find_candidates(&found, vec![part(3, 7, 0)], vec![part(4, 1, 0)]);
            if !is_refused {
                assert_eq!(candidates, []);
                continue;
            }
            // The request is still unanswered and can be answered later.
            assert_eq!(candidates, [part(3, 7, 0), part(4, 1, 0)]);
            sent.answers = Some(sound);
            sent.record_answered(&[request]).unwrap();
            let found = read_answers(folder.path(), LocalDisk.boot());
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
        let found = read_answers(folder.path(), LocalDisk.boot());
        assert_eq!([6, 10, 12, 2 * SLOTS].map(|number| found.is_open(number)), [true; 4]);
        assert_eq!(numbers.map(|number| found.is_open(number)), [false; 8]);
        assert!(found.is_open(2 * SLOTS + 9), "an older part occupied the slot");
    }

    #[test]
    fn a_late_answer_proves_nothing_about_a_later_part() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let (sent, _) = SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap();
        lock(&sent.inner).numbered = SLOTS + 5;
        for number in [SLOTS + 5, 5] {
            let request = sent.begin_request(number.into());
            sent.record_stored(request.id, part(4, number, 0)).unwrap();
            sent.record_answered(&[request]).unwrap();
        }
        let found = read_answers(folder.path(), LocalDisk.boot());
        assert_eq!([5, SLOTS + 5, 6].map(|number| found.is_open(number)), [false, false, true]);
    }

    #[test]
    fn answers_of_another_boot_or_a_damaged_file_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_in_memory().unwrap();
        let (sent, _) = SentRequests::begin(&LocalDisk, folder.path(), &catalog, 4, Vec::new(), 0).unwrap();
        let boot = LocalDisk.boot();
        assert_eq!(read_answers(folder.path(), boot).run, if boot.is_some() { 4 } else { 0 });
        assert_eq!(read_answers(folder.path(), boot.map(|boot| boot ^ 1)).run, 0);
        assert_eq!(read_answers(folder.path(), None).run, 0);
        drop(sent);
        let path = answers_path(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        bytes[9] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(read_answers(folder.path(), boot).run, 0);
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
            let late = UNANSWERED_SECS * NS_PER_SEC;
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
