//! `quarry spl check FILE.jsonl`: counts the searches of a file that parse and are supported, and the lookups, macros
//! etc. on which they depend; with `--execute`, also runs the searches.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};

use quarry_spl::dependencies::Dependencies;
use quarry_spl::macros::{Macro, MacroSource, MacroValue, expand};
use quarry_spl::{ParsedSearch, Severity};
use quarry_stdx::Fault;
use serde_json::{Value, json};

use crate::bucket;
use crate::cli::{ListForm, SplCheckArgs};
use crate::failure::Failure;
use crate::spl_execute::{ExecutionFailure, execute};
use crate::spl_tokens;

/// Word in the parser's messages about known but unsupported features.
const UNSUPPORTED: &str = "unsupported";

/// Maximum number of failures shown in a table.
const SHOWN_MAX: usize = 50;

/// Maximum number of unparsable searches listed, and maximum number of lines without a search.
const NOT_PARSED_MAX: usize = 1_000;

/// Counts and prints the result.
pub(crate) fn run(arguments: &SplCheckArgs) -> Result<u8, Failure> {
    let path = &arguments.file;
    let unreadable = |error: std::io::Error| {
        let is_search =
            error.kind() == std::io::ErrorKind::NotFound && path.to_string_lossy().contains([' ', '|', '=']);
        let hint = if is_search { ": name a file of searches; `quarry spl explain 'SEARCH'` checks one" } else { "" };
        Failure::Usage(format!("{}: {error}{hint}", path.display()))
    };
    let file = BufReader::new(std::fs::File::open(path).map_err(&unreadable)?);
    let mut counts = Counts::default();
    for (at, line) in file.lines().enumerate() {
        let line = line.map_err(&unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        match search_of(&line, &arguments.field) {
            Ok(search) => check(at + 1, &search, arguments, &mut counts)?,
            Err(fault) => counts.skip(at + 1, fault.to_string()),
        }
    }
    if counts.searches == 0
        && let Some(first) = counts.unread.first()
    {
        let (line, error) = (&first["line"], first["error"].as_str().unwrap_or_default());
        return Err(Failure::Usage(format!("{}:{line}: {error}", path.display())));
    }
    report(counts, arguments)
}

/// Extracts the search from a line.
fn search_of(line: &str, field: &str) -> Result<String, Fault> {
    let record: Value = serde_json::from_str(line).map_err(|error| Fault::invalid(format!("is not JSON: {error}")))?;
    let search = record[field].as_str().map(str::to_owned);
    search.ok_or_else(|| Fault::invalid(format!("has no text field {field}: name one with --field")))
}

/// Checks and counts a search.
fn check(line: usize, search: &str, arguments: &SplCheckArgs, counts: &mut Counts) -> Result<(), Failure> {
    let expansion = expand(search, &NoMacros);
    let spl_tokens::ExpandedSearch { parsed, text, replaced } = spl_tokens::read(&expansion.text);
    counts.add(line, &parsed);
    let needs = Dependencies::of(&parsed.pipeline);
    if arguments.execute && parsed.is_ok() {
        counts.executed += 1;
        let failures = execute(parsed.pipeline, &text, &needs)?;
        counts.failed += u64::from(!failures.is_empty());
        counts.failures.extend(failures.into_iter().map(|failure| (line, failure)));
    }
    let mut missing: BTreeSet<String> = expansion.missing.into_iter().collect();
    missing.extend(needs.map_texts.iter().flat_map(|text| expand(text, &NoMacros).missing));
    counts.record_dependencies(&needs, missing);
    if replaced {
        *counts.needs.entry("tokens".to_owned()).or_default() += 1;
    }
    Ok(())
}

fn report(counts: Counts, arguments: &SplCheckArgs) -> Result<u8, Failure> {
    let features = counts_json(&counts.unsupported);
    let needs = counts_json(&counts.needs);
    match arguments.output {
        ListForm::Json => {
            let failures = failures_of(&counts, None);
            let Counts { searches, parsed, supported, executed, failed, not_parsed, skipped, unread, .. } = counts;
            let mut report = json!({ "searches": searches, "parsed": parsed, "supported": supported,
                "unsupported": features, "needs": needs, "not_parsed": not_parsed, "skipped": skipped, "unread": unread });
            if arguments.execute {
                report["executed"] = executed.into();
                report["failed"] = failed.into();
                report["failures"] = failures;
            }
            writeln!(std::io::stdout().lock(), "{report}")?;
        }
        ListForm::Csv => bucket::print(&features, &["feature", "searches"], ListForm::Csv)?,
        ListForm::Table => {
            let Counts { searches, parsed, supported, .. } = &counts;
            writeln!(std::io::stdout().lock(), "{searches} searches, {parsed} parse, {supported} are supported\n")?;
            if let Some(first) = counts.unread.first() {
                let (line, error) = (&first["line"], first["error"].as_str().unwrap_or_default());
                writeln!(
                    std::io::stdout().lock(),
                    "lines without a search: {}; the first is line {line}: {error}\n",
                    counts.skipped
                )?;
            }
            bucket::print(&features, &["feature", "searches"], ListForm::Table)?;
            if arguments.execute {
                let (executed, failed) = (counts.executed, counts.failed);
                writeln!(std::io::stdout().lock(), "\n{executed} executed, {failed} of them failed\n")?;
                let failures = failures_of(&counts, Some(SHOWN_MAX));
                bucket::print(&failures, &["line", "events", "error"], ListForm::Table)?;
            }
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
    /// By name, the number of searches that need a lookup table, a macro, a saved search or a data model that is not
    /// bundled; and under `tokens`, the number of searches with dashboard tokens.
    needs: BTreeMap<String, u64>,
    /// Line and first error of searches that do not parse.
    not_parsed: Vec<Value>,
    /// Lines without a search.
    skipped: u64,
    /// The first skipped lines, with the reasons.
    unread: Vec<Value>,
    /// Searches that were run.
    executed: u64,
    /// Searches that failed.
    failed: u64,
    /// Lines and errors of the failed searches.
    failures: Vec<(usize, ExecutionFailure)>,
}

/// Formats the failures as rows.
fn failures_of(counts: &Counts, most: Option<usize>) -> Value {
    let shown = counts.failures.iter().take(most.unwrap_or(usize::MAX));
    shown.map(|(line, failure)| json!({ "line": line, "events": failure.events, "error": failure.error })).collect()
}

impl Counts {
    /// Records a line without a search.
    fn skip(&mut self, line: usize, error: String) {
        self.skipped += 1;
        if self.unread.len() < NOT_PARSED_MAX {
            self.unread.push(json!({ "line": line, "error": error }));
        }
    }

    fn add(&mut self, line: usize, search: &ParsedSearch) {
        let mut errors = search.diagnostics.iter().filter(|remark| remark.severity == Severity::Error);
        let fault = errors.find(|remark| !remark.message.contains(UNSUPPORTED));
        let is_parsed = fault.is_none();
        if let Some(fault) = fault.filter(|_| self.not_parsed.len() < NOT_PARSED_MAX) {
            let remark = fault.to_string();
            self.not_parsed.push(json!({ "line": line, "at": fault.span.start, "error": remark }));
        }
        self.searches += 1;
        self.parsed += u64::from(is_parsed);
        self.supported += u64::from(search.is_ok() && search.unsupported.is_empty());
        for feature in &search.unsupported {
            *self.unsupported.entry(feature.clone()).or_default() += 1;
        }
    }

    /// Counts the lookup tables, saved searches, macros and data models (except bundled ones) that a search names. If
    /// the search is executed, generated objects replace them.
    fn record_dependencies(&mut self, needs: &Dependencies, macros: BTreeSet<String>) {
        let named = |kind: &'static str, names: &BTreeSet<String>| {
            names.iter().map(|name| format!("{kind}:{name}")).collect::<Vec<_>>()
        };
        let mut all = named("lookup", &needs.lookups);
        let models = needs.data_models.iter().filter(|name| !quarry_engine::has_bundled_model(name));
        all.extend(models.map(|name| format!("datamodel:{name}")));
        all.extend(named("savedsearch", &needs.saved_searches));
        all.extend(macros.into_iter().map(|name| format!("macro:{name}")));
        for need in all {
            *self.needs.entry(need).or_default() += 1;
        }
    }
}

/// Names with the number of searches that contain them.
fn counts_json(counts: &BTreeMap<String, u64>) -> Value {
    let mut names: Vec<(&String, &u64)> = counts.iter().collect();
    names.sort_by_key(|(_, searches)| std::cmp::Reverse(**searches));
    names.into_iter().map(|(name, searches)| json!({ "feature": name, "searches": searches })).collect()
}

/// A macro source without macros.
struct NoMacros;

impl MacroSource for NoMacros {
    fn find(&self, _: &str, _: usize) -> Option<Macro> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn evaluate(&self, _: &str) -> Result<MacroValue, Fault> {
        Ok(MacroValue::Null)
    }
}
