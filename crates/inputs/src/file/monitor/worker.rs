//! Reads files with new data in turns, so that a large file does not delay small ones.
//!
//! A file that grew stays open for a while ([`super::session`]). A file that has not been written for
//! `time_before_close` is closed as soon as it has been read.
//!
//! If a file was truncated or rewritten, the events read from it are still handed over: complete events at once, and an
//! incomplete line after a wait during which a copy with the whole line may be read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quarry_conf::PropsResolver;
use quarry_event::EventBatch;
use quarry_pipeline::{PipelineContext, SourceInfo};

use super::held_files::HeldFile;
use super::roster::{FileNumber, FileState, Inode, Job};
use super::session::{NextAction, Session, wait_ns};
use super::stanza::Stanza;
use super::tail::{OpenOutcome, ReadCounts, ReadOutcome, ResumePosition, Tail, TailOptions};
use super::{Monitor, NANOS_PER_SEC};
use crate::file::oneshot::add_handle;
use crate::file::open::{Handle, READ_CHUNK_BYTES};
use crate::file::{AddProgress, NoProgress, OneshotOptions, Progress, Rotation};
use crate::{FilePosition, InputError, Sink};

/// Maximum bytes read from a file in one turn.
const TURN_BYTES_MAX: usize = 8 << 20;
/// Maximum wait for a file with new data before quiet files are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before an unreadable file is opened again.
const RETRY_AFTER_NS: i64 = 10 * NANOS_PER_SEC;
/// Maximum wait for a file that may be a copy of a file not read yet; after the wait it is read as a file of its own.
const UNDECIDED_MAX_NS: i64 = 10 * NANOS_PER_SEC;
/// Maximum wait for a short file that equals the beginning of a neighbouring file and may become a copy of that file.
const BEGUN_COPY_MAX_NS: i64 = 3 * NANOS_PER_SEC;
/// Maximum number of files whose waiting time is tracked; beyond it, all waits start again.
const UNDECIDED_MAX: usize = 10_000;
/// Time after its last write for which a compressed file is read only if it is complete, because it may still grow.
const COMPRESSED_GROWTH_MAX_NS: i64 = 60 * NANOS_PER_SEC;
/// Interval at which a file without a session is checked.
const CHECK_INTERVAL_NS: i64 = NANOS_PER_SEC;
/// Maximum number of truncated files whose last line waits for a copy; beyond it, all waiting lines are handed over.
const REMNANTS_MAX: usize = 100;

/// A worker, which reads the files assigned to it.
pub(crate) struct Worker<'a> {
    monitor: &'a Monitor,
    props: &'a PropsResolver,
    sink: Box<dyn Sink + 'a>,
    open: BTreeMap<FileNumber, Session>,
    /// Files with the times of their next checks, soonest first.
    due: BTreeSet<(i64, FileNumber)>,
    /// Files without a session that are not due yet.
    waiting: BTreeMap<FileNumber, Job>,
    /// Files not yet known to be copies or files of their own.
    undecided: BTreeMap<FileNumber, Undecided>,
    remnants: VecDeque<Remnant>,
    buffer: Vec<u8>,
    /// Whether the sink has stored what was read from at least one file.
    has_stored: bool,
}

/// Time at which a file became undecided, and the state of its origin.
#[derive(Clone, Copy)]
struct Undecided {
    since: i64,
    /// Offset up to which its origin had been read. The wait starts again if the origin is read further.
    origin_offset: u64,
}

/// An incomplete line read from a file that no longer contains it.
struct Remnant {
    tail: Box<Tail>,
    job: Job,
    due_at: i64,
}

/// Interrupts a compressed file, which may be large, when monitoring ends.
struct UntilEnd<'a>(&'a Monitor);

impl Progress for UntilEnd<'_> {
    fn batch_added(&mut self, _: &AddProgress) -> ControlFlow<()> {
        if self.0.roster.has_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(monitor: &'a Monitor, props: &'a PropsResolver, sink: Box<dyn Sink + 'a>) -> Worker<'a> {
        let (open, due, waiting, undecided) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (remnants, buffer) = (VecDeque::new(), vec![0; READ_CHUNK_BYTES]);
        Worker { monitor, props, sink, open, due, waiting, undecided, remnants, buffer, has_stored: false }
    }

    /// Runs until monitoring ends or the sink fails; after a failure, positions must be looked up in a new sink.
    pub(crate) fn run(&mut self, number: usize) -> Result<(), InputError> {
        let mut has_read = false;
        while !self.monitor.roster.has_ended() {
            if self.step(number, POLL_INTERVAL)? {
                has_read = true;
            } else {
                self.sink.flush().map_err(|error| InputError::sink(Path::new("watched files"), error))?;
                self.has_stored |= has_read;
            }
        }
        self.finish_removed(number)?;
        // The lines of the remnants are no longer in any file.
        self.take_remnants(i64::MAX)?;
        self.sink.flush().map_err(|error| InputError::sink(Path::new("watched files"), error))
    }

    /// Reads to their ends the open files that were removed, because they cannot be opened again after the next start.
    fn finish_removed(&mut self, number: usize) -> Result<(), InputError> {
        for job in self.monitor.roster.take_removed(number) {
            let turn = self.continue_reading(&job);
            self.sink.end_file();
            self.handle_read_result(&job, turn)?;
        }
        let removed = self.open.values().filter(|session| session.tail.is_removed());
        let removed: Vec<Job> = removed.map(|session| session.job.clone()).collect();
        for job in removed {
            let done = self.read_rest(&job).and_then(|()| self.finish(job.number));
            self.sink.end_file();
            self.handle_read_result(&job, done)?;
        }
        Ok(())
    }

    /// Reads an open file to its end, although others wait.
    fn read_rest(&mut self, job: &Job) -> Result<(), InputError> {
        while self.open.get(&job.number).is_some_and(|session| session.tail.has_more()) {
            self.continue_reading(job)?;
        }
        Ok(())
    }

    /// The worker that replaces this one after its sink has failed. It gets the open files that have lost their names,
    /// because it could not open them, and the remnants, which are in no file; all other data is read again from the
    /// stored positions.
    pub(crate) fn successor(&mut self, sink: Box<dyn Sink + 'a>) -> Worker<'a> {
        for session in self.open.values().filter(|session| !session.tail.has_name(&session.job.path)) {
            self.monitor.roster.restore(&session.job, HeldFile::nameless(session.tail.file()));
        }
        let remnants = std::mem::take(&mut self.remnants);
        Worker { remnants, ..Worker::new(self.monitor, self.props, sink) }
    }

    /// Whether the sink has stored what was read from at least one file.
    pub(crate) fn has_stored(&self) -> bool {
        self.has_stored
    }

    /// Reads the next file, waiting up to `wait` for one, and then checks the files that are due; returns false if no
    /// file was read.
    pub(crate) fn step(&mut self, number: usize, wait: Duration) -> Result<bool, InputError> {
        self.close_for_limit()?;
        let job = self.monitor.roster.next(number, wait);
        if let Some(job) = &job {
            let turn = self.continue_reading(job);
            self.sink.end_file();
            self.handle_read_result(job, turn)?;
        }
        self.check_due()?;
        self.take_remnants(self.now())?;
        Ok(job.is_some())
    }

    /// Handles the result of a turn: an unreadable file is reported and retried, a file that was truncated between two
    /// reads is checked again soon, and a failed sink ends the worker.
    fn handle_read_result(&mut self, job: &Job, turn: Result<(), InputError>) -> Result<(), InputError> {
        match turn {
            Err(error @ InputError::Sink { .. }) => {
                if let Some(held) = job.held.clone().filter(|_| !self.open.contains_key(&job.number)) {
                    self.monitor.roster.restore(job, held);
                }
                Err(error)
            }
            Err(InputError::Truncated { .. }) => {
                self.close_changed(job.number)?;
                self.schedule_check(job.clone(), self.now() + CHECK_INTERVAL_NS);
                Ok(())
            }
            Err(error) => {
                self.close(job.number);
                // A removed file is not an error.
                if job.path.exists() {
                    self.monitor.report_error(job, &error);
                    self.schedule_check(job.clone(), self.now() + RETRY_AFTER_NS);
                }
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn now(&self) -> i64 {
        self.monitor.options.clock.elapsed_ns()
    }

    fn stanza(&self, job: &Job) -> &'a Stanza {
        &self.monitor.stanzas[job.stanza]
    }

    /// Continues reading a file.
    fn continue_reading(&mut self, job: &Job) -> Result<(), InputError> {
        if let Some(waiting) = self.waiting.remove(&job.number) {
            drop(waiting);
            self.due.retain(|(_, number)| *number != job.number);
        }
        self.sink.set_routing(self.stanza(job).settings.routing.as_deref());
        self.check(job)?;
        if !self.open.contains_key(&job.number) && !self.open_file(job)? {
            return Ok(());
        }
        self.read(job)
    }

    /// Closes an open file if reading must not resume at its current offset; called before each of its turns.
    fn check(&mut self, job: &Job) -> Result<(), InputError> {
        let scope = self.stanza(job).scope(&job.path.to_string_lossy());
        let rotation = self.rotation(job.stanza, Rotation::Awaited);
        let Some(session) = self.open.get_mut(&job.number) else { return Ok(()) };
        match session.tail.resume_position(&job.path, &scope, rotation, &mut *self.sink)? {
            ResumePosition::Current => Ok(()),
            ResumePosition::OtherOffset => {
                self.close(job.number);
                Ok(())
            }
            ResumePosition::ContentChanged => self.close_changed(job.number),
        }
    }

    /// Closes a file whose content changed, and hands over the events read from it.
    fn close_changed(&mut self, number: FileNumber) -> Result<(), InputError> {
        let Some(Session { mut tail, job, .. }) = self.close(number) else { return Ok(()) };
        let before = tail.counted;
        tail.abandon_lines(&mut *self.sink)?;
        self.monitor.record_read(&job, before, &tail);
        if tail.has_undelivered() {
            if self.remnants.len() >= REMNANTS_MAX {
                self.take_remnants(i64::MAX)?;
            }
            let due_at = self.now() + wait_ns(self.stanza(&job).settings.close_after_seconds);
            self.remnants.push_back(Remnant { tail, job, due_at });
        }
        Ok(())
    }

    /// Hands over the remaining lines of truncated files unless they were read in a copy.
    fn take_remnants(&mut self, now: i64) -> Result<(), InputError> {
        while let Some(Remnant { mut tail, job, .. }) = self.remnants.pop_front_if(|remnant| remnant.due_at <= now) {
            self.sink.set_routing(self.stanza(&job).settings.routing.as_deref());
            let before = tail.counted;
            let taken = tail.abandon(&mut *self.sink);
            self.monitor.record_read(&job, before, &tail);
            self.sink.end_file();
            taken?;
        }
        Ok(())
    }

    /// Tells whether the files of a stanza are rotated; files of a `batch` stanza are removed and never renamed.
    fn rotation(&self, stanza: usize, of_monitor: Rotation) -> Rotation {
        if self.monitor.stanzas[stanza].settings.is_batch { Rotation::None } else { of_monitor }
    }

    /// Opens a file; returns false if there is nothing to read now.
    fn open_file(&mut self, job: &Job) -> Result<bool, InputError> {
        let stanza = self.stanza(job);
        let scope = stanza.scope(&job.path.to_string_lossy());
        let undecided = self.undecided.get(&job.number).copied();
        let waited = undecided.map_or(0, |undecided| self.now() - undecided.since);
        let of_monitor = if waited < UNDECIDED_MAX_NS { Rotation::Awaited } else { Rotation::Settled };
        let rotation = self.rotation(job.stanza, of_monitor);
        let options = TailOptions {
            rotation,
            check_partial_copy: rotation == Rotation::Awaited && waited < BEGUN_COPY_MAX_NS,
            node: job.node,
            held: job.held.as_ref(),
            info: self.info(job),
            context: self.context(),
            scope: &scope,
            follow_tail: stanza.settings.follow_tail,
        };
        let opened = Tail::open(&job.path, &options, self.props, &mut *self.sink)?;
        if !matches!(opened, OpenOutcome::Undecided { .. }) && undecided.is_some() {
            self.undecided.remove(&job.number);
        }
        match opened {
            OpenOutcome::Undecided { origin_offset } => {
                if self.undecided.len() >= UNDECIDED_MAX {
                    self.undecided.clear();
                }
                let goes_on = undecided.filter(|before| before.origin_offset >= origin_offset);
                let begun = Undecided { since: self.now(), origin_offset };
                self.undecided.insert(job.number, goes_on.unwrap_or(begun));
                self.schedule_check(job.clone(), self.now() + CHECK_INTERVAL_NS);
                Ok(false)
            }
            OpenOutcome::Unidentifiable => {
                self.schedule_check(job.clone(), self.now() + CHECK_INTERVAL_NS / 4);
                Ok(false)
            }
            OpenOutcome::Copied { end, was_read } => self.record_copy(job, end, was_read).map(|()| false),
            OpenOutcome::Tail(tail) => {
                let now = self.now();
                let session = Session::new(tail, Job { held: None, ..job.clone() }, now);
                self.due.insert((now, job.number));
                self.open.insert(job.number, session);
                Ok(true)
            }
            OpenOutcome::AtEnd => {
                // An empty new file will probably be written soon.
                if let Some(held) = job.held.clone().filter(HeldFile::is_empty) {
                    self.monitor.roster.hold(job.number, held);
                }
                self.end(job, FileState::of(&job.path)).map(|()| false)
            }
            OpenOutcome::Compressed => self.add_compressed(job).map(|()| false),
            OpenOutcome::Changed => {
                self.wait_for_new_name(job);
                Ok(false)
            }
        }
    }

    /// Waits for a while until a held file that was renamed is found under its new name.
    fn wait_for_new_name(&mut self, job: &Job) {
        let mut sought = job.clone();
        if let Some(held) = &mut sought.held {
            held.was_awaited = true;
            self.schedule_check(sought, self.now() + CHECK_INTERVAL_NS);
        }
    }

    /// Records that a file is a copy of another file that was read up to the same offset. The record is made at once if
    /// the copy has a different position of its own, and otherwise when the copy is no longer written.
    fn record_copy(&mut self, job: &Job, end: FilePosition, was_read: bool) -> Result<(), InputError> {
        let is_removed = job.held.as_ref().is_some_and(HeldFile::has_no_name);
        let is_written = is_removed || self.is_inactive(&job.path, self.stanza(job));
        if is_written || was_read {
            let kept = self.sink.accept(EventBatch::default(), Some(end));
            kept.map_err(|error| InputError::sink(&job.path, error))?;
        }
        if is_written {
            return self.end(job, FileState::of(&job.path));
        }
        self.schedule_check(job.clone(), self.now() + CHECK_INTERVAL_NS);
        Ok(())
    }

    fn info(&self, job: &Job) -> SourceInfo {
        let stanza = self.stanza(job);
        let host = stanza.host(&job.path);
        SourceInfo {
            index: stanza.settings.index.clone(),
            host_is_fixed: host.is_some(),
            host: host.unwrap_or_else(|| self.monitor.options.host.clone()),
            source: stanza.settings.source.clone().unwrap_or_else(|| job.path.display().to_string()),
            sourcetype: stanza.settings.sourcetype.clone(),
        }
    }

    fn context(&self) -> PipelineContext {
        let options = &self.monitor.options;
        PipelineContext {
            now: options.clock.now_ns(),
            zone: None,
            modified: None,
            orders: Some(Arc::clone(&self.monitor.orders)),
        }
    }

    fn read(&mut self, job: &Job) -> Result<(), InputError> {
        let now = self.now();
        let wall = self.monitor.options.clock.now_ns();
        let Some(session) = self.open.get_mut(&job.number) else { return Ok(()) };
        let (before, kept) = (session.tail.counted, session.tail.delivered_offset());
        let reached = session.tail.read(wall, TURN_BYTES_MAX, &mut self.buffer, &mut *self.sink);
        self.monitor.record_read(&session.job, before, &session.tail);
        match reached? {
            ReadOutcome::More => {
                session.record_read(now, true, kept);
                if !self.monitor.roster.schedule(job.number) {
                    self.check_soon(job.number);
                }
            }
            ReadOutcome::Shrunk => {
                self.close_changed(job.number)?;
                self.monitor.roster.schedule(job.number);
            }
            ReadOutcome::End { has_grown } => {
                session.record_read(now, has_grown, kept);
                if self.is_inactive(&job.path, self.stanza(job)) {
                    return self.finish(job.number);
                }
                self.plan_check(job.number);
            }
        }
        Ok(())
    }

    /// True if a file has been unchanged for longer than files are kept open.
    fn is_inactive(&self, path: &Path, stanza: &Stanza) -> bool {
        let modified = path.metadata().ok().and_then(|metadata| crate::file::open::modified_ns(&metadata));
        let wait = wait_ns(stanza.settings.close_after_seconds);
        modified.is_some_and(|modified| self.monitor.options.clock.now_ns().saturating_sub(modified) > wait)
    }

    /// Checks files that are due.
    fn check_due(&mut self) -> Result<(), InputError> {
        let now = self.now();
        while let Some((at, number)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            if self.waiting.remove(&number).is_some() {
                self.monitor.roster.schedule(number);
            } else if let Some(session) = self.open.get(&number) {
                let job = session.job.clone();
                let done =
                    if session.tail.has_more() { self.continue_reading(&job) } else { self.run_due_check(&job, now) };
                self.sink.end_file();
                self.handle_read_result(&job, done)?;
            }
        }
        Ok(())
    }

    /// Performs the check that is due for a file without new data.
    fn run_due_check(&mut self, job: &Job, now: i64) -> Result<(), InputError> {
        let settings = &self.stanza(job).settings;
        let due = self.open.get(&job.number).map_or(NextAction::Nothing, |session| session.next_action(now, settings));
        if due == NextAction::Nothing {
            self.plan_check(job.number);
            return Ok(());
        }
        self.sink.set_routing(settings.routing.as_deref());
        self.check(job)?;
        let Some(session) = self.open.get_mut(&job.number) else {
            self.monitor.roster.schedule(job.number);
            return Ok(());
        };
        if due == NextAction::Close {
            return self.finish(job.number);
        }
        let (before, kept) = (session.tail.counted, session.tail.delivered_offset());
        let taken = if due == NextAction::Begin {
            session.tail.begin(&mut *self.sink)
        } else {
            session.tail.pause(&mut *self.sink)
        };
        self.monitor.record_read(&session.job, before, &session.tail);
        match due {
            NextAction::Pause => session.record_pause(now, kept),
            _ => session.record_read(now, false, kept),
        }
        self.plan_check(job.number);
        taken
    }

    /// Sets the time of an open file's next check.
    fn plan_check(&mut self, number: FileNumber) {
        let now = self.now();
        let Some(session) = self.open.get_mut(&number) else { return };
        self.due.remove(&(session.due_at, number));
        session.plan_check(now, &self.monitor.stanzas[session.job.stanza].settings);
        self.due.insert((session.due_at, number));
    }

    /// Plans the next check of an open file at once, but after the other files that are due.
    fn check_soon(&mut self, number: FileNumber) {
        let at = self.now() + 1;
        let Some(session) = self.open.get_mut(&number) else { return };
        self.due.remove(&(session.due_at, number));
        session.due_at = at;
        self.due.insert((at, number));
    }

    fn schedule_check(&mut self, mut job: Job, at: i64) {
        if let Some(held) = job.held.take() {
            self.monitor.roster.restore(&job, held);
        }
        self.due.insert((at, job.number));
        self.waiting.insert(job.number, job);
    }

    /// Hands over everything read from a file and closes the file.
    fn finish(&mut self, number: FileNumber) -> Result<(), InputError> {
        // A file without its name cannot be opened again for the bytes that have just been added.
        if self.open.get(&number).is_some_and(|it| it.tail.has_more() && !it.tail.has_name(&it.job.path)) {
            self.check_soon(number);
            return Ok(());
        }
        let Some(mut session) = self.close(number) else { return Ok(()) };
        let before = session.tail.counted;
        let finished = session.tail.finish(&mut *self.sink);
        self.monitor.record_read(&session.job, before, &session.tail);
        finished?;
        if session.tail.has_more() {
            self.monitor.roster.schedule(number);
            return Ok(());
        }
        self.end(&session.job, FileState::of(&session.job.path))
    }

    fn close(&mut self, number: FileNumber) -> Option<Session> {
        let session = self.open.remove(&number)?;
        self.due.remove(&(session.due_at, number));
        Some(session)
    }

    /// Closes a file if the limit of open files is reached, preferably the file without buffered data that has been
    /// quiet longest. Buffered data is handed over first; the file's next turn resumes after it.
    fn close_for_limit(&mut self) -> Result<(), InputError> {
        if self.open.len() < self.monitor.options.open_max {
            return Ok(());
        }
        let quietest = self.open.values().min_by_key(|session| (session.tail.has_undelivered(), session.grown_at));
        let Some(job) = quietest.map(|session| session.job.clone()) else { return Ok(()) };
        let has_name = self.open.get(&job.number).is_some_and(|session| session.tail.has_name(&job.path));
        let rest = if has_name { Ok(()) } else { self.read_rest(&job) };
        let taken = rest.and_then(|()| self.flush_early(&job));
        self.sink.end_file();
        self.handle_read_result(&job, taken)?;
        if let Some(session) = self.close(job.number)
            && session.tail.has_name(&job.path)
        {
            let at = self.now() + CHECK_INTERVAL_NS;
            self.schedule_check(session.job, at);
        }
        Ok(())
    }

    /// Hands over the buffered data of an open file, including incomplete events if the file no longer has its name and
    /// so cannot be opened again.
    fn flush_early(&mut self, job: &Job) -> Result<(), InputError> {
        if !self.open.get(&job.number).is_some_and(|session| session.tail.has_undelivered()) {
            return Ok(());
        }
        self.sink.set_routing(self.stanza(job).settings.routing.as_deref());
        self.check(job)?;
        let Some(session) = self.open.get_mut(&job.number) else { return Ok(()) };
        let (before, tail) = (session.tail.counted, &mut session.tail);
        let taken = if tail.has_name(&job.path) {
            let begun = if tail.can_begin() { tail.begin(&mut *self.sink) } else { Ok(()) };
            begun.and_then(|()| if tail.is_beginning() { Ok(()) } else { tail.pause(&mut *self.sink) })
        } else {
            tail.finish(&mut *self.sink)
        };
        self.monitor.record_read(&session.job, before, &session.tail);
        taken
    }

    /// Ends the reading of a file whose events were all handed over when it was in this `state`. A file of a `batch`
    /// stanza is removed once its events are stored, unless it has changed since. Must not be called if any part of the
    /// file was skipped.
    fn end(&mut self, job: &Job, state: Option<FileState>) -> Result<(), InputError> {
        if let Some(state) = state.filter(|state| state.node() == job.node) {
            self.monitor.roster.record_offset(job.number, state.bytes());
        }
        // Another file that now has the name has not been read. The next scan finds it.
        let is_named = || job.path.metadata().is_ok_and(|file| file.is_file() && Inode::of(&file) == job.node);
        if !self.stanza(job).settings.is_batch || !is_named() {
            return Ok(());
        }
        if !self.is_inactive(&job.path, self.stanza(job)) {
            self.schedule_check(job.clone(), self.now() + CHECK_INTERVAL_NS);
            return Ok(());
        }
        self.sink.flush().map_err(|error| InputError::sink(&job.path, error))?;
        // Storing may take long. In the meantime the file may have been written to, and may already count as inactive
        // again.
        if FileState::of(&job.path) != state {
            self.monitor.roster.schedule(job.number);
            return Ok(());
        }
        if !is_named() {
            return Ok(());
        }
        std::fs::remove_file(&job.path).map_err(|error| InputError::read(&job.path, &error))
    }

    /// True if a compressed file is complete, or has not been written for so long that it will stay incomplete.
    fn is_fully_written(&self, handle: &Handle) -> bool {
        let now = self.monitor.options.clock.now_ns();
        let is_settled = |modified: i64| now.saturating_sub(modified) >= COMPRESSED_GROWTH_MAX_NS;
        handle.modified_ns().is_none_or(is_settled) || handle.is_complete()
    }

    /// True if a compressed file is no longer being written, judging by its modification time. A time far in the future
    /// proves nothing; such a file counts as no longer being written, too.
    fn is_at_rest(&self, handle: &Handle, stanza: &Stanza) -> bool {
        let wait = wait_ns(stanza.settings.close_after_seconds);
        handle.modified_ns().is_none_or(|modified| {
            let age = self.monitor.options.clock.now_ns().saturating_sub(modified);
            age > wait || age < -COMPRESSED_GROWTH_MAX_NS
        })
    }

    /// Adds a compressed file that is no longer written.
    fn add_compressed(&mut self, job: &Job) -> Result<(), InputError> {
        let stanza = self.stanza(job);
        // Taken first, because the file may grow while it is read.
        let state = FileState::of(&job.path);
        // A file that was removed after its discovery is still held open.
        let nameless = job.held.as_ref().filter(|held| held.has_no_name());
        let opened = match nameless {
            Some(held) => Handle::of(Arc::clone(&held.file)).map(Some),
            None => Handle::open(&job.path),
        };
        let Some(handle) = opened.map_err(|error| InputError::read(&job.path, &error))? else { return Ok(()) };
        if !self.is_at_rest(&handle, stanza) || !self.is_fully_written(&handle) {
            self.schedule_check(job.clone(), self.now() + CHECK_INTERVAL_NS);
            return Ok(());
        }
        let SourceInfo { index, host, host_is_fixed, source, sourcetype } = self.info(job);
        let options = OneshotOptions {
            rotation: self.rotation(job.stanza, Rotation::Settled),
            scope: Some(stanza.scope(&job.path.to_string_lossy())),
            index,
            host,
            host_is_fixed,
            source: Some(source),
            sourcetype,
            ignore_positions: false,
            ended: Arc::default(),
            zone: None,
            now: self.monitor.options.clock.now_ns(),
        };
        let mut until_end = UntilEnd(self.monitor);
        let progress: &mut dyn Progress = if nameless.is_some() { &mut NoProgress } else { &mut until_end };
        let report = add_handle(&handle, &job.path, &options, self.props, &mut *self.sink, progress)?;
        self.monitor.count(ReadCounts::default(), ReadCounts { bytes: report.bytes, events: report.events });
        for warning in &report.warnings {
            (self.monitor.options.report)(&format!("{}: {warning}", job.path.display()));
        }
        // What is missing after an interruption is read after the next start.
        if report.is_skipped_as_binary || report.has_unread_end || report.interrupted {
            return Ok(());
        }
        // An earlier run may have stored the file and ended before it removed the file.
        if report.skipped && self.stanza(job).settings.is_batch && handle.has_unread_end() {
            return Ok(());
        }
        self.end(job, state)
    }
}
