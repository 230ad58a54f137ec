//! Compression formats: recognised by their first bytes, not by file names, and decompressed as one stream.
//!
//! A gzip, zstd, xz or bzip2 file is one stream of content, possibly in several members. A zip archive is read if it
//! contains one file ([`super::zip`]). Not here: archives with several files, whose error tells the user to unpack
//! them.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bzip2::bufread::MultiBzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::gzip::{GZIP_MAGIC, GzipReader};

/// Magic of a zstd frame.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Magic of an xz stream.
const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Magic of a bzip2 stream; a digit and then a block or the end marker follow.
const BZIP2_MAGIC: &[u8] = b"BZh";
const BZIP2_BLOCKS: [&[u8]; 2] = [&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];
/// Magic of a zip archive with files, and of an empty one.
const ZIP_MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
/// Number of leading bytes that suffice to recognise every format.
pub(crate) const DETECTION_BYTES: usize = 10;
/// Memory limit of xz. Its strongest preset takes 65 MiB, but a dictionary may have 1.5 GiB.
const XZ_MEMORY_MAX: u64 = 128 << 20;

/// Compression format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Plain bytes.
    None,
    /// gzip, possibly with several members.
    Gzip,
    /// zstd, possibly with several frames.
    Zstd,
    /// xz, possibly with several streams.
    Xz,
    /// bzip2, possibly with several streams.
    Bzip2,
    /// A zip archive.
    Zip,
}

impl Compression {
    /// The format of a file with this beginning; `None` if more bytes are needed.
    pub(crate) fn detect(start: &[u8]) -> Option<Compression> {
        let magics = [
            (Compression::Gzip, GZIP_MAGIC),
            (Compression::Zstd, ZSTD_MAGIC),
            (Compression::Xz, XZ_MAGIC),
            (Compression::Zip, ZIP_MAGICS[0]),
            (Compression::Zip, ZIP_MAGICS[1]),
        ];
        if let Some((packing, _)) = magics.iter().find(|(_, magic)| start.starts_with(magic)) {
            return Some(*packing);
        }
        if is_bzip2(start) {
            return if start.len() < DETECTION_BYTES { None } else { Some(Compression::Bzip2) };
        }
        let is_begun = !start.is_empty() && magics.iter().any(|(_, magic)| magic.starts_with(start));
        if is_begun { None } else { Some(Compression::None) }
    }

    /// Reads compressed content; for gzip, `has_garbage` is set if other bytes follow it. A zip archive cannot be read
    /// as a stream.
    pub(crate) fn decompress<R: BufRead + Send + 'static>(
        self,
        source: R,
        has_garbage: &Arc<AtomicBool>,
    ) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Compression::None => Box::new(source),
            Compression::Gzip => Box::new(GzipReader::new(source, has_garbage.clone())),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
            Compression::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY_MAX, CONCATENATED).map_err(xz_error)?;
                Box::new(ReadableErrors(XzDecoder::new_stream(source, stream)))
            }
            Compression::Bzip2 => Box::new(ReadableErrors(MultiBzDecoder::new(source))),
            Compression::Zip => {
                let text = "a zip archive cannot be read from a stream: write it to a file first";
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        })
    }
}

/// True if the bytes are the beginning of a bzip2 stream, or may become one.
fn is_bzip2(start: &[u8]) -> bool {
    let (magic, rest) = start.split_at(start.len().min(BZIP2_MAGIC.len()));
    let (level, block) = rest.split_at(rest.len().min(1));
    let block = &block[..block.len().min(BZIP2_BLOCKS[0].len())];
    !magic.is_empty()
        && BZIP2_MAGIC.starts_with(magic)
        && level.iter().all(|level| matches!(level, b'1'..=b'9'))
        && BZIP2_BLOCKS.iter().any(|known| known.starts_with(block))
}

/// Decompressed content with readable errors.
struct ReadableErrors<R>(R);

impl<R: Read> Read for ReadableErrors<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| {
            let of_xz = error.get_ref().and_then(|inner| inner.downcast_ref::<liblzma::stream::Error>()).cloned();
            match of_xz {
                Some(fault) => xz_error(fault),
                None if error.kind() == io::ErrorKind::UnexpectedEof => truncated_error(),
                None => error,
            }
        })
    }
}

fn xz_error(fault: liblzma::stream::Error) -> io::Error {
    if fault == liblzma::stream::Error::MemLimit {
        let text = format!("its dictionary needs more than {} MiB of memory: unpack it first", XZ_MEMORY_MAX >> 20);
        return io::Error::new(io::ErrorKind::Unsupported, text);
    }
    fault.into()
}

/// The error for truncated content.
pub(crate) fn truncated_error() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends early; it was truncated, or is still being written")
}

/// Unsupported formats, by magic bytes at an offset.
const UNSUPPORTED_FORMATS: &[(usize, &[u8], &str)] = &[
    (257, b"ustar", "a tar archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (0, b"\x04\x22\x4d\x18", "packed by lz4"),
    (0, b"\x1f\x9d", "packed by compress"),
    (0, b"\x89LZO\0", "packed by lzop"),
    (0, b"LZIP\x01", "packed by lzip"),
];

/// The unsupported format of content with this beginning, if it is one.
pub(crate) fn unsupported_format(head: &[u8]) -> Option<UnsupportedFormat> {
    let is_there = |(at, magic, _): &&(usize, &[u8], &str)| head.get(*at..).is_some_and(|head| head.starts_with(magic));
    UNSUPPORTED_FORMATS.iter().find(is_there).map(|(_, _, name)| UnsupportedFormat(name))
}

/// An unsupported archive or compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedFormat(&'static str);

impl fmt::Display for UnsupportedFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "it is {}, which is not read: unpack it first (gzip, zstd, xz, bzip2 and zip of one file are read)",
            self.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_determine_the_compression_or_require_more() {
        let bzip2 = [BZIP2_MAGIC, b"9", BZIP2_BLOCKS[0]].concat();
        let packed: [(&[u8], Compression); 6] = [
            (GZIP_MAGIC, Compression::Gzip),
            (ZSTD_MAGIC, Compression::Zstd),
            (XZ_MAGIC, Compression::Xz),
            (&bzip2, Compression::Bzip2),
            (ZIP_MAGICS[0], Compression::Zip),
            (ZIP_MAGICS[1], Compression::Zip),
        ];
        for (magic, packing) in packed {
            for bytes in 1..magic.len() {
                assert_eq!(Compression::detect(&magic[..bytes]), None, "{packing:?} {bytes}");
            }
            assert_eq!(Compression::detect(magic), Some(packing));
        }
        for text in [&b""[..], b"a", b"BZip2 is a program", b"PKI", b"BZhang", b"7z", b"\xfd "] {
            assert_eq!(Compression::detect(text), Some(Compression::None), "{text:?}");
        }
    }

    #[test]
    fn unsupported_formats_are_named() {
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(unsupported_format(&tar).unwrap().to_string().starts_with("it is a tar archive"));
        assert_eq!(unsupported_format(b"ustar"), None);
    }
}
