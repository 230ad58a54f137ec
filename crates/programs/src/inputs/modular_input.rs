//! Modular inputs: `[SCHEME://NAME]` of apps with a program `bin/SCHEME`.
//!
//! The program is first queried for its scheme (`--scheme`), then started with its configuration as XML on standard
//! input: once per stanza, or once for all stanzas if its scheme says so. Querying the scheme is slow and is therefore
//! done on the inputs' threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_conf::{ProgramInput, suggest_input};
use quarry_inputs::EventStore;
use quarry_inputs::program::{OutputReader, StanzaDefaults, TextReader, XmlReader};
use quarry_pipeline::SourceInfo;
use quarry_stdx::{Fault, log};

use super::input_context::{Shared, Stores, check, metadata};
use super::run::{NewReader, Task};
use super::schedule::Schedule;
use super::scheme::{self, RunEnvironment, Scheme, SchemeArgument};
use super::scripts;
use crate::files;
use crate::group::Program;

/// Folder in which programs keep their checkpoints, relative to the data directory.
pub(super) const CHECKPOINTS: &str = "var/lib/splunk/modinputs";
/// Maximum number of settings of a scheme that are read from an app's file.
const ARGUMENTS_MAX: usize = 200;
/// File in which an app declares the settings of its inputs.
const SPEC: &str = "README/inputs.conf.spec";

/// The stanzas of one program.
pub(crate) struct ModularProgram {
    scheme: String,
    app: PathBuf,
    program: Program,
    inputs: Vec<(ProgramInput, Arc<dyn EventStore>)>,
}

/// Groups stanzas by program; adds the faults of stanzas that cannot be used.
pub(crate) fn programs(
    inputs: Vec<ProgramInput>,
    shared: &Shared,
    stores: Stores<'_>,
    faults: &mut Vec<String>,
) -> Vec<ModularProgram> {
    let mut found: BTreeMap<String, Result<ModularProgram, Fault>> = BTreeMap::new();
    faults.extend(unknown_kinds(&inputs, &shared.home));
    for input in inputs.into_iter().filter(|input| is_known(input, &shared.home)) {
        let of_scheme = || program_of(&input.scheme, input.starts_by_shell, shared);
        let program = found.entry(input.scheme.clone()).or_insert_with(of_scheme);
        let stanza = input.stanza.clone();
        let taken = match program {
            Ok(program) => {
                let store = stores(input.routing.as_deref());
                check(&input, &*store).map(|()| program.inputs.push((input, store)))
            }
            Err(fault) => Err(fault.clone().with_context(format_args!("[{stanza}]"))),
        };
        if let Err(fault) = taken {
            faults.push(format!("inputs.conf {fault}; the input is ignored"));
        }
    }
    found.into_values().flatten().filter(|program| !program.inputs.is_empty()).collect()
}

fn is_known(input: &ProgramInput, home: &Path) -> bool {
    files::scheme_program(home, &input.scheme).is_some()
}

/// Messages about stanzas of a kind that no app provides, each with the probable cause.
pub(super) fn unknown_kinds(inputs: &[ProgramInput], home: &Path) -> Vec<String> {
    let unknown = inputs.iter().filter(|input| !is_known(input, home));
    let message = |ProgramInput { stanza, scheme, .. }: &ProgramInput| {
        let hint = suggest_input(stanza).map_or_else(String::new, |meant| format!("; did you mean [{meant}]?"));
        format!(
            "inputs.conf [{stanza}]: no app has a program bin/{scheme}, bin/{scheme}.py or bin/{scheme}.sh for it; the \
             input is ignored{hint}"
        )
    };
    unknown.map(message).collect()
}

fn program_of(scheme: &str, by_shell: bool, shared: &Shared) -> Result<ModularProgram, Fault> {
    let missing = || Fault::not_found(format!("no app has a program bin/{scheme}"));
    let (file, app) = files::scheme_program(&shared.home, scheme).ok_or_else(missing)?;
    let program = files::program(&shared.home, &file, Vec::new(), by_shell)?;
    Ok(ModularProgram { scheme: scheme.to_owned(), app, program, inputs: Vec::new() })
}

/// Schemes whose settings an app declares.
pub(super) fn declared_schemes(app: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(app.join(SPEC)).unwrap_or_default();
    let scheme = |line: &str| Some(line.trim().strip_prefix('[')?.split_once("://")?.0.to_owned());
    text.lines().filter_map(scheme).filter(|scheme| !scheme.is_empty()).collect()
}

/// Settings of a scheme's stanzas as an app's file declares them: lines `NAME = TYPE`, each explained by the lines
/// after it that begin with a star. Splunk's own files name no types, so every value is a text that may be absent.
pub(super) fn declared_arguments(app: &Path, scheme: &str) -> Vec<SchemeArgument> {
    let text = std::fs::read_to_string(app.join(SPEC)).unwrap_or_default();
    let (mut is_of_it, mut arguments) = (false, Vec::<SchemeArgument>::new());
    for line in text.lines().map(str::trim) {
        if let Some(stanza) = line.strip_prefix('[') {
            is_of_it = stanza.split_once("://").is_some_and(|(known, _)| known == scheme);
        } else if !is_of_it || line.starts_with('#') {
            continue;
        } else if let Some(explanation) = line.strip_prefix('*') {
            if let Some(argument) = arguments.last_mut() {
                let blank = if argument.description.is_empty() { "" } else { " " };
                argument.description.push_str(&format!("{blank}{}", explanation.trim()));
            }
        } else if let Some((name, _)) = line.split_once('=') {
            let name = name.trim().to_owned();
            if arguments.len() < ARGUMENTS_MAX && !name.is_empty() {
                arguments.push(SchemeArgument { is_required: false, ..SchemeArgument::named(name) });
            }
        }
    }
    arguments
}

impl ModularProgram {
    /// Queries the program's scheme and runs its inputs until shutdown.
    pub(crate) fn run(&self, shared: &Shared) {
        let tell = |fault: &str| log::warning(format!("inputs.conf [{}://…]: {fault}", self.scheme));
        let environment = scripts::environment(&shared.home);
        let scheme = match scheme::query(&self.program, &environment, &shared.stop) {
            Ok(scheme) => scheme,
            Err(_) if shared.stop.is_stopped() => return,
            Err(fault) if self.has_spec() => {
                tell(&format!("{fault}; it is run as a program that writes text, because {SPEC} declares it"));
                Scheme::default()
            }
            Err(fault) => return tell(&format!("{fault}; its inputs are ignored")),
        };
        let checkpoints = shared.home.join(CHECKPOINTS).join(&self.scheme);
        if let Err(error) = std::fs::create_dir_all(&checkpoints) {
            return tell(&format!("{}: {error}; its inputs are ignored", checkpoints.display()));
        }
        self.inputs.iter().for_each(|(input, _)| self.report_missing_settings(input, &scheme));
        let all: Vec<&(ProgramInput, Arc<dyn EventStore>)> = self.inputs.iter().collect();
        let groups: Vec<Vec<&(ProgramInput, Arc<dyn EventStore>)>> =
            if scheme.is_single { vec![all] } else { all.into_iter().map(|one| vec![one]).collect() };
        std::thread::scope(|scope| {
            for group in groups {
                match self.task(&group, &scheme, &checkpoints, shared) {
                    Ok(Some(task)) => drop(scope.spawn(move || task.run(shared))),
                    Ok(None) => {}
                    Err(fault) => log::warning(format!("inputs.conf {fault}; the input is ignored")),
                }
            }
        });
    }

    fn has_spec(&self) -> bool {
        declared_schemes(&self.app).contains(&self.scheme)
    }

    /// Reports settings that the scheme requires and the stanza lacks; the program may work without them.
    fn report_missing_settings(&self, input: &ProgramInput, scheme: &Scheme) {
        let missing: Vec<&str> = scheme.required().filter(|name| !input.settings.contains_key(*name)).collect();
        if !missing.is_empty() {
            let text = format!("its program requires {}", missing.join(", "));
            log::warning(format!("inputs.conf [{}]: {text}", input.stanza));
        }
    }

    /// Creates the task of one process that serves some stanzas.
    fn task(
        &self,
        group: &[&(ProgramInput, Arc<dyn EventStore>)],
        scheme: &Scheme,
        checkpoints: &Path,
        shared: &Shared,
    ) -> Result<Option<Task>, Fault> {
        let Some((first, store)) = group.first() else { return Ok(None) };
        let mut schedule: Option<Schedule> = None;
        for (input, _) in group {
            let own = Schedule::parse(&input.interval)
                .map_err(|fault| fault.with_context(format_args!("[{}]", input.stanza)))?;
            schedule = Some(schedule.map_or(own.clone(), |known| known.more_frequent(own)));
        }
        let inputs: Vec<&ProgramInput> = group.iter().map(|(input, _)| input).collect();
        let configured: Vec<ProgramInput> = inputs.iter().map(|input| (*input).clone()).collect();
        let environment = RunEnvironment {
            host: shared.host.clone(),
            address: shared.address,
            checkpoints: checkpoints.display().to_string(),
            app: self.app.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let configuration = move |key: &str| scheme::configuration(&environment, key, &configured);
        Ok(Some(Task {
            stanza: if scheme.is_single { format!("{}://", self.scheme) } else { first.stanza.clone() },
            schedule: schedule.unwrap_or(Schedule::Once),
            program: self.program.clone(),
            environment: scripts::environment(&shared.home),
            configuration: Some(Box::new(configuration)),
            user: inputs.iter().find_map(|input| input.pass_auth.clone()),
            mark: None,
            new_reader: self.reader(&inputs, scheme, store, shared),
            store: Arc::clone(store),
        }))
    }

    fn reader(
        &self,
        inputs: &[&ProgramInput],
        scheme: &Scheme,
        store: &Arc<dyn EventStore>,
        shared: &Shared,
    ) -> NewReader {
        let of = |input: &&ProgramInput| {
            let metadata = metadata(input, &input.stanza, &self.scheme, shared);
            (input.stanza.clone(), StanzaDefaults { metadata, host_is_fixed: input.host.is_some() })
        };
        let stanzas: BTreeMap<String, StanzaDefaults> = inputs.iter().map(of).collect();
        let first = inputs.first().map(|input| input.stanza.clone()).unwrap_or_default();
        let (props, store, is_xml) = (Arc::clone(&shared.settings.props), Arc::clone(store), scheme.is_xml);
        Box::new(move || -> Box<dyn OutputReader> {
            match stanzas.get(&first).filter(|_| !is_xml) {
                Some(defaults) => {
                    let metadata = &defaults.metadata;
                    let info = SourceInfo {
                        index: metadata.index.to_string(),
                        host: metadata.host.to_string(),
                        host_is_fixed: defaults.host_is_fixed,
                        source: metadata.source.to_string(),
                        sourcetype: Some(metadata.sourcetype.to_string()),
                    };
                    Box::new(TextReader::new(info, Arc::clone(&props)))
                }
                None => Box::new(XmlReader::new(&first, stanzas.clone(), Arc::clone(&props), Arc::clone(&store))),
            }
        })
    }
}
