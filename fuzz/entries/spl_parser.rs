//! Any text as a search: the parser answers with remarks, and every remark lies inside the text.

/// Parses the text.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    drop(quarry_spl::parse(&text));
}
