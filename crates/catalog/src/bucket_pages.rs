//! Reads all buckets of a catalog, or live buckets of an index, in pages of rows: a catalog may have a million buckets.

use std::ops::RangeInclusive;

use crate::bucket::{live_page, page};
use crate::digest::check_bucket_digest;
use crate::transaction::{CatalogTransaction, StepResult};
use crate::{BucketRow, Catalog, CatalogError};

/// Maximum number of buckets of a page.
const PAGE_BUCKETS_MAX: u32 = 4_096;
/// Smaller than every stored number, even a damaged one.
const BEFORE_ALL: u64 = i64::MIN.cast_unsigned();

/// All buckets of a catalog, read page by page; the catalog must not change meanwhile.
#[derive(Debug)]
pub struct BucketPages<'a> {
    catalog: &'a Catalog,
    /// Maximum number of buckets of a page.
    pub(crate) most: u32,
    /// Number of the last bucket that was read.
    last: u64,
    /// XOR of the checksums of the rows that were read.
    sum: i64,
}

impl Catalog {
    /// Reads all buckets, whatever their state, ascending by number. Verifies them as [`Catalog::check`] does, and thus
    /// completes the verification of a catalog that was opened with [`crate::BucketCheck::WhenRead`].
    pub fn read_buckets(&self) -> BucketPages<'_> {
        BucketPages { catalog: self, most: PAGE_BUCKETS_MAX, last: BEFORE_ALL, sum: 0 }
    }
}

/// Live buckets of an index, read page by page; they must not change meanwhile.
#[derive(Debug)]
pub struct LivePages<'a> {
    catalog: &'a Catalog,
    index: String,
    /// Maximum number of buckets of a page.
    pub(crate) most: u32,
    /// Numbers of the buckets that are still to be read.
    left: RangeInclusive<u64>,
}

impl Catalog {
    /// Reads those live buckets of an index whose numbers are in the range `numbers`, ascending by number. Each row is
    /// verified against its checksum, but a missing row is not detected.
    pub fn read_live(&self, index: &str, numbers: RangeInclusive<u64>) -> LivePages<'_> {
        LivePages { catalog: self, index: index.to_owned(), most: PAGE_BUCKETS_MAX, left: numbers }
    }
}

impl LivePages<'_> {
    /// The next page; `None` at the end.
    pub fn next_page(&mut self) -> Result<Option<Vec<BucketRow>>, CatalogError> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let read = self.catalog.read(|act| live_page(act, &self.index, &self.left, self.most))?;
        let Some(last) = read.last().map(|last| last.number) else { return Ok(None) };
        self.left = last.saturating_add(1)..=*self.left.end();
        Ok(Some(read))
    }
}

impl BucketPages<'_> {
    /// The next page. `None` is the end, and means that no row is missing.
    pub fn next_page(&mut self) -> Result<Option<Vec<BucketRow>>, CatalogError> {
        let read = self.catalog.read(|act| page(act, self.last, self.most))?;
        let Some((last, _)) = read.last() else {
            self.catalog.read(|act| check_bucket_digest(act, self.catalog.version, self.sum))?;
            return Ok(None);
        };
        self.last = last.number;
        self.sum = read.iter().fold(self.sum, |sum, (_, of_row)| sum ^ of_row);
        Ok(Some(read.into_iter().map(|(bucket, _)| bucket).collect()))
    }
}

/// XOR of the checksums of all buckets, each verified against its row.
pub(crate) fn sum_of_buckets(act: &CatalogTransaction<'_>) -> StepResult<i64> {
    let (mut all, mut last) = (0, BEFORE_ALL);
    loop {
        let page = page(act, last, PAGE_BUCKETS_MAX)?;
        all = page.iter().fold(all, |all, (_, sum)| all ^ sum);
        match page.last() {
            Some((bucket, _)) => last = bucket.number,
            None => return Ok(all),
        }
    }
}
