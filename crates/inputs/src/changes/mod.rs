//! Changes of files since the previous scan: `[fschange:PATH]` of inputs.conf.
//!
//! A scan records every file and folder with size, owner, mode, time and optionally a hash of the content. The
//! difference of two scans is a list of changes, which become events. The last scan is saved as text, so that changes
//! made while the node is not running are found by the first scan after its start.
//!
//! Not here: the schedule, and storing events and saved scans.

mod event;
mod saved_scan;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_conf::ChangeInput;
use quarry_pipeline::Pattern;

use crate::InputError;

pub use event::{content_text, event_text};
pub use saved_scan::{SavedScan, parse_scan, write_scan};
pub use scan::{Scan, scan_files};

/// Maximum number of files and folders scanned for one stanza; a message reports the ignored rest.
pub const ENTRIES_MAX: usize = 1 << 17;

/// Files to scan, and the attributes to compare.
#[derive(Debug)]
pub struct ChangeRules {
    path: PathBuf,
    recursive: bool,
    follows_links: bool,
    hash_bytes_max: Option<u64>,
    whitelist: Option<Pattern>,
    blacklist: Option<Pattern>,
    filters: Vec<(bool, Vec<Pattern>)>,
    entries_max: usize,
}

/// State of a file or folder at the time of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Size in bytes.
    pub size: u64,
    /// User id of the owner.
    pub user: u32,
    /// Group id.
    pub group: u32,
    /// File type and permissions.
    pub mode: u32,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
    /// SHA-256 of the content, if the stanza compares contents.
    pub hash: Option<[u8; 32]>,
}

/// Scanned files and folders by path.
pub type Entries = BTreeMap<PathBuf, Entry>;

/// Kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The file or folder is new.
    Add,
    /// The file or folder changed.
    Update,
    /// The file or folder was removed.
    Delete,
}

/// A changed file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Kind of change.
    pub action: Action,
    /// Path of the file or folder, as scanned.
    pub path: &'a Path,
    /// Current state, or the last state before the removal.
    pub entry: &'a Entry,
    /// Changed attributes.
    pub different: Vec<&'static str>,
}

impl ChangeRules {
    /// Compiles a stanza; the error names the invalid pattern.
    pub fn new(settings: &ChangeInput) -> Result<ChangeRules, InputError> {
        let compile = |pattern: &String| {
            Pattern::new(pattern)
                .map_err(|fault| InputError::Pattern { pattern: pattern.clone(), reason: fault.to_string() })
        };
        let mut filters = Vec::new();
        for filter in &settings.filters {
            filters.push((filter.keeps, filter.patterns.iter().map(compile).collect::<Result<_, _>>()?));
        }
        Ok(ChangeRules {
            path: PathBuf::from(&settings.input.name),
            recursive: settings.recursive,
            follows_links: settings.follows_links,
            hash_bytes_max: settings.hash_bytes_max,
            whitelist: settings.whitelist.as_ref().map(compile).transpose()?,
            blacklist: settings.blacklist.as_ref().map(compile).transpose()?,
            filters,
            entries_max: ENTRIES_MAX,
        })
    }

    /// True if changes of a path are reported. The first filter that matches applies.
    fn is_included(&self, path: &Path, is_folder: bool) -> bool {
        let bytes = path.as_os_str().as_encoded_bytes();
        let first = self.filters.iter().find(|(_, patterns)| patterns.iter().any(|one| one.is_match(bytes)));
        let is_white = is_folder || self.whitelist.as_ref().is_none_or(|pattern| pattern.is_match(bytes));
        is_white && !self.is_excluded(path) && first.is_none_or(|(keeps, _)| *keeps)
    }

    /// True if a path and everything below it is excluded.
    fn is_excluded(&self, path: &Path) -> bool {
        self.blacklist.as_ref().is_some_and(|pattern| pattern.is_match(path.as_os_str().as_encoded_bytes()))
    }
}

impl Entry {
    /// Names of the attributes that differ from those in an earlier scan. The size of a folder is not compared.
    fn changed_attributes(&self, before: &Entry) -> Vec<&'static str> {
        let differs = [
            ("modtime", self.modified_ns != before.modified_ns),
            ("size", self.size != before.size && !(self.is_folder && before.is_folder)),
            ("gid", self.group != before.group),
            ("uid", self.user != before.user),
            ("mode", self.mode != before.mode),
            // A hash computed for the first time is not a change.
            ("hash", self.hash.is_some() && before.hash.is_some() && self.hash != before.hash),
        ];
        differs.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name).collect()
    }
}

/// Changes between two scans: deletions, then additions and updates, both in the order of paths. For a moved file, the
/// deletion thus comes first.
pub fn changes<'a>(before: &'a Entries, after: &'a Entries) -> Vec<Change<'a>> {
    let is_gone = |(path, entry): (&'a PathBuf, &'a Entry)| {
        let change = Change { action: Action::Delete, path, entry, different: Vec::new() };
        (!after.contains_key(path)).then_some(change)
    };
    let is_new = |(path, entry): (&'a PathBuf, &'a Entry)| {
        let different = before.get(path).map(|known| entry.changed_attributes(known));
        match different {
            None => Some(Change { action: Action::Add, path, entry, different: Vec::new() }),
            Some(different) if different.is_empty() => None,
            Some(different) => Some(Change { action: Action::Update, path, entry, different }),
        }
    };
    before.iter().filter_map(is_gone).chain(after.iter().filter_map(is_new)).collect()
}
