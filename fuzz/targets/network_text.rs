//! See `entries/network_text.rs`, which ordinary tests run as well.
#![no_main]

#[path = "../entries/network_text.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
