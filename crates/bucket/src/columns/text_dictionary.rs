//! zstd dictionaries of text columns: texts that repeat across the pages of a column are stored once.
//!
//! Every chunk of a column is compressed on its own, so that one page can be read alone. Therefore a phrase that occurs
//! in every page would be stored in every page. A dictionary trained on a sample of the column holds such phrases; it is
//! stored once per column and slab, and every chunk refers to it. Prose takes about a fifth less space with it, and is
//! decompressed in half the time.
//!
//! Training costs too much for sealing, so only compaction does it, and only for columns whose sample shows that the
//! saving exceeds the size of the dictionary.

use std::fmt;

use zstd::bulk::Compressor;
use zstd::zstd_safe::DDict;

use crate::block::{BlockWriter, compress, compression_error, decode_zstd_with, search_thoroughly};
use crate::error::BucketError;
use crate::wire::Malformed;

/// Maximum size of a dictionary in bytes. Twice the size saves one percent more of prose.
pub(super) const TEXT_DICTIONARY_BYTES_MAX: usize = 64 << 10;
/// Minimum size of a column's texts for which a dictionary is trained.
const COLUMN_BYTES_MIN: usize = 1 << 20;
/// Maximum size of the sample that a dictionary is trained on, and size of each of its pieces.
const SAMPLE_BYTES_MAX: usize = 2 << 20;
const SAMPLE_PIECE_BYTES: usize = 2 << 10;
/// Number of pages that are compressed with and without the dictionary to decide whether to use it.
const TRIAL_PAGES: usize = 3;
/// The dictionary must save at least this part of the column's compressed bytes, its own bytes included.
const SAVING_DIVISOR: usize = 32;

/// A dictionary in the form that decompression needs.
pub(super) struct TextDictionary(DDict<'static>);

impl fmt::Debug for TextDictionary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("TextDictionary").field(&self.0.sizeof()).finish()
    }
}

impl TextDictionary {
    /// A dictionary as it is stored.
    pub(super) fn read(bytes: &[u8]) -> Result<TextDictionary, Malformed> {
        DDict::try_create(bytes).map(TextDictionary).ok_or_else(|| Malformed::new("zstd rejects the dictionary"))
    }

    /// Decompresses the texts of a chunk, which fill `texts`.
    pub(super) fn decompress(&self, stored: &[u8], texts: &mut [u8]) -> Result<(), Malformed> {
        decode_zstd_with(&self.0, stored, texts)
    }
}

/// Compresses chunks with the dictionary of their column.
pub(super) struct TextCompressor {
    /// The dictionary as it is stored.
    pub(super) dictionary: Vec<u8>,
    compressor: Compressor<'static>,
    scratch: Vec<u8>,
}

impl TextCompressor {
    /// Trains a dictionary for a column with these texts per page. `None` if the texts are few, or if a dictionary would
    /// not save enough.
    pub(super) fn train(pages: &[&[u8]], blocks: &mut BlockWriter) -> Result<Option<TextCompressor>, BucketError> {
        let all: usize = pages.iter().map(|page| page.len()).sum();
        if all < COLUMN_BYTES_MIN {
            return Ok(None);
        }
        let (sample, sizes) = sample_of(pages, all);
        // Training fails if the sample has too few repetitions.
        let Ok(dictionary) = zstd::dict::from_continuous(&sample, &sizes, TEXT_DICTIONARY_BYTES_MAX) else {
            return Ok(None);
        };
        let compressor = Compressor::with_dictionary(blocks.text_level(), &dictionary);
        let mut compressor = compressor.map_err(|error| compression_error(&error))?;
        search_thoroughly(&mut compressor, blocks.text_level())?;
        let mut trained = TextCompressor { dictionary, compressor, scratch: Vec::new() };
        Ok(trained.is_worthwhile(pages, all, blocks)?.then_some(trained))
    }

    /// Whether the dictionary saves enough, according to some pages.
    fn is_worthwhile(&mut self, pages: &[&[u8]], all: usize, blocks: &mut BlockWriter) -> Result<bool, BucketError> {
        let own = blocks.compress_text(&self.dictionary)?.map_or(self.dictionary.len(), <[u8]>::len);
        let (mut texts, mut without, mut with) = (0, 0, 0);
        for page in pages.iter().step_by(pages.len().div_ceil(TRIAL_PAGES)) {
            texts += page.len();
            without += blocks.compress_smallest(page)?.map_or(page.len(), <[u8]>::len);
            with += self.compress(page)?.map_or(page.len(), <[u8]>::len);
        }
        let of_column = |bytes: usize| (bytes as u64).saturating_mul(all as u64) / texts.max(1) as u64;
        let (without, with) = (of_column(without), of_column(with) + own as u64);
        Ok(with + without / SAVING_DIVISOR as u64 <= without)
    }

    /// The compressed texts of a chunk; `None` if they are not smaller.
    pub(super) fn compress(&mut self, texts: &[u8]) -> Result<Option<&[u8]>, BucketError> {
        let is_smaller = compress(&mut self.compressor, texts, &mut self.scratch)?;
        Ok(is_smaller.then_some(&self.scratch[..]))
    }
}

/// Evenly spaced pieces of a column with `all` bytes, concatenated, and the size of each piece.
fn sample_of(pages: &[&[u8]], all: usize) -> (Vec<u8>, Vec<usize>) {
    let step = SAMPLE_PIECE_BYTES * all.div_ceil(SAMPLE_BYTES_MAX);
    let (mut sample, mut sizes) = (Vec::with_capacity(all.min(SAMPLE_BYTES_MAX)), Vec::new());
    for page in pages {
        for piece in page.chunks(step) {
            let piece = &piece[..piece.len().min(SAMPLE_PIECE_BYTES)];
            sample.extend_from_slice(piece);
            sizes.push(piece.len());
        }
    }
    assert_eq!(sample.len(), sizes.iter().sum::<usize>(), "the sample consists of its pieces");
    (sample, sizes)
}

#[cfg(test)]
pub(super) mod tests {
    use quarry_event::EventBatch;

    use super::*;
    use crate::block::tests::ENFORCE_CHECKSUMS;
    use crate::block::{BlockKind, BlockRef};
    use crate::columns::layout::DictionaryLocation;
    use crate::columns::tests::{batch_of, encoded_by_words, open};
    use crate::{BucketReader, MAX_PAGE_EVENTS, MemoryObject, verify_against};

    /// Events of five pages whose column of texts is worth a dictionary.
    pub(crate) fn prose_events() -> EventBatch {
        let sentences = prose(1, 5 * MAX_PAGE_EVENTS as u64 - 100).remove(0);
        let sentences = String::from_utf8(sentences).unwrap().replace(' ', "_");
        batch_of(sentences.split_terminator("._").map(str::to_owned))
    }

    /// Pages of sentences: one of 700 phrases and an id.
    fn prose(pages: u64, sentences: u64) -> Vec<Vec<u8>> {
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let words: Vec<String> = (0..3_000).map(|_| format!("w{:x}", next() % 0xff_ffff)).collect();
        let mut phrase = || (0..9).map(|_| &*words[next() as usize % words.len()]).collect::<Vec<&str>>().join(" ");
        let phrases: Vec<String> = (0..700).map(|_| phrase()).collect();
        let mut page = move || {
            let sentence = |_| format!("{} ticket {:08x}. ", phrases[next() as usize % phrases.len()], next());
            (0..sentences).map(sentence).collect::<String>().into_bytes()
        };
        (0..pages).map(|_| page()).collect()
    }

    fn train(pages: &[Vec<u8>], level: i32) -> Option<TextCompressor> {
        let pages: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
        TextCompressor::train(&pages, &mut BlockWriter::new(Vec::new(), level).unwrap()).unwrap()
    }

    #[test]
    fn repeated_words_are_stored_in_the_dictionary() {
        let pages = prose(60, 300);
        let mut blocks = BlockWriter::new(Vec::new(), 9).unwrap();
        let mut trained = train(&pages, 9).unwrap();
        assert!((1..=TEXT_DICTIONARY_BYTES_MAX).contains(&trained.dictionary.len()));
        let dictionary = TextDictionary::read(&trained.dictionary).unwrap();
        let (mut with, mut without) = (0, 0);
        for page in &pages {
            let stored = trained.compress(page).unwrap().unwrap();
            let mut texts = vec![0; page.len()];
            dictionary.decompress(stored, &mut texts).unwrap();
            assert_eq!(&texts, page);
            assert!(dictionary.decompress(&stored[..stored.len() - 1], &mut texts).is_err());
            assert!(dictionary.decompress(stored, &mut vec![0; page.len() - 1]).is_err());
            with += stored.len();
            without += blocks.compress_smallest(page).unwrap().unwrap().len();
        }
        assert!(with < without - without / 8, "{with} bytes instead of {without}");
        let other = TextDictionary::read(&pages[0]).unwrap();
        let stored = trained.compress(&pages[1]).unwrap().unwrap();
        assert!(other.decompress(stored, &mut vec![0; pages[1].len()]).is_err(), "the dictionary has an identifier");
    }

    #[test]
    fn events_with_a_text_dictionary_round_trip() {
        let events = [prose_events()];
        let encoded = encoded_by_words(&events, 9);
        verify_against(&encoded, &events).unwrap();
        let reader = open(&encoded);
        reader.check().unwrap();
        let kinds = reader.stored_bytes_by_kind(0).unwrap();
        assert!(kinds.iter().any(|(kind, bytes)| *kind == "text dictionary" && *bytes > 0), "{kinds:?}");
        // An older version reports a newer bucket, because the slab head has a kind of block that it does not know.
        let is_of_texts = |at: &BlockRef| at.kind == BlockKind::TextDictionary;
        assert!(reader.parts()[0].listed.iter().any(is_of_texts));
        let sealed = encoded_by_words(&events, 1);
        let kinds = open(&sealed).stored_bytes_by_kind(0).unwrap();
        assert!(kinds.iter().all(|(kind, _)| *kind != "text dictionary"), "sealing takes no time for training");
    }

    #[test]
    fn damaged_dictionaries_are_reported_or_change_texts() {
        let encoded = encoded_by_words(&[prose_events()], 9);
        let reader = open(&encoded);
        let layout = &reader.columns(0).unwrap().unwrap().layout;
        let dictionaries = layout.stored.iter().zip(0u32..).filter_map(|(stored, column)| match stored.dictionary {
            Some(DictionaryLocation::Block(at)) => Some((column, at)),
            _ => None,
        });
        let (column, at) = dictionaries.last().unwrap();
        for offset in at.range().step_by(499) {
            let mut object = encoded.object.to_vec();
            object[offset as usize] ^= 0x24;
            let read = || {
                let reader = BucketReader::open(std::sync::Arc::new(MemoryObject(object.clone().into()))).unwrap();
                let mut page = reader.template_page(0, 1).unwrap().unwrap();
                page.column(column).map(drop)
            };
            assert!(read().is_err(), "the checksum covers byte {offset}");
            ENFORCE_CHECKSUMS.set(false);
            drop(read());
            ENFORCE_CHECKSUMS.set(true);
        }
    }

    #[test]
    fn dictionaries_are_trained_only_where_they_save_space() {
        assert!(train(&prose(2, 100), 9).is_none(), "the column is small");
        let ids: Vec<Vec<u8>> = (0..4u64)
            .map(|page| (0..40_000u64).flat_map(|at| format!("{:016x}", mix(page << 32 | at)).into_bytes()).collect())
            .collect();
        assert!(train(&ids, 9).is_none(), "ids do not repeat");
        let constant = vec![b"the same line again and again; ".repeat(20_000); 3];
        assert!(train(&constant, 9).is_none(), "each page is small on its own");
    }

    fn mix(number: u64) -> u64 {
        let number = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}
