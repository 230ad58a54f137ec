//! Messages exchanged with a modular input's program: its answer to `--scheme`, and its configuration as XML.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_conf::ProgramInput;
use quarry_inputs::program::{XmlToken, XmlTokens, escape_xml};
use quarry_stdx::Fault;

use super::input_context::StopSignal;
use crate::group::{Program, ProgramGroup, capture_stderr, spawn};

/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of checks for the answer, and the pause between them.
const ANSWER_POLLS_MAX: usize = 600;
const ANSWER_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum wait for the end of the error output of a program that has ended.
const ERRORS_WAIT: Duration = Duration::from_secs(1);
/// Settings that are not passed to the program.
const RESERVED_SETTINGS: &[&str] =
    &["disabled", "passAuth", "_TCP_ROUTING", "start_by_shell", "send_index_as_argument_for_path"];

/// A program's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// Display name.
    pub(crate) title: String,
    pub(crate) description: String,
    /// Whether the program writes XML rather than text.
    pub(crate) is_xml: bool,
    /// Whether one process serves all stanzas.
    pub(crate) is_single: bool,
    /// Whether the program checks new and changed stanzas.
    pub(crate) is_checked: bool,
    /// Settings of a stanza.
    pub(crate) arguments: Vec<SchemeArgument>,
}

/// A setting of a modular input's stanzas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeArgument {
    /// Name of the setting.
    pub name: String,
    /// Display name.
    pub title: String,
    /// Meaning of the argument, for users.
    pub description: String,
    /// `string`, `number` or `boolean`.
    pub data_type: String,
    /// Rule for its values, in Splunk's notation.
    pub validation: String,
    /// Whether a new stanza must have it.
    pub is_required: bool,
    /// Whether it must be given when a stanza is changed.
    pub is_required_on_edit: bool,
}

impl SchemeArgument {
    /// Creates an argument with Splunk's defaults, which require it in a new stanza.
    pub(super) fn named(name: String) -> SchemeArgument {
        SchemeArgument { name, data_type: "string".to_owned(), is_required: true, ..SchemeArgument::default() }
    }
}

impl Scheme {
    /// Names of the settings that a stanza must have, except its name.
    pub(crate) fn required(&self) -> impl Iterator<Item = &str> {
        let required = self.arguments.iter().filter(|argument| argument.is_required && argument.name != "name");
        required.map(|argument| argument.name.as_str())
    }
}

/// Queries a program for its scheme.
pub(crate) fn query(program: &Program, environment: &[(String, String)], stop: &StopSignal) -> Result<Scheme, Fault> {
    let mut program = program.clone();
    program.arguments.push("--scheme".to_owned());
    let (mut group, pipes) = ProgramGroup::start(&program, environment, None)?;
    drop(pipes.stdin);
    let (to_answer, answer) = std::sync::mpsc::sync_channel(1);
    let mut stdout = pipes.stdout.take(ANSWER_BYTES_MAX);
    let read = move || {
        let mut text = String::new();
        // Sending fails if the caller has stopped waiting.
        drop(to_answer.send(stdout.read_to_string(&mut text).map(|_| text)));
    };
    spawn("quarry-scheme", read)?;
    // The error output is read meanwhile, because otherwise a full pipe would block the program.
    let error_output: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (kept, stderr) = (Arc::clone(&error_output), pipes.stderr);
    let (closes, closed) = std::sync::mpsc::channel::<()>();
    spawn("quarry-scheme-errors", move || {
        capture_stderr(stderr, &kept);
        drop(closes);
    })?;
    for _ in 0..ANSWER_POLLS_MAX {
        match answer.recv_timeout(ANSWER_POLL_INTERVAL) {
            Ok(Ok(text)) => {
                return read_scheme(&text).map_err(|fault| {
                    group.kill();
                    // If there is no answer, the error output says more about the cause. A process that has left the
                    // group may keep the pipe open.
                    closed.recv_timeout(ERRORS_WAIT).ok();
                    let said = error_output.lock().unwrap_or_else(PoisonError::into_inner);
                    let last = String::from_utf8_lossy(&said).trim().lines().last().unwrap_or_default().to_owned();
                    if last.is_empty() { fault } else { fault.map_text(|fault| format!("{fault}: {last}")) }
                });
            }
            Ok(Err(error)) => return Err(Fault::io("its answer to --scheme cannot be read", error)),
            Err(_) if stop.is_stopped() => return Err(Fault::unavailable("it is stopped")),
            Err(_) => {}
        }
    }
    group.kill();
    Err(Fault::unavailable("its program did not answer --scheme within 30 seconds"))
}

/// Parses `<scheme>`.
fn read_scheme(text: &str) -> Result<Scheme, Fault> {
    let mut tokens = XmlTokens::default();
    let wrong = |fault: &str| Fault::unavailable(format!("its program did not answer --scheme ({fault})"));
    tokens.push(text.as_bytes()).map_err(|fault| wrong(&fault.to_string()))?;
    let (mut scheme, mut is_scheme) = (Scheme::default(), false);
    let mut open: Vec<String> = Vec::new();
    // Whether text belongs to an `<arg>` rather than to the scheme.
    let mut is_in_argument = false;
    let is_true = |text: &str| matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "1");
    while let Some(token) = tokens.take() {
        match token {
            XmlToken::Open { name, attributes, is_empty } => {
                is_scheme |= name == "scheme";
                if name == "arg" {
                    let name = attributes.into_iter().find(|(key, _)| key == "name").map(|(_, value)| value);
                    is_in_argument = name.is_some() && !is_empty;
                    scheme.arguments.extend(name.map(SchemeArgument::named));
                }
                if !is_empty {
                    open.push(name);
                }
            }
            XmlToken::Text(text) => {
                let element = open.last().map(String::as_str);
                let argument = scheme.arguments.last_mut().filter(|_| is_in_argument);
                let text_of = text.trim().to_owned();
                match (element, argument) {
                    (Some("title"), Some(argument)) => argument.title = text_of,
                    (Some("description"), Some(argument)) => argument.description = text_of,
                    (Some("data_type"), Some(argument)) => argument.data_type = text_of,
                    (Some("validation"), Some(argument)) => argument.validation = text_of,
                    (Some("required_on_create"), Some(argument)) => argument.is_required = is_true(&text),
                    (Some("required_on_edit"), Some(argument)) => argument.is_required_on_edit = is_true(&text),
                    (Some("title"), None) => scheme.title = text_of,
                    (Some("description"), None) => scheme.description = text_of,
                    (Some("streaming_mode"), None) => scheme.is_xml = text.trim().eq_ignore_ascii_case("xml"),
                    (Some("use_single_instance"), None) => scheme.is_single = is_true(&text),
                    (Some("use_external_validation"), None) => scheme.is_checked = is_true(&text),
                    _ => {}
                }
            }
            XmlToken::Close(name) => {
                is_in_argument &= name != "arg";
                open.pop();
            }
        }
    }
    if is_scheme { Ok(scheme) } else { Err(wrong("it is not a <scheme> element")) }
}

/// Values passed to a program in addition to its stanzas.
pub(crate) struct RunEnvironment {
    pub(crate) host: String,
    pub(crate) address: Option<std::net::SocketAddr>,
    pub(crate) checkpoints: String,
    pub(crate) app: String,
}

/// The configuration for a program's standard input.
pub(crate) fn configuration(environment: &RunEnvironment, session_key: &str, inputs: &[ProgramInput]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<input>\n");
    let mut element = |name: &str, text: &str| {
        out.push_str(&format!("  <{name}>{}</{name}>\n", escape_xml(text)));
    };
    element("server_host", &environment.host);
    element("server_uri", &environment.address.map_or_else(String::new, |address| format!("http://{address}")));
    element("session_key", session_key);
    element("checkpoint_dir", &environment.checkpoints);
    out.push_str("  <configuration>\n");
    for input in inputs {
        let (name, app) = (escape_xml(&input.stanza), escape_xml(&environment.app));
        out.push_str(&format!("    <stanza name=\"{name}\" app=\"{app}\">\n"));
        let mut settings = input.settings.clone();
        settings.insert("index".to_owned(), input.index.clone());
        settings.insert("host".to_owned(), input.host.clone().unwrap_or_else(|| environment.host.clone()));
        settings.entry("interval".to_owned()).or_insert_with(|| input.interval.clone());
        settings.retain(|key, _| !RESERVED_SETTINGS.contains(&key.as_str()));
        for (key, value) in &settings {
            out.push_str(&format!("      <param name=\"{}\">{}</param>\n", escape_xml(key), escape_xml(value)));
        }
        out.push_str("    </stanza>\n");
    }
    out.push_str("  </configuration>\n</input>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::{Program, Scheme, StopSignal, query, read_scheme};

    #[test]
    fn error_output_of_any_length_does_not_stop_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let answer = |script: &str| {
            let arguments = vec!["-c".to_owned(), format!("head -c 300000 /dev/zero >&2; {script}")];
            let program = Program { executable: "/bin/sh".into(), arguments, folder: folder.path().to_owned() };
            query(&program, &[], &StopSignal::default())
        };
        assert_eq!(answer("echo '<scheme><title>T</title></scheme>'").map(|scheme| scheme.title), Ok("T".to_owned()));
        let fault = answer("echo >&2; echo no key >&2").unwrap_err().to_string();
        assert!(fault.ends_with(": no key"), "{fault}");
    }

    #[test]
    fn schemes_are_parsed() {
        let text = "<scheme><title>T</title><use_single_instance>false</use_single_instance>\
                    <streaming_mode>xml</streaming_mode>\
                    <use_external_validation>true</use_external_validation><endpoint><args><arg name=\"name\"><title>N</title></arg>\
                    <arg name=\"city\"><required_on_create>true</required_on_create></arg><arg name=\"unit\">\
                    <required_on_create>false</required_on_create></arg><arg name=\"plain\"/></args></endpoint></scheme>";
        let scheme = read_scheme(text).unwrap();
        assert_eq!((scheme.title.as_str(), scheme.is_xml, scheme.is_single), ("T", true, false));
        assert!(scheme.is_checked);
        assert_eq!(scheme.required().collect::<Vec<_>>(), ["city", "plain"]);
        let titles: Vec<&str> = scheme.arguments.iter().map(|argument| argument.title.as_str()).collect();
        assert_eq!(titles, ["N", "", "", ""]);
        let plain = read_scheme("<scheme><use_single_instance>1</use_single_instance></scheme>");
        assert_eq!(plain, Ok(Scheme { is_single: true, ..Scheme::default() }));
        for wrong in ["", "usage: x", "<input/>", "<scheme =>"] {
            assert!(read_scheme(wrong).is_err(), "{wrong}");
        }
    }
}
