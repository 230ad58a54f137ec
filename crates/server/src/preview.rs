//! `quarry preview FILE`: the events that adding a file would produce, and why, without adding it.
//!
//! `POST /services/indexing/preview` returns the same object, or creates a job with the events.

use std::io::Write;
use std::path::Path;

use jiff::tz::{Offset, TimeZone};
use quarry_conf::edit::{check_setting, with_settings};
use quarry_conf::{ConfSource, Layer};
use quarry_event::time::NS_PER_SEC;
use quarry_inputs::file::{Compression, OpenFile, absolute_text, content_skip_reason, sample_lines};
use quarry_pipeline::{PipelineContext, Preview, PreviewEvent, PreviewText, SourceInfo, WrittenZone, preview};
use quarry_search::cell::format_iso_time;
use quarry_search::jobs::{FilePreview as JobPreview, PreviewedEvent};
use quarry_stdx::Fault;
use serde_json::{Value, json};

use crate::cli::{PreviewArgs, PreviewForm};
use crate::data_directory::{self, Settings};
use crate::failure::Failure;
use crate::output::line_folding::fold_text;
use crate::output::pager::Pager;
use crate::output::text_width::{escape_line, escape_unsafe, truncate};
use crate::printed_commands::quote;
use crate::{terminal, zone};

/// Maximum bytes of content examined.
const HEAD_BYTES: usize = 1 << 20;
/// Default number of events shown.
pub(crate) const EVENTS_DEFAULT: usize = 10;
/// Maximum number of events shown.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// Columns shown per line without a terminal.
const SHOWN_COLUMNS: usize = 160;
/// Indentation of an event's text.
const TEXT_INDENT: usize = 6;
/// Events whose times are further in the future than this get a note. Clocks differ by less; a wrong time zone shifts
/// times by more.
const FUTURE_TOLERANCE_NS: i64 = 20 * 60 * NS_PER_SEC;
/// Maximum number of lines of an event shown in the text format.
const SHOWN_LINES: usize = 8;
/// Name of the file with the settings of a request, in warnings about them.
const REQUEST_FILE: &str = "request/props.conf";
/// Stanza with the settings of a request. It matches every path, because the request previews only one file, and the
/// path of this file may contain characters that have a meaning in the name of a stanza.
const REQUEST_STANZA: &str = "source::...*";
/// Priority of this stanza, the maximum.
const REQUEST_PRIORITY: &str = "1000000";

/// A file to preview.
pub(crate) struct PreviewRequest<'a> {
    pub(crate) path: &'a Path,
    pub(crate) sourcetype: Option<String>,
    /// Host of the input; this machine if absent.
    pub(crate) host: Option<String>,
    /// Time zone of timestamps without a zone, if the user sets it.
    pub(crate) zone: Option<TimeZone>,
    pub(crate) events: usize,
}

impl PreviewRequest<'_> {
    /// The zone in which times are shown.
    fn shown_zone(&self) -> TimeZone {
        self.zone.clone().unwrap_or_else(zone::machine)
    }
}

pub(crate) struct FilePreview {
    preview: Preview,
    /// Bytes of content examined.
    bytes: usize,
    /// Time zone of timestamps without a zone, and the origin of this zone.
    zone: String,
    zone_reason: String,
    /// Notes and warnings: the zone, times in the future, faults of the sourcetype, ambiguous dates, a partial read.
    notes: Vec<String>,
}

/// Prints the preview of a file.
pub(crate) fn run(data_dir: &Path, arguments: &PreviewArgs) -> Result<u8, Failure> {
    let settings = Settings::of_data_dir_quietly(data_dir);
    let faults_told = settings.report_faults(data_dir, false);
    let zone = zone::parse_option(arguments.zone.as_deref())?;
    let sourcetype = arguments.sourcetype.clone();
    let host = arguments.host.clone();
    let request = PreviewRequest { path: &arguments.file, sourcetype, host, zone, events: arguments.events };
    let mut made = preview_file(&request, &settings)?;
    made.notes.retain(|note| !faults_told.iter().any(|fault| note.ends_with(fault)));
    let mut out = Pager::open(arguments.output == PreviewForm::Text);
    match arguments.output {
        PreviewForm::Json => writeln!(out, "{}", to_json(&request, &made))?,
        PreviewForm::Conf => write!(out, "{}", made.preview.props_conf())?,
        PreviewForm::Text => write_text(&request, &made, terminal::width().map(usize::from), &mut out)?,
    }
    out.close()?;
    Ok(0)
}

pub(crate) fn preview_file(request: &PreviewRequest<'_>, settings: &Settings) -> Result<FilePreview, Failure> {
    let path = request.path;
    let absolute = absolute_text(path);
    let mut file = OpenFile::open(path).map_err(|error| Failure::Usage(error.to_string()))?;
    let unreadable = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
    let mut head = vec![0; HEAD_BYTES];
    let read = file.read_chunk(&mut head).map_err(unreadable)?;
    head.truncate(read);
    if head.is_empty() {
        return Err(Failure::Usage(format!("{}: is empty, so there is nothing to preview", path.display())));
    }
    let is_whole = read < HEAD_BYTES && (file.compression == Compression::None || file.fault().is_none());
    let samples = sample_lines(path).map_err(|error| Failure::Usage(error.to_string()))?;
    preview_head(request, settings, absolute, PreviewText { head, is_whole, samples }, file.modified_ns)
}

/// Previews the beginning of a file that is not on this machine; `request.path` is its name.
pub(crate) fn preview_text(
    request: &PreviewRequest<'_>,
    text: &[u8],
    settings: &Settings,
) -> Result<FilePreview, Failure> {
    let head = text[..text.len().min(HEAD_BYTES)].to_vec();
    let text = PreviewText { head, is_whole: text.len() <= HEAD_BYTES, samples: Vec::new() };
    preview_head(request, settings, request.path.display().to_string(), text, None)
}

fn preview_head(
    request: &PreviewRequest<'_>,
    settings: &Settings,
    source: String,
    text: PreviewText,
    modified: Option<i64>,
) -> Result<FilePreview, Failure> {
    let path = request.path;
    let info = SourceInfo {
        index: quarry_search::DEFAULT_INDEX.to_owned(),
        host: request.host.clone().unwrap_or_else(data_directory::host_name),
        host_is_fixed: request.host.is_some(),
        source,
        sourcetype: request.sourcetype.clone(),
    };
    if let Some(reason) = content_skip_reason(&text.head, &info, &settings.props) {
        return Err(Failure::Usage(format!("{}: {reason}", path.display())));
    }
    let context = PipelineContext { now: settings.clock.now_ns(), zone: request.zone.clone(), modified, orders: None };
    let made = preview(&info, &settings.props, &context, &text, request.events.min(EVENTS_MAX));
    let preview = made.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let (zone, zone_reason) = zone_of(request, settings, &info, &preview);
    let mut notes = zone_notes(settings, &info, &preview, context.now);
    notes.extend(settings.sourcetype_faults(&preview.sourcetype).iter().map(|fault| format!("warning: {fault}")));
    notes.extend(preview.remark.iter().map(|told| format!("note: {told}")));
    let bytes = text.head.len();
    if !text.is_whole {
        notes.push(format!("only the first {bytes} bytes were read"));
    }
    Ok(FilePreview { preview, bytes, zone, zone_reason, notes })
}

/// Time zone of timestamps without a zone, and the origin of this zone.
fn zone_of(
    request: &PreviewRequest<'_>,
    settings: &Settings,
    info: &SourceInfo,
    preview: &Preview,
) -> (String, String) {
    let Some(name) = &preview.settings.tz else {
        let reason = if request.zone.is_some() { "--zone" } else { "the machine's" };
        return (zone::display_name(&request.shown_zone()), reason.to_owned());
    };
    let stanza = settings.props.stanza_of("TZ", &info.source, &info.host, &preview.sourcetype).unwrap_or_default();
    let set = settings.layers.conf("props").stanza(stanza).and_then(|stanza| stanza.settings.get("TZ"));
    let place = set.map_or_else(|| "props.conf".to_owned(), |set| format!("{}, line {}", set.file, set.line));
    (name.clone(), format!("TZ of [{stanza}] in {place}"))
}

/// Notes: on a `TZ` for the host that does not apply, because the host is known only after times are parsed; and on
/// times in the future.
fn zone_notes(settings: &Settings, info: &SourceInfo, preview: &Preview, now: i64) -> Vec<String> {
    let stanza_of = |host: &str| settings.props.stanza_of("TZ", &info.source, host, &preview.sourcetype);
    let used = stanza_of(&info.host);
    let later = preview.events.iter().map(|event| &*event.metadata.host).find_map(|host| {
        let stanza = stanza_of(host).filter(|stanza| stanza.starts_with("host::") && Some(*stanza) != used)?;
        Some(format!(
            "note: TZ of [{stanza}] is not used: times are read before the host is taken from the text. --host {} (host = in \
             inputs.conf) sets it from the start, and so does TZ for the source or sourcetype",
            quote(host)
        ))
    });
    let ahead = preview.events.iter().filter(|event| event.time > now.saturating_add(FUTURE_TOLERANCE_NS)).count();
    let future = (ahead > 0).then(|| {
        let lie = if ahead == 1 { "lies" } else { "lie" };
        format!(
            "note: {ahead} of the events shown {lie} in the future: if the times in the file are in another \
             zone, name it with --zone"
        )
    });
    later.into_iter().chain(future).collect()
}

/// Describes the time zone named by an event's text.
fn describe_zone(zone: WrittenZone) -> String {
    match zone {
        WrittenZone::Epoch => "UTC".to_owned(),
        WrittenZone::Offset(seconds) => {
            let zone = Offset::from_seconds(seconds).map_or(TimeZone::UTC, TimeZone::fixed);
            zone::display_name(&zone)
        }
    }
}

/// The settings of a request for a preview as a props.conf that overrides all others.
pub(crate) fn props_of_request(settings: &[(String, String)]) -> Result<ConfSource, Fault> {
    for (name, value) in settings {
        check_setting(name, value)?;
    }
    let mut settings = settings.to_vec();
    settings.push(("priority".to_owned(), REQUEST_PRIORITY.to_owned()));
    let text = with_settings("", REQUEST_STANZA, &settings);
    Ok(ConfSource { layer: Layer::SystemLocal, app: None, file: REQUEST_FILE.to_owned(), text })
}

/// The preview as the rows of a job; `settings` include those of the request.
pub(crate) fn to_events(path: String, made: FilePreview, settings: &Settings) -> JobPreview {
    let event = |event: PreviewEvent| PreviewedEvent {
        time: event.time,
        raw: String::from_utf8_lossy(&event.raw).into_owned(),
        lines: event.lines,
        metadata: event.metadata,
    };
    let mut notes = made.notes;
    let of_request = settings.layers.warnings().iter().filter(|warning| *warning.file == *REQUEST_FILE);
    notes.extend(of_request.map(|warning| format!("warning: {}", warning.problem)));
    notes.extend(made.preview.problem.iter().map(ToString::to_string));
    let shown = made.preview.events.len();
    if made.preview.events_seen > shown as u64 {
        notes.push(format!("only the first {shown} events are shown"));
    }
    let events = made.preview.events.into_iter().map(event).collect();
    JobPreview { path, events, notes, ..JobPreview::default() }
}

/// The preview as a JSON object.
pub(crate) fn to_json(request: &PreviewRequest<'_>, made: &FilePreview) -> Value {
    let (preview, shown) = (&made.preview, request.shown_zone());
    let event = |event: &PreviewEvent| {
        json!({
            "_time": format_iso_time(event.time, &shown),
            "reason": reason(event),
            "zone_in_text": event.zone.map(describe_zone),
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
        "file": request.path.display().to_string(),
        "bytes": made.bytes,
        "zone": made.zone,
        "zone_reason": made.zone_reason,
        "notes": made.notes,
        "sourcetype": preview.sourcetype,
        "sourcetype_reason": sourcetype_reason(request, preview),
        "problem": preview.problem.as_ref().map(ToString::to_string),
        "events_seen": preview.events_seen,
        "bad_timestamps": preview.bad_timestamps,
        "events": preview.events.iter().map(event).collect::<Vec<_>>(),
        "props_conf": preview.props_conf(),
    })
}

fn reason(event: &PreviewEvent) -> String {
    let reason = event.reason.map_or_else(|| "set by an index-time rule".to_owned(), |reason| reason.text());
    match event.zone {
        Some(WrittenZone::Offset(_)) => format!("{reason}, in the zone named there"),
        Some(WrittenZone::Epoch) | None => reason,
    }
}

fn sourcetype_reason<'a>(request: &PreviewRequest<'_>, preview: &'a Preview) -> &'a str {
    match (&request.sourcetype, &preview.guess) {
        (Some(_), _) => "it was named",
        (None, Some(guess)) => guess.reason,
        (None, None) if preview.sourcetype.is_empty() => "there is no text to guess it from",
        (None, None) => "a [source::] stanza names it",
    }
}

/// Writes the preview as text; `terminal` is the width of the terminal, if there is one.
fn write_text(
    request: &PreviewRequest<'_>,
    made: &FilePreview,
    terminal: Option<usize>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let told = |line: String| {
        terminal.map_or_else(|| line.clone(), |columns| fold_text(&escape_unsafe(&line, false), columns))
    };
    let (preview, bytes, shown) = (&made.preview, made.bytes, request.shown_zone());
    let path = request.path.display();
    let reason_of_type = sourcetype_reason(request, preview);
    writeln!(out, "{}", told(format!("{path}: sourcetype {} ({reason_of_type})", preview.sourcetype)))?;
    if let Some(problem) = &preview.problem {
        writeln!(out, "{}", told(format!("read as plain lines: {problem}")))?;
    }
    let own = match preview.bad_timestamps {
        0 => "each with a time of its own".to_owned(),
        bad => format!("{bad} without a time of their own"),
    };
    let count = preview.events_seen;
    writeln!(out, "{bytes} bytes: {count} event{}, {own}", if count == 1 { "" } else { "s" })?;
    writeln!(out, "{}\n", told(format!("time zone of timestamps without one: {} ({})", made.zone, made.zone_reason)))?;
    for note in &made.notes {
        writeln!(out, "{}\n", told(note.clone()))?;
    }
    let columns = terminal.map_or(SHOWN_COLUMNS, |columns| columns.saturating_sub(TEXT_INDENT));
    for (at, event) in preview.events.iter().enumerate() {
        let lines = if event.lines == 1 { String::new() } else { format!(", {} lines", event.lines) };
        let head = format!("{:>4}  {}  {}{lines}", at + 1, format_iso_time(event.time, &shown), reason(event));
        writeln!(out, "{}", told(head))?;
        let text = String::from_utf8_lossy(&event.raw);
        for line in text.lines().take(SHOWN_LINES) {
            writeln!(out, "{:TEXT_INDENT$}{}", "", truncate(&escape_line(line), columns))?;
        }
        if event.lines > SHOWN_LINES {
            writeln!(out, "      …")?;
        }
    }
    writeln!(out, "\nprops.conf for this result:\n\n{}", preview.props_conf().trim_end())
}

#[cfg(test)]
mod tests {
    use quarry_conf::{Layers, PropsResolver};

    use super::*;

    #[test]
    fn settings_of_a_request_override_all_others_for_any_path() {
        let path = "/srv/app (1)|[a].log";
        let own = format!(
            "[t]\nTRUNCATE = 1\n[source::/srv/...]\nTRUNCATE = 2\npriority = 7\n[source::{path}]\nTRUNCATE = 3\n"
        );
        let file = "etc/system/local/props.conf".to_owned();
        let layers = Layers::new([ConfSource { layer: Layer::SystemLocal, app: None, file, text: own }]);
        let given = [("TRUNCATE", "5"), ("priority", "-9"), ("LINE_BREAKER", "(x)\\\\")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let read =
            PropsResolver::new(&layers.overridden_by(&props_of_request(&given).unwrap())).resolve(path, "h", "t");
        assert_eq!((read.truncate, read.line_breaker.as_str()), (5, "(x)\\\\"));
        for name in ["", "[t", "#t", "a=b", "a\nb"] {
            assert!(props_of_request(&[(name.to_owned(), "1".to_owned())]).is_err(), "{name:?}");
        }
    }
}
