//! Apps as folders of `etc/apps`: listing, creating, changing and removing them.
//!
//! The attributes of an app are in `app.conf`: `[ui]`, `[launcher]` and `[install]`; settings in `local` override
//! settings in `default`. An app to be removed is first renamed, while no other change is running, so that a
//! half-removed app is never visible. Not here: packing ([`crate::app_packages`]) and installing archives
//! ([`crate::app_installs`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use quarry_conf::edit::check_setting;
use quarry_conf::file_name::check_file_name;
use quarry_conf::{Conf, Permissions, parse_bool};

use crate::configuration::read_text;
use crate::folders::{app_name, installed_apps, is_disabled};
use crate::objects::{APP_DEFAULT, APP_SYSTEM, AclChange, ObjectAcl, ObjectError, ObjectSharing, Objects, Scope};

/// The conf file of an app's attributes.
pub(crate) const CONF: &str = "app";
/// Apps that cannot be created or removed.
const BUILT_IN_APPS: [&str; 2] = [APP_DEFAULT, APP_SYSTEM];
/// Attributes of built-in apps, unless app.conf sets other values.
const BUILT_IN_MEMBERS: [(&str, &str); 3] = [
    ("author", "Quarry"),
    ("description", "The app for searches and reports."),
    ("version", env!("CARGO_PKG_VERSION")),
];
/// Label of the default app, as in Splunk, unless app.conf sets another.
const DEFAULT_LABEL: &str = "Search & Reporting";
/// Maximum length of an app's name in bytes (Splunk's limit).
const NAME_BYTES_MAX: usize = 100;
/// Attributes of an app, with their stanza and setting.
static MEMBERS: [(&str, &str, &str); 8] = [
    ("author", "launcher", "author"),
    ("check_for_updates", "package", "check_for_updates"),
    ("configured", "install", "is_configured"),
    ("description", "launcher", "description"),
    ("disabled", "install", "state"),
    ("label", "ui", "label"),
    ("version", "launcher", "version"),
    ("visible", "ui", "is_visible"),
];
/// Attributes that are true or false.
const FLAGS: [&str; 4] = ["check_for_updates", "configured", "disabled", "visible"];
/// Values of flags that app.conf does not set, as in Splunk.
const FLAG_DEFAULTS: [(&str, &str); 3] = [("check_for_updates", "1"), ("configured", "0"), ("visible", "1")];

/// An app and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalApp {
    /// Name of the app's folder.
    pub name: String,
    /// Attributes of the app by name.
    pub members: BTreeMap<String, String>,
    /// Whether the app can be removed.
    pub is_removable: bool,
    /// Sharing of objects whose own metadata set no sharing.
    pub sharing: ObjectSharing,
    /// Roles that may read an object if its own metadata lists no readers.
    pub readers: Vec<String>,
    /// Roles that may change an object if its own metadata lists no writers.
    pub writers: Vec<String>,
}

impl Objects {
    /// The apps, sorted by name; the default app is always included.
    pub fn apps(&self) -> Vec<LocalApp> {
        let mut names: Vec<String> = installed_apps(self.data_dir()).iter().map(|path| app_name(path)).collect();
        names.retain(|name| check_file_name(name).is_ok());
        if !names.iter().any(|name| name == APP_DEFAULT) {
            names.push(APP_DEFAULT.to_owned());
        }
        names.sort();
        names.into_iter().map(|name| self.read_app(name)).collect()
    }

    /// One app by name.
    pub fn app(&self, name: &str) -> Result<LocalApp, ObjectError> {
        let found = self.apps().into_iter().find(|app| app.name == name);
        found.ok_or_else(|| ObjectError::Unknown(name.to_owned()))
    }

    /// The apps that a user may read.
    pub fn readable_apps(&self, viewer: &Permissions) -> Vec<LocalApp> {
        let mut apps = self.apps();
        apps.retain(|app| self.may_read_app(&app.name, viewer));
        apps
    }

    /// One app by name, if the user may read it.
    pub fn readable_app(&self, name: &str, viewer: &Permissions) -> Result<LocalApp, ObjectError> {
        match self.may_read_app(name, viewer) {
            true => self.app(name),
            false => Err(ObjectError::Unknown(name.to_owned())),
        }
    }

    /// One app by name, if its permissions let the user change it. If the app has no permissions of its own, the
    /// capability that the caller has checked is sufficient.
    pub fn writable_app(&self, name: &str, viewer: &Permissions) -> Result<LocalApp, ObjectError> {
        let app = self.readable_app(name, viewer)?;
        match self.may_write_app(name, viewer) {
            true => Ok(app),
            false => Err(ObjectError::Denied(format!(
                "user {} may not change the app {name}: its acl permits this only to {}",
                viewer.user,
                app.writers.join(", ")
            ))),
        }
    }

    /// Creates an app.
    pub fn create_app(
        &self,
        name: &str,
        members: &[(String, String)],
        viewer: &Permissions,
    ) -> Result<LocalApp, ObjectError> {
        check_app_name(name)?;
        check_members(name, members)?;
        let mut all = vec![("version".to_owned(), "1.0.0".to_owned()), ("label".to_owned(), name.to_owned())];
        all.retain(|(member, _)| !members.iter().any(|(given, _)| given == member));
        all.extend_from_slice(members);
        // Every reason for a refusal is checked before the app exists.
        member_settings(&all)?;
        let folder = self.apps_folder().join(name);
        {
            let _change = self.files().change()?;
            if folder.exists() || BUILT_IN_APPS.contains(&name) {
                return Err(ObjectError::Exists(name.to_owned()));
            }
            std::fs::create_dir_all(folder.join("local")).map_err(|error| io_error(&folder, &error))?;
        }
        self.edit_app(name, &all, viewer)
    }

    /// Changes the attributes of an app.
    pub fn edit_app(
        &self,
        name: &str,
        members: &[(String, String)],
        viewer: &Permissions,
    ) -> Result<LocalApp, ObjectError> {
        self.app(name)?;
        check_members(name, members)?;
        let scope = Scope::for_namespace(crate::objects::NOBODY, name)?;
        for (stanza, setting) in member_settings(members)? {
            self.put(CONF, stanza, &[setting], &scope, viewer)?;
        }
        self.app(name)
    }

    /// Changes the permissions that apply to objects of an app without permissions of their own. The caller has checked
    /// that the change is permitted. An app has no owner, so a new owner has no effect.
    pub fn edit_app_acl(&self, name: &str, change: &AclChange) -> Result<LocalApp, ObjectError> {
        let _change = self.files().change()?;
        self.app(name)?;
        self.set_app_acl(name, change)?;
        self.app(name)
    }

    /// Removes an app with everything in it.
    pub fn remove_app(&self, name: &str) -> Result<(), ObjectError> {
        let _change = self.files().change()?;
        let app = self.app(name)?;
        if !app.is_removable {
            return Err(ObjectError::Denied(format!("the app {name} is part of the program: it cannot be removed")));
        }
        let (folder, gone) = (self.apps_folder().join(name), self.apps_folder().join(format!(".{name}.removed")));
        drop(std::fs::remove_dir_all(&gone));
        self.files().forget_folder(&folder)?;
        std::fs::rename(&folder, &gone).map_err(|error| io_error(&folder, &error))?;
        std::fs::remove_dir_all(&gone).map_err(|error| io_error(&gone, &error))
    }

    pub(crate) fn apps_folder(&self) -> PathBuf {
        self.data_dir().join("etc/apps")
    }

    fn read_app(&self, name: String) -> LocalApp {
        let folder = self.apps_folder().join(&name);
        let mut members = BTreeMap::new();
        for layer in ["default", "local"] {
            let text = read_text(&folder.join(layer).join("app.conf")).unwrap_or_default();
            let (conf, _) = Conf::parse("app.conf", &text);
            for (member, stanza, key) in MEMBERS {
                if let Some(value) = conf.stanza(stanza).and_then(|stanza| stanza.get(key)) {
                    members.insert(member.to_owned(), value.to_owned());
                }
            }
        }
        members.insert("disabled".to_owned(), if is_disabled(&folder) { "1" } else { "0" }.to_owned());
        let label = if name == APP_DEFAULT { DEFAULT_LABEL } else { &name };
        members.entry("label".to_owned()).or_insert_with(|| label.to_owned());
        for (member, value) in FLAG_DEFAULTS {
            members.entry(member.to_owned()).or_insert_with(|| value.to_owned());
        }
        let is_removable = !BUILT_IN_APPS.contains(&name.as_str());
        if !is_removable {
            for (member, value) in BUILT_IN_MEMBERS {
                members.entry(member.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
        let ObjectAcl { sharing, readers, writers } = self.app_acl(&name);
        LocalApp { name, members, is_removable, sharing, readers, writers }
    }
}

/// Refuses an invalid name of an app.
fn check_app_name(name: &str) -> Result<(), ObjectError> {
    check_file_name(name)?;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    if name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        return Err(ObjectError::Invalid(format!(
            "{name}: the name of an app must consist of at most {NAME_BYTES_MAX} letters, digits, _, - and ."
        )));
    }
    Ok(())
}

/// Refuses names under which no app can be installed.
pub(crate) fn check_new_name(name: &str) -> Result<(), ObjectError> {
    check_app_name(name)?;
    match BUILT_IN_APPS.contains(&name) {
        true => Err(ObjectError::Denied(format!("the app {name} is part of the program: it cannot be installed"))),
        false => Ok(()),
    }
}

/// A setting of app.conf with its stanza.
pub(crate) type MemberSetting = (&'static str, (String, String));

/// The settings of app.conf for attributes of an app; fails for attributes and values that are refused.
pub(crate) fn member_settings(members: &[(String, String)]) -> Result<Vec<MemberSetting>, ObjectError> {
    let setting = |(member, value): &(String, String)| -> Result<MemberSetting, ObjectError> {
        let (_, stanza, key) = find_member(member)?;
        let is_flag = FLAGS.contains(&member.as_str());
        if is_flag && !value.trim().is_empty() && parse_bool(value.trim()).is_none() {
            return Err(ObjectError::Invalid(format!("{member}={value}: give 1 or 0")));
        }
        let value = match (member.as_str(), is_yes(value)) {
            ("disabled", true) => "disabled",
            ("disabled", false) => "enabled",
            _ => value.as_str(),
        };
        check_setting(key, value)?;
        Ok((*stanza, ((*key).to_owned(), value.to_owned())))
    };
    members.iter().map(setting).collect()
}

/// Refuses invalid attributes, and disabling an app that is part of the program.
fn check_members(name: &str, members: &[(String, String)]) -> Result<(), ObjectError> {
    for (member, value) in members {
        find_member(member)?;
        if member == "disabled" && is_yes(value) && BUILT_IN_APPS.contains(&name) {
            return Err(ObjectError::Invalid(format!("the app {name} is part of the program: it cannot be disabled")));
        }
    }
    Ok(())
}

/// The attribute of this name.
fn find_member(member: &str) -> Result<&'static (&'static str, &'static str, &'static str), ObjectError> {
    let found = MEMBERS.iter().find(|(known, ..)| *known == member);
    found.ok_or_else(|| ObjectError::Invalid(format!("Argument \"{member}\" is not supported by this handler.")))
}

fn is_yes(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "t" | "y")
}

fn io_error(path: &std::path::Path, error: &std::io::Error) -> ObjectError {
    ObjectError::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn given_roles(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn apps_are_created_changed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::new(folder.path());
        let admin =
            Permissions::for_user("boss", BTreeSet::from(["admin_all_objects".to_owned()]), Vec::new(), Vec::new());
        let names = || objects.apps().into_iter().map(|app| app.name).collect::<Vec<_>>();
        assert_eq!(names(), ["search"]);
        let given = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let made = objects.create_app("shop", &given(&[("description", "d")]), &admin).unwrap();
        assert_eq!((made.members["version"].as_str(), made.members["description"].as_str()), ("1.0.0", "d"));
        let changed = objects.edit_app("shop", &given(&[("version", "2.0")]), &admin).unwrap();
        assert_eq!((changed.members["version"].as_str(), changed.members["disabled"].as_str()), ("2.0", "0"));
        assert_eq!((changed.sharing, changed.writers), (ObjectSharing::App, given_roles(&["admin", "power"])));
        let change = AclChange {
            sharing: Some(ObjectSharing::Global),
            writers: Some(given_roles(&["admin"])),
            ..AclChange::default()
        };
        let shared = objects.edit_app_acl("shop", &change).unwrap();
        assert_eq!((shared.sharing, shared.readers), (ObjectSharing::Global, given_roles(&["*"])));
        assert_eq!((shared.writers, shared.members), (given_roles(&["admin"]), changed.members));
        for sharing in [ObjectSharing::User, ObjectSharing::System] {
            let change = AclChange { sharing: Some(sharing), ..AclChange::default() };
            assert!(objects.edit_app_acl("shop", &change).is_err());
        }
        let disabled = objects.edit_app("shop", &given(&[("disabled", "1")]), &admin).unwrap();
        assert_eq!((disabled.members["disabled"].as_str(), names().len()), ("1", 2), "a disabled app stays installed");
        let pair = [("definition".to_owned(), "x".to_owned())];
        let scope = Scope::for_namespace("nobody", "shop").unwrap();
        let told = objects.create("macros", "m", &pair, &scope, &admin).unwrap_err().to_string();
        assert!(told.contains("is disabled"), "{told}");
        assert!(
            crate::configuration::read_view(
                folder.path(),
                quarry_conf::Namespace::new("boss", "shop").unwrap().unwrap(),
                &quarry_conf::Readable::unrestricted()
            )
            .is_err()
        );
        let macros =
            || crate::read_configuration(folder.path()).conf("macros").get("own", "definition").map(str::to_owned);
        std::fs::write(folder.path().join("etc/apps/shop/local/macros.conf"), "[own]\ndefinition = x\n").unwrap();
        assert_eq!(macros(), None);
        objects.edit_app("shop", &given(&[("disabled", "0")]), &admin).unwrap();
        assert_eq!(macros().as_deref(), Some("x"));
        assert!(objects.edit_app("search", &given(&[("disabled", "1")]), &admin).is_err());
        for wrong in [("colour", "red"), ("label", "a\0b"), ("visible", "perhaps"), ("disabled", "2x")] {
            assert!(objects.create_app("half", &given(&[wrong]), &admin).is_err(), "{wrong:?}");
        }
        assert_eq!(names(), ["search", "shop"]);
        assert_eq!(objects.create_app("shop", &[], &admin), Err(ObjectError::Exists("shop".to_owned())));
        for name in ["", "..", "a/b", ".x", "a b", "search", "system"] {
            assert!(objects.create_app(name, &[], &admin).is_err(), "{name}");
        }
        assert!(objects.edit_app("shop", &given(&[("colour", "red")]), &admin).is_err());
        assert!(matches!(objects.remove_app("search"), Err(ObjectError::Denied(_))));
        objects.remove_app("shop").unwrap();
        assert_eq!(objects.remove_app("shop"), Err(ObjectError::Unknown("shop".to_owned())));
        assert_eq!(names(), ["search"]);
    }
}
