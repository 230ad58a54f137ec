//! A template column under construction: known templates, the columns of their variables, and the handling of new
//! texts.
//!
//! The column of a variable follows from its *role*: the word directly before it and how often that word occurred
//! earlier in the same text. A role has the same column in all templates, so that the values after `status=` are one
//! column whatever else varies. If a text fits no template, the templates are tried again with variables that accept
//! words without digits. If none fits, the text gets a new template if there is room, and is stored as a plain text
//! otherwise.

use std::collections::BTreeMap;

use quarry_event::template::{
    MAX_COLUMNS, MAX_TEMPLATES, TEXT_COLUMN, Template, TemplatePart, ValueTraits, is_json_scalar, is_string_content,
};
use quarry_stdx::number::u32_of;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::builder::{Builder, Kind};
use super::classes::{CLASS, WORD, same};
use super::objects::{Entry, EntryKind, Schema, split_member};
use super::outline::lookup::{OutlineTemplate, OutlineTemplates};
use super::outline::{Outline, Role, split_pair};
use super::trie::{FoundVariable, Span, Trie};
use super::variables::{Variable, VariableKind, split_event, split_words};

/// Number of templates and of columns reserved for the plain texts of template columns; also the maximum number of
/// template columns.
const KEPT_FOR_PLAIN: usize = 512;
/// Maximum number of templates of a column: this many, plus one per `VALUES_PER_TEMPLATE` values.
const TEMPLATES_FREE: usize = 256;
const VALUES_PER_TEMPLATE: usize = 50;
/// Number of values after which a column gives up learning templates if most of them were stored as plain texts.
const LEARNING_VALUES: usize = 4_096;
/// Maximum bytes, variables and literal bytes of a text with a template; other texts are stored as plain texts.
const SHAPED_BYTES_MAX: usize = 256 << 10;
const VARIABLES_MAX: usize = 512;
const LITERAL_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of a role.
const ROLE_BYTES_MAX: usize = 64;
/// Number of bytes before a variable that form its role if no word precedes it.
const BARE_ROLE_BYTES: usize = 8;
/// Occurrence number used for the role of plain texts.
const PLAIN_TIMES: u32 = u32::MAX;
/// First occurrence number for the role of an optional member.
const MEMBER_TIMES: u32 = 1 << 30;
/// First occurrence number for further members after a run of optional ones.
const REST_TIMES: u32 = 1 << 31;
/// Flag in the occurrence number for the column of a role's odd values.
const ODD_TIMES: u32 = 1 << 29;
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
    /// Values with this layout: the same length and the same bytes outside of the variables.
    Layout { text: Vec<u8>, variables: Vec<Variable> },
    /// Whole events in which the words between anchors are free text.
    Outline(Box<Outline>),
    /// An optional pair preceded by a blank.
    Pair,
}

/// Whether all values so far can stand between JSON quotes, and whether all are JSON scalars. It cannot be derived from
/// templates: `\\n12` may be a backslash and the word `n12`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsJson {
    string_contents: bool,
    scalars: bool,
}

impl AsJson {
    /// Initial value for a splitter; events and members have quotes of their own.
    fn of(splitter: &Splitter) -> AsJson {
        let is_value = matches!(splitter, Splitter::Words | Splitter::Layout { .. });
        AsJson { string_contents: is_value, scalars: is_value }
    }

    #[inline]
    fn add(&mut self, text: &[u8]) {
        self.string_contents = self.string_contents && is_string_content(text);
        self.scalars = self.scalars && is_json_scalar(text);
    }

    pub(super) fn traits(self) -> ValueTraits {
        ValueTraits { string_contents: self.string_contents, json_scalars: self.scalars, ..ValueTraits::default() }
    }
}

/// A schema and, once a text fits it, its template and the columns of its variables.
#[derive(Debug)]
pub(super) struct KnownSchema {
    schema: Schema,
    template: Option<u32>,
    columns: Box<[u32]>,
}

#[derive(Debug)]
pub(super) struct TemplateColumn {
    /// Ways of splitting values; for whole events, one for each kind.
    cutters: Vec<Cutter>,
    /// Index in `cutters` of the way for the current value.
    cutter: usize,
    pub(super) templates: Vec<Template>,
    pub(super) codes: Vec<u32>,
    /// Columns of the variables, ascending.
    pub(super) children: Vec<u32>,
    /// Template and column of plain texts.
    plain: Option<(u32, u32)>,
    /// Plain texts.
    pub(super) plain_values: usize,
    pub(super) as_json: AsJson,
}

/// A way of splitting values, with the resulting templates.
#[derive(Debug)]
pub(super) struct Cutter {
    splitter: Splitter,
    trie: Trie,
    schemas: Vec<KnownSchema>,
    roles: BTreeMap<(Box<[u8]>, u32), u32>,
    /// Templates found by way of an outline.
    outlined: OutlineTemplates,
    /// Template of the empty text.
    nothing: Option<u32>,
    /// Distinguishes the columns of one kind of events from those of others.
    path: u64,
}

impl Cutter {
    pub(super) fn new(splitter: Splitter, schemas: Vec<Schema>, path: u64) -> Cutter {
        let schemas =
            schemas.into_iter().map(|schema| KnownSchema { schema, template: None, columns: Box::default() }).collect();
        let (trie, roles, outlined) = (Trie::new(), BTreeMap::new(), OutlineTemplates::default());
        Cutter { splitter, trie, schemas, roles, outlined, nothing: None, path }
    }
}

impl TemplateColumn {
    pub(super) fn new(splitter: Splitter) -> TemplateColumn {
        TemplateColumn::with(vec![Cutter::new(splitter, Vec::new(), 0)])
    }

    /// A column whose values are split in these ways.
    pub(super) fn with(cutters: Vec<Cutter>) -> TemplateColumn {
        let as_json = cutters
            .first()
            .map_or(AsJson { string_contents: false, scalars: false }, |cutter| AsJson::of(&cutter.splitter));
        TemplateColumn {
            as_json,
            cutters,
            cutter: 0,
            templates: Vec::new(),
            codes: Vec::new(),
            children: Vec::new(),
            plain: None,
            plain_values: 0,
        }
    }

    fn own(&self) -> &Cutter {
        &self.cutters[self.cutter]
    }

    fn own_mut(&mut self) -> &mut Cutter {
        &mut self.cutters[self.cutter]
    }

    /// Whether there are schemas for texts.
    pub(super) fn has_schemas(&self) -> bool {
        self.cutters.iter().any(|cutter| !cutter.schemas.is_empty())
    }

    /// Whether the number of templates has reached the limit for this many values.
    pub(super) fn is_full(&self) -> bool {
        self.templates.len() >= TEMPLATES_FREE * self.cutters.len() + self.codes.len() / VALUES_PER_TEMPLATE
    }
}

impl Builder {
    /// Whether a leaf may become a template column.
    pub(super) fn may_split(&self) -> bool {
        self.splits < KEPT_FOR_PLAIN
    }

    /// Finds the template of each value and passes its variables to their columns.
    pub(super) fn split(&mut self, column: u32, split: &mut TemplateColumn, base: &[u8], spans: &[Span]) {
        for (at, span) in spans.iter().enumerate() {
            if column == TEXT_COLUMN
                && let Some(kind) = self.kinds.get(at)
            {
                split.cutter = usize::from(*kind);
            }
            let text = span.of(base);
            split.as_json.add(text);
            if text.is_empty()
                && let Some(nothing) = split.own().nothing
            {
                split.codes.push(nothing);
                continue;
            }
            let known = match &split.own().splitter {
                Splitter::Layout { text: shape, variables } => {
                    fit_layout(shape, variables, text, &split.children, &mut self.filled).then_some(0)
                }
                Splitter::Outline(_) => Some(self.outline(column, split, text)),
                _ => match self.find_schema(column, split, text) {
                    None => split.own_mut().trie.find(text, true, &mut self.filled),
                    found => found,
                },
            };
            let template = match known {
                Some(template) if (template as usize) < split.templates.len() => template,
                _ => self.learn(column, split, text),
            };
            split.codes.push(template);
            for variable in &self.filled {
                let place = Span { start: span.start + variable.start, len: variable.end - variable.start };
                self.inboxes[variable.column as usize].push(place);
            }
        }
    }

    /// The template of a text that fits none of the known templates at the first attempt.
    #[cold]
    fn learn(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        // If most texts fit no template, learning more templates only costs time.
        let (values, plain) = (split.codes.len(), split.plain_values);
        if values >= LEARNING_VALUES && plain > values / 2 {
            return self.plain(column, split, text);
        }
        self.variables.clear();
        match &split.own().splitter {
            Splitter::Layout { text: shape, variables } => {
                if !split.templates.is_empty() || text.len() != shape.len() {
                    return self.plain(column, split, text);
                }
                self.variables.extend_from_slice(variables);
            }
            _ if text.len() > SHAPED_BYTES_MAX => return self.plain(column, split, text),
            Splitter::Event => split_event(text, &mut self.variables),
            Splitter::Member => {
                if split_member(text, &mut self.variables).is_none() {
                    split_event(text, &mut self.variables);
                }
            }
            Splitter::Pair => {
                if !text.is_empty() && split_pair(text, &mut self.variables).is_none() {
                    return self.plain(column, split, text);
                }
            }
            Splitter::Words => split_words(text, &mut self.variables),
            // Splitting such a text as a whole event would give nearly every text a template of its own.
            Splitter::Outline(_) => return self.plain(column, split, text),
        }
        if let Some(template) = split.own().trie.find_exact(text, &self.variables, &mut self.filled) {
            return template;
        }
        // A template may accept words without digits only if the text has another variable: a text without variables is
        // likely to be a different message.
        if !self.variables.is_empty()
            && let Some(template) = split.own_mut().trie.find(text, false, &mut self.filled)
        {
            return template;
        }
        let in_variables: usize = self.variables.iter().map(|variable| variable.end - variable.start).sum();
        let is_plain = self.variables.len() > VARIABLES_MAX
            || text.len() - in_variables > LITERAL_BYTES_MAX
            || self.templates + KEPT_FOR_PLAIN >= MAX_TEMPLATES
            || self.columns.len() + self.variables.len() + KEPT_FOR_PLAIN > MAX_COLUMNS
            || split.is_full();
        if is_plain { self.plain(column, split, text) } else { self.add_template(column, split, text) }
    }

    /// Adds a template for a text and its variables.
    fn add_template(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        let template = u32_of(split.templates.len());
        let mut parts = Vec::with_capacity(self.variables.len() * 2 + 1);
        let mut columns = Vec::with_capacity(self.variables.len());
        let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
        let mut at = 0;
        self.filled.clear();
        for place in 0..self.variables.len() {
            let variable = self.variables[place];
            let literal = &text[at..variable.start];
            let name = variable.kind.role().unwrap_or_else(|| role(literal));
            let times = seen.entry(name).or_default();
            let child = self.child(column, split, name, *times | if variable.kind.is_odd() { ODD_TIMES } else { 0 });
            *times += 1;
            if !literal.is_empty() {
                parts.push(TemplatePart::Literal(literal.into()));
            }
            parts.push(TemplatePart::Variable(child));
            columns.push(child);
            self.filled.push(FoundVariable { column: child, start: variable.start as u32, end: variable.end as u32 });
            at = variable.end;
        }
        if at < text.len() {
            parts.push(TemplatePart::Literal(text[at..].into()));
        }
        if text.is_empty() {
            split.own_mut().nothing = Some(template);
        }
        split.own_mut().trie.insert(text, &self.variables, &columns, template);
        split.templates.push(Template { parts });
        self.templates += 1;
        template
    }

    /// The template of the first schema that a text fits; fills its variables.
    fn find_schema(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> Option<u32> {
        if split.own().schemas.is_empty() || text.first() != Some(&b'{') {
            return None;
        }
        let at = split.own().schemas.iter().position(|known| known.schema.fit(text, &mut self.places))?;
        let template = match split.own().schemas[at].template {
            Some(template) => template,
            None => self.add_schema(column, split, at)?,
        };
        let places = self.places.iter().zip(&split.own().schemas[at].columns);
        self.filled.clear();
        self.filled.extend(places.map(|((start, end), column)| FoundVariable {
            column: *column,
            start: *start,
            end: *end,
        }));
        Some(template)
    }

    /// Adds the template of a schema; `None` if there is no room.
    #[cold]
    fn add_schema(&mut self, column: u32, split: &mut TemplateColumn, at: usize) -> Option<u32> {
        let KnownSchema { schema, .. } = split.own_mut().schemas.remove(at);
        let entries = schema.entries();
        let is_room = self.templates + entries.len() + KEPT_FOR_PLAIN < MAX_TEMPLATES
            && self.columns.len() + entries.len() + KEPT_FOR_PLAIN <= MAX_COLUMNS
            && self.splits + entries.len() <= KEPT_FOR_PLAIN;
        if !is_room {
            return None;
        }
        let template = u32_of(split.templates.len());
        let (mut parts, mut columns) = (Vec::new(), Vec::new());
        let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
        for Entry { literal, kind } in entries {
            let (name, first) = match kind {
                EntryKind::String | EntryKind::Scalar => (role(&literal.bytes), None),
                EntryKind::Member { head, .. } => (&*head.bytes, Some(MEMBER_TIMES)),
                EntryKind::Rest { until } => (&*until.bytes, Some(REST_TIMES)),
            };
            let times = seen.entry(name).or_default();
            let child = match first {
                Some(first) => self.member(column, split, name, first + *times),
                None => self.child(column, split, name, *times),
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
        split.own_mut().schemas.insert(at, KnownSchema { schema, template: Some(template), columns: columns.into() });
        Some(template)
    }

    /// The template of a text by the outline of its column; fills its variables.
    fn outline(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        let Splitter::Outline(outline) = &split.own().splitter else { return self.plain(column, split, text) };
        if text.len() > SHAPED_BYTES_MAX {
            return self.plain(column, split, text);
        }
        outline.cut(text, &mut self.cut);
        if let Some(known) = split.own_mut().outlined.find(text, &self.cut.pieces) {
            return self.fill_outlined(known);
        }
        if !self.add_outlined(column, split, text) {
            return self.plain(column, split, text);
        }
        match split.own_mut().outlined.find(text, &self.cut.pieces) {
            Some(known) => self.fill_outlined(known),
            None => self.plain(column, split, text),
        }
    }

    /// Fills the variables of a split text that has this template.
    fn fill_outlined(&mut self, known: &OutlineTemplate) -> u32 {
        self.filled.clear();
        let places = self.cut.pieces.iter().zip(&known.columns);
        self.filled.extend(places.map(|(piece, column)| FoundVariable {
            column: *column,
            start: piece.start as u32,
            end: piece.end as u32,
        }));
        known.template
    }

    /// Adds a template for a split text; false if there is no room.
    #[cold]
    fn add_outlined(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> bool {
        let pieces = self.cut.pieces.len();
        let is_room = pieces <= VARIABLES_MAX
            && self.cut.literal_bytes(text) <= LITERAL_BYTES_MAX
            && self.templates + KEPT_FOR_PLAIN < MAX_TEMPLATES
            && self.columns.len() + pieces + KEPT_FOR_PLAIN <= MAX_COLUMNS
            && self.splits + pieces <= KEPT_FOR_PLAIN
            && !split.is_full();
        if !is_room {
            return false;
        }
        let template = u32_of(split.templates.len());
        let (mut parts, mut columns) = (Vec::with_capacity(pieces * 2 + 1), Vec::with_capacity(pieces));
        let mut seen: BTreeMap<&[u8], u32> = BTreeMap::new();
        let mut at = 0;
        for place in 0..pieces {
            let piece = self.cut.pieces[place];
            let literal = &text[at..piece.start];
            let child = match piece.role {
                Role::Member { run, key } => {
                    let Splitter::Outline(outline) = &split.own().splitter else { return false };
                    let name: Box<[u8]> = outline.key(key).into();
                    self.empty_or(Splitter::Pair, column, split, &name, MEMBER_TIMES + u32::from(run))
                }
                Role::Rest { run } => self.child(column, split, b"", REST_TIMES + u32::from(run)),
                Role::Lines => self.child(column, split, b"\n", 0),
                Role::Literal | Role::Equals => {
                    let name = match piece.role {
                        Role::Equals => b"=",
                        // The role does not depend on the number of padding blanks.
                        _ if literal.iter().all(|byte| *byte == b' ') => b" ",
                        _ => role(literal),
                    };
                    let times = seen.entry(name).or_default();
                    *times += 1;
                    self.child(column, split, name, *times - 1)
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
        split.own_mut().outlined.insert(text, &self.cut.pieces, template, columns.into());
        true
    }

    /// The column of an optional member.
    fn member(&mut self, column: u32, split: &mut TemplateColumn, name: &[u8], times: u32) -> u32 {
        self.empty_or(Splitter::Member, column, split, name, times)
    }

    /// The column of a role whose values are empty or split in this way.
    fn empty_or(
        &mut self,
        splitter: Splitter,
        column: u32,
        split: &mut TemplateColumn,
        name: &[u8],
        times: u32,
    ) -> u32 {
        let role = (Box::from(name), times);
        if let Some(child) = split.own().roles.get(&role) {
            return *child;
        }
        let above = &self.columns[column as usize];
        // The depth is that of the parent: the contents are as deep as they would be without this column.
        let (path, depth) = (path_below(above.path ^ split.own().path, name, times), above.depth);
        let child = self.add_child(column, split, path, depth);
        self.columns[child as usize].kind = Kind::Templates(Box::new(TemplateColumn::new(splitter)));
        self.splits += 1;
        split.own_mut().roles.insert(role, child);
        child
    }

    /// The column of a role, created if necessary.
    fn child(&mut self, column: u32, split: &mut TemplateColumn, name: &[u8], times: u32) -> u32 {
        let role = (Box::from(name), times);
        if let Some(child) = split.own().roles.get(&role) {
            return *child;
        }
        let above = &self.columns[column as usize];
        let (path, depth) = (path_below(above.path ^ split.own().path, name, times), above.depth.saturating_add(1));
        let child = self.add_child(column, split, path, depth);
        split.own_mut().roles.insert(role, child);
        child
    }

    fn add_child(&mut self, column: u32, split: &mut TemplateColumn, path: u64, depth: u8) -> u32 {
        let pages = self.columns[column as usize].page_starts.len();
        let child = self.add_column(Some(column), path, depth, vec![0; pages]);
        split.children.push(child);
        child
    }

    /// The template of plain texts.
    fn plain(&mut self, column: u32, split: &mut TemplateColumn, text: &[u8]) -> u32 {
        let (template, child) = match split.plain {
            Some(plain) => plain,
            None => {
                let path = path_below(self.columns[column as usize].path, &[], PLAIN_TIMES);
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
fn fit_layout(
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
        if !same(&text[at..variable.start], &shape[at..variable.start]) {
            return false;
        }
        filled.push(FoundVariable { column: *column, start: variable.start as u32, end: variable.end as u32 });
        at = variable.end;
    }
    same(&text[at..], &shape[at..])
}

/// Path of a role's column. Equal roles have equal paths in every slab; a collision only costs space.
fn path_below(path: u64, name: &[u8], times: u32) -> u64 {
    xxh3_64_with_seed(name, path.rotate_left(17).wrapping_add(u64::from(times) + 1))
}

/// The role of the variable after a literal.
fn role(literal: &[u8]) -> &[u8] {
    // `sshd[4242]`, `cron[1]`: the value in brackets has the same role, whatever precedes it.
    if literal.ends_with(b"[") {
        return b"[";
    }
    let tail = &literal[literal.len().saturating_sub(ROLE_BYTES_MAX)..];
    let is_word = |byte: &u8| CLASS[usize::from(*byte)] & WORD != 0 || matches!(byte, b'.' | b'-');
    let Some(last) = tail.iter().rposition(|byte| CLASS[usize::from(*byte)] & WORD != 0) else {
        return &tail[tail.len().saturating_sub(BARE_ROLE_BYTES)..];
    };
    let first = tail[..last].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
    &tail[first..]
}

/// Number of templates that a sample of values would have as words, counted up to a limit.
pub(super) fn count_templates<'t>(values: impl Iterator<Item = &'t [u8]>, limit: usize) -> usize {
    let mut trie = Trie::new();
    let (mut filled, mut variables, mut count) = (Vec::new(), Vec::new(), 0);
    for text in values {
        if trie.find(text, true, &mut filled).is_some() {
            continue;
        }
        variables.clear();
        split_words(text, &mut variables);
        if variables.len() > VARIABLES_MAX {
            return usize::MAX;
        }
        let is_known = trie.find_exact(text, &variables, &mut filled).is_some()
            || (!variables.is_empty() && trie.find(text, false, &mut filled).is_some());
        if is_known {
            continue;
        }
        if count == limit {
            return usize::MAX;
        }
        debug_assert!(variables.iter().all(|variable| variable.kind == VariableKind::Word));
        trie.insert(text, &variables, &vec![0; variables.len()], count as u32);
        count += 1;
    }
    count
}
