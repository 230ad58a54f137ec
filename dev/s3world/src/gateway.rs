//! An S3 server for tests: versitygw, or MinIO if `QUARRY_S3_SERVER` says so.
//!
//! versitygw keeps each object as a file, so that a test can read and damage it. MinIO is a second implementation of
//! the protocol; it keeps objects in its own format.

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

/// Name of the S3 bucket that every server has.
pub const CONTAINER: &str = "quarry";
/// Id of an access key with all permissions.
pub const KEY_ID: &str = "quarry-tests";
/// Secret of the access key.
pub const SECRET: &str = "a secret of no worth";

/// Environment variable that chooses the server: `versitygw`, which is the default, or `minio`.
const SERVER_VARIABLE: &str = "QUARRY_S3_SERVER";
/// Maximum number of ports to try, because another process may take a free port first.
const PORT_ATTEMPTS_MAX: usize = 20;
/// Maximum number of checks whether the server listens; each check takes the time of a refused connection and a yield.
const READY_CHECKS_MAX: usize = 200_000;

/// A running server; it stops when the value is dropped.
#[derive(Debug)]
pub struct Gateway {
    product: Product,
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
    /// Private key of the certificate, in PEM.
    pub key: String,
}

/// The servers that tests can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    Versitygw,
    Minio,
}

impl Product {
    #[allow(clippy::disallowed_methods, reason = "a test is told its server by the environment")]
    fn from_environment() -> Product {
        match env::var(SERVER_VARIABLE).as_deref() {
            Err(_) | Ok("versitygw") => Product::Versitygw,
            Ok("minio") => Product::Minio,
            Ok(other) => panic!("{SERVER_VARIABLE} is {other}; it can be versitygw or minio"),
        }
    }

    /// Name of the server's program.
    fn name(self) -> &'static str {
        match self {
            Product::Versitygw => "versitygw",
            Product::Minio => "minio",
        }
    }

    /// Environment variable with the path of the program; if it is not set, `PATH` and the install directory of
    /// `go install` are searched.
    fn program_variable(self) -> &'static str {
        match self {
            Product::Versitygw => "QUARRY_VERSITYGW",
            Product::Minio => "QUARRY_MINIO",
        }
    }

    /// The Go module of the program. MinIO has no version tags in the format of the Go tool chain.
    fn module(self) -> &'static str {
        match self {
            Product::Versitygw => "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
            Product::Minio => "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c",
        }
    }

    /// Files of certificate and key, relative to the directory given to the server.
    fn certificate_files(self) -> [&'static str; 2] {
        match self {
            Product::Versitygw => ["certificate.pem", "key.pem"],
            Product::Minio => ["certificates/public.crt", "certificates/private.key"],
        }
    }
}

/// Unless it is installed already, installs the server that tests use, with `go install`: versitygw takes two minutes
/// to build, MinIO eight. Without Go or a network, a message says so, and tests report that they are skipped.
pub fn install() {
    let product = Product::from_environment();
    if program(product).is_some() {
        return;
    }
    eprintln!("==> go install {}", product.module());
    match Command::new("go").args(["install", product.module()]).status() {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("tests against an S3 server are skipped: go install ended with {status}"),
        Err(error) => eprintln!("tests against an S3 server are skipped: cannot run go: {error}"),
    }
}

impl Gateway {
    /// Starts a server; `None`, with a message, if it is not installed.
    pub fn start() -> Option<Gateway> {
        Gateway::start_with(None)
    }

    /// Like [`Gateway::start`], with TLS.
    pub fn start_tls(certificate: &ServerCertificate) -> Option<Gateway> {
        Gateway::start_with(Some(certificate))
    }

    fn start_with(certificate: Option<&ServerCertificate>) -> Option<Gateway> {
        let product = Product::from_environment();
        let Some(program) = program(product) else {
            eprintln!("skipped: {} is not installed (go install {})", product.name(), product.module());
            return None;
        };
        let folder = TempDir::new().expect("a folder for objects");
        for name in [&*format!("objects/{CONTAINER}"), "attributes", "certificates"] {
            fs::create_dir_all(folder.path().join(name)).expect("a folder of the server");
        }
        if let Some(ServerCertificate { certificate, key }) = certificate {
            for (name, text) in product.certificate_files().into_iter().zip([certificate, key]) {
                fs::write(folder.path().join(name), text).expect("a certificate and its key");
            }
        }
        let has_tls = certificate.is_some();
        for _ in 0..PORT_ATTEMPTS_MAX {
            let address = free_address();
            let mut server = spawn(product, &program, folder.path(), &address, has_tls);
            if wait_until_listening(&mut server, &address) {
                let gateway = Gateway { product, server, folder, address, has_tls };
                gateway.wait_until_ready();
                return Some(gateway);
            }
        }
        panic!("{} does not start", program.display());
    }

    /// MinIO listens before it accepts requests; its health page says when it does.
    fn wait_until_ready(&self) {
        if self.product == Product::Versitygw || self.has_tls {
            return;
        }
        let request = format!("GET /minio/health/cluster HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        for _ in 0..READY_CHECKS_MAX {
            let mut answer = String::new();
            let asked = TcpStream::connect(&self.address).and_then(|mut stream| {
                stream.write_all(request.as_bytes())?;
                stream.read_to_string(&mut answer)
            });
            if asked.is_ok() && answer.starts_with("HTTP/1.0 200") {
                return;
            }
            thread::yield_now();
        }
        panic!("{} does not become ready", self.product.name());
    }

    /// Address on which the server listens: `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// URL of the server.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.has_tls { "https" } else { "http" }, self.address)
    }

    /// True if each object is a file with the object's bytes, which a test can read and change.
    pub fn keeps_objects_as_files(&self) -> bool {
        self.product == Product::Versitygw
    }

    /// True if unfinished uploads are listed by any prefix. MinIO lists only those of the object that the prefix names,
    /// and removes old ones by itself.
    pub fn lists_unfinished_uploads(&self) -> bool {
        self.product == Product::Versitygw
    }

    /// Path of the file that stores an object of the container, or of the directory with its parts if
    /// [`Gateway::keeps_objects_as_files`] is false.
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
fn program(product: Product) -> Option<PathBuf> {
    if let Ok(path) = env::var(product.program_variable()) {
        return Some(path.into());
    }
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let installed = env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    on_path.into_iter().chain(installed).map(|folder| folder.join(product.name())).find(|path| path.is_file())
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

fn spawn(product: Product, program: &Path, folder: &Path, address: &str, has_tls: bool) -> Child {
    let log = fs::File::create(folder.join("log")).expect("a log");
    let mut command = Command::new(program);
    match product {
        Product::Versitygw => {
            if has_tls {
                let [certificate, key] = product.certificate_files();
                command.arg("--cert").arg(folder.join(certificate)).arg("--key").arg(folder.join(key));
            }
            command.args(["--port", address, "--access", KEY_ID, "--secret", SECRET, "--quiet", "--keep-alive"]);
            command.args(["posix", "--sidecar"]).args([folder.join("attributes"), folder.join("objects")]);
        }
        Product::Minio => {
            command.env("MINIO_ROOT_USER", KEY_ID).env("MINIO_ROOT_PASSWORD", SECRET).env("MINIO_BROWSER", "off");
            command.args(["server", "--quiet", "--address", address]).arg(folder.join("objects"));
            if has_tls {
                command.arg("--certs-dir").arg(folder.join("certificates"));
            }
        }
    }
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error: io::Error| panic!("cannot start {}: {error}", program.display()))
}

fn wait_until_listening(server: &mut Child, address: &str) -> bool {
    for _ in 0..READY_CHECKS_MAX {
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
