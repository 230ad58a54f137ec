//! The collections of a data directory, each opened once per process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::migration::FORMER_FILE;
use crate::{Collection, CollectionError, SharedDocuments};

/// Folder of the collections, below the data directory.
const FOLDER: &str = "kvstore";
/// Maximum number of open collections. Beyond the limit, the least recently used collection that is not in use now is
/// closed.
const OPEN_MAX: usize = 32;
/// Maximum bytes of a file name without its extension.
const FILE_NAME_BYTES_MAX: usize = 200;
/// File extension.
const EXTENSION: &str = ".sqlite";

/// The collections of a data directory.
#[derive(Debug)]
pub struct Collections {
    folder: PathBuf,
    /// The database through which nodes share documents.
    shared: OnceLock<Arc<dyn SharedDocuments>>,
    followed: Mutex<FollowedChanges>,
    open: Mutex<OpenCollections>,
}

#[derive(Debug, Default)]
struct OpenCollections {
    /// Open collections by app and name, each with the sequence number of its last access.
    collections: BTreeMap<(String, String), (Arc<Collection>, u64)>,
    /// Sequence number of the last access.
    accesses: u64,
}

/// State of this node as a replica of the shared documents.
#[derive(Debug, Default)]
struct FollowedChanges {
    /// Number of the last change by any node that was noticed here.
    noticed: i64,
    /// App and name of the collections that have not applied all noticed changes, or have not joined the database yet.
    pending: BTreeSet<(String, String)>,
}

/// All instances in this process, by folder. A folder has only one instance, so that a file is removed by the instance
/// that has the file open.
static INSTANCES: Mutex<BTreeMap<PathBuf, Weak<Collections>>> = Mutex::new(BTreeMap::new());

impl Collections {
    /// The collections of a data directory.
    pub fn of_data_dir(data_dir: &Path) -> Arc<Collections> {
        let folder = data_dir.join(FOLDER);
        let mut known = INSTANCES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(collections) = known.get(&folder).and_then(Weak::upgrade) {
            return collections;
        }
        known.retain(|_, collections| collections.strong_count() > 0);
        let collections = Arc::new(Collections {
            folder: folder.clone(),
            shared: OnceLock::new(),
            followed: Mutex::default(),
            open: Mutex::default(),
        });
        known.insert(folder, Arc::downgrade(&collections));
        collections
    }

    fn lock(&self) -> MutexGuard<'_, OpenCollections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The collection `name` of an app; creates no file before the first write.
    pub fn get(&self, app: &str, name: &str) -> Result<Arc<Collection>, CollectionError> {
        let (folder, file) = (file_name(app)?, file_name(name)?);
        let mut open = self.lock();
        open.accesses += 1;
        let access = open.accesses;
        let key = (app.to_owned(), name.to_owned());
        if let Some((collection, last)) = open.collections.get_mut(&key) {
            *last = access;
            return Ok(Arc::clone(collection));
        }
        let path = self.folder.join(folder).join(format!("{file}{EXTENSION}"));
        let shared = self.shared.get().map(Arc::clone);
        let collection = Arc::new(Collection::new(path, (app, name), self.folder.join(FORMER_FILE), shared));
        open.collections.insert(key, (Arc::clone(&collection), access));
        while open.collections.len() > OPEN_MAX {
            // Only unused collections are closed. Even two handles to one file would be safe, because SQLite serialises
            // their transactions. A collection whose last commit failed overwrites the failed transaction before its
            // next use; the next handle would not know of it.
            let idle = open.collections.iter().filter(|(_, (collection, _))| {
                Arc::strong_count(collection) == 1 && !collection.is_last_commit_in_doubt()
            });
            let Some(oldest) = idle.min_by_key(|(_, (_, last))| *last).map(|(key, _)| key.clone()) else { break };
            open.collections.remove(&oldest);
        }
        Ok(collection)
    }

    /// Shares the documents of all collections with other nodes from now on. Call it before collections are used.
    ///
    /// Documents that only this node has are given to the other nodes; if a document differs, the database wins, and
    /// the file of the collection is kept beside the new one. Collections that fail are retried by
    /// [`Collections::apply_shared_changes`]; until then, writing to them fails.
    pub fn share_through(&self, shared: Arc<dyn SharedDocuments>) -> Result<(), CollectionError> {
        // Open collections do not know the database.
        self.lock().collections.clear();
        drop(self.shared.set(shared));
        let existing = self.existing()?;
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).pending.extend(existing);
        self.apply_shared_changes()
    }

    /// Applies the changes of documents by other nodes. A collection that fails does not delay the other collections;
    /// the first error is returned, and the next call tries again.
    pub fn apply_shared_changes(&self) -> Result<(), CollectionError> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, changed) = shared.changed_since(followed.noticed)?;
        followed.noticed = last;
        followed.pending.extend(changed);
        let mut first_error = None;
        followed.pending.retain(|(app, name)| {
            match self.get(app, name).and_then(|collection| collection.apply_shared_changes()) {
                Ok(()) => false,
                Err(error) => {
                    first_error.get_or_insert(error);
                    true
                }
            }
        });
        first_error.map_or(Ok(()), Err)
    }

    /// App and name of the collections that have a file.
    fn existing(&self) -> Result<Vec<(String, String)>, CollectionError> {
        let mut existing = Vec::new();
        for app in entries(&self.folder)? {
            for file in entries(&self.folder.join(&app))? {
                let name = file.strip_suffix(EXTENSION).and_then(name_of);
                existing.extend(name_of(&app).zip(name));
            }
        }
        Ok(existing)
    }

    /// Removes a collection with all its documents.
    pub fn remove(&self, app: &str, name: &str) -> Result<(), CollectionError> {
        let collection = self.get(app, name)?;
        let removed = collection.remove_file();
        let key = (app.to_owned(), name.to_owned());
        let mut open = self.lock();
        // Another thread may have opened a new collection of this name.
        if open.collections.get(&key).is_some_and(|(known, _)| Arc::ptr_eq(known, &collection)) {
            open.collections.remove(&key);
        }
        removed
    }
}

/// A name encoded as a file name: bytes other than letters, digits, `_` and `-` are written in hexadecimal, as `%2e`.
fn file_name(name: &str) -> Result<String, CollectionError> {
    let mut file = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => file.push(char::from(byte)),
            other => file.push_str(&format!("%{other:02x}")),
        }
    }
    if file.is_empty() || file.len() > FILE_NAME_BYTES_MAX {
        return Err(CollectionError::invalid(format!(
            "{name:.80}: the name of a collection must have 1 to {FILE_NAME_BYTES_MAX} bytes; bytes other than ASCII \
             letters, digits, _ and - count three times"
        )));
    }
    Ok(file)
}

/// The name that [`file_name`] encodes as `file`.
fn name_of(file: &str) -> Option<String> {
    let (mut name, mut rest) = (Vec::new(), file.as_bytes());
    while let [first, others @ ..] = rest {
        rest = others;
        if *first != b'%' {
            name.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(name).ok().filter(|name| file_name(name).is_ok_and(|encoded| encoded == file))
}

/// Names of the entries of a folder; none if the folder does not exist.
fn entries(folder: &Path) -> Result<Vec<String>, CollectionError> {
    let failed = |error: std::io::Error| CollectionError::Failed { path: folder.to_owned(), reason: error.to_string() };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_file_names() {
        assert_eq!(file_name("a_b-1").unwrap(), "a_b-1");
        assert_eq!(file_name("../ü").unwrap(), "%2e%2e%2f%c3%bc");
        assert!(file_name("").is_err() && file_name(&"a".repeat(201)).is_err());
        for name in ["a_b-1", "../ü", "50%"] {
            assert_eq!(name_of(&file_name(name).unwrap()).as_deref(), Some(name));
        }
        assert!(["a.b", "%2", "%zz", "%61", ""].iter().all(|file| name_of(file).is_none()));
    }

    #[test]
    fn instances_are_shared_per_data_directory() {
        let folder = tempfile::tempdir().unwrap();
        let one = Collections::of_data_dir(folder.path());
        assert!(Arc::ptr_eq(&one, &Collections::of_data_dir(folder.path())));
        for name in 0..200 {
            one.get("search", &name.to_string()).unwrap();
        }
        assert_eq!(one.lock().collections.len(), OPEN_MAX);
        assert!(!folder.path().join(FOLDER).exists(), "nothing was written");
    }
}
