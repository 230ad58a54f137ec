//! One file of the cache: up to 128 neighbouring blocks of an object, each with its checksum.
//!
//! ```text
//! magic        "QRYBLK02"
//! sums         8 bytes for each of 128 blocks: XXH3-64 of the block, seeded with its number in the object; 0: absent
//! zeros        up to 4096
//! blocks       at 4096 + n * 8192
//! ```
//!
//! Nothing is synced. If a block is lost in a crash, its checksum does not match, and the block is fetched again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{BLOCK_BYTES, BlockSet, EXTENT_BLOCKS, lock};

const MAGIC: &[u8; 8] = b"QRYBLK02";
const SUM_BYTES: usize = 8;
const HEADER_BYTES: usize = MAGIC.len() + EXTENT_BLOCKS * SUM_BYTES;
/// Offset of the first block.
const BLOCKS_OFFSET: u64 = 4_096;

/// An open extent file.
#[derive(Debug)]
pub(super) struct ExtentFile {
    file: File,
    /// Number of its first block within the object.
    first: u64,
    sums: Mutex<[u64; EXTENT_BLOCKS]>,
}

impl ExtentFile {
    /// Creates a file, replacing an existing one.
    pub(super) fn create(path: &Path, first: u64) -> io::Result<ExtentFile> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.write_all_at(MAGIC, 0)?;
        Ok(ExtentFile { file, first, sums: Mutex::new([0; EXTENT_BLOCKS]) })
    }

    /// Opens an existing file; fails if it is not an extent file.
    pub(super) fn open(path: &Path, first: u64, writes: bool) -> io::Result<ExtentFile> {
        let file = OpenOptions::new().read(true).write(writes).open(path)?;
        let mut header = [0; HEADER_BYTES];
        let mut read = 0;
        while read < HEADER_BYTES {
            match file.read_at(&mut header[read..], read as u64)? {
                0 => break,
                some => read += some,
            }
        }
        let Some((magic, body)) = header.split_first_chunk::<8>() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if magic != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut sums = [0; EXTENT_BLOCKS];
        for (sum, bytes) in sums.iter_mut().zip(body.as_chunks::<SUM_BYTES>().0) {
            *sum = u64::from_le_bytes(*bytes);
        }
        Ok(ExtentFile { file, first, sums: Mutex::new(sums) })
    }

    /// Blocks with a checksum, as a bit set.
    pub(super) fn present_blocks(&self) -> BlockSet {
        let sums = lock(&self.sums);
        sums.iter().enumerate().fold(0, |bits, (at, sum)| bits | BlockSet::from(*sum != 0) << at)
    }

    /// Writes neighbouring blocks, starting with block `block` of the object; the last may be short.
    pub(super) fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let at = self.place(block, bytes.len())?;
        self.file.write_all_at(bytes, BLOCKS_OFFSET + at as u64 * BLOCK_BYTES)?;
        let sums: Vec<u64> =
            (block..).zip(bytes.chunks(BLOCK_BYTES as usize)).map(|(block, bytes)| sum_of(block, bytes)).collect();
        let written: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        self.file.write_all_at(&written, (MAGIC.len() + at * SUM_BYTES) as u64)?;
        lock(&self.sums)[at..at + sums.len()].copy_from_slice(&sums);
        Ok(())
    }

    /// Reads the bytes from the start of block `block` of the object on; `false` if a checksum does not match.
    pub(super) fn read_into(&self, block: u64, bytes: &mut [u8]) -> io::Result<bool> {
        let at = self.place(block, bytes.len())?;
        match self.file.read_exact_at(bytes, BLOCKS_OFFSET + at as u64 * BLOCK_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            done => done?,
        }
        let sums = *lock(&self.sums);
        let mut blocks = (block..).zip(bytes.chunks(BLOCK_BYTES as usize)).zip(&sums[at..]);
        Ok(blocks.all(|((block, bytes), sum)| *sum == sum_of(block, bytes)))
    }

    /// Index within the file of block `block`, where `len` bytes start.
    fn place(&self, block: u64, len: usize) -> io::Result<usize> {
        let at = block.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let fits =
            |at: &usize| at.checked_add(len.div_ceil(BLOCK_BYTES as usize)).is_some_and(|end| end <= EXTENT_BLOCKS);
        at.filter(fits).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

/// Checksum of a block; never 0.
fn sum_of(block: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, block).max(1)
}
