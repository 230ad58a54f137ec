//! Opens a file or standard input as plain bytes: gzip and zstd are recognised by their first bytes, not their name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::InputError;

/// Bytes asked of the operating system at once.
pub(crate) const READ_CHUNK_BYTES: usize = 256 * 1024;

/// Name that stands for standard input.
pub(crate) const STDIN: &str = "-";

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Plain bytes.
    None,
    /// gzip, also several members in a row.
    Gzip,
    /// zstd, also several frames in a row.
    Zstd,
}

/// A source of plain bytes.
pub struct OpenFile {
    reader: BufReader<Box<dyn Read + Send>>,
    taken: Arc<AtomicU64>,
    /// How the bytes were packed.
    pub packing: Packing,
    /// Bytes of the file on disk; 0 for standard input.
    pub stored_bytes: u64,
    /// Last modification, nanoseconds since the epoch, where known.
    pub modified_ns: Option<i64>,
}

/// Counts the bytes read from the disk.
struct Counted<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl OpenFile {
    /// Opens `path`; `-` is standard input.
    pub fn open(path: &Path) -> Result<OpenFile, InputError> {
        if path.as_os_str() == STDIN {
            return OpenFile::unpack(io::stdin(), 0, None).map_err(|error| InputError::read(path, &error));
        }
        let open = || -> io::Result<OpenFile> {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
            }
            let modified = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let modified_ns = modified.and_then(|since| i64::try_from(since.as_nanos()).ok());
            OpenFile::unpack(file, metadata.len(), modified_ns)
        };
        open().map_err(|error| InputError::read(path, &error))
    }

    fn unpack(source: impl Read + Send + 'static, stored_bytes: u64, modified_ns: Option<i64>) -> io::Result<OpenFile> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut reader = BufReader::with_capacity(READ_CHUNK_BYTES, Counted { inner: source, taken: taken.clone() });
        let head = reader.fill_buf()?;
        let (reader, packing): (Box<dyn Read + Send>, Packing) = if head.starts_with(GZIP_MAGIC) {
            (Box::new(flate2::bufread::MultiGzDecoder::new(reader)), Packing::Gzip)
        } else if head.starts_with(ZSTD_MAGIC) {
            (Box::new(zstd::stream::read::Decoder::with_buffer(reader)?), Packing::Zstd)
        } else {
            (Box::new(reader), Packing::None)
        };
        let reader = BufReader::with_capacity(READ_CHUNK_BYTES, reader);
        Ok(OpenFile { reader, taken, packing, stored_bytes, modified_ns })
    }

    /// Fills `buffer` as far as the source goes; fewer bytes than it takes mean the end.
    pub fn read_chunk(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What came before a fault is good; the next read meets the fault again.
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Whether nothing is left to read.
    pub fn at_end(&mut self) -> io::Result<bool> {
        self.reader.fill_buf().map(<[u8]>::is_empty)
    }

    /// Bytes of the file on disk that have been read.
    pub fn stored_bytes_read(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}
