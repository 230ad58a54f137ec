//! See `entries/collector_request.rs`, which ordinary tests run as well.
#![no_main]

#[path = "../entries/collector_request.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
