//! gzip: the content of a file is the joined content of its members. The checksum and the length of a member are
//! verified before the next member is read.
//!
//! The decoder of a member checks its trailer; this reader proceeds from member to member, skips zero padding and stops
//! before other bytes, as the gzip program does. It distinguishes damaged content from truncated content, because the
//! two are handled differently.

use std::io::{self, BufRead, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::GzDecoder;

/// Magic bytes of a member.
pub(crate) const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// A source preceded by bytes that were read from it before.
pub(crate) type PrefixedReader<R> = Chain<Cursor<Vec<u8>>, R>;

/// Returns a reader of `taken`, then of the rest of `source`.
pub(crate) fn rejoin<R: BufRead>(taken: Vec<u8>, source: R) -> PrefixedReader<R> {
    Cursor::new(taken).chain(source)
}

/// Reads the content of all members.
pub(crate) struct GzipReader<R> {
    /// The current member; `None` after the last member.
    member: Option<GzDecoder<PrefixedReader<R>>>,
    has_garbage: Arc<AtomicBool>,
}

impl<R: BufRead> GzipReader<R> {
    /// Creates a reader of `source`, which begins with a member. `has_garbage` is set if other bytes follow the last
    /// member.
    pub(crate) fn new(source: R, has_garbage: Arc<AtomicBool>) -> GzipReader<R> {
        GzipReader { member: Some(GzDecoder::new(rejoin(Vec::new(), source))), has_garbage }
    }

    /// Opens the next member after the end of the current one.
    fn next_member(&mut self) -> io::Result<()> {
        let Some(ended) = self.member.take() else { return Ok(()) };
        let (_, mut source) = ended.into_inner().into_inner();
        let padding_ended = |byte: &u8| *byte != 0;
        loop {
            let ahead = source.fill_buf()?;
            let zeros = ahead.iter().position(padding_ended).unwrap_or(ahead.len());
            let is_over = ahead.is_empty() || zeros < ahead.len();
            source.consume(zeros);
            if is_over {
                break;
            }
        }
        let mut magic = Vec::with_capacity(GZIP_MAGIC.len());
        source.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut magic)?;
        if magic == GZIP_MAGIC {
            self.member = Some(GzDecoder::new(rejoin(magic, source)));
        } else if !magic.is_empty() {
            self.has_garbage.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            match member.read(into) {
                Ok(0) => self.next_member()?,
                Ok(read) => return Ok(read),
                Err(error) => return Err(describe_error(error, member)),
            }
        }
        Ok(0)
    }
}

/// Describes the error of `member`; only a wrong checksum or length becomes `InvalidData`.
fn describe_error<R: BufRead>(error: io::Error, member: &mut GzDecoder<R>) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "the file ends early; it was truncated, or is still being written")
        }
        // After a wrong trailer, the decoder returns end of file; after any other error, it returns the error again.
        io::ErrorKind::InvalidInput if member.header().is_some() && matches!(member.read(&mut [0]), Ok(0)) => {
            let text = "its checksum or length does not match: events already read from it may be wrong; once it is \
                        repaired, it is read again from its start";
            io::Error::new(io::ErrorKind::InvalidData, text)
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => io::Error::other(error.to_string()),
        _ => error,
    }
}
