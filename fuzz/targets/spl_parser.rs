//! See `entries/spl_parser.rs`, which ordinary tests run as well.
#![no_main]

#[path = "../entries/spl_parser.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
