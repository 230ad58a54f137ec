//! Results of a search for one slab: field locations, and plans for words and conditions on its columns.
//!
//! Everything is computed on first use and shared by the workers. Sources whose fields are extracted by the same rules
//! form an *extraction class*; a class and a template together form a *key*, by which field locations are looked up. In
//! slabs with one class, the key is the template.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::ArrayRef;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_conf::KvMode;
use quarry_eval::EngineError;
use quarry_eval::messages::Messages;
use quarry_eval::rows::DistinctMemo;
use quarry_event::template::{ColumnKind, Dictionary, FieldColumn, StoredValues, TEXT_COLUMN, Template, TemplateSet};
use quarry_event::{Metadata, TextMark};
use quarry_stdx::number::u32_of;
use quarry_store::Segment;

use super::ambiguous_columns::{AmbiguousColumn, is_unseparated};
use super::by_value::ByValue;
use super::coded_fields::CodedField;
use super::conditions::FieldPlan;
use super::derived_fields::{Derivation, DerivedField};
use super::extracts::{NamedRules, RuleLocation, merge_extracts};
use super::facts::{NameKind, TemplateFacts, TemplateFactsCache};
use super::field_locations::{FieldLocations, KeyLocation, is_consistent};
use super::fields::{FieldLocation, may_be_json, template_locations};
use super::json::JsonColumns;
use super::key_end::KeyEnd;
use super::key_splits::{Division, KeySplit};
use super::line_counts::locate_line_count;
use super::listed_names::ListedSlab;
use super::listed_values::ListedValues;
use super::paths::{LocatedPaths, PathRoots, locate_path};
use super::planned_template::PlannedTemplate;
use super::planning_budget::PlanningBudget;
use super::reports::{ReportPlanner, TemplatePairs};
use super::shared_plans::SharedPlans;
use super::stored_fields::find_stored;
use super::text_arrays::{MetadataColumn, text_array};
use super::text_lengths::LengthCache;
use super::value_columns::value_columns;
use super::value_location::ValueLocation;
use super::words::{SharedPlan, Word, WordPlan};
use super::xml::XmlColumns;
use crate::derive::column_rules::ComputedFields;
use crate::derive::{LINE_COUNT_FIELD, Scope};
use crate::event_fields::{index_time_field, is_index_time_column, is_intrinsic_field};
use crate::fields::reports::Report;
use crate::fields::{AutoExtraction, Extract, ExtractionClass, FieldRules};
use crate::spath::{PushedPaths, TEXT_FIELD};

/// Maximum number of slabs that a search caches; slabs are read one after another.
const CACHED_SLABS_MAX: usize = 64;

/// The slabs that a search has started to read.
#[derive(Default)]
pub(crate) struct SlabCache {
    pub(super) slabs: Mutex<Vec<CachedSlab>>,
    /// Facts about slabs that apply to every search.
    pub(super) facts_cache: Arc<TemplateFactsCache>,
}

/// A segment with its slab, or `None` if its texts are plain.
pub(super) type CachedSlab = (Arc<dyn Segment>, Option<Arc<Slab>>);

/// A dictionary column, a key end, and for each text of the dictionary whether it contains the key end.
type KeyEndCodes = (u32, KeyEnd, Arc<[bool]>);

/// Facts about a template slab, computed on first use.
pub(super) struct Slab {
    pub segment: Arc<dyn Segment>,
    pub template_set: Arc<TemplateSet>,
    facts: Arc<TemplateFacts>,
    pub metas: Arc<[Metadata]>,
    templates: usize,
    /// Extraction class of each metadata code.
    class_of: Vec<u32>,
    classes: usize,
    /// Patterns that produce requested fields, in an order compatible with every class.
    extracts: Vec<Arc<Extract>>,
    extracts_of: Vec<Vec<bool>>,
    /// Stored fields by name.
    fields: HashMap<String, Arc<FieldLocations>, FixedState>,
    /// Locations of fields that are aliases of other fields.
    aliases: HashMap<String, Arc<FieldLocations>, FixedState>,
    /// Locations of the values at the search's paths, for each text (the event or a field) that has paths.
    paths: Vec<LocatedPaths>,
    /// See [`Slab::overriding_columns`].
    overriding_columns: Vec<u32>,
    /// See [`Slab::open_keys`].
    open_keys: Option<Vec<bool>>,
    computed: Option<Arc<ComputedFields>>,
    /// Fields that computed fields read, and tested fields that patterns produce.
    computed_of: Vec<String>,
    words: Vec<OnceLock<SharedPlan>>,
    tests: Vec<OnceLock<Arc<FieldPlan>>>,
    by_value: OnceLock<Option<ByValue>>,
    values: Mutex<HashMap<u32, ArrayRef, FixedState>>,
    /// For each dictionary, which texts contain the end of a key.
    codes_with: Mutex<Vec<KeyEndCodes>>,
    /// For each dictionary, which texts do not end with a separator.
    unseparated: Mutex<HashMap<u32, Arc<[bool]>, FixedState>>,
    /// Dictionaries of fields at different locations, by the address of the locations; `None` for a field without a
    /// dictionary.
    coded: Mutex<HashMap<usize, Option<Arc<CodedField>>, FixedState>>,
    /// Results of patterns on field values, by the address of the pattern and the group number.
    derived: Mutex<HashMap<(usize, usize), Arc<DistinctMemo>, FixedState>>,
    metadata: Mutex<HashMap<String, Arc<MetadataColumn>, FixedState>>,
    lengths: OnceLock<Arc<LengthCache>>,
    /// Whether a text may have the mark [`TextMark::XmlValue`].
    divides_xml_values: OnceLock<bool>,
}

/// Inputs of the facts about a slab: fields, paths and conditions of the search, with their rules.
pub(super) struct SlabRequest<'a> {
    pub rules: &'a FieldRules,
    pub names: &'a [String],
    pub paths: &'a [PushedPaths],
    /// Whether the names include listed fields ([`mod@super::listed_names`]).
    pub is_listed: bool,
    /// Number of words in the conditions.
    pub words: usize,
    /// Fields of the tests in the conditions, in order.
    pub tested: Vec<&'a str>,
    pub computed: Option<&'a Arc<ComputedFields>>,
    pub messages: &'a Messages,
}

/// Fields of a slab: those extracted, the aliases of others, and those that rules compute.
struct LocatedFields<'a> {
    fields: &'a HashMap<String, Arc<FieldLocations>, FixedState>,
    aliases: &'a HashMap<String, Arc<FieldLocations>, FixedState>,
    computed: Option<&'a ComputedFields>,
}

impl<'a> LocatedFields<'a> {
    /// Location of a field; `None` if rules compute the field, or if it was not requested.
    fn field(&self, name: &str) -> Option<&'a FieldLocations> {
        let is_computed = || self.computed.is_some_and(|computed| computed.has_output(name));
        match self.aliases.get(name) {
            Some(field) => Some(field.as_ref()),
            None if is_computed() => None,
            None => self.fields.get(name).map(Arc::as_ref),
        }
    }
}

impl SlabCache {
    /// An empty cache of slabs; `known_templates` holds facts from earlier searches.
    pub(crate) fn new(known_templates: Arc<TemplateFactsCache>) -> SlabCache {
        SlabCache { slabs: Mutex::default(), facts_cache: known_templates }
    }

    /// The slab of a segment; `None` if its texts are plain.
    pub(super) fn of(
        &self,
        segment: &Arc<dyn Segment>,
        asked: &SlabRequest<'_>,
    ) -> Result<Option<Arc<Slab>>, EngineError> {
        let mut known = self.slabs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slab)) = known.iter().find(|(known, _)| Arc::ptr_eq(known, segment)) {
            return Ok(slab.clone());
        }
        let slab = match segment.template_set()? {
            Some(set) => {
                let slab = Slab::new(segment, self.facts_cache.of(&set), set, asked);
                slab.map(|slab| Arc::new(if asked.is_listed { slab.with_open_keys(asked) } else { slab }))
            }
            None => None,
        };
        if known.len() == CACHED_SLABS_MAX {
            known.remove(0);
        }
        known.push((Arc::clone(segment), slab.clone()));
        assert!(known.len() <= CACHED_SLABS_MAX, "the number of cached slabs is limited");
        Ok(slab)
    }
}

impl SlabRequest<'_> {
    /// The names of the fields to locate: the fields of the search, and the fields from which rules compute them.
    pub(super) fn names_to_locate(&self) -> Vec<String> {
        let mut names = self.names.to_vec();
        names.extend(self.computed.iter().flat_map(|computed| computed.input_fields()).cloned());
        names.retain(|name| !is_intrinsic_field(name));
        names
    }
}

/// The different extraction classes of the metadata of a slab, and the number of the class of each.
pub(super) fn extraction_classes(
    metas: &[Metadata],
    names: &[String],
    asked: &SlabRequest<'_>,
) -> (Vec<ExtractionClass>, Vec<u32>) {
    let mut classes: Vec<ExtractionClass> = Vec::new();
    let mut class_of = Vec::with_capacity(metas.len());
    for meta in metas {
        let class = asked.rules.extraction_class(meta, names, asked.messages);
        let known = classes.iter().position(|known| known.is_equivalent(&class));
        class_of.push(u32_of(known.unwrap_or(classes.len())));
        classes.extend(known.is_none().then_some(class));
    }
    (classes, class_of)
}

/// Adds the fields from which rules derive others, and sorts the names.
fn add_sources(names: &mut Vec<String>, classes: &[ExtractionClass]) {
    names.extend(classes.iter().flat_map(|class| &class.field_patterns).map(|rule| rule.field.clone()));
    names.sort_unstable();
    names.dedup();
}

/// Asserts that each name has a location for each key, including names whose locations other searches computed for
/// these templates.
fn assert_complete(found: &[Arc<FieldLocations>], names: usize, keys: usize) {
    assert_eq!(found.len(), names, "each name has locations");
    assert!(found.iter().all(|field| field.has_keys(keys)), "a field has a location for each key");
}

impl Slab {
    pub(super) fn new(
        segment: &Arc<dyn Segment>,
        facts: Arc<TemplateFacts>,
        set: Arc<TemplateSet>,
        asked: &SlabRequest<'_>,
    ) -> Option<Slab> {
        let Some(ColumnKind::Templates(templates)) = set.columns.first().map(|column| column.kind.clone()) else {
            return None;
        };
        let metas = segment.metas();
        let mut names = asked.names_to_locate();
        let stored = find_stored(&set, &metas, &names, asked.rules, asked.messages);
        names.retain(|name| !stored.iter().any(|(known, _)| known == name));
        let (mut classes, class_of) = extraction_classes(&metas, &names, asked);
        let (extracts, extracts_of) = merge_extracts(&mut classes);
        let dictionary = |column| segment.dictionary(column).ok();
        let find = |names: &[String]| {
            let json = JsonColumns::new(&set, &dictionary);
            let xml = XmlColumns::new(&set, &dictionary);
            let known = ColumnAccess { json: &json, xml: &xml, dictionary: &dictionary, facts: &facts };
            locate_fields(&set, &templates, &classes, names, &known)
        };
        add_sources(&mut names, &classes);
        let places = facts.locations_of(NameKind::Field, &names, &classes, find);
        let keys = classes.len() * templates.len();
        assert_complete(&places, names.len(), keys);
        let mut fields: HashMap<String, Arc<FieldLocations>, FixedState> = names.into_iter().zip(places).collect();
        let overriding_columns = add_index_time_columns(&set, &classes, &asked.tested, keys, &mut fields);
        for (name, values) in stored {
            let mut located = FieldLocations::of_stored(&values, keys, &name);
            if matches!(&values, StoredValues::Parts(parts) if parts.codes == TEXT_COLUMN) {
                located.column = sole_column(&set, &templates, &located);
            }
            fields.insert(name, Arc::new(located));
        }
        let aliases = asked.computed.map(|computed| locate_aliases(computed, &fields)).unwrap_or_default();
        let computed_of = collect_computed_inputs(asked, &fields);
        let (json, xml) = (JsonColumns::new(&set, &dictionary), XmlColumns::new(&set, &dictionary));
        let located = LocatedFields { fields: &fields, aliases: &aliases, computed: asked.computed.map(Arc::as_ref) };
        let paths = locate_paths(asked.paths, (&set, &templates), &classes, &located, (&facts, &json, &xml));
        Some(Slab {
            segment: Arc::clone(segment),
            metas,
            templates: templates.len(),
            class_of,
            classes: classes.len(),
            extracts,
            extracts_of,
            fields,
            aliases,
            paths,
            overriding_columns,
            open_keys: None,
            computed: asked.computed.cloned(),
            computed_of,
            words: (0..asked.words).map(|_| OnceLock::new()).collect(),
            tests: asked.tested.iter().map(|_| OnceLock::new()).collect(),
            by_value: OnceLock::new(),
            values: Mutex::default(),
            codes_with: Mutex::default(),
            unseparated: Mutex::default(),
            coded: Mutex::default(),
            derived: Mutex::default(),
            metadata: Mutex::default(),
            lengths: OnceLock::new(),
            divides_xml_values: OnceLock::new(),
            facts,
            template_set: set,
        })
    }

    /// Finds the keys whose events may have fields that are not listed.
    fn with_open_keys(mut self, asked: &SlabRequest<'_>) -> Slab {
        let Some(ColumnKind::Templates(templates)) = self.template_set.columns.first().map(|column| &column.kind)
        else {
            return self;
        };
        let dictionary = |column| self.segment.dictionary(column).ok();
        let slab = ListedSlab {
            set: &self.template_set,
            templates,
            facts: &self.facts,
            dictionary: &dictionary,
            metas: &self.metas,
            rules: asked.rules,
            messages: asked.messages,
        };
        let first_of = |class: usize| self.class_of.iter().position(|known| *known as usize == class);
        let one_of_each = (0..self.classes).filter_map(|class| self.metas.get(first_of(class)?));
        let open_keys = slab.open_keys(one_of_each);
        self.open_keys = open_keys;
        self
    }

    /// Whether the slab has events of this scope, which is XML, and markup or references may divide their values.
    pub(super) fn may_divide_xml_values(&self, scope: &Scope) -> bool {
        self.metas.iter().any(|meta| scope.contains_ignore_case(&meta.sourcetype))
            && *self.divides_xml_values.get_or_init(|| TextMark::XmlValue.may_be_in(&self.template_set))
    }

    /// Number of extraction classes of the slab's sources.
    pub(super) fn class_count(&self) -> usize {
        self.classes
    }

    /// Number of keys.
    pub(super) fn key_count(&self) -> usize {
        self.classes * self.templates
    }

    /// The key of an event.
    #[inline]
    pub(super) fn key(&self, meta: u32, template: u32) -> u32 {
        self.class_of.get(meta as usize).copied().unwrap_or(0) * u32_of(self.templates) + template
    }

    /// The class of an event with this key.
    #[inline]
    pub(super) fn class_of_key(&self, key: u32) -> usize {
        key as usize / self.templates.max(1)
    }

    /// Patterns that produce requested fields; earlier patterns take precedence.
    pub(super) fn extracts(&self) -> &[Arc<Extract>] {
        &self.extracts
    }

    /// Whether a pattern must be evaluated to obtain this stored field.
    pub(super) fn needs_pattern(&self, name: &str) -> bool {
        self.stored_field(name).is_some_and(|field| !field.patterned.is_empty())
    }

    /// Whether a pattern must be evaluated for any requested field.
    pub(super) fn needs_any_pattern(&self) -> bool {
        self.fields.values().any(|field| !field.patterned.is_empty())
    }

    /// For each class, whether it has this pattern.
    pub(super) fn classes_of(&self, extract: &Arc<Extract>) -> Vec<bool> {
        let at = self.extracts.iter().position(|known| Arc::ptr_eq(known, extract));
        self.extracts_of.iter().map(|has| at.is_some_and(|at| has[at])).collect()
    }

    /// Location of a field as extracted, before aliases and calculations; `None` for a field that is not read.
    pub(super) fn stored_field(&self, name: &str) -> Option<&FieldLocations> {
        self.fields.get(name).map(Arc::as_ref)
    }

    /// Location of a field; `None` if the field is computed or was not requested.
    pub(super) fn field(&self, name: &str) -> Option<&FieldLocations> {
        let (fields, aliases, computed) = (&self.fields, &self.aliases, self.computed());
        LocatedFields { fields, aliases, computed }.field(name)
    }

    /// Whether the search reads a field of this name, so that an index-time field of that name matters.
    pub(super) fn reads_field(&self, name: &str) -> bool {
        self.fields.contains_key(name) || self.aliases.contains_key(name) || self.is_produced_by_rules(name)
    }

    /// Locations of the values at the search's paths, for each text (the event or a field) that has paths.
    pub(super) fn paths(&self) -> &[LocatedPaths] {
        &self.paths
    }

    /// Columns of index-time fields that override locations in the text: events with a value in such a column are read
    /// as text.
    pub(super) fn overriding_columns(&self) -> &[u32] {
        &self.overriding_columns
    }

    /// For each key, whether its events may have fields beyond those that the search lists, so that they are read as
    /// text; `None` if no event may.
    pub(super) fn open_keys(&self) -> Option<&[bool]> {
        self.open_keys.as_deref()
    }

    fn is_produced_by_rules(&self, name: &str) -> bool {
        self.computed.as_ref().is_some_and(|computed| computed.has_output(name))
    }

    /// Whether rules compute a field from columns.
    pub(super) fn is_computed(&self, name: &str) -> bool {
        !self.aliases.contains_key(name) && self.is_produced_by_rules(name)
    }

    /// Whether a condition must compute the field for single rows, because rules or patterns produce it.
    pub(super) fn is_computed_for(&self, name: &str) -> bool {
        self.is_computed(name) || self.field(name).is_some_and(|field| !field.patterned.is_empty())
    }

    /// Fields computed by rules.
    pub(super) fn computed(&self) -> Option<&ComputedFields> {
        self.computed.as_deref()
    }

    /// Fields that computed fields read, and tested fields that patterns produce.
    pub(super) fn computed_inputs(&self) -> &[String] {
        &self.computed_of
    }

    /// Plan for word number `at`.
    pub(super) fn word_plan(&self, at: usize, word: &Word) -> Result<SharedPlan, EngineError> {
        compute_once(self.words.get(at), || self.plan_word(word).map(Arc::new))
    }

    /// A plan for a word that has no number.
    pub(super) fn plan_word(&self, word: &Word) -> Result<WordPlan, EngineError> {
        word.plan(&self.template_set, &self.facts.word_facts(&self.template_set), self.segment.as_ref())
    }

    /// Plan for field test number `at`, computed with `plan` the first time.
    pub(super) fn test_plan(
        &self,
        at: usize,
        plan: impl FnOnce() -> Result<FieldPlan, EngineError>,
    ) -> Result<Arc<FieldPlan>, EngineError> {
        compute_once(self.tests.get(at), || plan().map(Arc::new))
    }

    /// Answers of the condition by value of one column, computed with `find` the first time; `None` if they depend on
    /// several columns.
    pub(super) fn by_value(
        &self,
        find: impl FnOnce() -> Result<Option<ByValue>, EngineError>,
    ) -> Result<Option<ByValue>, EngineError> {
        compute_once(Some(&self.by_value), find)
    }

    /// The texts of a dictionary as one array, which all workers share.
    pub(super) fn dictionary_values(&self, column: u32) -> Result<ArrayRef, EngineError> {
        let mut known = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(values) = known.get(&column) {
            return Ok(Arc::clone(values));
        }
        let dictionary = self.segment.dictionary(column)?;
        let values = text_array(&dictionary.bytes, &dictionary.ends)?;
        known.insert(column, Arc::clone(&values));
        Ok(values)
    }

    /// The dictionary of one of the slab's fields, which all workers share; `None` if it has too many values.
    pub(super) fn coded_field(&self, field: &FieldLocations) -> Result<Option<Arc<CodedField>>, EngineError> {
        let mut known = self.coded.lock().unwrap_or_else(PoisonError::into_inner);
        let address = std::ptr::from_ref(field).addr();
        if let Some(coded) = known.get(&address) {
            return Ok(coded.clone());
        }
        let coded = CodedField::of(field, &self.template_set, self.segment.as_ref())?.map(Arc::new);
        known.insert(address, coded.clone());
        Ok(coded)
    }

    /// By dictionary text: whether the text contains the end of a key; computed once.
    pub(super) fn codes_with_key_end(&self, column: u32, end: &KeyEnd) -> Result<Arc<[bool]>, EngineError> {
        let mut known = self.codes_with.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, holds)) = known.iter().find(|(of, known, _)| *of == column && known == end) {
            return Ok(Arc::clone(holds));
        }
        let holds: Arc<[bool]> = end.matches_in_texts(self.segment.dictionary(column)?.iter()).into();
        known.push((column, end.clone(), Arc::clone(&holds)));
        Ok(holds)
    }

    /// By dictionary text: whether the text does not end with a separator; computed once.
    pub(super) fn unseparated_codes(&self, column: u32) -> Result<Arc<[bool]>, EngineError> {
        let mut known = self.unseparated.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(codes) = known.get(&column) {
            return Ok(Arc::clone(codes));
        }
        let codes: Arc<[bool]> = self.segment.dictionary(column)?.iter().map(is_unseparated).collect();
        known.insert(column, Arc::clone(&codes));
        Ok(codes)
    }

    /// Cached lengths of values.
    pub(super) fn value_lengths(&self) -> Arc<LengthCache> {
        Arc::clone(self.lengths.get_or_init(|| Arc::new(LengthCache::of(&self.template_set))))
    }

    /// Memo of the values derived from the values of a field or column, shared by all workers.
    pub(super) fn derived_memo(&self, derived: &Derivation) -> Arc<DistinctMemo> {
        let mut known = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(derived.key()).or_default())
    }

    /// The distinct texts of a metadata field, shared by all workers.
    pub(super) fn metadata(&self, field: &str) -> Arc<MetadataColumn> {
        let mut known = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(column) = known.get(field) {
            return Arc::clone(column);
        }
        let column = Arc::new(MetadataColumn::new(&self.metas, field));
        known.insert(field.to_owned(), Arc::clone(&column));
        column
    }
}

/// Replaces the locations of fields with the columns of index-time fields if such a column suffices, and adds the
/// columns of the index-time fields `tested` (`field::value`). Returns the columns that do not suffice: other events
/// may have the field in their text, or rules read the field.
fn add_index_time_columns(
    set: &TemplateSet,
    classes: &[ExtractionClass],
    tested: &[&str],
    keys: usize,
    fields: &mut HashMap<String, Arc<FieldLocations>, FixedState>,
) -> Vec<u32> {
    let events = set.columns.first().map_or(0, |texts| texts.values);
    let is_total = |column: u32| set.columns[column as usize].values == events;
    let mut doubting = Vec::new();
    for FieldColumn { name, column } in &set.fields {
        let Some(field) = fields.get_mut(&**name) else { continue };
        match field.with_index_time(*column, is_total(*column), keys, name) {
            Some(located) => *field = Arc::new(located),
            None => doubting.push(*column),
        }
    }
    let patterns = |class: &ExtractionClass| [class.field_patterns.clone(), class.text_patterns.clone()].concat();
    let of_fields = classes.iter().flat_map(patterns).filter_map(|rule| set.field_column(&rule.field));
    let of_reports = classes.iter().flat_map(|class| class.reports.iter().map(|report| report.source.as_str()));
    doubting.extend(of_fields.chain(of_reports.filter_map(|source| set.field_column(source))));
    for test in tested.iter().filter(|name| is_index_time_column(name)) {
        let column = set.field_column(index_time_field(test));
        fields.insert((*test).to_owned(), Arc::new(FieldLocations::of_index_time(column, keys, test)));
    }
    doubting.sort_unstable();
    doubting.dedup();
    doubting
}

/// The fields that computed fields read, and tested fields that patterns produce.
fn collect_computed_inputs(
    asked: &SlabRequest<'_>,
    fields: &HashMap<String, Arc<FieldLocations>, FixedState>,
) -> Vec<String> {
    let patterned = (asked.tested.iter().copied())
        .filter(|name| fields.get(*name).is_some_and(|field| !field.patterned.is_empty()));
    let read = asked.computed.iter().flat_map(|computed| computed.input_fields()).map(String::as_str);
    let mut names: Vec<String> = read.chain(patterned).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Locations of fields that are mere aliases in all events of a slab; fields that patterns produce have none.
fn locate_aliases(
    computed: &ComputedFields,
    fields: &HashMap<String, Arc<FieldLocations>, FixedState>,
) -> HashMap<String, Arc<FieldLocations>, FixedState> {
    let mut aliases = HashMap::default();
    for alias in &computed.aliases {
        let is_new = !alias.only_new || fields.get(&alias.target).is_some_and(|field| field.is_always_absent());
        if let Some(source) = fields.get(&alias.source).filter(|source| is_new && source.patterned.is_empty()) {
            aliases.insert(alias.target.clone(), Arc::clone(source));
        }
    }
    aliases
}

fn compute_once<T: Clone>(
    place: Option<&OnceLock<T>>,
    make: impl FnOnce() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let Some(place) = place else { return make() };
    match place.get() {
        Some(made) => Ok(made.clone()),
        // Two workers may compute the result at the same time; one result is kept.
        None => {
            let made = make()?;
            Ok(place.get_or_init(|| made).clone())
        }
    }
}

/// Access to the values of a slab's columns, and to facts about them.
struct ColumnAccess<'a> {
    json: &'a JsonColumns<'a>,
    xml: &'a XmlColumns<'a>,
    dictionary: &'a dyn Fn(u32) -> Option<Arc<Dictionary>>,
    facts: &'a TemplateFacts,
}

impl ColumnAccess<'_> {
    /// The locations of fields by automatic extraction.
    fn automatic_locations(
        &self,
        template_set: &TemplateSet,
        template: &Template,
        automatic: AutoExtraction,
        names: &[String],
    ) -> Vec<FieldLocation> {
        match automatic.kv_mode {
            KvMode::Xml if !automatic.by_pattern => {
                self.xml.locations(template, names).into_iter().map(FieldLocation::from).collect()
            }
            _ => template_locations(template_set, template, automatic, names, self.json),
        }
    }
}

fn locate_fields(
    template_set: &TemplateSet,
    templates: &[Template],
    classes: &[ExtractionClass],
    names: &[String],
    known: &ColumnAccess<'_>,
) -> Vec<FieldLocations> {
    // Includes the fields that requested fields are derived from.
    let mut all = names.to_vec();
    let sources = classes.iter().flat_map(|class| &class.field_patterns);
    sources.for_each(|rule| all.extend((!all.contains(&rule.field)).then(|| rule.field.clone())));
    let pairs_of =
        |report: &Arc<Report>| known.facts.pairs_for(report, || TemplatePairs::new(report, template_set, templates));
    let keys = classes.len() * templates.len();
    let mut by_name: Vec<Vec<ValueLocation>> = vec![Vec::with_capacity(keys); all.len()];
    let mut patterned: Vec<Vec<bool>> = vec![Vec::with_capacity(keys); all.len()];
    let mut doubts: Vec<Vec<Box<[AmbiguousColumn]>>> = vec![Vec::with_capacity(keys); all.len()];
    let mut divided: Vec<DividedKeys> = all.iter().map(|_| DividedKeys::default()).collect();
    let budget = PlanningBudget::of_events(template_set.columns.first().map_or(0, |texts| texts.values as usize));
    let mut lists = ListedValues::default();
    let mut values = |column: u32| lists.of_column(template_set, column, known.dictionary);
    for ExtractionClass { automatic, text_patterns: of_text, field_patterns, reports } in classes {
        let planner = |report| ReportPlanner::new(report, &all, template_set, known.dictionary, &pairs_of);
        let reports: Vec<ReportPlanner<'_>> = reports.iter().map(planner).collect();
        // A rule that derives the field from another field applies only where the field is not found otherwise. If
        // there is such a rule, the field's location must not differ by code.
        let divides = |name: &str| field_patterns.iter().all(|rule| rule.group(name).is_none());
        let named = |name: &String| NamedRules::new(of_text, name, template_set, divides(name), &budget);
        let mut rules: Vec<NamedRules<'_>> = all.iter().map(named).collect();
        let mut shared = SharedPlans::new(of_text, &all, template_set, &budget);
        for (number, template) in templates.iter().enumerate() {
            let asked = PlannedTemplate::new(template_set, number, template);
            let mut found = known.automatic_locations(template_set, template, *automatic, &all);
            // For JSON texts, a JSON value is added to the value that a pattern found.
            let joins = may_be_json(template_set, template, *automatic);
            if !automatic.by_pattern {
                apply_reports(&reports, &asked, &all, joins, &mut found);
            }
            for (at, (rules, other)) in rules.iter_mut().zip(found).enumerate() {
                let mut located = |rule| apply_rule(rule, joins, other.clone());
                let united = |parts: &[(&KeyLocation, &[u32])]| KeyLocation::united(parts, template_set);
                let located = rules.location(&asked, &mut shared, &mut values).map(&mut located, &united);
                let located = separate_division(by_name[at].len(), located, &mut divided[at]);
                by_name[at].push(located.place);
                patterned[at].push(located.is_patterned);
                doubts[at].push(located.ambiguous_columns);
            }
        }
    }
    let mut derived: Vec<Option<DerivedField>> = (names.iter().enumerate())
        .map(|(at, name)| DerivedField::find(name, at, &all, classes, &mut by_name, &patterned, &mut doubts))
        .collect();
    let named = by_name.into_iter().zip(patterned).zip(doubts).zip(divided);
    let named = named.zip(names.iter().zip(&mut derived)).map(|((parts, divided), (name, derived))| {
        let ((places, patterned), doubts) = parts;
        let located = places.into_iter().zip(patterned).zip(doubts);
        let located = located.map(|((place, is_patterned), ambiguous_columns)| KeyLocation {
            place,
            is_patterned,
            ambiguous_columns,
        });
        let (split, mut located) = split_keys(templates, located.collect(), divided);
        if name == LINE_COUNT_FIELD {
            locate_line_count(template_set, templates, classes, split.as_deref(), &mut located);
        }
        field_locations(template_set, templates, located, split, name, derived.take())
    });
    named.collect()
}

/// The keys of a field that are divided.
type DividedKeys = HashMap<usize, Division<KeyLocation>, FixedState>;

/// The location for a whole key. If the parts of the key have different locations, the locations are added to
/// `divided`, and rules that read the field treat it as a field that a pattern extracts.
fn separate_division(key: usize, location: Division<KeyLocation>, divided: &mut DividedKeys) -> KeyLocation {
    match location {
        Division::Whole(location, _) => location,
        division => {
            divided.insert(key, division);
            KeyLocation { place: ValueLocation::Text, is_patterned: true, ambiguous_columns: Box::default() }
        }
    }
}

/// Replaces the locations of keys with the locations of their parts.
fn split_keys(
    templates: &[Template],
    located: Vec<KeyLocation>,
    mut divided: DividedKeys,
) -> (Option<Arc<KeySplit>>, Vec<KeyLocation>) {
    if divided.is_empty() {
        return (None, located);
    }
    let whole = |(key, known): (usize, KeyLocation)| match divided.remove(&key) {
        Some(division) => division,
        None => Division::Whole(known, templates[key % templates.len()].variables().collect()),
    };
    let (split, located) = KeySplit::of(located.into_iter().enumerate().map(whole).collect());
    (Some(Arc::new(split)), located)
}

/// Everything known about a field, given its locations by key.
fn field_locations(
    template_set: &TemplateSet,
    templates: &[Template],
    located: Vec<KeyLocation>,
    split: Option<Arc<KeySplit>>,
    name: &str,
    derived: Option<DerivedField>,
) -> FieldLocations {
    let (mut places, mut patterned, mut doubts) = (Vec::new(), Vec::new(), Vec::new());
    for KeyLocation { place, is_patterned, ambiguous_columns } in located {
        places.push(place);
        patterned.push(is_patterned);
        doubts.push(ambiguous_columns);
    }
    let is_open = doubts.iter().any(|columns| !columns.is_empty());
    let doubts = if is_open { doubts } else { Vec::new() };
    let patterned = if patterned.contains(&true) { patterned } else { Vec::new() };
    let mut field = FieldLocations {
        column: None,
        repeatable_columns: repeatable_columns(&places),
        by_text: is_open || !are_single_values(&places),
        locations: places,
        split,
        ambiguous_columns: doubts,
        key_end: KeyEnd::of(name),
        patterned,
        columns: None,
        derived: derived.map(Derivation::Pattern),
    };
    field.column = sole_column(template_set, templates, &field);
    field.columns = field.patterned.is_empty().then(|| value_columns(template_set, templates, &field));
    field
}

/// The locations of the values at the paths of a search.
fn locate_paths(
    paths: &[PushedPaths],
    (set, templates): (&TemplateSet, &[Template]),
    classes: &[ExtractionClass],
    fields: &LocatedFields<'_>,
    (facts, json, xml): (&TemplateFacts, &JsonColumns<'_>, &XmlColumns<'_>),
) -> Vec<LocatedPaths> {
    let of_text = |of_text: &PushedPaths| {
        let roots = match of_text.source.as_str() {
            TEXT_FIELD => PathRoots::Events { classes: classes.len() },
            field => PathRoots::Field(fields.field(field).filter(|field| field.patterned.is_empty())?),
        };
        let find = |keys: &[String]| -> Vec<FieldLocations> {
            let missing = of_text.paths.iter().filter(|path| keys.contains(&path.key));
            missing.map(|path| locate_path(set, templates, &roots, path, (json, xml))).collect()
        };
        let keys: Vec<String> = of_text.paths.iter().map(|path| path.key.clone()).collect();
        let found = match fields.aliases.contains_key(&of_text.source) {
            // Other searches may have other rules for the alias.
            true => find(&keys).into_iter().map(Arc::new).collect(),
            false => facts.locations_of(NameKind::Path, &keys, classes, find),
        };
        assert_complete(&found, keys.len(), classes.len() * templates.len());
        Some(found)
    };
    paths.iter().map(of_text).collect()
}

/// The locations of the values at a path, given by key; `split` divides the keys.
pub(super) fn located_path(
    template_set: &TemplateSet,
    templates: &[Template],
    places: Vec<ValueLocation>,
    split: Option<Arc<KeySplit>>,
    name: &str,
) -> FieldLocations {
    let mut field = FieldLocations {
        column: None,
        by_text: !are_single_values(&places),
        repeatable_columns: repeatable_columns(&places),
        ambiguous_columns: Vec::new(),
        key_end: KeyEnd::of(name),
        patterned: Vec::new(),
        columns: None,
        derived: None,
        locations: places,
        split,
    };
    field.column = sole_column(template_set, templates, &field);
    field
}

/// Whether the locations suffice to read the field, and each has at most one value.
fn are_single_values(places: &[ValueLocation]) -> bool {
    !places.iter().any(|place| matches!(place, ValueLocation::List(_) | ValueLocation::Text))
}

/// The columns at locations where several columns may have a value in the same row.
fn repeatable_columns(places: &[ValueLocation]) -> Vec<u32> {
    let mut columns: Vec<u32> = Vec::new();
    for place in places {
        if let ValueLocation::Nested(nested) = place
            && nested.may_repeat
        {
            columns.extend(nested.values.iter().map(|value| value.column));
        }
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Applies the transforms of a template: the first that finds a field wins, even over automatic extraction. With
/// `joins`, a field found twice is read from the text.
fn apply_reports(
    reports: &[ReportPlanner<'_>],
    template: &PlannedTemplate<'_>,
    names: &[String],
    joins: bool,
    found: &mut [FieldLocation],
) {
    for report in reports.iter().rev() {
        for (found, place) in found.iter_mut().zip(report.locations(template, names)) {
            match place {
                ValueLocation::Absent => {}
                _ if joins && found.place != ValueLocation::Absent => *found = ValueLocation::Text.into(),
                // In rows where this cell is empty, another rule or automatic extraction provides the value.
                place if place.may_be_empty() && *found != ValueLocation::Absent.into() => {
                    *found = ValueLocation::Text.into();
                }
                place => *found = place.into(),
            }
        }
    }
}

/// The location of a field with this result of its rules; `other` is where automatic extraction or a transform finds
/// the field.
fn apply_rule(rule: RuleLocation, joins: bool, other: FieldLocation) -> KeyLocation {
    let is_joined = joins && other.place != ValueLocation::Absent;
    let (other, is_patterned) = match rule {
        RuleLocation::Nowhere => (other, false),
        RuleLocation::At(_) | RuleLocation::ByValue if is_joined => (ValueLocation::Text.into(), false),
        RuleLocation::At(place) => (place.into(), false),
        // If the pattern finds nothing, the other location may still be wrong in some rows, so the text is searched.
        RuleLocation::ByValue if !other.ambiguous_columns.is_empty() => (ValueLocation::Text.into(), true),
        RuleLocation::ByValue => (other, true),
    };
    KeyLocation { place: other.place, is_patterned, ambiguous_columns: other.ambiguous_columns }
}

/// The column that holds the field in every template that may have it; `None` if the field has values outside it.
fn sole_column(template_set: &TemplateSet, templates: &[Template], field: &FieldLocations) -> Option<u32> {
    let column = field.locations.iter().find_map(ValueLocation::column)?;
    let has_values = field.column_presence(template_set, templates, column);
    let agrees = |(key, place): (usize, &ValueLocation)| is_consistent(place, column, || has_values(key));
    field.locations.iter().enumerate().all(agrees).then_some(column)
}
