//! Parses any text as a search. The parser may report errors, and the position of each must be inside the text.

/// Parses the text.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    drop(quarry_spl::parse(&text));
}
