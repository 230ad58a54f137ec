//! The search condition, split by the cost of its tests.
//!
//! Terms are looked up in the term dictionary, words and metadata are tested on the raw page, and all other conditions
//! are tested on extracted fields. Early tests are conservative: they may keep an event that does not match, but never
//! drop a matching event. If the early tests decide the condition completely, the final test is skipped.

mod json_terms;

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::field_names::wildcard_parts;
use quarry_eval::row_filter::{NumberEquality, NumberRule, RowFilter, network_of};
use quarry_event::segment::{WordBound, WordPattern};
use quarry_event::term::MetaField;
use quarry_event::value::parse_exact_number;
use quarry_event::{Metadata, Page, TermQuery, TextMark};
use quarry_spl::analyse::search_fields;
use quarry_spl::ast::{CompareOp, FieldPattern, SearchExpr, SearchPattern};

use self::json_terms::escaped_terms;
use super::derive::{DerivedNames, Scope, is_default_field, sourcetype_term};
use super::event_fields::{
    appears_verbatim, index_time_column_name, index_time_values, is_intrinsic_field, is_written,
};
use super::fields::origins::FieldExtraction;
use super::fields::{FieldRules, Projection};
use super::template_pages::{Conditions, RequiredWords};

/// Origins of field values.
pub(crate) struct Origins<'a> {
    /// Rules of field extraction.
    pub rules: &'a FieldRules,
    /// Names of fields that rules derive after extraction.
    pub derived: &'a DerivedNames,
}

impl<'a> Origins<'a> {
    pub(crate) fn new(rules: &'a FieldRules, derived: &'a DerivedNames) -> Origins<'a> {
        Origins { rules, derived }
    }

    fn is_index_time_only(&self) -> bool {
        self.rules.is_index_time_only()
    }

    fn extraction_of(&self, field: &str) -> Arc<FieldExtraction> {
        self.rules.extraction_of(field)
    }
}

/// A compiled condition.
pub(crate) struct EventFilter {
    terms: TermQuery,
    early: EarlyTest,
    /// The final test, on columns; `None` if the early tests decide.
    exact: Option<RowFilter>,
    /// Fields that the condition tests, by name or wildcard.
    names: BTreeSet<String>,
    /// See [`EventFilter::index_time_fields`].
    given: Vec<String>,
    tests_raw: bool,
    /// The condition for template slabs.
    conditions: Conditions,
}

/// A test on raw text and metadata.
enum EarlyTest {
    /// No early test; only the final test is run.
    Undecided,
    /// The text contains a word.
    Word(WordPattern),
    /// The text contains a value of the field, or may write the value differently.
    Value(Box<TextValueTest>),
    /// A metadata field matches a pattern.
    Meta(MetaField, WordPattern),
    /// Holds if every part holds.
    And(Vec<EarlyTest>),
    /// Holds if some part holds.
    Or(Vec<EarlyTest>),
    /// Negation; allowed only for exact tests.
    Not(Box<EarlyTest>),
}

impl EventFilter {
    /// Splits `expr`. `rules` tells which fields patterns extract: the values of these fields need not be whole tokens.
    pub(crate) fn new(expr: &SearchExpr, rules: &Origins<'_>) -> Result<EventFilter, EngineError> {
        let early = early_test(expr, rules);
        let mut given = Vec::new();
        let of_columns = rewrite_index_time_tests(expr, rules, &mut given);
        let mut names = search_fields(expr);
        let number_rule: NumberRule<'_> = &|field, value, is_negated| number_equality(field, value, is_negated, rules);
        let mut exact = None;
        if !early.is_exact() {
            let of_events = add_unwritten_numbers(&of_columns, rules);
            names.extend(search_fields(&of_events).into_iter().filter(|name| name == "sourcetype"));
            exact = Some(RowFilter::with_number_rule(&of_events, number_rule)?);
        }
        let tests_raw = exact.as_ref().is_some_and(|exact| exact.reads_text() || names.contains("_raw"));
        let written = |expr: &SearchExpr| required_words(expr, rules);
        let conditions = Conditions::new(&of_columns, number_rule, &written)?;
        Ok(EventFilter { terms: terms_of(expr, rules), early, exact, names, given, tests_raw, conditions })
    }

    /// Fields that the condition tests as `field::value`; the final test reads their index-time values from columns
    /// named by [`super::event_fields::index_time_column_name`].
    pub(crate) fn index_time_fields(&self) -> &[String] {
        &self.given
    }

    /// The form of the condition that is evaluated on template slabs.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The query for the term dictionary.
    pub(crate) fn terms(&self) -> &TermQuery {
        &self.terms
    }

    /// The final test; `None` if the early tests decide.
    pub(crate) fn final_test(&self) -> Option<&RowFilter> {
        self.exact.as_ref()
    }

    /// Whether the condition reads event texts, or fields extracted from them.
    pub(crate) fn reads_text(&self) -> bool {
        self.early.reads_text() || self.tests_fields() || self.tests_raw
    }

    /// Whether the final test reads `_raw`.
    pub(crate) fn tests_raw(&self) -> bool {
        self.tests_raw
    }

    /// Whether the final test reads extracted fields.
    pub(crate) fn tests_fields(&self) -> bool {
        self.exact.is_some() && self.names.iter().any(|name| !is_intrinsic_field(name))
    }

    /// Whether the final test reads this field by name.
    pub(crate) fn names_field(&self, field: &str) -> bool {
        self.exact.is_some() && self.names.contains(field)
    }

    /// Whether the final test reads this field, by name or by wildcard.
    pub(crate) fn reads_field(&self, field: &str) -> bool {
        self.names().any(|name| name == field || wildcard_parts(name, field).is_some())
    }

    /// Fields that the final test reads.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let exact = self.exact.is_some();
        self.names.iter().map(String::as_str).filter(move |_| exact)
    }

    /// Whether an event with one of these metadata may match.
    pub(crate) fn may_match_any(&self, metas: &[Metadata]) -> bool {
        metas.iter().any(|meta| self.early.allows_meta(meta))
    }

    /// Removes rows that cannot match from `selected`.
    pub(crate) fn narrow(&self, events: &Page, selected: &mut Vec<u32>) {
        self.early.narrow(events, selected);
    }
}

fn meta_field(name: &str) -> Option<MetaField> {
    match name {
        "host" => Some(MetaField::Host),
        "source" => Some(MetaField::Source),
        "sourcetype" => Some(MetaField::Sourcetype),
        "index" => Some(MetaField::Index),
        _ => None,
    }
}

fn meta_text(meta: &Metadata, field: MetaField) -> &str {
    match field {
        MetaField::Host => &meta.host,
        MetaField::Source => &meta.source,
        MetaField::Sourcetype => &meta.sourcetype,
        MetaField::Index => &meta.index,
    }
}

impl EarlyTest {
    /// Whether the test is exact, so that no final test is needed.
    fn is_exact(&self) -> bool {
        match self {
            EarlyTest::Undecided | EarlyTest::Value(_) => false,
            EarlyTest::Word(_) | EarlyTest::Meta(..) => true,
            EarlyTest::And(parts) | EarlyTest::Or(parts) => parts.iter().all(EarlyTest::is_exact),
            EarlyTest::Not(part) => part.is_exact(),
        }
    }

    fn reads_text(&self) -> bool {
        match self {
            EarlyTest::Undecided | EarlyTest::Meta(..) => false,
            EarlyTest::Word(_) | EarlyTest::Value(_) => true,
            EarlyTest::And(parts) | EarlyTest::Or(parts) => parts.iter().any(EarlyTest::reads_text),
            EarlyTest::Not(part) => part.reads_text(),
        }
    }

    fn allows_meta(&self, meta: &Metadata) -> bool {
        match self {
            EarlyTest::Undecided | EarlyTest::Word(_) | EarlyTest::Value(_) => true,
            EarlyTest::Meta(field, pattern) => pattern.is_match(meta_text(meta, *field).as_bytes()),
            EarlyTest::And(parts) => parts.iter().all(|part| part.allows_meta(meta)),
            EarlyTest::Or(parts) => parts.iter().any(|part| part.allows_meta(meta)),
            // A negated test that reads text cannot be decided by metadata.
            EarlyTest::Not(part) => part.reads_text() || !part.allows_meta(meta),
        }
    }

    fn narrow(&self, events: &Page, selected: &mut Vec<u32>) {
        match self {
            EarlyTest::Undecided => {}
            EarlyTest::And(parts) => {
                // Metadata tests first; they cost next to nothing.
                let (of_metadata, of_text): (Vec<_>, Vec<_>) = parts.iter().partition(|part| !part.reads_text());
                of_metadata.into_iter().chain(of_text).for_each(|part| part.narrow(events, selected));
            }
            EarlyTest::Meta(field, pattern) => {
                let allowed: Vec<bool> =
                    events.metas.iter().map(|meta| pattern.is_match(meta_text(meta, *field).as_bytes())).collect();
                selected.retain(|row| allowed[events.meta[*row as usize] as usize]);
            }
            test => selected.retain(|row| test.may_match(events, *row as usize)),
        }
    }

    /// Whether the text is searched for the value of a field.
    fn has_value(&self) -> bool {
        match self {
            EarlyTest::Value(_) => true,
            EarlyTest::And(parts) | EarlyTest::Or(parts) => parts.iter().any(EarlyTest::has_value),
            EarlyTest::Not(part) => part.has_value(),
            EarlyTest::Undecided | EarlyTest::Word(_) | EarlyTest::Meta(..) => false,
        }
    }

    fn may_match(&self, events: &Page, row: usize) -> bool {
        match self {
            EarlyTest::Undecided => true,
            EarlyTest::Word(pattern) => pattern.is_match(events.raw(row)),
            EarlyTest::Value(test) => test.may_match(events, row),
            EarlyTest::Meta(field, pattern) => {
                pattern.is_match(meta_text(&events.metas[events.meta[row] as usize], *field).as_bytes())
            }
            EarlyTest::And(parts) => parts.iter().all(|part| part.may_match(events, row)),
            EarlyTest::Or(parts) => parts.iter().any(|part| part.may_match(events, row)),
            EarlyTest::Not(part) => !part.may_match(events, row),
        }
    }
}

/// Test that a text contains a value of a field.
struct TextValueTest {
    /// The value as a part of the text.
    pattern: WordPattern,
    field: Box<str>,
    extracted: Option<ExtractedValueTest>,
    /// Whether the value may come from an index-time field, which need not be in the text.
    may_be_indexed: bool,
    xml: Option<XmlValueTest>,
}

impl TextValueTest {
    /// Whether the event may have the value: its text contains the value or escapes, or the value may be an index-time
    /// value or part of one.
    fn may_match(&self, events: &Page, row: usize) -> bool {
        let text = events.raw(row);
        let meta = || &events.metas[events.meta[row] as usize];
        self.pattern.is_match(text)
            || self.extracted.as_ref().is_some_and(|extracted| extracted.may_be_in(text, meta()))
            || memchr::memchr(b'\\', text).is_some()
            || has_index_time_field(events, row, &self.field)
            || (self.may_be_indexed && has_index_time_fields(events, row))
            || self.xml.as_ref().is_some_and(|xml| xml.may_be_in(text, meta()))
    }
}

/// A value that XML may write with entities or divide by markup.
struct XmlValueTest {
    scope: Scope,
    /// See [`has_named_entity`].
    has_named: bool,
}

impl XmlValueTest {
    fn new(value: &str, rules: &Origins<'_>) -> Option<XmlValueTest> {
        let scope = rules.derived.xml_scope()?.clone();
        Some(XmlValueTest { scope, has_named: has_named_entity(value) })
    }

    fn may_be_in(&self, text: &[u8], meta: &Metadata) -> bool {
        self.scope.contains_ignore_case(&meta.sourcetype)
            // A `>` of the value may be the last character before markup. Such markup is not a mark, so any markup or
            // entity counts.
            && (TextMark::XmlValue.is_in(text) || (self.has_named && memchr::memchr3(b'&', b'!', b'?', text).is_some()))
    }
}

/// Whether XML has a named entity for a character of the value, such as `&amp;`.
fn has_named_entity(value: &str) -> bool {
    value.contains(['<', '>', '&', '\'', '"'])
}

/// A value that an `EXTRACT` rule may copy from the text of some events; the value need not be a whole token there.
struct ExtractedValueTest {
    pattern: WordPattern,
    extraction: Arc<FieldExtraction>,
}

impl ExtractedValueTest {
    fn may_be_in(&self, text: &[u8], meta: &Metadata) -> bool {
        let is_extracted = |scope: &Scope| scope.contains_ignore_case(&meta.sourcetype);
        self.extraction.scope.as_ref().is_some_and(is_extracted) && self.pattern.is_match(text)
    }
}

/// Maximum number of alternatives with field values that are tested on the text, because each test searches the text for
/// a value. With more alternatives, only the fields are tested.
const VALUE_ALTERNATIVES_MAX: usize = 32;

/// The early test that one of these tests passes.
fn early_test_of_any(tests: Vec<EarlyTest>) -> EarlyTest {
    let of_values = tests.iter().filter(|test| test.has_value()).count();
    if of_values > VALUE_ALTERNATIVES_MAX || tests.iter().any(|test| matches!(test, EarlyTest::Undecided)) {
        EarlyTest::Undecided
    } else {
        EarlyTest::Or(tests)
    }
}

fn early_test(expr: &SearchExpr, rules: &Origins<'_>) -> EarlyTest {
    let word = |pattern: &SearchPattern, bound, case| EarlyTest::Word(WordPattern::new(&pattern.text, bound, case));
    match expr {
        SearchExpr::All => EarlyTest::And(Vec::new()),
        SearchExpr::And(parts) => EarlyTest::And(parts.iter().map(|part| early_test(part, rules)).collect()),
        SearchExpr::Or(parts) => early_test_of_any(parts.iter().map(|part| early_test(part, rules)).collect()),
        SearchExpr::Not(part) => match early_test(part, rules) {
            test if test.is_exact() => EarlyTest::Not(Box::new(test)),
            _ => EarlyTest::Undecided,
        },
        SearchExpr::Keyword(pattern) => word(pattern, WordBound::Breaker, false),
        SearchExpr::Term(pattern) => word(pattern, WordBound::Major, false),
        SearchExpr::Case(pattern) => word(pattern, WordBound::Breaker, true),
        SearchExpr::Compare { field, op: CompareOp::Eq, value, case_sensitive } => match meta_field(&field.text) {
            Some(meta) => metadata_test(meta, value, *case_sensitive),
            None => value_test(&field.text, value, rules),
        },
        SearchExpr::Compare { field, op: CompareOp::Ne, value, case_sensitive } => match meta_field(&field.text) {
            Some(meta) => match metadata_test(meta, value, *case_sensitive) {
                EarlyTest::Undecided => EarlyTest::Undecided,
                same => EarlyTest::Not(Box::new(same)),
            },
            None => EarlyTest::Undecided,
        },
        SearchExpr::In { field, values } => {
            let tests = values.iter().map(|value| match meta_field(&field.text) {
                Some(meta) => metadata_test(meta, value, false),
                None => value_test(&field.text, value, rules),
            });
            early_test_of_any(tests.collect())
        }
        SearchExpr::Indexed { field, value } => match meta_field(&field.text) {
            Some(meta) => EarlyTest::Meta(meta, WordPattern::new(&value.text, WordBound::Whole, false)),
            None => EarlyTest::Undecided,
        },
        SearchExpr::Compare { .. } | SearchExpr::Subsearch(_) => EarlyTest::Undecided,
    }
}

/// Test that a metadata field equals a value. A network, which no pattern can express, is left to the final test.
fn metadata_test(field: MetaField, value: &SearchPattern, case_sensitive: bool) -> EarlyTest {
    match network_of(&value.text) {
        Some(_) => EarlyTest::Undecided,
        None => EarlyTest::Meta(field, WordPattern::new(&value.text, WordBound::Whole, case_sensitive)),
    }
}

/// Rewrites `field::value` into tests of index-time columns; their fields are added to `given`.
fn rewrite_index_time_tests(expr: &SearchExpr, rules: &Origins<'_>, given: &mut Vec<String>) -> SearchExpr {
    let mut all =
        |parts: &[SearchExpr]| parts.iter().map(|part| rewrite_index_time_tests(part, rules, given)).collect();
    match expr {
        SearchExpr::And(parts) => SearchExpr::And(all(parts)),
        SearchExpr::Or(parts) => SearchExpr::Or(all(parts)),
        SearchExpr::Not(part) => SearchExpr::Not(Box::new(rewrite_index_time_tests(part, rules, given))),
        SearchExpr::Indexed { field, value } if tests_index_time(&field.text, rules) => {
            let name = index_time_column_name(&field.text);
            if !given.contains(&field.text) {
                given.push(field.text.clone());
            }
            SearchExpr::Indexed { field: FieldPattern { text: name, span: field.span }, value: value.clone() }
        }
        other => other.clone(),
    }
}

/// The rule by which the condition compares a number with the values of a field ([`RowFilter::with_number_rule`]).
fn number_equality(field: &str, value: &str, is_negated: bool, rules: &Origins<'_>) -> NumberEquality {
    if meta_field(field).is_some() {
        return NumberEquality::Text;
    }
    if parse_exact_number(value).is_none() {
        return NumberEquality::Value;
    }
    // `tstats` reads no texts, and some fields are not part of a text.
    let is_by_value = is_negated
        || rules.is_index_time_only()
        || field.contains('*')
        || is_intrinsic_field(field)
        || unwritten_scope(field, &rules.extraction_of(field), rules) == Some(Scope::Everywhere);
    if is_by_value { NumberEquality::Value } else { NumberEquality::Word }
}

/// Extends each test of a number to events in which a rule may compute the field: the computed value may be spelled
/// differently.
fn add_unwritten_numbers(expr: &SearchExpr, rules: &Origins<'_>) -> SearchExpr {
    let all = |parts: &[SearchExpr]| parts.iter().map(|part| add_unwritten_numbers(part, rules)).collect();
    let (field, values) = match expr {
        SearchExpr::And(parts) => return SearchExpr::And(all(parts)),
        SearchExpr::Or(parts) => return SearchExpr::Or(all(parts)),
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } => (field, std::slice::from_ref(value)),
        SearchExpr::In { field, values } => (field, values.as_slice()),
        other => return other.clone(),
    };
    let extraction = rules.extraction_of(&field.text);
    let is_by_word =
        |value: &&SearchPattern| number_equality(&field.text, &value.text, false, rules) == NumberEquality::Word;
    let scope =
        unwritten_scope(&field.text, &extraction, rules).filter(|_| values.iter().any(|value| is_by_word(&value)));
    let Some(Scope::Sourcetypes(sourcetypes)) = scope else { return expr.clone() };
    let span = field.span;
    let pattern = |text: String| SearchPattern { text, quoted: true, span };
    let computed = SearchExpr::In {
        field: FieldPattern { text: "sourcetype".to_owned(), span },
        values: sourcetypes.into_iter().map(pattern).collect(),
    };
    // Within a NOT, numbers are compared by value.
    let by_value = SearchExpr::Not(Box::new(SearchExpr::Not(Box::new(expr.clone()))));
    SearchExpr::Or(vec![expr.clone(), SearchExpr::And(vec![computed, by_value])])
}

/// Whether `field::value` reads index-time fields only.
fn tests_index_time(field: &str, rules: &Origins<'_>) -> bool {
    let is_known_otherwise = is_intrinsic_field(field) || is_default_field(field) || field.contains('*');
    // Index-time fields of JSON are read from the text, and `tstats` has no other fields.
    !is_known_otherwise && !rules.is_index_time_only() && !rules.rules.reads_indexed_text()
}

/// Test that the text contains the value of `field=value`: as whole tokens if the field is extracted automatically,
/// anywhere in the text if a pattern extracts it.
fn value_test(field: &str, value: &SearchPattern, rules: &Origins<'_>) -> EarlyTest {
    if rules.is_index_time_only() || !appears_verbatim(field, value) {
        return EarlyTest::Undecided;
    }
    let extraction = rules.extraction_of(field);
    let given = unwritten_scope(field, &extraction, rules);
    if given == Some(Scope::Everywhere) {
        return EarlyTest::Undecided;
    }
    let may_be_indexed = extraction.from_fields.is_some();
    let word = |text: &str| WordPattern::new(text, WordBound::Breaker, false);
    let anywhere = || word(&format!("*{}*", value.text));
    let (pattern, extracted) = match extraction.scope {
        None => (word(&value.text), None),
        Some(Scope::Everywhere) => (anywhere(), None),
        Some(Scope::Sourcetypes(_)) => {
            (word(&value.text), Some(ExtractedValueTest { pattern: anywhere(), extraction }))
        }
    };
    let xml = XmlValueTest::new(&value.text, rules);
    let test = TextValueTest { pattern, field: field.into(), extracted, may_be_indexed, xml };
    let mut parts = vec![EarlyTest::Value(Box::new(test))];
    // Events of these sourcetypes may have the value although their text does not contain it.
    if let Some(Scope::Sourcetypes(sourcetypes)) = &given {
        parts.extend(sourcetype_tests(sourcetypes));
    }
    if parts.len() == 1 { parts.swap_remove(0) } else { EarlyTest::Or(parts) }
}

fn sourcetype_tests(names: &[String]) -> impl Iterator<Item = EarlyTest> {
    names.iter().map(|name| EarlyTest::Meta(MetaField::Sourcetype, WordPattern::new(name, WordBound::Whole, false)))
}

/// Events that may have a value of the field that their text does not contain, because a rule computes or composes it.
fn unwritten_scope(field: &str, extraction: &FieldExtraction, rules: &Origins<'_>) -> Option<Scope> {
    let scopes = [rules.derived.nonverbatim_scope(field), extraction.elsewhere.clone()];
    scopes.into_iter().flatten().reduce(Scope::union)
}

/// A word that the text of every event with this value of the field contains, whichever rule extracts the value.
fn required_word(field: &str, value: &SearchPattern, rules: &Origins<'_>) -> String {
    if rules.extraction_of(field).scope.is_some() { format!("*{}*", value.text) } else { value.text.clone() }
}

/// Words for a field test, as in [`early_test`]: the text of every event that passes the test contains at least one of
/// these words.
fn required_words(expr: &SearchExpr, rules: &Origins<'_>) -> RequiredWords {
    let (field, values) = match expr {
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } => (&field.text, std::slice::from_ref(value)),
        SearchExpr::In { field, values } => (&field.text, values.as_slice()),
        _ => return RequiredWords::default(),
    };
    let extraction = rules.extraction_of(field);
    let xml = rules.derived.xml_scope();
    let has_named = values.iter().any(|value| has_named_entity(&value.text));
    let scopes = [unwritten_scope(field, &extraction, rules), xml.filter(|_| has_named).cloned()];
    let except = match scopes.into_iter().flatten().reduce(Scope::union) {
        Some(Scope::Everywhere) => return RequiredWords::default(),
        Some(Scope::Sourcetypes(sourcetypes)) => sourcetypes,
        None => Vec::new(),
    };
    let is_free = rules.is_index_time_only() || meta_field(field).is_some();
    if is_free || values.iter().any(|value| !appears_verbatim(field, value)) {
        return RequiredWords::default();
    }
    let words = values.iter().map(|value| required_word(field, value, rules)).collect();
    RequiredWords { words, except, may_be_indexed: extraction.from_fields.is_some(), xml: xml.cloned() }
}

/// Whether an event has this index-time field.
fn has_index_time_field(events: &Page, row: usize, field: &str) -> bool {
    index_time_values(events, row, field).next().is_some()
}

/// Whether an event has any index-time field.
fn has_index_time_fields(events: &Page, row: usize) -> bool {
    !events.fields.of_rows(row..row + 1).is_empty()
}

/// Sourcetypes whose events may have this value of a field although their text lacks the tokens of the value. These are
/// the sourcetypes with a rule that may extract the value from within a token or from something other than the text,
/// and the sourcetypes with rules that derive the field. `None` if events of any sourcetype may have such a value.
fn tokenless_sourcetypes(field: &str, value: &SearchPattern, rules: &Origins<'_>) -> Option<Vec<String>> {
    if rules.is_index_time_only() || !is_written(field, value) {
        return None;
    }
    let extraction = rules.extraction_of(field);
    let inside_token = match inner_tokens(&value.text) {
        TermQuery::All => extraction.inside_tokens.clone(),
        _ => None,
    };
    let unwritten = unwritten_scope(field, &extraction, rules);
    match [inside_token, unwritten].into_iter().flatten().reduce(Scope::union) {
        Some(Scope::Everywhere) => None,
        Some(Scope::Sourcetypes(sourcetypes)) => Some(sourcetypes),
        None => Some(Vec::new()),
    }
}

/// The whole tokens of a value that may begin and end inside a token: those between two breakers of the value.
fn inner_tokens(value: &str) -> TermQuery {
    escaped_terms(&format!("*{value}*"))
}

impl Projection {
    /// Adds the fields that a filter tests.
    pub(crate) fn with_filter_fields(&self, filter: &EventFilter) -> Projection {
        let mut projection = self.clone();
        let (included, more): (Vec<&str>, Vec<&str>) = filter.names().partition(|name| self.includes(name));
        projection.names.extend(more.into_iter().map(str::to_owned));
        projection.tested_names = included.into_iter().map(str::to_owned).collect();
        projection
    }

    /// Columns that only the filter needs.
    pub(crate) fn filter_only_columns(&self, filter: &EventFilter) -> Vec<String> {
        let mut extra: Vec<String> =
            filter.names().filter(|name| !self.includes(name) && *name != "_time").map(str::to_owned).collect();
        if filter.tests_raw() && !self.raw {
            extra.push("_raw".to_owned());
        }
        extra.retain(|name| name != "_raw" || !self.raw);
        extra
    }
}

/// The part of a condition that the term dictionary can answer.
fn terms_of(expr: &SearchExpr, rules: &Origins<'_>) -> TermQuery {
    match expr {
        SearchExpr::And(parts) => TermQuery::and(parts.iter().map(|part| terms_of(part, rules))),
        SearchExpr::Or(parts) => TermQuery::or(parts.iter().map(|part| terms_of(part, rules))),
        SearchExpr::Keyword(pattern) | SearchExpr::Case(pattern) => TermQuery::for_keyword(&pattern.text),
        SearchExpr::Term(pattern) => TermQuery::for_term(&pattern.text),
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } => value_terms(&field.text, value, rules),
        // Default fields are computed; events do not contain them.
        SearchExpr::Indexed { field, .. } if is_default_field(&field.text) => TermQuery::All,
        SearchExpr::Indexed { field, value } => match meta_field(&field.text) {
            Some(_) => value_terms(&field.text, value, rules),
            // Index-time fields of JSON are read from the text, like search-time fields.
            None if rules.rules.reads_indexed_text() => value_terms(&field.text, value, rules),
            None => field_term(&field.text, value),
        },
        SearchExpr::In { field, values } => {
            TermQuery::or(values.iter().map(|value| value_terms(&field.text, value, rules)))
        }
        SearchExpr::All | SearchExpr::Not(_) | SearchExpr::Compare { .. } | SearchExpr::Subsearch(_) => TermQuery::All,
    }
}

/// Term query for events whose field has this value.
pub(crate) fn value_terms(field: &str, value: &SearchPattern, rules: &Origins<'_>) -> TermQuery {
    if let Some(meta) = meta_field(field) {
        if network_of(&value.text).is_some() {
            return TermQuery::All;
        }
        return TermQuery::Meta { field: meta, pattern: value.text.to_lowercase().into() };
    }
    let Some(others) = tokenless_sourcetypes(field, value, rules) else { return TermQuery::All };
    let extraction = rules.extraction_of(field);
    let is_number = parse_exact_number(&value.text).is_some();
    let affixed = extraction.affixed.iter().map(|affixed| match is_number {
        true => affixed.terms_of_number(&value.text),
        false => affixed.terms(&value.text),
    });
    let merged = extraction.is_in_whitespace.then_some(TermQuery::Marked(TextMark::UnbrokenBlank));
    let inside = inner_tokens(&value.text);
    // If the value has no inner tokens (`All`), `others` contains the sourcetypes of these rules.
    let inside = extraction
        .inside_tokens
        .iter()
        .filter(|_| inside != TermQuery::All)
        .map(|scope| scope.restrict(inside.clone()));
    let in_text = TermQuery::or([escaped_terms(&value.text)].into_iter().chain(affixed).chain(merged).chain(inside));
    let in_text = if value.text.contains('*') { without_short_prefixes(in_text) } else { in_text };
    let in_text = TermQuery::for_field_value(field, &value.text, in_text);
    let in_xml = rules.derived.xml_scope().map(|scope| scope.restrict(TermQuery::Marked(TextMark::XmlToken)));
    // The value may be part of an index-time field.
    let indexed = extraction.from_fields.iter().map(|scope| scope.restrict(TermQuery::IndexTimeFields));
    let others = others.iter().map(|sourcetype| sourcetype_term(sourcetype));
    let given = match is_number {
        true => TermQuery::FieldNumber { name: field.into(), number: value.text.to_lowercase().into() },
        false => field_term(field, value),
    };
    let in_json = TermQuery::Marked(TextMark::JsonLetter);
    TermQuery::or([in_text, given, in_json].into_iter().chain(others).chain(indexed).chain(in_xml))
}

/// Shortest beginning of a token that is looked up for a pattern, in bytes; shorter beginnings occur in nearly every
/// page.
const PREFIX_BYTES_MIN: usize = 3;

/// The query without conditions on short beginnings of tokens.
fn without_short_prefixes(query: TermQuery) -> TermQuery {
    match query {
        TermQuery::Prefix(prefix) if prefix.len() < PREFIX_BYTES_MIN => TermQuery::All,
        TermQuery::And(parts) => TermQuery::and(parts.into_iter().map(without_short_prefixes)),
        TermQuery::Or(parts) => TermQuery::or(parts.into_iter().map(without_short_prefixes)),
        other => other,
    }
}

/// The term of an index-time field.
fn field_term(field: &str, value: &SearchPattern) -> TermQuery {
    if value.text.contains('*') {
        return TermQuery::IndexTimeFields;
    }
    TermQuery::Field { name: field.into(), value: value.text.to_lowercase().into() }
}

/// Whether a condition contains keywords.
pub fn has_keywords(expr: &SearchExpr) -> bool {
    match expr {
        SearchExpr::Keyword(_) | SearchExpr::Term(_) | SearchExpr::Case(_) => true,
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().any(has_keywords),
        SearchExpr::Not(part) => has_keywords(part),
        _ => false,
    }
}

/// Index name patterns in the expression; `None` if it names no index. A part of a disjunction that names no index
/// stands for the indexes `defaults`.
pub fn index_patterns(expr: &SearchExpr, defaults: &[String]) -> Option<Vec<String>> {
    match expr {
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } | SearchExpr::Indexed { field, value }
            if field.text == "index" =>
        {
            Some(vec![value.text.clone()])
        }
        SearchExpr::In { field, values } if field.text == "index" => {
            Some(values.iter().map(|value| value.text.clone()).collect())
        }
        SearchExpr::Compare { field, op: CompareOp::Ne, .. } if field.text == "index" => Some(vec!["*".to_owned()]),
        SearchExpr::And(parts) => parts.iter().find_map(|part| index_patterns(part, defaults)),
        SearchExpr::Or(parts) => {
            let named: Vec<Option<Vec<String>>> = parts.iter().map(|part| index_patterns(part, defaults)).collect();
            if named.iter().all(Option::is_none) {
                return None;
            }
            let patterns = named.into_iter().flat_map(|names| names.unwrap_or_else(|| defaults.to_vec()));
            Some(patterns.collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
