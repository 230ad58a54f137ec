//! Files added through a sink that records what it receives.

use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quarry_conf::{Layers, PropsResolver};
use quarry_event::EventBatch;

use super::*;
use crate::{FilePosition, InputError, Sink, SinkError};

mod faults;

#[derive(Default)]
pub(crate) struct MemorySink {
    pub(crate) events: Vec<String>,
    pub(crate) sources: Vec<String>,
    times: Vec<i64>,
    positions: Vec<FilePosition>,
    pub(crate) batches: usize,
    /// Text bytes of the largest batch.
    largest_bytes: usize,
    /// Batches accepted before the sink fails for good.
    fails_after: Option<usize>,
    /// Batches accepted before the sink fails once.
    pub(crate) fails_once_at: Option<usize>,
}

impl Sink for MemorySink {
    fn positions(&mut self, index: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        let fits =
            |position: &&FilePosition| position.identity.scope == index && head.starts_with(&position.identity.head);
        Ok(self.positions.iter().filter(fits).cloned().collect())
    }

    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError> {
        if self.fails_after == Some(self.batches) {
            return Err(Box::<dyn Error + Send + Sync>::from("disk on fire"));
        }
        if self.fails_once_at == Some(self.batches) {
            self.fails_once_at = None;
            return Err(Box::<dyn Error + Send + Sync>::from("disk on fire"));
        }
        self.batches += 1;
        self.largest_bytes = self.largest_bytes.max(batch.raw.len());
        assert!(batch.len() < 262_144);
        self.events.extend((0..batch.len()).map(|row| String::from_utf8(batch.raw(row).to_vec()).unwrap()));
        self.times.extend(&batch.time);
        self.sources.extend(batch.meta.iter().map(|meta| batch.metas[*meta as usize].source.to_string()));
        if let Some(position) = position {
            self.positions.retain(|known| known.identity != position.identity);
            self.positions.push(position);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

struct StopAfter(usize);

impl Progress for StopAfter {
    fn batch_added(&mut self, _: &AddProgress) -> ControlFlow<()> {
        self.0 -= 1;
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Progress that truncates a file after the first batch.
struct Empties(PathBuf);

impl Progress for Empties {
    fn batch_added(&mut self, _: &AddProgress) -> ControlFlow<()> {
        std::fs::write(&self.0, "").unwrap();
        ControlFlow::Continue(())
    }
}

fn options() -> OneshotOptions {
    OneshotOptions {
        index: "main".into(),
        host: "web-1".into(),
        host_is_fixed: false,
        source: None,
        sourcetype: None,
        ignore_positions: false,
        scope: None,
        rotation: Rotation::None,
        ended: Arc::default(),
        zone: None,
        now: 1_795_132_800_000_000_000,
    }
}

fn add_with(path: &Path, options: &OneshotOptions, sink: &mut MemorySink) -> Result<FileReport, InputError> {
    add_file(path, options, &PropsResolver::new(&Layers::new([])), sink, &mut NoProgress)
}

fn add(path: &Path, sink: &mut MemorySink) -> FileReport {
    add_with(path, &options(), sink).unwrap()
}

fn props_of(text: &str) -> PropsResolver {
    let (layer, file) = (quarry_conf::Layer::SystemLocal, "props.conf".to_owned());
    PropsResolver::new(&Layers::new([quarry_conf::ConfSource { layer, app: None, file, text: text.to_owned() }]))
}

fn lines(range: std::ops::Range<usize>) -> String {
    range.map(|at| format!("2026-11-20T10:{:02}:{:02}Z line {at} of the log\n", at / 60 % 60, at % 60)).collect()
}

fn file(folder: &tempfile::TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A zip archive of these files without data descriptors; `packed` compresses a file by `method`.
pub(crate) fn zip_of(files: &[(&str, &[u8])], method: u16, packed: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let (body, at) = (packed(content), archive.len() as u32);
        let mut common = Vec::new();
        common.extend_from_slice(&[20, 0, 0, 0]);
        common.extend_from_slice(&method.to_le_bytes());
        common.extend_from_slice(&[0; 4]);
        for number in [crc.sum(), body.len() as u32, content.len() as u32] {
            common.extend_from_slice(&number.to_le_bytes());
        }
        common.extend_from_slice(&(name.len() as u16).to_le_bytes());
        common.extend_from_slice(&[0, 0]);
        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(&common);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(&body);
        directory.extend_from_slice(b"PK\x01\x02\x14\0");
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (at, count) = (archive.len() as u32, (files.len() as u16).to_le_bytes());
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    archive.extend_from_slice(&[count, count].concat());
    archive.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    archive.extend_from_slice(&at.to_le_bytes());
    archive.extend_from_slice(&[0, 0]);
    archive
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// A text in every supported compression format.
pub(crate) fn packings(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = text.as_bytes();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(bytes).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(bytes).unwrap();
    vec![
        ("gz", gzip.finish().unwrap()),
        ("zst", zstd::encode_all(bytes, 1).unwrap()),
        ("xz", xz.finish().unwrap()),
        ("bz2", bzip2.finish().unwrap()),
        ("zip", zip_of(&[("folder/", b""), ("a.log", bytes)], 8, deflated)),
    ]
}

#[test]
fn every_compression_is_read_and_its_faults_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(0..3_000);
    for (name, packed) in packings(&text) {
        let mut sink = MemorySink::default();
        let path = file(&folder, name, &packed);
        assert_eq!(add(&path, &mut sink).events, 3_000, "{name}");
        assert!(sink.events.iter().map(String::as_str).eq(text.lines()));
        assert!(add(&path, &mut sink).skipped);
        assert!(add(&file(&folder, "plain", &text), &mut sink).skipped, "{name}");
        assert!(is_whole(&path), "{name}");
        for cut in [packed.len() - 1, packed.len() / 2] {
            let path = file(&folder, name, &packed[..cut]);
            let error = add_with(&path, &options(), &mut MemorySink::default()).unwrap_err();
            assert!(
                error.to_string().contains("truncated") || error.to_string().contains("incomplete"),
                "{name}: {error}"
            );
            assert!(!is_whole(&path), "{name} {cut}");
        }
        let mut damaged = packed.clone();
        damaged[packed.len() / 2] ^= 0x10;
        let path = file(&folder, name, &damaged);
        // A zstd frame has a checksum only if the writer requests one.
        assert!(name == "zst" || add_with(&path, &options(), &mut MemorySink::default()).is_err(), "{name}");
    }
}

fn is_whole(path: &Path) -> bool {
    open::Handle::open(path).unwrap().unwrap().is_complete()
}

#[test]
fn unsupported_archives_state_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let stored = |bytes: &[u8]| bytes.to_vec();
    let mut encrypted = zip_of(&[("a", b"x\n")], 0, stored);
    let directory = encrypted.windows(4).position(|at| at == b"PK\x01\x02").unwrap();
    encrypted[directory + 8] |= 1;
    let mut tar = vec![b'a'; 1_024];
    tar[257..262].copy_from_slice(b"ustar");
    let mut tar_gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    tar_gz.write_all(&tar).unwrap();
    let mut dictionary = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
    dictionary.dict_size(512 << 20);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&dictionary);
    let stream = liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32).unwrap();
    let mut xz = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    xz.write_all(b"one\n").unwrap();
    for (bytes, said) in [
        (zip_of(&[("a", b"x\n"), ("b", b"y\n")], 0, stored), "contains 2 files: unpack it first"),
        (zip_of(&[], 0, stored), "contains no file"),
        (zip_of(&[("a", b"x\n")], 9, stored), "compressed with method 9: unpack it first"),
        (encrypted, "is encrypted: unpack it first"),
        (tar, "a tar archive, which is not read: unpack it first"),
        (tar_gz.finish().unwrap(), "a tar archive, which is not read: unpack it first"),
        (b"7z\xbc\xaf\x27\x1c rest".to_vec(), "a 7-Zip archive"),
        (xz.finish().unwrap(), "needs more than 128 MiB of memory"),
    ] {
        let mut sink = MemorySink::default();
        let error = add_with(&file(&folder, "archive", bytes), &options(), &mut sink).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert!(sink.events.is_empty() && sink.positions.is_empty());
    }
}

#[test]
fn endless_input_ends_when_its_consumer_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let options = options();
    let (opened, ended) = (pipe.clone(), Arc::clone(&options.ended));
    let writer = std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(opened).unwrap();
        // These bytes exceed the capacity of a pipe, so the reader has read some of them; no line has ended.
        pipe.write_all(&vec![b'x'; 4 << 20]).unwrap();
        ended.store(true, Ordering::Relaxed);
        pipe
    });
    let mut sink = MemorySink::default();
    let report = add_with(&pipe, &options, &mut sink).unwrap();
    assert!(report.interrupted && sink.events.len() == 1, "{report:?}");
    drop(writer.join().unwrap());
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&vec![b'x'; 64 << 20]).unwrap();
    for bytes in [vec![b'x'; 4 << 20], packer.finish().unwrap()] {
        let report = add_with(&file(&folder, "line", bytes), &options, &mut sink).unwrap();
        assert!(report.interrupted && report.bytes == 0 && sink.events.len() == 1, "{report:?}");
        assert_eq!(sink.positions, []);
    }
}

#[test]
fn same_content_is_added_once_under_any_name_or_compression() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(0..5_000);
    let mut sink = MemorySink::default();
    let first = add(&file(&folder, "a.log", &text), &mut sink);
    assert_eq!((first.events, first.skipped, first.bytes), (5_000, false, text.len() as u64));
    let copy = add(&file(&folder, "b.log", &text), &mut sink);
    assert!(copy.skipped && copy.events == 0 && copy.resumed_at == text.len() as u64);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    assert!(add(&file(&folder, "c.gz", packer.finish().unwrap()), &mut sink).skipped);
    assert!(add(&file(&folder, "d.zst", zstd::encode_all(text.as_bytes(), 1).unwrap()), &mut sink).skipped);
    assert_eq!(sink.events.len(), 5_000);
    let other = OneshotOptions { index: "other".into(), ..options() };
    assert_eq!(add_with(&folder.path().join("a.log"), &other, &mut sink).unwrap().events, 5_000);
    let again = OneshotOptions { ignore_positions: true, ..options() };
    assert_eq!(add_with(&folder.path().join("a.log"), &again, &mut sink).unwrap().events, 5_000);
    assert!(add(&folder.path().join("a.log"), &mut sink).skipped);
}

#[test]
fn grown_files_yield_only_new_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = MemorySink::default();
    for count in [1, 3, 40, 2_000] {
        add(&file(&folder, "a.log", lines(0..count)), &mut sink);
        assert_eq!(sink.events, lines(0..count).lines().collect::<Vec<_>>(), "after {count} lines");
    }
    assert_eq!(sink.positions.len(), 1);
}

#[test]
fn rewritten_files_are_read_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = MemorySink::default();
    add(&file(&folder, "a.log", lines(0..100)), &mut sink);
    let rewritten = lines(0..50) + &lines(200..400);
    assert_eq!(add(&file(&folder, "a.log", rewritten), &mut sink).events, 250);
    // An equal first line does not make another file a copy.
    add(&file(&folder, "c.log", "hello\n"), &mut sink);
    assert_eq!(add(&file(&folder, "d.log", "hello\nworld\n"), &mut sink).events, 2);
    assert!(add(&file(&folder, "e.log", "hello\n"), &mut sink).skipped);
}

#[test]
fn interrupted_adds_resume() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(0..400_000);
    let path = file(&folder, "a.log", &text);
    let props = PropsResolver::new(&Layers::new([]));
    let mut sink = MemorySink::default();
    let stopped = add_file(&path, &options(), &props, &mut sink, &mut StopAfter(2)).unwrap();
    assert!(stopped.interrupted && sink.events.len() < 400_000 && !sink.events.is_empty());
    sink.fails_after = Some(sink.batches + 1);
    let failed = add_file(&path, &options(), &props, &mut sink, &mut NoProgress).unwrap_err();
    assert!(failed.to_string().contains("disk on fire"), "{failed}");
    sink.fails_after = None;
    let rest = add(&path, &mut sink);
    assert!(rest.resumed_at > 0);
    assert!(sink.events.iter().map(String::as_str).eq(text.lines()), "{} events", sink.events.len());
}

#[test]
fn logs_of_the_first_days_of_a_month_are_read_as_those_of_later_days() {
    let folder = tempfile::tempdir().unwrap();
    for day in 1..=20 {
        file(&folder, &format!("app-{day:02}.log"), format!("{day:02}/10/2026 10:00:00 INFO started\n"));
    }
    let mut sink = MemorySink::default();
    for path in expand(&[folder.path().display().to_string()]).unwrap() {
        // The modification time is that of this test, so it does not show which number is the month.
        add(&path, &mut sink);
    }
    let days = sink.times.windows(2).map(|times| (times[1] - times[0]) / 1_000_000_000 / 86_400);
    assert_eq!(days.collect::<Vec<_>>(), [1; 19]);
}

/// The position stays before an event that may continue in the next line. Later batches stay small, too: a long event
/// must not be followed by a batch with the whole rest of the file.
#[test]
fn long_events_of_merged_lines_are_in_batches_of_their_own_and_are_continued() {
    const EVENT_BYTES: usize = 800 << 10;
    let folder = tempfile::tempdir().unwrap();
    let event = |at: usize| format!("2026-11-20T10:00:{at:02}Z {}", "long ".repeat(EVENT_BYTES / 5));
    let events: Vec<String> = (0..12).map(event).collect();
    let text = events.join("\n");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    let props = props_of("[merged]\nTRUNCATE = 0\nSHOULD_LINEMERGE = true\n");
    let options = OneshotOptions { sourcetype: Some("merged".into()), ..options() };
    for (name, content) in [("a.log", text.clone().into_bytes()), ("b.log.gz", packer.finish().unwrap())] {
        let path = file(&folder, name, content);
        let mut sink = MemorySink::default();
        let stopped = add_file(&path, &options, &props, &mut sink, &mut StopAfter(2)).unwrap();
        assert!(stopped.interrupted && (1..6).contains(&sink.events.len()), "{} events", sink.events.len());
        let rest = add_file(&path, &options, &props, &mut sink, &mut NoProgress).unwrap();
        assert!(rest.resumed_at > 0 && !rest.interrupted);
        assert_eq!(sink.events, events, "{name}");
        assert!(sink.largest_bytes <= 3 * EVENT_BYTES, "{} bytes in a batch of {name}", sink.largest_bytes);
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(0..1_200_000);
    let path = file(&folder, "a.log", &text);
    let mut sink = MemorySink::default();
    let props = PropsResolver::new(&Layers::new([]));
    let report = add_file(&path, &options(), &props, &mut sink, &mut Empties(path.clone())).unwrap();
    let shrunk = report.shrunk.unwrap();
    assert_eq!(shrunk.expected, text.len() as u64);
    assert!(shrunk.found > 0 && shrunk.found < shrunk.expected && report.bytes == shrunk.found);
    let whole = sink.events.len() - 1;
    assert!(sink.events[..whole].iter().map(String::as_str).eq(text.lines().take(whole)));
}

#[test]
fn unusual_files_are_handled() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = MemorySink::default();
    let empty = add(&file(&folder, "empty", ""), &mut sink);
    assert_eq!(empty, FileReport::default());
    assert!(sink.positions.is_empty());
    let garbage: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let garbage = file(&folder, "garbage", &garbage);
    let left_out = add(&garbage, &mut sink);
    assert_eq!((left_out.bytes, left_out.warnings.len(), sink.positions.len()), (0, 1, 0));
    let props = props_of("[source::...garbage]\nNO_BINARY_CHECK = true\n");
    assert_eq!(add_file(&garbage, &options(), &props, &mut sink, &mut NoProgress).unwrap().bytes, 300_000);
    let long = vec![b'x'; 20_000_000];
    let report = add(&file(&folder, "long", &long), &mut sink);
    assert_eq!((report.events, report.truncated_lines), (1, 1));
    let blank = vec![b'\n'; 2_000_000];
    add(&file(&folder, "blank", &blank), &mut sink);
    let short: String = "a\n".repeat(1_000_000);
    assert_eq!(add(&file(&folder, "short", &short), &mut sink).events, 1_000_000);
    assert!(matches!(add_with(&folder.path().join("no"), &options(), &mut sink), Err(InputError::Read { .. })));
    assert!(matches!(add_with(folder.path(), &options(), &mut sink), Err(InputError::Read { .. })));
}

#[test]
fn damaged_archives_yield_intact_events_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(0..200_000);
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let path = file(&folder, "a.zst", &packed[..packed.len() / 2]);
    let mut sink = MemorySink::default();
    for _ in 0..2 {
        let error = add_with(&path, &options(), &mut sink).unwrap_err();
        assert!(matches!(error, InputError::PartiallyRead { .. }), "{error}");
    }
    let before = sink.events.len();
    assert!(before > 0 && before < 200_000);
    std::fs::write(&path, packed).unwrap();
    assert!(add(&path, &mut sink).resumed_at > 0);
    assert!(sink.events.iter().map(String::as_str).eq(text.lines()), "{before} then {}", sink.events.len());
}

#[test]
fn folders_and_globs_expand_in_name_order() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
    for name in ["b.log", "sub/c.log", "sub/deep/d.txt", "a.log", "odd[1].log"] {
        file(&folder, name, "x\n");
    }
    let at = |name: &str| folder.path().join(name);
    let text = |name: &str| at(name).display().to_string();
    let all = ["a.log", "b.log", "odd[1].log", "sub/c.log", "sub/deep/d.txt"].map(at).to_vec();
    assert_eq!(expand(&[text("")]).unwrap(), all);
    assert_eq!(expand(&[text("?.log"), text("a.log")]).unwrap(), all[..2]);
    assert_eq!(expand(&[text("odd[1].log")]).unwrap(), all[2..3]);
    assert!(expand(&[text("*.none")]).unwrap_err().to_string().ends_with("no such file"));
}
