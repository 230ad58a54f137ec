//! gzip: members in a row as one content, each proven by its checksum and length before the next one begins.
//!
//! The decoder of one member checks its trailer; this reader goes from member to member, passes over zero padding and
//! stops before bytes that are no member, as the gzip program does. It says which kind of fault it met, because wrong
//! content is another matter than content that ends early.

use std::io::{self, BufRead, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::GzDecoder;

/// First bytes of every member.
pub(crate) const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// A source with the bytes before it that were looked at.
pub(crate) type Rejoined<R> = Chain<Cursor<Vec<u8>>, R>;

/// Puts `taken` back before `source`.
pub(crate) fn rejoin<R: BufRead>(taken: Vec<u8>, source: R) -> Rejoined<R> {
    Cursor::new(taken).chain(source)
}

/// Reads the content of all members.
pub(crate) struct GzipReader<R> {
    /// The member being read; none at the end.
    member: Option<GzDecoder<Rejoined<R>>>,
    has_garbage: Arc<AtomicBool>,
}

impl<R: BufRead> GzipReader<R> {
    /// A reader of `source`, which begins with a member; `has_garbage` becomes true when other bytes follow the last.
    pub(crate) fn new(source: R, has_garbage: Arc<AtomicBool>) -> GzipReader<R> {
        GzipReader { member: Some(GzDecoder::new(rejoin(Vec::new(), source))), has_garbage }
    }

    /// Goes on to what follows a member that was read to its end.
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
                Err(error) => return Err(fault_of(error, member)),
            }
        }
        Ok(0)
    }
}

/// The fault of `member` in words; a wrong checksum or length becomes `InvalidData`, no other fault does.
fn fault_of<R: BufRead>(error: io::Error, member: &mut GzDecoder<R>) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "the file ends early; it was cut off, or is still being written")
        }
        // The decoder is at its end after a wrong trailer, and repeats every other fault.
        io::ErrorKind::InvalidInput if member.header().is_some() && matches!(member.read(&mut [0]), Ok(0)) => {
            let text = "its checksum or length does not match; events read from it may be wrong, and the repaired file \
                        will be added from its start";
            io::Error::new(io::ErrorKind::InvalidData, text)
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => io::Error::other(error.to_string()),
        _ => error,
    }
}
