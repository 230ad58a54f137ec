//! Alert actions of apps: finding their programs (alert_actions.conf, the app's bin folder) and running them.
//!
//! `sendalert` names an action. The parameters of the action and of the command form the payload ([`payload`]), with
//! tokens between dollar signs replaced ([`tokens`]). Unless the caller has already written the rows, they are written
//! to a compressed file that is removed when the program ends ([`results_file`]). The program reads the payload from
//! standard input ([`run`]).
//!
//! Not here: actions bundled with Splunk, and scheduled searches.

mod payload;
mod results_file;
mod run;
mod tokens;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_apps::folders::app_folders_with;
use quarry_apps::run_file::management_address;
use quarry_conf::{Layers, View};
use quarry_engine::AlertCall;
use quarry_stdx::Fault;

use crate::files::{self, is_plain, is_true};
use crate::group::Program;
use payload::Payload;
use results_file::ResultsFile;
use tokens::Tokens;

/// The conf file, named without its extension as in permissions metadata.
const CONF: &str = "alert_actions";
/// Actions bundled with Splunk.
const BUNDLED_WITH_SPLUNK: [&str; 10] = [
    "email",
    "logevent",
    "lookup",
    "outputtelemetry",
    "populate_lookup",
    "rss",
    "script",
    "summary_index",
    "summary_metric_index",
    "webhook",
];
/// Prefix of parameter settings.
const PARAMETER: &str = "param.";
/// Default of `maxtime`, in seconds.
const TIMEOUT_SECS_DEFAULT: u64 = 300;
/// Highest number of an argument in alert_actions.conf.
const ARGUMENTS_MAX: usize = 100;
/// Default argument of a program.
const EXECUTE: &str = "--execute";
/// App and owner used for searches without a namespace.
const APP: &str = "search";
const OWNER: &str = "admin";
/// Variable that stands for the data directory.
const HOME: &str = "$SPLUNK_HOME";

type Settings = BTreeMap<String, String>;

/// The alert actions of a data directory.
#[derive(Default)]
pub(crate) struct AlertActions {
    actions: BTreeMap<String, Settings>,
    data_dir: PathBuf,
    view: Option<Arc<View>>,
    /// Name of this machine.
    host: String,
}

impl AlertActions {
    /// Creates the actions of a data directory; with `view`, only actions of the apps in the view can run.
    pub(crate) fn new(layers: &Layers, data_dir: &Path, view: Option<&Arc<View>>, host: &str) -> AlertActions {
        let conf = layers.conf(CONF);
        let names = conf.stanzas().iter().map(|stanza| stanza.name.as_str()).filter(|name| *name != "default");
        let settings = |name: &str| {
            let effective = conf.effective(name);
            effective.into_iter().map(|(key, setting)| (key.to_owned(), setting.value.trim().to_owned())).collect()
        };
        let actions = names.map(|name| (name.to_owned(), settings(name))).collect();
        AlertActions { actions, data_dir: data_dir.to_owned(), view: view.cloned(), host: host.to_owned() }
    }

    /// Settings and program of an action, or the reason why it cannot run.
    fn find_action(&self, name: &str) -> Result<(&Settings, Program), Fault> {
        let settings = self.actions.get(name).ok_or_else(|| self.missing(name))?;
        if settings.get("disabled").is_some_and(|text| is_true(text)) {
            return Err(Fault::invalid(format!(
                "the alert action {name} is disabled (disabled = 1 in alert_actions.conf)"
            )));
        }
        Ok((settings, self.program(name, settings)?))
    }

    fn missing(&self, name: &str) -> Fault {
        if BUNDLED_WITH_SPLUNK.contains(&name) {
            return not_bundled(name);
        }
        let nearest = quarry_spl::closest_name(name, self.actions.keys().map(String::as_str));
        let hint = match nearest {
            Some(nearest) => format!("did you mean {nearest}?"),
            None if self.actions.is_empty() => "no app has an alert action".to_owned(),
            None => format!("existing alert actions: {}", self.actions.keys().cloned().collect::<Vec<_>>().join(", ")),
        };
        Fault::not_found(format!("there is no alert action {name}; {hint}"))
    }

    fn program(&self, name: &str, settings: &Settings) -> Result<Program, Fault> {
        if settings.get("python.version").is_some_and(|version| version == "python2") {
            return Err(Fault::invalid(format!("the alert action {name} requires python2, which is not supported")));
        }
        let seen = self.view.as_deref().map(|view| (view, CONF));
        let apps = app_folders_with(&self.data_dir, "alert_actions.conf", name, seen);
        let named = settings.get("alert.execute.cmd").filter(|text| !text.is_empty());
        let wanted = named.map_or(name, String::as_str);
        if !is_plain(wanted) {
            return Err(Fault::invalid(format!(
                "alert.execute.cmd = {wanted}: give the name of a file in the app's bin folder"
            )));
        }
        let file = apps.iter().find_map(|app| match named {
            Some(named) => files::find_exact_in_app(&self.data_dir, app, named),
            None => files::find_in_app(&self.data_dir, app, wanted),
        });
        let Some(file) = file else {
            return Err(match apps.first() {
                Some(app) => {
                    Fault::not_found(format!("{}: there is no program {wanted} in its bin folder", app.display()))
                }
                None if BUNDLED_WITH_SPLUNK.contains(&name) => not_bundled(name),
                None => Fault::not_found(format!("no app visible here has [{name}] in its alert_actions.conf")),
            });
        };
        let home = self.data_dir.display().to_string();
        let given =
            |at: usize| settings.get(&format!("alert.execute.cmd.arg.{at}")).map(|text| text.replace(HOME, &home));
        let arguments = match named {
            Some(_) => (0..=ARGUMENTS_MAX).filter_map(given).collect(),
            None => vec![EXECUTE.to_owned()],
        };
        files::program(&self.data_dir, &file, arguments, false)
    }

    /// Checks that an action exists and can run.
    pub(crate) fn check(&self, name: &str) -> Result<(), Fault> {
        self.find_action(name).map(drop)
    }

    /// Runs an action to its end; returns messages for the user.
    pub(crate) fn send(&self, call: AlertCall<'_>, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<String>, Fault> {
        let (settings, program) = self.find_action(call.action)?;
        let time_text = settings.get("maxtime").map_or("", String::as_str);
        let seconds = seconds_of(time_text).ok_or_else(|| {
            Fault::invalid(format!("maxtime = {time_text} of alert_actions.conf: give a number with s, m, h or d"))
        })?;
        let file = match call.results_path {
            Some(_) => None,
            None => Some(ResultsFile::write(&self.data_dir, call.write_rows)?),
        };
        let path = file.as_ref().map(|file| file.path().display().to_string());
        let namespace = self.view.as_deref().map(View::namespace);
        // Users without objects of their own share a namespace, which names none of them.
        let owner = namespace.and_then(|namespace| namespace.user()).or(call.user);
        let tokens = Tokens {
            app: namespace.map_or(APP, |namespace| namespace.app()),
            owner: owner.unwrap_or(if namespace.is_some() { "nobody" } else { OWNER }),
            host: &self.host,
            sid: call.sid,
            search: call.search,
            results_link: call.results_link.unwrap_or_default(),
            results_file: path.as_deref().or(call.results_path).unwrap_or_default(),
            now: call.now,
            zone: call.zone,
            row_count: call.row_count,
            first_row: call.first_row,
        };
        let payload = Payload {
            action: call.action,
            server_uri: management_address(&self.data_dir)
                .map(|address| format!("http://{address}"))
                .unwrap_or_default(),
            session_key: call.session_key,
            configuration: configuration(settings, call.parameters, &tokens),
            tokens: &tokens,
        };
        let is_json = settings.get("payload_format").is_some_and(|format| format.eq_ignore_ascii_case("json"));
        let text = if is_json { payload.json() } else { payload.xml() };
        let environment = [("SPLUNK_HOME".to_owned(), self.data_dir.display().to_string())];
        run::run(&program, &environment, text, seconds, is_cancelled)
    }
}

fn not_bundled(name: &str) -> Fault {
    Fault::not_found(format!("the action {name} comes with Splunk, not with Quarry; only alert actions of apps run"))
}

/// Parameters from the action's settings, overridden by those of the command, with tokens replaced.
fn configuration(settings: &Settings, given: &[(String, String)], tokens: &Tokens<'_>) -> BTreeMap<String, String> {
    let own = settings.iter().filter_map(|(key, value)| Some((key.strip_prefix(PARAMETER)?, value)));
    let given = given.iter().map(|(name, value)| (name.as_str(), value));
    own.chain(given).map(|(name, value)| (name.to_owned(), tokens.replace(value))).collect()
}

/// Parses `maxtime` into seconds; `None` if invalid.
fn seconds_of(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.is_empty() {
        return Some(TIMEOUT_SECS_DEFAULT);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit).filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::seconds_of;

    #[test]
    fn times_have_units() {
        let times = [("", Some(300)), ("7", Some(7)), ("5m", Some(300)), ("2 h", Some(7_200)), ("1d", Some(86_400))];
        for (text, seconds) in times.into_iter().chain([("0", None), ("x", None), ("5w", None), ("-1", None)]) {
            assert_eq!(seconds_of(text), seconds, "{text}");
        }
    }
}
