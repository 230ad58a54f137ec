//! A zip archive with one file, read as that file.
//!
//! The directory at the archive's end locates the file (APPNOTE.TXT 6.3, sections 4.3 and 4.5), including ZIP64.
//! Checksum and length are verified at the end of the content. Archives with several files, encrypted archives and rare
//! compression methods are refused with an explanation; folders are ignored.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use quarry_stdx::number::{low_u32, usize_of};

use super::compression::{Compression, truncated_error};
use super::open::{OffsetReader, READ_CHUNK_BYTES};

/// Size of the end record, and maximum size of the comment after it.
const END_BYTES: usize = 22;
const COMMENT_BYTES_MAX: usize = u16::MAX as usize;
const END_MAGIC: &[u8] = b"PK\x05\x06";
/// Sizes of the ZIP64 end record and of its locator.
const END64_BYTES: usize = 56;
const LOCATOR_BYTES: usize = 20;
const END64_MAGIC: &[u8] = b"PK\x06\x06";
const LOCATOR_MAGIC: &[u8] = b"PK\x06\x07";
/// Sizes of a directory entry without name and extra fields, and of a local header.
const ENTRY_BYTES: usize = 46;
const ENTRY_MAGIC: &[u8] = b"PK\x01\x02";
const LOCAL_BYTES: usize = 30;
const LOCAL_MAGIC: &[u8] = b"PK\x03\x04";
/// Extra field with ZIP64 lengths.
const ZIP64_FIELD: u64 = 1;
/// Maximum size of a directory: the directory of an archive with one file is shorter.
const DIRECTORY_BYTES_MAX: u64 = 1 << 20;
/// Marker for a value that is in the ZIP64 field.
const ZIP64_MARKER: u64 = u32::MAX as u64;

/// An integer of `bytes` bytes at an offset of a record, whose length the caller has checked.
fn read_integer(record: &[u8], at: usize, bytes: usize) -> u64 {
    record[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn unsupported_error(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text)
}

fn damaged_error(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the zip archive is damaged: {text}"))
}

/// Reads `bytes` bytes at offset `at`.
fn read_at(file: &File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut record = vec![0; bytes];
    file.read_exact_at(&mut record, at).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged_error("a record extends beyond the end of the archive"),
        _ => error,
    })?;
    Ok(record)
}

/// An archive's directory entry of a file.
#[derive(Debug)]
struct Entry {
    name: String,
    method: u64,
    is_encrypted: bool,
    checksum: u32,
    packed_bytes: u64,
    bytes: u64,
    /// Offset of the file's local header.
    at: u64,
}

/// Offset and length of the directory of an archive of `size` bytes.
fn directory(file: &File, size: u64) -> io::Result<(u64, u64)> {
    let back = size.min((END_BYTES + COMMENT_BYTES_MAX) as u64);
    let tail = read_at(file, size - back, usize_of(back))?;
    let is_end = |at: &usize| {
        let record = &tail[*at..];
        record.len() >= END_BYTES
            && record.starts_with(END_MAGIC)
            && read_integer(record, 20, 2) == (record.len() - END_BYTES) as u64
    };
    // An archive without this record is truncated or still being written.
    let at = (0..tail.len()).rev().find(is_end).ok_or_else(truncated_error)?;
    let (bytes, begin) = (read_integer(&tail[at..], 12, 4), read_integer(&tail[at..], 16, 4));
    let end = size - back + at as u64;
    if begin != ZIP64_MARKER && bytes != ZIP64_MARKER {
        return Ok((begin, bytes));
    }
    let locator_at =
        end.checked_sub(LOCATOR_BYTES as u64).ok_or_else(|| damaged_error("its ZIP64 record is missing"))?;
    let locator = read_at(file, locator_at, LOCATOR_BYTES)?;
    if !locator.starts_with(LOCATOR_MAGIC) {
        return Err(damaged_error("its ZIP64 record is missing"));
    }
    let record = read_at(file, read_integer(&locator, 8, 8), END64_BYTES)?;
    if !record.starts_with(END64_MAGIC) {
        return Err(damaged_error("its ZIP64 record is missing"));
    }
    Ok((read_integer(&record, 48, 8), read_integer(&record, 40, 8)))
}

/// The directory entries that are files.
fn entries(mut directory: &[u8]) -> io::Result<Vec<Entry>> {
    let mut files = Vec::new();
    while !directory.is_empty() {
        if directory.len() < ENTRY_BYTES || !directory.starts_with(ENTRY_MAGIC) {
            return Err(damaged_error("its directory cannot be read"));
        }
        let (name_bytes, extra_bytes) =
            (usize_of(read_integer(directory, 28, 2)), usize_of(read_integer(directory, 30, 2)));
        let whole = ENTRY_BYTES + name_bytes + extra_bytes + usize_of(read_integer(directory, 32, 2));
        let record = directory.get(..whole).ok_or_else(|| damaged_error("its directory cannot be read"))?;
        let name = String::from_utf8_lossy(&record[ENTRY_BYTES..][..name_bytes]).into_owned();
        let mut entry = Entry {
            method: read_integer(record, 10, 2),
            is_encrypted: read_integer(record, 8, 2) & 1 != 0,
            checksum: low_u32(read_integer(record, 16, 4)),
            packed_bytes: read_integer(record, 20, 4),
            bytes: read_integer(record, 24, 4),
            at: read_integer(record, 42, 4),
            name,
        };
        entry.apply_zip64(&record[ENTRY_BYTES + name_bytes..][..extra_bytes])?;
        if !entry.name.ends_with('/') {
            files.push(entry);
        }
        directory = &directory[whole..];
    }
    Ok(files)
}

impl Entry {
    /// Replaces lengths and offset that are too large for their fields with those in the ZIP64 field.
    fn apply_zip64(&mut self, mut extra: &[u8]) -> io::Result<()> {
        while extra.len() >= 4 {
            let (kind, bytes) = (read_integer(extra, 0, 2), usize_of(read_integer(extra, 2, 2)));
            let field = extra.get(4..4 + bytes).ok_or_else(|| damaged_error("its directory cannot be read"))?;
            if kind == ZIP64_FIELD {
                let mut numbers = field.chunks_exact(8).map(|wide| read_integer(wide, 0, 8));
                for narrow in [&mut self.bytes, &mut self.packed_bytes, &mut self.at] {
                    if *narrow == ZIP64_MARKER {
                        *narrow = numbers.next().ok_or_else(|| damaged_error("its ZIP64 lengths are missing"))?;
                    }
                }
            }
            extra = &extra[4 + bytes..];
        }
        Ok(())
    }
}

/// Reads the only file of an archive.
pub(crate) fn unzip(file: &Arc<File>) -> io::Result<Box<dyn Read + Send>> {
    let size = file.metadata()?.len();
    let (at, bytes) = directory(file, size)?;
    if bytes > DIRECTORY_BYTES_MAX {
        return Err(unsupported_error(
            "the zip archive contains many files: unpack it first; only archives of one file are read".to_owned(),
        ));
    }
    let mut files = entries(&read_at(file, at, usize_of(bytes))?)?;
    let Some(entry) = files.pop().filter(|_| files.is_empty()) else {
        let count = files.len() + 1;
        let text =
            format!("the zip archive contains {count} files: unpack it first; only archives of one file are read");
        return Err(unsupported_error(if files.is_empty() {
            "the zip archive contains no file".to_owned()
        } else {
            text
        }));
    };
    if entry.is_encrypted {
        return Err(unsupported_error(format!("{} in the zip archive is encrypted: unpack it first", entry.name)));
    }
    let local = read_at(file, entry.at, LOCAL_BYTES)?;
    if !local.starts_with(LOCAL_MAGIC) {
        return Err(damaged_error("its directory states an offset at which there is no file"));
    }
    let header = LOCAL_BYTES as u64 + read_integer(&local, 26, 2) + read_integer(&local, 28, 2);
    let begin = entry.at.saturating_add(header);
    let packed = OffsetReader::new(file.clone(), begin).take(entry.packed_bytes);
    let packed = BufReader::with_capacity(READ_CHUNK_BYTES, packed);
    let garbage = Arc::new(AtomicBool::new(false));
    let content: Box<dyn Read + Send> = match entry.method {
        0 => Box::new(packed),
        8 => Box::new(DeflateDecoder::new(packed)),
        12 => Compression::Bzip2.decompress(packed, &garbage)?,
        93 => Compression::Zstd.decompress(packed, &garbage)?,
        95 => Compression::Xz.decompress(packed, &garbage)?,
        method => {
            let text = format!("{} in the zip archive is compressed with method {method}: unpack it first", entry.name);
            return Err(unsupported_error(text));
        }
    };
    Ok(Box::new(ChecksumReader { content, crc: Crc::new(), bytes: 0, entry }))
}

/// Content whose checksum and length are verified at its end.
struct ChecksumReader {
    content: Box<dyn Read + Send>,
    crc: Crc,
    bytes: u64,
    entry: Entry,
}

impl Read for ChecksumReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(into)?;
        self.crc.update(&into[..read]);
        self.bytes += read as u64;
        let is_over = read == 0 && !into.is_empty();
        if is_over && (self.crc.sum(), self.bytes) != (self.entry.checksum, self.entry.bytes) {
            return Err(damaged_error("the checksum or length does not match"));
        }
        Ok(read)
    }
}
