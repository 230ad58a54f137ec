//! The manifest of the shared files on this node: for each file, the version and the digest last written here. A file
//! whose content has a different digest was edited by hand on this node.
//!
//! The manifest may be older than the files, for example after a crash, but never newer. If the manifest is older, a
//! file whose content equals the database's content was not edited.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_stdx::{Fault, log, private_file};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// The manifest's file. It is below `etc` like the shared files, so that a backup of `etc` contains both.
const FILE: &str = "etc/shared_files.json";

/// The entry of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ManifestEntry {
    /// Version that was last written here.
    pub(crate) version: i64,
    /// Digest of the file's content; `None` if the file was removed.
    pub(crate) digest: Option<u64>,
}

/// The shared files of one database.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    /// Identifies the database.
    id: i64,
    /// Number of the last change, of any file, that this node has processed.
    pub(crate) seen: i64,
    files: BTreeMap<String, ManifestEntry>,
}

pub(crate) fn digest(content: &[u8]) -> u64 {
    xxh3_64(content)
}

impl Manifest {
    /// Reads the manifest of a data directory; empty if it belongs to another database or is unreadable.
    pub(crate) fn read(data_dir: &Path, id: i64) -> Manifest {
        let path = data_dir.join(FILE);
        let empty = Manifest { path: path.clone(), id, seen: 0, files: BTreeMap::new() };
        let Ok(text) = std::fs::read_to_string(&path) else { return empty };
        match parse(&text) {
            Some((found, seen, files)) if found == id => Manifest { seen, files, ..empty },
            Some(_) => {
                log::warning(format!("{}: the files were shared in another database before", path.display()));
                empty
            }
            None => {
                log::warning(format!("{}: unreadable; all shared files are compared", path.display()));
                empty
            }
        }
    }

    /// Writes the manifest.
    pub(crate) fn write(&self) -> Result<(), Fault> {
        let file = |known: &ManifestEntry| json!([known.version, known.digest.map(|digest| format!("{digest:016x}"))]);
        let files: Map<String, Value> = self.files.iter().map(|(path, known)| (path.clone(), file(known))).collect();
        private_file::write(&self.path, &json!({ "id": self.id, "seen": self.seen, "files": files }).to_string())
    }

    pub(crate) fn get(&self, path: &str) -> Option<ManifestEntry> {
        self.files.get(path).copied()
    }

    /// Version of the file on this node; 0 for a file that was never here.
    pub(crate) fn version_of(&self, path: &str) -> i64 {
        self.get(path).map_or(0, |known| known.version)
    }

    /// Whether a file's content has the digest in the manifest.
    pub(crate) fn matches_digest(&self, path: &str, content: &[u8]) -> bool {
        self.get(path).is_some_and(|known| known.digest == Some(digest(content)))
    }

    pub(crate) fn set(&mut self, path: &str, version: i64, content: Option<&[u8]>) {
        self.files.insert(path.to_owned(), ManifestEntry { version, digest: content.map(digest) });
    }

    /// Paths of files that were not removed.
    pub(crate) fn existing_paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter(|(_, known)| known.digest.is_some()).map(|(path, _)| path.as_str())
    }
}

fn parse(text: &str) -> Option<(i64, i64, BTreeMap<String, ManifestEntry>)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let known = |value: &Value| {
        let digest = match &value[1] {
            Value::Null => None,
            digits => Some(u64::from_str_radix(digits.as_str()?, 16).ok()?),
        };
        Some(ManifestEntry { version: value[0].as_i64()?, digest })
    };
    let files = value["files"].as_object()?.iter().map(|(path, value)| Some((path.clone(), known(value)?)));
    Some((value["id"].as_i64()?, value["seen"].as_i64()?, files.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_only_for_the_same_database() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        let mut manifest = Manifest::read(folder.path(), -5);
        manifest.seen = 9;
        manifest.set("a", 3, Some(b"text"));
        manifest.set("b", 8, None);
        manifest.write().unwrap();
        let read = Manifest::read(folder.path(), -5);
        assert_eq!((read.seen, read.version_of("a"), read.version_of("b"), read.version_of("c")), (9, 3, 8, 0));
        assert!(
            read.matches_digest("a", b"text") && !read.matches_digest("a", b"other") && !read.matches_digest("b", b"")
        );
        assert_eq!(read.existing_paths().collect::<Vec<_>>(), ["a"]);
        assert_eq!(Manifest::read(folder.path(), 6).seen, 0, "another database");
        std::fs::write(folder.path().join(FILE), "{\"id\": -5").unwrap();
        assert_eq!(Manifest::read(folder.path(), -5).seen, 0, "unreadable");
    }
}
