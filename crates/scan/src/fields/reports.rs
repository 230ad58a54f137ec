//! `REPORT-` transforms: extraction by a pattern whose groups or `FORMAT` name the fields, or by delimiters
//! ([`super::cells`]).
//!
//! Values are copied, because transforms usually rewrite names and extract what automatic extraction cannot.

use std::borrow::Cow;
use std::sync::Arc;

use quarry_conf::{ExtractionMethod, ReportRule};
use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::pattern::{Captures, GroupBorders, Regex};
use quarry_event::Metadata;
use quarry_event::segment::is_breaker;
use quarry_pipeline::extract::{clean_key, clean_name};
use quarry_stdx::Fault;

use super::cells::{Delimiters, cell_value, split_cells};
use super::dependencies::digest_of_rule;
use super::{Extract, FieldExtractor, SourceRules};
use crate::event_fields::metadata_text;

/// Maximum number of matches of one transform in one event.
pub(crate) const MATCHES_MAX: usize = 1_000;
/// Prefix of the groups whose text is a field name; the prefix of the group with the value is `_VAL_`.
const KEY_GROUP: &str = "_KEY_";
const VALUE_GROUP: &str = "_VAL_";

/// A compiled transform.
#[derive(Debug)]
pub struct Report {
    /// Field that the transform reads.
    pub(crate) source: String,
    method: ReportMethod,
    /// `MV_ADD`.
    adds_values: bool,
    /// `CLEAN_KEYS`.
    cleans_names: bool,
    /// `KEEP_EMPTY_VALS`.
    keeps_empty: bool,
    /// Names of the fields that the transform produces; `None` if they come from the text.
    names: Option<Vec<String>>,
    /// The part of the transform that maps single groups of the first match to fields.
    extract: Option<Arc<Extract>>,
    /// Digest of the rule.
    digest: u128,
}

#[derive(Debug)]
enum ReportMethod {
    Pattern {
        regex: Regex,
        pairs: Vec<FieldTemplate>,
        repeats: bool,
    },
    /// Cells named by their position.
    Cells {
        delimiters: Delimiters,
        names: Vec<String>,
    },
    /// Cells that are pairs of name and value or, without `inner`, names and values in turn.
    Pairs {
        delimiters: Delimiters,
        inner: Option<Delimiters>,
    },
}

/// Composition of a field name and its value from literals and groups.
#[derive(Debug)]
pub(crate) struct FieldTemplate {
    pub name: Vec<NamePart>,
    pub value: Vec<NamePart>,
}

/// Requested part of a transform.
pub(super) struct RequestedReport {
    report: Arc<Report>,
    /// Number of leading cells to read: 0 if no field is requested, all if the cells have no names in the rule.
    cells: usize,
    /// For each pair of a pattern, whether it may produce a requested field.
    pairs: Vec<bool>,
}

/// Part of a name or a value.
#[derive(Debug)]
pub(crate) enum NamePart {
    /// A literal, not empty.
    Text(String),
    /// The text of a group.
    Group(usize),
}

/// Extraction of a transform's fields from an event text.
pub(crate) enum TextExtraction<'a> {
    /// Cells with these names and delimiters.
    Cells(&'a [String], &'a Delimiters),
    /// Cells with the first delimiters, each a pair of name and value with one of the second delimiters between them.
    Pairs(&'a Delimiters, &'a Delimiters),
    /// The first match of a pattern, or all matches.
    Pattern { regex: &'a Regex, pairs: &'a [FieldTemplate], repeats: bool },
}

impl FieldTemplate {
    /// The name, if it does not depend on the text.
    pub(crate) fn known_name(&self) -> Option<&str> {
        match self.name.as_slice() {
            [NamePart::Text(name)] => Some(name),
            _ => None,
        }
    }

    /// Groups that the name and the value refer to.
    pub(crate) fn groups(&self) -> impl Iterator<Item = usize> + '_ {
        self.name.iter().chain(&self.value).filter_map(|part| match part {
            NamePart::Group(group) => Some(*group),
            NamePart::Text(_) => None,
        })
    }
}

/// Whether a transform splits the event text at breakers only, so that values without quotes are whole tokens of the
/// text.
pub(crate) fn splits_at_breakers(rule: &ReportRule) -> bool {
    // A percent sign may begin a longer breaker.
    let is_single_breaker =
        |letter: char| letter != '%' && u8::try_from(letter).is_ok_and(|byte| byte.is_ascii() && is_breaker(byte));
    match &rule.method {
        ExtractionMethod::Delimited { outer, inner, .. } => {
            rule.source == "_raw"
                && outer.chars().chain(inner.iter().flat_map(|inner| inner.chars())).all(is_single_breaker)
        }
        ExtractionMethod::Pattern { .. } => false,
    }
}

/// Whether each value of a transform is the text of a group of a match in the event text.
pub(crate) fn copies_groups(rule: &ReportRule) -> bool {
    rule.source == "_raw" && matches!(rule.method, ExtractionMethod::Pattern { .. }) && copies_parts(rule)
}

/// Whether each value of a transform is a part of the text or field that the transform reads.
pub(crate) fn copies_parts(rule: &ReportRule) -> bool {
    let ExtractionMethod::Pattern { pairs, .. } = &rule.method else { return true };
    let is_group =
        |value: &str| value.strip_prefix('$').is_some_and(|number| number.parse::<u8>().is_ok_and(|number| number > 0));
    pairs.iter().all(|(_, value)| is_group(value))
}

/// Names of the fields that a transform produces; `None` if the names come from the text.
pub(crate) fn output_names(rule: &ReportRule) -> Option<Vec<String>> {
    let names: Vec<String> = match &rule.method {
        ExtractionMethod::Delimited { inner: None, names, .. } if !names.is_empty() => names.clone(),
        ExtractionMethod::Delimited { .. } => return None,
        ExtractionMethod::Pattern { pairs, .. } if !pairs.is_empty() => {
            let is_open = pairs.iter().any(|(name, _)| name.contains('$'));
            let names = pairs.iter().map(|(name, _)| name.clone());
            (!is_open).then(|| names.collect())?
        }
        ExtractionMethod::Pattern { pattern, .. } => {
            let groups = group_names(pattern);
            (!groups.iter().any(|name| name.starts_with(KEY_GROUP))).then_some(groups)?
        }
    };
    Some(names.into_iter().map(|name| clean_owned_name(rule.cleans_names, &name)).collect())
}

/// Group names of a pattern, found without compiling the pattern, because every search needs the names of every
/// transform. The result may contain extra names, which do no harm.
pub(crate) fn group_names(pattern: &str) -> Vec<String> {
    let starts = ["(?<", "(?P<", "(?'"].iter().flat_map(|open| pattern.split(open).skip(1));
    let names = starts.map(|rest| rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_'));
    names.map(String::from_iter).filter(|name: &String| !name.is_empty()).collect()
}

fn clean_owned_name(cleans: bool, name: &str) -> String {
    name_of_key(cleans, name).into_owned()
}

/// The field name made from a key in the text or in the settings: cleaned if `cleans` is set (`CLEAN_KEYS`). Empty if
/// cleaning leaves no character.
fn name_of_key(cleans: bool, name: &str) -> Cow<'_, str> {
    if cleans { clean_name(name) } else { Cow::Borrowed(name) }
}

impl Report {
    /// Compiles a transform.
    pub fn new(rule: &ReportRule) -> Result<Report, Fault> {
        let names = output_names(rule);
        let method = match &rule.method {
            ExtractionMethod::Pattern { pattern, pairs } => {
                let regex = Regex::new(pattern)?;
                let pairs = match pairs.is_empty() {
                    true => group_templates(rule, &regex),
                    false => pairs
                        .iter()
                        .map(|(name, value)| FieldTemplate {
                            name: parse_name(rule, name),
                            value: parse_references(value),
                        })
                        .collect(),
                };
                ReportMethod::Pattern { regex, pairs, repeats: names.is_none() || rule.adds_values }
            }
            ExtractionMethod::Delimited { outer, inner: None, names } if !names.is_empty() => ReportMethod::Cells {
                delimiters: Delimiters::new(outer),
                names: names.iter().map(|name| clean_owned_name(rule.cleans_names, name)).collect(),
            },
            ExtractionMethod::Delimited { outer, inner, .. } => {
                ReportMethod::Pairs { delimiters: Delimiters::new(outer), inner: inner.as_deref().map(Delimiters::new) }
            }
        };
        let extract = to_extract(rule, &method).map(Arc::new);
        Ok(Report {
            source: rule.source.clone(),
            method,
            extract,
            adds_values: rule.adds_values,
            cleans_names: rule.cleans_names,
            keeps_empty: rule.keeps_empty,
            names,
            digest: digest_of_rule(rule),
        })
    }

    /// Digest of the rule.
    pub(super) fn digest(&self) -> u128 {
        self.digest
    }

    /// The names of the fields that the transform produces; `None` if they come from the text.
    pub(super) fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// The field that the transform reads.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// `MV_ADD`: whether a repeated name appends a value.
    pub fn appends_values(&self) -> bool {
        self.adds_values
    }

    /// Passes each name and value found in `text` to `give`.
    pub fn run(&self, text: &str, give: &mut dyn FnMut(&str, &str)) {
        self.run_requested(usize::MAX, &[], text, give);
    }

    /// Like [`Report::run`], but reads only the first `count` cells, and skips the pairs marked `false`.
    fn run_requested(&self, count: usize, pairs_wanted: &[bool], text: &str, give: &mut dyn FnMut(&str, &str)) {
        match &self.method {
            ReportMethod::Pattern { regex, pairs, repeats } => {
                for_each_pair(regex, (pairs, pairs_wanted), *repeats, text, &mut |pair, name, value| {
                    match pair.known_name() {
                        // Names that do not depend on the text are already clean.
                        Some(name) if self.keeps(name, value) => give(name, value),
                        Some(_) => {}
                        None => self.give_clean(name, value, give),
                    }
                });
            }
            ReportMethod::Cells { delimiters, names } => {
                // These names are already clean.
                for (name, cell) in names.iter().take(count).zip(split_cells(text, delimiters)) {
                    let value = cell_value(cell);
                    if self.keeps(name, &value) {
                        give(name, &value);
                    }
                }
            }
            ReportMethod::Pairs { delimiters, inner } => {
                let mut tokens = split_cells(text, delimiters).filter(|token| !token.is_empty());
                let Some(inner) = inner else {
                    while let (Some(name), Some(value)) = (tokens.next(), tokens.next()) {
                        self.give_clean(&cell_value(name), &cell_value(value), give);
                    }
                    return;
                };
                for token in tokens {
                    if let Some(at) = token.find(|letter| inner.contains(letter)) {
                        let value = token[at..].trim_start_matches(|letter| inner.contains(letter));
                        self.give_clean(&cell_value(&token[..at]), &cell_value(value), give);
                    }
                }
            }
        }
    }

    fn keeps(&self, name: &str, value: &str) -> bool {
        !name.is_empty() && (self.keeps_empty || !value.is_empty())
    }

    /// Passes a value to `give` under the clean form of a name in the text.
    fn give_clean(&self, name: &str, value: &str, give: &mut dyn FnMut(&str, &str)) {
        let name = name_of_key(self.cleans_names, name);
        if self.keeps(&name, value) {
            give(&name, value);
        }
    }

    /// Whether the transform may produce this field.
    pub(crate) fn may_produce(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|own| own.iter().any(|known| known == name))
    }

    /// Whether the transform may produce one of these fields.
    pub(super) fn produces_any(&self, names: &[String]) -> bool {
        self.names.as_ref().is_none_or(|own| own.iter().any(|name| names.contains(name)))
    }

    /// The pattern of this transform; `None` unless each field in `names` and `more` that the transform produces comes
    /// from a single group.
    pub(super) fn single_extract(&self, names: &[String], more: &[String]) -> Option<&Arc<Extract>> {
        let (extract, own) = (self.extract.as_ref()?, self.names.as_ref()?);
        let is_wanted = |name: &&String| names.contains(name) || more.contains(name);
        own.iter().filter(is_wanted).all(|name| extract.group(name).is_some()).then_some(extract)
    }

    /// The borders of a field's values in the text, for each pair of a pattern that may produce the field.
    pub(super) fn borders_of(&self, field: &str) -> Vec<GroupBorders> {
        let ReportMethod::Pattern { regex, pairs, .. } = &self.method else { return Vec::new() };
        let of_field = pairs.iter().filter(|pair| pair.known_name().is_none_or(|name| name == field));
        let borders = of_field.map(|pair| match pair.value.as_slice() {
            [NamePart::Group(group)] => regex.borders_of(*group),
            _ => GroupBorders::Unknown,
        });
        borders.collect()
    }

    /// Method by which the transform extracts fields from the event text; `None` if it reads another field, appends
    /// values, or takes names and values from cells in turn.
    pub(crate) fn text_extraction(&self) -> Option<TextExtraction<'_>> {
        if self.source != "_raw" || self.adds_values {
            return None;
        }
        match &self.method {
            ReportMethod::Cells { delimiters, names } => Some(TextExtraction::Cells(names, delimiters)),
            ReportMethod::Pattern { regex, pairs, repeats } => {
                Some(TextExtraction::Pattern { regex, pairs, repeats: *repeats })
            }
            ReportMethod::Pairs { delimiters, inner } => Some(TextExtraction::Pairs(delimiters, inner.as_ref()?)),
        }
    }

    /// Whether a key in the text that ends with `tail` may be the field `name`.
    pub(crate) fn may_end_name(&self, tail: &str, name: &str) -> bool {
        let tail = tail.trim_end_matches([' ', '\t', '\r', '\n']);
        let end = if self.cleans_names { clean_key(tail) } else { Cow::Borrowed(tail) };
        // The quotes around a key and the characters that cannot begin a name are removed.
        tail.ends_with('"') || name.ends_with(&*end) || end.ends_with(name)
    }

    /// A field name as this transform spells it (`CLEAN_KEYS`).
    pub(crate) fn cleaned(&self, name: &str) -> String {
        clean_owned_name(self.cleans_names, name)
    }

    /// Whether an empty value produces a field (`KEEP_EMPTY_VALS`).
    pub(crate) fn keeps_empty(&self) -> bool {
        self.keeps_empty
    }
}

/// The pattern of a transform whose fields are groups of the first match in the event text. Fields that are not exactly
/// one group, and names that occur twice, are omitted.
fn to_extract(rule: &ReportRule, method: &ReportMethod) -> Option<Extract> {
    let ReportMethod::Pattern { regex, pairs, repeats: false } = method else { return None };
    if rule.source != "_raw" || rule.adds_values {
        return None;
    }
    let name_of = |pair: &FieldTemplate| pair.known_name().map(|name| clean_owned_name(rule.cleans_names, name));
    let all: Vec<Option<String>> = pairs.iter().map(name_of).collect();
    let is_once = |name: &Option<String>| all.iter().filter(|known| *known == name).count() == 1;
    let mut names: Vec<Option<String>> = vec![None; regex.group_names().len()];
    for (pair, name) in pairs.iter().zip(&all).filter(|(_, name)| is_once(name)) {
        if let [NamePart::Group(group)] = pair.value.as_slice()
            && let Some(place) = names.get_mut(*group).filter(|place| place.is_none())
        {
            place.clone_from(name);
        }
    }
    let is_any = names.iter().any(Option::is_some);
    let (regex, field, digest) = (regex.clone(), rule.source.clone(), digest_of_rule(rule));
    is_any.then(|| Extract { regex, field, names, skips_empty: !rule.keeps_empty, digest })
}

/// A pair for each named group, and for each `_KEY_n` with its `_VAL_n`.
fn group_templates(rule: &ReportRule, regex: &Regex) -> Vec<FieldTemplate> {
    let place = |wanted: &str| regex.group_names().iter().position(|name| name.as_deref() == Some(wanted));
    let named = regex.group_names().iter().enumerate().filter_map(|(at, name)| Some((at, name.as_deref()?)));
    let pairs = named.filter_map(|(at, name)| {
        if name.starts_with(VALUE_GROUP) {
            return None;
        }
        let Some(number) = name.strip_prefix(KEY_GROUP) else {
            return Some(FieldTemplate {
                name: vec![NamePart::Text(clean_owned_name(rule.cleans_names, name))],
                value: vec![NamePart::Group(at)],
            });
        };
        let value = place(&format!("{VALUE_GROUP}{number}"))?;
        Some(FieldTemplate { name: vec![NamePart::Group(at)], value: vec![NamePart::Group(value)] })
    });
    pairs.collect()
}

/// Splits a text at its `$1` references.
fn parse_references(text: &str) -> Vec<NamePart> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + 1 + digits;
        match rest[at + 1..end].parse() {
            Ok(group) => found.extend([NamePart::Text(rest[..at].to_owned()), NamePart::Group(group)]),
            Err(_) => found.push(NamePart::Text(rest[..end].to_owned())),
        }
        rest = &rest[end..];
    }
    found.push(NamePart::Text(rest.to_owned()));
    found.retain(|part| !matches!(part, NamePart::Text(text) if text.is_empty()));
    found
}

/// The composition of a field name. A name without references to groups is cleaned here, so that this is not repeated
/// for each match.
fn parse_name(rule: &ReportRule, name: &str) -> Vec<NamePart> {
    match parse_references(name).as_slice() {
        [NamePart::Text(text)] => vec![NamePart::Text(clean_owned_name(rule.cleans_names, text))],
        _ => parse_references(name),
    }
}

/// Passes name and value of the pairs of each match to `give`, except for pairs marked `false`.
fn for_each_pair(
    regex: &Regex,
    (pairs, wanted): (&[FieldTemplate], &[bool]),
    repeats: bool,
    text: &str,
    give: &mut dyn FnMut(&FieldTemplate, &str, &str),
) {
    let mut captures = regex.new_captures();
    let mut start = 0;
    for _ in 0..MATCHES_MAX {
        if start > text.len() || !regex.captures_at(text, start, &mut captures) {
            return;
        }
        let is_wanted = |at: usize| wanted.get(at).copied().unwrap_or(true);
        for (_, pair) in pairs.iter().enumerate().filter(|(at, _)| is_wanted(*at)) {
            let FieldTemplate { name, value } = pair;
            if let (Some(name), Some(value)) =
                (substitute_groups(name, &captures, text), substitute_groups(value, &captures, text))
            {
                give(pair, &name, &value);
            }
        }
        let Some((from, to)) = captures.get(0).filter(|_| repeats) else { return };
        // The same empty match would be found again.
        start = if to > from { to } else { to + text[to..].chars().next().map_or(1, char::len_utf8) };
    }
}

/// Substitutes the groups; `None` if a group did not take part in the match.
fn substitute_groups<'t>(parts: &'t [NamePart], captures: &Captures, text: &'t str) -> Option<Cow<'t, str>> {
    if let [part] = parts {
        return match part {
            NamePart::Text(text) => Some(Cow::Borrowed(text)),
            NamePart::Group(group) => captures.text(text, *group).map(Cow::Borrowed),
        };
    }
    let all: Option<String> = parts
        .iter()
        .map(|part| match part {
            NamePart::Text(text) => Some(text.as_str()),
            NamePart::Group(group) => captures.text(text, *group),
        })
        .collect();
    all.map(Cow::Owned)
}

impl FieldExtractor<'_> {
    fn needs_report(&self, report: &Report) -> bool {
        let is_wanted = |names: &Vec<String>| names.iter().any(|name| self.fields.contains_key(name));
        !self.names_only || report.names.as_ref().is_none_or(is_wanted)
    }

    /// Runs the transforms of a source.
    pub(super) fn run_reports(&mut self, event: &str, meta: &Metadata, rules: &SourceRules) {
        for report in &rules.reports {
            let requested = self.requested_report(report);
            let (count, pairs) = (requested.cells, requested.pairs.as_slice());
            if count == 0 {
                continue;
            }
            let source = report.source.as_str();
            let texts = match source {
                "_raw" => Vec::new(),
                name if METADATA_FIELDS.contains(&name) => Vec::new(),
                name => self.row_values(name, event),
            };
            // Without `MV_ADD` the first value of a field wins, even within one transform.
            let mut give = |name: &str, value: &str| self.add_copy(name, value, report.adds_values);
            match source {
                "_raw" => report.run_requested(count, pairs, event, &mut give),
                name if METADATA_FIELDS.contains(&name) => {
                    report.run_requested(count, pairs, metadata_text(meta, name), &mut give)
                }
                _ => texts.iter().for_each(|text| report.run_requested(count, pairs, text, &mut give)),
            }
        }
    }

    /// The part of a transform that the requested fields need. It is determined once, so all fields must have been
    /// requested before.
    fn requested_report(&mut self, report: &Arc<Report>) -> Arc<RequestedReport> {
        if let Some(known) = self.requested_reports.iter().find(|known| Arc::ptr_eq(&known.report, report)) {
            return Arc::clone(known);
        }
        let may_be = |name: Option<&str>| !self.names_only || name.is_none_or(|name| self.fields.contains_key(name));
        let cells = match &report.method {
            _ if !self.needs_report(report) => 0,
            ReportMethod::Cells { names, .. } => {
                names.iter().rposition(|name| may_be(Some(name))).map_or(0, |last| last + 1)
            }
            _ => usize::MAX,
        };
        let pairs = match &report.method {
            ReportMethod::Pattern { pairs, .. } => pairs.iter().map(|pair| may_be(pair.known_name())).collect(),
            _ => Vec::new(),
        };
        let requested = Arc::new(RequestedReport { report: Arc::clone(report), cells, pairs });
        self.requested_reports.push(Arc::clone(&requested));
        requested
    }

    /// The values of a field found so far in this row.
    fn row_values(&self, name: &str, event: &str) -> Vec<String> {
        let Some(at) = self.fields.get(name) else { return Vec::new() };
        let places = self.values[*at].1.iter().rev().take_while(|place| place.row == self.row);
        let texts = places.filter_map(|place| self.value_text(*place, event).map(str::to_owned));
        let mut texts: Vec<String> = texts.collect();
        texts.reverse();
        texts
    }
}
