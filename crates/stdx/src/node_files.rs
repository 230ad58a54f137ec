//! Files of a data directory that are changed by requests: users, knowledge objects, lookup files.
//!
//! Changes are serialised: a caller begins a change, reads the files, and writes them. If nodes share their files,
//! beginning a change waits until no other node is changing files, and then applies the changes of other nodes here;
//! each file is then written to the shared store before it is written here. The code that changes files is therefore
//! the same with and without sharing.
//!
//! Not here: which files are shared, and how (sharing).

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Fault, private_file};

/// Serialises changes by all parts of this process.
static CHANGING: Mutex<()> = Mutex::new(());

/// Waits for exclusive access to the files within this process; does not exclude other nodes.
pub fn lock_files() -> MutexGuard<'static, ()> {
    CHANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files that several nodes share.
pub trait SharedFiles: Debug + Send + Sync {
    /// Current time on the clock by which waits are measured.
    fn now(&self) -> i64;

    /// Excludes changes by other nodes until [`SharedFiles::end`], and applies their earlier changes here. The maximum
    /// wait counts from `since`.
    fn begin(&self, since: i64) -> Result<(), Fault>;

    /// Writes files for all nodes and then here, or removes those without content. A file that is not shared is written
    /// here only.
    fn write(&self, changes: &[(&Path, Option<&[u8]>)]) -> Result<(), Fault>;

    /// Whether nodes share a file.
    fn is_shared(&self, path: &Path) -> bool;

    /// Ends the exclusion.
    fn end(&self);
}

/// The files of a data directory, shared or not.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    data_dir: PathBuf,
    shared: Option<Arc<dyn SharedFiles>>,
}

/// A change that has begun; others wait until it is dropped.
#[derive(Debug)]
pub struct ChangingFiles {
    shared: Option<Arc<dyn SharedFiles>>,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for ChangingFiles {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.end();
        }
    }
}

impl NodeFiles {
    /// The files of a data directory, without sharing.
    pub fn of_data_dir(data_dir: &Path) -> NodeFiles {
        NodeFiles { data_dir: data_dir.to_owned(), shared: None }
    }

    /// The files of a data directory, shared through `shared` if given.
    pub fn shared_by(data_dir: &Path, shared: Option<Arc<dyn SharedFiles>>) -> NodeFiles {
        NodeFiles { data_dir: data_dir.to_owned(), shared }
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// A path as messages show it: relative to the data directory, whose location clients need not know.
    fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.data_dir).unwrap_or(path).display()
    }

    /// Whether other nodes share the files.
    pub fn are_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Begins a change. The methods below may be called only while the returned value is alive.
    pub fn change(&self) -> Result<ChangingFiles, Fault> {
        // The time spent waiting for other requests of this process counts towards the maximum wait, so that a queued
        // request does not wait several times as long.
        let since = self.shared.as_ref().map(|shared| shared.now());
        let alone = lock_files();
        if let (Some(shared), Some(since)) = (&self.shared, since) {
            shared.begin(since)?;
        }
        Ok(ChangingFiles { shared: self.shared.clone(), _alone: alone })
    }

    /// Writes a file as a whole, readable only by its owner; on disk when this returns.
    pub fn write(&self, path: &Path, text: &str) -> Result<(), Fault> {
        match &self.shared {
            Some(shared) => shared.write(&[(path, Some(text.as_bytes()))]),
            None => private_file::write(path, text),
        }
    }

    /// Renames a completely written temporary file to its final path.
    pub fn move_into_place(&self, unfinished: &Path, path: &Path) -> Result<(), Fault> {
        let cannot = |error: io::Error| Fault::io(format_args!("cannot write {}", self.shown(path)), error);
        match self.shared_files_of(path) {
            Some(shared) => {
                shared.write(&[(path, Some(&fs::read(unfinished).map_err(cannot)?))])?;
                fs::remove_file(unfinished).map_err(cannot)
            }
            None => fs::rename(unfinished, path).and_then(|()| sync_folder_of(path)).map_err(cannot),
        }
    }

    /// Moves a file.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        let cannot = |error: io::Error| Fault::io(format_args!("cannot move {}", self.shown(from)), error);
        match &self.shared {
            Some(shared) => {
                let content = fs::read(from).map_err(cannot)?;
                shared.write(&[(to, Some(&content)), (from, None)])
            }
            None => fs::rename(from, to).and_then(|()| sync_folder_of(to)).map_err(cannot),
        }
    }

    /// Removes a file; the removal is on disk when this returns.
    pub fn remove(&self, path: &Path) -> Result<(), Fault> {
        match &self.shared {
            Some(shared) => shared.write(&[(path, None)]),
            None => fs::remove_file(path)
                .and_then(|()| sync_folder_of(path))
                .map_err(|error| Fault::io(format_args!("cannot remove {}", self.shown(path)), error)),
        }
    }

    /// Removes the shared files of a folder for all nodes; the caller then removes the folder here.
    pub fn forget_folder(&self, folder: &Path) -> Result<(), Fault> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut files = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(_) if shared.is_shared(&entry.path()) => files.push(entry.path()),
                    _ => {}
                }
            }
        }
        let changes: Vec<(&Path, Option<&[u8]>)> = files.iter().map(|path| (path.as_path(), None)).collect();
        shared.write(&changes)
    }

    fn shared_files_of(&self, path: &Path) -> Option<&dyn SharedFiles> {
        self.shared.as_deref().filter(|shared| shared.is_shared(path))
    }
}

/// Makes the creation or removal of `path` durable by syncing its folder.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct PathRecorder(Mutex<Vec<String>>);

    impl SharedFiles for PathRecorder {
        fn now(&self) -> i64 {
            7
        }

        fn begin(&self, since: i64) -> Result<(), Fault> {
            self.0.lock().unwrap().push(format!("begin {since}"));
            Ok(())
        }

        fn write(&self, changes: &[(&Path, Option<&[u8]>)]) -> Result<(), Fault> {
            let names = changes.iter().map(|(path, content)| {
                (path.file_name().unwrap().to_owned(), content.map(|content| String::from_utf8_lossy(content)))
            });
            self.0.lock().unwrap().extend(names.map(|change| format!("{change:?}")));
            Ok(())
        }

        fn is_shared(&self, path: &Path) -> bool {
            path.extension().is_some_and(|extension| extension == "csv")
        }

        fn end(&self) {
            self.0.lock().unwrap().push("end".to_owned());
        }
    }

    #[test]
    fn file_changes_are_local_or_go_through_shared_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = |name: &str| fs::read_to_string(path(name)).ok();
        let files = NodeFiles::of_data_dir(folder.path());
        let change = files.change().unwrap();
        files.write(&path("a"), "1").unwrap();
        fs::write(path(".new"), "2").unwrap();
        files.move_into_place(&path(".new"), &path("b.csv")).unwrap();
        files.rename(&path("a"), &path("c.csv")).unwrap();
        files.forget_folder(folder.path()).unwrap();
        assert_eq!((text("a"), text("b.csv").as_deref(), text("c.csv").as_deref()), (None, Some("2"), Some("1")));
        files.remove(&path("c.csv")).unwrap();
        assert!(text("c.csv").is_none() && files.remove(&path("c.csv")).is_err());
        drop(change);
        let noted = Arc::new(PathRecorder::default());
        let files = NodeFiles::shared_by(folder.path(), Some(noted.clone()));
        let change = files.change().unwrap();
        fs::write(path(".new"), "3").unwrap();
        files.move_into_place(&path(".new"), &path("b.csv")).unwrap();
        files.rename(&path("b.csv"), &path("d.csv")).unwrap();
        files.forget_folder(folder.path()).unwrap();
        drop(change);
        let expected = [
            "begin 7",
            "(\"b.csv\", Some(\"3\"))",
            "(\"d.csv\", Some(\"2\"))",
            "(\"b.csv\", None)",
            "(\"b.csv\", None)",
            "end",
        ];
        assert_eq!(*noted.0.lock().unwrap(), expected);
        assert!(text(".new").is_none());
    }
}
