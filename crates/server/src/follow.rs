//! `quarry search -f`: prints events as the server receives them, until interrupted.
//!
//! The search runs in the server (`search/jobs/export` with `search_mode=realtime`), which sends each event as a line
//! of JSON. Not here: searches that end ([`crate::search`]).

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use jiff::tz::TimeZone;
use quarry_spl::Severity;
use quarry_spl::analyse::{find_command_in_words, transforming_command};
use quarry_stdx::log;
use serde_json::Value;

use crate::cli::{Cli, OutputForm, SearchArgs};
use crate::failure::{self, Failure};
use crate::output::OutputStyle;
use crate::server_client::{AnswerRow, Remote, to_table};
use crate::{output, search, terminal, zone};

/// Maximum bytes read of a line; the server sends rows of at most a few megabytes.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Prints the events that a search finds as they arrive.
pub(crate) fn run(cli: &Cli, arguments: &SearchArgs, out: &mut dyn Write) -> Result<u8, Failure> {
    check(arguments)?;
    let namespace = arguments.namespace.parse()?;
    let Some(remote) = Remote::of(&arguments.node, &cli.data_dir)? else {
        let folder = cli.data_dir.display();
        return Err(Failure::Usage(format!(
            "-f shows what a server receives, and no server has {folder} open: start `quarry serve`, or name another \
             node with --uri"
        )));
    };
    let remote = remote.in_namespace(namespace.as_ref());
    let zone = zone::parse_option(arguments.zone.as_deref())?.unwrap_or_else(zone::machine);
    let zone_name = zone::name(&zone);
    let mut form = vec![
        ("search", arguments.text.as_str()),
        ("search_mode", "realtime"),
        ("earliest_time", "rt"),
        ("latest_time", "rt"),
        ("output_mode", "json"),
    ];
    form.extend(zone_name.as_deref().map(|zone| ("zone", zone)));
    warn_unknown_indexes(cli, arguments, &remote, &zone)?;
    warn_probable_mistakes(cli, arguments)?;
    let mut lines = std::io::BufReader::new(remote.follow(&form)?);
    if terminal::is_interactive() {
        log::info(format!("showing new events of `{}` as they arrive; press Ctrl-C to stop", arguments.text));
    }
    let (mut shown, mut line) = (0, String::new());
    while arguments.maxout == 0 || shown < arguments.maxout {
        line.clear();
        let read = std::io::Read::take(&mut lines, LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(|error| Failure::Storage(format!("server {}: {error}", remote.address())))? == 0 {
            return Err(Failure::Storage(format!(
                "server {}: the search has ended: the server stopped, or somebody ended it",
                remote.address()
            )));
        }
        let row: Value = serde_json::from_str(&line).map_err(|error| {
            Failure::Storage(format!("server {}: its answer is not JSON: {error}", remote.address()))
        })?;
        for message in row["messages"].as_array().into_iter().flatten() {
            log::note(message["text"].as_str().unwrap_or_default());
        }
        if row["preview"] == true {
            return Err(table_error(
                "but the result of this search is a table: remove the command that makes the table",
            ));
        }
        let result = &row["result"];
        if result.is_object() {
            match arguments.form() {
                OutputForm::Json | OutputForm::Ndjson => write_object(result, &zone, out)?,
                _ => writeln!(out, "{}", result["_raw"].as_str().unwrap_or_default())?,
            }
            // Each event is written when it arrives.
            out.flush()?;
            shown += 1;
        }
    }
    Ok(0)
}

/// The error for a search whose result is a table; `cause` names the cause and the first remedy.
fn table_error(cause: &str) -> Failure {
    Failure::Usage(format!("-f shows events as they arrive, {cause}, or create a job with search_mode=realtime"))
}

/// Writes an event as a line of JSON, as `-o ndjson` does.
fn write_object(result: &Value, zone: &TimeZone, out: &mut dyn Write) -> Result<(), Failure> {
    let texts = |value: &Value| -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        value.as_array().map_or_else(|| vec![text(value)], |values| values.iter().map(text).collect())
    };
    let object: BTreeMap<&String, &Value> = result.as_object().into_iter().flatten().collect();
    let mut fields: Vec<String> = object.keys().map(|name| (*name).clone()).collect();
    // The time is first, as in other outputs.
    fields.sort_by_key(|name| (name != "_time", name.starts_with('_') && name != "_raw"));
    let row: AnswerRow = fields.iter().filter_map(|name| object.get(name)).map(|value| texts(value)).collect();
    let style =
        OutputStyle { form: OutputForm::Ndjson, has_head: false, events: true, color: false, width: terminal::width() };
    Ok(output::write(&to_table(&fields, &[row], zone)?, style, out)?)
}

/// Prints notes on probable mistakes, because a search that never ends does not report that it finds nothing.
fn warn_probable_mistakes(cli: &Cli, arguments: &SearchArgs) -> Result<(), Failure> {
    let parsed = quarry_spl::parse(&arguments.text);
    let mut remarks = parsed.diagnostics;
    remarks.retain(|remark| remark.severity == Severity::Warning);
    if remarks.is_empty() {
        remarks.extend(find_command_in_words(&arguments.text, &parsed.pipeline.commands));
    }
    let mut err = std::io::stderr().lock();
    for remark in &remarks {
        failure::report_diagnostic(&arguments.text, remark, &mut err, terminal::colors_on_stderr(cli.color))?;
    }
    Ok(())
}

/// Prints notes on indexes that do not exist, because the search would silently wait for their events.
fn warn_unknown_indexes(cli: &Cli, arguments: &SearchArgs, remote: &Remote, zone: &TimeZone) -> Result<(), Failure> {
    let commands = quarry_spl::parse(&arguments.text).pipeline.commands;
    let mut ask = |text: &str| search::server_probe_rows(remote, text, (None, None), zone);
    let mut err = std::io::stderr().lock();
    for note in quarry_search::hints::unknown_indexes(&commands, &mut ask) {
        failure::report_diagnostic(&arguments.text, &note, &mut err, terminal::colors_on_stderr(cli.color))?;
    }
    Ok(())
}

/// Refuses options, formats and commands that apply only to searches that end.
fn check(arguments: &SearchArgs) -> Result<(), Failure> {
    let refused = |what: &str| Err(Failure::Usage(format!("-f shows new events as they arrive: remove {what}")));
    if !arguments.files.is_empty() {
        return Err(Failure::Usage(
            "-f shows the events that a server receives; to follow a file, use `tail -f`".into(),
        ));
    }
    for (name, time) in [("--earliest", &arguments.earliest), ("--latest", &arguments.latest)] {
        if time.as_deref().is_some_and(|time| time != "rt") {
            return refused(name);
        }
    }
    if !matches!(arguments.form(), OutputForm::Table | OutputForm::Raw | OutputForm::Json | OutputForm::Ndjson) {
        return Err(Failure::Usage("-f prints events as text, or with -o json one object per line".into()));
    }
    let commands = quarry_spl::parse(&arguments.text).pipeline.commands;
    if let Some(stage) = transforming_command(&commands) {
        let name = stage.command.name();
        return Err(table_error(&format!("and `{name}` turns them into a table: remove `{name}`")));
    }
    search::check_words(arguments)
}
