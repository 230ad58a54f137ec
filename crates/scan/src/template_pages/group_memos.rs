//! Cached results of a pattern, one capture group at a time.
//!
//! If the groups in a window (the part of a template in which the pattern may match) depend on different variables,
//! such as a thread and a file, caching their results together takes an entry per combination of all values. If the
//! groups are cached separately, a group takes an entry per combination of only those values on which it depends: the
//! group's result for one row applies to every matching row in which these values are equal.
//!
//! Not here: determining on which values a group depends ([`quarry_eval::pattern::template_match`]).

use quarry_eval::pattern::template_match::{CombinationMemo, FlatPart, FlatTemplate, GroupDependence};

/// Cached answers for one window.
pub(super) struct GroupMemos {
    matched: Memo<bool>,
    /// Codes of the texts of each group.
    groups: Vec<Memo<u32>>,
}

/// Cached answers, keyed by some of the codes of a window.
struct Memo<T> {
    /// Positions of the key's codes among the window's codes.
    key_positions: Vec<usize>,
    answers: CombinationMemo<T>,
}

impl GroupMemos {
    /// An empty cache for a window whose codes are the codes of these columns and parts; `None` if an answer depends on
    /// another part.
    pub(super) fn new(
        apart: &GroupDependence,
        columns: &[(u32, usize)],
        template: &FlatTemplate,
    ) -> Option<GroupMemos> {
        let is_variable = |part: &&usize| matches!(template.parts().get(**part), Some(FlatPart::Variable(..)));
        let places = |parts: &[usize]| -> Option<Vec<usize>> {
            let variables = parts.iter().filter(is_variable);
            variables.map(|part| columns.iter().position(|(_, known)| known == part)).collect()
        };
        let groups = apart.groups.iter().map(|parts| Some(Memo::new(places(parts)?)));
        Some(GroupMemos { matched: Memo::new(places(&apart.matched)?), groups: groups.collect::<Option<_>>()? })
    }

    /// Bytes of memory, approximately.
    pub(super) fn memory_bytes(&self) -> usize {
        let groups = self.groups.iter().map(|group| group.answers.memory_bytes());
        self.matched.answers.memory_bytes() + groups.sum::<usize>()
    }

    /// Whether a row with these codes has a match, whose groups are then in `found`; `None` if an answer is missing.
    /// `some` is a reusable buffer.
    pub(super) fn get(&self, codes: &[u32], some: &mut Vec<u32>, found: &mut Vec<u32>) -> Option<bool> {
        if !self.matched.get(codes, some)? {
            return Some(false);
        }
        found.clear();
        for group in &self.groups {
            found.push(group.get(codes, some)?);
        }
        Some(true)
    }

    /// Caches the groups of a row with these codes; `found` is `None` if the row has no match.
    pub(super) fn insert(&mut self, codes: &[u32], some: &mut Vec<u32>, found: Option<&Vec<u32>>) {
        self.matched.insert(codes, some, found.is_some());
        for (group, code) in self.groups.iter_mut().zip(found.into_iter().flatten()) {
            group.insert(codes, some, *code);
        }
    }
}

impl<T: Copy> Memo<T> {
    fn new(places: Vec<usize>) -> Memo<T> {
        Memo { key_positions: places, answers: CombinationMemo::default() }
    }

    fn get(&self, codes: &[u32], some: &mut Vec<u32>) -> Option<T> {
        self.select_key(codes, some);
        let number = self.answers.get(some)?;
        self.answers.answers().get(number as usize).copied()
    }

    fn insert(&mut self, codes: &[u32], some: &mut Vec<u32>, answer: T) {
        self.select_key(codes, some);
        self.answers.index_or_insert(some, || answer);
    }

    fn select_key(&self, codes: &[u32], some: &mut Vec<u32>) {
        some.clear();
        some.extend(self.key_positions.iter().filter_map(|place| codes.get(*place)));
    }
}
