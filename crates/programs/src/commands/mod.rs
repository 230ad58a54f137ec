//! Custom search commands of apps: finding their programs (commands.conf, the app's bin folder) and starting them.
//!
//! [`running_program`] drives programs of the chunked protocol, [`protocol_v1`] those with `chunked = false` and the
//! programs of `script`. Alert actions are in [`crate::alert_actions`].

mod protocol_v1;
mod running_program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_apps::folders::{app_folder, app_folders, app_name};
use quarry_conf::{Layers, Readable, View};
use quarry_engine::{AlertCall, CommandProcess, CommandSource};
use quarry_stdx::Fault;

use crate::alert_actions::AlertActions;
use crate::files::{PYTHON, is_plain, is_true};
use crate::group::Program;
use protocol_v1::{ProgramV1, SettingsV1};
use running_program::{ProgramLimits, RunningProgram};

/// Maximum number of arguments configured in commands.conf.
const ARGUMENTS_MAX: usize = 100;
/// Default of `maxchunksize`, in bytes.
const CHUNK_BYTES_MAX: u64 = 256 << 20;
/// Default of `maxwait`, in seconds.
const TIMEOUT_SECS_DEFAULT: u64 = 600;
/// Maximum number of rows for a program of protocol version 1, the size of one portion.
const V1_ROWS_MAX: usize = 50_000;
/// Settings of the programs that `script` runs.
const SCRIPT: SettingsV1 = SettingsV1 {
    generates: false,
    streams: false,
    has_header: true,
    supports_getinfo: false,
    passes_session: false,
    rows_max: V1_ROWS_MAX,
};

/// The custom commands of a data directory.
#[derive(Default)]
pub struct CustomCommands {
    commands: BTreeMap<String, Definition>,
    alerts: AlertActions,
    data_dir: Option<PathBuf>,
    view: Option<Arc<View>>,
    /// Objects that the user may read, for the programs of `script`.
    readable: Arc<Readable>,
}

/// A command in commands.conf.
struct Definition {
    app: String,
    program: Result<Program, Fault>,
    limits: ProgramLimits,
    /// Settings for protocol version 1; `None` for the chunked protocol.
    older: Option<SettingsV1>,
}

impl CustomCommands {
    /// Creates the commands of a data directory; with `view`, only the commands in the view. Without a data directory
    /// there are no commands. `host` is this machine's name, for alert actions.
    pub fn new(
        layers: &Layers,
        data_dir: Option<&Path>,
        (view, readable): (Option<&Arc<View>>, &Arc<Readable>),
        host: &str,
    ) -> CustomCommands {
        let Some(data_dir) = data_dir else { return CustomCommands::default() };
        let conf = layers.conf("commands");
        let names = conf.stanzas().iter().map(|stanza| stanza.name.as_str()).filter(|name| *name != "default");
        let commands = names.filter_map(|name| {
            let setting = |key: &str| conf.effective(name).get(key).map(|setting| setting.value.trim().to_owned());
            let seen = view.map(|view| (view.as_ref(), "commands"));
            let folder = app_folder(data_dir, "commands.conf", name, seen)?;
            let app = folder.file_name().map(|app| app.to_string_lossy().into_owned()).unwrap_or_default();
            let number =
                |key: &str| setting(key).and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
            let limits = ProgramLimits {
                wait_secs: number("maxwait").unwrap_or(TIMEOUT_SECS_DEFAULT),
                chunk_bytes: number("maxchunksize").unwrap_or(CHUNK_BYTES_MAX),
            };
            let program = program(name, &folder, &setting);
            let older = v1_settings(&setting);
            Some((name.to_ascii_lowercase(), Definition { app, program, limits, older }))
        });
        let alerts = AlertActions::new(layers, data_dir, view, host);
        CustomCommands {
            commands: commands.collect(),
            alerts,
            data_dir: Some(data_dir.to_owned()),
            view: view.cloned(),
            readable: Arc::clone(readable),
        }
    }
}

/// Settings for protocol version 1; `None` for the chunked protocol.
fn v1_settings(setting: &dyn Fn(&str) -> Option<String>) -> Option<SettingsV1> {
    let is = |key: &str, unsaid: bool| setting(key).map_or(unsaid, |text| is_true(&text));
    let rows = setting("maxinputs").and_then(|text| text.parse().ok()).filter(|rows| *rows > 0);
    (!is("chunked", false)).then(|| SettingsV1 {
        generates: is("generating", false) || setting("generating").is_some_and(|text| text == "stream"),
        streams: is("streaming", false),
        has_header: is("enableheader", true),
        supports_getinfo: is("supports_getinfo", false),
        passes_session: is("passauth", false),
        rows_max: rows.map_or(V1_ROWS_MAX, |rows: usize| rows.min(V1_ROWS_MAX)),
    })
}

/// Finds the program named by the arguments of `script` and removes these arguments.
fn script(
    data_dir: &Path,
    (view, readable): (Option<&View>, &Readable),
    arguments: &mut Vec<String>,
) -> Result<Program, Fault> {
    let (interpreter, extension) = match arguments.first().map(String::as_str) {
        Some("python") => (Some(PYTHON), Some("py")),
        Some("perl") => (Some("perl"), Some("pl")),
        _ => (None, None),
    };
    if interpreter.is_some() {
        arguments.remove(0);
    }
    if arguments.is_empty() {
        return Err(Fault::invalid("name a program: script [python|perl] NAME [ARGUMENT...]"));
    }
    let name = arguments.remove(0);
    if !is_plain(&name) {
        return Err(Fault::invalid(format!("{name}: give the name of a file in an app's bin folder")));
    }
    let names = match extension {
        Some(extension) => vec![format!("{name}.{extension}"), name.clone()],
        None => vec![name.clone(), format!("{name}.py")],
    };
    let found = app_folders(data_dir, view).into_iter().find_map(|app| {
        let name_of_app = app_name(&app);
        let seen = |name: &&String| {
            let is_near = view.is_none_or(|view| view.is_visible(&name_of_app, "searchscripts", name));
            is_near && readable.includes(&name_of_app, &["searchscripts", name])
        };
        let folder = app.join("bin");
        let file = names.iter().filter(seen).map(|name| folder.join(name)).find(|file| file.is_file())?;
        Some((folder, file))
    });
    let Some((folder, file)) = found else {
        return Err(Fault::not_found(format!("no app has a program {name} in its bin folder")));
    };
    let file = file.canonicalize().map_err(|error| Fault::io(file.display(), error))?;
    let interpreter = interpreter.or_else(|| file.extension().is_some_and(|end| end == "py").then_some(PYTHON));
    let (executable, arguments) = match interpreter {
        Some(interpreter) => (PathBuf::from(interpreter), vec![file.display().to_string()]),
        None => (file, Vec::new()),
    };
    Ok(Program { executable, arguments, folder })
}

/// The program to start, or the reason why it cannot be started.
fn program(name: &str, app: &Path, setting: &dyn Fn(&str) -> Option<String>) -> Result<Program, Fault> {
    if setting("python.version").is_some_and(|version| version == "python2") {
        return Err(Fault::invalid("it requires python2, which is not supported"));
    }
    let filename = setting("filename").unwrap_or_else(|| format!("{name}.py"));
    if !is_plain(&filename) {
        return Err(Fault::invalid(format!("filename = {filename}: give the name of a file in the app's bin folder")));
    }
    let folder = app.join("bin");
    let file = folder.join(&filename);
    if !file.is_file() {
        return Err(Fault::not_found(format!("{}: there is no such file", file.display())));
    }
    // The process starts in the app's `bin` folder, where a relative path would not be valid.
    let file = file.canonicalize().map_err(|error| Fault::io(file.display(), error))?;
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

    fn start(&self, name: &str, is_first: bool) -> Result<Box<dyn CommandProcess>, Fault> {
        let Some(definition) = self.commands.get(name) else {
            return self.start_script(name, is_first);
        };
        let program = definition.program.as_ref().map_err(Fault::clone)?;
        let Some(older) = definition.older else {
            return Ok(Box::new(RunningProgram::start(program, definition.limits)?));
        };
        let program = program.clone();
        Ok(Box::new(ProgramV1::new(Box::new(move |_| Ok(program.clone())), definition.limits, older)))
    }

    fn check_alert(&self, name: &str) -> Result<(), Fault> {
        self.alerts.check(name)
    }

    fn send_alert(&self, call: AlertCall<'_>, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<String>, Fault> {
        self.alerts.send(call, is_cancelled)
    }
}

impl CustomCommands {
    /// Starts the program named by the arguments of `script`.
    fn start_script(&self, name: &str, is_first: bool) -> Result<Box<dyn CommandProcess>, Fault> {
        let data_dir = self.data_dir.clone().filter(|_| matches!(name, "script" | "run"));
        let data_dir = data_dir.ok_or_else(|| Fault::not_found(format!("no app has a command {name}")))?;
        let limits = ProgramLimits { wait_secs: TIMEOUT_SECS_DEFAULT, chunk_bytes: CHUNK_BYTES_MAX };
        let settings = SettingsV1 { generates: is_first, ..SCRIPT };
        let (view, readable) = (self.view.clone(), Arc::clone(&self.readable));
        let found = move |arguments: &mut Vec<String>| script(&data_dir, (view.as_deref(), &readable), arguments);
        Ok(Box::new(ProgramV1::new(Box::new(found), limits, settings)))
    }
}
