//! Writes `v1.bucket` and `v1.filter` of the fixture test into a folder: `write_fixture FOLDER`.
//!
//! A development tool. The committed files are never overwritten; a new format version gets files of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../tests/support/fixture.rs"]
mod fixture;

use quarry_bucket::{EncodeOptions, encode};

fn main() {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).expect("write_fixture FOLDER"));
    let encoded = encode(&fixture::slabs(), &EncodeOptions { zstd_level: 9, shaped: false }).unwrap();
    for (name, bytes) in [("v1.bucket", &encoded.object), ("v1.filter", &encoded.filter)] {
        let mut file = std::fs::File::create_new(folder.join(name)).expect("the file does not exist yet");
        std::io::Write::write_all(&mut file, bytes).unwrap();
        println!("{name}: {} bytes", bytes.len());
    }
}
