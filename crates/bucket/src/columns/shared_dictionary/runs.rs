//! Shared dictionaries in runs: a block per run of entries, and a directory that locates them.
//!
//! The value of a code is found in one run, so a reader fetches some kilobytes for a few values instead of the whole
//! dictionary. The runs are consecutive and the directory follows them, so the whole dictionary is one range.
//!
//! Not here: when the whole dictionary is read (`super::cache`).

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_stdx::number::u32_of;

use crate::block::{BlockKind, BlockRef, BlockWriter, open_block};
use crate::columns::shared_dictionary::read::{EntryForm, SharedDictionary};
use crate::columns::shared_dictionary::{MAX_ENTRY_BITS, MAX_SHARED_ENTRIES, SharedAt};
use crate::error::{BlockPosition, BucketError};
use crate::source::ObjectSource;
use crate::wire::{Cursor, Malformed, put_varint};

/// Number of entries in a run. A run of ids takes 15 KB, about two blocks of a remote object in the cache.
pub(super) const RUN_ENTRIES: usize = 1_024;
/// Maximum number of entries in a run.
const MAX_RUN_ENTRIES: usize = 1 << 16;
/// Maximum bytes of an encoded run: the bits of every entry, with room for headers.
const MAX_RUN_BYTES: usize = MAX_RUN_ENTRIES * (MAX_ENTRY_BITS as usize / 8 + 8);
/// Maximum bytes of a directory: a length per run, the form of the entries, and headers.
const MAX_DIRECTORY_BYTES: usize = 5 * MAX_SHARED_ENTRIES + 1_024;
/// If more than one in this many runs is in memory, the whole dictionary is worth reading.
const MANY_RUNS: usize = 4;

/// Writes entries, which ascend, as runs and their directory.
pub(super) fn write_runs(
    entries: &[u128],
    form: &EntryForm,
    blocks: &mut BlockWriter,
) -> Result<SharedAt, BucketError> {
    assert!(entries.is_sorted_by(|left, right| left < right), "entries ascend and differ");
    let start = blocks.object.len();
    let (mut run, mut directory) = (Vec::new(), Vec::new());
    form.put(entries.len(), &mut directory);
    put_varint(&mut directory, RUN_ENTRIES as u64);
    for entries in entries.chunks(RUN_ENTRIES) {
        run.clear();
        form.put_run(entries, &mut run);
        let stored_len = blocks.write_stored(BlockKind::SharedDictionaryRun, &run);
        put_varint(&mut directory, u64::from(stored_len));
    }
    let offset = blocks.object.len();
    let kind = BlockKind::SharedDictionaryDirectory;
    let stored_len = blocks.write(kind, &directory)?;
    let block = BlockRef { kind, offset: offset as u64, stored_len };
    Ok(SharedAt { block, run_bytes: (offset - start) as u64 })
}

impl SharedAt {
    /// All blocks of the dictionary.
    pub(crate) fn blocks(&self, source: &ObjectSource) -> Result<Vec<BlockRef>, BucketError> {
        let mut blocks = vec![self.block];
        if self.has_runs() {
            blocks.extend(RunDirectory::fetch(source, self)?.runs);
        }
        Ok(blocks)
    }
}

/// The form of the entries and the location of each run.
#[derive(Debug)]
struct RunDirectory {
    form: EntryForm,
    entries: usize,
    run_entries: usize,
    runs: Vec<BlockRef>,
}

impl RunDirectory {
    fn fetch(source: &ObjectSource, at: &SharedAt) -> Result<RunDirectory, BucketError> {
        let place = BlockPosition::outside_slabs(at.block.kind.name(), at.block.offset);
        RunDirectory::open(&source.fetch_block(place, at.block.stored_len as usize)?, at)
    }

    /// Reads the stored block of `at`.
    fn open(stored: &[u8], at: &SharedAt) -> Result<RunDirectory, BucketError> {
        let place = BlockPosition::outside_slabs(at.block.kind.name(), at.block.offset);
        let raw = open_block(stored, at.block.kind, place, MAX_DIRECTORY_BYTES)?.decode()?;
        place.map_malformed(RunDirectory::read(&raw, at))
    }

    fn read(raw: &[u8], at: &SharedAt) -> Result<RunDirectory, Malformed> {
        let mut cursor = Cursor::new(raw);
        let (entries, form) = EntryForm::read(&mut cursor)?;
        let run_entries = cursor.count("entries of a run", MAX_RUN_ENTRIES)?;
        if run_entries == 0 {
            return Err(Malformed::new("a run has no entries"));
        }
        let Range { start, .. } = at.range();
        let mut offset = start;
        let mut runs = Vec::new();
        for _ in 0..entries.div_ceil(run_entries) {
            let stored_len = cursor.count32("length of a run", MAX_RUN_BYTES)?;
            runs.push(BlockRef { kind: BlockKind::SharedDictionaryRun, offset, stored_len });
            offset += u64::from(stored_len);
        }
        cursor.finish("the directory of a shared dictionary")?;
        match offset == at.block.offset {
            true => Ok(RunDirectory { form, entries, run_entries, runs }),
            false => Err(Malformed(format!("its runs have {} bytes of {}", offset - start, at.run_bytes))),
        }
    }

    /// Appends the entries of a run.
    fn read_run(&self, number: usize, stored: &[u8], entries: &mut Vec<u128>) -> Result<(), BucketError> {
        let at = self.runs[number];
        let place = BlockPosition::outside_slabs(at.kind.name(), at.offset);
        let block = open_block(stored, at.kind, place, MAX_RUN_BYTES)?;
        let mut cursor = Cursor::new(block.stored()?);
        let count = self.run_entries.min(self.entries - number * self.run_entries);
        place.map_malformed(self.form.read_run(&mut cursor, count, entries))?;
        place.map_malformed(cursor.finish("a run of entries"))
    }
}

/// Decodes a whole dictionary, given the bytes of its runs and directory.
pub(super) fn decode_whole(stored: &[u8], at: &SharedAt) -> Result<SharedDictionary, BucketError> {
    let (of_runs, of_directory) = stored.split_at(at.run_bytes as usize);
    let directory = RunDirectory::open(of_directory, at)?;
    let mut entries = Vec::new();
    let mut rest = of_runs;
    for (number, run) in directory.runs.iter().enumerate() {
        // This cannot panic: the directory was accepted only because its runs fill exactly these bytes.
        let (run, after) = rest.split_at(run.stored_len as usize);
        directory.read_run(number, run, &mut entries)?;
        rest = after;
    }
    let place = BlockPosition::outside_slabs(at.block.kind.name(), at.block.offset);
    place.map_malformed(SharedDictionary::of(directory.form, entries))
}

/// A dictionary of which single runs are in memory.
#[derive(Debug)]
pub(crate) struct DictionaryRuns {
    directory: RunDirectory,
    decoded: Vec<OnceLock<Box<[u128]>>>,
    /// Number of decoded runs.
    count: AtomicUsize,
}

impl DictionaryRuns {
    /// Opens the dictionary at `at`, without any run.
    pub(super) fn open(source: &ObjectSource, at: &SharedAt) -> Result<DictionaryRuns, BucketError> {
        let directory = RunDirectory::fetch(source, at)?;
        let decoded = directory.runs.iter().map(|_| OnceLock::new()).collect();
        Ok(DictionaryRuns { directory, decoded, count: AtomicUsize::new(0) })
    }

    pub(super) fn len(&self) -> u32 {
        u32_of(self.directory.entries)
    }

    /// Whether so many runs are in memory that the whole dictionary is worth reading.
    pub(super) fn are_many(&self) -> bool {
        self.count.load(Ordering::Relaxed) * MANY_RUNS > self.decoded.len()
    }

    /// Byte range of the run that has this code; `None` if the run is in memory or does not exist.
    pub(super) fn missing(&self, code: u32) -> Option<Range<u64>> {
        let number = code as usize / self.directory.run_entries;
        match self.decoded.get(number)?.get() {
            Some(_) => None,
            None => Some(self.directory.runs[number].range()),
        }
    }

    /// The number of one component for this code; `None` if either does not exist. Reads the run of the code unless
    /// the run is in memory.
    pub(super) fn number(&self, source: &ObjectSource, component: u32, code: u32) -> Result<Option<i64>, BucketError> {
        let (number, at) = (code as usize / self.directory.run_entries, code as usize % self.directory.run_entries);
        let (Some(run), Some((component, shift))) =
            (self.decoded.get(number), self.directory.form.component(component))
        else {
            return Ok(None);
        };
        let entries = match run.get() {
            Some(entries) => entries,
            None => {
                let entries = self.read_run(source, number)?;
                self.count.fetch_add(1, Ordering::Relaxed);
                run.get_or_init(|| entries)
            }
        };
        Ok(entries.get(at).map(|entry| component.number_in(*entry, shift)))
    }

    fn read_run(&self, source: &ObjectSource, number: usize) -> Result<Box<[u128]>, BucketError> {
        let run = self.directory.runs[number];
        let place = BlockPosition::outside_slabs(run.kind.name(), run.offset);
        let stored = source.fetch_block(place, run.stored_len as usize)?;
        let mut entries = Vec::new();
        self.directory.read_run(number, &stored, &mut entries)?;
        match entries.is_sorted_by(|left, right| left < right) {
            true => Ok(entries.into()),
            false => Err(place.corrupt("the entries of a run do not ascend")),
        }
    }
}
