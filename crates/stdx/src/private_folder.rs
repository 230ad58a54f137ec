//! Nobody but the owner reads a data folder: what is made from now on is closed to others, and folders of before are
//! closed when they are opened for writing.
//!
//! A new file gets its mode from the process ([`close_new_files`]), whichever crate or library makes it: logs, buckets, the
//! catalog and the files that SQLite puts beside it, lookups, results. An existing data folder that others may enter is
//! walked once, and the folder itself is closed last: one that is closed already needs no walk ([`close`]).
//! Files below `etc` that the owner wrote are left as they are; behind the closed folder nobody else gets to them.

use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;

/// What group and others may do.
const OTHERS: u32 = 0o077;
/// What the owner may do.
const OWNER: u32 = 0o700;
/// Folders within folders that are walked.
const DEPTH_MAX: usize = 64;
/// Folder of the configuration, which its owner writes.
const CONFIGURATION: &str = "etc";

/// From now on what this process makes, and what programs make that it runs, is the owner's alone. Called before there
/// are other threads.
pub fn close_new_files() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
}

/// Closes a data folder of before to others, if there is one; what cannot be closed is told.
pub fn close(data_dir: &Path) {
    let Ok(found) = data_dir.metadata() else { return };
    if !found.is_dir() || found.permissions().mode() & OTHERS == 0 {
        return;
    }
    let closed = close_within(data_dir, true, 0).and_then(|()| close_one(data_dir, &found));
    match closed {
        Ok(()) => crate::log::note(format!("{} is closed to other users of this machine now", data_dir.display())),
        Err(error) => {
            let folder = data_dir.display();
            crate::log::warning(format!("{folder}: other users of this machine may read it: {error}; chmod 700 it"));
        }
    }
}

/// Closes what lies in a folder; links are not followed.
fn close_within(folder: &Path, is_top: bool, depth: usize) -> io::Result<()> {
    if depth >= DEPTH_MAX {
        return Ok(());
    }
    for entry in folder.read_dir()? {
        let entry = entry?;
        if is_top && entry.file_name() == CONFIGURATION {
            continue;
        }
        let path = entry.path();
        // What is gone meanwhile needs nothing.
        let Ok(found) = path.symlink_metadata() else { continue };
        if found.is_dir() {
            close_within(&path, false, depth + 1)?;
        }
        if found.is_dir() || found.is_file() {
            close_one(&path, &found)?;
        }
    }
    Ok(())
}

fn close_one(path: &Path, found: &Metadata) -> io::Result<()> {
    let mode = found.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & OWNER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_of_before_is_closed_and_its_configuration_left() {
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
        close(&data);
        assert_eq!(["", "wal", "objects", "objects/main"].map(|folder| mode(&data.join(folder))), [0o700; 4]);
        assert_eq!(files.map(|file| mode(&data.join(file))), [0o600, 0o600, 0o600, 0o644]);
        assert_eq!(mode(&outside), 0o644, "links are not followed");
        // A closed folder is not walked again.
        open(&data.join("wal/1.log"), 0o644);
        close(&data);
        assert_eq!(mode(&data.join("wal/1.log")), 0o644);
        close(&place.path().join("missing"));
    }
}
