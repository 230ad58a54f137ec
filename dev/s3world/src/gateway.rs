//! An S3 server for tests.

use std::env;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

/// The S3 bucket that every server has.
pub const CONTAINER: &str = "quarry";
/// Id of an access key with all permissions.
pub const KEY_ID: &str = "quarry-tests";
/// Its secret.
pub const SECRET: &str = "a secret of no worth";

/// Environment variable with the path of versitygw; if it is not set, `PATH` and the install directory of `go install`
/// are searched.
const PROGRAM_VARIABLE: &str = "QUARRY_VERSITYGW";
/// Files of a server with TLS.
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
/// Ports to try: another process may take a free one first.
const PORTS_TRIED: usize = 20;
/// Maximum checks whether the server listens; each takes the time of a refused connection and a yield.
const LOOKS_MAX: usize = 200_000;

/// A running versitygw; it stops when the value is dropped.
#[derive(Debug)]
pub struct Gateway {
    server: Child,
    folder: TempDir,
    address: String,
    has_tls: bool,
}

/// TLS certificate of a server.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    /// The certificate, in PEM.
    pub certificate: String,
    /// Its private key, in PEM.
    pub key: String,
}

impl Gateway {
    /// Starts a server; `None`, with a message, where versitygw is not installed.
    pub fn start() -> Option<Gateway> {
        Gateway::start_with(None)
    }

    /// As [`Gateway::start`], with TLS.
    pub fn start_tls(certificate: &ServerCertificate) -> Option<Gateway> {
        Gateway::start_with(Some(certificate))
    }

    fn start_with(certificate: Option<&ServerCertificate>) -> Option<Gateway> {
        let Some(program) = program() else {
            eprintln!(
                "skipped: versitygw is not installed (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)"
            );
            return None;
        };
        let folder = TempDir::new().expect("a folder for objects");
        fs::create_dir_all(folder.path().join("objects").join(CONTAINER)).expect("a container");
        fs::create_dir_all(folder.path().join("attributes")).expect("a folder for attributes");
        if let Some(ServerCertificate { certificate, key }) = certificate {
            fs::write(folder.path().join(CERTIFICATE), certificate).expect("a certificate");
            fs::write(folder.path().join(KEY), key).expect("its key");
        }
        let has_tls = certificate.is_some();
        for _ in 0..PORTS_TRIED {
            let address = free_address();
            let mut server = spawn(&program, folder.path(), &address, has_tls);
            if listens(&mut server, &address) {
                return Some(Gateway { server, folder, address, has_tls });
            }
        }
        panic!("{} does not start", program.display());
    }

    /// Address where it listens: `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.has_tls { "https" } else { "http" }, self.address)
    }

    /// Path of the file that stores an object of the container.
    pub fn file(&self, key: &str) -> PathBuf {
        self.folder.path().join("objects").join(CONTAINER).join(key)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

#[allow(clippy::disallowed_methods, reason = "a test finds its tools in the environment")]
fn program() -> Option<PathBuf> {
    if let Ok(path) = env::var(PROGRAM_VARIABLE) {
        return Some(path.into());
    }
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let installed = env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    on_path.into_iter().chain(installed).map(|folder| folder.join("versitygw")).find(|path| path.is_file())
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

fn spawn(program: &Path, folder: &Path, address: &str, has_tls: bool) -> Child {
    let log = fs::File::create(folder.join("log")).expect("a log");
    let mut command = Command::new(program);
    if has_tls {
        command.arg("--cert").arg(folder.join(CERTIFICATE)).arg("--key").arg(folder.join(KEY));
    }
    command
        .args([
            "--port",
            address,
            "--access",
            KEY_ID,
            "--secret",
            SECRET,
            "--quiet",
            "--keep-alive",
            "posix",
            "--sidecar",
        ])
        .args([folder.join("attributes"), folder.join("objects")])
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error: io::Error| panic!("cannot start {}: {error}", program.display()))
}

fn listens(server: &mut Child, address: &str) -> bool {
    for _ in 0..LOOKS_MAX {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        if server.try_wait().is_ok_and(|ended| ended.is_some()) {
            return false;
        }
        thread::yield_now();
    }
    drop(server.kill());
    drop(server.wait());
    false
}
