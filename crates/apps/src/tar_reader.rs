//! Reads tar archives: POSIX headers (ustar, pax) and long names of GNU tar, one entry after the other.
//!
//! Every size is limited, because archives come from elsewhere. Not here: where entries are written
//! ([`crate::app_installs`]), and writing archives ([`crate::app_packages`]).

use std::io::{self, Read, Write};

/// Size of a header, and of the blocks to which contents are padded.
const BLOCK: usize = 512;
/// Maximum bytes of the attributes or the long name of an entry.
const ATTRIBUTES_BYTES_MAX: u64 = 64 << 10;
/// Maximum headers of an entry: its own, and those of a long name, a long target and attributes before it.
const HEADERS_MAX: usize = 8;
/// Maximum bytes read after the end of an archive; writers pad archives to the size of their buffer.
const REST_BYTES_MAX: u64 = 1 << 20;

/// Reason for which an archive cannot be read.
#[derive(Debug)]
pub(crate) enum TarError {
    /// It could not be read or decompressed.
    Read(io::Error),
    /// Its content is not a valid archive.
    Damaged(String),
}

impl From<io::Error> for TarError {
    fn from(error: io::Error) -> TarError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it ends early"),
            _ => TarError::Read(error),
        }
    }
}

fn damaged(reason: &str) -> TarError {
    TarError::Damaged(reason.to_owned())
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TarKind {
    File,
    Folder,
    /// A symbolic or hard link.
    Link,
    /// A device, a named pipe, or an extension of some writer.
    Other,
}

/// An entry without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TarMember {
    pub(crate) name: String,
    pub(crate) kind: TarKind,
    pub(crate) bytes: u64,
    /// Whether its owner may execute it.
    pub(crate) is_executable: bool,
}

/// A tar archive being read.
pub(crate) struct TarReader<R> {
    input: R,
    /// Bytes of the current entry's content that were not read yet.
    content: u64,
    /// Bytes that pad the content to whole blocks.
    padding: u64,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(input: R) -> TarReader<R> {
        TarReader { input, content: 0, padding: 0 }
    }

    /// Skips the unread content of the current entry and returns the next one. At the end, also reads what follows, so
    /// that a wrong checksum of the compression is noticed.
    pub(crate) fn next(&mut self) -> Result<Option<TarMember>, TarError> {
        let (mut name, mut bytes) = (None, None);
        for _ in 0..HEADERS_MAX {
            self.copy_content(&mut io::sink())?;
            let mut block = [0; BLOCK];
            self.input.read_exact(&mut block)?;
            if block.iter().all(|byte| *byte == 0) {
                io::copy(&mut self.input.by_ref().take(REST_BYTES_MAX), &mut io::sink())?;
                return Ok(None);
            }
            let header = Header::new(&block)?;
            self.begin(header.bytes);
            match header.kind {
                b'x' => {
                    let attributes = self.attributes()?;
                    name = attribute(&attributes, "path")?.or(name);
                    let size = attribute(&attributes, "size")?.map(|size| size.parse::<u64>());
                    bytes = size.transpose().map_err(|_| damaged("an attribute `size` is not a number"))?.or(bytes);
                }
                b'L' => {
                    let text = self.attributes()?;
                    name = Some(utf8(text.split(|byte| *byte == 0).next().unwrap_or_default())?);
                }
                // Attributes of all entries, and long targets of links.
                b'g' | b'K' => drop(self.attributes()?),
                kind => {
                    let bytes = bytes.unwrap_or(header.bytes);
                    self.begin(bytes);
                    let name = name.map_or_else(|| header.name(), Ok)?;
                    let kind = match kind {
                        // Archives before POSIX mark folders by the end of the name alone.
                        b'0' | 0 | b'7' if name.ends_with('/') => TarKind::Folder,
                        b'0' | 0 | b'7' => TarKind::File,
                        b'5' => TarKind::Folder,
                        b'1' | b'2' => TarKind::Link,
                        _ => TarKind::Other,
                    };
                    return Ok(Some(TarMember { name, kind, bytes, is_executable: header.mode & 0o100 != 0 }));
                }
            }
        }
        Err(damaged("an entry has too many headers"))
    }

    /// Writes the rest of the current entry's content to `out`.
    pub(crate) fn copy_content(&mut self, out: &mut impl Write) -> Result<(), TarError> {
        for (bytes, is_content) in [(self.content, true), (self.padding, false)] {
            let mut part = self.input.by_ref().take(bytes);
            let copied = if is_content { io::copy(&mut part, out)? } else { io::copy(&mut part, &mut io::sink())? };
            if copied < bytes {
                return Err(damaged("it ends early"));
            }
        }
        (self.content, self.padding) = (0, 0);
        Ok(())
    }

    fn begin(&mut self, bytes: u64) {
        let rest = bytes % BLOCK as u64;
        self.content = bytes;
        self.padding = if rest == 0 { 0 } else { BLOCK as u64 - rest };
    }

    /// The content of a header that describes the entry after it.
    fn attributes(&mut self) -> Result<Vec<u8>, TarError> {
        if self.content > ATTRIBUTES_BYTES_MAX {
            return Err(damaged("the attributes of an entry are too long"));
        }
        let mut text = Vec::new();
        self.copy_content(&mut text)?;
        Ok(text)
    }
}

/// The fields of a header that are used.
struct Header<'b> {
    block: &'b [u8; BLOCK],
    kind: u8,
    bytes: u64,
    mode: u64,
}

impl<'b> Header<'b> {
    fn new(block: &'b [u8; BLOCK]) -> Result<Header<'b>, TarError> {
        // The checksum is computed over the header with blanks in the checksum's field.
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte }))
            .sum();
        if octal(&block[148..156]) != Some(sum) {
            return Err(damaged("it is not a tar archive, or it is damaged"));
        }
        let bytes = octal(&block[124..136]).ok_or_else(|| damaged("an entry is too large"))?;
        Ok(Header { block, kind: block[156], bytes, mode: octal(&block[100..108]).unwrap_or_default() })
    }

    fn name(&self) -> Result<String, TarError> {
        let text = |from: usize, to: usize| {
            let field = &self.block[from..to];
            utf8(field.split(|byte| *byte == 0).next().unwrap_or_default())
        };
        // Only POSIX headers have a prefix; GNU tar has other fields there.
        let prefix = if &self.block[257..263] == b"ustar\0" { text(345, 500)? } else { String::new() };
        let name = text(0, 100)?;
        Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
    }
}

/// A number in octal digits; `None` for others, such as the binary sizes of files of 8 GB and more.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn utf8(text: &[u8]) -> Result<String, TarError> {
    String::from_utf8(text.to_vec()).map_err(|_| damaged("the name of an entry is not UTF-8"))
}

/// The value of an attribute in lines `LENGTH NAME=VALUE`.
fn attribute(text: &[u8], name: &str) -> Result<Option<String>, TarError> {
    let (mut rest, mut found) = (text, None);
    while !rest.is_empty() {
        let invalid = || damaged("the attributes of an entry are invalid");
        let blank = rest.iter().position(|byte| *byte == b' ').ok_or_else(invalid)?;
        let length = std::str::from_utf8(&rest[..blank]).ok().and_then(|digits| digits.parse::<usize>().ok());
        let length = length.filter(|length| *length > blank + 1 && *length <= rest.len()).ok_or_else(invalid)?;
        let line = &rest[blank + 1..length - 1];
        let value = line.strip_prefix(name.as_bytes()).and_then(|line| line.strip_prefix(b"="));
        if let Some(value) = value {
            found = Some(utf8(value)?);
        }
        rest = &rest[length..];
    }
    Ok(found)
}
