//! Encoding of a queue record: a compressed batch, its groups, and optionally the position of its file.
//!
//! `length u32, xxh3 u64` of the body, then the body: `number u64, flags u8, groups (text), position (if flagged), key
//! u128 and time i64 of a part of a request (if flagged), packed batch`. Numbers are little-endian; a text is preceded by
//! its length (u32).

use std::sync::Arc;

use quarry_inputs::{FileIdentity, FilePosition};
use quarry_stdx::number::u32_of;
use xxhash_rust::xxh3::xxh3_64;

/// Size of a record's head.
pub(super) const HEAD_BYTES: usize = 12;
/// Size of the fixed part of a body.
pub(super) const NUMBER_BYTES: usize = 9;
/// Maximum size of a body: the largest batch with the fields before it.
pub(super) const BODY_BYTES_MAX: usize = 48 << 20;
/// More records of the same append follow.
const HAS_MORE: u8 = 1;
/// A position without milestones precedes the batch, as written by earlier versions.
const HAS_OLD_POSITION: u8 = 2;
/// A position precedes the batch.
const HAS_POSITION: u8 = 4;
/// Key and time of a part of a request precede the batch.
const HAS_PART: u8 = 8;

/// Content of a record.
#[derive(Debug)]
pub(super) struct Body<'a> {
    pub(super) number: u64,
    /// Names of groups, comma-separated.
    pub(super) groups: &'a str,
    pub(super) position: Option<FilePosition>,
    /// The part of a request that the append consists of.
    pub(super) part: Option<RequestPart>,
    pub(super) packed: &'a [u8],
    pub(super) has_more: bool,
}

/// A part of a request that is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestPart {
    /// Hash of the request and the events of the part.
    pub(super) key: u128,
    /// Time of the append, in nanoseconds since 1970.
    pub(super) time: i64,
}

/// Appends an encoded record.
pub(super) fn write(body: &Body<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.extend_from_slice(&body.number.to_le_bytes());
    let more = if body.has_more { HAS_MORE } else { 0 };
    let position = if body.position.is_some() { HAS_POSITION } else { 0 };
    let part = if body.part.is_some() { HAS_PART } else { 0 };
    out.push(more | position | part);
    write_text(body.groups.as_bytes(), out);
    if let Some(position) = &body.position {
        write_position(position, out);
    }
    if let Some(part) = &body.part {
        out.extend_from_slice(&part.key.to_le_bytes());
        out.extend_from_slice(&part.time.to_le_bytes());
    }
    out.extend_from_slice(body.packed);
    let length = u32_of(out.len() - start - HEAD_BYTES);
    let hash = xxh3_64(&out[start + HEAD_BYTES..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + HEAD_BYTES].copy_from_slice(&hash.to_le_bytes());
}

/// Appends an encoded position.
pub(super) fn write_position(position: &FilePosition, out: &mut Vec<u8>) {
    write_text(position.identity.scope.as_bytes(), out);
    write_text(&position.identity.head, out);
    out.extend_from_slice(&position.identity.variant.to_le_bytes());
    out.extend_from_slice(&position.offset.to_le_bytes());
    out.extend_from_slice(&position.tail_hash.to_le_bytes());
    write_text(position.path.as_bytes(), out);
    let milestones: Vec<u8> = position.milestones.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    write_text(&milestones, out);
}

fn write_text(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u32_of(bytes.len()).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Length and hash of the body; `None` for an impossible length.
pub(super) fn parse_head(bytes: &[u8; HEAD_BYTES]) -> Option<(usize, u64)> {
    let (length, hash) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let hash = u64::from_le_bytes(hash.try_into().ok()?);
    (NUMBER_BYTES..=BODY_BYTES_MAX).contains(&length).then_some((length, hash))
}

/// Decodes the body, if it is intact.
pub(super) fn read(bytes: &[u8], hash: u64) -> Option<Body<'_>> {
    if xxh3_64(bytes) != hash {
        return None;
    }
    let mut reader = Reader(bytes);
    let number = u64::from_le_bytes(*reader.array()?);
    let [flags] = *reader.array::<1>()?;
    let groups = std::str::from_utf8(reader.text()?).ok()?;
    let has_milestones = flags & HAS_POSITION != 0;
    let has_position = has_milestones || flags & HAS_OLD_POSITION != 0;
    let position = if has_position { Some(reader.position(has_milestones)?) } else { None };
    let part = if flags & HAS_PART != 0 { Some(reader.part()?) } else { None };
    Some(Body { number, groups, position, part, packed: reader.0, has_more: flags & HAS_MORE != 0 })
}

/// Decoder of bodies and lists of positions.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(array)
    }

    pub(super) fn part(&mut self) -> Option<RequestPart> {
        let key = u128::from_le_bytes(*self.array()?);
        Some(RequestPart { key, time: i64::from_le_bytes(*self.array()?) })
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(*self.array()?) as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    /// A position; those of earlier versions have no milestones.
    pub(super) fn position(&mut self, has_milestones: bool) -> Option<FilePosition> {
        let scope = std::str::from_utf8(self.text()?).ok()?.to_owned();
        let head = self.text()?.to_vec();
        let variant = u32::from_le_bytes(*self.array()?);
        let offset = u64::from_le_bytes(*self.array()?);
        let tail_hash = u64::from_le_bytes(*self.array()?);
        let path = std::str::from_utf8(self.text()?).ok()?.to_owned();
        let identity = Arc::new(FileIdentity { scope, head, variant });
        let milestones = if has_milestones { self.text()? } else { &[] };
        let (milestones, _) = milestones.as_chunks();
        let milestones = milestones.iter().map(|hash| u32::from_le_bytes(*hash)).collect();
        Some(FilePosition { identity, offset, tail_hash, path, milestones })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_decode_completely_or_not_at_all() {
        let identity = Arc::new(FileIdentity { scope: "main\0x".to_owned(), head: vec![0, 255, 7], variant: 3 });
        let (path, milestones) = ("/größe".to_owned(), vec![1, u32::MAX]);
        let position = FilePosition { identity, offset: 1 << 40, tail_hash: u64::MAX, path, milestones };
        let part = RequestPart { key: u128::MAX - 5, time: -7 };
        for (position, part) in [(None, None), (Some(position), None), (None, Some(part))] {
            let mut bytes = Vec::new();
            let packed = &b"packed"[..];
            let groups = "a,b";
            write(&Body { number: 77, groups, position: position.clone(), part, packed, has_more: true }, &mut bytes);
            let (length, hash) = parse_head(bytes[..HEAD_BYTES].try_into().unwrap()).unwrap();
            assert_eq!(length, bytes.len() - HEAD_BYTES);
            let body = read(&bytes[HEAD_BYTES..], hash).unwrap();
            assert_eq!((body.number, body.groups, body.packed, body.has_more), (77, groups, packed, true));
            assert_eq!((body.position, body.part), (position, part));
            for at in HEAD_BYTES..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert!(read(&damaged[HEAD_BYTES..], hash).is_none());
            }
        }
        assert!(parse_head(&[0xff; HEAD_BYTES]).is_none() && parse_head(&[0; HEAD_BYTES]).is_none());
    }
}
