//! The write-ahead log: acknowledged data is in a log segment or a sealed bucket, never only in memory.
//!
//! A segment is a file named after the sequence number (lsn) of its first record: a header and framed records. Only the
//! newest segment is appended to, so only it can have a torn tail. The layout is in docs/formats/wal.md.
//!
//! Not here: the choice of a bucket for each batch of events ([`crate::log_thread`]); the rule for deleting segments
//! ([`crate::log_files`]).

pub(crate) mod mark;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod salvage;
pub(crate) mod write;
pub(crate) mod write_buffer;

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

/// Magic of every segment.
const MAGIC: &[u8; 8] = b"QRYLOG\r\n";
/// Newest supported version.
pub(crate) const VERSION: u32 = 3;
/// Size of the header: magic, version, padding, first lsn, and the checksum of all of them.
pub(crate) const HEADER_BYTES: usize = 32;
/// File extension of a damaged segment that is kept for inspection.
pub(crate) const DAMAGED_EXTENSION: &str = "damaged";
/// Number of digits in a segment's name. A file with another name, such as a copy, is not a segment.
const LSN_DIGITS: usize = 20;
/// File extension of a segment.
const SEGMENT_EXTENSION: &str = "log";

/// Path of the segment that starts with record `first_lsn`.
pub(crate) fn segment_path(folder: &Path, first_lsn: u64) -> PathBuf {
    folder.join(format!("{first_lsn:0LSN_DIGITS$}.{SEGMENT_EXTENSION}"))
}

/// First lsn of a segment's file; `None` if the file is not a segment.
pub(crate) fn first_lsn_of(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    let is_segment = path.extension()? == SEGMENT_EXTENSION && stem.len() == LSN_DIGITS;
    // No segment begins with the largest number, because the numbers after it could not be represented.
    if is_segment { stem.parse::<u64>().ok().filter(|lsn| *lsn < u64::MAX) } else { None }
}

/// Header of the segment that starts with record `first_lsn`.
pub(crate) fn header(first_lsn: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[16..24].copy_from_slice(&first_lsn.to_le_bytes());
    let checksum = xxh3_64(&out[..24]);
    out[24..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Classification of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A segment that can be read.
    Known,
    /// A valid header of a newer version.
    Newer(u32),
    /// Truncated or damaged.
    Broken,
}

pub(crate) fn read_header(bytes: &[u8]) -> Header {
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Header::Broken };
    let (body, checksum) = head.split_at(24);
    if &body[..8] != MAGIC || xxh3_64(body).to_le_bytes() != *checksum {
        return Header::Broken;
    }
    match u32::from_le_bytes([body[8], body[9], body[10], body[11]]) {
        version if version > VERSION => Header::Newer(version),
        _ => Header::Known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_all_versions_up_to_the_newest_are_known() {
        for version in 1..=VERSION + 1 {
            let mut head = header(7);
            head[8..12].copy_from_slice(&version.to_le_bytes());
            assert_eq!(read_header(&head) == Header::Broken, version != VERSION, "the checksum covers the version");
            let checksum = xxh3_64(&head[..24]);
            head[24..].copy_from_slice(&checksum.to_le_bytes());
            let expected = if version > VERSION { Header::Newer(version) } else { Header::Known };
            assert_eq!(read_header(&head), expected);
        }
    }
}
