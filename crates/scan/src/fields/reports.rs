//! Cutting fields as `REPORT-` transforms say: by a pattern whose matches are named by groups or by `FORMAT`, or by
//! delimiters.
//!
//! Values are copied: transforms are for what the automatic extraction does not read, and mostly rewrite names.

use quarry_conf::{ReportCut, ReportRule};
use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::pattern::{Captures, Regex};
use quarry_event::Metadata;
use quarry_pipeline::extract::clean_key;

use super::{CutFields, SourceRules};
use crate::event_fields::{is_given, metadata_text};

/// Matches of one transform in one event; more are not looked for.
const MATCHES_MAX: usize = 1_000;
/// What the name of a group starts with whose text is a field's name, and that of its value.
const KEY_GROUP: &str = "_KEY_";
const VALUE_GROUP: &str = "_VAL_";

/// A transform ready to cut.
#[derive(Debug)]
pub struct Report {
    /// Field it reads.
    source: String,
    cut: Cut,
    adds_values: bool,
    cleans_names: bool,
    keeps_empty: bool,
    /// Names it makes; `None` where the text says.
    names: Option<Vec<String>>,
}

#[derive(Debug)]
enum Cut {
    Pattern { regex: Regex, pairs: Vec<Pair>, repeats: bool },
    Delimited { outer: String, inner: Option<String>, names: Vec<String> },
}

/// Where a name and its value come from.
#[derive(Debug)]
struct Pair {
    name: Vec<NamePart>,
    value: Vec<NamePart>,
}

#[derive(Debug)]
enum NamePart {
    Text(String),
    Group(usize),
}

/// The names of the fields that a transform makes; `None` where only the text says.
pub(crate) fn names_of(rule: &ReportRule) -> Option<Vec<String>> {
    let names: Vec<String> = match &rule.cut {
        ReportCut::Delimited { inner: None, names, .. } if !names.is_empty() => names.clone(),
        ReportCut::Delimited { .. } => return None,
        ReportCut::Pattern { pairs, .. } if !pairs.is_empty() => {
            let is_open = pairs.iter().any(|(name, _)| name.contains('$'));
            let names = pairs.iter().map(|(name, _)| name.clone());
            (!is_open).then(|| names.collect())?
        }
        ReportCut::Pattern { pattern, .. } => {
            let groups = group_names(pattern);
            (!groups.iter().any(|name| name.starts_with(KEY_GROUP))).then_some(groups)?
        }
    };
    Some(names.into_iter().map(|name| cleaned(rule.cleans_names, &name)).collect())
}

/// Names of the groups of a pattern, without compiling it: every search asks this of every transform. One too many does
/// no harm.
fn group_names(pattern: &str) -> Vec<String> {
    let starts = ["(?<", "(?P<", "(?'"].iter().flat_map(|open| pattern.split(open).skip(1));
    let names = starts.map(|rest| rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_'));
    names.map(String::from_iter).filter(|name: &String| !name.is_empty()).collect()
}

fn cleaned(cleans: bool, name: &str) -> String {
    if cleans { clean_key(name).into() } else { name.to_owned() }
}

impl Report {
    /// Compiles a transform.
    pub fn new(rule: &ReportRule) -> Result<Report, String> {
        let names = names_of(rule);
        let cut = match &rule.cut {
            ReportCut::Pattern { pattern, pairs } => {
                let regex = Regex::new(pattern)?;
                let pairs = match pairs.is_empty() {
                    true => pairs_of_groups(&regex),
                    false => {
                        pairs.iter().map(|(name, value)| Pair { name: parts(name), value: parts(value) }).collect()
                    }
                };
                Cut::Pattern { regex, pairs, repeats: names.is_none() || rule.adds_values }
            }
            ReportCut::Delimited { outer, inner, names } => {
                Cut::Delimited { outer: outer.clone(), inner: inner.clone(), names: names.clone() }
            }
        };
        Ok(Report {
            source: rule.source.clone(),
            cut,
            adds_values: rule.adds_values,
            cleans_names: rule.cleans_names,
            keeps_empty: rule.keeps_empty,
            names,
        })
    }

    /// Field whose text is read.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a name that comes again adds a value.
    pub fn adds_values(&self) -> bool {
        self.adds_values
    }

    /// Gives each name and value found in `text`.
    pub fn run(&self, text: &str, give: &mut dyn FnMut(&str, &str)) {
        let mut give = |name: &str, value: &str| {
            if !name.is_empty() && (self.keeps_empty || !value.is_empty()) {
                give(&cleaned(self.cleans_names, name), value);
            }
        };
        match &self.cut {
            Cut::Pattern { regex, pairs, repeats } => run_pattern(regex, pairs, *repeats, text, &mut give),
            Cut::Delimited { outer, inner: Some(inner), .. } => {
                for token in tokens(text, outer, true) {
                    if let Some(at) = token.find(|letter| inner.contains(letter)) {
                        let value = token[at..].trim_start_matches(|letter| inner.contains(letter));
                        give(unquoted(&token[..at]), unquoted(value));
                    }
                }
            }
            Cut::Delimited { outer, inner: None, names } if !names.is_empty() => {
                names.iter().zip(tokens(text, outer, false)).for_each(|(name, value)| give(name, unquoted(value)));
            }
            Cut::Delimited { outer, inner: None, .. } => {
                for pair in tokens(text, outer, true).chunks_exact(2) {
                    give(unquoted(pair[0]), unquoted(pair[1]));
                }
            }
        }
    }
}

/// A pair for each named group, and for each `_KEY_n` with its `_VAL_n`.
fn pairs_of_groups(regex: &Regex) -> Vec<Pair> {
    let place = |wanted: &str| regex.group_names().iter().position(|name| name.as_deref() == Some(wanted));
    let named = regex.group_names().iter().enumerate().filter_map(|(at, name)| Some((at, name.as_deref()?)));
    let pairs = named.filter_map(|(at, name)| {
        if name.starts_with(VALUE_GROUP) {
            return None;
        }
        let Some(number) = name.strip_prefix(KEY_GROUP) else {
            return Some(Pair { name: vec![NamePart::Text(name.to_owned())], value: vec![NamePart::Group(at)] });
        };
        let value = place(&format!("{VALUE_GROUP}{number}"))?;
        Some(Pair { name: vec![NamePart::Group(at)], value: vec![NamePart::Group(value)] })
    });
    pairs.collect()
}

/// The text with its `$1` taken apart.
fn parts(text: &str) -> Vec<NamePart> {
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
    found
}

fn run_pattern(regex: &Regex, pairs: &[Pair], repeats: bool, text: &str, give: &mut dyn FnMut(&str, &str)) {
    let mut captures = regex.new_captures();
    let mut start = 0;
    for _ in 0..MATCHES_MAX {
        if start > text.len() || !regex.captures_at(text, start, &mut captures) {
            return;
        }
        for Pair { name, value } in pairs {
            if let (Some(name), Some(value)) = (filled(name, &captures, text), filled(value, &captures, text)) {
                give(&name, &value);
            }
        }
        let Some((from, to)) = captures.get(0).filter(|_| repeats) else { return };
        // A match without text would be found again.
        start = if to > from { to } else { to + text[to..].chars().next().map_or(1, char::len_utf8) };
    }
}

/// The parts put together; `None` when a group took no part.
fn filled(parts: &[NamePart], captures: &Captures, text: &str) -> Option<String> {
    parts
        .iter()
        .map(|part| match part {
            NamePart::Text(text) => Some(text.as_str()),
            NamePart::Group(group) => captures.text(text, *group),
        })
        .collect()
}

/// What stands between delimiters that are not in quotes.
fn tokens<'t>(text: &'t str, delimiters: &str, collapse: bool) -> Vec<&'t str> {
    let (mut found, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' if !delimiters.contains('"') => quoted = !quoted,
            letter if !quoted && delimiters.contains(letter) => {
                found.push(&text[start..at]);
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    if collapse {
        found.retain(|token| !token.is_empty());
    }
    found
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

impl CutFields<'_> {
    /// Also collects the fields that transforms read.
    pub(super) fn collect_fields_reported(&mut self, rules: &SourceRules) {
        for report in &rules.reports {
            let source = &report.source;
            if self.wants_report(report) && !self.fields.contains_key(source) && !is_given(source) {
                self.fields.insert(source.clone(), self.values.len());
                self.values.push((source.clone(), Vec::new()));
            }
        }
    }

    fn wants_report(&self, report: &Report) -> bool {
        let is_wanted = |names: &Vec<String>| names.iter().any(|name| self.fields.contains_key(name));
        !self.names_only || report.names.as_ref().is_none_or(is_wanted)
    }

    /// Adds what the transforms of a source find.
    pub(super) fn cut_reports(&mut self, event: &str, meta: &Metadata, rules: &SourceRules) {
        for report in &rules.reports {
            if !self.wants_report(report) {
                continue;
            }
            let mut give = Vec::new();
            let mut note = |name: &str, value: &str| give.push((name.to_owned(), value.to_owned()));
            match report.source.as_str() {
                "_raw" => report.run(event, &mut note),
                name if METADATA_FIELDS.contains(&name) => report.run(metadata_text(meta, name), &mut note),
                name => self.texts_of_row(name, event).iter().for_each(|text| report.run(text, &mut note)),
            }
            // Without MV_ADD the first value of a field stays, also among the transform's own.
            give.iter().for_each(|(name, value)| self.add_copy(name, value, report.adds_values));
        }
    }

    /// The values found so far of a field of this row.
    fn texts_of_row(&self, name: &str, event: &str) -> Vec<String> {
        let Some(at) = self.fields.get(name) else { return Vec::new() };
        let places = self.values[*at].1.iter().rev().take_while(|place| place.row == self.row);
        let texts = places.filter_map(|place| {
            if place.copied {
                let bytes = self.copies.get(place.start as usize..(place.start + place.len) as usize)?;
                return std::str::from_utf8(bytes).ok().map(str::to_owned);
            }
            let start = place.start as usize + self.text_start - event.as_ptr() as usize;
            event.get(start..start + place.len as usize).map(str::to_owned)
        });
        let mut texts: Vec<String> = texts.collect();
        texts.reverse();
        texts
    }
}
