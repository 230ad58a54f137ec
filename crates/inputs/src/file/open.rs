//! Opens a file or standard input as plain bytes: gzip and zstd are recognised by their first bytes, not their name.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::gzip::{GZIP_MAGIC, GzipReader, rejoin};
use crate::InputError;

/// Bytes asked of the operating system at once.
pub(crate) const READ_CHUNK_BYTES: usize = 256 * 1024;

/// Name that stands for standard input.
pub(crate) const STDIN: &str = "-";

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
    has_garbage: Arc<AtomicBool>,
    /// The fault that ended reading. Decoders forget theirs and would then claim a good end.
    fault: Option<(io::ErrorKind, String)>,
    /// How the bytes were packed.
    pub packing: Packing,
    /// Bytes of the file on disk; 0 for a stream.
    pub stored_bytes: u64,
    /// Last modification, nanoseconds since the epoch, where known.
    pub modified_ns: Option<i64>,
    /// Whether it can be read only once: standard input, a pipe, a device.
    pub is_stream: bool,
}

/// Whether a file begins as packed ones do.
pub(crate) fn is_packed(file: &File) -> io::Result<bool> {
    let mut start = [0; ZSTD_MAGIC.len()];
    let read = file.read_at(&mut start, 0)?;
    Ok(start[..read].starts_with(GZIP_MAGIC) || start[..read].starts_with(ZSTD_MAGIC))
}

/// Last modification, nanoseconds since the epoch, where known.
pub(crate) fn modified_ns(metadata: &Metadata) -> Option<i64> {
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    modified.and_then(|since| i64::try_from(since.as_nanos()).ok())
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
        let open = || -> io::Result<OpenFile> {
            if path.as_os_str() == STDIN {
                return OpenFile::unpack(io::stdin());
            }
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
            }
            let opened = OpenFile::unpack(file)?;
            if !metadata.is_file() {
                return Ok(opened);
            }
            let modified_ns = modified_ns(&metadata);
            Ok(OpenFile { stored_bytes: metadata.len(), modified_ns, is_stream: false, ..opened })
        };
        open().map_err(|error| InputError::read(path, &error))
    }

    /// Opens the regular file at `path` at `offset` of its content, if it is not packed; else at its start. Gives the
    /// offset it stands at.
    pub(crate) fn open_from(path: &Path, offset: u64) -> Result<(OpenFile, u64), InputError> {
        let open = || -> io::Result<Option<OpenFile>> {
            let mut file = File::open(path)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() || is_packed(&file)? {
                return Ok(None);
            }
            file.seek(SeekFrom::Start(offset))?;
            let opened = OpenFile::plain(file);
            Ok(Some(OpenFile { stored_bytes: metadata.len(), modified_ns: modified_ns(&metadata), ..opened }))
        };
        match open().map_err(|error| InputError::read(path, &error))? {
            Some(opened) => Ok((opened, offset)),
            None => Ok((OpenFile::open(path)?, 0)),
        }
    }

    /// A plain file from where it stands, whatever the next bytes look like.
    fn plain(file: File) -> OpenFile {
        let taken = Arc::new(AtomicU64::new(0));
        let source: Box<dyn Read + Send> = Box::new(Counted { inner: file, taken: taken.clone() });
        OpenFile {
            reader: BufReader::with_capacity(READ_CHUNK_BYTES, source),
            taken,
            has_garbage: Arc::default(),
            fault: None,
            packing: Packing::None,
            stored_bytes: 0,
            modified_ns: None,
            is_stream: false,
        }
    }

    fn unpack(source: impl Read + Send + 'static) -> io::Result<OpenFile> {
        let (taken, has_garbage) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut reader = BufReader::with_capacity(READ_CHUNK_BYTES, Counted { inner: source, taken: taken.clone() });
        let mut head = Vec::new();
        // A pipe may give its first bytes one by one.
        if reader.fill_buf()?.len() < ZSTD_MAGIC.len() {
            reader.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut head)?;
        }
        let start = if head.is_empty() { reader.buffer() } else { &head };
        let packing = match start {
            start if start.starts_with(GZIP_MAGIC) => Packing::Gzip,
            start if start.starts_with(ZSTD_MAGIC) => Packing::Zstd,
            _ => Packing::None,
        };
        let reader = rejoin(head, reader);
        let reader: Box<dyn Read + Send> = match packing {
            Packing::Gzip => Box::new(GzipReader::new(reader, has_garbage.clone())),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
            Packing::None => Box::new(reader),
        };
        let reader = BufReader::with_capacity(READ_CHUNK_BYTES, reader);
        let (stored_bytes, modified_ns, is_stream) = (0, None, true);
        Ok(OpenFile { reader, taken, has_garbage, fault: None, packing, stored_bytes, modified_ns, is_stream })
    }

    /// Fills `buffer` as far as the source goes; fewer bytes than it takes mean the end or a fault, which every later
    /// read gives.
    pub fn read_chunk(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && self.fault.is_none() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fault = Some((error.kind(), error.to_string())),
            }
        }
        match self.fault() {
            Some(fault) if filled == 0 && !buffer.is_empty() => Err(fault),
            _ => Ok(filled),
        }
    }

    /// The fault that reading has met.
    pub fn fault(&self) -> Option<io::Error> {
        self.fault.as_ref().map(|(kind, text)| io::Error::new(*kind, text.clone()))
    }

    /// Whether nothing is left to read; a fault counts as something.
    pub fn at_end(&mut self) -> bool {
        loop {
            match self.reader.fill_buf() {
                Ok(ahead) => return ahead.is_empty() && self.fault.is_none(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.fault = Some((error.kind(), error.to_string()));
                    return false;
                }
            }
        }
    }

    /// Whether bytes that belong to no packed content follow it; they are left out.
    pub fn has_garbage(&self) -> bool {
        self.has_garbage.load(Ordering::Relaxed)
    }

    /// Bytes of the file on disk that have been read.
    pub fn stored_bytes_read(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The fault `error` of the file at `path`, met after `offset` bytes of content.
    pub(crate) fn describe(&self, path: &Path, offset: u64, error: &io::Error) -> InputError {
        match self.packing {
            Packing::None => InputError::read(path, error),
            _ => InputError::Unpack { path: path.to_path_buf(), offset, reason: error.to_string() },
        }
    }
}
