//! Runs one input: its program is started, read and ended repeatedly.
//!
//! The saved mark is a position up to which every event is stored. Once an event of a run cannot be stored, the mark no
//! longer moves in that run, so that the next run reads this event again.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use quarry_event::EventBatch;
use quarry_inputs::{AppendError, EventStore, network::Appender, program::OutputReader};
use quarry_stdx::{Fault, private_file};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error_output::ProgramLog;
use super::input_context::{OpenSession, Shared};
use super::schedule::Schedule;
use crate::group::{Pipes, Program, ProgramGroup, spawn};

/// Bytes per read from a pipe.
const READ_BYTES: usize = 64 << 10;
/// Interval at which a wait for output checks for shutdown.
const SHUTDOWN_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// After this many [`SHUTDOWN_CHECK_INTERVAL`]s without output, the last event counts as complete.
const QUIET_TICKS: usize = 10;
/// Time within which a program must terminate when asked; its output is read until then.
const TERMINATION_TIMEOUT_NS: i64 = 3_000_000_000;
/// Maximum bytes read after the program was killed; more than a pipe holds.
const LEFT_BYTES_MAX: usize = 4 << 20;
/// Pause before an append to a busy store is retried.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Maximum number of retries during shutdown while the store is busy.
const SHUTDOWN_RETRIES_MAX: usize = 50;
const NANOS_PER_SEC: i64 = 1_000_000_000;
/// Maximum bytes of a file with a saved mark ([`Checkpoint`]).
const CHECKPOINT_BYTES_MAX: u64 = 4 << 10;

/// Creates a reader for a run.
pub(crate) type NewReader = Box<dyn Fn() -> Box<dyn OutputReader> + Send>;

/// Makes the text for a program's standard input, with the key of its session.
pub(crate) type NewConfiguration = Box<dyn Fn(&str) -> String + Send>;

/// A mark saved between runs: the position at which the program resumes, or, until the program has written events, the
/// time at which it was first started.
pub(crate) struct Checkpoint {
    pub(crate) file: PathBuf,
    /// Argument that precedes a position.
    pub(crate) position_argument: &'static str,
    /// Argument that precedes a time, which is `@` and the seconds since 1970.
    pub(crate) time_argument: &'static str,
    /// Argument used until a position is saved; without it, the time of the first start is the mark.
    pub(crate) first_argument: Option<String>,
}

impl Checkpoint {
    /// The saved mark. If there is none, and no first argument is set, saves `now_ns` as the mark before the program
    /// starts: after a crash, events since then must not be skipped.
    fn read_or_begin(&self, now_ns: i64) -> Result<Option<String>, Fault> {
        let kept = read_checkpoint(&self.file)?;
        if kept.is_some() || self.first_argument.is_some() {
            return Ok(kept);
        }
        let begun = format!("@{}", now_ns.div_euclid(NANOS_PER_SEC));
        private_file::write(&self.file, &begun)?;
        Ok(Some(begun))
    }

    /// The argument with which the program begins at a mark.
    fn argument(&self, mark: Option<&str>) -> Option<String> {
        match mark {
            Some(position) if !position.starts_with('@') => Some(format!("{}{position}", self.position_argument)),
            // The user may have set the first argument after the first start, so it prevails over the saved time.
            time => self.first_argument.clone().or_else(|| time.map(|time| format!("{}{time}", self.time_argument))),
        }
    }
}

/// An input that runs a program.
pub(crate) struct Task {
    /// Name of the input's stanza, for messages.
    pub(crate) stanza: String,
    pub(crate) schedule: Schedule,
    pub(crate) program: Program,
    pub(crate) environment: Vec<(String, String)>,
    /// Text for the program's standard input, if the program reads any; such a program also gets a session.
    pub(crate) configuration: Option<NewConfiguration>,
    /// The user of the session (`passAuth`); without a user, the session is the node's.
    pub(crate) user: Option<String>,
    pub(crate) mark: Option<Checkpoint>,
    pub(crate) new_reader: NewReader,
    pub(crate) store: Arc<dyn EventStore>,
}

/// State of one run of the program.
struct Run<'a> {
    task: &'a Task,
    shared: &'a Shared,
    reader: Box<dyn OutputReader>,
    appender: Appender,
    batch: EventBatch,
    /// The mark on disk.
    kept: Option<String>,
    /// Whether events of this run are lost.
    has_lost: bool,
}

impl Task {
    /// Runs until shutdown, or until the schedule has no further start.
    pub(crate) fn run(&self, shared: &Shared) {
        let clock = &shared.settings.clock;
        let mut log = ProgramLog::new(&self.stanza, &self.store, shared);
        let mut goes_on = self.schedule.wait_first(&shared.settings, &shared.stop);
        let mut failures = 0;
        while goes_on {
            let started = clock.elapsed_ns();
            log.begin();
            let fault = match self.run_once(&mut log, shared) {
                Ok(Some(status)) if status.success() => None,
                Ok(Some(status)) => Some(format!("its program ended: {status}")),
                // This process ended the program at shutdown.
                Ok(None) => return,
                Err(fault) => Some(fault.to_string()),
            };
            failures = fault.as_ref().map_or(0, |_| failures + 1);
            if let Some(fault) = fault {
                log.log_line("ERROR", &format!("\"{}\": {fault}", self.stanza), shared);
            }
            goes_on = self.schedule.wait_next(started, failures, &shared.settings, &shared.stop);
        }
    }

    /// Runs the program once; returns its exit status, `None` at shutdown.
    fn run_once(&self, log: &mut ProgramLog, shared: &Shared) -> Result<Option<ExitStatus>, Fault> {
        let mut program = self.program.clone();
        let mut kept = None;
        if let Some(mark) = &self.mark {
            kept = mark.read_or_begin(shared.settings.clock.now_ns())?;
            program.arguments.extend(mark.argument(kept.as_deref()));
        }
        let (mut group, pipes) = ProgramGroup::start(&program, &self.environment, None)?;
        let Pipes { stdin, mut stdout, mut stderr } = pipes;
        // The session ends with this run.
        let sessions = shared.sessions.as_deref().filter(|_| self.configuration.is_some());
        let user = self.user.as_deref();
        let session = sessions.and_then(|sessions| OpenSession::open(sessions, user));
        if let (None, Some(_), Some(user)) = (&session, sessions, user) {
            let text =
                format!("\"{}\": passAuth = {user}: there is no such user; no session key is passed", self.stanza);
            log.log_line("WARN", &text, shared);
        }
        self.write_stdin(stdin, session.as_ref().map_or("", |session| session.key.as_str()))?;
        let appender = Appender::new(Arc::clone(&self.store));
        let batch = EventBatch::default();
        let (reader, has_lost) = ((self.new_reader)(), false);
        let mut run = Run { task: self, shared, reader, appender, batch, kept, has_lost };
        let read = run.read(&mut group, &mut stdout, &mut stderr, log);
        let by_itself = group.has_ended();
        let status = group.kill();
        let read = read.and_then(|()| run.drain_pipes(&mut stdout, &mut stderr, log));
        let finished = run.finish(log);
        log.finish(shared);
        read.and(finished)?;
        Ok(status.filter(|_| by_itself && !shared.stop.is_stopped()))
    }

    /// Writes the program's standard input on another thread, so that the program need not read it at once.
    fn write_stdin(&self, mut stdin: ChildStdin, session_key: &str) -> Result<(), Fault> {
        let Some(configuration) = &self.configuration else { return Ok(()) };
        let text = configuration(session_key);
        let write = move || {
            // A program may leave its input unread.
            drop(stdin.write_all(text.as_bytes()));
        };
        spawn("quarry-program-in", write).map(drop)
    }
}

impl Run<'_> {
    /// Reads until the output and the program have ended, or until the time to terminate has passed.
    fn read(
        &mut self,
        group: &mut ProgramGroup,
        stdout: &mut ChildStdout,
        stderr: &mut ChildStderr,
        log: &mut ProgramLog,
    ) -> Result<(), Fault> {
        let mut buffer = vec![0; READ_BYTES];
        let (mut out_open, mut err_open) = (true, true);
        let mut quiet = 0;
        let mut asked_at = None;
        loop {
            if self.shared.stop.is_stopped() {
                let now = self.shared.settings.clock.elapsed_ns();
                if asked_at.is_none() {
                    group.terminate();
                }
                if now - *asked_at.get_or_insert(now) > TERMINATION_TIMEOUT_NS {
                    return Ok(());
                }
            }
            if !out_open && group.has_ended() {
                return Ok(());
            }
            let (out_ready, err_ready) = poll_pipes(stdout, stderr, out_open, err_open, SHUTDOWN_CHECK_INTERVAL);
            if err_ready {
                let read = read_available(stderr, &mut buffer);
                err_open = read > 0;
                log.push(&buffer[..read], self.shared);
            }
            if out_ready {
                let read = read_available(stdout, &mut buffer);
                out_open = read > 0;
                quiet = 0;
                self.take(&buffer[..read], log)?;
            } else if !err_ready {
                quiet += 1;
                if quiet == QUIET_TICKS {
                    self.reader.pause(self.shared.settings.clock.now_ns(), &mut self.batch);
                    self.store(log)?;
                }
            }
        }
    }

    /// Reads the remaining bytes in the pipes of an ended program. Does not wait for other processes that hold the
    /// pipes open.
    fn drain_pipes(
        &mut self,
        stdout: &mut ChildStdout,
        stderr: &mut ChildStderr,
        log: &mut ProgramLog,
    ) -> Result<(), Fault> {
        let mut buffer = vec![0; READ_BYTES];
        let (mut out_open, mut err_open) = (true, true);
        let mut left = LEFT_BYTES_MAX;
        while left > 0 {
            let (out_ready, err_ready) = poll_pipes(stdout, stderr, out_open, err_open, Duration::ZERO);
            if !out_ready && !err_ready {
                break;
            }
            if err_ready {
                let read = read_available(stderr, &mut buffer);
                err_open = read > 0;
                left = left.saturating_sub(read);
                log.push(&buffer[..read], self.shared);
            }
            if out_ready {
                let read = read_available(stdout, &mut buffer);
                out_open = read > 0;
                left = left.saturating_sub(read);
                self.take(&buffer[..read], log)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], log: &ProgramLog) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let pushed = self.reader.push(bytes, self.shared.settings.clock.now_ns(), &mut self.batch);
        self.store(log)?;
        pushed
    }

    fn finish(&mut self, log: &ProgramLog) -> Result<(), Fault> {
        self.reader.finish(self.shared.settings.clock.now_ns(), &mut self.batch);
        self.store(log)?;
        self.save_checkpoint()
    }

    /// Stores the batch; waits while the store is busy.
    fn store(&mut self, log: &ProgramLog) -> Result<(), Fault> {
        for fault in self.reader.take_faults() {
            log.log_line("WARN", &fault, self.shared);
        }
        // Without new events, results of earlier appends are collected.
        let is_empty = self.batch.is_empty();
        self.while_busy(|run| run.appender.append(&mut run.batch))?;
        if self.task.mark.is_some() && !is_empty { self.save_checkpoint() } else { Ok(()) }
    }

    /// Repeats an append, or the wait for appends, while the store is busy; during shutdown, a limited number of times.
    fn while_busy(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<(), AppendError>) -> Result<(), Fault> {
        let mut last_tries = 0;
        loop {
            match attempt(self) {
                Ok(()) => return Ok(()),
                Err(AppendError::Busy(_)) if last_tries < SHUTDOWN_RETRIES_MAX => {
                    if self.shared.stop.wait(BUSY_RETRY_DELAY) {
                        last_tries += 1;
                        self.shared.stop.pause(BUSY_RETRY_DELAY);
                    }
                }
                Err(error) => {
                    self.batch = EventBatch::default();
                    if matches!(error, AppendError::Busy(_)) {
                        self.appender.drop_refused();
                    }
                    return Err(self.lose(error));
                }
            }
        }
    }

    /// Notes that events are lost, and returns the fault that says so.
    fn lose(&mut self, error: AppendError) -> Fault {
        self.has_lost = true;
        Fault::io("events are lost", error)
    }

    /// Waits until all events are stored, and saves the position after them, unless events are lost.
    fn save_checkpoint(&mut self) -> Result<(), Fault> {
        self.while_busy(|run| run.appender.wait_until_at_most(0))?;
        if self.has_lost {
            return Ok(());
        }
        let (Some(mark), Some(now)) = (&self.task.mark, self.reader.resume_position()) else { return Ok(()) };
        if self.kept.as_deref() != Some(now) {
            private_file::write(&mark.file, now)?;
            self.kept = Some(now.to_owned());
        }
        Ok(())
    }
}

/// The saved mark; `None` if the file does not exist or is empty.
fn read_checkpoint(file: &std::path::Path) -> Result<Option<String>, Fault> {
    let mut text = String::new();
    let read = std::fs::File::open(file).and_then(|opened| opened.take(CHECKPOINT_BYTES_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let file = file.display();
            let what =
                format!("cannot read the saved position {file}; if the file is damaged, delete it to start anew");
            Err(Fault::io(what, error))
        }
    }
}

/// Waits up to `wait` until a pipe is readable; the result tells which of stdout and stderr is.
fn poll_pipes(
    stdout: &ChildStdout,
    stderr: &ChildStderr,
    out_open: bool,
    err_open: bool,
    wait: Duration,
) -> (bool, bool) {
    let mut polled = Vec::new();
    if out_open {
        polled.push(PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN));
    }
    if err_open {
        polled.push(PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::IN));
    }
    let limit = Timespec::try_from(wait).ok();
    // An interrupting signal is treated as nothing to read.
    if !poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0) {
        return (false, false);
    }
    let mut flags = polled.iter().map(|one| !one.revents().is_empty());
    let out_ready = out_open && flags.next().unwrap_or(false);
    (out_ready, err_open && flags.next().unwrap_or(false))
}

/// Reads available bytes; 0 means the end.
fn read_available(pipe: &mut impl Read, buffer: &mut [u8]) -> usize {
    loop {
        match pipe.read(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => return read.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use quarry_conf::{Layers, PropsResolver};
    use quarry_event::Metadata;
    use quarry_inputs::{InputSettings, Receipt, program::JournalReader};
    use quarry_pipeline::EventTyping;
    use quarry_stdx::SystemClock;

    use super::super::input_context::StopSignal;
    use super::*;

    /// The moment at which a store fails.
    #[derive(Clone, Copy)]
    enum Failure {
        Never,
        AtOnce,
        AfterAccepting,
    }

    impl Failure {
        fn error() -> AppendError {
            AppendError::Failed("the disk is broken".into())
        }
    }

    impl EventStore for Failure {
        fn append(&self, _: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
            match self {
                Failure::AtOnce => Err(Failure::error()),
                _ => Ok(Box::new(*self)),
            }
        }

        fn check_index(&self, _: &str) -> Result<(), Fault> {
            Err(Fault::not_found("there are no internal indexes"))
        }
    }

    impl Receipt for Failure {
        fn is_done(&self) -> bool {
            true
        }

        fn wait(self: Box<Self>) -> Result<(), AppendError> {
            match *self {
                Failure::AfterAccepting => Err(Failure::error()),
                _ => Ok(()),
            }
        }
    }

    /// A store whose log refuses the first batch and returns it.
    #[derive(Default)]
    struct RefusesOnce(AtomicBool);

    impl EventStore for RefusesOnce {
        fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
            if self.0.swap(true, Ordering::Relaxed) {
                return Failure::Never.append(batch);
            }
            Ok(Box::new(Refused(batch)))
        }

        fn check_index(&self, index: &str) -> Result<(), Fault> {
            Failure::Never.check_index(index)
        }
    }

    struct Refused(EventBatch);

    impl Receipt for Refused {
        fn is_done(&self) -> bool {
            true
        }

        fn wait(self: Box<Self>) -> Result<(), AppendError> {
            self.wait_for_all(&mut Vec::new())
        }

        fn wait_for_all(self: Box<Self>, refused: &mut Vec<EventBatch>) -> Result<(), AppendError> {
            refused.push(self.0);
            Err(AppendError::Busy("no space left".into()))
        }
    }

    /// The mark that a journal input with this store saves if its program writes one entry.
    fn mark_after(store: impl EventStore + 'static) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal");
        std::fs::write(&journal, "{\"__CURSOR\":\"c1\",\"MESSAGE\":\"hello\"}\n").unwrap();
        let program = Program {
            executable: "cat".into(),
            arguments: vec![journal.display().to_string()],
            folder: folder.path().to_owned(),
        };
        run_once(folder.path(), program, Some(String::new()), store);
        read_checkpoint(&folder.path().join("mark")).unwrap()
    }

    /// Runs a journal input once, whose mark is in `mark` in this folder.
    fn run_once(
        folder: &std::path::Path,
        program: Program,
        first_argument: Option<String>,
        store: impl EventStore + 'static,
    ) {
        let layers = Layers::new([]);
        let props = Arc::new(PropsResolver::new(&layers));
        let typing = Arc::new(EventTyping::new(Arc::clone(&props)));
        let [index, host, source, sourcetype] = ["main", "h", "s", "journald"].map(Arc::from);
        let metadata = Metadata { index, host, source, sourcetype };
        let settings = Arc::new(InputSettings {
            layers,
            props,
            clock: SystemClock::shared(),
            host: "h".to_owned(),
            zone: jiff::tz::TimeZone::UTC,
            descriptors: 64,
        });
        let home = folder.to_owned();
        let mark = Checkpoint {
            file: folder.join("mark"),
            position_argument: "--after-cursor=",
            time_argument: "--since=",
            first_argument,
        };
        let task = Task {
            stanza: "journald://all".to_owned(),
            schedule: Schedule::Once,
            program,
            environment: Vec::new(),
            configuration: None,
            user: None,
            mark: Some(mark),
            new_reader: Box::new(move || {
                Box::new(JournalReader::new(metadata.clone(), true, &[], &[], Arc::clone(&typing)))
            }),
            store: Arc::new(store),
        };
        let stop = StopSignal::default();
        task.run(&Shared { settings, home, host: "h".to_owned(), address: None, sessions: None, stop });
    }

    #[test]
    fn without_events_the_next_run_begins_at_the_time_of_the_first_start() {
        let folder = tempfile::tempdir().unwrap();
        let calls = folder.path().join("calls");
        let run = |first: Option<&str>, script: &str| {
            let script = format!("echo \"$1\" >> {}; {script}", calls.display());
            let arguments = ["-c", &script, "journalctl"].map(str::to_owned).to_vec();
            let program = Program { executable: "sh".into(), arguments, folder: folder.path().to_owned() };
            run_once(folder.path(), program, first.map(str::to_owned), Failure::Never);
            std::fs::read_to_string(&calls).unwrap().lines().last().unwrap().to_owned()
        };
        // A start that the user has set is used until there is a position.
        assert_eq!(run(Some("--since=yesterday"), ""), "--since=yesterday");
        let first = run(None, "");
        let seconds: i64 = first.strip_prefix("--since=@").unwrap().parse().unwrap();
        assert!((0..=60).contains(&(SystemClock::shared().now_ns() / NANOS_PER_SEC - seconds)), "{first}");
        std::fs::write(folder.path().join("mark"), "@7").unwrap();
        assert_eq!(run(Some("--since=yesterday"), ""), "--since=yesterday");
        assert_eq!(run(None, "echo '{\"__CURSOR\":\"c1\",\"MESSAGE\":\"hello\"}'"), "--since=@7");
        assert_eq!(run(None, ""), "--after-cursor=c1");
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_kept_and_the_program_does_not_start() {
        let folder = tempfile::tempdir().unwrap();
        let [mark, started] = ["mark", "started"].map(|name| folder.path().join(name));
        let run = || {
            let arguments = vec!["-c".to_owned(), format!("echo started > {}", started.display())];
            let program = Program { executable: "sh".into(), arguments, folder: folder.path().to_owned() };
            run_once(folder.path(), program, None, Failure::Never);
        };
        std::fs::write(&mark, [0xff]).unwrap();
        run();
        assert_eq!((started.exists(), std::fs::read(&mark).unwrap()), (false, vec![0xff]));
        std::fs::remove_file(&mark).unwrap();
        run();
        assert!(started.exists() && read_checkpoint(&mark).unwrap().is_some_and(|mark| mark.starts_with('@')));
    }

    #[test]
    fn the_mark_stays_before_events_that_are_lost() {
        assert_eq!(mark_after(Failure::Never).as_deref(), Some("c1"));
        assert_eq!(mark_after(Failure::AtOnce), None);
        assert_eq!(mark_after(Failure::AfterAccepting), None);
    }

    #[test]
    fn the_mark_moves_when_refused_events_have_been_stored() {
        assert_eq!(mark_after(RefusesOnce::default()).as_deref(), Some("c1"));
    }
}
