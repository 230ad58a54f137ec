//! Hash table of the templates of an outline, keyed by their literals and the roles of their variables.
//!
//! Every text of the slab is looked up, so no literal is copied: the hash is computed from the literals in the text,
//! and the literals of a candidate are compared with the text one by one.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use quarry_stdx::number::u32_of;

use super::{OutlineVariable, Role};
use crate::templates::classes::texts_equal;
use crate::templates::dictionary::{fold_multiply, short_hash};

/// Templates of an outline.
#[derive(Debug, Default)]
pub(in crate::templates) struct OutlineTemplates {
    templates: Vec<OutlineTemplate>,
    /// Positions in `templates`.
    by_hash: HashMap<u64, Vec<u32>, FixedState>,
    /// Position of the last text's template, which the next text often shares.
    last: u32,
}

/// A template of an outline and the columns of its variables.
#[derive(Debug)]
pub(in crate::templates) struct OutlineTemplate {
    pub(in crate::templates) template: u32,
    pub(in crate::templates) columns: Box<[u32]>,
    /// All literals, concatenated. `variables` has, for each variable, the end of the literal before it and its role.
    literals: Box<[u8]>,
    variables: Box<[(u32, Role)]>,
}

impl OutlineTemplates {
    /// The template of a text with these variables.
    #[inline]
    pub(in crate::templates) fn find(&mut self, text: &[u8], pieces: &[OutlineVariable]) -> Option<&OutlineTemplate> {
        let is_of = |at: u32| self.templates.get(at as usize).is_some_and(|known| known.matches(text, pieces));
        if !is_of(self.last) {
            self.last = self.by_hash.get(&hash_of(text, pieces))?.iter().copied().find(|at| is_of(*at))?;
        }
        self.templates.get(self.last as usize)
    }

    /// Adds the template of a text with these variables.
    pub(in crate::templates) fn insert(
        &mut self,
        text: &[u8],
        pieces: &[OutlineVariable],
        template: u32,
        columns: Box<[u32]>,
    ) {
        let (mut literals, mut variables, mut at) = (Vec::new(), Vec::with_capacity(pieces.len()), 0);
        for piece in pieces {
            literals.extend_from_slice(&text[at..piece.start]);
            variables.push((u32_of(literals.len()), piece.role));
            at = piece.end;
        }
        literals.extend_from_slice(&text[at..]);
        let known = OutlineTemplate { template, columns, literals: literals.into(), variables: variables.into() };
        self.by_hash.entry(hash_of(text, pieces)).or_default().push(u32_of(self.templates.len()));
        self.templates.push(known);
    }
}

impl OutlineTemplate {
    fn matches(&self, text: &[u8], pieces: &[OutlineVariable]) -> bool {
        let (mut start, mut at) = (0, 0);
        let are_same = self.variables.len() == pieces.len()
            && self.variables.iter().zip(pieces).all(|((end, role), piece)| {
                let literal = &self.literals[start..*end as usize];
                let is_same = *role == piece.role && texts_equal(literal, &text[at..piece.start]);
                (start, at) = (*end as usize, piece.end);
                is_same
            });
        are_same && texts_equal(&self.literals[start..], &text[at..])
    }
}

fn hash_of(text: &[u8], pieces: &[OutlineVariable]) -> u64 {
    let (mut hash, mut at) = (0, 0);
    for piece in pieces {
        let literal = u64::from(short_hash(&text[at..piece.start]));
        hash = fold_multiply(hash ^ (literal << 32 | u64::from(role_tag(piece.role))));
        at = piece.end;
    }
    fold_multiply(hash ^ u64::from(short_hash(&text[at..])))
}

/// Number of a role, distinct for every role.
fn role_tag(role: Role) -> u32 {
    let number = |kind: u8, run: u8, key: u8| u32::from_le_bytes([key, run, kind, 0]);
    let of_name = |kind: u8, name: u16| {
        let [low, high] = name.to_le_bytes();
        number(kind, high, low)
    };
    match role {
        Role::Literal => number(1, 0, 0),
        Role::Equals => number(2, 0, 0),
        Role::Member { run, key } => number(3, run, key),
        Role::Rest { run } => number(4, run, 0),
        Role::Lines => number(5, 0, 0),
        Role::Cell { name } => of_name(6, name),
        Role::Gap { name } => of_name(7, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text without the marks `|` that enclose its variables, and these variables, with one role for each.
    fn pieces_of(text: &str, roles: &[Role]) -> (Vec<u8>, Vec<OutlineVariable>) {
        let (mut bytes, mut pieces, mut roles) = (Vec::new(), Vec::new(), roles.iter());
        for (number, part) in text.split('|').enumerate() {
            let start = bytes.len();
            bytes.extend_from_slice(part.as_bytes());
            if number % 2 == 1 {
                pieces.push(OutlineVariable {
                    start,
                    end: bytes.len(),
                    role: *roles.next().expect("a role for each variable"),
                });
            }
        }
        (bytes, pieces)
    }

    #[test]
    fn texts_with_the_same_literals_and_roles_share_a_template() {
        let member = |run, key| Role::Member { run, key };
        let cases: [(&str, &[Role]); 9] = [
            ("", &[]),
            ("a", &[]),
            ("a|x|", &[Role::Literal]),
            ("a|x|", &[Role::Equals]),
            ("|x|a", &[Role::Literal]),
            ("a|x|b|y|", &[Role::Literal, member(0, 3)]),
            ("a|x|b|y|", &[Role::Literal, member(1, 3)]),
            ("ab|x||y|", &[Role::Literal, member(0, 3)]),
            ("a|x|b|y|\n|z|", &[Role::Literal, Role::Rest { run: 0 }, Role::Lines]),
        ];
        let mut templates = OutlineTemplates::default();
        for (number, (text, roles)) in (0..).zip(cases) {
            let (text, pieces) = pieces_of(text, roles);
            assert!(templates.find(&text, &pieces).is_none(), "{text:?} {pieces:?} was not added");
            templates.insert(&text, &pieces, number, Box::default());
        }
        for (number, (text, roles)) in (0..).zip(cases) {
            for value in ["", "x", "another value"] {
                let (text, pieces) = pieces_of(&text.replace(['x', 'y'], value), roles);
                let found = templates.find(&text, &pieces).map(|known| known.template);
                assert_eq!(found, Some(number), "{text:?} {pieces:?}");
            }
        }
    }
}
