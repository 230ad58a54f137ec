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
/// Maximum length of the name of a field, as it is written, that is copied as a fixed number of bytes.
const NAME_PIECE_BYTES: usize = 32;
/// Body flag: a checkpoint follows.
const FLAG_CHECKPOINT: u8 = 1;
/// Body flag: the stored part of a sender's request follows, as run of the store, number of the part, and hash.
const FLAG_SENT: u8 = 2;
/// Body flag: the checkpoint has milestones.
const FLAG_MILESTONES: u8 = 4;

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
        let (front_bytes, back_bytes) = (front_bytes(batch), back_bytes(batch, checkpoint, sent));
        let body_bytes = front_bytes + batch.raw.len() + back_bytes;
        if body_bytes > BODY_BYTES_MAX {
            let (value, limit) = (body_bytes as u64, BODY_BYTES_MAX as u64);
            return Err(StoreError::TooLarge { what: "bytes with all fields", value, limit });
        }
        let mut front = Vec::with_capacity(FRAME_BYTES + front_bytes);
        front.resize(FRAME_BYTES, 0);
        let flags = flags_of(checkpoint, sent);
        encode_front(batch, flags, &mut front);
        let mut back = match spare.capacity() >= back_bytes + NAME_PIECE_BYTES {
            true => spare,
            false => Vec::with_capacity(back_bytes + NAME_PIECE_BYTES),
        };
        back.clear();
        encode_back(batch, checkpoint, sent, &mut back);
        assert_eq!((front.len(), back.len()), (FRAME_BYTES + front_bytes, back_bytes));
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

fn flags_of(checkpoint: Option<&FileCheckpoint>, sent: Option<&UnansweredPart>) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(checkpoint.is_some(), FLAG_CHECKPOINT)
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

fn back_bytes(batch: &EventBatch, checkpoint: Option<&FileCheckpoint>, sent: Option<&UnansweredPart>) -> usize {
    let milestones = |milestones: &[u32]| if milestones.is_empty() { 0 } else { 4 + 4 * milestones.len() };
    let checkpoint = checkpoint.map_or(0, |checkpoint| {
        16 + 4 + 4 + 8 + 8 + text_bytes(&checkpoint.source) + milestones(&checkpoint.milestones)
    });
    field_bytes(&batch.fields) + checkpoint + sent.map_or(0, |_| 8 + 8 + 16)
}

fn field_bytes(fields: &IndexedFields) -> usize {
    let name_bytes = fields.all().codes().iter().map(|code| text_bytes(&fields.names()[*code as usize]));
    fields.len() * 8 + name_bytes.sum::<usize>() + fields.value_bytes()
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

/// Appends row, name and value of each field. A short name is copied with its length, as a fixed number of bytes
/// without a function call; the bytes after it are then removed.
fn put_fields(fields: &IndexedFields, out: &mut Vec<u8>) {
    let names: Vec<NamePiece> = fields.names().iter().map(|name| NamePiece::of(name)).collect();
    for field in fields.iter() {
        out.extend_from_slice(&field.row.to_le_bytes());
        let name = &names[field.code as usize];
        match name.len {
            0 => put_text(field.name, out),
            len => {
                let end = out.len() + len;
                out.extend_from_slice(&name.bytes);
                out.truncate(end);
            }
        }
        put_text(field.value, out);
    }
}

/// A short name of a field as it is written.
struct NamePiece {
    bytes: [u8; NAME_PIECE_BYTES],
    /// Length of the written name; 0 if it is too long.
    len: usize,
}

impl NamePiece {
    fn of(name: &str) -> NamePiece {
        let mut written = Vec::with_capacity(text_bytes(name));
        put_text(name, &mut written);
        let mut bytes = [0; NAME_PIECE_BYTES];
        match bytes.get_mut(..written.len()) {
            Some(place) => {
                place.copy_from_slice(&written);
                NamePiece { bytes, len: written.len() }
            }
            None => NamePiece { bytes, len: 0 },
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
    for _ in 0..fields {
        let (row, name, value) = (cursor.u32()?, cursor.str()?, cursor.str()?);
        batch.fields.push(row, name, value);
    }
    let checkpoint = if flags & FLAG_CHECKPOINT == 0 { None } else { Some(decode_checkpoint(cursor, flags)?) };
    let sent = if flags & FLAG_SENT == 0 { None } else { Some(decode_sent(cursor, index_time)?) };
    cursor.0.is_empty().then_some((batch, checkpoint, sent))
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
    fn names_of_every_length_round_trip_in_reused_memory() {
        let mut events = batch("main", 7, 3);
        // One name is empty, and some names are too long to be copied as a fixed number of bytes.
        for len in 0..2 * NAME_PIECE_BYTES {
            events.fields.push(2, &*"n".repeat(len), &format!("value {len}"));
        }
        let expected = EncodedRecord::new(&events, None, None, Vec::new()).unwrap();
        let spare = vec![b'x'; 64 << 10];
        let place = spare.as_ptr();
        let mut record = EncodedRecord::new(&events, None, None, spare).unwrap();
        assert_eq!((record.parts(&events), record.back.as_ptr()), (expected.parts(&events), place));
        record.fill_frame(1, 2);
        let (decoded, _) = decode(&record.parts(&events).concat()).unwrap();
        assert_eq!(decoded.batch, events);
        let memory = record.into_memory();
        assert_eq!(memory.as_ptr(), place);
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
