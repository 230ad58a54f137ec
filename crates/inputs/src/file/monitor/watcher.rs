//! Finds files: by a full scan at the start, then by kernel notifications, and by periodic scans.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::held_files::{HeldFile, Slots};
use super::notices::Notices;
use super::roster::{FILES_MAX, Inode, Roster};
use super::stanza::Stanza;
use super::{Monitor, MonitorOptions, NANOS_PER_SEC};
use crate::file::expand::is_data_directory;
use crate::file::open::modified_ns;

/// Maximum wait for a notification before the watcher checks whether monitoring has ended or a scan is due.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of full scans with notifications, and without.
const SCAN_INTERVALS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(1)];
/// Full scans may take at most 1/N of the time, with notifications and without; longer scans run less often.
const SCAN_TIME_DIVISORS: [u32; 2] = [30, 10];
/// Maximum depth below a root.
const FOLDER_DEPTH_MAX: usize = 64;
/// Maximum number of followed links; changes of further links' targets are found by scans.
const LINKS_MAX: usize = 1 << 16;
/// Maximum length of a chain of links.
const LINK_CHAIN_MAX: usize = 8;
/// Maximum number of messages about paths, each reported once; beyond it nothing more is reported.
const MESSAGES_MAX: usize = 1_000;

/// Finds files for a monitor.
pub(crate) struct Watcher<'a> {
    stanzas: &'a [Stanza],
    roster: &'a Roster,
    options: &'a MonitorOptions,
    notices: Option<Notices>,
    /// Links by target, as of the last full scan.
    links: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    reported: BTreeSet<String>,
    now_seconds: i64,
    /// Slots for holding new files open, used once the first scan has found the existing files.
    slots: Arc<Slots>,
    holds_new: bool,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(monitor: &'a Monitor) -> Watcher<'a> {
        let Monitor { stanzas, roster, options, .. } = monitor;
        let (notices, links, reported) = (Notices::new(), BTreeMap::new(), BTreeSet::new());
        let slots = Slots::new(options.held_max);
        Watcher { stanzas, roster, options, notices, links, reported, now_seconds: 0, slots, holds_new: false }
    }

    /// Watches until monitoring ends.
    pub(crate) fn run(&mut self) {
        let clock = &self.options.clock;
        let mut next_walk = 0;
        while !self.roster.has_ended() {
            let begun = clock.elapsed_ns();
            if begun >= next_walk {
                self.scan_all();
                let ended = clock.elapsed_ns();
                let took = Duration::from_nanos((ended - begun).unsigned_abs());
                let is_blind = usize::from(self.notices.is_none());
                let every = SCAN_INTERVALS[is_blind].max(took * SCAN_TIME_DIVISORS[is_blind]);
                next_walk = ended.saturating_add(i64::try_from(every.as_nanos()).unwrap_or(i64::MAX));
            }
            if !self.process_notifications(POLL_INTERVAL) {
                next_walk = 0;
            }
        }
    }

    /// Processes notifications received within `wait`; returns false if some were lost.
    pub(crate) fn process_notifications(&mut self, wait: Duration) -> bool {
        let Some(notices) = &mut self.notices else {
            self.roster.pause(wait);
            return true;
        };
        let batch = notices.wait(wait);
        for path in &batch.paths {
            self.process_path(path);
            let links = self.links.get(path).cloned();
            links.iter().flatten().for_each(|link| self.process_path(link));
        }
        !batch.is_incomplete
    }

    /// Scans everything.
    pub(crate) fn scan_all(&mut self) {
        self.now_seconds = self.options.clock.now_ns().div_euclid(NANOS_PER_SEC);
        self.links.clear();
        self.roster.begin_scan();
        for (at, stanza) in self.stanzas.iter().enumerate() {
            match stanza.root.metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    self.scan_folder(at, &stanza.root, 0, &mut BTreeSet::from_iter([Inode::of(&metadata)]));
                }
                Ok(metadata) => {
                    self.watch_parent(&stanza.root);
                    self.add_file(at, &stanza.root, &metadata);
                }
                // The root may be created later.
                Err(_) => self.watch_parent(&stanza.root),
            }
        }
        self.roster.end_scan();
        self.holds_new = true;
    }

    /// Processes a path from a notification.
    fn process_path(&mut self, path: &Path) {
        let Ok(metadata) = path.metadata() else { return };
        for (at, stanza) in self.stanzas.iter().enumerate() {
            let mut above = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&stanza.root));
            // A folder may have become a data directory after it was watched.
            if above.any(is_data_directory) {
                continue;
            }
            if !metadata.is_dir() {
                if !stanza.matches_path(path) {
                    continue;
                }
                return self.add_file(at, path, &metadata);
            }
            let Ok(below) = path.strip_prefix(&stanza.root) else { continue };
            let depth = below.components().count();
            if stanza.may_descend(path, depth) && self.is_followed(stanza, path) {
                self.scan_folder(at, path, depth, &mut BTreeSet::from_iter([Inode::of(&metadata)]));
            }
        }
    }

    /// Scans a folder and everything below it; `above` has the folders on the path from the root, to detect cycles.
    fn scan_folder(&mut self, at: usize, folder: &Path, depth: usize, above: &mut BTreeSet<Inode>) {
        let stanza = &self.stanzas[at];
        if depth > FOLDER_DEPTH_MAX {
            return self.report_once(format!("{}: is nested too deeply to be watched", folder.display()));
        }
        if is_data_directory(folder) {
            return self.report_once(format!("{}: is a data directory of quarry and is not watched", folder.display()));
        }
        // The folder is watched before its files are listed, so that files created in the meantime cause notifications.
        self.watch(folder);
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.report_once(format!("{}: cannot be watched: {error}", folder.display())),
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort_unstable();
        for path in paths {
            let Ok(metadata) = path.metadata() else { continue };
            if metadata.is_dir() {
                let node = Inode::of(&metadata);
                if stanza.may_descend(&path, depth + 1) && self.is_followed(stanza, &path) && above.insert(node) {
                    self.scan_folder(at, &path, depth + 1, above);
                    above.remove(&node);
                }
            } else if stanza.matches_path(&path) {
                self.add_file(at, &path, &metadata);
            }
        }
    }

    fn is_followed(&self, stanza: &Stanza, path: &Path) -> bool {
        stanza.settings.follow_symlink || !path.is_symlink()
    }

    /// Passes to the roster a file that matches a stanza.
    fn add_file(&mut self, at: usize, path: &Path, metadata: &Metadata) {
        let stanza = &self.stanzas[at];
        if !metadata.is_file() || !self.is_followed(stanza, path) {
            return;
        }
        self.follow_link(path);
        let changed = modified_ns(metadata).map(|modified| modified.div_euclid(NANOS_PER_SEC));
        let age = changed.map(|changed| self.now_seconds.saturating_sub(changed));
        let oldest = stanza.settings.ignore_older_than_seconds;
        let is_old = age.zip(oldest).is_some_and(|(age, oldest)| age > oldest.cast_signed());
        let is_held = self.holds_new && !is_old && !self.roster.is_known(path, metadata);
        let held = if is_held { HeldFile::open(path, Inode::of(metadata), &self.slots) } else { None };
        if !self.roster.update(path, metadata, (at, is_old), held) {
            self.report_once(format!("more than {FILES_MAX} files are watched; the others are not read"));
        }
    }

    /// Watches the folders that contain a link's targets, because a change of the target causes no notification in the
    /// folder of the link.
    fn follow_link(&mut self, link: &Path) {
        let mut at = link.to_owned();
        for _ in 0..LINK_CHAIN_MAX {
            let Ok(target) = std::fs::read_link(&at) else { return };
            at = at.parent().map(|folder| folder.join(&target)).unwrap_or(target);
            if self.links.len() >= LINKS_MAX && !self.links.contains_key(&at) {
                return;
            }
            self.watch_parent(&at);
            self.links.entry(at.clone()).or_default().insert(link.to_owned());
        }
    }

    fn watch_parent(&mut self, path: &Path) {
        if let Some(parent) = path.parent().filter(|parent| parent.is_dir()) {
            self.watch(parent);
        }
    }

    fn watch(&mut self, folder: &Path) {
        if self.notices.as_mut().is_some_and(|notices| !notices.watch(folder)) {
            self.notices = None;
            let text = "the system cannot watch more folders (fs.inotify.max_user_watches), so all files are checked \
                        every second";
            self.report_once(text.to_owned());
        }
    }

    fn report_once(&mut self, text: String) {
        if self.reported.len() < MESSAGES_MAX && !self.reported.contains(&text) {
            (self.options.report)(&text);
            self.reported.insert(text);
        }
    }
}
