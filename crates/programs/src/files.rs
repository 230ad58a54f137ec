//! Locates the file that a stanza names, and decides how to run it.
//!
//! Programs are in `bin` folders of the data directory: `bin/scripts`, `etc/system/bin` and the `bin` folders of apps.
//! A `.py` file is run by Python; a `.path` file contains the path of a program in any folder, with its arguments.

use std::io::Read;
use std::path::{Path, PathBuf};

use quarry_apps::folders::{app_folder, enabled_apps};
use quarry_conf::file_name::check_file_name;
use quarry_stdx::Fault;

use crate::group::Program;

/// Interpreter of `.py` files.
pub(crate) const PYTHON: &str = "python3";
/// Shell that starts programs of apps unless the stanza disables it.
const SHELL: &str = "/bin/sh";
/// Shell command that replaces the shell with the program.
const SHELL_LINE: &str = "exec \"$0\" \"$@\"";
/// Variable that stands for the data directory.
const HOME: &str = "$SPLUNK_HOME";
/// Maximum bytes of a `.path` file.
const PATH_FILE_BYTES_MAX: u64 = 4 << 10;
/// Conf file of the stanzas.
const INPUTS: &str = "inputs.conf";

/// Whether a setting is true.
pub(crate) fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "t" | "yes")
}

/// Whether a name is a plain file name without folders.
pub(crate) fn is_plain(name: &str) -> bool {
    check_file_name(name).is_ok()
}

/// The file that `[script://TEXT]` runs, and the command line that runs it.
pub(crate) fn script_program(
    home: &Path,
    stanza: &str,
    text: &str,
    by_shell: bool,
) -> Result<(PathBuf, Program), Fault> {
    let text = text.trim().replace('\\', "/").replace(HOME, &home.display().to_string());
    let base = app_folder(home, INPUTS, stanza, None).unwrap_or_else(|| home.join("etc/system"));
    let place = |path: &str| base.join(path.strip_prefix("./").unwrap_or(path));
    let (file, arguments) = match place(&text).is_file() {
        true => (place(&text), Vec::new()),
        false => {
            let mut words = text.split_whitespace().map(str::to_owned);
            (place(&words.next().unwrap_or_default()), words.collect())
        }
    };
    let file = check_program(home, &file)?;
    let program = program(home, &file, arguments, by_shell)?;
    Ok((file, program))
}

/// Command line that runs a file with arguments.
pub(crate) fn program(home: &Path, file: &Path, arguments: Vec<String>, by_shell: bool) -> Result<Program, Fault> {
    let folder = file.parent().unwrap_or(home).to_path_buf();
    let ends_in = |ending: &str| file.extension().is_some_and(|extension| extension == ending);
    if ends_in("path") {
        return path_file_program(home, file, arguments, folder);
    }
    let path = file.display().to_string();
    let with = |executable: &str, first: &[&str]| {
        let mut all: Vec<String> = first.iter().map(|&word| word.to_owned()).collect();
        all.push(path.clone());
        all.extend(arguments.iter().cloned());
        Program { executable: executable.into(), arguments: all, folder: folder.clone() }
    };
    if ends_in("py") {
        return Ok(with(PYTHON, &[]));
    }
    if rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_err() {
        return Err(Fault::invalid(format!("{path} cannot be executed: chmod +x it")));
    }
    match by_shell {
        true => Ok(with(SHELL, &["-c", SHELL_LINE])),
        false => Ok(Program { executable: file.to_path_buf(), arguments, folder }),
    }
}

fn path_file_program(home: &Path, file: &Path, more: Vec<String>, folder: PathBuf) -> Result<Program, Fault> {
    let io = |error| Fault::io(file.display(), error);
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(io)?;
    let bytes = opened.take(PATH_FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(io)?;
    if bytes as u64 > PATH_FILE_BYTES_MAX {
        return Err(Fault::invalid(format!(
            "{}: it has more than {PATH_FILE_BYTES_MAX} bytes; a .path file holds the path of a program and its arguments",
            file.display()
        )));
    }
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().next().unwrap_or_default().replace(HOME, &home.display().to_string());
    let mut words = line.split_whitespace().map(str::to_owned);
    let Some(executable) = words.next() else {
        return Err(Fault::invalid(format!("{}: its first line names no program", file.display())));
    };
    Ok(Program { executable: executable.into(), arguments: words.chain(more).collect(), folder })
}

/// Checks that a file may be run as a program, and returns its absolute path.
fn check_program(home: &Path, file: &Path) -> Result<PathBuf, Fault> {
    let found = file.canonicalize().map_err(|error| Fault::io(file.display(), error))?;
    let home = home.canonicalize().map_err(|error| Fault::io(home.display(), error))?;
    let inside: Vec<String> = found
        .strip_prefix(&home)
        .map(|inside| inside.iter().map(|part| part.to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    let words: Vec<&str> = inside.iter().map(String::as_str).collect();
    let is_known = match words.as_slice() {
        ["bin", "scripts", _, ..] | ["etc", "system", "bin", _, ..] => true,
        ["etc", "apps", _, rest @ ..] => rest.len() > 1 && rest[..rest.len() - 1].contains(&"bin"),
        _ => false,
    };
    if is_known && found.is_file() {
        return Ok(found);
    }
    Err(Fault::invalid(format!(
        "{}: programs must be in bin/scripts, etc/system/bin or the bin folder of an app",
        found.display()
    )))
}

/// The program of a modular input scheme, and its app's folder.
pub(crate) fn scheme_program(home: &Path, scheme: &str) -> Option<(PathBuf, PathBuf)> {
    check_file_name(scheme).ok()?;
    enabled_apps(home).into_iter().find_map(|app| Some((find_in_app(home, &app, scheme)?, app)))
}

/// The program with this name in an app, with or without extension.
pub(crate) fn find_in_app(home: &Path, app: &Path, name: &str) -> Option<PathBuf> {
    find_names_in_app(home, app, &["", ".py", ".sh"].map(|ending| format!("{name}{ending}")))
}

/// The file with exactly this name in an app's program folders.
pub(crate) fn find_exact_in_app(home: &Path, app: &Path, name: &str) -> Option<PathBuf> {
    find_names_in_app(home, app, &[name.to_owned()])
}

fn find_names_in_app(home: &Path, app: &Path, names: &[String]) -> Option<PathBuf> {
    let folders = [format!("linux_{}/bin", std::env::consts::ARCH), "bin".to_owned()];
    let mut all = folders.iter().flat_map(|folder| names.iter().map(move |name| app.join(folder).join(name)));
    check_program(home, &all.find(|path| path.is_file())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_files_without_a_program_state_the_reason() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a.path");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            program(home.path(), &file, vec!["more".to_owned()], false)
        };
        let found = read("$SPLUNK_HOME/bin/x -a\nsecond line\n").unwrap();
        assert_eq!(found.executable, home.path().join("bin/x"));
        assert_eq!(found.arguments, ["-a", "more"]);
        let fault = |text: &str| read(text).map(|_| ()).unwrap_err().to_string();
        assert!(fault("\n").contains("its first line names no program"));
        assert!(fault(&"x".repeat(5_000)).contains("it has more than 4096 bytes"));
    }
}
