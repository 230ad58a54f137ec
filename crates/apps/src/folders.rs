//! Folders of apps and users in order of precedence; finds the app that defines a stanza.
//!
//! Hidden folders of `etc/apps` are not apps: they contain apps that are being installed or removed. A disabled app
//! (`state = disabled` in the stanza `install` of its app.conf) is installed, but nothing in it takes effect.

use std::path::{Path, PathBuf};

use quarry_conf::{Conf, Namespace, View};

use crate::configuration::read_text;

/// The folder of a user's private files in the app, if any.
pub fn user_folder(data_dir: &Path, namespace: &Namespace) -> Option<PathBuf> {
    let folder = data_dir.join("etc/users").join(namespace.user()?).join(namespace.app());
    folder.is_dir().then_some(folder)
}

/// Folders of all installed apps, including disabled apps, sorted by name.
pub fn installed_apps(data_dir: &Path) -> Vec<PathBuf> {
    let mut apps = folders_in(&data_dir.join("etc/apps"));
    apps.retain(|app| !app_name(app).starts_with('.'));
    apps
}

/// Folders of the enabled apps, sorted by name.
pub fn enabled_apps(data_dir: &Path) -> Vec<PathBuf> {
    let mut apps = installed_apps(data_dir);
    apps.retain(|app| !is_disabled(app));
    apps
}

/// Whether an app is disabled.
pub fn is_disabled(app: &Path) -> bool {
    let state = ["local", "default"].into_iter().find_map(|layer| {
        let (conf, _) = Conf::parse("app.conf", &read_text(&app.join(layer).join("app.conf"))?);
        conf.stanza("install")?.get("state").map(str::to_owned)
    });
    state.is_some_and(|state| state == "disabled")
}

/// Folders of all enabled apps, sorted by name, or of the apps of a view, in the view's order of precedence.
pub fn app_folders(data_dir: &Path, view: Option<&View>) -> Vec<PathBuf> {
    let apps = data_dir.join("etc/apps");
    match view {
        None => enabled_apps(data_dir),
        // A view has enabled apps only.
        Some(view) => view.apps().map(|app| apps.join(app)).filter(|folder| folder.is_dir()).collect(),
    }
}

/// Name of an app's folder.
pub fn app_name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The folder of the app whose `conf` has a stanza of this name; with a view and an object kind, only an app whose
/// stanza is visible in the view.
pub fn app_folder(data_dir: &Path, conf: &str, name: &str, seen: Option<(&View, &str)>) -> Option<PathBuf> {
    let apps = visible_apps(data_dir, name, seen);
    apps.into_iter().find(|app| has_stanza(app, conf, name))
}

/// Like [`app_folder`], but returns the folders of all these apps, in the order of [`app_folders`].
pub fn app_folders_with(data_dir: &Path, conf: &str, name: &str, seen: Option<(&View, &str)>) -> Vec<PathBuf> {
    let mut apps = visible_apps(data_dir, name, seen);
    apps.retain(|app| has_stanza(app, conf, name));
    apps
}

fn visible_apps(data_dir: &Path, name: &str, seen: Option<(&View, &str)>) -> Vec<PathBuf> {
    let mut apps = app_folders(data_dir, seen.map(|(view, _)| view));
    apps.retain(|app| seen.is_none_or(|(view, kind)| view.is_visible(&app_name(app), kind, name)));
    apps
}

/// Whether an app's `conf` has a stanza of this name.
pub(crate) fn has_stanza(app: &Path, conf: &str, name: &str) -> bool {
    let header = format!("[{name}]");
    ["local", "default"].iter().any(|layer| {
        let text = std::fs::read_to_string(app.join(layer).join(conf));
        text.is_ok_and(|text| text.lines().any(|line| line.trim() == header))
    })
}

/// Subfolders of a folder, sorted by name.
pub(crate) fn folders_in(parent: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}
