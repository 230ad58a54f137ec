//! Values of single rows of a page, for readers that visit rows in ascending order and columns in any order.
//!
//! A cursor moves forward with the rows, so that a sparse column need not be searched for each row; moving back costs a
//! search. Not here: reading columns ([`super::page`]).

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues, PageColumn};

use super::page::{PageReader, Rows};

/// Number of rows that a cursor passes one by one before it skips ahead.
const LINEAR_STEPS_MAX: usize = 8;

/// If a column has fewer than one value per this many requested rows, the rows of its values are searched for.
const SPARSE_DIVISOR: usize = 8;

/// Calls `visit` for each of these rows that has a value in a column, in order: with the position of the row among
/// `rows`, the row, and the position of its value.
pub(super) fn for_each_value(values: &PageColumn, rows: &Rows, mut visit: impl FnMut(usize, u32, usize)) {
    match (&values.rows, rows) {
        (None, Rows::All(count)) => (0..*count).for_each(|row| visit(row as usize, row, row as usize)),
        (None, Rows::Some(rows)) => rows.iter().enumerate().for_each(|(at, row)| visit(at, *row, *row as usize)),
        (Some(filled), Rows::All(count)) => {
            let known = filled.iter().enumerate().take_while(|(_, row)| *row < count);
            known.for_each(|(place, row)| visit(*row as usize, *row, place));
        }
        // A field may have hundreds of columns with a few values each.
        (Some(filled), Rows::Some(rows)) if filled.len() < rows.len() / SPARSE_DIVISOR => {
            let mut at = 0;
            for (place, row) in filled.iter().enumerate() {
                at += rows[at..].partition_point(|asked| asked < row);
                if rows.get(at) == Some(row) {
                    visit(at, *row, place);
                }
            }
        }
        (Some(filled), Rows::Some(rows)) => {
            let mut next = 0;
            for (at, row) in rows.iter().enumerate() {
                while filled.get(next).is_some_and(|known| known < row) {
                    next += 1;
                }
                if filled.get(next) == Some(row) {
                    visit(at, *row, next);
                }
            }
        }
    }
}

/// The position in each column of a page. Access is fast if rows are mostly visited in ascending order.
pub(super) struct Cursors {
    open: Vec<Option<Cursor>>,
    /// The rows to which access is limited; `None` for all.
    rows: Option<Rows>,
}

struct Cursor {
    values: Arc<PageColumn>,
    /// Index in `values.rows` of the first row not passed yet.
    next: usize,
    /// The number represented by code 0.
    base: i64,
}

impl Cursors {
    /// Cursors over the columns of a page.
    pub(super) fn new(page: &PageReader<'_>) -> Cursors {
        let mut open = Vec::new();
        open.resize_with(page.template_set().columns.len(), || None);
        Cursors { open, rows: None }
    }

    /// Cursors over the values of a few rows, ascending; the values of other rows need not be read.
    pub(super) fn of_rows(page: &PageReader<'_>, rows: &[u32]) -> Cursors {
        Cursors { rows: Some(Rows::Some(rows.to_vec())), ..Cursors::new(page) }
    }

    /// The row's code in a dictionary or template column; for numbers, the difference from the smallest.
    #[inline]
    pub(super) fn code(
        &mut self,
        column: u32,
        row: u32,
        page: &mut PageReader<'_>,
    ) -> Result<Option<u32>, EngineError> {
        Ok(self.cursor(column, page)?.and_then(|cursor| cursor.code(row)))
    }

    /// The cursor of a column, opened on first use.
    #[inline]
    fn cursor(&mut self, column: u32, page: &mut PageReader<'_>) -> Result<Option<&mut Cursor>, EngineError> {
        let Some(place) = self.open.get_mut(column as usize) else { return Ok(None) };
        if place.is_none() {
            let base = match &page.template_set().columns[column as usize].kind {
                ColumnKind::Numbers { min, .. } => *min,
                _ => 0,
            };
            let values = match &self.rows {
                Some(rows) => page.column_of_rows(column, rows)?,
                None => page.column(column)?,
            };
            *place = Some(Cursor { values, next: 0, base });
        }
        Ok(place.as_mut())
    }

    /// The position of the row's value, and the column; `None` if the row has no value.
    pub(super) fn value_position(
        &mut self,
        column: u32,
        row: u32,
        page: &mut PageReader<'_>,
    ) -> Result<Option<(usize, &PageColumn)>, EngineError> {
        let Some(cursor) = self.cursor(column, page)? else { return Ok(None) };
        Ok(cursor.value_position(row).map(|place| (place, &*cursor.values)))
    }

    /// The row's value in a text column; `None` if the row has no value.
    pub(super) fn text(
        &mut self,
        column: u32,
        row: u32,
        page: &mut PageReader<'_>,
    ) -> Result<Option<&[u8]>, EngineError> {
        let Some(cursor) = self.cursor(column, page)? else { return Ok(None) };
        let Some(place) = cursor.value_position(row) else { return Ok(None) };
        Ok(cursor.values.values.text(place))
    }

    /// Appends the row's value in a number or text column; `false` if the row has no value.
    pub(super) fn append_value(
        &mut self,
        column: u32,
        row: u32,
        page: &mut PageReader<'_>,
        text: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let Some(cursor) = self.cursor(column, page)? else { return Ok(false) };
        let Some(place) = cursor.value_position(row) else { return Ok(false) };
        match (&cursor.values.values, &page.template_set().columns[column as usize].kind) {
            (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
                let Some(number) = numbers.get(place) else { return Ok(false) };
                format.write(*number, text);
            }
            (values @ ColumnValues::Texts { .. }, _) => {
                let Some(value) = values.text(place) else { return Ok(false) };
                text.extend_from_slice(value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Cursor {
    /// Position of the row's value.
    #[inline]
    fn value_position(&mut self, row: u32) -> Option<usize> {
        match &self.values.rows {
            None => Some(row as usize),
            Some(rows) => {
                if self.next > 0 && rows.get(self.next - 1).is_some_and(|known| *known >= row) {
                    self.next = rows.partition_point(|known| *known < row);
                }
                let near = rows.len().min(self.next + LINEAR_STEPS_MAX);
                while self.next < near && rows[self.next] < row {
                    self.next += 1;
                }
                if self.next == near {
                    self.next += rows[near..].partition_point(|known| *known < row);
                }
                debug_assert!(rows.get(self.next).is_none_or(|known| *known >= row), "no row is skipped");
                (rows.get(self.next) == Some(&row)).then_some(self.next)
            }
        }
    }

    #[inline]
    fn code(&mut self, row: u32) -> Option<u32> {
        let place = self.value_position(row)?;
        match &self.values.values {
            ColumnValues::Codes(codes) => codes.get(place).copied(),
            ColumnValues::Numbers(numbers) => u32::try_from(numbers.get(place)?.checked_sub(self.base)?).ok(),
            ColumnValues::Texts { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_with_a_value_is_visited_with_the_position_of_the_value() {
        let column = |rows: Option<&[u32]>, values: u32| PageColumn {
            rows: rows.map(Arc::from),
            values: ColumnValues::Codes((0..values).collect()),
        };
        let visited = |column: &PageColumn, rows: Rows| {
            let mut found = Vec::new();
            for_each_value(column, &rows, |at, row, place| found.push((at, row, place)));
            found
        };
        let (dense, sparse) = (column(None, 4), column(Some(&[1, 2, 5, 6]), 4));
        assert_eq!(visited(&dense, Rows::All(4)), [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3)]);
        assert_eq!(visited(&dense, Rows::Some(vec![1, 3])), [(0, 1, 1), (1, 3, 3)]);
        assert_eq!(visited(&sparse, Rows::All(7)), [(1, 1, 0), (2, 2, 1), (5, 5, 2), (6, 6, 3)]);
        assert_eq!(visited(&sparse, Rows::Some(vec![0, 2, 4, 6])), [(1, 2, 1), (3, 6, 3)]);
        let even = Rows::Some((0..40).map(|row| 2 * row).collect());
        assert_eq!(visited(&sparse, even), [(1, 2, 1), (3, 6, 3)]);
    }
}
