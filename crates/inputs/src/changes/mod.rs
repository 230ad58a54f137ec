//! What changed in a folder since it was looked at before: `[fschange:PATH]` of inputs.conf.
//!
//! A look gives every file and folder with its size, owner, mode, time and, where asked for, the hash of its content.
//! Two looks give changes, which are written as events. The look before is kept as text between runs, so that what
//! changes while nobody looks is found by the next look.
//!
//! Not here: when to look, where events and kept looks go.

mod event;
mod look;
mod saved_look;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_conf::ChangeInput;
use quarry_pipeline::Pattern;

use crate::InputError;

pub use event::{event_text, full_text};
pub use look::{Look, look};
pub use saved_look::{KeptLook, parse_look, write_look};

/// Files and folders of one stanza; those beyond it are left out, and that is told.
pub const ENTRIES_MAX: usize = 1 << 17;

/// What is looked at.
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

/// A file or folder as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Bytes.
    pub size: u64,
    /// Number of its owner.
    pub user: u32,
    /// Number of its group.
    pub group: u32,
    /// Kind and permissions.
    pub mode: u32,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
    /// SHA-256 of its content, where it is compared.
    pub hash: Option<[u8; 32]>,
}

/// All that was seen, by path.
pub type Entries = BTreeMap<PathBuf, Entry>;

/// What happened to a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is new.
    Add,
    /// It is not what it was.
    Update,
    /// It is gone.
    Delete,
}

/// A file or folder to which something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// What happened.
    pub action: Action,
    /// Where.
    pub path: &'a Path,
    /// As it is, or was before it went.
    pub entry: &'a Entry,
    /// What is different.
    pub different: Vec<&'static str>,
}

impl ChangeRules {
    /// The rules of a stanza; the error names the pattern that cannot be used.
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

    /// Whether changes of a path are told. Of filters the first that fits decides.
    fn takes(&self, path: &Path, is_folder: bool) -> bool {
        let bytes = path.as_os_str().as_encoded_bytes();
        let first = self.filters.iter().find(|(_, patterns)| patterns.iter().any(|one| one.is_match(bytes)));
        let is_white = is_folder || self.whitelist.as_ref().is_none_or(|pattern| pattern.is_match(bytes));
        is_white && !self.is_black(path) && first.is_none_or(|(keeps, _)| *keeps)
    }

    /// Whether a path is left out with all below it.
    fn is_black(&self, path: &Path) -> bool {
        self.blacklist.as_ref().is_some_and(|pattern| pattern.is_match(path.as_os_str().as_encoded_bytes()))
    }
}

impl Entry {
    /// What is different from an earlier look. The size of a folder says nothing.
    fn different(&self, before: &Entry) -> Vec<&'static str> {
        let differs = [
            ("modtime", self.modified_ns != before.modified_ns),
            ("size", self.size != before.size && !(self.is_folder && before.is_folder)),
            ("gid", self.group != before.group),
            ("uid", self.user != before.user),
            ("mode", self.mode != before.mode),
            // One that was not compared before tells nothing.
            ("hash", self.hash.is_some() && before.hash.is_some() && self.hash != before.hash),
        ];
        differs.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name).collect()
    }
}

/// What is different between two looks, by path: what is gone first, so that a name that was used again reads in order.
pub fn changes<'a>(before: &'a Entries, after: &'a Entries) -> Vec<Change<'a>> {
    let is_gone = |(path, entry): (&'a PathBuf, &'a Entry)| {
        let change = Change { action: Action::Delete, path, entry, different: Vec::new() };
        (!after.contains_key(path)).then_some(change)
    };
    let is_new = |(path, entry): (&'a PathBuf, &'a Entry)| {
        let different = before.get(path).map(|known| entry.different(known));
        match different {
            None => Some(Change { action: Action::Add, path, entry, different: Vec::new() }),
            Some(different) if different.is_empty() => None,
            Some(different) => Some(Change { action: Action::Update, path, entry, different }),
        }
    };
    before.iter().filter_map(is_gone).chain(after.iter().filter_map(is_new)).collect()
}
