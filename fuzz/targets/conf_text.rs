//! See `entries/conf_text.rs`, which ordinary tests run as well.
#![no_main]

#[path = "../entries/conf_text.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
