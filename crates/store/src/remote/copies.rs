//! Which copies of a bucket there are, what its objects are called on a volume, and which volumes indexes have.
//!
//! Not here: what moves a bucket from one state to the next.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use quarry_blob::{BlobError, BlobStore, BlockCache};
use quarry_bucket::ReadAt;
use quarry_catalog::{BucketRow, RemoteCopy, RemoteState};

use crate::object_names::folder_of;
use crate::sync::lock;

/// What a path says for the name of its index.
const INDEX_NAME: &str = "$_index_name";
/// What is known of all slabs is about so small a part of a bucket, and the checksums of its blocks a tenth of that.
const SHARE_OF_END: u64 = 200;
/// Setting of the catalog that tells the objects of this data directory from those of others on the same volume.
pub(crate) const STORE_ID: &str = "store_id";

/// Where buckets are kept besides the data directory.
#[derive(Clone, Debug)]
pub struct RemoteOptions {
    /// The volumes of indexes.conf, by name.
    pub volumes: BTreeMap<String, Arc<dyn BlobStore>>,
    /// Where indexes keep their buckets that `of_index` does not name; `None` for here alone.
    pub default: Option<RemotePath>,
    /// The same for indexes that say it for themselves.
    pub of_index: BTreeMap<String, Option<RemotePath>>,
    /// Bytes that local copies of uploaded buckets and cached blocks take together.
    pub cache_bytes_max: u64,
    /// Bytes of the disk that these leave free beyond what the store must keep free.
    pub eviction_padding: u64,
    /// Seconds for which the local copy of a bucket stays before those of older ones, by its newest event.
    pub hotlist_recency_secs: u64,
    /// Buckets that are uploaded at once.
    pub uploads_max: usize,
    /// Sixteen hexadecimal digits for a data directory that has no id yet, drawn by chance.
    pub new_store_id: String,
}

/// A place on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePath {
    /// Name of the volume.
    pub volume: String,
    /// Path below that of the volume; `$_index_name` in it stands for the index. Its parts are names of objects.
    pub path: String,
}

impl RemoteOptions {
    /// Where an index keeps its buckets.
    pub(super) fn place_of(&self, index: &str, store_id: &str) -> Option<RemotePath> {
        let own = self.of_index.get(index);
        let RemotePath { volume, path } = own.map_or(self.default.as_ref(), Option::as_ref)?;
        let path = path.replace(INDEX_NAME, &folder_of(index));
        let parts = path.split('/').filter(|part| !part.is_empty()).chain([store_id]);
        Some(RemotePath { volume: volume.clone(), path: parts.collect::<Vec<_>>().join("/") })
    }
}

/// Which copies of a live bucket there are; shared by all who hold the bucket.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<Option<RemoteCopy>>);

impl Copies {
    pub(crate) fn new(copy: Option<RemoteCopy>) -> Arc<Copies> {
        Arc::new(Copies(Mutex::new(copy)))
    }

    pub(crate) fn remote(&self) -> Option<RemoteCopy> {
        lock(&self.0).clone()
    }

    pub(crate) fn set(&self, copy: RemoteCopy) {
        *lock(&self.0) = Some(copy);
    }

    pub(crate) fn state(&self) -> Option<RemoteState> {
        lock(&self.0).as_ref().map(|copy| copy.state)
    }

    /// Whether the objects in the data directory are whole.
    pub(crate) fn is_local(&self) -> bool {
        self.state().is_none_or(RemoteState::is_local_whole)
    }

    pub(super) fn move_to(&self, state: RemoteState) {
        if let Some(copy) = &mut *lock(&self.0) {
            copy.state = state;
        }
    }
}

/// Which object of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Object,
    Filter,
}

impl Part {
    pub(crate) const ALL: [Part; 2] = [Part::Object, Part::Filter];

    /// Its name in the data directory.
    pub(crate) fn name(self, row: &BucketRow) -> &str {
        match self {
            Part::Object => &row.object,
            Part::Filter => &row.filter,
        }
    }

    /// Its size.
    pub(crate) fn bytes(self, row: &BucketRow) -> u64 {
        match self {
            Part::Object => row.object_bytes,
            Part::Filter => row.filter_bytes,
        }
    }

    /// How much of its end is read first: of a bucket, what is known of all slabs; of a filter nothing but the checksums of
    /// the store, which are left to it.
    fn end_bytes(self, row: &BucketRow) -> u64 {
        match self {
            Part::Object => row.object_bytes / SHARE_OF_END,
            Part::Filter => 0,
        }
    }

    /// Its key on a volume. It is made of what the catalog says, and unlike any other: a number that comes again, because
    /// an older catalog was put back, comes at another time.
    pub(crate) fn key(self, row: &BucketRow, folder: &str) -> String {
        let ending = match self {
            Part::Object => "bucket",
            Part::Filter => "filter",
        };
        format!("{folder}/{:010}-{:016x}.{ending}", row.number, row.created)
    }
}

/// An object that was opened.
#[derive(Clone)]
pub(crate) struct OpenObject {
    pub(crate) object: Arc<dyn ReadAt>,
    /// The same; what is read of this one stays in the cache for longer.
    pub(crate) lasting: Arc<dyn ReadAt>,
}

impl OpenObject {
    /// One that no cache is before.
    pub(crate) fn of(object: Arc<dyn ReadAt>) -> OpenObject {
        OpenObject { lasting: Arc::clone(&object), object }
    }
}

/// The volumes a store reads, and the cache before them.
pub(crate) struct Remotes {
    volumes: BTreeMap<String, Arc<dyn BlobStore>>,
    pub(crate) cache: Option<Arc<BlockCache>>,
}

impl fmt::Debug for Remotes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Remotes").field("volumes", &self.volumes.keys()).finish_non_exhaustive()
    }
}

impl Remotes {
    /// No volumes.
    pub(crate) fn none() -> Remotes {
        Remotes { volumes: BTreeMap::new(), cache: None }
    }

    pub(crate) fn new(options: &RemoteOptions, cache: Arc<BlockCache>) -> Remotes {
        Remotes { volumes: options.volumes.clone(), cache: Some(cache) }
    }

    /// The store of a volume.
    pub(crate) fn volume(&self, name: &str) -> Result<&Arc<dyn BlobStore>, BlobError> {
        let reason =
            || format!("a bucket is on [volume:{name}], of which indexes.conf says nothing; put the stanza back");
        self.volumes.get(name).ok_or_else(|| BlobError::Settings { reason: reason() })
    }

    /// An object of a bucket as its volume has it, through the cache.
    pub(crate) fn open(&self, row: &BucketRow, part: Part, copy: &RemoteCopy) -> Result<OpenObject, BlobError> {
        let key = part.key(row, &copy.folder);
        let volume = Arc::clone(self.volume(&copy.volume)?);
        let end_bytes = part.end_bytes(row);
        match &self.cache {
            None => volume.open_with_end(&key, end_bytes).map(OpenObject::of),
            Some(cache) => {
                let name = format!("{}/{key}", copy.volume);
                let open = Box::new(move || volume.open_with_end(&key, end_bytes));
                let object = cache.object(&name, part.bytes(row), open);
                Ok(OpenObject { lasting: Arc::new(object.lasting()), object: Arc::new(object) })
            }
        }
    }

    /// Deletes the objects of a bucket, and what the cache has of them.
    pub(crate) fn delete(&self, row: &BucketRow, copy: &RemoteCopy) -> Result<(), BlobError> {
        let volume = self.volume(&copy.volume)?;
        Part::ALL.into_iter().try_for_each(|part| {
            let key = part.key(row, &copy.folder);
            self.cache.iter().for_each(|cache| cache.forget(&format!("{}/{key}", copy.volume)));
            volume.delete(&key)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_a_folder_of_its_own_on_its_volume() {
        let path = |volume: &str, path: &str| Some(RemotePath { volume: volume.into(), path: path.into() });
        let options = RemoteOptions {
            volumes: BTreeMap::new(),
            default: path("cold", "$_index_name"),
            of_index: [("web".into(), path("hot", "/a/$_index_name/b/")), ("here".into(), None)].into(),
            cache_bytes_max: 0,
            eviction_padding: 0,
            hotlist_recency_secs: 0,
            uploads_max: 1,
            new_store_id: String::new(),
        };
        assert_eq!(options.place_of("main", "5eed"), path("cold", "main/5eed"));
        assert_eq!(options.place_of("web", "5eed"), path("hot", "a/web/b/5eed"));
        assert_eq!(options.place_of("here", "5eed"), None);
    }
}
