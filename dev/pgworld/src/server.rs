//! A PostgreSQL server of the machine's packages, run by an unprivileged user on a Unix socket.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

/// Folder in which Debian's packages keep the programs of each version.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// Maximum number of rounds, and pause after each, of a wait for the server to start or end.
const ROUNDS_MAX: usize = 1_200;
const ROUND: Duration = Duration::from_millis(50);
/// Role and database of the tests.
const ROLE: &str = "quarry";
/// Shell script that ends the server and removes its folder when the test's process ends for any reason, because its
/// standard input is closed then. After a line on standard input, which means that the server was stopped on purpose,
/// the folder is kept.
const WATCHDOG_SCRIPT: &str = r#"
    exec 3<&0
    folder=$1
    shift
    "$@" &
    server=$!
    (
        read -r _ <&3 && exit
        kill -QUIT "$server" 2>/dev/null
        while kill -0 "$server" 2>/dev/null; do sleep 0.1; done
        rm -rf "$folder"
    ) &
    wait "$server"
"#;

/// A running server.
#[derive(Debug)]
pub struct PostgreSql {
    folder: TempDir,
    programs: PathBuf,
    /// User and group that run the server if the test runs as the superuser, because PostgreSQL refuses to run as the
    /// superuser.
    owner: Option<(u32, u32)>,
    guard: Option<Child>,
}

impl PostgreSql {
    /// Starts a new server with an empty database.
    pub fn start() -> PostgreSql {
        let folder = tempfile::tempdir().expect("a folder for PostgreSQL");
        let owner = owner(folder.path());
        if let Some((user, group)) = owner {
            chown(folder.path(), Some(user), Some(group)).expect("the owner of PostgreSQL's folder can be changed");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("a private folder");
        let mut server = PostgreSql { folder, programs: programs(), owner, guard: None };
        let made = server
            .program("initdb")
            .args(["--username", ROLE, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "-D"])
            .arg(server.data())
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server.restart();
        server.run("postgres", &format!("CREATE DATABASE {ROLE}"));
        server
    }

    /// Returns the server that all tests of this process share.
    pub fn shared() -> &'static PostgreSql {
        static SHARED: OnceLock<PostgreSql> = OnceLock::new();
        SHARED.get_or_init(PostgreSql::start)
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("postgresql://{ROLE}@{}/{ROLE}", self.folder.path().display().to_string().replace('/', "%2F"))
    }

    /// URL of the server through a proxy.
    pub fn url_through(&self, address: std::net::SocketAddr) -> String {
        format!("postgresql://{ROLE}@{address}/{ROLE}")
    }

    /// Path of the server's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    /// Starts the server, again if it was killed; returns when it accepts connections.
    pub fn restart(&mut self) {
        self.end_guard();
        for _ in 0..ROUNDS_MAX {
            self.start_once();
            if self.is_ready() {
                return;
            }
            // Processes of the killed server may still hold its shared memory.
            self.end_guard();
        }
        panic!("PostgreSQL does not start: {}", fs::read_to_string(self.log()).unwrap_or_default());
    }

    fn start_once(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.log()).expect("a log of PostgreSQL");
        let errors = log.try_clone().expect("a log of PostgreSQL");
        let mut guard = Command::new("sh");
        guard
            .args(["-c", WATCHDOG_SCRIPT, "sh"])
            .arg(self.folder.path())
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(self.data())
            .arg("-k");
        guard.arg(self.folder.path()).args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60"]);
        guard.stdin(Stdio::piped()).stdout(log).stderr(errors).current_dir("/");
        self.as_owner(&mut guard);
        self.guard = Some(guard.spawn().expect("PostgreSQL starts"));
    }

    /// True if the server accepts connections; waits while it starts.
    fn is_ready(&mut self) -> bool {
        for _ in 0..ROUNDS_MAX {
            let mut asked = self.program("pg_isready");
            asked.arg("-q").arg("-h").arg(self.folder.path());
            if asked.status().is_ok_and(|status| status.success()) {
                return true;
            }
            if self.pid().is_none() && self.guard.as_mut().is_none_or(|guard| !matches!(guard.try_wait(), Ok(None))) {
                return false;
            }
            std::thread::park_timeout(ROUND);
        }
        false
    }

    /// Kills all processes of the server, as a power failure would.
    pub fn kill(&mut self) {
        let Some(pid) = self.pid() else { return };
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let all = std::iter::once(pid.as_str()).chain(children.split_whitespace());
        let killed: Vec<String> = all.map(str::to_owned).collect();
        // A process may have ended by itself.
        drop(Command::new("kill").arg("-9").args(&killed).stderr(Stdio::null()).status());
        for _ in 0..ROUNDS_MAX {
            if killed.iter().all(|pid| !is_running(pid)) {
                break;
            }
            std::thread::park_timeout(ROUND);
        }
        self.end_guard();
        drop(fs::remove_file(self.data().join("postmaster.pid")));
    }

    /// Runs SQL as the tests' role.
    pub fn run(&self, database: &str, sql: &str) -> String {
        let mut client = self.program("psql");
        client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", ROLE, "-d", database, "-c", sql]);
        let ran = client.arg("-h").arg(self.folder.path()).output().expect("psql runs");
        assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }

    /// Ends all sessions of clients.
    pub fn end_sessions(&self) {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        self.run(ROLE, sql);
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Process id of the server, if it runs.
    fn pid(&self) -> Option<String> {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        let pid = text.lines().next()?.trim().to_owned();
        is_running(&pid).then_some(pid)
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir("/").stdin(Stdio::null());
        self.as_owner(&mut command);
        command
    }

    fn as_owner(&self, command: &mut Command) {
        if let Some((user, group)) = self.owner {
            command.gid(group).uid(user);
        }
    }

    /// Ends the guard of a server that has ended.
    fn end_guard(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            if let Some(mut input) = guard.stdin.take() {
                // The guard may have ended with the server.
                drop(input.write_all(b"\n"));
            }
            drop(guard.wait());
        }
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            drop(guard.wait());
        }
    }
}

fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name in parentheses; a zombie has ended.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Folder with the programs of the newest installed version.
fn programs() -> PathBuf {
    let versions = fs::read_dir(PROGRAMS).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let found = versions.map(|entry| entry.path()).filter(|path| path.join("bin/initdb").exists());
    let newest = found.max_by_key(|path| number(path));
    newest.map(|path| path.join("bin")).unwrap_or_else(|| {
        panic!("PostgreSQL is not installed in {PROGRAMS}; `make test` installs it (Debian's package postgresql)")
    })
}

/// User and group `nobody` if the test runs as the superuser.
fn owner(folder: &Path) -> Option<(u32, u32)> {
    if fs::metadata(folder).expect("the folder of PostgreSQL").uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("the list of users");
    let nobody = users.lines().find(|line| line.starts_with("nobody:")).expect("a user nobody");
    let fields: Vec<&str> = nobody.split(':').collect();
    Some((fields[2].parse().expect("a user"), fields[3].parse().expect("a group")))
}
