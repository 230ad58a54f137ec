//! Subdivision, for one field, of the keys of a slab (each an extraction class and a template, [`super::slab`]): a
//! decision tree over codes.
//!
//! The location of the field may depend not only on the template of an event, but also on the template of an inner
//! value (`10.0.0.1`, `10.0.0.1:443`), or on the values of small dictionaries. Each key is then divided by the codes of
//! the columns that matter.
//!
//! Not here: which codes matter ([`super::extracts`]), and reading them ([`super::divided_keys`]).

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_event::template::TemplateSet;
use quarry_stdx::number::u32_of;

/// Maximum number of nodes of a field's division in one extraction class. Once it is reached, keys are no longer
/// divided: where a location would depend on the codes, it is treated as depending on the values.
const NODES_MAX: usize = 65_536;
/// The number of a key that is not known.
pub(super) const NO_KEY: u32 = u32::MAX;

/// Divided keys of a slab. The key of a row is found by following the nodes that its codes select.
#[derive(Debug)]
pub(super) struct KeySplit {
    /// Begins with a node for each undivided key, or with one node for all keys (`is_common`).
    nodes: Vec<KeyNode>,
    /// Whether all undivided keys have one node.
    is_common: bool,
    /// The undivided key of each divided key.
    undivided: Vec<u32>,
    /// Columns of each divided key that are variables of its texts.
    variables: Vec<Arc<[u32]>>,
}

/// Node of a [`KeySplit`].
#[derive(Debug)]
enum KeyNode {
    /// The key is found.
    Key(u32),
    /// The codes of these columns select one of the nodes `next`; the index is the combined code: the sum of the codes,
    /// each times the weight next to its column.
    Codes { columns: Box<[(u32, u32)]>, next: Box<[u32]> },
}

/// Results for one undivided key.
#[derive(Debug, PartialEq)]
pub(super) enum Division<T> {
    /// All rows have this result; the list has the variables of their texts.
    Whole(T, Arc<[u32]>),
    /// The combination of the codes of these columns, each with its number of codes, selects one of the `parts`.
    ByCode { columns: Box<[(u32, u32)]>, part_of: Box<[u32]>, parts: Vec<Division<T>>, variables: Arc<[u32]> },
}

impl<T: PartialEq> Division<T> {
    /// The result and the variables, if all rows have the same result.
    fn whole(&self) -> Option<(&T, &[u32])> {
        match self {
            Division::Whole(known, variables) => Some((known, variables)),
            Division::ByCode { .. } => None,
        }
    }

    /// Maps every result. If all parts of a division are whole, `unite` gets their results and variables; if it returns
    /// a result, the division becomes whole with this result.
    pub(super) fn map<U: PartialEq>(
        self,
        result: &mut impl FnMut(T) -> U,
        unite: &impl Fn(&[(&U, &[u32])]) -> Option<U>,
    ) -> Division<U> {
        match self {
            Division::Whole(known, variables) => Division::Whole(result(known), variables),
            Division::ByCode { columns, part_of, parts, variables } => {
                let parts: Vec<Division<U>> = parts.into_iter().map(|part| part.map(result, unite)).collect();
                let united = parts.iter().map(Division::whole).collect::<Option<Vec<_>>>();
                let united = united.and_then(|parts| unite(&parts));
                match united {
                    Some(united) => Division::Whole(united, variables),
                    None => Division::ByCode { columns, part_of, parts, variables },
                }
            }
        }
    }
}

impl KeySplit {
    /// Numbers the parts of these keys, and returns their results in the order of the numbers.
    pub(super) fn of<T>(divisions: Vec<Division<T>>) -> (KeySplit, Vec<T>) {
        let keys = divisions.len();
        let mut split = KeySplit {
            nodes: Vec::with_capacity(keys),
            is_common: false,
            undivided: Vec::new(),
            variables: Vec::new(),
        };
        split.nodes.resize_with(keys, || KeyNode::Key(NO_KEY));
        let mut results = Vec::new();
        for (at, division) in divisions.into_iter().enumerate() {
            split.nodes[at] = split.node_of(u32_of(at), division, &mut results);
        }
        assert_eq!(split.undivided.len(), results.len(), "each divided key has a result");
        (split, results)
    }

    /// Keys that are the codes of one column, whatever the template of a row.
    pub(super) fn by_code(column: u32, codes: usize) -> KeySplit {
        let next = (1..=u32_of(codes)).collect();
        let root = KeyNode::Codes { columns: [(column, 1)].into(), next };
        let keys = (0..u32_of(codes)).map(KeyNode::Key);
        KeySplit {
            nodes: std::iter::once(root).chain(keys).collect(),
            is_common: true,
            undivided: vec![0; codes],
            variables: vec![Arc::default(); codes],
        }
    }

    /// The column whose codes are the keys, if the rows are divided by [`KeySplit::by_code`].
    pub(super) fn code_column(&self) -> Option<u32> {
        match self.nodes.first()? {
            KeyNode::Codes { columns, .. } if self.is_common => columns.first().map(|(column, _)| *column),
            _ => None,
        }
    }

    /// The node of a division, after adding the nodes of its parts. The recursion is as deep as columns are nested.
    fn node_of<T>(&mut self, undivided: u32, division: Division<T>, results: &mut Vec<T>) -> KeyNode {
        match division {
            Division::Whole(result, variables) => {
                results.push(result);
                self.undivided.push(undivided);
                self.variables.push(variables);
                KeyNode::Key(u32_of(results.len() - 1))
            }
            Division::ByCode { columns, part_of, parts, .. } => {
                let mut numbers = Vec::with_capacity(parts.len());
                for part in parts {
                    let node = self.node_of(undivided, part, results);
                    self.nodes.push(node);
                    numbers.push(u32_of(self.nodes.len() - 1));
                }
                let mut weight = 1;
                let weighted = columns.iter().map(|(column, codes)| {
                    let known = (*column, weight);
                    weight *= codes;
                    known
                });
                let columns = weighted.collect();
                KeyNode::Codes { columns, next: part_of.iter().map(|part| numbers[*part as usize]).collect() }
            }
        }
    }

    /// Number of divided keys.
    pub(super) fn len(&self) -> usize {
        self.undivided.len()
    }

    /// The undivided key to which a divided key belongs.
    #[inline]
    pub(super) fn undivided(&self, key: usize) -> usize {
        self.undivided.get(key).map_or(usize::MAX, |known| *known as usize)
    }

    /// Whether rows of a key may have values in this column.
    pub(super) fn has_values_of(&self, key: usize, column: u32, template_set: &TemplateSet) -> bool {
        self.is_common || self.variables.get(key).is_some_and(|variables| has_values(variables, column, template_set))
    }

    /// Approximate bytes held.
    pub(super) fn bytes(&self) -> usize {
        let of_node = |node: &KeyNode| match node {
            KeyNode::Key(_) => 0,
            KeyNode::Codes { columns, next } => size_of_val(&**columns) + size_of_val(&**next),
        };
        self.nodes.iter().map(|node| size_of::<KeyNode>() + of_node(node)).sum::<usize>()
            + self.undivided.len() * (size_of::<u32>() + size_of::<Arc<[u32]>>())
    }

    /// Whether further nodes may be added to a division with this many nodes.
    pub(super) fn may_have(nodes: usize) -> bool {
        nodes <= NODES_MAX
    }

    /// The divided key of a row with this undivided key; `code` reads the row's code in a column.
    #[inline]
    pub(super) fn key(
        &self,
        undivided: u32,
        mut code: impl FnMut(u32) -> Result<Option<u32>, EngineError>,
    ) -> Result<u32, EngineError> {
        let missing = || EngineError::invalid("a value of a bucket is missing; rebuild the bucket");
        let mut node = self.nodes.get(if self.is_common { 0 } else { undivided as usize });
        loop {
            match node.ok_or_else(missing)? {
                KeyNode::Key(key) => return Ok(*key),
                KeyNode::Codes { columns, next } => {
                    let mut index = 0;
                    for (column, weight) in columns {
                        index += code(*column)?.ok_or_else(missing)? as usize * *weight as usize;
                    }
                    node = next.get(index).and_then(|next| self.nodes.get(*next as usize));
                }
            }
        }
    }
}

/// Whether texts with these variables may have values in this column: the column is one of the variables, or belongs to
/// the templates of a variable.
pub(super) fn has_values(variables: &[u32], column: u32, template_set: &TemplateSet) -> bool {
    let parent = |column: &u32| template_set.columns.get(*column as usize).and_then(|column| column.parent);
    std::iter::successors(Some(column), parent).any(|column| variables.contains(&column))
}
