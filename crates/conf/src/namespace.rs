//! What the searches of one app and user see: files of the app, what other apps share, and the user's own files.
//!
//! An app says in `metadata/default.meta` and `local.meta` what others see of it: stanzas are a kind (`[props]`), an
//! object of it (`[props/STANZA]`, `[props/STANZA/SETTING]`) or everything (`[]`), each part written as in a URL. Of
//! those that say anything about `export` the most specific one counts; where none does, nothing is shared.
//!
//! Not here: files and folders, who may change an object ([`crate::object_access`]) or read it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quarry_stdx::Fault;

use crate::file_name::check_file_name;
use crate::layers::{ConfSource, Layer};
use crate::props::search_time::is_search_time;
use crate::props::table::PROPS;
use crate::text::{Conf, Stanza};

/// Stands for all users or all apps.
const ALL: &str = "-";
/// Stands for no user: what the app itself has.
const NOBODY: &str = "nobody";
/// Setting of a stanza of metadata that says whether others see it.
const EXPORT: &str = "export";
/// Its value where they do.
const EXPORTED: &str = "system";
/// Confs that follow app and user; all others are one for the whole node.
const SEARCH_TIME: [&str; 11] = [
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

/// An app, and a user in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    app: String,
    user: Option<String>,
}

impl Namespace {
    /// The namespace of an app and a user. `None`, all there is, where one of them is `-`; `nobody` is no user.
    pub fn new(user: &str, app: &str) -> Result<Option<Namespace>, Fault> {
        for (what, name) in [("a user", user), ("an app", app)] {
            check_file_name(name).map_err(|fault| fault.at(what))?;
        }
        if user == ALL || app == ALL {
            return Ok(None);
        }
        Ok(Some(Namespace { app: app.to_owned(), user: Some(user.to_owned()).filter(|user| user != NOBODY) }))
    }

    /// The app.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The user, where there is one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The same app without a user.
    pub fn without_user(self) -> Namespace {
        Namespace { user: None, ..self }
    }
}

/// What an app shares with other apps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Whether it is shared, by the parts of a stanza's name.
    exports: BTreeMap<Vec<String>, bool>,
}

impl Sharing {
    /// Reads the texts of `default.meta` and `local.meta`; what the second one says wins, stanza by stanza.
    pub fn new(default: &str, local: &str) -> Sharing {
        let mut exports = BTreeMap::new();
        for text in [default, local] {
            let (conf, _) = Conf::parse("metadata", text);
            for stanza in conf.stanzas.iter().filter(|stanza| stanza.line > 0) {
                if let Some(value) = stanza.get(EXPORT) {
                    exports.insert(parts_of(&stanza.name), value.eq_ignore_ascii_case(EXPORTED));
                }
            }
        }
        Sharing { exports }
    }

    /// What the most specific stanza on the way down `path` says, the one for everything left out.
    fn says(&self, path: &[&str]) -> Option<bool> {
        (1..=path.len()).rev().find_map(|length| {
            let part: Vec<String> = path[..length].iter().map(|part| (*part).to_owned()).collect();
            self.exports.get(&part).copied()
        })
    }

    /// Whether others see the object at `path`: its kind, its name, perhaps a setting of it.
    pub fn exports(&self, path: &[&str]) -> bool {
        self.says(path).unwrap_or_else(|| self.exports_all())
    }

    /// As [`Sharing::exports`] for an object that goes by two kinds; the first one that says anything counts.
    pub fn exports_either(&self, kinds: [&str; 2], name: &str) -> bool {
        let said = kinds.iter().find_map(|kind| self.says(&[kind, name]));
        said.unwrap_or_else(|| self.exports_all())
    }

    fn exports_all(&self) -> bool {
        self.exports.get(&Vec::new()).copied().unwrap_or(false)
    }

    /// Takes out of a stanza of another app what is not shared; whether anything is left.
    fn keep_shared(&self, conf: &str, stanza: &mut Stanza) -> bool {
        let name = stanza.name.clone();
        stanza.settings.retain(|setting| self.exports(&[conf, &name, &setting.key]));
        !stanza.settings.is_empty() || self.exports(&[conf, &name])
    }
}

/// The parts of a stanza's name, as they are without URL encoding; none for the stanza of everything.
pub(crate) fn parts_of(name: &str) -> Vec<String> {
    let name = name.trim();
    if name.is_empty() { Vec::new() } else { name.split('/').map(|part| decoded(part).into_owned()).collect() }
}

/// A part of a stanza's name as a URL has it: what is not a letter, a digit or one of `-_.~` is `%XX`.
pub(crate) fn encoded(part: &str) -> String {
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

/// A text without its `%XX`; what is no such code stays.
fn decoded(text: &str) -> Cow<'_, str> {
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

/// What a namespace sees of the apps there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    namespace: Namespace,
    /// The other apps.
    others: BTreeMap<String, Sharing>,
}

impl View {
    /// The view of a namespace; `apps` are all there are, with what they share.
    pub fn new(namespace: Namespace, apps: impl IntoIterator<Item = (String, Sharing)>) -> View {
        let others = apps.into_iter().filter(|(app, _)| *app != namespace.app).collect();
        View { namespace, others }
    }

    /// Whose view it is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Names of the apps, the one that wins first: the namespace's own, then the others, of which the one whose name
    /// sorts last wins.
    pub fn apps(&self) -> impl DoubleEndedIterator<Item = &str> {
        std::iter::once(self.namespace.app.as_str()).chain(self.others.keys().rev().map(String::as_str))
    }

    /// Whether an object of `app` is seen.
    pub fn sees(&self, app: &str, kind: &str, name: &str) -> bool {
        app == self.namespace.app || self.others.get(app).is_some_and(|sharing| sharing.exports(&[kind, name]))
    }

    /// Whether the file of a data model of `app` is seen, which goes by `models` or `datamodels`.
    pub fn sees_model(&self, app: &str, name: &str) -> bool {
        let shared = |sharing: &Sharing| sharing.exports_either(["models", "datamodels"], name);
        app == self.namespace.app || self.others.get(app).is_some_and(shared)
    }

    /// Whether a conf follows app and user.
    pub fn concerns(conf: &str) -> bool {
        SEARCH_TIME.contains(&conf)
    }

    /// Place of an app among the layers of apps, the highest for the namespace's own.
    pub(crate) fn rank<'a>(&self, app: &'a str) -> (bool, &'a str) {
        (app == self.namespace.app, app)
    }

    /// Whether a setting follows app and user: of props.conf only what is done when searching. How events were made is
    /// the same for all, and searches ask for it, too (`date_hour`, `punct`).
    pub(crate) fn concerns_setting(conf: &str, key: &str) -> bool {
        View::concerns(conf) && (conf != PROPS.conf || is_search_time(key))
    }

    /// Takes out of a file what does not follow app and user, or is not seen.
    pub(crate) fn keep_seen(&self, name: &str, source: &ConfSource, conf: &mut Conf) {
        let none = Sharing::default();
        let sharing = match (source.layer, source.app.as_deref()) {
            (Layer::AppDefault | Layer::AppLocal, Some(app)) if app != self.namespace.app => {
                Some(self.others.get(app).unwrap_or(&none))
            }
            _ => None,
        };
        conf.stanzas.retain_mut(|stanza| {
            stanza.settings.retain(|setting| View::concerns_setting(name, &setting.key));
            sharing.is_none_or(|sharing| sharing.keep_shared(name, stanza))
        });
    }
}

#[cfg(test)]
mod tests;
