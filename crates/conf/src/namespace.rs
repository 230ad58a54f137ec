//! The settings visible to searches of one user in one app: settings of the app, settings shared by other apps, and the
//! user's own settings.
//!
//! An app declares in `metadata/default.meta` and `local.meta` which objects it shares with other apps. A stanza names
//! a kind (`[props]`), an object (`[props/STANZA]`), a setting (`[props/STANZA/SETTING]`) or everything (`[]`), each
//! part URL-encoded. The most specific stanza that sets `export` applies; if no stanza sets `export`, nothing is
//! shared.
//!
//! Not here: files and folders, permission to read or change an object ([`crate::object_access`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use quarry_stdx::Fault;

use crate::file_name::check_file_name;
use crate::layers::{ConfSource, Layer};
use crate::props::search_time::is_search_time;
use crate::props::table::PROPS;
use crate::text::{Conf, Stanza};

/// Wildcard for all users or all apps.
const ALL: &str = "-";
/// The user name that means no user.
const NOBODY: &str = "nobody";
/// Metadata setting that shares an object with other apps.
const EXPORT: &str = "export";
/// Value of `export` that shares the object.
const EXPORTED: &str = "system";
/// Confs that depend on app and user; all other confs are the same for the whole node.
const SEARCH_TIME_CONFS: [&str; 11] = [
    "alert_actions",
    "commands",
    "datamodels",
    "eventtypes",
    "macros",
    "multikv",
    "props",
    "savedsearches",
    "tags",
    "transactiontypes",
    "transforms",
];

/// An app and a user in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    app: String,
    user: Option<String>,
}

impl Namespace {
    /// The namespace of an app and a user. `None` (everything) if the app or the user is `-`; `nobody` means no user.
    pub fn new(user: &str, app: &str) -> Result<Option<Namespace>, Fault> {
        for (what, name) in [("a user", user), ("an app", app)] {
            check_file_name(name).map_err(|fault| fault.with_context(what))?;
        }
        if user == ALL || app == ALL {
            return Ok(None);
        }
        Ok(Some(Namespace { app: app.to_owned(), user: Some(user.to_owned()).filter(|user| user != NOBODY) }))
    }

    /// Folder name of the app.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The user, if any.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The same app without a user.
    pub fn without_user(self) -> Namespace {
        Namespace { user: None, ..self }
    }
}

/// The objects that an app shares with other apps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Values of `export`, by the parts of the metadata stanza's name.
    exports: BTreeMap<Vec<String>, bool>,
}

impl Sharing {
    /// Reads the texts of `default.meta` and `local.meta`; `local.meta` overrides `default.meta`, stanza by stanza.
    pub fn new(default: &str, local: &str) -> Sharing {
        let mut exports = BTreeMap::new();
        for text in [default, local] {
            let (conf, _) = Conf::parse("metadata", text);
            for stanza in conf.stanzas.iter().filter(|stanza| stanza.line > 0) {
                if let Some(value) = stanza.get(EXPORT) {
                    exports.insert(split_name(&stanza.name), value.eq_ignore_ascii_case(EXPORTED));
                }
            }
        }
        Sharing { exports }
    }

    /// The value of the most specific stanza along `path`, excluding `[]`.
    pub fn nearest_value(&self, path: &[&str]) -> Option<bool> {
        (1..=path.len()).rev().find_map(|length| {
            let part: Vec<String> = path[..length].iter().map(|part| (*part).to_owned()).collect();
            self.exports.get(&part).copied()
        })
    }

    /// Whether other apps see the object at `path`: its kind, its name, and optionally one of its settings.
    pub fn exports(&self, path: &[&str]) -> bool {
        self.nearest_value(path).unwrap_or_else(|| self.exports_all())
    }

    /// Like [`Sharing::exports`] for an object known under two kinds; the first kind with a value applies.
    pub fn exports_either(&self, kinds: [&str; 2], name: &str) -> bool {
        let said = kinds.iter().find_map(|kind| self.nearest_value(&[kind, name]));
        said.unwrap_or_else(|| self.exports_all())
    }

    fn exports_all(&self) -> bool {
        self.exports.get(&Vec::new()).copied().unwrap_or(false)
    }

    /// Removes unshared settings from a stanza of another app. Returns whether the stanza stays, which it
    /// does if settings are left or the stanza itself is shared.
    fn retain_shared(&self, conf: &str, stanza: &mut Stanza) -> bool {
        let name = stanza.name.clone();
        stanza.settings.retain(|setting| self.exports(&[conf, &name, &setting.key]));
        !stanza.settings.is_empty() || self.exports(&[conf, &name])
    }
}

/// The URL-decoded parts of a stanza's name; empty for `[]`.
pub(crate) fn split_name(name: &str) -> Vec<String> {
    let name = name.trim();
    if name.is_empty() { Vec::new() } else { name.split('/').map(|part| decode(part).into_owned()).collect() }
}

/// A part of a stanza's name, URL-encoded: bytes other than ASCII letters, digits and `-_.~` become `%XX`.
pub(crate) fn encode_part(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A text with `%XX` decoded; invalid codes stay as they are.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|digits| bytes[at] == b'%' && digits.is_ascii());
        let code = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

/// The objects that a namespace sees in all apps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    namespace: Namespace,
    /// The other apps, with the objects that they share.
    others: BTreeMap<String, Sharing>,
}

impl View {
    /// The view of a namespace; `apps` are all enabled apps, with the objects that they share.
    pub fn new(namespace: Namespace, apps: impl IntoIterator<Item = (String, Sharing)>) -> View {
        let others = apps.into_iter().filter(|(app, _)| *app != namespace.app).collect();
        View { namespace, others }
    }

    /// The namespace of the view.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Names of the apps, highest precedence first: the namespace's own app, then the other apps in descending order of
    /// name.
    pub fn apps(&self) -> impl DoubleEndedIterator<Item = &str> {
        std::iter::once(self.namespace.app.as_str()).chain(self.others.keys().rev().map(String::as_str))
    }

    /// Whether the namespace sees an object of `app`.
    pub fn is_visible(&self, app: &str, kind: &str, name: &str) -> bool {
        app == self.namespace.app || self.others.get(app).is_some_and(|sharing| sharing.exports(&[kind, name]))
    }

    /// Whether the namespace sees a data model file of `app`, whose kind is `models` or `datamodels`.
    pub fn is_model_visible(&self, app: &str, name: &str) -> bool {
        let shared = |sharing: &Sharing| sharing.exports_either(["models", "datamodels"], name);
        app == self.namespace.app || self.others.get(app).is_some_and(shared)
    }

    /// Whether a conf depends on app and user.
    pub fn is_namespaced(conf: &str) -> bool {
        SEARCH_TIME_CONFS.contains(&conf)
    }

    /// Precedence of an app among the app layers; the namespace's own app has the highest.
    pub(crate) fn rank<'a>(&self, app: &'a str) -> (bool, &'a str) {
        (app == self.namespace.app, app)
    }

    /// Whether a setting depends on app and user: in props.conf only search-time settings do. Index-time settings are
    /// the same for everyone, even where searches read them (`date_hour`, `punct`).
    pub(crate) fn is_namespaced_setting(conf: &str, key: &str) -> bool {
        View::is_namespaced(conf) && (conf != PROPS.conf || is_search_time(key))
    }

    /// Removes from a file the settings that do not depend on app and user, or that the namespace does not see.
    pub(crate) fn retain_visible(&self, name: &str, source: &ConfSource, conf: &mut Conf) {
        let none = Sharing::default();
        let sharing = match (source.layer, source.app.as_deref()) {
            (Layer::AppDefault | Layer::AppLocal, Some(app)) if app != self.namespace.app => {
                Some(self.others.get(app).unwrap_or(&none))
            }
            _ => None,
        };
        conf.stanzas.retain_mut(|stanza| {
            stanza.settings.retain(|setting| View::is_namespaced_setting(name, &setting.key));
            sharing.is_none_or(|sharing| sharing.retain_shared(name, stanza))
        });
    }
}

#[cfg(test)]
mod tests;
