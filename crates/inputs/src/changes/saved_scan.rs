//! A scan as text, saved between runs.
//!
//! One line per entry: `KIND SIZE USER GROUP MODE MODIFIED HASH PATH`, with special bytes of the path as `\xHH`. The
//! first line has the number of the scan, and the last line has the number of entries, so that a truncated file is
//! detected.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use quarry_stdx::hex;

use super::{ENTRIES_MAX, Entries, Entry};

/// First word and format version.
const HEADER: &str = "quarry-fschange 1";
/// First word of the last line.
const END_WORD: &str = "end";
/// Written in place of a hash if there is none.
const NO_HASH: &str = "-";

/// A scan read from its saved text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SavedScan {
    /// Number of scans so far that found changes.
    pub number: u64,
    /// Scanned files and folders by path.
    pub entries: Entries,
}

/// Formats a scan as text.
pub fn write_scan(number: u64, entries: &Entries) -> String {
    let mut text = format!("{HEADER} {number}\n");
    for (path, entry) in entries {
        let kind = if entry.is_folder { 'd' } else { 'f' };
        let Entry { size, user, group, mode, modified_ns, .. } = entry;
        // Writing to a string cannot fail.
        write!(text, "{kind} {size} {user} {group} {mode:o} {modified_ns} ").ok();
        match &entry.hash {
            Some(hash) => text.push_str(&hex::encode(hash)),
            None => text.push_str(NO_HASH),
        }
        text.push(' ');
        write_path(path, &mut text);
        text.push('\n');
    }
    writeln!(text, "{END_WORD} {}", entries.len()).ok();
    text
}

fn write_path(path: &Path, text: &mut String) {
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'!'..=b'~' if *byte != b'\\' => text.push(char::from(*byte)),
            byte => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
}

/// Parses a saved scan; `None` if it is incomplete.
pub fn parse_scan(text: &str) -> Option<SavedScan> {
    let mut lines = text.lines();
    let number = lines.next()?.strip_prefix(HEADER)?.trim().parse().ok()?;
    let mut entries = Entries::new();
    for line in lines {
        if let Some(count) = line.strip_prefix(END_WORD) {
            let is_whole = count.trim().parse() == Ok(entries.len());
            return is_whole.then_some(SavedScan { number, entries });
        }
        if entries.len() >= ENTRIES_MAX {
            return None;
        }
        let (path, entry) = parse_entry(line)?;
        entries.insert(path, entry);
    }
    None
}

fn parse_entry(line: &str) -> Option<(PathBuf, Entry)> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    let is_folder = match next()? {
        "d" => true,
        "f" => false,
        _ => return None,
    };
    let (size, user, group) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    let (mode, modified_ns) = (u32::from_str_radix(next()?, 8).ok()?, next()?.parse().ok()?);
    let hash = match next()? {
        NO_HASH => None,
        digits => Some(hex::decode(digits)?.try_into().ok()?),
    };
    let path = parse_path(next()?)?;
    Some((path, Entry { is_folder, size, user, group, mode, modified_ns, hash }))
}

fn parse_path(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(behind.get(..2)?, 16).ok()?);
            rest = behind.get(2..)?;
        } else {
            bytes.push(u8::try_from(char).ok()?);
            rest = rest.get(char.len_utf8()..)?;
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}
