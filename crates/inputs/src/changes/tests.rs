//! Scans of a folder that a test changes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use jiff::tz::TimeZone;
use quarry_conf::{ConfSource, Layer, Layers, ProgramInputs};

use super::*;

struct Place {
    folder: tempfile::TempDir,
    rules: ChangeRules,
    before: Entries,
}

impl Place {
    fn new(settings: &str, more: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[fschange:{}/top]\n{settings}\n{more}", folder.path().display());
        let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "inputs.conf".into(), text };
        let all = ProgramInputs::new(&Layers::new([source]));
        assert!(all.faults.is_empty(), "{:?}", all.faults);
        let rules = ChangeRules::new(&all.changes[0]).unwrap();
        std::fs::create_dir(folder.path().join("top")).unwrap();
        Place { folder, rules, before: Entries::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("top").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn set_time(&self, name: &str, seconds: u64) {
        let file = std::fs::OpenOptions::new().append(true).open(self.path(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    /// Returns the changes since the previous scan and the problems of reading.
    fn scan(&mut self) -> (Vec<String>, Vec<String>) {
        let found = scan_files(&self.rules, &self.before, &mut || true).unwrap();
        let top = self.path("");
        let reported = changes(&self.before, &found.entries).into_iter().filter(|change| !change.entry.is_folder);
        let reported = reported.map(|change| {
            let name = change.path.strip_prefix(&top).unwrap().display().to_string();
            format!("{:?} {name} {}", change.action, change.different.join(" ")).trim_end().to_owned()
        });
        let reported = reported.collect();
        // Saving and parsing must preserve the scan.
        let kept = parse_scan(&write_scan(7, &found.entries)).unwrap();
        assert_eq!(kept, SavedScan { number: 7, entries: found.entries });
        self.before = kept.entries;
        (reported, found.problems)
    }

    fn assert_changes(&mut self, expected: &[&str]) {
        let (reported, problems) = self.scan();
        assert_eq!((reported, problems), (expected.iter().map(|&text| text.to_owned()).collect(), Vec::new()));
    }
}

#[test]
fn additions_changes_and_deletions_are_reported() {
    let mut place = Place::new("", "");
    place.write("a", "one");
    place.write("sub/odd \"name\"\n\\", "x");
    place.assert_changes(&["Add a", "Add sub/odd \"name\"\n\\"]);
    place.assert_changes(&[]);
    place.write("a", "other");
    place.set_time("a", 1_000_000_000);
    place.write("b", "new");
    std::fs::remove_dir_all(place.path("sub")).unwrap();
    place.assert_changes(&["Delete sub/odd \"name\"\n\\", "Update a modtime size", "Add b"]);
    std::fs::set_permissions(place.path("a"), std::fs::Permissions::from_mode(0o640)).unwrap();
    place.assert_changes(&["Update a mode"]);
    std::fs::remove_dir_all(place.path("")).unwrap();
    place.assert_changes(&["Delete a", "Delete b"]);
}

#[test]
fn hashing_detects_changes_that_keep_the_file_time() {
    for (settings, expected) in [("", &[][..]), ("hashMaxSize = 3", &["Update a hash"]), ("hashMaxSize = 2", &[])] {
        let mut place = Place::new(settings, "");
        place.write("a", "one");
        place.set_time("a", 1_000_000_000);
        place.scan();
        place.write("a", "two");
        place.set_time("a", 1_000_000_000);
        place.assert_changes(expected);
    }
}

#[test]
fn filters_and_blacklists_exclude_paths() {
    let filters = "[filter:blacklist:copies]\nregex1 = ~$\nregex2 = \\.bak$\n[filter:whitelist:code]\nregex1 = \\.rs\n\
                   [filter:blacklist:rest]\nregex1 = .";
    for (settings, expected) in [
        ("recurse = false", &["Add a.rs", "Add a.rs~", "Add b.txt"][..]),
        ("whitelist = \\.rs$", &["Add a.rs", "Add sub/c.rs"]),
        ("blacklist = /sub", &["Add a.rs", "Add a.rs~", "Add b.txt"]),
        ("filters = copies", &["Add a.rs", "Add b.txt", "Add sub/c.rs"]),
        ("filters = copies, code, rest", &["Add a.rs", "Add sub/c.rs"]),
        ("filters = code, rest", &["Add a.rs", "Add a.rs~", "Add sub/c.rs"]),
    ] {
        let mut place = Place::new(settings, filters);
        ["a.rs", "a.rs~", "b.txt", "sub/c.rs"].iter().for_each(|name| place.write(name, "x"));
        let (reported, problems) = place.scan();
        assert_eq!(
            (reported.as_slice(), problems.len()),
            (&expected.iter().map(|&one| one.to_owned()).collect::<Vec<_>>()[..], 0),
            "{settings}"
        );
    }
}

#[test]
fn links_are_followed_if_configured_and_never_in_cycles() {
    for (settings, expected) in
        [("", &["Add a", "Add round", "Add there"][..]), ("followLinks = true", &["Add a", "Add there/b"])]
    {
        let mut place = Place::new(settings, "");
        place.write("a", "x");
        std::fs::create_dir(place.folder.path().join("other")).unwrap();
        std::fs::write(place.folder.path().join("other/b"), "x").unwrap();
        symlink(place.folder.path().join("other"), place.path("there")).unwrap();
        symlink(place.path(""), place.path("round")).unwrap();
        let (reported, problems) = place.scan();
        assert_eq!(reported, expected, "{settings}");
        assert_eq!(problems.len(), usize::from(settings.len() > 1), "{problems:?}");
    }
}

#[test]
fn the_path_of_a_stanza_may_be_a_link() {
    let mut place = Place::new("", "");
    std::fs::rename(place.path(""), place.folder.path().join("real")).unwrap();
    symlink(place.folder.path().join("real"), place.folder.path().join("top")).unwrap();
    place.write("a", "x");
    place.assert_changes(&["Add a"]);
}

#[test]
fn number_of_scanned_entries_is_limited() {
    let mut place = Place::new("recurse = false", "");
    place.rules.entries_max = 3;
    ["b", "c"].iter().for_each(|name| place.write(name, "x"));
    place.assert_changes(&["Add b", "Add c"]);
    place.write("a", "x");
    let (reported, problems) = place.scan();
    assert_eq!((reported.len(), problems.len()), (0, 1), "{reported:?} {problems:?}");
    std::fs::remove_file(place.path("c")).unwrap();
    let (reported, _) = place.scan();
    assert_eq!(reported, ["Delete c"], "removed entries do not free space at once");
    place.assert_changes(&["Add a"]);
}

#[test]
fn aborted_and_truncated_scans_are_discarded() {
    let mut place = Place::new("", "");
    ["a", "b"].iter().for_each(|name| place.write(name, "x"));
    let mut asked = 0;
    let mut goes_on = || {
        asked += 1;
        asked < 3
    };
    assert!(scan_files(&place.rules, &place.before, &mut goes_on).is_none());
    place.scan();
    let text = write_scan(1, &place.before);
    let halves: Vec<usize> = (0..text.len() - 1).filter(|end| parse_scan(&text[..*end]).is_some()).collect();
    assert_eq!(halves, Vec::<usize>::new());
    for damaged in ["", "x", "quarry-fschange 1 x\nend 0\n", "quarry-fschange 1 1\nf 1 2 3\nend 1\n"] {
        assert!(parse_scan(damaged).is_none(), "{damaged}");
    }
}

#[test]
fn event_text_matches_the_expected_format() {
    let path = PathBuf::from("/etc/a \"b\"");
    let mut entry = Entry {
        is_folder: false,
        size: 12,
        user: 1,
        group: 2,
        mode: 0o100_644,
        modified_ns: 1_795_132_800_000_000_000,
        hash: None,
    };
    let now = 1_795_132_801_000_000_000;
    let text = |action, entry: &Entry, different: &[&'static str]| {
        let change = Change { action, path: &path, entry, different: different.to_vec() };
        event_text(&change, now, &TimeZone::UTC)
    };
    let added = "Fri Nov 20 00:00:01 2026 action=add, path=\"/etc/a \\\"b\\\"\", isdir=0, size=12, gid=2, uid=1, \
                 modtime=\"Fri Nov 20 00:00:00 2026\", mode=\"rw-r--r--\", hash=\"\", chgs=\"\"";
    assert_eq!(text(Action::Add, &entry, &[]), added);
    entry.hash = Some([0xab; 32]);
    let updated = text(Action::Update, &entry, &["size", "hash"]);
    assert!(updated.ends_with(&format!("hash=\"{}\", chgs=\"size hash\"", "ab".repeat(32))), "{updated}");
    let mut place = Place::new("", "");
    place.write("a", "the text");
    place.scan();
    let (path, entry) = place.before.iter().find(|(_, entry)| !entry.is_folder).unwrap();
    assert_eq!(content_text(path, entry, u64::MAX).unwrap().as_deref(), Some("the text"));
    assert_eq!(content_text(path, entry, 7).unwrap(), None);
}
