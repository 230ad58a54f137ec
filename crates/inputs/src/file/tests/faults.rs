//! Damaged files, streams and failing stores: nothing is lost silently and nothing is stored twice.

use std::process::Command;

use super::*;

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

/// Returns the error's text and the report of the events before it.
fn partly(added: Result<FileReport, InputError>) -> (String, FileReport) {
    let error = added.unwrap_err();
    let report = error.report().expect("a report of what came before").clone();
    (error.to_string(), report)
}

#[test]
fn a_pipe_is_opened_once_and_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let text = lines(0..30_000);
    let contents = [text.clone().into_bytes(), gzip(&text), zstd::encode_all(text.as_bytes(), 1).unwrap()];
    for content in contents {
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let to = path.clone();
        let writer = std::thread::spawn(move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(to).unwrap();
            // The magic of a compressed file arrives in two parts.
            pipe.write_all(&content[..1]).unwrap();
            pipe.write_all(&content[1..]).unwrap();
        });
        let mut sink = MemorySink::default();
        let report = add(&path, &mut sink);
        writer.join().unwrap();
        assert_eq!((report.events, report.bytes), (30_000, text.len() as u64));
        assert!(sink.events.iter().map(String::as_str).eq(text.lines()));
        assert!(sink.positions.is_empty(), "a pipe has no position");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn flipped_bytes_are_detected_in_every_member() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (lines(0..30_000), lines(30_000..60_000));
    let good = [gzip(&first), gzip(&second)].concat();
    for at in [good.len() / 4, good.len() * 3 / 4] {
        let mut sink = MemorySink::default();
        let mut bad = good.clone();
        bad[at] ^= 1;
        let path = file(&folder, "a.gz", &bad);
        let (text, report) = partly(add_with(&path, &options(), &mut sink));
        assert!(text.contains("checksum or length does not match"), "{text}");
        assert!(report.events > 0 && report.events == sink.events.len() as u64);
        let (_, repeated) = partly(add_with(&path, &options(), &mut sink));
        assert_eq!((repeated.events, repeated.resumed_at), (0, report.bytes), "the damaged file yields no duplicates");
        // The repaired file differs before the error, so all of it is read again.
        sink.events.clear();
        assert_eq!(add(&file(&folder, "a.gz", &good), &mut sink).events, 60_000);
        assert!(sink.events.iter().map(String::as_str).eq(first.lines().chain(second.lines())));
        assert!(add(&path, &mut sink).skipped);
    }
}

#[test]
fn wrong_lengths_and_checksums_of_small_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let good = gzip(&lines(0..20));
    for back in [1, 5] {
        let mut bad = good.clone();
        let at = bad.len() - back;
        bad[at] ^= 0x40;
        let mut sink = MemorySink::default();
        let (text, report) = partly(add_with(&file(&folder, "a.gz", &bad), &options(), &mut sink));
        assert!(text.contains("checksum") && text.contains("20 events before that position are added"), "{text}");
        assert_eq!((report.events, sink.events.len()), (20, 20));
    }
    let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    packer.include_checksum(true).unwrap();
    packer.write_all(lines(0..20).as_bytes()).unwrap();
    let mut bad = packer.finish().unwrap();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    let error = add_with(&file(&folder, "a.zst", &bad), &options(), &mut MemorySink::default()).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn completely_damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let noise: Vec<u8> = (0..5_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for magic in [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0x1f, 0x8b], &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]] {
        for length in [0, noise.len()] {
            let mut sink = MemorySink::default();
            let path = file(&folder, "bad", [magic, &noise[..length]].concat());
            let error = add_with(&path, &options(), &mut sink).unwrap_err();
            assert!(error.to_string().contains("cannot be decompressed"), "{error}");
            assert!(sink.events.is_empty() && sink.positions.is_empty());
        }
    }
}

#[test]
fn truncated_archives_report_their_events_and_resume() {
    let folder = tempfile::tempdir().unwrap();
    for count in [50, 50_000] {
        let text = lines(0..count);
        let whole = gzip(&text);
        for cut in [whole.len() / 2, whole.len() - 4] {
            let mut sink = MemorySink::default();
            let path = file(&folder, "a.gz", &whole[..cut]);
            let (said, report) = partly(add_with(&path, &options(), &mut sink));
            assert!(said.contains("ends early"), "{said}");
            assert!(report.events > 0 && report.events == sink.events.len() as u64);
            assert!(report.events as usize >= count / 2 - 5, "{} of {count}", report.events);
            let (_, repeated) = partly(add_with(&path, &options(), &mut sink));
            assert_eq!(repeated.events, 0);
            std::fs::write(&path, &whole).unwrap();
            add(&path, &mut sink);
            assert!(sink.events.iter().map(String::as_str).eq(text.lines()), "{count} lines cut at {cut}");
            assert!(add(&path, &mut sink).skipped);
        }
    }
}

#[test]
fn trailing_bytes_cause_a_warning_unless_padding() {
    let folder = tempfile::tempdir().unwrap();
    let (text, packed) = (lines(0..500), gzip(&lines(0..250)));
    let members = [packed, gzip(&lines(250..500))].concat();
    for (tail, warnings) in [(&b"trailing garbage"[..], 1), (&[0; 4_096], 0), (b"\0\0x", 1), (&[0x1f], 1), (b"", 0)] {
        let mut sink = MemorySink::default();
        let path = file(&folder, "a.gz", [&members, tail].concat());
        let report = add(&path, &mut sink);
        assert_eq!((report.events, report.warnings.len()), (500, warnings), "{tail:?}");
        assert!(sink.events.iter().map(String::as_str).eq(text.lines()));
        assert!(add(&path, &mut sink).skipped);
    }
}

#[test]
fn failed_sinks_receive_nothing_more_and_resume_later() {
    let folder = tempfile::tempdir().unwrap();
    let text = lines(0..300_000);
    for (name, content) in [("a.log", text.clone().into_bytes()), ("a.gz", gzip(&text))] {
        let path = file(&folder, name, content);
        // The disk is full for a single batch; later batches must not be stored after the gap.
        let mut sink = MemorySink { fails_once_at: Some(2), ..MemorySink::default() };
        let error = add_with(&path, &options(), &mut sink).unwrap_err();
        assert!(matches!(error, InputError::Sink { .. }), "{error}");
        assert!(error.to_string().contains("adding stopped: disk on fire"), "{error}");
        assert_eq!((sink.batches, sink.fails_once_at), (2, None), "two batches before the failure, none after it");
        let (stored, reached) = (sink.events.len() as u64, sink.positions[0].offset);
        let rest = add(&path, &mut sink);
        assert_eq!((rest.resumed_at, rest.events), (reached, 300_000 - stored));
        assert!(sink.events.iter().map(String::as_str).eq(text.lines()));
    }
}

#[test]
fn utf_16_is_detected_by_its_byte_order_mark() {
    let folder = tempfile::tempdir().unwrap();
    for big in [false, true] {
        let unit = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        let units: Vec<u16> = format!("\u{feff}{}", lines(0..10)).encode_utf16().collect();
        let bytes: Vec<u8> = units.into_iter().flat_map(unit).collect();
        let mut sink = MemorySink::default();
        let report = add(&file(&folder, "wide.log", bytes), &mut sink);
        assert!(report.warnings.is_empty());
        assert!(sink.events.iter().map(String::as_str).eq(lines(0..10).lines()));
    }
}
