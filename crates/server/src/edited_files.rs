//! Finds conf files of knowledge objects that are edited by hand while the node runs, so that later searches use them.
//!
//! Not here: files that nodes share, which the crate `sharing` compares by content; conf files that only a start reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quarry_apps::objects::affects_searches;

/// Maximum number of examined files; edits of further files take effect at the next start.
const FILES_MAX: usize = 10_000;
/// Folders with the places that hold conf files (the system, an app, an app of a user), and the number of folder levels
/// from each folder to its places.
const ROOTS: [(&str, usize); 3] = [("etc/system", 0), ("etc/apps", 1), ("etc/users", 2)];
/// Folders of a place with conf files.
const FOLDERS: [&str; 2] = ["default", "local"];

/// Metadata that changes when a file is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    inode: u64,
    bytes: u64,
}

/// The conf files of knowledge objects as of the last examination.
#[derive(Debug)]
pub(crate) struct KnowledgeFiles {
    data_dir: PathBuf,
    known: BTreeMap<PathBuf, Stamp>,
}

impl KnowledgeFiles {
    /// The files as they are now.
    pub(crate) fn new(data_dir: &Path) -> KnowledgeFiles {
        KnowledgeFiles { data_dir: data_dir.to_owned(), known: stamps(data_dir) }
    }

    /// Confs of the files that were written, added or removed since the last call.
    pub(crate) fn take_edited(&mut self) -> BTreeSet<String> {
        let now = stamps(&self.data_dir);
        let written = now.iter().filter(|(path, stamp)| self.known.get(*path) != Some(*stamp)).map(|(path, _)| path);
        let removed = self.known.keys().filter(|path| !now.contains_key(*path));
        let edited = written.chain(removed).filter_map(|path| conf_of(path)).map(str::to_owned).collect();
        self.known = now;
        edited
    }
}

/// The conf of a file, if it contains knowledge objects.
fn conf_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".conf").filter(|conf| affects_searches(conf))
}

fn stamps(data_dir: &Path) -> BTreeMap<PathBuf, Stamp> {
    let mut found = BTreeMap::new();
    for (root, depth) in ROOTS {
        let mut places = vec![data_dir.join(root)];
        for _ in 0..depth {
            places = places.iter().flat_map(|place| entries_of(place)).collect();
        }
        let folders = places.iter().flat_map(|place| FOLDERS.map(|folder| place.join(folder)));
        for path in folders.flat_map(|folder| entries_of(&folder)).filter(|path| conf_of(path).is_some()) {
            let Ok(facts) = path.metadata() else { continue };
            if found.len() >= FILES_MAX {
                return found;
            }
            let modified = (facts.mtime(), facts.mtime_nsec());
            found.insert(path, Stamp { modified, inode: facts.ino(), bytes: facts.len() });
        }
    }
    found
}

/// Paths in a folder; none if it is not a readable folder.
fn entries_of(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_of_knowledge_are_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let local = folder.path().join("etc/apps/shop/local");
        let own = folder.path().join("etc/users/eva/search/local");
        [&local, &own].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        fs::write(local.join("props.conf"), "[a]\n").unwrap();
        let mut files = KnowledgeFiles::new(folder.path());
        assert_eq!(files.take_edited(), BTreeSet::new());
        fs::write(local.join("props.conf"), "[a]\nKV_MODE = json\n").unwrap();
        fs::write(own.join("macros.conf"), "[m]\n").unwrap();
        fs::write(local.join("inputs.conf"), "[monitor:///a]\n").unwrap();
        assert_eq!(files.take_edited(), BTreeSet::from(["macros", "props"].map(str::to_owned)));
        assert_eq!(files.take_edited(), BTreeSet::new());
        fs::remove_file(own.join("macros.conf")).unwrap();
        assert_eq!(files.take_edited(), BTreeSet::from(["macros".to_owned()]));
    }
}
