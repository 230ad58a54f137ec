//! Entries of the archives from which apps are installed, read with the `tar` library.
//!
//! Archives are not trusted, so their headers are checked in a first pass ([`check_headers`]): the library would read
//! long names and attributes of any size into memory. Not here: where entries are written ([`crate::app_installs`]),
//! and writing archives ([`crate::app_packages`]).

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Size in bytes of a tar block; two empty blocks end an archive.
const BLOCK: usize = 512;
/// Maximum bytes of the attributes or the long name of an entry.
const ATTRIBUTES_BYTES_MAX: u64 = 64 << 10;
/// Maximum number of headers before an entry's own header, for a long name, a long link target or attributes.
const HEADERS_MAX: usize = 8;
/// Maximum bytes read after the end of an archive; writers fill archives up to the size of their buffer.
const REST_BYTES_MAX: u64 = 1 << 20;

/// Reason why an archive cannot be read.
#[derive(Debug)]
pub(crate) enum ArchiveError {
    /// The file could not be opened.
    Open(io::Error),
    /// The content of the file is not a valid archive.
    Damaged(String),
}

impl From<io::Error> for ArchiveError {
    /// Converts an error that occurs while an open archive is read.
    fn from(error: io::Error) -> ArchiveError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it ends early"),
            _ => damaged(&format!("it is not a tar archive, or it is damaged: {error}")),
        }
    }
}

fn damaged(reason: &str) -> ArchiveError {
    ArchiveError::Damaged(reason.to_owned())
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    File,
    Folder,
    /// A link, a device, a named pipe, or a kind that only some archive writers use.
    Other,
}

/// An entry without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveMember {
    pub(crate) name: String,
    pub(crate) kind: MemberKind,
    pub(crate) bytes: u64,
    /// Whether the entry's owner may execute the file.
    pub(crate) is_executable: bool,
}

/// An archive being read.
pub(crate) type OpenArchive = Archive<ArchiveInput>;

/// The decompressed bytes of an archive.
pub(crate) struct ArchiveInput {
    bytes: Box<dyn Read>,
    /// Number of zero bytes at the end of the bytes read so far; a complete archive ends with zero bytes.
    zeros: usize,
}

impl Read for ArchiveInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        let zeros = buffer[..read].iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros = if zeros == read { self.zeros.saturating_add(read) } else { zeros };
        Ok(read)
    }
}

/// Opens an archive, compressed by gzip or not.
pub(crate) fn open(archive: &Path) -> Result<OpenArchive, ArchiveError> {
    let mut file = File::open(archive).map_err(ArchiveError::Open)?;
    let mut start = Vec::new();
    Read::by_ref(&mut file).take(GZIP.len() as u64).read_to_end(&mut start)?;
    let whole = BufReader::new(io::Cursor::new(start.clone()).chain(file));
    let bytes: Box<dyn Read> =
        if start == GZIP { Box::new(BufReader::new(MultiGzDecoder::new(whole))) } else { Box::new(whole) };
    Ok(Archive::new(ArchiveInput { bytes, zeros: 0 }))
}

/// Reads all headers of an archive and checks their sizes: at most `entries_max` entries with `bytes_max` bytes in all.
/// Returns an error if the archive is damaged, and false if it is too large.
pub(crate) fn check_headers(archive: &Path, entries_max: usize, bytes_max: u64) -> Result<bool, ArchiveError> {
    let mut tar = open(archive)?;
    let (mut entries, mut bytes, mut headers) = (0, 0u64, 0);
    for entry in tar.entries()?.raw(true) {
        let header_of = entry?;
        let size = header_of.header().size()?;
        let kind = header_of.header().entry_type();
        if is_attributes(kind) {
            headers += 1;
            if size > ATTRIBUTES_BYTES_MAX || headers > HEADERS_MAX {
                return Err(damaged("an entry has too many or too long attributes"));
            }
            continue;
        }
        (entries, bytes, headers) = (entries + 1, bytes.saturating_add(size), 0);
        if entries > entries_max || bytes > bytes_max {
            return Ok(false);
        }
    }
    end(tar).map(|()| true)
}

/// Whether an entry only describes other entries.
fn is_attributes(kind: EntryType) -> bool {
    kind.is_gnu_longname()
        || kind.is_gnu_longlink()
        || kind.is_pax_local_extensions()
        || kind.is_pax_global_extensions()
}

/// An entry; `None` if it only describes other entries.
pub(crate) fn member_of(entry: &Entry<'_, ArchiveInput>) -> Result<Option<ArchiveMember>, ArchiveError> {
    let kind = entry.header().entry_type();
    if is_attributes(kind) {
        return Ok(None);
    }
    let name = String::from_utf8(entry.path_bytes().into_owned());
    let name = name.map_err(|_| damaged("the name of an entry is not UTF-8"))?;
    let kind = match kind {
        // Archives before POSIX mark folders by the end of the name alone.
        EntryType::Regular | EntryType::Continuous if name.ends_with('/') => MemberKind::Folder,
        EntryType::Regular | EntryType::Continuous => MemberKind::File,
        EntryType::Directory => MemberKind::Folder,
        _ => MemberKind::Other,
    };
    let is_executable = entry.header().mode()? & 0o100 != 0;
    Ok(Some(ArchiveMember { name, kind, bytes: entry.size(), is_executable }))
}

/// Writes the content of an entry to `out`.
pub(crate) fn copy_content(entry: &mut Entry<'_, ArchiveInput>, out: &mut impl Write) -> Result<(), ArchiveError> {
    let bytes = entry.size();
    if io::copy(entry, out)? == bytes { Ok(()) } else { Err(damaged("it ends early")) }
}

/// Ends reading: checks that the archive is complete, and reads the bytes after its end, so that a wrong checksum of
/// the compression is noticed.
pub(crate) fn end(tar: OpenArchive) -> Result<(), ArchiveError> {
    let mut input = tar.into_inner();
    let is_complete = input.zeros >= BLOCK;
    io::copy(&mut input.by_ref().take(REST_BYTES_MAX), &mut io::sink())?;
    if is_complete { Ok(()) } else { Err(damaged("it ends early")) }
}
