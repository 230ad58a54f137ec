//! A template column under construction: known templates, the columns of their variables, and the handling of new
//! texts.
//!
//! The column of a variable follows from its *role*: the word directly before it and how often that word occurred
//! earlier in the same text. A role has the same column in all templates, so that the values after `status=` are one
//! column whatever else varies. If no word precedes the variable, its position says little: an optional field before it
//! shifts all later variables. The form of the value that adds the template is then part of the role ([`form_of`]), so
//! that a column of numbers gets no texts from other templates. Templates that begin alike have the same columns up to
//! where they differ. If a text fits no template, the templates are tried a second time with variables that accept
//! words without digits. If no template fits, the text gets a new template if there is room, and is stored as a plain
//! text otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_event::template::{
    MAX_COLUMNS, MAX_TEMPLATES, TEXT_COLUMN, Template, TemplatePart, ValueTraits, is_json_scalar, is_string_content,
};
use quarry_stdx::number::u32_of;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::builder::{Representation, SlabBuilder};
use super::classes::{BYTE_CLASSES, WORD, texts_equal};
use super::objects::{Entry, EntryKind, Schema, split_member};
use super::outline::lookup::{OutlineTemplate, OutlineTemplates};
use super::outline::{Outline, Role, split_pair};
use super::quantities::{Quantities, Quantity};
use super::trie::{FoundVariable, Span, Trie};
use super::variables::{Variable, VariableKind, split_event, split_words};

/// Number of templates and of columns reserved for the plain texts of template columns; also the maximum number of
/// template columns.
const RESERVED_FOR_PLAIN: usize = 512;
/// Maximum number of templates of a column: this many for each way in which its values are split, plus one per
/// `VALUES_PER_TEMPLATE` values.
const TEMPLATES_ALWAYS: usize = 256;
const VALUES_PER_TEMPLATE: usize = 50;
/// Number of values after which a column gives up learning templates if most of them were stored as plain texts.
const LEARNING_VALUES_MAX: usize = 4_096;
/// Maximum bytes, variables and literal bytes of a text with a template; other texts are stored as plain texts.
const TEMPLATE_TEXT_BYTES_MAX: usize = 256 << 10;
const TEMPLATE_VARIABLES_MAX: usize = 512;
const LITERAL_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of a role.
const ROLE_BYTES_MAX: usize = 64;
/// Number of bytes before a variable that form its role if no word precedes it.
const FALLBACK_ROLE_BYTES: usize = 8;
/// Occurrence number used for the role of plain texts.
const PLAIN_OCCURRENCE: u32 = u32::MAX;
/// First occurrence number for the role of an optional member.
const MEMBER_OCCURRENCE_BASE: u32 = 1 << 30;
/// First occurrence number for further members after a run of optional members.
const REST_OCCURRENCE_BASE: u32 = 1 << 31;
/// Flag in the occurrence number for the column of a role's irregular values.
const IRREGULAR_OCCURRENCE_FLAG: u32 = 1 << 29;
/// Position of a value's form in the occurrence number.
const FORM_SHIFT: u32 = 24;
const _: () = assert!(TEMPLATE_VARIABLES_MAX < 1 << FORM_SHIFT, "forms and occurrences do not overlap");
/// Occurrence numbers for the roles of index-time fields and of the words before them.
const CELL_OCCURRENCE: u32 = 0;
const GAP_OCCURRENCE: u32 = 1;
/// Depth of columns that are not split.
const PLAIN_DEPTH: u8 = u8::MAX - 1;

/// Way of splitting the values of a column.
#[derive(Debug)]
pub(super) enum Splitter {
    /// Whole events.
    Event,
    /// An optional member of a JSON object.
    Member,
    /// Words with digits.
    Words,
    /// Values that are split like whole events, such as the log line of a container in a JSON string.
    Message,
    /// Values with this layout: the same length and the same bytes outside of the variables.
    Layout { text: Vec<u8>, variables: Vec<Variable> },
    /// Numbers with units.
    Quantities(Quantities),
    /// Whole events in which the words between anchors are free text.
    Outline(Box<Outline>),
    /// An optional pair preceded by a blank.
    Pair,
    /// Whole events that consist of their index-time fields.
    Cells,
}

/// Whether all values so far can stand between JSON quotes, and whether all are JSON scalars. These traits cannot be
/// derived from templates: `\\n12` may be a backslash and the word `n12`.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonTraits {
    string_contents: bool,
    scalars: bool,
}

impl JsonTraits {
    /// Initial value for a splitter; events and members have quotes of their own.
    fn of(splitter: &Splitter) -> JsonTraits {
        let is_value =
            matches!(splitter, Splitter::Words | Splitter::Message | Splitter::Layout { .. } | Splitter::Quantities(_));
        JsonTraits { string_contents: is_value, scalars: is_value }
    }

    #[inline]
    fn add(&mut self, text: &[u8], is_unquoted: bool) {
        self.string_contents = self.string_contents && (is_unquoted || is_string_content(text));
        self.scalars = self.scalars && is_json_scalar(text);
    }

    pub(super) fn traits(self) -> ValueTraits {
        ValueTraits { string_contents: self.string_contents, json_scalars: self.scalars, ..ValueTraits::default() }
    }
}

/// A schema and, once a text fits it, its template and the columns of its variables.
#[derive(Debug)]
pub(super) struct SchemaTemplate {
    schema: Schema,
    template: Option<u32>,
    columns: Box<[u32]>,
}

#[derive(Debug)]
pub(super) struct TemplateColumn {
    /// Ways of splitting values; for whole events, one way for each kind.
    learners: Vec<TemplateLearner>,
    /// Index in `learners` of the way for the current value.
    learner_index: usize,
    pub(super) templates: Vec<Template>,
    pub(super) codes: Vec<u32>,
    /// Columns of the variables, ascending.
    pub(super) children: Vec<u32>,
    /// Template and column of plain texts.
    plain: Option<(u32, u32)>,
    /// Number of plain texts.
    pub(super) plain_values: usize,
    pub(super) json_traits: JsonTraits,
}

/// A way of splitting values, with the resulting templates.
#[derive(Debug)]
pub(super) struct TemplateLearner {
    splitter: Splitter,
    trie: Trie,
    schemas: Vec<SchemaTemplate>,
    roles: BTreeMap<(Box<[u8]>, u32), u32>,
    /// Templates of texts that an outline splits.
    outline_templates: OutlineTemplates,
    /// Template of the empty text.
    empty_template: Option<u32>,
    /// Distinguishes the columns of one kind of events from the columns of other kinds.
    path: u64,
}

impl TemplateLearner {
    pub(super) fn new(splitter: Splitter, schemas: Vec<Schema>, path: u64) -> TemplateLearner {
        let schemas = schemas
            .into_iter()
            .map(|schema| SchemaTemplate { schema, template: None, columns: Box::default() })
            .collect();
        let (trie, roles, outlined) = (Trie::new(), BTreeMap::new(), OutlineTemplates::default());
        TemplateLearner { splitter, trie, schemas, roles, outline_templates: outlined, empty_template: None, path }
    }
}

impl TemplateColumn {
    pub(super) fn new(splitter: Splitter) -> TemplateColumn {
        TemplateColumn::with_learners(vec![TemplateLearner::new(splitter, Vec::new(), 0)])
    }

    /// A column whose values are split in these ways.
    pub(super) fn with_learners(cutters: Vec<TemplateLearner>) -> TemplateColumn {
        let as_json = cutters
            .first()
            .map_or(JsonTraits { string_contents: false, scalars: false }, |cutter| JsonTraits::of(&cutter.splitter));
        TemplateColumn {
            json_traits: as_json,
            learners: cutters,
            learner_index: 0,
            templates: Vec::new(),
            codes: Vec::new(),
            children: Vec::new(),
            plain: None,
            plain_values: 0,
        }
    }

    fn learner(&self) -> &TemplateLearner {
        &self.learners[self.learner_index]
    }

    fn learner_mut(&mut self) -> &mut TemplateLearner {
        &mut self.learners[self.learner_index]
    }

    /// Whether there are schemas for texts.
    pub(super) fn has_schemas(&self) -> bool {
        self.learners.iter().any(|cutter| !cutter.schemas.is_empty())
    }

    /// Whether some texts consist of index-time fields.
    pub(super) fn has_cells(&self) -> bool {
        self.learners.iter().any(|learner| matches!(learner.splitter, Splitter::Cells))
    }

    /// The columns of index-time fields that are parts of the texts, with the names of the fields.
    pub(super) fn cell_columns(&self) -> Vec<(Arc<str>, u32)> {
        let of_cells = self.learners.iter().filter(|learner| matches!(learner.splitter, Splitter::Cells));
        let roles = of_cells.flat_map(|learner| &learner.roles).filter(|((_, times), _)| *times == CELL_OCCURRENCE);
        roles.filter_map(|((name, _), column)| Some((std::str::from_utf8(name).ok()?.into(), *column))).collect()
    }

    /// Whether the number of templates has reached the limit for this many values.
    pub(super) fn is_full(&self) -> bool {
        self.templates.len() >= TEMPLATES_ALWAYS * self.learners.len() + self.codes.len() / VALUES_PER_TEMPLATE
    }
}

impl SlabBuilder {
    /// Whether a leaf may become a template column.
    pub(super) fn may_split(&self) -> bool {
        self.splits < RESERVED_FOR_PLAIN
    }

    /// Finds the template of each value and passes its variables to their columns.
    pub(super) fn split_values(&mut self, column: u32, split: &mut TemplateColumn, base: &[u8], spans: &[Span]) {
        for (at, span) in spans.iter().enumerate() {
            if column == TEXT_COLUMN
                && let Some(kind) = self.kinds.get(at)
            {
                split.learner_index = usize::from(*kind);
            }
            let text = span.of(base);
            split.json_traits.add(text, self.is_unquoted);
            if text.is_empty()
                && let Some(nothing) = split.learner().empty_template
            {
                split.codes.push(nothing);
                continue;
            }
            let known = match &split.learner().splitter {
                Splitter::Layout { text: shape, variables } => {
                    match_layout(shape, variables, text, &split.children, &mut self.filled).then_some(0)
                }
                Splitter::Quantities(known) => known.find(text, &mut self.filled),
                Splitter::Outline(_) => Some(self.outline_template(column, split, text)),
                Splitter::Cells => Some(self.cell_template(column, split, text, at)),
                _ => match self.find_schema(column, split, text) {
                    None => split.learner_mut().trie.find(text, true, &mut self.filled),
                    found => found,
                },
            };
            let template = match known {
                Some(template) if (template as usize) < split.templates.len() => template,
                _ => self.learn_template(column, split, text),
            };
            split.codes.push(template);
            for variable in &self.filled {
                let place = Span { start: span.start + variable.start, len: variable.end - variable.start };
                self.pending_values[variable.column as usize].push(place);
            }
        }
    }

    /// The template of a text that fits none of the known templates at the first attempt.
    #[cold]
    fn learn_template(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        // If most texts fit no template, learning more templates only costs time.
        let (values, plain) = (split.codes.len(), split.plain_values);
        if values >= LEARNING_VALUES_MAX && plain > values / 2 {
            return self.plain_text_template(column, split, text);
        }
        self.variables.clear();
        match &split.learner().splitter {
            Splitter::Layout { text: shape, variables } => {
                if !split.templates.is_empty() || text.len() != shape.len() {
                    return self.plain_text_template(column, split, text);
                }
                self.variables.extend_from_slice(variables);
            }
            _ if text.len() > TEMPLATE_TEXT_BYTES_MAX => return self.plain_text_template(column, split, text),
            Splitter::Event | Splitter::Message => split_event(text, &mut self.variables),
            Splitter::Member => {
                if split_member(text, &mut self.variables).is_none() {
                    split_event(text, &mut self.variables);
                }
            }
            Splitter::Pair => {
                if !text.is_empty() && split_pair(text, &mut self.variables).is_none() {
                    return self.plain_text_template(column, split, text);
                }
            }
            Splitter::Words => split_words(text, &mut self.variables),
            Splitter::Quantities(_) => return self.add_quantity(column, split, text),
            // Splitting such a text as a whole event would give nearly every text a template of its own.
            Splitter::Outline(_) | Splitter::Cells => return self.plain_text_template(column, split, text),
        }
        if let Some(template) = split.learner().trie.find_skeleton(text, &self.variables, &mut self.filled) {
            return template;
        }
        // A template may accept words without digits only if the text has another variable: a text without variables is
        // likely to be a different message.
        if !self.variables.is_empty()
            && let Some(template) = split.learner_mut().trie.find(text, false, &mut self.filled)
        {
            return template;
        }
        let in_variables: usize = self.variables.iter().map(|variable| variable.end - variable.start).sum();
        let is_plain = self.variables.len() > TEMPLATE_VARIABLES_MAX
            || text.len() - in_variables > LITERAL_BYTES_MAX
            || self.templates + RESERVED_FOR_PLAIN >= MAX_TEMPLATES
            || self.columns.len() + self.variables.len() + RESERVED_FOR_PLAIN > MAX_COLUMNS
            || split.is_full();
        if is_plain { self.plain_text_template(column, split, text) } else { self.add_template(column, split, text) }
    }

    /// Adds a template for a text and its variables.
    fn add_template(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        let template = u32_of(split.templates.len());
        let mut parts = Vec::with_capacity(self.variables.len() * 2 + 1);
        let mut columns = Vec::with_capacity(self.variables.len());
        let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
        let shared = split.learner().trie.shared_columns(text, &self.variables);
        let mut at = 0;
        self.filled.clear();
        for place in 0..self.variables.len() {
            let variable = self.variables[place];
            let literal = &text[at..variable.start];
            let name = variable.kind.role().unwrap_or_else(|| variable_role(literal));
            let times = seen.entry(name).or_default();
            let form = match variable.kind {
                VariableKind::Chunk | VariableKind::Word | VariableKind::Address if !has_word(name) => {
                    form_of(&text[variable.start..variable.end])
                }
                _ => 0,
            };
            let irregular = if variable.kind.is_irregular() { IRREGULAR_OCCURRENCE_FLAG } else { 0 };
            let child = match shared.get(place) {
                Some(child) => *child,
                None => self.role_column(column, split, name, *times | form << FORM_SHIFT | irregular),
            };
            *times += 1;
            if !literal.is_empty() {
                parts.push(TemplatePart::Literal(literal.into()));
            }
            parts.push(TemplatePart::Variable(child));
            columns.push(child);
            self.filled.push(FoundVariable::new(child, variable.start, variable.end));
            at = variable.end;
        }
        if at < text.len() {
            parts.push(TemplatePart::Literal(text[at..].into()));
        }
        if text.is_empty() {
            split.learner_mut().empty_template = Some(template);
        }
        split.learner_mut().trie.insert(text, &self.variables, &columns, template);
        split.templates.push(Template { parts });
        self.templates += 1;
        template
    }

    /// Adds a template for a number with a unit; any other text is a plain one.
    fn add_quantity(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        let is_room = self.templates + RESERVED_FOR_PLAIN < MAX_TEMPLATES
            && self.columns.len() + 1 + RESERVED_FOR_PLAIN <= MAX_COLUMNS
            && matches!(&split.learner().splitter, Splitter::Quantities(known) if !known.is_full());
        let Some(quantity) = Quantity::parse(text).filter(|_| is_room) else {
            return self.plain_text_template(column, split, text);
        };
        let template = u32_of(split.templates.len());
        let child = self.role_column(column, split, b"", quantity.form());
        let mut parts = vec![TemplatePart::Variable(child)];
        if !quantity.unit.is_empty() {
            parts.push(TemplatePart::Literal(quantity.unit.into()));
        }
        split.templates.push(Template { parts });
        self.templates += 1;
        if let Splitter::Quantities(known) = &mut split.learner_mut().splitter {
            known.add(&quantity, template, child);
        }
        self.filled.clear();
        self.filled.push(FoundVariable { column: child, start: 0, end: u32_of(quantity.number.len()) });
        template
    }

    /// The template of the first schema that a text fits; fills its variables.
    fn find_schema(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> Option<u32> {
        if split.learner().schemas.is_empty() || text.first() != Some(&b'{') {
            return None;
        }
        let at = split
            .learner()
            .schemas
            .iter()
            .position(|known| known.schema.match_text(text, &mut self.variable_ranges))?;
        let template = match split.learner().schemas[at].template {
            Some(template) => template,
            None => self.add_schema(column, split, at)?,
        };
        let places = self.variable_ranges.iter().zip(&split.learner().schemas[at].columns);
        self.filled.clear();
        self.filled.extend(places.map(|((start, end), column)| FoundVariable {
            column: *column,
            start: *start,
            end: *end,
        }));
        Some(template)
    }

    /// Adds the template of a schema; if there is no room, drops the schema and returns `None`.
    #[cold]
    fn add_schema(&mut self, column: u32, split: &mut TemplateColumn, at: usize) -> Option<u32> {
        let SchemaTemplate { schema, .. } = split.learner_mut().schemas.remove(at);
        let entries = schema.entries();
        let is_room = self.templates + entries.len() + RESERVED_FOR_PLAIN < MAX_TEMPLATES
            && self.columns.len() + entries.len() + RESERVED_FOR_PLAIN <= MAX_COLUMNS
            && self.splits + entries.len() <= RESERVED_FOR_PLAIN;
        if !is_room {
            return None;
        }
        let template = u32_of(split.templates.len());
        let (mut parts, mut columns) = (Vec::new(), Vec::new());
        let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
        for Entry { literal, kind } in entries {
            let (name, first) = match kind {
                EntryKind::String | EntryKind::Scalar => (variable_role(&literal.bytes), None),
                EntryKind::Member { head, .. } => (&*head.bytes, Some(MEMBER_OCCURRENCE_BASE)),
                EntryKind::Rest { until } => (&*until.bytes, Some(REST_OCCURRENCE_BASE)),
            };
            let times = seen.entry(name).or_default();
            let child = match first {
                Some(first) => self.member_column(column, split, name, first + *times),
                None => self.role_column(column, split, name, *times),
            };
            *times += 1;
            if !literal.bytes.is_empty() {
                parts.push(TemplatePart::Literal(literal.bytes.clone()));
            }
            parts.push(TemplatePart::Variable(child));
            columns.push(child);
        }
        if !schema.end().is_empty() {
            parts.push(TemplatePart::Literal(schema.end().into()));
        }
        split.templates.push(Template { parts });
        self.templates += 1;
        split
            .learner_mut()
            .schemas
            .insert(at, SchemaTemplate { schema, template: Some(template), columns: columns.into() });
        Some(template)
    }

    /// The template of a text by the outline of its column; fills its variables.
    fn outline_template(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        let Splitter::Outline(outline) = &split.learner().splitter else {
            return self.plain_text_template(column, split, text);
        };
        if text.len() > TEMPLATE_TEXT_BYTES_MAX {
            return self.plain_text_template(column, split, text);
        }
        outline.split(text, &mut self.outline_split);
        self.template_of_pieces(column, split, text)
    }

    /// The template of a text that consists of index-time fields; `at` is its number among the texts being split. Fills
    /// its variables.
    fn cell_template(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8], at: usize) -> u32 {
        let cells = self.cells.of(at);
        if cells.is_empty() || text.len() > TEMPLATE_TEXT_BYTES_MAX {
            return self.plain_text_template(column, split, text);
        }
        self.outline_split.pieces.clear();
        self.outline_split.pieces.extend_from_slice(cells);
        self.template_of_pieces(column, split, text)
    }

    /// The template of a text that is split into [`SlabBuilder::outline_split`]; fills its variables.
    fn template_of_pieces(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        if let Some(known) = split.learner_mut().outline_templates.find(text, &self.outline_split.pieces) {
            return self.fill_outline_template(known);
        }
        if !self.add_outline_template(column, split, text) {
            return self.plain_text_template(column, split, text);
        }
        match split.learner_mut().outline_templates.find(text, &self.outline_split.pieces) {
            Some(known) => self.fill_outline_template(known),
            None => self.plain_text_template(column, split, text),
        }
    }

    /// Fills the variables of a split text that has this template.
    fn fill_outline_template(&mut self, known: &OutlineTemplate) -> u32 {
        self.filled.clear();
        let places = self.outline_split.pieces.iter().zip(&known.columns);
        self.filled.extend(places.map(|(piece, column)| FoundVariable::new(*column, piece.start, piece.end)));
        known.template
    }

    /// Adds a template for a split text; false if there is no room.
    #[cold]
    fn add_outline_template(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> bool {
        let pieces = self.outline_split.pieces.len();
        let is_room = pieces <= TEMPLATE_VARIABLES_MAX
            && self.outline_split.literal_bytes(text) <= LITERAL_BYTES_MAX
            && self.templates + RESERVED_FOR_PLAIN < MAX_TEMPLATES
            && self.columns.len() + pieces + RESERVED_FOR_PLAIN <= MAX_COLUMNS
            && self.splits + pieces <= RESERVED_FOR_PLAIN
            && !split.is_full();
        if !is_room {
            return false;
        }
        let template = u32_of(split.templates.len());
        let (mut parts, mut columns) = (Vec::with_capacity(pieces * 2 + 1), Vec::with_capacity(pieces));
        let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
        let mut at = 0;
        for place in 0..pieces {
            let piece = self.outline_split.pieces[place];
            let literal = &text[at..piece.start];
            let child = match piece.role {
                Role::Member { run, key } => {
                    let Splitter::Outline(outline) = &split.learner().splitter else { return false };
                    let name: Box<[u8]> = outline.key(key).into();
                    self.optional_column(Splitter::Pair, column, split, &name, MEMBER_OCCURRENCE_BASE + u32::from(run))
                }
                Role::Rest { run } => self.role_column(column, split, b"", REST_OCCURRENCE_BASE + u32::from(run)),
                Role::Lines => self.role_column(column, split, b"\n", 0),
                Role::Cell { name } => self.cell_column(column, split, name),
                Role::Gap { name } => {
                    let name = self.cell_name(name);
                    self.role_column(column, split, name.as_bytes(), GAP_OCCURRENCE)
                }
                Role::Literal | Role::Equals => {
                    let name = match piece.role {
                        Role::Equals => b"=",
                        // The role does not depend on the number of padding blanks.
                        _ if literal.iter().all(|byte| *byte == b' ') => b" ",
                        _ => variable_role(literal),
                    };
                    let times = seen.entry(name).or_default();
                    *times += 1;
                    self.role_column(column, split, name, *times - 1)
                }
            };
            if !literal.is_empty() {
                parts.push(TemplatePart::Literal(literal.into()));
            }
            parts.push(TemplatePart::Variable(child));
            columns.push(child);
            at = piece.end;
        }
        if at < text.len() {
            parts.push(TemplatePart::Literal(text[at..].into()));
        }
        split.templates.push(Template { parts });
        self.templates += 1;
        split.learner_mut().outline_templates.insert(text, &self.outline_split.pieces, template, columns.into());
        true
    }

    /// Name of an index-time field; empty for the end of the text.
    fn cell_name(&self, name: u16) -> Arc<str> {
        self.cells.names.get(usize::from(name)).cloned().unwrap_or_default()
    }

    /// The column of an index-time field. Its values are not split, so that this column has the same values as the
    /// field's own column.
    fn cell_column(&mut self, column: u32, split: &mut TemplateColumn, name: u16) -> u32 {
        let name = self.cell_name(name);
        let role = (Box::from(name.as_bytes()), CELL_OCCURRENCE);
        if let Some(child) = split.learner().roles.get(&role) {
            return *child;
        }
        let above = &self.columns[column as usize];
        let path = child_path(above.path ^ split.learner().path, name.as_bytes(), CELL_OCCURRENCE);
        let child = self.add_child(column, split, path, PLAIN_DEPTH);
        split.learner_mut().roles.insert(role, child);
        child
    }

    /// The column of an optional member.
    fn member_column(&mut self, column: u32, split: &mut TemplateColumn, name: &[u8], times: u32) -> u32 {
        self.optional_column(Splitter::Member, column, split, name, times)
    }

    /// The column of a role whose values are empty or split in this way, created if necessary.
    fn optional_column(
        &mut self,
        splitter: Splitter,
        column: u32,
        split: &mut TemplateColumn,
        name: &[u8],
        times: u32,
    ) -> u32 {
        let role = (Box::from(name), times);
        if let Some(child) = split.learner().roles.get(&role) {
            return *child;
        }
        let above = &self.columns[column as usize];
        // This column has the depth of its parent, so that its contents are as deep as they would be without the
        // column.
        let (path, depth) = (child_path(above.path ^ split.learner().path, name, times), above.depth);
        let child = self.add_child(column, split, path, depth);
        self.columns[child as usize].kind = Representation::Templates(Box::new(TemplateColumn::new(splitter)));
        self.splits += 1;
        split.learner_mut().roles.insert(role, child);
        child
    }

    /// The column of a role, created if necessary.
    fn role_column(&mut self, column: u32, split: &mut TemplateColumn, name: &[u8], times: u32) -> u32 {
        let role = (Box::from(name), times);
        if let Some(child) = split.learner().roles.get(&role) {
            return *child;
        }
        let above = &self.columns[column as usize];
        let (path, depth) = (child_path(above.path ^ split.learner().path, name, times), above.depth.saturating_add(1));
        let child = self.add_child(column, split, path, depth);
        split.learner_mut().roles.insert(role, child);
        child
    }

    fn add_child(&mut self, column: u32, split: &mut TemplateColumn, path: u64, depth: u8) -> u32 {
        let pages = self.columns[column as usize].page_starts.len();
        let child = self.add_column(Some(column), path, depth, vec![0; pages]);
        split.children.push(child);
        child
    }

    /// The template of plain texts.
    fn plain_text_template(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        let (template, child) = match split.plain {
            Some(plain) => plain,
            None => {
                let path = child_path(self.columns[column as usize].path, &[], PLAIN_OCCURRENCE);
                let child = self.add_child(column, split, path, PLAIN_DEPTH);
                let template = u32_of(split.templates.len());
                split.templates.push(Template { parts: vec![TemplatePart::Variable(child)] });
                self.templates += 1;
                *split.plain.insert((template, child))
            }
        };
        split.plain_values += 1;
        self.filled.clear();
        self.filled.push(FoundVariable { column: child, start: 0, end: u32_of(text.len()) });
        template
    }
}

/// Whether a value has the layout; fills its variables.
#[inline]
fn match_layout(
    shape: &[u8],
    variables: &[Variable],
    text: &[u8],
    columns: &[u32],
    filled: &mut Vec<FoundVariable>,
) -> bool {
    filled.clear();
    if text.len() != shape.len() {
        return false;
    }
    let mut at = 0;
    for (variable, column) in variables.iter().zip(columns) {
        if !texts_equal(&text[at..variable.start], &shape[at..variable.start]) {
            return false;
        }
        filled.push(FoundVariable::new(*column, variable.start, variable.end));
        at = variable.end;
    }
    texts_equal(&text[at..], &shape[at..])
}

/// Path of a role's column. Equal roles have equal paths in every slab; a collision only costs space.
fn child_path(path: u64, name: &[u8], times: u32) -> u64 {
    xxh3_64_with_seed(name, path.rotate_left(17).wrapping_add(u64::from(times) + 1))
}

/// The role of the variable after a literal.
fn variable_role(literal: &[u8]) -> &[u8] {
    // `sshd[4242]`, `cron[1]`: the value in brackets has the same role, whatever precedes it.
    if literal.ends_with(b"[") {
        return b"[";
    }
    let tail = &literal[literal.len().saturating_sub(ROLE_BYTES_MAX)..];
    let is_word = |byte: &u8| BYTE_CLASSES[usize::from(*byte)] & WORD != 0 || matches!(byte, b'.' | b'-');
    let Some(last) = tail.iter().rposition(|byte| BYTE_CLASSES[usize::from(*byte)] & WORD != 0) else {
        return &tail[tail.len().saturating_sub(FALLBACK_ROLE_BYTES)..];
    };
    let first = tail[..last].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
    &tail[first..]
}

/// Whether a role contains a word.
fn has_word(role: &[u8]) -> bool {
    role == b"[" || role.iter().any(|byte| BYTE_CLASSES[usize::from(*byte)] & WORD != 0)
}

/// The form of a value, from 0 to 4: other text, digits, digits and points (an address or a decimal number), a path or
/// fraction, or a value with a port or time of day.
fn form_of(value: &[u8]) -> u32 {
    if value.iter().all(u8::is_ascii_digit) {
        1
    } else if value.contains(&b'/') {
        3
    } else if value.contains(&b':') {
        4
    } else {
        u32::from(value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')) * 2
    }
}

/// Number of templates that a sample of values would have if split into these variables; `usize::MAX` if the number
/// exceeds `limit`, or if a value has too many variables.
pub(super) fn count_templates<'t>(
    values: impl Iterator<Item = &'t [u8]>,
    find_variables: impl Fn(&[u8], &mut Vec<Variable>),
    limit: usize,
) -> usize {
    let mut trie = Trie::new();
    let (mut filled, mut variables, mut count) = (Vec::new(), Vec::new(), 0);
    for text in values {
        if trie.find(text, true, &mut filled).is_some() {
            continue;
        }
        variables.clear();
        find_variables(text, &mut variables);
        if variables.len() > TEMPLATE_VARIABLES_MAX {
            return usize::MAX;
        }
        let is_known = trie.find_skeleton(text, &variables, &mut filled).is_some()
            || (!variables.is_empty() && trie.find(text, false, &mut filled).is_some());
        if is_known {
            continue;
        }
        if count == limit {
            return usize::MAX;
        }
        trie.insert(text, &variables, &vec![0; variables.len()], u32_of(count));
        count += 1;
    }
    count
}
