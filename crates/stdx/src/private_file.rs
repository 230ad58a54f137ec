//! Files that only their owner can read: run files, passwords, keys, tokens.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::{Fault, durable_folder};

/// Readable and writable by the owner alone.
const PRIVATE_MODE: u32 = 0o600;

/// Atomically replaces the file at `path` with `text`, readable only by the owner. Creates the folder if missing;
/// returns once the content is on disk.
pub fn write(path: &Path, text: &str) -> Result<(), Fault> {
    write_bytes(path, text.as_bytes())
}

/// Like [`write()`], for content that need not be text.
pub fn write_bytes(path: &Path, content: &[u8]) -> Result<(), Fault> {
    replace(path, content).map_err(|error| Fault::io(format_args!("cannot write {}", path.display()), error))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        durable_folder::create(folder)?;
    }
    // `.new` follows the whole name, because other files of the folder may differ only in their extension.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    drop(std::fs::remove_file(&temporary));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(PRIVATE_MODE).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    // The directory entry must also survive a power loss.
    match path.parent() {
        Some(folder) => durable_folder::sync(folder),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_private_even_if_they_replace_public_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/server.json");
        write(&path, "one").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, PRIVATE_MODE);
        let other = path.with_extension("new");
        std::fs::write(&other, "another file").unwrap();
        write(&path, "three").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "another file");
        let error = write(&path.join("below"), "x").unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("server.json/below: "), "{error}");
    }
}
