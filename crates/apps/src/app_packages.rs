//! Apps packed into files for other nodes: `NAME.spl`, a gzip-compressed tar archive of the app's folder, as in Splunk.
//!
//! Packages are in [`FOLDER`] of the data directory, one per app; packing an app again replaces its package. An archive
//! contains regular files only, because symbolic links could lead out of the app. Hidden files are excluded.
//! `local/passwords.conf` is also excluded, because its secrets are encrypted with a key of this data directory and
//! could not be decrypted elsewhere.
//!
//! Not here: installing packages ([`crate::app_installs`]).

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flate2::Compression;
use flate2::write::GzEncoder;
use quarry_conf::file_name::check_file_name;
use quarry_stdx::random;
use tar::EntryType;

use crate::objects::{ObjectError, Objects};

/// Folder of the packages, relative to the data directory; Splunk has the same folder below its home.
const FOLDER: &str = "share/splunk/app_packages";
/// Ending of a package's name.
const EXTENSION: &str = ".spl";
/// The file of an app that packages omit.
const SECRETS: &str = "local/passwords.conf";
/// Maximum total size of the files of a packed app, in bytes.
pub(crate) const APP_BYTES_MAX: u64 = 256 << 20;
/// Maximum total bytes of the other apps' packages when an app is packed.
const PACKAGES_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of files and folders of a packed app.
pub(crate) const ENTRIES_MAX: usize = 20_000;
/// Maximum nesting depth of a packed app's folders.
pub(crate) const DEPTH_MAX: usize = 32;
/// Readable and writable by the owner alone.
const PRIVATE_MODE: u32 = 0o600;
/// Random bytes in the name of an unfinished package.
const ID_BYTES: usize = 8;
/// Modes of files and folders in a package.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// A packed app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppPackage {
    /// Name of the app.
    pub app: String,
    /// Path of the package.
    pub path: PathBuf,
}

impl Objects {
    /// Packs an app.
    pub fn pack_app(&self, name: &str) -> Result<AppPackage, ObjectError> {
        let app = self.app(name)?;
        let source = self.apps_folder().join(&app.name);
        if !source.is_dir() {
            return Err(ObjectError::Invalid(format!(
                "the app {name} is part of the program and has no files of its own: there is nothing to pack"
            )));
        }
        let entries = list_entries(&source)?;
        let folder = self.data_dir().join(FOLDER);
        let file = format!("{name}{EXTENSION}");
        let failed = |error: io::Error| ObjectError::Failed(format!("{}: {error}", folder.join(&file).display()));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        check_space(&folder, &file).map_err(failed)??;
        // The temporary name is random, because several requests may pack an app at the same time.
        let unfinished = folder.join(format!(".{file}.{}", random::id::<ID_BYTES>()));
        let written = write_package(&unfinished, &app.name, &entries);
        let path = folder.join(&file);
        if let Err(error) = written.and_then(|()| std::fs::rename(&unfinished, &path)) {
            // The disk may be full, so the partial file must not stay.
            drop(std::fs::remove_file(&unfinished));
            return Err(failed(error));
        }
        Ok(AppPackage { app: app.name, path })
    }

    /// The bytes of an app's package; `file` is the package's name without folders.
    pub fn app_package(&self, name: &str, file: &str) -> Result<Vec<u8>, ObjectError> {
        let unknown = || ObjectError::Unknown(format!("{name}/package/{file}"));
        if check_file_name(name).is_err() || file.strip_suffix(EXTENSION) != Some(name) {
            return Err(unknown());
        }
        let path = self.data_dir().join(FOLDER).join(file);
        std::fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unknown(),
            _ => ObjectError::Failed(format!("{}: {error}", path.display())),
        })
    }
}

/// Refuses a new package if the existing packages take too much space.
fn check_space(folder: &Path, file: &str) -> io::Result<Result<(), ObjectError>> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() != file {
            // A package may be renamed during the listing; then its size counts as 0.
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
    }
    if bytes <= PACKAGES_BYTES_MAX {
        return Ok(Ok(()));
    }
    let (folder, used, most) = (folder.display(), bytes >> 20, PACKAGES_BYTES_MAX >> 20);
    Ok(Err(ObjectError::Invalid(format!(
        "{folder} has {used} MB of packages, more than the {most} MB allowed: remove some"
    ))))
}

/// A file or folder of an app.
struct PackedEntry {
    path: PathBuf,
    /// Path of the entry in the app, separated by `/`.
    name: String,
    metadata: Metadata,
}

/// The files and folders of an app in order of their names.
fn list_entries(app: &Path) -> Result<Vec<PackedEntry>, ObjectError> {
    let failed = |path: &Path, error: io::Error| ObjectError::Failed(format!("{}: {error}", path.display()));
    let too_large =
        |what: String| ObjectError::Invalid(format!("{}: {what}, the maximum for a package", app.display()));
    let mut folders = vec![(app.to_owned(), String::new(), 0)];
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some((folder, prefix, depth)) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            // The folder may have been removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && depth > 0 => continue,
            entries => entries.map_err(|error| failed(&folder, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed(&folder, error))?;
            // A file may have been removed since it was listed; a name that is not UTF-8 cannot be in the archive.
            let (Ok(metadata), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else { continue };
            let (path, name) = (entry.path(), format!("{prefix}{name}"));
            let is_left_out = name == SECRETS || entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_left_out || !(metadata.is_file() || metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                if depth >= DEPTH_MAX {
                    return Err(too_large(format!("more than {DEPTH_MAX} levels of folders")));
                }
                folders.push((path.clone(), format!("{name}/"), depth + 1));
            } else {
                bytes += metadata.len();
            }
            found.push(PackedEntry { path, name, metadata });
            if found.len() > ENTRIES_MAX || bytes > APP_BYTES_MAX {
                let most = APP_BYTES_MAX >> 20;
                return Err(too_large(format!("more than {ENTRIES_MAX} files or {most} MB")));
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn write_package(path: &Path, app: &str, entries: &[PackedEntry]) -> io::Result<()> {
    // An app's settings may contain secrets, so only the node's account may read the package, as with the app itself.
    let file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_MODE).open(path)?;
    let mut tar = tar::Builder::new(GzEncoder::new(BufWriter::new(file), Compression::default()));
    append(&mut tar, &format!("{app}/"), EntryType::Directory, &[], 0)?;
    for entry in entries {
        let modified = entry.metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let seconds = modified.map_or(0, |time| time.as_secs());
        let name = format!("{app}/{}", entry.name);
        if entry.metadata.is_dir() {
            append(&mut tar, &format!("{name}/"), EntryType::Directory, &[], seconds)?;
            continue;
        }
        // An entry's header, which states the size, precedes the content. The file is read first, because it may grow
        // or shrink.
        let mut content = Vec::new();
        match File::open(&entry.path) {
            Ok(file) => file.take(APP_BYTES_MAX).read_to_end(&mut content)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        append(&mut tar, &name, EntryType::Regular, &content, seconds)?;
    }
    let file = tar.into_inner()?.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// Appends an entry that names no user of this machine.
fn append(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    kind: EntryType,
    content: &[u8],
    seconds: u64,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { FOLDER_MODE } else { FILE_MODE });
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(content.len() as u64);
    header.set_mtime(seconds);
    tar.append_data(&mut header, name, content)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::process::Command;

    use quarry_conf::Permissions;

    use super::*;

    fn world() -> (tempfile::TempDir, Objects) {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::new(folder.path());
        let all = BTreeSet::from(["admin_all_objects".to_owned()]);
        objects.create_app("shop", &[], &Permissions::for_user("boss", all, Vec::new(), Vec::new())).unwrap();
        (folder, objects)
    }

    #[test]
    fn packages_are_valid_tar_without_secrets_and_links() {
        let (folder, objects) = world();
        let app = folder.path().join("etc/apps/shop");
        let deep = format!("default/{}", "a-long-name/".repeat(12));
        std::fs::create_dir_all(app.join(&deep)).unwrap();
        let lines = "x".repeat(513);
        for (name, text) in
            [("default/props.conf", "[a]\n"), (&format!("{deep}b.txt"), lines.as_str()), (SECRETS, "[s]\n"), ("e", "")]
        {
            std::fs::write(app.join(name), text).unwrap();
        }
        std::fs::write(app.join(".hidden"), "h").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", app.join("link")).unwrap();
        let package = objects.pack_app("shop").unwrap();
        assert_eq!(package.path, folder.path().join(FOLDER).join("shop.spl"));
        let out = folder.path().join("out");
        std::fs::create_dir(&out).unwrap();
        let tar = Command::new("tar").arg("-xzf").arg(&package.path).arg("-C").arg(&out).output().unwrap();
        assert!(tar.status.success() && tar.stderr.is_empty(), "{}", String::from_utf8_lossy(&tar.stderr));
        let mut texts = BTreeMap::new();
        let packed = out.join("shop");
        for name in ["default/props.conf".to_owned(), format!("{deep}b.txt"), "e".to_owned()] {
            texts.insert(name.clone(), std::fs::read_to_string(packed.join(&name)).unwrap());
        }
        assert_eq!(texts.values().map(String::len).collect::<Vec<_>>(), [513, 4, 0]);
        assert!(packed.join("local/app.conf").is_file());
        for left_out in [SECRETS, ".hidden", "link"] {
            assert!(std::fs::symlink_metadata(packed.join(left_out)).is_err(), "{left_out}");
        }
        let again = objects.pack_app("shop").unwrap();
        assert_eq!(again, package);
        let files: Vec<_> = std::fs::read_dir(folder.path().join(FOLDER)).unwrap().collect();
        assert_eq!(files.len(), 1, "it replaces the earlier file, and nothing unfinished is left");
        assert_eq!(objects.app_package("shop", "shop.spl").unwrap(), std::fs::read(&package.path).unwrap());
    }

    #[test]
    fn package_names_cannot_leave_the_folder() {
        let (folder, objects) = world();
        std::fs::create_dir_all(folder.path().join(FOLDER)).unwrap();
        std::fs::write(folder.path().join("secret.spl"), "s").unwrap();
        for name in ["..", "../..", "nowhere", "", "shop/..", "."] {
            assert!(matches!(objects.pack_app(name), Err(ObjectError::Unknown(_))), "{name}");
        }
        assert!(
            matches!(objects.pack_app("search"), Err(ObjectError::Invalid(_))),
            "the app search has no folder here"
        );
        for (name, file) in [
            ("shop", "shop.spl"),
            ("shop", "other.spl"),
            ("../../secret", "../../secret.spl"),
            ("shop", "../x"),
            ("", ".spl"),
        ] {
            assert!(matches!(objects.app_package(name, file), Err(ObjectError::Unknown(_))), "{name} {file}");
        }
    }

    #[test]
    fn oversized_apps_are_refused() {
        let (folder, objects) = world();
        let deep = folder.path().join("etc/apps/shop").join("d/".repeat(DEPTH_MAX + 1));
        std::fs::create_dir_all(deep).unwrap();
        let told = |told: Result<AppPackage, ObjectError>| told.unwrap_err().to_string();
        assert!(told(objects.pack_app("shop")).contains("levels of folders"));
        std::fs::remove_dir_all(folder.path().join("etc/apps/shop/d")).unwrap();
        let large = File::create(folder.path().join("etc/apps/shop/large")).unwrap();
        large.set_len(APP_BYTES_MAX).unwrap();
        assert!(told(objects.pack_app("shop")).contains("256 MB"));
        drop(large);
        std::fs::remove_file(folder.path().join("etc/apps/shop/large")).unwrap();
        std::fs::create_dir_all(folder.path().join(FOLDER)).unwrap();
        let others = File::create(folder.path().join(FOLDER).join("other.spl")).unwrap();
        others.set_len(PACKAGES_BYTES_MAX + 1).unwrap();
        assert!(told(objects.pack_app("shop")).contains("remove some"));
        drop(others);
        std::fs::remove_file(folder.path().join(FOLDER).join("other.spl")).unwrap();
        assert!(objects.pack_app("shop").is_ok());
    }
}
