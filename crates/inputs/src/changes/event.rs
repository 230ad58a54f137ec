//! A change as the text of an event.

use std::io::{self, Read};
use std::path::Path;

use jiff::tz::TimeZone;
use quarry_event::TimeNs;
use quarry_event::time::strftime;
use quarry_stdx::hex;

use super::{Action, Change, Entry};

/// strftime format of the times in an event.
const TIME_FORMAT: &str = "%a %b %d %H:%M:%S %Y";
/// Maximum size of a file whose content becomes an event.
const CONTENT_BYTES_MAX: u64 = 1 << 20;
/// Permission letters in the order of the mode bits, beginning with the owner's read permission.
const PERMISSIONS: [char; 9] = ['r', 'w', 'x', 'r', 'w', 'x', 'r', 'w', 'x'];

/// Text of the event for `change`, detected at `now`.
pub fn event_text(change: &Change<'_>, now: TimeNs, zone: &TimeZone) -> String {
    let Entry { is_folder, size, user, group, mode, modified_ns, hash } = change.entry;
    let time = |time: TimeNs| strftime(time, TIME_FORMAT, zone);
    let action = match change.action {
        Action::Add => "add",
        Action::Update => "update",
        Action::Delete => "delete",
    };
    let hash = hash.map(|hash| hex::encode(&hash)).unwrap_or_default();
    format!(
        "{} action={action}, path=\"{}\", isdir={}, size={size}, gid={group}, uid={user}, modtime=\"{}\", mode=\"{}\", \
         hash=\"{hash}\", chgs=\"{}\"",
        time(now),
        quoted(change.path),
        u8::from(*is_folder),
        time(*modified_ns),
        permissions(*mode),
        change.different.join(" "),
    )
}

fn quoted(path: &Path) -> String {
    let mut text = String::new();
    for char in path.to_string_lossy().chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            char => text.push(char),
        }
    }
    text
}

fn permissions(mode: u32) -> String {
    let letter = |(at, letter): (usize, char)| if mode & (0o400 >> at) == 0 { '-' } else { letter };
    PERMISSIONS.into_iter().enumerate().map(letter).collect()
}

/// Content of a regular file, for an event of its own; `None` for anything else, for an empty file, and for one larger
/// than `bytes_max` or `CONTENT_BYTES_MAX`.
pub fn content_text(path: &Path, entry: &Entry, bytes_max: u64) -> io::Result<Option<String>> {
    let most = bytes_max.min(CONTENT_BYTES_MAX);
    let is_file = entry.mode & 0o170_000 == 0o100_000;
    if !is_file || entry.size > most || entry.size == 0 {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
