//! Blocks: the units of an object, besides its header and trailer.
//!
//! A block is a 16-byte head (kind, codec, version, a zero byte, raw length, checksum) and a payload. The checksum
//! covers the payload and is seeded with the first eight bytes of the head, so every byte of a block is checked.

use std::ops::Range;

use std::cell::RefCell;

use quarry_stdx::number::{u8_of, u32_of};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zstd::zstd_safe::{DCtx, DDict, ErrorCode, get_error_name};

use crate::error::{BlockPosition, BucketError};
use crate::wire::{Cursor, Malformed, put_varint};

/// Bytes before a block's payload.
pub(crate) const BLOCK_HEAD_BYTES: usize = 16;
/// Layout version written to the head of every block; all block kinds still have their first version.
const BLOCK_VERSION: u8 = 1;
/// zstd level of everything except text and columns; directories and term dictionaries gain little from a higher level.
pub(crate) const STRUCTURE_LEVEL: i32 = 1;
/// Compression ratio at or below which bytes count as hardly repeating.
const POOR_COMPRESSION_RATIO_MAX: usize = 3;

/// Kind of a block. New kinds get new numbers; a reader reports an unknown number as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum BlockKind {
    Time = 1,
    IndexTime = 2,
    Meta = 3,
    Lengths = 4,
    Fields = 5,
    Text = 6,
    TermDictionary = 7,
    TermDictionaryDirectory = 8,
    FieldTermDictionary = 9,
    FieldTermDictionaryDirectory = 10,
    SlabHead = 11,
    Directory = 12,
    ColumnLayout = 13,
    ColumnChunk = 14,
    ColumnDictionary = 15,
    ColumnPool = 16,
    SharedDictionary = 17,
    Locator = 18,
    LocatorPart = 19,
    SharedDictionaryRun = 20,
    SharedDictionaryDirectory = 21,
    LocatorDirectory = 22,
    TextFieldTermDirectory = 23,
    TextDictionary = 24,
}

/// Kind, offset and length of a block in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef {
    pub(crate) kind: BlockKind,
    pub(crate) offset: u64,
    pub(crate) stored_len: u32,
}

impl BlockRef {
    /// Byte range in the object.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(u64::from(self.stored_len))
    }
}

impl BlockKind {
    pub(crate) const ALL: [BlockKind; 24] = [
        BlockKind::Time,
        BlockKind::IndexTime,
        BlockKind::Meta,
        BlockKind::Lengths,
        BlockKind::Fields,
        BlockKind::Text,
        BlockKind::TermDictionary,
        BlockKind::TermDictionaryDirectory,
        BlockKind::FieldTermDictionary,
        BlockKind::FieldTermDictionaryDirectory,
        BlockKind::SlabHead,
        BlockKind::Directory,
        BlockKind::ColumnLayout,
        BlockKind::ColumnChunk,
        BlockKind::ColumnDictionary,
        BlockKind::ColumnPool,
        BlockKind::SharedDictionary,
        BlockKind::Locator,
        BlockKind::LocatorPart,
        BlockKind::SharedDictionaryRun,
        BlockKind::SharedDictionaryDirectory,
        BlockKind::LocatorDirectory,
        BlockKind::TextFieldTermDirectory,
        BlockKind::TextDictionary,
    ];

    /// Number that identifies this kind in stored blocks.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<BlockKind> {
        BlockKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether blocks of this kind are compressed at the requested level; a low level suffices for other kinds.
    fn is_text(self) -> bool {
        use BlockKind::{ColumnDictionary, ColumnLayout, ColumnPool, Text, TextDictionary};
        matches!(self, Text | ColumnLayout | ColumnDictionary | ColumnPool | TextDictionary)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            BlockKind::Time => "time",
            BlockKind::IndexTime => "index time",
            BlockKind::Meta => "metadata code",
            BlockKind::Lengths => "event length",
            BlockKind::Fields => "indexed field",
            BlockKind::Text => "text",
            BlockKind::TermDictionary => "term dictionary",
            BlockKind::TermDictionaryDirectory => "term dictionary directory",
            BlockKind::FieldTermDictionary => "field term dictionary",
            BlockKind::FieldTermDictionaryDirectory => "field term dictionary directory",
            BlockKind::SlabHead => "slab head",
            BlockKind::Directory => "directory",
            BlockKind::ColumnLayout => "column layout",
            BlockKind::ColumnChunk => "column",
            BlockKind::ColumnDictionary => "column dictionary",
            BlockKind::ColumnPool => "column pool",
            BlockKind::SharedDictionary => "shared dictionary",
            BlockKind::Locator => "locator",
            BlockKind::LocatorPart => "locator part",
            BlockKind::SharedDictionaryRun => "shared dictionary run",
            BlockKind::SharedDictionaryDirectory => "shared dictionary directory",
            BlockKind::LocatorDirectory => "locator directory",
            BlockKind::TextFieldTermDirectory => "field term dictionary directory without values of texts",
            BlockKind::TextDictionary => "text dictionary",
        }
    }
}

/// Payload as it is.
const CODEC_STORED: u8 = 0;
/// Payload is one zstd frame.
const CODEC_ZSTD: u8 = 1;
/// Payload is a list of parts, each stored as it is or as one zstd frame; for streams of different kinds of bytes.
const CODEC_PARTS: u8 = 2;

thread_local! {
    /// A decompression context is 150 KB; one per thread serves every read.
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Writes blocks to the end of an object.
pub(crate) struct BlockWriter {
    pub(crate) object: Vec<u8>,
    text: zstd::bulk::Compressor<'static>,
    text_level: i32,
    structure: zstd::bulk::Compressor<'static>,
    scratch: Vec<u8>,
    fast: Vec<u8>,
}

impl BlockWriter {
    pub(crate) fn new(object: Vec<u8>, text_level: i32) -> Result<BlockWriter, BucketError> {
        let compressor = |level| zstd::bulk::Compressor::new(level).map_err(|error| compression_error(&error));
        let mut text = compressor(text_level)?;
        search_thoroughly(&mut text, text_level)?;
        Ok(BlockWriter {
            object,
            text,
            text_level,
            structure: compressor(STRUCTURE_LEVEL)?,
            scratch: Vec::new(),
            fast: Vec::new(),
        })
    }

    /// Appends a block, compressed if that is smaller. Returns its stored size, including the head.
    pub(crate) fn write(&mut self, kind: BlockKind, raw: &[u8]) -> Result<u32, BucketError> {
        let compressor = if kind.is_text() { &mut self.text } else { &mut self.structure };
        let smaller = compress(compressor, raw, &mut self.scratch)?;
        let (codec, payload) = if smaller { (CODEC_ZSTD, &self.scratch[..]) } else { (CODEC_STORED, raw) };
        Ok(put_block(&mut self.object, kind, codec, raw.len(), payload))
    }

    /// Appends a block without trying to compress its bytes, because they are packed already.
    pub(crate) fn write_stored(&mut self, kind: BlockKind, raw: &[u8]) -> u32 {
        put_block(&mut self.object, kind, CODEC_STORED, raw.len(), raw)
    }

    /// Compresses bytes at the level of text, for blocks that record which of their parts are compressed. `None` if the
    /// result is not smaller.
    pub(crate) fn compress_text(&mut self, raw: &[u8]) -> Result<Option<&[u8]>, BucketError> {
        Ok(compress(&mut self.text, raw, &mut self.scratch)?.then_some(&self.scratch[..]))
    }

    /// Like [`BlockWriter::compress_text`], but also tries the fast level on bytes that hardly repeat, and returns the
    /// smaller result: for such bytes, for example ids, entropy coding without a search for matches gives the better
    /// result.
    pub(crate) fn compress_smallest(&mut self, raw: &[u8]) -> Result<Option<&[u8]>, BucketError> {
        let is_smaller = compress(&mut self.text, raw, &mut self.scratch)?;
        if self.scratch.len() * POOR_COMPRESSION_RATIO_MAX < raw.len() {
            return Ok(is_smaller.then_some(&self.scratch[..]));
        }
        let is_fast_smaller = compress(&mut self.structure, raw, &mut self.fast)?;
        let best = if self.fast.len() < self.scratch.len() { &self.fast } else { &self.scratch };
        Ok((is_smaller || is_fast_smaller).then_some(&best[..]))
    }

    /// zstd level of text.
    pub(crate) fn text_level(&self) -> i32 {
        self.text_level
    }

    /// Appends a block of separately compressed parts.
    pub(crate) fn write_parts(&mut self, kind: BlockKind, parts: &[&[u8]]) -> Result<u32, BucketError> {
        let mut payload = vec![u8_of(parts.len())];
        for part in parts {
            let smaller = compress(&mut self.structure, part, &mut self.scratch)?;
            let stored = if smaller { &self.scratch[..] } else { part };
            put_varint(&mut payload, part.len() as u64);
            put_varint(&mut payload, stored.len() as u64);
            payload.extend_from_slice(stored);
        }
        let raw_len = parts.iter().map(|part| part.len()).sum();
        Ok(put_block(&mut self.object, kind, CODEC_PARTS, raw_len, &payload))
    }
}

/// Makes zstd compare more candidates at levels that are used for compaction. Words recur too often for the number of
/// comparisons of these levels; decompression takes the same time.
pub(crate) fn search_thoroughly(
    compressor: &mut zstd::bulk::Compressor<'static>,
    text_level: i32,
) -> Result<(), BucketError> {
    const LEVEL_MIN: i32 = 7;
    const SEARCH_LOG: u32 = 6;
    if text_level < LEVEL_MIN {
        return Ok(());
    }
    let parameter = zstd::zstd_safe::CParameter::SearchLog(SEARCH_LOG);
    compressor.set_parameter(parameter).map_err(|error| compression_error(&error))
}

/// Compresses `raw` into `scratch`; returns false if the result is not smaller.
pub(crate) fn compress(
    compressor: &mut zstd::bulk::Compressor<'static>,
    raw: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<bool, BucketError> {
    scratch.clear();
    scratch.reserve(zstd::zstd_safe::compress_bound(raw.len()));
    let written = compressor.compress_to_buffer(raw, scratch).map_err(|error| compression_error(&error))?;
    Ok(written < raw.len())
}

pub(crate) fn compression_error(error: &std::io::Error) -> BucketError {
    BlockPosition::outside_slabs("text", 0).corrupt(format!("zstd cannot compress: {error}"))
}

fn put_block(object: &mut Vec<u8>, kind: BlockKind, codec: u8, raw_len: usize, payload: &[u8]) -> u32 {
    // Every caller keeps raw lengths below MAX_SLAB_RAW_BYTES or a smaller limit, far from 2^32.
    let head = block_header(kind.code(), codec, BLOCK_VERSION, u32_of(raw_len));
    object.extend_from_slice(&head.to_le_bytes());
    object.extend_from_slice(&xxh3_64_with_seed(payload, head).to_le_bytes());
    object.extend_from_slice(payload);
    u32_of(BLOCK_HEAD_BYTES + payload.len())
}

fn block_header(kind: u8, codec: u8, version: u8, raw_len: u32) -> u64 {
    u64::from(kind) | u64::from(codec) << 8 | u64::from(version) << 16 | u64::from(raw_len) << 32
}

/// Whether a wrong checksum is an error. Not during fuzzing, because decoders must tolerate arbitrary bytes, and
/// checksums would keep all mutated bytes from the decoders.
pub(crate) fn enforces_checksums() -> bool {
    #[cfg(test)]
    let decide = tests::ENFORCE_CHECKSUMS.get();
    #[cfg(not(test))]
    let decide = !cfg!(fuzzing);
    decide
}

/// A block with a valid checksum and the expected kind.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    place: BlockPosition,
    codec: u8,
    raw_len: usize,
    payload: &'a [u8],
}

/// Checks head and checksum of the block that fills `bytes`. `raw_limit` bounds the memory that decoding may allocate.
pub(crate) fn open_block<'a>(
    bytes: &'a [u8],
    kind: BlockKind,
    place: BlockPosition,
    raw_limit: usize,
) -> Result<Block<'a>, BucketError> {
    let place = BlockPosition { block: kind.name(), ..place };
    let Some((head, payload)) = bytes.split_first_chunk::<BLOCK_HEAD_BYTES>() else {
        return Err(place.corrupt(format!("{} bytes are too few for a block", bytes.len())));
    };
    let mut cursor = Cursor::new(head);
    let word = place.map_malformed(cursor.u64("block head"))?;
    let checksum = place.map_malformed(cursor.u64("block checksum"))?;
    let found = xxh3_64_with_seed(payload, word);
    if found != checksum && enforces_checksums() {
        return Err(place.corrupt(format!("checksum is {found:016x}, {checksum:016x} was written")));
    }
    let [found_kind, codec, version, reserved, ..] = word.to_le_bytes();
    if version != BLOCK_VERSION || reserved != 0 || codec > CODEC_PARTS {
        let reason = format!("block version {version}, codec {codec}, flags {reserved}");
        return Err(BucketError::Unsupported { place, reason });
    }
    if found_kind != kind.code() {
        let found = BlockKind::from_code(found_kind).map_or("unknown", BlockKind::name);
        return Err(place.corrupt(format!("a block of kind {found} ({found_kind}) was found instead")));
    }
    let raw_len = (word >> 32) as usize;
    if raw_len > raw_limit {
        return Err(place.corrupt(format!("its {raw_len} decoded bytes exceed the limit {raw_limit}")));
    }
    Ok(Block { place, codec, raw_len, payload })
}

impl<'a> Block<'a> {
    pub(crate) fn raw_len(&self) -> usize {
        self.raw_len
    }

    pub(crate) fn position(&self) -> BlockPosition {
        self.place
    }

    /// The decoded bytes.
    pub(crate) fn decode(&self) -> Result<Vec<u8>, BucketError> {
        let mut raw = vec![0; self.raw_len];
        self.decode_into(&mut raw)?;
        Ok(raw)
    }

    /// Decodes into `raw`, which must be `raw_len` long.
    pub(crate) fn decode_into(&self, raw: &mut [u8]) -> Result<(), BucketError> {
        let decoded = match self.codec {
            CODEC_STORED | CODEC_ZSTD => decode_part(self.payload, self.codec == CODEC_ZSTD, raw),
            codec => Err(Malformed(format!("codec {codec} does not fit this kind of block"))),
        };
        self.place.map_malformed(decoded)
    }

    /// The bytes of an uncompressed block.
    pub(crate) fn stored(&self) -> Result<&'a [u8], BucketError> {
        if self.codec != CODEC_STORED || self.payload.len() != self.raw_len {
            return Err(self.place.corrupt(format!("codec {} does not fit this kind of block", self.codec)));
        }
        Ok(self.payload)
    }

    /// The decoded parts of a block of exactly `N` parts.
    pub(crate) fn decode_parts<const N: usize>(&self) -> Result<[Vec<u8>; N], BucketError> {
        self.place.map_malformed(self.try_decode_parts())
    }

    fn try_decode_parts<const N: usize>(&self) -> Result<[Vec<u8>; N], Malformed> {
        let mut cursor = Cursor::new(self.payload);
        if self.codec != CODEC_PARTS || usize::from(cursor.u8("number of parts")?) != N {
            return Err(Malformed(format!("it is not made of {N} parts")));
        }
        let mut left = self.raw_len;
        let mut parts = [const { Vec::new() }; N];
        for part in &mut parts {
            let raw_len = cursor.count("raw length of a part", left)?;
            left -= raw_len;
            let stored_len = cursor.count("stored length of a part", cursor.remaining())?;
            let stored = cursor.take(stored_len, "a part")?;
            part.resize(raw_len, 0);
            decode_part(stored, stored_len != raw_len, part)?;
        }
        match left {
            0 => cursor.finish("the parts").map(|()| parts),
            _ => Err(Malformed(format!("the parts are {left} bytes short"))),
        }
    }
}

/// Decodes one zstd frame that fills `raw`.
pub(crate) fn decode_zstd(stored: &[u8], raw: &mut [u8]) -> Result<(), Malformed> {
    decode_part(stored, true, raw)
}

fn decode_part(stored: &[u8], compressed: bool, raw: &mut [u8]) -> Result<(), Malformed> {
    if !compressed {
        if stored.len() != raw.len() {
            return Err(Malformed(format!("{} bytes are stored, {} expected", stored.len(), raw.len())));
        }
        raw.copy_from_slice(stored);
        return Ok(());
    }
    decompress(raw, |context, raw| context.decompress(raw, stored))
}

/// Decodes one zstd frame that was compressed with a dictionary and fills `raw`.
pub(crate) fn decode_zstd_with(dictionary: &DDict<'_>, stored: &[u8], raw: &mut [u8]) -> Result<(), Malformed> {
    decompress(raw, |context, raw| context.decompress_using_ddict(raw, stored, dictionary))
}

/// Fills `raw` by `decode`, which gets the thread's decompression context and returns the number of decoded bytes.
fn decompress(
    raw: &mut [u8],
    decode: impl FnOnce(&mut DCtx<'static>, &mut [u8]) -> Result<usize, ErrorCode>,
) -> Result<(), Malformed> {
    let outcome = DECOMPRESSOR.with(|slot| {
        let mut slot = slot.borrow_mut();
        let context = match &mut *slot {
            Some(context) => context,
            empty => empty.insert(DCtx::try_create()?),
        };
        Some(decode(context, raw))
    });
    match outcome {
        Some(Ok(written)) if written == raw.len() => Ok(()),
        Some(Ok(written)) => Err(Malformed(format!("{written} bytes decoded, {} expected", raw.len()))),
        Some(Err(code)) => Err(Malformed(format!("zstd: {}", get_error_name(code)))),
        None => Err(Malformed::new("zstd: there is no memory for a decompression context")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    thread_local! {
        /// Set to false by tests whose damage must reach the decoders.
        pub(crate) static ENFORCE_CHECKSUMS: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
    }

    fn encode_block(raw: &[u8]) -> Vec<u8> {
        let mut writer = BlockWriter::new(Vec::new(), 1).unwrap();
        writer.write(BlockKind::Text, raw).unwrap();
        writer.object
    }

    #[test]
    fn blocks_round_trip_and_every_flipped_bit_is_detected() {
        let raw = b"one two one two one two one two one two one two three".repeat(3);
        let stored = encode_block(&raw);
        assert!(stored.len() < raw.len());
        let place = BlockPosition::outside_slabs("text", 0);
        assert_eq!(open_block(&stored, BlockKind::Text, place, 1_000).unwrap().decode().unwrap(), raw);
        assert!(open_block(&stored, BlockKind::Text, place, 10).is_err());
        assert!(open_block(&stored, BlockKind::Time, place, 1_000).is_err());
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open_block(&flipped, BlockKind::Text, place, 1_000).is_err(), "bit {bit}");
        }
        for len in 0..stored.len() {
            assert!(open_block(&stored[..len], BlockKind::Text, place, 1_000).is_err());
        }
    }

    #[test]
    fn block_parts_round_trip() {
        let mut writer = BlockWriter::new(Vec::new(), 1).unwrap();
        let long = b"ab".repeat(500);
        writer.write_parts(BlockKind::TermDictionary, &[b"x", &long, b""]).unwrap();
        let block =
            open_block(&writer.object, BlockKind::TermDictionary, BlockPosition::outside_slabs("", 0), 2_000).unwrap();
        assert_eq!(block.decode_parts::<3>().unwrap(), [b"x".to_vec(), long, Vec::new()]);
        assert!(block.decode_parts::<2>().is_err());
        assert!(block.decode().is_err());
    }
}
