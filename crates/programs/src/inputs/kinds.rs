//! The kinds of modular inputs that apps provide, as described by the apps' programs.
//!
//! A program that has answered (`--scheme`) is queried again only when its file has changed. If the program does not
//! answer, the settings of its kind are those that the app's `README/inputs.conf.spec` declares.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use quarry_apps::folders::enabled_apps;
use quarry_stdx::{Fault, log};

use super::input_context::StopSignal;
use super::modular_input::{CHECKPOINTS, declared_arguments, declared_schemes};
use super::scheme::{Scheme, SchemeArgument, query};
use super::scripts::environment;
use super::validation::{CheckedStanza, validate};
use crate::files;

/// Maximum number of kinds that are listed; further ones are skipped with a message.
const KINDS_MAX: usize = 256;

/// A kind of modular input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModularInputKind {
    /// Scheme of the kind, whose stanzas in inputs.conf are `[SCHEME://NAME]`.
    pub scheme: String,
    /// Name of the app that contains its program.
    pub app: String,
    /// Display name.
    pub title: String,
    /// Description of the data that it reads, for users.
    pub description: String,
    /// Whether its program writes XML rather than text.
    pub is_xml: bool,
    /// Whether a single process serves all its stanzas.
    pub is_single: bool,
    /// Settings of the kind's stanzas.
    pub arguments: Vec<SchemeArgument>,
}

/// The kinds of a data directory's apps.
#[derive(Debug)]
pub struct ModularInputKinds {
    /// Absolute path of the data directory.
    home: PathBuf,
    /// The schemes by program, with the time of the program's last change; `None` for a program that did not answer.
    cache: Mutex<BTreeMap<PathBuf, (SystemTime, Option<Scheme>)>>,
    /// Held while a program checks a stanza, so that requests run one such program at a time.
    checking: Mutex<()>,
}

impl ModularInputKinds {
    /// Kinds of inputs that the apps of a data directory define.
    pub fn of_data_dir(data_dir: &Path) -> ModularInputKinds {
        let home = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf());
        ModularInputKinds { home, cache: Mutex::default(), checking: Mutex::default() }
    }

    /// All kinds by scheme. Queries the programs that are new or have changed.
    pub fn list(&self) -> Vec<ModularInputKind> {
        let apps = enabled_apps(&self.home).into_iter();
        let mut schemes: Vec<String> = apps.flat_map(|app| declared_schemes(&app)).collect();
        schemes.sort();
        schemes.dedup();
        if schemes.len() > KINDS_MAX {
            log::warning(format!("apps have more than {KINDS_MAX} kinds of modular inputs: the others are not listed"));
            schemes.truncate(KINDS_MAX);
        }
        schemes.into_iter().filter_map(|scheme| self.kind(scheme)).collect()
    }

    /// Lets the program of a scheme check the settings of a new or changed stanza if the scheme asks for that; the
    /// fault has the program's message. `address` is that of the management port.
    pub fn check_stanza(
        &self,
        (scheme, name): (&str, &str),
        settings: &BTreeMap<String, String>,
        host: &str,
        address: Option<SocketAddr>,
    ) -> Result<(), Fault> {
        let Some((file, _)) = files::scheme_program(&self.home, scheme) else { return Ok(()) };
        // A program that does not describe itself checks nothing.
        if !self.scheme_of(&file).ok().flatten().is_some_and(|scheme| scheme.is_checked) {
            return Ok(());
        }
        let program = files::program(&self.home, &file, Vec::new(), false)?;
        let _alone = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        let stanza = CheckedStanza {
            host,
            uri: &address.map_or_else(String::new, |address| format!("http://{address}")),
            checkpoints: &self.home.join(CHECKPOINTS).join(scheme).display().to_string(),
            name,
            settings,
        };
        let checked = validate(&program, &environment(&self.home), &stanza);
        checked.map_err(|fault| fault.with_context(format_args!("Validation for scheme={scheme} failed")))
    }

    /// Looks up or queries one kind; `None` if the scheme has no program.
    fn kind(&self, scheme: String) -> Option<ModularInputKind> {
        let (file, folder) = files::scheme_program(&self.home, &scheme)?;
        let app = folder.file_name()?.to_string_lossy().into_owned();
        let described = self.scheme_of(&file).unwrap_or_else(|fault| {
            log::warning(format!("{}: {fault}", file.display()));
            None
        });
        let undescribed = || Scheme { arguments: declared_arguments(&folder, &scheme), ..Scheme::default() };
        let Scheme { title, description, is_xml, is_single, arguments, .. } = described.unwrap_or_else(undescribed);
        let title = if title.is_empty() { scheme.clone() } else { title };
        Some(ModularInputKind { scheme, app, title, description, is_xml, is_single, arguments })
    }

    /// The answer of a program; `None` if it has not answered since its file last changed.
    fn scheme_of(&self, file: &Path) -> Result<Option<Scheme>, Fault> {
        let failed = |error| Fault::io(file.display(), error);
        let modified = file.metadata().and_then(|metadata| metadata.modified()).map_err(failed)?;
        // The lock is held while the program runs, so that several requests do not start the same program.
        let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, scheme)) = known.get(file).filter(|(asked, _)| *asked == modified) {
            return Ok(scheme.clone());
        }
        let program = files::program(&self.home, file, Vec::new(), false)?;
        let answer = query(&program, &environment(&self.home), &StopSignal::default());
        known.insert(file.to_owned(), (modified, answer.as_ref().ok().cloned()));
        answer.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn schemes_are_cached_until_the_program_changes() {
        let place = tempfile::tempdir().unwrap();
        let app = place.path().join("etc/apps/weather");
        std::fs::create_dir_all(app.join("bin")).unwrap();
        std::fs::create_dir_all(app.join("README")).unwrap();
        std::fs::write(app.join("README/inputs.conf.spec"), "[weather://<name>]\ncity = <value>\n[gone://<name>]\n")
            .unwrap();
        let write = |title: &str, at: u64| {
            let path = app.join("bin/weather.sh");
            let text = format!(
                "#!/bin/sh\necho '<scheme><title>{title}</title><description>D</description><streaming_mode>xml\
                 </streaming_mode><endpoint><args><arg name=\"city\"><title>C</title></arg></args></endpoint></scheme>'\n"
            );
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at);
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        write("One", 1_000);
        let kinds = ModularInputKinds::of_data_dir(place.path());
        let [kind] = kinds.list().try_into().unwrap();
        assert_eq!(
            (kind.scheme.as_str(), kind.app.as_str(), kind.title.as_str(), kind.is_xml),
            ("weather", "weather", "One", true)
        );
        assert_eq!((kind.arguments[0].name.as_str(), kind.arguments[0].title.as_str()), ("city", "C"));
        write("Two", 2_000);
        assert_eq!(kinds.list()[0].title, "Two");
    }

    #[test]
    fn a_program_without_a_scheme_has_the_declared_settings() {
        let place = tempfile::tempdir().unwrap();
        let app = place.path().join("etc/apps/old");
        std::fs::create_dir_all(app.join("bin")).unwrap();
        std::fs::create_dir_all(app.join("README")).unwrap();
        let spec = "# notes\n[other://<name>]\nx = <value>\n[old://<name>]\n* A kind.\nfield1 = <string>\n* The first.\n\
                    * Required.\n\n#field0 = <string>\nfield2=<integer>\n";
        std::fs::write(app.join("README/inputs.conf.spec"), spec).unwrap();
        let path = app.join("bin/old.sh");
        std::fs::write(&path, format!("#!/bin/sh\necho asked >> {}/asked\n", place.path().display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let kinds = ModularInputKinds::of_data_dir(place.path());
        for _ in 0..2 {
            let [kind] = kinds.list().try_into().unwrap();
            let arguments = kind
                .arguments
                .iter()
                .map(|argument| (argument.name.as_str(), argument.description.as_str(), argument.is_required));
            assert_eq!(
                arguments.collect::<Vec<_>>(),
                [("field1", "The first. Required.", false), ("field2", "", false)]
            );
            assert_eq!((kind.title.as_str(), kind.is_xml), ("old", false));
        }
        let asked = std::fs::read_to_string(place.path().join("asked")).unwrap();
        assert_eq!(asked.lines().count(), 1, "a program that does not answer is not asked again");
    }
}
