//! Numbers the combinations of BY values, for commands that change or drop rows depending on the row's group.
//!
//! Unlike a fold, these commands need exactly one group per row. Rows are numbered batch by batch ([`GroupTable`]), so
//! that repeated values are looked up once, and dictionaries once per code.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, UInt32Array};

use super::groups::{GroupTable, MemberKind};
use super::integers::UNSET;
use crate::rows::ColumnReader;

/// Number of a row that lacks one of the fields.
pub const NO_GROUP: u32 = UNSET;

/// Part of a multivalue that counts as the value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultivaluePart {
    /// The first value.
    First,
    /// All values, joined by newlines.
    Joined,
}

/// The combinations of values so far, numbered from 0 without gaps.
pub struct RowGroups {
    groups: GroupTable,
    fields: usize,
    part: MultivaluePart,
    /// The group of every row if there are no fields.
    same: Vec<u32>,
}

impl RowGroups {
    /// No combinations yet; without fields, all rows are in group 0.
    pub fn new(fields: usize, part: MultivaluePart) -> RowGroups {
        RowGroups { groups: GroupTable::new(vec![None; fields]), fields, part, same: Vec::new() }
    }

    /// The group of each row, [`NO_GROUP`] if a field is missing; one column per field.
    pub fn numbers(&mut self, columns: &[ColumnReader], rows: usize) -> &[u32] {
        assert_eq!(columns.len(), self.fields, "a column per field");
        let has_lists = columns.iter().any(|column| matches!(column, ColumnReader::Multi(..)));
        let single: Vec<ColumnReader>;
        let columns = match has_lists {
            true => {
                single = columns.iter().map(|column| single_values(column, self.part)).collect();
                &single
            }
            false => columns,
        };
        match self.groups.members(columns, rows).kind {
            MemberKind::Each { groups, .. } => groups,
            MemberKind::One | MemberKind::Pairs(_) => {
                self.same.resize(rows, 0);
                &self.same
            }
        }
    }

    /// The group of a single row, [`NO_GROUP`] if a field is missing.
    pub fn number_of_row(&mut self, columns: &[ColumnReader], row: usize) -> u32 {
        let mut texts = Vec::with_capacity(columns.len());
        for column in columns {
            let mut scratch = String::new();
            let text = match self.part {
                MultivaluePart::First => column.values(row).next().map(Cow::into_owned),
                MultivaluePart::Joined => column.text(row, &mut scratch).map(str::to_owned),
            };
            let Some(text) = text else { return NO_GROUP };
            texts.push(text);
        }
        self.groups.group_of(texts.iter().map(String::as_str))
    }

    /// For each group, its row; the `rows` rows must all be in different groups.
    pub fn places(&mut self, columns: &[ColumnReader], rows: usize) -> UInt32Array {
        let mut places = Vec::new();
        for (row, group) in (0u32..).zip(self.numbers(columns, rows)) {
            let group = *group as usize;
            if group == NO_GROUP as usize {
                continue;
            }
            if places.len() <= group {
                places.resize(group + 1, None);
            }
            places[group] = Some(row);
        }
        places.into()
    }

    /// Number of groups; 1 without fields.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate bytes held.
    pub fn bytes(&self) -> usize {
        self.groups.bytes() + self.same.capacity() * size_of::<u32>()
    }
}

/// A column of multivalues as texts.
fn single_values(column: &ColumnReader, part: MultivaluePart) -> ColumnReader {
    if !matches!(column, ColumnReader::Multi(..)) {
        return column.clone();
    }
    let mut scratch = String::new();
    let texts: StringViewArray = match part {
        MultivaluePart::First => (0..column.len()).map(|row| column.values(row).next()).collect(),
        MultivaluePart::Joined => {
            (0..column.len()).map(|row| column.text(row, &mut scratch).map(str::to_owned)).collect()
        }
    };
    ColumnReader::new(&(Arc::new(texts) as ArrayRef))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use arrow::array::AsArray;

    use super::*;
    use crate::coded_rows::batches;
    use crate::rows::{ColumnBuilder, reader};

    #[test]
    fn rows_of_any_form_have_the_numbers_of_their_texts() {
        for names in
            [vec![], vec!["word"], vec!["user"], vec!["odd"], vec!["word", "path"], vec!["price", "address", "odd"]]
        {
            let (mut coded, mut known) = (RowGroups::new(names.len(), MultivaluePart::First), BTreeMap::new());
            for rows in batches().into_iter().flatten() {
                let columns: Vec<ColumnReader> = names.iter().map(|name| reader(&rows, name)).collect();
                let numbers = coded.numbers(&columns, rows.num_rows()).to_vec();
                for (row, number) in numbers.into_iter().enumerate() {
                    let key: Option<Vec<String>> =
                        columns.iter().map(|column| column.values(row).next().map(|text| text.into_owned())).collect();
                    match key {
                        None => assert_eq!(number, NO_GROUP, "{names:?}"),
                        Some(key) => {
                            assert_eq!(*known.entry(key.clone()).or_insert(number), number, "{names:?} {key:?}")
                        }
                    }
                }
            }
            let numbers: BTreeSet<u32> = known.values().copied().collect();
            assert_eq!((numbers.len(), numbers.last()), (known.len(), Some(&(coded.len() as u32 - 1))), "{names:?}");
        }
    }

    #[test]
    fn a_part_of_a_multivalue_counts() {
        let mut column = ColumnBuilder::new(3);
        column.push_multi(["a", "b"]);
        column.push_multi(["a", "c"]);
        column.push_null();
        let column = column.finish();
        assert!(column.as_list_opt::<i32>().is_some());
        let columns = [ColumnReader::new(&column)];
        assert_eq!(RowGroups::new(1, MultivaluePart::First).numbers(&columns, 3), [0, 0, NO_GROUP]);
        assert_eq!(RowGroups::new(1, MultivaluePart::Joined).numbers(&columns, 3), [0, 1, NO_GROUP]);
    }
}
