//! The operating system's random bytes: keys, tokens, salts.

/// Fills `bytes` with unpredictable bytes; ends the process where the system has none.
pub fn fill(bytes: &mut [u8]) {
    if let Err(error) = getrandom::fill(bytes) {
        crate::log::error(format_args!("the system gives no random bytes: {error}"));
        // Keys that can be guessed are worse than no server.
        std::process::abort();
    }
}
