//! A pipe or device: read when data is available, abandoned when its content is no longer needed.
//!
//! A pipe may stay silent forever, even before its first writer opens it. It is therefore opened and read without
//! blocking, and the reader checks between polls whether to continue.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// Error that ends reading.
pub(super) const NO_CONSUMER: &str = "nothing consumes its output any more";
/// Interval at which the reader checks whether to continue.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A source that can be read only once.
pub(super) struct Stream {
    file: File,
    /// Set when the content is no longer needed.
    ended: Arc<AtomicBool>,
    /// Whether the end was read. Further reads are avoided, because a terminal would resume after Ctrl-D, so that the
    /// user would have to type Ctrl-D again for each read.
    is_over: bool,
}

impl Stream {
    pub(super) fn open(path: &Path, ended: &Arc<AtomicBool>) -> io::Result<Stream> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(Stream { file, ended: Arc::clone(ended), is_over: false })
    }

    pub(super) fn of_stdin(ended: &Arc<AtomicBool>) -> io::Result<Stream> {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Stream { file, ended: Arc::clone(ended), is_over: false })
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.is_over {
            if self.ended.load(Ordering::Relaxed) {
                return Err(io::Error::other(NO_CONSUMER));
            }
            // Until its first writer opens it, a pipe reports an end of file although data may follow.
            let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut polled, Some(&POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.file.read(into) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                read => {
                    self.is_over = matches!(read, Ok(0)) && !into.is_empty();
                    return read;
                }
            }
        }
        Ok(0)
    }
}
