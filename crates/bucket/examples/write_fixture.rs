//! Writes the buckets and filters of the fixture test that are missing: `write_fixture FOLDER`.
//!
//! A development tool. The committed files are never overwritten; a new format version gets files of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../tests/support/fixture.rs"]
mod fixture;

use quarry_bucket::{EncodeOptions, Locators, encode};

fn main() {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).expect("write_fixture FOLDER"));
    for (name, slabs, zstd_level, templates, located) in [
        ("v1", fixture::slabs(), 9, false, false),
        ("v1-columns-sealed", fixture::template_slabs(), 1, true, false),
        ("v1-columns-compacted", fixture::template_slabs(), 9, true, false),
        ("v1-columns-located", fixture::template_slabs(), 9, true, true),
        ("v1-columns-shared", fixture::slabs_with_sessions(), 9, true, false),
        ("v1-columns-shared-runs", fixture::slabs_with_sessions(), 9, true, false),
    ] {
        let locators = Locators::included_if(located);
        let encoded = encode(&slabs, &EncodeOptions { zstd_level, templates, locators }).unwrap();
        for (kind, bytes) in [("bucket", &encoded.object), ("filter", &encoded.filter)] {
            let name = format!("{name}.{kind}");
            let Ok(mut file) = std::fs::File::create_new(folder.join(&name)) else { continue };
            std::io::Write::write_all(&mut file, bytes).unwrap();
            println!("{name}: {} bytes", bytes.len());
        }
    }
}
