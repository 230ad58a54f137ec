//! Search-time field extraction: fields of the event text as columns that point into the page.
//!
//! Fields come, in this order, from index-time fields, `EXTRACT` patterns, `REPORT` transforms ([`reports`]) and
//! automatic `key=value` or JSON extraction; an earlier source wins. A pattern that reads a field instead of the text
//! comes last, so that it can read all of these fields. If a transform reads a field that the pattern produces, the
//! pattern comes before the transforms. The order follows Splunk's documentation of search-time operations, except that
//! there all patterns come first.
//!
//! Values that patterns and automatic extraction find verbatim are views into the page's text; all other values are
//! copied: values with escapes or entities, cells of tables, values of transforms, and index-time values.

pub(crate) mod cells;
mod dependencies;
pub(crate) mod origins;
pub(crate) mod reports;
mod table_rules;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{ArrayRef, ListBuilder, StringViewBuilder};
use arrow::buffer::Buffer;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use quarry_conf::{KvMode, PropsResolver, ReportRule};
use quarry_eval::EngineError;
use quarry_eval::extract::multikv::rules::TableRule;
use quarry_eval::extract::multikv::table_cells;
use quarry_eval::field_names::{METADATA_FIELDS, wildcard_parts};
use quarry_eval::functions::xml::xml_leaves;
use quarry_eval::messages::Messages;
use quarry_eval::pattern::{Captures, Regex};
use quarry_eval::rows::{is_hidden, multi_item};
use quarry_event::{FieldNames, Metadata, Page};
use quarry_pipeline::extract::{auto_kv, auto_kv_escaped, clean_key, extracted_name, json_fields};
use quarry_spl::analyse::search_fields;
use quarry_spl::ast::SearchExpr;
use quarry_stdx::Fault;
use quarry_stdx::number::u32_of;

use self::dependencies::digest_of_rule;
use self::origins::FieldExtraction;
use self::reports::{Report, RequestedReport};
use self::table_rules::table_rule;
use super::derive::RuleFieldNames;
use super::event_fields::{is_intrinsic_field, metadata_text};
use crate::metadata_cache::MetadataCache;

/// Distinct fields per page; further fields are dropped, except those that the search names.
const PAGE_FIELDS_MAX: usize = 1_000;
/// Distinct fields per search (compare limits.conf `[kv] maxcols`); further fields are dropped, except those that the
/// search names: without them, its conditions and commands would have other results.
const SEARCH_FIELDS_MAX: usize = 1_000;

/// Names of the fields a search has returned; [`SEARCH_FIELDS_MAX`] keeps binary data from creating columns without
/// end.
#[derive(Debug, Default)]
pub(crate) struct ShownFields(Mutex<BTreeSet<String>>);

impl ShownFields {
    /// Admits fields that commands read.
    pub(crate) fn admit<'a>(&self, names: impl Iterator<Item = &'a String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(names.cloned());
    }

    /// Whether a field is admitted, either earlier or now because there is room for one more.
    fn try_admit(&self, name: &str) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.contains(name) {
            return true;
        }
        let has_room = names.len() < SEARCH_FIELDS_MAX;
        if has_room {
            names.insert(name.to_owned());
        }
        has_room
    }
}

/// The page's text as a buffer for string views.
pub(crate) fn text_buffer(events: &Page) -> Buffer {
    Buffer::from(events.raw.clone())
}

/// Fields that a search requests of each event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Projection {
    /// All fields, because whole events are shown.
    pub all: bool,
    /// Whether a command requests all fields with `*`, including default fields, which are computed on request.
    pub every: bool,
    /// Fields by name.
    pub names: Vec<String>,
    /// Fields by name pattern (`user_*`).
    pub patterns: Vec<String>,
    /// Fields among `names` that only match `patterns`; `None` if the fields that match are not known.
    pub listed: Option<BTreeSet<String>>,
    /// Patterns that only the condition tests; a subset of `patterns`.
    pub tested_patterns: Vec<String>,
    /// Fields that the condition tests by name and that `all` or `patterns` already include.
    pub tested_names: Vec<String>,
    /// `_raw`.
    pub raw: bool,
    /// `_indextime`.
    pub index_time: bool,
}

impl Projection {
    /// The projection for commands that need these fields.
    pub(crate) fn new(needs: &quarry_spl::analyse::FieldNeeds) -> Projection {
        let named = |name: &str| {
            needs.fields.contains(name) || needs.patterns.iter().any(|p| wildcard_parts(p, name).is_some())
        };
        Projection {
            all: needs.all,
            every: needs.every,
            names: needs.fields.iter().cloned().collect(),
            patterns: needs.patterns.clone(),
            listed: None,
            tested_patterns: Vec::new(),
            tested_names: Vec::new(),
            raw: needs.all || named("_raw"),
            index_time: needs.all || named("_indextime"),
        }
    }

    /// Adds the name patterns that a condition tests. Only the events show which fields the patterns match.
    pub(crate) fn test_patterns(&mut self, condition: &SearchExpr) {
        let tested = search_fields(condition).into_iter();
        self.tested_patterns = tested.filter(|name| name.contains('*') && !self.patterns.contains(name)).collect();
        self.patterns.extend(self.tested_patterns.iter().cloned());
    }

    /// Whether a field is requested only because it matches a pattern that the condition tests.
    pub(crate) fn is_only_tested(&self, field: &str) -> bool {
        let fits = |pattern: &&String| wildcard_parts(pattern, field).is_some();
        let is_internal = match field {
            "_time" => true,
            "_raw" => self.raw,
            "_indextime" => self.index_time,
            _ => false,
        };
        !is_internal
            && !self.all
            && !self.names.iter().any(|name| name == field)
            && self.tested_patterns.iter().any(|pattern| fits(&pattern))
            && !self.patterns.iter().filter(fits).any(|pattern| !self.tested_patterns.contains(pattern))
    }

    /// Whether a field is requested.
    pub(crate) fn includes(&self, field: &str) -> bool {
        self.all
            || self.names.iter().any(|name| name == field)
            || self.patterns.iter().any(|p| wildcard_parts(p, field).is_some())
    }

    /// Whether the request includes fields whose names are known only from the event texts.
    pub(crate) fn includes_unnamed(&self) -> bool {
        self.has_patterns() && self.listed.is_none()
    }

    /// Whether all fields are requested, or fields by name pattern.
    pub(crate) fn has_patterns(&self) -> bool {
        self.all || !self.patterns.is_empty()
    }

    /// Adds the fields of the events that match the patterns.
    pub(crate) fn list(&mut self, fields: BTreeSet<String>) {
        let listed: BTreeSet<String> = fields.into_iter().filter(|name| !self.names.contains(name)).collect();
        self.names.extend(listed.iter().cloned());
        self.listed = Some(listed);
    }

    /// Whether a requested field must be extracted from text.
    pub(crate) fn needs_text(&self) -> bool {
        self.all || !self.patterns.is_empty() || self.names.iter().any(|name| !is_intrinsic_field(name))
    }
}

/// Field extraction rules, resolved per metadata.
pub(crate) struct FieldRules {
    props: Arc<PropsResolver>,
    /// Whether nothing is extracted from text, so that only index-time fields exist.
    index_time_only: bool,
    /// See [`FieldRules::reads_indexed_text`].
    reads_indexed_text: bool,
    /// Fields that search-time rules may produce; computed on the first request.
    derived_names: OnceLock<Arc<RuleFieldNames>>,
    /// Sourcetypes that are renamed, and their new names.
    renamed: OnceLock<BTreeSet<String>>,
    /// See [`FieldRules::fields_read`].
    fields_read: OnceLock<FieldNames>,
    cache: Mutex<MetadataCache<Arc<SourceRules>>>,
    /// Compiled patterns by text and field, shared by sources.
    extracts: Mutex<HashMap<(String, String), Arc<Extract>, FixedState>>,
    /// Compiled transforms by stanza name, shared by sources.
    reports: Mutex<HashMap<String, Arc<Report>, FixedState>>,
    /// Origins of the values of a field, by field; at most as many as [`origins`] caches.
    extractions: Mutex<HashMap<String, Arc<FieldExtraction>, FixedState>>,
}

/// A compiled extraction pattern.
#[derive(Debug)]
pub(crate) struct Extract {
    /// The pattern.
    pub regex: Regex,
    /// The field that the pattern reads, usually `_raw`.
    pub field: String,
    /// For each group, the field that the group produces.
    pub names: Vec<Option<String>>,
    /// Whether an empty value produces no field.
    pub skips_empty: bool,
    /// Digest of the rule.
    digest: u128,
}

impl Extract {
    /// Creates an `EXTRACT-` extraction from a pattern whose groups are named after the fields.
    fn new(pattern: &str, field: &str) -> Result<Extract, Fault> {
        let regex = Regex::new(pattern)?;
        let names = regex.group_names().to_vec();
        let digest = digest_of_rule(&(pattern, field));
        Ok(Extract { regex, field: field.to_owned(), names, skips_empty: false, digest })
    }

    /// Whether the pattern produces one of these fields.
    fn produces_any(&self, names: &[String]) -> bool {
        self.names.iter().flatten().any(|group| names.contains(group))
    }

    /// Whether the pattern reads the event text rather than a field.
    fn reads_text(&self) -> bool {
        self.field == "_raw"
    }

    /// Whether all group names differ.
    fn has_distinct_groups(&self) -> bool {
        let groups: Vec<&String> = self.names.iter().flatten().collect();
        groups.iter().enumerate().all(|(at, name)| !groups[..at].contains(name))
    }

    /// Number of the group with this name.
    pub(super) fn group(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|group| group.as_deref() == Some(name))
    }
}

/// Automatic extraction of a source, and whether fields must be extracted from text instead of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AutoExtraction {
    /// `KV_MODE`.
    pub kv_mode: KvMode,
    /// Whether texts that start with a brace are parsed as JSON.
    pub auto_json: bool,
    /// Whether rules that produce requested fields interact, so that they run on text only: one reads or repeats the
    /// field of another, or appends values to it.
    pub by_pattern: bool,
}

/// Extraction class: how fields are extracted from the texts of a source.
#[derive(Clone)]
pub(crate) struct ExtractionClass {
    /// Automatic extraction.
    pub automatic: AutoExtraction,
    /// Patterns that read the event text and produce requested fields, in order; includes transforms that amount to a
    /// single pattern.
    pub text_patterns: Vec<Arc<Extract>>,
    /// Patterns that read another field and produce requested fields.
    pub field_patterns: Vec<Arc<Extract>>,
    /// The other `REPORT-` transforms that produce requested fields.
    pub reports: Vec<Arc<Report>>,
}

impl ExtractionClass {
    /// Whether both classes extract by the same rules in the same order.
    pub(crate) fn is_equivalent(&self, other: &ExtractionClass) -> bool {
        fn are_same<T>(a: &[Arc<T>], b: &[Arc<T>]) -> bool {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        }
        self.automatic == other.automatic
            && are_same(&self.text_patterns, &other.text_patterns)
            && are_same(&self.field_patterns, &other.field_patterns)
            && are_same(&self.reports, &other.reports)
    }
}

struct SourceRules {
    extracts: Vec<Arc<Extract>>,
    /// For each pattern in `extracts`: whether it both reads a field and produces a field that a transform reads.
    feeds_reports: Vec<bool>,
    reports: Vec<Arc<Report>>,
    kv_mode: KvMode,
    auto_json: bool,
    /// Table rules, if multikv.conf has any for the source.
    table: Option<TableRule>,
}

impl FieldRules {
    /// The rules in these settings.
    pub(crate) fn new(props: Arc<PropsResolver>) -> FieldRules {
        FieldRules::with_mode(props, false)
    }

    /// Rules that extract nothing from text, for `tstats`.
    pub(crate) fn index_time_only(props: Arc<PropsResolver>) -> FieldRules {
        FieldRules::with_mode(props, true)
    }

    fn with_mode(props: Arc<PropsResolver>, index_time_only: bool) -> FieldRules {
        let reads_indexed_text = props.indexes_json();
        FieldRules {
            props,
            index_time_only,
            reads_indexed_text,
            derived_names: OnceLock::new(),
            renamed: OnceLock::new(),
            fields_read: OnceLock::new(),
            cache: Mutex::default(),
            extracts: Mutex::default(),
            reports: Mutex::default(),
            extractions: Mutex::default(),
        }
    }

    /// Whether the rules were made by [`FieldRules::index_time_only`].
    pub(crate) fn is_index_time_only(&self) -> bool {
        self.index_time_only
    }

    /// Whether fields of the event text count as index-time fields for some source (`INDEXED_EXTRACTIONS=json`).
    pub(crate) fn reads_indexed_text(&self) -> bool {
        self.reads_indexed_text
    }

    /// Resolved settings of props.conf.
    pub(crate) fn props(&self) -> &Arc<PropsResolver> {
        &self.props
    }

    /// Fields that search-time rules may produce.
    pub(crate) fn derived_names(&self) -> &Arc<RuleFieldNames> {
        self.derived_names.get_or_init(|| Arc::new(RuleFieldNames::new(&self.props)))
    }

    /// The fields to which `EXTRACT` and `REPORT` rules of any source are applied instead of the text.
    pub(crate) fn fields_read(&self) -> FieldNames {
        *self.fields_read.get_or_init(|| {
            let reports = self.props.search_time_rules().iter().flat_map(|(_, rules)| &rules.reports);
            let sources = reports.map(|report| report.source.as_str());
            FieldNames::of(sources.chain(self.props.extract_rules().map(|rule| rule.source)))
        })
    }

    /// The extraction class for these fields: automatic extraction, and the rules that produce some of the fields, in
    /// order.
    pub(super) fn extraction_class(&self, meta: &Metadata, names: &[String], messages: &Messages) -> ExtractionClass {
        let rules = self.of(meta, messages);
        let names = &*rules.with_sources(names);
        let of_fields: Vec<Arc<Extract>> =
            (rules.extracts.iter()).filter(|rule| !rule.reads_text() && rule.produces_any(names)).cloned().collect();
        let is_read = |rule: &Extract| of_fields.iter().any(|other| rule.group(&other.field).is_some());
        let mut of_text: Vec<Arc<Extract>> = (rules.extracts.iter())
            .filter(|rule| rule.reads_text() && (rule.produces_any(names) || is_read(rule)))
            .cloned()
            .collect();
        // A field produced by two patterns, or by a chain of patterns, is extracted from text only.
        let is_simple = |(at, rule): (usize, &Arc<Extract>)| {
            let mut groups = rule.names.iter().flatten();
            let is_made_twice = |group: &String| {
                of_fields.iter().enumerate().any(|(other, rule)| other != at && rule.group(group).is_some())
            };
            !is_intrinsic_field(&rule.field) && !is_read(rule) && !groups.any(is_made_twice)
        };
        let sources: Vec<String> = of_fields.iter().map(|rule| rule.field.clone()).collect();
        let mut reports: Vec<Arc<Report>> = Vec::new();
        for report in &rules.reports {
            match report.single_extract(names, &sources) {
                _ if !report.produces_any(names) && !report.produces_any(&sources) => {}
                // The first pattern that finds a field wins.
                Some(extract) if reports.is_empty() => of_text.push(Arc::clone(extract)),
                _ => reports.push(Arc::clone(report)),
            }
        }
        let are_distinct = of_text.iter().chain(&of_fields).all(|rule| rule.has_distinct_groups());
        // A transform that appends values changes what other rules find.
        let are_independent = reports.iter().all(|report| !report.appends_values());
        let are_simple = of_fields.iter().enumerate().all(is_simple) && !of_fields.iter().any(|rule| rules.feeds(rule));
        let by_pattern = !are_distinct || !are_independent || !are_simple;
        let automatic = AutoExtraction { kv_mode: rules.kv_mode, auto_json: rules.auto_json, by_pattern };
        ExtractionClass { automatic, text_patterns: of_text, field_patterns: of_fields, reports }
    }

    /// A compiled transform, shared by all sources that use it.
    fn report(&self, rule: &ReportRule) -> Result<Arc<Report>, Fault> {
        let mut known = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(report) = known.get(&rule.name) {
            return Ok(Arc::clone(report));
        }
        let report = Arc::new(Report::new(rule)?);
        known.insert(rule.name.clone(), Arc::clone(&report));
        Ok(report)
    }

    /// A compiled pattern, shared by all sources that use it.
    fn extract(&self, pattern: &str, field: &str) -> Result<Arc<Extract>, Fault> {
        let mut known = self.extracts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (pattern.to_owned(), field.to_owned());
        if let Some(extract) = known.get(&key) {
            return Ok(Arc::clone(extract));
        }
        let extract = Arc::new(Extract::new(pattern, field)?);
        known.insert(key, Arc::clone(&extract));
        Ok(extract)
    }

    fn of(&self, meta: &Metadata, messages: &Messages) -> Arc<SourceRules> {
        let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = known.get(meta) {
            return Arc::clone(rules);
        }
        let settings = self.props.resolve(&meta.source, &meta.host, &meta.sourcetype);
        if self.index_time_only {
            let rules = Arc::new(SourceRules {
                extracts: Vec::new(),
                feeds_reports: Vec::new(),
                reports: Vec::new(),
                kv_mode: if settings.indexed_json { KvMode::Json } else { KvMode::None },
                auto_json: false,
                table: None,
            });
            known.insert(meta.clone(), Arc::clone(&rules));
            return rules;
        }
        let extracts = settings.extracts.iter().filter_map(|rule| match self.extract(&rule.pattern, &rule.field) {
            Ok(extract) => Some(extract),
            Err(error) => {
                messages
                    .push(format!("EXTRACT-{} of {}: {error}; the rule is skipped", rule.class, settings.sourcetype));
                None
            }
        });
        let reports = settings.search_time.reports.iter().filter_map(|rule| match self.report(rule) {
            Ok(report) => Some(report),
            Err(error) => {
                messages.push(format!(
                    "transform {} of {}: {error}; the transform is skipped",
                    rule.name, settings.sourcetype
                ));
                None
            }
        });
        let mut rules = SourceRules {
            extracts: extracts.collect(),
            feeds_reports: Vec::new(),
            reports: reports.collect(),
            kv_mode: settings.kv_mode,
            auto_json: settings.auto_kv_json,
            table: settings.search_time.table.as_deref().and_then(|table| table_rule(table, messages)),
        };
        rules.feeds_reports = rules.find_feeds();
        let rules = Arc::new(rules);
        known.insert(meta.clone(), Arc::clone(&rules));
        rules
    }
}

/// Extracts the requested fields of the selected rows as columns.
pub(crate) fn extract_fields(
    events: &Page,
    selected: &[u32],
    projection: &Projection,
    rules: &FieldRules,
    shown: &ShownFields,
    messages: &Messages,
) -> Result<Vec<(String, ArrayRef)>, EngineError> {
    let rules: Vec<Option<Arc<SourceRules>>> = {
        let mut used = vec![false; events.metas.len()];
        selected.iter().for_each(|row| used[events.meta[*row as usize] as usize] = true);
        let metas = events.metas.iter().zip(used);
        metas.map(|(meta, used)| used.then(|| rules.of(meta, messages))).collect()
    };
    let mut found = FieldExtractor::new(projection, events);
    let mut last: Option<&Arc<SourceRules>> = None;
    for rules in rules.iter().flatten() {
        // Most sources of a page have the same rules.
        if !last.is_some_and(|last| last.has_same_rules(rules)) {
            found.add_source_fields(rules);
        }
        last = Some(rules);
    }
    let mut patterns: Vec<Vec<RequestedPattern>> = (rules.iter())
        .map(|rules| {
            rules.iter().flat_map(|rules| &rules.extracts).map(|extract| found.requested_pattern(extract)).collect()
        })
        .collect();
    let mut indexed = events.fields.iter().peekable();
    debug_assert!(selected.is_sorted(), "index-time fields are read in the order of the rows");
    for (place, row) in (0..).zip(selected) {
        found.start_row(place);
        while let Some(field) = indexed.next_if(|field| field.row <= *row) {
            if field.row == *row {
                found.add_index_time(field.name, field.value);
            }
        }
        let meta = events.meta[*row as usize] as usize;
        let Some(rules) = &rules[meta] else { continue };
        // The pipeline and the bucket's checks guarantee valid UTF-8.
        let Ok(text) = std::str::from_utf8(events.raw(*row as usize)) else { continue };
        found.extract_row(text, &events.metas[meta], rules, &mut patterns[meta]);
    }
    if !found.names_only {
        // All new fields of a page are admitted together, so the lock is taken once per field and page.
        let mut refused = false;
        let FieldExtractor { values, named, .. } = &mut found;
        values.retain(|(name, places)| {
            let is_admitted = !places.is_empty() && (shown.try_admit(name) || named.contains(name.as_str()));
            refused |= !is_admitted && !places.is_empty();
            is_admitted
        });
        found.overflow |= refused;
    }
    if found.overflow {
        messages.push(format!("events have more than {SEARCH_FIELDS_MAX} different fields; the others are not shown"));
    }
    found.into_columns(selected.len())
}

/// An extracted value: its row, and its position in the text of the page or, if copied, among the copies.
#[derive(Clone, Copy)]
struct ExtractedValue {
    row: u32,
    start: u32,
    len: u32,
    copied: bool,
    /// Whether this is an index-time value, which hides values of the same field extracted from the text.
    is_index_time: bool,
}

struct FieldExtractor<'a> {
    projection: &'a Projection,
    /// Whether only named fields are requested, so that other names can be dropped without a lookup.
    names_only: bool,
    /// Fields that the search names.
    named: HashSet<&'a str, FixedState>,
    fields: HashMap<String, usize, FixedState>,
    values: Vec<(String, Vec<ExtractedValue>)>,
    text_start: usize,
    buffer: Buffer,
    copies: Vec<u8>,
    row: u32,
    overflow: bool,
    /// The requested parts of the transforms met so far, computed when a transform is first applied.
    requested_reports: Vec<Arc<RequestedReport>>,
}

/// An `EXTRACT-` pattern and its requested groups.
struct RequestedPattern {
    captures: Captures,
    /// The requested groups with the indices of their fields; `None` if all groups are requested.
    groups: Option<Vec<(usize, usize)>>,
    /// The row to whose field the pattern was last applied, if the pattern reads a field.
    applied_to: Option<u32>,
}

impl RequestedPattern {
    fn is_requested(&self) -> bool {
        self.groups.as_ref().is_none_or(|groups| !groups.is_empty())
    }
}

impl<'a> FieldExtractor<'a> {
    fn new(projection: &'a Projection, events: &Page) -> FieldExtractor<'a> {
        let mut found = FieldExtractor {
            projection,
            names_only: !projection.all && projection.patterns.is_empty(),
            named: projection.names.iter().chain(&projection.tested_names).map(String::as_str).collect(),
            fields: HashMap::default(),
            values: Vec::new(),
            text_start: events.raw.as_ptr() as usize,
            buffer: text_buffer(events),
            copies: Vec::new(),
            row: 0,
            overflow: false,
            requested_reports: Vec::new(),
        };
        for name in projection.names.iter().filter(|name| !is_intrinsic_field(name)) {
            found.fields.insert(name.clone(), found.values.len());
            found.values.push((name.clone(), Vec::new()));
        }
        found
    }

    /// Adds the fields from which requested fields are extracted, directly or through other fields.
    fn add_source_fields(&mut self, rules: &SourceRules) {
        if !rules.reads_fields() {
            return;
        }
        let sources: Vec<String> = match self.names_only {
            true => self.values.iter().flat_map(|(name, _)| rules.fields_behind(name)).collect(),
            false => rules.sources().map(str::to_owned).collect(),
        };
        for source in sources {
            if !self.fields.contains_key(&source) && !is_intrinsic_field(&source) {
                self.fields.insert(source.clone(), self.values.len());
                self.values.push((source, Vec::new()));
            }
        }
    }

    /// The requested groups of a pattern. Call only when all requested fields are known.
    fn requested_pattern(&self, extract: &Extract) -> RequestedPattern {
        let named = extract.regex.group_names().iter().enumerate();
        let requested =
            named.filter_map(|(group, name)| Some((group, *self.fields.get(name.as_deref()?)?))).collect::<Vec<_>>();
        let groups = self.names_only.then_some(requested);
        RequestedPattern { captures: extract.regex.new_captures(), groups, applied_to: None }
    }

    fn start_row(&mut self, row: u32) {
        self.row = row;
    }

    fn extract_row(&mut self, text: &str, meta: &Metadata, rules: &SourceRules, patterns: &mut [RequestedPattern]) {
        for ((extract, is_early), pattern) in rules.extracts.iter().zip(&rules.feeds_reports).zip(patterns.iter_mut()) {
            if !pattern.is_requested() {
                continue;
            }
            let regex = &extract.regex;
            if !extract.reads_text() {
                if *is_early {
                    self.extract_from_field(text, meta, extract, pattern);
                }
            } else if regex.captures_into(text, &mut pattern.captures) {
                self.add_groups(regex, pattern, text, false);
            }
        }
        if !rules.reports.is_empty() {
            self.run_reports(text, meta, rules);
        }
        let is_json = || text.trim_start().starts_with('{');
        match rules.kv_mode {
            KvMode::None => {}
            // Only elements without child elements become fields; values are copied because entities are resolved.
            KvMode::Xml => xml_leaves(text, &mut |name, value| {
                if !value.is_empty() {
                    self.add_copy(&clean_key(name), value, true);
                }
            }),
            KvMode::Json => self.extract_json(text),
            KvMode::AutoEscaped => auto_kv_escaped(text, &mut |name, value| match value {
                Cow::Borrowed(value) => self.add(extracted_name(&clean_key(name)), value, false),
                Cow::Owned(value) => self.add_copy(extracted_name(&clean_key(name)), &value, false),
            }),
            KvMode::Multi => {
                table_cells(text, rules.table.as_ref(), &mut |name, value| self.add_copy(name, value, true))
            }
            KvMode::Auto => {
                if rules.auto_json && is_json() {
                    self.extract_json(text);
                } else {
                    auto_kv(text, &mut |name, value| self.add(extracted_name(&clean_key(name)), value, false));
                }
            }
        }
        // These patterns may read fields that transforms and automatic extraction produce, so they come last.
        for (extract, pattern) in rules.extracts.iter().zip(patterns) {
            if !extract.reads_text() && pattern.is_requested() && pattern.applied_to != Some(self.row) {
                self.extract_from_field(text, meta, extract, pattern);
            }
        }
    }

    /// Adds the named groups of a match. With `lies_elsewhere`, `text` is not part of the page, so values are copied.
    fn add_groups(&mut self, regex: &Regex, pattern: &RequestedPattern, text: &str, lies_elsewhere: bool) {
        let captures = &pattern.captures;
        if let Some(groups) = &pattern.groups {
            for (group, at) in groups {
                if let Some(value) = captures.text(text, *group) {
                    let place = if lies_elsewhere { self.copy_value(value) } else { self.page_value(value) };
                    self.push_value(*at, place, false);
                }
            }
            return;
        }
        for (group, name) in regex.group_names().iter().enumerate() {
            if let (Some(name), Some(value)) = (name, captures.text(text, group)) {
                match lies_elsewhere {
                    true => self.add_copy(name, value, false),
                    false => self.add(name, value, false),
                }
            }
        }
    }

    /// Applies a pattern that reads a field to the value of the field found so far, or to the last one if there are
    /// several.
    fn extract_from_field(&mut self, event: &str, meta: &Metadata, extract: &Extract, pattern: &mut RequestedPattern) {
        let (regex, field) = (&extract.regex, extract.field.as_str());
        if METADATA_FIELDS.contains(&field) {
            pattern.applied_to = Some(self.row);
            let text = metadata_text(meta, field);
            if regex.captures_into(text, &mut pattern.captures) {
                self.add_groups(regex, pattern, text, true);
            }
            return;
        }
        let last = self.fields.get(field).and_then(|at| self.values[*at].1.last().copied());
        let Some(place) = last.filter(|place| place.row == self.row) else { return };
        pattern.applied_to = Some(self.row);
        if place.copied {
            // Copied, because `self.copies` may reallocate.
            let Some(text) = self.value_text(place, event).map(str::to_owned) else { return };
            if regex.captures_into(&text, &mut pattern.captures) {
                self.add_groups(regex, pattern, &text, true);
            }
        } else if let Some(text) = self.page_value_text(place, event)
            && regex.captures_into(text, &mut pattern.captures)
        {
            self.add_groups(regex, pattern, text, false);
        }
    }

    /// The text of a value of this row.
    fn value_text<'t>(&'t self, place: ExtractedValue, event: &'t str) -> Option<&'t str> {
        if !place.copied {
            return self.page_value_text(place, event);
        }
        let bytes = self.copies.get(place.start as usize..(place.start + place.len) as usize)?;
        std::str::from_utf8(bytes).ok()
    }

    /// The text of a value of this row if it points into the event.
    fn page_value_text<'t>(&self, place: ExtractedValue, event: &'t str) -> Option<&'t str> {
        let start = place.start as usize + self.text_start - event.as_ptr() as usize;
        event.get(start..start + place.len as usize)
    }

    fn extract_json(&mut self, text: &str) {
        json_fields(text, &mut |path, value| match value {
            Cow::Borrowed(value) => self.add(extracted_name(path), value, true),
            Cow::Owned(value) => self.add_copy(extracted_name(path), &value, true),
        });
    }

    /// Index of a field; `None` if the field is not extracted, because it is not requested, does not come from the text
    /// (such as `_time`), has a name reserved for columns of the engine, or exceeds [`PAGE_FIELDS_MAX`].
    fn field_index(&mut self, name: &str) -> Option<usize> {
        if self.names_only && self.values.len() <= LINEAR_SEARCH_NAMES_MAX {
            return self.values.iter().position(|(known, _)| known == name);
        }
        if let Some(at) = self.fields.get(name) {
            return Some(*at);
        }
        if self.names_only || is_intrinsic_field(name) || is_hidden(name) || !self.projection.includes(name) {
            return None;
        }
        if self.values.len() >= PAGE_FIELDS_MAX && !self.named.contains(name) {
            self.overflow = true;
            return None;
        }
        self.fields.insert(name.to_owned(), self.values.len());
        self.values.push((name.to_owned(), Vec::new()));
        Some(self.values.len() - 1)
    }

    /// Adds a value that points into the page. With `multiple`, the value is appended to earlier values of the row;
    /// otherwise the first value stays.
    #[inline]
    fn add(&mut self, name: &str, value: &str, multiple: bool) {
        let Some(at) = self.field_index(name) else { return };
        let place = self.page_value(value);
        self.push_value(at, place, multiple);
    }

    fn page_value(&self, value: &str) -> ExtractedValue {
        ExtractedValue {
            row: self.row,
            start: u32_of(value.as_ptr() as usize - self.text_start),
            len: u32_of(value.len()),
            copied: false,
            is_index_time: false,
        }
    }

    fn add_copy(&mut self, name: &str, value: &str, multiple: bool) {
        let Some(at) = self.field_index(name) else { return };
        let place = self.copy_value(value);
        self.push_value(at, place, multiple);
    }

    /// Adds an index-time value.
    fn add_index_time(&mut self, name: &str, value: &str) {
        let Some(at) = self.field_index(name) else { return };
        let place = ExtractedValue { is_index_time: true, ..self.copy_value(value) };
        self.values[at].1.push(place);
    }

    fn copy_value(&mut self, value: &str) -> ExtractedValue {
        let start = u32_of(self.copies.len());
        self.copies.extend_from_slice(value.as_bytes());
        ExtractedValue { row: self.row, start, len: u32_of(value.len()), copied: true, is_index_time: false }
    }

    #[inline]
    fn push_value(&mut self, at: usize, place: ExtractedValue, multiple: bool) {
        let places = &mut self.values[at].1;
        let last = places.last().filter(|last| last.row == place.row);
        if last.is_none_or(|last| multiple && !last.is_index_time) {
            places.push(place);
        }
    }

    fn into_columns(self, rows: usize) -> Result<Vec<(String, ArrayRef)>, EngineError> {
        let copies = Buffer::from(self.copies);
        let projection = self.projection;
        let columns = self.values.into_iter().filter(|(name, places)| !places.is_empty() && projection.includes(name));
        columns.map(|(name, places)| Ok((name, build_column(&places, rows, &self.buffer, &copies)?))).collect()
    }
}

/// Number of names up to which a linear search beats hashing.
const LINEAR_SEARCH_NAMES_MAX: usize = 6;

fn build_column(
    places: &[ExtractedValue],
    rows: usize,
    text: &Buffer,
    copies: &Buffer,
) -> Result<ArrayRef, EngineError> {
    let is_multi = places.windows(2).any(|pair| pair[0].row == pair[1].row);
    let mut builder = StringViewBuilder::with_capacity(rows.max(places.len()));
    let blocks = (builder.append_block(text.clone()), builder.append_block(copies.clone()));
    let append = |builder: &mut StringViewBuilder, place: &ExtractedValue| {
        builder.try_append_view(if place.copied { blocks.1 } else { blocks.0 }, place.start, place.len)
    };
    let mut places = places.iter().peekable();
    if !is_multi {
        for row in 0..u32_of(rows) {
            match places.next_if(|place| place.row == row) {
                Some(place) => append(&mut builder, place)?,
                None => builder.append_null(),
            }
        }
        assert!(places.next().is_none(), "values are in the order of the rows");
        return Ok(Arc::new(builder.finish()));
    }
    let mut lists = ListBuilder::with_capacity(builder, rows).with_field(multi_item());
    for row in 0..u32_of(rows) {
        let mut any = false;
        while let Some(place) = places.next_if(|place| place.row == row) {
            append(lists.values(), place)?;
            any = true;
        }
        lists.append(any);
    }
    assert!(places.next().is_none(), "values are in the order of the rows");
    Ok(Arc::new(lists.finish()))
}

#[cfg(test)]
mod tests;
