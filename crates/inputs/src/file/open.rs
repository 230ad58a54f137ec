//! Opens a file or standard input as plain bytes. Compression formats are recognised by their first bytes, not by file
//! names.
//!
//! Everything about a regular file is decided through one handle ([`Handle`]), because its name may refer to another
//! file a moment later, and a file being written is empty at first.
//!
//! Content begins after leading NUL bytes. If a file is truncated while its writer keeps the old offset (`copytruncate`
//! with a program that does not append), a hole of NUL bytes precedes the new text and is not part of any line. The
//! file, and copies of it, are therefore identified by the text after the hole, however long the hole is.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quarry_pipeline::SAMPLE_BYTES;

use super::compression::{Compression, DETECTION_BYTES};
use super::gzip::rejoin;
use super::siblings::sibling_lines;
use super::stream::{NO_CONSUMER, Stream};
use super::zip::unzip;
use crate::InputError;

/// Size of a read from the operating system.
pub(crate) const READ_CHUNK_BYTES: usize = 256 * 1024;

/// Name for standard input.
pub(crate) const STDIN: &str = "-";

/// Minimum leading NUL bytes that count as a hole; fewer may be a character of UTF-16 or UTF-32.
const HOLE_BYTES_MIN: usize = 4;

/// Number of offsets at which a plain file is sampled to find the order of its dates.
const SAMPLES_MAX: u64 = 16;
/// Bytes read at each of those offsets.
const BYTES_PER_SAMPLE: usize = 4096;

/// A source of plain bytes.
pub struct OpenFile {
    reader: BufReader<Box<dyn Read + Send>>,
    taken: Arc<AtomicU64>,
    has_garbage: Arc<AtomicBool>,
    /// The error that ended reading. It is kept because a decoder reports its error once and a regular end afterwards.
    fault: Option<(io::ErrorKind, String)>,
    /// True until the hole before the content has been skipped.
    is_at_hole: bool,
    /// Compression format.
    pub compression: Compression,
    /// Size of the file on disk; 0 for a stream.
    pub stored_bytes: u64,
    /// Last modification, nanoseconds since the epoch, if known.
    pub modified_ns: Option<i64>,
    /// Whether the source can be read only once: standard input, a pipe, a device.
    pub is_stream: bool,
    /// Set when the content is no longer needed; reading then fails.
    ended: Arc<AtomicBool>,
}

/// An open regular file.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    file: Arc<File>,
    pub(crate) metadata: Metadata,
    pub(crate) compression: Compression,
    /// True if more bytes are needed to determine its compression format.
    pub(crate) is_format_unknown: bool,
    /// Size of the hole before the content of a plain file.
    hole: u64,
}

/// Last modification, nanoseconds since the epoch, if known.
pub(crate) fn modified_ns(metadata: &Metadata) -> Option<i64> {
    metadata.modified().ok().and_then(nanos_since_epoch)
}

/// Creation of the file, nanoseconds since the epoch; `None` if the file system does not record it.
pub(crate) fn created_ns(metadata: &Metadata) -> Option<i64> {
    metadata.created().ok().and_then(nanos_since_epoch)
}

/// Nanoseconds since the epoch, negative before 1970; `None` outside the range of the type.
fn nanos_since_epoch(at: SystemTime) -> Option<i64> {
    let nanos = |size: Duration| i64::try_from(size.as_nanos()).ok();
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => nanos(since),
        Err(before) => nanos(before.duration()).map(|size| -size),
    }
}

/// Reads a file from an offset, independent of other readers of the same handle.
#[derive(Debug)]
pub(crate) struct OffsetReader {
    file: Arc<File>,
    at: u64,
}

impl OffsetReader {
    pub(crate) fn new(file: Arc<File>, at: u64) -> OffsetReader {
        OffsetReader { file, at }
    }
}

impl Read for OffsetReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Counts bytes read from disk.
struct CountingReader<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Opens a file such that neither opening nor reading it waits: a pipe may have taken the name of a regular file, and
/// files of the kernel such as /proc/kmsg look like regular files.
pub(crate) fn open_nonblocking(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

impl Handle {
    /// Opens the regular file at `path`; `None` for a pipe or device, which can be read only once.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Handle>> {
        let metadata = path.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        // A pipe is not opened here, because closing it again would signal its end to the writer.
        if !metadata.is_file() {
            return Ok(None);
        }
        Handle::of(Arc::new(open_nonblocking(path)?)).map(Some)
    }

    /// The handle of an open regular file.
    pub(crate) fn of(file: Arc<File>) -> io::Result<Handle> {
        let metadata = file.metadata()?;
        let mut start = [0; DETECTION_BYTES];
        let mut read = 0;
        while read < start.len() {
            match file.read_at(&mut start[read..], read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let start = &start[..read];
        let packing = Compression::detect(start);
        let has_hole = start.get(..HOLE_BYTES_MIN).is_some_and(|first| first.iter().all(|byte| *byte == 0));
        let hole = if has_hole { hole_bytes(&file)? } else { 0 };
        let is_begun_hole = !start.is_empty() && start.len() < HOLE_BYTES_MIN && start.iter().all(|byte| *byte == 0);
        let is_unclear = packing.is_none() || is_begun_hole;
        Ok(Handle {
            file,
            metadata,
            compression: packing.unwrap_or(Compression::None),
            is_format_unknown: is_unclear,
            hole,
        })
    }

    /// The open file.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// True if no name of the file is left.
    pub(crate) fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Reader of the content from the start.
    pub(crate) fn reader(&self) -> io::Result<OpenFile> {
        let taken = Arc::new(AtomicU64::new(0));
        let source = CountingReader { inner: OffsetReader::new(self.file.clone(), self.hole), taken: taken.clone() };
        let opened = match self.compression {
            Compression::None => OpenFile::over(Box::new(source), taken, Arc::default(), Compression::None),
            Compression::Zip => OpenFile::over(unzip(&self.file)?, taken, Arc::default(), Compression::Zip),
            packing => {
                let has_garbage = Arc::new(AtomicBool::new(false));
                let unpacked = packing.decompress(BufReader::with_capacity(READ_CHUNK_BYTES, source), &has_garbage)?;
                OpenFile::over(unpacked, taken, has_garbage, packing)
            }
        };
        Ok(self.describe(opened))
    }

    /// Reader of the content from `offset` on, or from the start if the file is compressed; also returns the actual
    /// offset.
    pub(crate) fn reader_at(&self, offset: u64) -> io::Result<(OpenFile, u64)> {
        if self.compression != Compression::None {
            return Ok((self.reader()?, 0));
        }
        let taken = Arc::new(AtomicU64::new(0));
        let source =
            CountingReader { inner: OffsetReader::new(self.file.clone(), self.hole + offset), taken: taken.clone() };
        let opened = OpenFile::over(Box::new(source), taken, Arc::default(), Compression::None);
        Ok((self.describe(opened), offset))
    }

    fn describe(&self, opened: OpenFile) -> OpenFile {
        let (stored_bytes, modified_ns) =
            (self.metadata.len() - self.hole.min(self.metadata.len()), self.modified_ns());
        OpenFile {
            stored_bytes,
            modified_ns,
            is_stream: false,
            is_at_hole: self.compression != Compression::None,
            ..opened
        }
    }

    /// Reads content of a plain file at an offset.
    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, self.hole + offset)
    }

    /// Reads at `offset` until `into` is full.
    pub(crate) fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, self.hole + offset)
    }

    /// Whole lines sampled from a plain file at even distances, including the last lines; empty if the file is
    /// compressed, or so small that the bytes read to detect its format cover it.
    pub(crate) fn samples(&self) -> io::Result<Vec<u8>> {
        let bytes = self.content_bytes();
        if self.compression != Compression::None || bytes <= SAMPLE_BYTES as u64 {
            return Ok(Vec::new());
        }
        let step = (bytes - BYTES_PER_SAMPLE as u64) / SAMPLES_MAX;
        let mut place = [0; BYTES_PER_SAMPLE];
        let mut samples = Vec::new();
        for at in 1..=SAMPLES_MAX {
            let read = self.read_at(&mut place, at * step)?;
            let read = &place[..read];
            // The first and the last line may be parts of lines.
            if let (Some(first), Some(last)) = (memchr::memchr(b'\n', read), memchr::memrchr(b'\n', read)) {
                samples.extend_from_slice(&read[(first + 1).min(last)..=last]);
            }
        }
        Ok(samples)
    }

    /// Lines sampled from the file, and if it is not compressed, lines of sibling logs in the same folder. They may
    /// settle the order of day and month in dates.
    pub(crate) fn samples_with_siblings(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut samples = self.samples()?;
        if self.compression == Compression::None {
            samples.extend(sibling_lines(self, path));
        }
        Ok(samples)
    }

    /// Content size of a plain file when it was opened.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.metadata.len().saturating_sub(self.hole)
    }

    /// Current content size, and last modification.
    pub(crate) fn content_bytes_now(&self) -> io::Result<(u64, Option<i64>)> {
        let metadata = self.file.metadata()?;
        Ok((metadata.len().saturating_sub(self.hole), modified_ns(&metadata)))
    }

    /// Last modification when the file was opened, nanoseconds since the epoch.
    pub(crate) fn modified_ns(&self) -> Option<i64> {
        modified_ns(&self.metadata)
    }

    /// True if the file's compressed content is complete, even if damaged. A plain file is always complete.
    pub(crate) fn is_complete(&self) -> bool {
        if self.compression == Compression::None {
            return true;
        }
        let ends_early = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
        match self.read_through() {
            Ok(file) => !file.fault().is_some_and(|fault| ends_early(&fault)),
            Err(error) => !ends_early(&error),
        }
    }

    /// True if the compressed content is followed by bytes that are not read.
    pub(crate) fn has_unread_end(&self) -> bool {
        self.compression == Compression::Gzip && self.read_through().is_ok_and(|file| file.has_garbage())
    }

    /// The file after everything has been read.
    fn read_through(&self) -> io::Result<OpenFile> {
        let mut file = self.reader()?;
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        while file.read_chunk(&mut buffer).is_ok_and(|read| read > 0) {}
        Ok(file)
    }
}

/// Whole lines sampled from the file at `path` and its siblings. The lines may show the order of day and month in the
/// file's dates. Empty for standard input, pipes and compressed files.
pub fn sample_lines(path: &Path) -> Result<Vec<u8>, InputError> {
    let read = || match Handle::open(path)? {
        Some(handle) => handle.samples_with_siblings(path),
        None => Ok(Vec::new()),
    };
    let is_stdin = path.as_os_str() == STDIN;
    if is_stdin { Ok(Vec::new()) } else { read().map_err(|error| InputError::read(path, &error)) }
}

/// Number of leading NUL bytes.
fn hole_bytes(file: &File) -> io::Result<u64> {
    // The hole of a sparse file is skipped without reading if the system supports that.
    let mut at = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0)).unwrap_or(0);
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    loop {
        let read = file.read_at(&mut buffer, at)?;
        match buffer[..read].iter().position(|byte| *byte != 0) {
            Some(found) => return Ok(at + found as u64),
            None if read == 0 => return Ok(file.metadata()?.len()),
            None => at += read as u64,
        }
    }
}

impl OpenFile {
    /// Opens `path`; `-` is standard input.
    pub fn open(path: &Path) -> Result<OpenFile, InputError> {
        OpenFile::open_until(path, &Arc::default())
    }

    /// Like [`OpenFile::open`]; setting `ended` ends reading.
    pub(crate) fn open_until(path: &Path, ended: &Arc<AtomicBool>) -> Result<OpenFile, InputError> {
        let open = || -> io::Result<OpenFile> {
            if path.as_os_str() == STDIN {
                return OpenFile::of_stream(Stream::of_stdin(ended)?);
            }
            match Handle::open(path)? {
                Some(handle) => handle.reader(),
                None => OpenFile::of_stream(Stream::open(path, ended)?),
            }
        };
        open().map(|file| file.end_when(ended)).map_err(|error| InputError::read(path, &error))
    }

    /// Makes reading end once `ended` is set. A pipe checks `ended` while it waits: see [`Stream`].
    pub(crate) fn end_when(self, ended: &Arc<AtomicBool>) -> OpenFile {
        OpenFile { ended: Arc::clone(ended), ..self }
    }

    fn over(
        reader: Box<dyn Read + Send>,
        taken: Arc<AtomicU64>,
        has_garbage: Arc<AtomicBool>,
        packing: Compression,
    ) -> OpenFile {
        let reader = BufReader::with_capacity(READ_CHUNK_BYTES, reader);
        let (stored_bytes, modified_ns, is_stream) = (0, None, true);
        let (fault, is_at_hole, ended) = (None, false, Arc::default());
        OpenFile {
            reader,
            taken,
            has_garbage,
            fault,
            is_at_hole,
            compression: packing,
            stored_bytes,
            modified_ns,
            is_stream,
            ended,
        }
    }

    /// A source that can be read only once.
    pub(crate) fn of_stream(source: impl Read + Send + 'static) -> io::Result<OpenFile> {
        let (taken, has_garbage) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut reader =
            BufReader::with_capacity(READ_CHUNK_BYTES, CountingReader { inner: source, taken: taken.clone() });
        let mut head = Vec::new();
        // A pipe may deliver its first bytes one by one.
        while Compression::detect(&head).is_none() || head.is_empty() {
            if reader.by_ref().take(1).read_to_end(&mut head)? == 0 {
                break;
            }
        }
        let packing = Compression::detect(&head).unwrap_or(Compression::None);
        let unpacked = packing.decompress(rejoin(head, reader), &has_garbage)?;
        Ok(OpenFile::over(unpacked, taken, has_garbage, packing))
    }

    /// Fills `buffer`. Fewer bytes mean the end or an error; the error is returned by every later read.
    pub fn read_chunk(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.skip_hole();
        let mut filled = 0;
        while filled < buffer.len() && self.fault.is_none() {
            if self.ended.load(Ordering::Relaxed) {
                self.fault = Some((io::ErrorKind::Other, NO_CONSUMER.to_owned()));
                break;
            }
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

    /// Skips the hole before compressed content.
    fn skip_hole(&mut self) {
        let mut is_hole = false;
        while std::mem::replace(&mut self.is_at_hole, false) && self.fault.is_none() {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            match self.reader.fill_buf() {
                Ok(ahead) => {
                    let zeros = ahead.iter().position(|byte| *byte != 0).unwrap_or(ahead.len());
                    is_hole |= zeros >= HOLE_BYTES_MIN;
                    self.is_at_hole = is_hole && zeros > 0 && zeros == ahead.len();
                    let passed = if is_hole { zeros } else { 0 };
                    self.reader.consume(passed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.is_at_hole = true,
                Err(error) => self.fault = Some((error.kind(), error.to_string())),
            }
        }
    }

    /// The error that ended reading.
    pub fn fault(&self) -> Option<io::Error> {
        self.fault.as_ref().map(|(kind, text)| io::Error::new(*kind, text.clone()))
    }

    /// True at the end of the content, but not after an error.
    pub fn is_at_end(&mut self) -> bool {
        self.skip_hole();
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

    /// True if unrelated bytes follow the compressed content; they are ignored.
    pub fn has_garbage(&self) -> bool {
        self.has_garbage.load(Ordering::Relaxed)
    }

    /// Bytes of the file on disk read so far.
    pub fn stored_bytes_read(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Describes an `error` of the file at `path` after `offset` bytes of content.
    pub(crate) fn describe(&self, path: &Path, offset: u64, error: &io::Error) -> InputError {
        match self.compression {
            Compression::None => InputError::read(path, error),
            _ => InputError::Decompress { path: path.to_path_buf(), offset, reason: error.to_string() },
        }
    }
}
