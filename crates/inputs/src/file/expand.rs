//! Expands names, globs, folders (recursively) and `-` (standard input) to a list of files. Data directories of Quarry
//! inside these folders are skipped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quarry_stdx::log;

use super::open::STDIN;
use crate::InputError;

/// Maximum depth below a named folder.
const FOLDER_DEPTH_MAX: usize = 64;

/// Returns the files that `patterns` name, in the order of the patterns and without duplicates. A name or glob without
/// a match is an error.
pub fn expand(patterns: &[String]) -> Result<Vec<PathBuf>, InputError> {
    let (files, mut wrong) = expand_each(patterns);
    if wrong.is_empty() { Ok(files) } else { Err(wrong.swap_remove(0)) }
}

/// Like [`expand`], but returns the files of the valid patterns and the errors of the others.
pub fn expand_each(patterns: &[String]) -> (Vec<PathBuf>, Vec<InputError>) {
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for pattern in patterns {
        let mut found = Vec::new();
        if pattern == STDIN {
            found.push(PathBuf::from(STDIN));
        } else if let Err(error) = add_matches(pattern, &mut found) {
            wrong.push(error);
        }
        files.extend(found.into_iter().filter(|file| seen.insert(file.clone())));
    }
    (files, wrong)
}

/// Adds the files that match a pattern. An existing name is taken literally, even with `[` or `*`; otherwise it is a
/// glob.
fn add_matches(pattern: &str, found: &mut Vec<PathBuf>) -> Result<(), InputError> {
    let literal = Path::new(pattern);
    if literal.symlink_metadata().is_ok() {
        return add_files_below(literal, 0, found);
    }
    let bad = |reason: String| InputError::Pattern { pattern: pattern.to_owned(), reason };
    let paths = glob::glob(pattern).map_err(|error| bad(error.to_string()))?;
    let mut any = false;
    // A data directory that the pattern names without wildcards is read on purpose.
    let named = literal.components().take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']));
    let named = named.count();
    for path in paths {
        any = true;
        let path = path.map_err(|error| bad(error.to_string()))?;
        let mut above = path.ancestors().skip(1).take_while(|folder| folder.components().count() > named);
        if !above.any(is_data_directory) {
            add_files_below(&path, 0, found)?;
        }
    }
    if any { Ok(()) } else { Err(bad("no such file".to_owned())) }
}

/// Whether a folder is the data directory of a node or of a forwarder, which has a queue instead of a store. Its files
/// contain the password hashes, the private keys and the token of the administrator, which would become searchable for
/// everybody who may search the index.
pub(crate) fn is_data_directory(folder: &Path) -> bool {
    let has = |file: &str| folder.join(file).is_file();
    folder.join("etc").is_dir() && (has("forward/lock") || has("lock") && folder.join("wal").is_dir())
}

/// Adds the file at `path`, or every regular file below the folder at `path` in name order.
fn add_files_below(path: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), InputError> {
    let read = |error: std::io::Error| InputError::read(path, &error);
    let metadata = path.metadata().map_err(read)?;
    if !metadata.is_dir() {
        found.push(path.to_path_buf());
        return Ok(());
    }
    if is_data_directory(path) {
        log::note(format!("{}: is a data directory of quarry and is skipped", path.display()));
        return Ok(());
    }
    if depth >= FOLDER_DEPTH_MAX {
        // Links are not followed, so the folders are really that deep.
        let reason = format!("folders nest deeper than {FOLDER_DEPTH_MAX}: name the deeper ones as well");
        return Err(InputError::Pattern { pattern: path.display().to_string(), reason });
    }
    let entries = std::fs::read_dir(path).map_err(read)?;
    let mut entries: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(read)?;
    entries.sort();
    for entry in entries {
        // Inside a folder, links are not followed and sockets and pipes are skipped: only ordinary log files are
        // wanted.
        let kind = entry.symlink_metadata().map_err(read)?.file_type();
        if kind.is_dir() || kind.is_file() {
            add_files_below(&entry, depth + 1, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directories_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        let files =
            ["a.log", "node/lock", "node/etc/passwd", "node/wal/1", "edge/forward/lock", "edge/etc/auth/server.pem"];
        files.iter().for_each(|path| write(path));
        write("other/etc/b.log");
        let found = |pattern: &str| -> Vec<String> {
            let found = expand(&[folder.path().join(pattern).display().to_string()]).unwrap_or_default();
            let below = found.iter().map(|file| file.strip_prefix(folder.path()).unwrap().display().to_string());
            below.collect()
        };
        for pattern in ["", "*", "*/*", "*/etc/*"] {
            let found = found(pattern);
            assert!(
                found.iter().all(|file| !file.starts_with("node") && !file.starts_with("edge")),
                "{pattern}: {found:?}"
            );
            assert!(found.contains(&"other/etc/b.log".to_owned()), "{pattern}: {found:?}");
        }
        assert_eq!(found("node/etc/*"), ["node/etc/passwd"], "the pattern names the data directory");
    }
}
