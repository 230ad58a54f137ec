//! See `entries/pipeline_push.rs`, which ordinary tests run as well.
#![no_main]

#[path = "../entries/pipeline_push.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::run(data));
