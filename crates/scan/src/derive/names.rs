//! Fields that search-time rules may produce, with the sourcetypes of their events.
//!
//! The value of most rules need not occur in the event text, so a condition on such a field must not rule out events by
//! their text. Transforms that copy parts of the text, or of a field that is itself part of the text, are an exception:
//! they are analysed like `EXTRACT` rules (`crate::fields::origins`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_conf::{PropsResolver, ReportRule, SearchTimeRules};
use quarry_eval::field_names::wildcard_parts;
use quarry_event::term::MetaField;
use quarry_event::{Metadata, TermQuery};
use quarry_spl::analyse::expr_fields;

use super::defaults::is_default_field;
use super::requested_fields::RequestedFields;
use super::tables::{Tables, command_of};
use crate::event_fields::is_intrinsic_field;
use crate::fields::reports::{copies_parts, group_names, output_names};

/// Set of events for which a rule may produce a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Any sourcetype.
    Everywhere,
    /// Only these sourcetypes.
    Sourcetypes(Vec<String>),
}

/// Fields and the events for which they may be produced.
type Scopes = BTreeMap<String, Scope>;

/// Fields that rules may produce, each with the events concerned.
#[derive(Debug, Default)]
pub(crate) struct DerivedNames {
    from_rules: Arc<RuleFieldNames>,
    /// Output fields of lookups, which depend on the tables that the search may read, and fields of labels.
    from_search: Scopes,
}

/// The part of [`DerivedNames`] that is the same for all searches under the same settings.
#[derive(Debug, Default)]
pub(crate) struct RuleFieldNames {
    all: RuleScopes,
    /// Fields whose values need not occur in the text, because a rule computes them.
    elsewhere: RuleScopes,
    /// Fields whose values a rule composes from several groups, or takes from metadata.
    composed: RuleScopes,
    /// Events of XML.
    xml: Option<Scope>,
    /// The `LOOKUP-` settings, each with the events to which it applies.
    lookups: Vec<(String, Scope)>,
}

/// Fields that a group of rules produces.
#[derive(Debug, Default)]
struct RuleScopes {
    named: Scopes,
    /// Events with rules that take field names from the text and may thus produce any field.
    open: Option<Scope>,
}

impl RuleScopes {
    /// Adds the fields of a stanza; if the stanza `is_open`, its rules may also produce any other field.
    fn add(&mut self, (names, is_open): (Vec<String>, bool), scope: &Scope) {
        names.into_iter().for_each(|name| widen_scope(&mut self.named, name, scope));
        match &mut self.open {
            Some(open) if is_open => open.extend(scope),
            None if is_open => self.open = Some(scope.clone()),
            _ => {}
        }
    }
}

impl Scope {
    /// Whether events of this sourcetype are in the scope.
    pub(crate) fn contains(&self, sourcetype: &str) -> bool {
        match self {
            Scope::Everywhere => true,
            Scope::Sourcetypes(names) => names.iter().any(|name| name == sourcetype),
        }
    }

    /// Like [`Scope::contains`], ignoring case.
    pub(crate) fn contains_ignore_case(&self, sourcetype: &str) -> bool {
        match self {
            Scope::Everywhere => true,
            Scope::Sourcetypes(names) => names.iter().any(|name| name.eq_ignore_ascii_case(sourcetype)),
        }
    }

    /// The scope of a stanza for a sourcetype; if the sourcetype is a pattern or missing, the stanza may apply to any
    /// event.
    pub(crate) fn of(sourcetype: Option<&str>) -> Scope {
        match sourcetype.filter(|name| !name.contains('*')) {
            Some(sourcetype) => Scope::Sourcetypes(vec![sourcetype.to_owned()]),
            None => Scope::Everywhere,
        }
    }

    /// The union of two scopes.
    pub(crate) fn union(mut self, other: Scope) -> Scope {
        self.extend(&other);
        self
    }

    /// The query, restricted to these events.
    pub(crate) fn restrict(&self, query: TermQuery) -> TermQuery {
        match self {
            Scope::Everywhere => query,
            Scope::Sourcetypes(names) => {
                TermQuery::and([TermQuery::or(names.iter().map(|name| sourcetype_term(name))), query])
            }
        }
    }

    /// Adds the events of another scope.
    pub(crate) fn extend(&mut self, other: &Scope) {
        match (&mut *self, other) {
            (Scope::Sourcetypes(own), Scope::Sourcetypes(more)) => {
                own.extend(more.iter().filter(|name| !own.contains(name)).cloned().collect::<Vec<_>>());
            }
            _ => *self = Scope::Everywhere,
        }
    }
}

/// Term query for events of this sourcetype.
pub(crate) fn sourcetype_term(sourcetype: &str) -> TermQuery {
    TermQuery::Meta { field: MetaField::Sourcetype, pattern: sourcetype.to_lowercase().into() }
}

impl RuleFieldNames {
    /// Collects the fields of all stanzas of props.conf, except the fields of lookups.
    pub(crate) fn new(props: &PropsResolver) -> RuleFieldNames {
        let mut names = RuleFieldNames::default();
        names.add_composed(props);
        for (sourcetype, rules) in props.search_time_rules() {
            let scope = Scope::of(sourcetype.as_deref());
            names.all.add(rule_output_names(rules, &|_| true), &scope);
            let computed = rule_output_names(rules, &|report| !names.copies_text(report));
            names.elsewhere.add(computed, &scope);
            names.lookups.extend(rules.lookups.iter().map(|(_, lookup)| (lookup.clone(), scope.clone())));
        }
        names.xml = props.xml_sourcetypes().map(Scope::of).reduce(Scope::union);
        names
    }

    /// Collects the fields whose values need not be parts of the text, and those that rules take from such fields.
    fn add_composed<'p>(&mut self, props: &'p PropsResolver) {
        let of_patterns =
            props.extract_rules().map(|rule| (rule.source, true, Some(group_names(rule.pattern)), rule.sourcetype));
        let of_stanzas = props.search_time_rules().iter().flat_map(|(sourcetype, rules)| {
            let of_report = move |report: &'p Arc<ReportRule>| {
                (report.source.as_str(), copies_parts(report), output_names(report), sourcetype.as_deref())
            };
            rules.reports.iter().map(of_report)
        });
        let mut left: Vec<_> = of_patterns.chain(of_stanzas).collect();
        // Each round except the last removes rules from the list.
        loop {
            let (more, kept): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(source, copies, ..)| !copies || !self.is_part_of_text(source));
            if more.is_empty() {
                return;
            }
            for (_, _, names, sourcetype) in more {
                let is_open = names.is_none();
                self.composed.add((names.unwrap_or_default(), is_open), &Scope::of(sourcetype));
            }
            left = kept;
        }
    }

    /// Whether every value of a transform is a part of the event text, or of an index-time field.
    pub(crate) fn copies_text(&self, report: &ReportRule) -> bool {
        copies_parts(report) && self.is_part_of_text(&report.source)
    }

    /// Whether the value that a rule reads under this name is a part of the event text, or an index-time field. Rules
    /// that compute fields need not be considered, because they run after the rules that extract fields.
    pub(crate) fn is_part_of_text(&self, field: &str) -> bool {
        let RuleScopes { named, open } = &self.composed;
        field == "_raw" || (!is_intrinsic_field(field) && open.is_none() && !named.contains_key(field))
    }
}

/// Adds a field, or widens its scope.
fn widen_scope(scopes: &mut Scopes, name: String, scope: &Scope) {
    scopes.entry(name).and_modify(|known| known.extend(scope)).or_insert_with(|| scope.clone());
}

impl DerivedNames {
    /// Combines the fields of rules, of lookups among the search's tables, and of labels.
    pub(crate) fn new(of_rules: &Arc<RuleFieldNames>, tables: &Tables, labels: &[String]) -> DerivedNames {
        let mut of_search = Scopes::new();
        for (lookup, scope) in &of_rules.lookups {
            // A lookup that cannot be read produces no fields.
            let outputs = tables.outputs(lookup).unwrap_or_default();
            outputs.into_iter().for_each(|name| widen_scope(&mut of_search, name, scope));
        }
        labels.iter().for_each(|label| widen_scope(&mut of_search, label.clone(), &Scope::Everywhere));
        DerivedNames { from_rules: Arc::clone(of_rules), from_search: of_search }
    }

    /// Events for which a rule may produce `field`, which may be a wildcard pattern.
    pub(crate) fn scope_of(&self, field: &str) -> Option<Scope> {
        self.find_scope(&self.from_rules.all, field)
    }

    /// The fields that rules, lookups and labels may produce in events of these sources, except fields whose names rules
    /// take from the texts.
    pub(crate) fn fields_of<'n>(&'n self, metas: &[Metadata]) -> impl Iterator<Item = &'n String> {
        let scopes = self.from_rules.all.named.iter().chain(&self.from_search);
        let applies = |scope: &Scope| metas.iter().any(|meta| scope.contains(&meta.sourcetype));
        scopes.filter(move |(_, scope)| applies(scope)).map(|(name, _)| name)
    }

    /// Events for which a rule may produce `field` with a value that need not consist of whole tokens of the text.
    pub(crate) fn nonverbatim_scope(&self, field: &str) -> Option<Scope> {
        self.find_scope(&self.from_rules.elsewhere, field)
    }

    /// Events of XML, which may write a value with entities or divide it by markup.
    pub(crate) fn xml_scope(&self) -> Option<&Scope> {
        self.from_rules.xml.as_ref()
    }

    fn find_scope(&self, rules: &RuleScopes, field: &str) -> Option<Scope> {
        if is_default_field(field) {
            return Some(Scope::Everywhere);
        }
        self.union_scope(rules, &|scopes| match field.contains('*') {
            true => matching_scopes(scopes, |name| name == field || wildcard_parts(field, name).is_some()),
            false => scopes.get(field).into_iter().collect(),
        })
    }

    /// Events for which a rule may produce a requested field; `None` if there are no such events.
    pub(crate) fn scope_of_requested(&self, wanted: &RequestedFields) -> Option<Scope> {
        self.union_scope(&self.from_rules.all, &|scopes| match wanted.has_only_names() {
            true => wanted.names.iter().filter_map(|name| scopes.get(name)).collect(),
            false => matching_scopes(scopes, |name| wanted.contains(name)),
        })
    }

    /// The union of the scopes that `of` finds and of those whose rules may produce any field.
    fn union_scope(&self, rules: &RuleScopes, of: &dyn for<'s> Fn(&'s Scopes) -> Vec<&'s Scope>) -> Option<Scope> {
        let found = [&rules.named, &self.from_search].into_iter().flat_map(of);
        found.chain(&rules.open).cloned().reduce(Scope::union)
    }
}

/// The scopes of fields whose names pass a test.
fn matching_scopes(scopes: &Scopes, passes: impl Fn(&str) -> bool) -> Vec<&Scope> {
    scopes.iter().filter(|(name, _)| passes(name)).map(|(_, scope)| scope).collect()
}

/// Fields that the rules of a stanza produce, except the fields of lookups and of transforms that `counts` rejects, and
/// whether the rules may also produce any other field.
fn rule_output_names(rules: &SearchTimeRules, counts: &dyn Fn(&ReportRule) -> bool) -> (Vec<String>, bool) {
    // Table rules (multikv.conf) rewrite the text and take column names from it.
    let mut is_open = rules.table.is_some();
    let mut names: Vec<String> = Vec::new();
    for report in rules.reports.iter().filter(|report| counts(report)) {
        match output_names(report) {
            Some(found) => names.extend(found),
            None => is_open = true,
        }
    }
    names.extend(rules.aliases.iter().map(|alias| alias.target.clone()));
    names.extend(rules.evals.iter().map(|(field, _)| field.clone()));
    (names, is_open)
}

/// Fields that aliases, calculations and lookups name, as inputs or as outputs. Rules that cannot be read are skipped.
pub(crate) fn named_fields(rules: &SearchTimeRules) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for alias in &rules.aliases {
        names.extend([alias.source.clone(), alias.target.clone()]);
    }
    for (field, text) in &rules.evals {
        names.insert(field.clone());
        names.extend(quarry_spl::parse_expression(text).iter().flat_map(expr_fields));
    }
    for (_, text) in &rules.lookups {
        let Ok(command) = command_of(text) else { continue };
        names.extend(command.inputs.into_iter().chain(command.outputs).map(|(_, field)| field));
    }
    names
}
