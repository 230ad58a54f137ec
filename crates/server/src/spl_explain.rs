//! `quarry spl explain 'SPL'`: shows what a search would read and where its commands would run, without running it.
//!
//! Macros, lookups and data models come from the data directory, if there is one; if it has data, figures show how much
//! data remains after each filter. If a server has the folder open, the server answers, so that its unsealed events are
//! included.

use std::io::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_engine::{
    ColumnContent, Exchange, ExchangedRows, ExplainedEvents, ExplainedPlan, Explanation, Phase, SnapshotSource,
    StageShape,
};
use quarry_event::TimeNs;
use quarry_event::time::strftime;
use quarry_search::DEFAULT_INDEX;
use quarry_search::SearchParams;
use quarry_store::MemoryStore;
use serde_json::{Value, json};

use crate::cli::{Cli, ExplainForm, SplExplainArgs};
use crate::data_directory::{Settings, open_read_only};
use crate::failure::Failure;
use crate::output::line_folding::fold_text;
use crate::output::pager::Pager;
use crate::server_client::Remote;
use crate::{search, terminal, zone};

/// strftime format of a time.
const TIME_FORMAT: &str = "%Y-%m-%dT%H:%M:%S.%3N%:z";

/// Explains a search and prints the explanation.
pub(crate) fn run(cli: &Cli, arguments: &SplExplainArgs) -> Result<u8, Failure> {
    let zone = zone::parse_option(arguments.zone.as_deref())?.unwrap_or_else(zone::machine);
    let namespace = arguments.namespace.parse()?;
    if let Some(remote) = Remote::find(&cli.data_dir) {
        search::check(&arguments.text, &cli.data_dir, namespace.clone())?;
        let remote = remote.in_namespace(namespace.as_ref());
        let zone_name = zone::name(&zone);
        let optional = [
            ("earliest_time", arguments.earliest.as_deref()),
            ("latest_time", arguments.latest.as_deref()),
            ("zone", zone_name.as_deref()),
            ("output_mode", Some(if arguments.output == ExplainForm::Json { "json" } else { "text" })),
        ];
        let mut form = vec![("search", arguments.text.as_str())];
        form.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
        return write_explanation(&remote.explain(&form)?, arguments.output);
    }
    let settings = Settings::for_search(&cli.data_dir, namespace)?;
    let mut messages = Vec::new();
    // If the folder is missing or another process has it open, only the configuration is used.
    let store = match open_read_only(&cli.data_dir, &settings) {
        Ok(store) => Some(store),
        Err(error) => {
            messages.push(format!("buckets, slabs and pages are not counted: {error}"));
            None
        }
    };
    let source: Arc<dyn SnapshotSource> = match &store {
        Some(store) => Arc::<quarry_store::Store>::clone(store),
        None => Arc::new(MemoryStore::new(DEFAULT_INDEX)),
    };
    let service = settings.search_settings(Some(&cli.data_dir)).service(source)?;
    let params = SearchParams {
        text: arguments.text.clone(),
        earliest: arguments.earliest.clone(),
        latest: arguments.latest.clone(),
        zone: Some(zone.clone()),
        rows_max: None,
        is_narrowed: false,
        ..SearchParams::for_owner()
    };
    let explained = service.explain(params, store.is_some());
    let mut explanation = explained.map_err(|error| Failure::from_search_error(&arguments.text, error))?;
    explanation.messages.extend(messages);
    let is_json = arguments.output == ExplainForm::Json;
    write_explanation(&format_explanation(&arguments.text, &explanation, &zone, is_json)?, arguments.output)
}

/// Writes an explanation, folded and paged on a terminal.
fn write_explanation(text: &str, form: ExplainForm) -> Result<u8, Failure> {
    let columns = terminal::width().filter(|_| form == ExplainForm::Text).map(usize::from);
    let mut out = Pager::open(form == ExplainForm::Text);
    out.write_all(columns.map_or_else(|| text.to_owned(), |columns| fold_text(text, columns)).as_bytes())?;
    out.close()?;
    Ok(0)
}

/// Formats an explanation as text or JSON.
pub(crate) fn format_explanation(
    text: &str,
    explanation: &Explanation,
    zone: &TimeZone,
    is_json: bool,
) -> Result<String, Failure> {
    if is_json {
        return Ok(format!("{}\n", json_of(text, explanation, zone)));
    }
    let mut out = Vec::new();
    write_text(explanation, zone, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn json_of(text: &str, explanation: &Explanation, zone: &TimeZone) -> Value {
    let macros = explanation.macros.iter().map(|(name, made)| json!({ "name": name, "text": made }));
    json!({
        "search": text,
        "expanded": explanation.expanded,
        "macros": macros.collect::<Vec<_>>(),
        "plan": json_of_plan(&explanation.plan, zone),
        "messages": explanation.messages,
    })
}

fn json_of_plan(plan: &ExplainedPlan, zone: &TimeZone) -> Value {
    let stages = plan.stages.iter().map(|stage| {
        json!({
            "command": command_of(&stage.text),
            "text": stage.text,
            "phase": phase_name(stage.phase),
            "takes": shape_name(stage.shape),
        })
    });
    json!({
        "events": plan.events.as_ref().map(|events| json_of_events(events, zone)),
        "exchanges": plan.exchanges.iter().map(json_of_exchange).collect::<Vec<_>>(),
        "stages": stages.collect::<Vec<_>>(),
        "subsearches": plan.subsearches.iter().map(|inner| json_of_plan(inner, zone)).collect::<Vec<_>>(),
    })
}

fn json_of_exchange(exchange: &Exchange) -> Value {
    let rows = match &exchange.rows {
        ExchangedRows::Events => "events",
        ExchangedRows::TopEvents { .. } => "top events",
        ExchangedRows::FirstEvents { .. } => "first events",
        ExchangedRows::OldestEvents { .. } => "oldest events",
        ExchangedRows::Groups => "groups",
        ExchangedRows::Times => "times",
    };
    let columns = exchange.columns.iter().map(|column| {
        let (content, of, state) = match &column.content {
            ColumnContent::EventTime => ("event time", None, None),
            ColumnContent::EventText => ("event text", None, None),
            ColumnContent::TextValue => ("text value", None, None),
            ColumnContent::Field => ("field", None, None),
            ColumnContent::FirstTime => ("first time", None, None),
            ColumnContent::LastTime => ("last time", None, None),
            ColumnContent::Key(field) => ("key", Some(field), None),
            ColumnContent::State { aggregate, column } => ("state", Some(aggregate), Some(column.to_string())),
        };
        json!({ "name": column.name, "type": column.kind.to_string(), "content": content, "of": of, "state": state })
    });
    json!({
        "rows": rows,
        "columns": columns.collect::<Vec<_>>(),
        "patterns": exchange.patterns,
    })
}

fn json_of_events(events: &ExplainedEvents, zone: &TimeZone) -> Value {
    let pruning_steps = events.pruning_steps.iter().map(|step| {
        json!({
            "after": step.by, "buckets": step.buckets, "slabs": step.slabs, "pages": step.pages,
            "events": step.events,
        })
    });
    let time = |time: Option<TimeNs>| time.map(|time| strftime(time, TIME_FORMAT, zone));
    json!({
        "indexes": events.indexes,
        "earliest": time(events.range.earliest),
        "latest": time(events.range.latest),
        "terms": events.terms,
        "prunes_by": prunes_by(events),
        "fields": {
            "all": events.all_fields, "names": events.fields, "patterns": events.field_patterns,
            "tested": events.tested_fields, "text": events.reads_text,
        },
        "pushed": events.pushed_down,
        "newest_first": events.in_order,
        "summaries": events.summaries.as_ref().map(|read| {
            json!({ "object": read.object, "slabs": read.slabs, "of": read.slabs_total })
        }),
        "pruning": pruning_steps.collect::<Vec<_>>(),
    })
}

/// Names of the filters that exclude data before it is read.
fn prunes_by(events: &ExplainedEvents) -> Vec<&'static str> {
    let is_bounded = events.range.earliest.is_some() || events.range.latest.is_some();
    let pruning_steps = [(true, "index"), (is_bounded, "time"), (events.has_terms, "terms")];
    pruning_steps.into_iter().filter(|(does, _)| *does).map(|(_, name)| name).collect()
}

/// Name of a command as written.
fn command_of(text: &str) -> &str {
    text.split(|character: char| character.is_whitespace() || "[(\"".contains(character)).next().unwrap_or_default()
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Scan => "scan",
        Phase::Map => "map",
        Phase::MapReduce => "map+reduce",
        Phase::Reduce => "reduce",
    }
}

fn shape_name(shape: StageShape) -> &'static str {
    match shape {
        StageShape::Rows => "one row at a time",
        StageShape::OrderedRows => "one row at a time, in order",
        StageShape::Fold => "rows into groups",
        StageShape::OrderedFold => "rows into groups, in order",
        StageShape::AllRows => "all rows at once",
        StageShape::Generates => "generates rows",
    }
}

fn write_text(explanation: &Explanation, zone: &TimeZone, out: &mut dyn Write) -> Result<(), Failure> {
    for (name, made) in &explanation.macros {
        writeln!(out, "macro `{name}` is {made}")?;
    }
    if !explanation.macros.is_empty() {
        writeln!(out, "search {}\n", explanation.expanded)?;
    }
    write_plan(&explanation.plan, zone, 0, out)?;
    for message in &explanation.messages {
        writeln!(out, "note: {message}")?;
    }
    Ok(())
}

/// Writes a plan and its subplans, indented by two blanks per level.
fn write_plan(plan: &ExplainedPlan, zone: &TimeZone, depth: usize, out: &mut dyn Write) -> Result<(), Failure> {
    let indent = "  ".repeat(depth);
    if let Some(events) = &plan.events {
        for line in lines_of_events(events, zone) {
            writeln!(out, "{indent}{line}")?;
        }
    }
    for exchange in &plan.exchanges {
        writeln!(out, "{indent}exchange {exchange}")?;
    }
    if !plan.stages.is_empty() {
        writeln!(out, "{indent}commands")?;
        let widths = plan.stages.iter().map(|stage| phase_name(stage.phase).len() + shape_name(stage.shape).len());
        let width = widths.max().unwrap_or(0) + 2;
        for stage in &plan.stages {
            let place = format!("{}: {}", phase_name(stage.phase), shape_name(stage.shape));
            writeln!(out, "{indent}  {place:width$}  {}", stage.text)?;
        }
    }
    for inner in &plan.subsearches {
        writeln!(out, "{indent}subsearch")?;
        write_plan(inner, zone, depth + 1, out)?;
    }
    Ok(())
}

fn lines_of_events(events: &ExplainedEvents, zone: &TimeZone) -> Vec<String> {
    let time = |time: Option<TimeNs>, open: &str| {
        time.map_or_else(|| open.to_owned(), |time| strftime(time, TIME_FORMAT, zone))
    };
    let fields = match events.all_fields {
        true => "all".to_owned(),
        false if events.fields.is_empty() && events.field_patterns.is_empty() => "none".to_owned(),
        false => [events.fields.as_slice(), &events.field_patterns].concat().join(" "),
    };
    let order = if events.in_order { "newest first" } else { "in any order, by all workers" };
    let mut lines = vec![
        format!("indexes  {}", events.indexes.join(" ")),
        format!(
            "time     {} to {}",
            time(events.range.earliest, "the first event"),
            time(events.range.latest, "the last event")
        ),
        format!("terms    {}", events.terms),
        format!("fields   {fields}"),
    ];
    if !events.tested_fields.is_empty() {
        lines.push(format!("tested   {}", events.tested_fields.join(" ")));
    }
    if !events.pushed_down.is_empty() {
        lines.push(format!("pushed   {}", events.pushed_down.join("; ")));
    }
    lines.push(format!("read     {order}; pruned by {}", prunes_by(events).join(", ")));
    if let Some(read) = &events.summaries {
        let rest = if read.slabs < read.slabs_total { "; events of the other slabs" } else { "" };
        lines.push(format!("summary  {} of {} slabs from {}{rest}", read.slabs, read.slabs_total, read.object));
    }
    if !events.pruning_steps.is_empty() {
        lines.push(format!("left after {:>8} {:>8} {:>8} {:>12}", "buckets", "slabs", "pages", "events"));
        lines.extend(events.pruning_steps.iter().map(|step| {
            let [by, buckets, slabs, pages] =
                [&step.by as &dyn std::fmt::Display, &step.buckets, &step.slabs, &step.pages];
            format!("  {by:<8} {buckets:>8} {slabs:>8} {pages:>8} {:>12}", step.events)
        }));
    }
    lines
}
