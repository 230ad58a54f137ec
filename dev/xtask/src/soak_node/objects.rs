//! Changes knowledge objects and runs jobs over REST, and checks that all acknowledged changes are present after a
//! kill.
//!
//! An object has a name and one setting that identifies its last change. A change without an answer may or may not have
//! been made, so the editor tracks the possible states of each object, and reads the object again if several states are
//! possible. Rows of a finished job are read when it is done, and must never change afterwards. To outlive the last
//! check, half of the jobs have a lifetime of a day, and the others are saved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::Rng;
use super::management::Connection;

/// REST endpoints of the kinds of objects, each with the parameter whose value identifies an object's last change.
const KINDS: [(&str, &str); 5] = [
    ("admin/macros", "definition"),
    ("saved/searches", "search"),
    ("saved/eventtypes", "search"),
    ("configs/conf-soak", "value"),
    ("storage/passwords", "password"),
];
/// Number of objects of each kind.
const NAMES: u64 = 6;
/// One in this many changes is replaced by a job.
const JOB_IN: u64 = 8;
/// Number of latest jobs that are checked at the end.
const JOBS_MAX: usize = 20;
/// Statuses of a node whose disk fails, and of one that is being stopped or has too many searches.
const ERRORS_OF_DISKS: &[u16] = &[500, 503, 507];
const ERRORS_OF_STOPPING: &[u16] = &[503];
/// State of an object that does not exist.
const ABSENT: Option<String> = None;

/// Possible states of an object: a single one if the last change was acknowledged (status 2xx) or the object was read
/// since.
type Possible = BTreeSet<Option<String>>;

/// Changes objects and tracks their states.
pub(super) struct Editor {
    objects: BTreeMap<(usize, u64), Possible>,
    /// Finished jobs and their results.
    jobs: Vec<(String, Value)>,
    /// Changes made so far; the number identifies each change.
    changes: u64,
    /// Acknowledged changes and jobs.
    pub(super) answered: u64,
    fault: Option<String>,
    /// Statuses of failed requests that are expected now; a server error with another status is a fault of the node.
    expected_errors: &'static [u16],
}

/// The last part of an object's path.
fn id_of(kind: usize, name: u64) -> String {
    if KINDS[kind].0 == "storage/passwords" { format!(":soak{name}:") } else { format!("soak{name}") }
}

impl Editor {
    pub(super) fn new() -> Editor {
        let all = (0..KINDS.len()).flat_map(|kind| (0..NAMES).map(move |name| (kind, name)));
        let objects = all.map(|object| (object, Possible::from([ABSENT]))).collect();
        Editor { objects, jobs: Vec::new(), changes: 0, answered: 0, fault: None, expected_errors: &[] }
    }

    /// Returns the first unexpected state as an error.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Changes objects until the round or the node ends. `is_disk_failing` tells whether the disk fails in this round.
    pub(super) fn edit(
        &mut self,
        (address, token): (&str, &str),
        mut rng: Rng,
        over: &AtomicBool,
        is_disk_failing: bool,
    ) {
        self.expected_errors = if is_disk_failing { ERRORS_OF_DISKS } else { ERRORS_OF_STOPPING };
        let Some(mut connection) = Connection::open(address, token) else { return };
        while !over.load(Ordering::SeqCst) && self.fault.is_none() {
            let done = match rng.below(JOB_IN) {
                0 => self.run_job(&mut connection, rng.below(2) == 0),
                _ => {
                    let object = (rng.below(KINDS.len() as u64) as usize, rng.below(NAMES));
                    self.change(&mut connection, object, &mut rng)
                }
            };
            if done.is_none() {
                return;
            }
        }
    }

    /// Checks every object and the latest jobs.
    pub(super) fn check(&mut self, (address, token): (&str, &str)) -> Result<(), String> {
        self.expected_errors = &[];
        let gone = || "the node did not answer when objects were checked".to_owned();
        let mut connection = Connection::open(address, token).ok_or_else(gone)?;
        for object in self.objects.keys().copied().collect::<Vec<_>>() {
            self.check_object(&mut connection, object).ok_or_else(gone)?;
            self.fault()?;
        }
        for (sid, expected) in std::mem::take(&mut self.jobs) {
            let (status, found) = results_of(&mut connection, &sid).ok_or_else(gone)?;
            if status != 200 || found != expected {
                return Err(format!("the rows of job {sid} changed after it was done: {status} {found}"));
            }
        }
        Ok(())
    }

    /// Creates, changes or deletes an object; `None` if the node is gone.
    fn change(&mut self, connection: &mut Connection<'_>, object: (usize, u64), rng: &mut Rng) -> Option<()> {
        let mut possible = self.objects.get(&object)?.clone();
        if possible.len() > 1 || rng.below(10) == 0 {
            self.check_object(connection, object)?;
            possible = self.objects.get(&object)?.clone();
        }
        let ((kind, name), (path, setting)) = (object, KINDS[object.0]);
        let is_there = possible.iter().any(Option::is_some);
        self.changes += 1;
        let value = format!("index=soak{}", self.changes);
        let (method, path, form, new) = match (is_there, rng.below(3)) {
            (false, _) => {
                let form = format!("output_mode=json&name=soak{name}&{setting}={}", value.replace('=', "%3D"));
                ("POST", path.to_owned(), form, Some(value))
            }
            (true, 0) => ("DELETE", format!("{path}/{}?output_mode=json", id_of(kind, name)), String::new(), ABSENT),
            (true, _) => {
                let form = format!("output_mode=json&{setting}={}", value.replace('=', "%3D"));
                ("POST", format!("{path}/{}", id_of(kind, name)), form, Some(value))
            }
        };
        self.objects.get_mut(&object)?.insert(new.clone());
        let (status, body) = connection.ask(method, &path, &form)?;
        if (200..300).contains(&status) {
            self.answered += 1;
            self.objects.insert(object, Possible::from([new]));
        } else {
            self.check_status(status, &format!("{method} {path}"), &body);
        }
        Some(())
    }

    /// Records an unexpected server error as a fault.
    fn check_status(&mut self, status: u16, request: &str, body: &Value) {
        if status >= 500 && !self.expected_errors.contains(&status) {
            self.fault = Some(format!("{request} was answered with status {status}: {body}"));
        }
    }

    /// Reads an object, which must be in one of its possible states.
    fn check_object(&mut self, connection: &mut Connection<'_>, object: (usize, u64)) -> Option<()> {
        let ((kind, name), (path, setting)) = (object, KINDS[object.0]);
        let (status, body) = connection.ask("GET", &format!("{path}/{}?output_mode=json", id_of(kind, name)), "")?;
        let setting = if setting == "password" { "clear_password" } else { setting };
        let found = match status {
            404 => ABSENT,
            200 => body["entry"][0]["content"][setting].as_str().map(str::to_owned),
            // Without an answer about the object, its possible states stay.
            status if self.expected_errors.contains(&status) => return Some(()),
            _ => {
                self.fault = Some(format!("{path}/{} was read with status {status}: {body}", id_of(kind, name)));
                return Some(());
            }
        };
        let possible = self.objects.get_mut(&object)?;
        if !possible.contains(&found) {
            self.fault = Some(format!("{path}/{} is {found:?}, expected one of {possible:?}", id_of(kind, name)));
        }
        *possible = Possible::from([found]);
        Some(())
    }

    /// Runs a job to its end, saves it if `is_saved`, and reads its rows.
    fn run_job(&mut self, connection: &mut Connection<'_>, is_saved: bool) -> Option<()> {
        let search = "search%3Dsearch%20index%3D*%20%7C%20head%205%20%7C%20table%20_raw";
        let kept = if is_saved { "" } else { "&timeout=86400" };
        let form = format!("output_mode=json&exec_mode=blocking{kept}&{search}");
        let (status, body) = connection.ask("POST", "search/jobs", &form)?;
        let Some(sid) = body["sid"].as_str().filter(|_| status == 201) else {
            self.check_status(status, "POST search/jobs", &body);
            return Some(());
        };
        if is_saved {
            let (status, _) =
                connection.ask("POST", &format!("search/jobs/{sid}/control"), "output_mode=json&action=save")?;
            if status != 200 {
                return Some(());
            }
        }
        let (status, results) = results_of(connection, sid)?;
        if status == 200 && results.is_array() {
            self.answered += 1;
            self.jobs.push((sid.to_owned(), results));
            let surplus = self.jobs.len().saturating_sub(JOBS_MAX);
            self.jobs.drain(..surplus);
        }
        Some(())
    }
}

fn results_of(connection: &mut Connection<'_>, sid: &str) -> Option<(u16, Value)> {
    let (status, mut body) =
        connection.ask("GET", &format!("search/jobs/{sid}/results?output_mode=json&count=0"), "")?;
    Some((status, body["results"].take()))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Checks one object with a node that answers every request with `status`; returns the fault.
    fn fault_at(status: u16, expected_errors: &'static [u16]) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let node = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut line, mut length) = (String::new(), 0);
            while stream.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\n{{}}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        });
        let mut editor = Editor { expected_errors, ..Editor::new() };
        let mut connection = Connection::open(&address, "token").unwrap();
        editor.check_object(&mut connection, (0, 0)).unwrap();
        node.join().unwrap();
        editor.fault.take()
    }

    #[test]
    fn server_errors_are_faults_unless_the_disk_fails() {
        assert_eq!((fault_at(404, &[]), fault_at(500, ERRORS_OF_DISKS)), (None, None));
        assert!(fault_at(500, &[]).is_some_and(|fault| fault.contains("status 500")));
        assert!(fault_at(500, ERRORS_OF_STOPPING).is_some() && fault_at(503, &[]).is_some());
        assert_eq!(fault_at(503, ERRORS_OF_STOPPING), None);
    }
}
