//! Lines of a dated log's siblings: files of its folder whose names differ from the log's name only in numbers.
//!
//! A log of one of the first twelve days of a month does not show whether its dates put the day or the month first. The
//! log of a later day does, but it may be read later when a whole folder is added.
//!
//! Not here: detecting the order of dates ([`quarry_pipeline::Pipeline::set_samples`]).

use std::io;
use std::path::{Path, PathBuf};

use super::Compression;
use super::open::Handle;

/// Maximum number of entries of a folder that are examined.
const ENTRIES_MAX: usize = 4_096;
/// Maximum number of siblings that are read.
const SIBLINGS_MAX: usize = 16;
/// Bytes read from each sibling.
const SIBLING_BYTES: usize = 2 << 10;
/// Leading bytes of a file that are searched for an ambiguous date.
const HEAD_BYTES: usize = 4 << 10;
/// Largest number that may be a month.
const MONTH_MAX: u32 = 12;

/// Whole lines from the beginnings of the siblings of the file at `path`; none if its name has no digit or its
/// beginning has no ambiguous date.
pub(super) fn sibling_lines(handle: &Handle, path: &Path) -> Vec<u8> {
    let is_dated = name_of(path).is_some_and(|name| name.contains(|c: char| c.is_ascii_digit()));
    let mut head = vec![0; HEAD_BYTES];
    // Unreadable files count as empty here.
    let read = if is_dated { handle.read_at(&mut head, 0).unwrap_or(0) } else { 0 };
    let mut lines = Vec::new();
    if has_ambiguous_date(&head[..read]) {
        for sibling in siblings(path) {
            lines.extend(first_lines(&sibling).unwrap_or_default());
        }
    }
    lines
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// At most [`SIBLINGS_MAX`] siblings, evenly spaced in the order of their names.
fn siblings(path: &Path) -> Vec<PathBuf> {
    let undated = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let (Some(folder), Some(own)) = (path.parent(), name_of(path)) else { return Vec::new() };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let wanted = undated(own);
    let entries = folder.read_dir().into_iter().flatten().take(ENTRIES_MAX);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name != own && undated(name) == wanted).collect();
    names.sort_unstable();
    let step = names.len().div_ceil(SIBLINGS_MAX).max(1);
    // The selection starts with the last name, because days above the twelfth come late in a month.
    names.iter().rev().step_by(step).map(|name| folder.join(name)).collect()
}

fn first_lines(path: &Path) -> io::Result<Vec<u8>> {
    let Some(handle) = Handle::open(path)?.filter(|handle| handle.compression == Compression::None) else {
        return Ok(Vec::new());
    };
    let mut lines = vec![0; SIBLING_BYTES];
    let read = handle.read_at(&mut lines, 0)?;
    lines.truncate(memchr::memrchr(b'\n', &lines[..read]).map_or(0, |at| at + 1));
    Ok(lines)
}

/// True if the text has a date of two numbers up to 12 and a third number, as in 05/11/2026, 5.11.26 and 05-11-2026.
fn has_ambiguous_date(text: &[u8]) -> bool {
    let is_separator = |byte: u8| matches!(byte, b'/' | b'.' | b'-');
    let mut at = 0;
    while let Some(start) = text[at..].iter().position(u8::is_ascii_digit).map(|digit| at + digit) {
        let numbers = text[start..].split(|byte| !byte.is_ascii_digit()).take(3);
        let numbers: Vec<&[u8]> = numbers.collect();
        let end = |count: usize| start + numbers[..count].iter().map(|digits| digits.len() + 1).sum::<usize>() - 1;
        let may_be_month = |digits: &&[u8]| {
            let value = digits.iter().fold(0, |value: u32, digit| value.saturating_mul(10) + u32::from(digit - b'0'));
            digits.len() <= 2 && (1..=MONTH_MAX).contains(&value)
        };
        let is_date = numbers.len() == 3
            && numbers[..2].iter().all(may_be_month)
            && !numbers[2].is_empty()
            && text[end(1)] == text[end(2)]
            && is_separator(text[end(1)]);
        let is_inside = start > 0 && is_separator(text[start - 1]);
        if is_date && !is_inside {
            return true;
        }
        at = end(1);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dates_with_two_readings_are_ambiguous() {
        for (text, is_ambiguous) in [
            ("05/11/2026 10:00:00 INFO", true),
            ("x [5.11.26 10:00] y", true),
            ("05-11-2026", true),
            ("13/11/2026", false),
            ("05/13/2026", false),
            ("2026-11-05T10:00:00Z", false),
            ("version 10.0.0.1 of 5/6", false),
            ("05/11", false),
            ("05/11-2026", false),
            ("", false),
        ] {
            assert_eq!(has_ambiguous_date(text.as_bytes()), is_ambiguous, "{text}");
        }
    }

    #[test]
    fn siblings_differ_only_in_numbers_and_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for day in 1..=40 {
            let text = format!("{day:02}/11/2026 10:00:00 INFO a\nthe rest");
            std::fs::write(path(&format!("app-{day:02}.log")), text).unwrap();
        }
        std::fs::write(path("other-01.log"), "05/12/2026 other\n").unwrap();
        let handle = Handle::open(&path("app-03.log")).unwrap().unwrap();
        let lines = String::from_utf8(sibling_lines(&handle, &path("app-03.log"))).unwrap();
        assert!(lines.starts_with("40/11/2026 10:00:00 INFO a\n37/11/"), "{lines}");
        assert!((8..=SIBLINGS_MAX).contains(&lines.lines().count()) && !lines.contains("rest"), "{lines}");
        assert!(!lines.contains("other"));
        let clear = Handle::open(&path("app-13.log")).unwrap().unwrap();
        assert!(sibling_lines(&clear, &path("app-13.log")).is_empty());
    }
}
