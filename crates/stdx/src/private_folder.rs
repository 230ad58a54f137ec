//! Keeps a data directory private to its owner: new files get private modes, and a folder that an earlier version
//! created is made private when it is opened for writing.
//!
//! The process's umask ([`set_private_umask`]) covers every new file, whichever crate or library creates it: logs,
//! buckets, the catalog and SQLite's side files, lookups, results. An existing data directory that others may enter is
//! made private once, with everything in it ([`make_private`]). The top folder is changed last, so a private top folder
//! means that everything in it was processed. Files the owner wrote below `etc` keep their modes; the private top
//! folder protects them.

use std::ffi::OsString;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;

/// Mode bits of the group and others.
const OTHERS_MODE_BITS: u32 = 0o077;
/// Mode bits of the owner.
const OWNER_MODE_BITS: u32 = 0o700;
/// Maximum nesting depth of entries that are changed; deeper entries keep their modes.
const DEPTH_MAX: usize = 64;
/// The configuration folder, written by the owner.
const CONFIG_FOLDER: &str = "etc";
/// A folder that contains any of these is a data directory, whatever else it contains.
const MARKERS: [&str; 6] = ["catalog.sqlite", "catalog.postgresql", "etc/apps", "etc/auth", "etc/system", "etc/users"];
/// Entries of data directories, and of the root of a file system.
const ENTRIES: [&str; 16] = [
    "cache",
    "catalog.sqlite-shm",
    "catalog.sqlite-wal",
    "datamodel_summary",
    "db",
    "dispatch",
    "etc",
    "forward",
    "kvstore",
    "lock",
    "lost+found",
    "run",
    "share",
    "thaweddb",
    "var",
    "wal",
];

/// Makes all files that this process and its children create private (umask). Must be called before other threads
/// start.
pub fn set_private_umask() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS_MODE_BITS));
}

/// An entry that no data directory has: the folder was probably named by mistake. `None` if the folder may be used, or
/// cannot be read.
pub fn foreign_entry(data_dir: &Path) -> Option<OsString> {
    if MARKERS.iter().any(|marker| data_dir.join(marker).exists()) {
        return None;
    }
    let mut names = data_dir.read_dir().ok()?.filter_map(Result::ok).map(|entry| entry.file_name());
    names.find(|name| !ENTRIES.iter().any(|known| *known == name))
}

/// Makes an existing data directory private; failures are logged.
pub fn make_private(data_dir: &Path) {
    let Ok(found) = data_dir.metadata() else { return };
    if !found.is_dir() || found.permissions().mode() & OTHERS_MODE_BITS == 0 {
        return;
    }
    let closed = make_contents_private(data_dir, true, 0).and_then(|()| make_entry_private(data_dir, &found));
    match closed {
        Ok(()) => crate::log::note(format!("{} is now closed to other users of this machine", data_dir.display())),
        Err(error) => {
            let folder = data_dir.display();
            crate::log::warning(format!("{folder}: other users of this machine may read it: {error}; chmod 700 it"));
        }
    }
}

/// Makes the contents of a folder private; does not follow links.
fn make_contents_private(folder: &Path, is_top: bool, depth: usize) -> io::Result<()> {
    if depth >= DEPTH_MAX {
        return Ok(());
    }
    for entry in folder.read_dir()? {
        let entry = entry?;
        if is_top && entry.file_name() == CONFIG_FOLDER {
            continue;
        }
        let path = entry.path();
        // The file was removed after it was listed.
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.is_dir() {
            make_contents_private(&path, false, depth + 1)?;
        }
        if found.is_dir() || found.is_file() {
            make_entry_private(&path, &found)?;
        }
    }
    Ok(())
}

fn make_entry_private(path: &Path, found: &Metadata) -> io::Result<()> {
    let mode = found.permissions().mode();
    if mode & OTHERS_MODE_BITS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & OWNER_MODE_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_with_foreign_entries_are_not_data_directories() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        assert_eq!(foreign_entry(&data), None, "a missing folder may become a data directory");
        for folder in ["wal", "db", "lost+found", "etc"] {
            std::fs::create_dir_all(data.join(folder)).unwrap();
            assert_eq!(foreign_entry(&data), None, "{folder}");
        }
        std::fs::write(data.join("notes.txt"), "x").unwrap();
        assert_eq!(foreign_entry(&data).unwrap(), "notes.txt");
        std::fs::create_dir_all(data.join("etc/system/local")).unwrap();
        assert_eq!(foreign_entry(&data), None, "notes beside a configuration");
    }

    #[test]
    fn existing_folders_become_private_except_configuration() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let open = |path: &Path, mode: u32| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for folder in ["wal", "objects/main", "etc/system/local"] {
            std::fs::create_dir_all(data.join(folder)).unwrap();
        }
        let files = ["wal/1.log", "objects/main/1.bucket", "catalog.sqlite-wal", "etc/system/local/props.conf"];
        for file in files {
            std::fs::write(data.join(file), "x").unwrap();
            open(&data.join(file), 0o644);
        }
        let outside = place.path().join("outside");
        std::fs::write(&outside, "x").unwrap();
        open(&outside, 0o644);
        std::os::unix::fs::symlink(&outside, data.join("wal/link")).unwrap();
        for folder in ["wal", "objects/main", "objects", "etc", "."] {
            open(&data.join(folder), 0o755);
        }
        make_private(&data);
        assert_eq!(["", "wal", "objects", "objects/main"].map(|folder| mode(&data.join(folder))), [0o700; 4]);
        assert_eq!(files.map(|file| mode(&data.join(file))), [0o600, 0o600, 0o600, 0o644]);
        assert_eq!(mode(&outside), 0o644, "links are not followed");
        // The entries of a folder that is already private are not processed again.
        open(&data.join("wal/1.log"), 0o644);
        make_private(&data);
        assert_eq!(mode(&data.join("wal/1.log")), 0o644);
        make_private(&place.path().join("missing"));
    }
}
