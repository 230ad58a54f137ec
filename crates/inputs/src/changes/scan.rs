//! One scan of a folder and everything below it.
//!
//! A path that cannot be read counts as unchanged and is reported: an unreadable path is not necessarily gone.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{ChangeRules, Entries, Entry};

/// Maximum depth below the scanned path.
const DEPTH_MAX: usize = 64;
/// Maximum number of problems reported per scan.
const PROBLEMS_MAX: usize = 20;
/// Bytes per read of a file's content.
const READ_BYTES: usize = 64 << 10;
const NANOS_PER_SEC: i64 = 1_000_000_000;

/// Result of a scan.
#[derive(Debug, Default)]
pub struct Scan {
    /// Entries found.
    pub entries: Entries,
    /// Descriptions of read errors.
    pub problems: Vec<String>,
}

/// Scans everything. `goes_on` is called before each file and may block; the scan is aborted if it returns false.
pub fn scan_files(rules: &ChangeRules, before: &Entries, goes_on: &mut dyn FnMut() -> bool) -> Option<Scan> {
    let room = rules.entries_max.saturating_sub(before.len());
    let mut walk = Scanner { rules, before, goes_on, room, found: Scan::default() };
    walk.visit(&rules.path, 0, &mut BTreeSet::new()).then_some(walk.found)
}

struct Scanner<'a> {
    rules: &'a ChangeRules,
    before: &'a Entries,
    goes_on: &'a mut dyn FnMut() -> bool,
    /// Number of new paths that may still be added. Paths of the previous scan are always included, because a missing
    /// path would count as deleted.
    room: usize,
    found: Scan,
}

impl Scanner<'_> {
    /// Scans a path and below; returns false if the scan was aborted. `above` has the folders on the path from the
    /// root, to detect cycles.
    fn visit(&mut self, path: &Path, depth: usize, above: &mut BTreeSet<(u64, u64)>) -> bool {
        if !(self.goes_on)() {
            return false;
        }
        let metadata = match self.metadata(path, depth) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(error) => {
                self.keep_previous(path, &error);
                return true;
            }
        };
        let is_folder = metadata.is_dir();
        if depth > 0 && self.rules.is_excluded(path) {
            return true;
        }
        if self.rules.is_included(path, is_folder) {
            self.add_entry(path, &metadata);
        }
        if !is_folder || (depth > 0 && !self.rules.recursive) {
            return true;
        }
        let node = (metadata.dev(), metadata.ino());
        if depth >= DEPTH_MAX || !above.insert(node) {
            self.report_problem(format!(
                "{}: is nested too deeply or contains itself, and is not checked",
                path.display()
            ));
            return true;
        }
        let goes_on = self.visit_below(path, depth, above);
        above.remove(&node);
        goes_on
    }

    fn visit_below(&mut self, folder: &Path, depth: usize, above: &mut BTreeSet<(u64, u64)>) -> bool {
        let listed = std::fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        match listed {
            Ok(entries) => {
                let mut paths: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
                drop(entries);
                paths.sort_unstable();
                paths.iter().all(|path| self.visit(path, depth + 1, above))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                self.keep_previous(folder, &error);
                true
            }
        }
    }

    /// Metadata of a path, or of the link itself if its target cannot be read. A link at the stanza's own path is
    /// always followed.
    fn metadata(&self, path: &Path, depth: usize) -> io::Result<Metadata> {
        if self.rules.follows_links || depth == 0 {
            path.metadata().or_else(|_| path.symlink_metadata())
        } else {
            path.symlink_metadata()
        }
    }

    fn add_entry(&mut self, path: &Path, metadata: &Metadata) {
        let known = self.before.get(path);
        if known.is_none() {
            if self.room == 0 {
                let most = self.rules.entries_max;
                return self.report_problem(format!(
                    "{}: more than {most} files; the others are ignored",
                    self.rules.path.display()
                ));
            }
            self.room -= 1;
        }
        let hash = match self.rules.hash_bytes_max {
            Some(most) if metadata.is_file() && metadata.len() <= most => hash_of(path, most).unwrap_or_else(|error| {
                self.report_problem(format!("{}: its content cannot be compared: {error}", path.display()));
                known.and_then(|known| known.hash)
            }),
            _ => None,
        };
        let entry = Entry {
            is_folder: metadata.is_dir(),
            size: metadata.len(),
            user: metadata.uid(),
            group: metadata.gid(),
            mode: metadata.mode(),
            modified_ns: metadata.mtime().saturating_mul(NANOS_PER_SEC).saturating_add(metadata.mtime_nsec()),
            hash,
        };
        self.found.entries.insert(path.to_path_buf(), entry);
    }

    /// Keeps the previous scan's entries of an unreadable path and of everything below it.
    fn keep_previous(&mut self, path: &Path, error: &io::Error) {
        self.report_problem(format!("{}: cannot be read: {error}", path.display()));
        let known = self.before.range(path.to_path_buf()..).take_while(|(known, _)| known.starts_with(path));
        let known: Vec<(PathBuf, Entry)> = known.map(|(path, entry)| (path.clone(), entry.clone())).collect();
        for (path, entry) in known {
            self.found.entries.entry(path).or_insert(entry);
        }
    }

    fn report_problem(&mut self, problem: String) {
        if self.found.problems.len() < PROBLEMS_MAX && !self.found.problems.contains(&problem) {
            self.found.problems.push(problem);
        }
    }
}

/// Hash of a file's content; `None` if it has grown beyond the limit.
fn hash_of(path: &Path, bytes_max: u64) -> io::Result<Option<[u8; 32]>> {
    let mut file = std::fs::File::open(path)?.take(bytes_max.saturating_add(1));
    let (mut hasher, mut buffer, mut all) = (Sha256::new(), vec![0; READ_BYTES], 0);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((all <= bytes_max).then(|| hasher.finalize().into())),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                all += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
