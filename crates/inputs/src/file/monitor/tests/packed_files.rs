//! Compressed files that are written in place.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, UNIX_EPOCH};

use super::World;
use crate::file::tests::packings;

#[test]
fn compressed_files_written_in_place_are_read_once_decompressed() {
    let text: String = (0..400).map(|at| format!("line {at} of this log\n")).collect();
    for (name, packed) in packings(&text) {
        // The first bytes arrive in pieces of any size, and the writer stalls at any point.
        for part in [1, 2, 3, 4, 5, 9, 50, packed.len() / 2, packed.len()] {
            let mut world = World::new("");
            let file = File::create(world.path(&format!("a.log.{name}"))).unwrap();
            world.scan_and_read();
            let mut at = 0;
            for (number, bytes) in packed.chunks(part).enumerate() {
                file.write_all_at(bytes, at).unwrap();
                at += bytes.len() as u64;
                world.touch(&file);
                match number {
                    0..12 => world.scan_and_read(),
                    12 => world.wait(6.0),
                    _ => {}
                }
            }
            world.wait(70.0);
            assert!(
                world.events().iter().map(String::as_str).eq(text.lines()),
                "{name} {part} {:?}",
                world.events().first()
            );
        }
    }
}

#[test]
fn unreadable_files_are_reported() {
    let mut world = World::new("");
    let mut tar = vec![0; 1_024];
    tar[..5].copy_from_slice(b"a.txt");
    tar[257..262].copy_from_slice(b"ustar");
    File::create(world.path("a.log.tar")).unwrap().write_all(&tar).unwrap();
    world.clock.advance_ns(3_600 * super::NANOS_PER_SEC * 24 * 365 * 20);
    world.wait(30.0);
    let told = world.told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("a.log.tar: it is a tar archive"), "{told:?}");
    assert!(world.events().is_empty());
}

#[test]
fn compressed_files_removed_after_their_discovery_are_read_once() {
    for kind in ["monitor", "batch"] {
        let mut world = World::over(kind, "", if kind == "batch" { "move_policy = sinkhole\n" } else { "" });
        world.scan_and_read();
        for (name, packed) in packings("one\ntwo\n") {
            let path = world.path(&format!("a.log.{name}"));
            std::fs::write(&path, packed).unwrap();
            world.touch(&File::options().append(true).open(&path).unwrap());
            world.watcher.scan_all();
            std::fs::remove_file(&path).unwrap();
            world.wait(10.0);
            world.assert_events(&["one", "two"]);
        }
        world.watcher.scan_all();
        assert_eq!(world.monitor.roster.len(), 0, "{kind}: nothing is held any longer");
    }
}

#[test]
fn compressed_files_with_odd_times_are_read() {
    for at in [UNIX_EPOCH - Duration::from_secs(86_400), UNIX_EPOCH + Duration::from_secs(4_000_000_000)] {
        let mut world = World::new("");
        let (name, packed) = packings("one\ntwo\n").remove(0);
        let path = world.path(&format!("a.log.{name}"));
        std::fs::write(&path, packed).unwrap();
        File::options().append(true).open(&path).unwrap().set_modified(at).unwrap();
        world.wait(10.0);
        world.assert_events(&["one", "two"]);
    }
}

#[test]
fn compressed_files_are_resumed_after_monitoring_ended() {
    let text: String = (0..120_000).map(|at| format!("line {at} of this log, which is read in parts\n")).collect();
    for (name, packed) in packings(&text) {
        let mut world = World::over("batch", "", "move_policy = sinkhole\n");
        let path = world.path(&format!("a.log.{name}"));
        std::fs::write(&path, packed).unwrap();
        world.touch(&File::options().append(true).open(&path).unwrap());
        world.clock.advance_ns(10 * super::NANOS_PER_SEC);
        let monitor = world.monitor;
        world.before_each_batch(move || monitor.end());
        world.scan_and_read();
        let read = world.events().len();
        assert!(0 < read && read < 120_000 && path.exists(), "{name} {read}");
        world.restart();
        world.wait(10.0);
        assert!(world.events().iter().map(String::as_str).eq(text.lines()), "{name}");
        assert!(!path.exists(), "{name}");
    }
}
