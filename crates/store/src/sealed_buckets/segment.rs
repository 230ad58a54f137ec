//! A sealed slab, or a part of one, as a segment for searches.

use std::sync::{Arc, OnceLock};

use crate::metadata_terms;
use crate::sealed_buckets::{
    ColumnKey, OpenBucket, PageKey, Readers, RemainingRows, SealedBucket, SlabPart, bucket_error,
};
use crate::{Damage, Deletion, PageInfo, Segment, SlabIdentity, StoreError, StoredSlab, TemplatePage};
use quarry_bucket::{BucketReader, POINT_READ_ROWS_MAX};
use quarry_event::template::{ColumnValues, Dictionary, PageColumn, TemplateSet, TextEnds, Texts};
use quarry_event::{FieldColumns, FieldNames, IndexedFields, Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs};
use quarry_stdx::number::u32_of;

/// Memory of the columns of one event in a cached page, in bytes.
const COLUMN_BYTES_PER_EVENT: usize = 16;

/// One slab of an open bucket.
#[derive(Debug)]
pub(crate) struct SealedSegment {
    pub(crate) bucket: Arc<SealedBucket>,
    pub(crate) open: Arc<OpenBucket>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) slab: usize,
    /// Restriction to some events of the slab; `None` for all.
    pub(crate) cut: Option<SlabPart>,
    /// Remaining events after deletions; `None` if no event of the segment is deleted.
    pub(crate) live: Option<RemainingRows>,
    /// Number of deleted events in the whole slab.
    pub(crate) deleted: u64,
    /// Whether the snapshot already reports the bucket as damaged.
    pub(crate) listed: bool,
    /// Reader of this search with read-ahead, if the bucket is on a volume.
    pub(crate) ahead: OnceLock<BucketReader>,
}

impl SealedSegment {
    /// The slabs of a bucket that have events left.
    pub(crate) fn whole_slabs(
        bucket: &Arc<SealedBucket>,
        open: Arc<OpenBucket>,
        readers: &Arc<Readers>,
    ) -> impl Iterator<Item = SealedSegment> {
        (0..open.infos.len()).filter_map(move |slab| {
            let deleted = bucket.deleted_within(&open.infos[slab]);
            let rows = bucket.deleted.as_ref().filter(|_| deleted > 0);
            let live = rows.and_then(|rows| RemainingRows::new(rows, &open.infos[slab]));
            let (bucket, open, readers) = (Arc::clone(bucket), Arc::clone(&open), Arc::clone(readers));
            let ahead = OnceLock::new();
            let is_left = live.as_ref().is_none_or(|live| !live.filled.is_empty());
            is_left.then(|| SealedSegment {
                bucket,
                open,
                readers,
                slab,
                cut: None,
                live,
                deleted,
                listed: false,
                ahead,
            })
        })
    }

    fn reader(&self) -> &BucketReader {
        self.ahead.get().unwrap_or(&self.open.reader)
    }

    /// Number of the slab's page with which this segment begins.
    fn first_page(&self) -> usize {
        self.cut.as_ref().map_or(0, |cut| cut.first_page)
    }

    fn read(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        self.reader().read_page(self.slab, page, columns).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn read_whole(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        if !columns.raw {
            return self.read(page, columns);
        }
        let text = self.read_text(page)?;
        if !columns.index_time && columns.fields.is_empty() {
            return Ok(Page::clone(&text));
        }
        let rest = self.read(page, PageColumns { raw: false, ..columns })?;
        Ok(Page { raw: text.raw.clone(), ends: text.ends.clone(), ..rest })
    }

    /// A page of this segment, including deleted events.
    fn read_part(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        match &self.cut {
            Some(cut) => Ok(cut.slice_page(self.read_whole(cut.first_page + page, columns)?)),
            None => self.read_whole(page, columns),
        }
    }

    /// Whether a page has deleted events.
    fn is_touched(&self, page: usize) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_touched(page))
    }

    /// Row of the segment's first event within the bucket.
    fn first_row(&self) -> u64 {
        self.pages().first().map_or(0, |page| page.first_row)
    }

    /// The page with its text, from the cache if possible.
    fn read_text(&self, page: usize) -> Result<Arc<Page>, StoreError> {
        let key = (self.bucket.row.number, u32_of(self.slab), u32_of(page));
        if let Some(cached) = self.readers.pages.get(&key) {
            return Ok(cached);
        }
        let read = Arc::new(self.read(page, PageColumns { raw: true, ..PageColumns::NONE })?);
        let weight = read.raw.len() + read.len() * COLUMN_BYTES_PER_EVENT;
        self.readers.pages.put(key, read.clone(), weight.max(1));
        Ok(read)
    }
}

impl Segment for SealedSegment {
    fn bucket(&self) -> &str {
        self.bucket.id()
    }

    fn index(&self) -> &str {
        &self.bucket.row.index
    }

    fn origin(&self) -> u64 {
        self.bucket.origin_of(self.first_row())
    }

    fn identity(&self) -> Option<SlabIdentity> {
        let whole = SlabIdentity {
            store: self.readers.instance,
            bucket: self.bucket.row.number,
            slab: u32::try_from(self.slab).ok()?,
            deleted: self.deleted,
        };
        // A part of a slab has no identity, because its rows depend on the other buckets that the search reads.
        self.cut.is_none().then_some(whole)
    }

    fn stored(&self) -> Option<StoredSlab> {
        let row = &self.bucket.row;
        let slab = u32::try_from(self.slab).ok()?;
        let (bucket, created, level) = (row.number, row.created, row.level);
        Some(StoredSlab { bucket, created, slab, level, deleted: self.deleted })
    }

    fn latest_arrival(&self) -> Option<TimeNs> {
        Some(self.open.reader.summary().index_time_max)
    }

    fn metas(&self) -> Arc<[Metadata]> {
        self.open.reader.slabs()[self.slab].metas.clone()
    }

    fn pages(&self) -> &[PageInfo] {
        match (&self.live, &self.cut) {
            (Some(live), _) => &live.infos,
            (None, Some(cut)) => &cut.infos,
            (None, None) => &self.open.infos[self.slab],
        }
    }

    fn candidate_pages(&self, query: &TermQuery, fields: &dyn FieldColumns) -> Result<PageSet, StoreError> {
        let query = &*metadata_terms::restrict_to_slab(query, &self.open.reader.slabs()[self.slab].metas);
        let facts = self.open.reader.slab_facts(self.slab);
        if !self.readers.may_match(&self.bucket, self.slab, query, facts) {
            return Ok(PageSet::default());
        }
        let may_hold =
            |token: &[u8]| self.readers.may_hold_prefetched(&self.bucket, &self.open.reader, self.slab, token);
        let found = self.open.reader.candidate_pages_with_filter(self.slab, query, fields, &may_hold);
        let found = found.map_err(|error| bucket_error(self.bucket.id(), &error))?;
        let found = match &self.cut {
            Some(cut) => PageSet(found.0 >> cut.first_page & PageSet::first(cut.infos.len()).0),
            None => found,
        };
        Ok(self.live.as_ref().map_or(found, |live| PageSet(found.0 & live.filled.0)))
    }

    fn candidate_rows(
        &self,
        page: usize,
        query: &TermQuery,
        fields: &dyn FieldColumns,
        most: usize,
    ) -> Result<Option<Vec<u32>>, StoreError> {
        // Column values are numbered by the rows of the whole page.
        if self.cut.is_some() || self.is_touched(page) {
            return Ok(None);
        }
        let found = self.reader().candidate_rows(self.slab, page, query, fields, most);
        found.map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn damage(&self) -> Option<Damage> {
        // Only the segment with the bucket's first row reports the fault, so that it is reported once per bucket.
        if self.listed || self.first_row() > 0 { None } else { self.readers.faults.get(self.bucket.row.number) }
    }

    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        let read = self.read_part(page, columns)?;
        Ok(match &self.live {
            Some(live) => live.remove_deleted(page, read),
            None => read,
        })
    }

    fn add_to_deletion(&self, page: usize, rows: &[u32], deletion: &mut Deletion) -> bool {
        let Some(first_row) = self.pages().get(page).map(|info| info.first_row) else { return false };
        match self.live.as_ref().filter(|live| live.is_touched(page)) {
            Some(live) => {
                let left = live.rows_of(page);
                deletion.add(self.bucket.hold(), rows.iter().filter_map(|row| left.get(*row as usize).copied()));
            }
            None => deletion.add(self.bucket.hold(), rows.iter().map(|row| first_row + u64::from(*row))),
        }
        true
    }

    fn page_metas(&self, page: usize) -> Result<Vec<u32>, StoreError> {
        if self.cut.is_some() || self.is_touched(page) {
            let columns = PageColumns::NONE;
            return Ok(self.read_page(page, columns)?.meta);
        }
        self.reader().page_metas(self.slab, page).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn may_hold_fields(&self, page: usize) -> bool {
        self.open.reader.page_has_fields(self.slab, self.first_page() + page)
    }

    fn may_hold_fields_by_row(&self, page: usize) -> bool {
        self.open.reader.page_has_fields_by_row(self.slab, self.first_page() + page)
    }

    fn fields_by_row(&self, page: usize, names: FieldNames) -> Result<IndexedFields, StoreError> {
        if self.cut.is_some() || self.is_touched(page) {
            return Ok(self.read_page(page, PageColumns { fields: names, ..PageColumns::NONE })?.fields);
        }
        let read = self.reader().page_fields_by_row(self.slab, page, names);
        read.map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn template_set(&self) -> Result<Option<Arc<TemplateSet>>, StoreError> {
        // The columns of a page contain the rows of the whole page, so a part of a page is read as text.
        if self.cut.is_some() {
            return Ok(None);
        }
        self.reader().template_set(self.slab).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn dictionary(&self, column: u32) -> Result<Arc<Dictionary>, StoreError> {
        self.reader().dictionary(self.slab, column).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn has_templates(&self, page: usize) -> bool {
        !self.is_touched(page)
    }

    fn is_remote(&self) -> bool {
        !self.bucket.copies.is_local()
    }

    fn request_count(&self) -> u64 {
        self.open.reader.request_count()
    }

    fn prefetch_lookups(&self, slabs: &[usize], query: &TermQuery) {
        self.readers.prefetch_lookups(&self.bucket, &self.open, slabs, query);
    }

    fn prefetch_pages(&self, pages: PageSet, is_certain: bool) {
        if self.is_remote() {
            let pages = PageSet(pages.0 << self.first_page());
            // Repeated calls have no further effect.
            let budget = &self.readers.read_ahead;
            self.ahead.get_or_init(|| self.open.reader.with_read_ahead(self.slab, pages, is_certain, budget));
        }
    }

    fn plan_columns(&self, columns: &[u32]) -> Result<(), StoreError> {
        match self.ahead.get() {
            Some(reader) => {
                reader.plan_columns(self.slab, columns).map_err(|error| bucket_error(self.bucket.id(), &error))
            }
            None => Ok(()),
        }
    }

    fn release_page(&self, page: usize) {
        if let Some(reader) = self.ahead.get() {
            reader.release_page(self.first_page() + page);
        }
    }

    fn template_page(&self, page: usize) -> Result<Option<Box<dyn TemplatePage>>, StoreError> {
        if self.cut.is_some() || self.is_touched(page) {
            return Ok(None);
        }
        let opened = self.reader().template_page(self.slab, page);
        let opened = opened.map_err(|error| bucket_error(self.bucket.id(), &error))?;
        let place = (self.bucket.row.number, u32_of(self.slab), u32_of(page));
        let open = |page| SealedPage { bucket: self.bucket.clone(), readers: self.readers.clone(), place, page };
        Ok(opened.map(|page| Box::new(open(page)) as Box<dyn TemplatePage>))
    }
}

/// An open page of a template slab. Columns that are decoded whole are kept for other searches.
struct SealedPage {
    bucket: Arc<SealedBucket>,
    readers: Arc<Readers>,
    place: PageKey,
    page: quarry_bucket::TemplatePage,
}

impl SealedPage {
    fn key(&self, column: u32) -> ColumnKey {
        let (bucket, slab, page) = self.place;
        (bucket, slab, page, column)
    }

    /// Takes from the cache a column that another search has decoded; `None` if the cache lacks it.
    fn take_cached(&mut self, column: u32) -> Option<Arc<PageColumn>> {
        let known = self.readers.columns.get(&self.key(column))?;
        self.page.adopt_column(column, Arc::clone(&known));
        Some(known)
    }
}

impl TemplatePage for SealedPage {
    fn column(&mut self, column: u32) -> Result<Arc<PageColumn>, StoreError> {
        if !self.page.has_column(column) {
            if let Some(known) = self.take_cached(column) {
                return Ok(known);
            }
            // The rows of a column follow from its parent column, which is decoded once for all its child columns. In
            // a remote bucket, both are fetched in one request instead.
            if let Some(parent) = self.page.parent_of(column).filter(|_| self.bucket.copies.is_local()) {
                self.column(parent)?;
            }
            let read = self.page.column(column).map_err(|error| bucket_error(self.bucket.id(), &error))?;
            self.readers.columns.put(self.key(column), Arc::clone(&read), memory_of(&read));
            return Ok(read);
        }
        self.page.column(column).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn column_of_rows(&mut self, column: u32, rows: &[u32]) -> Result<Arc<PageColumn>, StoreError> {
        if rows.len() > POINT_READ_ROWS_MAX {
            return self.column(column);
        }
        if !self.page.has_column(column)
            && let Some(known) = self.take_cached(column)
        {
            return Ok(known);
        }
        self.page.column_of_rows(column, rows).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn contains_number(&mut self, column: u32, number: i64) -> Result<Option<bool>, StoreError> {
        self.page.contains_number(column, [number, number]).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn text_ends(&mut self, column: u32) -> Result<Option<TextEnds>, StoreError> {
        if self.page.has_column(column) || self.take_cached(column).is_some() {
            return Ok(None);
        }
        // The rows of the column follow from its parent column, which is kept for other columns.
        if let Some(parent) = self.page.parent_of(column).filter(|_| self.bucket.copies.is_local()) {
            self.column(parent)?;
        }
        self.page.text_ends(column).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn prefetch_columns(&mut self, columns: &[u32], rows: usize) -> Result<(), StoreError> {
        // For a few rows, only parts of the columns are read.
        if self.bucket.copies.is_local() || rows <= POINT_READ_ROWS_MAX {
            return Ok(());
        }
        let is_needed = |column: &u32| !self.page.has_column(*column) && self.take_cached(*column).is_none();
        let needed: Vec<u32> = columns.iter().copied().filter(is_needed).collect();
        self.page.prefetch_columns(&needed).map_err(|error| bucket_error(self.bucket.id(), &error))
    }

    fn texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, StoreError> {
        if rows.len() > POINT_READ_ROWS_MAX {
            for part in self.page.column_with_descendants(column) {
                if !self.page.has_column(part) {
                    self.take_cached(part);
                }
            }
        }
        self.page.texts(column, rows).map_err(|error| bucket_error(self.bucket.id(), &error))
    }
}

/// Memory of a decoded column in bytes.
fn memory_of(column: &PageColumn) -> usize {
    let rows = column.rows.as_ref().map_or(0, |rows| size_of_val(&**rows));
    let values = match &column.values {
        ColumnValues::Codes(codes) => size_of_val(codes.as_slice()),
        ColumnValues::Numbers(numbers) => size_of_val(numbers.as_slice()),
        ColumnValues::Texts { bytes, ends } => bytes.len() + size_of_val(ends.as_slice()),
    };
    rows + values + size_of::<PageColumn>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_event::template::{ColumnKind, TEXT_COLUMN};
    use quarry_stdx::number::u32_of;
    use tempfile::tempdir;

    use crate::tests::{all, append, expected, open, segment_texts, small};
    use crate::{SlabIdentity, Store, StoreOptions};

    #[test]
    fn sealed_slabs_are_identified_by_store_bucket_and_number() {
        let (first, second) = (tempdir().unwrap(), tempdir().unwrap());
        let of = |store: &Store| -> Vec<SlabIdentity> {
            all(store).segments.iter().map(|segment| segment.identity().unwrap()).collect()
        };
        let mut known: Vec<SlabIdentity> = Vec::new();
        for dir in [&first, &second, &first] {
            let store = open(&small(dir.path()));
            append(&store, "main", 0, 30);
            store.seal_all().unwrap();
            append(&store, "main", 30, 5);
            assert!(all(&store).segments.iter().any(|segment| segment.identity().is_none()));
            store.seal_all().unwrap();
            let sealed = of(&store);
            assert_eq!(sealed, of(&store));
            store.compact_all().unwrap();
            let compacted = of(&store);
            let newest = sealed.iter().map(|slab| slab.bucket).max().unwrap();
            let kept = |slab: &SlabIdentity| sealed.contains(slab) || slab.bucket > newest;
            assert!(compacted != sealed && compacted.iter().all(kept), "{sealed:?} {compacted:?}");
            assert!(sealed.iter().chain(&compacted).all(|slab| !known.contains(slab)));
            known.extend(sealed.into_iter().chain(compacted));
        }
    }

    #[test]
    fn sealed_slabs_return_their_columns() {
        let dir = tempdir().unwrap();
        let store = open(&small(dir.path()));
        append(&store, "main", 0, 300);
        let hot = all(&store);
        assert!(hot.segments.iter().all(|segment| segment.template_set().unwrap().is_none()));
        store.seal_all().unwrap();
        let mut seen = Vec::new();
        for segment in all(&store).segments {
            let texts = segment_texts(&*segment).unwrap();
            let template_set = segment.template_set().unwrap().expect("the texts are split into columns");
            let mut from = 0;
            for (number, info) in segment.pages().iter().enumerate() {
                let mut page = segment.template_page(number).unwrap().expect("a page of columns");
                let rows: Vec<u32> = (0..info.events).collect();
                let whole = page.texts(TEXT_COLUMN, &rows).unwrap();
                let same = |at: usize| whole.get(at) == texts[from + at].as_bytes();
                assert!((0..rows.len()).all(same));
                from += rows.len();
                for (column, facts) in (0u32..).zip(&template_set.columns) {
                    let read = page.column(column).unwrap();
                    assert!(read.values.len() as u64 <= facts.values);
                    let dictionary = segment.dictionary(column).unwrap();
                    assert_eq!(!dictionary.is_empty(), matches!(facts.kind, ColumnKind::Dictionary { .. }));
                }
                assert!(page.column(template_set.columns.len() as u32).is_err());
            }
            seen.extend(texts);
        }
        assert_eq!(seen, expected("main", 0..300));
    }

    #[test]
    fn columns_are_decoded_once_and_identical_for_all_read_paths() {
        let read = |column_cache_bytes: usize| {
            let dir = tempdir().unwrap();
            let options = StoreOptions { column_cache_bytes, ..small(dir.path()) };
            let store = open(&options);
            append(&store, "main", 0, 300);
            store.seal_all().unwrap();
            let (mut columns, mut texts, mut shared) = (Vec::new(), Vec::new(), 0);
            for segment in all(&store).segments {
                let template_set = segment.template_set().unwrap().unwrap();
                for (number, info) in segment.pages().iter().enumerate() {
                    // Columns are read in reverse order, so that parents follow their children.
                    for column in (0..u32_of(template_set.columns.len())).rev() {
                        let first = segment.template_page(number).unwrap().unwrap().column(column).unwrap();
                        let again = segment.template_page(number).unwrap().unwrap().column(column).unwrap();
                        shared += usize::from(Arc::ptr_eq(&first, &again));
                        assert_eq!(first, again);
                        columns.push(first);
                    }
                    for step in [1, 2, 7] {
                        let rows: Vec<u32> = (0..info.events).step_by(step).collect();
                        let mut page = segment.template_page(number).unwrap().unwrap();
                        texts.push(page.texts(TEXT_COLUMN, &rows).unwrap());
                    }
                }
            }
            (columns, texts, shared)
        };
        let (columns, texts, shared) = read(64 << 20);
        assert_eq!(shared, columns.len());
        assert_eq!(read(0), (columns, texts, 0));
    }
}
