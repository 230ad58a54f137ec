//! The operating system's random bytes: keys, tokens, salts.

/// Fills `bytes` with unpredictable bytes; aborts the process if the system has none.
pub fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        crate::log::error(format_args!("the system provides no random bytes: {error}"));
        // Predictable keys would be worse than no server.
        std::process::abort();
    }
}

/// A random id of this many bytes, as hexadecimal digits.
pub fn id<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    fill(&mut bytes);
    crate::hex::encode(&bytes)
}
