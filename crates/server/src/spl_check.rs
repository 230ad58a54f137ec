//! `quarry spl check FILE.jsonl`: which of many searches parse and run, and what the others would need.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};

use quarry_spl::{Parsed, Severity, parse};
use serde_json::{Value, json};

use crate::bucket;
use crate::cli::{ListForm, SplCheckArgs};
use crate::failure::Failure;

/// How the parser begins what it understands but cannot run.
const UNSUPPORTED: &str = "unsupported";

/// Counts and writes the result.
pub(crate) fn run(arguments: &SplCheckArgs) -> Result<u8, Failure> {
    let path = &arguments.file;
    let unreadable = |error: std::io::Error| Failure::Usage(format!("{}: {error}", path.display()));
    let file = BufReader::new(std::fs::File::open(path).map_err(unreadable)?);
    let mut counts = Counts::default();
    for (at, line) in file.lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |what: &str| Failure::Usage(format!("{}:{}: {what}", path.display(), at + 1));
        let record: Value = serde_json::from_str(&line).map_err(|error| wrong(&error.to_string()))?;
        let field = &arguments.field;
        let Some(search) = record[field.as_str()].as_str() else {
            return Err(wrong(&format!("has no text field {field}: name one with --field")));
        };
        counts.add(&parse(search));
    }
    let features = counts.features();
    match arguments.output {
        ListForm::Json => {
            let Counts { searches, parsed, supported, .. } = counts;
            let report =
                json!({ "searches": searches, "parsed": parsed, "supported": supported, "unsupported": features });
            writeln!(std::io::stdout().lock(), "{report}")?;
        }
        ListForm::Csv => bucket::print(&features, &["feature", "searches"], ListForm::Csv)?,
        ListForm::Table => {
            let Counts { searches, parsed, supported, .. } = counts;
            writeln!(std::io::stdout().lock(), "{searches} searches, {parsed} parse, {supported} run\n")?;
            bucket::print(&features, &["feature", "searches"], ListForm::Table)?;
        }
    }
    Ok(0)
}

#[derive(Default)]
struct Counts {
    searches: u64,
    parsed: u64,
    supported: u64,
    unsupported: BTreeMap<String, u64>,
}

impl Counts {
    fn add(&mut self, search: &Parsed) {
        let mut errors = search.diagnostics.iter().filter(|remark| remark.severity == Severity::Error);
        let is_parsed = errors.all(|remark| remark.message.contains(UNSUPPORTED));
        self.searches += 1;
        self.parsed += u64::from(is_parsed);
        self.supported += u64::from(search.is_ok() && search.unsupported.is_empty());
        for feature in &search.unsupported {
            *self.unsupported.entry(feature.clone()).or_default() += 1;
        }
    }

    /// Features by how many searches need them.
    fn features(&self) -> Value {
        let mut features: Vec<(&String, &u64)> = self.unsupported.iter().collect();
        features.sort_by_key(|(_, searches)| std::cmp::Reverse(**searches));
        features.into_iter().map(|(feature, searches)| json!({ "feature": feature, "searches": searches })).collect()
    }
}
