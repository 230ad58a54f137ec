//! Encoding of whole batches sent between Quarry's forwarders and nodes: columnar, compressed, and not parsed again.
//!
//! An [`EventBatch`] is restored with times, metadata and indexed fields. The forwarder's queue and the connection use
//! the same bytes. The decoder does not trust these bytes: lengths are checked against limits before memory is
//! allocated, and every text must be valid UTF-8.
//!
//! Not here: routing, batch numbers, acknowledgments.

use std::ops::Range;
use std::sync::Arc;

use super::S2sError;
use super::wire::FRAME_BYTES_MAX;
use quarry_event::{EventBatch, IndexedFields, Metadata};
use quarry_stdx::number::{low_u8, u32_of};

/// Format version.
const VERSION: u8 = 1;
/// First byte of an encoded batch whose other bytes are not compressed.
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
/// Compression level: fast, with most of the reduction possible on logs.
const ZSTD_LEVEL: i32 = 1;
/// Minimum size that is compressed; smaller batches do not become smaller.
const COMPRESS_BYTES_MIN: usize = 256;
/// Maximum size of a batch before compression.
pub const PLAIN_BYTES_MAX: usize = 40 << 20;
/// Maximum size of an encoded batch, usually compressed; its packet is slightly larger.
pub const PACKED_BYTES_MAX: usize = FRAME_BYTES_MAX - 64;
/// Maximum capacity of the buffer that a compressor retains.
const RETAINED_BYTES_MAX: usize = 4 << 20;
/// Maximum text of a batch, unless a single event is longer.
pub const PART_RAW_BYTES: usize = 2 << 20;
/// Maximum number of events of a batch.
pub const PART_EVENTS: usize = 65_536;
/// Maximum bytes of a varint.
const VARINT_BYTES_MAX: usize = 10;

/// Encodes and compresses batches, reusing its buffers.
pub struct BatchPacker {
    plain: Vec<u8>,
    packer: Option<zstd::bulk::Compressor<'static>>,
}

impl std::fmt::Debug for BatchPacker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("BatchPacker").field("held", &self.plain.capacity()).finish_non_exhaustive()
    }
}

impl Default for BatchPacker {
    fn default() -> BatchPacker {
        // If no compressor can be created, batches are sent uncompressed.
        BatchPacker { plain: Vec::new(), packer: zstd::bulk::Compressor::new(ZSTD_LEVEL).ok() }
    }
}

impl BatchPacker {
    /// Appends the encoded rows to `out`. Returns false, without appending anything, if they are too large for any
    /// receiver.
    pub fn pack(&mut self, batch: &EventBatch, rows: Range<usize>, out: &mut Vec<u8>) -> bool {
        self.plain.clear();
        write_plain(batch, rows, &mut self.plain);
        let start = out.len();
        if self.plain.len() > PLAIN_BYTES_MAX {
            self.plain = Vec::new();
            return false;
        }
        if self.plain.len() >= COMPRESS_BYTES_MIN
            && let Some(packer) = &mut self.packer
        {
            out.push(ZSTD);
            varint(self.plain.len() as u64, out);
            let head = out.len();
            out.resize(head + zstd::zstd_safe::compress_bound(self.plain.len()), 0);
            if let Ok(count) = packer.compress_to_buffer(&self.plain, &mut out[head..]) {
                out.truncate(head + count);
                return self.fits(start, out);
            }
            out.truncate(start);
        }
        out.push(PLAIN);
        out.extend_from_slice(&self.plain);
        self.fits(start, out)
    }

    fn fits(&mut self, start: usize, out: &mut Vec<u8>) -> bool {
        // Most batches are small.
        self.plain.clear();
        self.plain.shrink_to(RETAINED_BYTES_MAX);
        let fits = out.len() - start <= PACKED_BYTES_MAX;
        if !fits {
            out.truncate(start);
        }
        fits
    }
}

/// Splits a batch into row ranges of at most [`PART_RAW_BYTES`] and [`PART_EVENTS`]; an event is never split.
pub fn split_rows(batch: &EventBatch) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut start_byte) = (0, 0_usize);
    for (row, end) in batch.ends.iter().enumerate() {
        let end = *end as usize;
        if row > start && (end - start_byte > PART_RAW_BYTES || row - start >= PART_EVENTS) {
            parts.push(start..row);
            (start, start_byte) = (row, batch.ends[row - 1] as usize);
        }
    }
    if start < batch.len() {
        parts.push(start..batch.len());
    }
    parts
}

fn write_plain(batch: &EventBatch, rows: Range<usize>, out: &mut Vec<u8>) {
    let first_byte = if rows.start == 0 { 0 } else { batch.ends[rows.start - 1] as usize };
    let last_byte = if rows.is_empty() { first_byte } else { batch.ends[rows.end - 1] as usize };
    out.reserve(last_byte - first_byte + 16 * rows.len() + 256);
    out.push(VERSION);
    signed(batch.index_time, out);
    varint(rows.len() as u64, out);
    varint(batch.metas.len() as u64, out);
    for meta in &batch.metas {
        for text in [&meta.index, &meta.host, &meta.source, &meta.sourcetype] {
            write_text(text.as_bytes(), out);
        }
    }
    write_text(&batch.raw[first_byte..last_byte], out);
    let mut before = first_byte;
    for end in &batch.ends[rows.clone()] {
        varint((*end as usize - before) as u64, out);
        before = *end as usize;
    }
    for run in batch.meta[rows.clone()].chunk_by(|a, b| a == b) {
        varint(u64::from(run[0]), out);
        varint(run.len() as u64, out);
    }
    let mut before = 0;
    for time in &batch.time[rows.clone()] {
        signed(time.wrapping_sub(before), out);
        before = *time;
    }
    write_fields(batch, &rows, out);
}

fn write_fields(batch: &EventBatch, rows: &Range<usize>, out: &mut Vec<u8>) {
    // The codes of these rows, whose table has only their names.
    let mut fields = IndexedFields::default();
    fields.append(batch.fields.of_rows(rows.clone()), rows.start, 0);
    varint(fields.names().len() as u64, out);
    fields.names().iter().for_each(|name| write_text(name.as_bytes(), out));
    varint(fields.len() as u64, out);
    let mut before = 0;
    for field in fields.iter() {
        varint(u64::from(field.row - before), out);
        before = field.row;
        varint(u64::from(field.code), out);
        write_text(field.value.as_bytes(), out);
    }
}

/// Decodes a batch.
pub fn unpack(bytes: &[u8]) -> Result<EventBatch, S2sError> {
    let damaged = S2sError::Malformed("a batch is damaged");
    match bytes.split_first() {
        Some((&PLAIN, plain)) => read_plain(plain).ok_or(damaged),
        Some((&ZSTD, packed)) => {
            let mut reader = Reader { bytes: packed, at: 0 };
            let length = reader.number().ok_or_else(|| damaged.clone())?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > PLAIN_BYTES_MAX {
                return Err(S2sError::TooLong { what: "a batch", bytes: length as u64, limit: PLAIN_BYTES_MAX });
            }
            let plain = zstd::bulk::decompress(&packed[reader.at..], length).map_err(|_| damaged.clone())?;
            read_plain(&plain).ok_or(damaged)
        }
        _ => Err(S2sError::Malformed("a batch has an unknown compression")),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for place in 0..VARINT_BYTES_MAX {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f).checked_shl(7 * u32_of(place))?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    /// Reads a count of items, each of at least one byte; `None` if that many bytes do not follow.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.bytes.len() - self.at).then_some(count)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let text = self.bytes.get(self.at..self.at + length)?;
        self.at += length;
        Some(text)
    }

    fn string(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.text()?).ok()
    }
}

fn read_plain(bytes: &[u8]) -> Option<EventBatch> {
    let mut reader = Reader { bytes, at: 0 };
    if *bytes.first()? != VERSION {
        return None;
    }
    reader.at = 1;
    let mut batch = EventBatch { index_time: reader.signed()?, ..EventBatch::default() };
    let rows = reader.count()?;
    for _ in 0..reader.count()? {
        let [index, host, source, sourcetype] =
            [reader.string()?, reader.string()?, reader.string()?, reader.string()?].map(Arc::from);
        batch.metas.push(Metadata { index, host, source, sourcetype });
    }
    let raw = reader.string()?;
    batch.ends.reserve(rows);
    let mut end = 0_usize;
    for _ in 0..rows {
        end = end.checked_add(usize::try_from(reader.number()?).ok()?)?;
        if !raw.is_char_boundary(end) {
            return None;
        }
        batch.ends.push(u32::try_from(end).ok()?);
    }
    if end != raw.len() {
        return None;
    }
    batch.raw = raw.as_bytes().to_vec();
    batch.meta.reserve(rows);
    while batch.meta.len() < rows {
        let (meta, run) = (reader.number()?, usize::try_from(reader.number()?).ok()?);
        if meta >= batch.metas.len() as u64 || run == 0 || run > rows - batch.meta.len() {
            return None;
        }
        batch.meta.resize(batch.meta.len() + run, u32::try_from(meta).ok()?);
    }
    batch.time.reserve(rows);
    let mut time = 0_i64;
    for _ in 0..rows {
        time = time.wrapping_add(reader.signed()?);
        batch.time.push(time);
    }
    read_fields(&mut reader, rows, &mut batch)?;
    (reader.at == bytes.len()).then_some(batch)
}

fn read_fields(reader: &mut Reader<'_>, rows: usize, batch: &mut EventBatch) -> Option<()> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for _ in 0..reader.count()? {
        names.push(Arc::from(reader.string()?));
    }
    let mut row = 0_u64;
    for _ in 0..reader.count()? {
        row = row.checked_add(reader.number()?)?;
        if row >= rows as u64 {
            return None;
        }
        let name = names.get(usize::try_from(reader.number()?).ok()?)?;
        batch.fields.push(u32::try_from(row).ok()?, name, reader.string()?);
    }
    Some(())
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    varint(text.len() as u64, out);
    out.extend_from_slice(text);
}

fn signed(value: i64, out: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63).cast_unsigned(), out);
}

/// Appends a varint.
pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(low_u8(value) | 0x80);
        value >>= 7;
    }
    out.push(low_u8(value));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quarry_event::{EventBatch, Metadata};

    use super::{BatchPacker, PART_RAW_BYTES, split_rows, unpack};
    use crate::s2s::S2sError;

    fn batch(texts: &[String]) -> EventBatch {
        let mut batch = EventBatch { index_time: -5, ..EventBatch::default() };
        for (row, text) in texts.iter().enumerate() {
            let host = format!("h{}", row % 3);
            let meta = Metadata { index: "i".into(), host: host.into(), source: "s".into(), sourcetype: "t".into() };
            let meta = batch.intern(&meta);
            batch.push(text.as_bytes(), row as i64 * 1_000_000_007 - 9, meta);
            for at in 0..row % 3 {
                batch.fields.push(row as u32, &*format!("n{at}"), text);
            }
        }
        batch
    }

    fn packed(batch: &EventBatch, rows: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(BatchPacker::default().pack(batch, rows, &mut bytes));
        bytes
    }

    #[test]
    fn large_batches_are_split_between_events() {
        let long = "x".repeat(PART_RAW_BYTES / 2 - 5);
        let mut texts = vec![long; 5];
        texts.insert(2, "y".repeat(PART_RAW_BYTES * 2));
        let batch = batch(&texts);
        let parts = split_rows(&batch);
        assert_eq!(parts, [0..2, 2..3, 3..5, 5..6]);
        let back: Vec<EventBatch> = parts.iter().map(|rows| unpack(&packed(&batch, rows.clone())).unwrap()).collect();
        assert_eq!(back.iter().map(EventBatch::len).sum::<usize>(), 6);
        assert_eq!((back[2].raw(1), back[2].time[1]), (batch.raw(4), batch.time[4]));
        assert!(split_rows(&EventBatch::default()).is_empty());
    }

    #[test]
    fn invalid_lengths_are_refused_before_allocation() {
        let huge = [&[1_u8][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], b"abc"].concat();
        assert!(matches!(unpack(&huge), Err(S2sError::TooLong { .. })));
        assert!(unpack(&[0, 1, 0, 0xff, 0xff, 0xff, 0x0f]).is_err());
        assert!(unpack(&[7]).is_err() && unpack(&[]).is_err());
    }

    #[test]
    fn the_longest_event_fits_and_a_longer_one_is_reported() {
        let mut state = 1_u64;
        let mut noise = |bytes: usize| -> String {
            let mut letter = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(33 + (state >> 57) as u8 % 94)
            };
            (0..bytes).map(|_| letter()).collect()
        };
        let longest = noise(quarry_pipeline::EVENT_BYTES_MAX);
        assert!(packed(&batch(std::slice::from_ref(&longest)), 0..1).len() > 12 << 20);
        let mut large = batch(std::slice::from_ref(&longest));
        for _ in 0..2 {
            large.fields.push(0, "n", &longest);
        }
        let mut bytes = vec![7];
        assert!(!BatchPacker::default().pack(&large, 0..1, &mut bytes));
        assert_eq!(bytes, [7]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn packed_batches_round_trip(texts in prop::collection::vec(".{0,40}", 0..60), cut in 0_usize..60) {
            let batch = batch(&texts);
            prop_assert_eq!(&unpack(&packed(&batch, 0..batch.len())).unwrap(), &batch);
            let cut = cut.min(batch.len());
            let tail = unpack(&packed(&batch, cut..batch.len())).unwrap();
            for row in cut..batch.len() {
                prop_assert_eq!(tail.raw(row - cut), batch.raw(row));
                prop_assert_eq!(tail.time[row - cut], batch.time[row]);
                let of = |batch: &EventBatch, row: usize| -> Vec<(String, String)> {
                    let fields = batch.fields.iter().filter(|field| field.row as usize == row);
                    fields.map(|field| (field.name.to_string(), field.value.to_string())).collect()
                };
                prop_assert_eq!(of(&tail, row - cut), of(&batch, row));
            }
        }

        #[test]
        fn damaged_batches_are_refused_or_complete(
            texts in prop::collection::vec(".{0,20}", 0..30),
            changes in prop::collection::vec((0_usize..2_000, any::<u8>()), 1..6),
        ) {
            let batch = batch(&texts);
            let mut plain = vec![0];
            super::write_plain(&batch, 0..batch.len(), &mut plain);
            for (at, byte) in changes {
                let at = at % plain.len();
                plain[at] = byte;
            }
            if let Ok(read) = unpack(&plain) {
                prop_assert!(std::str::from_utf8(&read.raw).is_ok());
                prop_assert_eq!(read.ends.last().map_or(0, |end| *end as usize), read.raw.len());
            }
        }
    }
}
