//! Verification: decode and compare, after which the store may delete the WAL.
//!
//! Every column of every event is read back through the ordinary reader and compared with the input. The term
//! dictionaries are decoded completely; an order-independent sum over all terms and pages must equal the sum computed
//! before sorting and encoding. The filter must contain every term, and every token that the term dictionaries omit.
//! The omitted tokens are computed again from the columns and looked up. Stored search-time fields must have the
//! digests of the values that were passed to the encoder, which may have omitted some fields.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::fast::FixedState;
use quarry_event::template::{ColumnValues, PageColumn, StoredValues, TemplatePart, TextParts, Texts};
use quarry_event::{EventBatch, FieldNames, Page, PageColumns};
use quarry_stdx::number::u32_of;

use crate::columns::{TemplatePage, TextBuffer};
use crate::encode::{EncodeOptions, EncodedBucket, SlabSource, encode_slabs};
use crate::error::{BlockPosition, BucketError};
use crate::extraction_digest::{ExtractionDigest, ValuesHasher};
use crate::fields::are_fields_equal;
use crate::filter::TermFilter;
use crate::rare_pages::add_rare_text_tokens;
use crate::read_at::MemoryObject;
use crate::reader::BucketReader;

/// Encodes slabs and proves that they decode to the same events. If this fails although templates are allowed (most
/// likely a bug of the template builder), the bucket is encoded again with plain texts and returned together with the
/// error.
pub fn encode_verified(
    slabs: &[SlabSource<'_>],
    options: &EncodeOptions,
) -> Result<(EncodedBucket, Option<BucketError>), BucketError> {
    let proven = |options: &EncodeOptions| {
        let encoded = encode_slabs(slabs, options)?;
        verify_slabs(&encoded, slabs)?;
        Ok(encoded)
    };
    match proven(options) {
        Err(fault) if options.templates => Ok((proven(&EncodeOptions { templates: false, ..*options })?, Some(fault))),
        outcome => Ok((outcome?, None)),
    }
}

/// Decodes all of `encoded` and compares it with the batches from which [`crate::encode()`] made it.
pub fn verify_against(encoded: &EncodedBucket, slabs: &[EventBatch]) -> Result<(), BucketError> {
    let sources: Vec<SlabSource<'_>> = slabs.iter().map(SlabSource::of).collect();
    verify_slabs(encoded, &sources)
}

/// Like [`verify_against`], for [`crate::encode_slabs`].
pub fn verify_slabs(encoded: &EncodedBucket, slabs: &[SlabSource<'_>]) -> Result<(), BucketError> {
    let mut verifier = BucketVerifier::new(encoded)?;
    slabs.iter().try_for_each(|slab| verifier.verify_next_slab(slab))?;
    verifier.finish()
}

/// Decodes a bucket slab by slab and compares it with its input.
#[derive(Debug)]
pub struct BucketVerifier {
    reader: BucketReader,
    filter: TermFilter,
    next: usize,
}

impl BucketVerifier {
    /// Opens a bucket that was just encoded.
    pub fn new(encoded: &EncodedBucket) -> Result<BucketVerifier, BucketError> {
        let reader = BucketReader::open(Arc::new(MemoryObject(encoded.object.clone())))?;
        let filter = TermFilter::open(&encoded.filter)?;
        if *reader.summary() != encoded.summary {
            return Err(mismatch(BlockPosition::outside_slabs("directory", 0), "the summary"));
        }
        Ok(BucketVerifier { reader, filter, next: 0 })
    }

    /// Compares the next slab: every event, every term.
    pub fn verify_next_slab(&mut self, slab: &SlabSource<'_>) -> Result<(), BucketError> {
        self.verify_next_slab_by_digest(slab, &ExtractionDigest::of(slab))
    }

    /// Like [`BucketVerifier::verify_next_slab`], with the digest of the search-time fields in place of the fields.
    pub fn verify_next_slab_by_digest(
        &mut self,
        slab: &SlabSource<'_>,
        extraction: &ExtractionDigest,
    ) -> Result<(), BucketError> {
        let BucketVerifier { reader, filter, next: number } = self;
        if *number >= reader.slabs().len() {
            return Err(mismatch(BlockPosition::outside_slabs("directory", 0), "the number of slabs"));
        }
        let mut missing = 0;
        let mut look_up = |hashes: &[u64]| missing += filter.count_missing(*number, hashes);
        // Without a locator, the tokens of texts are looked up while the columns are decoded for comparison. With a
        // locator, they are looked up later, when their pages are checked.
        let texts_first = reader.locator(*number)?.is_none();
        verify_slab(reader, *number, slab, if texts_first { Some(&mut look_up) } else { None })?;
        verify_extractions(reader, *number, extraction)?;
        reader.check_dictionaries(*number)?;
        reader.check_term_dictionaries(*number, &mut look_up)?;
        reader.check_locator_covers_rare_tokens(*number, !texts_first, &mut look_up)?;
        if missing > 0 {
            return Err(mismatch(
                BlockPosition::outside_slabs("filter", 0).in_slab(*number),
                format!("{missing} terms are missing"),
            ));
        }
        *number += 1;
        Ok(())
    }

    /// Fails unless every slab was compared.
    pub fn finish(self) -> Result<(), BucketError> {
        match self.next == self.reader.slabs().len() {
            true => Ok(()),
            false => Err(mismatch(BlockPosition::outside_slabs("directory", 0), "the number of slabs")),
        }
    }
}

fn mismatch(place: BlockPosition, what: impl Into<String>) -> BucketError {
    BucketError::Mismatch { place, what: what.into() }
}

/// Receives the hashes of rare tokens of a column.
type VisitHashes<'v> = &'v mut dyn FnMut(&[u64]);

/// Compares every event. If `visit` is given, passes it the hashes of all rare tokens of text columns, with repetitions.
fn verify_slab(
    reader: &BucketReader,
    number: usize,
    slab: &SlabSource<'_>,
    mut visit: Option<VisitHashes<'_>>,
) -> Result<(), BucketError> {
    let pages = reader.slabs()[number].pages.len();
    let columns = reader.columns(number)?.map(|columns| &columns.layout.template_set.columns);
    let plain = columns.is_none();
    let mut hashes = Vec::new();
    let mut show = |number: u32, values: &ColumnValues| {
        let column = columns.and_then(|columns| columns.get(number as usize));
        if let (Some(column), Some(visit)) = (column, &mut visit) {
            add_rare_text_tokens(column, values, &mut hashes);
            visit(&hashes);
            hashes.clear();
        }
    };
    let mut buffer = TextBuffer::default();
    let mut start = 0;
    for at in 0..pages {
        let wanted = PageColumns { raw: plain, fields: FieldNames::NONE, ..PageColumns::ALL };
        let page = reader.read_page(number, at, wanted)?;
        let place = BlockPosition::outside_slabs("page", 0).in_slab(number).in_page(at);
        if start + page.len() > slab.events.len() {
            return Err(mismatch(place, "the number of events"));
        }
        let (mut are_equal, mut compared) = (true, start);
        let mut compare = |raw: &[u8], ends: &[u32]| {
            are_equal &= are_texts_equal((raw, ends), compared, slab);
            compared += ends.len();
        };
        let mut fields = Vec::new();
        if let Some(mut values) = reader.timed_template_page((number, at), &page.time)? {
            // Read first, because columns of the texts may have the values of a field.
            fields = reader.column_fields(number, &mut values, FieldNames::ALL)?;
            // In blocks, so that neither the texts nor their comparison displace the columns from the cache.
            let mut take = |block: &TextBuffer| compare(block.bytes(), block.ends());
            reader.rebuild(&mut values, (number, at), &mut buffer, &mut show, &mut take)?;
        } else {
            compare(&page.raw[..], &page.ends[..]);
        }
        are_equal &= compared == start + page.len();
        let what = if are_equal { first_difference(&page, start, slab) } else { Some("text") };
        if let Some(what) = what {
            return Err(mismatch(place, what));
        }
        let given = slab.events.fields.of_rows(start..start + page.len());
        let by_row = reader.page_fields_by_row(number, at, FieldNames::ALL)?;
        if !are_fields_equal(&by_row, &fields, (start, page.len()), given) {
            return Err(mismatch(place, "indexed fields"));
        }
        start += page.len();
    }
    if start != slab.events.len() {
        return Err(mismatch(BlockPosition::outside_slabs("slab head", 0).in_slab(number), "the number of events"));
    }
    Ok(())
}

/// Compares the search-time fields that a slab stores with the given digests.
fn verify_extractions(reader: &BucketReader, number: usize, given: &ExtractionDigest) -> Result<(), BucketError> {
    let Some(columns) = reader.columns(number)? else { return Ok(()) };
    let set = &columns.layout.template_set;
    let place = BlockPosition::outside_slabs("column layout", 0).in_slab(number);
    if set.extracted_names != given.names {
        return Err(mismatch(place, "the names of search-time fields"));
    }
    let stored = &set.extractions;
    if stored.is_empty() {
        return Ok(());
    }
    let different = |at: usize| mismatch(place, format!("the search-time field {:?}", stored[at].name));
    let mut read: Vec<ValuesHasher> = stored.iter().map(|_| ValuesHasher::default()).collect();
    let mut start = 0;
    for (at, info) in reader.slabs()[number].pages.iter().enumerate() {
        let in_page = BlockPosition::outside_slabs("page", 0).in_slab(number).in_page(at);
        let Some(mut page) = reader.template_page(number, at)? else { return Err(mismatch(in_page, "the columns")) };
        for (field, stored) in stored.iter().enumerate() {
            let (rows, texts) = match &stored.values {
                StoredValues::Absent => continue,
                StoredValues::Column(column) | StoredValues::Lists(column) => {
                    (page.column(*column)?.rows.clone(), page.all_texts(*column)?)
                }
                StoredValues::Parts(parts) => match composed_values(&mut page, parts)? {
                    Some((rows, texts)) => (Some(rows.into()), texts),
                    None => return Err(different(field)),
                },
            };
            match rows {
                Some(rows) => read[field].add(rows.iter().map(|row| row + start), &texts.ends, &texts.bytes),
                None => read[field].add(start..start + info.events, &texts.ends, &texts.bytes),
            }
        }
        start += info.events;
    }
    match stored.iter().zip(&read).position(|(stored, read)| given.values_of(stored) != Some(read.finish())) {
        Some(at) => Err(different(at)),
        None => Ok(()),
    }
}

/// The rows of a page with values that are parts of the texts, and the values; `None` if a part or slice has no value.
fn composed_values(page: &mut TemplatePage, of_codes: &TextParts) -> Result<Option<(Vec<u32>, Texts)>, BucketError> {
    let codes = page.column(of_codes.codes)?;
    let ColumnValues::Codes(codes) = &codes.values else { return Ok(None) };
    let mut columns: HashMap<u32, (Arc<PageColumn>, Texts), FixedState> = HashMap::default();
    let (mut rows, mut bytes, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut composed = Vec::new();
    for (row, code) in (0u32..).zip(codes) {
        let Some(parts) = of_codes.parts.get(*code as usize) else { return Ok(None) };
        let Some(value) = parts else { continue };
        composed.clear();
        for part in value.parts.iter() {
            let column = match part {
                TemplatePart::Literal(literal) => {
                    composed.extend_from_slice(literal);
                    continue;
                }
                TemplatePart::Variable(column) => *column,
            };
            let known = match columns.entry(column) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert((page.column(column)?, page.all_texts(column)?)),
            };
            let Some(at) = known.0.value_index(row).filter(|at| *at < known.1.ends.len()) else { return Ok(None) };
            composed.extend_from_slice(known.1.get(at));
        }
        let Some(value) = value.slice.of(&composed) else { return Ok(None) };
        bytes.extend_from_slice(value);
        rows.push(row);
        ends.push(u32_of(bytes.len()));
    }
    Ok(Some((rows, Texts { bytes: bytes.into(), ends })))
}

/// Whether these texts and their ends equal the texts and ends of the rows of `slab` from `start`.
fn are_texts_equal((raw, ends): (&[u8], &[u32]), start: usize, slab: &SlabSource<'_>) -> bool {
    let events = slab.events;
    let Some(given) = events.ends.get(start..start + ends.len()) else { return false };
    let raw_start = if start == 0 { 0 } else { events.ends[start - 1] };
    let raw_end = given.last().copied().unwrap_or(raw_start);
    raw == &events.raw[raw_start as usize..raw_end as usize]
        && ends.iter().zip(given).all(|(read, given)| read + raw_start == *given)
}

/// The first column of `page`, other than the texts, that differs from the rows of `slab` from `start`.
fn first_difference(page: &Page, start: usize, slab: &SlabSource<'_>) -> Option<&'static str> {
    let events = slab.events;
    let rows = start..start + page.len();
    if page.time != events.time[rows.clone()] {
        return Some("time");
    }
    let same_index_times = match slab.index_times {
        Some(times) => page.index_time == times[rows.clone()],
        None => page.index_time.iter().all(|time| *time == events.index_time),
    };
    if !same_index_times {
        return Some("index time");
    }
    if !are_metas_equal(page, &events.meta[rows.clone()], events) {
        return Some("metadata");
    }
    None
}

/// Compares metadata by their texts, because the codes of batch and slab differ; each pair of codes is compared only
/// once.
fn are_metas_equal(page: &Page, given: &[u32], events: &EventBatch) -> bool {
    let mut code_of: Vec<Option<u32>> = vec![None; events.metas.len()];
    page.meta.iter().zip(given).all(|(read, given)| {
        let known = &mut code_of[*given as usize];
        if known.is_none() && page.metas[*read as usize] == events.metas[*given as usize] {
            *known = Some(*read);
        }
        *known == Some(*read)
    })
}
