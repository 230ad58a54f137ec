//! The write buffer between records and a segment.
//!
//! The buffer is page-aligned, and each byte has the same offset within its page as within its block of the file, so
//! that the buffer can be written with direct I/O. The log is hardly ever read, and writes through the page cache would
//! cost an additional copy and fresh pages.
/// Block size to which memory and file are aligned. Disks require this alignment or less for direct I/O.
pub(crate) const BLOCK_BYTES: usize = 4 << 10;
/// Maximum number of bytes collected into one write.
const WRITE_BUFFER_BYTES: usize = 1 << 20;

use quarry_stdx::number::usize_of;

/// Bytes to be written to a file, starting at a given offset.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// Index of the first aligned byte; room for [`WRITE_BUFFER_BYTES`] begins there.
    base: usize,
    /// Range of the bytes that are collected and not written yet.
    from: usize,
    upto: usize,
    /// File offset of `from`.
    at: u64,
}

impl WriteBuffer {
    /// An empty buffer.
    pub(crate) fn new() -> WriteBuffer {
        WriteBuffer { bytes: Vec::new(), base: 0, from: 0, upto: 0, at: 0 }
    }

    /// Discards collected bytes; the next byte belongs at `offset` of the file.
    pub(crate) fn begin(&mut self, offset: u64) {
        if self.bytes.is_empty() {
            self.bytes = vec![0; WRITE_BUFFER_BYTES + BLOCK_BYTES];
            // If the alignment is unknown, writes are only slower.
            self.base = Some(self.bytes.as_ptr().align_offset(BLOCK_BYTES)).filter(|at| *at < BLOCK_BYTES).unwrap_or(0);
        }
        self.at = offset;
        self.from = self.base + usize_of(offset % BLOCK_BYTES as u64);
        self.upto = self.from;
    }

    /// Adds bytes; `put` writes full buffers at their offset.
    pub(crate) fn add<E>(
        &mut self,
        mut bytes: &[u8],
        put: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let room = self.base + WRITE_BUFFER_BYTES - self.upto;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.bytes[self.upto..self.upto + now.len()].copy_from_slice(now);
            self.upto += now.len();
            bytes = later;
            if now.len() == room {
                self.put(put)?;
            }
        }
        Ok(())
    }

    /// Writes the remaining bytes; returns the file offset after them.
    pub(crate) fn end<E>(&mut self, put: &mut impl FnMut(&[u8], u64) -> Result<(), E>) -> Result<u64, E> {
        self.put(put)?;
        Ok(self.at)
    }

    fn put<E>(&mut self, put: &mut impl FnMut(&[u8], u64) -> Result<(), E>) -> Result<(), E> {
        if self.upto > self.from {
            put(&self.bytes[self.from..self.upto], self.at)?;
        }
        self.at += (self.upto - self.from) as u64;
        self.from = self.base + usize_of(self.at % BLOCK_BYTES as u64);
        self.upto = self.from;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_order_at_aligned_offsets() {
        let mut gather = WriteBuffer::new();
        let pieces: Vec<Vec<u8>> = [0, 1, 70_000, WRITE_BUFFER_BYTES, 3, 2 * WRITE_BUFFER_BYTES + 5_000, 9]
            .iter()
            .map(|len| (0..*len).map(|at| (at * 31 % 251) as u8).collect())
            .collect();
        for offset in [0_u64, 1, 4_095, 4_096, 123_457] {
            let mut file = vec![0; offset as usize];
            let mut puts = 0;
            let mut put = |bytes: &[u8], at: u64| -> Result<(), ()> {
                assert_eq!(at, file.len() as u64);
                let place = bytes.as_ptr().align_offset(BLOCK_BYTES);
                assert_eq!((at as usize + place) % BLOCK_BYTES, 0);
                file.extend_from_slice(bytes);
                puts += 1;
                Ok(())
            };
            gather.begin(offset);
            pieces.iter().for_each(|piece| gather.add(piece, &mut put).unwrap());
            let end = gather.end(&mut put).unwrap();
            assert_eq!(puts, 4);
            assert_eq!(end, file.len() as u64);
            assert!(file[offset as usize..] == pieces.concat());
        }
    }

    #[test]
    fn failed_bytes_are_not_written_later() {
        let mut gather = WriteBuffer::new();
        gather.begin(10);
        gather.add(b"lost", &mut |_, _| Ok::<(), ()>(())).unwrap();
        assert_eq!(gather.end(&mut |_, _| Err(())), Err(()));
        gather.begin(10);
        gather.add(b"kept", &mut |_, _| Ok::<(), ()>(())).unwrap();
        let mut seen = Vec::new();
        let end = gather.end(&mut |bytes, at| {
            seen.push((bytes.to_vec(), at));
            Ok::<(), ()>(())
        });
        assert_eq!((end, seen), (Ok(14), vec![(b"kept".to_vec(), 10)]));
    }
}
