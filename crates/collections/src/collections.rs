//! The collections of a data directory, each opened once per process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::migration::FORMER_FILE;
use crate::{Collection, CollectionError};

/// Folder of the collections, below the data directory.
const FOLDER: &str = "kvstore";
/// Maximum open collections. Beyond it, the least recently used of the collections that are not in use is closed.
const OPEN_MAX: usize = 32;
/// Maximum bytes of a file name without its extension.
const FILE_NAME_BYTES_MAX: usize = 200;
/// File extension.
const EXTENSION: &str = ".sqlite";

/// The collections of a data directory.
#[derive(Debug)]
pub struct Collections {
    folder: PathBuf,
    open: Mutex<OpenCollections>,
}

#[derive(Debug, Default)]
struct OpenCollections {
    /// By app and name, with the sequence number of the last access.
    collections: BTreeMap<(String, String), (Arc<Collection>, u64)>,
    /// Sequence number of the last access.
    accesses: u64,
}

/// All instances in this process, by folder. One folder has one instance, so that the object that removes a file is the
/// object that has the file open.
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
        let collections = Arc::new(Collections { folder: folder.clone(), open: Mutex::default() });
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
        let collection = Arc::new(Collection::new(path, name, self.folder.join(FORMER_FILE)));
        open.collections.insert(key, (Arc::clone(&collection), access));
        while open.collections.len() > OPEN_MAX {
            // Only unused collections are closed. Even two handles to one file would be safe, because SQLite serialises
            // them.
            let idle = open.collections.iter().filter(|(_, (collection, _))| Arc::strong_count(collection) == 1);
            let Some(oldest) = idle.min_by_key(|(_, (_, last))| *last).map(|(key, _)| key.clone()) else { break };
            open.collections.remove(&oldest);
        }
        Ok(collection)
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
        return Err(CollectionError::invalid(format!("{name:.80}: the name of a collection is empty or too long")));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_file_names() {
        assert_eq!(file_name("a_b-1").unwrap(), "a_b-1");
        assert_eq!(file_name("../ü").unwrap(), "%2e%2e%2f%c3%bc");
        assert!(file_name("").is_err() && file_name(&"a".repeat(201)).is_err());
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
