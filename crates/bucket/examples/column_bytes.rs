//! Stored bytes of compacted logs by column: `column_bytes LEVEL FILE [MEGABYTES]` encodes a file slab by slab into one
//! bucket, verifies it and prints bytes per event of each column, largest first. `column_bytes FILE.bucket` prints
//! those of a bucket, `column_bytes FILE.bucket templates` its templates as well. A development tool.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;

use quarry_bucket::{BucketEncoder, BucketReader, BucketVerifier, EncodeOptions, Locators, MemoryObject, SlabSource};
use quarry_event::template::{ColumnKind, TemplatePart, TemplateSet};

#[path = "../benches/parts/slab.rs"]
mod slab;

use slab::Slabs;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() == 1 || arguments.get(1).is_some_and(|what| what == "templates") {
        let object = MemoryObject(std::fs::read(&arguments[0]).unwrap().into());
        let reader = BucketReader::open(Arc::new(object)).unwrap();
        if arguments.len() > 1 {
            print_templates(&reader);
        }
        return print_columns(&reader);
    }
    let (level, file) = (arguments[0].parse().unwrap(), &arguments[1]);
    let megabytes: u64 = arguments.get(2).map_or(u64::MAX >> 20, |given| given.parse().unwrap());
    let mut encoder = BucketEncoder::new(&EncodeOptions {
        zstd_level: level,
        templates: true,
        locators: Locators::included_if(level > 1),
    })
    .unwrap();
    let (mut events, mut raw_bytes) = (0, 0);
    for batch in slabs(file, megabytes << 20) {
        encoder.add_slab(&SlabSource::of(&batch)).unwrap();
        events += batch.len();
        raw_bytes += batch.raw.len() + batch.len();
    }
    let encoded = encoder.finish().unwrap();
    println!("encoded after {:.1} s of processor time", seconds());
    let mut verifier = BucketVerifier::new(&encoded).unwrap();
    slabs(file, megabytes << 20).for_each(|batch| verifier.verify_next_slab(&SlabSource::of(&batch)).unwrap());
    verifier.finish().unwrap();
    println!("verified after {:.1} s of processor time, peak {} MB", seconds(), peak_megabytes());
    println!("{file}: {events} events, {raw_bytes} bytes of text");
    println!(
        "object {} + filter {} = {}",
        encoded.object.len(),
        encoded.filter.len(),
        encoded.object.len() + encoded.filter.len()
    );
    print_columns(&BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).unwrap());
}

/// Prints the templates of each column, with the numbers of the columns of their variables.
fn print_templates(reader: &BucketReader) {
    for slab in 0..reader.slabs().len() {
        let Some(template_set) = reader.template_set(slab).unwrap() else { continue };
        for (number, column) in template_set.columns.iter().enumerate() {
            println!("slab {slab} column {number}: {} values, {:?}", column.values, kind_name(&column.kind));
            let ColumnKind::Templates(templates) = &column.kind else { continue };
            for template in templates.iter() {
                let part = |part: &TemplatePart| match part {
                    TemplatePart::Literal(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    TemplatePart::Variable(column) => format!("\u{27e8}{column}\u{27e9}"),
                };
                println!("    {:?}", template.parts.iter().map(part).collect::<String>());
            }
        }
    }
}

/// Prints the bytes per event of each kind of block and of each column.
fn print_columns(reader: &BucketReader) {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let mut columns: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for slab in 0..reader.slabs().len() {
        for (kind, bytes) in reader.stored_bytes_by_kind(slab).unwrap() {
            *kinds.entry(kind).or_default() += bytes;
        }
        let Some(template_set) = reader.template_set(slab).unwrap() else { continue };
        for stored in &template_set.extractions {
            println!("  slab {slab} stores the extracted field {}: {:?}", stored.name, stored.values);
        }
        for (column, bytes) in reader.stored_bytes_by_column(slab).unwrap().into_iter().enumerate() {
            let sum = columns.entry(name_of(&template_set, column)).or_default();
            sum.0 += bytes;
            sum.1 += template_set.columns[column].values;
        }
    }
    let each = |bytes: u64| bytes as f64 / reader.summary().events as f64;
    kinds.iter().for_each(|(kind, bytes)| println!("  {:8.3} {kind}", each(*bytes)));
    let mut columns: Vec<_> = columns.into_iter().filter(|(_, (bytes, _))| each(*bytes) >= 0.01).collect();
    columns.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
    for (name, (bytes, values)) in columns {
        println!("  {:8.3} {:6.2} bits a value  {name}", each(bytes), bytes as f64 * 8.0 / values as f64);
    }
}

fn slabs(file: &str, limit: u64) -> Slabs<BufReader<std::io::Take<File>>> {
    Slabs::of(BufReader::new(File::open(file).unwrap().take(limit)))
}

/// Name of a column: for each column from the text column down to this one, the literal before its variable in the
/// first template that contains it.
fn name_of(template_set: &TemplateSet, column: usize) -> String {
    let (mut at, mut names) = (column, Vec::new());
    if let Some(field) = template_set.fields.iter().find(|field| field.column as usize == column) {
        names.push(format!("index-time field {}", field.name));
    }
    while let Some(parent) = template_set.columns[at].parent {
        let ColumnKind::Templates(templates) = &template_set.columns[parent as usize].kind else { break };
        let parts = templates.iter().find(|template| template.has_variable(at as u32)).map(|template| &template.parts);
        let variable = parts.and_then(|parts| parts.iter().position(|part| *part == TemplatePart::Variable(at as u32)));
        names.push(match (parts, variable) {
            (Some(parts), Some(variable @ 1..)) => match &parts[variable - 1] {
                TemplatePart::Literal(bytes) => {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    text.chars().rev().take(16).collect::<Vec<char>>().into_iter().rev().collect()
                }
                TemplatePart::Variable(_) => "&".to_owned(),
            },
            _ => "^".to_owned(),
        });
        at = parent as usize;
    }
    names.reverse();
    format!("{:?} {}", names, kind_name(&template_set.columns[column].kind))
}

fn kind_name(kind: &ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Templates(_) => "templates",
        ColumnKind::Dictionary { .. } => "dictionary",
        ColumnKind::Numbers { .. } => "numbers",
        ColumnKind::Texts => "texts",
    }
}

fn seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn peak_megabytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
