//! Runs the examples of a page of `spec/index-time`: conf files and input bytes are the input, a table of events the
//! result.
//!
//! An example starts at a `###` heading. Its blocks are `props`, `transforms`, `indexes`, `limits`, `input` (with
//! `name=value` words for host, source, sourcetype, index and `escapes=yes`, which reads `\xHH` and `\n`), and `events`
//! in CSV, `error` or `refused`. The columns of `events` are `_raw`, `_time`, `index`, `host`, `source`, `sourcetype`
//! and indexed fields; if the table names an indexed field, it must name all indexed fields of all events. Several
//! values are separated by `;`, and line feeds are written `\n`. If a field has the same name as a key, its column is
//! `field:NAME`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::layers::Layer;
use quarry_conf::{ConfSource, Layers, PropsResolver};
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_event::{EventBatch, ExpressionCompiler, TimeNs};
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};

/// 2026-11-21T07:00:00Z.
const NOW: TimeNs = 1_795_244_400 * NS_PER_SEC;
/// Columns that are not fields.
const KEYS: [&str; 6] = ["_raw", "_time", "index", "host", "source", "sourcetype"];

struct Block {
    settings: BTreeMap<String, String>,
    lines: Vec<String>,
}

#[derive(Default)]
struct Example {
    title: String,
    blocks: BTreeMap<String, Block>,
}

/// Runs every example of a page; returns the failures and the number of examples.
pub(crate) fn run_page(text: &str, compiler: Option<&Arc<dyn ExpressionCompiler>>) -> (Vec<String>, usize) {
    let examples = read_page(text);
    let failures = examples
        .iter()
        .filter_map(|example| run(example, compiler).err().map(|reason| format!("### {}\n{reason}", example.title)));
    (failures.collect(), examples.len())
}

fn read_page(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("### ") {
            examples.push(Example { title: title.to_owned(), ..Example::default() });
        } else if let Some(info) = line.strip_prefix("```") {
            let (kind, words) = info.split_once(' ').unwrap_or((info, ""));
            let settings = words.split_whitespace().filter_map(|word| word.split_once('='));
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let lines = lines.by_ref().take_while(|line| !line.starts_with("```")).map(str::to_owned).collect();
            if let Some(example) = examples.last_mut().filter(|_| kind != "text") {
                let known = example.blocks.insert(kind.to_owned(), Block { settings, lines });
                assert!(known.is_none(), "{}: two blocks {kind}", example.title);
            }
        }
    }
    examples
}

fn run(example: &Example, compiler: Option<&Arc<dyn ExpressionCompiler>>) -> Result<(), String> {
    let conf = |name: &&str| {
        let block = example.blocks.get(*name)?;
        let file = format!("etc/system/local/{name}.conf");
        Some(ConfSource { layer: Layer::SystemLocal, app: None, file, text: block.lines.join("\n") })
    };
    let layers = Layers::new(["props", "transforms", "indexes", "limits"].iter().filter_map(conf).collect::<Vec<_>>());
    if let Some(warning) = layers.warnings().first() {
        return Err(format!("the configuration: {warning}"));
    }
    let mut props = PropsResolver::new(&layers);
    if let Some(compiler) = compiler {
        props = props.with_expressions(Arc::clone(compiler));
    }
    let input = example.blocks.get("input").ok_or("there is no input")?;
    let (outcome, refused) = match pipeline(&props, input) {
        Ok((batch, refused)) => (Ok(batch), refused),
        Err(error) => (Err(error), None),
    };
    if let Some(expected) = example.blocks.get("refused") {
        let reported = refused.unwrap_or_default();
        let expected = expected.lines.join("\n");
        if !reported.contains(&expected) {
            return Err(format!("refused: expected {expected}, got {reported}"));
        }
    }
    match (outcome, example.blocks.get("events"), example.blocks.get("error")) {
        (Ok(batch), Some(expected), None) => compare(&batch, &expected.lines),
        (Err(error), None, Some(expected)) if error.contains(&expected.lines.join("\n")) => Ok(()),
        (Ok(_), _, _) => Err("no error came, or nothing is expected".to_owned()),
        (Err(error), _, _) => Err(format!("error: {error}")),
    }
}

fn pipeline(props: &PropsResolver, input: &Block) -> Result<(EventBatch, Option<String>), String> {
    let setting = |name: &str, default: &str| input.settings.get(name).map_or(default, String::as_str).to_owned();
    let info = SourceInfo {
        index: setting("index", "main"),
        host: setting("host", "web-1"),
        host_is_fixed: false,
        source: setting("source", "/var/log/app.log"),
        sourcetype: Some(setting("sourcetype", "app")).filter(|name| name != "none"),
    };
    let text = input.lines.join("\n") + "\n";
    let bytes = if input.settings.contains_key("escapes") { unescaped(&text) } else { text.into_bytes() };
    let build = || {
        let context = PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified: None, orders: None };
        Pipeline::new(info.clone(), props, context).map_err(|error| error.to_string())
    };
    let (mut whole, mut pipeline) = (EventBatch::default(), build()?);
    pipeline.push(&bytes, &mut whole);
    pipeline.finish(&mut whole);
    // The result must not depend on chunks.
    let (mut parts, mut again) = (EventBatch::default(), build()?);
    bytes.chunks(7).for_each(|chunk| again.push(chunk, &mut parts));
    again.finish(&mut parts);
    if whole != parts || pipeline.counters() != again.counters() {
        return Err("chunks change the events".to_owned());
    }
    Ok((whole, pipeline.refused_index().map(str::to_owned)))
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let hex = rest.strip_prefix('x').and_then(|rest| u8::from_str_radix(rest.get(..2)?, 16).ok());
        match (hex, rest.chars().next()) {
            (Some(byte), _) => {
                out.push(byte);
                rest = &rest[3..];
            }
            (None, Some('n')) => {
                out.push(b'\n');
                rest = &rest[1..];
            }
            _ => out.push(b'\\'),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn compare(batch: &EventBatch, expected: &[String]) -> Result<(), String> {
    let header: Vec<String> = expected.first().map(|line| cells(line)).ok_or("events needs a header")?;
    let names = header.iter().map(String::as_str).filter(|name| !KEYS.contains(name));
    let names: BTreeSet<&str> = names.map(|name| name.strip_prefix("field:").unwrap_or(name)).collect();
    let mut found = vec![expected[0].clone()];
    for row in 0..batch.len() {
        let fields = || batch.fields.iter().filter(|field| field.row as usize == row);
        if let Some(field) = fields().find(|field| !names.is_empty() && !names.contains(&**field.name)) {
            return Err(format!("event {row} has the field {}={}", field.name, field.value));
        }
        let meta = &batch.metas[batch.meta[row] as usize];
        let cell = |name: &String| match name.as_str() {
            "_raw" => String::from_utf8(batch.raw(row).to_vec()).expect("texts are UTF-8"),
            "_time" => strftime(batch.time[row], "%FT%T.%6N", &TimeZone::UTC)
                .trim_end_matches(['0'])
                .trim_end_matches('.')
                .to_owned(),
            "index" => meta.index.to_string(),
            "host" => meta.host.to_string(),
            "source" => meta.source.to_string(),
            "sourcetype" => meta.sourcetype.to_string(),
            name => {
                let name = name.strip_prefix("field:").unwrap_or(name);
                fields().filter(|field| **field.name == *name).map(|field| field.value).collect::<Vec<_>>().join(";")
            }
        };
        found.push(header.iter().map(cell).map(|cell| written(&cell)).collect::<Vec<_>>().join(","));
    }
    let expected: Vec<String> = expected
        .iter()
        .map(|line| cells(line).iter().map(|cell| written(cell)).collect::<Vec<_>>().join(","))
        .collect();
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected:\n{}\nfound:\n{}", expected.join("\n"), found.join("\n")))
    }
}

fn written(cell: &str) -> String {
    let cell = cell.replace('\n', "\\n");
    if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

/// Cells of a CSV line.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            letter => cell.push(letter),
        }
    }
    cells.push(cell);
    cells
}
