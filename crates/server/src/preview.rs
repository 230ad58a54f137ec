//! `quarry preview FILE`: what adding a file would make of it, and why, without adding it.
//!
//! The same object answers the command line and `POST /services/indexing/preview`.

use std::io::Write;
use std::path::Path;

use jiff::tz::TimeZone;
use quarry_inputs::file::{OpenFile, Packing};
use quarry_pipeline::{PipelineContext, Preview, PreviewEvent, SourceInfo, preview};
use quarry_search::cell::iso_time;
use serde_json::{Value, json};

use crate::cli::{PreviewArgs, PreviewForm};
use crate::failure::Failure;
use crate::local::{self, Settings};

/// Bytes of content looked at.
const HEAD_BYTES: usize = 1 << 20;
/// Events shown when nobody says how many.
pub(crate) const EVENTS_DEFAULT: usize = 10;
/// Most events shown.
const EVENTS_MAX: usize = 10_000;
/// Characters of an event's line that a terminal is shown.
const SHOWN_CHARS: usize = 160;
/// Lines of an event that a terminal is shown.
const SHOWN_LINES: usize = 8;

/// A file to preview.
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a Path,
    pub(crate) sourcetype: Option<String>,
    pub(crate) events: usize,
}

/// Shows what would become of a file.
pub(crate) fn run(data_dir: &Path, arguments: &PreviewArgs) -> Result<u8, Failure> {
    let settings = Settings::of_data_dir(data_dir);
    let asked = Asked { path: &arguments.file, sourcetype: arguments.sourcetype.clone(), events: arguments.events };
    let (preview, bytes) = of_file(&asked, &settings)?;
    let mut out = std::io::stdout().lock();
    match arguments.output {
        PreviewForm::Json => writeln!(out, "{}", to_json(&asked, &preview, bytes))?,
        PreviewForm::Conf => write!(out, "{}", preview.props_conf())?,
        PreviewForm::Text => write_text(&asked, &preview, bytes, &mut out)?,
    }
    Ok(0)
}

/// The preview of a file, and how many bytes of its content it is of.
pub(crate) fn of_file(asked: &Asked<'_>, settings: &Settings) -> Result<(Preview, usize), Failure> {
    let path = asked.path;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string();
    let mut file = OpenFile::open(path).map_err(|error| Failure::Usage(error.to_string()))?;
    let unreadable = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
    let mut head = vec![0; HEAD_BYTES];
    let read = file.read_chunk(&mut head).map_err(unreadable)?;
    head.truncate(read);
    let info = SourceInfo {
        index: local::DEFAULT_INDEX.to_owned(),
        host: local::host_name(),
        host_is_fixed: false,
        source: absolute,
        sourcetype: asked.sourcetype.clone(),
    };
    let context = PipelineContext { now: settings.clock.now_ns(), zone: TimeZone::UTC, modified: file.modified_ns };
    let is_whole = read < HEAD_BYTES && (file.packing == Packing::None || file.fault().is_none());
    let made = preview(&info, &settings.props, &context, &head, is_whole, asked.events.min(EVENTS_MAX));
    Ok((made.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?, read))
}

/// The preview as an object.
pub(crate) fn to_json(asked: &Asked<'_>, preview: &Preview, bytes: usize) -> Value {
    let event = |event: &PreviewEvent| {
        json!({
            "_time": iso_time(event.time, &TimeZone::UTC),
            "reason": reason(event),
            "fallback": event.reason.is_some_and(|reason| reason.is_fallback()),
            "lines": event.lines,
            "_raw": String::from_utf8_lossy(&event.raw),
            "index": *event.metadata.index,
            "host": *event.metadata.host,
            "source": *event.metadata.source,
            "sourcetype": *event.metadata.sourcetype,
        })
    };
    json!({
        "file": asked.path.display().to_string(),
        "bytes": bytes,
        "sourcetype": preview.sourcetype,
        "sourcetype_reason": sourcetype_reason(asked, preview),
        "problem": preview.problem.as_ref().map(ToString::to_string),
        "events_seen": preview.events_seen,
        "bad_timestamps": preview.bad_timestamps,
        "events": preview.events.iter().map(event).collect::<Vec<_>>(),
        "props_conf": preview.props_conf(),
    })
}

fn reason(event: &PreviewEvent) -> String {
    event.reason.map_or_else(|| "made by rules of index time".to_owned(), |reason| reason.text())
}

fn sourcetype_reason<'a>(asked: &Asked<'_>, preview: &'a Preview) -> &'a str {
    match (&asked.sourcetype, &preview.guess) {
        (Some(_), _) => "it was named",
        (None, Some(guess)) => guess.reason,
        (None, None) => "a [source::] stanza names it",
    }
}

fn write_text(asked: &Asked<'_>, preview: &Preview, bytes: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let path = asked.path.display();
    writeln!(out, "{path}: sourcetype {} ({})", preview.sourcetype, sourcetype_reason(asked, preview))?;
    if let Some(problem) = &preview.problem {
        writeln!(out, "read as plain lines: {problem}")?;
    }
    let own = match preview.bad_timestamps {
        0 => "each with a time of its own".to_owned(),
        bad => format!("{bad} without a time of their own"),
    };
    let count = preview.events_seen;
    writeln!(out, "{bytes} bytes: {count} event{}, {own}\n", if count == 1 { "" } else { "s" })?;
    for (at, event) in preview.events.iter().enumerate() {
        let lines = if event.lines == 1 { String::new() } else { format!(", {} lines", event.lines) };
        writeln!(out, "{:>4}  {}  {}{lines}", at + 1, iso_time(event.time, &TimeZone::UTC), reason(event))?;
        let text = String::from_utf8_lossy(&event.raw);
        for line in text.lines().take(SHOWN_LINES) {
            let shown: String = line.chars().take(SHOWN_CHARS).collect();
            writeln!(out, "      {shown}{}", if shown.len() < line.len() { "…" } else { "" })?;
        }
        if event.lines > SHOWN_LINES {
            writeln!(out, "      …")?;
        }
    }
    writeln!(out, "\nprops.conf that reads it so:\n\n{}", preview.props_conf().trim_end())
}
