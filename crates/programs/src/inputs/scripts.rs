//! `[script://PATH]`: a program whose output is text.

use std::path::Path;
use std::sync::Arc;

use quarry_conf::ProgramInput;
use quarry_inputs::program::TextReader;
use quarry_pipeline::SourceInfo;
use quarry_stdx::{Fault, log};

use super::input_context::{Shared, Stores, check};
use super::run::{NewConfiguration, Task};
use super::schedule::Schedule;
use crate::files;

/// Creates the input of a stanza; the error says why it cannot run.
pub(crate) fn task(input: &ProgramInput, shared: &Shared, stores: Stores<'_>) -> Result<Task, Fault> {
    let about = |fault: Fault| fault.with_context(format_args!("[{}]", input.stanza));
    let store = stores(input.routing.as_deref());
    check(input, &*store)?;
    let schedule = Schedule::parse(&input.interval).map_err(about)?;
    let (file, program) =
        files::script_program(&shared.home, &input.stanza, &input.name, input.starts_by_shell).map_err(about)?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = input.source.clone().unwrap_or_else(|| file.display().to_string());
    if let (Some(_), None) = (&input.pass_auth, &shared.sessions) {
        log::warning(format!("inputs.conf [{}]: passAuth has no effect without a REST interface", input.stanza));
    }
    // A script with `passAuth` reads the key as the first line of its standard input.
    let passes_key = input.pass_auth.is_some() && shared.sessions.is_some();
    let props = Arc::clone(&shared.settings.props);
    let info = SourceInfo {
        index: input.index.clone(),
        host: input.host.clone().unwrap_or_else(|| shared.host.clone()),
        host_is_fixed: input.host.is_some(),
        sourcetype: Some(input.sourcetype.clone().or_else(|| props.sourcetype_for_source(&source)).unwrap_or(name)),
        source,
    };
    Ok(Task {
        stanza: input.stanza.clone(),
        schedule,
        program,
        environment: environment(&shared.home),
        configuration: passes_key.then(|| Box::new(|key: &str| format!("{key}\n")) as NewConfiguration),
        user: input.pass_auth.clone(),
        mark: None,
        new_reader: Box::new(move || Box::new(TextReader::new(info.clone(), Arc::clone(&props)))),
        store,
    })
}

/// Environment variables of input programs in addition to path and locale.
pub(crate) fn environment(home: &Path) -> Vec<(String, String)> {
    vec![("SPLUNK_HOME".to_owned(), home.display().to_string())]
}
