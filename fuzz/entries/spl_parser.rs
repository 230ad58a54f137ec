//! Parses any text as a search. The parser may report errors, but must not panic.

/// Parses the text.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    drop(quarry_spl::parse(&text));
}
