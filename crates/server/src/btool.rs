//! `quarry btool CONF list [STANZA] [--debug]` prints the merged configuration and the origin of each setting; `quarry
//! btool check` prints errors and settings without effect.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use quarry_conf::tables::{CONFS_WITHOUT_TABLE, TABLES};
use quarry_conf::{Layers, MonitorSettings, NetworkInputSettings};
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};
use quarry_programs::input_faults;
use quarry_stdx::log;

use crate::cli::BtoolArgs;
use crate::data_directory::{self, Settings};
use crate::failure::{self, Failure};
use crate::input_indexes;
use crate::knowledge_faults::knowledge_faults;
use crate::output::pager::Pager;

/// Folder of the data directory with the apps.
const APPS_FOLDER: &str = "etc/apps";
/// Word that, in place of the name of a conf, runs the check.
const CHECK: &str = "check";

/// Reports that no file sets anything in a conf; an unknown conf is an error.
fn report_nothing_set(conf: &str, data_dir: &Path) -> Result<u8, Failure> {
    let read = TABLES.iter().map(|table| table.conf).chain(CONFS_WITHOUT_TABLE.iter().map(|(name, _)| *name));
    let read: BTreeSet<&str> = read.collect();
    if !read.contains(conf) {
        let known: Vec<&str> = read.into_iter().collect();
        let near = quarry_spl::closest_name(conf, known.iter().copied());
        let meant = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
        return Err(Failure::Usage(format!("{conf}.conf is not used{meant}; used: {}", known.join(", "))));
    }
    let place = data_dir.join("etc/system/local").join(format!("{conf}.conf"));
    log::info(format!("nothing is set: there is no {conf}.conf; put your file at {}", place.display()));
    Ok(0)
}

/// The error for a stanza that no file contains.
fn no_stanza(layers: &Layers, conf: &str, requested: &str) -> Failure {
    let rows = layers.btool(conf, None);
    let known: BTreeSet<&str> = rows.iter().map(|row| row.stanza).collect();
    let hint = match quarry_spl::closest_name(requested, known.iter().copied()) {
        Some(near) => format!("did you mean [{near}]?"),
        None => format!("`quarry btool {conf} list` shows the existing ones"),
    };
    Failure::Usage(format!("there is no stanza [{requested}] in {conf}.conf: {hint}"))
}

/// Prints every error of the configuration; fails if it finds an error.
fn check(data_dir: &Path) -> Result<u8, Failure> {
    let settings = Settings::of_data_dir_quietly(data_dir);
    let mut faults = settings.faults();
    // A server reports these errors when it starts its inputs.
    faults.extend(MonitorSettings::read_all(&settings.layers).1);
    faults.extend(NetworkInputSettings::new(&settings.layers).faults());
    faults.extend(input_faults(data_dir, &settings.layers));
    faults.extend(input_indexes::faults(&settings.layers));
    faults.extend(knowledge_faults(&settings.layers));
    faults.extend(pipeline_faults(&settings));
    let mut out = std::io::stdout().lock();
    for fault in &faults {
        writeln!(out, "{fault}")?;
    }
    if faults.is_empty() {
        writeln!(out, "no faults found")?;
        return Ok(0);
    }
    Ok(failure::USAGE)
}

/// Errors of index-time settings in each stanza of props.conf. Data from the network would be parsed without the
/// erroneous settings.
fn pipeline_faults(settings: &Settings) -> Vec<String> {
    let context = PipelineContext { now: settings.clock.now_ns(), zone: None, modified: None, orders: None };
    let mut faults = BTreeSet::new();
    for own in settings.props.settings_by_stanza() {
        let info = SourceInfo {
            index: quarry_search::DEFAULT_INDEX.to_owned(),
            host: data_directory::host_name(),
            host_is_fixed: false,
            source: String::new(),
            sourcetype: Some(own.sourcetype.clone()),
        };
        let errors = Pipeline::setting_errors(&info, own, &settings.props, &context);
        faults.extend(errors.iter().map(ToString::to_string));
    }
    // Several stanzas may use one transform, whose errors are listed only once.
    faults.into_iter().collect()
}

/// Prints the merged settings.
pub(crate) fn run(data_dir: &Path, arguments: &BtoolArgs) -> Result<u8, Failure> {
    if arguments.action.is_none() {
        return match arguments.conf == CHECK {
            true => check(data_dir),
            false => Err(Failure::Usage(format!("say what to do: btool {} list, or btool check", arguments.conf))),
        };
    }
    let layers = quarry_apps::read_configuration(data_dir);
    layers.warnings().iter().for_each(log::warning);
    let conf = arguments.conf.strip_suffix(".conf").unwrap_or(&arguments.conf);
    if !layers.conf_names().any(|known| known == conf) {
        return report_nothing_set(conf, data_dir);
    }
    let mut rows = layers.btool(conf, arguments.stanza.as_deref());
    let place = |file: &str, line: u32| if line > 0 { format!("{file}:{line}") } else { file.to_owned() };
    let width = rows.iter().map(|row| place(row.file, row.line).chars().count()).max().unwrap_or(0);
    if let Some(requested) = arguments.stanza.as_deref().filter(|_| rows.is_empty()) {
        return Err(no_stanza(&layers, conf, requested));
    }
    if let Some(app) = &arguments.app {
        let folder = format!("/{APPS_FOLDER}/{app}/");
        rows.retain(|row| row.file.contains(&folder));
    }
    let mut out = Pager::open(true);
    let mut stanza = None;
    for row in &rows {
        if stanza != Some(row.stanza) {
            stanza = Some(row.stanza);
            let indent = if arguments.debug { width + 2 } else { 0 };
            writeln!(out, "{:indent$}[{}]", "", row.stanza)?;
        }
        if arguments.debug {
            writeln!(out, "{:<width$}  {} = {}", place(row.file, row.line), row.key, row.value)?;
        } else {
            writeln!(out, "{} = {}", row.key, row.value)?;
        }
    }
    out.close()?;
    Ok(0)
}
