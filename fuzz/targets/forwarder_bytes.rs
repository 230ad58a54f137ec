//! See `entries/forwarder_bytes.rs`, which ordinary tests run as well.
#![no_main]

#[path = "../entries/forwarder_bytes.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
