//! A process group: a program with all its children, started with limits and ended as a whole.
//!
//! The environment contains only this process's `PATH`, a locale, settings of Python and the caller's variables. The
//! group is killed before its first process is reaped, so that its id cannot have been reused. [`end_all`] ends groups
//! still running at exit.
//!
//! Not here: communication over its pipes.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use quarry_stdx::Fault;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, prlimit, waitid};

/// Maximum address space per process, in bytes.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Maximum number of open files per process.
const FILES_MAX: u64 = 1_024;
/// Value of `PATH` if this process has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Maximum CPU time per process, in seconds.
pub(crate) const CPU_SECS_MAX: u64 = 3_600;
/// Maximum bytes kept from the end of a program's error output.
const STDERR_BYTES_MAX: usize = 8 << 10;
/// Interval at which waits check for cancellation, in milliseconds.
pub const POLL_MS: u64 = 50;
/// Number of [`POLL_MS`] intervals within which a program must end after closing its output.
pub(crate) const END_POLLS_MAX: usize = 20;

/// Ids of the first processes of running groups; none of these is reaped yet.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Ends all running groups before this process ends.
pub fn end_all() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    for pid in running.iter().filter_map(|pid| i32::try_from(*pid).ok().and_then(Pid::from_raw)) {
        // Signalling fails if the group has ended.
        kill_process_group(pid, Signal::KILL).ok();
    }
}

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of a file, or a name to look up in `PATH`.
    pub executable: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Working directory of the program.
    pub folder: PathBuf,
}

/// The pipes of a program.
pub struct Pipes {
    /// Pipe to the program's standard input.
    pub stdin: ChildStdin,
    /// Pipe from the program's standard output.
    pub stdout: ChildStdout,
    /// Pipe from the program's standard error.
    pub stderr: ChildStderr,
}

/// A running group; ended when dropped.
pub struct ProgramGroup {
    child: Child,
    ended: Option<ExitStatus>,
}

impl ProgramGroup {
    /// Starts a program; `environment` is added to the basic environment, `cpu_seconds` limits its CPU time.
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
        // From here on, a failure drops the value and thereby ends the program.
        let group = ProgramGroup { child, ended: None };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Fault::bug("its pipes are missing"));
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
                // A short program may have ended by now.
                Ok(_) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(Fault::io("its limits cannot be set", error)),
            }
        }
        Ok(())
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// True if its first process has ended.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = self.pid().filter(|_| self.ended.is_none()) else { return true };
        // The process is not reaped, so that the group can still be signalled by its id.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Asks the whole group to terminate.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().filter(|_| self.ended.is_none()) {
            // Signalling fails if the group has ended.
            kill_process_group(pid, signal).ok();
        }
    }

    /// Kills the whole group; returns the status of its first process.
    pub fn kill(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            // The id is removed first, because it may be reused once the process is reaped.
            RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.child.id());
            self.ended = self.child.wait().ok();
        }
        self.ended
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Keeps the end of a program's error output.
pub fn capture_stderr(mut stderr: ChildStderr, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let surplus = kept.len().saturating_sub(STDERR_BYTES_MAX);
        kept.drain(..surplus);
    }
}

/// Starts a named thread.
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Fault> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| Fault::io("cannot start a thread", error))
}

/// The error for a cancelled search.
pub(crate) fn cancelled_fault() -> Fault {
    Fault::unavailable("the search was cancelled")
}

/// The error for a timeout.
pub(crate) fn timeout_fault(seconds: u64) -> Fault {
    Fault::unavailable(format!("its program did not answer within the limit of {seconds} seconds (maxwait)"))
}
