//! Reading a slab's summary: the directory first, then only the columns that a search needs.
//!
//! Checksums cover the directory and each column, and the directory names the slab. Any mismatch is a fault, and the
//! events are read instead.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, StringViewArray, StringViewBuilder,
    TimestampNanosecondArray, UInt32Array,
};
use arrow::datatypes::UInt32Type;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_stdx::Fault;
use quarry_store::StoredSlab;
use xxhash_rust::xxh3::xxh3_64;

use super::SummaryFile;
use super::encode::{COLUMN_BYTES_MAX, MAGIC, SummaryHead, SummaryPage, TRAILER_BYTES, kind};

/// Maximum bytes of a directory.
pub(super) const DIRECTORY_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of pages of a slab.
pub(super) const PAGES_MAX: usize = 64;
/// Maximum number of columns of a summary.
pub const COLUMNS_MAX: usize = 2_000;
/// Maximum number of rows of a page.
const PAGE_ROWS_MAX: u64 = 1 << 20;
/// A dictionary with more than one text per two rows is decoded to plain texts, because few rows share a text.
const ROWS_PER_TEXT_MIN: usize = 2;

/// An opened summary.
pub struct OpenSummary {
    /// Digest, slab and pages of the summary.
    pub head: SummaryHead,
    file: Arc<dyn SummaryFile>,
    columns: Vec<Block>,
}

/// Location of a column in the file.
struct Block {
    name: String,
    offset: u64,
    packed_bytes: usize,
    raw_bytes: usize,
    checksum: u64,
}

impl OpenSummary {
    /// Reads the directory.
    pub(crate) fn open(file: Arc<dyn SummaryFile>) -> Result<OpenSummary, Fault> {
        let size = file.bytes();
        let end_at = size.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| Fault::corrupt("it is too short"))?;
        let end = file.read_at(end_at, TRAILER_BYTES)?;
        let number = |at: usize| end.get(at..at + 8).and_then(|part| part.try_into().ok()).map(u64::from_le_bytes);
        let (Some(start), Some(length), Some(checksum)) = (number(0), number(8), number(16)) else {
            return Err(Fault::corrupt("its end is cut off"));
        };
        if end.get(24..) != Some(&MAGIC[..]) {
            return Err(Fault::corrupt("it does not end as a summary"));
        }
        if length > DIRECTORY_BYTES_MAX || start.checked_add(length) != Some(end_at) {
            return Err(Fault::corrupt("its directory is not where it should be"));
        }
        let directory = file.read_at(start, length as usize)?;
        if xxh3_64(&directory) != checksum {
            return Err(Fault::corrupt("its directory does not match its checksum"));
        }
        let (head, columns) =
            read_directory(&directory).ok_or_else(|| Fault::corrupt("its directory cannot be read"))?;
        Ok(OpenSummary { head, file, columns })
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// The column of this name, one array per page; `None` if the summary has no such column.
    pub(crate) fn column(&self, name: &str) -> Result<Option<Vec<ArrayRef>>, Fault> {
        let Some(block) = self.columns.iter().find(|block| block.name == name) else { return Ok(None) };
        let packed = self.file.read_at(block.offset, block.packed_bytes)?;
        if xxh3_64(&packed) != block.checksum {
            return Err(Fault::corrupt(format!("column {name} does not match its checksum")));
        }
        let raw = zstd::bulk::decompress(&packed, block.raw_bytes)
            .map_err(|error| Fault::corrupt(format!("column {name} cannot be unpacked: {error}")))?;
        let pages = &self.head.pages;
        let read = read_block(&raw, pages);
        let read = read.ok_or_else(|| Fault::corrupt(format!("column {name} cannot be read")))?;
        assert_eq!(read.len(), pages.len(), "a column has an array per page, as it was written");
        let is_whole = read.iter().zip(pages).all(|(array, page)| array.len() == page.rows as usize);
        assert!(is_whole, "an array has a value per row of its page, as it was written");
        Ok(Some(read))
    }
}

/// Bytes not read yet.
struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads a count of items, each of which takes at least one byte.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.varint()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

fn read_directory(bytes: &[u8]) -> Option<(SummaryHead, Vec<Block>)> {
    let mut from = Cursor(bytes);
    let digest = from.take(32)?.try_into().ok()?;
    let (bucket, created) = (from.varint()?, from.varint()?.cast_signed());
    let (slab, level) = (from.varint()?.try_into().ok()?, from.varint()?.try_into().ok()?);
    let slab = StoredSlab { bucket, created, slab, level, deleted: from.varint()? };
    let pages = from.count().filter(|pages| *pages <= PAGES_MAX)?;
    let page = |from: &mut Cursor<'_>| {
        let (first_row, events, rows) = (from.varint()?, from.varint()?, from.varint()?);
        let (time_min, time_max) = (from.varint()?.cast_signed(), from.varint()?.cast_signed());
        let is_possible = rows <= events && events <= PAGE_ROWS_MAX;
        let (events, rows) = (u32::try_from(events).ok()?, u32::try_from(rows).ok()?);
        is_possible.then_some(SummaryPage { first_row, events, rows, time_min, time_max })
    };
    let pages = (0..pages).map(|_| page(&mut from)).collect::<Option<Vec<_>>>()?;
    // The first row is any number here, so the sum may overflow.
    let in_order = |pair: &[SummaryPage]| {
        pair[0].first_row.checked_add(u64::from(pair[0].events)).is_some_and(|end| end <= pair[1].first_row)
    };
    let pages = Some(pages).filter(|pages| pages.windows(2).all(in_order))?;
    let columns = from.count().filter(|columns| *columns <= COLUMNS_MAX)?;
    let column = |from: &mut Cursor<'_>| {
        let (name, offset) = (from.text()?.to_owned(), from.varint()?);
        let (packed, raw, checksum) = (from.varint()?, from.varint()?, from.varint()?);
        let within = |bytes: u64| usize::try_from(bytes).ok().filter(|bytes| *bytes <= COLUMN_BYTES_MAX);
        Some(Block { name, offset, packed_bytes: within(packed)?, raw_bytes: within(raw)?, checksum })
    };
    let columns = (0..columns).map(|_| column(&mut from)).collect::<Option<Vec<_>>>()?;
    from.0.is_empty().then_some((SummaryHead { digest, slab, pages }, columns))
}

fn read_block(bytes: &[u8], pages: &[SummaryPage]) -> Option<Vec<ArrayRef>> {
    let mut from = Cursor(bytes);
    let count = from.count()?;
    let length = from.count()?;
    let mut list = Cursor(from.take(length)?);
    let mut texts = StringViewBuilder::with_capacity(count);
    for _ in 0..count {
        texts.append_value(list.text()?);
    }
    let texts = Dictionary::new(texts.finish(), pages.iter().map(|page| page.rows as usize).sum());
    let arrays: Option<Vec<ArrayRef>> =
        pages.iter().map(|page| read_page(&mut from, page.rows as usize, &texts)).collect();
    arrays.filter(|_| from.0.is_empty())
}

/// The texts of a column over the whole slab.
struct Dictionary {
    texts: StringViewArray,
    shared: ArrayRef,
    is_plain: bool,
}

impl Dictionary {
    fn new(texts: StringViewArray, rows: usize) -> Dictionary {
        let is_plain = texts.len().saturating_mul(ROWS_PER_TEXT_MIN) > rows;
        Dictionary { shared: Arc::new(texts.clone()), texts, is_plain }
    }

    /// The text of a stored code; code 0 means no value.
    fn text(&self, code: u64) -> Option<&str> {
        let place = usize::try_from(code.checked_sub(1)?).ok()?;
        (place < self.texts.len()).then(|| self.texts.value(place))
    }
}

fn read_page(from: &mut Cursor<'_>, rows: usize, texts: &Dictionary) -> Option<ArrayRef> {
    Some(match from.byte()? {
        kind::NULL => rows::null_column(rows),
        kind::CODES => read_codes(from.take(rows.checked_mul(4)?)?, texts)?,
        kind::INT => Arc::new(Int64Array::from(read_integers(from, rows)?)),
        kind::TIME => Arc::new(TimestampNanosecondArray::from(read_integers(from, rows)?)),
        kind::FLOAT => {
            let number = |from: &mut Cursor<'_>| match from.byte()? {
                0 => Some(None),
                1 => Some(Some(f64::from_bits(u64::from_le_bytes(from.take(8)?.try_into().ok()?)))),
                _ => None,
            };
            let numbers = (0..rows).map(|_| number(from)).collect::<Option<Vec<Option<f64>>>>()?;
            Arc::new(Float64Array::from(numbers))
        }
        kind::BOOL => {
            let truth = |byte: &u8| match byte {
                0 => Some(None),
                1 | 2 => Some(Some(*byte == 2)),
                _ => None,
            };
            let truths = from.take(rows)?.iter().map(truth).collect::<Option<Vec<Option<bool>>>>()?;
            Arc::new(BooleanArray::from(truths))
        }
        kind::MULTI => {
            let mut column = ColumnBuilder::new(rows);
            for _ in 0..rows {
                let count = from.count()?;
                let values = (0..count).map(|_| from.varint().and_then(|code| texts.text(code)));
                let values = values.collect::<Option<Vec<&str>>>()?;
                column.push_multi(values);
            }
            column.finish()
        }
        _ => return None,
    })
}

fn read_codes(bytes: &[u8], texts: &Dictionary) -> Option<ArrayRef> {
    let mut codes = Vec::with_capacity(bytes.len() / 4);
    let mut has_nulls = false;
    for code in bytes.chunks_exact(4) {
        let code = u32::from_le_bytes(code.try_into().ok()?);
        if code as usize > texts.texts.len() {
            return None;
        }
        has_nulls |= code == 0;
        codes.push(code);
    }
    let nulls = has_nulls.then(|| codes.iter().map(|code| *code > 0).collect::<arrow::buffer::NullBuffer>());
    codes.iter_mut().for_each(|code| *code = code.saturating_sub(1));
    if texts.texts.is_empty() {
        return Some(rows::null_column(codes.len()));
    }
    if texts.is_plain {
        let views = codes.iter().map(|code| texts.texts.views()[*code as usize]).collect();
        let buffers = texts.texts.data_buffers().to_vec();
        return StringViewArray::try_new(views, buffers, nulls).ok().map(|array| Arc::new(array) as ArrayRef);
    }
    let codes = UInt32Array::new(codes.into(), nulls);
    let array = DictionaryArray::<UInt32Type>::try_new(codes, Arc::clone(&texts.shared)).ok()?;
    Some(Arc::new(array))
}

fn read_integers(from: &mut Cursor<'_>, rows: usize) -> Option<Vec<Option<i64>>> {
    let mut before = 0_i64;
    let mut read = || match from.byte()? {
        0 => Some(None),
        1 => {
            let step = from.varint()?;
            before = before.wrapping_add((step >> 1).cast_signed() ^ -((step & 1).cast_signed()));
            Some(Some(before))
        }
        _ => None,
    };
    (0..rows).map(|_| read()).collect()
}
