//! What a search has worked out about one slab: where fields lie, what words and conditions say of its columns.
//!
//! All of it is made when first needed and shared by the workers. A source's way of cutting fields is its *class*; a
//! class and a template together are a *key*, by which places of fields are looked up. Slabs with one class need no
//! metadata for that.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::ArrayRef;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::Metadata;
use quarry_event::shape::{ColumnKind, Shapes, Template};
use quarry_store::Segment;

use super::conditions::FieldPlan;
use super::facts::{KnownShapes, ShapeFacts};
use super::fields::{Cutting, Place, places};
use super::words::{SharedPlan, Word};
use super::{columns, conditions};
use crate::EngineError;
use crate::command::Messages;
use crate::scan::fields::FieldRules;

/// Slabs a search remembers; they are read one after the other.
const SLABS_KEPT: usize = 64;

/// The slabs a search has begun to read.
#[derive(Default)]
pub(crate) struct Slabs {
    begun: Mutex<Vec<Known>>,
    /// What holds of slabs for every search.
    shapes: Arc<KnownShapes>,
}

/// A segment and its slab, if that is shaped.
type Known = (Arc<dyn Segment>, Option<Arc<Slab>>);

/// What is known of a shaped slab.
pub(super) struct Slab {
    pub segment: Arc<dyn Segment>,
    pub shapes: Arc<Shapes>,
    facts: Arc<ShapeFacts>,
    pub metas: Arc<[Metadata]>,
    templates: usize,
    /// Class of each metadata.
    class_of: Vec<u32>,
    classes: usize,
    fields: HashMap<String, FieldPlaces, FixedState>,
    words: Vec<OnceLock<SharedPlan>>,
    tests: Vec<OnceLock<Arc<FieldPlan>>>,
    values: Mutex<HashMap<u32, ArrayRef, FixedState>>,
    metadata: Mutex<HashMap<String, Arc<columns::MetadataColumn>, FixedState>>,
}

/// Where a field lies in the texts of a slab.
pub(super) struct FieldPlaces {
    /// By key.
    pub places: Vec<Place>,
    /// The column whose values are the field's, if that says it all.
    pub column: Option<u32>,
    /// Whether some template leaves it to the text.
    pub by_text: bool,
}

/// What is asked of a slab.
pub(super) struct Asked<'a> {
    pub rules: &'a FieldRules,
    pub names: &'a [String],
    pub conditions: &'a conditions::Conditions,
    pub messages: &'a Messages,
}

impl Slabs {
    /// No slab yet; `shapes` has what earlier searches worked out.
    pub(crate) fn new(shapes: Arc<KnownShapes>) -> Slabs {
        Slabs { begun: Mutex::default(), shapes }
    }

    /// The slab of a segment; `None` if its texts are plain.
    pub(super) fn of(&self, segment: &Arc<dyn Segment>, asked: &Asked<'_>) -> Result<Option<Arc<Slab>>, EngineError> {
        let mut known = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slab)) = known.iter().find(|(known, _)| Arc::ptr_eq(known, segment)) {
            return Ok(slab.clone());
        }
        let slab = match segment.shapes()? {
            Some(shapes) => Slab::new(segment, self.shapes.of(&shapes), shapes, asked).map(Arc::new),
            None => None,
        };
        if known.len() == SLABS_KEPT {
            known.remove(0);
        }
        known.push((Arc::clone(segment), slab.clone()));
        Ok(slab)
    }
}

impl Slab {
    fn new(segment: &Arc<dyn Segment>, facts: Arc<ShapeFacts>, shapes: Arc<Shapes>, asked: &Asked<'_>) -> Option<Slab> {
        let Some(ColumnKind::Templates(templates)) = shapes.columns.first().map(|column| &column.kind) else {
            return None;
        };
        let templates = Arc::clone(templates);
        let metas = segment.metas();
        let mut cuttings: Vec<Cutting> = Vec::new();
        let class_of = metas.iter().map(|meta| {
            let cutting = asked.rules.cutting(meta, asked.names, asked.messages);
            let known = cuttings.iter().position(|known| *known == cutting);
            known.unwrap_or_else(|| {
                cuttings.push(cutting);
                cuttings.len() - 1
            }) as u32
        });
        let class_of = class_of.collect();
        let fields = fields_of(&shapes, &templates, &cuttings, asked.names);
        Some(Slab {
            segment: Arc::clone(segment),
            metas,
            templates: templates.len(),
            class_of,
            classes: cuttings.len(),
            fields,
            words: asked.conditions.words().iter().map(|_| OnceLock::new()).collect(),
            tests: asked.conditions.tests().iter().map(|_| OnceLock::new()).collect(),
            values: Mutex::default(),
            metadata: Mutex::default(),
            facts,
            shapes,
        })
    }

    /// Number of ways in which its sources are cut.
    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// Number of keys.
    pub(super) fn keys(&self) -> usize {
        self.classes * self.templates
    }

    /// The key of an event.
    #[inline]
    pub(super) fn key(&self, meta: u32, template: u32) -> u32 {
        self.class_of.get(meta as usize).copied().unwrap_or(0) * self.templates as u32 + template
    }

    /// Where a field lies; `None` for a field that was not asked for.
    pub(super) fn field(&self, name: &str) -> Option<&FieldPlaces> {
        self.fields.get(name)
    }

    /// How word number `at` is answered.
    pub(super) fn word(&self, at: usize, word: &Word) -> Result<SharedPlan, EngineError> {
        made_once(self.words.get(at), || word.plan(&self.shapes, &self.facts, self.segment.as_ref()).map(Arc::new))
    }

    /// How test number `at` is answered.
    pub(super) fn test(&self, at: usize, test: &conditions::FieldTest) -> Result<Arc<FieldPlan>, EngineError> {
        made_once(self.tests.get(at), || test.plan(self).map(Arc::new))
    }

    /// The texts of a dictionary as one array, the same each time.
    pub(super) fn values(&self, column: u32) -> Result<ArrayRef, EngineError> {
        let mut known = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(values) = known.get(&column) {
            return Ok(Arc::clone(values));
        }
        let dictionary = self.segment.dictionary(column)?;
        let values = columns::text_array(&dictionary.bytes, &dictionary.ends)?;
        known.insert(column, Arc::clone(&values));
        Ok(values)
    }

    /// The distinct texts of a metadata field, the same each time.
    pub(super) fn metadata(&self, field: &str) -> Arc<columns::MetadataColumn> {
        let mut known = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(column) = known.get(field) {
            return Arc::clone(column);
        }
        let column = Arc::new(columns::MetadataColumn::new(&self.metas, field));
        known.insert(field.to_owned(), Arc::clone(&column));
        column
    }
}

fn made_once<T: Clone>(
    place: Option<&OnceLock<T>>,
    make: impl FnOnce() -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let Some(place) = place else { return make() };
    match place.get() {
        Some(made) => Ok(made.clone()),
        // Two workers may both make it; one is kept.
        None => {
            let made = make()?;
            Ok(place.get_or_init(|| made).clone())
        }
    }
}

fn fields_of(
    shapes: &Shapes,
    templates: &[Template],
    cuttings: &[Cutting],
    names: &[String],
) -> HashMap<String, FieldPlaces, FixedState> {
    let mut by_name: Vec<Vec<Place>> = vec![Vec::with_capacity(cuttings.len() * templates.len()); names.len()];
    for cutting in cuttings {
        for template in templates {
            let found = places(shapes, template, *cutting, names);
            by_name.iter_mut().zip(found).for_each(|(places, place)| places.push(place));
        }
    }
    let named = names.iter().zip(by_name).map(|(name, places)| {
        let column = only_column(templates, &places);
        let by_text = places.contains(&Place::Text);
        (name.clone(), FieldPlaces { places, column, by_text })
    });
    named.collect()
}

/// The column whose values are the field's in every template that names it, and in no other place is a value.
fn only_column(templates: &[Template], places: &[Place]) -> Option<u32> {
    let column = places.iter().find_map(|place| match place {
        Place::Slot(column) => Some(*column),
        _ => None,
    })?;
    let agrees = |(at, place): (usize, &Place)| {
        let named = templates[at % templates.len()].names(column);
        match place {
            Place::Slot(other) => *other == column,
            Place::Absent => !named,
            _ => false,
        }
    };
    places.iter().enumerate().all(agrees).then_some(column)
}
