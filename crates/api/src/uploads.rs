//! Files sent with a request, on disk until they are indexed.
//!
//! A file is received completely before its first event is indexed, so that a client that disconnects early adds
//! nothing. The file is stored in a separate folder under its original name, from which format and sourcetype may be
//! recognised, and is removed when the request ends. Files left behind by a crash are removed at the next start.
//!
//! Not here: indexing the files ([`crate::Node::add_file`]).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_stdx::{ErrorKind, Fault, log, random};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::node::NodeCondition;

/// Folder of files that come with requests, below the data directory.
pub const FOLDER: &str = "run/uploads";
/// Maximum number of files that are received or indexed at the same time; further files are refused.
pub(crate) const UPLOADS_MAX: usize = 4;
/// Random bytes of a folder's name, written in hexadecimal.
const NAME_BYTES: usize = 8;
/// Maximum bytes of a file's own name. Of a longer name, only the end, which has the extension, is used.
const NAME_BYTES_MAX: usize = 200;
/// Name of a file whose path has no valid last part.
const DEFAULT_NAME: &str = "upload";

/// The folder for files of requests.
#[derive(Clone)]
pub(crate) struct Uploads {
    folder: PathBuf,
    permits: Arc<Semaphore>,
}

impl Uploads {
    /// Uploads of a data directory, which no other process has open.
    pub(crate) fn of_data_dir(data_dir: &Path) -> Uploads {
        // Files are added by their absolute path.
        let folder = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf()).join(FOLDER);
        if let Err(error) = std::fs::remove_dir_all(&folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            log::warning(format!("{}: files of unfinished requests cannot be deleted: {error}", folder.display()));
        }
        Uploads { folder, permits: Arc::new(Semaphore::new(UPLOADS_MAX)) }
    }

    /// Begins a file; `name` is its path on the client's machine. `None` if the maximum number of files is open.
    pub(crate) fn begin(&self, name: &str) -> Option<Result<Upload, Fault>> {
        let place = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Upload::create(&self.folder, name, place))
    }
}

/// A file of a request; removed when dropped.
pub(crate) struct Upload {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    _place: OwnedSemaphorePermit,
}

impl Upload {
    fn create(uploads: &Path, name: &str, place: OwnedSemaphorePermit) -> Result<Upload, Fault> {
        let mut bytes = [0; NAME_BYTES];
        random::fill(&mut bytes);
        let unique: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = uploads.join(unique);
        let path = folder.join(file_name(name));
        let made = std::fs::create_dir_all(&folder).and_then(|()| File::create_new(&path));
        let file = made.map_err(|error| io_fault(&path, error))?;
        Ok(Upload { folder, path, file, _place: place })
    }

    /// Path of the file on this machine.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes; fails if the disk would then have less free space than the node needs to accept events.
    pub(crate) fn write(&mut self, bytes: &[u8], condition: &NodeCondition) -> Result<(), Fault> {
        let left = condition.disk.free.saturating_sub(bytes.len() as u64);
        if left < condition.disk_free_min {
            let (free, least) = (condition.disk.free >> 20, condition.disk_free_min >> 20);
            return Err(Fault::new(
                ErrorKind::Unavailable,
                format!("the file does not fit: {free} MB are free and {least} MB have to stay free (minFreeSpace)"),
            ));
        }
        self.file.write_all(bytes).map_err(|error| io_fault(&self.path, error))
    }

    /// Sets the file's modification time, in seconds since 1970, to its modification time on the client's machine.
    pub(crate) fn set_modified(&self, seconds: f64) -> Result<(), Fault> {
        let time = std::time::Duration::try_from_secs_f64(seconds)
            .ok()
            .and_then(|since| std::time::UNIX_EPOCH.checked_add(since))
            .ok_or_else(|| Fault::invalid(format!("modified={seconds}: give seconds since 1970")))?;
        self.file.set_modified(time).map_err(|error| io_fault(&self.path, error))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            log::warning(format!("{}: the file of a request stays until the next start: {error}", self.path.display()));
        }
    }
}

fn io_fault(path: &Path, error: std::io::Error) -> Fault {
    Fault::io(path.display().to_string(), error)
}

/// The last part of a path, as a file name that is valid on this machine.
fn file_name(path: &str) -> String {
    let last = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_odd = |letter: char| letter.is_control() || letter == '/';
    let name: String = last.chars().map(|letter| if is_odd(letter) { '_' } else { letter }).collect();
    let from = name.ceil_char_boundary(name.len().saturating_sub(NAME_BYTES_MAX));
    match &name[from..] {
        "" | "." | ".." | "-" => DEFAULT_NAME.to_owned(),
        kept => kept.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskSpace;

    #[test]
    fn file_names_are_only_the_last_part_of_a_path() {
        for (path, name) in [
            ("/var/log/app.log.gz", "app.log.gz"),
            ("C:\\logs\\a.csv", "a.csv"),
            ("", DEFAULT_NAME),
            ("/a/..", DEFAULT_NAME),
            ("-", DEFAULT_NAME),
            ("a\0b", "a_b"),
        ] {
            assert_eq!(file_name(path), name, "{path:?}");
        }
        let long = format!("{}é.gz", "é".repeat(200));
        assert!(file_name(&long).len() <= NAME_BYTES_MAX && file_name(&long).ends_with("é.gz"));
    }

    #[test]
    fn uploads_are_bounded_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join(FOLDER).join("left/a.log");
        std::fs::create_dir_all(left.parent().unwrap()).unwrap();
        std::fs::write(&left, "x").unwrap();
        let uploads = Uploads::of_data_dir(place.path());
        assert!(!left.exists());
        let disk =
            |free| NodeCondition { disk: DiskSpace { all: 100, free }, disk_free_min: 10, ..NodeCondition::default() };
        let mut open: Vec<Upload> = (0..UPLOADS_MAX).map(|_| uploads.begin("/a.log").unwrap().unwrap()).collect();
        assert!(uploads.begin("/a.log").is_none());
        let mut first = open.remove(0);
        first.write(b"abc", &disk(13)).unwrap();
        assert!(first.write(b"abcd", &disk(13)).is_err());
        first.set_modified(86_400.0).unwrap();
        assert!(first.set_modified(f64::MAX).is_err());
        assert_eq!(std::fs::read(first.path()).unwrap(), b"abc");
        drop((first, open));
        assert_eq!(std::fs::read_dir(place.path().join(FOLDER)).unwrap().count(), 0);
        assert!(uploads.begin("/a.log").is_some());
    }
}
