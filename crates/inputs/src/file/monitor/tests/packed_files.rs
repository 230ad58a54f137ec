//! Compressed files that are written in place.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

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
