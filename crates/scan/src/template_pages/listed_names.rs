//! The names of the fields in template slabs, for searches that read fields by wildcard (`stats avg(b*)`).
//!
//! Which fields match a wildcard depends on the events. The templates of most slabs determine the names of all fields,
//! so a search lists the matching names before it reads events, and then reads these fields like a search that names
//! them. Events of templates whose values may add names are read as text.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_eval::messages::Messages;
use quarry_eval::rows::is_hidden;
use quarry_event::Metadata;
use quarry_event::template::{ColumnKind, Dictionary, ExtractedNames, Template, TemplateSet};
use quarry_store::Segment;

use super::facts::{TemplateFacts, TemplateFactsCache};
use super::fields::template_names;
use super::json::JsonColumns;
use crate::event_fields::is_intrinsic_field;
use crate::fields::{AutoExtraction, FieldRules};

/// Maximum number of segments whose names are listed; a search of more segments reads texts.
const LISTED_SEGMENTS_MAX: usize = 32;

/// Maximum number of templates of values that are examined for the names in a slab; beyond that, values count as adding
/// names.
const INNER_TEMPLATES_MAX: usize = 4_096;

/// The names that automatic extraction finds in the texts of a slab.
pub(super) struct TemplateNames {
    names: BTreeSet<String>,
    /// For each template, whether its values may add names.
    open: Box<[bool]>,
}

impl TemplateNames {
    fn of(set: &TemplateSet, templates: &[Template], automatic: AutoExtraction, json: &JsonColumns<'_>) -> Self {
        let (mut names, mut open) = (BTreeSet::new(), Vec::with_capacity(templates.len()));
        let mut left = INNER_TEMPLATES_MAX;
        for template in templates {
            let found = template_names(set, template, automatic, json, &mut left);
            open.push(found.is_none());
            names.extend(found.into_iter().flatten());
        }
        TemplateNames { names, open: open.into() }
    }

    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        self.open.len() + self.names.iter().map(|name| name.len() + size_of::<String>()).sum::<usize>()
    }
}

/// A slab whose names are listed.
pub(super) struct ListedSlab<'a> {
    pub set: &'a TemplateSet,
    pub templates: &'a [Template],
    pub facts: &'a TemplateFacts,
    pub dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    pub metas: &'a [Metadata],
    pub rules: &'a FieldRules,
    pub messages: &'a Messages,
}

impl ListedSlab<'_> {
    /// The names that automatic extraction finds in events of a source.
    fn names_of_source(&self, meta: &Metadata) -> Arc<TemplateNames> {
        let automatic = self.rules.extraction_class(meta, &[], self.messages).automatic;
        // Rules that interact change the values of fields, but not the names that automatic extraction finds.
        let automatic = AutoExtraction { by_pattern: false, ..automatic };
        let find = || {
            let json = JsonColumns::new(self.set, self.dictionary);
            TemplateNames::of(self.set, self.templates, automatic, &json)
        };
        self.facts.names_of(automatic, find)
    }

    /// The stored names of all fields, if transforms take names from the texts and the search has the same transforms.
    fn stored_names(&self) -> Option<&ExtractedNames> {
        let metas: Vec<&Metadata> = self.metas.iter().collect();
        let (digest, _) = self.rules.digest_of_open_rules(&metas, self.messages)?;
        self.set.extracted_names.as_ref().filter(|known| known.rules == digest)
    }

    /// Whether transforms take names from the texts.
    fn has_open_rules(&self) -> bool {
        self.rules.produced_fields(self.metas, self.messages).is_open
    }

    /// For each key of a slab, whether its events may have fields that are not listed; `None` if no event may. The
    /// sources are one of each extraction class.
    pub(super) fn open_keys<'m>(&self, sources: impl Iterator<Item = &'m Metadata>) -> Option<Vec<bool>> {
        let is_stored = self.stored_names().is_some();
        let is_unknown = !is_stored && self.has_open_rules();
        let of_class = |meta: &Metadata| match is_stored || is_unknown {
            true => vec![is_unknown; self.templates.len()],
            false => self.names_of_source(meta).open.to_vec(),
        };
        let open: Vec<bool> = sources.flat_map(of_class).collect();
        open.contains(&true).then_some(open)
    }

    /// The names of all fields that rules and automatic extraction produce; `None` if no template determines them.
    fn names(&self) -> Option<BTreeSet<String>> {
        let mut names = self.rules.produced_fields(self.metas, self.messages).names;
        names.extend(self.set.fields.iter().map(|field| field.name.to_string()));
        if let Some(stored) = self.stored_names() {
            names.extend(stored.names.iter().map(|name| name.to_string()));
            return Some(names);
        }
        if self.has_open_rules() {
            return None;
        }
        let mut is_known = false;
        for meta in self.metas {
            let found = self.names_of_source(meta);
            is_known |= found.open.contains(&false);
            names.extend(found.names.iter().cloned());
        }
        is_known.then_some(names)
    }
}

/// The names for which `is_wanted` holds among the names of the fields that extraction produces in these segments;
/// `None` if listing them would not save reading texts.
pub(crate) fn listed_names(
    segments: &[Arc<dyn Segment>],
    known: &TemplateFactsCache,
    rules: &FieldRules,
    messages: &Messages,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Option<BTreeSet<String>> {
    if segments.len() > LISTED_SEGMENTS_MAX || segments.iter().any(|segment| segment.is_remote()) {
        return None;
    }
    let (mut listed, mut is_known) = (BTreeSet::new(), false);
    for segment in segments {
        // The faults of a damaged segment are reported when it is read.
        let Some(set) = segment.template_set().ok()? else { continue };
        let Some(ColumnKind::Templates(templates)) = set.columns.first().map(|column| &column.kind) else { continue };
        let (facts, metas) = (known.of(&set), segment.metas());
        let dictionary = |column| segment.dictionary(column).ok();
        let slab =
            ListedSlab { set: &set, templates, facts: &facts, dictionary: &dictionary, metas: &metas, rules, messages };
        let names = slab.names();
        is_known |= names.is_some();
        let is_listed = |name: &String| is_wanted(name) && !is_intrinsic_field(name) && !is_hidden(name);
        listed.extend(names.into_iter().flatten().filter(is_listed));
    }
    is_known.then_some(listed)
}
