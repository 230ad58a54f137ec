//! `[journald://NAME]`: the systemd journal, read with `journalctl`, resuming after the last stored entry.

use std::path::PathBuf;
use std::sync::Arc;

use quarry_conf::ProgramInput;
use quarry_inputs::program::JournalReader;
use quarry_pipeline::EventTyping;
use quarry_stdx::Fault;

use super::input_context::{Shared, Stores, check, file_name, metadata};
use super::run::{Checkpoint, Task};
use super::schedule::Schedule;
use super::scripts;
use crate::group::Program;

/// Name of the program that reads the journal.
const JOURNALCTL: &str = "journalctl";
/// Folder of the cursors, relative to the data directory.
const CURSORS: &str = "var/lib/quarry/journald";
/// Settings and the `journalctl` options they map to; the flag means that each comma-separated part becomes an option
/// of its own.
const OPTIONS: &[(&str, &str, bool)] = &[
    ("journalctl-grep", "--grep=", false),
    ("journalctl-unit", "--unit=", true),
    ("journalctl-identifier", "--identifier=", true),
    ("journalctl-priority", "--priority=", false),
    ("journalctl-boot", "--boot=", false),
    ("journalctl-facility", "--facility=", false),
    ("journalctl-until", "--until=", false),
];

/// Creates the input of a stanza; the error says why it cannot run.
pub(crate) fn task(input: &ProgramInput, shared: &Shared, stores: Stores<'_>) -> Result<Task, Fault> {
    let about = |fault: Fault| fault.with_context(format_args!("[{}]", input.stanza));
    let store = stores(input.routing.as_deref());
    check(input, &*store)?;
    let interval = Schedule::parse(&input.interval).map_err(about)?;
    // `journalctl` follows the journal, so it ends only after an error or at shutdown.
    let schedule = match interval {
        Schedule::Every(wait) => Schedule::After(wait),
        other => other,
    };
    let setting = |key: &str| input.settings.get(key).map_or("", |value| value.trim());
    let since = setting("journalctl-since");
    let mark = Checkpoint {
        file: cursor_file(shared, &input.name),
        position_argument: "--after-cursor=",
        time_argument: "--since=",
        first_argument: (!since.is_empty()).then(|| format!("--since={since}")),
    };
    let program = Program { executable: JOURNALCTL.into(), arguments: arguments(input), folder: shared.home.clone() };
    let metadata = metadata(input, &input.stanza, "journald", shared);
    let list = |key: &str| -> Vec<String> {
        setting(key).split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    let (include, exclude) = (list("journalctl-include-fields"), list("journalctl-exclude-fields"));
    let typing = Arc::new(EventTyping::new(Arc::clone(&shared.settings.props)));
    let host_is_fixed = input.host.is_some();
    let new_reader = move || -> Box<dyn quarry_inputs::program::OutputReader> {
        let texts = |all: &[String]| -> Vec<String> { all.to_vec() };
        let (include, exclude) = (texts(&include), texts(&exclude));
        let (include, exclude): (Vec<&str>, Vec<&str>) =
            (include.iter().map(String::as_str).collect(), exclude.iter().map(String::as_str).collect());
        Box::new(JournalReader::new(metadata.clone(), host_is_fixed, &include, &exclude, Arc::clone(&typing)))
    };
    Ok(Task {
        stanza: input.stanza.clone(),
        schedule,
        program,
        environment: scripts::environment(&shared.home),
        configuration: None,
        user: None,
        mark: Some(mark),
        new_reader: Box::new(new_reader),
        store,
    })
}

/// Arguments of journalctl, except the start position.
fn arguments(input: &ProgramInput) -> Vec<String> {
    let setting = |key: &str| input.settings.get(key).map_or("", |value| value.trim());
    let mut arguments: Vec<String> =
        ["--output=json", "--follow", "--no-pager", "--quiet", "--all"].iter().map(|&word| word.to_owned()).collect();
    for (key, option, is_list) in OPTIONS {
        let value = setting(key);
        let parts: Vec<&str> = if *is_list { value.split(',').collect() } else { vec![value] };
        let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
        arguments.extend(parts.map(|part| format!("{option}{part}")));
    }
    if matches!(setting("journalctl-dmesg").to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "t" | "y") {
        arguments.push("--dmesg".to_owned());
    }
    for key in ["journalctl-filter", "journalctl-freetext"] {
        arguments.extend(setting(key).split_whitespace().map(str::to_owned));
    }
    arguments
}

/// Path of the file with an input's cursor.
fn cursor_file(shared: &Shared, name: &str) -> PathBuf {
    shared.home.join(CURSORS).join(format!("{}.cursor", file_name(name)))
}
