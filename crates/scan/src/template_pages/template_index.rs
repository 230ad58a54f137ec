//! Index of a template column: maps each literal, each variable and each kind of edge to the templates that contain
//! it.
//!
//! The templates of a slab are alike: most of them share literals and variables with the same surroundings. A word
//! search examines each distinct literal, variable and edge once, and then only the templates that contain a part of
//! interest, instead of all parts of all templates.
//!
//! Not here: the word search itself (`super::words`).

use std::hash::Hash;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::template::{ByteSet, Template, TemplatePart};
use quarry_stdx::number::u32_of;

use super::edges::Edges;
use super::facts::{PartFacts, Surroundings};

/// The index of one column.
#[derive(Debug, Default)]
pub(super) struct TemplateIndex {
    /// The distinct literals, concatenated.
    literals: Vec<u8>,
    /// End of each literal in `literals`.
    ends: Vec<u32>,
    /// The uses of the literals, by their number.
    of_literals: Vec<LiteralUse>,
    variables: Vec<VariableUse>,
    edges: Vec<EdgeUse>,
    /// For each column, the number of templates that contain it as a variable.
    naming: HashMap<u32, usize, FixedState>,
}

/// The templates that contain a literal in these surroundings.
#[derive(Debug)]
pub(super) struct LiteralUse {
    literal: u32,
    pub surroundings: Surroundings,
    pub templates: Box<[u32]>,
}

/// The templates that contain a variable in these surroundings.
#[derive(Debug)]
pub(super) struct VariableUse {
    pub column: u32,
    pub surroundings: Surroundings,
    pub templates: Box<[u32]>,
}

/// The templates that contain an edge with these possible bytes before and after it.
#[derive(Debug)]
pub(super) struct EdgeUse {
    pub before: ByteSet,
    pub after: ByteSet,
    /// Whether a word without breakers may extend across the edge.
    pub is_open: bool,
    pub templates: Box<[u32]>,
}

impl TemplateIndex {
    /// Indexes templates; `edges_of` and `facts` return the edges and the facts about the parts of a template.
    pub(super) fn new<'a>(
        templates: &'a [Template],
        edges_of: impl Fn(&'a Template) -> Edges<'a>,
        facts: &[Box<[PartFacts]>],
    ) -> TemplateIndex {
        assert_eq!(facts.len(), templates.len(), "each template has facts");
        let mut index = TemplateIndex::default();
        let mut numbers: HashMap<&[u8], u32, FixedState> = HashMap::default();
        let mut literals = Uses::default();
        let mut variables = Uses::default();
        let mut edges = Uses::default();
        for ((number, template), facts) in (0u32..).zip(templates).zip(facts) {
            let edges_here = edges_of(template);
            for (at, (part, facts)) in template.parts.iter().zip(facts).enumerate() {
                match part {
                    TemplatePart::Literal(text) => {
                        let literal = *numbers.entry(text).or_insert_with(|| {
                            index.literals.extend_from_slice(text);
                            index.ends.push(u32_of(index.literals.len()));
                            u32_of(index.ends.len() - 1)
                        });
                        literals.add((literal, facts.surroundings), number);
                    }
                    TemplatePart::Variable(column) => {
                        variables.add((*column, facts.surroundings), number);
                        *index.naming.entry(*column).or_default() += 1;
                    }
                }
                if at > 0 {
                    let (before, after) = (edges_here.bytes_before(at).0, edges_here.bytes_after(at).0);
                    edges.add((before, after, facts.open_edge), number);
                }
            }
        }
        let literal_use = |((literal, surroundings), templates)| LiteralUse { literal, surroundings, templates };
        index.of_literals = literals.finish().map(literal_use).collect();
        index.of_literals.sort_by_key(|used| used.literal);
        let variable_use = |((column, surroundings), templates)| VariableUse { column, surroundings, templates };
        index.variables = variables.finish().map(variable_use).collect();
        let edge_use = |((before, after, is_open), templates)| EdgeUse { before, after, is_open, templates };
        index.edges = edges.finish().map(edge_use).collect();
        index
    }

    /// The distinct literals, concatenated, and the end offset of each.
    pub(super) fn literals(&self) -> (&[u8], &[u32]) {
        (&self.literals, &self.ends)
    }

    /// Literal number `literal`.
    pub(super) fn literal(&self, literal: usize) -> &[u8] {
        let start = literal.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.literals[start..self.ends[literal] as usize]
    }

    /// The uses of a literal.
    pub(super) fn uses_of(&self, literal: usize) -> &[LiteralUse] {
        let first = self.of_literals.partition_point(|used| (used.literal as usize) < literal);
        let after = self.of_literals.partition_point(|used| used.literal as usize <= literal);
        &self.of_literals[first..after]
    }

    pub(super) fn variables(&self) -> &[VariableUse] {
        &self.variables
    }

    /// The edges between parts.
    pub(super) fn edges(&self) -> &[EdgeUse] {
        &self.edges
    }

    /// Number of templates that contain this column as a variable.
    pub(super) fn template_count(&self, column: u32) -> usize {
        self.naming.get(&column).copied().unwrap_or(0)
    }

    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        let lists = (self.of_literals.iter().map(|used| used.templates.len()))
            .chain(self.variables.iter().map(|used| used.templates.len()))
            .chain(self.edges.iter().map(|used| used.templates.len()))
            .sum::<usize>();
        self.literals.len()
            + (self.ends.len() + lists) * size_of::<u32>()
            + size_of_val(&*self.of_literals)
            + size_of_val(&*self.variables)
            + size_of_val(&*self.edges)
            + self.naming.len() * size_of::<(u32, usize)>()
    }
}

/// Template numbers by a shared property, in the order in which the properties first occur.
struct Uses<K> {
    places: HashMap<K, usize, FixedState>,
    found: Vec<(K, Vec<u32>)>,
}

impl<K> Default for Uses<K> {
    fn default() -> Uses<K> {
        Uses { places: HashMap::default(), found: Vec::new() }
    }
}

impl<K: Copy + Eq + Hash> Uses<K> {
    /// Adds a template; template numbers must be added in ascending order.
    fn add(&mut self, key: K, template: u32) {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.found.push((key, Vec::new()));
            self.found.len() - 1
        });
        let templates = &mut self.found[place].1;
        if templates.last() != Some(&template) {
            templates.push(template);
        }
    }

    fn finish(self) -> impl Iterator<Item = (K, Box<[u32]>)> {
        self.found.into_iter().map(|(key, templates)| (key, templates.into_boxed_slice()))
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::template::{Column, ColumnKind, TemplateSet, ValueTraits};

    use super::super::facts::WordFacts;
    use super::*;

    /// Templates over these columns: the text, a word, a number that may be empty, and a text of several words.
    fn template_set(templates: &[&[&str]]) -> TemplateSet {
        let part = |part: &&str| match part.strip_prefix('$') {
            Some(column) => TemplatePart::Variable(column.parse().unwrap()),
            None => TemplatePart::Literal(part.as_bytes().into()),
        };
        let templates = templates.iter().map(|parts| Template { parts: parts.iter().map(part).collect() });
        let traits = |bytes: &[u8], min_len| ValueTraits {
            bytes: ByteSet::of(bytes),
            firsts: ByteSet::of(bytes),
            lasts: ByteSet::of(bytes),
            min_len,
            max_len: 9,
            ..ValueTraits::default()
        };
        let column = |parent, kind, traits| Column { parent, kind, traits, values: 1 };
        let texts = |traits| column(Some(0), ColumnKind::Texts, traits);
        let columns = vec![
            column(None, ColumnKind::Templates(templates.collect()), traits(b"abc", 1)),
            texts(traits(b"abc", 1)),
            texts(traits(b"123", 0)),
            texts(traits(b"a b%2", 1)),
        ];
        TemplateSet { columns, ..TemplateSet::default() }
    }

    #[test]
    fn every_template_part_has_exactly_one_use_of_its_kind() {
        let set = template_set(&[
            &["level=", "$1", " done"],
            &["level=", "$1", " n=", "$2", " done"],
            &["$2", "level=", "$3"],
            &["$1", "$2", " done", "$3"],
            &[],
            &["level="],
        ]);
        let ColumnKind::Templates(templates) = &set.columns[0].kind else { panic!("the text is templates") };
        let facts = WordFacts::new(&set);
        let index = facts.index(0);
        let (literals, ends) = index.literals();
        assert_eq!((literals, ends), (&b"level= done n="[..], &[6, 11, 14][..]));
        let (mut parts, mut edges) = (0, 0);
        for (number, template) in templates.iter().enumerate() {
            let has = |templates: &[u32]| templates.contains(&u32_of(number));
            for (at, (part, facts)) in template.parts.iter().zip(facts.parts(0, number)).enumerate() {
                let uses = match part {
                    TemplatePart::Literal(text) => {
                        let literal = (0..ends.len()).find(|literal| index.literal(*literal) == &**text).unwrap();
                        let uses = index.uses_of(literal).iter();
                        uses.filter(|used| used.surroundings == facts.surroundings && has(&used.templates)).count()
                    }
                    TemplatePart::Variable(column) => {
                        let uses = index.variables().iter().filter(|used| used.column == *column);
                        uses.filter(|used| used.surroundings == facts.surroundings && has(&used.templates)).count()
                    }
                };
                assert_eq!(uses, 1, "part {at} of template {number}");
                let open = index.edges().iter().filter(|edge| edge.is_open && has(&edge.templates)).count();
                assert!(at == 0 || !facts.open_edge || open > 0, "edge {at} of template {number}");
                parts += 1;
                edges += usize::from(at > 0);
            }
        }
        let lens = |lists: Vec<&[u32]>| lists.iter().map(|list| list.len()).sum::<usize>();
        let of_literals = (0..ends.len()).flat_map(|literal| index.uses_of(literal)).map(|used| &*used.templates);
        let of_variables = index.variables().iter().map(|used| &*used.templates);
        assert_eq!(lens(of_literals.chain(of_variables).collect()), parts, "no use names another template");
        assert_eq!(lens(index.edges().iter().map(|edge| &*edge.templates).collect()), edges);
        assert_eq!([0, 1, 2, 3].map(|column| index.template_count(column)), [0, 3, 3, 2]);
        assert!(facts.index(1).variables().is_empty(), "a column of texts has no templates");
    }
}
