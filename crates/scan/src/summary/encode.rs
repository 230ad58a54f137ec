//! Encoding of a slab's summary: one block per column over all pages, then a directory of blocks and pages.
//!
//! A column of texts has one dictionary for the whole slab. A fold can therefore compare texts of different pages by
//! their addresses in the dictionary. Integers, floats, booleans and timestamps keep their type, because their text
//! form may lose precision. Blocks are compressed; blocks and directory have checksums. The layout is documented in
//! docs/formats/summary.md.
//!
//! Not here: storage; reading ([`super::decode`]).

use arrow::array::{Array, ArrayRef};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_eval::rows::{self, ColumnReader};
use quarry_event::TimeNs;
use quarry_stdx::Fault;
use quarry_stdx::number::low_u8;
use quarry_store::StoredSlab;
use xxhash_rust::xxh3::xxh3_64;

use super::decode::{COLUMNS_MAX, DIRECTORY_BYTES_MAX, PAGES_MAX};

/// First and last bytes of a summary; the digit is the layout version.
pub(super) const MAGIC: &[u8; 8] = b"QRYSUMM2";
/// Bytes of the trailer: offset, length and checksum of the directory, and [`MAGIC`].
pub(super) const TRAILER_BYTES: usize = 8 + 8 + 8 + 8;
/// Compression level. A summary is compressed once, in the background, and read often.
const COMPRESSION_LEVEL: i32 = 3;
/// Maximum uncompressed bytes of one column of a slab.
pub(super) const COLUMN_BYTES_MAX: usize = 512 << 20;

/// Encodings of a column's values on a page.
pub(super) mod kind {
    /// No row has a value.
    pub(in crate::summary) const NULL: u8 = 0;
    /// Codes of texts in the column's dictionary.
    pub(in crate::summary) const CODES: u8 = 1;
    /// Integers.
    pub(in crate::summary) const INT: u8 = 2;
    /// Floating-point numbers.
    pub(in crate::summary) const FLOAT: u8 = 3;
    /// Booleans.
    pub(in crate::summary) const BOOL: u8 = 4;
    /// Timestamps.
    pub(in crate::summary) const TIME: u8 = 5;
    /// Multivalue field: codes of the texts of each row.
    pub(in crate::summary) const MULTI: u8 = 6;
}

/// Identity of a summary (digest and slab), and the pages of the slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryHead {
    /// Digest of everything on which the summary's rows depend.
    pub digest: [u8; 32],
    /// Slab whose events are summarised.
    pub slab: StoredSlab,
    /// Pages of the slab.
    pub pages: Vec<SummaryPage>,
}

/// One page of the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryPage {
    /// Row number of the page's first event within the bucket.
    pub first_row: u64,
    /// Number of events in the page.
    pub events: u32,
    /// Number of events of the page that belong to the object; each has one row.
    pub rows: u32,
    /// Smallest `_time` of the page.
    pub time_min: TimeNs,
    /// Largest `_time` of the page.
    pub time_max: TimeNs,
}

/// Encodes a summary. Each column has a name and one array per page. Fails if something is too large.
pub fn encode(head: &SummaryHead, columns: &[(String, Vec<ArrayRef>)]) -> Result<Vec<u8>, Fault> {
    assert!(head.pages.len() <= PAGES_MAX, "a slab has at most PAGES_MAX pages");
    assert!(head.pages.iter().all(|page| page.rows <= page.events), "rows of a summary are events of its page");
    let in_order = |pair: &[SummaryPage]| pair[0].first_row + u64::from(pair[0].events) <= pair[1].first_row;
    assert!(head.pages.windows(2).all(in_order), "pages of a slab follow each other");
    if columns.len() > COLUMNS_MAX {
        return Err(Fault::invalid(format!("it has {} columns; the limit is {COLUMNS_MAX}", columns.len())));
    }
    let mut bytes = MAGIC.to_vec();
    let mut directory = Vec::new();
    directory.extend_from_slice(&head.digest);
    put_varint(&mut directory, head.slab.bucket);
    put_varint(&mut directory, head.slab.created.cast_unsigned());
    put_varint(&mut directory, u64::from(head.slab.slab));
    put_varint(&mut directory, u64::from(head.slab.level));
    put_varint(&mut directory, head.slab.deleted);
    put_varint(&mut directory, head.pages.len() as u64);
    for page in &head.pages {
        put_varint(&mut directory, page.first_row);
        put_varint(&mut directory, u64::from(page.events));
        put_varint(&mut directory, u64::from(page.rows));
        put_varint(&mut directory, page.time_min.cast_unsigned());
        put_varint(&mut directory, page.time_max.cast_unsigned());
    }
    put_varint(&mut directory, columns.len() as u64);
    for (name, pages) in columns {
        assert_eq!(pages.len(), head.pages.len(), "a column has an array per page");
        let is_whole = pages.iter().zip(&head.pages).all(|(array, page)| array.len() == page.rows as usize);
        assert!(is_whole, "an array has a value per row of its page");
        let raw = encode_column(pages)?;
        if raw.len() > COLUMN_BYTES_MAX {
            return Err(Fault::invalid(format!(
                "field {name} takes {} bytes; the limit is {COLUMN_BYTES_MAX}",
                raw.len()
            )));
        }
        let packed = compress(&raw)?;
        put_text(&mut directory, name);
        put_varint(&mut directory, bytes.len() as u64);
        put_varint(&mut directory, packed.len() as u64);
        put_varint(&mut directory, raw.len() as u64);
        put_varint(&mut directory, xxh3_64(&packed));
        bytes.extend_from_slice(&packed);
    }
    if directory.len() as u64 > DIRECTORY_BYTES_MAX {
        let size = directory.len();
        return Err(Fault::invalid(format!("names of fields take {size} bytes; the limit is {DIRECTORY_BYTES_MAX}")));
    }
    let start = bytes.len() as u64;
    bytes.extend_from_slice(&directory);
    for number in [start, directory.len() as u64, xxh3_64(&directory)] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(MAGIC);
    let end = bytes.len() - TRAILER_BYTES;
    assert_eq!(start + directory.len() as u64, end as u64, "the directory ends where readers expect the trailer");
    Ok(bytes)
}

fn compress(raw: &[u8]) -> Result<Vec<u8>, Fault> {
    zstd::bulk::compress(raw, COMPRESSION_LEVEL)
        .map_err(|error| Fault::unavailable(format!("a column cannot be packed: {error}")))
}

/// Distinct texts of a column; a text's code is its index plus 1.
#[derive(Default)]
struct Texts {
    codes: HashMap<String, u32, FixedState>,
    bytes: Vec<u8>,
}

impl Texts {
    fn code(&mut self, text: &str) -> Result<u32, Fault> {
        if let Some(code) = self.codes.get(text) {
            return Ok(*code);
        }
        let code = u32::try_from(self.codes.len() + 1).map_err(|_| Fault::invalid("a field has too many values"))?;
        self.codes.insert(text.to_owned(), code);
        put_text(&mut self.bytes, text);
        if self.bytes.len() > COLUMN_BYTES_MAX {
            return Err(Fault::invalid(format!("the values of a field take more than {COLUMN_BYTES_MAX} bytes")));
        }
        Ok(code)
    }
}

/// One column over all pages: its dictionary, then its pages.
fn encode_column(pages: &[ArrayRef]) -> Result<Vec<u8>, Fault> {
    let mut texts = Texts::default();
    let mut body = Vec::new();
    for page in pages {
        // Each entry of the scan's own dictionaries is looked up only once.
        write_page(page, &mut texts, &mut body)?;
    }
    assert!(texts.codes.len() <= texts.bytes.len(), "each text has a length and its bytes");
    let mut block = Vec::new();
    put_varint(&mut block, texts.codes.len() as u64);
    put_varint(&mut block, texts.bytes.len() as u64);
    block.extend_from_slice(&texts.bytes);
    block.extend_from_slice(&body);
    Ok(block)
}

fn write_page(array: &ArrayRef, texts: &mut Texts, body: &mut Vec<u8>) -> Result<(), Fault> {
    let reader = ColumnReader::new(array);
    match &reader {
        ColumnReader::Null(_) => body.push(kind::NULL),
        ColumnReader::Int(numbers) => {
            body.push(kind::INT);
            write_integers((0..numbers.len()).map(|row| numbers.is_valid(row).then(|| numbers.value(row))), body);
        }
        ColumnReader::Time(times) => {
            body.push(kind::TIME);
            write_integers((0..times.len()).map(|row| times.is_valid(row).then(|| times.value(row))), body);
        }
        ColumnReader::Float(numbers) => {
            body.push(kind::FLOAT);
            for row in 0..numbers.len() {
                body.push(u8::from(numbers.is_valid(row)));
                if numbers.is_valid(row) {
                    body.extend_from_slice(&numbers.value(row).to_bits().to_le_bytes());
                }
            }
        }
        ColumnReader::Bool(truths) => {
            body.push(kind::BOOL);
            body.extend(
                (0..truths.len()).map(|row| if truths.is_valid(row) { 1 + u8::from(truths.value(row)) } else { 0 }),
            );
        }
        ColumnReader::Multi(..) => {
            body.push(kind::MULTI);
            for row in 0..reader.len() {
                let values: Vec<_> = reader.values(row).collect();
                put_varint(body, values.len() as u64);
                for value in values {
                    put_varint(body, u64::from(texts.code(&value)?));
                }
            }
        }
        ColumnReader::Dictionary(column) => {
            body.push(kind::CODES);
            let mut known: Vec<Option<u32>> = vec![None; column.texts.len()];
            for row in 0..column.codes.len() {
                let code = match column.code(row) {
                    None => 0,
                    Some(own) => match known[own] {
                        Some(code) => code,
                        None => *known[own].insert(texts.code(column.texts.value(own))?),
                    },
                };
                body.extend_from_slice(&code.to_le_bytes());
            }
        }
        ColumnReader::Text(_) | ColumnReader::Address(_) | ColumnReader::Decimal(..) | ColumnReader::Mixed(_) => {
            body.push(kind::CODES);
            let mut scratch = String::new();
            for row in 0..reader.len() {
                let code = reader.text(row, &mut scratch).map_or(Ok(0), |text| texts.code(text))?;
                body.extend_from_slice(&code.to_le_bytes());
            }
        }
    }
    Ok(())
}

/// Writes integers as differences from the previous integer, each preceded by a byte that tells whether the row has a
/// value.
fn write_integers(values: impl Iterator<Item = Option<i64>>, body: &mut Vec<u8>) {
    let mut before = 0_i64;
    for value in values {
        body.push(u8::from(value.is_some()));
        if let Some(value) = value {
            let step = value.wrapping_sub(before);
            put_varint(body, (step.cast_unsigned() << 1) ^ (step >> 63).cast_unsigned());
            before = value;
        }
    }
}

/// Appends a number as a varint, seven bits per byte.
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(low_u8(number) | 0x80);
        number >>= 7;
    }
    bytes.push(low_u8(number));
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Columns of several batches, one list of arrays per name; a batch that lacks a column contributes nulls.
pub fn collect_columns(
    names: &[String],
    batches: &[Option<arrow::record_batch::RecordBatch>],
) -> Vec<(String, Vec<ArrayRef>)> {
    let of_page = |name: &str, rows: &Option<arrow::record_batch::RecordBatch>| match rows {
        Some(rows) => rows::column_or_null(rows, name),
        None => rows::null_column(0),
    };
    let column = |name: &String| (name.clone(), batches.iter().map(|rows| of_page(name, rows)).collect());
    names.iter().map(column).collect()
}
