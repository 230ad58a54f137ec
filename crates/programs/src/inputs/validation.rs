//! Checks of a new or changed stanza by the program of its kind, as in Splunk: if its scheme sets
//! `use_external_validation`, the program is run with `--validate-arguments` and receives the stanza as XML on its
//! standard input. A stanza is refused unless the program ends with the exit code 0.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

use quarry_inputs::program::{XmlToken, XmlTokens, escape_xml};
use quarry_stdx::Fault;

use super::input_context::StopSignal;
use crate::group::{Program, ProgramGroup, spawn};

/// Argument of a program that checks a stanza.
const ARGUMENT: &str = "--validate-arguments";
/// Maximum bytes of its output that are read.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of checks whether the program has ended, and the pause between them: 30 seconds in all.
const POLLS_MAX: usize = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum length in characters of the program's message.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// A stanza to check.
pub(super) struct CheckedStanza<'a> {
    /// Name of the machine.
    pub(super) host: &'a str,
    /// URL of the management port; empty without one.
    pub(super) uri: &'a str,
    /// Folder of the program's checkpoints.
    pub(super) checkpoints: &'a str,
    /// Name of the stanza without its scheme.
    pub(super) name: &'a str,
    pub(super) settings: &'a BTreeMap<String, String>,
}

impl CheckedStanza<'_> {
    fn xml(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<items>\n");
        let members = [
            ("server_host", self.host),
            ("server_uri", self.uri),
            ("session_key", ""),
            ("checkpoint_dir", self.checkpoints),
        ];
        for (name, text) in members {
            out.push_str(&format!("  <{name}>{}</{name}>\n", escape_xml(text)));
        }
        out.push_str(&format!("  <item name=\"{}\">\n", escape_xml(self.name)));
        for (key, value) in self.settings {
            out.push_str(&format!("    <param name=\"{}\">{}</param>\n", escape_xml(key), escape_xml(value)));
        }
        out.push_str("  </item>\n</items>\n");
        out
    }
}

/// Lets the program check a stanza; the fault contains the program's message.
pub(super) fn validate(
    program: &Program,
    environment: &[(String, String)],
    stanza: &CheckedStanza<'_>,
) -> Result<(), Fault> {
    let mut program = program.clone();
    program.arguments.push(ARGUMENT.to_owned());
    let (mut group, pipes) = ProgramGroup::start(&program, environment, None)?;
    let (input, mut stdin) = (stanza.xml(), pipes.stdin);
    // A program may read nothing; that is not an error. The threads end with the program.
    spawn("quarry-validation-input", move || drop(stdin.write_all(input.as_bytes())))?;
    let mut stderr = pipes.stderr;
    spawn("quarry-validation-errors", move || drop(std::io::copy(&mut stderr, &mut std::io::sink())))?;
    let (to_output, output) = std::sync::mpsc::sync_channel(1);
    let mut stdout = pipes.stdout;
    let read = move || {
        let mut text = Vec::new();
        // The output is only a message for people, so a read error is ignored.
        drop((&mut stdout).take(OUTPUT_BYTES_MAX).read_to_end(&mut text));
        drop(to_output.send(text));
        drop(std::io::copy(&mut stdout, &mut std::io::sink()));
    };
    spawn("quarry-validation-output", read)?;
    let clock = StopSignal::default();
    if !(0..POLLS_MAX).any(|_| group.has_ended() || clock.wait(POLL_INTERVAL)) {
        group.kill();
        return Err(Fault::unavailable("its program did not end within 30 seconds"));
    }
    // Killing also ends child processes that keep the output open.
    let status = group.kill();
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let text = output.recv_timeout(POLL_INTERVAL * 20).unwrap_or_default();
    let ended = || status.map_or_else(|| "was killed".to_owned(), |status| format!("ended with {status}"));
    let told = message(&String::from_utf8_lossy(&text)).unwrap_or_else(|| format!("its program {}", ended()));
    Err(Fault::invalid(told.chars().take(MESSAGE_CHARS_MAX).collect::<String>()))
}

/// The text of `<error><message>`.
fn message(output: &str) -> Option<String> {
    let mut tokens = XmlTokens::default();
    tokens.push(output.as_bytes()).ok()?;
    let (mut open, mut told) = (Vec::new(), String::new());
    while let Some(token) = tokens.take() {
        match token {
            XmlToken::Open { name, is_empty: false, .. } => open.push(name),
            XmlToken::Text(text) if open.ends_with(&["error".to_owned(), "message".to_owned()]) => told.push_str(&text),
            XmlToken::Close(_) => drop(open.pop()),
            XmlToken::Open { .. } | XmlToken::Text(_) => {}
        }
    }
    let told = told.trim();
    (!told.is_empty()).then(|| told.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(script: &str) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let program = Program {
            executable: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned(), "program".to_owned()],
            folder: folder.path().to_path_buf(),
        };
        let settings = BTreeMap::from([("city".to_owned(), "a & b".to_owned())]);
        let stanza = CheckedStanza { host: "h", uri: "u", checkpoints: "c", name: "n", settings: &settings };
        validate(&program, &[], &stanza).map_err(|fault| fault.to_string())
    }

    #[test]
    fn the_exit_code_decides_and_the_message_is_reported() {
        assert_eq!(check("test \"$1\" = --validate-arguments"), Ok(()));
        assert_eq!(check("grep -q '<param name=\"city\">a &amp; b</param>' && echo '<error/>'"), Ok(()));
        let told = "echo '<error><message>no such &lt;city&gt;</message></error>'; exit 1";
        assert_eq!(check(told), Err("no such <city>".to_owned()));
        assert_eq!(check("exit 3"), Err("its program ended with exit status: 3".to_owned()));
        assert_eq!(check("echo nonsense; exit 1"), Err("its program ended with exit status: 1".to_owned()));
        assert_eq!(check("yes | head -c 3000000; yes | head -c 3000000 >&2"), Ok(()), "more output than is read");
    }
}
