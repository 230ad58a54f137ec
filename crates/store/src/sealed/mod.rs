//! Sealed buckets: opened when a search needs them, through bounded caches.
//!
//! A search may hold more buckets than files may be open, so that a reader reaches its object through a cache of open
//! files and opens it again when it fell out. That is why the objects of a retired bucket are deleted only when no
//! search holds it any more ([`SealedBucket`] is counted).

mod segment;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use quarry_blob::BlobStore;
use quarry_bucket::{BucketError, BucketReader, ReadAt, ReadError, TermFilter};
use quarry_catalog::BucketRow;
use quarry_event::{Page, TermQuery};

use crate::cache::Cache;
use crate::{PageInfo, StoreError, StoreOptions};

pub(crate) use segment::SealedSegment;

/// A live bucket.
#[derive(Debug)]
pub(crate) struct SealedBucket {
    pub(crate) row: BucketRow,
    pub(crate) id: Arc<str>,
}

impl SealedBucket {
    pub(crate) fn new(row: BucketRow) -> SealedBucket {
        let id = format!("{}~{}", row.index, row.number).into();
        SealedBucket { row, id }
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

/// Everything that is shared between searches of sealed buckets.
#[derive(Debug)]
pub(crate) struct Readers {
    objects: Arc<Objects>,
    open: Cache<u64, Arc<OpenBucket>>,
    filters: Cache<u64, Arc<TermFilter>>,
    pub(crate) pages: Cache<PageKey, Arc<Page>>,
}

struct Objects {
    blobs: Arc<dyn BlobStore>,
    open: Cache<u64, Arc<dyn ReadAt>>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Objects").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

impl Objects {
    fn get(&self, number: u64, name: &str) -> Result<Arc<dyn ReadAt>, ReadError> {
        if let Some(object) = self.open.get(&number) {
            return Ok(object);
        }
        let opened = self.blobs.open(name);
        let object = opened.map_err(|error| ReadError::Failed { offset: 0, len: 0, reason: error.to_string() })?;
        self.open.put(number, object.clone(), 1);
        Ok(object)
    }
}

/// An object whose file is opened when it is read.
struct LazyObject {
    objects: Arc<Objects>,
    number: u64,
    name: String,
    len: u64,
}

impl ReadAt for LazyObject {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        self.objects.get(self.number, &self.name)?.read_at(offset, len)
    }
}

impl Readers {
    pub(crate) fn new(blobs: Arc<dyn BlobStore>, options: &StoreOptions) -> Readers {
        let open = Cache::new(options.open_buckets_max);
        Readers {
            objects: Arc::new(Objects { blobs, open }),
            open: Cache::new(options.open_buckets_max),
            filters: Cache::new(options.filter_cache_bytes),
            pages: Cache::new(options.page_cache_bytes),
        }
    }

    pub(crate) fn blobs(&self) -> &dyn BlobStore {
        &*self.objects.blobs
    }

    /// Opens a bucket or takes it from the cache.
    pub(crate) fn open(&self, bucket: &SealedBucket) -> Result<Arc<OpenBucket>, StoreError> {
        if let Some(open) = self.open.get(&bucket.row.number) {
            return Ok(open);
        }
        let open = Arc::new(self.open_anew(bucket).map_err(|error| damage(&bucket.id, &error))?);
        self.open.put(bucket.row.number, open.clone(), 1);
        Ok(open)
    }

    /// Opens a bucket whatever the cache holds.
    fn open_anew(&self, bucket: &SealedBucket) -> Result<OpenBucket, BucketError> {
        let (number, name) = (bucket.row.number, bucket.row.object.clone());
        let len = self.objects.get(number, &name)?.len();
        let object = LazyObject { objects: self.objects.clone(), number, name, len };
        let reader = BucketReader::open(Arc::new(object))?;
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

    /// Whether the bucket may hold a match, by its term filter.
    pub(crate) fn may_match(&self, bucket: &SealedBucket, query: &TermQuery) -> Result<bool, StoreError> {
        if !asks_for_terms(query) {
            return Ok(true);
        }
        let number = bucket.row.number;
        if let Some(filter) = self.filters.get(&number) {
            return Ok(filter.may_match(query));
        }
        let filter = Arc::new(self.read_filter(bucket).map_err(|error| damage(&bucket.id, &error))?);
        self.filters.put(number, filter.clone(), filter.memory_bytes().max(1));
        Ok(filter.may_match(query))
    }

    fn read_filter(&self, bucket: &SealedBucket) -> Result<TermFilter, BucketError> {
        let opened = self.objects.blobs.open(&bucket.row.filter);
        let object = opened.map_err(|error| ReadError::Failed { offset: 0, len: 0, reason: error.to_string() })?;
        TermFilter::open(&object.read_at(0, object.len() as usize)?)
    }

    /// Reads every byte of both objects of a bucket and holds them against their checksums and the catalog.
    pub(crate) fn check(&self, bucket: &SealedBucket) -> Result<(), String> {
        let number = bucket.row.number;
        self.objects.open.remove_if(|key| *key == number);
        let open = self.open_anew(bucket).map_err(|error| error.to_string())?;
        open.reader.check().map_err(|error| error.to_string())?;
        let (found, listed) = (open.reader.summary(), &bucket.row);
        if (found.events, found.raw_bytes) != (listed.events, listed.raw_bytes) {
            return Err(format!("it holds {} events, the catalog says {}", found.events, listed.events));
        }
        self.read_filter(bucket).map(drop).map_err(|error| error.to_string())
    }

    /// Forgets what the caches hold of a bucket.
    pub(crate) fn forget(&self, number: u64) {
        self.objects.open.remove_if(|key| *key == number);
        self.open.remove_if(|key| *key == number);
        self.filters.remove_if(|key| *key == number);
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
        TermQuery::Piece(_) | TermQuery::Field { .. } | TermQuery::None => true,
        TermQuery::All | TermQuery::Prefix(_) | TermQuery::Meta { .. } => false,
        TermQuery::And(parts) => parts.iter().any(asks_for_terms),
        TermQuery::Or(parts) => parts.iter().all(asks_for_terms),
    }
}
