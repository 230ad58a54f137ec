//! `run/server.json` of a data directory: the addresses of the server that has the directory open.
//!
//! The file may be part of a copy of the directory, or a leftover of a killed server. It is therefore valid only in the
//! directory whose device and inode it records, and only while its server holds a lock on it. Without this check, a
//! command on a copy of the directory would read and change the original.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quarry_stdx::{Fault, private_file};
use serde_json::{Map, Value, json};

/// Path of the run file relative to the data directory. Only its owner may read the file, because it contains a token.
pub const RUN_FILE: &str = "run/server.json";
/// Path at which the file is written before it has a lock.
const UNLOCKED_FILE: &str = "run/server.starting";
/// Member with the device and inode of the data directory.
const PLACE: &str = "place";

/// The run file of this process, removed when dropped.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    /// Holds the lock.
    _locked: File,
}

impl RunFile {
    /// Writes the file with these facts, and locks it until the returned value is dropped.
    pub fn write(data_dir: &Path, mut facts: Map<String, Value>) -> Result<RunFile, Fault> {
        let (unlocked, path) = (data_dir.join(UNLOCKED_FILE), data_dir.join(RUN_FILE));
        let cannot = |error| Fault::io(format_args!("cannot write {}", path.display()), error);
        facts.insert(PLACE.to_owned(), json!(device_and_inode(data_dir).map_err(cannot)?));
        private_file::write(&unlocked, &Value::Object(facts).to_string())?;
        // The file is locked before it gets its name, so that no process sees the file without a lock while the server
        // runs.
        let file = OpenOptions::new().write(true).open(&unlocked).map_err(cannot)?;
        file.lock().map_err(cannot)?;
        fs::rename(&unlocked, &path).map_err(cannot)?;
        Ok(RunFile { path, _locked: file })
    }

    /// Removes the file of a server that was killed. The caller holds the lock of the data directory.
    pub fn remove_stale(data_dir: &Path) {
        // A file that cannot be removed is harmless, because it is not locked.
        drop(fs::remove_file(data_dir.join(RUN_FILE)));
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        // If removal fails, the file is still invalid, because its lock ends with the process.
        drop(fs::remove_file(&self.path));
    }
}

/// Facts about the server that has `data_dir` open, if one runs.
pub fn read(data_dir: &Path) -> Option<Value> {
    let path = data_dir.join(RUN_FILE);
    let file = File::open(&path).ok()?;
    let facts: Value = serde_json::from_reader(io::BufReader::new(&file)).ok()?;
    let is_here = facts[PLACE] == json!(device_and_inode(data_dir).ok()?);
    (is_here && is_locked(&file)).then_some(facts)
}

/// Management address of the server that has `data_dir` open, if one runs.
pub fn management_address(data_dir: &Path) -> Option<String> {
    read(data_dir)?["mgmt"].as_str().map(str::to_owned)
}

/// Device and inode of a directory; a copy of the directory differs in at least one of them.
fn device_and_inode(data_dir: &Path) -> io::Result<[u64; 2]> {
    let facts = fs::metadata(data_dir)?;
    Ok([facts.dev(), facts.ino()])
}

/// Whether a process holds the file's lock.
fn is_locked(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Map<String, Value> {
        Map::from_iter([("mgmt".to_owned(), json!("127.0.0.1:1"))])
    }

    #[test]
    fn run_files_are_valid_only_in_their_folder_while_the_server_runs() {
        let folder = tempfile::tempdir().unwrap();
        let [data, copy, linked] = ["data", "copy", "linked"].map(|name| folder.path().join(name));
        fs::create_dir_all(&data).unwrap();
        assert_eq!(management_address(&data), None);
        let run_file = RunFile::write(&data, facts()).unwrap();
        for other in [&copy, &linked] {
            fs::create_dir_all(other.join("run")).unwrap();
        }
        fs::copy(data.join(RUN_FILE), copy.join(RUN_FILE)).unwrap();
        fs::hard_link(data.join(RUN_FILE), linked.join(RUN_FILE)).unwrap();
        assert_eq!([&copy, &linked].map(|other| management_address(other)), [None, None]);
        assert_eq!(management_address(&data).as_deref(), Some("127.0.0.1:1"));
        // A moved directory keeps its device and inode.
        let moved = folder.path().join("moved");
        fs::rename(&data, &moved).unwrap();
        assert!(management_address(&moved).is_some());
        fs::rename(&moved, &data).unwrap();
        let left = fs::read_to_string(data.join(RUN_FILE)).unwrap();
        drop(run_file);
        assert!(!data.join(RUN_FILE).exists());
        fs::write(data.join(RUN_FILE), left).unwrap();
        let other_reader = File::open(data.join(RUN_FILE)).unwrap();
        other_reader.lock_shared().unwrap();
        assert_eq!(management_address(&data), None);
        RunFile::remove_stale(&data);
        assert!(!data.join(RUN_FILE).exists());
    }
}
