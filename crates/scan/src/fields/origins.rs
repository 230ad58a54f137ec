//! Origins of field values: which `EXTRACT` and `REPORT` rules copy the values of a field from the event text, and
//! whether the values begin and end at token bounds. This determines the tokens by which a search looks up a value.
//!
//! Not here: rules that compute values (`crate::derive`); the terms of a condition (`crate::filter`).

use std::sync::{Arc, PoisonError};

use quarry_conf::ReportRule;
use quarry_eval::pattern::{BorderBytes, GroupBorders};
use quarry_event::TermQuery;
use quarry_event::value::spelling::spelled_beginnings;

use super::FieldRules;
use super::reports::{copies_groups, splits_at_breakers};
use crate::derive::Scope;

/// Maximum number of fields whose rules are cached.
const CACHED_EXTRACTIONS_MAX: usize = 1_024;
/// Maximum number of different pairs of literals around the values of a field; values between further literals count as
/// lying inside tokens.
const AFFIXED_MAX: usize = 8;

/// The rules of a field that copy parts of a text, summarised by where their values begin and end in event texts.
#[derive(Debug, Default)]
pub(crate) struct FieldExtraction {
    /// Events to which such a rule applies.
    pub scope: Option<Scope>,
    /// Events whose value of the field may begin or end inside a token.
    pub inside_tokens: Option<Scope>,
    /// Values that form whole tokens together with literals of the rule.
    pub affixed: Vec<AffixedValue>,
    /// Events whose value of the field is part of another field's value, which may be an index-time field.
    pub from_fields: Option<Scope>,
    /// Events whose value of the field need not occur in their text, because it comes from their metadata or from a
    /// value that a rule composes.
    pub elsewhere: Option<Scope>,
    /// Whether a value may lie between blanks that are not breakers, such as vertical tabs.
    pub is_in_whitespace: bool,
}

/// Values between two literals with which they form whole tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AffixedValue {
    prefix: Box<str>,
    /// `None` if a token may continue after the value.
    suffix: Option<Box<str>>,
    /// Events that have such values.
    scope: Scope,
}

impl AffixedValue {
    /// Term query for this value.
    pub(crate) fn terms(&self, value: &str) -> TermQuery {
        let suffix = self.suffix.as_deref().unwrap_or("*");
        self.scope.restrict(TermQuery::for_keyword(&format!("{}{value}{suffix}", self.prefix)))
    }

    /// Term query for this number and for its other spellings.
    pub(crate) fn terms_of_number(&self, number: &str) -> TermQuery {
        let of_spelling = |(beginning, may_continue): (String, bool)| match may_continue {
            true => self.scope.restrict(TermQuery::for_keyword(&format!("{}{beginning}*", self.prefix))),
            false => self.terms(&beginning),
        };
        TermQuery::or(spelled_beginnings(number).map(of_spelling))
    }
}

/// Origin of a value that a rule produces.
enum ValueOrigin {
    /// The event text.
    Text(GroupBorders),
    /// Another field, which is part of the event text unless it is an index-time field.
    Field(GroupBorders),
    /// Something that the event text need not contain.
    Elsewhere,
}

impl FieldExtraction {
    fn add(&mut self, scope: &Scope, origin: ValueOrigin) {
        let join = |known: &mut Option<Scope>| {
            *known = Some(match known.take() {
                Some(known) => known.union(scope.clone()),
                None => scope.clone(),
            });
        };
        join(&mut self.scope);
        let borders = match origin {
            ValueOrigin::Elsewhere => return join(&mut self.elsewhere),
            ValueOrigin::Text(borders) => borders,
            ValueOrigin::Field(borders) => {
                join(&mut self.from_fields);
                borders
            }
        };
        let (affixed, bytes) = match borders {
            GroupBorders::Whole(bytes) => (None, bytes),
            GroupBorders::Begin(bytes) => (Some((Box::default(), None)), bytes),
            GroupBorders::Affixed { prefix, suffix, bytes } => (Some((prefix, suffix)), bytes),
            GroupBorders::Unknown => return join(&mut self.inside_tokens),
        };
        self.is_in_whitespace |= bytes == BorderBytes::Whitespace;
        let Some((prefix, suffix)) = affixed else { return };
        let known = self.affixed.iter().position(|known| known.prefix == prefix && known.suffix == suffix);
        match known {
            Some(at) => self.affixed[at].scope.extend(scope),
            None if self.affixed.len() == AFFIXED_MAX => join(&mut self.inside_tokens),
            None => self.affixed.push(AffixedValue { prefix, suffix, scope: scope.clone() }),
        }
    }
}

impl FieldRules {
    /// The rules that copy values of this field out of texts.
    pub(crate) fn extraction_of(&self, field: &str) -> Arc<FieldExtraction> {
        let lock = || self.extractions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(extraction) = lock().get(field) {
            return Arc::clone(extraction);
        }
        let extraction = Arc::new(self.find_extraction(field));
        let mut known = lock();
        // A filter with a long list of values looks up the same field for each value, so the newest field is always
        // kept.
        if known.len() >= CACHED_EXTRACTIONS_MAX {
            known.clear();
        }
        known.insert(field.to_owned(), Arc::clone(&extraction));
        extraction
    }

    fn find_extraction(&self, field: &str) -> FieldExtraction {
        let mut extraction = FieldExtraction::default();
        for rule in self.props().rules_extracting(field) {
            // An invalid pattern extracts nothing.
            let Ok(extract) = self.extract(rule.pattern, rule.source) else { continue };
            let borders = extract.group(field).map_or(GroupBorders::Unknown, |group| extract.regex.borders_of(group));
            let origin = if extract.reads_text() {
                ValueOrigin::Text(borders)
            } else if self.derived_names().is_part_of_text(&extract.field) {
                ValueOrigin::Field(GroupBorders::Unknown)
            } else {
                ValueOrigin::Elsewhere
            };
            extraction.add(&Scope::of(rule.sourcetype), origin);
        }
        for (sourcetype, rules) in self.props().search_time_rules() {
            let scope = Scope::of(sourcetype.as_deref());
            for rule in &rules.reports {
                for origin in self.report_origins(rule, field) {
                    extraction.add(&scope, origin);
                }
            }
        }
        extraction
    }

    /// Origins of the values that a transform produces for the field. Empty for transforms that compute values (these
    /// values count as derived), and for transforms that split the text at breakers (these values are whole tokens).
    fn report_origins(&self, rule: &ReportRule, field: &str) -> Vec<ValueOrigin> {
        if splits_at_breakers(rule) || !self.derived_names().copies_text(rule) {
            return Vec::new();
        }
        // An invalid pattern extracts nothing.
        let Ok(report) = self.report(rule) else { return Vec::new() };
        if copies_groups(rule) {
            return report.borders_of(field).into_iter().map(ValueOrigin::Text).collect();
        }
        if !report.may_produce(field) {
            return Vec::new();
        }
        vec![match rule.source.as_str() {
            "_raw" => ValueOrigin::Text(GroupBorders::Unknown),
            source if splits_field_at_breakers(rule) => {
                ValueOrigin::Field(self.borders_of_source(source).map_or(GroupBorders::Unknown, GroupBorders::Whole))
            }
            _ => ValueOrigin::Field(GroupBorders::Unknown),
        }]
    }

    /// The bytes that surround the values of a field in event texts; `None` unless every rule that produces the field
    /// takes whole tokens from the text. Transforms that split the field itself at breakers do not matter: they make
    /// whole tokens of whole tokens.
    fn borders_of_source(&self, field: &str) -> Option<BorderBytes> {
        let mut borders = Vec::new();
        for rule in self.props().rules_extracting(field) {
            let Ok(extract) = self.extract(rule.pattern, rule.source) else { continue };
            borders.push(extract.group(field).filter(|_| extract.reads_text()).map(|at| extract.regex.borders_of(at))?);
        }
        let reports = self.props().search_time_rules().iter().flat_map(|(_, rules)| &rules.reports);
        for rule in reports.filter(|rule| !splits_at_breakers(rule)) {
            let Ok(report) = self.report(rule) else { continue };
            match copies_groups(rule) {
                true => borders.extend(report.borders_of(field)),
                false if !report.may_produce(field) => {}
                false if rule.source == field && splits_field_at_breakers(rule) => {}
                false => return None,
            }
        }
        let bytes = borders.into_iter().map(|borders| match borders {
            GroupBorders::Whole(bytes) => Some(bytes),
            _ => None,
        });
        bytes.min().flatten()
    }
}

/// Whether a transform splits a field at breakers only.
fn splits_field_at_breakers(rule: &ReportRule) -> bool {
    splits_at_breakers(&ReportRule { source: "_raw".to_owned(), ..rule.clone() })
}
