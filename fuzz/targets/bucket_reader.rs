//! See `entries/bucket_reader.rs`, which ordinary tests run as well.
#![no_main]

#[path = "../entries/bucket_reader.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
