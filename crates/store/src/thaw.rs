//! Makes archived buckets searchable again, like Splunk's thawed buckets.
//!
//! An archived bucket is a folder with the bucket's two objects. [`Store::thaw`], or the operator, copies the folder to
//! `thaweddb` in the object folder of the index. There the bucket is verified, recorded by one catalog transaction, and
//! live. [`Store::thaw`] also verifies it before copying. A thawed bucket is neither merged nor removed by retention:
//! to remove the bucket, the operator deletes its folder. After a crash, either the bucket is live or the next scan
//! finds its folder, which it makes live or, if the folder is incomplete, reports.
//!
//! Not here: archiving, and the schedule of the scans.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use quarry_bucket::{BucketReader, MemoryObject, TermFilter};
use quarry_catalog::{BucketRow, BucketState, CompactionCommit};
use quarry_event::PageColumns;
use quarry_stdx::Fault;

use crate::catalog_change::{CatalogChange, CommitEvidence};
use crate::object_names::object_folder;
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{Store, StoreError, data_dir};

/// Folder of thawed buckets, inside the folder of an index's objects.
const THAWED_FOLDER: &str = "thaweddb";
/// File extensions of the two objects.
const OBJECT_EXTENSIONS: [&str; 2] = ["bucket", "filter"];
/// Maximum size of an object in bytes; larger objects are refused, because the store never writes them.
const OBJECT_BYTES_MAX: u64 = 8 << 30;

/// Result of scanning the thaw folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThawScanResult {
    /// Ids of buckets that became live.
    pub added: Vec<String>,
    /// Ids of buckets whose folders are gone.
    pub removed: Vec<String>,
    /// Folders without a valid bucket, with the reason; without those that the previous scan refused for the same
    /// reason.
    pub refused: Vec<String>,
}

impl Store {
    /// Copies the folder of an archived bucket to the index and makes it live; returns its id. A bucket that is already
    /// live is left unchanged.
    pub fn thaw(&self, index: &str, folder: &Path) -> Result<String, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let name = absolute.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let names = object_names(folder).map_err(|reason| thaw_error(folder, reason))?;
        let read = |object: &String| read_object(&folder.join(object)).map_err(|reason| thaw_error(folder, reason));
        let contents = [read(&names[0])?, read(&names[1])?];
        // The bucket is verified first, so that a damaged one is not copied.
        verified_row(index, &contents).map_err(|reason| thaw_error(folder, reason))?;
        let objects = names.map(|object| format!("{}/{THAWED_FOLDER}/{name}/{object}", object_folder(index)));
        if let Some(id) = self.shared.find_live_bucket(&objects[0]) {
            return Ok(id);
        }
        for (object, content) in objects.iter().zip(&contents) {
            self.shared.readers.blobs().put(object, content)?;
        }
        self.shared.add_thawed(index, objects, &contents)
    }

    /// Scans `thaweddb` of every index that is configured or contains events: buckets in new folders become live, and
    /// buckets whose folders are gone are removed from the catalog.
    pub fn scan_thawed(&self) -> Result<ThawScanResult, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let mut thawed = ThawScanResult { removed: self.shared.forget_thawed()?, ..ThawScanResult::default() };
        let holding = self.stats().into_iter().map(|stats| stats.index);
        let indexes: BTreeSet<String> = holding.chain(self.shared.options.configured_indexes.iter().cloned()).collect();
        for index in &indexes {
            let place = format!("{}/{THAWED_FOLDER}", object_folder(index));
            let above = data_dir::objects(&self.shared.options.dir).join(&place);
            for folder in subfolders(&above).map_err(|error| StoreError::from_io("list", &above, &error))? {
                let path = above.join(&folder);
                match self.shared.thaw_folder_if_new(index, &format!("{place}/{folder}"), &path) {
                    Ok(id) => thawed.added.extend(id),
                    Err(reason) => thawed.refused.push(thaw_error(&path, reason).to_string()),
                }
            }
        }
        let mut told = lock(&self.shared.thaw_refused);
        let refused = std::mem::take(&mut thawed.refused);
        thawed.refused = refused.iter().filter(|text| !told.contains(*text)).cloned().collect();
        *told = refused.into_iter().collect();
        Ok(thawed)
    }
}

impl Shared {
    /// Id of the live bucket with this object.
    fn find_live_bucket(&self, object: &str) -> Option<String> {
        let state = self.state();
        let found = state.sealed.thawed().find(|bucket| bucket.row.object() == object);
        found.map(|bucket| bucket.id().to_owned())
    }

    /// Makes the bucket in a folder live, unless it already is.
    fn thaw_folder_if_new(&self, index: &str, place: &str, path: &Path) -> Result<Option<String>, Fault> {
        let names = object_names(path)?;
        let objects = [0, 1].map(|at: usize| format!("{place}/{}", names[at]));
        if self.find_live_bucket(&objects[0]).is_some() {
            return Ok(None);
        }
        let contents = [read_object(&path.join(&names[0]))?, read_object(&path.join(&names[1]))?];
        Ok(Some(self.add_thawed(index, objects, &contents)?))
    }

    /// Records a bucket whose objects are in place.
    fn add_thawed(&self, index: &str, objects: [String; 2], contents: &[Bytes; 2]) -> Result<String, StoreError> {
        let facts = verified_row(index, contents).map_err(|reason| thaw_error(Path::new(&objects[0]), reason))?;
        // This settles an earlier attempt whose commit had no answer, so that the bucket is not added again.
        let mut turn = self.begin_commit()?;
        if let Some(id) = self.find_live_bucket(&objects[0]) {
            return Ok(id);
        }
        // The objects may have been deleted with an earlier bucket of this folder, or by the operator.
        for object in &objects {
            if !self.readers.blobs().exists(object)? {
                return Err(thaw_error(Path::new(object), Fault::unavailable("it was removed in the meantime")));
            }
        }
        let number = self.state().take_number();
        let [object, filter] = objects;
        let created = self.clock.now_ns();
        let row = BucketRow { number, object, filter, created, ..facts };
        debug_assert!(row.thawed && row.origins.is_empty(), "retention and compaction ignore thawed buckets");
        // The bucket is committed like a merge without inputs, because its events were never in the log of this store.
        let id = SealedBucket::new(row.clone()).id().to_owned();
        let thawed = row.clone();
        let change = CatalogChange::new(CommitEvidence::Live(number), move |shared: &Shared| {
            let mut state = shared.state();
            if !state.sealed.contains(number) {
                state.add_sealed(SealedBucket::new(thawed.clone()));
            }
        });
        turn.commit(change, |catalog| catalog.commit_compaction(&CompactionCommit { bucket: &row, inputs: &[] }))?;
        Ok(id)
    }

    /// Forgets thawed buckets whose objects are both gone; returns their ids.
    fn forget_thawed(&self) -> Result<Vec<String>, StoreError> {
        let mut turn = self.begin_commit()?;
        let thawed: Vec<Arc<SealedBucket>> = self.state().sealed.thawed().cloned().collect();
        let mut gone = Vec::new();
        for bucket in thawed {
            let blobs = self.readers.blobs();
            if !blobs.exists(&bucket.row.object())? && !blobs.exists(&bucket.row.filter())? {
                gone.push(bucket);
            }
        }
        let ids = gone.iter().map(|bucket| bucket.id().to_owned()).collect();
        turn.retire(gone)?;
        Ok(ids)
    }
}

fn thaw_error(folder: &Path, reason: Fault) -> StoreError {
    StoreError::NotThawed { path: folder.to_owned(), reason }
}

/// The bucket's catalog row without location-dependent parts; verifies the whole content.
fn verified_row(index: &str, contents: &[Bytes; 2]) -> Result<BucketRow, Fault> {
    let [object, filter] = contents;
    let reader = BucketReader::open(Arc::new(MemoryObject(object.clone())))?;
    reader.check()?;
    TermFilter::open(filter).map_err(|error| Fault::from(error).with_context("its term filter"))?;
    let page = reader.read_page(0, 0, PageColumns::ALL)?;
    if let Some(other) = page.metas.iter().map(|meta| &*meta.index).find(|other| *other != index) {
        return Err(Fault::invalid(format!("its events belong to index {other}; thaw it with --index {other}")));
    }
    let summary = reader.summary();
    Ok(BucketRow {
        number: 0,
        index: index.to_owned(),
        state: BucketState::Live,
        object: String::new(),
        filter: String::new(),
        slabs: u32::try_from(reader.slabs().len()).map_err(|_| Fault::invalid("it has too many slabs"))?,
        time_min: summary.time_min,
        time_max: summary.time_max,
        events: summary.events,
        raw_bytes: summary.raw_bytes,
        object_bytes: object.len() as u64,
        filter_bytes: filter.len() as u64,
        created: 0,
        level: 0,
        thawed: true,
        remote: None,
        other: None,
        stem: None,
        merged_into: None,
        origins: Vec::new(),
    })
}

/// Names of the two objects in the folder of an archived bucket.
fn object_names(folder: &Path) -> Result<[String; 2], Fault> {
    let entries = fs::read_dir(folder).map_err(|error| Fault::unavailable(error.to_string()))?;
    let names: Vec<PathBuf> = entries.flatten().map(|entry| PathBuf::from(entry.file_name())).collect();
    let [object, filter] = OBJECT_EXTENSIONS.map(|ending| {
        let mut found = names.iter().filter(|name| name.extension() == Some(OsStr::new(ending)));
        match (found.next().and_then(|name| name.to_str()), found.next()) {
            (Some(name), None) => Ok(name.to_owned()),
            (None, _) => Err(Fault::invalid(format!("it has no .{ending} file"))),
            (Some(_), Some(_)) => Err(Fault::invalid(format!("it has several .{ending} files"))),
        }
    });
    Ok([object?, filter?])
}

fn read_object(path: &Path) -> Result<Bytes, Fault> {
    let read = || -> io::Result<Bytes> {
        if fs::metadata(path)?.len() > OBJECT_BYTES_MAX {
            return Err(io::Error::other(format!("has more than {OBJECT_BYTES_MAX} bytes")));
        }
        fs::read(path).map(Bytes::from)
    };
    read().map_err(|error| Fault::io(path.display(), error))
}

/// Subfolders by name; empty if there are none.
fn subfolders(above: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}
