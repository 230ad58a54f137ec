//! Sealed buckets, opened on demand through bounded caches.
//!
//! A search may hold more buckets than files may be open. A reader therefore accesses its object through a cache of
//! open files, and reopens the object after eviction. For that reason, objects of a retired bucket are deleted only
//! when no search holds the bucket any more ([`SealedBucket`] is reference-counted).

mod fault;
mod live_rows;
mod lookup_prefetch;
mod row;
mod segment;
mod slab_part;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use quarry_blob::{BlobError, BlobStore, SearchReads};
use quarry_bucket::{
    BucketError, BucketReader, RangedFilter, ReadAheadBudget, ReadAt, ReadError, SlabFacts, TermFilter,
};
use quarry_catalog::BucketRow;
use quarry_event::template::PageColumn;
use quarry_event::{MarkSet, Page, TermQuery};
use quarry_stdx::number::usize_of;
use quarry_stdx::{ErrorKind, Fault, HasKind};

use crate::cache::{Cache, ScanCache};
use crate::deletion::{Hold, RowSet};
use crate::remote::copies::{Copies, ObjectKind, OpenObject, Remotes};
use crate::sync::lock;
use crate::{PageInfo, StoreError, StoreOptions};

use self::fault::Faults;
pub(crate) use self::live_rows::RemainingRows;
pub(crate) use self::lookup_prefetch::RecentTokens;
pub(crate) use self::row::{LiveRow, Origins};
pub(crate) use self::segment::SealedSegment;
pub(crate) use self::slab_part::{SlabPart, split_rows};

/// Size in bytes up to which a term filter is read whole, because reading only the cells (fingerprints) of some terms
/// would take as long.
pub(crate) const WHOLE_FILTER_BYTES_MAX: u64 = 256 << 10;
/// After this many lookups, a local filter is read whole if it fits in the cache, so that further lookups need no file.
/// The count restarts when the cache evicts the filter; otherwise, filters that evict each other would be read whole
/// for each term.
const LOOKUPS_BEFORE_WHOLE: u64 = 64;
/// Maximum number of remote buckets that one search opens concurrently: two objects each, which is half of the requests
/// that a node sends to a store at a time.
pub(crate) const CONCURRENT_OPENS_MAX: usize = 32;

/// A live bucket.
#[derive(Debug)]
pub(crate) struct SealedBucket {
    pub(crate) row: LiveRow,
    /// Id of the bucket, created on first use.
    id: OnceLock<Box<str>>,
    pub(crate) origins: Origins,
    /// Rows of the deleted events; `None` if there are none.
    pub(crate) deleted: Option<Arc<RowSet>>,
    /// Reference count shared by all versions of the bucket, created on first use.
    hold: OnceLock<Arc<Hold>>,
    /// The local and remote copies of the objects.
    pub(crate) copies: Arc<Copies>,
}

impl SealedBucket {
    pub(crate) fn new(mut row: BucketRow) -> SealedBucket {
        let origins = Origins::new(row.number, std::mem::take(&mut row.origins));
        let copies = Copies::new(row.remote.take(), row.other.take());
        let row = LiveRow::new(row);
        SealedBucket { row, id: OnceLock::new(), origins, deleted: None, hold: OnceLock::new(), copies }
    }

    /// Id of the bucket.
    pub(crate) fn id(&self) -> &str {
        self.id.get_or_init(|| format!("{}~{}", self.row.index, self.row.number).into())
    }

    /// The reference count shared by the versions of the bucket before and after deletions.
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.hold.get_or_init(|| Arc::new(Hold { bucket: self.row.number, moved: OnceLock::new() }))
    }

    /// A version of the bucket with these rows deleted; they must include all rows deleted before.
    pub(crate) fn with_deleted(&self, deleted: RowSet) -> SealedBucket {
        assert!(deleted.len() >= self.deleted_events(), "deletions are never undone");
        assert!(deleted.len() <= self.row.events, "no more events are deleted than the bucket has");
        SealedBucket {
            row: self.row.clone(),
            id: OnceLock::new(),
            origins: self.origins.clone(),
            deleted: Some(Arc::new(deleted)),
            hold: OnceLock::from(Arc::clone(self.hold())),
            copies: Arc::clone(&self.copies),
        }
    }

    /// Number of deleted events.
    pub(crate) fn deleted_events(&self) -> u64 {
        self.deleted.as_ref().map_or(0, |deleted| deleted.len())
    }

    /// Number of deleted events in a slab with these pages.
    pub(crate) fn deleted_within(&self, pages: &[PageInfo]) -> u64 {
        let (Some(deleted), Some(first), Some(last)) = (&self.deleted, pages.first(), pages.last()) else { return 0 };
        deleted.count_within(first.first_row..last.first_row + u64::from(last.events))
    }

    /// Whether no search holds the bucket, in this or an earlier version.
    pub(crate) fn is_free(bucket: &Arc<SealedBucket>) -> bool {
        Arc::strong_count(bucket) == 1 && !bucket.is_hold_shared()
    }

    /// Whether the bucket's [`Hold`] is shared: with a deletion, with another version of the bucket, or with an input
    /// that was merged into this bucket.
    pub(crate) fn is_hold_shared(&self) -> bool {
        self.hold.get().is_some_and(|hold| Arc::strong_count(hold) > 1)
    }

    /// Number of the sealed bucket from which the first event came.
    pub(crate) fn first_origin(&self) -> u64 {
        self.origins.first().map_or(self.row.number, |origin| origin.number)
    }

    /// Number of the sealed bucket from which event `row` came. For consecutive buckets, between which no other bucket
    /// arrived, this may be the number of the first of them.
    pub(crate) fn origin_of(&self, row: u64) -> u64 {
        let after = self.origins.partition_point(|origin| origin.first_row <= row);
        self.origins[..after].last().map_or(self.row.number, |origin| origin.number)
    }
}

/// An open bucket: its directory and per-slab facts.
pub(crate) struct OpenBucket {
    pub(crate) reader: BucketReader,
    pub(crate) infos: Vec<Vec<PageInfo>>,
    recent_tokens: RecentTokens,
}

impl fmt::Debug for OpenBucket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenBucket").field("slabs", &self.infos.len()).finish_non_exhaustive()
    }
}

/// Bucket number, slab, page.
pub(crate) type PageKey = (u64, u32, u32);

/// Bucket number, slab, page, column.
pub(crate) type ColumnKey = (u64, u32, u32, u32);

/// Number of stores opened in this process.
static INSTANCES: AtomicU64 = AtomicU64::new(0);

/// State shared by all searches of sealed buckets.
#[derive(Debug)]
pub(crate) struct Readers {
    /// Number that distinguishes the stores opened in this process.
    pub(crate) instance: u64,
    objects: Arc<Objects>,
    open: Cache<u64, Arc<OpenBucket>>,
    filters: Cache<u64, Arc<TermFilter>>,
    /// Term filters that are read cell by cell.
    ranged_filters: Cache<u64, Arc<RangedFilter>>,
    pub(crate) faults: Faults,
    pub(crate) pages: Cache<PageKey, Arc<Page>>,
    pub(crate) columns: ScanCache<ColumnKey, Arc<PageColumn>>,
    /// Memory budget of read-ahead in remote buckets.
    pub(crate) read_ahead: ReadAheadBudget,
    /// Number of bucket uses so far.
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
    /// The bucket's object from the cache of open files.
    fn get(&self, row: &LiveRow, copies: &Copies) -> Result<Arc<dyn ReadAt>, ReadError> {
        if let Some(object) = self.open.get(&row.number) {
            return Ok(object);
        }
        let opened = self.open(row, copies, ObjectKind::Object);
        let opened = opened.map_err(|error| error.into_read_error(0, 0))?;
        self.open.put(row.number, opened.object.clone(), 1);
        Ok(opened.object)
    }

    /// Opens an object of a bucket locally, or on its volume if there is no local copy.
    fn open(&self, row: &LiveRow, copies: &Copies, part: ObjectKind) -> Result<OpenObject, BlobError> {
        let local = || self.blobs.open(&part.name(row));
        let Some(copy) = copies.remote().filter(|copy| copy.state.is_remote_complete()) else {
            return local().map(OpenObject::of);
        };
        let remote = || self.remotes.open(row, part, &copy);
        if !copy.state.is_local_complete() {
            return remote();
        }
        match local() {
            // The local file was just evicted, or removed by another program.
            Err(BlobError::NotFound { .. }) => remote(),
            opened => opened.map(OpenObject::of),
        }
    }

    /// Whether the bucket's object is read from a volume that verifies checksums.
    fn verifies_checksums(&self, copies: &Copies) -> bool {
        let far = copies.remote().filter(|copy| !copy.state.is_local_complete());
        far.is_some_and(|copy| self.remotes.volume(&copy.volume).is_ok_and(|volume| volume.verifies_checksums()))
    }
}

/// An object whose file is opened on first read.
struct LazyObject {
    objects: Arc<Objects>,
    /// A copy of the row. A reference to the bucket would keep the bucket's reference count above zero.
    row: LiveRow,
    copies: Arc<Copies>,
    /// The object through which the directory is read while the bucket is opened.
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

    fn is_cached(&self, ranges: &[Range<u64>]) -> bool {
        self.get().is_ok_and(|object| object.is_cached(ranges))
    }

    fn request_count(&self) -> u64 {
        self.get().map_or(0, |object| object.request_count())
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
            columns: ScanCache::new(options.column_cache_bytes),
            read_ahead: ReadAheadBudget::default(),
            uses: AtomicU64::new(0),
        }
    }

    /// Readers of the same objects without caches, whose reads do not evict what searches need.
    pub(crate) fn without_caches(&self) -> Readers {
        Readers {
            instance: self.instance,
            objects: Arc::clone(&self.objects),
            open: Cache::new(0),
            filters: Cache::new(0),
            ranged_filters: Cache::new(0),
            faults: Faults::default(),
            pages: Cache::new(0),
            columns: ScanCache::new(0),
            read_ahead: ReadAheadBudget::default(),
            uses: AtomicU64::new(0),
        }
    }

    pub(crate) fn blobs(&self) -> &dyn BlobStore {
        &*self.objects.blobs
    }

    /// The volumes and their block cache.
    pub(crate) fn remotes(&self) -> &Remotes {
        &self.objects.remotes
    }

    /// Closes the file of a bucket's object, so that its space is freed on deletion.
    pub(crate) fn close_object(&self, number: u64) {
        self.objects.open.remove_if(|key| *key == number);
    }

    /// Closes the object and filter of a bucket that is read at another location from now on.
    pub(crate) fn reopen(&self, number: u64) {
        self.close_object(number);
        self.ranged_filters.remove_if(|key| *key == number);
    }

    /// Closes a bucket that no search reads, so that nothing holds its copies any more.
    pub(crate) fn close(&self, number: u64) {
        self.open.remove_if(|key| *key == number);
        self.reopen(number);
    }

    /// Whether opening a bucket may wait for a volume.
    pub(crate) fn is_opening_far(&self, bucket: &SealedBucket) -> bool {
        !bucket.copies.is_local() && self.open.get(&bucket.row.number).is_none()
    }

    /// Opens remote buckets concurrently, because opening an uncached bucket waits for the network. Returns the buckets
    /// that are out of reach, with the error; the caller need not wait for them again. Other failures are ignored here.
    pub(crate) fn open_concurrently(&self, buckets: &[Arc<SealedBucket>]) -> BTreeMap<u64, StoreError> {
        let far: Vec<&Arc<SealedBucket>> = buckets.iter().filter(|bucket| self.is_opening_far(bucket)).collect();
        if far.len() < 2 {
            return BTreeMap::new();
        }
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let reads = SearchReads::of_current_thread();
        let some = || {
            let _counting = reads.as_ref().map(SearchReads::count_thread_reads);
            while let Some(bucket) = far.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error @ StoreError::Unreadable { .. }) = self.open(bucket) {
                    lock(&failed).insert(bucket.row.number, error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..CONCURRENT_OPENS_MAX.min(far.len()) - 1 {
                // If a thread cannot be started, the other threads do its work.
                drop(std::thread::Builder::new().name("quarry-open".to_owned()).spawn_scoped(scope, some));
            }
            some();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a bucket, or returns it from the cache.
    pub(crate) fn open(&self, bucket: &SealedBucket) -> Result<Arc<OpenBucket>, StoreError> {
        bucket.copies.used.store(self.uses.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        if let Some(open) = self.open.get(&bucket.row.number) {
            return Ok(open);
        }
        let has_ranged_filter = bucket.row.filter_bytes > WHOLE_FILTER_BYTES_MAX && !bucket.copies.is_local();
        let opened = match has_ranged_filter {
            // Both reads wait for the network, so they run in parallel.
            true => std::thread::scope(|scope| {
                let reads = SearchReads::of_current_thread();
                let filter = move || {
                    let _counting = reads.as_ref().map(SearchReads::count_thread_reads);
                    drop(self.ranged_filter(bucket));
                };
                // If the thread cannot be started, the filter is opened on first use.
                drop(std::thread::Builder::new().name("quarry-open".to_owned()).spawn_scoped(scope, filter));
                self.open_uncached(bucket)
            }),
            false => self.open_uncached(bucket),
        };
        let open = Arc::new(opened.map_err(|error| bucket_error(bucket.id(), &error))?);
        // Only the existence of the filter is checked now; its content is read when a search looks up terms.
        if let Err(error) = self.filter_object(bucket) {
            self.faults.note(bucket, &error);
        }
        self.open.put(bucket.row.number, open.clone(), 1);
        Ok(open)
    }

    /// Opens a bucket, bypassing the caches.
    pub(crate) fn open_uncached(&self, bucket: &SealedBucket) -> Result<OpenBucket, BucketError> {
        let opened = self.objects.open(&bucket.row, &bucket.copies, ObjectKind::Object);
        let opened = opened.map_err(|error| error.into_read_error(0, 0))?;
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
        // The open file is cached for later reads.
        self.objects.open.put(bucket.row.number, opened.object, 1);
        let info_of = |page: &quarry_bucket::PageInfo| PageInfo {
            first_row: page.first_row,
            events: page.events,
            time_min: page.time_min,
            time_max: page.time_max,
            raw_bytes: page.raw_bytes,
        };
        let infos = reader.slabs().iter().map(|slab| slab.pages.iter().map(info_of).collect()).collect();
        Ok(OpenBucket { reader, infos, recent_tokens: RecentTokens::default() })
    }

    /// Whether a slab may match, by its term filter; `true` if the filter cannot be read.
    pub(crate) fn may_match(&self, bucket: &SealedBucket, slab: usize, query: &TermQuery, facts: SlabFacts) -> bool {
        let number = bucket.row.number;
        if !has_terms(query, facts.absent_marks) {
            return true;
        }
        if let Some(filter) = self.filters.get(&number) {
            return filter.may_match_slab(slab, query, facts);
        }
        if self.faults.get(number).is_some() {
            return true;
        }
        let is_local = bucket.copies.is_local();
        let ranged = self.ranged_filter(bucket).and_then(|filter| match filter {
            Some(filter) if !is_local || !self.is_whole_due(bucket, filter.lookups()) => {
                // Cells on a volume are fetched only after the term dictionary was consulted (`may_hold`).
                filter.may_match_slab(slab, query, facts, !is_local).map(Some)
            }
            Some(filter) => {
                filter.reset_lookups();
                Ok(None)
            }
            None => Ok(None),
        });
        match ranged {
            Ok(Some(may_match)) => return may_match,
            Ok(None) => {}
            Err(error) => {
                self.faults.note(bucket, &error);
                return true;
            }
        }
        match self.read_filter(bucket) {
            Ok(filter) => {
                let may_match = filter.may_match_slab(slab, query, facts);
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

    /// Whether a filter that is read by block is read whole after this number of lookups.
    fn is_whole_due(&self, bucket: &SealedBucket, lookups: u64) -> bool {
        lookups >= LOOKUPS_BEFORE_WHOLE && bucket.row.filter_bytes <= self.filters.weight_max() as u64
    }

    /// Whether a slab may hold a token, according to single cells of the bucket's term filter; also `true` if the
    /// filter cannot be read, or if [`Readers::may_match`] has already tested the token.
    pub(crate) fn may_hold(&self, bucket: &SealedBucket, slab: usize, token: &[u8]) -> bool {
        if bucket.copies.is_local() || self.faults.get(bucket.row.number).is_some() {
            return true;
        }
        let asked = self.ranged_filter(bucket).and_then(|filter| match filter {
            Some(filter) => filter.may_contain(slab, token),
            None => Ok(true),
        });
        asked.unwrap_or_else(|error| {
            self.faults.note(bucket, &error);
            true
        })
    }

    /// The bucket's term filter for reads of single cells, opened on first use. `None` if the filter must be read whole,
    /// because it is small or because single cells could not be verified.
    fn ranged_filter(&self, bucket: &SealedBucket) -> Result<Option<Arc<RangedFilter>>, BucketError> {
        let number = bucket.row.number;
        if bucket.row.filter_bytes <= WHOLE_FILTER_BYTES_MAX {
            return Ok(None);
        }
        // Only an open filter shows whether it has checksums of its own, which older filters lack. A remote filter is
        // not opened to find out.
        if !bucket.copies.is_local() && !self.objects.verifies_checksums(&bucket.copies) {
            return Ok(None);
        }
        if let Some(filter) = self.ranged_filters.get(&number) {
            return Ok(Some(filter));
        }
        let filter = RangedFilter::open(self.filter_object(bucket)?)?;
        let is_verified =
            |filter: &RangedFilter| filter.verifies_checksums() || self.objects.verifies_checksums(&bucket.copies);
        let filter = filter.filter(is_verified).map(Arc::new);
        if let Some(filter) = &filter {
            self.ranged_filters.put(number, Arc::clone(filter), 1);
        }
        Ok(filter)
    }

    /// The term filter's object, if it exists and has the expected size.
    fn filter_object(&self, bucket: &SealedBucket) -> Result<Arc<dyn ReadAt>, BucketError> {
        let opened = self.objects.open(&bucket.row, &bucket.copies, ObjectKind::Filter);
        let object = opened.map_err(|error| error.into_read_error(0, 0))?.lasting;
        if object.len() != bucket.row.filter_bytes {
            let (found, written) = (object.len(), bucket.row.filter_bytes);
            let reason = format!("{} has {found} bytes, {written} were written", bucket.row.filter());
            return Err(ReadError::Failed { offset: 0, len: 0, kind: ErrorKind::Corrupt, reason }.into());
        }
        Ok(object)
    }

    fn read_filter(&self, bucket: &SealedBucket) -> Result<TermFilter, BucketError> {
        let object = self.filter_object(bucket)?;
        TermFilter::open(&object.read_at(0, usize_of(object.len()))?)
    }

    /// Reads every byte of both objects of a bucket and verifies them against checksums and the catalog.
    pub(crate) fn check(&self, bucket: &SealedBucket) -> Result<(), Fault> {
        let number = bucket.row.number;
        self.objects.open.remove_if(|key| *key == number);
        let open = self.open_uncached(bucket)?;
        open.reader.check()?;
        let (found, listed) = (open.reader.summary(), &bucket.row);
        if (found.events, found.raw_bytes) != (listed.events, listed.raw_bytes) {
            return Err(Fault::corrupt(format!(
                "it has {} events, but the catalog says {}",
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

    /// Drops the cached state of all buckets.
    pub(crate) fn clear(&self) {
        self.objects.open.remove_if(|_| true);
        self.open.remove_if(|_| true);
        self.filters.remove_if(|_| true);
        self.ranged_filters.remove_if(|_| true);
        self.pages.remove_if(|_| true);
        self.columns.remove_if(|_| true);
    }

    /// Drops cached state of a bucket.
    pub(crate) fn forget(&self, number: u64) {
        self.objects.open.remove_if(|key| *key == number);
        self.open.remove_if(|key| *key == number);
        self.filters.remove_if(|key| *key == number);
        self.ranged_filters.remove_if(|key| *key == number);
        self.faults.forget(number);
        self.pages.remove_if(|key| key.0 == number);
        self.columns.remove_if(|key| key.0 == number);
    }
}

/// The error that a bucket is damaged or out of reach.
pub(crate) fn bucket_error(bucket: &str, error: &BucketError) -> StoreError {
    StoreError::of_bucket(bucket, error)
}

/// Whether a filter can exclude a slab for this query, given the marks that the slab lacks.
fn has_terms(query: &TermQuery, absent_marks: MarkSet) -> bool {
    match query {
        TermQuery::Token(_) | TermQuery::Field { .. } | TermQuery::FieldNumber { .. } | TermQuery::None => true,
        TermQuery::All | TermQuery::Prefix(_) | TermQuery::Meta { .. } | TermQuery::IndexTimeFields => false,
        TermQuery::Marked(mark) => absent_marks.contains(*mark),
        TermQuery::Value { tokens, .. } => has_terms(tokens, absent_marks),
        TermQuery::And(parts) => parts.iter().any(|part| has_terms(part, absent_marks)),
        TermQuery::Or(parts) => parts.iter().all(|part| has_terms(part, absent_marks)),
    }
}
