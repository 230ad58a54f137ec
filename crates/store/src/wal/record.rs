//! Encoding of a log record. A record contains a batch of events, the bucket that receives them, and what takes effect
//! with them: the new read position of the input file (its checkpoint) or the identity of the stored part of a sender's
//! request.
//!
//! The body is encoded on the appending thread, so that appending threads share this work. The log thread only fills in
//! the frame (lsn, bucket). The ends of the texts, the times and the metadata codes are copied as whole columns. The
//! text, most of the body, stays in its batch until it is written.

use std::sync::Arc;

use quarry_catalog::{CheckpointKey, FileCheckpoint, SourceIdentity, UnansweredPart};
use quarry_event::{EventBatch, IndexedFields, Metadata};
use quarry_stdx::number::u32_of;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::StoreError;

/// Size of the frame: body length, reserved field, lsn, bucket number, checksum of the body, checksum of the frame.
pub(crate) const FRAME_BYTES: usize = 40;
/// Maximum size of a body in bytes: room for a full batch with its columns and index-time fields. A batch that needs
/// more is refused.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 30;
/// Body flag: a checkpoint follows.
const FLAG_CHECKPOINT: u8 = 1;
/// Body flag: the stored part of a sender's request follows, as run of the store, number of the part, and hash.
const FLAG_SENT: u8 = 2;
/// Body flag: the checkpoint has milestones.
const FLAG_MILESTONES: u8 = 4;
/// Body flag: the index-time fields are stored as columns. Versions 1 and 2 of the log store row, name and value of each
/// field.
const FLAG_FIELD_COLUMNS: u8 = 8;
/// Maximum size of an index-time field in bytes, without its value: number of the name, length of the value.
const FIELD_BYTES_MAX: usize = 8;
/// Maximum size in bytes of what is stored once for the fields of an event: step of the row, number of fields, number of
/// names.
const FIELD_EVENT_BYTES_MAX: usize = 12;

/// A decoded record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) lsn: u64,
    pub(crate) bucket: u64,
    pub(crate) batch: EventBatch,
    pub(crate) checkpoint: Option<FileCheckpoint>,
    /// Identification of the part of a sender's request that the batch came from, if any.
    pub(crate) sent: Option<UnansweredPart>,
}

/// An encoded record without the text of its batch.
#[derive(Debug)]
pub(crate) struct EncodedRecord {
    /// Frame, counts, metadata and the columns of the events.
    front: Vec<u8>,
    raw_bytes: usize,
    /// Index-time fields, checkpoint and part of a request.
    back: Vec<u8>,
}

impl EncodedRecord {
    /// Encodes a record. Of its frame, only the checksum of the body is filled in. The memory of `spare` is reused if it
    /// suffices.
    pub(crate) fn new(
        batch: &EventBatch,
        checkpoint: Option<&FileCheckpoint>,
        sent: Option<&UnansweredPart>,
        spare: Vec<u8>,
    ) -> Result<EncodedRecord, StoreError> {
        let (front_bytes, back_bytes_max) = (front_bytes(batch), back_bytes_max(batch, checkpoint, sent));
        let body_bytes = front_bytes + batch.raw.len() + back_bytes_max;
        if body_bytes > BODY_BYTES_MAX {
            let (value, limit) = (body_bytes as u64, BODY_BYTES_MAX as u64);
            return Err(StoreError::TooLarge { what: "bytes with all fields", value, limit });
        }
        let mut front = Vec::with_capacity(FRAME_BYTES + front_bytes);
        front.resize(FRAME_BYTES, 0);
        let flags = flags_of(batch, checkpoint, sent);
        encode_front(batch, flags, &mut front);
        let mut back = match spare.capacity() >= back_bytes_max {
            true => spare,
            false => Vec::with_capacity(back_bytes_max),
        };
        back.clear();
        encode_back(batch, checkpoint, sent, &mut back);
        assert_eq!(front.len(), FRAME_BYTES + front_bytes, "the front has the computed size");
        assert!(back.len() <= back_bytes_max, "fields, checkpoint and part have at most the computed size");
        let mut checksum = Xxh3::new();
        [&front[FRAME_BYTES..], &batch.raw, &back].iter().for_each(|part| checksum.update(part));
        front[24..32].copy_from_slice(&checksum.digest().to_le_bytes());
        Ok(EncodedRecord { front, raw_bytes: batch.raw.len(), back })
    }

    /// The memory of the record, for reuse.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.back
    }

    /// Size of the whole record in bytes.
    pub(crate) fn len(&self) -> usize {
        self.front.len() + self.raw_bytes + self.back.len()
    }

    pub(crate) fn fill_frame(&mut self, lsn: u64, bucket: u64) {
        let body_bytes = u32_of(self.len() - FRAME_BYTES);
        self.front[..4].copy_from_slice(&body_bytes.to_le_bytes());
        self.front[8..16].copy_from_slice(&lsn.to_le_bytes());
        self.front[16..24].copy_from_slice(&bucket.to_le_bytes());
        let checksum = xxh3_64(&self.front[..32]);
        self.front[32..FRAME_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The record's bytes in order; `batch` must be the batch from which the record was encoded.
    pub(crate) fn parts<'a>(&'a self, batch: &'a EventBatch) -> [&'a [u8]; 3] {
        [&self.front, &batch.raw, &self.back]
    }
}

/// Decodes the record at the start of `bytes`; returns it with its length, or `None` if it is torn or damaged. The
/// events of a record satisfy the invariants of [`EventBatch`], whoever wrote the record.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let frame = bytes.get(..FRAME_BYTES)?;
    let mut cursor = Cursor(frame);
    let body_bytes = cursor.u32()? as usize;
    // These fields are checked first, because that is cheap and rejects most positions when a damaged log is searched
    // for records.
    if cursor.u32()? != 0 || body_bytes > bytes.len() - FRAME_BYTES {
        return None;
    }
    let (lsn, bucket, body_checksum, checksum) = (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
    if xxh3_64(&frame[..32]) != checksum {
        return None;
    }
    let body = bytes.get(FRAME_BYTES..)?.get(..body_bytes)?;
    if xxh3_64(body) != body_checksum {
        return None;
    }
    let (batch, checkpoint, sent) = decode_body(&mut Cursor(body))?;
    batch.check().ok()?;
    Some((Record { lsn, bucket, batch, checkpoint, sent }, FRAME_BYTES + body_bytes))
}

/// Length of the record at the start of `bytes`, read from its frame; the body may be damaged or truncated. `None` if
/// the frame is not intact.
pub(crate) fn framed_record_len(bytes: &[u8]) -> Option<usize> {
    let frame = bytes.get(..FRAME_BYTES)?;
    let checksum = u64::from_le_bytes(*frame[32..].first_chunk()?);
    let body_bytes = u32::from_le_bytes(*frame.first_chunk()?);
    (xxh3_64(&frame[..32]) == checksum).then_some(FRAME_BYTES + body_bytes as usize)
}

fn flags_of(batch: &EventBatch, checkpoint: Option<&FileCheckpoint>, sent: Option<&UnansweredPart>) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(!batch.fields.is_empty(), FLAG_FIELD_COLUMNS)
        | flag(checkpoint.is_some(), FLAG_CHECKPOINT)
        | flag(sent.is_some(), FLAG_SENT)
        | flag(checkpoint.is_some_and(|checkpoint| !checkpoint.milestones.is_empty()), FLAG_MILESTONES)
}

fn text_bytes(text: &str) -> usize {
    4 + text.len()
}

fn front_bytes(batch: &EventBatch) -> usize {
    let metas = |meta: &Metadata| text_bytes(&meta.host) + text_bytes(&meta.source) + text_bytes(&meta.sourcetype);
    let index = text_bytes(batch.metas.first().map_or("", |meta| &meta.index));
    8 + 4 * 4 + 1 + index + batch.metas.iter().map(metas).sum::<usize>() + batch.len() * 16
}

fn encode_front(batch: &EventBatch, flags: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&batch.index_time.to_le_bytes());
    for count in [batch.len(), batch.raw.len(), batch.metas.len(), batch.fields.len()] {
        out.extend_from_slice(&u32_of(count).to_le_bytes());
    }
    out.push(flags);
    put_text(batch.metas.first().map_or("", |meta| &meta.index), out);
    for meta in &batch.metas {
        put_text(&meta.host, out);
        put_text(&meta.source, out);
        put_text(&meta.sourcetype, out);
    }
    put_column(&batch.ends, |end| end.to_le_bytes(), out);
    put_column(&batch.time, |time| time.to_le_bytes(), out);
    put_column(&batch.meta, |meta| meta.to_le_bytes(), out);
}

/// Maximum size of the part after the text.
fn back_bytes_max(batch: &EventBatch, checkpoint: Option<&FileCheckpoint>, sent: Option<&UnansweredPart>) -> usize {
    let milestones = |milestones: &[u32]| if milestones.is_empty() { 0 } else { 4 + 4 * milestones.len() };
    let checkpoint = checkpoint.map_or(0, |checkpoint| {
        16 + 4 + 4 + 8 + 8 + text_bytes(&checkpoint.source) + milestones(&checkpoint.milestones)
    });
    field_bytes_max(&batch.fields) + checkpoint + sent.map_or(0, |_| 8 + 8 + 16)
}

fn field_bytes_max(fields: &IndexedFields) -> usize {
    let names: usize = fields.names().iter().map(|name| text_bytes(name)).sum();
    let columns = fields.event_count() * FIELD_EVENT_BYTES_MAX + fields.len() * FIELD_BYTES_MAX;
    4 + names + 4 + 5 + columns + fields.value_bytes()
}

fn encode_back(
    batch: &EventBatch,
    checkpoint: Option<&FileCheckpoint>,
    sent: Option<&UnansweredPart>,
    out: &mut Vec<u8>,
) {
    put_fields(&batch.fields, out);
    if let Some(checkpoint) = checkpoint {
        put_checkpoint(checkpoint, out);
    }
    if let Some(sent) = sent {
        out.extend_from_slice(&sent.run.to_le_bytes());
        out.extend_from_slice(&sent.number.to_le_bytes());
        out.extend_from_slice(&sent.key.to_le_bytes());
    }
}

/// Appends index-time fields as columns: the names; for each event with fields the step from the row of the event before
/// it, the number of its fields, and the number of their names, which is 0 if the event before it has the same names
/// first; these names, by number; the length of each value; then the values.
fn put_fields(fields: &IndexedFields, out: &mut Vec<u8>) {
    if fields.is_empty() {
        return;
    }
    for count in [fields.event_count(), fields.names().len()] {
        out.extend_from_slice(&u32_of(count).to_le_bytes());
    }
    fields.names().iter().for_each(|name| put_text(name, out));
    let mut columns = FieldNumbers::default();
    let (mut row, mut known): (u32, &[u32]) = (0, &[]);
    for event in fields.all().events() {
        columns.steps.push(event.row.wrapping_sub(std::mem::replace(&mut row, event.row)));
        columns.counts.push(u32_of(event.codes.len()));
        // Consecutive events with the same names usually share their memory.
        let are_known = std::ptr::eq(known, event.codes) || known.starts_with(event.codes);
        columns.own_names.push(if are_known { 0 } else { u32_of(event.codes.len()) });
        if !are_known {
            columns.codes.extend_from_slice(event.codes);
        }
        known = event.codes;
    }
    let FieldNumbers { steps, counts, own_names, codes } = &columns;
    [steps, counts, own_names, codes].into_iter().for_each(|column| put_narrow(column.iter().copied(), out));
    put_narrow(fields.all().value_lens().iter().copied(), out);
    out.extend_from_slice(fields.all().value_text().as_bytes());
}

/// Columns of index-time fields: three with a number for each event, and the names of events whose names differ from
/// those of the event before.
#[derive(Default)]
struct FieldNumbers {
    steps: Vec<u32>,
    counts: Vec<u32>,
    own_names: Vec<u32>,
    codes: Vec<u32>,
}

/// Appends numbers with 1, 2 or 4 bytes each, as many as the largest one needs, after that size.
fn put_narrow(values: impl Iterator<Item = u32> + Clone, out: &mut Vec<u8>) {
    // This has as many bits as the largest number, and costs less.
    match values.clone().fold(0, |bits, value| bits | value) {
        ..=0xFF => {
            out.push(1);
            out.extend(values.map(|value| value.to_le_bytes()[0]));
        }
        0x100..=0xFFFF => {
            out.push(2);
            values.for_each(|value| out.extend_from_slice(&value.to_le_bytes()[..2]));
        }
        _ => {
            out.push(4);
            values.for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        }
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32_of(text.len()).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_column<T: Copy, const N: usize>(values: &[T], bytes_of: impl Fn(T) -> [u8; N], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    for (slot, value) in out[start..].chunks_exact_mut(N).zip(values) {
        slot.copy_from_slice(&bytes_of(*value));
    }
}

fn put_checkpoint(checkpoint: &FileCheckpoint, out: &mut Vec<u8>) {
    out.extend_from_slice(&checkpoint.key.identity.0);
    out.extend_from_slice(&checkpoint.key.variant.to_le_bytes());
    out.extend_from_slice(&checkpoint.head_bytes.to_le_bytes());
    out.extend_from_slice(&checkpoint.offset.to_le_bytes());
    out.extend_from_slice(&checkpoint.tail_hash.to_le_bytes());
    put_text(&checkpoint.source, out);
    if !checkpoint.milestones.is_empty() {
        out.extend_from_slice(&u32_of(checkpoint.milestones.len()).to_le_bytes());
        put_column(&checkpoint.milestones, |hash| hash.to_le_bytes(), out);
    }
}

fn decode_body(cursor: &mut Cursor<'_>) -> Option<(EventBatch, Option<FileCheckpoint>, Option<UnansweredPart>)> {
    let index_time = cursor.u64()?.cast_signed();
    let (events, raw_bytes) = (cursor.u32()? as usize, cursor.u32()? as usize);
    let (metas, fields) = (cursor.u32()?, cursor.u32()?);
    let flags = cursor.take(1)?[0];
    let index = cursor.text()?;
    let mut batch = EventBatch { index_time, ..EventBatch::default() };
    for _ in 0..metas {
        let (host, source, sourcetype) = (cursor.text()?, cursor.text()?, cursor.text()?);
        batch.metas.push(Metadata { index: index.clone(), host, source, sourcetype });
    }
    batch.ends = cursor.column(events, u32::from_le_bytes)?;
    batch.time = cursor.column(events, i64::from_le_bytes)?;
    batch.meta = cursor.column(events, u32::from_le_bytes)?;
    batch.raw = cursor.take(raw_bytes)?.to_vec();
    if flags & FLAG_FIELD_COLUMNS == 0 {
        for _ in 0..fields {
            let (row, name, value) = (cursor.u32()?, cursor.str()?, cursor.str()?);
            batch.fields.push(row, name, value);
        }
    } else {
        decode_field_columns(cursor, fields as usize, &mut batch.fields)?;
    }
    let checkpoint = if flags & FLAG_CHECKPOINT == 0 { None } else { Some(decode_checkpoint(cursor, flags)?) };
    let sent = if flags & FLAG_SENT == 0 { None } else { Some(decode_sent(cursor, index_time)?) };
    cursor.0.is_empty().then_some((batch, checkpoint, sent))
}

fn decode_field_columns(cursor: &mut Cursor<'_>, count: usize, fields: &mut IndexedFields) -> Option<()> {
    let events = cursor.u32()? as usize;
    let names: Vec<Arc<str>> = (0..cursor.u32()?).map(|_| cursor.text()).collect::<Option<_>>()?;
    let (steps, counts, own_names) = (cursor.narrow(events)?, cursor.narrow(events)?, cursor.narrow(events)?);
    let codes = cursor.narrow(own_names.iter().map(|own| *own as usize).sum())?;
    let lens = cursor.narrow(count)?;
    let (mut row, mut left, mut known, mut lens) = (0_u32, &codes[..], &codes[..0], lens.iter());
    for ((step, count), own) in steps.into_iter().zip(counts).zip(own_names) {
        row = row.wrapping_add(step);
        if own > 0 {
            (known, left) = left.split_at_checked(own as usize)?;
        }
        known = known.get(..count as usize)?;
        for (code, len) in known.iter().zip(&mut lens) {
            let value = std::str::from_utf8(cursor.take(*len as usize)?).ok()?;
            fields.push(row, names.get(*code as usize)?, value);
        }
    }
    (fields.len() == count).then_some(())
}

fn decode_sent(cursor: &mut Cursor<'_>, time: i64) -> Option<UnansweredPart> {
    let (run, number) = (cursor.u64()?, cursor.u64()?);
    Some(UnansweredPart { run, number, key: u128::from_le_bytes(*cursor.take(16)?.first_chunk()?), time })
}

fn decode_checkpoint(cursor: &mut Cursor<'_>, flags: u8) -> Option<FileCheckpoint> {
    let identity = SourceIdentity(*cursor.take(16)?.first_chunk()?);
    let key = CheckpointKey { identity, variant: cursor.u32()? };
    let head_bytes = cursor.u32()?;
    let (offset, tail_hash) = (cursor.u64()?, cursor.u64()?);
    let source = cursor.str()?.to_owned();
    let count = if flags & FLAG_MILESTONES == 0 { 0 } else { cursor.u32()? as usize };
    let milestones = cursor.column(count, u32::from_le_bytes)?;
    Some(FileCheckpoint { key, head_bytes, offset, tail_hash, source, milestones })
}

/// The bytes that remain to be read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    fn str(&mut self) -> Option<&'a str> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).ok()
    }

    fn text(&mut self) -> Option<Arc<str>> {
        self.str().map(Arc::from)
    }

    /// Numbers that [`put_narrow`] has written.
    fn narrow(&mut self, values: usize) -> Option<Vec<u32>> {
        match self.take(1)?[0] {
            1 => self.column(values, |bytes: [u8; 1]| u32::from(bytes[0])),
            2 => self.column(values, |bytes| u32::from(u16::from_le_bytes(bytes))),
            4 => self.column(values, u32::from_le_bytes),
            _ => None,
        }
    }

    fn column<T, const N: usize>(&mut self, values: usize, value_of: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        let bytes = self.take(values.checked_mul(N)?)?;
        let (chunks, _) = bytes.as_chunks::<N>();
        Some(chunks.iter().map(|chunk| value_of(*chunk)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::{batch, checkpoint};

    const SENT: UnansweredPart = UnansweredPart { run: 4, number: 5, key: u128::MAX - 6, time: 5 };

    fn encoded(batch: &EventBatch, checkpoint: &FileCheckpoint, lsn: u64, bucket: u64) -> Vec<u8> {
        let mut record = EncodedRecord::new(batch, Some(checkpoint), Some(&SENT), Vec::new()).unwrap();
        record.fill_frame(lsn, bucket);
        let bytes = record.parts(batch).concat();
        assert_eq!(bytes.len(), record.len());
        bytes
    }

    #[test]
    fn records_round_trip_and_damage_is_detected() {
        let mut events = batch("main", 7, 3);
        events.fields.push(1, "user", "ann");
        let checkpoint = checkpoint("a.log", 70);
        let bytes = encoded(&events, &checkpoint, 12, 3);
        let (record, len) = decode(&bytes).unwrap();
        assert_eq!(len, bytes.len());
        let expected = Record { lsn: 12, bucket: 3, batch: events, checkpoint: Some(checkpoint), sent: Some(SENT) };
        assert_eq!(record, expected);
        for at in (0..bytes.len()).filter(|at| !(4..8).contains(at)) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {at}");
            assert!(decode(&bytes[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn field_columns_of_every_width_round_trip_in_reused_memory() {
        // The largest step between rows, the number of names, and the longest value: 1, 2 and 4 bytes each.
        for (events, names, len) in [(3, 2, 255), (300, 256, 256), (3, 257, 65_535), (70_000, 70_000, 65_536)] {
            let mut batch = batch("main", 7, events);
            (0..names).for_each(|at| batch.fields.push(1, &*format!("{at}n"), ""));
            batch.fields.push(1, "", "größe");
            batch.fields.push(u32_of(batch.len() - 1), "n", &"v".repeat(len));
            let expected = EncodedRecord::new(&batch, None, None, Vec::new()).unwrap();
            let spare = vec![b'x'; 4 << 20];
            let place = spare.as_ptr();
            let mut record = EncodedRecord::new(&batch, None, None, spare).unwrap();
            assert_eq!((record.parts(&batch), record.back.as_ptr()), (expected.parts(&batch), place));
            record.fill_frame(1, 2);
            let (decoded, _) = decode(&record.parts(&batch).concat()).unwrap();
            assert_eq!(decoded.batch, batch);
            let memory = record.into_memory();
            assert_eq!(memory.as_ptr(), place);
        }
    }

    #[test]
    fn names_that_the_event_before_has_are_not_stored_again() {
        let mut events = batch("main", 7, 6);
        // The same names, only the first of them, both names again, the reverse order, and the same names.
        let names: [&[&str]; 6] = [&["a", "b"], &["a", "b"], &["a"], &["a", "b"], &["b", "a"], &["b", "a"]];
        for (row, names) in (0..).zip(names) {
            names.iter().for_each(|name| events.fields.push(row, *name, &format!("{name}{row}")));
        }
        let mut record = EncodedRecord::new(&events, None, None, Vec::new()).unwrap();
        // Counts and names, widths, three numbers of each event, names of three events, lengths, values.
        assert_eq!(record.back.len(), (8 + 10) + 5 + 3 * 6 + 3 * 2 + 11 + 22);
        record.fill_frame(12, 3);
        let (decoded, _) = decode(&record.parts(&events).concat()).unwrap();
        assert_eq!(decoded.batch, events);
    }

    #[test]
    fn fields_of_version_2_are_read() {
        let mut events = batch("main", 7, 3);
        let mut record = EncodedRecord::new(&events, None, None, Vec::new()).unwrap();
        for (row, name, value) in [(0, "user", "ann"), (2, "user", ""), (2, "größe", "1")] {
            record.back.extend_from_slice(&u32::to_le_bytes(row));
            put_text(name, &mut record.back);
            put_text(value, &mut record.back);
            events.fields.push(row, name, value);
        }
        // The number of fields follows the index time and three other numbers.
        record.front[FRAME_BYTES + 20..FRAME_BYTES + 24].copy_from_slice(&3_u32.to_le_bytes());
        let body_checksum = xxh3_64(&record.parts(&events).concat()[FRAME_BYTES..]);
        record.front[24..32].copy_from_slice(&body_checksum.to_le_bytes());
        record.fill_frame(12, 3);
        let (decoded, _) = decode(&record.parts(&events).concat()).unwrap();
        assert_eq!(decoded.batch, events);
    }

    #[test]
    fn records_that_violate_the_rules_of_batches_are_damaged() {
        let sound = batch("main", 7, 3);
        let checkpoint = checkpoint("a.log", 70);
        let changes: [fn(&mut EventBatch); 4] = [
            |events| events.meta[1] = 99,
            |events| events.ends.swap(0, 1),
            |events| *events.ends.last_mut().unwrap() += 1,
            |events| events.fields.push(3, "user", "ann"),
        ];
        assert!(decode(&encoded(&sound, &checkpoint, 12, 3)).is_some());
        for change in changes {
            let mut events = sound.clone();
            change(&mut events);
            assert!(decode(&encoded(&events, &checkpoint, 12, 3)).is_none(), "{events:?}");
        }
    }

    #[test]
    fn a_checkpoint_needs_no_events() {
        let checkpoint = checkpoint("a.log", 70);
        let events = EventBatch { index_time: 5, ..EventBatch::default() };
        let bytes = encoded(&events, &checkpoint, 1, 0);
        assert_eq!(decode(&bytes).unwrap().0.checkpoint, Some(checkpoint));
    }
}
