//! Sealed buckets: opened when a search needs them, through bounded caches.
//!
//! A search may hold more buckets than files may be open, so that a reader reaches its object through a cache of open
//! files and opens it again when it fell out. That is why the objects of a retired bucket are deleted only when no
//! search holds it any more ([`SealedBucket`] is counted).

mod cut;
mod fault;
mod live_rows;
mod segment;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use quarry_blob::{BlobError, BlobStore};
use quarry_bucket::{BucketError, BucketReader, RangedFilter, ReadAheadBudget, ReadAt, ReadError, TermFilter};
use quarry_catalog::{BucketRow, Origin};
use quarry_event::{Page, TermQuery};
use quarry_stdx::number::usize_of;
use quarry_stdx::{Fault, HasKind};

use crate::cache::Cache;
use crate::deletion::{Hold, RowSet};
use crate::remote::copies::{Copies, OpenObject, Part, Remotes};
use crate::sync::lock;
use crate::{PageInfo, StoreError, StoreOptions};

pub(crate) use self::cut::{Cut, cuts};
use self::fault::Faults;
pub(crate) use self::live_rows::Live;
pub(crate) use self::segment::SealedSegment;

/// Bytes up to which a term filter on a volume is read whole, as single cells take as long.
const WHOLE_FILTER_BYTES: u64 = 256 << 10;
/// Buckets on volumes that one search opens at once.
const OPENED_AT_ONCE: usize = 16;

/// A live bucket.
#[derive(Debug)]
pub(crate) struct SealedBucket {
    pub(crate) row: BucketRow,
    pub(crate) id: Arc<str>,
    /// Where its events are in the order of arrival: the buckets they were sealed in, by ascending row and number.
    pub(crate) origins: Vec<Origin>,
    /// Its events that are deleted.
    pub(crate) deleted: Option<Arc<RowSet>>,
    /// Shared with what the bucket was before its last events were deleted.
    pub(crate) hold: Arc<Hold>,
    /// Which copies of its objects there are.
    pub(crate) copies: Arc<Copies>,
    /// Number of its last use among those of all buckets.
    pub(crate) used: Arc<AtomicU64>,
}

impl SealedBucket {
    pub(crate) fn new(mut row: BucketRow) -> SealedBucket {
        let id = format!("{}~{}", row.index, row.number).into();
        let mut origins = std::mem::take(&mut row.origins);
        if origins.is_empty() {
            origins.push(Origin { first_row: 0, number: row.number });
        }
        let hold = Arc::new(Hold { bucket: row.number, moved: OnceLock::new() });
        let copies = Copies::new(row.remote.take());
        SealedBucket { row, id, origins, deleted: None, hold, copies, used: Arc::default() }
    }

    /// The bucket with these rows deleted, all that were deleted before among them.
    pub(crate) fn without(&self, deleted: RowSet) -> SealedBucket {
        SealedBucket {
            row: self.row.clone(),
            id: self.id.clone(),
            origins: self.origins.clone(),
            deleted: Some(Arc::new(deleted)),
            hold: Arc::clone(&self.hold),
            copies: Arc::clone(&self.copies),
            used: Arc::clone(&self.used),
        }
    }

    /// Number of events that are deleted.
    pub(crate) fn deleted_events(&self) -> u64 {
        self.deleted.as_ref().map_or(0, |deleted| deleted.len())
    }

    /// Whether no search holds the bucket, nor what it was before some of its events were deleted.
    pub(crate) fn is_free(bucket: &Arc<SealedBucket>) -> bool {
        Arc::strong_count(bucket) == 1 && Arc::strong_count(&bucket.hold) == 1
    }

    /// Number of the bucket its first event was sealed in.
    pub(crate) fn first_origin(&self) -> u64 {
        self.origins.first().map_or(self.row.number, |origin| origin.number)
    }

    /// Number of the bucket event `row` was sealed in, or of an earlier one with nothing between them.
    pub(crate) fn origin_of(&self, row: u64) -> u64 {
        let after = self.origins.partition_point(|origin| origin.first_row <= row);
        self.origins[..after].last().map_or(self.row.number, |origin| origin.number)
    }
}

/// An open bucket: its directory and what the store's trait wants to know of each slab.
pub(crate) struct OpenBucket {
    pub(crate) reader: BucketReader,
    pub(crate) infos: Vec<Vec<PageInfo>>,
}

impl fmt::Debug for OpenBucket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenBucket").field("slabs", &self.infos.len()).finish_non_exhaustive()
    }
}

/// Bucket number, slab, page.
pub(crate) type PageKey = (u64, u32, u32);

/// Stores opened in this process so far.
static INSTANCES: AtomicU64 = AtomicU64::new(0);

/// Everything that is shared between searches of sealed buckets.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Which of the stores opened in this process this is.
    pub(crate) instance: u64,
    objects: Arc<Objects>,
    open: Cache<u64, Arc<OpenBucket>>,
    filters: Cache<u64, Arc<TermFilter>>,
    /// Those of which single cells are read.
    ranged_filters: Cache<u64, Arc<RangedFilter>>,
    pub(crate) faults: Faults,
    pub(crate) pages: Cache<PageKey, Arc<Page>>,
    /// What searches hold of far buckets.
    pub(crate) read_ahead: ReadAheadBudget,
    /// Uses of buckets so far.
    uses: AtomicU64,
}

struct Objects {
    blobs: Arc<dyn BlobStore>,
    remotes: Remotes,
    open: Cache<u64, Arc<dyn ReadAt>>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Objects").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

impl Objects {
    /// The bucket's object, as it is kept open.
    fn get(&self, row: &BucketRow, copies: &Copies) -> Result<Arc<dyn ReadAt>, ReadError> {
        if let Some(object) = self.open.get(&row.number) {
            return Ok(object);
        }
        let opened = self.open(row, copies, Part::Object);
        let opened = opened.map_err(|error| ReadError::Failed { offset: 0, len: 0, reason: error.to_string() })?;
        self.open.put(row.number, opened.object.clone(), 1);
        Ok(opened.object)
    }

    /// Opens an object of a bucket here, or on its volume where the local copy is gone.
    fn open(&self, row: &BucketRow, copies: &Copies, part: Part) -> Result<OpenObject, BlobError> {
        let local = || self.blobs.open(part.name(row));
        let Some(copy) = copies.remote().filter(|copy| copy.state.is_remote_whole()) else {
            return local().map(OpenObject::of);
        };
        let remote = || self.remotes.open(row, part, &copy);
        if !copy.state.is_local_whole() {
            return remote();
        }
        match local() {
            // It went this moment, or somebody took it away.
            Err(BlobError::NotFound { .. }) => remote(),
            opened => opened.map(OpenObject::of),
        }
    }

    /// Whether the object of a bucket that is read is on a volume whose reads are held against checksums.
    fn checks_reads(&self, copies: &Copies) -> bool {
        let far = copies.remote().filter(|copy| !copy.state.is_local_whole());
        far.is_some_and(|copy| self.remotes.volume(&copy.volume).is_ok_and(|volume| volume.checks_reads()))
    }
}

/// An object whose file is opened when it is read.
struct LazyObject {
    objects: Arc<Objects>,
    /// Not the bucket itself, which would never be free.
    row: BucketRow,
    copies: Arc<Copies>,
    /// What its directory is read through while the bucket is opened.
    directory: Mutex<Option<Arc<dyn ReadAt>>>,
    len: u64,
}

impl LazyObject {
    fn get(&self) -> Result<Arc<dyn ReadAt>, ReadError> {
        match &*lock(&self.directory) {
            Some(directory) => Ok(Arc::clone(directory)),
            None => self.objects.get(&self.row, &self.copies),
        }
    }
}

impl ReadAt for LazyObject {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        self.get()?.read_at(offset, len)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
        self.get()?.read_ranges(ranges)
    }

    fn requests(&self) -> u64 {
        self.get().map_or(0, |object| object.requests())
    }
}

impl Readers {
    pub(crate) fn new(blobs: Arc<dyn BlobStore>, remotes: Remotes, options: &StoreOptions) -> Readers {
        let open = Cache::new(options.open_buckets_max);
        Readers {
            instance: INSTANCES.fetch_add(1, Ordering::Relaxed),
            objects: Arc::new(Objects { blobs, remotes, open }),
            open: Cache::new(options.open_buckets_max),
            filters: Cache::new(options.filter_cache_bytes),
            ranged_filters: Cache::new(options.open_buckets_max),
            faults: Faults::default(),
            pages: Cache::new(options.page_cache_bytes),
            read_ahead: ReadAheadBudget::default(),
            uses: AtomicU64::new(0),
        }
    }

    pub(crate) fn blobs(&self) -> &dyn BlobStore {
        &*self.objects.blobs
    }

    /// Volumes and the cache of what was read of them.
    pub(crate) fn remotes(&self) -> &Remotes {
        &self.objects.remotes
    }

    /// Closes the file of a bucket's object, so that its space is free once it is deleted.
    pub(crate) fn close_object(&self, number: u64) {
        self.objects.open.remove_if(|key| *key == number);
    }

    /// Opens buckets that are on volumes beside one another: each waits for a network, where none of it is cached. Those
    /// that fail are tried again, and told of, by whoever wants them.
    pub(crate) fn open_ahead(&self, buckets: &[Arc<SealedBucket>]) {
        let is_far =
            |bucket: &&Arc<SealedBucket>| !bucket.copies.is_local() && self.open.get(&bucket.row.number).is_none();
        let far: Vec<&Arc<SealedBucket>> = buckets.iter().filter(is_far).collect();
        if far.len() < 2 {
            return;
        }
        let next = AtomicUsize::new(0);
        let some = || {
            while let Some(bucket) = far.get(next.fetch_add(1, Ordering::Relaxed)) {
                drop(self.open(bucket));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..OPENED_AT_ONCE.min(far.len()) - 1 {
                // A thread that does not start is not missed.
                drop(std::thread::Builder::new().name("quarry-open".to_owned()).spawn_scoped(scope, some));
            }
            some();
        });
    }

    /// Opens a bucket or takes it from the cache.
    pub(crate) fn open(&self, bucket: &SealedBucket) -> Result<Arc<OpenBucket>, StoreError> {
        bucket.used.store(self.uses.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        if let Some(open) = self.open.get(&bucket.row.number) {
            return Ok(open);
        }
        let opened = match self.is_ranged(bucket) {
            // Both wait for a network.
            true => std::thread::scope(|scope| {
                let filter = || drop(self.ranged_filter(bucket));
                // A thread that does not start is not missed.
                drop(std::thread::Builder::new().name("quarry-open".to_owned()).spawn_scoped(scope, filter));
                self.open_anew(bucket)
            }),
            false => self.open_anew(bucket),
        };
        let open = Arc::new(opened.map_err(|error| damage(&bucket.id, &error))?);
        // Its content is read when a search asks for terms; that it is there costs little to know.
        if let Err(error) = self.filter_object(bucket) {
            self.faults.note(bucket, &error);
        }
        self.open.put(bucket.row.number, open.clone(), 1);
        Ok(open)
    }

    /// Opens a bucket whatever the cache holds.
    pub(crate) fn open_anew(&self, bucket: &SealedBucket) -> Result<OpenBucket, BucketError> {
        let opened = self.objects.open(&bucket.row, &bucket.copies, Part::Object);
        let opened = opened.map_err(|error| ReadError::Failed { offset: 0, len: 0, reason: error.to_string() })?;
        let len = opened.lasting.len();
        let object = Arc::new(LazyObject {
            objects: self.objects.clone(),
            row: bucket.row.clone(),
            copies: Arc::clone(&bucket.copies),
            directory: Mutex::new(Some(opened.lasting)),
            len,
        });
        let reader = BucketReader::open(Arc::clone(&object) as Arc<dyn ReadAt>);
        *lock(&object.directory) = None;
        let reader = reader?;
        // It is opened once for all reads.
        self.objects.open.put(bucket.row.number, opened.object, 1);
        let info_of = |page: &quarry_bucket::PageInfo| PageInfo {
            first_row: page.first_row,
            events: page.events,
            time_min: page.time_min,
            time_max: page.time_max,
            raw_bytes: page.raw_bytes,
        };
        let infos = reader.slabs().iter().map(|slab| slab.pages.iter().map(info_of).collect()).collect();
        Ok(OpenBucket { reader, infos })
    }

    /// Whether a slab of the bucket may hold a match, by its term filter. Without a filter that can be read it may.
    /// `has_fields` tells whether the slab has index-time fields.
    pub(crate) fn may_match(&self, bucket: &SealedBucket, slab: usize, query: &TermQuery, has_fields: bool) -> bool {
        let number = bucket.row.number;
        if !asks_for_terms(query) {
            return true;
        }
        if let Some(filter) = self.filters.get(&number) {
            return filter.may_match_slab(slab, query, has_fields);
        }
        if self.faults.of(number).is_some() {
            return true;
        }
        if self.is_ranged(bucket) {
            let may_match = match self.ranged_filter(bucket) {
                Ok(Some(filter)) => filter.may_match_slab(slab, query, has_fields).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match may_match {
                Ok(Some(may_match)) => return may_match,
                Ok(None) => {}
                Err(error) => {
                    self.faults.note(bucket, &error);
                    return true;
                }
            }
        }
        match self.read_filter(bucket) {
            Ok(filter) => {
                let may_match = filter.may_match_slab(slab, query, has_fields);
                let weight = filter.memory_bytes().max(1);
                self.filters.put(number, Arc::new(filter), weight);
                may_match
            }
            Err(error) => {
                self.faults.note(bucket, &error);
                true
            }
        }
    }

    /// Whether of the bucket's term filter single cells are read: it is on a volume, and large.
    fn is_ranged(&self, bucket: &SealedBucket) -> bool {
        bucket.row.filter_bytes > WHOLE_FILTER_BYTES && self.objects.checks_reads(&bucket.copies)
    }

    /// The bucket's term filter by its cells, opened when it is first asked; `None` where it must be read whole.
    fn ranged_filter(&self, bucket: &SealedBucket) -> Result<Option<Arc<RangedFilter>>, BucketError> {
        let number = bucket.row.number;
        if let Some(filter) = self.ranged_filters.get(&number) {
            return Ok(Some(filter));
        }
        let filter = RangedFilter::open(self.filter_object(bucket)?)?.map(Arc::new);
        if let Some(filter) = &filter {
            self.ranged_filters.put(number, Arc::clone(filter), 1);
        }
        Ok(filter)
    }

    /// The term filter's object, if it is there and as long as it should be.
    fn filter_object(&self, bucket: &SealedBucket) -> Result<Arc<dyn ReadAt>, BucketError> {
        let opened = self.objects.open(&bucket.row, &bucket.copies, Part::Filter);
        let failed = |reason: String| ReadError::Failed { offset: 0, len: 0, reason };
        let object = opened.map_err(|error| failed(error.to_string()))?.lasting;
        if object.len() != bucket.row.filter_bytes {
            let (found, written) = (object.len(), bucket.row.filter_bytes);
            return Err(failed(format!("{} has {found} bytes, {written} were written", bucket.row.filter)).into());
        }
        Ok(object)
    }

    fn read_filter(&self, bucket: &SealedBucket) -> Result<TermFilter, BucketError> {
        let object = self.filter_object(bucket)?;
        TermFilter::open(&object.read_at(0, usize_of(object.len()))?)
    }

    /// Reads every byte of both objects of a bucket and holds them against their checksums and the catalog.
    pub(crate) fn check(&self, bucket: &SealedBucket) -> Result<(), Fault> {
        let number = bucket.row.number;
        self.objects.open.remove_if(|key| *key == number);
        let open = self.open_anew(bucket)?;
        open.reader.check()?;
        let (found, listed) = (open.reader.summary(), &bucket.row);
        if (found.events, found.raw_bytes) != (listed.events, listed.raw_bytes) {
            return Err(Fault::corrupt(format!(
                "it holds {} events, the catalog says {}",
                found.events, listed.events
            )));
        }
        match self.read_filter(bucket) {
            Ok(_) => {
                self.faults.forget(number);
                Ok(())
            }
            Err(error) => Err(Fault::new(error.kind(), fault::describe(&error))),
        }
    }

    /// Forgets what the caches hold of a bucket.
    pub(crate) fn forget(&self, number: u64) {
        self.objects.open.remove_if(|key| *key == number);
        self.open.remove_if(|key| *key == number);
        self.filters.remove_if(|key| *key == number);
        self.ranged_filters.remove_if(|key| *key == number);
        self.faults.forget(number);
        self.pages.remove_if(|key| key.0 == number);
    }
}

/// A failure of one bucket, by its name.
pub(crate) fn damage(bucket: &str, error: &BucketError) -> StoreError {
    StoreError::Corrupt { bucket: bucket.to_owned(), reason: error.to_string() }
}

/// Whether a filter can say anything about the query.
fn asks_for_terms(query: &TermQuery) -> bool {
    match query {
        TermQuery::Token(_) | TermQuery::Field { .. } | TermQuery::None => true,
        TermQuery::All | TermQuery::Prefix(_) | TermQuery::Meta { .. } => false,
        TermQuery::Value { tokens, .. } => asks_for_terms(tokens),
        TermQuery::And(parts) => parts.iter().any(asks_for_terms),
        TermQuery::Or(parts) => parts.iter().all(asks_for_terms),
    }
}
