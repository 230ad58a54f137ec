//! Changes knowledge objects and runs jobs over REST, and checks that all acknowledged changes are present after a
//! kill.
//!
//! An object has a name and one setting that identifies its last change. A change without an answer may or may not have
//! been made, so the editor tracks the possible states of each object, and reads the object again if several states are
//! possible. Rows of a finished job are read when it is done, and must never change afterwards. So that they do not
//! expire before the last check, half of the jobs have a lifetime of a day and the others are saved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::Chance;
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
}

/// The last part of an object's path.
fn id_of(kind: usize, name: u64) -> String {
    if KINDS[kind].0 == "storage/passwords" { format!(":soak{name}:") } else { format!("soak{name}") }
}

impl Editor {
    pub(super) fn new() -> Editor {
        let all = (0..KINDS.len()).flat_map(|kind| (0..NAMES).map(move |name| (kind, name)));
        let objects = all.map(|object| (object, Possible::from([ABSENT]))).collect();
        Editor { objects, jobs: Vec::new(), changes: 0, answered: 0, fault: None }
    }

    /// Returns the first unexpected state as an error.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Changes objects until the round or the node ends.
    pub(super) fn edit(&mut self, (address, token): (&str, &str), mut chance: Chance, over: &AtomicBool) {
        let Some(mut connection) = Connection::open(address, token) else { return };
        while !over.load(Ordering::SeqCst) && self.fault.is_none() {
            let done = match chance.below(JOB_IN) {
                0 => self.run_job(&mut connection, chance.below(2) == 0),
                _ => {
                    let object = (chance.below(KINDS.len() as u64) as usize, chance.below(NAMES));
                    self.change(&mut connection, object, &mut chance)
                }
            };
            if done.is_none() {
                return;
            }
        }
    }

    /// Checks every object and the latest jobs.
    pub(super) fn check(&mut self, (address, token): (&str, &str)) -> Result<(), String> {
        let gone = || "the node did not answer when objects were looked at".to_owned();
        let mut connection = Connection::open(address, token).ok_or_else(gone)?;
        for object in self.objects.keys().copied().collect::<Vec<_>>() {
            self.check_object(&mut connection, object).ok_or_else(gone)?;
            self.fault()?;
        }
        for (sid, expected) in std::mem::take(&mut self.jobs) {
            let (status, found) = results_of(&mut connection, &sid).ok_or_else(gone)?;
            if status != 200 || found != expected {
                return Err(format!("job {sid} is not what it was when it was done: {status} {found}"));
            }
        }
        Ok(())
    }

    /// Creates, changes or deletes an object; `None` if the node is gone.
    fn change(&mut self, connection: &mut Connection<'_>, object: (usize, u64), chance: &mut Chance) -> Option<()> {
        let mut possible = self.objects.get(&object)?.clone();
        if possible.len() > 1 || chance.below(10) == 0 {
            self.check_object(connection, object)?;
            possible = self.objects.get(&object)?.clone();
        }
        let ((kind, name), (path, setting)) = (object, KINDS[object.0]);
        let is_there = possible.iter().any(Option::is_some);
        self.changes += 1;
        let value = format!("index=soak{}", self.changes);
        let (method, path, form, new) = match (is_there, chance.below(3)) {
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
        let (status, _) = connection.ask(method, &path, &form)?;
        if (200..300).contains(&status) {
            self.answered += 1;
            self.objects.insert(object, Possible::from([new]));
        }
        Some(())
    }

    /// Reads an object, which must be in one of its possible states.
    fn check_object(&mut self, connection: &mut Connection<'_>, object: (usize, u64)) -> Option<()> {
        let ((kind, name), (path, setting)) = (object, KINDS[object.0]);
        let (status, body) = connection.ask("GET", &format!("{path}/{}?output_mode=json", id_of(kind, name)), "")?;
        let setting = if setting == "password" { "clear_password" } else { setting };
        let found = match status {
            404 => ABSENT,
            200 => body["entry"][0]["content"][setting].as_str().map(str::to_owned),
            // The test makes the disk fail at times, so other statuses are expected; the object is then not checked.
            _ => return Some(()),
        };
        let possible = self.objects.get_mut(&object)?;
        if !possible.contains(&found) {
            self.fault = Some(format!("{path}/{} is {found:?}, and may be {possible:?}", id_of(kind, name)));
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
        let Some(sid) = body["sid"].as_str().filter(|_| status == 201) else { return Some(()) };
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
