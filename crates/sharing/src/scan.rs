//! Finds shared files that were edited on this node: first by modification time and size, then by content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quarry_stdx::log;

use crate::SHARED_BYTES_MAX;
use crate::manifest::Manifest;
use crate::scope;

/// Maximum number of files examined; manual edits of further files are not shared.
const FILES_MAX: usize = 50_000;

/// Metadata that changes when a file is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    seconds: i64,
    nanoseconds: i64,
    inode: u64,
    bytes: u64,
}

impl Stamp {
    fn of(facts: &Metadata) -> Stamp {
        Stamp { seconds: facts.mtime(), nanoseconds: facts.mtime_nsec(), inode: facts.ino(), bytes: facts.len() }
    }
}

/// State of the files at the last scan.
#[derive(Debug, Default)]
pub(crate) struct EditedFiles {
    /// Stamps of files whose content matched the manifest when they were last read.
    known: BTreeMap<String, Stamp>,
    /// Oversized files that were already reported.
    reported: BTreeSet<String>,
}

impl EditedFiles {
    /// Files whose content differs from the manifest.
    pub(crate) fn list(&mut self, data_dir: &Path, manifest: &Manifest) -> Vec<String> {
        let mut edited = Vec::new();
        for path in shared_files(data_dir) {
            let Ok(facts) = data_dir.join(&path).symlink_metadata() else { continue };
            let stamp = Stamp::of(&facts);
            if self.known.get(&path) == Some(&stamp) {
                continue;
            }
            if facts.len() > SHARED_BYTES_MAX as u64 {
                if self.reported.insert(path.clone()) {
                    log::warning(format!("{path} is not shared: it has more than {SHARED_BYTES_MAX} bytes"));
                }
                continue;
            }
            // A file that was just removed does not count as edited.
            let Ok(content) = fs::read(data_dir.join(&path)) else { continue };
            if manifest.matches_digest(&path, &content) {
                self.known.insert(path, stamp);
            } else {
                edited.push(path);
            }
        }
        edited
    }
}

/// Paths of the shared files, relative to the data directory; files with a fixed path are listed even if they are
/// missing.
fn shared_files(data_dir: &Path) -> Vec<String> {
    let mut found: Vec<String> = scope::single_files().map(str::to_owned).collect();
    let mut folders: Vec<PathBuf> = Vec::new();
    for (root, depth) in scope::ROOTS {
        let mut places = vec![data_dir.join(root)];
        for _ in 0..depth {
            places = places.iter().flat_map(|place| folders_in(place)).collect();
        }
        folders.extend(places.iter().flat_map(|place| scope::place_folders().map(|folder| place.join(folder))));
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && found.len() < FILES_MAX => {
                    let name = path.strip_prefix(data_dir).ok().and_then(Path::to_str);
                    found.extend(name.filter(|name| scope::is_shared(name)).map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    found
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}
