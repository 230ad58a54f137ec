//! A program with all it begins: started in a process group of its own, within limits, ended as a whole.
//!
//! Its environment holds a path and a locale and what its starter adds, nothing of this process. The group is ended
//! before its first process is taken off the system's list, so that its number can be nobody else's. What still runs
//! when this process ends is ended by [`end_all`].
//!
//! Not here: what is said over its pipes.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use quarry_stdx::Fault;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, prlimit, waitid};

/// Address space of a program, in bytes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Open files of a program.
const FILES_MAX: u64 = 1_024;
/// Where programs are looked for when this one has no path.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Processor time of a program, in seconds.
pub(crate) const CPU_SECS_MAX: u64 = 3_600;
/// What is kept of the end of a program's complaints, in bytes.
const STDERR_BYTES_MAX: usize = 8 << 10;
/// How often it is looked whether the search was cancelled, in milliseconds.
pub const LOOK_MS: u64 = 50;
/// Rounds of [`LOOK_MS`] a program that has closed its output is given to end.
pub(crate) const END_ROUNDS: usize = 20;

/// First processes of groups that run, none of which is off the system's list.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Ends the programs that still run, before this process does.
pub fn end_all() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    for pid in running.iter().filter_map(|pid| i32::try_from(*pid).ok().and_then(Pid::from_raw)) {
        // One that has ended needs no signal.
        kill_process_group(pid, Signal::KILL).ok();
    }
}

/// What is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file that is run, or a name that is looked for in the path.
    pub executable: PathBuf,
    /// What it is started with.
    pub arguments: Vec<String>,
    /// Folder it runs in.
    pub folder: PathBuf,
}

/// The ends of a program's pipes.
pub struct Pipes {
    /// Where it reads.
    pub stdin: ChildStdin,
    /// Where it writes.
    pub stdout: ChildStdout,
    /// Where it complains.
    pub stderr: ChildStderr,
}

/// A program at work; ended when it is dropped.
pub struct ProgramGroup {
    child: Child,
    ended: Option<ExitStatus>,
}

impl ProgramGroup {
    /// Starts a program; `environment` is added to what every program gets, `cpu_seconds` is what it may compute.
    pub fn start(
        program: &Program,
        environment: &[(String, String)],
        cpu_seconds: Option<u64>,
    ) -> Result<(ProgramGroup, Pipes), Fault> {
        let failed = |error: std::io::Error| Fault::io(format!("cannot start {}", program.executable.display()), error);
        let mut child = Command::new(&program.executable)
            .args(&program.arguments)
            .current_dir(&program.folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()))
            .env("LANG", "C.UTF-8")
            .env("PYTHONIOENCODING", "utf-8")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(child.id());
        // From here on a failure ends the program, since the value is dropped.
        let group = ProgramGroup { child, ended: None };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Fault::bug("its pipes are not there"));
        };
        group.limit(cpu_seconds)?;
        Ok((group, Pipes { stdin, stdout, stderr }))
    }

    /// Sets the limits of the process.
    fn limit(&self, cpu_seconds: Option<u64>) -> Result<(), Fault> {
        let cpu = cpu_seconds.map(|seconds| (Resource::Cpu, seconds));
        let always = [(Resource::As, MEMORY_BYTES_MAX), (Resource::Nofile, FILES_MAX), (Resource::Core, 0)];
        for (resource, most) in always.into_iter().chain(cpu) {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            match prlimit(self.pid(), resource, limit) {
                // A short program may be through already.
                Ok(_) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(Fault::io("its limits cannot be set", error)),
            }
        }
        Ok(())
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether its first process has ended.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = self.pid().filter(|_| self.ended.is_none()) else { return true };
        // It stays on the system's list, so that the group can still be signalled by its number.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Asks the program and everything it began to end.
    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().filter(|_| self.ended.is_none()) {
            // One that has ended needs no signal.
            kill_process_group(pid, signal).ok();
        }
    }

    /// Ends the program and everything it began; how its first process ended.
    pub fn end(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            // Before its number may become another's.
            RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.child.id());
            self.ended = self.child.wait().ok();
        }
        self.ended
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// Keeps the end of what a program writes to its error output.
pub fn keep_complaints(mut stderr: ChildStderr, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let surplus = kept.len().saturating_sub(STDERR_BYTES_MAX);
        kept.drain(..surplus);
    }
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Fault> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| Fault::io("cannot start a thread", error))
}

/// The search that a program runs for was cancelled.
pub(crate) fn cancelled() -> Fault {
    Fault::unavailable("the search was cancelled")
}

/// A program did not answer in time.
pub(crate) fn no_answer(seconds: u64) -> Fault {
    Fault::unavailable(format!("its program gave no answer within the limit of {seconds} seconds (maxwait)"))
}
