//! Folders whose entries survive a power loss.
//!
//! A new file, renamed file or new folder is an entry of its parent folder, and only a sync of that folder makes the
//! entry durable, however well the content of the file itself is synced.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Errors from syncing a folder that belongs to another user, or to a file system that cannot be written or synced.
const CANNOT_SYNC: [io::ErrorKind; 4] = [
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ReadOnlyFilesystem,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::Unsupported,
];

/// Creates a folder and its missing parents; their entries are durable on return. This includes the entry of the folder
/// nearest to the root that existed before, because an earlier call may have been interrupted after creating it.
pub fn create(path: &Path) -> io::Result<()> {
    create_with(path, &sync)
}

/// Like [`create`], with another function that syncs a folder, for tests and simulated disks.
pub fn create_with(path: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    let mut existing = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    while !existing.is_dir() {
        missing.push(existing);
        existing = parent_of(existing);
    }
    match sync(parent_of(existing)) {
        // An entry in a folder that cannot be synced was not created by this process.
        Err(error) if CANNOT_SYNC.contains(&error.kind()) => {}
        synced => synced?,
    }
    // Outer folders are created first, so that an interruption leaves at most one entry that is not durable.
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            // Another thread or process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            created => created?,
        }
        sync(parent_of(folder))?;
    }
    Ok(())
}

/// Makes the entries of a folder durable. The empty path is the current folder, as for the parent of a relative name.
pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?.sync_all()
}

/// The folder that contains the entry of `path`; the root contains itself.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        None => path,
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn entries_of_all_new_folders_are_synced_from_the_outside_in() {
        let root = tempfile::tempdir().unwrap();
        let synced: RefCell<Vec<PathBuf>> = RefCell::default();
        let note = |folder: &Path| {
            synced.borrow_mut().push(folder.to_owned());
            sync(folder)
        };
        let at = |name: &str| root.path().join(name);
        create_with(&at("a/b/c"), &note).unwrap();
        let above = root.path().parent().unwrap().to_owned();
        assert_eq!(synced.take(), [above, root.path().to_owned(), at("a"), at("a/b")]);
        // As after an interruption between creating a folder and syncing its parent.
        create_with(&at("a/b/c"), &note).unwrap();
        assert_eq!(synced.take(), [at("a/b")]);
        create_with(&at("a/b/d/e"), &note).unwrap();
        assert_eq!(synced.take(), [at("a"), at("a/b"), at("a/b/d")]);
        let failing = |folder: &Path| if folder == at("a") { Err(io::Error::other("broken")) } else { sync(folder) };
        assert!(create_with(&at("a/f/g"), &failing).is_err());
    }

    #[test]
    fn relative_folders_are_entries_of_the_current_one() {
        assert_eq!(parent_of(Path::new("data")), Path::new("."));
        assert_eq!(parent_of(Path::new("/")), Path::new("/"));
        sync(Path::new("")).unwrap();
    }
}
