//! Installs apps from archives: `.spl`, `.tgz` and `.tar`, compressed by gzip or not, with one folder that is the app.
//!
//! An archive is unpacked into [`UNFINISHED`], beside the apps but hidden from code that reads apps, and moved into
//! place by one rename. If the node is killed meanwhile, the app stays as it was. An update replaces the whole app
//! except `local/`, `metadata/local.meta`, and files of `lookups/` that the archive lacks.
//!
//! Links and devices are refused, because they could lead out of the app. Not here: downloads, and signatures.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, TryLockError};

use quarry_conf::edit::with_settings;
use quarry_stdx::private_file;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::app_archives::{ArchiveError, MemberKind, check_headers, copy_content, end, member_of, open};
use crate::app_packages::{APP_BYTES_MAX, DEPTH_MAX, ENTRIES_MAX};
use crate::local_apps::{LocalApp, MemberSetting, check_new_name, member_settings};
use crate::objects::{ObjectError, Objects};
use crate::rest_handlers::{DeclaredEndpoint, declared_in};

/// Folder below `etc/apps` in which an archive is unpacked. The folder has a second level, so that nodes that share
/// files do not take it for an app.
const UNFINISHED: &str = ".installing/app";
/// The file with the attributes of an app that were set on the node.
const LOCAL_SETTINGS: &str = "local/app.conf";
/// Prefix of files in which macOS stores attributes of other files.
const APPLE_ATTRIBUTES: &str = "._";
/// An app's settings may contain secrets, so only the node's account may read the app's files.
const FILE_MODE: u32 = 0o600;
/// Mode of an app's programs.
const PROGRAM_MODE: u32 = 0o700;

/// Held during an installation, because all installations use the same folder.
static INSTALLING: Mutex<()> = Mutex::new(());

/// An app to be installed.
#[derive(Clone, Debug)]
pub struct AppInstall {
    /// Absolute path of the archive on the node.
    pub archive: PathBuf,
    /// Name for the app; `None` means the name of the archive's folder.
    pub name: Option<String>,
    /// Whether an app of this name is replaced.
    pub is_update: bool,
    /// Attributes of the app, which replace the attributes in the archive.
    pub members: Vec<(String, String)>,
}

/// An app that was installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledApp {
    /// The app as installed, with its attributes.
    pub app: LocalApp,
    /// Whether no app of this name was installed before.
    pub is_new: bool,
    /// Endpoints that the app declares; their programs are not run.
    pub endpoints: Vec<DeclaredEndpoint>,
}

impl Objects {
    /// Installs an app from an archive, or replaces it with the archive's version.
    pub fn install_app(&self, install: &AppInstall) -> Result<InstalledApp, ObjectError> {
        let _installing = match INSTALLING.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(ObjectError::Busy("another app is being installed: try again when it is done".to_owned()));
            }
            // Every installation begins with an empty folder, so leftovers of an installation that panicked are
            // harmless.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(installing) => installing,
        };
        // Every reason for a refusal is checked before the app is moved into place.
        let settings = member_settings(&install.members)?;
        let unfinished = Unfinished::new(&self.apps_folder())?;
        let named = unpack(&install.archive, &unfinished.app)?;
        let name = install.name.clone().unwrap_or(named);
        check_new_name(&name)?;
        let folder = self.apps_folder().join(&name);
        let is_new = {
            let _change = self.files().change()?;
            let is_new = !folder.exists();
            if !is_new && !install.is_update {
                return Err(ObjectError::Exists(name));
            }
            if !is_new {
                copy_local_changes(&folder, &unfinished.app).map_err(|error| failed(&folder, &error))?;
            }
            write_settings(&unfinished.app, &settings)?;
            if is_new {
                fs::rename(&unfinished.app, &folder).map_err(|error| failed(&folder, &error))?;
            } else {
                renameat_with(CWD, &unfinished.app, CWD, &folder, RenameFlags::EXCHANGE)
                    .map_err(|error| failed(&folder, &error.into()))?;
            }
            sync_folder(&self.apps_folder()).map_err(|error| failed(&folder, &error))?;
            is_new
        };
        let endpoints = declared_in(&self.apps_folder().join(&name));
        Ok(InstalledApp { app: self.app(&name)?, is_new, endpoints })
    }
}

/// Writes settings into `local/app.conf` of an app that is not in place yet. The file is replaced, not changed in
/// place, because it may be a hard link to a file of the app's old version.
fn write_settings(app: &Path, settings: &[MemberSetting]) -> Result<(), ObjectError> {
    if settings.is_empty() {
        return Ok(());
    }
    let path = app.join(LOCAL_SETTINGS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(&path, &error)),
    };
    let set =
        |text: String, (stanza, setting): &MemberSetting| with_settings(&text, stanza, std::slice::from_ref(setting));
    Ok(private_file::write(&path, &settings.iter().fold(text, set))?)
}

fn failed(path: &Path, error: &io::Error) -> ObjectError {
    ObjectError::Failed(format!("{}: {error}", path.display()))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The folder of an unfinished installation; removed with its content at the end.
struct Unfinished {
    folder: PathBuf,
    app: PathBuf,
}

impl Unfinished {
    /// Creates the empty folder, and removes files that a killed node has left in it.
    fn new(apps: &Path) -> Result<Unfinished, ObjectError> {
        let app = apps.join(UNFINISHED);
        let folder = app.parent().unwrap_or(apps).to_owned();
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&folder, &error)),
            _ => fs::create_dir_all(&app).map_err(|error| failed(&app, &error))?,
        }
        Ok(Unfinished { folder, app })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed before the next installation.
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Unpacks an archive into a folder; returns the name of the archive's own folder.
fn unpack(archive: &Path, into: &Path) -> Result<String, ObjectError> {
    let invalid = |reason: &str| ObjectError::Invalid(format!("{} cannot be installed: {reason}", archive.display()));
    if !archive.is_absolute() {
        return Err(invalid("give the absolute path of an archive on the node"));
    }
    // Reading a named pipe would block, and reading a device might never end.
    match fs::metadata(archive) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(invalid("it is not a file")),
        Err(error) => return Err(invalid(&error.to_string())),
    }
    let refused = |error: ArchiveError| match error {
        ArchiveError::Open(error) => invalid(&error.to_string()),
        ArchiveError::Damaged(reason) => invalid(&reason),
    };
    if !check_headers(archive, ENTRIES_MAX, APP_BYTES_MAX).map_err(refused)? {
        let most = APP_BYTES_MAX >> 20;
        return Err(invalid(&format!("it has more than {ENTRIES_MAX} files or {most} MB, the maximum for an app")));
    }
    let mut tar = open(archive).map_err(refused)?;
    let mut app = None::<String>;
    for entry in tar.entries().map_err(|error| refused(error.into()))? {
        let mut entry = entry.map_err(|error| refused(error.into()))?;
        let Some(member) = member_of(&entry).map_err(refused)? else { continue };
        let parts = checked_components(&member.name).map_err(refused)?;
        let Some((first, inside)) = parts.split_first() else { continue };
        if parts.iter().any(|part| part.starts_with(APPLE_ATTRIBUTES)) {
            continue;
        }
        if *app.get_or_insert_with(|| (*first).to_owned()) != **first {
            return Err(invalid(&format!("it has more than one folder, {} and {first}", app.unwrap_or_default())));
        }
        let path = inside.iter().fold(into.to_owned(), |path, part| path.join(part));
        match member.kind {
            MemberKind::Folder => fs::create_dir_all(&path).map_err(|error| failed(&path, &error))?,
            MemberKind::File if inside.is_empty() => return Err(invalid(&format!("{first} is not a folder"))),
            MemberKind::File => {
                let mut file = create(&path, member.is_executable).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                        invalid(&format!("it has {} more than once", member.name))
                    }
                    _ => failed(&path, &error),
                })?;
                copy_content(&mut entry, &mut file).map_err(refused)?;
                file.sync_all().map_err(|error| failed(&path, &error))?;
            }
            MemberKind::Other => {
                return Err(invalid(&format!("{} is a link or a device, which apps may not have", member.name)));
            }
        }
    }
    end(tar).map_err(refused)?;
    app.ok_or_else(|| invalid("it is empty"))
}

/// The names in an entry's path; fails for a path that is refused.
fn checked_components(name: &str) -> Result<Vec<&str>, ArchiveError> {
    let refused = |reason: String| Err(ArchiveError::Damaged(reason));
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str().unwrap_or_default()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return refused(format!("{name} leads out of the app"));
            }
        }
    }
    if name.chars().any(char::is_control) {
        return refused(format!("{} contains a control character", name.escape_debug()));
    }
    // The first folder is the app itself, and the last name may be a file in the deepest folder.
    if parts.len() > DEPTH_MAX + 2 {
        return refused(format!("{name} is nested more than {DEPTH_MAX} folders deep"));
    }
    Ok(parts)
}

fn create(path: &Path, is_executable: bool) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mode = if is_executable { PROGRAM_MODE } else { FILE_MODE };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Adds this node's local changes of an app to a new version of the app. The old version keeps its files.
fn copy_local_changes(old: &Path, new: &Path) -> io::Result<()> {
    for own in ["local", "metadata/local.meta"] {
        let (from, to) = (old.join(own), new.join(own));
        let removed = if to.is_dir() { fs::remove_dir_all(&to) } else { fs::remove_file(&to) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => link_missing(&from, &to)?,
        }
    }
    link_missing(&old.join("lookups"), &new.join("lookups"))
}

/// Links into `to` the files of `from` that `to` lacks. Settings and lookup files are replaced as a whole, never
/// written in place, so hard links are as safe as copies.
fn link_missing(from: &Path, to: &Path) -> io::Result<()> {
    let mut pairs = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = pairs.pop() {
        let Ok(metadata) = fs::symlink_metadata(&from) else { continue };
        if metadata.is_dir() {
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(&from)? {
                let entry = entry?;
                pairs.push((entry.path(), to.join(entry.file_name())));
            }
        } else if fs::symlink_metadata(&to).is_err() {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::hard_link(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::{MutexGuard, PoisonError};

    use super::*;

    /// Held by a test, because a process installs one app at a time.
    static TESTING: Mutex<()> = Mutex::new(());

    struct World {
        _testing: MutexGuard<'static, ()>,
        folder: tempfile::TempDir,
        objects: Objects,
    }

    impl World {
        fn new() -> World {
            let testing = TESTING.lock().unwrap_or_else(PoisonError::into_inner);
            let folder = tempfile::tempdir().unwrap();
            let objects = Objects::new(folder.path());
            World { _testing: testing, folder, objects }
        }

        /// An archive of files, made by the system's `tar`.
        fn archive(&self, options: &str, files: &[(&str, &str)]) -> PathBuf {
            let source = self.folder.path().join("source");
            drop(fs::remove_dir_all(&source));
            fs::create_dir_all(&source).unwrap();
            for (name, text) in files {
                let path = source.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            self.packed(options, &source)
        }

        fn packed(&self, options: &str, source: &Path) -> PathBuf {
            let archive = self.folder.path().join("archive");
            let mut tar = Command::new("tar");
            tar.args(["--create", "--absolute-names", options, "--file"]).arg(&archive).arg("-C").arg(source).arg(".");
            assert!(tar.status().unwrap().success());
            archive
        }

        fn install(&self, archive: &Path, is_update: bool) -> Result<InstalledApp, ObjectError> {
            self.objects.install_app(&AppInstall {
                archive: archive.to_owned(),
                name: None,
                is_update,
                members: Vec::new(),
            })
        }

        fn text(&self, file: &str) -> Option<String> {
            fs::read_to_string(self.folder.path().join("etc/apps").join(file)).ok()
        }

        fn apps(&self) -> Vec<String> {
            let apps = fs::read_dir(self.folder.path().join("etc/apps")).unwrap();
            apps.map(|app| app.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    #[test]
    fn archives_of_every_form_are_installed_and_nothing_else_is_left() {
        let long = format!("shop/default/{}b.txt", "a-long-name/".repeat(12));
        for options in ["--gzip", "--format=ustar", "--format=gnu", "--format=pax"] {
            let world = World::new();
            let archive = world.archive(options, &[("shop/default/app.conf", "[ui]\nlabel = S\n"), (&long, "deep")]);
            let installed = world.install(&archive, false).unwrap();
            assert_eq!((installed.app.name.as_str(), installed.is_new), ("shop", true), "{options}");
            assert_eq!(installed.app.members["label"], "S");
            assert_eq!(world.text(&long).as_deref(), Some("deep"), "{options}");
            assert_eq!(world.apps(), ["shop"], "{options}");
            assert_eq!(world.install(&archive, false), Err(ObjectError::Exists("shop".to_owned())));
            let name = Some("other".to_owned());
            let other = AppInstall { archive, name, is_update: false, members: Vec::new() };
            assert_eq!(world.objects.install_app(&other).unwrap().app.name, "other");
        }
    }

    #[test]
    fn an_update_replaces_an_app_except_local_changes() {
        let world = World::new();
        let first = [("shop/default/app.conf", "old"), ("shop/bin/gone.py", "old"), ("shop/lookups/a.csv", "old")];
        world.install(&world.archive("--gzip", &first), true).unwrap();
        for (file, text) in [("local/app.conf", "mine"), ("metadata/local.meta", "mine"), ("lookups/b.csv", "mine")] {
            let path = world.folder.path().join("etc/apps/shop").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let second = [
            ("shop/default/app.conf", "new"),
            ("shop/local/app.conf", "new"),
            ("shop/local/inputs.conf", "new"),
            ("shop/metadata/local.meta", "new"),
            ("shop/lookups/a.csv", "new"),
        ];
        assert!(!world.install(&world.archive("--gzip", &second), true).unwrap().is_new);
        for (file, text) in [
            ("default/app.conf", Some("new")),
            ("bin/gone.py", None),
            ("local/app.conf", Some("mine")),
            ("local/inputs.conf", None),
            ("metadata/local.meta", Some("mine")),
            ("lookups/a.csv", Some("new")),
            ("lookups/b.csv", Some("mine")),
        ] {
            assert_eq!(world.text(&format!("shop/{file}")).as_deref(), text, "{file}");
        }
        assert_eq!(world.apps(), ["shop"]);
    }

    #[test]
    fn oversized_attributes_and_incomplete_archives_are_refused() {
        let world = World::new();
        let archive = world.folder.path().join("archive");
        let block = |kind: tar::EntryType, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_path("shop/x").unwrap();
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            let mut bytes = header.as_bytes().to_vec();
            bytes.extend_from_slice(content);
            bytes.resize(bytes.len().next_multiple_of(512), 0);
            bytes
        };
        let file = block(tar::EntryType::Regular, b"text");
        let end = vec![0; 1_024];
        let told = |parts: &[&[u8]]| {
            fs::write(&archive, parts.concat()).unwrap();
            world.install(&archive, true).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
        };
        let long = block(tar::EntryType::GNULongName, &vec![b'n'; 70 << 10]);
        assert!(told(&[&long, &file, &end]).contains("too long attributes"));
        let many = block(tar::EntryType::GNULongLink, b"n").repeat(9);
        assert!(told(&[&many, &file, &end]).contains("too many"));
        assert!(told(&[&file]).contains("ends early"));
        let sparse = block(tar::EntryType::Char, b"");
        assert!(told(&[&sparse, &end]).contains("link or a device"));
        assert_eq!(world.apps(), Vec::<String>::new());
        let global = block(tar::EntryType::XGlobalHeader, b"20 comment=an archive\n");
        assert_eq!(told(&[&global, &file, &end]), "");
        assert_eq!(world.text("shop/x").as_deref(), Some("text"));
    }

    #[test]
    fn archives_that_lead_elsewhere_or_are_damaged_are_refused_and_leave_nothing() {
        let world = World::new();
        let told = |archive: &Path| world.install(archive, true).unwrap_err().to_string();
        let source = world.folder.path().join("links/shop");
        fs::create_dir_all(&source).unwrap();
        std::os::unix::fs::symlink("/etc", source.join("link")).unwrap();
        assert!(told(&world.packed("--gzip", source.parent().unwrap())).contains("is a link or a device"));
        let out = world.archive("--transform=s,shop,shop/../..,", &[("shop/x", "")]);
        assert!(told(&out).contains("leads out of the app"));
        assert!(told(&world.archive("--gzip", &[("a/x", ""), ("b/x", "")])).contains("more than one folder"));
        assert!(told(&world.archive("--gzip", &[("search/x", "")])).contains("part of the program"));
        assert!(told(&world.archive("--gzip", &[])).contains("it is empty"));
        let whole = fs::read(world.archive("--gzip", &[("shop/x", "text")])).unwrap();
        let archive = world.folder.path().join("archive");
        for length in 0..whole.len() {
            fs::write(&archive, &whole[..length]).unwrap();
            assert!(world.install(&archive, true).is_err(), "{length} of {} bytes", whole.len());
        }
        fs::write(&archive, "x".repeat(2_000)).unwrap();
        assert!(told(&archive).contains("not a tar archive"));
        for (path, reason) in [("archive", "absolute path"), ("/dev/null", "not a file"), ("/missing", "No such file")]
        {
            assert!(told(Path::new(path)).contains(reason), "{path}");
        }
        assert_eq!(world.apps(), Vec::<String>::new());
    }

    #[test]
    fn leftovers_of_a_killed_node_are_not_apps_and_are_removed() {
        let world = World::new();
        let left = world.folder.path().join("etc/apps").join(UNFINISHED).join("default");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("app.conf"), "half").unwrap();
        assert_eq!(world.objects.apps().len(), 1, "only the app that always exists");
        world.install(&world.archive("--gzip", &[("shop/x", "")]), false).unwrap();
        assert_eq!((world.apps(), world.text("shop/default/app.conf")), (vec!["shop".to_owned()], None));
    }
}
