//! Reads the `.conf` files of a data directory and passes them to the crate `conf`; every warning is logged once.
//!
//! User files are read only for the requested namespace: `etc/users/USER/APP/local`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_conf::{ConfSource, Layer, Layers, Namespace, ObjectAccess, Readable, Reader, Readership, Sharing, View};
use quarry_stdx::{Fault, log};

use crate::folders::{app_name, enabled_apps, is_disabled, user_folder};
use crate::objects::APP_DEFAULT;

/// Maximum size of a conf file in bytes.
const CONF_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Apps that exist even without a folder, because clients use them by default.
const IMPLICIT_APPS: [&str; 2] = ["search", "system"];

/// The merged configuration of a data directory, including built-in defaults.
pub fn read(data_dir: &Path) -> Layers {
    Layers::new(sources(data_dir))
}

/// Read permissions in the metadata of all enabled apps.
pub fn read_readership(data_dir: &Path) -> Readership {
    let access = |folder: PathBuf| (app_name(&folder), access_of(&folder));
    Readership::new(enabled_apps(data_dir).into_iter().map(access))
}

/// Read and write permissions of an app's shared objects.
pub(crate) fn access_of(app: &Path) -> ObjectAccess {
    let text = |file: &str| read_text(&app.join("metadata").join(file)).unwrap_or_default();
    ObjectAccess::new(&text("default.meta"), &text("local.meta"))
}

/// The permissions that decide which objects a reader may read.
pub fn read_readable(data_dir: &Path, reader: &Reader) -> Readable {
    match *reader == Reader::unrestricted() {
        true => Readable::unrestricted(),
        false => Readable::new(Arc::new(read_readership(data_dir)), reader.clone()),
    }
}

/// Like [`read`], without the objects that `readable` excludes.
pub fn read_apps(data_dir: &Path, readable: &Readable) -> Layers {
    Layers::readable(sources(data_dir), readable)
}

/// Like [`read_apps`], with the user's private objects in the default app.
pub fn read_with_private(data_dir: &Path, user: &str, readable: &Readable) -> Layers {
    let mut own = Vec::new();
    let namespace = Namespace::new(user, APP_DEFAULT).ok().flatten();
    if let Some(folder) = namespace.and_then(|namespace| user_folder(data_dir, &namespace)) {
        collect(&folder.join("local"), Layer::User, Some(APP_DEFAULT.to_owned()), &mut own);
    }
    Layers::with_private(sources(data_dir), &own, readable)
}

/// The configuration visible to a namespace, without the objects that `readable` excludes; fails if the namespace's app
/// does not exist or is disabled.
pub fn read_view(data_dir: &Path, namespace: Namespace, readable: &Readable) -> Result<(Layers, View), Fault> {
    let apps = data_dir.join("etc/apps");
    let app = namespace.app();
    if !apps.join(app).is_dir() && !IMPLICIT_APPS.contains(&app) {
        return Err(Fault::not_found(format!(
            "there is no app {app}: apps are the folders of etc/apps in the data directory"
        )));
    }
    if is_disabled(&apps.join(app)) {
        return Err(Fault::not_found(format!(
            "the app {app} is disabled: enable it with a POST to apps/local/{app}/enable"
        )));
    }
    let mut sources = sources(data_dir);
    if let Some(folder) = user_folder(data_dir, &namespace) {
        collect(&folder.join("local"), Layer::User, Some(app.to_owned()), &mut sources);
    }
    let sharing = |folder: PathBuf| {
        let text = |file: &str| read_text(&folder.join("metadata").join(file)).unwrap_or_default();
        (app_name(&folder), Sharing::new(&text("default.meta"), &text("local.meta")))
    };
    let view = View::new(namespace, enabled_apps(data_dir).into_iter().map(sharing));
    Ok((Layers::for_view(sources, &view, readable), view))
}

fn sources(data_dir: &Path) -> Vec<ConfSource> {
    let mut sources = Vec::new();
    let etc = data_dir.join("etc");
    collect(&etc.join("system/local"), Layer::SystemLocal, None, &mut sources);
    for app in enabled_apps(data_dir) {
        let name = app.file_name().map(|name| name.to_string_lossy().into_owned());
        collect(&app.join("default"), Layer::AppDefault, name.clone(), &mut sources);
        collect(&app.join("local"), Layer::AppLocal, name, &mut sources);
    }
    sources
}

/// Reads each `*.conf` of a folder; unreadable files are reported and skipped.
fn collect(folder: &Path, layer: Layer, app: Option<String>, sources: &mut Vec<ConfSource>) {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    files.sort();
    for path in files {
        if let Some(text) = read_text(&path) {
            sources.push(ConfSource { layer, app: app.clone(), file: path.display().to_string(), text });
        }
    }
}

/// Warnings already logged; files are read again for each namespace.
static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// Maximum number of remembered warnings; beyond the limit, repeated warnings are logged again.
const LOGGED_MAX: usize = 1_000;

fn log_once(text: String) {
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.contains(&text) {
        return;
    }
    log::warning(&text);
    if logged.len() < LOGGED_MAX {
        logged.insert(text);
    }
}

/// The text of a file; an existing but unreadable file is reported.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    if path.metadata().is_ok_and(|metadata| metadata.len() > CONF_BYTES_MAX) {
        log_once(format!("{}: larger than {CONF_BYTES_MAX} bytes, not read", path.display()));
        return None;
    }
    match std::fs::read(path) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            log_once(format!("{}: {error}, not read", path.display()));
            None
        }
    }
}
