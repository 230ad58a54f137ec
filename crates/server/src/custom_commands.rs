//! Custom search commands: which programs apps bring along (commands.conf, the app's bin folder) and how they are begun.
//!
//! Only commands with `chunked = true` run. Who speaks with the program is [`crate::custom_process`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use quarry_conf::Layers;
use quarry_engine::{CommandProcess, CommandSource};

use crate::custom_process::{ProgramLimits, RunningProgram};
use crate::program_group::Program;

/// Interpreter of scripts that end with `.py`.
pub(crate) const PYTHON: &str = "python3";
/// Arguments of a program that commands.conf may give.
const ARGUMENTS_MAX: usize = 100;
/// The size of a chunk when `maxchunksize` names none, in bytes.
const CHUNK_BYTES_MAX: u64 = 256 << 20;
/// How long a program may take for an answer when `maxwait` says nothing, in seconds.
const WAIT_SECS: u64 = 600;

/// Commands of the apps of a data folder.
#[derive(Default)]
pub(crate) struct CustomCommands {
    commands: BTreeMap<String, Definition>,
}

/// A command as commands.conf has it.
struct Definition {
    app: String,
    program: Result<Program, String>,
    limits: ProgramLimits,
}

impl CustomCommands {
    /// The commands of a data folder, none without one.
    pub(crate) fn new(layers: &Layers, data_dir: Option<&Path>) -> CustomCommands {
        let Some(data_dir) = data_dir else { return CustomCommands::default() };
        let conf = layers.conf("commands");
        let names = conf.stanzas().iter().map(|stanza| stanza.name.as_str()).filter(|name| *name != "default");
        let commands = names.filter_map(|name| {
            let setting = |key: &str| conf.effective(name).get(key).map(|setting| setting.value.trim().to_owned());
            let folder = app_folder(data_dir, "commands.conf", name)?;
            let app = folder.file_name().map(|app| app.to_string_lossy().into_owned()).unwrap_or_default();
            let number =
                |key: &str| setting(key).and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
            let limits = ProgramLimits {
                wait_secs: number("maxwait").unwrap_or(WAIT_SECS),
                chunk_bytes: number("maxchunksize").unwrap_or(CHUNK_BYTES_MAX),
            };
            let program = program(name, &folder, &setting);
            Some((name.to_ascii_lowercase(), Definition { app, program, limits }))
        });
        CustomCommands { commands: commands.collect() }
    }
}

/// The app whose `conf` has a stanza of this name.
pub(crate) fn app_folder(data_dir: &Path, conf: &str, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(data_dir.join("etc/apps")).into_iter().flatten().flatten();
    let mut apps: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    apps.sort();
    let header = format!("[{name}]");
    apps.into_iter().find(|app| {
        ["local", "default"].iter().any(|layer| {
            let text = std::fs::read_to_string(app.join(layer).join(conf));
            text.is_ok_and(|text| text.lines().any(|line| line.trim() == header))
        })
    })
}

/// What to start, or why it cannot be started.
fn program(name: &str, app: &Path, setting: &dyn Fn(&str) -> Option<String>) -> Result<Program, String> {
    let is_true = |text: &str| matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "t" | "yes");
    if !setting("chunked").is_some_and(|text| is_true(&text)) {
        return Err("it does not speak the chunked protocol (chunked = true in commands.conf)".to_owned());
    }
    if setting("python.version").is_some_and(|version| version == "python2") {
        return Err("it wants python2, which does not run here".to_owned());
    }
    let filename = setting("filename").unwrap_or_else(|| format!("{name}.py"));
    if filename.contains(['/', '\\']) || filename.starts_with('.') {
        return Err(format!("filename = {filename}: give the name of a file in the app's bin folder"));
    }
    let folder = app.join("bin");
    let file = folder.join(&filename);
    if !file.is_file() {
        return Err(format!("{}: there is no such file", file.display()));
    }
    // The process begins in the folder, so that a relative data folder would lead elsewhere.
    let file = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
    let mut arguments: Vec<String> = Vec::new();
    let executable = match filename.ends_with(".py") {
        true => {
            arguments.push(file.display().to_string());
            PathBuf::from(PYTHON)
        }
        false => file,
    };
    let given = (1..=ARGUMENTS_MAX).map_while(|at| setting(&format!("command.arg.{at}")));
    arguments.extend(given);
    Ok(Program { executable, arguments, folder })
}

impl CommandSource for CustomCommands {
    fn names(&self) -> BTreeSet<String> {
        self.commands.keys().cloned().collect()
    }

    fn app(&self, name: &str) -> String {
        self.commands.get(name).map(|found| found.app.clone()).unwrap_or_default()
    }

    fn start(&self, name: &str) -> Result<Box<dyn CommandProcess>, String> {
        let definition = self.commands.get(name).ok_or_else(|| format!("no app has a command {name}"))?;
        let program = definition.program.as_ref().map_err(String::clone)?;
        Ok(Box::new(RunningProgram::start(program, definition.limits)?))
    }
}
